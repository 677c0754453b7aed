"""Whether rows differ by more than their noise. Arrays only, no column names.

A test for few samples of many rows, each step of which errs on the safe side:

- **Samples.** Runs, or the steps of the one run of a side. Steps of one run are alike for a while,
  so each counts as less than one: by the autocorrelation of its row, taken as at least the median
  of all rows. If a side has several runs, these are its samples.
- **Noise.** Few samples may agree by chance. So the noise of a row is taken as at least what is
  typical of a row of its size, on its side. The weight of that follows from how much the noise of
  rows varies (Smyth 2004, "Linear models and empirical Bayes methods for assessing
  differential expression"); it counts at most as much as the row's own samples.
- **Test.** Welch's, which allows different noise on each side, with no more degrees of freedom than
  two sides like the smaller would have. A single sample is taken to have the noise of the other
  side. A row that a side never has is tested by how often the other has it, exactly (Fisher).
- **Many rows.** `false_discovery` (Benjamini and Hochberg 1995): of the rows that are called
  different at 5 %, 5 % are noise on average; where all is noise, at most one comparison in twenty
  calls any row different.

What it cannot know: whether something falls into one of two states in each run, by chance, as a
choice of algorithm does. All of three runs in the one and all of three in the other look like a
change; that happens once in 32 times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from profframe.analysis.stats.distributions import (
    Float64,
    digamma,
    student_chance,
    student_critical,
    tetragamma,
    trigamma,
)
from profframe.intervals import Ints

LEVEL: Final = 0.05
"""Accepted rate of errors; a confidence interval covers 1 - LEVEL."""

_CELLS: Final = 1 << 22
"""Rows times samples in one block; a bound on memory."""
_LEAST_ROWS: Final = 5
"""Fewer rows do not show what is typical."""
_ROWS_FOR_TREND: Final = 10
_STEEPEST: Final = -2
"""An error of the clock does not depend on the size, so its relative square falls like this."""
_LEAST_RATIO: Final = 1e-3
"""Noise below this part of the median does not influence what is typical."""
_MOST_AUTOCORRELATION: Final = 0.98
_LEAST_SAMPLES: Final = 2
"""Minimum number of samples that steps count as, however much they correlate."""
_UNVARIED: Final = 1e-3
"""If the noise of rows varies less than this, beyond chance, it is taken as equal."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Measurements of a side: ``value`` of ``row`` in ``sample``; 0 where there is no value.

    Attributes
    ----------
    row, sample, value
        One element per value; a row has at most one in a sample.
    rows
        Number of rows.
    runs
        Run of each sample, ascending.
    """

    row: Ints
    sample: Ints
    value: Float64
    rows: int
    runs: Ints

    @property
    def is_single_run(self) -> bool:
        """Whether they are steps of one run."""
        return np.unique(self.runs).size == 1

    @property
    def is_repeated(self) -> bool:
        """Whether there are at least two of them, so that their noise is known."""
        return self.runs.size > 1


@dataclass(frozen=True, slots=True, eq=False)
class MeanDifferences:
    """One element per row: confidence interval of the difference of the means, and p-value."""

    low: Float64
    high: Float64
    p: Float64


@dataclass(frozen=True, slots=True, eq=False)
class _Means:
    """Means, their variances and degrees of freedom; units that have the row, and all units."""

    mean: Float64
    error: Float64
    freedom: Float64
    present: Ints
    units: int

    @property
    def effective(self) -> Float64:
        """Number of independent samples: the variance of one over that of the mean."""
        return self.freedom + 1


def compare(base: Samples, other: Samples) -> MeanDifferences:
    """Compare the means of each row.

    The difference is that of ``other`` minus ``base``; at least one of them `is_repeated`.

    Examples
    --------
    >>> row, sample, runs = np.zeros(3, np.int64), np.arange(3), np.arange(3)
    >>> before = Samples(row, sample, np.array([100.0, 101.0, 99.0]), 1, runs)
    >>> after = Samples(row, sample, np.array([110.0, 111.0, 109.0]), 1, runs)
    >>> found = compare(before, after)
    >>> round(float(found.p[0]), 5), round(float(found.low[0]), 2), round(float(found.high[0]), 2)
    (0.00026, 7.73, 12.27)
    """
    sides = _side(base), _side(other)
    size = np.maximum(*(np.abs(side.mean) for side in sides))
    change = sides[1].mean - sides[0].mean
    if base.is_repeated and other.is_repeated:
        (a, df_a), (b, df_b) = (_moderated(side, size) for side in sides)
        error = a + b
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = error**2 / (a**2 / df_a + b**2 / df_b)
            # Welch's formula adds the freedoms of both sides; that of the smaller one must bound
            # the result, or a long run would make up for a single repetition on the other side.
            freedom = np.minimum(freedom, 2 * np.minimum(df_a, df_b))
    else:
        repeated = sides[0] if base.is_repeated else sides[1]
        error, freedom = _moderated(repeated, size)
        # The variance of the mean, plus that of the single sample, which is `effective` times as
        # large.
        error = error * (1 + repeated.effective)
    with np.errstate(invalid="ignore", divide="ignore"):
        welch = student_chance(freedom, change / np.sqrt(error))
        reach = student_critical(freedom, LEVEL) * np.sqrt(error)
    constant = error == 0
    welch = np.where(constant, np.where(change == 0, 1.0, 0.0), welch)
    reach = np.where(constant, 0.0, reach)
    absent = (sides[0].present == 0) | (sides[1].present == 0)
    p = np.where(absent, _one_sided(*sides), welch)
    return MeanDifferences(change - reach, change + reach, p)


def false_discovery(p: Float64) -> Float64:
    """Expected share of noise among the rows up to each p-value, at most.

    Examples
    --------
    >>> false_discovery(np.array([0.01, 0.5, 0.02, 0.9])).round(3).tolist()
    [0.04, 0.667, 0.04, 0.9]
    """
    order = np.argsort(p, kind="stable")
    parts = p[order] * p.size / np.arange(1, p.size + 1)
    q = np.empty(p.size)
    q[order] = np.minimum.accumulate(parts[::-1])[::-1]
    return q


def _side(samples: Samples) -> _Means:
    """Means and their errors: by runs, or by the steps of one."""
    number = samples.runs.size
    units = np.arange(number) if samples.is_single_run else samples.runs
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    count = starts.size
    mean, squares, products = (np.zeros(samples.rows) for _ in range(3))
    counts = np.zeros(samples.rows, np.int64)
    for rows, values, present in _blocks(samples):
        constant = values.min(1) == values.max(1)  # a mean may be off by one bit
        mean[rows] = np.where(constant, values[:, 0], values.mean(1))
        residuals = np.add.reduceat(values - mean[rows, None], starts, axis=1)
        squares[rows] = (residuals**2).sum(1)
        products[rows] = (residuals[:, 1:] * residuals[:, :-1]).sum(1)
        counts[rows] = np.logical_or.reduceat(present, starts, axis=1).sum(1)
    if not samples.is_single_run:
        error = squares * count / (count - 1) / number**2
        return _Means(mean, error, np.full(samples.rows, count - 1.0), counts, count)
    correlation = _autocorrelation(squares, products, number)
    effective = np.maximum(number * (1 - correlation) / (1 + correlation), _LEAST_SAMPLES)
    error = squares / number / (1 - 1 / effective) / effective
    return _Means(mean, error, effective - 1, counts, count)


def _blocks(
    samples: Samples,
) -> Iterator[tuple[slice, Float64, npt.NDArray[np.bool_]]]:
    """Blocks of rows by samples: values, and a mask of those that exist."""
    order = np.argsort(samples.row, kind="stable")
    row, sample, value = samples.row[order], samples.sample[order], samples.value[order]
    step = max(_CELLS // max(samples.runs.size, 1), 1)
    for first in range(0, samples.rows, step):
        last = min(first + step, samples.rows)
        part = slice(*np.searchsorted(row, (first, last)))
        shape = last - first, samples.runs.size
        values, has_value = np.zeros(shape), np.zeros(shape, np.bool_)
        values[row[part] - first, sample[part]] = value[part]
        has_value[row[part] - first, sample[part]] = True
        yield slice(first, last), values, has_value


def _autocorrelation(squares: Float64, products: Float64, number: int) -> Float64:
    """Autocorrelation at lag 1, by row: at least the median of all rows, and never below 0.

    The estimate from few samples is too low by about ``(1 + 3 r) / number``, and mostly chance.
    """
    correlations = np.divide(
        products, squares, out=np.full(squares.size, -1 / number), where=squares > 0
    )
    # Undo the bias of the estimate; the bound keeps it finite for few samples.
    correlations = (correlations + 1 / number) / max(1 - 3 / number, 1 / 6)
    varied = correlations[squares > 0]
    median = max(float(np.median(varied)), 0.0) if varied.size else 0.0
    result: Float64 = np.clip(correlations, median, _MOST_AUTOCORRELATION)
    return result


def _moderated(side: _Means, size: Float64) -> tuple[Float64, Float64]:
    """Variance of the mean, at least what is typical of a row of this size, and its freedom."""
    error, freedom = side.error, side.freedom
    relative = np.divide(error, size**2, out=np.zeros(size.size), where=size > 0)
    usable = (relative > 0) & (freedom >= 1)
    # Too few rows to say what is typical: each stands for itself.
    if np.count_nonzero(usable) < _LEAST_ROWS:
        return error, freedom
    typical, weight = typical_variance(relative[usable], size[usable], freedom[usable], size)
    # Limma takes the weighted mean of both; the greater of the two errs on the safe side, since
    # some rows really are noisier than others of their size.
    return np.maximum(error, typical * size**2), freedom + np.minimum(weight, freedom)


def typical_variance(
    relative: Float64, size: Float64, freedom: Float64, target_sizes: Float64
) -> tuple[Float64, float]:
    """Typical relative variance of rows of the target sizes, and its weight in samples.

    The spread of the logarithms of sample variances by chance is known; any further spread shows
    how much rows really differ. Small rows may have more noise than large ones.
    """
    # A row that hardly varies by chance would otherwise pull the mean of logarithms down without
    # bound.
    floor = _LEAST_RATIO * float(np.median(relative))
    half = freedom / 2
    log = np.log(np.maximum(relative, floor)) - digamma(half) + np.log(half)
    sizes = np.log(size)
    middle, spread = sizes.mean(), float(((sizes - sizes.mean()) ** 2).sum())
    slope = 0.0
    if log.size >= _ROWS_FOR_TREND and spread > 0:
        slope = float(np.clip(((sizes - middle) * log).sum() / spread, _STEEPEST, 0))
    residuals = log - log.mean() - slope * (sizes - middle)
    excess = float((residuals**2).sum()) / (log.size - 2) - float(trigamma(half).mean())
    offsets = (
        np.log(target_sizes, out=np.full(target_sizes.size, middle), where=target_sizes > 0)
        - middle
    )
    weight = 2 * _inverse_trigamma(excess) if excess > _UNVARIED else np.inf
    typical: Float64 = np.exp(log.mean() + slope * offsets)
    return typical, weight


def _inverse_trigamma(value: float) -> float:
    """The x whose trigamma is the value, by Newton's method (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(20):
        reached = float(trigamma(x))
        x += reached * (1 - reached / value) / float(tetragamma(x))
    return x


def _one_sided(base: _Means, other: _Means) -> Float64:
    """Probability that all units with the row are on one side, if sides do not differ."""
    present = base.present + other.present
    log_all = _log_choose(base.units + other.units, present)
    ways = (_log_choose(side.units, present) for side in (base, other))
    chance: Float64 = np.minimum(sum(np.exp(log - log_all) for log in ways), 1.0)
    return chance


def _log_choose(number: int, size: Ints) -> Float64:
    """Logarithm of the number of ways to choose; minus infinity if there are none."""
    others = np.maximum(number - size, 0)
    factorials = np.concatenate([[0.0], np.log(np.arange(1, number + 1)).cumsum()])
    ways = factorials[number] - factorials[np.minimum(size, number)] - factorials[others]
    logs: Float64 = np.where(size > number, -np.inf, ways)
    return logs
