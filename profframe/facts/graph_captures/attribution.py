"""Attribution of replayed work to the ops that launched it while it was captured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import coded, combined, distinct, encoded, ids, is_kind, numbers, words
from profframe.facts.fact import Note, Tables, listed, of_events, with_output
from profframe.facts.forward import forward
from profframe.facts.graph_captures.captured_rows import (
    STACK,
    CapturedRows,
    Leaf,
    captured_rows,
    recorded_rows,
    with_rows,
)
from profframe.facts.graph_captures.choosing import CaptureChoice, capture_title, choose
from profframe.facts.graph_captures.recorded_captures import Capture, captures, has_captures
from profframe.facts.graph_captures.recorded_stacks import (
    GRAPH_BITS,
    NodeStacks,
    StackSource,
    nodes_of,
    stacks_of_process,
    unused_notes,
)
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
from profframe.intervals import Ints, Mask, nearest, rows_by_value

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


def may_attribute(
    tables: Tables, sources: Sequence[CaptureSource], stacks: Sequence[StackSource] = ()
) -> bool:
    """Whether work in graphs may get ops."""
    events = tables["events"]
    return bool(sources) or bool(stacks) or has_nodes(events) or has_captures(events)


def attribute_replays(
    tables: Tables,
    sources: Sequence[CaptureSource],
    rank: int | None = None,
    stacks: Sequence[StackSource] = (),
    *,
    is_alone: bool = True,
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
    stacks : Sequence of StackSource
        Files with the Python stacks of graph nodes, for work that gets no op of a capture.
    is_alone : bool
        Whether no other trace is loaded, so that a file of stacks without a rank is of this one.
    """
    events = tables["events"]
    runs = replays(events)
    recorded, own_stacks, notes = stacks_of_process(stacks, rank, is_alone=is_alone)
    if runs is None:
        none = np.empty(0, np.int64)
        if own_stacks:
            notes += unused_notes(events, recorded, own_stacks, none, none)
        return with_output(tables, of_events(*notes))
    if has_captures(events):
        own = forward(tables)
        sources = [CaptureSource("", own, captures(own)), *sources]
    graphs = [(source, capture) for source in sources for capture in source.captures]
    candidates = [_candidate(*graph, rank) for graph in graphs]
    eager = _eager_runs(candidates, [tables, *(s.tables for s in sources if s.file)])
    choice = choose(events, runs, candidates, [source.file for source, _ in graphs], eager)
    parts, notes_of_choice = _captured_parts(runs, graphs, choice)
    captured = _rows_with_op(parts)
    nodes = _NodeRows.of(events, runs, recorded, captured)
    parts += nodes.stacked_parts(listed([source.file for source in own_stacks]))
    parts += nodes.labelled_parts([match is not None for match in choice.match])
    if own_stacks:
        used = np.concatenate([captured, nodes.stacked_rows])
        notes += unused_notes(events, recorded, own_stacks, used, runs.rows)
    return _attributed(tables, runs, nodes, parts, [*notes_of_choice[:_MOST_NOTES], *notes])


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


def _captured_parts(
    runs: Replays, graphs: Sequence[tuple[CaptureSource, Capture]], choice: CaptureChoice
) -> tuple[list[_CaptureRows], list[Note]]:
    """The rows of captures that were replayed, with their work."""
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
    return parts, notes


def _rows_with_op(parts: Sequence[_CaptureRows]) -> Ints:
    rows = [lines[:, ops >= 0].ravel() for part in parts for lines, ops, _ in part.lines]
    return np.concatenate([np.empty(0, np.int64), *rows])


