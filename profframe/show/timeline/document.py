"""All that a page holds of a timeline: heads as JSON, and columns as bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from profframe.intervals import Ints, Mask
from profframe.schema import KINDS
from profframe.show import units
from profframe.show.findings import ranks_of
from profframe.show.plots import palette
from profframe.show.timeline.encoding import Column, Line, beyond_children, differences, packed
from profframe.show.timeline.lanes import Lane, Placed, placed, trace_numbers
from profframe.show.timeline.rows import KEY, Recorded

BUDGET_BYTES: Final = 6_600_000
"""Most bytes of columns in a page: 8.8 MB as text, of 12 MB for all of it."""
_CLOSE: Final = 0.96
"""Of what would fit by the average, so much is tried."""
_MOST_TRIED: Final = 4_000_000
"""Of more slices the shortest are left out before any are packed."""
_LONGEST: Final = (500, 200, 80)
_MOST_TEXT: Final = 1_000_000
_MOST_MARKS: Final = 200
_GREY: Final = palette.CLASSES["others"]


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """What a page holds."""

    head: Mapping[str, Any]
    body: bytes

    @property
    def text(self) -> str:
        """The columns as a text that stands in HTML as it is."""
        return base64.b64encode(self.body).decode()


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where slices are in the order of the page; -1 where they are not."""

    base: Ints
    place: Ints

    def of(self, trace: Ints, event_id: pl.Series) -> Ints:
        """The places of slices of traces by their numbers, or of none."""
        number = event_id.fill_null(-1).cast(pl.Int64).to_numpy()
        at = self.base[trace] + number
        is_there = (number >= 0) & (at < self.base[trace + 1])
        return np.where(is_there, self.place[np.where(is_there, at, 0)], -1)


def document(rows: Recorded, most_bytes: int | None = BUDGET_BYTES) -> Document:
    """Pack everything; of too many slices the shortest of each lane are left out.

    Parameters
    ----------
    rows
        What is drawn.
    most_bytes
        Most bytes of the columns; None for all slices.
    """
    whole = placed(rows)
    kept, share = whole, 1.0
    if most_bytes is not None and whole.begin.size > _MOST_TRIED:
        share = _MOST_TRIED / whole.begin.size
        kept = whole.kept(longest(whole, share))
    heads, body = _columns(rows, kept)
    while most_bytes is not None and len(body) > most_bytes and kept.begin.size:
        share *= _CLOSE * most_bytes / len(body)
        kept = whole.kept(longest(whole, share))
        heads, body = _columns(rows, kept)
    return Document(_head(rows, whole, kept) | {"columns": heads}, body)


def longest(slices: Placed, share: float) -> Mask:
    """The longest slices of each lane, at least one; of those as long, the outer ones."""
    order = np.lexsort((slices.row, -slices.dur, slices.lane))
    counts = np.bincount(slices.lane, minlength=len(slices.lanes))
    first = np.cumsum(counts) - counts
    place = np.arange(order.size) - first[slices.lane[order]]
    mask = np.zeros(order.size, np.bool_)
    mask[order] = place < np.ceil(counts * share)[slices.lane[order]]
    return mask


def _columns(rows: Recorded, slices: Placed) -> tuple[list[dict[str, Any]], bytes]:
    """The columns of the slices, those first that are drawn, and of the critical path."""
    source = pl.Series(slices.source, dtype=pl.UInt32)
    frame = rows.slices.select(
        "event_id", "dur_ns", "parent_id", "self_ns", "launch_id", "op_id", "step"
    )[source]
    trace = np.array([lane.trace for lane in slices.lanes], np.int64)[slices.lane]
    places = _places(rows, slices, trace)
    line = Line(_lines(slices), _nests(slices), slices.begin, slices.dur)
    parent = places.of(trace, frame["parent_id"])
    launch, op = (places.of(trace, frame[name]) for name in ("launch_id", "op_id"))
    of_launch = np.where(launch < 0, 0, parent[launch]) if parent.size else parent
    self_ns = frame["self_ns"].fill_null(0).to_numpy()
    step, what, dims = frame["step"], _whats(rows, slices)[0], _dims(rows, slices)[0]
    columns = [
        Column("gap", line.gaps()),
        Column("dur", slices.dur, _is_null(frame["dur_ns"])),
        Column("what", what),
        Column("parent", parent - line.likely_parents()),
        Column("self", beyond_children(self_ns, parent, slices.dur), _is_null(frame["self_ns"])),
        Column("event", differences(frame["event_id"].to_numpy())),
        Column("launch", differences(launch, launch < 0), launch < 0),
        Column("op", op - of_launch, op < 0),
        Column(
            "step", differences(step.fill_null(0).to_numpy(), _is_null(step)), _is_null(step)
        ),
        Column("dims", dims, dims < 0),
        *_path_columns(rows, slices, places),
    ]
    return packed(columns)


