"""Frames as columns of JSON, each text stored once, for the page's scripts to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from profframe.show import units
from profframe.show.columns import MOMENTS, cell, heading, unit_of

_EXACT: Final = 2**53
"""Larger integers are not exact in JavaScript; they are stored as text."""
_LONGEST: Final = (2_000, 500, 150, 50)
"""Limits on the characters of a text: the first with which all texts fit is used."""
_MOST_TEXT: Final = 3_000_000

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FrameView:
    """A frame, and how its columns are shown."""

    frame: pl.DataFrame
    main: tuple[str, ...] = ()
    """Columns that are visible at first; empty for all."""
    docs: Mapping[str, str] = field(default_factory=dict)
    """Description by column."""
    origin: pl.Series | None = None
    """Start of the trace of each row: times are shown relative to it."""


def document(frames: Mapping[str, FrameView]) -> _Json:
    """Split frames into columns and one list of texts.

    Very long texts are cut, and say how long they were.

    Examples
    --------
    >>> rows = pl.DataFrame({"name": ["mm", None], "self_ns": [7, 8]})
    >>> page = document({"rows": FrameView(rows)})
    >>> page["texts"], [column.get("ids") for column in page["frames"]["rows"]["columns"]]
    (['mm'], [[0, None], None])
    """
    columns = {name: _columns(view) for name, view in frames.items()}
    texts = _texts([column for pairs in columns.values() for column, _ in pairs])
    lengths = texts.str.len_chars()
    fit = (most for most in _LONGEST if lengths.clip(upper_bound=most).sum() <= _MOST_TEXT)
    longest = next(fit, _LONGEST[-1])
    ids = pl.Enum(texts)
    encoded = {
        name: {
            "rows": view.frame.height,
            "columns": [_encoded(column, header, ids) for column, header in columns[name]],
        }
        for name, view in frames.items()
    }
    return {"texts": [shortened(text, longest) for text in texts], "frames": encoded}


def shortened(text: str, longest: int) -> str:
    """A text with control bytes as escapes, cut if it is longer than this many characters.

    Examples
    --------
    >>> shortened("abcdef", 4), shortened("abcd", 4)
    ('abcd... (6 characters)', 'abcd')
    """
    if len(text) > longest:
        return f"{units.visible(text[:longest])}... ({len(text):,} characters)"
    return units.visible(text)


def kind_of(column: pl.Series) -> str:
    """The kind of a column: the word of its unit, or how its values are written.

    Examples
    --------
    >>> kind_of(pl.Series("self_ns", [1])), kind_of(pl.Series("rank", [1]))
    ('ns', 'number')
    """
    if column.dtype == pl.Boolean:
        return "flag"
    if not column.dtype.is_numeric():
        return "text"
    if unit := unit_of(column):
        return unit.word or "share"
    if column.dtype.is_float():
        return "decimal"
    return "number" if cell(column.name, 10_000) == "10000" else "count"


def _columns(view: FrameView) -> list[tuple[pl.Series, _Json]]:
    """Each column as it is stored in the page, with its header."""
    columns = []
    labels = _labels(view.frame.columns)
    for column in view.frame:
        header: _Json = {"name": column.name, "label": labels[column.name]}
        header |= {"sort": kind_of(column), "main": not view.main or column.name in view.main}
        if doc := view.docs.get(column.name):
            header["doc"] = doc
        columns.append(_column(column, header, view))
    if not view.main:
        return columns
    order = {name: place for place, name in enumerate(view.main)}
    return sorted(columns, key=lambda pair: order.get(pair[1]["name"], len(order)))


def _labels(names: list[str]) -> dict[str, str]:
    """Headings of the columns: without the unit, unless two would be the same."""
    short = {name: heading(name) for name in names}
    labels = [*short.values()]
    return {
        name: label if labels.count(label) == 1 else name.removesuffix("_ns").replace("_", " ")
        for name, label in short.items()
    }


def _column(column: pl.Series, header: _Json, view: FrameView) -> tuple[pl.Series, _Json]:
    if column.name in MOMENTS and view.origin is not None:
        since = column - view.origin
        if not (since == 0).all() and not _is_large(since):
            return _moment(column, header, view.origin)
    if column.dtype.is_nested():
        rows = (None if row is None else ", ".join(map(str, row)) for row in column.to_list())
        return pl.Series(column.name, [*rows], pl.String), header
    if column.dtype.is_integer() and _is_large(column):
        return column.cast(pl.String), header | {"exact": True}
    if column.dtype.is_float():
        return column.set(~column.is_finite() & column.is_not_null(), None), header
    if column.dtype.is_numeric() or column.dtype in {pl.Boolean, pl.String}:
        return column, header
    return column.cast(pl.String), header


def _moment(column: pl.Series, header: _Json, origin: pl.Series) -> tuple[pl.Series, _Json]:
    """Nanoseconds since the start of the trace, with that start for each row."""
    bases = origin.unique(maintain_order=True)
    ids = {base: index for index, base in enumerate(bases)}
    base = [ids[start] for start in origin] if len(bases) > 1 else 0
    header |= {"sort": "moment", "bases": [*map(str, bases)], "base": base}
    return (column - origin).alias(column.name), header


def _is_large(column: pl.Series) -> bool:
    if column.dtype not in {pl.Int64, pl.UInt64, pl.Int128}:
        return False
    return bool(((column >= _EXACT) | (column <= -_EXACT)).any())


def _texts(columns: list[pl.Series]) -> pl.Series:
    """Every text once."""
    with_text = [column.alias("text") for column in columns if column.dtype == pl.String]
    if not with_text:
        return pl.Series("text", [], pl.String)
    return pl.concat(with_text).drop_nulls().unique().sort()


def _encoded(column: pl.Series, header: _Json, ids: pl.Enum) -> _Json:
    if column.dtype == pl.String:
        return header | {"ids": column.cast(ids).to_physical().to_list()}
    return header | {"values": column.to_list()}
