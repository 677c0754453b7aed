"""Read a file as decompressed blocks of bytes, whatever its suffix."""

from __future__ import annotations

import bz2
import codecs
import itertools
import lzma
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final, Protocol, cast

import pyarrow as pa
from isal import igzip_lib, isal_zlib

from profframe.errors import SourceError
from profframe.readers import archives
from profframe.readers.archives import Stream
from profframe.system.drafts import scratch

BLOCK: Final = 256 << 10
"""Bytes read at once, and maximum bytes of a block; few enough for a processor's cache."""

Progress = Callable[[int, int], None]
"""Called with the number of bytes read, and the size of the file."""


class Decoder(Protocol):
    """A decompressor of one stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether all input has been decompressed."""

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""

    def decompress(self, data: bytes, max_length: int = ...) -> bytes:
        """Some of the bytes."""


_CHUNK: Final = 1 << 10
_CHECKSUM: Final = 8
_PARTS: Final = 3
"""Parent folder, folder and file, from which runs are named."""
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_BOM: Final = b"\xef\xbb\xbf"
_DICTIONARY: Final = 256 << 20
"""Bytes that xz may take: no preset takes more than 65 MB."""
_SLOW: Final[Mapping[bytes, tuple[str, Callable[[], Decoder]]]] = MappingProxyType(
    {
        b"BZh": ("bzip2", bz2.BZ2Decompressor),
        b"\xfd7zXZ\x00": ("xz", partial(lzma.LZMADecompressor, memlimit=_DICTIONARY)),
    }
)
"""How files begin that modules of Python decompress."""
_WIDE: Final = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"{\x00", "utf-16-le"),
    (b"[\x00", "utf-16-le"),
    (b"\x00{", "utf-16-be"),
    (b"\x00[", "utf-16-be"),
)
"""How texts begin that are not in UTF-8."""
_BROKEN_STREAM: Final = (OSError, EOFError, ValueError, lzma.LZMAError)
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
            elif slow := _slow(raw):
                plain = slow[1]().decompress(self._head, _CHUNK)
        except (*_BROKEN_STREAM, _BROKEN):  # it is damaged, and tells nothing
            plain = b""
        is_compressed = raw.startswith((_GZIP, _ZSTD, *_SLOW))
        return Beginning(b"".join(_in_utf8(iter([plain]))), is_compressed)

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
        if self.path.exists() and not is_pipe(self.path):
            yield self.path
            return
        with scratch() as folder:
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
        elif slow := _slow(first):
            blocks = self._decompressed(blocks, *slow)
        blocks = _in_utf8(blocks)
        yield next(blocks, b"").removeprefix(_BOM)
        yield from blocks

    def _raw(self) -> Iterator[bytes]:
        try:
            with self._opened() as (file, size):
                position = 0
                while block := file.read(BLOCK):
                    yield block
                    position += len(block)
                    if self.progress is not None:
                        self.progress(position, size)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    @contextmanager
    def _opened(self) -> Iterator[tuple[IO[bytes], int]]:
        """The file, or the member of an archive, and its size."""
        try:
            file = self.path.open("rb")
        except NotADirectoryError:
            with archives.member(self.path, decompressed) as member:
                yield member
            return
        with file:
            yield file, os.fstat(file.fileno()).st_size

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

    def _decompressed(
        self, raw: Iterator[bytes], name: str, new: Callable[[], Decoder]
    ) -> Iterator[bytes]:
        """Streams, one after the other; what follows the last one is padding or damage."""
        decoder = new()
        for block in raw:
            data = block
            while True:
                if decoder.eof:
                    data = (decoder.unused_data or data).lstrip(b"\0")
                    if not data:
                        break
                    decoder = new()
                try:
                    out = decoder.decompress(data, BLOCK)
                except _BROKEN_STREAM as error:
                    self.damage = f"the {name} stream is damaged: {error}"
                    return
                if out:
                    yield out
                data = b""
                if decoder.needs_input and not decoder.eof:
                    break
        if not decoder.eof:
            self.damage = f"the {name} stream ends early"

    def _unzstd(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        stream = pa.CompressedInputStream(pa.PythonFile(Stream(raw), mode="r"), "zstd")
        while True:
            try:
                out = stream.read(BLOCK >> 2)  # a read of a damaged stream loses its output
            except OSError as error:
                self.damage = f"the zstd stream is damaged or ends early: {error}"
                return
            if not out:
                return
            yield out


def decompressed(path: Path) -> Iterator[bytes]:
    """The decompressed bytes of a file, as they are.

    Raises
    ------
    SourceError
        It cannot be opened or read.
    """
    return ByteSource(path).blocks()


def _slow(begin: bytes) -> tuple[str, Callable[[], Decoder]] | None:
    return next((of for mark, of in _SLOW.items() if begin.startswith(mark)), None)


def _in_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Text in UTF-8, from another form of Unicode if it begins so."""
    first = next(blocks, b"")
    codec = next((name for mark, name in _WIDE if first.startswith(mark)), None)
    if codec is None:
        return itertools.chain((first,), blocks)
    decoder = codecs.getincrementaldecoder(codec)("replace")
    texts = map(decoder.decode, itertools.chain((first,), blocks))
    return (text.encode("utf-8", "surrogatepass") for text in texts)


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
    """Bytes in small chunks, since a damaged chunk is lost as a whole.

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
