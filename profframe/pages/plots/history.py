"""Charts of many runs: trends of metrics, and regressions."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from profframe.pages.plots import chart_parts
from profframe.show.empty_frames import why_empty

_PERCENT: Final = (chart_parts.ChartUnit("%", 0.01),)
_COUNT: Final = (chart_parts.ChartUnit("", 1),)


def trend(rows: pl.DataFrame) -> chart_parts.AnyChart:
    """Metrics from run to run, and where they changed for good."""
    total = rows["metric"].n_unique()
    latest = rows.group_by("metric", maintain_order=True).tail(chart_parts.MOST_ROWS)
    frames = latest.partition_by("metric", maintain_order=True)
    runs = frames[0].height
    most = min(chart_parts.MOST_PANELS, max(chart_parts.MOST_ROWS // runs, 1))
    frame = pl.concat(map(_in_unit, frames[:most]))
    panels = chart_parts.LabelledRows(
        frame, tuple(frame["panel"].unique(maintain_order=True)), total
    )
    fewer = f"the last {runs:,} runs" if latest.height < rows.height else ""
    x = alt.X(
        "label:N",
        title="Run",
        sort=None,
        axis=alt.Axis(labelAngle=-45, labelLimit=100, labelOverlap=True),
    )
    unit = None if panels.several else panels.labels[0]
    tooltip = chart_parts.tips(
        ("label:N", "run", ""),
        ("panel:N", "metric", ""),
        ("shown:Q", "value", ",.4~f"),
        ("typical:Q", "level", ",.4~f"),
        ("ratio:Q", "over the previous level", ".3f"),
        ("p_value:Q", "p", ".2~g"),
    )
    base = alt.Chart(frame)
    level = base.mark_line(
        interpolate="step", strokeDash=[4, 3], color=chart_parts.colour("reserved")
    ).encode(x=x, y=alt.Y("typical:Q", title=unit))
    line = base.mark_line(strokeWidth=1, color=chart_parts.colour("compute")).encode(
        x=x, y=alt.Y("shown:Q", title=unit)
    )
    points = base.mark_point(
        filled=True, size=30, opacity=1, color=chart_parts.colour("compute")
    ).encode(x=x, y="shown:Q", tooltip=tooltip)
    changes = (
        base.transform_filter("datum.is_change")
        .mark_point(size=160, strokeWidth=2, color=chart_parts.colour("change"))
        .encode(x=x, y="shown:Q", tooltip=tooltip)
    )
    chart = alt.layer(level, line, points, changes, data=frame)
    heading = chart_parts.title("From run to run", panels.cut("metric"), fewer)
    return chart_parts.in_panels(chart, panels, heading, own_y=True)


def regressions(rows: pl.DataFrame, top: int) -> chart_parts.AnyChart:
    """What takes longer than before, by how much, and how sure that is."""
    largest = chart_parts.with_short_labels(rows.head(top), pl.col("what") == "kernel")
    qualified = pl.format("{} ({})", "label", "what")
    largest = largest.with_columns(
        pl.when(pl.col("label").is_duplicated()).then(qualified).otherwise("label").alias("label")
    )
    unit = chart_parts.fitting_unit(chart_parts.TIME, largest, "change_ns", "change_high_ns")
    frame = chart_parts.in_unit(
        largest,
        unit,
        change="change_ns",
        low="change_low_ns",
        high="change_high_ns",
        before="base_ns",
        now="other_ns",
    )
    y = alt.Y("label:N", sort=None, axis=chart_parts.name_axis())
    base = alt.Chart(frame)
    bars = base.mark_bar().encode(
        y=y,
        x=alt.X("change:Q", title=f"Longer per run by ({unit.name})"),
        color=alt.Color(
            "what:N", scale=chart_parts.classes(("op", "kernel")), legend=chart_parts.legend()
        ),
        tooltip=chart_parts.tips(
            (f"{chart_parts.FULL_NAME}:N", "name", ""),
            ("what:N", "what", ""),
            ("change:Q", f"longer by ({unit.name})", ",.3f"),
            ("before:Q", f"before ({unit.name})", ",.3f"),
            ("now:Q", f"now ({unit.name})", ",.3f"),
            ("ratio:Q", "ratio", ".3f"),
            ("pace:Q", "pace of the run", ".3f"),
            ("p_value:Q", "p", ".2~g"),
        ),
    )
    interval = base.mark_rule(strokeWidth=1.5).encode(y=y, x="low:Q", x2="high:Q")
    none = why_empty(rows) or ""
    return alt.layer(bars, interval, data=frame).properties(
        width=chart_parts.WIDTH,
        height=alt.Step(chart_parts.BAR),
        title=chart_parts.title(
            "What takes longer than before", none, chart_parts.first(top, rows.height)
        ),
    )


def _in_unit(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of one metric in a unit that fits them; it is part of their panel's label."""
    metric = str(rows["metric"][0])
    choices, name = _units(metric)
    unit = chart_parts.fitting_unit(choices, rows, "value", "level")
    panel = f"{name} ({unit.name})" if unit.name else name
    return chart_parts.with_labels(rows, "run").with_columns(
        (pl.col("value") / unit.size).alias("shown"),
        (pl.col("level") / unit.size).alias("typical"),
        pl.lit(panel).alias("panel"),
    )


def _units(metric: str) -> tuple[tuple[chart_parts.ChartUnit, ...], str]:
    """Units that fit a metric, and its name without a unit."""
    if ":" in metric:
        return chart_parts.TIME, chart_parts.text(metric)
    for ending, choices in (
        ("_ns", chart_parts.TIME),
        ("_bytes", chart_parts.BYTES),
        ("_share", _PERCENT),
    ):
        if metric.endswith(ending):
            return choices, metric.removesuffix(ending).replace("_", " ")
    return _COUNT, metric.replace("_", " ")
