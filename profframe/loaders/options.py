"""Options of loading. Those that decide facts are listed once: as fields of `FactOptions`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from operator import attrgetter
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from profframe.errors import ParameterError

if TYPE_CHECKING:
    from profframe.facts.formulas import Formula
    from profframe.facts.kernel_categories import Entry
    from profframe.facts.kinds import Rule
    from profframe.facts.nodes import Registry
    from profframe.loaders.companion_files import JoinedFiles
    from profframe.loaders.execution_trace_files import ExecutionTraces
    from profframe.loaders.graph_capture_files import Captures
    from profframe.loaders.memory_snapshot_files import MemorySnapshots
    from profframe.loaders.provenance_files import Provenance
    from profframe.query.selection import Numbers, Text
    from profframe.readers.build.row_tables import RawTrace
    from profframe.trace.trace import Trace

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of the command line.

    Attributes
    ----------
    name, help, metavar
        As `click` has them.
    choices
        The values that it takes; empty for a path.
    is_repeatable
        Whether it can be given more than once.
    """

    name: str
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    is_repeatable: bool = False


@dataclass(frozen=True, slots=True)
class FactOption:
    """What is known of an option that decides facts.

    Attributes
    ----------
    reason
        Why a store does not take it, after its name.
    check
        What makes the value of the field from that of a user, as ``module:name``; it is imported
        only when the option is given. None if any value will do.
    parameter
        What facts call it, if not by its name.
    flag
        Its option on the command line, and in `convert`; None if it has none.
    """

    reason: str
    check: str | None = None
    parameter: str | None = None
    flag: Flag | None = None

    def checked(self, value: object) -> Any:
        """The value of the field, from that of a user."""
        if self.check is None:
            return value
        module, _, name = self.check.partition(":")
        return attrgetter(name)(import_module(f"profframe.{module}"))(value)


def _about(*args: Any, **kwargs: Any) -> Mapping[str, FactOption]:
    return {"option": FactOption(*args, **kwargs)}


