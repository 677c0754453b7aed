"""A critical path as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Final

import polars as pl

from profframe.show import units
from profframe.show.summary import short

_MOST: Final = 5


def text(title: str, length_ns: int, events: pl.DataFrame, bounds: pl.DataFrame) -> str:
    """What the path is bound by, and what is longest on it, in a few lines.

    Parameters
    ----------
    title
        What it is the path of.
    length_ns
        Its length.
    events
        Its stretches.
    bounds
        ``bound total_ns share``.

    Returns
    -------
    str
        Lines.
    """
    lines = [f"CriticalPath: {_headline(title, length_ns, events)}"]
    lines += [f"  {bound:<13}  {total:>12}  {share}" for bound, total, share in _bounds(bounds)]
    lines += [f"  {total:>12}  {edge:<7}  {name}" for name, edge, total in _longest(events)]
    return "\n".join(lines)


def html_(title: str, length_ns: int, events: pl.DataFrame, bounds: pl.DataFrame) -> str:
    """The same for a notebook, without scripts; every text of the trace is escaped."""
    tables = (
        "<table>"
        + "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        + "</table>"
        for rows in (_bounds(bounds), _longest(events))
    )
    headline = html.escape(_headline(title, length_ns, events))
    return f"<div><strong>Critical path</strong>: {headline}{''.join(tables)}</div>"


def _headline(title: str, length_ns: int, events: pl.DataFrame) -> str:
    parts = units.plural(events.height, "part")
    return f"{units.visible(title)}: {units.duration(length_ns).strip()}, {parts}"


def _bounds(bounds: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    for bound, total, share in bounds.sort("total_ns", descending=True).iter_rows():
        if total:
            yield bound, units.duration(total), units.share(share)


def _longest(events: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    """The names and edges that take the most of the path."""
    totals = (
        events.group_by("name", "edge", maintain_order=True)
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", descending=True, maintain_order=True)
    )
    for name, edge, total in totals.head(_MOST).iter_rows():
        yield ("(nothing recorded)" if name is None else short(name)), edge, units.duration(total)
