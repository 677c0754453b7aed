"""Causes as a table: a row for the pieces of each cause, with its calls and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes import cause_kinds
from profframe.analysis.causes.call_times import WORK, CallTimes
from profframe.analysis.causes.evidence import drifts, evidence
from profframe.analysis.causes.piece_rows import OF_ALL, OF_OP
from profframe.analysis.causes.sides import StepSide
from profframe.analysis.causes.significance import named_or_noise, tests, with_evidence
from profframe.analysis.causes.slots import SIDES
from profframe.intervals import Ints

_SHOWN: Final = 3
_BUNDLE: Final = ("cause", "bundle_kind", "bundle")
_CLOCK: Final = 0.02
"""A clock that differs by a smaller share does not count."""
_BESIDE: Final = 0.1
"""Concurrent work counts if its share of the kernel's time differs by at least this."""
_SUMS: Final = ("calls", "took", "beside", "clock", "clock_took", "flops", "flops_took")
_KEY: Final = ("cause", "base_op", "other_op", "base_kernel", "other_kernel")
SCHEMA: Final = (
    *_KEY,
    *("base_ns", "other_ns", "change_ns", "share"),
    *("change_low_ns", "change_high_ns", "p_value", "significant"),
    *("base_calls", "other_calls", "base_call_ns", "other_call_ns"),
    *("base_flops_per_s", "other_flops_per_s"),
    *("base_shapes", "other_shapes", "base_types", "other_types"),
    *("reason", "base_clock_mhz", "other_clock_mhz", "places"),
    *("base_run", "base_rank", "base_event_ids", "other_run", "other_rank", "other_event_ids"),
)
"""Columns of the causes."""


def table(
    rows: pl.DataFrame,
    about: pl.DataFrame,
    sides: tuple[StepSide, StepSide],
    times: Sequence[CallTimes],
) -> pl.DataFrame:
    """One row per cause and what it is about, the largest change first; columns of `SCHEMA`.

    ``times`` has those of work and of ops.
    """
    names = _bundles(rows, about)
    lines = rows.group_by(_BUNDLE).agg(
        pl.col("line_name").filter(pl.col("side") == name).min().alias(f"{name}_line")
        for name in SIDES
    )
    names = names.join(lines, on=_BUNDLE, how="left")
    has_line = pl.any_horizontal(pl.col(f"{name}_line").is_not_null() for name in SIDES)
    is_code = pl.col("cause").is_in([cause_kinds.CODE, cause_kinds.LOADING, cause_kinds.RECOMPILE])
    is_of_all = pl.col("bundle_kind") == OF_ALL
    names = names.with_columns(
        pl.when(is_code & has_line)
        .then(f"{name}_line")
        .when(is_of_all)
        .then(None)
        .otherwise(f"{name}_op")
        .alias(f"{name}_op")
        for name in SIDES
    ).with_columns(
        pl.when(is_code | (pl.col("cause") == cause_kinds.LAUNCH))
        .then(None)
        .otherwise(f"{name}_kernel")
        .alias(f"{name}_kernel")
        for name in SIDES
    )
    keyed = names.with_columns(row=pl.struct(_KEY).rank("dense").cast(pl.Int64) - 1)
    values = rows.join(keyed.select(*_BUNDLE, "row"), on=_BUNDLE)
    made = (
        keyed.group_by("row")
        .agg(
            pl.col(_KEY).first(),
            pl.col(
                "base_shapes",
                "other_shapes",
                "base_types",
                "other_types",
                "base_run",
                "base_rank",
                "other_run",
                "other_rank",
            ).first(),
            pl.col("base_event_ids", "other_event_ids").explode(),
            *(pl.col(f"{name}_{of}").sum() for name in SIDES for of in _SUMS),
            pl.col("launch_differs", "is_other").any(),
            pl.len().alias("places"),
        )
        .sort("row")
        .with_columns(column for name in SIDES for column in _per_call(name))
        .with_columns(reason=_reason())
    )
    tested = tests(values, made.height, sides)
    made = pl.concat([made, tested], how="horizontal")
    of_calls = _of_calls(rows, keyed, sides, times)
    of_runs = drifts(times)
    made = with_evidence(made, of_calls, sides, of_runs)
    return _summed(named_or_noise(made, values, sides, of_runs), sides)


def _of_calls(
    rows: pl.DataFrame,
    keyed: pl.DataFrame,
    sides: tuple[StepSide, StepSide],
    times: Sequence[CallTimes],
) -> pl.DataFrame:
    """Evidence from a row's calls, where all of it is work or ops that both sides have."""
    is_paired = pl.col("cause").is_in(WORK) | (pl.col("bundle_kind") == OF_OP)
    slots = rows.filter(is_paired).select("slot", *_BUNDLE).unique()
    of_rows = slots.join(keyed.select(*_BUNDLE, "row"), on=_BUNDLE).select("slot", "row")
    longest = max(of.mean_ns for of in sides)
    return pl.concat(evidence(of, of_rows, longest) for of in times).unique(
        "row", keep="first", maintain_order=True
    )


