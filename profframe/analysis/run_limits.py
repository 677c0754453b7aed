"""Limits on runs compared with a baseline, so that a build can fail if one is exceeded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis import fail_on, regressions, run_selection, trends
from profframe.analysis.stats import noise
from profframe.analysis.stats.distributions import Float64
from profframe.errors import ParameterError

TOTALS: Final[Mapping[str, str]] = MappingProxyType({"op_self_ns": "op", "kernel_ns": "kernel"})
"""Metrics that the limit for all ops and kernels also applies to, and the kind that they sum up."""
Most = Fraction | fail_on.Amount
"""How much worse a metric may get: a part of the base, or an amount."""


@dataclass(frozen=True, slots=True)
class Worse:
    """A metric that got worse by more than its limit, and by more than noise.

    Attributes
    ----------
    metric
        A column of `runs`, or ``op:NAME`` or ``kernel:NAME``.
    base, other
        Means of both sides.
    limit
        A part of the base, or an amount.
    """

    metric: str
    base: float
    other: float
    limit: Most


@dataclass(frozen=True, slots=True, eq=False)
class CheckResult:
    """Result of a check.

    Attributes
    ----------
    base, others
        Runs of the baseline, and those compared with it, in order of time.
    metrics
        ``metric base_value other_value ratio p_value``: totals, and what has a limit.
    regressions
        As `Trace.regressions` returns them.
    compared
        Number of ops and kernels that were compared.
    worse
        What exceeds its limit: metrics, then ops and kernels, the largest growth first.
    """

    base: list[str]
    others: list[str]
    metrics: pl.DataFrame
    regressions: pl.DataFrame
    compared: int
    worse: list[Worse]


def limit_of(text: str) -> tuple[str, Most]:
    """Read a limit, as `profframe.analysis.fail_on.limit` does.

    Parameters
    ----------
    text
        ``5%`` for all ops and kernels, or ``METRIC=5%``.

    Returns
    -------
    tuple of str and fractions.Fraction or Amount
        The metric, ``""`` for all ops and kernels; and the limit as a part of one, or an amount.

    Raises
    ------
    ParameterError
        The text is not a limit.

    Examples
    --------
    >>> limit_of("5%"), limit_of("step_p50_ns=2.5%")
    (('', Fraction(1, 20)), ('step_p50_ns', Fraction(1, 40)))
    """
    limit = fail_on.limit(text)
    return limit.metric, limit.most


def limits_of(texts: Iterable[str]) -> dict[str, Most]:
    """Read several limits; the lowest for each metric counts.

    Examples
    --------
    >>> limits_of(["op:*=5%", "op:*=10%"])
    {'op:*': Fraction(1, 20)}
    """
    lowest: dict[str, Most] = {}
    for metric, limit in map(limit_of, texts):
        before = lowest.get(metric, limit)
        if isinstance(before, fail_on.Amount) != isinstance(limit, fail_on.Amount):
            raise ParameterError(f"a limit is a percentage or an amount, not both: {metric}")
        lowest[metric] = min(limit, before, key=_size)
    return lowest


def _size(limit: Most) -> Fraction:
    return limit.value if isinstance(limit, fail_on.Amount) else limit


def check(
    traces: pl.DataFrame,
    samples: pl.DataFrame,
    totals: Callable[[], pl.DataFrame],
    baseline: run_selection.Runs,
    runs: run_selection.Runs | None = None,
    *,
    limit: Mapping[str, Most] | None = None,
    measure: Callable[[str], pl.DataFrame] | None = None,
) -> CheckResult:
    """Compare runs with a baseline of several, and find what exceeds a limit.

    Parameters
    ----------
    traces, samples
        The table `traces` and the answer `run_samples` of all runs.
    totals
        Returns the answer `runs` of them; called if a metric needs it.
    baseline, runs
        As for `Trace.regressions`.
    limit
        By metric, as `limit_of` returns them; the lowest if there are several for one metric. The
        limit for all ops and kernels applies to both totals, and to every row that regressed and
        took at least 1 % of its kind in the baseline.
    measure
        Returns ``run value`` of a metric that is neither a column of `runs` nor an op or kernel.

    Returns
    -------
    CheckResult
        What exceeds a limit, if it differs by more than noise.

    Raises
    ------
    UnknownNameError
        There is no such run or metric.
    ParameterError
        The baseline is less than two runs, nothing is left to compare with it, or the runs do not
        have a metric.
    """
    metric_limits = dict(limit or {})
    total_limit = metric_limits.pop("", None)
    order = run_selection.in_order(traces.select("run", "clock", "start_ns"))
    base, others = run_selection.sides(order["run"].to_list(), baseline, runs)
    values = {metric: trends.total(samples, what) for metric, what in TOTALS.items()}
    other_metrics = [
        name
        for name in (metric_limits if measure is not None else ())
        if name in fail_on.WORDS or (":" in name and not trends.is_sample_metric(name))
    ]
    of_trends = [name for name in metric_limits if name not in other_metrics]
    values |= trends.metrics(of_trends, order, totals, lambda: samples)
    if measure is not None:
        values |= {name: measure(name) for name in other_metrics}
    metrics = _compare_metrics(values, base, others)
    for pattern in metric_limits:
        if not any(_matches(pattern, metric) for metric in metrics["metric"]):
            raise ParameterError(f"metric {pattern!r}: not known for the runs of both sides")
    rows = regressions.compare_runs(samples, base, others)
    regressed = regressions.regressions(rows)
    worse = _worse_metrics(metrics, metric_limits)
    if isinstance(total_limit, Fraction):
        worse += _worse_metrics(metrics, dict.fromkeys(TOTALS, total_limit))
        large = regressed.join(_large(rows), on=["what", "name"], how="semi", nulls_equal=True)
        worse += [
            Worse(f"{what}:{name or ''}", before, after, total_limit)
            for what, name, before, after in large.select(
                "what", "name", "base_ns", "other_ns"
            ).iter_rows()
            if after - before > total_limit * before
        ]
    by_metric = {result.metric: result for result in reversed(worse)}  # each once
    broken = [*reversed(by_metric.values())]
    return CheckResult(base, others, metrics, regressed, rows.height, broken)


def _compare_metrics(
    values: Mapping[str, pl.DataFrame], base: Sequence[str], others: Sequence[str]
) -> pl.DataFrame:
    """Means of both sides for each metric, and the chance of such a difference by noise."""
    rows = []
    for metric, frame in values.items():
        by_run = dict(frame.drop_nulls("value").select("run", "value").iter_rows())
        sides = [
            np.array([by_run[r] for r in side if r in by_run], float) for side in (base, others)
        ]
        if all(side.size for side in sides):
            means = [float(side.mean()) for side in sides]
            ratio = means[1] / means[0] if means[0] else None
            rows.append((metric, *means, ratio, _chance(*sides)))
    names = ("base_value", "other_value", "ratio", "p_value")
    schema = {"metric": pl.String} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _chance(base: Float64, other: Float64) -> float | None:
    if max(base.size, other.size) < run_selection.LEAST_BASELINE:
        return None
    sides = (
        noise.Samples(np.zeros(n, np.int64), np.arange(n), side, 1, np.arange(n))
        for side in (base, other)
        for n in (side.size,)
    )
    return float(noise.compare(*sides).p[0])


def _matches(pattern: str, metric: str) -> bool:
    """Whether a name or pattern matches a metric."""
    return pattern == metric or fnmatchcase(metric, pattern)


def _worse_metrics(metrics: pl.DataFrame, metric_limits: Mapping[str, Most]) -> list[Worse]:
    """Metrics that got worse by more than noise and by more than their limit."""
    worse = []
    number = max(metrics.height, 1)
    for metric, base, other, _, p in metrics.iter_rows():
        if p is None or p * number > regressions.LEVEL:
            continue
        limits = [limit for name, limit in metric_limits.items() if _matches(name, metric)]
        before, after = Fraction(base), Fraction(other)
        rise = fail_on.worsening(metric, before, after)
        broken = [limit for limit in limits if rise > fail_on.allowed(limit, before)]
        if broken:
            worse.append(Worse(metric, base, other, min(broken, key=_size)))
    return worse


def _large(rows: pl.DataFrame) -> pl.DataFrame:
    """Ops and kernels with a large enough share of their kind in the baseline."""
    least = float(fail_on.LEAST_SHARE)
    return rows.filter(
        pl.col("base_ns") > 0, pl.col("base_ns") >= least * pl.col("base_ns").sum().over("what")
    )
