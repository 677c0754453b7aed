"""The table `dependencies`: source and target of every wait, on all ranks of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.analysis.critical_path import edges as waits
from profframe.analysis.critical_path import path_across_ranks
from profframe.analysis.critical_path.edges import (
    GRAPH,
    KINDS,
    LAUNCH,
    ORDERED,
    RECORDED,
    STREAM,
    SYNC,
    THREAD,
    WAIT,
    Edges,
)
from profframe.analysis.critical_path.graph import Graph
from profframe.facts.arrays import numbers
from profframe.intervals import Ints
from profframe.query.header import Answer
from profframe.query.run import prepare, select

_START: Final = 0
_END: Final = 1
_KINDS: Final = (*KINDS, "collective", "message", "backward", "data")
_COLLECTIVE, _MESSAGE, _BACKWARD, _DATA = range(len(KINDS), len(_KINDS))
_CERTAINTIES: Final = ("recorded", "implied", "ordered")
_SIDES: Final = ("start", "end")

_Part = dict[str, Any]
"""Columns of some rows: numbers, or one for all of them."""


def dependencies(
    connect: path_across_ranks.Connect, gathered: path_across_ranks.JobWindow, run: str
) -> pa.Table:
    """The rows of a run, in the order of target and source."""
    parts = [*_of_meetings(gathered.meetings, np.asarray(gathered.ranks))]
    for place, rank in enumerate(gathered.ranks):
        activities, graph = gathered.activities[place], gathered.graphs[place]
        edges = waits.edges(activities, graph, gathered.graph_waits[place])
        with connect(rank) as connection:
            own = [*_of_edges(graph, edges), *_of_events(connection)]
        parts += [{"source_rank": rank, "target_rank": rank, **part} for part in own]
    return _table(run, parts)


def _of_events(connection: duckdb.DuckDBPyConnection) -> Iterator[_Part]:
    """Backward ops after their forward ops, and ops after those whose data they read."""
    prepare(connection, Answer("dependencies", _DATA_FLOWS), {})
    for kind, sql in ((_BACKWARD, _BACKWARDS), (_DATA, _DATA_FLOWS)):
        table = select(connection, sql).to_arrow_table()
        yield {
            "kind": kind,
            "certainty": RECORDED,
            "source_id": numbers(table, "source"),
            "target_id": numbers(table, "target"),
            "source_edge": _END,
            "target_edge": _START,
            "lag_ns": numbers(table, "lag_ns"),
        }


def _of_edges(graph: Graph, edges: Edges) -> Iterator[_Part]:
    works, slices, points = graph.works, graph.slices, graph.points

    def part(rows: Ints, source: Ints, target: Ints, sides: tuple[Any, Any], lag: Ints) -> _Part:
        return {
            "kind": edges.kind[rows],
            "certainty": edges.certainty[rows],
            "source_id": source,
            "source_edge": sides[0],
            "target_id": target,
            "target_edge": sides[1],
            "lag_ns": lag,
        }

    rows = edges.of(LAUNCH)
    work = edges.target[rows]
    lag = works.start[work] - works.call_start[work]
    yield part(rows, works.call[work], works.event[work], (_START, _START), lag)
    rows = edges.of(STREAM, WAIT, GRAPH)
    source, target = edges.source[rows], edges.target[rows]
    lag = works.start[target] - works.end[source]
    yield part(rows, works.event[source], works.event[target], (_END, _START), lag)
    rows = edges.of(SYNC)
    source, call = edges.source[rows], edges.call[rows]
    lag = slices.end[call] - works.end[source]
    yield part(rows, works.event[source], slices.event[call], (_END, _END), lag)
    rows = edges.of(THREAD)
    source, target = edges.source[rows], edges.target[rows]
    (source_id, source_side), (target_id, target_side) = (
        _events_at(graph, point) for point in (source, target)
    )
    there = (source_id >= 0) & (target_id >= 0)
    lag = points.time[target] - points.time[source]
    yield part(
        rows[there],
        source_id[there],
        target_id[there],
        (source_side[there], target_side[there]),
        lag[there],
    )


def _events_at(graph: Graph, point: Ints) -> tuple[Ints, Ints]:
    """The slice that begins at each point, or else the one that ends or continues there."""
    points, slices = graph.points, graph.slices
    inside = points.inside[point]
    before = np.append(-1, points.inside[:-1])[point]
    starts = np.append(slices.start, -1)[inside] == points.time[point]
    slice_ = np.where(starts | (before < 0), inside, before)
    event = np.append(slices.event, -1)[slice_]
    return event, np.where(starts, _START, _END)


def _of_meetings(meetings: path_across_ranks.Meetings, ranks: Ints) -> Iterator[_Part]:
    """Each member waited for the last one to come, and that one for all others."""
    last = meetings.last
    member = np.flatnonzero(last != np.arange(last.size))
    last = last[member]
    for source, target in ((last, member), (member, last)):
        lag = meetings.end[target] - meetings.start[source]
        # A rank that left before another one came did not wait for it.
        waited = lag >= 0
        source, target = source[waited], target[waited]  # noqa: PLW2901 -- those that waited
        yield {
            "kind": np.where(meetings.message[target] > 0, _MESSAGE, _COLLECTIVE),
            "certainty": np.where(meetings.numbered[target] > 0, RECORDED, ORDERED),
            "source_rank": ranks[meetings.rank[source]],
            "source_id": meetings.event[source],
            "source_edge": _START,
            "target_rank": ranks[meetings.rank[target]],
            "target_id": meetings.event[target],
            "target_edge": _END,
            "lag_ns": lag[waited],
        }


def _table(run: str, parts: Sequence[_Part]) -> pa.Table:
    size = [part["lag_ns"].size for part in parts]
    total = sum(size)
    columns: dict[str, Ints] = {
        name: np.concatenate(
            [
                np.broadcast_to(np.asarray(part[name], np.int64), (rows,))
                for part, rows in zip(parts, size, strict=True)
            ]
            or [np.empty(0, np.int64)]
        )
        for name in schema.DEPENDENCIES.names[1:]
    }
    names = ("source_id", "target_edge", "target_id", "target_rank")
    order = np.lexsort((columns["kind"], *(columns[name] for name in names)))
    words = {
        "kind": _KINDS,
        "certainty": _CERTAINTIES,
        "source_edge": _SIDES,
        "target_edge": _SIDES,
    }
    arrays: dict[str, pa.Array] = {"run": _worded(np.zeros(total, np.int64), (run,))}
    for name, values in columns.items():
        of_rows = values[order]
        arrays[name] = _worded(of_rows, words[name]) if name in words else pa.array(of_rows)
    table = pa.table(arrays)
    return table.select(schema.DEPENDENCIES.names).cast(schema.DEPENDENCIES.arrow)


def _worded(codes: Ints, texts: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts))


_LAGS: Final = """
    SELECT source, target, after.start_ns - before.start_ns - coalesce(before.dur_ns, 0) AS lag_ns
    FROM ({}) AS pairs
    JOIN events AS before ON before.event_id = source
    JOIN events AS after ON after.event_id = target
    WHERE before.start_ns IS NOT NULL AND after.start_ns IS NOT NULL
"""
_DATA_FLOWS: Final = _LAGS.format("FROM flow_pairs(flows, 'data')")
_BACKWARDS: Final = _LAGS.format(
    "SELECT fwd_id AS source, event_id AS target FROM events WHERE fwd_id IS NOT NULL"
)
