"""All facts of a trace, and how they run: one after the other, and one beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from profframe.facts.device_time import device_time
from profframe.facts.devices import devices
from profframe.facts.duplicates import duplicates
from profframe.facts.fact import Fact, Output, Tables, with_output
from profframe.facts.formulas import Formula
from profframe.facts.forward import forward
from profframe.facts.kinds import Classifier, kinds
from profframe.facts.launches import launches
from profframe.facts.limits import limits
from profframe.facts.memory import memory
from profframe.facts.models import Model
from profframe.facts.nesting import nesting
from profframe.facts.nodes import Registry, nodes
from profframe.facts.op_work import work
from profframe.facts.python_stacks import python_stacks
from profframe.facts.queue_depth import queue_depth
from profframe.facts.scopes import scopes
from profframe.facts.stacks import stacks
from profframe.facts.steps import steps
from profframe.facts.torch_compat.alternatives import ALTERNATIVES
from profframe.facts.torch_compat.flops import flops
from profframe.facts.torch_compat.overloads import overloads
from profframe.system.disk_tables import Spooled

FACTS: Final[tuple[Fact, ...]] = (
    kinds,
    overloads,
    nesting,
    memory,
    scopes,
    duplicates,
    launches,
    device_time,
    steps,
    queue_depth,
    flops,
    work,
    forward,
    stacks,
    python_stacks,
    nodes,
    devices,
    limits,
)
"""All facts: each reads what those before it have left."""
BESIDE: Final = frozenset({memory})
"""Facts that run on a second thread, beside those behind them up to the first that conflicts.

Any may be in it. `memory` is a fifth of all: a load of it saves a tenth of the facts' time. With
two threads that take whatever is ready, facts took as long, a tenth more processor time (page
faults, and waiting for the interpreter) and up to a tenth more memory.
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may replace; None is what the facts have themselves.

    Attributes
    ----------
    compat : str, optional
        ``"torch"`` for what torch's own ``events()`` has, also where that is wrong: device time by
        External id, stacks of backward functions that have no sequence number, and FLOPs of
        convolutions as its reports have them, without their padding.
    classifier : Classifier, optional
        Rules for ``kind`` in place of `profframe.facts.kinds.RULES`.
    registry : Registry, optional
        What is known of the nodes of graphs.
    formulas : Mapping[str, Formula | None], optional
        Work of ops by their names, before those of `profframe.facts.formulas.FORMULAS`; None for
        unknown.
    models : Mapping[str, Model], optional
        Models of devices in place of those that come with profframe.
    """

    compat: str | None = None
    classifier: Classifier | None = None
    registry: Registry | None = None
    formulas: Mapping[str, Formula | None] | None = None
    models: Mapping[str, Model] | None = None

    def of(self, fact: Fact) -> dict[str, object]:
        """Those that a fact takes."""
        values = {name: getattr(self, name) for name in fact.options}
        return {name: value for name, value in values.items() if value is not None}


def facts_of(compat: str | None = None) -> tuple[Fact, ...]:
    """The facts, those of torch in place of some with ``compat="torch"``."""
    return FACTS if compat is None else tuple(ALTERNATIVES.get(fact, fact) for fact in FACTS)


def add_facts(tables: Tables, options: Options = Options()) -> Tables:
    """Add every fact to the tables of one trace.

    Parameters
    ----------
    tables : Tables
        As a reader gives them; row ``i`` of ``events`` has ``event_id`` ``i``.
    options : Options
        What a user has replaced.

    Returns
    -------
    Tables
        The same tables with the columns of the facts, and what they found in ``quality``.
    """
    memory_is_short = isinstance(tables["events"], Spooled)
    beside = frozenset[Fact]() if memory_is_short else BESIDE
    running: dict[Fact, Future[Output]] = {}
    with ThreadPoolExecutor(1, "profframe-facts") as pool:
        for fact in facts_of(options.compat):
            for other in [other for other in running if fact.conflicts_with(other)]:
                tables = with_output(tables, running.pop(other).result())
            if fact in beside:
                running[fact] = pool.submit(fact.output, tables, **options.of(fact))
            else:
                tables = fact(tables, **options.of(fact))
        for future in running.values():
            tables = with_output(tables, future.result())
    return tables
