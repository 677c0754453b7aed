"""Charts of memory snapshots: what held memory over time, and how segments are divided."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from profframe.pages.plots import chart_parts, palette
from profframe.show import units

DEVICES: Final = ("run", "rank", "device_type", "device")
"""Keys of a panel."""
TOP: Final = 8
"""Maximum names of a device; the rest is one area."""
_REST: Final = "the rest"
_STATES: Final = {
    "active_allocated": ("allocated", "allocated"),
    "active_pending_free": ("waits for a stream", "copy"),
    "active_awaiting_free": ("waits for a stream", "copy"),
    "inactive": ("free", "idle"),
}
"""For each state, its words and the class whose colour it has."""
_SEGMENT: Final = 14
"""Height of a segment."""


def timeline(rows: pl.DataFrame, traces: pl.DataFrame, by: str) -> chart_parts.AnyChart:
    """What was active over time, as stacked areas."""
    has_times = rows["time_ns"].null_count() < rows.height
    if has_times:
        first = pl.col("time_ns").min().over(DEVICES)
        timed = _one_moment(rows.with_columns(pl.col("time_ns").fill_null(first)))
        moment = chart_parts.span_unit(timed, "time_ns")
        timed = chart_parts.since_start(timed, traces, moment, time="time_ns")
        x = chart_parts.time_axis(moment)
        heading = moment.name
    else:
        timed = rows.with_columns(time=pl.col("event_id"))
        x = alt.X("time:Q", title="Record number", scale=alt.Scale(nice=False))
        heading = "record"
    named = chart_parts.with_labels(timed, "name", "label")
    if by == "stack":  # several stacks may have a frame in common
        named = named.with_columns(
            pl.format("{} (stack {})", "label", "stack_id")
            .fill_null(pl.col("label"))
            .alias("label")
        )
    named = named.with_columns(
        pl.when("is_rest").then(pl.lit(_REST)).otherwise("label").alias("label")
    )
    unit = chart_parts.fitting_unit(chart_parts.BYTES, rows, "active_bytes")
    scaled = chart_parts.in_unit(named, unit, active="active_bytes")
    panels = chart_parts.label_rows(scaled, DEVICES, chart_parts.MOST_PANELS, "panel")
    frame = panels.frame
    labels = [n for n in frame["label"].unique(maintain_order=True).to_list() if n != _REST]
    order = {label: n for n, label in enumerate([*labels, _REST])}
    frame = frame.with_columns(pl.col("label").replace_strict(order, default=0).alias("order"))
    # Stacked here: Vega would count what one device lacks at the time of another one's record as
    # zero.
    keys = (*DEVICES, "time")
    frame = frame.sort(*keys, "order", nulls_last=True, maintain_order=True).with_columns(
        pl.col("active").cum_sum().over(keys).alias("top")
    )
    frame = frame.with_columns((pl.col("top") - pl.col("active")).alias("bottom"))
    colours = [palette.SERIES[n % chart_parts.MOST_SERIES].light for n in range(len(labels))]
    domain = [*labels, _REST] if frame["is_rest"].any() else labels
    scale = alt.Scale(domain=domain, range=[*colours, palette.CLASSES["others"].light])
    legend = alt.Legend(
        title=None,
        orient="bottom",
        direction="vertical",
        columns=2,
        labelLimit=chart_parts.LABEL_WIDTH,
    )
    chart = (
        alt.Chart(frame)
        .mark_area(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y("top:Q", title=f"Active memory ({unit.name})", stack=None),
            y2=alt.Y2("bottom:Q"),
            color=alt.Color("label:N", scale=scale, legend=legend),
            tooltip=chart_parts.tips(
                ("label:N", by, ""),
                ("time:Q", heading, ",.3f"),
                ("active:Q", f"active ({unit.name})", ",.2f"),
            ),
        )
    )
    title = chart_parts.title(f"What held memory over time, by {by}", panels.cut("device"))
    kept = chart_parts.LabelledRows(frame, panels.labels, panels.total)
    return chart_parts.in_panels(chart, kept, title, own_y=True)


def segments(rows: pl.DataFrame) -> chart_parts.AnyChart:
    """Each segment as a bar, with its pieces coloured by their state."""
    panels = chart_parts.label_rows(rows, DEVICES, chart_parts.MOST_PANELS)
    unit = chart_parts.fitting_unit(chart_parts.BYTES, rows, "segment_bytes")
    words = {state: word for state, (word, _) in _STATES.items()}
    frame = chart_parts.in_unit(
        panels.frame, unit, start="offset_bytes", size="bytes"
    ).with_columns(
        (pl.col("start") + pl.col("size")).alias("end"),
        pl.format("{} {}", pl.col("segment_type").fill_null("segment"), "segment_id").alias("row"),
        pl.col("state").replace_strict(words, default="unknown").alias("what"),
        pl.col("bytes").map_elements(units.size, return_dtype=pl.String).alias("text"),
    )
    colours = dict(_STATES.values()) | {"unknown": "others"}
    domain = [word for word in colours if word in {*frame["what"]}]
    scale = alt.Scale(domain=domain, range=[chart_parts.colour(colours[word]) for word in domain])
    counts = rows.select(*DEVICES, "segments", "pieces").unique()
    shown = rows.select(*DEVICES, "segment_id").unique().height
    longest = max(rows["segment_bytes"].drop_nulls().to_list(), default=0) / unit.size
    chart = (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X(
                "start:Q",
                title=f"Position in the segment ({unit.name})",
                scale=alt.Scale(domain=[0, longest], nice=False),
            ),
            x2=alt.X2("end:Q"),
            y=alt.Y("row:N", sort=None, axis=chart_parts.name_axis()),
            color=alt.Color("what:N", scale=scale, legend=chart_parts.legend()),
            tooltip=chart_parts.tips(
                ("row:N", "segment", ""),
                ("what:N", "state", ""),
                ("text:N", "size", ""),
                ("blocks:Q", "blocks", ",d"),
            ),
        )
    )
    title = chart_parts.title(
        "Segments and their blocks",
        panels.cut("device"),
        chart_parts.left_out(
            "the largest; {} left out", int(counts["segments"].sum()) - shown, "segment"
        ),
        chart_parts.left_out(
            "{} of small size not shown", int(counts["pieces"].sum()) - rows.height, "piece"
        ),
    )
    kept = chart_parts.LabelledRows(frame, panels.labels, panels.total)
    return chart_parts.in_panels(chart, kept, title, height=alt.Step(_SEGMENT), own_y=True)


def _one_moment(rows: pl.DataFrame) -> pl.DataFrame:
    """Of the records at one time, the one when the most was active: areas are stacked by time."""
    keys = [*DEVICES, "time_ns"]
    sums = rows.group_by(*keys, "event_id").agg(pl.col("active_bytes").sum().alias("_sum"))
    best = sums.sort("_sum", "event_id", descending=True).unique(
        keys, keep="first", maintain_order=True
    )
    return rows.join(
        best, on=[*keys, "event_id"], how="semi", nulls_equal=True, maintain_order="left"
    )
