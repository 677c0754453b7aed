"""Separate causes that are significant from noise, which becomes one row."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes import cause_kinds
from profframe.analysis.causes.call_times import WORK
from profframe.analysis.causes.evidence import LEAST_SHARE, LEVEL, Drifts
from profframe.analysis.causes.sides import StepSide
from profframe.analysis.causes.slots import SIDES
from profframe.analysis.stats import noise
from profframe.analysis.stats.call_differences import LEAST

_OFTEN: Final = 0.5
"""A call that fewer of the steps of its side have may be there by chance."""
_LARGE: Final = 0.05
"""A cause with at least this share of a significant change is named, even if it may be noise."""
_STRUCTURAL: Final = (
    *(
        cause_kinds.SWAPPED,
        cause_kinds.ADDED,
        cause_kinds.REMOVED,
        cause_kinds.SHAPES,
        cause_kinds.TYPES,
    ),
    *(
        cause_kinds.FUSED,
        cause_kinds.UNFUSED,
        cause_kinds.BREAK,
        cause_kinds.SYNC,
        cause_kinds.UNRECORDED,
    ),
)
_WAITING: Final = (cause_kinds.LAUNCH, cause_kinds.CODE, cause_kinds.SYNC)
"""Causes of time in which devices wait for the host: what it is behind, not what it takes."""


def with_evidence(
    table: pl.DataFrame, of_calls: pl.DataFrame, sides: tuple[StepSide, StepSide], drifts: Drifts
) -> pl.DataFrame:
    """Rows whose calls are evidence of their change are significant.

    Steps alone show nothing for work that both sides have and that only differs in time: its change
    must also go beyond the drift of all other calls. Rows of sides without repetitions stay
    untested.
    """
    table = table.join(of_calls, on="row", how="left", maintain_order="left")
    change = _mean_change(sides)
    mean_ns = max(of.mean_ns for of in sides)
    is_shown = (change * pl.col("call_change").sign() >= LEAST_SHARE * mean_ns).fill_null(False)
    is_evidence = pl.col("is_evidence").fill_null(False) & is_shown
    ratio = (pl.col("other_took") / pl.col("base_took")).log()
    calls = (pl.col("other_calls") / pl.col("base_calls")).log()
    measured = pl.when(pl.col("base_took") > 0).then(ratio - calls - pl.col("call_drift"))
    own = pl.coalesce(measured, "call_change")
    beyond = is_beyond(own, own + pl.col("call_drift"), sides)
    is_tested = pl.col("call_p").is_not_nan()
    by_steps = pl.col("significant") & pl.when(is_tested).then(beyond).otherwise(
        ~_is_pace(drifts, sides)
    )
    is_repeated = pl.col("significant").is_not_null()
    return table.with_columns(
        p_value=pl.when(is_repeated & is_evidence).then("call_p").otherwise("p_value"),
        significant=pl.when(is_repeated).then(is_evidence | by_steps),
    ).drop("call_change", "call_drift", "call_p", "is_evidence")


def is_beyond(change: pl.Expr, whole: pl.Expr, sides: tuple[StepSide, StepSide]) -> pl.Expr:
    """Whether a change goes beyond the drift, of which the ``whole`` one is a part.

    Two single runs may differ by a little without a reason, so the least change is 5 %. Where both
    sides have several runs, their spread shows the noise, and at least half of the change must not
    be drift.
    """
    if _has_runs(sides):
        return change.abs() >= whole.abs() / 2
    return change.abs() >= LEAST


def _is_pace(drifts: Drifts, sides: tuple[StepSide, StepSide]) -> pl.Expr:
    """Whether a change in idle time is explained by the pace of a whole run.

    Devices wait for as long as the host is behind them. So a drift of either by 1 % changes the
    wait by 1 % of the whole step, even where the wait itself is short.
    """
    if _has_runs(sides):
        return pl.lit(False)
    drift = np.expm1(abs(drifts.host)) + np.expm1(abs(drifts.work))
    most = drift * max(of.mean_ns for of in sides)
    is_small: pl.Expr = _mean_change(sides).abs() <= most
    return pl.col("cause").is_in(_WAITING) & is_small


def _has_runs(sides: tuple[StepSide, StepSide]) -> bool:
    """Whether both sides have several runs, which show what differs between runs by chance."""
    return all(bool((of.sample_runs != of.sample_runs[:1]).any()) for of in sides)


def _mean_change(sides: tuple[StepSide, StepSide]) -> pl.Expr:
    """Change of the mean step."""
    base, other = (max(of.count, 1) for of in sides)
    return pl.col("other_total") / other - pl.col("base_total") / base


def named_or_noise(
    table: pl.DataFrame, values: pl.DataFrame, sides: tuple[StepSide, StepSide], drifts: Drifts
) -> pl.DataFrame:
    """Rows that are significant, alone or because their cause as a whole is; the rest is noise.

    Different calls are not noise, however little they take, unless only some steps have them, or
    both sides have them equally often, elsewhere. What is left is one row. If steps differ as a
    whole, the causes with a large share of that are named, too, though each by itself may be noise.
    """
    base, other = sides

    def change(rows: pl.DataFrame) -> pl.Series:
        return rows["other_total"] * base.count - rows["base_total"] * other.count

    table = table.filter(pl.col("base_total") * other.count != pl.col("other_total") * base.count)
    often = pl.max_horizontal("base_present", "other_present") >= _OFTEN
    is_certain = pl.col("cause").is_in(_STRUCTURAL) & often & pl.col("is_other")
    is_alone = (pl.col("base_total") == 0) | (pl.col("other_total") == 0)
    table = table.with_columns(
        significant=pl.when(pl.col("significant").is_not_null()).then(
            pl.col("significant") | (is_certain & is_alone)
        )
    )
    is_noise = (~pl.col("significant") & ~is_certain).fill_null(False)
    rest = table.filter(is_noise)
    if rest.is_empty():
        return table
    causes = rest.group_by("cause", maintain_order=True).agg(places=pl.len()).with_row_index("of")
    numbers = rest.select("row", "cause").join(causes.select("cause", "of"), on="cause")
    of_causes = values.join(numbers.select("row", "of"), on="row").with_columns(
        row=pl.col("of").cast(pl.Int64)
    )
    tested = tests(of_causes, causes.height, sides)
    causes = pl.concat([causes.drop("of"), tested], how="horizontal")
    is_alike = pl.col("cause").is_in(WORK) & ~_beyond_drift(drifts.work, sides)
    is_one = pl.col("places") == 1  # tested as a row, with what is typical of rows
    causes = causes.with_columns(
        pl.col("significant") & ~is_alike & ~is_one & ~_is_pace(drifts, sides)
    )
    small = causes.filter(~pl.col("significant"))
    whole = tests(values.with_columns(row=pl.lit(0, pl.Int64)), 1, sides)
    total = int(change(whole)[0])
    if whole["significant"][0]:
        large = change(small).abs() >= _LARGE * abs(total)
        causes = pl.concat([causes.filter("significant"), small.filter(large)])
        small = small.filter(~large)
    else:
        causes = causes.filter("significant")
    pooled = small.select(
        pl.col("base_total", "other_total", "places").sum(), cause=pl.lit(cause_kinds.NOISE)
    )
    others = [part for part in (causes, pooled) if part.height]
    return pl.concat([table.filter(~is_noise), *others], how="diagonal_relaxed")


def _beyond_drift(drift: float, sides: tuple[StepSide, StepSide]) -> pl.Expr:
    """Whether the time of work as a whole differs by more than that of each kernel does."""
    base, other = (max(of.count, 1) for of in sides)
    whole = ((pl.col("other_total") / other) / (pl.col("base_total") / base)).log()
    return is_beyond(whole - drift, whole, sides)


def tests(values: pl.DataFrame, height: int, sides: tuple[StepSide, StepSide]) -> pl.DataFrame:
    """Totals of each row on both sides, and whether they differ by more than noise."""
    totals, present, measured = {}, {}, []
    for name, its in zip(SIDES, sides, strict=True):
        own = values.filter(pl.col("side") == name)
        sums = own.group_by("row", "sample").agg(pl.col("ns").sum()).sort("row", "sample")
        total = np.zeros(height, np.int64)
        np.add.at(total, sums["row"].to_numpy(), sums["ns"].to_numpy())
        totals[f"{name}_total"] = total
        runs = its.sample_runs
        times = np.bincount(sums["row"].to_numpy(), minlength=height)
        present[f"{name}_present"] = times / max(runs.size, 1)
        per = its.windows_per_sample
        measured.append(
            noise.Samples(
                sums["row"].to_numpy(),
                sums["sample"].to_numpy(),
                sums["ns"].to_numpy() / per[sums["sample"].to_numpy()],
                height,
                runs,
            )
        )
    columns: dict[str, object] = {**totals, **present}
    if height and any(of.is_repeated for of in measured):
        result = noise.compare(measured[0], measured[1])
        sizes = np.maximum(
            *(
                totals[f"{name}_total"] / max(of.count, 1)
                for name, of in zip(SIDES, sides, strict=True)
            )
        )
        # Thousands of tiny rows would only raise the bar for those that matter.
        large = sizes >= LEAST_SHARE * max(of.mean_ns for of in sides)
        q = np.ones(height)
        q[large] = noise.false_discovery(result.p[large])
        columns |= {
            "change_low_ns": result.low,
            "change_high_ns": result.high,
            "p_value": result.p,
            "significant": q <= LEVEL,
        }
    else:
        none = [None] * height
        columns |= {
            "change_low_ns": none,
            "change_high_ns": none,
            "p_value": none,
            "significant": none,
        }
    types = {
        "change_low_ns": pl.Float64,
        "change_high_ns": pl.Float64,
        "p_value": pl.Float64,
        "significant": pl.Boolean,
    }
    return pl.DataFrame(columns, schema_overrides=types)
