"""The graph node that a slice belongs to, if the graph's code marks its nodes.

With ``torch.fx.experimental._config.enrich_profiler_metadata`` the code that torch generates for a
graph records a host op ``## <graph file> ##`` around everything, and ``## <number> ##`` around each
node. The names of nodes and their places in the model are not in the trace: torch has them in a
registry, by file and number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import ParameterError
from profframe.facts.arrays import coded, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact, note, of_events
from profframe.intervals import Ints, Mask, last_until, stab

Registry: TypeAlias = Mapping[str, Mapping[str, object]]
"""As ``torch.fx.traceback._FX_METADATA_REGISTRY``: graph file -> ``{"node_metadata": {number:
{"name": ..., "stack_trace": ...}}}``. Other entries are not used."""
NodeNames: TypeAlias = Mapping[int, tuple[str | None, str | None]]
"""Number of a node -> its name and its stack trace."""

_OPENS: Final = "## "
_CLOSES: Final = " ##"
_FILE: Final = ".py"
_COMPILED: Final = ("Call CompiledFxGraph ", "inductor_kernel:")
"""What names of calls of compiled graphs and of their kernels begin with: these mark no nodes."""
_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)
_UNREADABLE, _GRAPH, _NODE = range(3)
_COLUMNS: Final = ("node", "node_index", "node_file", "stack_trace")
_LATEST: Final = np.iinfo(np.int64).max
_FORM: Final = (
    'fx_metadata has the form of torch.fx.traceback._FX_METADATA_REGISTRY: {"graph.py": '
    '{"node_metadata": {0: {"name": "relu", "stack_trace": "..."}}}}'
)


@fact(
    inputs=columns(events="kind name start_ns dur_ns thread preorder launch_id op_id"),
    outputs=columns(events="node node_index node_file stack_trace"),
    options=("registry",),
)
def nodes(tables: Tables, registry: Registry | None = None) -> Output:
    """Fill ``node node_index node_file stack_trace``.

    A host slice belongs to the node on its thread whose marker opened last before it and is still
    open when it starts, a device slice to that of its launch, else of its op. In a graph, but
    in no node, it has only a ``node_file``; markers themselves belong to nothing.

    Wrong markers are counted in ``quality``. The marker of a node in no graph, or of one that the
    registry lacks, is ignored. Without a registry a node is named by its number.

    Parameters
    ----------
    tables : Tables
        With the columns of ``launches``.
    registry : Registry, optional
        Names and stack traces of the nodes.
    """
    events = tables["events"]
    marks = _marks(events)
    if marks is None:
        return Output()
    lines = _lines(events)
    readable = (marks.role != _UNREADABLE) & (lines.place[marks.rows] != _LATEST)
    notes = [*note("unreadable_graph_marker", marks.rows[~readable])]
    marks = marks.where(readable)
    if not marks.rows.size:
        return Output(notes=notes)
    notes += note("crossing_graph_markers", marks.rows[_crossing(lines, marks)])
    in_graphs = _in_graphs(lines, marks)
    notes += note("node_outside_graph", in_graphs.rows[in_graphs.graph < 0])
    in_graphs = in_graphs.where(in_graphs.graph >= 0)

    names_by_graph = [
        None if registry is None else node_names(registry, file) for file in marks.files
    ]
    node_columns, number = _node_columns(in_graphs, names_by_graph, only_named=registry is not None)
    if registry is not None:
        is_unknown = np.array([names is None for names in names_by_graph], np.bool_)[
            in_graphs.graph
        ]
        graphs = in_graphs.rows[is_unknown & (in_graphs.role == _GRAPH)]
        notes += note("unknown_graph_file", graphs)
        notes += note("unknown_graph_node", in_graphs.rows[~is_unknown & (number < 0)])

    row = _nodes_of_slices(events, lines, in_graphs.where(number >= 0), number[number >= 0])
    row[marks.rows] = -1
    values = node_columns.take(pa.array(row, mask=row < 0))
    return of_events(*notes, **{name: values[name] for name in _COLUMNS})


def node_names(registry: Registry, file: str) -> NodeNames | None:
    """Names and stack traces of the nodes of a graph file; None if it is unknown.

    Examples
    --------
    >>> node_names({"graph.py": {"node_metadata": {0: {"name": "relu"}}}}, "graph.py")
    {0: ('relu', None)}
    """
    entry = registry.get(file)
    metadata = entry.get("node_metadata") if isinstance(entry, Mapping) else None
    if not isinstance(metadata, Mapping):
        return None
    return {
        int(number): (_text(node.get("name")), _text(node.get("stack_trace")))
        for number, node in metadata.items()
        if isinstance(node, Mapping) and _NUMBER.fullmatch(str(number))
    }


def registry_of(registry: object) -> Registry:
    """The names and stack traces of a registry; raises `ParameterError` for any other form.

    Examples
    --------
    >>> registry_of({"graph.py": {"node_metadata": {"0": {"name": "relu", "type": "op"}}}})
    {'graph.py': {'node_metadata': {0: {'name': 'relu', 'stack_trace': None}}}}
    """
    if not isinstance(registry, Mapping):
        raise ParameterError(f"{_FORM}; not {type(registry).__name__}")
    for file, entry in registry.items():
        metadata = entry.get("node_metadata") if isinstance(entry, Mapping) else None
        if not isinstance(metadata, Mapping):
            raise ParameterError(f"{_FORM}; {file!r} has no node_metadata")
        for number, node in metadata.items():
            if not isinstance(node, Mapping) or not _NUMBER.fullmatch(str(number)):
                raise ParameterError(f"{_FORM}; {file!r} has {number!r}: {node!r:.60}")
    return {
        file: {
            "node_metadata": {
                number: {"name": name, "stack_trace": stack}
                for number, (name, stack) in (node_names(registry, file) or {}).items()
            }
        }
        for file in registry
    }


def _text(value: object) -> str | None:
    """Non-empty text without lone surrogates, else None."""
    return value.encode(errors="replace").decode() if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class _Marks:
    """Markers, with one entry each.

    Attributes
    ----------
    rows : Ints
        Rows of ``events``.
    role : Ints
        Whether it marks a graph, a node, or is unreadable.
    graph : Ints
        Index in ``files``; -1 where unknown.
    index : Ints
        Number of the node; -1 for a graph.
    files : tuple of str
        Names of the graph files.
    """

    rows: Ints
    role: Ints
    graph: Ints
    index: Ints
    files: tuple[str, ...]

    def where(self, mask: Mask) -> _Marks:
        """The markers in a mask."""
        return _Marks(
            self.rows[mask], self.role[mask], self.graph[mask], self.index[mask], self.files
        )


def _marks(events: pa.Table) -> _Marks | None:
    """The markers, if there are any, found by the distinct names."""
    codes, texts = coded(events, "name")
    is_marker = pc.and_(pc.starts_with(texts, _OPENS), pc.ends_with(texts, _CLOSES))
    if not is_marker.true_count:
        return None
    marker_codes = np.flatnonzero(is_marker.to_numpy(zero_copy_only=False))
    files: list[str] = []
    meaning = np.full((len(texts) + 1, 3), -1, np.int64)  # the last row is for NULL
    for code, text in zip(
        marker_codes.tolist(), texts.take(pa.array(marker_codes)).to_pylist(), strict=True
    ):
        name = text[len(_OPENS) : -len(_CLOSES)]
        if name.startswith(_COMPILED):
            continue
        if name.endswith(_FILE):
            meaning[code] = _GRAPH, len(files), -1
            files.append(name)
        elif _NUMBER.fullmatch(name):
            meaning[code] = _NODE, -1, int(name)
        else:
            meaning[code] = _UNREADABLE, -1, -1
    rows = np.flatnonzero((meaning[codes, 0] >= 0) & is_kind(events, ("host_op",)))
    role, graph, index = meaning[codes[rows]].T
    return _Marks(rows, role, graph, index, tuple(files)) if rows.size else None


@dataclass(frozen=True, slots=True)
class _Lines:
    """Thread, start and end of slices; ``place`` orders those that start at once."""

    thread: Ints
    start: Ints
    end: Ints
    place: Ints

    def innermost(self, around: Ints, rows: Ints) -> Ints:
        """For each row the slice of ``around`` that opened last before it and is open, or -1.

        Of slices that start at once the outer one opens first, so a slice that does not nest opens
        last, and none opens before itself.
        """
        order = np.lexsort((self.place[around], self.start[around], self.thread[around]))
        around = around[order]
        thread, start, last = self.thread[around], self.start[around], self.end[around] - 1
        matches = stab(thread, start, last, self.thread[rows], self.start[rows])
        ties = np.flatnonzero(matches >= 0)
        match = matches[ties]
        ties = ties[
            (start[match] == self.start[rows[ties]])
            & (self.place[around[match]] >= self.place[rows[ties]])
        ]
        # These rows start with their match, but before it. So match them by the order of opening: a
        # slice is open from its own number to that of the last one that opens in it, and a row lies
        # right before the number of the next one.
        number, no_group = np.arange(around.size), np.zeros(around.size, np.int64)
        until = last_until(thread, start, thread, last)
        row_number = self._opened_before(around, rows[ties])
        matches[ties] = stab(
            no_group, 2 * number, 2 * until - 1, np.zeros_like(row_number), 2 * row_number - 1
        )
        return np.append(order, -1)[matches]

    def _opened_before(self, around: Ints, rows: Ints) -> Ints:
        """Number of slices in ``around`` before each row, by thread and in the order of opening."""
        both = np.concatenate([around, rows])
        counts = np.arange(both.size) < around.size
        order = np.lexsort((counts, self.place[both], self.start[both], self.thread[both]))
        before = np.empty_like(both)
        before[order] = np.cumsum(counts[order])
        return before[around.size :]


def _lines(events: pa.Table) -> _Lines:
    """Threads and times of all slices; those without a preorder are the last of a moment."""
    start = numbers(events, "start_ns")
    return _Lines(
        thread=numbers(events, "thread"),
        start=start,
        end=start + numbers(events, "dur_ns"),
        place=numbers(events, "preorder", missing=_LATEST),
    )


def _crossing(lines: _Lines, marks: _Marks) -> Mask:
    """Markers that end after the one around them."""
    around = lines.innermost(marks.rows, marks.rows)
    end = lines.end[marks.rows]
    return (around >= 0) & (end > end[around])


def _in_graphs(lines: _Lines, marks: _Marks) -> _Marks:
    """Markers; those of nodes with the graph around them."""
    graphs = np.flatnonzero(marks.role == _GRAPH)
    inside = np.flatnonzero(marks.role == _NODE)
    around = lines.innermost(marks.rows[graphs], marks.rows[inside])
    graph = marks.graph.copy()
    graph[inside] = np.append(marks.graph[graphs], -1)[around]
    return replace(marks, graph=graph)


def _node_columns(
    marks: _Marks, names_by_graph: Sequence[NodeNames | None], *, only_named: bool
) -> tuple[pa.Table, Ints]:
    """Columns of slices by node or graph, and for each marker the row in them.

    The row of an unknown node is -1, if ``only_named``.
    """
    pairs = np.stack([marks.graph, marks.index], axis=1)
    distinct, number = np.unique(pairs, axis=0, return_inverse=True)
    rows: list[tuple[str | None, int | None, str, str | None]] = []
    is_unknown = np.zeros(len(distinct), np.bool_)
    for place, (graph, index) in enumerate(distinct.tolist()):
        if index < 0:
            rows.append((None, None, marks.files[graph], None))
            continue
        names = names_by_graph[graph] or {}
        is_unknown[place] = only_named and index not in names
        name, trace = names.get(index, (None, None))
        rows.append((name or str(index), index, marks.files[graph], trace))
    arrays = {
        name: pa.array([row[i] for row in rows], schema.EVENTS.arrow.field(name).type)
        for i, name in enumerate(_COLUMNS)
    }
    return pa.table(arrays), np.where(is_unknown[number], -1, number)


def _nodes_of_slices(events: pa.Table, lines: _Lines, marks: _Marks, number: Ints) -> Ints:
    """For each slice the row of the node that it is in, else of the graph, else -1."""
    has_marks = np.zeros(lines.thread.max() + 1, np.bool_)
    has_marks[lines.thread[marks.rows]] = True
    on_host = is_kind(events, schema.HOST_KINDS) & present(events, "start_ns")
    rows = np.flatnonzero(on_host & has_marks[lines.thread])
    place = np.full(events.num_rows, -1, np.int64)
    # Nodes first; what is in none of them gets the graph.
    for role in (_NODE, _GRAPH):
        mark_rows, role_number = marks.rows[marks.role == role], number[marks.role == role]
        unassigned = place[mark_rows] < 0
        place[rows] = np.append(role_number, -1)[lines.innermost(mark_rows, rows)]
        # For what a marker launches itself, outside of ops.
        place[mark_rows[unassigned]] = role_number[unassigned]
        rows = rows[place[rows] < 0]
    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    cause = np.where(launch >= 0, launch, op)
    caused = np.flatnonzero(cause >= 0)
    place[caused] = place[cause[caused]]
    return place
