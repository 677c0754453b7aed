"""From sources to a Trace: which files, which run and rank each is, and the cache."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from profframe import schema, store
from profframe.errors import NotATraceError, NoTraceFoundError, ParameterError, SourceError
from profframe.facts import Options, add_facts
from profframe.facts.formulas import check_formulas
from profframe.facts.models import Devices, entries, models
from profframe.facts.nodes import check_registry, described
from profframe.loading.discovery import Found, Source, find, listed
from profframe.loading.run_names import Named, cycles, named, readable
from profframe.query.selection import Numbers, Text, check_compat
from profframe.readers import RawTrace, is_pipe, read
from profframe.readers import torch as live
from profframe.store.cache import Cache
from profframe.store.facts_version import facts_version
from profframe.system.disk_tables import Spool, Spooled
from profframe.system.memory_limit import within
from profframe.system.memory_pool import system_memory
from profframe.trace.trace import Trace

if TYPE_CHECKING:
    from profframe.facts.formulas import Formula
    from profframe.facts.kinds import Rule
    from profframe.facts.nodes import Registry

Progress = Callable[[int, int], None]
_VERSION: Final = facts_version()
"""Of the code that runs: what is installed while a process lives is not that."""

UNREADABLE_FILE: Final = "unreadable_file"
"""The check of a file that was found beside others and cannot be read."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the facts of a trace depend on, besides its source."""

    kinds: Sequence[Rule] | None = None
    compat: str | None = None
    fx_metadata: Registry | None = None
    formulas: Mapping[str, Formula | None] | None = None
    devices: Mapping[str, Any] | None = None

    def add(self, raw: RawTrace) -> RawTrace:
        """The trace with them."""
        known = None if self.devices is None else models(self.devices)
        options = Options(self.compat, self.kinds, self.fx_metadata, self.formulas, known)
        tables = add_facts(raw.tables, options)
        return replace(raw, tables=dict(tables))

    def key(self) -> str:
        """Text that differs where the facts may."""
        known = self.fx_metadata
        files = None if known is None else {file: described(known, file) for file in known}
        return f"{(self.kinds, self.compat, self.devices)!r}{json.dumps(files, sort_keys=True)}"


