"""Whether calls take longer on one side than on the other. Arrays only, no column names.

Calls of a unit, such as a kernel, are paired by their place in the step. They are not independent:
what makes one of a step slow makes others slow, too. So a step counts as one sample, however many
calls it has:

- **A step's value** is the median over its calls of the logarithm of their time, each relative to
  its place; less the median of all other units in that step, their drift, because a device whose
  clock falls takes longer for everything. Of more than five steps, five batches of consecutive ones
  count ("batch means"), because neighbours are alike; of several runs, each run.
- **Noise** is the variance of these values within the sides, taken as at least what is typical of a
  unit of this size (`noise.typical_variance`); and what units differ by between the sides beyond
  that, as two runs of one program do: the spread of the changes of all units, by their median
  absolute deviation, of which a few that really changed are no part.
- **Evidence** is a change that such noise hardly explains (Student's t), that goes beyond the drift
  by at least 5 %, and that at least three quarters of the calls share.

What it cannot know without several runs: whether one kernel takes longer in every step of one run
by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.analysis.stats import noise
from profframe.analysis.stats.distributions import Float64, student_chance
from profframe.analysis.stats.typical import NORMAL, median_of_others
from profframe.intervals import Ints, Mask

LEAST: Final = float(np.log(1.05))
"""A smaller change beyond the drift is no evidence."""
_AGREED: Final = 0.75
"""Share of the calls of a unit that change in one direction."""
_BATCHES: Final = 5
_MOST: Final = 4
"""Most weight of the typical variance, as a multiple of a unit's own steps."""
_LEAST_CALLS: Final = 3
"""Fewer calls on a side are no evidence: one of them may take many times as long by chance."""
_LEAST_UNITS: Final = 5
"""Fewer units do not show how much units differ between sides."""


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls of a side: what it is a call of, where, in which cluster, and the log of its time.

    Attributes
    ----------
    unit, place, cluster, log
        One element per call. The places of two units differ.
    clusters
        Number of clusters.
    """

    unit: Ints
    place: Ints
    cluster: Ints
    log: Float64
    clusters: int


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """One element per unit.

    Attributes
    ----------
    change
        Logarithm of the ratio of times, ``other`` to ``base``, beyond the drift; NaN if no place of
        the unit has calls on both sides.
    drift
        That of the median of all other units.
    p
        Probability of such a change by noise; NaN if neither side is repeated, or if one has fewer
        than three calls.
    agreed
        Share of the places that changed in its direction.
    """

    change: Float64
    drift: Float64
    p: Float64
    agreed: Float64

    @property
    def is_beyond(self) -> Mask:
        """Whether the change is large enough, and shared by enough of the calls."""
        return (np.abs(self.change) >= LEAST) & (self.agreed >= _AGREED)


def clusters(runs: Ints) -> Ints:
    """Cluster of each sample, of which ``runs`` are the runs: the run, or one of five batches.

    Examples
    --------
    >>> clusters(np.zeros(3, np.int64)).tolist(), clusters(np.zeros(7, np.int64)).tolist()
    ([0, 1, 2], [0, 0, 1, 2, 2, 3, 4])
    >>> clusters(np.array([0, 0, 1])).tolist()
    [0, 0, 1]
    """
    if runs.size and (runs != runs[0]).any():
        return np.unique(runs, return_inverse=True)[1].astype(np.int64)
    order = np.arange(runs.size)
    return order * _BATCHES // runs.size if runs.size > _BATCHES else order


def changes(base: Calls, other: Calls, names: Ints, size_ns: Float64) -> Changes:
    """Compare the calls of units, of which ``names`` has the name and ``size_ns`` the time.

    The drift of a unit is that of the calls with other names.

    Examples
    --------
    >>> place, cluster = np.tile(np.arange(6), 3), np.repeat(np.arange(3), 6)
    >>> before = Calls(place, place, cluster, np.log(100.0 + place + cluster), 3)
    >>> slower = before.log + np.where(place == 2, np.log(1.5), 0.03)  # the clock fell by 3 %
    >>> after = Calls(place, place, cluster, slower, 3)
    >>> of = changes(before, after, np.arange(6), np.full(6, 100.0))
    >>> np.flatnonzero(of.is_beyond).tolist(), round(float(np.exp(of.change[2])), 2)
    ([2], 1.46)
    """
    sides = base, other
    middles = [_medians(side.place, side.log) for side in sides]
    places, *rows = np.intersect1d(middles[0][0], middles[1][0], return_indices=True)
    before, after = (of[1][row] for of, row in zip(middles, rows, strict=True))
    unit = np.zeros(places.size, np.int64)
    for side in sides:
        at, is_paired = _paired(side, places)
        unit[at] = side.unit[is_paired]
    # The middle of both sides, so that exchanging them only changes the sign.
    reference = (before + after) / 2
    values, drifts = zip(*(_values(side, places, reference, names) for side in sides), strict=True)
    counts = np.bincount(unit, minlength=names.size)
    beyond = [of - drift for of, drift in zip(values, drifts, strict=True)]
    change, error, freedom = _difference(beyond, counts, size_ns)
    with np.errstate(invalid="ignore"):
        drift = _mean(drifts[1]) - _mean(drifts[0])
        same = np.sign(after - before - drift[unit]) == np.sign(change[unit])
    agreed = np.bincount(unit, same, minlength=names.size) / np.maximum(counts, 1)
    fewest = np.minimum(*(np.bincount(of.unit, minlength=names.size) for of in sides))
    p = _chance(change, error, np.where(fewest >= _LEAST_CALLS, freedom, 0), names)
    return Changes(change, drift, p, agreed)


def _paired(calls: Calls, places: Ints) -> tuple[Ints, Mask]:
    """Places of paired calls by number, and the mask of these calls."""
    at = np.searchsorted(places, calls.place)
    is_paired = np.append(places, -1)[at] == calls.place
    return at[is_paired], is_paired


def _medians(group: Ints, value: Float64) -> tuple[Ints, Float64]:
    """Groups in order, and the median of each."""
    order = np.lexsort((value, group))
    groups, first, count = np.unique(group[order], return_index=True, return_counts=True)
    ordered = value[order]
    return groups, (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2


def _values(calls: Calls, places: Ints, reference: Float64, names: Ints) -> tuple[Float64, Float64]:
    """Medians by unit and cluster: of the unit's calls, and of all calls with other names."""
    at, is_paired = _paired(calls, places)
    relative, unit = calls.log[is_paired] - reference[at], calls.unit[is_paired]
    cluster = calls.cluster[is_paired]
    values = _grid(unit, cluster, relative, (names.size, calls.clusters))
    named = _grid(names[unit], cluster, relative, (int(names.max(initial=-1)) + 1, calls.clusters))
    drifts = np.zeros(named.shape)
    row, column = np.nonzero(~np.isnan(named))
    # Without the unit's own name: one kernel that takes most calls would be its own drift.
    drifts[row, column] = np.nan_to_num(median_of_others(named[row, column], column))
    return values, np.where(np.isnan(values), np.nan, drifts[names])


