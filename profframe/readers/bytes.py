"""Read a file as decompressed blocks of bytes, whatever its suffix."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar, cast

import pyarrow as pa
from isal import igzip_lib, isal_zlib

from profframe.errors import SourceError

BLOCK: Final = 256 << 10
"""Bytes that are read at once and most bytes of a block; few enough for a processor's cache."""

Progress = Callable[[int, int], None]
"""Called with the number of bytes read, and the size of the file."""

_CHUNK: Final = 1 << 10
_CHECKSUM: Final = 8
_PARTS: Final = 3
"""Parent folder, folder and file, from which runs are named."""
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(slots=True)
class ByteSource:
    """One file, opened once and read from front to back, as a pipe can be.

    ``damage`` is the reason why the stream ended early, once the blocks are read, or None.
    """

    path: Path
    progress: Progress | None = None
    damage: str | None = field(default=None, init=False)
    _read: Iterator[bytes] = field(init=False)
    _head: bytes | None = field(default=None, init=False)
    """The first bytes of the file, if they are read already."""

    def __post_init__(self) -> None:
        self._read = self._raw()

    def beginning(self) -> Beginning:
        """The first bytes of the file, to pick its reader; `blocks` still starts with them.

        Raises
        ------
        SourceError
            The file cannot be opened or read.
        """
        if self._head is None:
            self._head = next(self._read, b"")
        raw = self._head[:_CHUNK]
        if raw.startswith(_GZIP):
            return Beginning(
                _decompressed_head(isal_zlib.decompressobj(wbits=31).decompress, raw), True
            )
        if raw.startswith(_ZSTD):
            stream = pa.CompressedInputStream(pa.BufferReader(raw), "zstd")
            return Beginning(_decompressed_head(stream.read, _CHUNK), True)
        return Beginning(raw, False)

    def close(self) -> None:
        """Close the file, read or not."""
        cast("Generator[bytes, None, None]", self._read).close()

    @contextmanager
    def file(self) -> Iterator[Path]:
        """A file that can be read again: this one, or a copy of a pipe's content.

        Raises
        ------
        SourceError
            It cannot be read, or there is no room for the copy.
        """
        if not is_pipe(self.path):
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="profframe-") as folder:
            copy = Path(folder, *self.path.absolute().parts[1:][-_PARTS:])
            try:
                copy.parent.mkdir(parents=True, exist_ok=True)
                with copy.open("wb") as out:
                    out.writelines(self._all())
            except OSError as error:
                reason = error.strerror or error
                raise SourceError(f"{self.path}: cannot be copied to {folder}: {reason}") from error
            try:
                yield copy
            except SourceError as error:
                raise type(error)(str(error).replace(str(copy), str(self.path))) from error

    def _all(self) -> Iterator[bytes]:
        head, self._head = self._head, None
        return self._read if head is None else itertools.chain((head,), self._read)

    def blocks(self) -> Iterator[bytes]:
        """Decompressed blocks in order.

        Raises
        ------
        SourceError
            The file cannot be opened or read.
        """
        first = True
        for block in self._decompressed():
            yield block.removeprefix(_BOM) if first else block
            first = False

    def _decompressed(self) -> Iterator[bytes]:
        raw = self._all()
        first = next(raw, b"")
        if first.startswith(_GZIP):
            yield from self._inflate(first, raw)
        elif first.startswith(_ZSTD):
            yield from self._unzstd(first, raw)
        else:
            yield first
            yield from raw

    def _raw(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                position = 0
                while block := file.read(BLOCK):
                    yield block
                    position += len(block)
                    if self.progress is not None:
                        self.progress(position, size)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _inflate(self, first: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
        """Gzip, member by member; what follows the last one is padding or damage."""
        broken = cast("type[Exception]", igzip_lib.IsalError)  # its stub has an instance
        member = isal_zlib.decompressobj(wbits=31)
        out: list[bytes] = []
        for data in _chunks(first, raw):
            rest = data.lstrip(b"\0") if member.eof else data
            while rest:
                if member.eof:
                    if not rest.startswith(_GZIP[: len(rest)]):
                        self.damage = "what follows the gzip stream is not gzip"
                        break
                    member = isal_zlib.decompressobj(wbits=31)
                try:
                    out.append(member.decompress(rest))
                except broken as error:
                    self.damage = f"the gzip stream is damaged: {error}"
                    break
                rest = member.unused_data.lstrip(b"\0") if member.eof else b""
            if self.damage is not None:
                break
            if sum(map(len, out)) >= BLOCK:
                yield b"".join(out)
                out = []
        else:
            if not member.eof:
                self.damage = "the gzip stream ends early"
        if text := b"".join(out):
            yield text

    def _unzstd(self, first: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
        stream = pa.CompressedInputStream(pa.PythonFile(_Readable(first, raw), mode="r"), "zstd")
        while True:
            try:
                out = stream.read(BLOCK >> 2)  # a read of a damaged stream loses its output
            except OSError as error:
                self.damage = f"the zstd stream is damaged or ends early: {error}"
                return
            if not out:
                return
            yield out


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first bytes of a file, decompressed."""

    plain: bytes
    is_compressed: bool


def is_pipe(path: Path) -> bool:
    """Whether a path can be read only once.

    Examples
    --------
    >>> is_pipe(Path("examples/cpu_training.json.gz"))
    False
    """
    return path.exists() and not path.is_file() and not path.is_dir()


_Argument = TypeVar("_Argument", bytes, int)


def _decompressed_head(decompress: Callable[[_Argument], bytes], argument: _Argument) -> bytes:
    """Decompressed bytes; none if the stream is damaged."""
    try:
        return decompress(argument)
    except (OSError, cast("type[Exception]", igzip_lib.IsalError)):
        return b""


def _chunks(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in small chunks, since a damaged chunk is lost as a whole.

    The end is a chunk of its own, so that a wrong checksum there costs nothing.
    """
    pending = b""
    for block in itertools.chain((first,), rest):
        data = pending + block
        end = max(0, len(data) - _CHECKSUM)
        for start in range(0, end, _CHUNK):
            yield data[start : min(start + _CHUNK, end)]
        pending = data[end:]
    yield pending


class _Readable:
    """An iterator of blocks as a file object for Arrow."""

    def __init__(self, first: bytes, rest: Iterator[bytes]) -> None:
        self._buffer = first
        self._rest = rest
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        if not self._buffer:
            self._buffer = next(self._rest, b"")
        out = self._buffer if size < 0 else self._buffer[:size]
        self._buffer = self._buffer[len(out) :]
        return out

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def flush(self) -> None:
        """Nothing to flush: the stream is only read."""
