"""Tasks of a worker: it gets paths and returns a small report."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from profframe.errors import NotATraceError, ProfframeError, SourceError, StoreError
from profframe.remote import file_systems
from profframe.remote.urls import is_url
from profframe.system.drafts import scratch
from profframe.system.memory_limit import is_memory_error, refusal_message
from profframe.workers.pool import limit_threads, never_forked, this_process

if TYPE_CHECKING:
    from profframe.conversion.companions import Join
    from profframe.conversion.member_upgrade import Member, Upgrade
    from profframe.conversion.staging import Destination, Record
    from profframe.loaders.options import FactOptions
    from profframe.readers.bytes import Progress

Status = Literal["staged", "written", "joined", "unchanged", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Task:
    """One file to convert.

    ``contents`` are hashes of this file that the store has already. ``coordinator`` is the process
    of the batch, which keeps its own threads. ``attempt`` makes tasks differ, for executors that
    run equal ones only once.
    """

    source: str = field(repr=False)  # of a URL with its secrets, and clusters log tasks
    name: str
    store: str = field(repr=False)
    run: str | None
    rank: int | None
    rank_is_in_path: bool
    facts: FactOptions
    is_alone: bool
    threads: int | None
    contents: frozenset[str]
    coordinator: tuple[str, int]
    attempt: str


@dataclass(frozen=True, slots=True)
class Report:
    """Result for one file; ``staged`` if it waits for its name."""

    status: Status
    staged: Record | None = None
    content: str | None = None
    error: str | None = None
    is_not_a_trace: bool = False
    events: int | None = None
    seconds: float = 0.0


@never_forked
def convert_file(task: Task, progress: Progress | None = None) -> Report:
    """Convert one file into a staged folder, which waits for its name.

    A bad file is an error in the report. ``progress`` is for a caller in the same process.
    """
    start = time.perf_counter()
    try:
        report = (
            _convert(task, progress)
            or _convert(task, progress)
            or Report("failed", error=f"{task.name}: other batches publish it again and again")
        )
    except NotATraceError as error:
        report = Report("failed", error=str(error), is_not_a_trace=True)
    except ProfframeError as error:
        report = Report("failed", error=str(error))
    except Exception as error:
        if "PROFFRAME_DEBUG" in os.environ:
            raise
        internal = f"internal: {type(error).__name__}: {error}"
        message = refusal_message() if is_memory_error(error) else internal
        report = Report("failed", error=f"{task.name}: {message}")
    return replace(report, seconds=time.perf_counter() - start)


def _convert(task: Task, progress: Progress | None) -> Report | None:
    """Report of a file; None if another batch has published the staged folder meanwhile."""
    is_guest = task.coordinator != this_process()
    if task.threads is not None and is_guest and "polars" not in sys.modules:
        limit_threads(task.threads)
    from profframe.conversion.bucket import destination
    from profframe.conversion.staging import options_text, staging_key

    store = destination(task.store)
    with _local_file(task.source) as path, file_systems.named(path, task.source):
        content = _hash(path)
        options = options_text(task.run, task.rank, task.facts)
        staged_key = staging_key(task.name, content, options)
        staged = store.find(staged_key)
        if content in task.contents:
            if staged is not None:  # left by a killed batch
                store.discard(staged)
            return Report("unchanged", content=content)
        if staged is None:
            record = {"content_hash": content, "convert_options": options}
            staged = store.stage(
                staged_key, lambda draft: _write(task, path, record, draft, progress)
            )
        try:
            return Report("staged", staged, content, events=store.events(staged))
        except FileNotFoundError:
            return None


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _write(
    task: Task, path: Path, record: Mapping[str, str], draft: Path, progress: Progress | None
) -> None:
    """Read a file as `load` does, and write it with the record of its source."""
    import pyarrow as pa

    from profframe.loaders.trace_files import read_trace, write_trace

    trace = read_trace(
        path,
        task.run,
        task.rank,
        _shared(task.facts),
        progress,
        is_alone=task.is_alone,
        spool_folder=draft.parent,
        threads=task.threads,
    )
    traces = trace.raw.tables["traces"]
    for column, value in record.items():
        traces = traces.append_column(column, pa.array([value], pa.string()))
    raw = replace(trace.raw, tables={**trace.raw.tables, "traces": traces})
    source = "path" if task.rank_is_in_path else trace.rank_source
    write_trace(replace(trace, path=task.name, raw=raw, rank_source=source), draft)


@cache
def _shared(facts: FactOptions) -> FactOptions:
    """The first equal options of this process, which have read their files."""
    return facts


@contextmanager
def _local_file(source: str) -> Iterator[Path]:
    """A local file with the content of a source, and the last names of its path."""
    from profframe.readers.bytes import ByteSource  # limits of threads come first

    if is_url(source):
        with scratch() as folder:
            yield file_systems.copied(file_systems.RemoteFile(source), folder)[0]
        return
    with closing(ByteSource(Path(source))) as stream, stream.file() as file:
        yield file


@never_forked
def join(store: Destination, choice: Join) -> Record:
    """Stage a trace with the files joined with it; a task for a worker.

    `FileNotFoundError` means that another batch has published a part of it meanwhile.
    """
    from profframe.conversion.companions import stage_joined

    try:
        return stage_joined(store, choice)
    except StoreError:
        for record in choice.parts:
            if not store.has(record.folder):
                raise FileNotFoundError(record.folder) from None
        raise


@never_forked
def rename(store: Destination, staged: Record, run: str, is_cycle: bool = True) -> Record:
    """Copy a staged folder under the name of another run, as a later cycle of its own or not.

    A task for a worker.
    `FileNotFoundError` means that another batch has published it meanwhile.
    """
    from profframe.conversion.staging import staging_key

    copy_key = staging_key(staged.folder, run, f"{staged.rank} {is_cycle}")
    try:
        return store.find(copy_key) or store.stage(
            copy_key, lambda draft: store.copy(staged, run, draft, is_cycle=is_cycle)
        )
    except StoreError:
        if store.has(staged.folder):
            raise
        raise FileNotFoundError(staged.folder) from None


@never_forked
def upgrade_member(member: Member) -> Upgrade:
    """Upgrade one (run, rank) of a store; a task for a worker."""
    from profframe.conversion.member_upgrade import upgraded

    return upgraded(member)
