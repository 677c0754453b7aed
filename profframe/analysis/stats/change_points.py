"""Change points: where a series changes its level for good. Arrays only, no column names.

Seeded binary segmentation (Kovács, Li, Bühlmann, Munk 2020): stretches of many lengths, each
overlapping the next by half, are searched for the place that splits them best. The clearest of all
is a change point; stretches with it are dropped; and so on.

- **Test.** How far the mean ranks before and after the place are apart (Wilcoxon), against its
  variance over all orders of the stretch. Ranks refer to the whole series, so a single run of any
  size makes no change, and the only assumption about the noise is that it does not depend on the
  previous run. With fewer than 30 runs the values themselves are used (Student), because so few
  ranks cannot tell a change from chance: there, noise is assumed to be normal.
- **Rate of errors.** The p-value of a place is multiplied by the number of places of all stretches,
  and by the number of series (Bonferroni). So of a hundred sets of series without a change, at most
  one has a change point on average. It is an upper bound; the rate is less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.analysis.stats.distributions import Float64, normal_chance, student_chance
from profframe.intervals import Ints

LEVEL: Final = 0.01
"""Rate of errors: share of the sets of series without a change in which one is found."""
LEAST: Final = 3
"""Runs before and after a change, at least."""

_RANKS_FROM: Final = 30
_DECAY: Final = 2**-0.5
_CONSTANT: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level.

    Attributes
    ----------
    at
        Number of the first sample of the new level.
    p
        Probability of such a change in any of the series if there is none; an upper bound.
    """

    at: int
    p: float


def changes(values: Float64, level: float = LEVEL, series: int | None = None) -> list[list[Change]]:
    """Find the changes of each series.

    ``values`` has a row per series and a column per run, in order; none is missing. ``series`` is
    the number of all series, if there are more than these.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(2, 100))
    >>> noise[1, 60:] += 3
    >>> points = changes(noise)
    >>> [len(series) for series in points], points[1][0].at
    ([0, 1], 60)
    """
    number, length = values.shape
    stretches = list(_stretches(length))
    if not stretches or not number:
        return [[] for _ in range(number)]
    # Bonferroni over every place that is looked at; stretches overlap, so this is an upper bound.
    places = (series or number) * sum(end - start - 2 * LEAST + 1 for start, end in stretches)
    use_ranks = length >= _RANKS_FROM
    scores = _ranks(values) if use_ranks else values
    best = [_best(scores[:, start:end], use_ranks) for start, end in stretches]
    at = np.stack([start + place for (start, _), (place, _) in zip(stretches, best, strict=True)])
    p = np.minimum(places * np.stack([chance for _, chance in best]), 1.0)
    bounds = np.array(stretches)
    return [_clearest(bounds, at[:, row], p[:, row], level) for row in range(number)]


def _stretches(length: int) -> Iterator[tuple[int, int]]:
    """From the full length down to the shortest with runs before and after a change."""
    size, last = float(length), 0
    while size >= 2 * LEAST:
        long = int(np.ceil(size))
        if long != last:
            count = 2 * int(np.ceil(length / size)) - 1
            starts = np.linspace(0, length - long, count).round().astype(int)
            for start in np.unique(starts).tolist():
                yield start, start + long
        size, last = size * _DECAY, long


def _best(scores: Float64, use_ranks: bool) -> tuple[Ints, Float64]:
    """By series: the place that splits the stretch best, and its p-value."""
    length = scores.shape[1]
    centred = scores - scores.mean(1, keepdims=True)
    before = np.arange(LEAST, length - LEAST + 1)
    sums = centred.cumsum(1)[:, before - 1]
    between = sums**2 * length / (before * (length - before))
    place = between.argmax(1)
    best, total = between[np.arange(len(between)), place], (centred**2).sum(1)
    # Rounding alone makes a constant series vary a little.
    constant = total <= _CONSTANT * (scores**2).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        if use_ranks:
            chance = normal_chance(np.sqrt(best * (length - 1) / total))
        else:
            residual = np.maximum(total - best, 0) / (length - 2)
            chance = student_chance(length - 2, np.sqrt(best / residual))
    return before[place], np.where(constant, 1.0, chance)


def _clearest(bounds: Ints, at: Ints, p: Float64, level: float) -> list[Change]:
    """The clearest change, then the clearest in stretches without it, and so on."""
    changes = []
    candidates = p <= level
    while candidates.any():
        rows = np.flatnonzero(candidates)
        # Of equally clear stretches the shortest: it holds the fewest other changes.
        row = rows[np.lexsort((bounds[rows, 1] - bounds[rows, 0], p[rows]))[0]]
        changes.append(Change(int(at[row]), float(p[row])))
        candidates &= (bounds[:, 0] >= at[row]) | (bounds[:, 1] <= at[row])
    return sorted(changes, key=lambda change: change.at)


def _ranks(values: Float64) -> Float64:
    """Ranks in each series; equal values share their mean rank."""
    ranks = np.empty(values.shape)
    for row, series in enumerate(values):
        _, where, count = np.unique(series, return_inverse=True, return_counts=True)
        last = count.cumsum()
        ranks[row] = (last - (count - 1) / 2)[where]
    return ranks
