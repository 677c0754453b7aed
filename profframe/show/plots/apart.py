"""A chart taken apart into its specification and its frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import altair as alt
import polars as pl

_VIEWS: Final = ("layer", "hconcat", "vconcat", "concat")
_FIELD: Final = re.compile(r"datum\.(\w+)|datum\['([^']+)'\]")


def taken_apart(chart: Any) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """Separate what a chart draws from its rows.

    Examples
    --------
    >>> rows = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
    >>> spec, frames = taken_apart(alt.Chart(rows).mark_bar().encode(x="a:Q"))
    >>> spec["data"], frames["rows_0"].columns
    ({'name': 'rows_0'}, ['a'])
    """
    found: list[pl.DataFrame] = []
    spec = _without_rows(chart, found).to_dict(validate=False)
    read = set(_words(spec))
    frames = {
        _name(n): frame.select(c for c in frame.columns if c in read)
        for n, frame in enumerate(found)
    }
    return spec, frames


def _without_rows(chart: Any, found: list[pl.DataFrame]) -> Any:
    """The chart, and the views inside it, with names in place of frames."""
    bare = chart.copy(deep=False)
    if isinstance(bare.data, pl.DataFrame):
        bare.data = alt.NamedData(_name(_place(bare.data, found)))
    for name in _VIEWS:
        if hasattr(bare, name):
            setattr(bare, name, [_without_rows(view, found) for view in getattr(bare, name)])
    if hasattr(bare, "spec"):
        bare.spec = _without_rows(bare.spec, found)
    return bare


def _place(frame: pl.DataFrame, found: list[pl.DataFrame]) -> int:
    """Where a frame is among those found; at the end if it is new."""
    for place, known in enumerate(found):
        if known is frame:
            return place
    found.append(frame)
    return len(found) - 1


def _name(place: int) -> str:
    return f"rows_{place}"


def _words(part: Any) -> Iterator[str]:
    """Every text of a specification, and the fields that its expressions name."""
    if isinstance(part, dict):
        for value in part.values():
            yield from _words(value)
    elif isinstance(part, list):
        for value in part:
            yield from _words(value)
    elif isinstance(part, str):
        yield part
        for plain, quoted in _FIELD.findall(part):
            yield plain or quoted
