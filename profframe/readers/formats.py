"""The table of formats that profframe reads, and the format of a file by its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from profframe.errors import SourceError
from profframe.readers import (
    chrome,
    execution_trace,
    flight_recorder,
    memory_snapshot,
    memory_timeline,
    nccl_inspector,
    nccl_profiler,
    perfetto,
    rocprof,
    sqlite,
)
from profframe.readers.bytes import ByteSource, is_pipe

if TYPE_CHECKING:
    from profframe.readers.sqlite.sqlite_file import SqliteFile

Contents = Literal["work", "dumps", "snapshots", "execution_traces", "nccl_records"]


@dataclass(frozen=True, slots=True)
class Format:
    """What profframe knows of a format.

    Attributes
    ----------
    words
        Who recorded it, or what it is, for people.
    reader
        The module of this package that reads it, imported when it is needed.
    begins
        Whether a decompressed file begins like it; None if that is not enough to tell.
    endings
        How its files are named, before the ending of a compression.
    contents
        What its records are; only ``work`` has the times of ops and devices.
    joins
        Whether its tables join those of a trace of the same run and rank.
    """

    words: str
    reader: str
    begins: Callable[[bytes], bool] | None = None
    endings: tuple[str, ...] = ()
    contents: Contents = "work"
    joins: bool = False

    @property
    def has_times(self) -> bool:
        """Whether its records say when calls or work ran."""
        return self.contents in {"work", "dumps", "nccl_records"}

    @property
    def module(self) -> Any:
        """What reads it."""
        return import_module(f"profframe.readers.{self.reader}")


_PICKLE: Final = (".pickle", ".pkl")
_DATABASE: Final = (".sqlite", ".sqlite3", ".db")
FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        execution_trace.FORMAT: Format(
            "execution trace",
            "execution_trace.reading",
            execution_trace.knows,
            (".json",),
            "execution_traces",
            joins=True,
        ),
        flight_recorder.FORMAT: Format(
            "flight recorder dump",
            "flight_recorder.reading",
            flight_recorder.knows,
            (*_PICKLE, ".json"),
            "dumps",
            joins=True,
        ),
        memory_snapshot.FORMAT: Format(
            "memory snapshot",
            "memory_snapshot.reading",
            memory_snapshot.knows,
            _PICKLE,
            "snapshots",
            joins=True,
        ),
        memory_timeline.FORMAT: Format(
            "memory timeline",
            "memory_timeline.reading",
            memory_timeline.knows,
            (".json",),
            "snapshots",
        ),
        nccl_inspector.FORMAT: Format(
            "NCCL Inspector",
            "nccl_inspector.reading",
            nccl_inspector.knows,
            (".log", ".jsonl", ".json"),
            "nccl_records",
            joins=True,
        ),
        nccl_profiler.FORMAT: Format(
            "NCCL example profiler",
            "nccl_profiler.reading",
            nccl_profiler.knows,
            (".txt", ".json"),
        ),
        perfetto.FORMAT: Format(
            "Perfetto's protobuf",
            "perfetto.reading",
            perfetto.knows,
            (".pftrace", ".perfetto-trace", ".trace"),
        ),
        rocprof.DOCUMENT: Format("rocprofv3's JSON", "rocprof.document", rocprof.knows, (".json",)),
        "kineto": Format("torch's profiler", "chrome.reading", chrome.knows_kineto, (".json",)),
        "chrome": Format("Chrome trace JSON", "chrome.reading", chrome.knows, (".json",)),
        "nsys": Format("Nsight Systems", "sqlite.nsys", endings=_DATABASE),
        rocprof.DATABASE: Format(
            "rocprofv3's database (rocpd)", "rocprof.database", endings=_DATABASE
        ),
        "nvprof": Format(
            "nvprof", "sqlite.nvprof", endings=(*_DATABASE, ".sql", ".nvvp", ".nvprof")
        ),
        "torch": Format("torch's profiler, live", "torch"),
    }
)
"""Formats by their names in `traces`; of those that a file begins like, the first counts."""
JOINED_FORMATS: Final = frozenset(name for name, form in FORMATS.items() if form.joins)
_DATABASES: Final = (rocprof.DATABASE, "nsys", "nvprof")
"""Formats of databases, recognised by their tables: the first counts."""
_PENDING: Final = ("-wal", "-journal")
_MARK: Final = b"\xef\xbb\xbf"


def contents_of(formats: Iterable[str | None]) -> frozenset[Contents]:
    """What the records of sources of these formats are.

    Examples
    --------
    >>> contents_of(["memory_timeline", "memory_snapshot"])
    frozenset({'snapshots'})
    """
    forms = [FORMATS.get(name or "") for name in formats]
    return frozenset("work" if form is None else form.contents for form in forms)


def format_of_text(head: bytes) -> str | None:
    """The format that a decompressed file begins like; None if it is not known."""
    text = head.removeprefix(_MARK)
    return next((name for name, form in FORMATS.items() if form.begins and form.begins(text)), None)


def format_of_tables(database: SqliteFile) -> str | None:
    """The format of a database by its tables; None if it is not known."""
    return next((name for name in _DATABASES if FORMATS[name].module.knows(database)), None)


def format_of(path: Path) -> str | None:
    """The format that a file begins like; None if it is not known, or the path is not a file.

    Parameters
    ----------
    path
        A file. Its first kilobyte is read; for a database, the names of its tables.

    Examples
    --------
    >>> format_of(Path("examples/cpu_training.json.gz"))
    'kineto'
    >>> format_of(Path("README.md"))
    """
    if is_pipe(path):
        return None
    try:
        with closing(ByteSource(path)) as source:
            head = source.beginning()
        if head.plain.startswith(sqlite.MAGIC) and not head.is_compressed:
            return _format_of_database(path)
    except SourceError:
        return None
    return format_of_text(head.plain)


def _format_of_database(path: Path) -> str | None:
    """The format of a database; None if it has pending changes, which are costly to apply."""
    if any(path.with_name(path.name + ending).exists() for ending in _PENDING):
        return None
    from profframe.readers.sqlite.sqlite_file import open_database

    with open_database(path) as database:
        return format_of_tables(database)
