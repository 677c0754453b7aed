"""The roofline: how close work came to what devices can do."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from profframe.pages.plots import chart_parts

MOST_POINTS: Final = 500
"""Maximum points: those that lost the most time."""
_MOST_PANELS: Final = 4
_HEIGHT: Final = 320
_TERA: Final = 1e12
_GIGA: Final = 1e9
_NO_PEAK: Final = "no known peak"


def roofline(rows: pl.DataFrame, measured: pl.DataFrame) -> chart_parts.AnyChart:
    """Rates against arithmetic intensity on logarithmic axes, under the peaks of the devices."""
    largest = measured.group_by("run", "rank", "device", maintain_order=True).head(MOST_POINTS)
    labels = chart_parts.with_labels(
        chart_parts.with_short_labels(largest), "input_dims", "shapes", missing=None
    )
    frame = labels.with_columns(
        (pl.col("flop_per_s") / _TERA).alias("achieved"),
        (pl.col("bytes_per_s") / _GIGA).alias("moved"),
        (pl.col("peak_flop_per_s") / _TERA).alias("peak"),
        (pl.col("peak_bytes_per_s") / _TERA).alias("memory peak"),
        (pl.col("total_ns") / 1e6).alias("total"),
        (pl.col("lost_ns") / 1e6).alias("lost"),
        pl.col("peak_dtype").fill_null(_NO_PEAK).alias("type"),
    )
    panels = chart_parts.label_rows(frame, ("run", "rank", "device"), _MOST_PANELS)
    types = sorted(panels.frame["type"].unique())
    colour = alt.Color(
        "type:N", scale=chart_parts.series(types), legend=chart_parts.legend("peak of")
    )
    x = alt.X("flop_per_byte:Q", **chart_parts.logarithmic("Arithmetic intensity (FLOP/byte)"))
    y = alt.Y("achieved:Q", **chart_parts.logarithmic("Achieved (TFLOP/s)"))
    base = alt.Chart(panels.frame)
    points = base.mark_circle(opacity=0.75, stroke="white", strokeWidth=0.5).encode(
        x=x,
        y=y,
        color=colour,
        size=alt.Size(
            "total:Q", title="time (ms)", scale=alt.Scale(range=[20, 500], zero=True), legend=None
        ),
        tooltip=chart_parts.tips(
            ("label:N", "name", ""),
            (f"{chart_parts.FULL_NAME}:N", chart_parts.FULL_NAME, ""),
            ("shapes:N", "shapes", ""),
            ("total:Q", "time (ms)", ",.3f"),
            ("share:Q", "share of the time", ".1%"),
            ("lost:Q", "lost (ms)", ",.3f"),
            ("flop_per_byte:Q", "FLOP/byte", ",.3~f"),
            ("achieved:Q", "TFLOP/s", ",.3~f"),
            ("flop_share:Q", "of the peak", ".1%"),
            ("moved:Q", "GB/s", ",.1f"),
            ("bandwidth_share:Q", "of memory bandwidth", ".1%"),
            ("type:N", "peak of", ""),
            ("note:N", "note", ""),
        ),
    )
    chart = alt.layer(_roofs(base, panels.frame, x, y, colour), points, data=panels.frame)
    heading = chart_parts.title(
        "Work against device peaks",
        chart_parts.left_out(
            "{} without known FLOPs or bytes not shown", rows.height - measured.height, "row"
        ),
        panels.cut("device"),
        chart_parts.left_out(
            f"the {MOST_POINTS} that lost the most time; {{}} left out",
            measured.height - largest.height,
            "row",
        ),
        "" if frame["peak"].is_not_null().any() else "the peaks of these devices are not known",
    )
    return chart_parts.in_panels(chart, panels, heading, height=_HEIGHT)


def _roofs(
    base: alt.Chart, frame: pl.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color
) -> chart_parts.AnyChart:
    """Lines at the peaks of the devices: along the bandwidth up to the ridge, then level."""
    low, high = frame.select(
        low=pl.col("flop_per_byte").min(), high=pl.col("flop_per_byte").max()
    ).row(0)
    return (
        base.transform_filter("isValid(datum.peak) && isValid(datum['memory peak'])")
        .transform_aggregate(rows="count()", groupby=["panel", "type", "peak", "memory peak"])
        .transform_calculate(
            ridge="datum.peak / datum['memory peak']",
            left=f"min({low}, datum.ridge) / 3",
            right=f"max({high}, datum.ridge) * 3",
        )
        .transform_fold(["left", "ridge", "right"], as_=["end", "flop_per_byte"])
        .transform_calculate(achieved="min(datum.peak, datum.flop_per_byte * datum['memory peak'])")
        .mark_line(strokeWidth=1.5)
        .encode(
            x=x,
            y=y,
            color=colour,
            detail="peak:Q",
            tooltip=chart_parts.tips(
                ("type:N", "peak of", ""),
                ("peak:Q", "TFLOP/s", ",.1f"),
                ("memory peak:Q", "memory (TB/s)", ",.2f"),
            ),
        )
    )
