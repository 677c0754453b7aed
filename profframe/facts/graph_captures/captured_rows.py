"""Rows of ``events`` for what was captured: ops, and what is around them, without times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import column, encoded, ids, is_kind, numbers, present
from profframe.facts.fact import Tables
from profframe.facts.graph_captures.recorded_captures import Capture
from profframe.intervals import Ints, nearest
from profframe.system.disk_tables import SpooledTable

_NOT_KEPT: Final = (
    "start_ns", "dur_ns", "tid", "device", "stream", "correlation", "external_id",
    "python_id", "python_parent_id", "self_ns", "shared_ns", "merged_into", "launch_id", "op_id",
    "cpu_bytes", "self_cpu_bytes", "device_bytes", "self_device_bytes", "named_by", "ev_idx",
    "kernel_ns", "fwd_id", "attributed_by", "node_id",
)  # fmt: skip
"""Columns that say when and where the capture ran."""
_PROCESS: Final = "captured graphs"
STACK: Final = "graph_stack"
"""Category of frames that are known from stacks alone, and the word for work found by them."""
_Node = tuple[str, str | None, str]
"""Name, module and kind of a row."""


class Leaf(NamedTuple):
    """What was recorded of a node of a graph.

    Attributes
    ----------
    frames : tuple of str
        Names of the Python frames in which it was captured, the innermost first.
    label, module : str, optional
        The program's name for it, and the module that it says it is of.
    """

    frames: tuple[str, ...]
    label: str | None
    module: str | None


@dataclass(frozen=True, slots=True)
class CapturedRows:
    """The rows of one capture.

    Attributes
    ----------
    rows : pyarrow.Table
        Ops, annotations and Python frames, in preorder, with ids from 0.
    op_of_call : Ints
        Number of the row of the op of each call, or -1.
    """

    rows: pa.Table
    op_of_call: Ints


def captured_rows(tables: Tables, capture: Capture, replays: int) -> CapturedRows:
    """Slices around the calls of a capture, but not around its begin, and all ops inside.

    What is around the begin is around the launch of a replay, too: device time must not count
    twice.
    """
    events = tables["events"]
    parent = numbers(events, "parent_id", missing=-1)
    is_kept = np.zeros(events.num_rows + 1, np.bool_)
    stop = np.zeros(events.num_rows + 1, np.bool_)
    # What is around the begin of the capture is around its replays, too: it has their device time
    # already.
    stop[capture.outside] = stop[-1] = True
    around = np.unique(parent[capture.calls])
    while (around := around[~stop[around] & ~is_kept[around]]).size:
        is_kept[around] = True
        around = np.unique(parent[around])
    is_kept = is_kept[:-1] & ~is_kind(events, schema.LAUNCH_KINDS)
    ops = is_kind(events, ("host_op",)) & present(events, "preorder")
    is_kept |= ops & (nearest(parent, is_kept) >= 0)
    rows = np.flatnonzero(is_kept)
    preorder = numbers(events, "preorder")
    rows = rows[np.argsort(preorder[rows])]
    local = np.full(events.num_rows + 1, -1, np.int64)
    local[rows] = np.arange(rows.size)

    above = local[np.append(nearest(parent, is_kept), -1)[parent[rows]]]
    root = nearest(above, above < 0)
    depth = numbers(events, "depth")[rows]
    last = preorder[numbers(events, "last_descendant_id")[rows]]
    end = np.searchsorted(preorder[rows], last, side="right") - 1
    forward = local[numbers(events, "fwd_id", missing=-1)[rows]]
    columns = {
        "parent_id": ids(above),
        "depth": column("depth", depth - depth[root], np.ones(rows.size, np.bool_)),
        "root_id": ids(root),
        "preorder": ids(np.arange(rows.size)),
        "last_descendant_id": ids(end),
        "captured_fwd_id": ids(forward),
        "replays": pa.array(np.full(rows.size, replays), pa.int64()),
        "stack_around_capture": _stack_around(events, capture, rows),
    }
    taken = events.take(pa.array(rows))
    names = [name for name in taken.column_names if name not in {*_NOT_KEPT, *columns}]
    taken = taken.select(names)
    for name, values in columns.items():
        taken = taken.append_column(name, values)
    return CapturedRows(taken, local[capture.ops])


def _stack_around(events: pa.Table, capture: Capture, rows: Ints) -> pa.DictionaryArray:
    """The frames around the begin of the capture, for rows that are not frames themselves."""
    frames = capture.outside[is_kind(events, ("python",))[capture.outside]]
    names = events["name"].take(pa.array(frames)).to_pylist()
    text = ";".join(name for name in names if name)
    has_stack = ~is_kind(events, ("python",))[rows] & bool(text)
    return encoded(np.where(has_stack, 0, -1), [text])


def recorded_rows(leaves: Sequence[Leaf | None], replays: int) -> CapturedRows:
    """Rows for what was recorded of nodes without a trace of their capture.

    Frames with the same name in the same frames are one row, in which rows of annotations are. A
    leaf has the row of its annotation, else of its innermost frame.
    """
    number: dict[tuple[int, _Node], int] = {}
    own: dict[Leaf, int] = {}
    for leaf in leaves:
        if leaf is None or leaf in own:
            continue
        at = -1
        for frame in reversed(leaf.frames):
            at = number.setdefault((at, (frame, None, "python")), len(number))
        if leaf.label:
            at = number.setdefault((at, (leaf.label, leaf.module, "annotation")), len(number))
        own[leaf] = at
    above = np.array([around for around, _ in number], np.int64)
    order, level, end = _preorder(above)
    place = np.append(np.empty(above.size, np.int64), -1)
    place[order] = np.arange(order.size)
    every = [node for _, node in number]
    nodes = [every[row] for row in order.tolist()]
    root = nearest(place[above[order]], level == 0)
    rows = pa.table({
        "kind": _coded([kind for _, _, kind in nodes]),
        "name": _coded([name for name, _, _ in nodes]),
        "category": _coded([STACK if kind == "python" else None for _, _, kind in nodes]),
        "module_hierarchy": _coded([module for _, module, _ in nodes]),
        "parent_id": ids(place[above[order]]),
        "depth": pa.array(level, pa.int32()),
        "root_id": ids(root),
        "preorder": ids(np.arange(order.size)),
        "last_descendant_id": ids(end),
        "captured_fwd_id": pa.nulls(order.size, pa.int64()),
        "replays": pa.array(np.full(order.size, replays), pa.int64()),
    })  # fmt: skip
    places = [-1 if leaf is None else own[leaf] for leaf in leaves]
    return CapturedRows(rows, place[np.array(places, np.int64)])


def _preorder(above: Ints) -> tuple[Ints, Ints, Ints]:
    """Nodes of trees in preorder, and for each in that order its level and last descendant.

    ``above`` has the parent of each node, which has a lower number, or -1.
    """
    size = np.ones(above.size, np.int64)
    level = np.zeros(above.size, np.int64)
    parents = above.tolist()
    for node in range(above.size - 1, -1, -1):
        if parents[node] >= 0:
            size[parents[node]] += size[node]
    free = np.zeros(above.size + 1, np.int64)
    begin = np.empty(above.size, np.int64)
    for node, parent in enumerate(parents):
        level[node] = level[parent] + 1 if parent >= 0 else 0
        begin[node] = free[parent]
        free[parent] += size[node]
        free[node] = begin[node] + 1
    order = np.argsort(begin)
    return order, level[order], (begin + size - 1)[order]


def _coded(texts: Sequence[str | None]) -> pa.DictionaryArray:
    return pa.array(texts, pa.string()).dictionary_encode()


def with_rows(tables: Tables, captured: Sequence[CapturedRows], names: Sequence[str]) -> Tables:
    """The tables with the rows of captures after all others, each on its own thread."""
    events, threads = tables["events"], tables["threads"]
    first = events.num_rows
    place = int(numbers(events, "preorder", missing=-1).max(initial=-1)) + 1
    thread = int(threads["thread"].to_numpy().max(initial=-1)) + 1
    parts, lines = [], []
    for number, (part, name) in enumerate(zip(captured, names, strict=True)):
        rows = part.rows
        for key in ("parent_id", "root_id", "last_descendant_id", "captured_fwd_id"):
            rows = _shifted(rows, key, first)
        rows = _shifted(rows, "preorder", place)
        count = rows.num_rows
        own = {"thread": pa.array(np.full(count, thread + number), pa.int32())}
        if "event_id" in events.column_names:
            own["event_id"] = ids(np.arange(first, first + count))
        own |= {key: _same(text, count) for key, text in (("pid", _PROCESS), ("tid", str(number)))}
        for key, values in own.items():
            if key in rows.column_names:
                rows = rows.drop_columns([key])
            rows = rows.append_column(key, values)
        parts.append(rows)
        lines.append({
            "thread": thread + number, "pid": _PROCESS, "tid": str(number),
            "process_name": _PROCESS, "thread_name": name,
        })  # fmt: skip
        first, place = first + count, place + count
    more = pa.Table.from_pylist(lines, schema=pa.schema(
        [threads.schema.field(n) for n in threads.column_names if n in lines[0]]
    ))  # fmt: skip
    threads = pa.concat_tables([threads, more], promote_options="default")
    return {**tables, "events": _stacked(events, parts), "threads": threads}


def _stacked(events: pa.Table, parts: Sequence[pa.Table]) -> pa.Table:
    """The events with more rows, in the types of the schema."""
    types = {column.name: column.type for column in schema.EVENTS}
    more = pa.concat_tables(parts, promote_options="permissive")
    for name in more.column_names:
        if name in events.column_names:
            type_ = events.schema.field(name).type
        else:
            type_ = types.get(name, more[name].type)
        if more[name].type != type_:
            place = more.column_names.index(name)
            more = more.set_column(place, name, more[name].cast(type_))
    if isinstance(events, SpooledTable):
        return events.spool.table([*events.parts(), more])
    return pa.concat_tables([events, more], promote_options="default")


def _shifted(rows: pa.Table, name: str, by: int) -> pa.Table:
    values = numbers(rows, name, missing=-1)
    moved = ids(np.where(values < 0, -1, values + by))
    return rows.set_column(rows.column_names.index(name), name, moved)


def _same(text: str, count: int) -> pa.DictionaryArray:
    codes = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(codes, pa.array([text], pa.string()))
