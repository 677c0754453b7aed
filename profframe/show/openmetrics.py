"""Rows as OpenMetrics, which Prometheus and others collect: gauges with labels.

A column is a metric, whose name ends in its unit: nanoseconds become seconds, shares ratios. What
is NULL has no sample.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from profframe.show.units import visible

if TYPE_CHECKING:
    import polars as pl

_UNITS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "_ns": ("_seconds", "seconds"),
        "_bytes": ("_bytes", "bytes"),
        "_share": ("_ratio", "ratio"),
        "_per_s": ("_per_second", ""),
    }
)
"""Ending of a metric, and its unit, by the ending of a column."""
_NS_PER_S: Final = 10**9
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_UTC: Final = "utc"
_MOST_EXACT: Final = 2**53
"""Integers beyond this one are rounded by those who read them as doubles."""


@dataclass(slots=True)
class _Family:
    unit: str
    help: str
    samples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MetricRows:
    """Rows whose numbers are metrics.

    Attributes
    ----------
    prefix
        Begins the name of each metric.
    rows
        The rows.
    labels
        Columns that tell them apart; other texts are left out.
    """

    prefix: str
    rows: pl.DataFrame
    labels: tuple[str, ...]


def of_runs(rows: pl.DataFrame) -> str:
    """Rows of the answer `runs`, or of some of its columns.

    Examples
    --------
    >>> import polars as pl
    >>> row = {
    ...     "run": "a",
    ...     "clock": "utc",
    ...     "steps": 3,
    ...     "step_p50_ns": 1_500_000_000,
    ...     "kernels": None,
    ... }
    >>> print(of_runs(pl.DataFrame([row])), end="")
    # TYPE profframe_run_steps gauge
    # HELP profframe_run_steps steps, of profframe's runs
    profframe_run_steps{run="a"} 3
    # TYPE profframe_run_step_p50_seconds gauge
    # UNIT profframe_run_step_p50_seconds seconds
    # HELP profframe_run_step_p50_seconds step_p50_ns, of profframe's runs
    profframe_run_step_p50_seconds{run="a"} 1.5
    # EOF
    """
    import polars as pl

    if {"start_ns", "clock"} <= {*rows.columns}:  # other clocks begin anywhere
        is_utc = pl.col("clock") == _UTC
        rows = rows.with_columns(pl.when(is_utc).then("start_ns").alias("start_ns"))
    return exposition([MetricRows("profframe_run", rows, ("run",))], "runs")


def of_check(metrics: pl.DataFrame, regressions: pl.DataFrame, worse: Iterable[str]) -> str:
    """What `profframe check` compares, and the ops and kernels that take longer.

    Parameters
    ----------
    metrics
        ``metric base_value other_value ratio p_value``.
    regressions
        As `Trace.regressions` returns them.
    worse
        Metrics that got worse by more than their limits.
    """
    import polars as pl

    broken = pl.col("metric").is_in([*worse]).cast(pl.Int64).alias("worse")
    common = metrics.select("metric", "ratio", "p_value", broken)
    parts = [MetricRows("profframe_check", common, ("metric",))]
    values = ("base_value", "other_value")
    for ending in ("_ns", "_bytes", "_share", ""):
        of_unit = metrics.filter(
            pl.col("metric").str.extract("(_ns|_bytes|_share)$").fill_null("") == ending
        )
        names = {name: name.removesuffix("_value") + ending for name in values}
        parts.append(
            MetricRows(
                "profframe_check", of_unit.select("metric", *values).rename(names), ("metric",)
            )
        )
    parts.append(MetricRows("profframe_regression", regressions, ("what", "name")))
    return exposition(parts, "check")


def exposition(parts: Sequence[MetricRows], source: str) -> str:
    """The text of some rows, ``source`` for what they are of."""
    import polars as pl

    families: dict[str, _Family] = {}
    for part in parts:
        labels = _labels(part)
        for column in part.rows.iter_columns():
            if (
                not (column.dtype.is_numeric() or column.dtype == pl.Boolean)
                or column.name in part.labels
            ):
                continue
            name, unit, is_time = _named(f"{part.prefix}_{column.name}")
            family = families.setdefault(
                name, _Family(unit, f"{column.name}, of profframe's {source}")
            )
            family.samples += [
                f"{name}{own} {_number(value, is_time=is_time)}"
                for own, value in zip(labels, column.to_list(), strict=True)
                if value is not None
            ]
    return "".join(_lines(families))


def _lines(families: Mapping[str, _Family]) -> Iterator[str]:
    for name, family in families.items():
        if family.samples:
            yield f"# TYPE {name} gauge\n"
            if family.unit:
                yield f"# UNIT {name} {family.unit}\n"
            yield f"# HELP {name} {family.help}\n"
            yield from (f"{sample}\n" for sample in family.samples)
    yield "# EOF\n"


def _named(column: str) -> tuple[str, str, bool]:
    """Name and unit of a metric, and whether its values are nanoseconds."""
    name = _NO_NAME.sub("_", column)
    for ending, (own, unit) in _UNITS.items():
        if name.endswith(ending):
            return name.removesuffix(ending) + own, unit, ending == "_ns"
    return (name, "ratio", False) if name.endswith("_ratio") else (name, "", False)


def _number(value: float, *, is_time: bool) -> str:
    """A value; whole numbers as such where doubles have them."""
    if isinstance(value, bool):
        return str(int(value))
    if is_time:
        value /= _NS_PER_S
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    is_whole = value == int(value) and abs(value) <= _MOST_EXACT
    return str(int(value)) if is_whole else repr(float(value))


def _labels(part: MetricRows) -> list[str]:
    """Labels of each row."""
    columns = [(name, part.rows[name].to_list()) for name in part.labels if name in part.rows]
    return [
        "{" + ",".join(f'{name}="{_text(values[row])}"' for name, values in columns) + "}"
        if columns
        else ""
        for row in range(part.rows.height)
    ]


def _text(value: object) -> str:
    """A label's value; what would act on a terminal is visible, and a digest keeps it apart."""
    text = "" if value is None else str(value)
    plain = text.replace("\n", "")
    if (shown := visible(plain)) != plain:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        text = f"{shown}~{digest}"
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
