"""Slots as rows: name, shapes and number of calls on both sides, and enclosing slots."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.alignment.forest import mixed
from profframe.analysis.causes.sides import Connect, Side, texts
from profframe.analysis.causes.slots import Slots
from profframe.analysis.critical_path.job import of_each
from profframe.intervals import Ints, Mask, nearest

SIDES: Final = ("base", "other")
COMPILED: Final = r"Torch-Compiled Region|CompiledFxGraph|CompiledFunction|torch_dynamo_resume_in_"
"""Names of what torch.compile made."""
_OFTEN: Final = 0.5
"""Smaller differences between the numbers of calls per step may be chance."""
_ATTRIBUTES: Final = (
    "run",
    "rank",
    "event_id",
    "kind",
    "name",
    "short_name",
    "shapes",
    "types",
    "category",
    "launch",
)


def slot_rows(
    sides: tuple[Side, Side], of: Slots, connects: tuple[Connect, Connect]
) -> pl.DataFrame:
    """One row per slot.

    ``slot``, ``gap``, ``parent`` and ``top`` (the slot of the call around it; the outermost slot
    that one side lacks, else itself), ``is_work``, ``in_both``, ``compiled``, ``is_other`` (the
    steps of both sides have it, or the call around the work, another number of times), and of each
    side ``{side}_node``, ``_calls`` (per step), ``_call_ns``, ``_beside_ns``, ``_clock_mhz``,
    ``_flops`` (of a call), ``_lost`` (the call launched work that is not in the trace) and the
    attributes of an event of it.
    """
    frame = pl.DataFrame({"slot": np.arange(of.count), "gap": of.gap})
    others = _others(sides)
    owns = of.base, of.other
    parts = of_each(2, lambda n: _of_side(SIDES[n], sides[n], owns[n], of, connects[n]))
    for name, rows, is_other in zip(SIDES, parts, others, strict=True):
        flag = pl.Series(f"{name}_is_other", is_other[rows[f"{name}_node"].to_numpy()])
        frame = frame.join(rows.with_columns(flag), on="slot", how="left")
    both = [
        pl.min_horizontal(f"base_{name}", f"other_{name}").alias(name)
        for name in ("parent", "top", "work")
    ]
    return frame.with_columns(both).with_columns(
        is_work=pl.col("work") > 0,
        in_both=pl.col("base_node").is_not_null() & pl.col("other_node").is_not_null(),
        compiled=pl.any_horizontal(pl.col("base_compiled", "other_compiled").fill_null(False)),
        is_other=pl.any_horizontal(pl.col("base_is_other", "other_is_other").fill_null(False)),
    )


def _others(sides: tuple[Side, Side]) -> list[Mask]:
    """Nodes of each side whose number per step differs from the other side's.

    Work differs, too, if the call around it does. What is aligned differently by chance, because
    threads ran in another order, has the same number.
    """
    keys = [
        mixed(mixed(side.trees.forest.label.view(np.uint64)) + side.trees.detail.view(np.uint64))
        for side in sides
    ]
    _, number = np.unique(np.concatenate(keys), return_inverse=True)
    numbers = number[: keys[0].size], number[keys[0].size :]
    count = int(number.max(initial=-1)) + 1
    times = [
        np.bincount(own, minlength=count) / max(side.count, 1)
        for own, side in zip(numbers, sides, strict=True)
    ]
    is_other = np.abs(times[1] - times[0]) >= _OFTEN
    masks = []
    for own, side in zip(numbers, sides, strict=True):
        mask = is_other[own]
        around = side.trees.forest.parent
        masks.append(mask | (side.trees.is_work & (around >= 0) & mask[around]))
    return masks


def _of_side(name: str, side: Side, own: Ints, of: Slots, connect: Connect) -> pl.DataFrame:
    trees, forest = side.trees, side.trees.forest
    in_steps = trees.step[trees.tree] >= 0
    if not in_steps.any():
        in_steps[:] = True
    # Examples are from steps where there are any: what is outside of them may differ.
    order = np.lexsort((np.arange(own.size), ~in_steps))
    slot, first = np.unique(own[order], return_index=True)
    node = order[first]
    parent = forest.parent[node]
    lacks = of.gap[own] >= 0
    shared_above = (forest.parent < 0) | ~lacks[forest.parent]
    top = nearest(forest.parent, lacks & shared_above)
    work, dur, beside = np.zeros((3, own.size), np.int64)
    has_lost = np.zeros(of.count, np.bool_)
    clock = np.full(own.size, np.nan)
    for part, slices in enumerate(side.slices):
        here = np.flatnonzero((trees.part == part) & (trees.row >= 0))
        work[here] = slices.work[trees.row[here]]
        dur[here] = slices.dur_ns[trees.row[here]]
        beside[here] = side.conditions[part].beside_ns[trees.row[here]]
        clock[here] = side.conditions[part].clock_mhz[trees.row[here]]
        lost = side.lost[part].row
        around = trees.node_of(part, slices.event_id.size)[np.append(slices.call, -1)[lost]]
        has_lost[own[around[around >= 0]]] = True
    # What is outside of steps counts in no mean per step.
    calls = np.bincount(own[in_steps], minlength=of.count)[slot]
    total, total_beside = (
        np.bincount(own[in_steps], column[in_steps], minlength=of.count)[slot]
        for column in (dur, beside)
    )
    has_clock = in_steps & ~np.isnan(clock)
    sums = np.bincount(own[has_clock], clock[has_clock], minlength=of.count)[slot]
    clocks = np.bincount(own[has_clock], minlength=of.count)[slot]
    frame = pl.DataFrame(
        {
            "slot": slot,
            f"{name}_node": node,
            f"{name}_parent": np.where(parent >= 0, own[parent], -1),
            f"{name}_top": np.where(lacks[node], own[top[node]], slot),
            f"{name}_work": work[node],
            f"{name}_calls": calls / max(side.count, 1),
            f"{name}_call_ns": total / np.maximum(calls, 1),
            f"{name}_beside_ns": total_beside / np.maximum(calls, 1),
            f"{name}_lost": has_lost[slot],
            f"{name}_clock_mhz": np.where(clocks > 0, sums / np.maximum(clocks, 1), np.nan),
        }
    ).with_columns(pl.col(f"{name}_clock_mhz").fill_nan(None))
    about = texts(connect, side, trees.part[node], trees.row[node])
    is_compiled = about["name"].str.contains(COMPILED).fill_null(False).to_numpy()
    marked = np.isin(forest.label, forest.label[node[is_compiled]]) & (trees.row >= 0)
    compiled = nearest(forest.parent, marked)[node] >= 0
    frame = frame.with_columns(pl.Series(f"{name}_compiled", compiled))
    attributes = about.select(pl.col(_ATTRIBUTES).name.prefix(f"{name}_"))
    flops = about.select(pl.col("flops").cast(pl.Float64).alias(f"{name}_flops"))
    return pl.concat([frame, attributes, flops], how="horizontal")