@dataclass(frozen=True, slots=True)
class FactOptions:
    """Options that decide the facts of a trace; `profframe.load` describes each.

    Workers get them as they are. Files are read only once, and only where they are needed.
    """

    compat: str | None = field(
        default=None,
        metadata=_about(
            "changes what is computed when a trace is loaded; a store has that already",
            "query.selection:check_compat",
            flag=Flag(
                "--compat", "Facts as in torch, even where torch is wrong.", choices=("torch",)
            ),
        ),
    )
    captures: Captures | None = field(
        default=None,
        metadata=_about(
            "are matched with replays when a trace is loaded; a store has their calls already",
            "loaders.graph_capture_files:Captures.of",
            flag=Flag(
                "--captures",
                "A trace, glob or folder that recorded the capture of the replayed graphs, or "
                "torch's Python stacks of their kernels; can be repeated.",
                "TRACE",
                is_repeatable=True,
            ),
        ),
    )
    execution_trace: ExecutionTraces | None = field(
        default=None,
        metadata=_about(
            "is joined when a trace is loaded; a store has its tables already",
            "loaders.execution_trace_files:ExecutionTraces.of",
            flag=Flag(
                "--execution-trace",
                "A file from torch's ExecutionTraceObserver in the same process; can be repeated.",
                "FILE",
                is_repeatable=True,
            ),
        ),
    )
    memory: MemorySnapshots | None = field(
        default=None,
        metadata=_about(
            "is joined when a trace is loaded; a store has its tables already",
            "loaders.memory_snapshot_files:MemorySnapshots.of",
            flag=Flag(
                "--memory-snapshot",
                "A memory snapshot of the same process; can be repeated.",
                "FILE",
                is_repeatable=True,
            ),
        ),
    )
    provenance: Provenance | None = field(
        default=None,
        metadata=_about(
            "is joined when a trace is loaded; a store has its kernels already",
            "loaders.provenance_files:Provenance.of",
            flag=Flag(
                "--provenance",
                "A file, glob or folder in which Inductor wrote what its kernels were made from; "
                "can be repeated.",
                "PATH",
                is_repeatable=True,
            ),
        ),
    )
    kernel_categories: tuple[Entry, ...] | None = field(
        default=None,
        metadata=_about(
            "are given to kernels when a trace is loaded; a store has them already",
            "facts.kernel_categories:entries_of",
            parameter="categories",
            flag=Flag("--kernel-categories", "JSON file with your own kernel categories.", "FILE"),
        ),
    )
    kinds: Sequence[Rule] | None = field(
        default=None,
        metadata=_about(
            "are found when a trace is loaded; a store has them already", parameter="classifier"
        ),
    )
    fx_metadata: Registry | None = field(
        default=None,
        metadata=_about(
            "names the nodes of graphs when a trace is loaded; a store has them already",
            "facts.nodes:registry_of",
            parameter="registry",
        ),
    )
    formulas: Mapping[str, Formula | None] | None = field(
        default=None,
        metadata=_about(
            "count work when a trace is loaded; a store has the numbers already",
            "facts.formulas:checked_formulas",
        ),
    )
    devices: Mapping[str, Mapping[str, Any]] | None = field(
        default=None,
        metadata=_about(
            "are matched when a trace is loaded; for a store, use .roofline(devices=)",
            "facts.device_catalogue:entries",
            parameter="models",
        ),
    )

    @property
    def given(self) -> dict[str, Any]:
        """Options by name, without those that have no value."""
        values = {name: getattr(self, name) for name in FACT_OPTIONS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def joined(self) -> dict[str, JoinedFiles]:
        """Those that are files whose tables join those of a trace."""
        from profframe.loaders.companion_files import JoinedFiles

        return {name: value for name, value in self.given.items() if isinstance(value, JoinedFiles)}

    def add(self, raw: RawTrace, rank: int | None = None, *, is_alone: bool = True) -> RawTrace:
        """The trace with its facts; its rank, if that is known, chooses among captures.

        An execution trace is for the trace of its process or rank, a memory snapshot or a file of
        stacks for that of its rank. A single trace also takes the only one of each, whatever its
        rank, and files of stacks without a rank.
        """
        from profframe.facts.device_catalogue import models
        from profframe.facts.pipeline import add_facts
        from profframe.loaders.companion_files import with_nodes
        from profframe.loaders.graph_capture_files import with_skipped

        joined, given = self.joined, self.given
        options: dict[str, Any] = {
            FACT_OPTIONS[name].parameter or name: value
            for name, value in given.items()
            if name not in joined
        }
        if self.captures is not None:
            options["captures"] = self.captures.sources
            options["stacks"] = self.captures.stacks
        if self.provenance is not None:
            options["provenance"] = self.provenance.graphs_of(rank)
        if self.devices is not None:
            options["models"] = models(self.devices)
        if self.compat is not None:
            options["release"] = _release()
        tables = add_facts(raw.tables, rank=rank, is_alone=is_alone, **options)
        if self.captures is not None:
            tables = with_skipped(tables, self.captures)
        if self.provenance is not None:
            tables = self.provenance.noted(tables)
        if "nodes" in tables:
            tables = with_nodes(tables)
        for files in joined.values():
            tables = files.join(tables, rank, is_alone=is_alone)
        return replace(raw, tables=dict(tables))

    def contents(self) -> dict[str, Any]:
        """For each option that is given, what differs if its facts do, as JSON has it."""
        contents = {name: _content(value) for name, value in self.given.items()}
        return contents if self.compat is None else contents | {"release": _release()}

    def key(self) -> str:
        """Cache key of these options."""
        return json.dumps(self.contents())


FACT_OPTIONS: Final[Mapping[str, FactOption]] = MappingProxyType(
    {one.name: one.metadata["option"] for one in fields(FactOptions)}
)
"""What is known of each of `FactOptions`, by name."""
FLAGS: Final[Mapping[str, Flag]] = MappingProxyType(
    {name: option.flag for name, option in FACT_OPTIONS.items() if option.flag is not None}
)
"""Those of the command line."""


def _content(value: Any) -> str:
    if isinstance(value, str):
        return value
    content = getattr(value, "content", None)
    if isinstance(content, str):
        return content
    text = repr(value).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _release() -> tuple[int, int]:
    """The release of torch whose facts ``compat`` asks for."""
    from profframe.facts.torch_compat.releases import installed

    return installed()


def fact_options(arguments: Mapping[str, Any]) -> FactOptions:
    """Check the options of facts among the arguments of a function.

    Raises
    ------
    ParameterError
        A value is not valid.
    NoTraceFoundError
        There is no file of captures or provenance, no execution trace, or no memory snapshot.
    """
    given = {name: arguments.get(name) for name in FACT_OPTIONS}
    checked = {n: FACT_OPTIONS[n].checked(v) for n, v in given.items() if v is not None}
    return FactOptions(**checked)


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
        return trace.with_limits(self.memory_limit).filter(
            runs=self.runs, ranks=self.ranks, steps=self.steps
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
