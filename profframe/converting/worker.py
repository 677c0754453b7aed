"""What a worker does with one file; it gets paths and gives back a small report."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from profframe.converting.pool import LocalPool, cores, limit
from profframe.converting.urls import fetched
from profframe.errors import NotATraceError, ProfframeError, SourceError, StoreError
from profframe.system.memory_limit import is_memory_error, refusal_message

if TYPE_CHECKING:
    import pyarrow as pa

    from profframe.converting.staging import Destination, Record
    from profframe.readers.bytes import Progress

_IMPORTED_BY: Final = os.getpid()
"""A process that was forked from it has another number."""

Status = Literal["staged", "written", "unchanged", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Task:
    """One file to convert.

    ``known`` are the contents that the store has of it already. ``coordinator`` is the process that
    asks, whose threads are its own matter. ``attempt`` tells one from the next, for engines that do
    equal work once.
    """

    source: str
    name: str
    store: str
    run: str | None
    rank: int | None
    rank_is_in_path: bool
    compat: str | None
    threads: int | None
    known: frozenset[str]
    coordinator: tuple[str, int]
    attempt: str


@dataclass(frozen=True, slots=True)
class Report:
    """What has become of one file; ``staged`` where it waits for its name."""

    status: Status
    staged: Record | None = None
    content: str | None = None
    error: str | None = None
    is_not_a_trace: bool = False
    events: int | None = None
    seconds: float = 0.0


def convert_file(task: Task, progress: Progress | None = None) -> Report:
    """Convert one file into a folder that waits beside the store for its name.

    Nothing is raised for a bad file: the report says so. ``progress`` is for a caller in the same
    process.
    """
    if os.getpid() != _IMPORTED_BY:
        return _afresh(os.getpid(), task.threads).submit(convert_file, task).result()
    start = time.perf_counter()
    try:
        report = (
            _converted(task, progress)
            or _converted(task, progress)
            or Report("failed", error=f"{task.name}: other batches publish it over and over")
        )
    except NotATraceError as error:
        report = Report("failed", error=str(error), is_not_a_trace=True)
    except ProfframeError as error:
        report = Report("failed", error=str(error))
    except Exception as error:
        if "PROFFRAME_DEBUG" in os.environ:
            raise
        said = (
            refusal_message()
            if is_memory_error(error)
            else f"internal: {type(error).__name__}: {error}"
        )
        report = Report("failed", error=f"{task.name}: {said}")
    return replace(report, seconds=time.perf_counter() - start)


@cache
def _afresh(_process: int, threads: int | None) -> LocalPool:
    """A process for one that was forked, in which DuckDB, Arrow and polars lack their threads."""
    return LocalPool(1, threads or cores())


def _converted(task: Task, progress: Progress | None) -> Report | None:
    """What has become of a file; None if another batch has published meanwhile what was staged."""
    is_guest = task.coordinator != here()
    if task.threads is not None and is_guest and "polars" not in sys.modules:
        limit(task.threads)
    from profframe.converting.bucket import destination
    from profframe.converting.staging import key, options

    store = destination(task.store)
    with fetched(task.source) as path, _named(task, path):
        content = _hash(path)
        told = options(task.run, task.rank, task.compat)
        staged_key = key(task.name, content, told)
        staged = store.find(staged_key)
        if content in task.known:
            if staged is not None:  # a batch was killed before it could remove it
                store.discard(staged)
            return Report("unchanged", content=content)
        if staged is None:
            record = {"content_hash": content, "convert_options": told}
            staged = store.stage(
                staged_key, lambda draft: _write(task, path, record, draft, progress)
            )
        try:
            return Report("staged", staged, content, events=store.events(staged))
        except FileNotFoundError:
            return None


def here() -> tuple[str, int]:
    """The process that this is, among those of all machines."""
    return os.uname().nodename, os.getpid()


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _write(
    task: Task, path: Path, record: Mapping[str, str], draft: Path, progress: Progress | None
) -> None:
    """Read the file as `load` does, and write it with the record of what it was made from."""
    from profframe.loading.files import read_named, write_named
    from profframe.loading.options import FactOptions

    facts = FactOptions(compat=task.compat)
    trace = read_named(
        path, task.run, task.rank, facts, progress, beside=draft.parent, threads=task.threads
    )
    traces = trace.raw.tables["traces"]
    for column, value in record.items():
        traces = traces.append_column(column, _text(value))
    raw = replace(trace.raw, tables={**trace.raw.tables, "traces": traces})
    source = "path" if task.rank_is_in_path else trace.rank_source
    write_named(replace(trace, path=task.name, raw=raw, rank_source=source), draft)


def _text(value: str) -> pa.Array:
    import pyarrow as pa

    return pa.array([value], pa.string())


@contextmanager
def _named(task: Task, path: Path) -> Iterator[None]:
    """Errors that name the source, not the copy that was fetched of it."""
    try:
        yield
    except ProfframeError as error:
        if str(path) == task.source:
            raise
        raise type(error)(str(error).replace(str(path), task.source)) from error


def rename(store: Destination, staged: Record, run: str) -> Record:
    """Copy what is staged under the name of another run, as a later cycle; a task for a worker.

    `FileNotFoundError` says that another batch has published it meanwhile.
    """
    if os.getpid() != _IMPORTED_BY:
        return _afresh(os.getpid(), None).submit(rename, store, staged, run).result()
    from profframe.converting.staging import key

    copy_key = key(staged.folder, run, str(staged.rank))
    try:
        return store.find(copy_key) or store.stage(
            copy_key, lambda draft: store.copy(staged, run, draft)
        )
    except StoreError:
        if store.has(staged.folder):
            raise
        raise FileNotFoundError(staged.folder) from None
