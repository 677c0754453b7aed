"""Folders below a URL, read by ranges of bytes: as much of a path as readers of a store need.

A folder is listed once, and a file is read as it was then. Nothing else is opened: a question gets
files of the store, or none.
"""

from __future__ import annotations

import hashlib
import io
import stat
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path, PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, cast

from profframe.errors import (
    MissingExtraError,
    ProfframeError,
    SourceError,
    StoreError,
    without_secrets,
)
from profframe.remote.file_systems import (
    file_system,
    is_other_version,
    reason_of,
    version_of,
)
from profframe.remote.urls import is_of_web

_TAIL: Final = 128 << 10
"""Bytes at the end of a file that are kept: footers are there."""
_PAST: Final = 10**9
"""Seconds, up to 2001: DuckDB keeps nothing of a file that may just have changed."""
_MARK: Final = 8
"""Bytes after a footer."""
_MOST_TAILS: Final = 64 << 20
_MOST_FAILURES: Final = 8
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as it was listed."""

    size: int
    version: str | None

    @property
    def stamp(self) -> int:
        """A number that differs for another version."""
        text = f"{self.version} {self.size}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


@dataclass(frozen=True, slots=True)
class _Folder:
    files: Mapping[str, Entry]
    folders: frozenset[str]


class Tree:
    """Folders below a URL, listed when they are first needed, and the ends of files that were read.

    Parameters
    ----------
    url
        The folder, with its secrets.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.shown = without_secrets(url).rstrip("/")
        self._folders: dict[str, _Folder] = {}
        self._tails: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._failures: list[StoreError] = []
        self._lock = threading.Lock()
        self._is_whole = False
        with self.errors():
            self.files, root = file_system(url)
            self.files.invalidate_cache()
        self.root = str(root).rstrip("/")

    def __reduce__(self) -> tuple[type[Tree], tuple[str], dict[str, Any]]:
        return type(self), (self._url,), {"_folders": self._folders, "_is_whole": self._is_whole}

    def __repr__(self) -> str:
        return f"Tree({self.shown!r})"

    @property
    def path(self) -> RemotePath:
        """The folder itself."""
        return RemotePath(self, self.root)

    @property
    def protocol(self) -> str:
        """What the names of its files begin with."""
        return self.shown.partition("://")[0]

    def path_at(self, path: str) -> RemotePath:
        """A path by that of the file system."""
        return RemotePath(self, path)

    def fresh(self) -> Tree:
        """The same folder, to be listed again."""
        return Tree(self._url)

    def name(self, path: str) -> str:
        """What people, and questions, call a file or folder."""
        rest = path.removeprefix(self.root).lstrip("/")
        return f"{self.shown}/{rest}" if rest else self.shown

    def path_of(self, name: str) -> str | None:
        """The path of a file by that name; None for the name of anything else."""
        if not name.startswith(f"{self.shown}/"):
            return None
        path = f"{self.root}/{name[len(self.shown) + 1 :]}"
        return None if self.entry(path) is None else path

    def walk(self) -> Mapping[str, _Folder]:
        """All folders below, listed at once, by their paths."""
        if not self._is_whole:
            with self.errors():
                listed = self.files.find(self.root, detail=True)
            self._folders = dict(_folders(self.root, self._entries(listed.values())))
            self._is_whole = True
        return self._folders

    def folder(self, path: str) -> _Folder:
        """The files and folders in a folder; none if it does not exist."""
        if path in self._folders or self._is_whole:
            return self._folders.get(path) or _Folder({}, frozenset())
        try:
            with self.errors():
                listed = self.files.ls(path, detail=True)
        except FileNotFoundError:
            listed = []
        inside = [entry for entry in listed if str(entry["name"]).rstrip("/") != path]
        files = {name.rpartition("/")[2]: entry for name, entry in self._entries(inside)}
        names = (_plain(entry["name"]) for entry in inside if entry["type"] == "directory")
        result = _Folder(files, frozenset(name.rpartition("/")[2] for name in names))
        self._folders[path] = result
        return result

    def entry(self, path: str) -> Entry | None:
        """A file as it was listed; None if there was none."""
        folder, _, name = path.rpartition("/")
        return self.folder(folder).files.get(name)

    def read(self, path: str, start: int, end: int) -> bytes:
        """Some bytes of a file.

        Raises
        ------
        StoreError
            They cannot be read, or the file is another one now.
        """
        entry = self.entry(path)
        if entry is None:
            raise FileNotFoundError(path)
        end = min(end, entry.size)
        if start >= end:
            return b""
        tail = self._tail(path, start, end)
        if tail is not None:
            return tail
        with self.errors(path):
            data = self._range(path, start, end, entry)
            if len(data) != end - start:
                raise StoreError(
                    f"ends after {start + len(data):,} of {entry.size:,} bytes: it was written "
                    "again since the store was opened; load it again"
                )
        if end >= entry.size - _MARK and end - start <= _TAIL:
            self._keep(path, start, data)
        return data

    def _range(self, path: str, start: int, end: int, entry: Entry) -> bytes:
        from fsspec.spec import AbstractBufferedFile

        is_web = is_of_web(self.shown)
        more = {"size": entry.size} if is_web else {}  # it would be asked for each time
        with self.files.open(path, "rb", cache_type="none", **more) as file:
            if isinstance(file, AbstractBufferedFile) and file.size is not None:
                now = None if is_web else version_of(self.files, file.details)
                if now is not None and is_other_version(now, entry.version):
                    raise FileNotFoundError(path)
                return bytes(file._fetch_range(start, end))  # noqa: SLF001 - what subclasses define: it is safe for threads, and checks the etag where there is one
        return bytes(self.files.cat_file(path, start=start, end=end))

    def _tail(self, path: str, start: int, end: int) -> bytes | None:
        with self._lock:
            begin, data = self._tails.get(path, (end, b""))
            if not begin <= start < end <= begin + len(data):
                return None
            self._tails.move_to_end(path)
        return data[start - begin : end - begin]

    def _keep(self, path: str, start: int, data: bytes) -> None:
        with self._lock:
            if start < self._tails.get(path, (start + 1,))[0]:
                self._tails[path] = start, data
            while sum(len(tail) for _, tail in self._tails.values()) > _MOST_TAILS:
                self._tails.popitem(last=False)

    def failure(self) -> StoreError | None:
        """Why the last reading failed that has not been reported yet."""
        with self._lock:
            failure = self._failures[-1] if self._failures else None
            self._failures.clear()
        return failure

    @contextmanager
    def errors(self, path: str | None = None) -> Iterator[None]:
        """Turn errors into a StoreError that names the file; of one that is missing, none."""
        where = self.shown if path is None else self.name(path)
        try:
            yield
        except FileNotFoundError as error:
            if isinstance(error.__cause__, SourceError):
                raise self._failed(where, str(error.__cause__)) from None
            if "FileExpired" in type(error).__name__ or path is not None:
                why = "removed or written again since the store was opened; load it again"
                raise self._failed(where, why) from None
            raise
        except MissingExtraError:
            raise
        except ProfframeError as error:
            raise self._failed(where, str(error).removeprefix(f"{self.shown}: ")) from None
        except Exception as error:  # noqa: BLE001 - each has its own, which show the whole URL
            raise self._failed(where, reason_of(self._url, error)) from None

    def _failed(self, where: str, why: str) -> StoreError:
        error = StoreError(f"{where}: {why}")
        with self._lock:
            self._failures[_MOST_FAILURES - 1 :] = [error]
        return error

    def _entries(self, listed: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Entry]]:
        for entry in listed:
            if entry["type"] != "file":
                continue
            with self.errors(_plain(entry["name"])):
                about = entry if entry.get("size") is not None else self.files.info(entry["name"])
                yield _plain(entry["name"]), Entry(about["size"], version_of(self.files, about))


