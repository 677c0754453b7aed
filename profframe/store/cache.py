"""Stores of loaded files, found by the content of the files.

A file is known by its size, times and number, so that it need not be hashed each time. A file that
is written again at once can have the same times: so these count only if the file was `_SETTLED_NS`
old when it was hashed. On Windows, where a file has no time of its last change that nobody can set,
one that is replaced in place and given its old time back is not noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from profframe.errors import ExportError, SourceError, StoreError
from profframe.store import manifest
from profframe.store.facts_version import facts_version
from profframe.store.layout import checksum, places, temporary
from profframe.store.leftovers import remove_drafts
from profframe.store.member_files import IN_USE
from profframe.system.atomic_files import atomic_write
from profframe.system.holds import alone

DOWNLOAD: Final = "url-"
"""What the name of a folder with the copy of a remote file begins with."""
_STORE: Final = "store-"
_NOTES: Final = "seen"
_MOST_NOTES: Final = 10_000
_SETTLED_NS: Final = 3 * 10**9
"""The coarsest times of files are 2 seconds apart (FAT), and clocks differ a little."""
_HAS_OWNERS: Final = hasattr(os, "geteuid")
"""Windows has none: what is in the profile of a user is private there."""
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(folder: Path) -> Path:
    """The private folder of a cache, which may be named by a link that this user made."""
    is_own_link = folder.is_symlink() and _is_own(folder.lstat())
    return _private_folder(folder.resolve() if is_own_link else folder)


def _private_folder(folder: Path) -> Path:
    """A folder that only this user can write to, created if it does not exist.

    Any other user who can write there could forge the contents of files, and choose where this
    process writes.

    Raises
    ------
    StoreError
        It is a link, it belongs to somebody else, or others can write to it.
    ExportError
        It cannot be created.
    """
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{folder}: cannot be created: {error.strerror}") from error
    _check_private(folder)
    return folder


def _check_private(path: Path) -> None:
    """Raise an error for what another user has made, or could change; nothing to say if missing."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise StoreError(f"{path}: a link; a cache is read and written only at its own place")
    if not _is_own(status):
        raise StoreError(f"{path}: belongs to another user; use a folder of your own as cache")
    if _HAS_OWNERS and status.st_mode & _WRITABLE_BY_OTHERS:
        raise StoreError(f"{path}: others can write to this cache; chmod go-w it, or use another")


def _is_own(status: os.stat_result) -> bool:
    return not _HAS_OWNERS or status.st_uid == os.geteuid()


def store_of(
    folder: Path,
    paths: Sequence[Path],
    run: str | None,
    rank: int | None,
    facts: str,
    *,
    urls: Mapping[Path, str],
) -> Path:
    """Path of the store for these files in a cache; ``facts`` stands for their fact options.

    Copies of remote files are known by their URLs, wherever they are.

    The cache is a `cache_folder`; raises an error if the store there is not private.
    """
    key = hashlib.blake2b(digest_size=16)
    key.update(repr((facts_version(), run, rank)).encode())
    key.update(facts.encode("utf-8", "surrogatepass"))
    for path in paths:
        name = urls.get(path) or path.absolute()
        key.update(f"{name}\0{_content(folder, path)}\0".encode("utf-8", "surrogateescape"))
    path = folder / f"{_STORE}{key.hexdigest()}"
    _check_private(path)
    return path


def signature(path: Path) -> list[int]:
    """What differs after a file has changed, but for a change right after another one."""
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    return [status.st_size, *times, status.st_ino, status.st_dev]


