"""Frames and traces as HTML, for a notebook: human units, exact numbers in tooltips, no scripts.

Every text of a trace is escaped, with control bytes made visible; no part of it becomes an element,
an attribute, or (as in many notebooks) a formula.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from profframe.show import columns, units

if TYPE_CHECKING:
    import polars as pl

    from profframe.show.special_files import FileSummaries

ROWS: Final = 20
"""Rows of a long frame that are shown by default."""
SHORT: Final = 50
"""A frame of at most this many rows is shown in full by default."""
COLUMNS: Final = 75
_SUMMARY_ROWS: Final = 8
_GAP: Final = re.compile(" {3,}")
_MOST_NAMED: Final = 6
"""Up to this many columns without values are named; more are counted."""
_SINGLE_ROW: Final = 6
"""A single row with more columns is shown as a column."""
_WIDEST: Final = 64
"""Characters of a text that are shown."""
_LONGEST_SENTENCE: Final = 1_000
"""Characters of a sentence that are shown."""
_LONGEST: Final = 10_000
"""Characters of a text that a tooltip has."""
_SENTENCES: Final = frozenset(
    {"action", "detail", "error", "finding", "gain_basis", "link", "meaning", "parameters"}
    | {"problem", "sentence", "suggestion"}
)
"""Columns of sentences, which are wrapped and not cut."""


@dataclass(frozen=True, slots=True)
class FrameOptions:
    """How much of a frame is shown, and data about it."""

    rows: int = ROWS
    columns: int = COLUMNS
    starts: pl.DataFrame | None = None
    """``run rank start_ns`` of its traces."""
    docs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Description by column."""
    why_empty: str | None = None
    """Why there are no rows."""


def frame_html(frame: pl.DataFrame, options: FrameOptions | None = None) -> str:
    """A frame as a table in human units, with notes on what the table leaves out.

    Examples
    --------
    >>> import polars as pl
    >>> page = frame_html(pl.DataFrame({"name": ["<b>"], "self_ns": [1_234_567]}))
    >>> '<td class="n" title="1234567 ns">1.235 ms</td>' in page, "&lt;b&gt;" in page
    (True, True)
    """
    return _block(_table_html(frame, options or FrameOptions()))


def trace_html(
    title: str,
    lines: Iterable[tuple[str, str]],
    words: FileSummaries,
    frames: Iterable[pl.DataFrame],
) -> str:
    """A summary of a trace: its labelled lines, words about its files, the first rows of frames."""
    # What stands below each other in a terminal does not in a proportional font.
    cells = "".join(
        f'<tr><th>{label}</th><td class="p">{html.escape(_GAP.sub("  ", text))}</td></tr>'
        for label, text in lines
    )
    parts = [f"<strong>Trace</strong>: {html.escape(title)}<table>{cells}</table>"]
    options = FrameOptions(rows=_SUMMARY_ROWS)
    for one in words.parts:
        parts += [f'<div class="p">{html.escape(line)}</div>' for line in one.sentences]
        parts += [f"<pre>{html.escape(text)}</pre>" for text in one.excerpts]
        for name, rows in one.tables:
            parts += [f"<strong>{html.escape(name)}</strong>", _table_html(rows, options)]
        parts += [f'<div class="note">{html.escape(one.hint)}</div>'] if one.hint else []
    return _block(*parts, *(_table_html(frame, options) for frame in frames))


def titled_html(title: str, subject: str, *frames: pl.DataFrame) -> str:
    """Small frames below a title."""
    parts = (
        _table_html(frame, FrameOptions(rows=frame.height), with_notes=False) for frame in frames
    )
    return _block(f"<strong>{title}</strong> of {html.escape(units.visible(subject))}", *parts)


def text_html(text: str) -> str:
    """Lines of text as they are."""
    return _block(f"<pre>{html.escape(text)}</pre>")


def _block(*parts: str) -> str:
    """Parts in a box with our style, in which notebooks do not look for formulas."""
    content = "".join(parts)
    names = "profframe tex2jax_ignore mathjax_ignore"
    return f'<div class="{names}"><style>{_style()}</style>{content}</div>'


@cache
def _style() -> str:
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8").partition("*/")[2].strip()