@system_memory()
def load(
    source: Source | Sequence[Source] | Any,
    run: str | None = None,
    rank: int | None = None,
    cache: Source | None = None,
    *,
    kinds: Sequence[Rule] | None = None,
    compat: str | None = None,
    fx_metadata: Registry | None = None,
    formulas: Mapping[str, Formula | None] | None = None,
    devices: Devices | None = None,
    runs: Text | None = None,
    ranks: Numbers | None = None,
    steps: Numbers | None = None,
    memory_limit: str | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Load traces, or open a store.

    Parameters
    ----------
    source
        A trace file (Chrome trace JSON, plain, gzip or zstd, or a database of nvprof or Nsight
        Systems: known by content), a glob, a directory
        of traces (not recursive; a glob with ``**`` is), a list of these, or a Parquet store. Or a
        finished profile: a ``torch.profiler.profile``, a ``torch.autograd.profiler.profile``, its
        ``kineto_results``, an ``EventList`` or a list of ``FunctionEvent``; it stays as it is.
    run, rank
        Names for what is loaded; by default from the trace itself and its path. A live profile is
        the run ``live`` of this process's rank in ``torch.distributed``.
    cache
        Directory that keeps what was loaded as a store, so that the next load of the same content
        opens in milliseconds.
    kinds
        Classifier that replaces `profframe.facts.kinds.RULES`.
    compat
        ``"torch"`` for facts as torch's own ``events()`` has them, also where those are wrong:
        device time by External id, stacks of backward functions without a sequence number, and
        FLOPs of convolutions without padding, as in ``torch._inductor.analysis``.
    fx_metadata
        What the nodes of compiled graphs are called and where in the model they are from, as
        ``torch.fx.traceback._FX_METADATA_REGISTRY`` has it in the process that recorded; its JSON
        does, too. For a live profile it is taken from there.
    formulas
        Work of ops, by their names, that `profframe.facts.formulas.FORMULAS` does not have or has
        otherwise; None for an op whose formula is not to be used.
    devices
        Models of devices beside and before those of ``profframe/facts/devices.json``, in the form
        that `profframe.facts.models` describes: a mapping by their names, or a JSON file.
    runs, ranks, steps
        What to keep, as for `Trace.filter`. Of a store, no other files are opened, and questions
        read the columns that they need.
    memory_limit
        Memory for questions, such as ``"2GB"``, as for `Trace.limited`.
    progress
        Called with the bytes that are read and all bytes.

    Returns
    -------
    Trace
        All of them in one; ``.quality`` says what was repaired, dropped or skipped.

    Raises
    ------
    NoTraceFoundError
        When the path leads nowhere, or to a directory without traces.
    NotATraceError
        When a file is not a trace.
    SourceError
        When a file cannot be read, or a profile is still running.
    UnknownNameError
        When there is no such run, rank or step.

    Examples
    --------
    >>> trace = load("examples/cpu_training.json.gz")
    >>> trace.self_times().columns[:4]
    ['run', 'rank', 'name', 'kind']
    """
    check_names(run, rank)
    check_compat(compat)
    check_registry(fx_metadata)
    check_formulas(formulas)
    known = None if devices is None else entries(devices)

    def chosen(trace: Trace) -> Trace:
        return trace.limited(memory_limit).filter(runs=runs, ranks=ranks, steps=steps)

    if formulas is not None and cache is not None:
        raise ParameterError(
            "cache cannot tell formulas apart; load without it, and keep the trace by "
            "load(source, formulas=...).to_parquet(path)"
        )
    if live.knows(source):
        if cache is not None:
            raise ParameterError(
                "cache keeps what was loaded from files; to keep a live profile, write "
                "load(profile).to_parquet(path)"
            )
        metadata = live.fx_metadata() if fx_metadata is None else fx_metadata
        tables = _live(source, run, rank, Facts(kinds, compat, metadata, formulas, known))
        return chosen(Trace.from_tables(tables))
    facts = Facts(kinds, compat, fx_metadata, formulas, known)
    sources = listed(source)

    def opened() -> Trace:
        _refuse_names(run, rank, facts)
        there = Trace.from_store(Path(sources[0]), runs=runs, ranks=ranks)
        return there.limited(memory_limit).filter(steps=steps)

    if _is_store(sources):
        return opened()
    try:
        found = find(sources)
    except (NoTraceFoundError, ParameterError):
        if _is_store(sources):  # it has been made meanwhile
            return opened()
        raise
    if cache is None:
        return chosen(Trace.from_tables(_tables(found, run, rank, facts, progress=progress)))
    for path in filter(is_pipe, found.paths):
        raise ParameterError(f"{path}: cache knows files by their content, and a pipe is read once")
    kept = Cache(Path(cache)).store_of(found.paths, run, rank, facts.key())
    if not store.is_store(kept):
        store_as = kept.with_name(f".tmp-{uuid.uuid4().hex}")
        store.write(_tables(found, run, rank, facts, progress=progress), store_as)
        try:
            store_as.rename(kept)
        except OSError:  # another process was faster
            shutil.rmtree(store_as)
    return chosen(Trace.from_store(kept))


def _is_store(sources: Sequence[Source]) -> bool:
    return len(sources) == 1 and store.is_store(sources[0])


def check_names(run: str | None, rank: int | None) -> None:
    """Raise an error for names that no trace can have.

    Raises
    ------
    ParameterError
        It names the value.
    """
    if rank is not None and not (type(rank) is int and 0 <= rank < 1 << 31):
        raise ParameterError(f"rank must be an int from 0 to {(1 << 31) - 1}, not {rank!r}")
    if run is not None and type(run) is not str:
        raise ParameterError(f"run must be text, not {run!r}")
    if run == "":
        raise ParameterError("run must not be empty")


@system_memory()
def read_named(
    path: Path,
    run: str | None = None,
    rank: int | None = None,
    facts: Facts | None = None,
    progress: Progress | None = None,
    *,
    beside: Source | None = None,
    threads: int | None = None,
) -> Named:
    """Read one file as `load` does, with its facts and its name, for `write_named`.

    Parameters
    ----------
    path, run, rank, facts, progress
        As for `load`.
    beside
        A folder with room for a temporary file, up to a quarter of the text of the trace: then only
        parts of the trace are in memory, 1.2 GB for one of 2 GB. None to have it all there.
    threads
        Threads that parse; None for as many as there are processors, up to 8.

    Returns
    -------
    Named
        The trace; with ``beside`` its larger tables are `profframe.system.disk_tables.Spooled`.

    Raises
    ------
    NotATraceError
        When it is not a trace.
    SourceError
        When it cannot be read.
    StoreError
        When there is no room beside the store.
    """
    spool = None if beside is None else Spool(beside)
    with within(path):
        raw = read(path, progress, spool, threads)
        return named(path, (facts or Facts()).add(raw), run, rank)


@system_memory()
def write_named(trace: Named, path: Source, *, replace: bool = True) -> bool:
    """Write it into a store; what `Trace.to_parquet` writes of it.

    Returns
    -------
    bool
        False if the store has one of that run and rank, and that is not to be replaced.

    Raises
    ------
    StoreError
        When it cannot be written; what was in the store is still there.
    """
    return store.put(_parts(trace), path, trace.run, trace.rank, replace=replace)


def load_nvprof(path: Source, run: str | None = None, rank: int | None = None) -> Trace:
    """Load a database that ``nvprof -o`` wrote, where any other trace is a mistake.

    Parameters
    ----------
    path
        The database.
    run, rank
        As `load` takes them.

    Returns
    -------
    Trace
        What `load` gives, too: markers as host ops and annotations with the kernels that were
        launched in them, on their own thread.

    Raises
    ------
    NotATraceError
        When it is not a database of nvprof.
    SourceError
        When it cannot be read.

    Examples
    --------
    >>> try:
    ...     load_nvprof("examples/cpu_training.json.gz")
    ... except NotATraceError as error:
    ...     print(str(error).partition(": ")[2])
    a trace of format 'kineto', not of nvprof: profframe.load reads it
    """
    trace = load(path, run, rank)
    others = set(trace.traces["format"]) - {"nvprof"}
    if others:
        raise NotATraceError(
            f"{os.fspath(path)}: a trace of format {min(others)!r}, not of nvprof: profframe.load "
            "reads it"
        )
    return trace


def _live(source: object, run: str | None, rank: int | None, facts: Facts) -> dict[str, pa.Table]:
    """Tables of a live profile; its rank is that of this process in the job, if it is in one."""
    raw = facts.add(live.read(source))
    rank_source = "argument"
    if rank is None:
        in_job = raw.header.rank
        rank = 0 if in_job is None else in_job
        rank_source = "assumed" if in_job is None else raw.header.rank_source
    profile = Named(live.describe(source), raw, run or "live", rank, rank_source)
    return _concatenate([profile], [])


def _refuse_names(run: str | None, rank: int | None, facts: Facts) -> None:
    if facts.kinds is not None:
        raise ParameterError("kinds are found when a trace is loaded; a store has them already")
    if facts.fx_metadata is not None:
        raise ParameterError(
            "fx_metadata names the nodes of graphs when a trace is loaded; a store has them already"
        )
    if facts.devices is not None:
        raise ParameterError(
            "devices are matched when a trace is loaded; of a store, use .roofline(devices=)"
        )
    if facts.formulas is not None:
        raise ParameterError(
            "formulas count work when a trace is loaded; a store has the numbers already"
        )
    if facts.compat is not None:
        raise ParameterError(
            "compat changes what is found when a trace is loaded; a store has that already"
        )
    if run is not None or rank is not None:
        raise ParameterError(
            "run and rank name what is loaded from traces; use .filter(runs=, ranks=) on a store"
        )


def _tables(
    found: Found,
    run: str | None,
    rank: int | None,
    facts: Facts,
    *,
    progress: Progress | None,
) -> dict[str, pa.Table]:
    """Read, add facts, name, and put together."""
    total = _Total(found.paths, progress)
    traces: list[Named] = []
    skipped: list[SourceError] = []
    for path in found.paths:
        try:
            with within(path):
                traces.append(named(path, facts.add(read(path, total.of(path))), run, rank))
        except SourceError as error:
            if path not in found.optional:
                raise
            skipped.append(error)
    if not traces and len(skipped) == 1 and not isinstance(skipped[0], NotATraceError):
        raise skipped[0]
    if not traces:
        first = next((e for e in skipped if not isinstance(e, NotATraceError)), skipped[0])
        raise NoTraceFoundError(f"none of {len(skipped)} files is a trace; the first: {first}")
    return _concatenate(cycles(traces), skipped)


class _Total:
    """Progress over several files, out of that of each."""

    def __init__(self, paths: Sequence[Path], progress: Progress | None) -> None:
        self._progress = progress
        self._before: dict[Path, int] = {}
        self._all = 0
        for path in paths:
            self._before[path] = self._all
            self._all += _size(path)

    def of(self, path: Path) -> Progress | None:
        """What to call while `path` is read."""
        progress = self._progress
        if progress is None:
            return None
        return lambda done, _: progress(self._before[path] + done, self._all)


def _size(path: Path) -> int:
    """Bytes of a file; none of one that is gone, as who reads it will say."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _concatenate(traces: Sequence[Named], skipped: Sequence[SourceError]) -> dict[str, pa.Table]:
    """The tables of all traces; what a directory held besides is listed with the first."""
    parts: dict[str, list[pa.Table]] = {name: [] for name in schema.TABLES}
    for trace in sorted(traces, key=lambda t: (t.run, t.rank)):
        for name, rows in _parts(trace).items():
            parts[name] += rows
    notes = schema.quality_rows(
        *(
            (
                "skipped_file" if isinstance(why, NotATraceError) else UNREADABLE_FILE,
                0,
                str(why),
                None,
            )
            for why in skipped
        )
    )
    parts["quality"].append(schema.conform("quality", notes, traces[0].run, traces[0].rank))
    return {name: pa.concat_tables(tables).unify_dictionaries() for name, tables in parts.items()}


def _parts(trace: Named) -> dict[str, Iterator[pa.Table]]:
    """Its tables in the form of the schema; each part is made when it is asked for."""
    traces = trace.raw.tables["traces"]
    source = {
        "source": readable(str(trace.path)),
        "rank_source": trace.rank_source,
        "facts_version": _VERSION,
    }
    for column, value in source.items():
        traces = traces.append_column(column, pa.array([value]))
    tables = {**trace.raw.tables, "traces": traces}
    return {name: _conformed(trace, name, tables[name]) for name in schema.TABLES}


def _conformed(trace: Named, name: str, rows: pa.Table | Spooled) -> Iterator[pa.Table]:
    for part in rows.parts() if isinstance(rows, Spooled) else (rows,):
        yield schema.conform(name, part, trace.run, trace.rank)
