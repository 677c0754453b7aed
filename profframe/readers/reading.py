"""Read a source of any format: its content picks the reader."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from profframe.errors import NotATraceError, SourceError
from profframe.readers import plugins
from profframe.readers.archives import members
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.bytes import ByteSource, Progress, decompressed, is_pipe
from profframe.readers.chrome import reading as chrome
from profframe.readers.foreign import database_refusal
from profframe.readers.formats import (
    DATABASE,
    FORMATS,
    OF_PLUGIN,
    format_at_beginning,
    format_of_tables,
)
from profframe.system.disk_tables import Spool

_MOST_TABLES: Final = 6


def read(
    path: Path,
    progress: Progress | None = None,
    spool: Spool | None = None,
    threads: int | None = None,
) -> RawTrace:
    """Read one source into the tables of one trace, without run and rank and without facts.

    Parameters
    ----------
    path
        A file; the format is recognised by its content.
    progress
        Called with the number of bytes read and the size of the file.
    spool
        Where its tables go on disk; None for memory.
    threads
        Threads that parse; None for one per processor, up to 8. A single thread also reads.

    Raises
    ------
    SourceError
        The file cannot be read, or has several traces.
    NotATraceError
        It is not a trace of a known format.
    """
    with closing(ByteSource(path, progress)) as source:
        name = format_at_beginning(source)
        if name == DATABASE:
            with source.file() as file:
                return _read_database(file, progress, spool)
        if name == OF_PLUGIN and (plugin := plugins.reader_of(source.beginning().plain)):
            with source.file() as file:
                return _read_by(plugin, path, file, spool, threads)
        reader = FORMATS[name].module
        raw: RawTrace = reader.read(source, spool, threads)
        return raw


def _read_by(
    plugin: plugins.ReaderPlugin,
    path: Path,
    file: Path,
    spool: Spool | None,
    threads: int | None,
) -> RawTrace:
    """Read what a reader of another distribution writes, in a format of profframe's own."""
    with TemporaryDirectory(prefix="profframe-") as folder:
        target = Path(folder, "trace.json")
        plugin.write(path, file, target)
        try:
            with closing(ByteSource(target)) as source:
                if format_at_beginning(source) == OF_PLUGIN:
                    raise NotATraceError("it begins like no format that profframe reads itself")
            return read(target, None, spool, threads)
        except SourceError as error:
            reason = str(error).removeprefix(f"{target}: ")
            raise SourceError(f"{path}: what {plugin.title} wrote is no trace: {reason}") from error


def read_parts(path: Path, progress: Progress | None = None) -> list[RawTrace]:
    """Read one source as `read` does, but each trace in it if there are several.

    Raises
    ------
    SourceError
        The file cannot be read, or is a pipe with several traces.
    NotATraceError
        It is not a trace of a known format.
    """
    try:
        return [read(path, progress)]
    except chrome.SeveralTracesError as several:
        if several.parts is not None:
            return [*several.parts]
        if is_pipe(path):
            raise SourceError(
                f"{path}: {several.count} traces in one file, and a pipe cannot be read "
                "twice: write it to a file, and load that"
            ) from None
        return chrome.read_parts(path, several)


def members_of(path: Path) -> list[Path]:
    """Paths of the members of an archive, which `read` takes.

    Raises
    ------
    SourceError
        The archive cannot be read.
    """
    return members(path, decompressed)


def _read_database(path: Path, progress: Progress | None, spool: Spool | None) -> RawTrace:
    from profframe.readers.sqlite.sqlite_file import open_database

    with open_database(path, progress) as database:
        if name := format_of_tables(database):
            raw: RawTrace = FORMATS[name].module.read(database, spool)
            database.finish()
            return raw
        names = sorted(database.tables)
    if reason := database_refusal(names):
        raise NotATraceError(f"{path}: not a trace: {reason}")
    shown = ", ".join(names[:_MOST_TABLES]) + (", ..." if len(names) > _MOST_TABLES else "")
    raise NotATraceError(
        f"{path}: not a trace: an SQLite database with {shown or 'no tables'} (expected one from "
        "nvprof -o, with CUDA activities, from nsys export --type sqlite, or from rocprofv3; CPU "
        "samples are not a trace)"
    )
