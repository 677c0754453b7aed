"""Whether runs keep limits against a baseline of several, for a build that is to fail if not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis import limits, regressions, selecting, trends
from profframe.analysis.stats import noise
from profframe.errors import ParameterError

TOTALS: Final[Mapping[str, str]] = MappingProxyType({"op_self_ns": "op", "kernel_ns": "kernel"})
"""Metrics of runs that a limit for all ops and kernels is for, too, and what they are sums of."""
MORE_IS_BETTER: Final = frozenset({"throughput_per_s", "busy_share"})
"""Metrics whose fall is held against the limit."""


@dataclass(frozen=True, slots=True)
class Worse:
    """Something that got worse by more than its limit, and by more than noise.

    Attributes
    ----------
    metric
        A column of `runs`, or ``op:NAME`` or ``kernel:NAME``.
    base, other
        Means of both sides.
    limit
        As a part of the base.
    """

    metric: str
    base: float
    other: float
    limit: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What a check found.

    Attributes
    ----------
    base, others
        Runs of the baseline, and those held against it, in order of time.
    metrics
        ``metric base_value other_value ratio p_value``: totals, and what has a limit.
    regressions
        As `Trace.regressions` gives them.
    worse
        What passed its limit: metrics, then ops and kernels, what grew most first.
    """

    base: list[str]
    others: list[str]
    metrics: pl.DataFrame
    regressions: pl.DataFrame
    worse: list[Worse]


def limit_of(text: str) -> tuple[str, Fraction]:
    """Read a limit.

    Parameters
    ----------
    text
        A number and a percent sign: for all ops and kernels; or a metric, ``=``, and such.

    Returns
    -------
    tuple of str and fractions.Fraction
        The metric, ``""`` for all ops and kernels; and the limit as a part of one.

    Raises
    ------
    ParameterError
        It is something else.

    Examples
    --------
    >>> limit_of("5%"), limit_of("step_p50_ns=2.5%")
    (('', Fraction(1, 20)), ('step_p50_ns', Fraction(1, 40)))
    """
    metric, equals, limit = text.rpartition("=")
    if equals and not metric.strip():
        raise ParameterError(f"a limit is 5% or METRIC=5%, not {text!r}")
    return metric.strip(), limits.percent(limit)


def limits_of(given: Iterable[str]) -> dict[str, Fraction]:
    """Read several limits; of one metric the lowest counts.

    Examples
    --------
    >>> limits_of(["op:*=5%", "op:*=10%"])
    {'op:*': Fraction(1, 20)}
    """
    found: dict[str, Fraction] = {}
    for metric, limit in map(limit_of, given):
        found[metric] = min(limit, found.get(metric, limit))
    return found


def check(
    traces: pl.DataFrame,
    samples: pl.DataFrame,
    totals: Callable[[], pl.DataFrame],
    baseline: selecting.Runs,
    runs: selecting.Runs | None = None,
    *,
    limit: Mapping[str, Fraction] | None = None,
) -> Checked:
    """Hold runs against a baseline of several, and see whether they keep limits.

    Parameters
    ----------
    traces, samples
        The table `traces` and the answer `samples` of all runs.
    totals
        Gives the answer `runs` of them; called where a metric needs it.
    baseline, runs
        As for `Trace.regressions`.
    limit
        By metric, as `limit_of` gives them; where several are for one, the lowest. The one for all
        ops and kernels is for the total of each, and for every one that regressed and took at least
        1 % of its kind in the baseline.

    Returns
    -------
    Checked
        What got worse by more than a limit; only what differs by more than noise.

    Raises
    ------
    UnknownNameError
        There is no such run or metric.
    ParameterError
        The baseline is less than two runs, nothing is left to hold against it, or the runs do not
        have a metric.
    """
    wanted = {metric: most for metric, most in (limit or {}).items() if metric}
    everywhere = (limit or {}).get("")
    order = selecting.in_order(traces.select("run", "clock", "start_ns"))
    base, others = selecting.sides(order["run"].to_list(), baseline, runs)
    values = {metric: trends.total(samples, what) for metric, what in TOTALS.items()}
    values |= trends.metrics(list(wanted), order, totals, lambda: samples)
    metrics = _compared(values, base, others)
    _check_known(wanted, metrics)
    rows = regressions.held_against(samples, base, others)
    found = regressions.regressions(rows)
    worse = _worse_metrics(metrics, wanted)
    if everywhere is not None:
        worse += _worse_metrics(metrics, dict.fromkeys(TOTALS, everywhere))
        large = found.join(_large(rows), on=["what", "name"], how="semi", nulls_equal=True)
        worse += [
            Worse(f"{what}:{name or ''}", before, after, everywhere)
            for what, name, before, after in large.select(
                "what", "name", "base_ns", "other_ns"
            ).iter_rows()
            if after - before > everywhere * before
        ]
    each = {one.metric: one for one in reversed(worse)}  # once, however many limits it passed
    return Checked(base, others, metrics, found, [*reversed(each.values())])


def _compared(
    values: Mapping[str, pl.DataFrame], base: Sequence[str], others: Sequence[str]
) -> pl.DataFrame:
    """Means of both sides, and the chance that they differ so much by noise, of each metric."""
    rows = []
    for metric, frame in values.items():
        known = dict(frame.drop_nulls("value").select("run", "value").iter_rows())
        sides = [np.array([known[r] for r in side if r in known], float) for side in (base, others)]
        if all(side.size for side in sides):
            means = [float(side.mean()) for side in sides]
            ratio = means[1] / means[0] if means[0] else None
            rows.append((metric, *means, ratio, _chance(*sides)))
    names = ("base_value", "other_value", "ratio", "p_value")
    schema = {"metric": pl.String} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _chance(base: noise.Float64, other: noise.Float64) -> float | None:
    if max(base.size, other.size) < selecting.LEAST_BASELINE:
        return None
    sides = (
        noise.Samples(np.zeros(n, np.int64), np.arange(n), side, 1, np.arange(n))
        for side in (base, other)
        for n in (side.size,)
    )
    return float(noise.compare(*sides).p[0])


def _names(wanted: str, metric: str) -> bool:
    """Whether it is this metric, or a pattern that the metric fits."""
    return wanted == metric or fnmatchcase(metric, wanted)


def _check_known(wanted: Mapping[str, Fraction], metrics: pl.DataFrame) -> None:
    for one in wanted:
        if not any(_names(one, metric) for metric in metrics["metric"]):
            raise ParameterError(f"metric {one!r}: not known of the runs on both sides")


def _worse_metrics(metrics: pl.DataFrame, wanted: Mapping[str, Fraction]) -> list[Worse]:
    """Metrics that differ by more than noise, and by more than their limit for the worse."""
    found = []
    number = max(metrics.height, 1)
    for metric, base, other, _, p in metrics.iter_rows():
        limit = min((most for one, most in wanted.items() if _names(one, metric)), default=None)
        rise = base - other if metric in MORE_IS_BETTER else other - base
        if limit is None or p is None or p * number > regressions.LEVEL:
            continue
        if rise > limit * abs(base):
            found.append(Worse(metric, base, other, limit))
    return found


def _large(rows: pl.DataFrame) -> pl.DataFrame:
    """Ops and kernels that took enough of their kind in the baseline to count."""
    least = float(limits.LEAST_SHARE)
    return rows.filter(
        pl.col("base_ns") > 0, pl.col("base_ns") >= least * pl.col("base_ns").sum().over("what")
    )
