"""Attribution of replayed work to the ops that launched it while it was captured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import coded, combined, encoded, ids, is_kind, numbers, words
from profframe.facts.fact import Note, Tables, of_events, with_output
from profframe.facts.forward import forward
from profframe.facts.graph_captures.captured_rows import (
    CapturedRows,
    captured_rows,
    labelled_rows,
    with_rows,
)
from profframe.facts.graph_captures.choosing import CaptureChoice, capture_title, choose
from profframe.facts.graph_captures.recorded_captures import Capture, captures, has_captures
from profframe.facts.graph_captures.replay_matching import Candidate, EagerRun, EagerRuns, OpKey
from profframe.facts.graph_captures.replays import (
    NODE_BITS,
    Replays,
    has_nodes,
    replays,
    same_groups,
    work_grids,
    work_names,
)
from profframe.intervals import Ints, Mask, nearest

_KEY: Final = ("name", "input_dims", "input_types")
_MOST_NOTES: Final = 50


@dataclass(frozen=True, slots=True)
class CaptureSource:
    """A trace with captures.

    Attributes
    ----------
    file : str
        Name of its file; empty for the trace of the replays itself.
    tables : Tables
        Its tables, with the columns of ``forward``.
    captures : list of Capture
        What was captured in it.
    rank : int, optional
        Rank of its process, if that is known.
    """

    file: str
    tables: Tables
    captures: list[Capture]
    rank: int | None = None


def may_attribute(tables: Tables, sources: Sequence[CaptureSource]) -> bool:
    """Whether work in graphs may get ops."""
    events = tables["events"]
    return bool(sources) or has_nodes(events) or has_captures(events)


def attribute_replays(
    tables: Tables, sources: Sequence[CaptureSource], rank: int | None = None
) -> Tables:
    """Give the work in graphs the ops of the captured calls.

    The ops, and what is around them up to the begin of the capture, become rows without times; the
    column ``replays`` has how often each was replayed. What is ambiguous stays as it is, and is
    counted in ``quality``.

    Parameters
    ----------
    tables : Tables
        Of one trace, with the columns of ``launches``.
    sources : Sequence of CaptureSource
        Other traces with captures; those of the trace itself are used, too.
    rank : int, optional
        Rank of the trace: of several captures that fit, those of its own rank count.
    """
    events = tables["events"]
    runs = replays(events)
    if runs is None:
        return tables
    if has_captures(events):
        own = forward(tables)
        sources = [CaptureSource("", own, captures(own)), *sources]
    graphs = [(source, capture) for source in sources for capture in source.captures]
    candidates = [_candidate(*graph, rank) for graph in graphs]
    eager = _eager_runs(candidates, [tables, *(s.tables for s in sources if s.file)])
    choice = choose(events, runs, candidates, [source.file for source, _ in graphs], eager)
    return _attributed(tables, runs, graphs, choice)


def _candidate(source: CaptureSource, capture: Capture, rank: int | None) -> Candidate:
    events = source.tables["events"]
    key_of = dict(_keys(events, np.unique(capture.ops[capture.ops >= 0])))
    nodes = None
    if "graph_node_id" in events.column_names:
        node = numbers(events, "graph_node_id", missing=-1)[capture.calls]
        nodes = node & NODE_BITS if (node >= 0).all() else None
    parent = numbers(events, "parent_id", missing=-1)
    labels = _names_around(events, parent, capture.calls, is_kind(events, ("annotation",)))
    ops = [key_of.get(op) for op in capture.ops.tolist()]
    frames = _names_around(events, parent, capture.calls, is_kind(events, ("python",)))
    is_of_rank = rank is not None and source.rank == rank
    return Candidate(capture, ops, nodes, labels, frames, not source.file, is_of_rank)


def _keys(events: pa.Table, rows: Ints) -> Iterator[tuple[int, OpKey]]:
    taken = events.select(_KEY).take(pa.array(rows))
    keys = zip(*(taken[name].to_pylist() for name in _KEY), strict=True)
    yield from zip(rows.tolist(), keys, strict=True)


def _names_around(
    events: pa.Table, parent: Ints, rows: Ints, marked: Mask
) -> list[tuple[str, ...]]:
    """Names of the marked slices around each row, the innermost first."""
    if not marked.any():
        return [()] * rows.size
    above = np.append(nearest(parent, marked), -1)
    codes, texts = words(events, "name")
    around: dict[int, tuple[str, ...]] = {-1: ()}

    inner = above[parent[rows]].tolist()
    for row in inner:
        path = [row]
        while path[-1] not in around:
            path.append(int(above[parent[path[-1]]]))
        for outer, own in zip(path[:0:-1], path[-2::-1], strict=True):
            text = (texts[codes[own]],) if codes[own] >= 0 else ()
            around[own] = (*text, *around[outer])
    return [around[row] for row in inner]


def _eager_runs(candidates: Sequence[Candidate], traces: Iterable[Tables]) -> EagerRuns:
    """Kernels that captured ops launch without a graph, for captures without kernel names."""
    # On CUDA a captured call has no name of its kernel (on ROCm it has), so eager runs of the same
    # op are the only evidence of which kernels it launches.
    keys = {key for c in candidates if not c.capture.is_named for key in c.ops if key}
    runs: dict[OpKey, set[EagerRun]] = {}
    if keys:
        for tables in traces:
            for key, run in _launched(tables["events"], keys):
                runs.setdefault(key, set()).add(run)
    return runs


def _launched(events: pa.Table, keys: Collection[OpKey]) -> Iterator[tuple[OpKey, EagerRun]]:
    """The kernels that calls of these ops launched, each different case once."""
    codes, texts = words(events, "name")
    wanted = {key[0] for key in keys}
    is_wanted = np.array([*(text in wanted for text in texts), False], np.bool_)[codes]
    op = numbers(events, "op_id", missing=-1)
    rows = np.flatnonzero(is_kind(events, schema.DEVICE_KINDS) & np.append(is_wanted, False)[op])
    if not rows.size:
        return
    start = numbers(events, "start_ns")
    launch = numbers(events, "launch_id", missing=-1)[rows]
    moment = np.where(launch >= 0, start[launch], start[rows])
    rows = rows[np.lexsort((rows, moment, op[rows]))]
    ops, first = np.unique(op[rows], return_index=True)
    bounds = np.append(first, rows.size)
    kernels, names = work_names(events, rows)
    grids, grid_texts = work_grids(events, rows)
    number: dict[OpKey, int] = {}
    of_op = np.array([number.setdefault(key, len(number)) for _, key in _keys(events, ops)])
    group = same_groups(combined(kernels, grids), bounds) * len(number) + of_op
    _, distinct = np.unique(group, return_index=True)
    op_keys = list(number)
    for at in distinct.tolist():
        if op_keys[of_op[at]] in keys:
            part = slice(bounds[at], bounds[at + 1])
            run = EagerRun(
                tuple(names[code] for code in kernels[part]),
                tuple(grid_texts[code] for code in grids[part]),
            )
            yield op_keys[of_op[at]], run


def _attributed(
    tables: Tables,
    runs: Replays,
    graphs: Sequence[tuple[CaptureSource, Capture]],
    choice: CaptureChoice,
) -> Tables:
    """The tables with the rows of captures that were replayed, and the ops of their work."""
    events = tables["events"]
    parts: list[_CaptureRows] = []
    notes = list(choice.notes)
    files = [source.file for source, _ in graphs]
    for number, launches in _groups([None if m is None else m.capture for m in choice.match]):
        source, capture = graphs[number]
        part = _CaptureRows(
            captured_rows(source.tables, capture, launches.size), capture_title(number, files)
        )
        # A decode graph is replayed thousands of times: equal replays are handled as one array of
        # lines.
        of_part = [(n, match) for n in launches.tolist() if (match := choice.match[n])]
        ways = [(runs.work[n], match.by) for n, match in of_part]
        for _, places in _groups(_numbered(ways)):
            match = of_part[places[0]][1]
            lines = runs.rows_of(launches[places])
            part.add(lines, np.append(part.captured.op_of_call, -1)[match.calls], match.by)
            notes += _lost(lines, match.calls, capture, part.title)
        parts.append(part)
    unmatched = [
        int(work) if match is None and any(runs.works[work].labels) else None
        for work, match in zip(runs.work.tolist(), choice.match, strict=True)
    ]
    for work, launches in _groups(unmatched):
        labels = runs.works[work].labels
        part = _CaptureRows(labelled_rows(labels, launches.size), "annotated nodes")
        part.add(runs.rows_of(launches), part.captured.op_of_call, "annotation")
        parts.append(part)

    op, by = numbers(events, "op_id", missing=-1).copy(), coded(events, "attributed_by")
    way, words_ = by[0].copy(), by[1].to_pylist()
    first = events.num_rows
    for part in parts:
        for lines, ops, word in part.lines:
            if word not in words_:
                words_.append(word)
            has_op = ops >= 0
            op[lines[:, has_op]] = first + ops[has_op]
            way[lines[:, has_op]] = words_.index(word)
        first += part.captured.rows.num_rows
    # New rows come after all others, so that every event_id of the trace stays.
    if parts:
        tables = with_rows(tables, [p.captured for p in parts], [p.title for p in parts])
    op, way = (np.append(values, np.full(first - values.size, -1)) for values in (op, way))
    output = of_events(*notes[:_MOST_NOTES], op_id=ids(op), attributed_by=encoded(way, words_))
    return with_output(tables, output)


class _CaptureRows:
    """The rows of one capture, and the work that it gives ops."""

    def __init__(self, captured: CapturedRows, title: str) -> None:
        self.captured, self.title = captured, title
        self.lines: list[tuple[Ints, Ints, str]] = []

    def add(self, lines: Ints, ops: Ints, way: str) -> None:
        """Rows of work, a line for each launch, with the rows of the ops in a line, or -1."""
        self.lines.append((lines, ops, way))


def _groups(values: Sequence[int | None]) -> Iterator[tuple[int, Ints]]:
    """Each number with its places, in order; None is in no group."""
    codes = np.array([-1 if value is None else value for value in values], np.int64)
    for number in np.unique(codes[codes >= 0]).tolist():
        yield number, np.flatnonzero(codes == number)


def _numbered(values: Sequence[object]) -> list[int]:
    numbers_: dict[object, int] = {}
    return [numbers_.setdefault(value, len(numbers_)) for value in values]


def _lost(lines: Ints, calls: Ints, capture: Capture, title: str) -> Iterator[Note]:
    """Notes on captured calls that did not run, and on ambiguous work."""
    missing = capture.calls.size - calls.size
    if missing > 0:
        detail = f"{missing} of {capture.calls.size} calls of the {title}"
        yield "lost_replay_work", missing * len(lines), detail, int(lines[0, 0])
    open_ = np.flatnonzero(calls < 0)
    if open_.size:
        detail = f"several calls of the {title} have its name"
        yield "ambiguous_capture", open_.size * len(lines), detail, int(lines[0, open_[0]])
