"""The list of facts and the loop that runs them; one may run on a second thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from profframe.facts.column_views import FEW
from profframe.facts.compiled_kernels import compiled_kernels
from profframe.facts.device_models import devices
from profframe.facts.device_time import device_time
from profframe.facts.duplicates import duplicates
from profframe.facts.fact import ColumnBuilder, Fact, Output, Tables, with_output
from profframe.facts.flow_ends import flow_ends
from profframe.facts.forward import forward
from profframe.facts.graph_captures.attribution import (
    CaptureSource,
    attribute_replays,
    may_attribute,
)
from profframe.facts.graph_captures.recorded_stacks import StackSource
from profframe.facts.graphs import graphs
from profframe.facts.impossible_rates import limits
from profframe.facts.kernel_categories import kernel_categories
from profframe.facts.kinds import kinds
from profframe.facts.launching_ops import launches
from profframe.facts.lost_work import lost_work
from profframe.facts.memory import memory
from profframe.facts.nesting import nesting
from profframe.facts.nodes import nodes
from profframe.facts.op_stacks import stacks
from profframe.facts.op_work import work
from profframe.facts.overruns import overruns
from profframe.facts.phases import phases
from profframe.facts.python_frames import python_frames
from profframe.facts.python_stacks import python_stacks
from profframe.facts.queue_depth import queue_depth
from profframe.facts.recompute import recompute
from profframe.facts.scopes import scopes
from profframe.facts.self_time import self_time
from profframe.facts.step_times import phase_times, step_times
from profframe.facts.steps import steps
from profframe.facts.surroundings import surroundings
from profframe.facts.torch_compat.alternatives import ALTERNATIVES
from profframe.facts.torch_compat.flops import flops
from profframe.facts.torch_compat.overloads import overloads
from profframe.facts.torch_validator import consistency
from profframe.facts.unidentified_devices import device_names
from profframe.system.disk_tables import SpooledTable
from profframe.system.memory_pool import release

FACTS: Final[tuple[Fact, ...]] = (
    kinds,
    overruns,
    overloads,
    python_frames,
    nesting,
    self_time,
    memory,
    scopes,
    duplicates,
    launches,
    kernel_categories,
    device_time,
    steps,
    lost_work,
    phases,
    surroundings,
    graphs,
    queue_depth,
    flops,
    work,
    forward,
    flow_ends,
    recompute,
    stacks,
    python_stacks,
    nodes,
    compiled_kernels,
    device_names,
    devices,
    limits,
    consistency,
    step_times,
    phase_times,
)
"""All facts: each may read the columns of those before it."""
CAPTURE_FACTS: Final = (
    kinds,
    overloads,
    python_frames,
    nesting,
    scopes,
    duplicates,
    launches,
    forward,
)
"""Facts that tell what was captured."""
PARALLEL: Final = frozenset({memory, kernel_categories, flow_ends})
"""Facts that run on a second thread, in parallel with the next ones up to the first that conflicts.

