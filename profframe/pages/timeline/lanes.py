"""Layout of a timeline: trace, lane and row of each slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from profframe.intervals import Ints, Mask, nest
from profframe.pages.timeline.timeline_data import KEY, TimelineRows
from profframe.schema import ON_DEVICE_KINDS
from profframe.show import units

HOST, APART, DEVICE = 0, 1, 2
"""What a lane has: nested slices of a thread, other slices of a thread, or device work."""
_NAMES: Final = {HOST: "host", APART: "apart", DEVICE: "device"}
_MOST_ROWS: Final = 64
"""Maximum rows of a lane for slices that overlap without nesting; any more share the last row."""
_FARTHEST: Final = 2**52
"""Nanoseconds, 52 days: sums of two such times are exact in a script."""
_LANE: Final = ("_trace", "_sort", "_device", "_stream", "_thread")


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread, or a stream of a device."""

    trace: int
    sort: str
    """``host``, ``apart`` or ``device``."""
    title: str
    device: int | None
    stream: int | None
    thread: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Slices in the order in which they are drawn: by lane, row and begin.

    Attributes
    ----------
    lanes
        The lanes, in their order on the page.
    lane, row, begin, dur
        For each slice: its lane, its row there, when it begins (in ns since the beginning of the
        timeline), and its duration; 0 if that is not known.
    source
        Its row in `TimelineRows.slices`.
    zeros
        For each trace, the moment on its clock that is the beginning of the timeline.
    untimed
        Number of slices in no lane: without a start, or months away from the others.
    """

    lanes: tuple[Lane, ...]
    lane: Ints
    row: Ints
    begin: Ints
    dur: Ints
    source: Ints
    zeros: Ints
    untimed: int

    def kept(self, mask: Mask) -> Placed:
        """Some of the slices."""
        parts = (self.lane, self.row, self.begin, self.dur, self.source)
        lane, row, begin, dur, source = (part[mask] for part in parts)
        return Placed(self.lanes, lane, row, begin, dur, source, self.zeros, self.untimed)


def placed(rows: TimelineRows) -> Placed:
    """Find the place of each slice."""
    trace = trace_numbers(rows.traces, rows.slices)
    slices = rows.slices.with_columns(trace).with_row_index("_source")
    timed = slices.filter(_is_drawn())
    zeros = _zeros(rows, timed)
    keys = _lane_keys(timed)
    lanes = _lanes(keys, rows)
    lane = keys.join(lanes, on=_LANE, how="left", nulls_equal=True, maintain_order="left")["_lane"]
    number = lane.cast(pl.Int64).to_numpy()
    begin = timed["start_ns"].to_numpy() - zeros[timed["_trace"].cast(pl.Int64).to_numpy()]
    dur = timed["dur_ns"].fill_null(0).to_numpy()
    row = _rows(timed, keys["_sort"].cast(pl.Int64).to_numpy(), number, begin, dur)
    order = _order(number, row, begin)
    return Placed(
        lanes=tuple(_lane(one, rows) for one in lanes.iter_rows(named=True)),
        lane=number[order],
        row=row[order],
        begin=begin[order],
        dur=dur[order],
        source=timed["_source"].cast(pl.Int64).to_numpy()[order],
        zeros=zeros,
        untimed=slices.height - timed.height,
    )


def _is_drawn() -> pl.Expr:
    """Whether a slice has a time that is not too far from those of most others of its trace."""
    start = pl.col("start_ns").cast(pl.Float64)
    middle = start.quantile(0.5, interpolation="lower").over("_trace")
    return ((start - middle).abs() <= _FARTHEST) & (pl.col("dur_ns").fill_null(0) <= _FARTHEST)


def trace_numbers(traces: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
    """The position of each row's run and rank among the traces."""
    if traces.height == 1:
        return pl.repeat(0, frame.height, dtype=pl.UInt32, eager=True).alias("_trace")
    numbered = traces.select(KEY).with_row_index("_trace")
    joined = frame.select(KEY).join(
        numbered, on=KEY, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["_trace"]


def _zeros(rows: TimelineRows, timed: pl.DataFrame) -> Ints:
    """For each trace, the moment that is drawn at the left edge.

    Ranks of a run share one clock if all are in UTC, or if their offsets are known; else each
    begins at its own first slice. Each run begins at the left edge.
    """
    first = timed.group_by("_trace").agg(pl.col("start_ns").min().alias("_first"))
    one_clock = (pl.col("clock") == "utc").all() | pl.col("offset_ns").is_not_null().all()
    traces = (
        rows.traces.with_row_index("_trace")
        .join(first, on="_trace", how="left", maintain_order="left")
        .join(rows.offsets, on=KEY, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            pl.col("offset_ns").fill_null(0).alias("_ahead"), one_clock.over("run").alias("_is_one")
        )
    )
    earliest = (pl.col("_first") - pl.col("_ahead")).min().over("run") + pl.col("_ahead")
    zero = pl.when(pl.col("_is_one")).then(earliest).otherwise(pl.col("_first"))
    zeros: Ints = traces.select(zero.fill_null(0).cast(pl.Int64))["_first"].to_numpy()
    return zeros


def _lane_keys(timed: pl.DataFrame) -> pl.DataFrame:
    """The keys that determine the lane of each slice."""
    on_device = pl.col("kind").is_in(ON_DEVICE_KINDS) & (
        pl.col("stream").is_not_null() | pl.col("device").is_not_null()
    )
    sort = (
        pl.when(on_device).then(DEVICE)
        .when(pl.col("depth").is_null()).then(APART)
        .otherwise(HOST)
    )  # fmt: skip
    has_stream = on_device & pl.col("stream").is_not_null()
    return timed.select(
        "_trace",
        sort.cast(pl.UInt8).alias("_sort"),
        pl.when(on_device).then("device").alias("_device"),
        pl.when(on_device).then("stream").alias("_stream"),
        pl.when(~has_stream).then("thread").alias("_thread"),
    )


def _lanes(keys: pl.DataFrame, rows: TimelineRows) -> pl.DataFrame:
    """The lanes in their order: for each trace, streams, then threads as the source sorts them.

    Python frames make threads tall, and what devices do would begin far below them.
    """
    threads = rows.threads.select(
        trace_numbers(rows.traces, rows.threads),
        pl.col("thread").alias("_thread"),
        "process_sort_index",
        "thread_sort_index",
    )
    return (
        keys.unique()
        .join(threads, on=["_trace", "_thread"], how="left")
        .sort(
            "_trace", pl.col("_sort") != DEVICE, "_device", "_stream", "process_sort_index",
            "thread_sort_index", "_thread", "_sort", nulls_last=True,
        )
        .select(_LANE)
        .with_row_index("_lane")
    )  # fmt: skip


def _lane(lane: dict[str, Any], rows: TimelineRows) -> Lane:
    names = dict.fromkeys(("device", "stream", "thread"))
    names |= {name: lane[f"_{name}"] for name in names}
    return Lane(trace=lane["_trace"], sort=_NAMES[lane["_sort"]], title=_title(lane, rows), **names)


def _title(lane: dict[str, Any], rows: TimelineRows) -> str:
    """The source's name of a thread, or which stream it is."""
    words = [
        f"{name} {lane[key]}"
        for name, key in (("device", "_device"), ("stream", "_stream"))
        if lane[key] is not None
    ]
    if lane["_thread"] is not None:
        run, rank = rows.traces.select(KEY).row(lane["_trace"])
        match = rows.threads.filter(
            pl.col("run").eq_missing(pl.lit(run)),
            pl.col("rank").eq_missing(pl.lit(rank)),
            pl.col("thread") == lane["_thread"],
        )
        one = match.row(0, named=True) if match.height else {}
        words.append(one.get("thread_name") or f"thread {one.get('tid') or lane['_thread']}")
        if process := one.get("process_name"):
            words.append(f"({process})")
    if lane["_sort"] == APART:
        words.append("(not nested)")
    return units.middle(units.visible(" ".join(words)), 120)


def _rows(timed: pl.DataFrame, sort: Ints, lane: Ints, begin: Ints, dur: Ints) -> Ints:
    """The row of each slice: its depth, or where there is room for a slice that does not nest."""
    row = timed["depth"].fill_null(0).cast(pl.Int64).to_numpy().copy()
    loose = np.flatnonzero(sort != HOST)
    if not loose.size:
        return row
    row[loose] = 0
    is_mark = (timed["kind"] == "device_annotation").to_numpy()[loose]
    marks, others = loose[is_mark], loose[~is_mark]
    above = np.zeros(lane.max() + 1, np.int64)
    if marks.size:
        row[marks] = nest(lane[marks], begin[marks], begin[marks] + dur[marks]).depth
        np.maximum.at(above, lane[marks], row[marks] + 1)
    row[others] = above[lane[others]] + spread(lane[others], begin[others], dur[others])
    return row


def spread(lane: Ints, begin: Ints, dur: Ints) -> Ints:
    """Rows on which slices of a lane do not overlap.

    Examples
    --------
    >>> begin, dur = np.array([0, 5, 7, 20]), np.array([10, 10, 2, 1])
    >>> spread(np.zeros(4, np.int64), begin, dur).tolist()
    [0, 1, 2, 0]
    """
    row = np.zeros(begin.size, np.int64)
    order = np.lexsort((-dur, begin, lane))
    for number in range(_MOST_ROWS):
        order, moved = _without_overlaps(order, lane, begin, begin + dur)
        row[moved] = number + (number < _MOST_ROWS - 1)
        if not moved.size:
            break
        order = moved
    return row


def _without_overlaps(order: Ints, lane: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Slices that stay on a row, and those that do not: every second one in a chain of overlaps."""
    moved = []
    while True:
        crossing = lane[order[1:]] == lane[order[:-1]]
        crossing &= begin[order[1:]] < end[order[:-1]]
        crossing = np.concatenate(([False], crossing))
        if not crossing.any():
            break
        place = np.arange(order.size)
        chain = place - np.maximum.accumulate(np.where(crossing, 0, place))
        out = crossing & (chain % 2 == 1)
        moved.append(order[out])
        order = order[~out]
    if not moved:
        return order, order[:0]
    rest = np.concatenate(moved)
    return order, rest[np.lexsort((begin[rest], lane[rest]))]


def _order(lane: Ints, row: Ints, begin: Ints) -> Ints:
    """By lane, row and begin; the first two are few, and sorted by their digits."""
    order = np.argsort(begin, kind="stable")
    line = lane * (row.max(initial=0) + 1) + row
    kind = np.uint16 if line.max(initial=0) < 2**16 else np.int64
    return order[np.argsort(line[order].astype(kind), kind="stable")]
