"""Capture a real training run on the CPU.

The example traces are made by it, from the repository's root::

    python -m examples.capture_cpu_training examples/cpu_training.json.gz
    python -m examples.capture_cpu_training examples/cpu_training_stack.json.gz --steps 1 --stack
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from examples.neutral import export


class Classifier(nn.Module):
    """A small transformer over tokens, with one class per sequence."""

    def __init__(self, width: int, layers: int, vocabulary: int = 1000, classes: int = 10) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, dim_feedforward=4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of a batch of token sequences."""
        hidden: torch.Tensor = self.encoder(self.embedding(tokens))
        logits: torch.Tensor = self.head(hidden.mean(dim=1))
        return logits


def train(model: Classifier, steps: int, batch: int, length: int, prof: profile) -> None:
    """Train on random tokens, one profiler step a batch."""
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        with record_function("load batch"):
            tokens = torch.randint(0, 1000, (batch, length))
            classes = torch.randint(0, 10, (batch,))
        with record_function("forward"):
            loss = nn.functional.cross_entropy(model(tokens), classes)
        with record_function("backward"):
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        prof.step()


def main() -> None:
    """Bind the command line to a run."""
    parser = argparse.ArgumentParser(description="Capture a real training run on the CPU.")
    parser.add_argument("output", type=Path, help="the trace to write (.json.gz)")
    parser.add_argument("--steps", type=int, default=3, help="profiler steps (default 3)")
    parser.add_argument("--layers", type=int, default=2, help="transformer layers (default 2)")
    parser.add_argument("--width", type=int, default=64, help="model width (default 64)")
    parser.add_argument("--batch", type=int, default=16, help="sequences a batch (default 16)")
    parser.add_argument("--length", type=int, default=32, help="tokens a sequence (default 32)")
    parser.add_argument("--stack", action="store_true", help="record Python stacks and modules")
    size = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # ops this small would only measure how threads wait for each other
    model = Classifier(size.width, size.layers)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=size.steps, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
        with_stack=size.stack,
        with_modules=size.stack,
    ) as prof:
        train(model, size.steps + 1, size.batch, size.length, prof)
    export(prof, size.output)


if __name__ == "__main__":
    main()
