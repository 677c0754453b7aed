"""Ops and kernels that take longer than in several earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.differences import Side, compare
from profframe.analysis.stats import typical
from profframe.analysis.stats.distributions import Float64

LEVEL: Final = 0.01
"""Share of the rows that may be noise; and how often there is any row if runs do not differ."""
COLUMNS: Final = (
    *("what", "name", "base_calls", "other_calls", "base_ns", "other_ns", "change_ns", "ratio"),
    *("pace", "change_low_ns", "change_high_ns", "p_value", "q_value", "significant"),
    *("base_runs", "other_runs"),
)

_KEY: Final = ("what", "name")
_PACE_ROWS: Final = 1000
"""The pace is taken from the largest rows of a kind; a bound on memory."""


def compare_runs(samples: pl.DataFrame, base: Sequence[str], other: Sequence[str]) -> pl.DataFrame:
    """Compare every op and kernel of some runs with those of a baseline.

    Times are tested relative to the pace of their run. A run without rows counts, too.
    """
    rows = samples.filter(pl.col("what") != "annotation")
    sides = [_side(rows, runs) for runs in (base, other)]
    paces = _paces(sides)
    with_pace = [
        Side(side.rows, side.samples, pace) for side, pace in zip(sides, paces, strict=True)
    ]
    mean_pace = paces[1].group_by("what").agg(pl.col("pace").mean())
    rows = compare(*with_pace, level=LEVEL, allow_single=True)
    return rows.join(mean_pace, on="what", how="left", maintain_order="left")


def regressions(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that take significantly longer, the largest growth first."""
    at_equal_pace = pl.col("change_low_ns") + pl.col("change_high_ns")
    return answer_rows(rows.filter("significant", pl.col("change_ns") > 0, at_equal_pace > 0))


def answer_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns of the answer, the largest growth first."""
    return (
        rows.rename({"base_samples": "base_runs", "other_samples": "other_runs"})
        .sort("change_ns", "what", "name", descending=[True, False, False], nulls_last=True)
        .select(COLUMNS)
    )


def _side(rows: pl.DataFrame, runs: Sequence[str]) -> Side:
    """A side whose samples are its runs; one without rows is a sample, too, and counts as 0."""
    samples = (
        pl.DataFrame({"run": sorted(runs)}, schema={"run": pl.String})
        .with_columns(step=pl.lit(None, pl.Int64))
        .with_row_index("sample")
    )
    own = rows.drop("rank", "step").join(samples.drop("step"), on="run").drop("run")
    return Side(own, samples)


def _paces(sides: Sequence[Side]) -> list[pl.DataFrame]:
    """Pace of each run of both sides, for ops and for kernels."""
    numbers = [side.samples.height for side in sides]
    shifted = (
        side.rows.select(*_KEY, pl.col("sample").cast(pl.Int64) + shift, "spent_ns")
        for side, shift in zip(sides, (0, numbers[0]), strict=True)
    )
    times = pl.concat(shifted).group_by(*_KEY, "sample").agg(pl.col("spent_ns").sum())
    groups = np.repeat(np.arange(2.0), numbers)
    paces = [pl.DataFrame(schema={"what": pl.String, "sample": pl.UInt32, "pace": pl.Float64})] * 2
    for (what,), rows in sorted(times.group_by("what")):
        pace = typical.pace(_matrix(rows, groups.size), groups)
        parts = pace[: numbers[0]], pace[numbers[0] :]
        paces = [
            frame.vstack(_frame(str(what), part)) for frame, part in zip(paces, parts, strict=True)
        ]
    return paces


def _matrix(times: pl.DataFrame, number: int) -> Float64:
    """Times of the largest rows, by row and sample; 0 if there is none."""
    totals = times.group_by("name").agg(pl.col("spent_ns").sum().alias("all_ns"))
    largest = totals.sort("all_ns", "name", descending=[True, False], nulls_last=True)
    names = largest.head(_PACE_ROWS).with_row_index("row").drop("all_ns")
    cells = times.join(names, on="name", nulls_equal=True)
    values = np.zeros((names.height, number))
    row, sample = (cells[name].cast(pl.Int64).to_numpy() for name in ("row", "sample"))
    values[row, sample] = cells["spent_ns"].fill_null(0).cast(pl.Float64).to_numpy()
    return values


def _frame(what: str, pace: Float64) -> pl.DataFrame:
    """Paces of ops or of kernels, one row per sample."""
    return (
        pl.DataFrame({"pace": pace})
        .with_row_index("sample")
        .select(pl.lit(what).alias("what"), "sample", "pace")
    )
