"""A rank of a job of gloo that trains; run as a process: RANK RANKS FOLDER SECONDS.

Rank 1 sleeps that long in each step, in an annotation of its own.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

STEPS = 10


def main(rank: int, ranks: int, folder: Path, sleep_s: float) -> None:
    """Train for some steps, and write the trace of them."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, record_function

    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(256, 512)

    def step() -> None:
        with record_function("forward"):
            loss = model(batch).sum()
        if rank == 1 and sleep_s:
            with record_function("planted"):
                time.sleep(sleep_s)  # what is recorded; nothing waits for it to be enough
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(STEPS):
            step()
    recorded.export_chrome_trace(str(folder / f"rank{rank}.pt.trace.json"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
