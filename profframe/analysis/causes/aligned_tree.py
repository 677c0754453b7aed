"""The merged call tree of both sides, with the inclusive time of each call."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes.sides import StepSide
from profframe.analysis.causes.slots import SIDES
from profframe.intervals import Ints, depths, rows_by_value

SCHEMA: Final = (
    *("slot", "parent", "depth", "side", "kind", "base_name", "other_name", "cause"),
    *("base_self_ns", "other_self_ns", "base_ns", "other_ns", "change_ns", "largest_change_ns"),
    *("base_calls", "other_calls"),
    *("base_run", "base_rank", "base_event_id", "other_run", "other_rank", "other_event_id"),
)
"""Columns of the tree."""


def tree(rows: pl.DataFrame, about: pl.DataFrame, sides: tuple[StepSide, StepSide]) -> pl.DataFrame:
    """One row per slot, by slot.

    Parameters
    ----------
    rows
        Pieces: ``side slot cause ns``; those of a side add up to all of its steps.
    about
        One row per slot, by slot: ``slot parent`` and what it is on both sides.
    sides
        Both sides.

    Returns
    -------
    polars.DataFrame
        Columns of `SCHEMA`; see `profframe.explain`.
    """
    parent = parents(about["parent"].to_numpy().astype(np.int64))
    depth = depths(parent)
    levels = rows_by_value(depth)[:0:-1]
    columns: dict[str, Ints] = {}
    for name, side in zip(SIDES, sides, strict=True):
        own = rows.filter(pl.col("side") == name)
        total = np.zeros(parent.size, np.int64)
        np.add.at(total, own["slot"].to_numpy(), own["ns"].to_numpy())
        columns[f"{name}_self_ns"] = _per_step(total, side.count)
        columns[f"{name}_ns"] = columns[f"{name}_self_ns"].copy()
        for level in levels:
            np.add.at(columns[f"{name}_ns"], parent[level], columns[f"{name}_ns"][level])
    change = columns["other_ns"] - columns["base_ns"]
    largest = np.abs(change)
    for level in levels:
        np.maximum.at(largest, parent[level], largest[level])
    values = {"parent": parent, "depth": depth, "change_ns": change, "largest_change_ns": largest}
    has_base = pl.col("base_node").is_not_null()
    made = about.sort("slot").with_columns(
        *(pl.Series(name, column) for name, column in (columns | values).items()),
        side=pl.when("in_both").then(pl.lit("both"))
        .when(has_base).then(pl.lit("base"))
        .otherwise(pl.lit("other")),
        kind=pl.coalesce("base_kind", "other_kind"),
    )  # fmt: skip
    causes = _causes(rows, sides)
    return made.drop("cause").join(causes, on="slot", how="left").sort("slot").select(SCHEMA)


def parents(slot_parents: Ints) -> Ints:
    """Break cycles among parents: what does not lead to a root moves below slot 0, a root.

    Calls that only some steps have can contain each other, in one step one way and in another step
    the other way.

    Examples
    --------
    >>> parents(np.array([-1, 0, 3, 2, 3])).tolist()
    [-1, 0, 0, 0, 0]
    """
    above = slot_parents.copy()
    for _ in range(int(slot_parents.size).bit_length()):
        above = np.where(above >= 0, above[above], above)
    made: Ints = np.where(above >= 0, 0, slot_parents)
    made[:1] = -1
    return made


def _per_step(total: Ints, count: int) -> Ints:
    """Means in whole nanoseconds, which add up to the mean of all."""
    if not count:
        return total
    # Differences of rounded running sums: each mean is off by less than 1 ns, and they add up.
    whole = (2 * np.cumsum(total) + count) // (2 * count)
    means: Ints = np.diff(whole, prepend=0)
    return means


def _causes(rows: pl.DataFrame, sides: tuple[StepSide, StepSide]) -> pl.DataFrame:
    """The cause of most of the change of each slot's own pieces."""
    base, other = sides
    weight = pl.when(pl.col("side") == "base").then(-other.count).otherwise(base.count)
    return (
        rows.group_by("slot", "cause")
        .agg((pl.col("ns") * weight).sum().abs().alias("change"))
        .filter(pl.col("change") > 0)
        .sort("slot", "change", "cause", descending=[False, True, False])
        .group_by("slot", maintain_order=True)
        .agg(pl.col("cause").first())
    )