def _bundles(rows: pl.DataFrame, about: pl.DataFrame) -> pl.DataFrame:
    """The names of each bundle of a cause."""
    slot = rows.select(*_BUNDLE, "slot").unique()
    members = slot.join(about.drop("cause"), on="slot", how="left")
    columns = []
    for name in SIDES:
        kernel = pl.col(f"{name}_short_name").filter(pl.col("is_work"))
        columns += [
            _joined(kernel).alias(f"{name}_kernel"),
            _joined(pl.col(f"group_{name}_name")).alias(f"{name}_op"),
            pl.col(f"op_{name}_shapes").drop_nulls().first().alias(f"{name}_shapes"),
            pl.col(f"op_{name}_types").drop_nulls().first().alias(f"{name}_types"),
            pl.col(f"{name}_event_id").drop_nulls().alias(f"{name}_event_ids"),
            pl.col(f"{name}_run").drop_nulls().first(),
            pl.col(f"{name}_rank").drop_nulls().first(),
            *_work(name),
        ]
    launch = (pl.col(f"{name}_launch").replace("", None) for name in SIDES)
    columns.append((next(launch) != next(launch)).any().fill_null(False).alias("launch_differs"))
    columns.append(pl.col("is_other").any())
    return members.sort("slot").group_by(_BUNDLE, maintain_order=True).agg(columns)


def _work(name: str) -> list[pl.Expr]:
    """Work of a side per step: number, time, and the time in which other work overlapped it.

    Also the mean clock and FLOPs where they are known, and the time of that part.
    """
    calls = pl.when("is_work").then(f"{name}_calls").otherwise(0.0)
    took = calls * pl.col(f"{name}_call_ns")
    flops, clock = pl.col(f"{name}_flops"), pl.col(f"{name}_clock_mhz")
    return [
        calls.sum().alias(f"{name}_calls"),
        took.sum().alias(f"{name}_took"),
        (calls * pl.col(f"{name}_beside_ns")).sum().alias(f"{name}_beside"),
        (took * clock).sum().alias(f"{name}_clock"),
        took.filter(clock.is_not_null()).sum().alias(f"{name}_clock_took"),
        (calls * flops).sum().alias(f"{name}_flops"),
        took.filter(flops.is_not_null()).sum().alias(f"{name}_flops_took"),
    ]


def _per_call(name: str) -> list[pl.Expr]:
    """Time of a piece of work, the rate of work with known FLOPs, and the clock of the device."""
    calls, took, _, clock, clock_took, flops, flops_took = (pl.col(f"{name}_{of}") for of in _SUMS)
    return [
        pl.when(clock_took > 0).then(clock / clock_took).alias(f"{name}_clock_mhz"),
        pl.when(calls > 0).then((took / calls).round().cast(pl.Int64)).alias(f"{name}_call_ns"),
        pl.when((flops > 0) & (flops_took > 0))
        .then(1e9 * flops / flops_took)
        .alias(f"{name}_flops_per_s"),
    ]


def _reason() -> pl.Expr:
    """Why the same kernel takes more or less time, if the trace shows it."""
    sides = [[pl.col(f"{name}_{of}") for name in SIDES] for of in _SUMS]
    took, beside = sides[1], sides[2]
    longer = (took[1] / took[0]).log().sign()
    clock = (pl.col("other_clock_mhz") / pl.col("base_clock_mhz")).log()
    shared = beside[1] / took[1] - beside[0] / took[0]
    return pl.when(pl.col("cause") == cause_kinds.SAME).then(
        pl.coalesce(
            pl.when("launch_differs").then(pl.lit("launch_configuration")),
            pl.when(clock * -longer > _CLOCK).then(pl.lit("clock")),
            pl.when(shared * longer > _BESIDE).then(pl.lit("concurrent_work")),
        )
    )


def _joined(names: pl.Expr) -> pl.Expr:
    """Distinct names as one text: the first few, and how many more."""
    names = names.drop_nulls().unique().sort()
    more = names.len().cast(pl.Int64) - _SHOWN
    text = names.head(_SHOWN).str.join(" + ")
    return (
        pl.when(more > 0)
        .then(pl.format("{} + {} more", text, more))
        .otherwise(text.replace("", None))
    )


def _summed(kept: pl.DataFrame, sides: tuple[StepSide, StepSide]) -> pl.DataFrame:
    """Whole nanoseconds that add up."""
    base, other = sides
    kept = kept.filter(pl.col("base_total") * other.count != pl.col("other_total") * base.count)
    change = _apportioned(
        (kept["other_total"] * base.count - kept["base_total"] * other.count).to_numpy(),
        max(base.count * other.count, 1),
        other.mean_ns - base.mean_ns,
    )
    mean = (pl.col("base_total") / max(base.count, 1)).round().cast(pl.Int64)
    kept = kept.with_columns(base_ns=mean, change_ns=pl.Series(change, dtype=pl.Int64))
    kept = kept.with_columns(other_ns=pl.col("base_ns") + pl.col("change_ns"))
    whole = pl.col("change_ns").sum()
    kept = kept.with_columns(share=pl.when(whole != 0).then(pl.col("change_ns") / whole))
    return kept.select(SCHEMA).sort(
        pl.col("change_ns").abs(), *_KEY, descending=[True, *([False] * len(_KEY))], nulls_last=True
    )


def _apportioned(parts: Ints, denominator: int, total: int) -> Ints:
    """Fractions as integers that add up to a total: the largest remainders are rounded up."""
    whole, rest = parts // denominator, parts % denominator
    missing = total - int(whole.sum())
    # Rounding each cause by itself would leave a few nanoseconds that no row has.
    up = np.argsort(-rest, kind="stable")[: max(missing, 0)]
    down = np.argsort(rest, kind="stable")[: max(-missing, 0)]
    whole[up] += 1
    whole[down] -= 1
    return whole
