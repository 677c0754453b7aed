"""The slices of one (run, rank), and the windows of its steps, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

import duckdb
import numpy as np

from profframe.facts.columns import last_equal, numbers
from profframe.intervals import Ints, Mask, nearest
from profframe.query.run import select, selected

MACROS: Final = "call_nodes() steady_steps()"
"""The macros that the queries of this module call."""
OP, ANNOTATION, MODULE, FRAME, CALL, SYNC, LOAD, COMPILE, RESUME = range(1, 10)
"""What the host does in a slice; `call_sort` in SQL."""
_CALLS: Final = (OP, ANNOTATION, MODULE, SYNC, LOAD, COMPILE, RESUME)
_LATEST: Final = 2**62
COMPUTE, COMMUNICATION, COPY = range(1, 4)
"""What a device does."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices by event_id; references are rows, -1 is none.

    Attributes
    ----------
    event_id, parent, launch, thread, device, step, depth, start_ns, dur_ns : Ints
        As in ``events``.
    work, sort, label, backward, detail, category, graph_position : Ints
        As in `call_nodes` in SQL.
    is_call : Mask
        Nodes of a call tree: what a program calls, not how it gets there.
    call : Ints
        The innermost call that each slice is in; itself where it is one.
    """

    event_id: Ints
    parent: Ints
    launch: Ints
    thread: Ints
    device: Ints
    step: Ints
    depth: Ints
    start_ns: Ints
    dur_ns: Ints
    work: Ints
    sort: Ints
    label: Ints
    backward: Ints
    detail: Ints
    category: Ints
    graph_position: Ints
    is_call: Mask = field(init=False)
    call: Ints = field(init=False)

    def __post_init__(self) -> None:
        """Find the calls."""
        is_call = np.isin(self.sort, _CALLS) & (self.work == 0)
        object.__setattr__(self, "is_call", is_call)
        object.__setattr__(self, "call", nearest(self.parent, is_call))

    @property
    def end_ns(self) -> Ints:
        """Ends."""
        return self.start_ns + self.dur_ns


@dataclass(frozen=True, slots=True)
class Windows:
    """Disjoint steps of one (run, rank): their times and their thread."""

    step: Ints
    start_ns: Ints
    end_ns: Ints
    thread: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Work that is not in the trace, by its launches: their rows, and when it may have run."""

    row: Ints
    start_ns: Ints
    end_ns: Ints

    def in_windows(self, of: Slices, steps: Windows) -> int:
        """How many launches are in windows, or have work that may have run in them."""
        since = np.where(self.row >= 0, np.append(of.start_ns, 0)[self.row], self.start_ns)
        is_launched = _may_meet(since, since + 1, steps)
        return int(np.count_nonzero(is_launched | _may_meet(self.start_ns, self.end_ns, steps)))


def slices(connection: duckdb.DuckDBPyConnection) -> Slices:
    """Read the slices of a connection that has one (run, rank)."""
    table = selected(connection, "FROM call_nodes(events)")
    columns = {of.name: numbers(table, of.name) for of in fields(Slices) if of.init}
    event_id = columns["event_id"]
    if (np.diff(event_id) < 0).any():
        order = np.argsort(event_id, kind="stable")  # few runs: of each thread of the query
        columns = {name: values[order] for name, values in columns.items()}
        event_id = columns["event_id"]
    for name in ("parent", "launch"):
        columns[name] = last_equal(event_id, np.arange(event_id.size), columns[name])
    return Slices(**columns)


def lost(connection: duckdb.DuckDBPyConnection, of: Slices) -> Lost:
    """Read the launches whose work is not in the trace."""
    table = selected(
        connection,
        """SELECT event_id, lost_start_ns AS start_ns, lost_end_ns AS end_ns FROM events
        WHERE lost_start_ns IS NOT NULL ORDER BY event_id""",
    )
    event_id, start, end = (numbers(table, name) for name in ("event_id", "start_ns", "end_ns"))
    return Lost(last_equal(of.event_id, np.arange(of.event_id.size), event_id), start, end)


def windows(connection: duckdb.DuckDBPyConnection, of: Slices) -> Windows:
    """The steady profiler steps; without any step the whole trace is one."""
    table = select(
        connection,
        """SELECT step, began_ns AS start_ns, completed_ns AS end_ns, event_id
        FROM steady_steps(profiler_steps)
        WHERE step_ns > 0 AND is_steady IS NOT FALSE
        ORDER BY start_ns, event_id""",
    ).to_arrow_table()
    step, start, end = (numbers(table, name) for name in ("step", "start_ns", "end_ns"))
    row = last_equal(of.event_id, np.arange(of.event_id.size), numbers(table, "event_id"))
    # Of steps that overlap the first counts: their common time must not count twice.
    kept = (row >= 0) & (
        start >= np.append(start[:1], np.maximum.accumulate(end)[:-1])[: start.size]
    )
    if kept.any():
        return Windows(step[kept], start[kept], end[kept], int(of.thread[row[kept][0]]))
    # Without steps, the thread with most host time stands for the main one.
    host = np.flatnonzero(of.work == 0)
    thread = (
        int(np.bincount(of.thread[host] + 1, of.dur_ns[host]).argmax()) - 1 if host.size else -1
    )
    whole = np.zeros(min(of.start_ns.size, 1), np.int64)
    begin = whole + of.start_ns.min(initial=_LATEST)
    return Windows(whole - 1, begin, whole + of.end_ns.max(initial=-_LATEST), thread)


def _may_meet(start: Ints, end: Ints, steps: Windows) -> Mask:
    """Which intervals have time in common with a window."""
    after = np.searchsorted(steps.end_ns, start, side="right")
    meets: Mask = (start < end) & (np.append(steps.start_ns, _LATEST)[after] < end)
    return meets
