"""Numbers whose text DuckDB would not keep: 1.10, 1e5, -0, 0.12345678901234567.

Its writer of JSON makes doubles of them. So they become strings with a mark before a query, and
numbers again in its result.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.json.structure import IN_STRING, Structure

_MARK: Final = f"number {secrets.token_hex(16)} "
"""Each process has its own, so that no text can have it."""
_BACKSLASH: Final = ord("\\")
_MARKS: Final = (f'"{_MARK}', f'{_MARK}"', _MARK)
_UNLIKE: Final = (
    r"-?(?:[0-9.]{17}|[0-9]+(?:\.[0-9]+)?[eE]|0\.0000|[0-9]+\.[0-9]+0(?:[\s,\]}]|$))"
    r"|-0(?:[\s,\]}]|$)"
)
"""How a number begins that a double might not write alike; others have no more than 15 digits."""
_NUMBER: Final = rf"(?={_UNLIKE})-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TIME: Final = '"(?:{})"'.format(
    "|".join("".join(rf"(?:{c}|\\u00{ord(c):x})" for c in key) for key in ("ts", "dur"))
)
"""Keys of times, however they are escaped."""
_ANY: Final = rf"(?:^|[:,\[])\s*(?:{_UNLIKE})"
_ANY_TIME: Final = rf"{_TIME}\s*:\s*(?:{_UNLIKE})"
_EACH: Final = re.compile(rf"[:,\[]\s*({_NUMBER})(?=\s*(?:[,\]}}]|\Z))".encode())
_EACH_TIME: Final = re.compile(rf"{_TIME}\s*:\s*".encode())


def times(texts: pa.Array) -> int:
    """How many members might be times of events."""
    return int(pl.Series(texts).str.count_matches(rf"{_TIME}\s*:").sum())


def has_unlike(texts: pa.Array) -> bool:
    """Whether there may be numbers other than times that DuckDB would not keep."""
    series = pl.Series(texts)
    is_suspect = series.str.contains(_ANY)
    if not is_suspect.any():
        return False
    suspects = series.filter(is_suspect)
    counts = (suspects.str.count_matches(regex).sum() for regex in (_ANY, _ANY_TIME))
    return len(set(counts)) > 1


def marked(texts: pa.Array, depth_of_times: int | None = None) -> pa.Array:
    """The texts with marks, without those in times at a depth, which are read as numbers."""
    rows = pl.Series(texts).str.contains(_ANY).arg_true()
    if not len(rows):
        return texts
    values = texts.cast(pa.large_binary()).to_pylist()
    for row in rows:
        values[row] = _marked(values[row], depth_of_times)
    return pa.array(values, pa.large_binary()).cast(texts.type)


def _marked(text: bytes, depth_of_times: int | None) -> bytes:
    text = b"," + text  # so that there is something before a number that is all
    depths, mark = Structure().depths(text), _MARK.encode()
    of_times = set()
    if depth_of_times is not None:
        of_times = {m.end() for m in _EACH_TIME.finditer(text) if text[m.start() - 1] != _BACKSLASH}
    parts: list[bytes] = []
    done = 1
    for match in _EACH.finditer(text):
        first, last = match.span(1)
        depth = depths[first]
        if depth != IN_STRING and not (depth == depth_of_times and first in of_times):
            parts += text[done:first], b'"', mark, text[first:last], mark, b'"'
            done = last
    return b"".join((*parts, text[done:]))


def unmarked(text: str) -> str:
    """SQL: a text without marks, be it JSON or the value of a string.

    Examples
    --------
    >>> import duckdb
    >>> texts = marked(pa.array(['{"a": 1.10, "b": "1.10"}']))
    >>> query = "SELECT {} FROM (SELECT json_extract(?, '$')::VARCHAR AS args)"
    >>> duckdb.execute(query.format(unmarked("args")), [texts[0].as_py()]).fetchall()
    [('{"a":1.10,"b":"1.10"}',)]
    """
    for mark in _MARKS:
        text = f"replace({text}, '{mark}', '')"
    return text


def unmarked_rows(rows: pa.Table) -> pa.Table:
    """Rows without marks in their texts."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            texts = rows.column(place)
            for mark in _MARKS:
                texts = pc.replace_substring(texts, mark, "")
            rows = rows.set_column(place, field.name, texts)
    return rows
