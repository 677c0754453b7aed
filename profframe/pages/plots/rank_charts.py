"""Charts of the ranks of a job: how they differ, who waits for whom, how fast they communicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import altair as alt
import polars as pl

from profframe.pages.plots import chart_parts, time_charts
from profframe.show import units
from profframe.show.compact_tables import clock_note
from profframe.show.kernel_names import shortened

_WAITS: Final = ("held up others", "waited")
_TIMES: Final = ("communication", "waited")


def ranks(breakdown: pl.DataFrame, stragglers: pl.DataFrame) -> chart_parts.AnyChart:
    """What the devices of each rank did, and how long ranks waited and were waited for."""
    drawn = ((time_charts.breakdown_of_traces, breakdown), (_waits, stragglers))
    charts = [draw(rows) for draw, rows in drawn if rows.height]
    return charts[0] if len(charts) == 1 else _stack(*charts)


def _waits(rows: pl.DataFrame) -> chart_parts.AnyChart:
    held_up, waited = _WAITS
    unit = chart_parts.fitting_unit(chart_parts.TIME, rows, "held_up_ns", "wait_ns")
    before = chart_parts.with_labels(rows.sort("run", "rank"), "before_op", "op", missing=None)
    short = shortened(before.select(name="before_kernel"), "name")
    before = chart_parts.with_labels(before.hstack(short), "name", "kernel", missing=None).drop(
        "name"
    )
    frame = chart_parts.in_unit(before, unit, **{held_up: "held_up_ns", waited: "wait_ns"})
    bars = chart_parts.label_rows(frame, chart_parts.TRACE, chart_parts.MOST_BARS)
    clocks = clock_note(frame)
    tooltip = chart_parts.tips(
        ("panel:N", "rank", ""),
        ("part:N", "", ""),
        ("value:Q", unit.name, ",.3f"),
        ("collectives:Q", "collectives", ",d"),
        ("times_last:Q", "times last", ",d"),
        ("op:N", "op before", ""),
        ("kernel:N", "kernel before", ""),
    )
    heading = chart_parts.title(
        "Which ranks waited for which in collectives", bars.cut("rank"), clocks
    )
    chart = chart_parts.pairs(bars.frame, _WAITS, "panel", f"Time ({unit.name})")
    return chart.encode(tooltip=tooltip).properties(title=heading)


def collectives(rows: pl.DataFrame, top: int) -> chart_parts.AnyChart:
    """Time and waits of collectives, and their bandwidth by size."""
    unit = chart_parts.fitting_unit(chart_parts.TIME, rows, "total_ns", "skew_ns")
    transfer, waited = _TIMES
    frame = chart_parts.in_unit(rows, unit, **{transfer: "total_ns", waited: "skew_ns"})
    frame = chart_parts.with_labels(frame, "process_group", "group", missing=None).with_columns(
        pl.Series("label", _what(frame), pl.String)
    )
    largest = frame.head(top)
    alone = rows["skew_ns"].is_null().all()
    heading = chart_parts.title(
        "Time of collectives" if alone else "Time of collectives, and waits for the last rank",
        chart_parts.first(top, rows.height),
        "including waits for other ranks, which are not loaded"
        if alone
        else clock_note(rows.drop_nulls("skew_ns")),
    )
    measures = _TIMES[:1] if alone else _TIMES
    bars = chart_parts.pairs(largest, measures, "label", f"Time ({unit.name})")
    bars = bars.encode(tooltip=_tooltip(unit)).properties(title=heading)
    sized = chart_parts.positive(frame, "bytes", "bus_gb_per_s")
    return _stack(bars, _bandwidth(sized, rows.height, unit)) if sized.height else bars


def _bandwidth(
    sized: pl.DataFrame, total: int, time: chart_parts.ChartUnit
) -> chart_parts.AnyChart:
    rows = sized.head(chart_parts.MOST_ROWS)
    unit = chart_parts.fitting_unit(chart_parts.BYTES, rows, "bytes")
    frame = chart_parts.with_labels(rows, "collective", "kind").with_columns(
        (pl.col("bytes") / unit.size).alias("size")
    )
    kinds = frame["kind"].unique(maintain_order=True).to_list()
    return (
        alt.Chart(frame)
        .mark_circle(size=70, opacity=0.75)
        .encode(
            x=alt.X("size:Q", **chart_parts.logarithmic(f"Size ({unit.name})")),
            y=alt.Y("bus_gb_per_s:Q", **chart_parts.logarithmic("Bus bandwidth (GB/s)")),
            color=alt.Color("kind:N", scale=chart_parts.series(kinds), legend=chart_parts.legend()),
            tooltip=_tooltip(time),
        )
        .properties(
            width=chart_parts.WIDTH,
            height=chart_parts.HEIGHT,
            title=chart_parts.title(
                "Bandwidth of collectives",
                chart_parts.left_out(
                    "{} without known sizes not shown", total - sized.height, "row"
                ),
                f"first {rows.height:,} of {sized.height:,}" if rows.height < sized.height else "",
            ),
        )
    )


def _stack(*charts: Any) -> chart_parts.AnyChart:
    return alt.vconcat(*charts).resolve_scale(color="independent")


def _what(rows: pl.DataFrame) -> list[str]:
    """A label for each row; with the exact size where rounded sizes are equal."""
    several = {key for key in ("run", "process_group") if rows[key].n_unique() > 1}
    collectives = list(rows.iter_rows(named=True))
    short = [_words(row, several, units.size) for row in collectives]
    counts = Counter(short)
    exact = [_words(row, several, lambda size: f"{size:,} B") for row in collectives]
    return [long if counts[name] > 1 else name for name, long in zip(short, exact, strict=True)]


def _words(row: dict[str, Any], several: set[str], size: Callable[[int], str]) -> str:
    group = row["process_group"]
    words = (
        row["run"] if "run" in several else None,
        row["collective"] or "collective",
        None if row["bytes"] is None else size(row["bytes"]),
        row["dtype"],
        None if group is None or "process_group" not in several else f"group {group}",
    )
    return ", ".join(chart_parts.text(str(word)) for word in words if word is not None)


def _tooltip(unit: chart_parts.ChartUnit) -> list[alt.Tooltip]:
    return chart_parts.tips(
        ("label:N", "what", ""),
        ("group:N", "group", ""),
        ("ranks:Q", "ranks", ",d"),
        ("calls:Q", "calls", ",d"),
        ("communication:Q", f"time ({unit.name})", ",.3f"),
        ("waited:Q", f"waits ({unit.name})", ",.3f"),
        ("bus_gb_per_s:Q", "bus GB/s", ",.2f"),
        ("mismatches:Q", "mismatches", ",d"),
    )
