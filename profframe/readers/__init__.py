"""The only rooms that know a source format; `read` picks the right one by content."""

from __future__ import annotations

from pathlib import Path

from profframe.readers import chrome
from profframe.readers.bytes import ByteSource, Progress
from profframe.readers.rows import Header, RawTrace

__all__ = ["Header", "RawTrace", "read"]


def read(path: Path, progress: Progress | None = None) -> RawTrace:
    """Read one source into the tables of one trace, without run and rank and without facts.

    Parameters
    ----------
    path
        A file; its format is known by its content.
    progress
        Called with the bytes that are read and all bytes of the file.

    Raises
    ------
    SourceError
        When the file cannot be read.
    NotATraceError
        When it is not a trace of a known format.
    """
    return chrome.read(ByteSource(path, progress))
