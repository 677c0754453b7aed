"""Typical values and outliers of many samples. Arrays only, no column names; NaN is unknown.

- **Typical** is the median of the other samples. Noise is the median of the distances to it, scaled
  so that it is the standard deviation if noise is normal. A few outliers move neither, however far
  off they are.
- **Outliers.** A distance is tested with Student's distribution. It has half as much freedom as for
  a standard deviation, since the median distance tells only that much about the noise.
- **Pace.** A sample may be slow as a whole, as on a warm machine: all rows are then longer by the
  same ratio. The pace of a sample is the median over its rows of the ratio to the row's median over
  all samples.
"""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np

from profframe.analysis.stats.distributions import Float64, student_chance
from profframe.intervals import Ints

NORMAL: Final = 1.482602218505602
"""Standard deviation of normal noise whose median distance is 1."""
_EFFICIENCY: Final = 0.5
"""Freedom per sample of noise from a median; from simulations, so that error rates hold."""
_LEAST_SAMPLES: Final = 3
_LEAST_NOISE: Final = 1e-3
"""Noise is at least this part of the size: nearly constant values have no outliers."""
_LEAST_ROWS: Final = 10
"""The median of fewer rows is not a pace."""
_LEAST_GAIN: Final = 0.9
"""The pace is used only if less than this part of the noise remains without it."""


def median_of_others(values: Float64, groups: Ints) -> Float64:
    """Median of the other samples of the same group.

    NaN if there is no other.

    Examples
    --------
    >>> median_of_others(np.array([1.0, 9.0, 2.0, 3.0, 7.0]), np.array([0, 0, 0, 0, 1])).tolist()
    [3.0, 2.0, 3.0, 2.0, nan]
    """
    order = np.lexsort((values, groups))
    ordered, group = values[order], groups[order]
    first = np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
    size = np.diff(first, append=group.size)
    start, others = np.repeat(first, size), np.repeat(size, size) - 1
    place = np.arange(group.size) - start
    medians = np.full(values.size, np.nan)
    has_others = others > 0
    middles = []
    for middle in ((others - 1) // 2, others // 2):
        index = start + middle + (middle >= place)
        middles.append(ordered[np.minimum(index, group.size - 1)])
    medians[order[has_others]] = ((middles[0] + middles[1]) / 2)[has_others]
    return medians


def deviation(
    values: Float64, typical: Float64, scale: float | None = None
) -> tuple[Float64, Float64]:
    """Distance of each sample from the typical one, and the chance of such a distance by noise.

    The distance is in units of the noise, with its sign. Ratios count if all values are above
    zero, else differences; noise is then at least a small part of ``whole``, or without it of the
    median.

    Examples
    --------
    >>> values = np.array([10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 10.1, 9.9, 13.0])
    >>> score, chance = deviation(values, median_of_others(values, np.zeros(9, np.int64)))
    >>> int(score.argmax()), bool(chance[8] < 0.001), bool(chance[:8].min() > 0.1)
    (8, True, True)
    """
    usable = np.flatnonzero(np.isfinite(values) & np.isfinite(typical))
    score, chance = np.full(values.size, np.nan), np.full(values.size, np.nan)
    if usable.size < _LEAST_SAMPLES:
        return score, chance
    samples, middle = values[usable], typical[usable]
    # Times vary by a share of their size, so ratios make short and long ones comparable.
    ratios = bool((samples > 0).all() and (middle > 0).all())
    distance = np.log(samples / middle) if ratios else samples - middle
    size = 1.0 if ratios else scale or float(np.median(np.abs(middle))) or 1.0
    noise = max(NORMAL * float(np.median(np.abs(distance))), _LEAST_NOISE * size)
    freedom = max(_EFFICIENCY * (usable.size - 1), 1.0)
    score[usable] = distance / noise
    chance[usable] = student_chance(freedom, score[usable])
    return score, chance


def pace(values: Float64, groups: Float64) -> Float64:
    """How slow each sample is as a whole, relative to the median of the first group.

    Values are rows by samples; those not above zero are ignored. All paces are 1 if the rows do not
    go up and down together within a group, 0 or 1.

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
        warnings.simplefilter("ignore", RuntimeWarning)  # a sample without any row
        logs = np.where(rows > 0, np.log(rows), np.nan)
        relative = logs - np.nanmedian(logs[:, first], axis=1, keepdims=True)
        shift = np.nan_to_num(np.nanmedian(relative, axis=0))
        before, after = (_within(array, groups) for array in (relative, relative - shift))
    # If rows do not move together, dividing by a pace would only add the noise of its estimate.
    if not after < _LEAST_GAIN * before:
        return none
    paces: Float64 = np.exp(shift - np.median(shift[first]))
    return paces


def _within(logs: Float64, groups: Float64) -> float:
    """Typical noise of a row from sample to sample of its group."""
    squares = np.zeros(logs.shape[0])
    number = np.zeros(logs.shape[0])
    for group in np.unique(groups):
        members = logs[:, groups == group]
        squares += np.nansum((members - np.nanmean(members, axis=1, keepdims=True)) ** 2, axis=1)
        number += np.maximum(np.isfinite(members).sum(1) - 1, 0)
    return float(np.median(np.sqrt(squares / np.maximum(number, 1))))
