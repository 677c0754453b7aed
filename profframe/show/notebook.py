"""Frames and traces as HTML, for a notebook: human units, exact numbers in tooltips, no scripts.

Every text of a trace is written with its control bytes visible and escaped; none of it becomes an
element, an attribute, or (as many notebooks would have it) a formula.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from profframe.show import columns, units

if TYPE_CHECKING:
    import polars as pl

    from profframe.show.summary import Summary

ROWS: Final = 20
"""Rows that are shown of a long frame, if nobody says how many."""
WHOLE: Final = 50
"""Rows of a frame that is shown whole, if nobody says how many."""
COLUMNS: Final = 75
_FEW: Final = 8
_MOST_NAMED: Final = 6
"""Columns without values that are named, and not counted."""
_UPRIGHT: Final = 6
"""A single row of more columns stands upright."""
_WIDEST: Final = 64
"""Characters of a text that are shown."""
_LONGEST_PROSE: Final = 1_000
"""Characters of a sentence that are shown."""
_LONGEST: Final = 10_000
"""Characters of a text that a tooltip has."""
_PROSE: Final = frozenset(
    {"action", "detail", "error", "finding", "gain_basis", "link", "meaning", "parameters"}
    | {"problem", "sentence", "suggestion"}
)
"""Columns of sentences, which are wrapped and not cut."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is known beside a frame, and how much of it is shown."""

    rows: int = ROWS
    columns: int = COLUMNS
    starts: pl.DataFrame | None = None
    """``run rank start_ns`` of the traces that it is of."""
    docs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What is in a column, by its name."""


def frame_html(frame: pl.DataFrame, look: Look | None = None) -> str:
    """A frame as a table in human units, and below it what the table leaves out.

    Examples
    --------
    >>> import polars as pl
    >>> page = frame_html(pl.DataFrame({"name": ["<b>"], "self_ns": [1_234_567]}))
    >>> '<td class="n" title="1234567 ns">1.235 ms</td>' in page, "&lt;b&gt;" in page
    (True, True)
    """
    return _block(_shown(frame, look or Look()))


def trace_html(summary: Summary) -> str:
    """A compact table of what is inside a trace."""
    lines = "".join(
        f'<tr><th>{label}</th><td class="p">{html.escape(text)}</td></tr>'
        for label, text in summary.lines
    )
    parts = [f"<strong>Trace</strong>: {html.escape(summary.title)}<table>{lines}</table>"]
    few = Look(rows=_FEW)
    if summary.overview.height > 1:
        known = ("run", "rank", "events", "span_ns", "kernels", "steps")
        parts.append(_shown(summary.overview.select(known), few))
    if summary.quality.height:
        parts.append(_shown(summary.quality.select("check", "events", "action", "detail"), few))
    return _block(*parts)


def titled_html(title: str, subject: str, *frames: pl.DataFrame) -> str:
    """Small frames below what they are of."""
    parts = (_shown(frame, Look(rows=frame.height), noted=False) for frame in frames)
    return _block(f"<strong>{title}</strong> of {html.escape(units.visible(subject))}", *parts)


def text_html(text: str) -> str:
    """Lines of text as they are."""
    return _block(f"<pre>{html.escape(text)}</pre>")


def _block(*parts: str) -> str:
    """Parts in a box of our style, which notebooks take no formulas out of."""
    inside = "".join(parts)
    names = "profframe tex2jax_ignore mathjax_ignore"
    return f'<div class="{names}"><style>{_style()}</style>{inside}</div>'


@cache
def _style() -> str:
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8").partition("*/")[2].strip()


def _shown(frame: pl.DataFrame, look: Look, *, noted: bool = True) -> str:
    """A table, and a line about what is not in it."""
    kept = columns.informative(frame)
    names = kept[: look.columns]
    head = frame.head(look.rows)
    since = head if look.starts is None else columns.since_start(head, look.starts)
    cells = [_Cells.of(head[name], columns.texts(since, name)) for name in names]
    if frame.height == 1 and len(names) > _UPRIGHT:
        rows = f'<table class="up">{_upright(cells, look)}</table>'
    else:
        rows = f"<table>{_lying(cells, look)}</table>"
    table = f'<div class="scroll">{rows}</div>'
    if not noted:
        return table
    moved = [name for name in names if not head[name].equals(since[name])]
    notes = "; ".join(_notes(frame, kept, look, moved))
    return f'{table}<div class="note">{notes}</div>'


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells of a column, ready to be written."""

    name: str
    dtype: str
    kind: str
    """``n`` for numbers, ``n s`` for shares, ``t`` for text, ``p`` for sentences."""
    cells: Sequence[str]

    @classmethod
    def of(cls, exact: pl.Series, texts: Sequence[str]) -> _Cells:
        name, dtype = exact.name, exact.dtype
        kind = "n" if dtype.is_numeric() else "p" if name in _PROSE else "t"
        unit = columns.unit_of(exact)
        if unit is not None and unit.is_share:
            kind = "n s"
        values = exact.to_list()
        made = [
            _cell(kind, text, *_whole(text, value, unit))
            for text, value in zip(texts, values, strict=True)
        ]
        return cls(name, units.visible(str(dtype)), kind.partition(" ")[0], made)


