"""Archives of files, whose members are read as if the archive were a folder.

Nothing is unpacked to disk: a member is a path below that of its archive, and is read from there.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final

from profframe.errors import NotATraceError, SourceError

Blocks = Callable[[Path], Iterable[bytes]]
"""The decompressed bytes of a file."""

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_TAR: Final = slice(257, 262)
"""Place of a mark in the first header of a tar."""
ENDINGS: Final = (".zip", ".tar", ".tgz", ".tbz2", ".txz")
"""How names of archives end, before the ending of a compression."""
_SUFFIX: Final = re.compile(r"\.(?:zip|tgz|tbz2|txz|tar(?:\.\w{1,4})?)\Z", re.IGNORECASE)
_MOST_MEMBERS: Final = 10_000
_BROKEN: Final = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError),
    *(EOFError, RuntimeError),  # it is cut, or encrypted
)


class ArchiveError(NotATraceError):
    """A file is an archive, where a trace was expected."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(
            f"{path}: a {kind} archive, which only profframe.load reads: unpack it, and give the "
            "folder"
        )


def archive_kind(head: bytes) -> str | None:
    r"""The kind of archive that a file begins like, decompressed.

    Examples
    --------
    >>> archive_kind(b"PK\x03\x04"), archive_kind(b"[")
    ('zip', None)
    """
    if head.startswith(_ZIP):
        return "zip"
    return "tar" if head[_TAR] == b"ustar" else None


def without_suffix(name: str) -> str:
    """The name of an archive, or of a folder, without what says that it is one.

    Examples
    --------
    >>> without_suffix("job.tar.gz"), without_suffix("job.v2")
    ('job', 'job.v2')
    """
    return _SUFFIX.sub("", name)


def archive_of(path: Path) -> Path | None:
    """The archive that a path leads into."""
    return next((parent for parent in path.parents if parent.is_file()), None)


def members(path: Path, blocks: Blocks) -> list[Path]:
    """Paths of the members of an archive, by name; hidden files are left out.

    Raises
    ------
    SourceError
        It cannot be read, or has a member outside it, or too many.
    """
    with _naming(path):
        if _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                names = [info.filename for info in archive.infolist() if not info.is_dir()]
        else:
            names = [member.name for member in _tar_members(path, blocks)[1]]
    if len(names) > _MOST_MEMBERS:
        raise SourceError(f"{path}: more than {_MOST_MEMBERS:,} files in one archive: unpack it")
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\0" in name:
            raise SourceError(f"{path}: a member of the archive leads out of it: {name!r}")
    parts = (PurePosixPath(name).parts for name in sorted(names))
    return [path.joinpath(*own) for own in parts if not any(map(_is_hidden, own))]


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX"))


@contextmanager
def member(path: Path, blocks: Blocks) -> Iterator[tuple[IO[bytes], int]]:
    """The content of a member, and its size.

    Raises
    ------
    SourceError
        It cannot be read.
    """
    archive = archive_of(path)
    if archive is None:
        raise FileNotFoundError(2, "No such file or directory", str(path))
    name = path.relative_to(archive).as_posix()
    with _naming(path):
        if _is_zip(archive):
            with zipfile.ZipFile(archive) as zipped, zipped.open(name) as file:
                yield file, zipped.getinfo(name).file_size
            return
        files, entries = _tar_members(archive, blocks)
        for entry in entries:
            if PurePosixPath(entry.name) == PurePosixPath(name):
                yield files.extractfile(entry) or io.BytesIO(), entry.size
                return
    raise SourceError(f"{path}: not in the archive")


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(_ZIP)


def _tar_members(path: Path, blocks: Blocks) -> tuple[tarfile.TarFile, Iterator[tarfile.TarInfo]]:
    """A tar, read from front to back, and its files."""
    files = tarfile.open(fileobj=Stream(blocks(path)), mode="r|")  # noqa: SIM115 - of a stream
    return files, (entry for entry in files if entry.isfile())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise SourceError(f"{path}: the archive cannot be read: {error}; unpack it") from error


class Stream(io.RawIOBase):
    """An iterator of blocks as a file object."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._buffer = b""
        self._blocks = iter(blocks)

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes, at most those of one block."""
        if not self._buffer:
            self._buffer = next(self._blocks, b"")
        out = self._buffer if size < 0 else self._buffer[:size]
        self._buffer = self._buffer[len(out) :]
        return out

    def readable(self) -> bool:
        """Always."""
        return True
