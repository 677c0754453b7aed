"""A job of drawn steps, whose times are easy to work out by hand.

In each step every rank runs an op on the host, which launches a kernel and a collective, and waits
for its device. All clocks are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from profframe.trace.trace import Trace
from tests.builders import Row, event, loaded, together

OP: Final = 100_000
LAUNCH: Final = 10_000
KERNEL: Final = 200_000
TRANSFER: Final = 50_000
CALL: Final = 1_000
STEP: Final = OP + LAUNCH + KERNEL + TRANSFER + 2 * CALL
"""A step in which no rank is late."""
PERIOD: Final = 10_000_000
BEGIN: Final = 10**18


def job(
    ranks: int = 4,
    steps: int = 6,
    late: Mapping[tuple[int, int], int] | None = None,
    name: str = "aten::linear",
    run: str = "r",
) -> Trace:
    """The job; ``late`` are nanoseconds that the op takes more, by step and rank."""
    more = late or {}
    rows: list[list[Row]] = [[] for _ in range(ranks)]
    for step in range(steps):
        owns = [OP + more.get((step, rank), 0) for rank in range(ranks)]
        end = max(owns) + LAUNCH + KERNEL + TRANSFER
        for rank, own in enumerate(owns):
            rows[rank] += _step(step, own, end, name)
    header = {"clock": "utc"}
    traces = (loaded(*of, rank=n, run=run, header=header) for n, of in enumerate(rows))
    return together(*traces)


def _step(step: int, own: int, end: int, name: str) -> list[Row]:
    at, number = BEGIN + step * PERIOD, 10 * (step + 1)
    work: dict[str, Any] = {"category": "kernel", "thread": 107, "device": 0, "stream": 7}
    group: dict[str, Any] = {"collective": "allreduce", "process_group": "0"}
    group |= {"collective_seq": step}
    call: dict[str, Any] = {"category": "cuda_runtime"}
    begun = own + LAUNCH
    return [
        event(f"ProfilerStep#{step}", at, at + end + 2 * CALL, category="user_annotation"),
        event(name, at, at + own),
        event("cudaLaunchKernel", at + own, at + begun, **call, correlation=number),
        event("cudaLaunchKernel", at + begun, at + begun + LAUNCH, **call, correlation=number + 1),
        event("cudaDeviceSynchronize", at + begun + LAUNCH, at + end + CALL, **call,
              correlation=number + 2),
        event("gemm", at + begun, at + begun + KERNEL, **work, correlation=number),
        event("ncclDevKernel_AllReduce", at + begun + KERNEL, at + end, **work, **group,
              correlation=number + 1),
    ]  # fmt: skip
