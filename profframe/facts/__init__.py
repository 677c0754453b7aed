"""Facts: one more column per event, found by vectorised functions from tables to tables."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Final

from profframe.facts.columns import Added, Fact, Tables, with_added
from profframe.facts.device_time import device_time
from profframe.facts.devices import devices
from profframe.facts.duplicates import duplicates
from profframe.facts.formulas import FORMULAS, Formula
from profframe.facts.formulas.convolutions import UNPADDED
from profframe.facts.forward import forward
from profframe.facts.kinds import RULES, Classifier, Rule, kinds
from profframe.facts.launches import launches
from profframe.facts.limits import limits
from profframe.facts.memory import memory, memory_columns
from profframe.facts.models import Model
from profframe.facts.nesting import nesting
from profframe.facts.nodes import Registry, nodes
from profframe.facts.op_work import work
from profframe.facts.python_stacks import python_stacks
from profframe.facts.queue_depth import waiting
from profframe.facts.scopes import scopes
from profframe.facts.stacks import stacks
from profframe.facts.steps import steps
from profframe.facts.torch_compat.flops import flops
from profframe.facts.torch_compat.overloads import overloads
from profframe.system.disk_tables import Spooled

__all__ = ["FACTS", "RULES", "Classifier", "Fact", "Registry", "Rule", "Tables", "add_facts"]

FACTS: Final[tuple[Fact, ...]] = (
    kinds,
    overloads,
    nesting,
    scopes,
    duplicates,
    launches,
    device_time,
    steps,
    waiting,
    memory,
    flops,
    work,
    forward,
    stacks,
    python_stacks,
    nodes,
    devices,
    limits,
)
"""All facts, in the order they run: each may use the columns of those before it."""


_TORCH: Final[Mapping[Fact, Fact]] = MappingProxyType(
    {fact: partial(fact, compat="torch") for fact in (nesting, launches, device_time, stacks)}
)
"""Facts that torch finds in another way, and that way."""


def add_facts(  # noqa: PLR0917 - what a user may replace, each
    tables: Tables,
    classifier: Classifier | None = None,
    compat: str | None = None,
    registry: Registry | None = None,
    formulas: Mapping[str, Formula | None] | None = None,
    models: Mapping[str, Model] | None = None,
) -> Tables:
    """Add every fact to the tables of one trace.

    Parameters
    ----------
    tables : Tables
        As a reader gives them; row ``i`` of ``events`` has ``event_id`` ``i``.
    classifier : Classifier, optional
        Rules for ``kind`` in place of :data:`RULES`.
    compat : str, optional
        ``"torch"`` for what torch's own ``events()`` has, also where that is wrong: device time by
        External id, stacks of backward functions that have no sequence number, and FLOPs of
        convolutions as its reports have them, without their padding.
    registry : Registry, optional
        What is known of the nodes of graphs.
    formulas : Mapping[str, Formula | None], optional
        Work of ops by their names, before those of `profframe.facts.formulas.FORMULAS`; None for
        unknown.
    models : Mapping[str, Model], optional
        Models of devices in place of those that come with profframe.

    Returns
    -------
    Tables
        The same tables with the columns of the facts, and what they found in ``quality``.
    """
    tables = kinds(tables, RULES if classifier is None else classifier)
    counted = {**FORMULAS, **({} if compat is None else UNPADDED), **(formulas or {})}
    others: dict[Fact, Fact] = {
        **({} if compat is None else _TORCH),
        nodes: partial(nodes, registry=registry),
        devices: partial(devices, known=models),
        work: partial(work, formulas={op: of for op, of in counted.items() if of is not None}),
    }
    is_short_of_memory = isinstance(tables["events"], Spooled)
    with ThreadPoolExecutor(1, "profframe-facts") as pool:
        for fact in FACTS[1:]:
            tables = others.get(fact, fact)(tables)
            if fact is nesting and not is_short_of_memory:  # memory is a fifth of all facts
                others[memory] = _awaited(pool.submit(memory_columns, tables))
    return tables


def _awaited(found: Future[Added]) -> Fact:
    """The fact whose columns are being found meanwhile."""
    return lambda tables: with_added(tables, found.result())
