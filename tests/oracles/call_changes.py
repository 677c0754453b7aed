"""By how much calls of one name take longer on one side, by loops over calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from statistics import fmean, median
from typing import NamedTuple


class Call(NamedTuple):
    """A call: the unit and the place that it is of, the cluster of steps, the log of its time."""

    unit: int
    place: int
    cluster: int
    log: float


class Change(NamedTuple):
    """Change beyond the drift, the drift, and the share of places that go the same way."""

    change: float
    drift: float
    agreed: float


def _by(calls: Iterable[Call], key: Callable[[Call], int]) -> dict[int, list[float]]:
    groups: dict[int, list[float]] = {}
    for call in calls:
        groups.setdefault(key(call), []).append(call.log)
    return groups


def _middles(calls: Iterable[Call], key: Callable[[Call], int]) -> dict[int, float]:
    return {number: median(of) for number, of in _by(calls, key).items()}


def _means(calls: Sequence[Call], names: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Of each unit, the mean over clusters of its value beyond the drift, and of the drift."""
    values: dict[int, list[tuple[float, float]]] = {}
    for cluster, unit in product({call.cluster for call in calls}, {call.unit for call in calls}):
        here = [call for call in calls if call.cluster == cluster]
        own = [call.log for call in here if call.unit == unit]
        others = _middles(here, lambda call: names[call.unit])
        others.pop(names[unit], None)
        drift = median(others.values()) if others else 0.0
        if own:
            values.setdefault(unit, []).append((median(own) - drift, drift))
    return {u: (fmean(a for a, _ in of), fmean(b for _, b in of)) for u, of in values.items()}


def changes(sides: Sequence[Sequence[Call]], names: Sequence[int]) -> dict[int, Change]:
    """Changes of those units that have a place on both sides; ``names`` of the units."""
    before, after = (_middles(calls, lambda call: call.place) for calls in sides)
    shared = before.keys() & after.keys()
    units = {call.place: call.unit for calls in sides for call in calls}
    means = []
    for calls in sides:
        paired = [call for call in calls if call.place in shared]
        middle = {place: (before[place] + after[place]) / 2 for place in shared}
        relative = [call._replace(log=call.log - middle[call.place]) for call in paired]
        means.append(_means(relative, names))
    made = {}
    for unit in means[0].keys() & means[1].keys():
        change, drift = (means[1][unit][n] - means[0][unit][n] for n in range(2))
        places = [place for place in shared if units[place] == unit]
        ways = [(after[p] - before[p] - drift > 0) == (change > 0) for p in places]
        made[unit] = Change(change, drift, sum(ways) / len(ways))
    return made
