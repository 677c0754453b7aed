"""A file that is there whole or not at all, compressed as its name says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from profframe.analysis.export_lines.batches import Lines
from profframe.errors import ExportError
from profframe.system.atomic_files import atomic_write

Write = Callable[[bytes | memoryview], object]
_PROTOBUF: Final = re.compile(r"\.(?:pftrace|perfetto-trace)(?:\.gz|\.zst)?\Z", re.IGNORECASE)
"""Names by which other tools take a file for Perfetto's protobuf."""


def is_protobuf(path: str | os.PathLike[str]) -> bool:
    """Whether a file is called as Perfetto's protobuf.

    Examples
    --------
    >>> [is_protobuf(name) for name in ("a.pftrace.gz", "a.perfetto-trace", "a.json")]
    [True, True, False]
    """
    return _PROTOBUF.search(os.fspath(path)) is not None


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise an ExportError for a file that is called as Perfetto's protobuf."""
    if is_protobuf(path):
        raise ExportError(
            f"{path}: this ending means Perfetto's protobuf, which is for whole traces only: "
            "choose another ending"
        )


@contextmanager
def written(path: str | os.PathLike[str], *, protobuf: bool = False) -> Iterator[Write]:
    """Give a function that writes bytes; the file takes its place when all went well.

    What ends in ``.gz`` or ``.zst`` is compressed. A file that is there stays as it is when
    something goes wrong. What is no file, as a pipe, is written to. Only ``protobuf`` may be called
    so.

    Raises
    ------
    ExportError
        The name is that of a form which is not written, or the file cannot be written.
    """
    if not protobuf:
        check_name(path)
    suffix = Path(os.path.realpath(path)).suffix.lower()
    with atomic_write(path) as draft, _opened(draft, suffix) as file:
        yield file.write


def _opened(path: Path, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        from isal import igzip_threaded

        return cast("BinaryIO", igzip_threaded.open(path, "wb"))  # type: ignore[no-untyped-call]
    if suffix == ".zst":
        import pyarrow as pa

        return cast("BinaryIO", pa.CompressedOutputStream(path, "zstd"))
    return path.open("wb")


def put_lines(put: Write, lines: Lines, *, first: bool = True) -> int:
    """Write lines, a batch at a time and without a copy.

    A line begins with the comma that parts it from the one before; ``first`` leaves out the first
    of them. What comes back is the number of lines.
    """
    count = 0
    for texts in lines:
        if not len(texts):
            continue
        _, offsets, text = texts.buffers()
        bounds = memoryview(offsets).cast("q" if "large" in str(texts.type) else "i")
        begin, end = bounds[texts.offset], bounds[texts.offset + len(texts)]
        put(memoryview(text)[begin + (first and not count) : end])
        count += len(texts)
    return count
