"""Loading files of traces."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from profframe import store
from profframe.errors import NotATraceError, NoTraceFoundError, ParameterError, SourceError
from profframe.loading.discovery import Files, Source
from profframe.loading.options import FactOptions, LoadOptions, Progress
from profframe.loading.run_names import Named, cycles, named
from profframe.loading.tables import combined, table_parts
from profframe.readers import is_pipe, read
from profframe.store.cache import Cache
from profframe.system.disk_tables import Spool
from profframe.system.memory_limit import within
from profframe.system.memory_pool import system_memory
from profframe.trace.trace import Trace


def open_files(files: Files, options: LoadOptions) -> Trace:
    """Files of traces as one trace, or what the cache has of them.

    Raises
    ------
    NotATraceError, SourceError
        A file that was named is no trace, or cannot be read.
    NoTraceFoundError
        None of those that were found is a trace.
    UnknownNameError
        There is no such run, rank or step.
    """
    if options.cache is None:
        return options.chosen(Trace.from_tables(_tables(files, options)))
    return options.chosen(Trace.from_store(_cached(files, options, Path(options.cache))))


def _cached(files: Files, options: LoadOptions, folder: Path) -> Path:
    """The store that a cache has of the files; made if it has none."""
    for path in filter(is_pipe, files.paths):
        raise ParameterError(f"{path}: cache knows files by their content, and a pipe is read once")
    kept = Cache(folder).store_of(files.paths, options.run, options.rank, options.facts.key())
    if not store.is_store(kept):
        draft = kept.with_name(f".tmp-{uuid.uuid4().hex}")
        store.write(_tables(files, options), draft)
        try:
            draft.rename(kept)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    return kept


@system_memory()
def read_named(
    path: Path,
    run: str | None = None,
    rank: int | None = None,
    facts: FactOptions | None = None,
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
        The trace; with ``beside`` its larger tables are `SpooledTable`.

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
        return named(path, (facts or FactOptions()).add(raw), run, rank)


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
    return store.put(table_parts(trace), path, trace.run, trace.rank, replace=replace)


def _tables(files: Files, options: LoadOptions) -> dict[str, pa.Table]:
    """Read, add facts, name, and put together."""
    total = _Total(files.paths, options.progress)
    traces: list[Named] = []
    skipped: list[SourceError] = []
    for path in files.paths:
        try:
            with within(path):
                raw = options.facts.add(read(path, total.of(path)))
                traces.append(named(path, raw, options.run, options.rank))
        except SourceError as error:
            if path not in files.optional:
                raise
            skipped.append(error)
    if not traces and len(skipped) == 1 and not isinstance(skipped[0], NotATraceError):
        raise skipped[0]
    if not traces:
        first = next((e for e in skipped if not isinstance(e, NotATraceError)), skipped[0])
        raise NoTraceFoundError(f"none of {len(skipped)} files is a trace; the first: {first}")
    return combined(cycles(traces), skipped)


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