def _is_null(column: pl.Series) -> Mask:
    mask: Mask = column.is_null().to_numpy()
    return mask


def _places(rows: Recorded, slices: Placed, trace: Ints) -> _Places:
    number = rows.slices["event_id"].to_numpy()[slices.source]
    size = np.zeros(rows.traces.height + 1, np.int64)
    np.maximum.at(size, trace + 1, number + 1)
    base = np.cumsum(size)
    place = np.full(int(base[-1]) + 1, -1, np.int64)
    place[base[trace] + number] = np.arange(number.size)
    return _Places(base, place)


def _lines(slices: Placed) -> Ints:
    """Number of the line that each slice is on, over all lanes."""
    counts = _line_counts(slices)
    first = np.cumsum(counts) - counts
    return first[slices.lane] + slices.row


def _line_counts(slices: Placed) -> Ints:
    counts = np.zeros(len(slices.lanes), np.int64)
    np.maximum.at(counts, slices.lane, slices.row + 1)
    return counts


def _nests(slices: Placed) -> Mask:
    """Whether the parent of a slice is on the line above."""
    is_host = np.array([lane.sort == "host" for lane in slices.lanes], np.bool_)
    nests: Mask = is_host[slices.lane] & (slices.row > 0)
    return nests


def _whats(rows: Recorded, slices: Placed) -> tuple[Ints, dict[str, list[Any]]]:
    """Of each slice the number of its name, kind and category, the most frequent first."""
    names = ("name", "kind", "category")
    texts = rows.slices.select(names)[pl.Series(slices.source, dtype=pl.UInt32)]
    codes = [_codes(texts[name]) for name in names]
    keys = np.zeros(texts.height, np.int64)
    for code, values in codes:
        keys = keys * (len(values) + 1) + code
    unique, first, number, count = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(-count, kind="stable")
    place = np.empty(unique.size, np.int64)
    place[order] = np.arange(unique.size)
    some = texts[pl.Series(first[order], dtype=pl.UInt32)]
    return place[number], {name: some[name].to_list() for name in names}


def _codes(column: pl.Series) -> tuple[Ints, list[Any]]:
    """The number of each text among those that there are; of none the last one."""
    categories = column.cast(pl.Categorical)
    physical = categories.to_physical().fill_null(-1).cast(pl.Int64).to_numpy()
    values, number = np.unique(physical, return_inverse=True)
    return number, values.tolist()


def _dims(rows: Recorded, slices: Placed) -> tuple[Ints, list[str]]:
    """Of each slice the number of its input shapes, or -1."""
    column = rows.slices["input_dims"]
    if column.null_count() == column.len():
        return np.full(slices.source.size, -1, np.int64), []
    texts = column[pl.Series(slices.source, dtype=pl.UInt32)]
    unique = texts.drop_nulls().unique(maintain_order=True)
    ids = texts.cast(pl.Enum(unique)).to_physical().cast(pl.Int64).fill_null(-1)
    return ids.to_numpy(), unique.to_list()


def _path_columns(rows: Recorded, slices: Placed, places: _Places) -> list[Column]:
    """The stretches of the critical path: when, in what slice, and what they are bound by."""
    path = rows.path
    if path.is_empty():
        return []
    trace = trace_numbers(rows.traces, path).cast(pl.Int64).to_numpy()
    begin = path["start_ns"].to_numpy() - slices.zeros[_clock(rows, trace)]
    place = places.of(trace, path["event_id"])
    bound = path["bound"].cast(pl.Enum(_bounds(path))).to_physical().cast(pl.Int64).to_numpy()
    return [
        Column("path_begin", differences(begin)),
        Column("path_dur", path["dur_ns"].to_numpy()),
        Column("path_slice", differences(place, place < 0), place < 0),
        Column("path_trace", trace),
        Column("path_bound", bound),
    ]


def _clock(rows: Recorded, trace: Ints) -> Ints:
    """Whose clock times of a path are on: across ranks that of the first one."""
    return trace if rows.traces.height == 1 else np.full_like(trace, trace.min(initial=0))


def _bounds(path: pl.DataFrame) -> list[str]:
    bounds: list[str] = path["bound"].unique().sort().to_list()
    return bounds


def _head(rows: Recorded, whole: Placed, kept: Placed) -> dict[str, Any]:
    """Everything but the columns of slices."""
    trace = np.array([lane.trace for lane in kept.lanes], np.int64)[kept.lane]
    places = _places(rows, kept, trace)
    whats = _whats(rows, kept)[1]
    return {
        "slices": int(kept.begin.size),
        "untimed": whole.untimed,
        "span": int((kept.begin + kept.dur).max(initial=1)),
        "traces": _traces(rows, kept),
        "lanes": [*_lanes(whole, kept)],
        "names": _shown(whats["name"]),
        "kinds": whats["kind"],
        "categories": _shown(whats["category"]),
        "dims": _shown(_dims(rows, kept)[1]),
        "colours": _colours(),
        "steps": _steps(rows, kept),
        "counters": [*_counters(rows, kept)],
        "marks": [*_marks(rows, places)],
        "path": {"of": rows.path_of, "bounds": _bounds(rows.path) if rows.path.height else []},
    }


