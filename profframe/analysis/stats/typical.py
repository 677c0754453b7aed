"""What is typical of many samples, and which are not. Arrays only, no column names; NaN is unknown.

- **Typical** is the median of the other samples; noise is the median of the distances to it, scaled
  so that of normal noise it is the standard deviation. A few samples unlike the rest, however far
  off, move neither.
- **Unlike.** A distance is held against Student's distribution, with half as much freedom as a
  standard deviation would have, for that is what the median distance tells of the noise.
- **Pace.** Samples may be slow as a whole, as on a warm machine: all rows are then longer by the
  same part. The pace of a sample is the median over its rows of how much longer each is than its
  median over all samples.
"""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np

from profframe.analysis.stats.noise import Float64
from profframe.intervals import Ints

_NORMAL: Final = 1.482602218505602
"""Standard deviation of normal noise whose median distance is 1."""
_EFFICIENCY: Final = 0.5
"""Freedom per sample of noise that a median tells; by simulation, so that rates of errors hold."""
_LEAST_SAMPLES: Final = 3
_LEAST_NOISE: Final = 1e-3
"""Noise is taken as at least this part of the size: what is nearly constant has no outliers."""
_LEAST_ROWS: Final = 10
"""The median of fewer rows is no pace."""
_LEAST_GAIN: Final = 0.9
"""Noise that remains when the pace is taken out, if that is worth it."""


def of_others(values: Float64, groups: Ints) -> Float64:
    """Median of the other samples of the same group.

    NaN where there is no other.

    Examples
    --------
    >>> of_others(np.array([1.0, 9.0, 2.0, 3.0, 7.0]), np.array([0, 0, 0, 0, 1])).tolist()
    [3.0, 2.0, 3.0, 2.0, nan]
    """
    order = np.lexsort((values, groups))
    some, group = values[order], groups[order]
    first = np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
    size = np.diff(first, append=group.size)
    start, others = np.repeat(first, size), np.repeat(size, size) - 1
    place = np.arange(group.size) - start
    found = np.full(values.size, np.nan)
    known = others > 0
    middles = []
    for middle in ((others - 1) // 2, others // 2):
        at = start + middle + (middle >= place)
        middles.append(some[np.minimum(at, group.size - 1)])
    found[order[known]] = ((middles[0] + middles[1]) / 2)[known]
    return found


def unlike(
    values: Float64, typical: Float64, whole: float | None = None
) -> tuple[Float64, Float64]:
    """How far each sample is from the typical one, and the chance that noise alone is so far.

    The distance is in units of the noise, with its sign. Ratios count where all values are above
    zero, else differences; one that is next to nothing of the ``whole``, or without it of the
    median, is none.

    Examples
    --------
    >>> values = np.array([10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 10.1, 9.9, 13.0])
    >>> score, chance = unlike(values, of_others(values, np.zeros(9, np.int64)))
    >>> int(score.argmax()), bool(chance[8] < 0.001), bool(chance[:8].min() > 0.1)
    (8, True, True)
    """
    from scipy import special

    known = np.flatnonzero(np.isfinite(values) & np.isfinite(typical))
    score, chance = np.full(values.size, np.nan), np.full(values.size, np.nan)
    if known.size < _LEAST_SAMPLES:
        return score, chance
    some, middle = values[known], typical[known]
    ratios = bool((some > 0).all() and (middle > 0).all())
    distance = np.log(some / middle) if ratios else some - middle
    size = 1.0 if ratios else whole or float(np.median(np.abs(middle))) or 1.0
    noise = max(_NORMAL * float(np.median(np.abs(distance))), _LEAST_NOISE * size)
    freedom = max(_EFFICIENCY * (known.size - 1), 1.0)
    score[known] = distance / noise
    chance[known] = 2 * special.stdtr(freedom, -np.abs(score[known]))
    return score, chance


def pace(values: Float64, groups: Float64) -> Float64:
    """How slow each sample is as a whole, where samples are: 1 for the median of the first group.

    Values are rows by samples; what is not above zero tells nothing. All paces are 1 where the rows
    do not go up and down together within a group, 0 or 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> slow = np.exp(0.1 * rng.normal(size=20))
    >>> values = 100 * slow * np.exp(0.01 * rng.normal(size=(50, 20)))
    >>> found = pace(values, np.zeros(20))
    >>> bool(np.abs(found / slow * np.median(slow) - 1).max() < 0.02)
    True
    >>> bool((pace(np.exp(0.1 * rng.normal(size=(50, 20))), np.zeros(20)) == 1).all())
    True
    """
    first = groups == 0
    usable = (values[:, first] > 0).sum(1) * 2 > np.count_nonzero(first)
    rows = values[usable]
    none = np.ones(values.shape[1])
    if rows.shape[0] < _LEAST_ROWS:
        return none
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a sample without any known row
        logs = np.where(rows > 0, np.log(rows), np.nan)
        relative = logs - np.nanmedian(logs[:, first], axis=1, keepdims=True)
        whole = np.nan_to_num(np.nanmedian(relative, axis=0))
        before, after = (_within(one, groups) for one in (relative, relative - whole))
    if not after < _LEAST_GAIN * before:
        return none
    found: Float64 = np.exp(whole - np.median(whole[first]))
    return found


def _within(logs: Float64, groups: Float64) -> float:
    """Typical noise of a row from sample to sample of its group."""
    squares = np.zeros(logs.shape[0])
    number = np.zeros(logs.shape[0])
    for group in np.unique(groups):
        some = logs[:, groups == group]
        squares += np.nansum((some - np.nanmean(some, axis=1, keepdims=True)) ** 2, axis=1)
        number += np.maximum(np.isfinite(some).sum(1) - 1, 0)
    return float(np.median(np.sqrt(squares / np.maximum(number, 1))))
