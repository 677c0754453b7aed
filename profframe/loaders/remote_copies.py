"""Copies of files of URLs on this machine: in a cache, or as long as they are in use."""

from __future__ import annotations

import os
import shutil
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from profframe.errors import SourceError
from profframe.loaders.discovery import Files, Source
from profframe.readers.bytes import Progress
from profframe.remote.file_systems import RemoteFile, copied
from profframe.store.cache import cache_folder, publish, use_copy
from profframe.store.layout import temporary
from profframe.store.leftovers import remove_drafts
from profframe.store.member_files import IN_USE
from profframe.system.drafts import process_scratch
from profframe.system.holds import Hold

_ATTEMPTS = 3


def fetched(files: Files, cache: Source | None = None, progress: Progress | None = None) -> Files:
    """The files, those of URLs as copies on this machine.

    Parameters
    ----------
    files
        As `discover` returns them.
    cache
        Folder that keeps the copies for the next time: a file is copied again only if its version
        is another one. Without it, or without a version, they are removed after use.
    progress
        Called with the bytes copied so far and all bytes.

    Returns
    -------
    Files
        The same files; copies stay as long as this object does.

    Raises
    ------
    NoTraceFoundError
        A file is gone.
    SourceError
        One cannot be read, or there is no room for it.
    StoreError
        The cache is not private.
    """
    if not files.remote or files.copies:
        return files
    folder = None if cache is None else cache_folder(Path(cache))
    if folder is not None:
        remove_drafts(folder)
    sizes = [file.size or 0 for file in files.remote.values()]
    places: dict[Path, Path] = {}
    copies: list[object] = []
    starts = accumulate(sizes, initial=0)
    for (place, file), before in zip(files.remote.items(), starts, strict=False):
        note = _shifted(progress, before, sum(sizes))
        with _room(file):
            places[place], copy = _copy(place, file, folder, note)
        copies.append(copy)
    return replace(
        files,
        paths=tuple(places.get(path, path) for path in files.paths),
        optional=frozenset(places.get(path, path) for path in files.optional),
        remote={places[place]: file for place, file in files.remote.items()},
        copies=(*copies,),
    )


def _copy(
    place: Path, file: RemoteFile, folder: Path | None, progress: Callable[[int], None] | None
) -> tuple[Path, object]:
    """The path of a copy, and what keeps it."""
    if folder is None or file.version is None:
        copy = _Copy(process_scratch() / uuid.uuid4().hex)
        return copied(file, copy.folder, progress)[0], copy
    for _ in range(_ATTEMPTS):
        entry, path = folder / place.parts[0], folder / place
        hold = Hold.of(entry / IN_USE)
        if use_copy(entry, path, file.size):
            return path, hold
        del hold
        with temporary(folder) as draft:
            _, version = copied(file, draft, progress)
            if version != file.version:  # it has changed since it was listed
                return _copy(place, file, None, progress)
            publish(draft, entry)
    return _copy(place, file, None, progress)  # other processes remove it again and again


class _Copy:
    """A folder that is removed when this object is, but not by a fork of its process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        weakref.finalize(self, _remove, folder, os.getpid())


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _shifted(progress: Progress | None, before: int, total: int) -> Callable[[int], None] | None:
    """Progress over several files, from the bytes of one."""
    return None if progress is None else lambda done: progress(before + done, max(total, 1))


@contextmanager
def _room(file: RemoteFile) -> Iterator[None]:
    """A copy that cannot be written is an error that names the file."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise SourceError(f"{file.url}: cannot be copied to this machine: {why}") from None
