"""Traces of the jobs of `tests.oracles.jobs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from profframe.trace.trace import Trace
from tests.builders import Row, event, loaded, together
from tests.oracles.jobs import COLLECTIVE, HOST, INPUT, KERNEL, Run, Slice

NAMES: Final = {
    HOST: "aten::linear",
    INPUT: "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "launch": "cudaLaunchKernel",
    "sync": "cudaDeviceSynchronize",
    KERNEL: "gemm",
    COLLECTIVE: "ncclDevKernel_AllReduce",
}


def row(of: Slice, ahead: int) -> Row:
    """A slice of an event table, by a clock that is that much ahead."""
    name, start, end = NAMES[of.kind], of.start + ahead, of.end + ahead
    if of.kind in {HOST, INPUT}:
        return event(name, start, end)
    if of.kind in {"launch", "sync"}:
        return event(name, start, end, category="cuda_runtime", correlation=of.number + 1)
    more: dict[str, object] = {
        "device": 0,
        "stream": of.stream,
        "correlation": of.number + 1,
    }
    if of.kind == COLLECTIVE:
        group = ",".join(map(str, of.group))
        more |= {"collective": "allreduce", "process_group": group, "collective_seq": of.number}
    return event(name, start, end, category="kernel", thread=100 + of.stream, **more)


def job(done: Run, ahead: Sequence[int]) -> Trace:
    """What happened, with the clock of each rank that much ahead."""
    return together(
        *(
            loaded(
                *(row(one, offset) for one in done.slices if one.rank == rank),
                rank=rank,
                header={"clock": "utc"},
            )
            for rank, offset in enumerate(ahead)
        )
    )
