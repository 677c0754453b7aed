"""The format of a file by its beginning, without reading all of it, named as in `traces`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from profframe.errors import SourceError
from profframe.readers import (
    chrome,
    execution_trace,
    flight_recorder,
    memory_snapshot,
    memory_timeline,
    perfetto,
    sqlite,
)
from profframe.readers.bytes import ByteSource, is_pipe

OTHERS: Final[tuple[tuple[str, Callable[[bytes], bool]], ...]] = tuple(
    (form.FORMAT, form.knows)
    for form in (execution_trace, flight_recorder, memory_snapshot, memory_timeline, perfetto)
)
"""Formats other than Chrome's: whether a decompressed file begins like it. The first counts."""
_FORMATS: Final = (*OTHERS, ("kineto", chrome.knows_kineto), ("chrome", chrome.knows))
_PENDING: Final = ("-wal", "-journal")


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
    text = head.plain.removeprefix(b"\xef\xbb\xbf")
    return next((name for name, knows in _FORMATS if knows(text)), None)


def _format_of_database(path: Path) -> str | None:
    """The format of a database; None if it has pending changes, which are costly to apply."""
    if any(path.with_name(path.name + ending).exists() for ending in _PENDING):
        return None
    from profframe.readers.sqlite import nsys, nvprof
    from profframe.readers.sqlite.database import open_database

    with open_database(path) as database:
        if nsys.knows(database):
            return "nsys"
        return "nvprof" if nvprof.knows(database) else None
