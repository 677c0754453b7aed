"""Checked options of loading."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from profframe import schema
from profframe.errors import ParameterError
from profframe.facts import Options, add_facts
from profframe.facts.formulas import check_formulas
from profframe.facts.kernel_categories import Categories, Entry, builtin, entries_of
from profframe.facts.models import Devices, entries, models
from profframe.facts.nodes import check_registry, node_names
from profframe.facts.torch_compat.releases import Release, installed
from profframe.loading.beside import with_nodes
from profframe.loading.captures import Captures, capture_files
from profframe.loading.execution_traces import (
    ExecutionTraces,
    execution_trace_files,
    with_execution_trace,
)
from profframe.loading.memory_snapshots import MemorySnapshots, memory_snapshot_files
from profframe.loading.tables import skipped_file
from profframe.query.selection import Numbers, Text, check_compat

if TYPE_CHECKING:
    from profframe.facts.formulas import Formula
    from profframe.facts.kinds import Rule
    from profframe.facts.nodes import Registry
    from profframe.loading.discovery import Source
    from profframe.readers import RawTrace
    from profframe.trace.trace import Trace

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FactOptions:
    """Options that change the facts of a trace; `profframe.load` describes each."""

    kinds: Sequence[Rule] | None = None
    compat: str | None = None
    fx_metadata: Registry | None = None
    formulas: Mapping[str, Formula | None] | None = None
    devices: Mapping[str, Any] | None = None
    """Models by name, as `profframe.facts.models.entries` gives them."""
    kernel_categories: tuple[Entry, ...] | None = None
    """The user's own, as `profframe.facts.kernel_categories.entries_of` gives them."""
    captures: Captures | None = None
    execution_traces: ExecutionTraces | None = None
    memory: MemorySnapshots | None = None

    def add(self, raw: RawTrace, rank: int | None = None, *, is_alone: bool = True) -> RawTrace:
        """The trace with its facts; its rank, if that is known, chooses among captures.

        An execution trace is for the trace of its process or rank, a memory snapshot for that of
        its rank. A single trace also takes the only one of each, whatever its rank.
        """
        devices = None if self.devices is None else models(self.devices)
        own = self.kernel_categories
        options = Options(
            compat=self.compat,
            classifier=self.kinds,
            registry=self.fx_metadata,
            formulas=self.formulas,
            models=devices,
            categories=None if own is None else own + builtin(),
            release=self._release,
            captures=() if self.captures is None else self.captures.sources,
            rank=rank,
        )
        tables = dict(add_facts(raw.tables, options))
        if self.captures is not None and self.captures.skipped:
            notes = schema.quality_rows(*map(skipped_file, self.captures.skipped))
            tables["quality"] = pa.concat_tables([tables["quality"], notes])
        if self.execution_traces is not None:
            self.execution_traces.check()
        if "nodes" in tables:
            tables = dict(with_nodes(tables))
        elif self.execution_traces is not None:
            other = self.execution_traces.of(tables, rank, is_alone=is_alone)
            tables = tables if other is None else dict(with_execution_trace(tables, other))
        if self.memory is not None:
            tables = dict(self.memory.join(tables, rank, is_alone=is_alone))
        return replace(raw, tables=tables)

    def key(self) -> str:
        """Cache key of these options."""
        registry = self.fx_metadata
        files = None if registry is None else {f: node_names(registry, f) for f in registry}
        captures = None if self.captures is None else self.captures.content
        nodes = None if self.execution_traces is None else self.execution_traces.content
        memory = None if self.memory is None else self.memory.content
        own = (self.kinds, self.devices, self.kernel_categories)
        options = (*own, self.compat, self._release, captures, nodes, memory)
        return f"{options!r}{json.dumps(files, sort_keys=True)}"

    @property
    def _release(self) -> Release | None:
        """The release of torch whose facts these are."""
        return installed() if self.compat == "torch" else None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The arguments of `profframe.load` except the source.

    Attributes
    ----------
    run, rank
        Names for the traces.
    cache
        Directory that keeps loaded traces.
    facts
        Options of the facts.
    runs, ranks, steps
        Rows to keep.
    memory_limit
        Memory for questions.
    progress
        Called with the bytes read and all bytes.
    """

    run: str | None = None
    rank: int | None = None
    cache: str | PathLike[str] | None = None
    facts: FactOptions = FactOptions()
    runs: Text | None = None
    ranks: Numbers | None = None
    steps: Numbers | None = None
    memory_limit: str | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_names(self.run, self.rank)
        if self.facts.formulas is not None and self.cache is not None:
            raise ParameterError(
                "cache cannot distinguish formulas; load without it, and keep the trace with "
                "load(source, formulas=...).to_parquet(path)"
            )

    def select(self, trace: Trace) -> Trace:
        """The rows of a trace to keep, with the limit of memory."""
        return trace.limited(self.memory_limit).filter(
            runs=self.runs, ranks=self.ranks, steps=self.steps
        )


def fact_options(  # noqa: PLR0917 - in the order of the arguments of `load`
    kinds: Sequence[Rule] | None = None,
    compat: str | None = None,
    fx_metadata: Registry | None = None,
    formulas: Mapping[str, Formula | None] | None = None,
    devices: Devices | None = None,
    kernel_categories: Categories | None = None,
    captures: Source | Sequence[Source] | None = None,
    execution_trace: Source | Sequence[Source] | None = None,
    memory: Source | Sequence[Source] | None = None,
) -> FactOptions:
    """Check the options of facts.

    Raises
    ------
    ParameterError
        A value is not valid.
    NoTraceFoundError
        There is no file of captures, no execution trace, or no memory snapshot.
    """
    check_compat(compat)
    check_registry(fx_metadata)
    check_formulas(formulas)
    models_by_name = None if devices is None else entries(devices)
    own = None if kernel_categories is None else entries_of(kernel_categories)
    files = None if captures is None else capture_files(captures)
    nodes = None if execution_trace is None else execution_trace_files(execution_trace)
    snapshots = None if memory is None else memory_snapshot_files(memory)
    return FactOptions(
        kinds, compat, fx_metadata, formulas, models_by_name, own, files, nodes, snapshots
    )


def check_names(run: str | None, rank: int | None) -> None:
    """Raise an error for names that no trace can have.

    Raises
    ------
    ParameterError
        The message names the value.
    """
    if rank is not None and not (type(rank) is int and 0 <= rank < 1 << 31):
        raise ParameterError(f"rank must be an int from 0 to {(1 << 31) - 1}, not {rank!r}")
    if run is not None and type(run) is not str:
        raise ParameterError(f"run must be text, not {run!r}")
    if run == "":
        raise ParameterError("run must not be empty")
