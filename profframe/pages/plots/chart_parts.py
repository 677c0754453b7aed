"""Shared parts of charts: units, labels, panels, titles, scales."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt
import polars as pl

from profframe.errors import ParameterError
from profframe.pages.plots import palette
from profframe.show import units
from profframe.show.empty_frames import why_empty
from profframe.show.kernel_names import disambiguated

WIDTH: Final = 600
"""Width of every view, in pixels."""
HEIGHT: Final = 220
PANEL_HEIGHT: Final = 110
"""Height of each of several views, one below the other."""
BAR: Final = 18
"""Height of a horizontal bar and the space around it."""
MOST_PANELS: Final = 8
MOST_BARS: Final = 64
MOST_SERIES: Final = len(palette.SERIES)
MOST_ROWS: Final = 5000
"""Maximum rows of one frame: altair draws no more by default."""
LABEL_WIDTH: Final = 260
"""Pixels of a label before it is cut; the tooltip has all of it."""
_MIDDLE_OUT: Final = (
    "length(datum.label) > 42 ? slice(datum.label, 0, 25) + '…' + slice(datum.label, -16)"
    " : datum.label"
)
NO_NAME: Final = "(no name)"
TRACE: Final = ("run", "rank")
_JAVASCRIPT: Final = frozenset(
    {
        "__proto__", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable",
        "toLocaleString", "toString", "valueOf", "__defineGetter__", "__defineSetter__",
        "__lookupGetter__", "__lookupSetter__",
    }
)  # fmt: skip

AnyChart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart


@dataclass(frozen=True, slots=True)
class ChartUnit:
    """A unit, and its size in the unit of the answer."""

    name: str
    size: float


TIME: Final = (ChartUnit("us", 1e3), ChartUnit("ms", 1e6), ChartUnit("s", 1e9))
BYTES: Final = (
    ChartUnit("B", 1),
    ChartUnit("KiB", 2**10),
    ChartUnit("MiB", 2**20),
    ChartUnit("GiB", 2**30),
)


def fitting_unit(choices: Sequence[ChartUnit], frame: pl.DataFrame, *columns: str) -> ChartUnit:
    """The largest unit in which the largest value of some columns is 1 or more.

    Examples
    --------
    >>> fitting_unit(TIME, pl.DataFrame({"a_ns": [5_000_000, None]}), "a_ns").name
    'ms'
    """
    tops = frame.select(pl.max_horizontal(pl.col(columns).abs().max())).item()
    fit = [unit for unit in choices if tops is not None and tops >= unit.size]
    return fit[-1] if fit else choices[0]


def in_unit(frame: pl.DataFrame, unit: ChartUnit, **columns: str) -> pl.DataFrame:
    """The frame with some of its columns again, in the unit of the chart.

    ``columns`` are new names, in which ``_`` is a space, and columns of the answer.

    Examples
    --------
    >>> in_unit(pl.DataFrame({"idle_ns": [1_500]}), TIME[0], idle="idle_ns").row(0)
    (1500, 1.5)
    """
    return frame.with_columns(
        (pl.col(column) / unit.size).alias(name.replace("_", " "))
        for name, column in columns.items()
    )


def since_start(
    frame: pl.DataFrame, traces: pl.DataFrame, unit: ChartUnit, **columns: str
) -> pl.DataFrame:
    """The frame with times since the start of the trace, in the unit of the chart."""
    starts = traces.select(*TRACE, pl.col("start_ns").fill_null(0).alias("_start"))
    joined = frame.join(starts, on=TRACE, how="left", maintain_order="left")
    return joined.with_columns(
        ((pl.col(column) - pl.col("_start")) / unit.size).alias(name)
        for name, column in columns.items()
    ).drop("_start")


def span_unit(frame: pl.DataFrame, column: str) -> ChartUnit:
    """The unit that fits the longest time covered by one trace."""
    spans = frame.group_by(TRACE).agg(pl.col(column).max() - pl.col(column).min())
    return fitting_unit(TIME, spans, column)


def text(value: str) -> str:
    """A text as a label: not blank, no control bytes, no name that JavaScript objects have.

    Vega looks labels up in plain objects, which have the members of `_JAVASCRIPT`.

    Examples
    --------
    >>> text(" "), text("aten::mm"), text("constructor") == "constructor"
    ("' '", 'aten::mm', False)
    """
    if not value.strip():
        return f"'{units.visible(value)}'"
    return f"{value}\u200b" if value in _JAVASCRIPT else units.visible(value)


def with_labels(
    frame: pl.DataFrame, column: str = "name", label: str = "label", missing: str | None = NO_NAME
) -> pl.DataFrame:
    """The frame with a label for each name, safe in any document."""
    names = frame[column].drop_nulls().unique()
    labels = pl.Series(map(text, names), dtype=pl.String)
    replaced = pl.col(column).replace_strict(names, labels, default=None, return_dtype=pl.String)
    return frame.with_columns(replaced.fill_null(pl.lit(missing, pl.String)).alias(label))


FULL_NAME: Final = "full name"


def with_short_labels(frame: pl.DataFrame, kernels: pl.Expr | None = None) -> pl.DataFrame:
    """The frame with labels of short names, and `FULL_NAME`, for the tooltip.

    Kernels with the same short name get labels that tell them apart. ``kernels`` says which rows
    are kernels; without it, all are.

    Examples
    --------
    >>> rows = pl.DataFrame({"name": ["void f<int>()", "void f<float>()", "aten::mm"]})
    >>> with_short_labels(rows)["label"].to_list()
    ['f [int]', 'f [float]', 'aten::mm']
    """
    short = with_labels(disambiguated(frame, kernels=kernels))
    return with_labels(frame, label=FULL_NAME).with_columns(short["label"])


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows with labels, and the number of labels before some were cut."""

    frame: pl.DataFrame
    labels: tuple[str, ...]
    total: int

    @property
    def several(self) -> bool:
        """Whether there is more than one label."""
        return len(self.labels) > 1

    def cut(self, noun: str) -> str:
        """A note on what was left out; empty for nothing."""
        return first(len(self.labels), self.total, units.plural(self.total, noun))


