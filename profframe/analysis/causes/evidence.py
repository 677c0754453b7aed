"""Statistical evidence for causes from paired calls; see `analysis.stats.call_differences`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes.call_times import CallTimes
from profframe.analysis.stats import noise
from profframe.analysis.stats.call_differences import LEAST

LEVEL: Final = 0.01
"""Expected share of noise among what is called more than that."""
LEAST_SHARE: Final = 1e-3
"""Smaller shares of a step are not tested: they say nothing about the step."""
SCHEMA: Final = {
    "row": pl.Int64,
    "call_change": pl.Float64,
    "call_drift": pl.Float64,
    "call_p": pl.Float64,
    "is_evidence": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Drifts:
    """By how much the median kernel and the median op change: logarithms of ratios."""

    work: float
    host: float


def drifts(times: Sequence[CallTimes]) -> Drifts:
    """Drifts of the times of work and of ops; 0 where nothing is paired."""
    return Drifts(*(_drift(of) for of in times))


def slower(times: CallTimes, mean_ns: int) -> pl.DataFrame:
    """``slot`` and ``name`` of calls that take more or less time by name, if any evidence is."""
    names = _tested(times.by_name, mean_ns)
    return times.names.join(names.filter("is_evidence").select("name"), on="name").sort("slot")


def evidence(times: CallTimes, rows: pl.DataFrame, mean_ns: int) -> pl.DataFrame:
    """Test each row by its calls: columns of `SCHEMA`; rows without calls are left out.

    A row is tested by its own calls and by all calls of the same name, if they change alike.

    Parameters
    ----------
    times
        Calls of both sides.
    rows
        ``slot`` and ``row``.
    mean_ns
        The longer mean step.
    """
    rows = rows.join(times.names.select("slot"), on="slot").unique().sort("row", "slot")
    if rows.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    units = rows.with_columns(unit=pl.col("row").rank("dense").cast(pl.Int64) - 1)
    of_rows = times.changes(units.select("slot", "unit"))
    # A kernel of many layers is a slot in each, with few calls: all calls of its name together may
    # show what none of the slots shows alone.
    of_names = times.by_name
    both = pl.concat([of_rows, of_names], how="vertical")
    tested = _tested(both, mean_ns)
    of_names = tested.tail(of_names.height).select(
        "name", name_change="change", name_p="p", is_name="is_evidence"
    )
    made = tested.head(of_rows.height).join(of_names, on="name", maintain_order="left")
    # A row profits from its name only if it changes in the same direction.
    alike = pl.col("change") * pl.col("name_change").sign() >= LEAST
    by_name = pl.col("is_name") & alike & ~pl.col("is_evidence")
    numbers = units.group_by("unit").agg(pl.col("row").first())
    return (
        made.join(numbers, on="unit")
        .with_columns(
            call_p=pl.when(by_name).then("name_p").otherwise("p"),
            is_evidence=pl.col("is_evidence") | by_name,
        )
        .rename({"change": "call_change", "drift": "call_drift"})
        .select(*SCHEMA)
    )


def _drift(times: CallTimes) -> float:
    of = times.by_name.select(pl.col("change") + pl.col("drift")).to_series()
    return float(of.drop_nans().median() or 0.0)  # type: ignore[arg-type]


def _tested(changes: pl.DataFrame, mean_ns: int) -> pl.DataFrame:
    """Changes with ``is_evidence``; what is small, or was not repeated, is none."""
    p = changes["p"].to_numpy()
    is_tested = np.isfinite(p) & (changes["ns"].to_numpy() >= LEAST_SHARE * mean_ns)
    q = np.ones(changes.height)
    q[is_tested] = noise.false_discovery(p[is_tested])
    return changes.with_columns(is_evidence=pl.Series(q <= LEVEL) & pl.col("is_beyond"))
