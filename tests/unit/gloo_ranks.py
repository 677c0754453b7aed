"""A rank of a job of gloo that goes wrong in several ways; run as a process by the tests of dumps.

Each case has a group of its own, so that all are in one dump of each rank. Calls are not waited
for: what they are called with is recorded all the same, and nothing has to time out. The ranks go
wrong one after the other, each when the one before has ended: gloo aborts where it gets another
size.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.until import until

RANKS = 3
CASES = ("skips", "sizes", "kinds", "orders", "types", "fits")
"""Descriptions of the groups, made in this order: their names are 1, 2, ..."""


def main(rank: int, folder: Path) -> None:
    """Call what the cases are about, and write both dumps."""
    os.environ["TORCH_FR_BUFFER_SIZE"] = "200"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), RANKS)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=30)
    )
    groups = {case: dist.new_group(group_desc=case) for case in CASES}
    dist.all_reduce(torch.ones(4))
    for group in groups.values():
        dist.all_reduce(torch.ones(4), group=group)
    dist.barrier()
    if rank:
        until((folder / f".done_{rank - 1}").exists)
    pending = []

    def reduce(case: str, tensor: torch.Tensor) -> None:
        pending.append(dist.all_reduce(tensor, group=groups[case], async_op=True))

    def broadcast(case: str) -> None:
        pending.append(dist.broadcast(torch.ones(4), 0, group=groups[case], async_op=True))

    if rank != 1:
        reduce("skips", torch.ones(4))
    reduce("sizes", torch.ones(8 if rank == 2 else 4))
    reduce("types", torch.ones(4, dtype=torch.float64 if rank == 0 else torch.float32))
    if rank == 0:
        broadcast("kinds")
    else:
        reduce("kinds", torch.ones(4))
    if rank == 2:
        broadcast("orders")
    reduce("orders", torch.ones(4))
    if rank != 2:
        broadcast("orders")
    reduce("fits", torch.ones(4))

    recorder: Any = torch._C._distributed_c10d

    (folder / f"nccl_trace_rank_{rank}").write_bytes(recorder._dump_fr_trace())
    text = recorder._dump_fr_trace_json()
    (folder / "json" / f"dump_{rank}.json").write_bytes(
        text if isinstance(text, bytes) else text.encode()
    )
    (folder / f".done_{rank}").touch()
    os._exit(0)  # what was never answered would be waited for


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