@dataclass(frozen=True, slots=True)
class _NodeRows:
    """What was recorded of the nodes of replayed work, in the order of ``runs.rows``.

    Attributes
    ----------
    runs : Replays
        The replays.
    launch : Ints
        Number of the launch of each piece of work.
    node : Ints
        Number of its node, with the graph; -1 if that is not known.
    stack : Ints
        Number of its stack; -1 for none, or if it has an op of a capture.
    label : Ints
        Number of its annotation; -1 for none.
    stacks : NodeStacks
        The stacks.
    labels : list of (str or None, str or None)
        The annotations: their names and modules.
    """

    runs: Replays
    launch: Ints
    node: Ints
    stack: Ints
    label: Ints
    stacks: NodeStacks
    labels: list[tuple[str | None, str | None]]

    @classmethod
    def of(cls, events: pa.Table, runs: Replays, stacks: NodeStacks, captured: Ints) -> _NodeRows:
        """Look up each piece of work that has no op of a capture."""
        size = np.diff(runs.bounds)
        launch = np.repeat(np.arange(size.size), size)
        node = nodes_of(events)[runs.rows]
        _, stack = stacks.of(node)
        has_op = np.zeros(events.num_rows, np.bool_)
        has_op[captured] = True
        number: dict[tuple[str | None, str | None], int] = {}
        of_works, begins = [np.empty(0, np.int64)], [0]
        for work in runs.works:
            pairs = zip(work.labels, work.modules, strict=True)
            codes = [number.setdefault(p, len(number)) if any(p) else -1 for p in pairs]
            of_works.append(np.array(codes or [-1] * len(work.names), np.int64))
            begins.append(begins[-1] + of_works[-1].size)
        place = np.arange(runs.rows.size) - runs.bounds[launch]
        label = np.concatenate(of_works)[np.array(begins)[runs.work[launch]] + place]
        return cls(
            runs, launch, node, np.where(has_op[runs.rows], -1, stack), label, stacks, [*number]
        )

    @property
    def stacked_rows(self) -> Ints:
        """Rows of work that has a stack."""
        rows: Ints = self.runs.rows[self.stack >= 0]
        return rows

    def stacked_parts(self, files: str) -> Iterator[_CaptureRows]:
        """The rows of each graph whose nodes have stacks."""
        places = np.flatnonzero(self.stack >= 0)
        if not places.size:
            return
        graphs, number = distinct(self.node[places] >> GRAPH_BITS)
        for graph, of_graph in zip(graphs.tolist(), rows_by_value(number), strict=True):
            at = places[of_graph]
            which = combined(self.stack[at], self.label[at])
            first = np.empty(int(which.max()) + 1, np.int64)
            first[which[::-1]] = at[::-1]
            pairs = zip(self.stack[first].tolist(), self.label[first].tolist(), strict=True)
            leaves = [Leaf(self.stacks.stacks[s], *self._annotation(label)) for s, label in pairs]
            launches, _ = distinct(self.launch[at])
            rows = recorded_rows(leaves, launches.size)
            part = _CaptureRows(rows, f"graph {graph} of {files}")
            part.add(self.runs.rows[at][None], rows.op_of_call[which], STACK)
            yield part

    def labelled_parts(self, is_captured: Sequence[bool]) -> Iterator[_CaptureRows]:
        """The annotations of what neither a capture nor a stack says more about."""
        is_open = (self.stack < 0) & (self.label >= 0)
        has_open = np.zeros(self.runs.launches.size, np.bool_)
        has_open[self.launch[is_open]] = True
        has_open[np.flatnonzero(is_captured)] = False
        works = [
            work if has else None
            for work, has in zip(self.runs.work.tolist(), has_open.tolist(), strict=True)
        ]
        for _, launches in _groups(works):
            places = self.runs.places_of(launches)
            labels = np.where(is_open[places], self.label[places], -1)
            leaves = [
                None if label < 0 else Leaf((), *self._annotation(label))
                for label in range(-1, len(self.labels))
            ]
            used = np.unique(labels)
            rows = recorded_rows([leaves[label + 1] for label in used.tolist()], launches.size)
            part = _CaptureRows(rows, "annotated nodes")
            of_labels = rows.op_of_call[np.searchsorted(used, labels.ravel())]
            part.add(self.runs.rows[places].reshape(1, -1), of_labels, "annotation")
            yield part

    def modules(self) -> tuple[Ints, list[str]]:
        """The number of the module of each piece of work, or -1, and the modules."""
        number: dict[str, int] = {}
        codes = [
            number.setdefault(module, len(number)) if module else -1 for _, module in self.labels
        ]
        return np.array([*codes, -1], np.int64)[self.label], [*number]

    def _annotation(self, label: int) -> tuple[str | None, str | None]:
        return self.labels[label] if label >= 0 else (None, None)


def _attributed(
    tables: Tables,
    runs: Replays,
    nodes: _NodeRows,
    parts: Sequence[_CaptureRows],
    notes: Sequence[Note],
) -> Tables:
    """The tables with the rows of captures that were replayed, and the ops of their work."""
    events = tables["events"]
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
    output = of_events(*notes, op_id=ids(op), attributed_by=encoded(way, words_))
    return _with_modules(with_output(tables, output), runs, nodes, op, events.num_rows)


def _with_modules(
    tables: Tables, runs: Replays, nodes: _NodeRows, op: Ints, captured_from: int
) -> Tables:
    """The tables with the modules of annotated work, for it and for the captured ops of it alone.

    ``captured_from`` is the first row of captures.
    """
    module, names = nodes.modules()
    rows, module = runs.rows[module >= 0], module[module >= 0]
    if not rows.size:
        return tables
    events = tables["events"]
    codes, texts = np.full(events.num_rows, -1, np.int64), pa.array([], pa.string())
    if "module_hierarchy" in events.column_names:
        codes, texts = coded(events, "module_hierarchy")
        codes = np.where(np.append(_is_text(texts), False)[codes], codes, -1)
    # An op whose work is of several modules is of none.
    low, high = np.full(codes.size, len(names)), np.full(codes.size, -1)
    captured = op[rows] >= captured_from
    np.minimum.at(low, op[rows[captured]], module[captured])
    np.maximum.at(high, op[rows[captured]], module[captured])
    low[rows], high[rows] = module, module
    is_new = (low == high) & (codes < 0) & ~is_kind(events, ("python",))
    codes = np.where(is_new, len(texts) + low, codes)
    column = encoded(codes, pa.concat_arrays([texts, pa.array(names, pa.string())]))
    return with_output(tables, of_events(module_hierarchy=column))


def _is_text(texts: pa.StringArray) -> Mask:
    is_text: Mask = np.array([bool(text) for text in texts.to_pylist()], np.bool_)
    return is_text


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
