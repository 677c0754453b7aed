"""A trace as HTML, for a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable

from profframe.show import units
from profframe.show.summary import Summary

_MOST_ROWS = 8
_LEFT = 'style="text-align: left; vertical-align: top"'
_RIGHT = 'style="text-align: right; vertical-align: top"'


def trace_html(summary: Summary) -> str:
    """A compact table of what is inside a trace.

    Parameters
    ----------
    summary
        What is inside.

    Returns
    -------
    str
        HTML without scripts; every text from the trace is escaped.
    """
    rows = "".join(
        f"<tr><th {_LEFT}>{label}</th><td {_LEFT}>{html.escape(text)}</td></tr>"
        for label, text in summary.lines
    )
    return (
        f"<div><strong>Trace</strong>: {html.escape(summary.title)}"
        f"<table>{rows}</table>{_traces(summary)}{_notes(summary)}</div>"
    )


def _traces(summary: Summary) -> str:
    overview = summary.overview
    if overview.height < 2:
        return ""
    shown = (
        (
            units.visible(row["run"]),
            str(row["rank"]),
            units.count(row["events"]),
            "" if row["span_ns"] is None else units.duration(row["span_ns"]),
            units.count(row["kernels"]),
            str(row["steps"]),
        )
        for row in overview.head(_MOST_ROWS).iter_rows(named=True)
    )
    more = _more(overview.height)
    return _table(("run", "rank", "events", "span", "kernels", "steps"), shown) + more


def _notes(summary: Summary) -> str:
    quality = summary.quality
    if quality.is_empty():
        return ""
    shown = (
        (
            units.visible(row["check"]),
            units.count(row["events"]),
            units.visible(row["action"]),
            units.visible(row["detail"] or ""),
        )
        for row in quality.head(_MOST_ROWS).iter_rows(named=True)
    )
    return _table(("check", "events", "action", "detail"), shown) + _more(quality.height)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f"<th {_LEFT}>{name}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td {_aligned(cell)}>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _aligned(cell: str) -> str:
    return _RIGHT if cell[:1].isdecimal() else _LEFT


def _more(height: int) -> str:
    return f"<p>and {height - _MOST_ROWS:,} more</p>" if height > _MOST_ROWS else ""
