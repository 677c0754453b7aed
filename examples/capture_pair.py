"""Capture the same training run twice, in float32 and in bfloat16: a pair to compare.

The example traces are made by it, from the repository's root::

    python -m examples.capture_pair examples/fp32.json.gz examples/bf16.json.gz

Both runs take the same steps from the same weights. The second does its matrix products and its
attention in bfloat16, so these change, and the copies that convert come on top.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from examples.neutral import export


class Block(nn.Module):
    """Attention and a feed-forward layer over tokens that are vectors already."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU())
        self.output = nn.Linear(4 * width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens of the same shape."""
        parts = self.inputs(self.norm(tokens)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        hidden = self.feed(mixed.transpose(1, 2).flatten(2))
        changed: torch.Tensor = tokens + self.output(hidden)
        return changed


def train(prof: profile, steps: int, *, size: argparse.Namespace, dtype: torch.dtype) -> None:
    """Train on random tokens, one profiler step a batch; in float32 there is no autocast."""
    torch.manual_seed(0)
    model = Block(size.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batch = torch.randn(size.batch, size.length, size.width)
    for _ in range(steps):
        optimizer.zero_grad()
        with record_function("forward"), torch.autocast("cpu", dtype, dtype != torch.float32):
            loss = model(batch).float().pow(2).mean()
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
        prof.step()


def capture(output: Path, dtype: torch.dtype, size: argparse.Namespace) -> None:
    """Write the trace of one run."""
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=2, active=size.steps, repeat=1),
        record_shapes=True,
    ) as prof:
        train(prof, size.steps + 2, size=size, dtype=dtype)
    export(prof, output)


def main() -> None:
    """Bind the command line to two runs."""
    parser = argparse.ArgumentParser(description="Capture a run in float32 and in bfloat16.")
    parser.add_argument("fp32", type=Path, help="the trace in float32 to write (.json.gz)")
    parser.add_argument("bf16", type=Path, help="the trace in bfloat16 to write (.json.gz)")
    parser.add_argument("--steps", type=int, default=8, help="profiler steps (default 8)")
    parser.add_argument("--width", type=int, default=128, help="width of a token (default 128)")
    parser.add_argument("--batch", type=int, default=16, help="sequences a batch (default 16)")
    parser.add_argument("--length", type=int, default=64, help="tokens a sequence (default 64)")
    size = parser.parse_args()

    torch.set_num_threads(1)  # ops this small would only measure how threads wait for each other
    capture(size.fp32, torch.float32, size)
    capture(size.bf16, torch.bfloat16, size)


if __name__ == "__main__":
    main()
