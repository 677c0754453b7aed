"""Stores of loaded files, found by the content of the files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from profframe.errors import ExportError, SourceError
from profframe.store.facts_version import facts_version
from profframe.system.atomic_files import atomic_write


def store_of(
    folder: Path, paths: Sequence[Path], run: str | None, rank: int | None, facts: str
) -> Path:
    """Path of the store for these files in a cache; ``facts`` stands for their fact options."""
    key = hashlib.blake2b(digest_size=16)
    key.update(repr((facts_version(), run, rank)).encode())
    key.update(facts.encode("utf-8", "surrogatepass"))
    for path in paths:
        key.update(
            f"{path.absolute()}\0{_content(folder, path)}\0".encode("utf-8", "surrogateescape")
        )
    return folder / f"store-{key.hexdigest()}"


def _content(folder: Path, path: Path) -> str:
    """Hash of the file's content; a file that has not changed is not read again."""
    stat = path.stat()
    signature = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    name = hashlib.blake2b(os.fsencode(path.absolute()), digest_size=16).hexdigest()
    note = folder / "seen" / f"{name}.json"
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
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{note.parent}: cannot be created: {error.strerror}") from error
    with atomic_write(note) as draft:
        draft.write_text(json.dumps({"seen": signature, "content": content}))
    return content
