"""Calls that only one side has and that make its host late.

Work that was launched earlier hides such a call until it runs out; then devices wait for later
launches. So the additional idle time there is attributed to the largest earlier such call of the
step. In total, these calls get no more time than they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes.step_trees import (
    COMPILE,
    COPY,
    LOAD,
    RESUME,
    SYNC,
    StepSlices,
    Trees,
    Windows,
)
from profframe.intervals import Ints, Mask, nearest

_TIME_BITS: Final = 44
NO_SORT: Final = 0
_PRECEDENCE: Final = (SYNC, LOAD, RESUME, COMPILE)
"""The purpose of an outermost call; if it contains several of these, the last one."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Outermost host calls of a rank that the other side lacks, by their ends.

    Attributes
    ----------
    part : int
        Number of the rank.
    node, window : Ints
        Node of the trees, and number of the window that it begins in.
    end_ns, ns : Ints
        When it ends, and how long it takes without what both sides have.
    around : Ints
        For each node of the trees, the outermost such call that it is in, or -1.
    sort : Ints
        For each node: COMPILE, RESUME, LOAD or SYNC, if that is the purpose of the outermost call,
        else NO_SORT. A call that launches kernels does not exist to wait for them.
    """

    part: int
    node: Ints
    window: Ints
    end_ns: Ints
    ns: Ints
    around: Ints
    sort: Ints

    def before(self, window: Ints, start_ns: Ints) -> Ints:
        """The node of the largest one that ended before a moment of a window, or -1."""
        size = np.minimum(self.ns, (1 << _TIME_BITS) - 1)
        # One running maximum for all windows: a later window is greater than any size before it.
        key = (self.window << _TIME_BITS) + size
        most = np.maximum.accumulate(key)
        largest = np.maximum.accumulate(np.where(key == most, np.arange(key.size), 0))
        last = np.searchsorted(self.end_ns, start_ns, side="right") - 1
        at = np.where(last >= 0, np.append(largest, -1)[last], -1)
        same = (at >= 0) & (np.append(self.window, -1)[at] == window)
        return np.where(same, np.append(self.node, -1)[at], -1)


def delays(slices: StepSlices, tree: Trees, part: int, steps: Windows, is_alone: Mask) -> Delays:
    """Find the calls of a rank that the other side lacks."""
    parent = tree.forest.parent
    own = (tree.part == part) & (tree.row >= 0)
    is_call = own & ~tree.is_work
    outermost = is_call & is_alone & ~((parent >= 0) & is_alone[parent])
    around = nearest(parent, outermost)
    node = np.flatnonzero(outermost)
    # A thread that launches nothing, such as a worker of a loader, cannot make a launch late.
    launch = slices.launch[slices.work > 0]
    launching = np.unique(slices.thread[launch[launch >= 0]])
    node = node[np.isin(slices.thread[tree.row[node]], launching)]
    row = tree.row[node]
    window = np.searchsorted(steps.start_ns, slices.start_ns[row], side="right") - 1
    shared = np.flatnonzero(is_call & ~is_alone & (parent >= 0) & is_alone[parent])
    ns = np.zeros(tree.row.size, np.int64)
    ns[node] = slices.dur_ns[row]
    # A wrapper that only one side has costs what it adds, not what it contains.
    np.subtract.at(ns, around[shared], slices.dur_ns[tree.row[shared]])
    inside = (window >= 0) & (slices.start_ns[row] < steps.end_ns[window]) & (ns[node] > 0)
    node, row, window = node[inside], row[inside], window[inside]
    order = np.lexsort((node, slices.end_ns[row], window))
    node, row, window = node[order], row[order], window[order]
    sort = _sorts(slices, tree, part, around, is_alone)
    return Delays(part, node, window, slices.end_ns[row], ns[node], around, sort)


def _sorts(slices: StepSlices, tree: Trees, part: int, around: Ints, is_alone: Mask) -> Ints:
    """The purpose of the outermost call around each node that the other side lacks.

    ``is_alone`` marks the nodes without a counterpart.
    """
    node_of = tree.node_of(part, slices.event_id.size)
    sort = np.full(tree.row.size + 1, NO_SORT, np.int64)
    for number in _PRECEDENCE:
        marked = np.flatnonzero((slices.sort == number) & (slices.work == 0))
        sort[np.append(around, -1)[node_of[slices.call[marked]]]] = number
    works = np.flatnonzero((tree.part == part) & tree.is_work & is_alone)
    is_kernel = (slices.work != COPY)[tree.row[works]]
    launching = around[works[is_kernel]]
    # A call that launches kernels is there for these, even if it also waits.
    sort[launching[sort[launching] == SYNC]] = NO_SORT
    sort[-1] = NO_SORT
    return np.where(around >= 0, sort[around], NO_SORT)


def with_delays(
    rows: pl.DataFrame, lost: dict[str, int], counts: dict[str, int], late: list[int]
) -> pl.DataFrame:
    """Pieces with idle time of devices moved to the calls that made the host late.

    Parameters
    ----------
    rows
        ``side slot kind in_both ns``, and ``delay`` and ``delay_kind``: slot and kind of the call
        that may have made the host late, -1 for none.
    lost
        By side, how long the calls took that only it has.
    counts
        By side, the number of windows.
    late
        Kinds of pieces in which a device may wait because of something before.
    """
    is_late = pl.col("kind").is_in(late)
    is_shared = is_late & pl.col("in_both")
    totals = (
        rows.filter(is_shared)
        .group_by("slot")
        .agg(pl.col("ns").filter(pl.col("side") == side).sum().alias(side) for side in counts)
    )
    base, other = counts
    parts = []
    for side, against in ((base, other), (other, base)):
        own = rows.filter(pl.col("side") == side)
        expected = pl.col(against) * (counts[side] / max(counts[against], 1))
        delayed = (
            own.filter(is_shared & (pl.col("delay") >= 0))
            .group_by("slot")
            .agg(delayed=pl.col("ns").sum())
            .join(totals, on="slot")
            .select("slot", "delayed", excess=(pl.col(side) - expected).clip(0, pl.col("delayed")))
            .sort("slot")
        )
        # What devices waited inside these calls is theirs already.
        shown = int(own.filter(is_late & ~pl.col("in_both"))["ns"].sum())
        excess = float(delayed["excess"].sum())
        net = float(totals.select((pl.col(side) - expected).sum()).item())
        # The calls explain no more than they take, and no more than devices wait longer in all.
        most = max(0.0, min(net, lost[side] - shown))
        scale = min(1.0, most / excess) if excess > 0 else 0.0
        fraction = delayed.select("slot", fraction=pl.col("excess") / pl.col("delayed") * scale)
        # Rounded down: the rest stays, so each step still adds up to the nanosecond.
        moved = (pl.col("ns") * pl.col("fraction")).floor().cast(pl.Int64).fill_null(0)
        applies = is_shared & (pl.col("delay") >= 0)
        own = own.join(fraction, on="slot", how="left", maintain_order="left").with_columns(
            moved=pl.when(applies).then(moved).otherwise(0)
        )
        parts.append(own.with_columns(pl.col("ns") - pl.col("moved")).drop("moved", "fraction"))
        parts.append(
            own.filter(pl.col("moved") > 0)
            .with_columns(
                slot="delay",
                kind="delay_kind",
                ns="moved",
                line=pl.lit(0, pl.Int64),
                line_name=pl.lit(None, pl.String),
            )
            .drop("moved", "fraction")
        )
    return pl.concat(parts)
