"""Which node of a graph a slice belongs to, where the code of the graph marks its nodes.

With ``torch.fx.experimental._config.enrich_profiler_metadata`` the code that torch generates for a
graph records a host op ``## <graph file> ##`` around it all, and ``## <number> ##`` around each
node. What a node is called and where in the model it comes from is not in the trace: torch has it
in a registry, by file and number.
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
from profframe.facts.columns import coded, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact, note, of_events
from profframe.intervals import Ints, Mask, last_until, stab

Registry: TypeAlias = Mapping[str, Mapping[str, object]]
"""As ``torch.fx.traceback._FX_METADATA_REGISTRY``: graph file -> ``{"node_metadata": {number:
{"name": ..., "stack_trace": ...}}}``. What else it holds is not used."""
Described: TypeAlias = Mapping[int, tuple[str | None, str | None]]
"""Number of a node -> its name and its stack trace."""

_OPENS: Final = "## "
_CLOSES: Final = " ##"
_FILE: Final = ".py"
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
    open when it starts, a slice on a device to that of its launch, else of its op. In a graph, but
    in no node, it has a ``node_file`` alone; markers themselves belong to nothing.

    Wrong markers are counted in ``quality``. A node in no graph, or one that the registry lacks, is
    passed over, as if its marker were not there. Without a registry a node is called by its number.

    Parameters
    ----------
    tables : Tables
        With the columns of ``launches``.
    registry : Registry, optional
        What is known of the nodes.
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
    placed = _in_graphs(lines, marks)
    notes += note("node_outside_graph", placed.rows[placed.graph < 0])
    placed = placed.where(placed.graph >= 0)

    known = [None if registry is None else described(registry, file) for file in marks.files]
    places, number = _places(placed, known, lacks=registry is not None)
    if registry is not None:
        unknown = np.array([of_graph is None for of_graph in known], np.bool_)[placed.graph]
        graphs = placed.rows[unknown & (placed.role == _GRAPH)]
        notes += note("unknown_graph_file", graphs)
        notes += note("unknown_graph_node", placed.rows[~unknown & (number < 0)])

    place = _belongs(events, lines, placed.where(number >= 0), number[number >= 0])
    place[marks.rows] = -1
    found = places.take(pa.array(place, mask=place < 0))
    return of_events(*notes, **{name: found[name] for name in _COLUMNS})


def described(registry: Registry, file: str) -> Described | None:
    """What is known of the nodes of a graph file; None where it is nothing.

    Examples
    --------
    >>> described({"graph.py": {"node_metadata": {0: {"name": "relu"}}}}, "graph.py")
    {0: ('relu', None)}
    """
    entry = registry.get(file)
    known = entry.get("node_metadata") if isinstance(entry, Mapping) else None
    if not isinstance(known, Mapping):
        return None
    return {
        int(number): (_text(node.get("name")), _text(node.get("stack_trace")))
        for number, node in known.items()
        if isinstance(node, Mapping) and _NUMBER.fullmatch(str(number))
    }


def check_registry(registry: object) -> None:
    """Raise `ParameterError` unless it has the form of torch's registry, or is None."""
    if registry is None:
        return
    if not isinstance(registry, Mapping):
        raise ParameterError(f"{_FORM}; not {type(registry).__name__}")
    for file, entry in registry.items():
        known = entry.get("node_metadata") if isinstance(entry, Mapping) else None
        if not isinstance(known, Mapping):
            raise ParameterError(f"{_FORM}; {file!r} has no node_metadata")
        for number, node in known.items():
            if not isinstance(node, Mapping) or not _NUMBER.fullmatch(str(number)):
                raise ParameterError(f"{_FORM}; in {file!r} stands {number!r}: {node!r:.60}")


