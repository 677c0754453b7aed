"""The cause of each slot's change.

If both sides have a call, its shapes decide first, then its types, then its kernels. If one lacks
it, what is in the same place on the other side decides: fewer kernels instead of more is fusion.
Work that one side lacks where the call around it lost some there says nothing.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from profframe.analysis.causes.slots import COMPILED, SIDES
from profframe.analysis.causes.step_trees import COMMUNICATION, COPY

SHAPES, TYPES, SWAPPED, SAME = "shape_changed", "dtype_changed", "kernel_swapped", "kernel_time"
ADDED, REMOVED, COPIES = "calls_added", "calls_removed", "copies"
FUSED, UNFUSED, BREAK, RECOMPILE = "fusion_made", "fusion_lost", "graph_break", "recompile"
TRANSFER, WAIT = "collective_transfer", "collective_wait"
LAUNCH, LOADING, SYNC, CODE = "launch_bound", "data_loading", "synchronization", "host_code"
UNRECORDED, NOISE = "unrecorded", "noise"
_GENERATED: Final = r"^triton_|fused"
_COPYING: Final = (
    r"^aten::(copy_|_to_copy|to|contiguous|clone|cpu|cuda|pin_memory)$|^ToCopyBackward|"
    r"^autograd::engine::evaluate_function: ToCopyBackward"
)


def with_causes(slots: pl.DataFrame) -> pl.DataFrame:
    """Rows of slots with ``cause``, ``place``, and ``group``: the slot that names the change."""
    slots = _with_ops(slots).join(_tops(slots), on="top", how="left")
    regions = slots.select(
        pl.col("slot").alias("region"),
        pl.col("parent").alias("region_parent"),
        _differs("op", "shapes").alias("region_shapes"),
        _differs("op", "types").alias("region_types"),
        pl.all_horizontal(pl.col("op_base_kind", "op_other_kind") == "host_op")
        .fill_null(False)
        .alias("region_is_op"),
    )
    slots = slots.join(regions, on="region", how="left").with_columns(
        pl.col("region_shapes", "region_types", "region_is_op").fill_null(False)
    )
    slots = slots.join(_compiled_regions(slots), on="region", how="left").with_columns(
        pl.col("region_had", "region_has", "region_compiled").fill_null(False)
    )
    slots = slots.with_columns(place=_place())
    # Calls that one side lacks get their cause from what is in their place on the other side.
    slots = slots.join(_gaps(slots), on="gap", how="left")
    slots = slots.join(_alone_by_place(slots), on="place", how="left")
    slots = slots.with_columns(
        *(
            pl.col(f"{side}_name").str.contains(COMPILED).any().fill_null(False).alias(name)
            for name, side in (("had", "base"), ("has", "other"))
        ),
        other_regions=(
            ~pl.col("in_both")
            & pl.any_horizontal(
                pl.col(f"{side}_name").str.contains(COMPILED).fill_null(False) for side in SIDES
            )
        ).any(),
    )
    slots = slots.with_columns(cause=_cause(), group=_group())
    groups = slots.select(
        pl.col("slot").alias("group"),
        *(pl.col(f"{side}_name").alias(f"group_{side}_name") for side in SIDES),
    )
    return slots.join(groups, on="group", how="left")


def _with_ops(slots: pl.DataFrame) -> pl.DataFrame:
    """Rows with the call around work on each side, and how all its work differs."""
    for side in SIDES:
        names = slots.select(
            pl.col("slot").alias(f"{side}_op"),
            *(
                pl.col(f"{side}_{of}").alias(f"op_{side}_{of}")
                for of in ("name", "shapes", "types", "kind")
            ),
        )
        own = pl.when("is_work").then(f"{side}_parent").otherwise("slot")
        slots = slots.with_columns(own.alias(f"{side}_op")).join(names, on=f"{side}_op", how="left")
    is_one = pl.col("base_op") == pl.col("other_op")
    # A wait inside an op (aten::item) is named after the op, which people can find in their code.
    is_inner = pl.col("is_work") | _is_wait_of_op(slots)
    slots = slots.with_columns(op=pl.when(is_inner).then("parent").otherwise("slot"))
    lost = [f"{side}_lost" for side in SIDES]
    shared = slots.select(pl.col("slot").alias("op"), pl.col("in_both", *lost).name.prefix("op_"))
    renamed = (pl.col("base_name") != pl.col("other_name")).fill_null(False)
    works = (
        slots.filter("is_work")
        .group_by("op")
        .agg(
            *(pl.col(f"{side}_node").is_not_null().any().alias(f"op_{side}") for side in SIDES),
            _own_types_differ().any().alias("op_types"),
            (renamed | ~pl.col("in_both")).any().alias("op_swapped"),
        )
    )
    works = works.with_columns((pl.col("op_base") & pl.col("op_other")).alias("op_has_both"))
    flags = (
        *("op_has_both", "op_types", "op_swapped", "op_in_both"),
        *(f"op_{name}" for name in lost),
    )
    return (
        slots.join(shared, on="op", how="left")
        .join(works, on="op", how="left")
        .with_columns(pl.col(flags).fill_null(False))
        .with_columns(op_in_both=pl.col("op_in_both") & is_one.fill_null(True))
    )


def _is_wait_of_op(slots: pl.DataFrame) -> pl.Expr:
    """Whether a call waits for a device inside an op that both sides have, too."""
    ops = slots.filter(pl.col("in_both") & (pl.col("base_kind") == "host_op"))
    is_wait = pl.col("base_kind").is_in(["runtime", "driver"])
    return (is_wait & pl.col("parent").is_in(ops["slot"].implode())).fill_null(False)


def _tops(slots: pl.DataFrame) -> pl.DataFrame:
    return slots.select(
        pl.col("slot").alias("top"),
        pl.col("parent").alias("region"),
        *(pl.col(f"{side}_name").alias(f"top_{side}_name") for side in SIDES),
    )


def _differs(prefix: str, column: str) -> pl.Expr:
    """Whether calls of one name have other shapes or types."""
    base, other = (pl.col(f"{prefix}_{side}_{column}").replace("", None) for side in SIDES)
    names = (pl.col(f"{prefix}_{side}_name") for side in SIDES)
    return ((base != other) & next(names).eq(next(names))).fill_null(False)


def _own_types_differ() -> pl.Expr:
    base, other = (pl.col(f"{side}_types").replace("", None) for side in SIDES)
    return pl.col("is_work") & (base != other).fill_null(False)


def _alone_by_place(slots: pl.DataFrame) -> pl.DataFrame:
    """For each place with calls that one side lacks: how many kernels only each side has there.

    It also has whether a side has any work or generated kernels there. Copies count only in a gap
    where both sides have work. A place is a gap between calls that both have; all gaps of one op,
    annotation or module are one place.
    """
    alone = slots.filter(~pl.col("in_both")).with_columns(_copies().alias("copies"))
    is_base = pl.col("other_node").is_null()
    replaced = (pl.col("gap_base") > 0) & (pl.col("gap_other") > 0)
    kernels = pl.col("is_work") & (~pl.col("copies") | replaced.fill_null(False))
    return alone.group_by("place").agg(
        (kernels & is_base).sum().alias("place_base"),
        (kernels & ~is_base).sum().alias("place_other"),
        *(
            (pl.col("is_work") & (pl.col(f"{side}_node").is_not_null()))
            .any()
            .alias(f"place_{side}_any")
            for side in SIDES
        ),
        *(
            (pl.col("is_work") & pl.col(f"{side}_name").str.contains(_GENERATED).fill_null(False))
            .any()
            .alias(f"place_{side}_generated")
            for side in SIDES
        ),
    )


def _gaps(slots: pl.DataFrame) -> pl.DataFrame:
    """Work of each side in each gap."""
    alone = slots.filter(pl.col("is_work") & (pl.col("gap") >= 0))
    return alone.group_by("gap").agg(
        pl.col(f"{side}_node").is_not_null().sum().alias(f"gap_{side}") for side in SIDES
    )


def _place() -> pl.Expr:
    """The call around what one side lacks; for a whole thread the gap, or all if it is compiled."""
    whole = (pl.col("region_parent") >= 0) | pl.col("region_compiled")
    return pl.when(whole).then(-2 - pl.col("region")).otherwise("gap")


def _compiled_regions(slots: pl.DataFrame) -> pl.DataFrame:
    """Calls that are compiled code on a side, around what only one side has."""
    alone = slots.filter(~pl.col("in_both") & pl.col("compiled"))
    return alone.group_by("region").agg(
        pl.col("base_compiled").fill_null(False).any().alias("region_had"),
        pl.col("other_compiled").fill_null(False).any().alias("region_has"),
        pl.lit(True).alias("region_compiled"),
    )


def _copies() -> pl.Expr:
    names = [pl.col(f"{of}{side}_name") for of in ("", "op_", "top_") for side in SIDES]
    return pl.any_horizontal(
        (pl.col("work") == COPY).fill_null(False),
        *(name.str.contains(_COPYING).fill_null(False) for name in names),
    )


def _cause() -> pl.Expr:
    """The cause of what is in a slot, except host time, which `units` divides."""
    copies, is_work = _copies(), pl.col("is_work")
    in_op = is_work & pl.col("op_in_both") & pl.col("op_has_both")
    shapes = _differs("op", "shapes")
    types = _differs("op", "types") | pl.col("op_types")
    renamed = is_work & (pl.col("base_name") != pl.col("other_name")).fill_null(False)
    # Order matters: other shapes or types usually bring other kernels, too, and are the reason of
    # these.
    both = _first(
        (pl.col("work") == COMMUNICATION, TRANSFER),
        (shapes, SHAPES),
        (types, TYPES),
        (copies & is_work, COPIES),
        (renamed | (in_op & pl.col("op_swapped")), SWAPPED),
        (pl.lit(True), SAME),
    )
    base, other = pl.col("place_base"), pl.col("place_other")
    several = (base > 0) & (other > 0)
    compiled = pl.col("region_compiled") | pl.col("compiled")
    had, has = pl.col("had") & compiled, pl.col("has") & compiled
    region_is_op = pl.col("region_is_op")
    replaced = (pl.col("gap_base") > 0) & (pl.col("gap_other") > 0)
    generated = pl.col("place_base_any") & pl.col("place_other_any")
    is_lost = is_work & pl.any_horizontal(
        pl.col(f"{side}_node").is_null() & pl.col(f"op_{side}_lost") for side in SIDES
    )
    # As above inside calls of both sides; then compiled regions, whose kernels have no counterparts
    # one by one; then what replaces what in one place; at last, calls that are only added or
    # removed.
    alone = _first(
        (is_lost, UNRECORDED),
        (in_op & shapes, SHAPES),
        (in_op & types, TYPES),
        (in_op, SWAPPED),
        (had & has & pl.col("other_regions"), BREAK),
        (has & ~pl.col("had"), FUSED),
        (had & ~pl.col("has"), UNFUSED),
        (generated & pl.col("place_other_generated"), FUSED),
        (generated & pl.col("place_base_generated"), UNFUSED),
        (copies & ~replaced, COPIES),
        (region_is_op & pl.col("region_shapes"), SHAPES),
        (region_is_op & pl.col("region_types"), TYPES),
        # As many kernels instead of others are swapped, fewer are fused.
        (several & (region_is_op | (base == other)), SWAPPED),
        (several & (other < base), FUSED),
        (several, UNFUSED),
        (pl.col("other_node").is_null(), REMOVED),
        (pl.lit(True), ADDED),
    )
    return pl.when("in_both").then(both).otherwise(alone)


def _first(*cases: tuple[pl.Expr, str]) -> pl.Expr:
    """The cause of the first case that holds."""
    return pl.coalesce(pl.when(holds).then(pl.lit(cause)) for holds, cause in cases)


def _group() -> pl.Expr:
    alone = pl.when(pl.col("is_work") & (pl.col("top") == pl.col("slot"))).then("region")
    return pl.when("in_both").then("op").otherwise(alone.otherwise("top"))
