"""A file that is written completely or not at all, compressed according to its name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from profframe.errors import ExportError
from profframe.export.lines.batches import Lines
from profframe.show.units import ACTING_IN_LINES, escaped, visible_lines
from profframe.system.atomic_files import atomic_write

Write = Callable[[bytes | memoryview], object]
_PROTOBUF: Final = re.compile(r"\.(?:pftrace|perfetto-trace)(?:\.gz|\.zst)?\Z", re.IGNORECASE)
"""Names by which other tools recognise Perfetto's protobuf."""
_NEVER_ACT: Final = bytes((9, 10, *range(32, 127)))
"""Bytes of ASCII that act nowhere."""


def is_protobuf(path: str | os.PathLike[str]) -> bool:
    """Whether a file has a name for Perfetto's protobuf.

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
    """Give a function that writes bytes; the file takes its place once everything is written.

    A name that ends in ``.gz`` or ``.zst`` is compressed. An existing file is unchanged after an
    error. What is not a file, such as a pipe, is written to directly. Only ``protobuf`` may have
    such a name.

    Raises
    ------
    ExportError
        The name is for another format, or the file cannot be written.
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


def put_lines(
    put: Write, lines: Lines, *, first: bool = True, shown: Callable[[str], str] = escaped
) -> int:
    """Write lines, a batch at a time.

    A line begins with the comma that separates it from the previous one; ``first`` leaves out the
    first comma. ``shown`` gives what stands for a character that acts on a terminal, or reorders or
    hides text. Returns the number of lines.
    """
    count = 0
    for texts in lines:
        if not len(texts):
            continue
        text = _text(texts)
        if bytes(text).translate(None, _NEVER_ACT):  # a look at each byte, which most pass
            text = _text(_plain(texts, shown))
        put(text[first and not count :])
        count += len(texts)
    return count


def _text(texts: Any) -> memoryview:
    """The text of an array of lines, without a copy."""
    _, offsets, text = texts.buffers()
    bounds = memoryview(offsets).cast("q" if "large" in str(texts.type) else "i")
    return memoryview(text)[bounds[texts.offset] : bounds[texts.offset + len(texts)]]


def _plain(texts: Any, shown: Callable[[str], str]) -> Any:
    """Lines without characters that act; those that have none stay as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    acts = pc.match_substring_regex(texts, ACTING_IN_LINES)
    if not pc.any(acts).as_py():
        return texts
    lines = [visible_lines(line, shown) for line in texts.filter(acts).to_pylist()]
    return pc.replace_with_mask(texts, acts, pa.array(lines, texts.type))