def _plain(name: object) -> str:
    return str(name).rstrip("/")


def _folders(root: str, entries: Iterable[tuple[str, Entry]]) -> Iterator[tuple[str, _Folder]]:
    """Folders from all files below a root."""
    files: dict[str, dict[str, Entry]] = defaultdict(dict)
    folders: dict[str, set[str]] = defaultdict(set)
    for path, entry in entries:
        folder, _, name = path.rpartition("/")
        files[folder][name] = entry
        while folder != root and folder:
            parent, _, name = folder.rpartition("/")
            if name in folders[parent]:
                break
            folders[parent].add(name)
            folder = parent
    for folder in files.keys() | folders.keys():
        yield folder, _Folder(files.get(folder, {}), frozenset(folders.get(folder, ())))


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A path below a URL, with those methods of `pathlib.Path` that reading needs.

    As text it is what people and questions call it: its URL without secrets.
    """

    tree: Tree = field(repr=False)
    path: str

    def __str__(self) -> str:
        return self.tree.name(self.path)

    def __truediv__(self, name: str) -> RemotePath:
        return self if name == "." else RemotePath(self.tree, f"{self.path}/{name}")

    def __lt__(self, other: RemotePath) -> bool:
        return self.path < other.path

    def as_path(self) -> Path:
        """The same object, for those who only read, and for whom it is a path like others."""
        return cast("Path", self)

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> RemotePath:
        """The folder that it is in."""
        return RemotePath(self.tree, self.path.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """The path with another last name."""
        return self.parent / name

    def absolute(self) -> RemotePath:
        """The path itself."""
        return self

    resolve = absolute

    def relative_to(self, other: RemotePath | Path) -> PurePosixPath:
        """The path from a folder above it."""
        far = remote(other)
        return PurePosixPath(self.path).relative_to(str(other) if far is None else far.path)

    def names(self) -> frozenset[str]:
        """Names of the files in a folder."""
        return frozenset(self.tree.folder(self.path).files)

    def folders(self) -> frozenset[str]:
        """Names of the folders in a folder."""
        return self.tree.folder(self.path).folders

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Files in a folder whose names match a pattern."""
        for name in sorted(self.names()):
            if PurePosixPath(name).match(pattern):
                yield self / name

    def exists(self) -> bool:
        """Whether there is such a file, or a folder with anything in it."""
        inside = self.tree.folder(self.path)
        return self.is_file() or bool(inside.files or inside.folders)

    def is_file(self) -> bool:
        """Whether there is such a file."""
        return self.tree.entry(self.path) is not None

    def is_symlink(self) -> bool:
        """False: there are no links."""
        return False

    def stat(self) -> SimpleNamespace:
        """Size, and a number in place of its time that differs for another version."""
        entry = self.tree.entry(self.path)
        if entry is None:
            raise FileNotFoundError(str(self))
        return SimpleNamespace(
            st_size=entry.size, st_mtime_ns=entry.stamp, st_mode=stat.S_IFREG | 0o444
        )

    def open(self, mode: str = "rb") -> io.RawIOBase:  # noqa: ARG002 - as of a path
        """The file, to read by ranges."""
        return RemoteReader(self.tree, self.path, self.stat().st_size)

    def read_bytes(self) -> bytes:
        """All of the file."""
        return self.tree.read(self.path, 0, self.stat().st_size)


