"""Charts of where time went: by class, by step, by kernel, by cause."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from profframe.pages.plots import chart_parts
from profframe.show.compact_tables import with_copies_apart

MOST_STEPS: Final = 400
"""Maximum of one (run, rank)."""
CLASSES: Final = ("compute", "exposed communication", "exposed copy", "unrecorded", "idle")
"""Classes that add up to a step, or to all device time; they are also names of columns."""
CAUSES: Final = ("host_wait", "sync", "kernel_wait", "other", "unrecorded")
_MEASURES: Final = ("whole step", "devices busy")


def breakdown_of_steps(rows: pl.DataFrame) -> chart_parts.AnyChart:
    """What devices did in each step: stacked bars."""
    first = _first_steps(rows)
    unit = chart_parts.fitting_unit(chart_parts.TIME, first, "span_ns")
    panels = chart_parts.label_rows(
        _with_classes(first, unit), chart_parts.TRACE, chart_parts.MOST_PANELS
    )
    chart = _stacked_bars(panels.frame, unit).encode(
        x=alt.X("at:O", title="Step", sort=None, axis=chart_parts.step_axis()),
        y=alt.Y("value:Q", title=f"Time ({unit.name})"),
    )
    heading = chart_parts.title(
        "How the devices spent each step", panels.cut("trace"), _cut(rows, first)
    )
    return chart_parts.in_panels(chart, panels, heading)


def breakdown_of_traces(rows: pl.DataFrame) -> chart_parts.AnyChart:
    """What devices did in each trace: a stacked bar per (run, rank)."""
    unit = chart_parts.fitting_unit(chart_parts.TIME, rows, "span_ns")
    bars = chart_parts.label_rows(
        _with_classes(rows, unit), chart_parts.TRACE, chart_parts.MOST_BARS
    )
    return (
        _stacked_bars(bars.frame, unit)
        .encode(
            y=alt.Y("panel:N", sort=None, axis=chart_parts.name_axis() if bars.several else None),
            x=alt.X("value:Q", title=f"Time ({unit.name})"),
        )
        .properties(
            width=chart_parts.WIDTH,
            height=alt.Step(chart_parts.BAR),
            title=chart_parts.title("How the devices spent their time", bars.cut("trace")),
        )
    )


def steps(rows: pl.DataFrame) -> chart_parts.AnyChart:
    """How long each step took, and how much of that time a device was busy."""
    first = _first_steps(rows)
    unit = chart_parts.fitting_unit(chart_parts.TIME, first, "step_ns")
    whole, busy = _MEASURES
    frame = chart_parts.in_unit(first, unit, **{whole: "step_ns", busy: "busy_ns"})
    measures = _MEASURES[:1] if frame["busy_ns"].is_null().all() else _MEASURES
    single = rows.height > 1 and not rows.select(chart_parts.TRACE).is_duplicated().any()
    lines = chart_parts.label_rows(
        frame, chart_parts.TRACE, chart_parts.MOST_BARS if single else chart_parts.MOST_SERIES
    )
    axis = f"Time ({unit.name})"
    chart = (
        chart_parts.pairs(lines.frame, measures, "panel", axis)
        if single
        else _lines_of_steps(lines, measures, axis)
    )
    tooltip = chart_parts.tips(
        ("panel:N", "trace", ""),
        ("step:Q", "step", "d"),
        ("part:N", "time", ""),
        ("value:Q", unit.name, ",.3f"),
        ("busy_share:Q", "busy", ".1%"),
    )
    heading = chart_parts.title("Time of steps", lines.cut("trace"), _cut(rows, first))
    return chart.encode(tooltip=tooltip).properties(title=heading)


def _lines_of_steps(
    lines: chart_parts.LabelledRows, measures: tuple[str, ...], axis: str
) -> alt.Chart:
    dashes = alt.Scale(domain=measures, range=[[1, 0], [4, 3]][: len(measures)])
    if lines.several:
        colour = alt.Color(
            "panel:N", scale=chart_parts.series(lines.labels), legend=chart_parts.legend()
        )
    else:
        colour = alt.Color(
            "part:N", scale=chart_parts.classes(measures), legend=chart_parts.legend()
        )
    return (
        alt.Chart(lines.frame)
        .transform_fold(list(measures), as_=["part", "value"])
        .transform_filter("isValid(datum.value)")
        .mark_line(point=alt.OverlayMarkDef(size=22))
        .encode(
            x=alt.X("step:O", title="Step", axis=chart_parts.step_axis()),
            y=alt.Y("value:Q", title=axis),
            color=colour,
            strokeDash=alt.StrokeDash(
                "part:N", scale=dashes, legend=chart_parts.legend(lines=lines.several)
            ),
            detail="panel:N",
        )
        .properties(width=chart_parts.WIDTH, height=chart_parts.HEIGHT)
    )


def kernel_categories(rows: pl.DataFrame) -> chart_parts.AnyChart:
    """Device time by category of the kernels; exposed and hidden."""
    rows = with_copies_apart(rows)
    unit = chart_parts.fitting_unit(chart_parts.TIME, rows, "total_ns")
    frame = chart_parts.in_unit(
        rows, unit, total="total_ns", exposed="exposed_ns", **{"both at once": "both_ns"}
    ).with_columns(pl.col("category").fill_null("other").alias("label"))
    panels = chart_parts.label_rows(frame, chart_parts.TRACE, chart_parts.MOST_PANELS)
    classes = [n for n in ("compute", "communication", "copy") if n in set(rows["class"])]
    chart = (
        alt.Chart(panels.frame)
        .mark_bar()
        .encode(
            y=alt.Y("label:N", sort=None, axis=chart_parts.name_axis()),
            x=alt.X("total:Q", title=f"Device time ({unit.name})"),
            color=alt.Color(
                "class:N", scale=chart_parts.classes(classes), legend=chart_parts.legend()
            ),
            tooltip=chart_parts.tips(
                ("label:N", "category", ""),
                ("panel:N", "trace", ""),
                ("class:N", "class", ""),
                ("total:Q", unit.name, ",.3f"),
                ("share:Q", "share", ".1%"),
                ("exposed:Q", f"exposed ({unit.name})", ",.3f"),
                ("both at once:Q", f"computes and communicates ({unit.name})", ",.3f"),
                ("calls:Q", "calls", ",d"),
            ),
        )
    )
    heading = chart_parts.title("Where device time went", panels.cut("trace"))
    return chart_parts.in_panels(
        chart, panels, heading, height=alt.Step(chart_parts.BAR), own_y=True
    )


def kernels(rows: pl.DataFrame, full_names: pl.DataFrame | None = None) -> chart_parts.AnyChart:
    """The kernels that took the most device time; ``full_names`` belong to rows by short name."""
    unit = chart_parts.fitting_unit(chart_parts.TIME, rows, "total_ns")
    named = chart_parts.with_short_labels(rows)
    if full_names is not None:
        named = named.drop(chart_parts.FULL_NAME).join(
            _full_names(full_names), on=["run", "rank", "name"], how="left", maintain_order="left"
        )
    labels = chart_parts.with_labels(named, "top_op", "top op", missing=None)
    frame = chart_parts.in_unit(labels, unit, total="total_ns", mean="mean_ns").with_columns(
        pl.col("class").fill_null("others").alias("of class")
    )
    panels = chart_parts.label_rows(frame, chart_parts.TRACE, chart_parts.MOST_PANELS)
    present = [
        name
        for name in ("compute", "communication", "copy", "others")
        if name in set(panels.frame["of class"])
    ]
    chart = (
        alt.Chart(panels.frame)
        .mark_bar()
        .encode(
            y=alt.Y("label:N", sort=None, axis=chart_parts.name_axis()),
            x=alt.X("total:Q", title=f"Device time ({unit.name})"),
            color=alt.Color(
                "of class:N", scale=chart_parts.classes(present), legend=chart_parts.legend()
            ),
            tooltip=chart_parts.tips(
                ("label:N", "kernel", ""),
                ("panel:N", "trace", ""),
                ("of class:N", "class", ""),
                ("total:Q", unit.name, ",.3f"),
                ("share:Q", "share", ".1%"),
                ("calls:Q", "calls", ",d"),
                ("mean:Q", f"mean ({unit.name})", ",.4f"),
                ("top op:N", "mostly for op", ""),
                (f"{chart_parts.FULL_NAME}:N", chart_parts.FULL_NAME, ""),
            ),
        )
    )
    what = "Kernels and copies" if "copy" in present else "Kernels"
    heading = chart_parts.title(f"{what} with the most device time", panels.cut("trace"))
    return chart_parts.in_panels(
        chart, panels, heading, height=alt.Step(chart_parts.BAR), own_y=True
    )


def idle(rows: pl.DataFrame) -> chart_parts.AnyChart:
    """How long each stream or device was idle, by cause."""
    unit = chart_parts.fitting_unit(chart_parts.TIME, rows, "idle_ns")
    keys = ("run", "rank", "device", "stream")
    bars = chart_parts.label_rows(
        chart_parts.in_unit(rows, unit, idle="idle_ns", longest="max_ns"),
        keys,
        chart_parts.MOST_BARS,
    )
    what = "device" if rows["stream"].is_null().all() else "stream"
    present = [cause for cause in CAUSES if cause in set(bars.frame["cause"])]
    return (
        alt.Chart(bars.frame)
        .transform_calculate(order=_order("cause", CAUSES))
        .mark_bar()
        .encode(
            y=alt.Y("panel:N", sort=None, axis=chart_parts.name_axis() if bars.several else None),
            x=alt.X("idle:Q", title=f"Idle time ({unit.name})"),
            color=alt.Color(
                "cause:N", scale=chart_parts.classes(present), legend=chart_parts.legend()
            ),
            order=alt.Order("order:Q"),
            tooltip=chart_parts.tips(
                ("panel:N", what, ""),
                ("cause:N", "cause", ""),
                ("idle:Q", f"idle ({unit.name})", ",.3f"),
                ("span_share:Q", f"of the {what}'s time", ".1%"),
                ("gaps:Q", "gaps", ",d"),
                ("longest:Q", f"longest ({unit.name})", ",.3f"),
            ),
        )
        .properties(
            width=chart_parts.WIDTH,
            height=alt.Step(chart_parts.BAR),
            title=chart_parts.title(f"Why each {what} was idle", bars.cut(what)),
        )
    )


def _full_names(rows: pl.DataFrame) -> pl.DataFrame:
    """For each short name the full one with the most device time, and the number of others."""
    named = chart_parts.with_labels(rows.drop_nulls("short_name"), label=chart_parts.FULL_NAME)
    others = (
        pl.when(pl.len() > 1).then(pl.format(" and {} more", pl.len() - 1)).otherwise(pl.lit(""))
    )
    return (
        named.sort("total_ns", descending=True, nulls_last=True, maintain_order=True)
        .group_by("run", "rank", name="short_name", maintain_order=True)
        .agg(pl.col(chart_parts.FULL_NAME).first() + others)
    )


def _with_classes(rows: pl.DataFrame, unit: chart_parts.ChartUnit) -> pl.DataFrame:
    columns = {name: f"{name.replace(' ', '_')}_ns" for name in CLASSES}
    return chart_parts.in_unit(rows, unit, span="span_ns", **columns)


def _stacked_bars(frame: pl.DataFrame, unit: chart_parts.ChartUnit) -> chart_parts.AnyChart:
    """Bars of the classes, without their axes; unrecorded is one only where there is such time."""
    present = tuple(name for name in CLASSES if name != "unrecorded" or frame[name].sum())
    return (
        alt.Chart(frame)
        .transform_fold(list(present), as_=["part", "value"])
        .transform_calculate(order=_order("part", present))
        .mark_bar()
        .encode(
            color=alt.Color(
                "part:N", scale=chart_parts.classes(present), legend=chart_parts.legend()
            ),
            order=alt.Order("order:Q"),
            tooltip=chart_parts.tips(
                ("panel:N", "trace", ""),
                ("step:N", "step", ""),
                ("part:N", "part", ""),
                ("value:Q", unit.name, ",.3f"),
                ("span:Q", f"of ({unit.name})", ",.3f"),
            ),
        )
    )


def _first_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """The first steps of each trace; ``at`` is unique even if numbers repeat."""
    before = pl.int_range(pl.len()).over("run", "rank", "step")
    suffix = pl.when(before == 0).then(pl.lit("")).otherwise(pl.format(" ({})", before + 1))
    return rows.filter(pl.int_range(pl.len()).over("run", "rank") < MOST_STEPS).with_columns(
        (pl.col("step").cast(pl.String) + suffix).alias("at")
    )


def _cut(rows: pl.DataFrame, first: pl.DataFrame) -> str:
    note = f"first {MOST_STEPS} steps of a trace; {{}} left out"
    return chart_parts.left_out(note, rows.height - first.height, "step")


def _order(field: str, names: tuple[str, ...]) -> str:
    return f"indexof({list(names)}, datum['{field}'])"
