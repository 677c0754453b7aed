"""Stores of loaded files, found by the content of the files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from profframe.errors import ExportError, SourceError, StoreError
from profframe.store.facts_version import facts_version
from profframe.system.atomic_files import atomic_write

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(folder: Path) -> Path:
    """The private folder of a cache, which may be named by a link that this user made."""
    is_own_link = folder.is_symlink() and folder.lstat().st_uid == os.geteuid()
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
    if status.st_uid != os.geteuid():
        raise StoreError(f"{path}: belongs to another user; use a folder of your own as cache")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise StoreError(f"{path}: others can write to this cache; chmod go-w it, or use another")


def store_of(
    folder: Path, paths: Sequence[Path], run: str | None, rank: int | None, facts: str
) -> Path:
    """Path of the store for these files in a cache; ``facts`` stands for their fact options.

    The cache is a `cache_folder`; raises an error if the store there is not private.
    """
    key = hashlib.blake2b(digest_size=16)
    key.update(repr((facts_version(), run, rank)).encode())
    key.update(facts.encode("utf-8", "surrogatepass"))
    for path in paths:
        key.update(
            f"{path.absolute()}\0{_content(folder, path)}\0".encode("utf-8", "surrogateescape")
        )
    path = folder / f"store-{key.hexdigest()}"
    _check_private(path)
    return path


def _content(folder: Path, path: Path) -> str:
    """Hash of the file's content; a file that has not changed is not read again."""
    status = path.stat()
    signature = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    name = hashlib.blake2b(os.fsencode(path.absolute()), digest_size=16).hexdigest()
    note = _private_folder(folder / "seen") / f"{name}.json"
    _check_private(note)
    try:
        entry = json.loads(note.read_text())
        if entry["seen"] == signature:
            return str(entry["content"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    with atomic_write(note) as fresh:
        fresh.write_text(json.dumps({"seen": signature, "content": content}))
    return content