def _grid(row: Ints, column: Ints, value: Float64, shape: tuple[int, int]) -> Float64:
    """Median of the values of each row and column; NaN where there is none."""
    grid = np.full(shape, np.nan)
    key, median = _medians(row * shape[1] + column, value)
    grid.ravel()[key] = median
    return grid


def _mean(values: Float64) -> Float64:
    """Mean over the clusters that have a value; NaN if none has."""
    count = (~np.isnan(values)).sum(1)
    mean: Float64 = np.where(count > 0, np.nansum(values, axis=1), np.nan) / np.maximum(count, 1)
    return mean


def _difference(
    sides: list[Float64], calls: Ints, size: Float64
) -> tuple[Float64, Float64, Float64]:
    """Difference of the means of each row, its variance, and the freedom of that.

    Calls of like length are assumed to have like noise. So the typical variance of a median falls
    with the number of its ``calls``.
    """
    counts = [(~np.isnan(of)).sum(1) for of in sides]
    means = [_mean(of) for of in sides]
    squares = sum(
        np.nansum((of - mean[:, None]) ** 2, axis=1) for of, mean in zip(sides, means, strict=True)
    )
    freedom = np.maximum(counts[0] + counts[1] - 2.0, 0)
    variance = squares / np.maximum(freedom, 1)
    usable = (freedom > 0) & (variance > 0) & (size > 0)
    if np.count_nonzero(usable) >= _LEAST_UNITS:
        length, each = size / np.maximum(calls, 1), (variance * calls)[usable]
        typical, weight = noise.typical_variance(each, length[usable], freedom[usable], length)
        variance = np.maximum(variance, typical / np.maximum(calls, 1))
        freedom = freedom + np.minimum(weight, _MOST * freedom)
    error = variance * sum(1 / np.maximum(count, 1) for count in counts)
    return means[1] - means[0], error, freedom


def _chance(change: Float64, error: Float64, freedom: Float64, names: Ints) -> Float64:
    """Probability of the changes by noise: within the sides, and of the units between them."""
    tested = (freedom > 0) & np.isfinite(change)
    between = 0.0
    if np.unique(names[tested]).size >= _LEAST_UNITS:
        middle = float(np.median(change[tested]))
        spread = NORMAL * float(np.median(np.abs(change[tested] - middle)))
        # Two runs of one program differ by more than their steps do: what all units differ by shows
        # how much. The noise within the sides is counted already.
        between = max(spread**2 - float(np.median(error[tested])), 0.0)
    p = np.full(change.size, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.abs(change[tested]) / np.sqrt(error[tested] + between)
    p[tested] = student_chance(freedom[tested], np.nan_to_num(score))
    return p
