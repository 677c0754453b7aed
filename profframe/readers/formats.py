"""The table of formats that profframe reads, and the format of a file by its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from profframe.errors import NotATraceError, SourceError
from profframe.readers import (
    chrome,
    execution_trace,
    flight_recorder,
    memory_snapshot,
    memory_timeline,
    nccl_inspector,
    nccl_profiler,
    perfetto,
    plugins,
    rocprof,
    sqlite,
)
from profframe.readers.archives import ArchiveError, archive_kind, members
from profframe.readers.bytes import ByteSource, decompressed, is_pipe
from profframe.readers.foreign import refusal

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
    opened
        The format of a file that begins like it, from as much of its text as the reader needs; None
        if the reader refuses it. Without it the beginning is enough.
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
    opened: Callable[[ByteSource], str | None] | None = None

    @property
    def has_times(self) -> bool:
        """Whether its records say when calls or work ran."""
        return self.contents in {"work", "dumps", "nccl_records"}

    @property
    def module(self) -> Any:
        """What reads it."""
        return import_module(f"profframe.readers.{self.reader}")


_CHROME: Final = "chrome.reading"
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
            opened=memory_snapshot.opened,
        ),
        memory_timeline.FORMAT: Format(
            "memory timeline",
            "memory_timeline.reading",
            memory_timeline.knows,
            (".json",),
            "snapshots",
            opened=memory_timeline.opened,
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
        "kineto": Format(
            "torch's profiler",
            _CHROME,
            chrome.knows_kineto,
            (".json",),
            opened=chrome.opened,
        ),
        "chrome": Format(
            "Chrome trace JSON", _CHROME, chrome.knows, (".json",), opened=chrome.opened
        ),
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
DATABASE: Final = "database"
"""Stands for a format of a database, which its tables tell."""
OF_PLUGIN: Final = "plugin"
"""Stands for a format that a reader of another distribution knows."""
_MOST_COPIED: Final = 32 << 20
"""Bytes of a database or an archive that are read to see what is in it."""
_MOST_MEMBERS: Final = 20
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


def format_at_beginning(source: ByteSource) -> str:
    """The format by which a file is read, `DATABASE`, or `OF_PLUGIN`: else that of Chrome.

    Raises
    ------
    ArchiveError
        It is an archive.
    NotATraceError
        It begins like a file of another tool.
    SourceError
        It cannot be read.
    """
    head = source.beginning()
    if kind := archive_kind(head.plain):
        raise ArchiveError(source.path, kind)
    if head.plain.startswith(sqlite.MAGIC):
        if head.is_compressed:
            raise NotATraceError(
                f"{source.path}: not a trace: a compressed SQLite database (decompress it, and "
                "load that)"
            )
        return DATABASE
    name = format_of_text(head.plain)
    if name is None and not is_pipe(source.path) and plugins.reader_of(head.plain):
        return OF_PLUGIN
    name = name or "chrome"
    if FORMATS[name].reader == _CHROME and (reason := refusal(source.path, head.plain)):
        raise NotATraceError(f"{source.path}: not a trace: {reason}")
    return name


def format_of(path: Path) -> str | None:
    """The format of a file that `profframe.load` takes; None if it takes none, or is not a file.

    What is damaged later on is not seen: a file is read as far as the format needs, mostly a block,
    and up to 32 MB before the events of a Chrome trace. Of an archive it is the format of one of
    the first members.

    Parameters
    ----------
    path
        A file, or a member of an archive.

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
            name = format_at_beginning(source)
            if name == DATABASE:
                return _format_of_database(path)
            opened = None if name == OF_PLUGIN else FORMATS[name].opened
            return opened(source) if opened else name
    except ArchiveError:
        return _format_in_archive(path)
    except SourceError:
        return None


def _format_in_archive(path: Path) -> str | None:
    """The format of the first trace in an archive; None for a large one, or one in an archive."""
    if not path.is_file() or path.stat().st_size > _MOST_COPIED:
        return None
    try:
        names = map(format_of, members(path, decompressed)[:_MOST_MEMBERS])
        return next((name for name in names if name), None)
    except SourceError:
        return None


def _format_of_database(path: Path) -> str | None:
    """The format of a database, whose rows are not counted.

    Changes in other files are applied only to a copy of a small one, if it needs them.
    """
    from profframe.readers.sqlite.sqlite_file import open_tables

    with open_tables(path) as database:
        name = format_of_tables(database)
    if name or path.stat().st_size > _MOST_COPIED:
        return name
    with open_tables(path, with_pending=True) as database:
        return format_of_tables(database)
