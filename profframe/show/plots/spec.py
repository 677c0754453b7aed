"""Splits a chart into its specification and its frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import altair as alt
import polars as pl

_VIEWS: Final = ("layer", "hconcat", "vconcat", "concat")
_FIELD: Final = re.compile(r"datum\.(\w+)|datum\['([^']+)'\]")


def split(chart: Any) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """Split a chart into its specification and the columns that it reads.

    Examples
    --------
    >>> rows = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
    >>> spec, frames = split(alt.Chart(rows).mark_bar().encode(x="a:Q"))
    >>> spec["data"], frames["rows_0"].columns
    ({'name': 'rows_0'}, ['a'])
    """
    distinct: list[pl.DataFrame] = []
    spec = _without_frames(chart, distinct).to_dict(validate=False)
    fields = set(_fields(spec))
    frames = {
        _name(n): frame.select(c for c in frame.columns if c in fields)
        for n, frame in enumerate(distinct)
    }
    return spec, frames


def _without_frames(chart: Any, frames: list[pl.DataFrame]) -> Any:
    """The chart and its views with names in place of frames, which are collected."""
    copy = chart.copy(deep=False)
    if isinstance(copy.data, pl.DataFrame):
        copy.data = alt.NamedData(_name(_place(copy.data, frames)))
    for name in _VIEWS:
        if hasattr(copy, name):
            setattr(copy, name, [_without_frames(view, frames) for view in getattr(copy, name)])
    if hasattr(copy, "spec"):
        copy.spec = _without_frames(copy.spec, frames)
    return copy


def _place(frame: pl.DataFrame, frames: list[pl.DataFrame]) -> int:
    """Index of a frame, which is appended if it is new."""
    for place, other in enumerate(frames):
        if other is frame:
            return place
    frames.append(frame)
    return len(frames) - 1


def _name(place: int) -> str:
    return f"rows_{place}"


def _fields(part: Any) -> Iterator[str]:
    """All texts of a specification, and the fields in its expressions."""
    if isinstance(part, dict):
        for value in part.values():
            yield from _fields(value)
    elif isinstance(part, list):
        for value in part:
            yield from _fields(value)
    elif isinstance(part, str):
        yield part
        for plain, quoted in _FIELD.findall(part):
            yield plain or quoted
