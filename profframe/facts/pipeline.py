"""All facts, with what each needs and gives. Their order follows, and what runs side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

import pyarrow as pa

from profframe.facts.columns import Tables, with_columns
from profframe.facts.device_time import device_time
from profframe.facts.devices import devices
from profframe.facts.duplicates import duplicates
from profframe.facts.formulas import FORMULAS, Formula
from profframe.facts.formulas.convolutions import UNPADDED
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
from profframe.facts.torch_compat import alternatives
from profframe.facts.torch_compat.flops import flops
from profframe.facts.torch_compat.overloads import overloads
from profframe.system.disk_tables import Spooled

_MOST_THREADS: Final = 4
"""Facts that run side by side: each holds arrays as long as the trace."""
_ALL: Final = "*"


class Find(Protocol):
    """A function that takes the tables and gives them back with more columns."""

    def __call__(self, tables: Tables, /) -> Tables:
        """Add columns, and notes in ``quality``."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A function that finds columns, and the columns that it reads and adds.

    A column is ``table.column``, or one of ``events`` without a dot; ``devices.*`` is a whole
    table. Of columns that it needs some may be absent, which the source alone can fill. It may give
    fewer columns than are named here. Notes in ``quality`` any fact may add.
    """

    name: str
    find: Find
    needs: str
    gives: str = ""

    def reads(self) -> frozenset[tuple[str, str]]:
        """Table and name of each column that it needs."""
        return _columns(self.needs)

    def adds(self) -> frozenset[tuple[str, str]]:
        """Table and name of each column that it gives."""
        return _columns(self.gives)

    def waits_for(self, earlier: Fact) -> bool:
        """Whether it cannot run before, or beside, one that comes before it."""
        touched = self.reads() | self.adds()
        return not (touched.isdisjoint(earlier.adds()) and self.adds().isdisjoint(earlier.reads()))


def _columns(names: str) -> frozenset[tuple[str, str]]:
    parts = (name.rpartition(".") for name in names.split())
    return frozenset((table or "events", column) for table, _, column in parts)


_FLOWS: Final = "flows.category flows.flow_id flows.phase flows.thread flows.time_ns"
_TREE: Final = "parent_id depth root_id preorder last_descendant_id self_ns"
_INPUTS: Final = "input_dims input_types input_strides concrete_inputs"
_IDS: Final = "external_id correlation is_async"

FACTS: Final = (
    Fact(
        "kinds",
        kinds,
        "category name thread threads.thread threads.pid threads.process_name",
        "kind",
    ),
    Fact("overloads", overloads, "name overload_name kind", "name overload_name"),
    Fact(
        "nesting",
        nesting,
        "kind start_ns dur_ns is_async thread node_id ev_idx",
        _TREE,
    ),
    Fact(
        "memory",
        memory,
        "kind start_ns dur_ns thread preorder parent_id cpu_bytes device_bytes memory.time_ns "
        "memory.bytes memory.device_type memory.thread",
        "cpu_bytes self_cpu_bytes device_bytes self_device_bytes memory.op_id",
    ),
    Fact("scopes", scopes, "scope name kind preorder thread", "scope"),
    Fact("duplicates", duplicates, "name parent_id", "merged_into"),
    Fact(
        "launches",
        launches,
        "kind start_ns dur_ns thread ev_idx preorder parent_id pid device correlation external_id "
        + _FLOWS,
        "launch_id op_id",
    ),
    Fact(
        "device_time",
        device_time,
        "kind dur_ns preorder last_descendant_id parent_id launch_id op_id kernel_ns is_legacy",
        "device_ns self_device_ns",
    ),
    Fact("steps", steps, "kind name start_ns dur_ns pid launch_id op_id", "step"),
    Fact(
        "queue_depth",
        queue_depth,
        "kind start_ns dur_ns preorder launch_id",
        "queue_depth idle_ns",
    ),
    Fact(
        "flops",
        flops,
        "kind name input_dims concrete_inputs torch_flops traces.profiler_flags",
        "torch_flops",
    ),
    Fact(
        "work",
        work,
        "kind name dur_ns preorder last_descendant_id parent_id op_id bytes given_flops "
        "given_bytes " + _INPUTS,
        "flops bytes work_id work_dtype",
    ),
    Fact(
        "forward",
        forward,
        "kind name scope start_ns dur_ns thread ev_idx sequence_nr fwd_thread threads.thread "
        "threads.tid " + _FLOWS,
        "fwd_id",
    ),
    Fact(
        "stacks",
        stacks,
        "stack kind name scope start_ns dur_ns thread ev_idx parent_id merged_into sequence_nr "
        "fwd_thread fwd_id threads.thread threads.tid",
        "stack",
    ),
    Fact(
        "python_stacks",
        python_stacks,
        "kind name preorder last_descendant_id parent_id",
        "python_stack",
    ),
    Fact(
        "nodes",
        nodes,
        "kind name start_ns dur_ns thread preorder launch_id op_id",
        "node node_index node_file stack_trace",
    ),
    Fact("devices", devices, "devices.*", "devices.*"),
    Fact("limits", limits, "kind dur_ns device flops bytes work_dtype devices.*"),
)
"""All facts: each may use the columns of those before it."""

TORCH: Final[Mapping[str, tuple[Find, str]]] = MappingProxyType(
    {
        "nesting": (alternatives.nesting, f"name {_IDS}"),
        "launches": (alternatives.launches, f"name {_IDS}"),
        "device_time": (
            alternatives.device_time,
            f"name start_ns merged_into traces.device_type {_IDS}",
        ),
        "stacks": (alternatives.stacks, ""),
    }
)
"""Facts that torch finds in another way: that way, and what it needs besides."""


def facts_for(
    classifier: Classifier | None = None,
    compat: str | None = None,
    registry: Registry | None = None,
    formulas: Mapping[str, Formula | None] | None = None,
    models: Mapping[str, Model] | None = None,
) -> tuple[Fact, ...]:
    """The facts with what a user has said about them; see `add_facts`."""
    counted = {**FORMULAS, **({} if compat is None else UNPADDED), **(formulas or {})}
    said: dict[str, Find] = {
        "nodes": partial(nodes, registry=registry),
        "devices": partial(devices, known=models),
        "work": partial(work, formulas={op: of for op, of in counted.items() if of is not None}),
    }
    if classifier is not None:
        said["kinds"] = partial(kinds, classifier=classifier)
    torchs = {} if compat is None else TORCH
    return tuple(
        replace(fact, find=torchs[fact.name][0], needs=f"{fact.needs} {torchs[fact.name][1]}")
        if fact.name in torchs
        else replace(fact, find=said.get(fact.name, fact.find))
        for fact in FACTS
    )


def run(facts: Sequence[Fact], tables: Tables) -> Tables:
    """The tables with the columns of the facts, and what they found in ``quality``.

    Where a trace is on disk, as memory is short, one fact runs after the other.
    """
    if isinstance(tables["events"], Spooled):
        for fact in facts:
            tables = fact.find(tables)
        return tables
    return _side_by_side(facts, tables)


def _side_by_side(facts: Sequence[Fact], tables: Tables) -> Tables:
    quality = tables["quality"]
    notes: dict[str, pa.Table] = {}
    left = list(facts)
    running: dict[Future[Tables], Fact] = {}
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1), "profframe-facts") as pool:
        while left or running:
            for fact in _ready(left, running.values()):
                left.remove(fact)
                running[pool.submit(fact.find, _part(tables, fact))] = fact
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                fact = running.pop(future)
                found = future.result()
                notes[fact.name] = found["quality"]
                tables = _with_found(tables, fact, found)
    new = (notes[fact.name] for fact in facts)
    return {**tables, "quality": pa.concat_tables([quality, *new])}


def _ready(left: Sequence[Fact], running: Iterable[Fact]) -> list[Fact]:
    """Facts that wait for none that runs, nor for one before them that has not begun."""
    return [
        fact
        for place, fact in enumerate(left)
        if not any(fact.waits_for(other) for other in (*running, *left[:place]))
    ]


def _part(tables: Tables, fact: Fact) -> Tables:
    """The columns that a fact needs, and a ``quality`` without notes."""
    part = {"quality": tables["quality"].slice(0, 0)}
    for table in {table for table, _ in fact.reads()} | {"events"}:
        wanted = {column for of, column in fact.reads() if of == table}
        names = tables[table].column_names
        part[table] = tables[table].select([n for n in names if _ALL in wanted or n in wanted])
    return part


def _with_found(tables: Tables, fact: Fact, found: Tables) -> Tables:
    """The tables with what a fact gave."""
    for table, column in sorted(fact.adds()):
        if column == _ALL:
            tables = {**tables, table: found[table]}
        elif column in found[table].column_names:
            tables = with_columns(tables, table, **{column: found[table][column]})
    return tables
