"""Capture a real CPU training run: ``python -m benchmarks.capture MEGABYTES FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

STEPS_PER_MB = 140 / 311


def record(steps: int) -> profile:
    """Train a small transformer for so many profiler steps; the profile has ended."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        *(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(4))
    )
    optimizer = torch.optim.Adam(model.parameters())
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
    ) as prof:
        for _ in range(steps + 1):
            loss = model(torch.randn(4, 16, 32)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            prof.step()
    return prof


def capture(megabytes: float, path: Path) -> None:
    """Write a trace of about this size, in one rename."""
    unfinished = path.with_suffix(".part")
    record(max(1, round(megabytes * STEPS_PER_MB))).export_chrome_trace(str(unfinished))
    unfinished.rename(path)


if __name__ == "__main__":
    capture(float(sys.argv[1]), Path(sys.argv[2]))