def _content(folder: Path, path: Path) -> str:
    """Hash of the file's content; a file that has not changed is not read again."""
    now_ns = time.time_ns()
    seen = signature(path)
    name = hashlib.blake2b(os.fsencode(path.absolute()), digest_size=16).hexdigest()
    note = _private_folder(folder / _NOTES) / f"{name}.json"
    _check_private(note)
    try:
        entry = json.loads(note.read_text())
        if entry["seen"] == seen and entry["is_settled"] is True:
            return str(entry["content"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    is_settled = now_ns - max(seen[1:3]) >= _SETTLED_NS
    with atomic_write(note) as fresh:
        fresh.chmod(0o600)
        fresh.write_text(json.dumps({"seen": seen, "content": content, "is_settled": is_settled}))
    return content


def use(path: Path) -> bool:
    """Whether a cache has a store, which is then its last used one; a damaged one is removed."""
    if not path.is_dir():
        return False
    if not _is_sound(path):
        _remove(path)
        return False
    with suppress(OSError):  # another process has removed it, or the disk can only be read
        os.utime(path / IN_USE)
    return True


def _is_sound(path: Path) -> bool:
    """Whether each file is as it was written: a crash of the machine can leave anything."""
    try:
        files = [
            (place.folder / name, file)
            for place in places(path)
            for name, file in manifest.read(place.folder).files.items()
        ]
        return bool(files) and all(
            path.stat().st_size == file.size and checksum(path) == file.sha256
            for path, file in files
        )
    except (StoreError, OSError):
        return False


def use_copy(entry: Path, file: Path, size: int | None) -> bool:
    """Whether a cache has the copy of a remote file, which is then its last used one.

    Parameters
    ----------
    entry
        The folder that the cache has for it.
    file
        The copy in that folder; one of another size is removed.
    size
        Bytes that it has; None if that is not known.
    """
    _check_private(entry)
    if not entry.is_dir():
        return False
    if not file.is_file() or size not in {None, file.stat().st_size}:
        _remove(entry)
        return False
    with suppress(OSError):  # another process has removed it, or the disk can only be read
        os.utime(entry / IN_USE)
    return True


def publish(draft: Path, path: Path) -> None:
    """Let a cache have a store, or a copy, that was written beside it."""
    (draft / IN_USE).touch(0o600)
    with suppress(OSError):  # another process was faster
        draft.rename(path)


@dataclass(frozen=True, slots=True)
class Entry:
    """A store in a cache, or the copy of a remote file."""

    path: Path
    bytes: int
    used_ns: int
    """When it was last used."""

    @property
    def is_download(self) -> bool:
        """Whether it is the copy of a remote file."""
        return self.path.name.startswith(DOWNLOAD)


def entries(folder: Path) -> list[Entry]:
    """What a cache has, the last used first; nothing if there is no such folder."""
    stores: list[Entry] = []
    for path in (*folder.glob(f"{_STORE}*"), *folder.glob(f"{DOWNLOAD}*")):
        with suppress(OSError):  # another process has removed it
            files = [file for file in path.rglob("*") if file.is_file()]
            bytes_ = sum(file.stat().st_size for file in files)
            stores.append(Entry(path, bytes_, _used_ns(path)))
    return sorted(stores, key=lambda entry: -entry.used_ns)


def _used_ns(path: Path) -> int:
    mark = path / IN_USE
    return (mark if mark.exists() else path).stat().st_mtime_ns


def trim(folder: Path, most_bytes: int) -> None:
    """Remove stores until a cache is no larger than this: the largest, if larger, or the oldest.

    What a process has read stays until that process ends, or reads much else.
    """
    remove_drafts(folder)
    stores = sorted(entries(folder), key=lambda entry: (entry.bytes <= most_bytes, entry.used_ns))
    total = sum(entry.bytes for entry in stores)
    for entry in stores:
        if total <= most_bytes:
            break
        if _is_removed_unused(entry.path):
            total -= entry.bytes
    notes = [*folder.glob(f"{_NOTES}/*")]
    if len(notes) > _MOST_NOTES:  # without its note, a file is hashed again
        for note in notes:
            note.unlink(missing_ok=True)


def clear(folder: Path) -> list[Entry]:
    """Remove all stores of a cache that no process reads, and what is known of files."""
    _check_private(folder)
    remove_drafts(folder)
    removed = [entry for entry in entries(folder) if _is_removed_unused(entry.path)]
    shutil.rmtree(folder / _NOTES, ignore_errors=True)
    return removed


def _is_removed_unused(path: Path) -> bool:
    with alone(path / IN_USE) as is_alone:
        return is_alone and _remove(path)


def _remove(path: Path) -> bool:
    """Remove a store: it is whole, or is a draft, which the next process removes."""
    with suppress(OSError), temporary(path.parent) as draft:
        path.rename(draft / path.name)
        return True
    return False