Any fact may be in it. The patterns of kernels' names are mostly compiled and tried outside of
Python. The other two take two fifths of the time: this saves a fifth of it. With two
threads that run whatever is ready, facts took as long, a tenth more processor time (page faults,
and waiting for the interpreter) and up to a tenth more memory.
"""
_MANY: Final = 1 << 20
"""Events from which on freed memory between the columns is worth returning."""
_WIDE: Final = frozenset(column.partition(".")[0] for fact in FACTS for column in fact.outputs)
"""Tables that get columns of facts."""


OPTIONS: Final = frozenset(
    name for fact in (*FACTS, *ALTERNATIVES.values()) for name in fact.options
)
"""Options that facts take."""


def facts_of(compat: str | None = None) -> tuple[Fact, ...]:
    """The facts, some replaced by those of torch with ``compat="torch"``."""
    return FACTS if compat is None else tuple(ALTERNATIVES.get(fact, fact) for fact in FACTS)


def add_facts(
    tables: Tables,
    *,
    compat: str | None = None,
    captures: Sequence[CaptureSource] = (),
    stacks: Sequence[StackSource] = (),
    rank: int | None = None,
    is_alone: bool = True,
    without: frozenset[Fact] = frozenset(),
    **options: object,
) -> Tables:
    """Add every fact to the tables of one trace.

    Parameters
    ----------
    tables : Tables
        As a reader gives them; row ``i`` of ``events`` has ``event_id`` ``i``.
    compat : str, optional
        ``"torch"`` for the values of torch's own ``events()``, even where they are wrong: device
        time by External id, Python frames by time and as long as recorded, self times that lose
        twice what two children share, stacks of backward functions without a sequence number, and
        FLOPs of convolutions as in its reports, without padding.
    captures : Sequence of CaptureSource
        Other traces, in which graphs were captured.
    stacks : Sequence of StackSource
        Files with the Python stacks of graph nodes.
    rank : int, optional
        Rank of the trace, if that is known, to choose among captures of several ranks.
    is_alone : bool
        Whether it is the only trace, so that a file of stacks without a rank is of it.
    without : frozenset of Fact
        Facts that are there already.
    **options
        `OPTIONS` of a user; None means the default of the fact.

    Returns
    -------
    Tables
        The tables with the columns of the facts, and their notes in ``quality``.
    """
    if unknown := options.keys() - OPTIONS:
        raise TypeError(f"no fact takes {', '.join(sorted(unknown))}")
    events = tables["events"]
    is_worth_it = not isinstance(events, SpooledTable) and events.num_rows > FEW
    is_large = not isinstance(events, SpooledTable) and events.num_rows > _MANY
    parallel = PARALLEL if is_worth_it else frozenset[Fact]()
    tables = _gathering(tables)
    running: dict[Fact, Future[Output]] = {}
    with ThreadPoolExecutor(1, "profframe-facts") as pool:
        for place, fact in enumerate(facts_of(compat)):
            if FACTS[place] in without:
                continue
            if fact is step_times and is_large:
                release()  # it needs most memory, and all columns are there
            for other in [other for other in running if fact.conflicts_with(other)]:
                tables = with_output(tables, running.pop(other).result())
            if fact in parallel:
                running[fact] = pool.submit(fact.output, tables, **_options_of(fact, options))
            else:
                tables = fact(tables, **_options_of(fact, options))
            if FACTS[place] is launches and may_attribute(_views(tables), captures, stacks):
                for other in [*running]:  # there will be more rows
                    tables = with_output(tables, running.pop(other).result())
                whole = attribute_replays(_whole(tables), captures, rank, stacks, is_alone=is_alone)
                tables = _gathering(whole)
        for future in running.values():
            tables = with_output(tables, future.result())
    return _whole(tables)


def _options_of(fact: Fact, options: Mapping[str, object]) -> dict[str, object]:
    """The options that a fact takes, without defaults."""
    return {name: options[name] for name in fact.options if options.get(name) is not None}


def _gathering(tables: Tables) -> Tables:
    """Tables of facts in memory, ready to get many columns."""
    return {
        name: ColumnBuilder.of(table) if name in _WIDE and isinstance(table, pa.Table) else table
        for name, table in tables.items()
    }


def _views(tables: Tables) -> Tables:
    """Tables to look at: nothing is put together."""
    return {
        name: table.select(table.column_names) if isinstance(table, ColumnBuilder) else table
        for name, table in tables.items()
    }


def _whole(tables: Tables) -> Tables:
    """Tables as they are outside; what was converted for facts is freed."""
    for table in tables.values():
        if isinstance(table, ColumnBuilder):
            table.conversions.clear()
    return {
        name: table.table() if isinstance(table, ColumnBuilder) else table
        for name, table in tables.items()
    }


def captured(tables: Tables) -> Tables:
    """Add the facts that say what was captured into graphs."""
    for fact in CAPTURE_FACTS:
        tables = fact(tables)
    return tables
