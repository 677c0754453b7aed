"""Which rows of causes are more than noise; the rest is one row."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes import kinds
from profframe.analysis.causes.sides import Side
from profframe.analysis.causes.slot_rows import SIDES
from profframe.analysis.stats import noise

_LEVEL: Final = 0.01
"""Expected share of noise among the named rows."""
_LEAST_SHARE: Final = 1e-3
"""What takes a smaller share of a step is not tested: it says nothing about the step."""
_OFTEN: Final = 0.5
"""A call that fewer of the steps of its side have may be there by chance."""
_LARGE: Final = 0.05
"""A cause with at least this share of a significant change is named, even if it may be noise."""
_STRUCTURAL: Final = (
    *(kinds.SWAPPED, kinds.ADDED, kinds.REMOVED, kinds.SHAPES, kinds.TYPES),
    *(kinds.FUSED, kinds.UNFUSED, kinds.BREAK),
)


def named_or_noise(
    table: pl.DataFrame, values: pl.DataFrame, sides: tuple[Side, Side]
) -> pl.DataFrame:
    """Rows that are more than noise, and those of a cause that is so as a whole.

    Different calls are not noise, however little they take, unless only some steps have them, or
    both sides have them equally often, elsewhere. What is left is one row. If steps differ as a
    whole, the causes with a large share of that are named, too, though each by itself may be noise.
    """
    base, other = sides

    def change(of: pl.DataFrame) -> pl.Series:
        return of["other_total"] * base.count - of["base_total"] * other.count

    table = table.filter(pl.col("base_total") * other.count != pl.col("other_total") * base.count)
    often = pl.max_horizontal("base_present", "other_present") >= _OFTEN
    is_certain = pl.col("cause").is_in(_STRUCTURAL) & often & pl.col("is_other")
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
        pl.col("base_total", "other_total", "places").sum(), cause=pl.lit(kinds.NOISE)
    )
    others = [part for part in (causes, pooled) if part.height]
    return pl.concat([table.filter(~is_noise), *others], how="diagonal_relaxed")


def tests(values: pl.DataFrame, height: int, sides: tuple[Side, Side]) -> pl.DataFrame:
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
        large = sizes >= _LEAST_SHARE * max(of.mean_ns for of in sides)
        q = np.ones(height)
        q[large] = noise.false_discovery(result.p[large])
        columns |= {
            "change_low_ns": result.low,
            "change_high_ns": result.high,
            "p_value": result.p,
            "significant": q <= _LEVEL,
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
