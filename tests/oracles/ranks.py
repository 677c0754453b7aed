"""Collectives of many ranks in plain Python, as the definitions of an established tool have them.

Its oddities are left out, by name: DEV-23 data types without a size (fp8, unsigned); DEV-24 match
by order alone; DEV-24b shares of all collectives, also those of groups that a rank is not in; and
GB/s of 2^30 bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

SIZES = {"Float": 4, "BFloat16": 2, "Float8_e4m3fn": 1, "UInt16": 2, "UInt64": 8, "Double": 8}
FACTORS: Mapping[str, Callable[[int], float]] = {
    "allreduce": lambda n: 2 * (n - 1) / n,
    "_allgather_base": lambda n: (n - 1) / n,
    "_reduce_scatter_base": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1,
}


@dataclass(frozen=True)
class Call:
    """One collective kernel of a rank."""

    rank: int
    group: str
    collective: str
    seq: int | None
    start: int
    dur: int
    dtype: str = "Float"
    elements: int = 1


def matched(calls: Sequence[Call]) -> list[dict[int, Call]]:
    """Calls of each collective by rank: by number in the group, else by place among its kind."""
    found: dict[tuple[object, ...], dict[int, Call]] = defaultdict(dict)
    places: dict[tuple[object, ...], int] = defaultdict(int)
    for call in sorted(calls, key=lambda c: c.start):
        key = call.collective if call.seq is None else call.seq
        turn = call.rank, call.group, key
        found[call.group, key, places[turn]][call.rank] = call
        places[turn] += 1
    return list(found.values())


def waits(match: Mapping[int, Call]) -> dict[int, int]:
    """How long each rank waits for the last one."""
    last = max(call.start for call in match.values())
    return {rank: last - call.start for rank, call in match.items()}


def speeds(match: Mapping[int, Call], size: int) -> tuple[int, float, float]:
    """Latency in ns, and algorithm and bus bandwidth in GB/s of 10^9 bytes."""
    call = next(iter(match.values()))
    latency = min(c.dur for c in match.values())
    factor = size if call.collective == "_allgather_base" else 1
    algorithm = call.elements * SIZES[call.dtype] * factor / latency
    return latency, algorithm, algorithm * FACTORS[call.collective](size)


def summary(calls: Sequence[Call]) -> dict[int, dict[str, float]]:
    """Per rank: waits, how often it came last and first, time in collectives."""
    rows: dict[int, dict[str, float]] = {}
    matches = [match for match in matched(calls) if len(match) > 1]
    for rank in sorted({rank for match in matches for rank in match}):
        own = [match for match in matches if rank in match]
        wait = [waits(match) for match in own]
        apart = [w for w in wait if max(w.values()) > 0]
        rows[rank] = {
            "collectives": len(own),
            "wait_ns": sum(w[rank] for w in wait),
            "times_last": sum(min(r for r in w if w[r] == 0) == rank for w in apart),
            "times_first": sum(min(r for r in w if w[r] == max(w.values())) == rank for w in apart),
            "communication_ns": sum(match[rank].dur for match in own),
        }
    return rows


def flagged(iterations: Sequence[Sequence[Call]], mean_iteration: float, top: int) -> list[int]:
    """Ranks by the number of iterations in which they are among the `top` latest, all of them.

    Of the communication kernels that take 1 % of an iteration or more, that whose durations differ
    most between ranks is looked at, the last one of each rank in each iteration.
    """
    latest: dict[str, list[dict[int, Call]]] = defaultdict(list)
    for calls in iterations:
        of_name: dict[str, dict[int, Call]] = defaultdict(dict)
        for call in sorted(calls, key=lambda c: c.start):
            if call.dur >= 0.01 * mean_iteration:
                of_name[call.collective][call.rank] = call
        for name, by_rank in of_name.items():
            latest[name].append(by_rank)
    spread = {
        name: mean(stdev(c.dur for c in by_rank.values()) for by_rank in found)
        for name, found in latest.items()
    }
    chosen = latest[max(spread, key=spread.__getitem__)]
    score: dict[int, int] = defaultdict(int)
    for by_rank in chosen:
        first = min(call.start for call in by_rank.values())
        late = {rank: (call.start - first) / mean_iteration for rank, call in by_rank.items()}
        for rank in sorted(late, key=lambda r: -late[r])[:top]:
            score[rank] += 1
    return sorted(score, key=lambda r: (-score[r], r))
