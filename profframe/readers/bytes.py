"""From a file to decompressed blocks of bytes, whatever its name ends in."""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from profframe.errors import SourceError

BLOCK: Final = 4 << 20
"""Bytes that are read, and at most given out, at once."""

Progress = Callable[[int, int], None]
"""Called with the bytes of the file that are read, and all of them."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(slots=True)
class ByteSource:
    """One file, read once from front to back.

    ``damage`` says, once the blocks are read, why the stream ended early; None for a sound one.
    """

    path: Path
    progress: Progress | None = None
    damage: str | None = field(default=None, init=False)

    def blocks(self) -> Iterator[bytes]:
        """Decompressed blocks in order, read ahead by a thread.

        Raises
        ------
        SourceError
            When the file cannot be opened or read.
        """
        yield from _read_ahead(self._decompressed())

    def _decompressed(self) -> Iterator[bytes]:
        raw = self._raw()
        first = next(raw, b"")
        if first.startswith(_GZIP):
            yield from self._inflate(first, raw)
        elif first.startswith(_ZSTD):
            yield from self._unzstd(first, raw)
        else:
            yield first.removeprefix(_BOM)
            yield from raw

    def _raw(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                size = self.path.stat().st_size
                done = 0
                while block := file.read(BLOCK):
                    yield block
                    done += len(block)
                    if self.progress is not None:
                        self.progress(done, size)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _inflate(self, first: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
        """Gzip, member after member; what follows the last one is padding or damage."""
        from isal import isal_zlib

        member = isal_zlib.decompressobj(wbits=31)
        data = first
        while True:
            try:
                out = member.decompress(data, max_length=BLOCK)
            except zlib.error as error:
                self.damage = f"the gzip stream is damaged: {error}"
                return
            if out:
                yield out
            if member.eof:
                data = member.unused_data.lstrip(b"\0")
                while not data:
                    if not (padding := next(raw, b"")):
                        return
                    data = padding.lstrip(b"\0")
                if not data.startswith(_GZIP[: len(data)]):
                    self.damage = f"{len(data)} bytes after the gzip stream are not gzip"
                    return
                member = isal_zlib.decompressobj(wbits=31)
            elif member.unconsumed_tail:
                data = member.unconsumed_tail
            elif not (data := next(raw, b"")):
                self.damage = "the gzip stream ends early"
                return

    def _unzstd(self, first: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(_Readable(first, raw), mode="r"), "zstd")
        while True:
            try:
                out = stream.read(
                    BLOCK >> 2
                )  # what a damaged stream still gives is lost by the read
            except OSError as error:
                self.damage = f"the zstd stream is damaged or ends early: {error}"
                return
            if not out:
                return
            yield out


class _Readable:
    """An iterator of blocks, as the file object that Arrow wants."""

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


def _read_ahead(blocks: Iterator[bytes], depth: int = 2) -> Iterator[bytes]:
    """The same blocks, made by a thread of their own, at most `depth` ahead."""
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: bytes | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for block in blocks:
                if not put(block):
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 -- handed to the reading thread
            put(error)

    thread = threading.Thread(target=work, name="profframe-read-ahead", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
