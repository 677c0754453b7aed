"""Timeline metadata: lanes, names, counters, findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import polars as pl

from profframe.intervals import Ints
from profframe.pages.plots import palette
from profframe.pages.timeline.lanes import Placed, trace_numbers
from profframe.pages.timeline.page_slices import MOST_STRETCHES, Content, bounds
from profframe.pages.timeline.timeline_data import KEY
from profframe.schema import KINDS
from profframe.show import units
from profframe.show.findings import ranks_of

_LONGEST: Final = (500, 200, 80)
"""Limits on the characters of a text: the first with which all texts fit is used."""
_MOST_TEXT: Final = 1_000_000
_MOST_MARKS: Final = 200
_GREY: Final = palette.CLASSES["others"]


def head(content: Content, whole: Placed) -> dict[str, Any]:
    """The metadata; ``whole`` also has the slices that are left out."""
    slices, rows, texts = content.slices, content.rows, content.whats[1]
    return {
        "slices": int(slices.begin.size),
        "untimed": whole.untimed,
        "unread": {"slices": rows.unread, "longest": rows.unread_ns},
        "span": int((slices.begin + slices.dur).max(initial=1)),
        "traces": _traces(content),
        "lanes": [*_lanes(content, whole)],
        "names": _shown(texts["name"]),
        "kinds": texts["kind"],
        "categories": _shown(texts["category"]),
        "dims": _shown(content.dims[1]),
        "colours": _colours(),
        "steps": _steps(content),
        "counters": [*_counters(content)],
        "marks": [*_marks(content)],
        "path": _path(content),
    }


def _path(content: Content) -> dict[str, Any]:
    """The extent of the critical path, and its traces."""
    path = content.rows.path
    on = trace_numbers(content.rows.traces, path).unique().sort() if path.height else pl.Series()
    return {
        "of": [content.rows.path_of.get(run, "") for run in content.rows.traces["run"]],
        "bounds": bounds(path),
        "traces": on.to_list(),
        "left_out": path.height if path.height > MOST_STRETCHES else 0,
        "lacks": units.visible(content.rows.path_lacks),
    }


def _shown(texts: Iterable[str | None]) -> list[str | None]:
    """Texts of one line each, cut if all of them together would be too long."""
    given = [*texts]
    sizes = {most: sum(min(len(text or ""), most) for text in given) for most in _LONGEST}
    most = next((most for most, size in sizes.items() if size <= _MOST_TEXT), _LONGEST[-1])
    return [None if text is None else cut(text, most) for text in given]


def cut(text: str, most: int) -> str:
    """A text on one line, of at most this many characters."""
    return units.visible(text[:most]) + "…" * (len(text) > most)


def _traces(content: Content) -> list[dict[str, Any]]:
    traces = content.rows.traces
    several = traces["run"].n_unique() > 1
    zeros = map(str, content.slices.zeros.tolist())
    return [
        {
            "run": (shown := units.visible(str(run))),
            "rank": rank,
            "title": f"{shown}, rank {rank}" if several else f"rank {rank}",
            "zero": zero,
        }
        for (run, rank), zero in zip(traces.select(KEY).iter_rows(), zeros, strict=True)
    ]


def _lanes(content: Content, whole: Placed) -> Iterator[dict[str, Any]]:
    """Each lane with the number of slices of each row, and what is left out of it."""
    slices, lanes = content.slices, content.slices.lanes
    lines = np.bincount(content.line, minlength=int(content.line_counts.sum()))
    rows = np.split(lines, np.cumsum(content.line_counts))
    left_out = _counts(whole) - _counts(slices)
    shortest = np.full(len(lanes), np.iinfo(np.int64).max)
    np.minimum.at(shortest, slices.lane, slices.dur)
    for number, lane in enumerate(lanes):
        yield {
            "trace": lane.trace,
            "sort": lane.sort,
            "title": lane.title,
            "device": lane.device,
            "stream": lane.stream,
            "rows": rows[number].tolist(),
            "left_out": int(left_out[number]),
            "shortest": int(shortest[number]) if left_out[number] else 0,
        }


def _counts(slices: Placed) -> Ints:
    return np.bincount(slices.lane, minlength=len(slices.lanes))


def _colours() -> dict[str, list[str]]:
    """The colours of each kind and bound on a light and a dark background."""
    kinds = {kind: palette.CLASSES.get(kind, _GREY) for kind in KINDS}
    return {name: [c.light, c.dark] for name, c in {**palette.CLASSES, **kinds}.items()}


def _relative(content: Content, frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """The rows with their trace, and ``begin`` since the left edge."""
    trace = trace_numbers(content.rows.traces, frame)
    zero = pl.Series("_zero", content.slices.zeros)[trace]
    return frame.with_columns(trace.cast(pl.Int64), (pl.col(column) - zero).alias("begin"))


def _steps(content: Content) -> dict[str, list[Any]]:
    steps = _relative(content, content.rows.steps.drop_nulls(["start_ns", "host_ns"]), "start_ns")
    ordered = steps.sort("begin", maintain_order=True)
    names = {"trace": "_trace", "begin": "begin", "dur": "host_ns", "step": "step"}
    return {name: ordered[column].to_list() for name, column in names.items()}


def _counters(content: Content) -> Iterator[dict[str, Any]]:
    points = _relative(content, content.rows.counters, "time_ns")
    finite = points.filter(pl.col("value").is_finite())
    keys = ["_trace", "device", "stream", "name", "unit"]
    for (trace, device, stream, name, unit), part in finite.group_by(keys, maintain_order=True):
        yield {
            "trace": trace,
            "device": device,
            "stream": stream,
            "name": units.middle(units.visible(str(name)), 80),
            "unit": units.visible(str(unit or "")),
            "begin": part["begin"].to_list(),
            "value": part["value"].to_list(),
        }


def _marks(content: Content) -> Iterator[dict[str, Any]]:
    """Findings of advice, with the places of the slices that show them."""
    findings = content.rows.findings.head(_MOST_MARKS)
    trace = trace_numbers(content.rows.traces, findings).cast(pl.Int64).to_list()
    for number, row in zip(trace, findings.iter_rows(named=True), strict=True):
        events = pl.Series(row["evidence_events"] or [], dtype=pl.Int64)
        at = content.places(np.full(events.len(), number), events)
        yield {
            "severity": row["severity"],
            "text": units.visible(row["finding"] or row["rule"]),
            "ranks": ranks_of(row),
            "slices": at[at >= 0].tolist(),
            "events": row["events"],
        }
