"""Ends of slices, and lanes for those that overlap others of their thread without nesting.

A file in which a slice is a begin and an end needs both on a line where slices nest, with outer
slices beginning first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints, Mask, nest

MOST_LANES: Final = 64
"""A slice that overlaps more than this many others stays on the last lane."""
_BATCH: Final = 65_536
_QUERY: Final = """
    SELECT event_id, thread, start_ns, start_ns + dur_ns AS end_ns
    FROM events
    WHERE dur_ns > 0 AND start_ns IS NOT NULL AND async_id IS NULL
    ORDER BY event_id"""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Slices that overlap others of their thread, and are shown beside it.

    Attributes
    ----------
    number
        The ``event_id`` of each, in order.
    lane
        From 1 on.
    starts
        Process, thread, time and lane of each, for the arrows that begin or end there.
    """

    number: Ints
    lane: Ints
    starts: pl.DataFrame

    def of_slices(self, number: pa.Array, count: int) -> Ints:
        """Lanes of rows by their number."""
        lane = np.zeros(count, np.int64)
        if self.number.size:
            own_number = pc.fill_null(number, -1).to_numpy()
            place = np.minimum(np.searchsorted(self.number, own_number), self.number.size - 1)
            lane = np.where(self.number[place] == own_number, self.lane[place], 0)
        return lane

    def of_arrows(self, rows: pa.RecordBatch) -> Ints:
        """Lanes of the slices that begin where arrows have their ends."""
        names = ["pid", "tid", "time_ns"]
        ends = pl.DataFrame({name: rows[name] for name in names})
        both = ends.join(self.starts, on=names, how="left", nulls_equal=True, maintain_order="left")
        lane: Ints = both["lane"].fill_null(0).cast(pl.Int64).to_numpy()
        return lane


NO_LANES: Final = Lanes(
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    pl.DataFrame(
        schema={"pid": pl.String, "tid": pl.String, "time_ns": pl.Int64, "lane": pl.Int64}
    ),
)


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of the slices of a trace that have a length, and the lanes of these."""

    lanes: Lanes
    batches: Sequence[pa.RecordBatch]
    """Process, thread, lane and time of each end."""


NO_ENDS: Final = Ends(NO_LANES, ())


def ends_of_slices(
    connection: duckdb.DuckDBPyConnection, threads: Sequence[Mapping[str, Any]]
) -> Ends:
    """The ends of the slices of a connection, whose threads have these rows."""
    rows = connection.sql(_QUERY).to_arrow_table().combine_chunks()
    if not rows.num_rows:
        return NO_ENDS
    thread, start, end = (
        rows[name].to_numpy().astype(np.int64) for name in ("thread", "start_ns", "end_ns")
    )
    lane = lanes_of(thread, start, end)
    beside = np.flatnonzero(lane)
    names = {name: [None] * (1 + int(thread.max())) for name in ("pid", "tid")}
    for row in threads:
        if row["thread"] <= thread.max():
            for name, texts in names.items():
                texts[row["thread"]] = row[name]
    codes = pa.array(thread, pa.int32())
    lines = {
        name: pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string()))
        for name, texts in names.items()
    }
    starts = pl.DataFrame(
        {
            **{name: line.take(pa.array(beside)).cast(pa.string()) for name, line in lines.items()},
            "time_ns": start[beside],
            "lane": lane[beside],
        }
    ).unique(["pid", "tid", "time_ns"], keep="last", maintain_order=True)  # fmt: skip
    table = pa.table({**lines, "lane": lane, "end_ns": end})
    lanes = Lanes(rows["event_id"].to_numpy()[beside], lane[beside], starts)
    return Ends(lanes, table.to_batches(_BATCH))


def lanes_of(thread: Ints, start: Ints, end: Ints) -> Ints:
    """The lane of each slice: 0 for the thread itself, more for what overlaps.

    Examples
    --------
    >>> thread, start, end = np.zeros(4, np.int64), np.array([0, 5, 6, 2]), np.array([10, 15, 9, 4])
    >>> lanes_of(thread, start, end).tolist()
    [0, 1, 1, 0]
    """
    lane = np.zeros(thread.size, np.int64)
    left = np.arange(thread.size)
    for _ in range(MOST_LANES - 1):
        group = thread[left], start[left], end[left]
        left = left[_is_crossing(*group) | _is_around_earlier(*group)]
        if not left.size:
            break
        lane[left] += 1
    return lane


def _is_crossing(thread: Ints, start: Ints, end: Ints) -> Mask:
    """Slices that overlap an earlier one without being inside it, and everything inside them."""
    forest = nest(thread, start, end)
    crossing = np.flatnonzero(forest.crossing)
    steps = np.bincount(forest.preorder[crossing], minlength=thread.size + 1)
    behind = forest.preorder[forest.last[crossing]] + 1
    steps = steps - np.bincount(behind, minlength=thread.size + 1)
    mask: Mask = np.cumsum(steps)[forest.preorder] > 0
    return mask


def _is_around_earlier(thread: Ints, start: Ints, end: Ints) -> Mask:
    """Slices that begin with a shorter one which stands before them in the file."""
    order = np.lexsort((start, thread))  # stable: slices with one start keep their order
    same = np.diff(thread[order]) == 0
    same &= np.diff(start[order]) == 0
    is_around = np.zeros(thread.size, np.bool_)
    if not (same & (np.diff(end[order]) > 0)).any():
        return is_around
    group = np.cumsum(np.append(False, ~same))
    shortest = pl.DataFrame({"end": end[order], "group": group}).select(
        pl.col("end").cum_min().over("group")
    )
    is_around[order] = end[order] > shortest["end"].to_numpy()
    return is_around
