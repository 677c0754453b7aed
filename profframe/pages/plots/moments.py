"""Charts over the time of a trace: memory, and work that waits for streams."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from profframe.pages.plots import chart_parts
from profframe.show import units

_MEASURES: Final = ("allocated", "reserved")
MEMORIES: Final = ("run", "rank", "device_type", "device")
"""Keys of a memory panel."""
DEVICES: Final = ("run", "rank", "device")
"""Keys of a queue panel."""
_INTEGER_LABEL: Final = "datum.value == floor(datum.value) ? format(datum.value, ',d') : ''"
_LONGEST_OP: Final = 60
MOST_STREAMS: Final = 6
"""Maximum streams of one device: those with the deepest queues."""


def memory(rows: pl.DataFrame, peaks: pl.DataFrame, traces: pl.DataFrame) -> chart_parts.AnyChart:
    """Allocated and reserved memory over time, and the peak with the op that asked for it."""
    moment = chart_parts.span_unit(rows, "time_ns")
    ops = chart_parts.with_labels(rows, "op_name", "op", missing=None)
    joined = chart_parts.since_start(ops, traces, moment, time="time_ns")
    devices = chart_parts.label_rows(
        _with_peaks(joined, peaks), MEMORIES, chart_parts.MOST_PANELS, "of device"
    )
    panels = _in_units(devices)
    axis = f"Memory ({panels.frame['unit'][0]})" if not panels.several else "Memory"
    measures = [name for name in _MEASURES if not panels.frame[name].is_null().all()]
    x = chart_parts.time_axis(moment)
    base = alt.Chart(panels.frame)
    area = base.mark_area(
        interpolate="step-after", opacity=0.25, color=chart_parts.colour("allocated")
    ).encode(x=x, y=alt.Y("allocated:Q", title=axis))
    lines = (
        base.transform_fold([*measures], as_=["measure", "value"])
        .transform_filter("isValid(datum.value)")
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=x,
            y=alt.Y("value:Q", title=axis),
            color=alt.Color(
                "measure:N", scale=chart_parts.classes(measures), legend=chart_parts.legend()
            ),
        )
    )
    hover = base.mark_rule(opacity=0).encode(
        x=x,
        tooltip=chart_parts.tips(
            ("time:Q", moment.name, ",.3f"),
            ("allocated:Q", "allocated", ",.2f"),
            ("reserved:Q", "reserved", ",.2f"),
            ("unit:N", "in", ""),
            ("op:N", "op", ""),
        ),
    )
    labelled = base.transform_filter("datum.peak != null").encode(x=x, y="allocated:Q")
    point = labelled.mark_point(
        filled=True, size=50, opacity=1, color=chart_parts.colour("allocated")
    )
    text = labelled.mark_text(
        align=alt.ExprRef("datum.late ? 'right' : 'left'"),
        dx=alt.ExprRef("datum.late ? -7 : 7"),
        dy=-7,
        limit=chart_parts.LABEL_WIDTH,
    ).encode(text="peak:N")
    chart = alt.layer(area, lines, point, text, hover, data=panels.frame)
    heading = chart_parts.title("Memory over time", panels.cut("device"))
    return chart_parts.in_panels(chart, panels, heading, own_y=True)


def queue_depth(rows: pl.DataFrame, traces: pl.DataFrame) -> chart_parts.AnyChart:
    """How much work was launched but had not begun, stream by stream."""
    stream_keys = [*DEVICES, "stream"]
    deepest = rows.group_by(stream_keys, maintain_order=True).agg(
        pl.col("depth").max().alias("_most")
    )
    place = pl.col("_most").rank("ordinal", descending=True).over(DEVICES)
    busiest = deepest.filter(place <= MOST_STREAMS).select(stream_keys)
    busy_rows = rows.join(
        busiest, on=stream_keys, how="semi", nulls_equal=True, maintain_order="left"
    )
    moment = chart_parts.span_unit(busy_rows, "time_ns")
    frame = chart_parts.since_start(busy_rows, traces, moment, time="time_ns").with_columns(
        pl.format("stream {}", "stream").fill_null("no stream").alias("line")
    )
    panels = chart_parts.label_rows(frame, DEVICES, chart_parts.MOST_PANELS)
    lines = panels.frame["line"].unique(maintain_order=True).to_list()
    chart = (
        alt.Chart(panels.frame)
        .mark_line(interpolate="step-after", strokeWidth=1)
        .encode(
            x=chart_parts.time_axis(moment),
            y=alt.Y(
                "depth:Q",
                title="Kernels and copies waiting",
                axis=alt.Axis(labelExpr=_INTEGER_LABEL),
            ),
            color=alt.Color(
                "line:N",
                scale=chart_parts.series(lines),
                legend=chart_parts.legend() if len(lines) > 1 else None,
            ),
            tooltip=chart_parts.tips(
                ("line:N", "stream", ""),
                ("time:Q", moment.name, ",.3f"),
                ("depth:Q", "waiting", ",d"),
            ),
        )
    )
    heading = chart_parts.title(
        "Work launched but waiting for its stream",
        panels.cut("device"),
        chart_parts.left_out(
            f"the {MOST_STREAMS} deepest of each device; {{}} left out",
            deepest.height - busiest.height,
            "stream",
        ),
    )
    return chart_parts.in_panels(chart, panels, heading, own_y=True)


def _in_units(devices: chart_parts.LabelledRows) -> chart_parts.LabelledRows:
    """Memory of each device in a unit that fits it; it is part of its panel's label."""
    panels = []
    for device in devices.frame.partition_by("of device", maintain_order=True):
        unit = chart_parts.fitting_unit(
            chart_parts.BYTES, device, "allocated_bytes", "reserved_bytes"
        )
        scaled = chart_parts.in_unit(
            device, unit, allocated="allocated_bytes", reserved="reserved_bytes"
        )
        panel = (
            pl.format("{} ({})", "of device", pl.lit(unit.name)) if devices.several else pl.lit("")
        )
        panels.append(scaled.with_columns(pl.lit(unit.name).alias("unit"), panel.alias("panel")))
    frame = pl.concat(panels)
    return chart_parts.LabelledRows(
        frame, tuple(frame["panel"].unique(maintain_order=True)), devices.total
    )


def _with_peaks(frame: pl.DataFrame, peaks: pl.DataFrame) -> pl.DataFrame:
    """The frame with the text of each peak, and whether a row is right of the middle."""
    keys = [*MEMORIES, "time_ns", "allocated_bytes"]
    text = [_peak(row) for row in peaks.iter_rows(named=True)]
    labels = peaks.select(keys).with_columns(pl.Series("peak", text, pl.String))
    first = pl.int_range(pl.len()).over(keys) == 0
    middle = (pl.col("time").max() + pl.col("time").min()) / 2
    return (
        frame.join(labels, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.when(first).then(pl.col("peak")).alias("peak"))
        .with_columns((pl.col("time") > middle).alias("late"))
    )


def _peak(row: dict[str, object]) -> str:
    size = units.size(int(str(row["allocated_bytes"] or 0)))
    op = row["op_name"] or row["annotation_name"]
    return f"peak {size}" + (f", {units.visible(str(op)[:_LONGEST_OP])}" if op else "")