def label_rows(
    frame: pl.DataFrame, keys: Sequence[str], most: int, column: str = "panel"
) -> LabelledRows:
    """Label rows by those of their keys that differ, and keep the rows of the first labels.

    A key that follows from those before it is not in a label, such as the only device of each rank.

    Examples
    --------
    >>> rows = pl.DataFrame({"run": ["a", "a"], "rank": [0, 1]})
    >>> label_rows(rows, ("run", "rank"), most=1).labels
    ('rank 0',)
    """
    distinct = frame.select(keys).unique().sort(keys, nulls_last=True)
    sizes = [distinct.select(keys[: n + 1]).n_unique() for n in range(len(keys))]
    varying = [
        key for key, size, before in zip(keys, sizes, [1, *sizes], strict=False) if size > before
    ]
    first = distinct.head(most)
    labels = [
        ", ".join(filter(None, (_part(key, row[key]) for key in varying)))
        for row in first.iter_rows(named=True)
    ]
    labelled = first.with_columns(pl.Series(column, labels, pl.String))
    rows = frame.join(labelled, on=keys, how="inner", nulls_equal=True, maintain_order="left")
    return LabelledRows(rows, tuple(dict.fromkeys(labels)), distinct.height)


def _part(key: str, value: str | int | None) -> str:
    if key in {"run", "device_type", "process_group"}:
        return "" if value is None else text(str(value))
    if value is None:
        return "" if key == "device" else f"no {key}"
    return f"{key} {value}"


def non_empty(frame: pl.DataFrame, chart: str, lack: str | None = None) -> pl.DataFrame:
    """The frame, which must have rows.

    Without rows, a `ParameterError` says what the trace lacks; by default this is the frame's own
    reason.
    """
    if frame.is_empty():
        raise ParameterError(f"{chart}: {lack or why_empty(frame) or 'there is nothing to draw'}")
    return frame