def remote(path: object) -> RemotePath | None:
    """A path, if it is one below a URL."""
    return path if isinstance(path, RemotePath) else None


class RemoteReader(io.RawIOBase):
    """A file read by ranges; each thread has its own position."""

    def __init__(self, tree: Tree, path: str, size: int) -> None:
        super().__init__()
        self._tree, self._path, self._size = tree, path, size
        self._thread = threading.local()

    def readable(self) -> bool:  # noqa: D102 - as of any file
        return True

    def seekable(self) -> bool:  # noqa: D102
        return True

    def tell(self) -> int:  # noqa: D102
        position: int = getattr(self._thread, "position", 0)
        return position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:  # noqa: D102
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}
        self._thread.position = starts[whence] + offset
        return self.tell()

    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def read(self, size: int | None = -1) -> bytes:  # noqa: D102
        start = self.tell()
        end = self._size if size is None or size < 0 else start + size
        data = self._tree.read(self._path, start, end)
        self._thread.position = start + len(data)
        return data

    def readinto(self, buffer: Any) -> int:  # noqa: D102
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def for_database(tree: Tree) -> Any:
    """A file system of fsspec that opens files of a tree, by their names, and nothing else."""
    from datetime import datetime

    from fsspec import AbstractFileSystem

    class Closed(AbstractFileSystem):  # type: ignore[misc]
        protocol = tree.protocol
        cachable = False

        def _path(self, name: str) -> str:
            path = tree.path_of(name)
            if path is None:
                raise FileNotFoundError(name)
            return path

        def open(self, path: str, mode: str = "rb", **_: object) -> RemoteReader:
            if mode != "rb":
                raise PermissionError(f"{path}: only for reading")
            own = self._path(path)
            return RemoteReader(tree, own, self.size(path))

        def size(self, path: str) -> int:
            entry = tree.entry(self._path(path))
            return 0 if entry is None else entry.size

        def modified(self, path: str) -> datetime:
            entry = tree.entry(self._path(path))
            seconds = 0 if entry is None else entry.stamp % _PAST
            return datetime.fromtimestamp(seconds, UTC)

        def glob(self, path: str, **_: object) -> list[str]:
            return [path] if tree.path_of(path) else []

        def exists(self, path: str, **_: object) -> bool:
            return tree.path_of(path) is not None

        isfile = exists

        def unstrip_protocol(self, name: str) -> str:
            return name

    return Closed()
