"""Flame graphs of the aligned trees of two sides: a place has one number in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from profframe.pages.flame import COLUMNS
from profframe.pages.plots import palette
from profframe.pages.report.frame_columns import FrameView
from profframe.pages.report.page_parts import Beside, Flame, PageSection
from profframe.pages.report.why_tree import CALL, least_change
from profframe.show import units

if TYPE_CHECKING:
    from profframe.analysis.causes.explanation import Explanation

_MOST: Final = 2_000
"""Maximum nodes of a side."""
_MARKS: Final = {"more": "change", "less": "memory"}
"""Classes of the palette whose colours mark what takes more and less."""


def section(explanation: Explanation, names: tuple[str, str]) -> PageSection:
    """The section of both flame graphs."""
    least = least_change(explanation)
    other = units.visible(names[1])
    colours = {kind: [c.light, c.dark] for kind, c in palette.CLASSES.items()}
    colours |= {mark: colours[kind] for mark, kind in _MARKS.items()}
    words = {
        "label": "time of a step",
        "verb": "of a step",
        "more": f"takes longer in {other}",
        "less": f"takes less time in {other}",
    }
    options = []
    for side, name in zip(("base", "other"), names, strict=True):
        rows = nodes(explanation.tree, side)
        is_cut = "others" in rows["kind"]
        graph = Flame(
            key=f"flame-{side}",
            label=f"Flame graph of {units.visible(name)}",
            view=FrameView(rows),
            calls=(CALL,),
            options={"colours": colours, "words": words, "least": least},
            cut=f"The {_MOST:,} places with the most time; the rest is in `others`."
            if is_cut
            else "",
        )
        options.append((units.visible(name), graph))
    about = (
        "What a step of each side consists of, the outermost on top; click to zoom in on both, "
        f"type to search. Changes of at least {units.duration(least)} are underlined."
    )
    return PageSection("Flame graphs", about, (Beside(tuple(options), (CALL,)),))


def nodes(tree: pl.DataFrame, side: str) -> pl.DataFrame:
    """Rows of one side as ``flameGraph`` takes them, each after that around it.

    Times are those of a step. A call can have a parent that this side lacks, because the two sides
    nest it differently; such a parent has the other side's name. Calls that are left out are one
    node ``others`` inside their parent.
    """
    own, inside = (pl.col(f"{side}_{of}") for of in ("self_ns", "ns"))
    name = pl.coalesce(f"{side}_name", "base_name", "other_name")
    all_rows = tree.filter(inside > 0)
    kept = all_rows.sort(
        inside, "depth", "slot", descending=[True, False, False]
    ).head(_MOST)  # fmt: skip
    is_step = pl.col("slot") == 0
    shown = kept.select(
        pl.col("depth", "slot").cast(pl.Int64),
        pl.when(pl.col("parent") >= 0).then("parent").alias("parent_id"),
        pl.when(name.is_not_null() | (pl.col("parent") >= 0)).then(name)
        .when(is_step).then(pl.lit("Step")).otherwise(pl.lit("Outside steps")).alias("name"),
        pl.coalesce("kind", pl.when(is_step).then(pl.lit("annotation")).otherwise(pl.lit("other")))
        .alias("kind"),
        pl.col(f"{side}_calls").alias("calls"),
        own.alias("self_ns"),
        "change_ns",
    )  # fmt: skip
    left_out = all_rows.join(kept, on="slot", how="anti").filter(
        pl.col("parent").is_in(kept["slot"].implode())
    )
    others = left_out.group_by("parent", maintain_order=True).agg(
        pl.col("depth").first().cast(pl.Int64),
        calls=pl.col(f"{side}_calls").sum(),
        self_ns=inside.sum(),
        change_ns=pl.col("change_ns").sum(),
    )
    first = int(tree["slot"].max() or 0) + 1  # type: ignore[arg-type]
    rest = others.select(
        "depth",
        (first + pl.int_range(pl.len())).alias("slot"),
        pl.col("parent").alias("parent_id"),
        pl.lit("others").alias("name"),
        pl.lit("others").alias("kind"),
        *("calls", "self_ns", "change_ns"),
    )
    rows = pl.concat([shown, rest]).sort("depth", "slot").rename({"slot": "node_id"})
    return rows.select(
        run=pl.lit(side),
        rank=pl.lit(0),
        direction=pl.lit(None, pl.String),
        self_device_ns=pl.lit(0),
        **{key: pl.col(key) for key in ("node_id", "parent_id", "name", "kind", "calls")},
        self_ns=pl.col("self_ns"),
        change_ns=pl.col("change_ns"),
    ).select(*COLUMNS, "change_ns")