def positive(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Rows in which some columns are positive and finite, as a logarithmic axis needs.

    Examples
    --------
    >>> positive(pl.DataFrame({"a": [0.0, 1.0, float("inf"), None]}), "a").height
    1
    """
    return frame.filter((pl.col(name) > 0) & pl.col(name).is_finite() for name in columns)


def left_out(note: str, number: int, noun: str) -> str:
    """A note in which ``{}`` is what was left out; empty if nothing was.

    Examples
    --------
    >>> left_out("{} not shown", 2, "row"), left_out("{} not shown", 0, "row")
    ('2 rows not shown', '')
    """
    return note.format(units.plural(number, noun)) if number else ""


def first(number: int, total: int, what: str = "") -> str:
    """A note that only the first of the rows are shown; empty if all are.

    Examples
    --------
    >>> first(10, 2000), first(8, 9, "9 ranks"), first(10, 10)
    ('first 10 of 2,000', 'first 8 of 9 ranks', '')
    """
    return f"first {number} of {what or f'{total:,}'}" if number < total else ""


def title(text: str, *notes: str) -> alt.TitleParams:
    """A title, with notes about the chart as its subtitle."""
    subtitle = [note for note in notes if note]
    return alt.TitleParams(text, subtitle=subtitle or alt.Undefined, anchor="start")


def in_panels(
    chart: Any,
    rows: LabelledRows,
    heading: alt.TitleParams,
    *,
    height: int | alt.Step | None = None,
    own_y: bool = False,
) -> AnyChart:
    """The chart of the rows, or one panel per label, one below the other.

    Without a ``height``, several panels are lower than a single one. With ``own_y``, each has its
    own vertical axis.
    """
    usual_height = PANEL_HEIGHT if rows.several else HEIGHT
    chart = chart.properties(width=WIDTH, height=height or usual_height)
    if not rows.several:
        single: AnyChart = chart.properties(title=heading)
        return single
    header = alt.Header(labelAnchor="start", labelLimit=WIDTH, title=None, labelFontWeight="bold")
    panels = alt.Facet("panel:N", sort=list(rows.labels), header=header)
    several: AnyChart = chart.facet(panels, columns=1).properties(title=heading)
    return several.resolve_scale(y="independent") if own_y else several


def colour(name: str) -> str:
    """The colour of a class."""
    return palette.CLASSES[name].light


def classes(names: Iterable[str]) -> alt.Scale:
    """Colours of classes, in this order."""
    domain = list(names)
    return alt.Scale(domain=domain, range=[colour(name) for name in domain])


def series(labels: Sequence[str]) -> alt.Scale:
    """Colours of labels without a class, in this order."""
    colours = [palette.SERIES[n % MOST_SERIES].light for n in range(len(labels))]
    return alt.Scale(domain=list(labels), range=colours)


def legend(heading: str | None = None, *, lines: bool = False) -> alt.Legend:
    """A legend above the chart; with ``lines`` one for dashes."""
    result = alt.Legend(title=heading, orient="top", columns=4, labelLimit=LABEL_WIDTH)
    if lines:
        result.symbolType, result.symbolSize = "stroke", 300
    return result


def name_axis() -> alt.Axis:
    """An axis of names; long ones are cut in the middle, because many differ only at their end."""
    return alt.Axis(
        title=None, labelLimit=LABEL_WIDTH, labelExpr=_MIDDLE_OUT, ticks=False, domain=False
    )


def pairs(frame: pl.DataFrame, names: tuple[str, ...], label: str, axis: str) -> alt.Chart:
    """Bars of two measures side by side."""
    return (
        alt.Chart(frame)
        .transform_fold(list(names), as_=["part", "value"])
        .mark_bar()
        .encode(
            y=alt.Y(f"{label}:N", sort=None, axis=name_axis()),
            yOffset=alt.YOffset("part:N", sort=list(names)),
            x=alt.X("value:Q", title=axis),
            color=alt.Color("part:N", scale=classes(names), legend=legend()),
        )
        .properties(width=WIDTH, height=alt.Step(BAR, **{"for": "position"}))
    )


def time_axis(unit: ChartUnit) -> alt.X:
    """The column ``time`` from left to right."""
    title = f"Time since the start of the trace ({unit.name})"
    return alt.X("time:Q", title=title, scale=alt.Scale(zero=False, nice=False))


def logarithmic(title: str) -> dict[str, Any]:
    """Arguments of a logarithmic axis."""
    axis = alt.Axis(format="~g", labelOverlap=True)
    return {"title": title, "scale": alt.Scale(type="log"), "axis": axis}


def step_axis() -> alt.Axis:
    """An axis of steps; labels that overlap are left out."""
    return alt.Axis(labelAngle=0, labelOverlap=True)


def tips(*fields: tuple[str, str, str]) -> list[alt.Tooltip]:
    """A tooltip: each field with its type, heading, and d3 format (empty for text)."""
    return [
        alt.Tooltip(field, title=heading, format=form or alt.Undefined)
        for field, heading, form in fields
    ]
