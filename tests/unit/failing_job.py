"""A rank of a job of gloo that trains until one runs out of memory; run as a process.

The last rank fails in the forward pass of the second step, and goes on without the collective that
the others wait in. Each writes its trace, its dump, its execution trace and what its allocator did,
as the formats of torch have it. There is no device whose allocator would write its own, so
a dispatch mode sees what is allocated and freed, by its own clock and with stacks of its own.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ["TORCH_FR_BUFFER_SIZE"] = "200"

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.until import until

RANKS = 2
TOO_MANY = 1 << 40
"""Floats that no machine has the memory for."""
_OWN = {"stack", "_made", "__torch_dispatch__"}
"""Functions of the mode itself, which an allocator would not see."""


class Allocator(TorchDispatchMode):  # type: ignore[misc]
    """Records of the memory that ops make, as `torch.cuda.memory` dumps them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[dict[str, Any]] = []
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an op, and record what it made."""
        try:
            result = func(*args, **(kwargs or {}))
        except RuntimeError as error:
            now = time.time_ns()
            if "allocate" in str(error):
                self._add("oom", now, size=TOO_MANY * 4, device_free=0, frames=stack())
            raise
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._made(tensor.untyped_storage())
        return result

    def _made(self, storage: torch.UntypedStorage) -> None:
        place, size = storage.data_ptr(), storage.nbytes()
        if size and place not in self._known:
            self._known.add(place)
            self._add("alloc", time.time_ns(), addr=place, size=size, frames=stack())
            weakref.finalize(storage, self._freed, place, size)

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        for action in ("free_requested", "free_completed"):
            self._add(action, time.time_ns(), addr=place, size=size, frames=[])

    def _add(self, action: str, now: int, **more: Any) -> None:
        self.records.append({"action": action, "stream": 0, "time_us": now // 1000, **more})

    def dump(self, path: Path) -> None:
        """Write the snapshot."""
        whole = {"segments": [], "device_traces": [[*self.records]], "external_annotations": []}
        path.write_bytes(pickle.dumps(whole))


def stack() -> list[dict[str, Any]]:
    """Frames of whoever called the op, the innermost first."""
    return [
        {"name": frame.name, "filename": frame.filename, "line": frame.lineno}
        for frame in reversed(traceback.extract_stack(limit=60))
        if frame.name not in _OWN
    ]


class Block(torch.nn.Module):  # type: ignore[misc]
    """A layer, whose caller says how often its output is repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        """Run the layer."""
        return self.layer(x).repeat(times, 1).sum(0, keepdim=True)


class Model(torch.nn.Module):  # type: ignore[misc]
    """Two blocks, of which the second may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        """Run both."""
        return self.second(self.first(x, 2), times).mean()


def main(rank: int, folder: Path) -> None:
    """Train two steps."""
    torch.set_num_threads(1)
    for _ in range(3):  # the first failure of a process takes a millisecond until it is raised
        with contextlib.suppress(RuntimeError), Allocator():
            torch.zeros(1).repeat(TOO_MANY)
    store = dist.FileStore(str(folder / ".store"), RANKS)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=60)
    )
    allocator, pending = Allocator(), []
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(folder / f"et_rank{rank}.json"))
    model = Model()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
        execution_trace_observer=observer,
    ) as profiler:
        profiler.step()
        for step in range(2):
            with allocator:
                is_failing = step == 1 and rank == RANKS - 1
                try:
                    loss = model(torch.randn(64, 32), TOO_MANY // 32 if is_failing else 2)
                    loss.backward()
                    with torch.profiler.record_function("average gradients"):
                        total = torch.cat([p.grad.flatten() for p in model.parameters()])
                        work = dist.all_reduce(total, async_op=True)
                    pending.append(work)
                    if step == 0:
                        work.wait()
                except RuntimeError as error:
                    if not is_failing or "allocate" not in str(error):
                        raise
            profiler.step()
    profiler.export_chrome_trace(str(folder / f"trace_rank{rank}.json"))
    allocator.dump(folder / f"snapshot_rank{rank}.pickle")
    recorder: Any = torch._C._distributed_c10d
    (folder / f"nccl_trace_rank_{rank}").write_bytes(recorder._dump_fr_trace())
    (folder / f".done_{rank}").touch()
    until(lambda: all((folder / f".done_{other}").exists() for other in range(RANKS)))
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