def _shown(texts: Iterable[str | None]) -> list[str | None]:
    """Texts of one line each, cut where all of them would be too long."""
    given = [*texts]
    sizes = (sum(min(len(text or ""), most) for text in given) for most in _LONGEST)
    fit = [most for most, size in zip(_LONGEST, sizes, strict=True) if size <= _MOST_TEXT]
    most = fit[0] if fit else _LONGEST[-1]
    return [None if text is None else _cut(text, most) for text in given]


def _cut(text: str, most: int) -> str:
    return units.visible(text if len(text) <= most else text[:most]) + "…" * (len(text) > most)


def _traces(rows: Recorded, slices: Placed) -> list[dict[str, Any]]:
    several = rows.traces["run"].n_unique() > 1
    return [
        {
            "run": units.visible(str(run)),
            "rank": rank,
            "title": (f"{units.visible(str(run))}, " if several else "") + f"rank {rank}",
            "zero": str(zero),
        }
        for (run, rank), zero in zip(
            rows.traces.select(KEY).iter_rows(), slices.zeros.tolist(), strict=True
        )
    ]


def _lanes(whole: Placed, kept: Placed) -> Iterable[dict[str, Any]]:
    """Each lane with the number of slices of each row, and what is left out of it."""
    lines = np.bincount(_lines(kept), minlength=int(_line_counts(kept).sum()))
    last = np.cumsum(_line_counts(kept)).tolist()
    counts = [np.bincount(one.lane, minlength=len(one.lanes)) for one in (whole, kept)]
    left = (counts[0] - counts[1]).tolist()
    shortest = np.full(len(kept.lanes), np.iinfo(np.int64).max)
    np.minimum.at(shortest, kept.lane, kept.dur)
    first = 0
    for number, lane in enumerate(kept.lanes):
        yield {
            "trace": lane.trace,
            "sort": lane.sort,
            "title": lane.title,
            "device": lane.device,
            "stream": lane.stream,
            "rows": lines[first : last[number]].tolist(),
            "left_out": left[number],
            "shortest": int(shortest[number]) if left[number] else 0,
        }
        first = last[number]


def _colours() -> dict[str, list[str]]:
    """Of each kind and bound its colour on light and on dark ground."""
    kinds = {kind: palette.CLASSES.get(kind, _GREY) for kind in KINDS}
    return {name: [c.light, c.dark] for name, c in {**palette.CLASSES, **kinds}.items()}


def _relative(rows: Recorded, slices: Placed, frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """The rows with their trace, and ``begin`` since the beginning of the timeline."""
    trace = trace_numbers(rows.traces, frame).cast(pl.Int64)
    zero = pl.Series("_zero", slices.zeros)[trace.cast(pl.UInt32)]
    return frame.with_columns(trace.alias("_trace"), zero.alias("_zero")).with_columns(
        (pl.col(column) - pl.col("_zero")).alias("begin")
    )


def _steps(rows: Recorded, slices: Placed) -> dict[str, list[Any]]:
    steps = _relative(rows, slices, rows.steps.drop_nulls(["start_ns", "dur_ns"]), "start_ns")
    return {
        "trace": steps["_trace"].to_list(),
        "begin": steps["begin"].to_list(),
        "dur": steps["dur_ns"].to_list(),
        "step": steps["step"].to_list(),
    }


def _counters(rows: Recorded, slices: Placed) -> Iterable[dict[str, Any]]:
    keys = ["_trace", "device", "stream", "name", "unit"]
    points = _relative(rows, slices, rows.counters, "time_ns")
    finite = points.filter(pl.col("value").is_finite())
    for key, part in finite.group_by(keys, maintain_order=True):
        named = dict(zip(("trace", "device", "stream", "name", "unit"), key, strict=True))
        yield named | {
            "name": units.middle(units.visible(str(named["name"])), 80),
            "unit": units.visible(named["unit"] or ""),
            "begin": part["begin"].to_list(),
            "value": part["value"].to_list(),
        }


def _marks(rows: Recorded, places: _Places) -> Iterable[dict[str, Any]]:
    """Findings of advice, with the places of the slices that show them."""
    findings = rows.findings.head(_MOST_MARKS)
    trace = trace_numbers(rows.traces, findings).cast(pl.Int64).to_numpy()
    for number, row in enumerate(findings.iter_rows(named=True)):
        events = pl.Series(row["evidence_events"] or [], dtype=pl.Int64)
        at = places.of(np.full(events.len(), trace[number]), events)
        yield {
            "severity": row["severity"],
            "text": units.visible(row["finding"] or row["rule"]),
            "ranks": ranks_of(row),
            "slices": at[at >= 0].tolist(),
            "events": row["events"],
        }
