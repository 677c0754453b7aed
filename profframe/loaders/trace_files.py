"""Loading files of traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

from profframe import schema, store
from profframe.errors import NotATraceError, NoTraceFoundError, ParameterError, SourceError
from profframe.loaders.communicator_ranks import with_own_ranks
from profframe.loaders.companion_files import GivenFiles
from profframe.loaders.discovery import Files, Source
from profframe.loaders.options import FactOptions, LoadOptions, Progress
from profframe.loaders.run_names import NamedTrace, cycles, known_rank, name_parts, name_trace
from profframe.loaders.tables import combine, table_parts
from profframe.query.answer_cache import FOLDER, AnswerCache
from profframe.query.session import Session
from profframe.query.sources import InMemory
from profframe.readers.archives import ArchiveError, archive_of
from profframe.readers.bytes import is_pipe
from profframe.readers.reading import members_of, read, read_parts
from profframe.remote.file_systems import named
from profframe.remote.urls import inside
from profframe.store.cache import cache_folder, publish, signature, store_of, use
from profframe.store.layout import temporary
from profframe.store.leftovers import remove_drafts
from profframe.system.disk_tables import Spool
from profframe.system.memory_limit import within
from profframe.system.memory_pool import release, system_memory
from profframe.trace.trace import Trace

_MANY: Final = 1 << 19
"""Rows from which on it matters what was freed beside them."""


def open_files(files: Files, options: LoadOptions) -> Trace:
    """Files of traces as one trace, from the cache if it has them.

    Raises
    ------
    NotATraceError, SourceError
        A required file is not a trace, or cannot be read.
    NoTraceFoundError
        No file is a trace.
    UnknownNameError
        There is no such run, rank or step.
    """
    if options.cache is None:
        return options.select(Trace.from_tables(_tables(files, options)))
    entry = CacheEntry.of(files, options, Path(options.cache))
    if not use(entry.path):
        tables = _tables(files, options)
        if not entry.keep(tables):
            return options.select(Trace.from_tables(tables))
    return options.select(Trace.from_store(entry.path))


def open_or_keep(
    files: Files, options: LoadOptions, folder: Path
) -> tuple[Trace, Callable[[], bool] | None]:
    """As `open_files` with a cache, which is written only when the result is called, if it is new.

    Raises
    ------
    NotATraceError, SourceError, NoTraceFoundError, StoreError
        As for `open_files`.
    """
    entry = CacheEntry.of(files, options, folder)
    if use(entry.path):
        return Trace.from_store(entry.path), None
    tables, answers = _tables(files, options), AnswerCache()
    source = InMemory(schema.complete(tables), answer_cache=answers)
    return Trace(Session.of(source)), lambda: entry.keep(tables, answers)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """The place of some files in a cache, by their content as it was when they were looked at."""

    files: Files
    options: LoadOptions
    folder: Path
    path: Path
    signatures: tuple[list[int], ...]

    @classmethod
    def of(cls, files: Files, options: LoadOptions, folder: Path) -> Self:
        """The entry of files, whether or not the cache has it.

        Raises
        ------
        ParameterError
            One of the files is a pipe.
        StoreError
            Others can write to the cache.
        """
        for path in filter(is_pipe, files.paths):
            raise ParameterError(
                f"{path}: cache identifies files by their content, but a pipe can be read only once"
            )
        folder = cache_folder(folder)
        signatures = (*map(signature, files.paths),)
        name, facts = (options.run, options.rank), options.facts.key()
        urls = {path: file.shown for path, file in files.remote.items()}
        path = store_of(folder, files.paths, *name, facts, urls=urls)
        return cls(files, options, folder, path, signatures)

    def keep(self, tables: Mapping[str, pa.Table], answers: AnswerCache | None = None) -> bool:
        """Write what was loaded; False if the files have changed since they were looked at."""
        remove_drafts(self.folder)
        with temporary(self.folder) as draft:
            store.write(tables, draft)
            if answers is not None:
                answers.write(draft / FOLDER)
            now = self.of(self.files, self.options, self.folder)
            if (now.path, now.signatures) != (self.path, self.signatures):
                return False
            publish(draft, self.path)
        return True


@system_memory()
def read_trace(
    path: Path,
    run: str | None = None,
    rank: int | None = None,
    facts: FactOptions | None = None,
    progress: Progress | None = None,
    *,
    spool_folder: Source | None = None,
    threads: int | None = None,
    is_alone: bool = True,
) -> NamedTrace:
    """Read one file as `load` does, with its facts and its name, for `write_trace`.

    Parameters
    ----------
    path, run, rank, facts, progress
        As for `load`.
    spool_folder
        A folder with room for a temporary file, up to a quarter of the text of the trace: then only
        parts of the trace are in memory, 1.2 GB for one of 2 GB. None to keep all in memory.
    threads
        Threads that parse; None for as many as there are processors, up to 8.
    is_alone
        Whether an execution trace of another process and rank, or a memory snapshot of another
        rank, still belongs to this file.

    Returns
    -------
    NamedTrace
        The trace; its larger tables are `SpooledTable` in that folder.

    Raises
    ------
    NotATraceError
        When it is not a trace.
    SourceError
        When it cannot be read.
    StoreError
        When there is no room beside the store.
    """
    spool = None if spool_folder is None else Spool(spool_folder)
    with within(path):
        raw = read(path, progress, spool, threads)
        source_rank = known_rank(path, raw, rank)
        with_facts = (facts or FactOptions()).add(raw, source_rank, is_alone=is_alone)
        return name_trace(path, with_facts, run, rank)


@system_memory()
def read_together(
    paths: Sequence[Path], run: str | None, rank: int | None, facts: FactOptions
) -> dict[str, pa.Table]:
    """Read a trace and the files that join it as `load` does, in memory.

    Parameters
    ----------
    paths, run, rank, facts
        As for `load`.

    Raises
    ------
    NotATraceError, SourceError
        A file is not a trace, or cannot be read.
    """
    return _tables(Files(tuple(paths), frozenset()), LoadOptions(run, rank, facts=facts))


@system_memory()
def write_trace(trace: NamedTrace, path: Source, *, replace: bool = True) -> bool:
    """Write a trace into a store, as `Trace.to_parquet` does.

    Returns
    -------
    bool
        False if the store has one of that run and rank, and ``replace`` is False.

    Raises
    ------
    StoreError
        When it cannot be written; what was in the store is still there.
    """
    return store.put(table_parts(trace), path, trace.run, trace.rank, replace=replace)


def _tables(files: Files, options: LoadOptions) -> dict[str, pa.Table]:
    """Read the files, add facts and names, and concatenate."""
    files = _without_given(files, options.facts)
    sizes = [_size(path) for path in files.paths]
    traces: list[NamedTrace] = []
    skipped: list[SourceError] = []
    is_alone = len(files.paths) == 1
    for path, before in zip(files.paths, accumulate(sizes, initial=0), strict=False):
        progress = _shifted(options.progress, before, sum(sizes))
        try:
            traces += _of_file(path, files, options, progress, skipped, is_alone=is_alone)
        except SourceError as error:
            if path not in files.optional:
                raise
            skipped.append(error)
    if not traces and len(skipped) == 1 and not isinstance(skipped[0], NotATraceError):
        raise skipped[0]
    if not traces:
        first = next((e for e in skipped if not isinstance(e, NotATraceError)), skipped[0])
        raise NoTraceFoundError(f"none of {len(skipped)} files is a trace; the first: {first}")
    _check_use(options.facts, traces)
    tables = combine(cycles(with_own_ranks(traces)), skipped)
    if sum(rows.num_rows for rows in tables.values()) > _MANY:
        release()
    return tables


def _of_file(
    path: Path,
    files: Files,
    options: LoadOptions,
    progress: Progress | None,
    skipped: list[SourceError],
    *,
    is_alone: bool,
) -> list[NamedTrace]:
    """The traces of a file; those of a copy have the URL, also in what is said of them."""
    file = files.remote.get(path)
    if file is None:
        return _named(path, options, progress, skipped, is_alone=is_alone)
    errors: list[SourceError] = []
    with named(path, file.url):
        traces = _named(path, options, progress, errors, is_alone=is_alone)
    skipped += [type(e)(str(e).replace(str(path), file.shown)) for e in errors]
    members = (str(trace.path).removeprefix(str(path)) for trace in traces)
    return [
        replace(trace, path=inside(file.shown, member))
        for trace, member in zip(traces, members, strict=True)
    ]


def _named(
    path: Path,
    options: LoadOptions,
    progress: Progress | None,
    skipped: list[SourceError],
    *,
    is_alone: bool,
) -> list[NamedTrace]:
    """The traces of a file; those of an archive are those of a folder, which may have others."""
    try:
        with within(path):
            read_traces = read_parts(path, progress)
            is_only = is_alone and len(read_traces) == 1
            parts = [
                options.facts.add(raw, known_rank(path, raw, options.rank), is_alone=is_only)
                for raw in read_traces
            ]
        return name_parts(path, parts, options.run, options.rank)
    except ArchiveError:
        if archive_of(path) is not None or is_pipe(path):
            raise
    paths = members_of(path)
    traces: list[NamedTrace] = []
    errors: list[SourceError] = []
    for member in paths:
        try:
            is_only = is_alone and len(paths) == 1
            traces += _named(member, options, None, skipped, is_alone=is_only)
        except SourceError as error:
            errors.append(error)
    if not traces:
        first = str(errors[0]) if errors else "it is empty"
        raise NotATraceError(f"{path}: none of its {len(paths)} files is a trace: {first}")
    skipped += errors
    return traces


def _check_use(facts: FactOptions, traces: Sequence[NamedTrace]) -> None:
    """Raise an error for given files that belong to none of the traces."""
    for name, files in facts.joined.items():
        if not any(files.table in trace.raw.tables for trace in traces):
            shown = ", ".join(map(files.shown, files.paths))
            raise ParameterError(
                f"{name}: {shown}: belongs to none of the {files.owners} of the traces"
            )


def _without_given(files: Files, facts: FactOptions) -> Files:
    """Files of a folder or a pattern, without those among them that are given for other traces."""
    parts: list[GivenFiles] = [*facts.joined.values()]
    if facts.provenance is not None:
        parts.append(facts.provenance)
    given = {path.resolve() for part in parts for path in part.paths}
    if not given:
        return files
    paths = [p for p in files.paths if p not in files.optional or p.resolve() not in given]
    optional = files.optional & frozenset(paths)
    return replace(files, paths=(*paths,), optional=optional) if paths else files


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Progress over several files, from the progress of one."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def _size(path: Path) -> int:
    """Bytes of a file; 0 for a missing one, whose reader will raise."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