def _table_html(frame: pl.DataFrame, options: FrameOptions, *, with_notes: bool = True) -> str:
    """A table, and a line about what it leaves out."""
    informative = columns.informative(frame)
    names = informative[: options.columns]
    head = frame.head(options.rows)
    relative = head if options.starts is None else columns.since_start(head, options.starts)
    cells = [_Cells.of(head[name], columns.texts(relative, name)) for name in names]
    if frame.height == 1 and len(names) > _SINGLE_ROW:
        rows = f'<table class="up">{_single_row(cells, options)}</table>'
    else:
        rows = f"<table>{_grid(cells, options)}</table>"
    table = f'<div class="scroll">{rows}</div>'
    if not with_notes:
        return table
    moved = [name for name in names if not head[name].equals(relative[name])]
    notes = "; ".join(_notes(frame, informative, options, moved))
    return f'{table}<div class="note">{notes}</div>'


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells of a column, as HTML."""

    name: str
    dtype: str
    kind: str
    """``n`` for numbers, ``n s`` for shares, ``t`` for text, ``p`` for sentences."""
    cells: Sequence[str]

    @classmethod
    def of(cls, exact: pl.Series, texts: Sequence[str]) -> _Cells:
        name, dtype = exact.name, exact.dtype
        kind = "n" if dtype.is_numeric() else "p" if name in _SENTENCES else "t"
        unit = columns.unit_of(exact)
        if unit is not None and unit.is_share:
            kind = "n s"
        values = exact.to_list()
        cells = [
            _cell(kind, text, *_tooltip(text, value, unit))
            for text, value in zip(texts, values, strict=True)
        ]
        return cls(name, units.visible(str(dtype)), kind.partition(" ")[0], cells)


def _tooltip(text: str, value: object, unit: columns.Unit | None) -> tuple[str, float]:
    """Text of a cell's tooltip, and the part of the cell that a bar fills."""
    if value is None or isinstance(value, bool):
        return "", 0
    if not isinstance(value, (int, float, Decimal)):
        return text, 0
    exact = f"{value} {unit.word}".rstrip() if unit else str(value)
    is_share = unit is not None and unit.is_share and value > 0
    return exact, min(float(value), 1) if is_share else 0


def _cell(kind: str, text: str, exact: str, part: float) -> str:
    text = text.strip() if kind[0] == "n" else text
    shown = units.middle(text, _LONGEST_SENTENCE if kind == "p" else _WIDEST)
    plain = shown.replace(",", "") if kind[0] == "n" else shown
    tip = units.middle(exact, _LONGEST) if exact != plain else ""
    title = f' title="{html.escape(tip)}"' if tip else ""
    style = f' style="--part:{100 * part:.2f}%"' if part >= 0.0001 else ""
    return f'<td class="{kind}"{style}{title}>{html.escape(shown)}</td>'


def _grid(cells: Sequence[_Cells], options: FrameOptions) -> str:
    head = "".join(
        f'<th class="{column.kind}"{_heading_title(column, options)}>{_name(column)}</th>'
        for column in cells
    )
    lines = zip(*(column.cells for column in cells), strict=True)
    rows = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    return f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"


def _single_row(cells: Sequence[_Cells], options: FrameOptions) -> str:
    rows = "".join(
        f"<tr><th{_heading_title(column, options)}>{_name(column)}</th>{''.join(column.cells)}</tr>"
        for column in cells
    )
    return f"<tbody>{rows}</tbody>"


def _name(column: _Cells) -> str:
    """Name of a column; the unit at its end is fainter, since each value has its own."""
    name = units.visible(column.name)
    unit = columns.unit_by_name(column.name) if column.kind == "n" else None
    front = name.removesuffix(unit.ending).removesuffix("_") if unit else ""
    end = name[len(front) :] if front else ""
    shown = html.escape(units.middle(front or name, _WIDEST))
    return f'{shown}<span class="u">{end}</span>' if end else shown


def _heading_title(column: _Cells, options: FrameOptions) -> str:
    """The tooltip of a heading."""
    doc = options.docs.get(column.name)
    text = f"{units.visible(column.name)}: {doc} ({column.dtype})" if doc else column.dtype
    return f' title="{html.escape(units.middle(text, _LONGEST))}"'


def _notes(
    frame: pl.DataFrame, informative: Sequence[str], options: FrameOptions, moved: Sequence[str]
) -> Iterator[str]:
    """Notes on what the table leaves out of a frame."""
    if options.why_empty is not None and not frame.height:
        yield f"<b>no rows</b>: {html.escape(units.visible(options.why_empty))}"
        return
    rows, width = min(frame.height, options.rows), min(len(informative), options.columns)
    if rows < frame.height:
        yield f"<b>{rows:,} of {units.plural(frame.height, 'row')}</b>"
    else:
        yield units.plural(rows, "row")
    if width < len(informative):
        yield f"<b>{width:,} of {len(informative):,} columns</b>"
    missing = [name for name in frame.columns if name not in {*informative}]
    constant = [name for name in missing if frame[name].null_count() < frame.height]
    for name in constant:
        value = units.middle(units.visible(str(frame[name][0])), _WIDEST)
        yield f"{name} <bdi>{html.escape(value)}</bdi>"
    empty = [units.middle(units.visible(name), _WIDEST) for name in missing if name not in constant]
    if empty:
        names = html.escape(", ".join(empty))
        empty_text = names if len(empty) <= _MOST_NAMED else f"{len(empty):,} columns"
        yield f'<span title="{names}">no values: {empty_text}</span>'
    if moved:
        yield f"{', '.join(moved)}: since the trace's start"