def _whole(text: str, value: object, unit: columns.Unit | None) -> tuple[str, float]:
    """What the tooltip of a cell says, and the part of the cell that a bar fills."""
    if value is None or isinstance(value, bool):
        return "", 0
    if not isinstance(value, (int, float, Decimal)):
        return text, 0
    exact = f"{value} {unit.word}".rstrip() if unit else str(value)
    is_share = unit is not None and unit.is_share and value > 0
    return exact, min(float(value), 1) if is_share else 0


def _cell(kind: str, text: str, whole: str, part: float) -> str:
    text = text.strip() if kind[0] == "n" else text
    shown = units.middle(text, _LONGEST_PROSE if kind == "p" else _WIDEST)
    said = shown.replace(",", "") if kind[0] == "n" else shown
    tip = units.middle(whole, _LONGEST) if whole != said else ""
    title = f' title="{html.escape(tip)}"' if tip else ""
    style = f' style="--part:{100 * part:.2f}%"' if part >= 0.0001 else ""
    return f'<td class="{kind}"{style}{title}>{html.escape(shown)}</td>'


def _lying(cells: Sequence[_Cells], look: Look) -> str:
    head = "".join(f'<th class="{one.kind}"{_said(one, look)}>{_name(one)}</th>' for one in cells)
    lines = zip(*(one.cells for one in cells), strict=True)
    rows = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    return f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"


def _upright(cells: Sequence[_Cells], look: Look) -> str:
    rows = "".join(
        f"<tr><th{_said(one, look)}>{_name(one)}</th>{''.join(one.cells)}</tr>" for one in cells
    )
    return f"<tbody>{rows}</tbody>"


def _name(column: _Cells) -> str:
    """Name of a column; the unit at its end is fainter, since each value has a better one."""
    name = units.visible(column.name)
    unit = columns.unit_by_name(column.name) if column.kind == "n" else None
    front = name.removesuffix(unit.ending).removesuffix("_") if unit else ""
    end = name[len(front) :] if front else ""
    shown = html.escape(units.middle(front or name, _WIDEST))
    return f'{shown}<span class="u">{end}</span>' if end else shown


def _said(column: _Cells, look: Look) -> str:
    """What the tooltip of a heading says."""
    doc = look.docs.get(column.name)
    said = f"{units.visible(column.name)}: {doc} ({column.dtype})" if doc else column.dtype
    return f' title="{html.escape(units.middle(said, _LONGEST))}"'


def _notes(
    frame: pl.DataFrame, kept: Sequence[str], look: Look, moved: Sequence[str]
) -> Iterator[str]:
    """What of a frame the table leaves out."""
    rows, width = min(frame.height, look.rows), min(len(kept), look.columns)
    if rows < frame.height:
        yield f"<b>{rows:,} of {units.plural(frame.height, 'row')}</b>"
    else:
        yield units.plural(rows, "row")
    if width < len(kept):
        yield f"<b>{width:,} of {len(kept):,} columns</b>"
    gone = [name for name in frame.columns if name not in {*kept}]
    same = [name for name in gone if frame[name].null_count() < frame.height]
    for name in same:
        value = units.middle(units.visible(str(frame[name][0])), _WIDEST)
        yield f"{name} <bdi>{html.escape(value)}</bdi>"
    empty = [units.middle(units.visible(name), _WIDEST) for name in gone if name not in same]
    if empty:
        names = html.escape(", ".join(empty))
        some = names if len(empty) <= _MOST_NAMED else f"{len(empty):,} columns"
        yield f'<span title="{names}">no values: {some}</span>'
    if moved:
        yield f"{', '.join(moved)}: since the trace's start"