def _text(value: object) -> str | None:
    """Text that says something; of a path that is no text, what can be read."""
    return value.encode(errors="replace").decode() if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class _Marks:
    """Markers, an entry each.

    Attributes
    ----------
    rows : Ints
        Rows of ``events``.
    role : Ints
        Whether it marks a graph, a node, or nothing that can be read.
    graph : Ints
        Which of ``files``; -1 where that is not known.
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

    def where(self, kept: Mask) -> _Marks:
        """Some of them."""
        return _Marks(
            self.rows[kept], self.role[kept], self.graph[kept], self.index[kept], self.files
        )


def _marks(events: pa.Table) -> _Marks | None:
    """The markers, if there are any: of all names only the distinct ones are looked at."""
    codes, texts = coded(events, "name")
    fits = pc.and_(pc.starts_with(texts, _OPENS), pc.ends_with(texts, _CLOSES))
    if not fits.true_count:
        return None
    marked = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
    files: list[str] = []
    meaning = np.full((len(texts) + 1, 3), -1, np.int64)  # the last row is for no name
    for code, text in zip(marked.tolist(), texts.take(pa.array(marked)).to_pylist(), strict=True):
        name = text[len(_OPENS) : -len(_CLOSES)]
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
    """Where slices lie on their threads; ``place`` orders those that start at once."""

    thread: Ints
    start: Ints
    end: Ints
    place: Ints

    def innermost(self, around: Ints, rows: Ints) -> Ints:
        """For each row which of the slices ``around`` opened last before it and is open, or -1.

        Of slices that start at once one opens before another if it nests around it, so a slice that
        does not nest opens last, and none opens before itself.
        """
        order = np.lexsort((self.place[around], self.start[around], self.thread[around]))
        around = around[order]
        thread, start, last = self.thread[around], self.start[around], self.end[around] - 1
        found = stab(thread, start, last, self.thread[rows], self.start[rows])
        tied = np.flatnonzero(found >= 0)
        at = found[tied]
        tied = tied[
            (start[at] == self.start[rows[tied]])
            & (self.place[around[at]] >= self.place[rows[tied]])
        ]
        # These began together with what was found, but before it. So by the order of opening: one
        # is open from its own number to that of the last that opens in it, and a row lies right
        # before the number of the next to open.
        own, line = np.arange(around.size), np.zeros(around.size, np.int64)
        until = last_until(thread, start, thread, last)
        opened = self._opened_before(around, rows[tied])
        found[tied] = stab(line, 2 * own, 2 * until - 1, np.zeros_like(opened), 2 * opened - 1)
        return np.append(order, -1)[found]

    def _opened_before(self, around: Ints, rows: Ints) -> Ints:
        """How many of ``around`` are before each row, by thread and in the order of opening."""
        both = np.concatenate([around, rows])
        counts = np.arange(both.size) < around.size
        order = np.lexsort((counts, self.place[both], self.start[both], self.thread[both]))
        before = np.empty_like(both)
        before[order] = np.cumsum(counts[order])
        return before[around.size :]


def _lines(events: pa.Table) -> _Lines:
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
    crossing: Mask = (around >= 0) & (end > end[around])
    return crossing


def _in_graphs(lines: _Lines, marks: _Marks) -> _Marks:
    """Markers of nodes with the graph that they are in."""
    graphs = np.flatnonzero(marks.role == _GRAPH)
    inside = np.flatnonzero(marks.role == _NODE)
    around = lines.innermost(marks.rows[graphs], marks.rows[inside])
    graph = marks.graph.copy()
    graph[inside] = np.append(marks.graph[graphs], -1)[around]
    return replace(marks, graph=graph)


def _places(
    marks: _Marks, known: Sequence[Described | None], *, lacks: bool
) -> tuple[pa.Table, Ints]:
    """What a slice in a marker has, and for each marker which row of that it is.

    Of a node that is not known there is none, -1, if what is not ``known`` is lacking.
    """
    pairs = np.stack([marks.graph, marks.index], axis=1)
    distinct, number = np.unique(pairs, axis=0, return_inverse=True)
    rows: list[tuple[str | None, int | None, str, str | None]] = []
    wrong = np.zeros(len(distinct), np.bool_)
    for place, (graph, index) in enumerate(distinct.tolist()):
        if index < 0:
            rows.append((None, None, marks.files[graph], None))
            continue
        of_graph = known[graph] or {}
        wrong[place] = lacks and index not in of_graph
        name, trace = of_graph.get(index, (None, None))
        rows.append((name or str(index), index, marks.files[graph], trace))
    arrays = {
        name: pa.array([row[at] for row in rows], schema.EVENTS.arrow.field(name).type)
        for at, name in enumerate(_COLUMNS)
    }
    return pa.table(arrays), np.where(wrong[number], -1, number)


def _belongs(events: pa.Table, lines: _Lines, marks: _Marks, number: Ints) -> Ints:
    """For each slice the number of the node that it is in, else of the graph, else -1."""
    marked = np.zeros(lines.thread.max() + 1, np.bool_)
    marked[lines.thread[marks.rows]] = True
    on_host = is_kind(events, schema.HOST_KINDS) & present(events, "start_ns")
    rows = np.flatnonzero(on_host & marked[lines.thread])
    place = np.full(events.num_rows, -1, np.int64)
    for role in (_NODE, _GRAPH):
        some, of_role = marks.rows[marks.role == role], number[marks.role == role]
        free = place[some] < 0
        place[rows] = np.append(of_role, -1)[lines.innermost(some, rows)]
        place[some[free]] = of_role[free]  # for what is launched in it, and in no op besides
        rows = rows[place[rows] < 0]
    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    cause = np.where(launch >= 0, launch, op)
    caused = np.flatnonzero(cause >= 0)
    place[caused] = place[cause[caused]]
    return place
