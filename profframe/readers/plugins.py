"""Readers of other distributions, by entry points of the group ``profframe.readers``.

A reader has two functions. ``knows(head: bytes) -> bool`` says whether a file begins like its
format; ``head`` is its decompressed first kilobyte. ``read(source: Path, target: Path) -> None``
writes the file as a trace in the JSON of torch's profiler, or in any other format that profframe
reads. Formats of profframe's own come first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from profframe.errors import SourceError
from profframe.system.plugins import owner, plugins

GROUP: Final = "profframe.readers"


@dataclass(frozen=True, slots=True)
class ReaderPlugin:
    """A reader, what it is called in messages, and its two functions."""

    title: str
    knows: Callable[[bytes], bool]
    convert: Callable[[Path, Path], None]

    def write(self, source: Path, file: Path, target: Path) -> None:
        """Write a source, whose bytes are in a file, as a trace.

        Raises
        ------
        SourceError
            The reader failed, or wrote nothing; the message names its distribution.
        """
        try:
            self.convert(file, target)
        except Exception as error:
            raise SourceError(f"{source}: {self.title} failed: {error!r}") from error
        if not target.is_file():
            raise SourceError(f"{source}: {self.title} wrote no trace")


@lru_cache(maxsize=1)  # a file is asked about to choose its reader, and to read it
def reader_of(head: bytes) -> ReaderPlugin | None:
    """The first reader, by name, whose format a decompressed file begins like.

    A reader that fails to tell is left out, with a warning that names its distribution.
    """
    for reader in _readers():
        try:
            if reader.knows(head):
                return reader
        except Exception as error:  # noqa: BLE001 - of somebody else's code
            _warn(f"{reader.title} cannot tell whether it knows a file: {error!r}")
    return None


@cache
def _readers() -> tuple[ReaderPlugin, ...]:
    """Those that can be imported; a warning names each other one, once."""
    return tuple(filter(None, map(_reader, plugins(GROUP).values())))


def _reader(point: EntryPoint) -> ReaderPlugin | None:
    title = f"the reader {point.name!r} of {owner(point)}"
    try:
        offered = point.load()
    except Exception as error:  # noqa: BLE001 - importing may run anything
        _warn(f"{title} cannot be imported: {error!r}")
        return None
    functions = [getattr(offered, name, None) for name in ("knows", "read")]
    if not all(map(callable, functions)):
        _warn(f"{title} needs two functions, knows(head) and read(source, target)")
        return None
    return ReaderPlugin(title, offered.knows, offered.read)


def _warn(message: str) -> None:
    warnings.warn(f"{message}; other formats are read as before", RuntimeWarning, stacklevel=2)
