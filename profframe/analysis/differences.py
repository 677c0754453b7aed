"""Row-wise comparison of two sides, with confidence intervals and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.stats import noise

WHAT: Final = ("op", "kernel", "annotation")
"""Kinds of rows, in their order."""
_SIDES: Final = ("base", "other")
_KEY: Final = ("what", "name", "device")
_WORK: Final = ("flops", "bytes")
_PEAKS: Final = {"flop_share": "compute", "bandwidth_share": "memory"}
_TESTS: Final = ("change_low_ns", "change_high_ns", "p_value", "q_value", "significant")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Measurements of a side.

    Attributes
    ----------
    rows
        ``sample what name``, and columns of the answer `run_samples`: one row per rank.
    samples
        ``sample run step``: all runs, or all steps, ascending.
    pace
        ``what sample pace``: how slow a sample is as a whole. Times are divided by it before they
        are tested, unless it is None.
    spread
        Rows in no sample that count, spread evenly over all samples. Rows with some of it are not
        tested: an even share says nothing about the noise.
    """

    rows: pl.DataFrame
    samples: pl.DataFrame
    pace: pl.DataFrame | None = None
    spread: pl.DataFrame | None = None


def compare(
    base: Side, other: Side, *, level: float = noise.LEVEL, allow_single: bool = False
) -> pl.DataFrame:
    """Match the rows of two sides by what and name.

    With ``allow_single`` a single sample of one side is tested, too, by the noise of the other.
    """
    sides = dict(zip(_SIDES, (base, other), strict=True))
    joined = _joined({prefix: _means(side) for prefix, side in sides.items()})
    change, total = pl.col("change_ns"), pl.col("change_ns").sum().over("what")
    rows = joined.with_columns(
        *(
            pl.lit(side.samples.height, pl.Int64).alias(f"{prefix}_samples")
            for prefix, side in sides.items()
        ),
        change_ns=pl.col("other_ns") - pl.col("base_ns"),
        ratio=pl.when(pl.col("base_ns") != 0).then(pl.col("other_ns") / pl.col("base_ns")),
        status=_status(),
        warning=_warning(),
    ).with_columns(
        contribution=pl.when(pl.col("what") != "annotation", total != 0).then(change / total)
    )
    tests = _tests(rows, base, other, level, allow_single)
    return (
        rows.join(tests, on="row", how="left", maintain_order="left")
        .sort(
            pl.col("what").replace_strict(WHAT, range(len(WHAT))),
            change.abs(),
            pl.max_horizontal("base_ns", "other_ns"),
            "name",
            descending=[False, True, True, False],
            nulls_last=True,
        )
        .select(COLUMNS)
    )


COLUMNS: Final = (
    *("what", "name"),
    *("base_calls", "other_calls", "base_ns", "other_ns", "change_ns", "ratio", "contribution"),
    *("status", "change_low_ns", "change_high_ns", "p_value", "q_value", "significant"),
    *("base_call_ns", "other_call_ns", "warning"),
    *("base_device_ns", "other_device_ns"),
    *("base_flops", "other_flops", "base_flops_per_s", "other_flops_per_s"),
    *("base_bytes", "other_bytes", "base_bytes_per_s", "other_bytes_per_s"),
    *("base_flop_share", "other_flop_share", "base_bandwidth_share", "other_bandwidth_share"),
    *("device", "base_samples", "other_samples"),
)


def _means(side: Side) -> pl.DataFrame:
    """Means per sample and rates of a side."""
    number = max(side.samples.height, 1)
    measures = ("spent_ns", "device_ns", *_WORK)
    peaks = [f"{peak}_{unit}" for peak in _PEAKS.values() for unit in ("ps", "ns")]
    rows = side.rows
    if side.spread is not None:  # these are in no sample
        rows = pl.concat([rows, side.spread], how="diagonal_relaxed")
    sums = rows.group_by(_KEY).agg(
        pl.col("calls").sum(),
        *(_sum_or_null(name) for name in (*measures, *(f"{work}_ns" for work in _WORK), *peaks)),
    )
    return sums.select(
        *_KEY,
        # polars multiplies by 1 / number, which is not always the nearest double.
        pl.col("calls").map_batches(lambda calls: calls.to_numpy() / number, pl.Float64),
        pl.when(pl.col("calls") > 0)
        .then(_rounded_mean(pl.col("spent_ns"), pl.col("calls")))
        .alias("call_ns"),
        *(_rounded_mean(pl.col(name), number) for name in measures),
        *(_per_second(work) for work in _WORK),
        *(_share_of_peak(name, peak) for name, peak in _PEAKS.items()),
    ).rename({"spent_ns": "ns"})


