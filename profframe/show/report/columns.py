"""Frames as columns of JSON, every text once: what the page holds instead of rows of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from profframe.show import units
from profframe.show.columns import MOMENTS, cell, heading, unit_of

_EXACT: Final = 2**53
"""Integers from here on are no numbers of JavaScript; they go as text."""
_LONGEST: Final = (2_000, 500, 150, 50)
"""Characters of a text that are kept: the first of these with which all texts fit."""
_MOST_TEXT: Final = 3_000_000

_Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """A frame, and how its columns are shown."""

    frame: pl.DataFrame
    main: tuple[str, ...] = ()
    """Columns that are seen at first; all of them, where none are named."""
    docs: Mapping[str, str] = field(default_factory=dict)
    """What each column is."""
    origin: pl.Series | None = None
    """Start of the trace of each row: moments are shown since then."""


def document(frames: Mapping[str, Shown]) -> _Told:
    """Take frames apart into columns and one list of texts.

    Very long texts are cut, and say so.

    Examples
    --------
    >>> made = document({"one": Shown(pl.DataFrame({"name": ["mm", None], "self_ns": [7, 8]}))})
    >>> made["texts"], [column.get("ids") for column in made["frames"]["one"]["columns"]]
    (['mm'], [[0, None], None])
    """
    prepared = {name: _prepared(shown) for name, shown in frames.items()}
    texts = _texts([column for columns in prepared.values() for column, _ in columns])
    longest = _longest(texts)
    ids = pl.Enum(texts)
    stored = {
        name: {
            "rows": shown.frame.height,
            "columns": [_stored(column, told, ids) for column, told in prepared[name]],
        }
        for name, shown in frames.items()
    }
    return {"texts": [shortened(one, longest) for one in texts], "frames": stored}


def text(document: object) -> str:
    r"""JSON that can stand inside a script element.

    Examples
    --------
    >>> text({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    written = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written


def shortened(text: str, longest: int) -> str:
    """A text as it is shown: control bytes as escapes, and no longer than so many characters.

    Examples
    --------
    >>> shortened("abcdef", 4), shortened("abcd", 4)
    ('abcd... (6 characters)', 'abcd')
    """
    if len(text) > longest:
        return f"{units.visible(text[:longest])}... ({len(text):,} characters)"
    return units.visible(text)


def sort_of(column: pl.Series) -> str:
    """What the values of a column are: the word of their unit, or how they are written.

    Examples
    --------
    >>> sort_of(pl.Series("self_ns", [1])), sort_of(pl.Series("rank", [1]))
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


def _prepared(shown: Shown) -> list[tuple[pl.Series, _Told]]:
    """Each column as it goes into the page, and what the page is told of it."""
    columns = []
    labels = _labels(shown.frame.columns)
    for column in shown.frame:
        told: _Told = {"name": column.name, "label": labels[column.name], "sort": sort_of(column)}
        told["main"] = not shown.main or column.name in shown.main
        if doc := shown.docs.get(column.name):
            told["doc"] = doc
        columns.append(_prepared_column(column, told, shown))
    if not shown.main:
        return columns
    order = {name: place for place, name in enumerate(shown.main)}
    return sorted(columns, key=lambda pair: order.get(pair[1]["name"], len(order)))


def _labels(names: list[str]) -> dict[str, str]:
    """What stands above each column: without its unit, unless two would be the same."""
    short = {name: heading(name) for name in names}
    taken = [*short.values()]
    return {
        name: label if taken.count(label) == 1 else name.removesuffix("_ns").replace("_", " ")
        for name, label in short.items()
    }


def _prepared_column(column: pl.Series, told: _Told, shown: Shown) -> tuple[pl.Series, _Told]:
    if column.name in MOMENTS and shown.origin is not None:
        since = column - shown.origin
        if not (since == 0).all() and not _is_large(since):
            return _moment(column, told, shown.origin)
    if column.dtype.is_nested():
        return _listed(column), told
    if column.dtype.is_integer() and _is_large(column):
        return column.cast(pl.String), told | {"exact": True}
    if column.dtype.is_float():
        return column.set(~column.is_finite() & column.is_not_null(), None), told
    if column.dtype.is_numeric() or column.dtype in {pl.Boolean, pl.String}:
        return column, told
    return column.cast(pl.String), told


def _moment(column: pl.Series, told: _Told, origin: pl.Series) -> tuple[pl.Series, _Told]:
    """Nanoseconds since the start of the trace, and that start for each row."""
    bases = origin.unique(maintain_order=True)
    number = {base: index for index, base in enumerate(bases)}
    base = [number[start] for start in origin] if len(bases) > 1 else 0
    told |= {"sort": "moment", "bases": [*map(str, bases)], "base": base}
    return (column - origin).alias(column.name), told


def _listed(column: pl.Series) -> pl.Series:
    """Lists as text."""
    rows = (None if row is None else ", ".join(map(str, row)) for row in column.to_list())
    return pl.Series(column.name, [*rows], pl.String)


def _is_large(column: pl.Series) -> bool:
    if column.dtype not in {pl.Int64, pl.UInt64, pl.Int128}:
        return False
    return bool(((column >= _EXACT) | (column <= -_EXACT)).any())


def _texts(columns: list[pl.Series]) -> pl.Series:
    """Every text once."""
    found = [column.alias("text") for column in columns if column.dtype == pl.String]
    if not found:
        return pl.Series("text", [], pl.String)
    return pl.concat(found).drop_nulls().unique().sort()


def _longest(texts: pl.Series) -> int:
    for longest in _LONGEST:
        if texts.str.len_chars().clip(upper_bound=longest).sum() <= _MOST_TEXT:
            return longest
    return _LONGEST[-1]


def _stored(column: pl.Series, told: _Told, ids: pl.Enum) -> _Told:
    if column.dtype == pl.String:
        return told | {"ids": column.cast(ids).to_physical().to_list()}
    return told | {"values": column.to_list()}
