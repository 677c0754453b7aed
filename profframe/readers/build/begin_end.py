"""Pair begin and end events into slices."""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.rows import Quality, replaced

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_JOINED_ARGS: Final = """
    SELECT CASE WHEN coalesce(first, '{}') = '{}' THEN last
                WHEN first[1] = '{' AND last[1] = '{' THEN first[:-2] || ',' || last[2:]
                ELSE '[' || first || ',' || last || ']' END AS args
    FROM both_args"""


def pair(
    rows: pa.Table, quality: Quality, connection: duckdb.DuckDBPyConnection
) -> tuple[pa.Table, pa.Table]:
    """Slices, and the end events without a begin event.

    A begin event gets the duration up to its end event, and that event's arguments after its own.
    One without an end stays, without a duration.
    """
    phase = rows["phase"]
    if not {"B", "E"} & set(phase.chunk(0).dictionary.to_pylist()):
        return rows, rows.schema.empty_table()
    is_begin = pc.equal(phase, "B").to_numpy()
    is_end = pc.equal(phase, "E").to_numpy()
    time = _ints(rows["start_ns"])
    has_time = pc.is_valid(rows["start_ns"]).to_numpy()
    thread = rows["thread"].to_numpy()
    begin, end = match_begin_end(thread, time, is_begin & has_time, is_end & has_time)
    lone_begin, lone_end = is_begin.copy(), is_end.copy()
    lone_begin[begin] = lone_end[end] = False
    if count := int(lone_begin.sum()):
        quality.note("unmatched_begin", count)
    if count := int(lone_end.sum()):
        quality.note("unmatched_end", count)
    duration = _ints(rows["dur_ns"])
    has_duration = pc.is_valid(rows["dur_ns"]).to_numpy() & ~is_begin
    duration[begin] = time[end] - time[begin]
    has_duration[begin] = True
    lone = rows.take(np.flatnonzero(lone_end))
    last = rows.select(["args"]).take(end)["args"]
    says = pc.fill_null(pc.not_equal(last, "{}"), fill_value=False)
    if pc.any(says).as_py():  # few do, so that seldom are the arguments of all rows looked at
        args = _with_end_args(rows["args"], begin[says.to_numpy()], last.filter(says), connection)
        rows = replaced(rows, "args", args)
    rows = replaced(rows, "dur_ns", pa.array(duration, mask=~has_duration))
    return rows.filter(pa.array(~is_end)), lone


def match_begin_end(
    thread: npt.NDArray[np.int32], time: Ints, is_begin: Flags, is_end: Flags
) -> tuple[Ints, Ints]:
    """Row numbers of matching begin and end events, in the order of the ends.

    An end closes the last open begin of its thread; events at one time keep their order.

    Examples
    --------
    >>> begins = np.array([True, True, False, False])
    >>> match_begin_end(np.zeros(4, np.int32), np.array([0, 5, 8, 9]), begins, ~begins)
    (array([1, 0]), array([2, 3]))
    """
    rows = np.flatnonzero(is_begin | is_end)
    order = rows[np.lexsort((rows, time[rows], thread[rows]))]
    step = np.where(is_begin[order], 1, -1)
    group = np.cumsum(np.diff(thread[order], prepend=thread[order[:1]]) != 0)
    # An end with nothing open takes the level below all before it: those set the floor.
    level = _within_groups(np.cumsum(step), step, group)
    floor = np.minimum(_running_minimum(level, group), 0)
    before = np.where(_is_first(group), 0, np.roll(floor, 1))
    is_lone = (step < 0) & (level < before)
    depth = level - floor + (step < 0)
    paired = np.flatnonzero(~is_lone)
    paired = paired[np.lexsort((paired, depth[paired], group[paired]))]
    first, second = paired[:-1], paired[1:]
    matches = (
        (step[first] > 0)
        & (step[second] < 0)
        & (group[first] == group[second])
        & (depth[first] == depth[second])
    )
    begin, end = first[matches], second[matches]
    by_end = np.argsort(end)
    return order[begin[by_end]], order[end[by_end]]


def _is_first(group: Ints) -> Flags:
    first: Flags = np.diff(group, prepend=-1) != 0
    return first


def _within_groups(total: Ints, step: Ints, group: Ints) -> Ints:
    """A running total that restarts with each group."""
    first = np.flatnonzero(_is_first(group))
    return total - (total[first] - step[first])[group]


def _running_minimum(values: Ints, group: Ints) -> Ints:
    """Least value so far in the group: values of later groups are shifted below all before."""
    if not len(values):
        return values
    shift = group * (int(values.max()) - int(values.min()) + 1)
    return np.minimum.accumulate(values - shift) + shift


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.array(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)


def _with_end_args(
    args: pa.ChunkedArray, begin: Ints, last: pa.ChunkedArray, connection: duckdb.DuckDBPyConnection
) -> pa.Array:
    both = pa.table({"first": args.take(pa.array(begin)), "last": last})
    connection.register("both_args", both)
    joined = connection.sql(_JOINED_ARGS).to_arrow_table()["args"]
    connection.unregister("both_args")
    source = np.full(len(args), -1)
    source[begin] = np.arange(len(begin))
    joined_args = joined.take(pa.array(source, mask=source < 0))
    return pc.if_else(pa.array(source >= 0), joined_args, args)
