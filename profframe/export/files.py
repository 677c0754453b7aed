"""A file that is there whole or not at all, compressed as its name says."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from profframe.errors import ExportError

Write = Callable[[bytes | memoryview], object]


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[Write]:
    """Give a function that writes bytes; the file takes its place when all went well.

    Parameters
    ----------
    path
        Where to write; what ends in ``.gz`` or ``.zst`` is compressed. A file that is there is
        replaced at the end, and stays as it is when something goes wrong.

    Raises
    ------
    ExportError
        The file cannot be written.
    """
    target = Path(path)
    draft = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        try:
            with _opened(draft, target.suffix.lower()) as file:
                yield file.write
            draft.replace(target)
        except OSError as error:
            raise ExportError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def _opened(path: Path, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        from isal import igzip_threaded

        return cast("BinaryIO", igzip_threaded.open(path, "wb"))  # type: ignore[no-untyped-call]
    if suffix == ".zst":
        import pyarrow as pa

        return cast("BinaryIO", pa.CompressedOutputStream(path, "zstd"))
    return path.open("wb")
