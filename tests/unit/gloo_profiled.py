"""A rank of a job of gloo, profiled while the last rank skips a collective; run as a process.

Each writes its trace and its dump. What is never answered is not waited for.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

RANKS = 2


def main(rank: int, folder: Path) -> None:
    """Call a collective that all call, then one that the last rank does not."""
    os.environ["TORCH_FR_BUFFER_SIZE"] = "200"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / ".store"), RANKS)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=30)
    )
    pending = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(torch.ones(4))
        with torch.profiler.record_function("loss"):
            if rank != RANKS - 1:
                pending.append(dist.all_reduce(torch.ones(8), async_op=True))
    profiler.export_chrome_trace(str(folder / f"trace_{rank}.json"))
    recorder: Any = torch._C._distributed_c10d
    (folder / f"nccl_trace_rank_{rank}").write_bytes(recorder._dump_fr_trace())
    (folder / f".done_{rank}").touch()
    while not all((folder / f".done_{other}").exists() for other in range(RANKS)):
        time.sleep(0.005)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
