"""Recordings of rocprofv3 by chance, for its fuzzers."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.rocprof_files import (
    KIND_OF,
    OPERATIONS,
    Allocation,
    Call,
    Copy,
    Kernel,
    Process,
)

HOSTILE: Final = (
    "", "é\u2028", 'quote " and \\ and {"a": 1}', "'; DROP TABLE events; --", "<script>alert(1)",
    "\x1b[31mred", "x" * 5_000, '], "hsa_api": [{"start_timestamp": 1}', "\x01\x7f", "a" * 40,
)  # fmt: skip
"""Names and texts that nobody expects."""
ALLOCATIONS: Final = (
    "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE", "SCRATCH_MEMORY_ALLOC",
)  # fmt: skip


def recording(rng: random.Random, pid: int = 100) -> Process:
    """A process with a few rows of each kind."""

    def times() -> tuple[int, int]:
        start = 10_000 + rng.randrange(5_000)
        return start, start + rng.randrange(1, 500)

    tids = (pid, pid + 1)
    numbers = range(1, rng.randrange(2, 14))
    calls, kernels, copies, allocations = [], [], [], []
    for number in numbers:
        start, end = times()
        own: dict[str, Any] = {
            "start": start,
            "end": end,
            "tid": rng.choice(tids),
            "correlation": number,
        }
        api = rng.choice(list(KIND_OF))
        name = rng.choice(OPERATIONS[KIND_OF[api]])
        texts = (("int", rng.choice(HOSTILE) or "a", rng.choice(HOSTILE)),) * rng.randrange(2)
        message = rng.choice(HOSTILE)
        calls.append(Call(api=api, name=name, message=message, arguments=texts, **own))
        counters = (("SQ_WAVES", float(number)),) * rng.randrange(3)
        kernels.append(
            Kernel(
                symbol=rng.randrange(1, 3),
                agent=rng.randrange(3),
                dispatch=number,
                stream=rng.randrange(2),
                queue=rng.randrange(3),
                counters=counters,
                **own,
            )
        )
        name = rng.choice(OPERATIONS["MEMORY_COPY"])
        copies.append(Copy(name=name, source=0, target=1, bytes=number, **own))
        name = rng.choice(ALLOCATIONS)
        agent = None if name.endswith("FREE") else 1
        allocations.append(Allocation(name=name, agent=agent, bytes=number, address=7, **own))
    return Process(
        pid=pid,
        symbols=(rng.choice(HOSTILE) or "k", "gemm"),
        counters=("SQ_WAVES",),
        calls=tuple(calls),
        kernels=tuple(kernels),
        copies=tuple(copies),
        allocations=tuple(allocations),
    )
