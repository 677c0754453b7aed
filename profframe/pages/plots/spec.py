"""Splits a chart into its specification and its frames."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import altair as alt
import polars as pl

_VIEWS: Final = ("layer", "hconcat", "vconcat", "concat")
_FIELD: Final = re.compile(r"datum\.(\w+)|datum\['([^']+)'\]")
_NamedFrames = dict[int, tuple[str, pl.DataFrame]]
"""By identity."""


def split(chart: Any) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """Split a chart into its specification and the columns that it reads.

    Examples
    --------
    >>> rows = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
    >>> spec, frames = split(alt.Chart(rows).mark_bar().encode(x="a:Q"))
    >>> spec["data"], frames["rows_0"].columns
    ({'name': 'rows_0'}, ['a'])
    """
    distinct: _NamedFrames = {}
    spec = _without_frames(chart, distinct).to_dict(validate=False)
    fields = set(_fields(spec))
    frames = {
        name: frame.select(c for c in frame.columns if c in fields)
        for name, frame in distinct.values()
    }
    return spec, frames


def _without_frames(chart: Any, frames: _NamedFrames) -> Any:
    """The chart and its views with names instead of frames, which are collected."""
    copy = chart.copy(deep=False)
    if isinstance(copy.data, pl.DataFrame):
        new = f"rows_{len(frames)}", copy.data
        name, _ = frames.setdefault(id(copy.data), new)
        copy.data = alt.NamedData(name)
    for name in _VIEWS:
        if hasattr(copy, name):
            setattr(copy, name, [_without_frames(view, frames) for view in getattr(copy, name)])
    if hasattr(copy, "spec"):
        copy.spec = _without_frames(copy.spec, frames)
    return copy


def _fields(part: Any) -> Iterator[str]:
    """All texts of a specification, and the fields in its expressions."""
    if isinstance(part, (dict, list)):
        for value in part.values() if isinstance(part, dict) else part:
            yield from _fields(value)
    elif isinstance(part, str):
        yield part
        for plain, quoted in _FIELD.findall(part):
            yield plain or quoted
