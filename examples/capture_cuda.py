"""Capture a CUDA run: kernels on two streams, copies both ways, and a replayed CUDA graph.

From the repository's root, on a machine with a CUDA device::

    python -m examples.capture_cuda cuda.json.gz
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from examples.neutral import export

WIDTH = 512
BATCH = 64


class Step:
    """One step of work: copy in, train, replay a graph on a second stream, copy out."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).to(
            device
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.host = torch.randn(BATCH, WIDTH).pin_memory()
        self.side = torch.cuda.Stream(device)
        self.graph_input = torch.randn(WIDTH, WIDTH, device=device)
        self.graph = self._capture()

    def _chain(self) -> torch.Tensor:
        out = self.graph_input
        for _ in range(8):
            out = torch.tanh(out @ self.graph_input)
        return out

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Record eight matmuls and their activations; the warm-up is what CUDA asks for."""
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self._chain()
        torch.cuda.current_stream(self.device).wait_stream(self.side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._chain()
        return graph

    def __call__(self) -> None:
        """Run the step and wait for the device."""
        with record_function("copy in"):
            batch = self.host.to(self.device, non_blocking=True)
        with record_function("train"):
            self.optimizer.zero_grad()
            self.model(batch).pow(2).mean().backward()
            self.optimizer.step()
        with record_function("graph"), torch.cuda.stream(self.side):
            self.graph.replay()
        with record_function("copy out"):
            self.model(batch).detach().cpu()
        torch.cuda.synchronize(self.device)


def main() -> None:
    """Bind the command line to a run."""
    parser = argparse.ArgumentParser(description="Capture a CUDA run.")
    parser.add_argument("output", type=Path, help="the trace to write (.json.gz)")
    parser.add_argument("--steps", type=int, default=3, help="profiler steps (default 3)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this machine has no CUDA device")

    step = Step(torch.device("cuda", 0))
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=0, warmup=1, active=arguments.steps, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
    ) as prof:
        for _ in range(arguments.steps + 1):
            step()
            prof.step()
    export(prof, arguments.output)


if __name__ == "__main__":
    main()
