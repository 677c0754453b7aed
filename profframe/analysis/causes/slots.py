"""Slots: a number for each call site, shared by all steps of both sides.

One step of each side represents the others, which are aligned to it: the earliest of those that are
equal most often. The two are then aligned to each other. Unmatched calls are keyed by parent slot,
label and occurrence number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.alignment import CallForest, Memo, align, common, mixed
from profframe.analysis.causes.sides import Connect, StepSide, texts
from profframe.analysis.causes.step_trees import Trees
from profframe.analysis.critical_path.path_across_ranks import of_each
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
    sides: tuple[StepSide, StepSide], slots: Slots, connects: tuple[Connect, Connect]
) -> pl.DataFrame:
    """One row per slot.

    ``slot``, ``gap``, ``parent`` and ``top`` (the slot of the call around it; the outermost slot
    that one side lacks, else itself), ``is_work``, ``in_both``, ``compiled``, ``is_other`` (the
    steps of both sides have it, or the call around the work, another number of times), and of each
    side ``{side}_node``, ``_calls`` (per step), ``_call_ns``, ``_beside_ns``, ``_clock_mhz``,
    ``_flops`` (of a call), ``_lost`` (the call launched work that is not in the trace) and the
    attributes of an event of it.
    """
    frame = pl.DataFrame({"slot": np.arange(slots.count), "gap": slots.gap})
    others = _others(sides)
    owns = slots.base, slots.other
    parts = of_each(2, lambda n: _of_side(SIDES[n], sides[n], owns[n], slots, connects[n]))
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


def _others(sides: tuple[StepSide, StepSide]) -> list[Mask]:
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


def _of_side(name: str, side: StepSide, own: Ints, slots: Slots, connect: Connect) -> pl.DataFrame:
    trees, forest = side.trees, side.trees.forest
    in_steps = trees.step[trees.tree] >= 0
    if not in_steps.any():
        in_steps[:] = True
    # Examples are from steps where there are any: what is outside of them may differ.
    order = np.lexsort((np.arange(own.size), ~in_steps))
    slot, first = np.unique(own[order], return_index=True)
    node = order[first]
    parent = forest.parent[node]
    lacks = slots.gap[own] >= 0
    shared_above = (forest.parent < 0) | ~lacks[forest.parent]
    top = nearest(forest.parent, lacks & shared_above)
    work, dur, beside = np.zeros((3, own.size), np.int64)
    has_lost = np.zeros(slots.count, np.bool_)
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
    calls = np.bincount(own[in_steps], minlength=slots.count)[slot]
    total, total_beside = (
        np.bincount(own[in_steps], column[in_steps], minlength=slots.count)[slot]
        for column in (dur, beside)
    )
    has_clock = in_steps & ~np.isnan(clock)
    sums = np.bincount(own[has_clock], clock[has_clock], minlength=slots.count)[slot]
    clocks = np.bincount(own[has_clock], minlength=slots.count)[slot]
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


NONE: Final = -1
_ALIKE: Final = 4
"""Calls that do more than this many times the work of others are not the same."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of the nodes of both sides, and how many there are.

    Attributes
    ----------
    base, other : Ints
        Slot of each node.
    count : int
        Number of slots.
    gap : Ints
        For each slot that one side lacks: the number of its place on both sides; else -1. The place
        is that of the call around it and of what comes before it there, on both sides.
    """

    base: Ints
    other: Ints
    count: int
    gap: Ints


def slots(base: Trees, other: Trees) -> Slots:
    """Give the nodes of two sides slots; they are the same with the sides exchanged."""
    # Aligning is greedy, so its result may depend on the order of the sides; an explanation must
    # only change its signs when they are exchanged.
    if _order(other) < _order(base):
        turned = slots(other, base)
        return Slots(turned.other, turned.base, turned.count, turned.gap)
    sides = base, other
    of = [np.full(side.row.size, NONE, np.int64) for side in sides]
    count = 0
    # What is in no step (setup, the end) is never the counterpart of a step.
    for in_steps in (True, False):
        kinds = [_roots(side, in_steps) for side in sides]
        chosen = [_representative(side, roots) for side, roots in zip(sides, kinds, strict=True)]
        count = _shared(sides, of, chosen, count)
        for side, own, roots, one in zip(sides, of, kinds, chosen, strict=True):
            if one >= 0:
                _spread(side.forest, own, roots, one)
    count = _left_over(sides, of, count)
    return Slots(of[0], of[1], count, _gaps(sides, of, count))


def _order(trees: Trees) -> tuple[int, int]:
    """A sort key for the two sides, so that results do not depend on their order."""
    return trees.row.size, int(
        np.bitwise_xor.reduce(trees.forest.equal[trees.root], initial=np.uint64(0))
    )


def _roots(trees: Trees, in_steps: bool) -> Ints:
    """Roots of steps, or of what is in no step; a side without steps has one root of a step."""
    if (trees.step < 0).all():
        return trees.root if in_steps else np.empty(0, np.int64)
    rows: Ints = trees.root[(trees.step >= 0) == in_steps]
    return rows


def _representative(trees: Trees, roots: Ints) -> int:
    """The root of the step that represents the others, or -1."""
    if not roots.size:
        return NONE
    _, first, count = np.unique(trees.forest.equal[roots], return_index=True, return_counts=True)
    # Warm-up, logging and validation make single steps different: the most frequent form is
    # typical.
    return int(roots[first[np.lexsort((first, -count))[0]]])


def _shared(
    sides: tuple[Trees, Trees],
    slots: list[Ints],
    chosen: list[int],
    count: int,
) -> int:
    """Give slots to the nodes of the two representative steps; returns the number of slots."""
    base, other = sides
    node, counterpart = chosen
    if counterpart >= 0:
        size = int(other.forest.size[counterpart])
        slots[1][counterpart : counterpart + size] = count + np.arange(size)
        count += size
    if node < 0:
        return count
    end = node + int(base.forest.size[node])
    if counterpart >= 0:
        pairs = align(base.forest, other.forest, [(node, counterpart)])
        # Work is paired last: another release may launch the same kernels from other calls.
        _pair_work(sides, pairs, (node, counterpart))
        paired = np.flatnonzero(pairs >= 0)
        slots[0][paired] = slots[1][pairs[paired]]
    alone = node + np.flatnonzero(slots[0][node:end] < 0)
    slots[0][alone] = count + np.arange(alone.size)
    return count + alone.size


def _pair_work(sides: tuple[Trees, Trees], pairs: Ints, roots: tuple[int, int]) -> None:
    """Pair work that other calls launch on the other side, in place.

    In order, within the innermost call that both sides have: first work of the same name in calls
    of the same shapes, then of the same name, then work that does the same by its category. What is
    then left of the first kind has moved elsewhere in the step.
    """
    base, other = sides
    node, counterpart = roots
    ends = (node + int(base.forest.size[node]), counterpart + int(other.forest.size[counterpart]))
    back = np.full(other.row.size, NONE, np.int64)
    back[pairs[pairs >= 0]] = np.flatnonzero(pairs >= 0)
    regions = [
        np.where(pairs >= 0, pairs, NONE)[nearest(base.forest.parent, pairs >= 0)],
        nearest(other.forest.parent, back >= 0),
    ]
    work, other_work = base.is_work, other.is_work
    shapes = [side.detail[side.forest.parent] for side in sides]
    keys = [
        # Shifted, so that a detail equal to that of its call does not give 0, which means no key.
        (base.detail ^ (shapes[0] >> 1), other.detail ^ (shapes[1] >> 1)),
        (base.detail, other.detail),
        (base.category, other.category),
    ]
    everywhere = [np.zeros(side.row.size, np.int64) for side in sides]
    for (own, others), places in [*((key, regions) for key in keys), (keys[0], everywhere)]:
        rows = node + np.flatnonzero((work & (pairs < 0) & (own != 0))[node : ends[0]])
        rest = counterpart + np.flatnonzero(
            (other_work & (back < 0) & (others != 0))[counterpart : ends[1]]
        )
        for some, counterparts in _by_region(rows, places[0][rows], rest, places[1][rest]):
            for i, j in common(own[some].tolist(), others[counterparts].tolist()):
                pairs[some[i]], back[counterparts[j]] = counterparts[j], some[i]
    _pair_around(sides, pairs, back, roots)


def _pair_around(
    sides: tuple[Trees, Trees], pairs: Ints, back: Ints, roots: tuple[int, int]
) -> None:
    """Pair parents of paired work if their work is within 4x. Modifies the arguments."""
    parents = [side.forest.parent for side in sides]
    work = [np.append(0, np.cumsum(side.is_work)) for side in sides]
    end = roots[0] + int(sides[0].forest.size[roots[0]])
    rows = roots[0] + np.flatnonzero((sides[0].is_work & (pairs >= 0))[roots[0] : end])
    # From the last to the first, so that inner calls are paired before those around them.
    for row in rows[::-1].tolist():
        node, other = parents[0][row], parents[1][pairs[row]]
        while node >= 0 and other >= 0 and pairs[node] < 0 and back[other] < 0:
            counts = [
                int(total[at + side.forest.size[at]] - total[at])
                for total, at, side in zip(work, (node, other), sides, strict=True)
            ]
            if max(counts) > _ALIKE * min(counts):
                break
            pairs[node], back[other] = other, node
            node, other = parents[0][node], parents[1][other]


def _by_region(
    rows: Ints, region: Ints, others: Ints, other_region: Ints
) -> list[tuple[Ints, Ints]]:
    """Rows of both sides that share a region."""
    parts = []
    order, other_order = np.argsort(region, kind="stable"), np.argsort(other_region, kind="stable")
    rows, region, others, other_region = (
        rows[order],
        region[order],
        others[other_order],
        other_region[other_order],
    )
    for value in np.intersect1d(region, other_region).tolist():
        begin, end = np.searchsorted(region, [value, value + 1])
        other_begin, other_end = np.searchsorted(other_region, [value, value + 1])
        parts.append((rows[begin:end], others[other_begin:other_end]))
    return parts


def _spread(forest: CallForest, own: Ints, roots: Ints, chosen: int) -> None:
    """Give the nodes of other steps of a side the slots of the chosen one, in place."""
    _, first, kind = np.unique(forest.equal[roots], return_index=True, return_inverse=True)
    memo: Memo = {}
    for number, place in enumerate(first.tolist()):
        root, size = int(roots[place]), int(forest.size[roots[place]])
        # Steps of one form are aligned once, with the first of them, and copied.
        if root != chosen:
            pairs = align(forest, forest, [(root, chosen)], memo)[root : root + size]
            own[root : root + size] = np.where(pairs >= 0, own[pairs], NONE)
        for same in roots[kind == number].tolist():
            own[same : same + size] = own[root : root + size]


def _left_over(sides: tuple[Trees, Trees], slots: list[Ints], count: int) -> int:
    """Give all other nodes slots, in place; returns the number of all."""
    keys, places = [], []
    for side, own in zip(sides, slots, strict=True):
        rows = np.flatnonzero(own < 0)
        around = nearest(side.forest.parent, own >= 0)[rows]
        inside = np.where(around >= 0, own[around], NONE)
        label, tree = side.forest.label[rows], side.tree[rows]
        # Per tree, so that the n-th extra call of a label has the same slot in all steps of both
        # sides.
        order = np.lexsort((rows, label, inside, tree))
        same = (tree, inside, label)
        new = np.zeros(rows.size, np.bool_)
        new[:1] = True
        for column in same:
            new[1:] |= column[order][1:] != column[order][:-1]
        first = np.flatnonzero(new)
        turn = np.empty(rows.size, np.int64)
        turn[order] = np.arange(rows.size) - np.repeat(first, np.diff(np.append(first, rows.size)))
        keys.append(np.stack([inside, label, turn], axis=1))
        places.append(rows)
    everything = np.concatenate(keys)
    if not everything.size:
        return count
    _, number = np.unique(everything, axis=0, return_inverse=True)
    number = number.ravel() + count
    split = places[0].size
    slots[0][places[0]], slots[1][places[1]] = number[:split], number[split:]
    return int(number.max()) + 1


def _gaps(sides: tuple[Trees, Trees], slots: list[Ints], count: int) -> Ints:
    """Number the gaps of unmatched slots; those of both sides in one place share a number."""
    there = [np.zeros(count, np.bool_) for _ in sides]
    for own, mask in zip(slots, there, strict=True):
        mask[own] = True
    both = there[0] & there[1]
    gap = np.full(count, NONE, np.int64)
    for side, own in zip(sides, slots, strict=True):
        gap[own] = np.where(both[own], NONE, _places(side.forest, own, both))
    return gap


def _places(forest: CallForest, own: Ints, both: Mask) -> Ints:
    """For each node the nearest enclosing matched call, and the last matched child before it."""
    is_shared = both[own]
    around = nearest(forest.parent, is_shared)
    rows = np.arange(own.size)
    top = nearest(np.where(is_shared, NONE, forest.parent), ~is_shared & is_shared[forest.parent])
    top = np.where(top >= 0, top, rows)
    order = np.lexsort((rows, forest.parent))
    before = np.where(is_shared[order], order, NONE)
    parent = forest.parent[order]
    begin = np.searchsorted(parent, parent)
    latest = np.maximum.accumulate(np.where(before >= 0, np.arange(order.size), NONE))
    previous = np.where(latest >= begin, order[latest], NONE)
    of_node = np.empty(own.size, np.int64)
    of_node[order] = previous
    sibling = of_node[top]
    numbers = np.where(around >= 0, own[around], NONE), np.where(sibling >= 0, own[sibling], NONE)
    place: Ints = (numbers[0] + 1) * (np.int64(own.max(initial=0)) + 2) + numbers[1] + 1
    return place