def _joined(means: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Rows that either side has; a missing row takes no time."""
    base, other = (
        frame.rename({name: f"{side}_{name}" for name in frame.columns if name not in _KEY})
        for side, frame in means.items()
    )
    joined = base.join(other, on=_KEY, how="full", coalesce=True, nulls_equal=True)
    counts = [
        pl.when(pl.col(f"{side}_calls").is_null())
        .then(0)
        .otherwise(f"{side}_{name}")
        .alias(f"{side}_{name}")
        for side in means
        for name in ("calls", "ns", "device_ns")
    ]
    return joined.sort(_KEY).with_row_index("row").with_columns(counts)


def _tests(
    rows: pl.DataFrame, base: Side, other: Side, level: float, allow_single: bool
) -> pl.DataFrame:
    """Confidence intervals and tests of the rows, if the sides have several samples.

    With ``allow_single`` one side with several is enough. A side with a spread has none of them.
    """
    keys = rows.select("row", *_KEY)
    for side in (base, other):
        if side.spread is not None:
            keys = keys.join(side.spread, on=_KEY, how="anti", nulls_equal=True)
    keys = keys.sort("row").with_row_index("place")
    samples = [_values(side, keys) for side in (base, other)]
    enough = (any if allow_single else all)(side.is_repeated for side in samples)
    if not (keys.height and enough):
        types = (pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.Boolean)
        none = (pl.lit(None, type_).alias(name) for name, type_ in zip(_TESTS, types, strict=True))
        return keys.select("row", *none)
    comparison = noise.compare(*samples)
    parts = noise.false_discovery(comparison.p)
    columns = (comparison.low, comparison.high, comparison.p, parts, parts <= level)
    tests = keys.select("row").with_columns(
        pl.Series(name, values) for name, values in zip(_TESTS, columns, strict=True)
    )
    low, high = _TESTS[:2]
    return tests.with_columns(
        pl.col(low).floor().cast(pl.Int64), pl.col(high).ceil().cast(pl.Int64)
    )


def chances(
    base: Side, other: Side, measures: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> list[float] | None:
    """The probability that noise makes such differences; None if a side has one sample.

    Parameters
    ----------
    base, other
        Sides whose rows show what noise is typical.
    measures
        Values of both sides, one for each sample; they are tested as additional rows.
    """
    columns = [side.rows.select(_KEY) for side in (base, other)]
    keys = pl.concat(columns, how="vertical_relaxed").unique().sort(_KEY).with_row_index("place")
    sides = [_values(side, keys) for side in (base, other)]
    if not all(side.is_repeated for side in sides):
        return None
    extended = [
        noise.Samples(
            np.concatenate([side.row, side.rows + np.repeat(np.arange(len(values)), number)]),
            np.concatenate([side.sample, np.tile(np.arange(number), len(values))]),
            np.concatenate([side.value, np.array(values, np.float64).ravel()]),
            side.rows + len(values),
            side.runs,
        )
        for side, values in zip(sides, zip(*measures, strict=True), strict=True)
        for number in (side.runs.size,)
    ]
    comparison = noise.compare(*extended)
    return [float(chance) for chance in comparison.p[keys.height :]]


def _values(side: Side, keys: pl.DataFrame) -> noise.Samples:
    """The times of a side, sample by sample, its ranks added up."""
    times = (
        side.rows.join(keys, on=_KEY, nulls_equal=True)
        .group_by("what", "place", "sample")
        .agg(pl.col("spent_ns").sum())
        .sort("place", "sample")
    )
    if side.pace is not None:
        times = times.join(
            side.pace, on=["what", "sample"], how="left", maintain_order="left"
        ).with_columns(pl.col("spent_ns") / pl.col("pace").fill_null(1.0))
    return noise.Samples(
        times["place"].cast(pl.Int64).to_numpy(),
        times["sample"].cast(pl.Int64).to_numpy(),
        times["spent_ns"].cast(pl.Float64).to_numpy(),
        keys.height,
        side.samples["run"].rle_id().cast(pl.Int64).to_numpy(),
    )


def _sum_or_null(name: str) -> pl.Expr:
    """The sum, NULL if there is nothing to add."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)


def _rounded_mean(total: pl.Expr, number: int | pl.Expr) -> pl.Expr:
    """Half up, in integers."""
    return total // number + (2 * (total % number) + number) // (2 * number)


def _per_second(work: str) -> pl.Expr:
    time = pl.col(f"{work}_ns")
    return pl.when(time > 0).then(1e9 * pl.col(work) / time).alias(f"{work}_per_s")


def _share_of_peak(name: str, peak: str) -> pl.Expr:
    """The share of its peak that work achieved, over the time of work with a peak."""
    time = pl.col(f"{peak}_ns")
    return pl.when(time > 0).then(pl.col(f"{peak}_ps") / (1000 * time)).alias(name)


def _warning() -> pl.Expr:
    """A warning about a change of the total if the number of calls differs; else NULL."""
    calls = [pl.col(f"{side}_calls") for side in _SIDES]
    growths = [
        (100 * (after / before - 1)).round(1)
        for before, after in (calls, [pl.col(f"{side}_call_ns") for side in _SIDES])
    ]
    signed = [
        pl.concat_str(
            pl.when(growth >= 0).then(pl.lit("+")).otherwise(pl.lit("")), growth + 0.0, pl.lit(" %")
        )
        for growth in growths
    ]
    return pl.when(calls[0] != calls[1], calls[0] > 0, calls[1] > 0, growths[1].is_finite()).then(
        pl.format("{} calls, {} per call", *signed)
    )


def _status() -> pl.Expr:
    calls, ns = ([pl.col(f"{side}_{name}") for side in _SIDES] for name in ("calls", "ns"))
    return (
        pl.when(calls[0] == 0)
        .then(pl.lit("added"))
        .when(calls[1] == 0)
        .then(pl.lit("removed"))
        .when(calls[0] == calls[1], ns[0].eq_missing(ns[1]))
        .then(pl.lit("equal"))
        .otherwise(pl.lit("changed"))
    )
