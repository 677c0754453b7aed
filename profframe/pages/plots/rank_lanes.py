"""Charts with a lane for each rank of a job: its steps as a heat map, a path as a ribbon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import altair as alt
import polars as pl

from profframe.analysis.critical_path.segments import BOUNDS
from profframe.pages.plots import chart_parts, palette
from profframe.show import units

MEASURES: Final = {
    "time": ("step_ns", "whole step", "Time of each step"),
    "wait": ("wait_ns", "waited", "Waits for other ranks in each step"),
    "computation": ("compute_ns", "compute", "Computation on each rank's devices in each step"),
}
"""For each measure of `step_ranks`: its column, the class whose colour it has, and a title."""
_LANE: Final = 20
"""Height of a lane of the ribbon."""
_HEIGHTS: Final = (3, 18)
"""Minimum and maximum height of a lane of the heat map."""
_MAP_HEIGHT: Final = 640
_GAP: Final = 0.06
"""Space between cells, as a share of their width."""
_FAR: Final = 4
"""Times above this many medians all have the same colour."""
_UNRECORDED: Final = "(nothing recorded)"


def heat_map(rows: pl.DataFrame, measure: str) -> chart_parts.AnyChart:
    """Rank against step, coloured by a measure; rows with NULL have no cell."""
    column, of_class, heading = MEASURES[measure]
    several = (rows["first_step"] != rows["last_step"]).any()
    cells = rows.drop_nulls(column)
    unit = chart_parts.fitting_unit(chart_parts.TIME, cells, column)
    frame = chart_parts.in_unit(cells, unit, value=column).with_columns(
        pl.when(pl.col("first_step") == pl.col("last_step"))
        .then(pl.col("first_step").cast(pl.String))
        .otherwise(pl.format("{} to {}", "first_step", "last_step"))
        .alias("steps")
    )
    low, high = _ends(frame["value"].to_list())
    is_cut = (frame["value"] > high).any()
    ranks = rows["rank"].unique().sort().to_list()
    scale = alt.Scale(
        domain=[low, high],
        range=[palette.GRID.light, chart_parts.colour(of_class)],
        clamp=True,
        interpolate="rgb",
        zero=False,
        nice=False,
    )
    key = alt.Legend(title=unit.name, orient="top", direction="horizontal", gradientLength=200)
    lane = min(max(_MAP_HEIGHT // len(ranks), _HEIGHTS[0]), _HEIGHTS[1])
    return (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=alt.X(
                "first_step:O",
                title="Step",
                axis=chart_parts.step_axis(),
                scale=alt.Scale(paddingInner=_GAP, paddingOuter=0),
            ),
            y=alt.Y(
                "rank:O",
                title="Rank",
                axis=_lane_axis(),
                scale=alt.Scale(domain=ranks, paddingInner=_GAP, paddingOuter=0),
            ),
            color=alt.Color("value:Q", scale=scale, legend=key),
            tooltip=chart_parts.tips(
                ("rank:O", "rank", ""),
                ("steps:N", "steps" if several else "step", ""),
                ("value:Q", f"{measure} ({unit.name})", ",.3f"),
            ),
        )
        .properties(
            width=chart_parts.WIDTH,
            height=lane * len(ranks),
            title=chart_parts.title(
                heading,
                "the longest of several steps" if several else "",
                f"values above {high:,.3f} {unit.name} have the same colour" if is_cut else "",
            ),
        )
    )


def _ends(values: list[float]) -> tuple[float, float]:
    """Values with the first and the last colour, without those that are far above the others."""
    middle = sorted(values)[len(values) // 2]
    high = max(value for value in values if not middle or value <= _FAR * middle)
    low = min(values)
    return (low if low < high else 0), high


def _lane_axis() -> alt.Axis:
    return alt.Axis(labelOverlap=True, ticks=False, domain=False)


def ribbon(
    pieces: pl.DataFrame, ranks: Sequence[int], what: str, stretches: int
) -> chart_parts.AnyChart:
    """A path across ranks from left to right: which rank it is on, and what bounds it."""
    lanes, is_cut = _lanes(pieces, ranks)
    kept = pieces.filter(pl.col("rank").is_in(lanes))
    unit = chart_parts.fitting_unit(chart_parts.TIME, pieces, "end_ns")
    frame = chart_parts.in_unit(
        kept, unit, begin="start_ns", end="end_ns", time="total_ns", mostly="name_ns",
        waited="waited_ns",
    )  # fmt: skip
    frame = chart_parts.with_labels(frame, missing=_UNRECORDED).with_columns(
        (pl.col("bound_ns") / pl.col("total_ns")).alias("bound_share")
    )
    present = [bound for bound in BOUNDS if bound in {*frame["bound"]}]
    key = alt.Legend(title=None, orient="top", columns=len(BOUNDS))
    y = alt.Y("rank:O", title="Rank", scale=alt.Scale(domain=lanes), axis=_lane_axis())
    bars = (
        alt.Chart(frame)
        .mark_bar(height={"band": 0.8})
        .encode(
            x=alt.X(
                "begin:Q",
                title=f"Time since the start ({unit.name})",
                scale=alt.Scale(nice=False, zero=True),
            ),
            x2=alt.X2("end:Q"),
            y=y,
            color=alt.Color("bound:N", scale=chart_parts.classes(present), legend=key),
            tooltip=chart_parts.tips(
                ("rank:O", "rank", ""),
                ("bound:N", "bound by", ""),
                ("bound_share:Q", "share with that bound", ".0%"),
                ("time:Q", f"time ({unit.name})", ",.3f"),
                ("begin:Q", f"from ({unit.name})", ",.3f"),
                ("label:N", "most of it", ""),
                ("edge:N", "as", ""),
                ("mostly:Q", f"which took ({unit.name})", ",.3f"),
                ("waited:Q", f"others waited ({unit.name})", ",.3f"),
                ("stretches:Q", "segments", ",d"),
            ),
        )
    )
    notes = (
        f"{stretches:,} segments in {units.plural(pieces.height, 'piece')}"
        if stretches != pieces.height
        else "",
        f"the {len(lanes)} ranks that it is on longest" if is_cut else "",
    )
    return alt.layer(_moves(frame).encode(y=y), bars).properties(
        width=chart_parts.WIDTH, height=_LANE * len(lanes), title=chart_parts.title(what, *notes)
    )


def _lanes(pieces: pl.DataFrame, ranks: Sequence[int]) -> tuple[list[int], bool]:
    """The ranks that have a lane: all of them, or those that the path is on longest."""
    if len(ranks) <= chart_parts.MOST_BARS:
        return [*ranks], False
    longest = pieces.group_by("rank").agg(pl.col("total_ns").sum())
    order = longest.sort(pl.col("total_ns"), -pl.col("rank"), descending=True)
    return sorted(
        order["rank"].head(chart_parts.MOST_BARS).to_list()
    ), order.height > chart_parts.MOST_BARS


def _moves(frame: pl.DataFrame) -> alt.Chart:
    """Lines from each rank to the next one."""
    moves = frame.select("rank", "begin", pl.col("rank").shift().alias("before"))
    moves = moves.filter(pl.col("rank") != pl.col("before"))
    return (
        alt.Chart(moves)
        .mark_rule(color=palette.FAINT.light, size=1, opacity=0.5)
        .encode(x=alt.X("begin:Q"), y2=alt.Y2("before:O"))
    )
