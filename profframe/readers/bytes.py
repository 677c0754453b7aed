"""Read a file as decompressed blocks of bytes, whatever its suffix."""

from __future__ import annotations

import io
import itertools
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
from isal import igzip_lib, isal_zlib

from profframe.errors import SourceError

BLOCK: Final = 256 << 10
"""Bytes read at once, and maximum bytes of a block; few enough for a processor's cache."""

Progress = Callable[[int, int], None]
"""Called with the number of bytes read, and the size of the file."""

_CHUNK: Final = 1 << 10
_CHECKSUM: Final = 8
_PARTS: Final = 3
"""Parent folder, folder and file, from which runs are named."""
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_BOM: Final = b"\xef\xbb\xbf"
_BROKEN: Final = cast("type[Exception]", igzip_lib.IsalError)  # its stub has an instance


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
    """The first bytes of the file, if they have been read already."""

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
        plain = raw = self._head[:_CHUNK]
        try:
            if raw.startswith(_GZIP):
                plain = isal_zlib.decompressobj(wbits=31).decompress(raw)
            elif raw.startswith(_ZSTD):
                plain = pa.CompressedInputStream(pa.BufferReader(raw), "zstd").read(_CHUNK)
        except (OSError, _BROKEN):  # it is damaged, and tells nothing
            plain = b""
        return Beginning(plain, raw.startswith((_GZIP, _ZSTD)))

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
        raw = self._all()
        first = next(raw, b"")
        blocks: Iterator[bytes] = itertools.chain((first,), raw)
        if first.startswith(_GZIP):
            blocks = self._inflate(blocks)
        elif first.startswith(_ZSTD):
            blocks = self._unzstd(blocks)
        yield next(blocks, b"").removeprefix(_BOM)
        yield from blocks

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

    def _inflate(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        """Gzip, member by member; what follows the last one is padding or damage."""
        member = isal_zlib.decompressobj(wbits=31)
        out: list[bytes] = []
        for data in _chunks(raw):
            rest = data.lstrip(b"\0") if member.eof else data
            while rest:
                if member.eof:
                    if not rest.startswith(_GZIP[: len(rest)]):
                        self.damage = "what follows the gzip stream is not gzip"
                        break
                    member = isal_zlib.decompressobj(wbits=31)
                try:
                    out.append(member.decompress(rest))
                except _BROKEN as error:
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

    def _unzstd(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        stream = pa.CompressedInputStream(pa.PythonFile(_Readable(raw), mode="r"), "zstd")
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


def _chunks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in small chunks, since a damaged chunk is lost as a whole.

    The end is a chunk of its own, so that a wrong checksum there costs nothing.
    """
    pending = b""
    for block in blocks:
        data = pending + block
        end = max(0, len(data) - _CHECKSUM)
        for start in range(0, end, _CHUNK):
            yield data[start : min(start + _CHUNK, end)]
        pending = data[end:]
    yield pending


class _Readable(io.RawIOBase):
    """An iterator of blocks as a file object for Arrow."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._buffer = b""
        self._blocks = blocks

    def read(self, size: int = -1, /) -> bytes:
        if not self._buffer:
            self._buffer = next(self._blocks, b"")
        out = self._buffer if size < 0 else self._buffer[:size]
        self._buffer = self._buffer[len(out) :]
        return out

    def readable(self) -> bool:
        return True
