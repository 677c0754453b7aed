"""Limits on a comparison, so that a build can fail if one is exceeded.

A limit is ``5%`` for all ops and kernels, or ``METRIC=LIMIT``: a metric, and how much it may get
worse, in percent of the base, or as an amount of time or bytes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.stats import noise
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.catalogue import find

LEAST_SHARE: Final = Fraction(1, 100)
"""Rows with a smaller share of the time of their kind in the base do not count."""
WORDS: Final = ("step", "memory", "exposed_communication")
"""Metrics with their own word."""
KINDS: Final = ("op", "kernel", "annotation", "category", "module")
"""Metrics that need a name, such as ``op:NAME``."""
MORE_IS_BETTER: Final = frozenset({"throughput_per_s", "busy_share"})
"""Metrics whose decrease is compared with the limit."""

_NO_METRIC: Final = ("run", "clock", "start_ns")
_UNITS: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "ns": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
        "bytes": {"B": 1}
        | {f"{letter}B": 1000**n for n, letter in enumerate("KMGT", 1)}
        | {f"{letter}iB": 1024**n for n, letter in enumerate("KMGT", 1)},
    }
)
_NUMBER: Final = r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
_PERCENT: Final = re.compile(rf"{_NUMBER}%\s*")
_AMOUNT: Final = re.compile(rf"{_NUMBER}([A-Za-z]{{1,3}})\s*")
_EXAMPLES: Final = {"ns": "5% or 2ms", "bytes": "5% or 200MB", "": "5%"}


@dataclass(frozen=True, slots=True)
class Amount:
    """How much a metric may get worse: nanoseconds or bytes, and as it was written."""

    value: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a metric may get worse.

    Attributes
    ----------
    metric
        A word, a column of `runs`, or a kind and a name; ``""`` for all ops and kernels.
    most
        A part of the base, or an amount.
    """

    metric: str
    most: Fraction | Amount

    @property
    def kind(self) -> str:
        """The kind of a metric with a name, else ``""``."""
        kind, colon, _ = self.metric.partition(":")
        return kind if colon else ""

    @property
    def name(self) -> str:
        """The name or pattern of a kind."""
        return self.metric.partition(":")[2]

    @property
    def text(self) -> str:
        """How much, as people read it.

        Examples
        --------
        >>> limit("step=5.0%").text, limit("memory=200MB").text
        ('5 %', '200MB')
        """
        return written(self.most)

    def is_broken(self, base: Fraction, other: Fraction) -> bool:
        """Whether this is worse by more than the limit.

        Examples
        --------
        >>> limit("step=5%").is_broken(Fraction(100), Fraction(105))
        False
        """
        return worsening(self.metric, base, other) > allowed(self.most, base)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Values of a metric on one side, and the run of each, ascending."""

    runs: tuple[str, ...]
    values: tuple[int | float, ...]

    @property
    def mean(self) -> Fraction:
        """Their mean, exactly; there is at least one."""
        return Fraction(sum(map(Fraction, self.values))) / len(self.values)


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric on both sides.

    Attributes
    ----------
    base, other
        Its samples.
    unit
        ``ns``, ``bytes``, or ``""`` for others.
    note
        What people should know about it, or ``""``.
    is_beside
        Its samples are those of the rows of the comparison, in their order.
    """

    base: Sampled
    other: Sampled
    unit: str
    note: str = ""
    is_beside: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a limit for two sides.

    Attributes
    ----------
    limit, measure
        The limit, and what it applies to.
    base, other
        Means of both sides.
    q_value
        As in `profframe.diff`, among all metrics that have a limit; None without repetitions.
    is_above
        The change is above the limit.
    is_broken
        The change is above the limit, and more than noise if there are repetitions.
    """

    limit: Limit
    measure: Measure
    base: Fraction
    other: Fraction
    q_value: float | None
    is_above: bool
    is_broken: bool


@dataclass(frozen=True, slots=True)
class Growth:
    """A row that grew by more than the limit, or all rows of a kind if ``name`` is None.

    Attributes
    ----------
    what, name
        The row; a row without a name has the name ``""``.
    base_ns, other_ns
        Its time in both sides.
    """

    what: str
    name: str | None
    base_ns: int
    other_ns: int


def percent(text: str) -> Fraction:
    """Read a limit in percent.

    Examples
    --------
    >>> percent("2.5%")
    Fraction(1, 40)
    """
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ParameterError(f"a limit is a number and %, such as 5%, not {text!r}")
    return Fraction(match[1]) / 100


def limit(text: str) -> Limit:
    """Read a limit: ``5%``, ``METRIC=5%``, or of times and bytes ``METRIC=2ms``.

    Parameters
    ----------
    text
        What was written. The last ``=`` counts, so that names may contain some.

    Returns
    -------
    Limit
        The metric, and how much worse it may get.

    Raises
    ------
    UnknownNameError
        There is no such metric; the message lists those that exist.
    ParameterError
        The text is not a limit, or not of the metric's unit.

    Examples
    --------
    >>> limit("op:aten::mm=2.5ms").most.value, limit("category:gemm=5%").most
    (Fraction(2500000, 1), Fraction(1, 20))
    """
    written_metric, equals, size = text.rpartition("=")
    metric = written_metric.lstrip()
    if not equals:
        return Limit("", percent(size))
    if not metric.strip():
        raise ParameterError(f"a limit is 5% or METRIC=5%, not {text!r}")
    if metric.partition(":")[0] not in KINDS or ":" not in metric:
        metric = metric.rstrip()
    if (match := _PERCENT.fullmatch(size)) is not None:
        most: Fraction | Amount = Fraction(match[1]) / 100
    elif (match := _AMOUNT.fullmatch(size)) is not None:
        most = Amount(Fraction(match[1]), match[2])
    else:
        raise ParameterError(
            f"a limit is a percentage, such as 5%, or an amount, such as 2ms or 200MB, not {size!r}"
        )
    unit = unit_of(metric)
    if isinstance(most, Amount):
        if most.text not in _UNITS.get(unit, {}):
            raise ParameterError(f"a limit of {metric} looks like {_EXAMPLES[unit]}, not {size!r}")
        most = Amount(most.value * _UNITS[unit][most.text], size.strip())
    return Limit(metric, most)


def unit_of(metric: str) -> str:
    """The unit of a metric: ``ns``, ``bytes``, or ``""`` for any other or none.

    Examples
    --------
    >>> unit_of("step"), unit_of("peak_device_bytes"), unit_of("busy_share")
    ('ns', 'bytes', '')
    """
    kind, colon, _ = metric.partition(":")
    columns = run_metrics()
    if not (kind in KINDS if colon else metric in WORDS or metric in columns):
        raise _unknown(metric, columns)
    if metric == "memory" or metric.endswith("_bytes"):
        return "bytes"
    return "ns" if colon or metric in WORDS or metric.endswith("_ns") else ""


def run_metrics() -> list[str]:
    """Columns of the answer `runs` that are metrics."""
    return [column.name for column in find("runs").columns if column.name not in _NO_METRIC]


def _unknown(metric: str, columns: Sequence[str]) -> UnknownNameError:
    """The known metrics, and the nearest one."""
    kind, colon, name = metric.partition(":")
    choices = KINDS if colon else (*WORDS, *columns, *KINDS)
    (near,) = difflib.get_close_matches(kind, choices, n=1, cutoff=0.6) or ("",)
    if colon and not near:
        near = f"op:{metric}"
    elif near in KINDS:
        near = f"{near}:{name if colon else 'NAME'}"
    hint = f"; did you mean {near!r}?" if near else ""
    named = ", ".join(f"{word}:NAME" for word in KINDS)
    return UnknownNameError(
        f"no metric named {metric!r}{hint} (known: {', '.join(WORDS)}; {named}, where NAME may be "
        f"a pattern; of each run: {', '.join(columns)})"
    )


def written(most: Fraction | Amount) -> str:
    """A limit for people.

    Examples
    --------
    >>> written(Fraction(1, 40))
    '2.5 %'
    """
    return most.text if isinstance(most, Amount) else f"{float(100 * most):.12g} %"


def allowed(most: Fraction | Amount, base: Fraction) -> Fraction:
    """By how much a metric may get worse.

    Examples
    --------
    >>> allowed(Fraction(1, 20), Fraction(-200))
    Fraction(10, 1)
    """
    return most.value if isinstance(most, Amount) else most * abs(base)


def worsening(metric: str, base: Fraction, other: Fraction) -> Fraction:
    """By how much a metric got worse: for most how much it grew, for a few how much it fell.

    Examples
    --------
    >>> worsening("busy_share", Fraction(3), Fraction(1))
    Fraction(2, 1)
    """
    return base - other if metric in MORE_IS_BETTER else other - base


def verdicts(
    limits: Iterable[Limit],
    measures: Mapping[str, Measure],
    chances: Mapping[str, float] = MappingProxyType({}),
) -> list[Verdict]:
    """Check metrics against their limits.

    A limit is broken if the change of the means is above it, and, if both sides have several
    samples, only if that change is significant: Welch's test of `profframe.analysis.stats.noise`,
    with q at most 5 % among all metrics that have a limit. ``chances`` are p-values of some metrics
    that were tested together with other rows; the rest is tested separately.

    Examples
    --------
    >>> sides = (Sampled(("r",) * 3, values) for values in ((100, 101, 99), (110, 111, 109)))
    >>> (found,) = verdicts([limit("step=5%")], {"step": Measure(*sides, "ns")})
    >>> float(found.base), float(found.other), found.is_broken
    (100.0, 110.0, True)
    """
    by_metric = {
        metric: chance
        for metric, measure in measures.items()
        if (chance := chances.get(metric, _chance(measure))) is not None
    }
    parts = noise.false_discovery(np.array([*by_metric.values()], np.float64))
    q_values = dict(zip(by_metric, map(float, parts), strict=True))
    held = []
    for one in limits:
        measure = measures[one.metric]
        base, other = measure.base.mean, measure.other.mean
        q_value = q_values.get(one.metric)
        is_above = one.is_broken(base, other)
        is_noise = q_value is not None and q_value > noise.LEVEL
        held.append(
            Verdict(one, measure, base, other, q_value, is_above, is_above and not is_noise)
        )
    return held


def _chance(measure: Measure) -> float | None:
    """The probability of such a difference by noise; None if a side has one sample."""
    sides = [
        noise.Samples(
            np.zeros(len(side.values), np.int64),
            np.arange(len(side.values)),
            np.array(side.values, np.float64),
            1,
            pl.Series(side.runs, dtype=pl.String).rle_id().cast(pl.Int64).to_numpy(),
        )
        for side in (measure.base, measure.other)
    ]
    if not all(side.is_repeated for side in sides):
        return None
    return float(noise.compare(*sides).p[0])


def growths(rows: pl.DataFrame, limit: Fraction) -> list[Growth]:
    """Find what grew by more than a limit.

    These count: the self time of all ops; the time of all kernels; and each row, also of
    annotations, that differs significantly and took at least 1 % of the time of its kind in the
    base. Without repeated samples nothing is significant, so only the two totals count. A total
    that was zero and no longer is has grown by more than any limit.

    Examples
    --------
    >>> from profframe import diff
    >>> same = "examples/cpu_training.json.gz"
    >>> growths(diff(same, same), percent("0%"))
    []
    """
    sums = {
        what: (int(base), int(other))
        for what, base, other in totals(rows).select("what", "base_ns", "other_ns").iter_rows()
    }
    growths = [Growth(what, None, *sums[what]) for what in sums if what != "annotation"]
    significant = rows.filter(pl.col("significant")).select("what", "name", "base_ns", "other_ns")
    growths += [
        Growth(what, name or "", base, other)
        for what, name, base, other in significant.iter_rows()
        if base > 0 and base >= LEAST_SHARE * sums[what][0]
    ]
    return [
        growth
        for growth in growths
        if growth.other_ns - growth.base_ns > limit * abs(growth.base_ns)
    ]


def totals(rows: pl.DataFrame) -> pl.DataFrame:
    """Add up the rows of each kind; annotations nest, so their sum is not a time."""
    times = ("base_ns", "other_ns", "change_ns")
    return rows.group_by("what", maintain_order=True).agg(
        *(pl.col(name).sum() for name in times),
        *((pl.col("status") == name).sum().alias(name) for name in ("added", "removed", "changed")),
        pl.col("significant").sum(),
    )
