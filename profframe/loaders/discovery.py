"""Recognise a source: a live profile, a store, or files of traces."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from profframe import store
from profframe.errors import (
    NoTraceFoundError,
    ParameterError,
    SourceError,
    StoreError,
    nearest,
)
from profframe.readers import torch as live
from profframe.remote.file_systems import RemoteFile, files_of, is_pattern
from profframe.remote.urls import is_of_web, is_url, last_names, local_path, was_url
from profframe.store.cache import DOWNLOAD

Source = str | os.PathLike[str]

_MOST_ENTRIES: Final = 10_000
_LEAST_ALIKE: Final = 0.7
"""Minimum similarity of a suggested path to the missing one."""
_STDIN: Final = Path("/dev/stdin")
"""Path for ``-``; a file of that name is ``./-``."""


@dataclass(frozen=True, slots=True)
class LiveProfile:
    """A live profile of torch."""

    profile: object


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """A store, or a part of one."""

    path: Path


@dataclass(frozen=True, slots=True)
class Files:
    """Files to read.

    Attributes
    ----------
    paths
        Their paths on this machine, of each file of a URL where its copy is, once it is `fetched`.
    optional
        Those of a directory or a glob, which may be no traces.
    remote
        Files of URLs whose copies are among the paths.
    copies
        What keeps the copies, as long as it exists.
    """

    paths: tuple[Path, ...]
    optional: frozenset[Path]
    remote: Mapping[Path, RemoteFile] = field(default_factory=dict)
    copies: tuple[object, ...] = ()

    def shown(self, path: Path) -> str:
        """What people call a file: its path, or its URL without secrets."""
        file = self.remote.get(path)
        return str(path) if file is None else file.shown


def discover(source: object) -> LiveProfile | StoreFolder | Files:
    """Recognise a source; what was recognised is returned as it is.

    Raises
    ------
    NoTraceFoundError
        A path leads nowhere.
    ParameterError
        The source is none of these, or a store among others.
    SourceError
        It is a `profframe.profile` in which no cycle has ended.
    """
    if isinstance(source, (Files, StoreFolder)):
        return source
    if isinstance(source, live.Recorder):
        return LiveProfile(source.finished_cycles())
    if live.knows(source):
        return LiveProfile(source)
    sources = paths_of(source)
    if folder := store_among(sources):
        return folder
    try:
        return trace_files(sources)
    except (NoTraceFoundError, ParameterError):
        if folder := store_among(sources):  # another process has made it meanwhile
            return folder
        raise


def store_among(sources: Sequence[Source]) -> StoreFolder | None:
    """The store that a single source is, at a path or a URL; None for anything else.

    Raises
    ------
    SourceError
        A URL cannot be read.
    """
    if len(sources) != 1 or not _may_be_store(sources[0]):
        return None
    try:
        root = store.root_at(sources[0])
        return StoreFolder(root) if store.is_store(root) else None
    except StoreError as error:  # of a URL: nothing says yet that it is a store
        raise SourceError(str(error)) from None


def _may_be_store(source: Source) -> bool:
    """Whether a look is worth it: a pattern is no folder, and a web server has only links."""
    if not isinstance(source, str) or not is_url(source) or Path(source).exists():
        return True
    return not is_of_web(source) and not is_pattern(source, source)


def paths_of(source: object) -> list[Source]:
    """One source or several, as a list of paths.

    Raises
    ------
    ParameterError
        One of them is not a path.
    """
    paths = (
        source
        if isinstance(source, Sequence) and not isinstance(source, (str, bytes))
        else [source]
    )
    for path in paths:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ParameterError(f"a source is a path or a list of paths, not {path!r}")
    return list(paths)


def trace_files(sources: Iterable[Source]) -> Files:
    """The files that paths, URLs, globs and directories lead to, each once.

    Raises
    ------
    NoTraceFoundError
        A source leads to no file.
    SourceError
        A URL cannot be read.
    """
    paths: list[Path] = []
    required: set[Path] = set()
    remote: dict[Path, RemoteFile] = {}
    for source in map(_local, sources):
        if isinstance(source, str) and is_url(source) and not Path(source).exists():
            copies = {_place(file): file for file in files_of(source)}
            required |= {path for path, file in copies.items() if file.is_named}
            paths += copies
            remote |= copies
            continue
        path = _STDIN if os.fspath(source) == "-" else Path(source)
        if store.is_store(path):
            raise ParameterError(
                f"{path} is a store, which is opened alone: give only its path, or name trace files"
            )
        if path.is_dir():
            files = _files_in(path)
            if not files:
                raise NoTraceFoundError(
                    f"{path}: the directory holds no files; give a trace, or a glob with ** to "
                    "search below it"
                )
            paths += files
        elif path.exists():
            required.add(path)
            paths.append(path)
        elif glob.has_magic(str(path)):
            names = glob.glob(str(path), recursive=True)  # noqa: PTH207 -- Path.glob takes no absolute pattern
            matches = sorted(map(Path, names))
            files = [p for p in matches if p.is_file()]
            if not files:  # like a shell that expands the pattern to folders
                files = [file for folder in matches for file in _files_in(folder)]
            if not files:
                raise NoTraceFoundError(
                    f"{path}: no file matches the pattern (** searches below a folder)"
                )
            paths += files
        elif was_url(str(path)):
            raise NoTraceFoundError(f"{path}: no such file; a URL is given as text, not as a Path")
        else:
            near = _nearest(path)
            hint = f"; did you mean {near}?" if near else ""
            missing = NoTraceFoundError(f"{path}: no such file or directory{hint}")
            raise missing.with_suggestion((os.fspath(source), near) if near else None)
    if not paths:
        raise NoTraceFoundError("nothing to load: the list of sources is empty")
    unique = tuple({path.absolute(): path for path in reversed(paths)}.values())[::-1]
    return Files(unique, frozenset(unique) - required, remote)


def _local(source: Source) -> Source:
    """The path of a URL that names a file of this machine; anything else as it is."""
    return (local_path(source) if isinstance(source, str) else None) or source


def _place(file: RemoteFile) -> Path:
    """Where the copy of a file would be, which is the same for each copy of this version."""
    key = hashlib.blake2b(digest_size=16)
    key.update(f"{file.shown}\0{file.version}".encode("utf-8", "surrogateescape"))
    return Path(f"{DOWNLOAD}{key.hexdigest()}", *last_names(file.url))


def _nearest(path: Path) -> str | None:
    """The existing path that is most similar to a missing one, folder by folder."""
    nearby = Path(path.anchor)
    for part in path.parts[1:] if path.anchor else path.parts:
        if part == os.pardir or (nearby / part).exists():
            nearby /= part
            continue
        try:
            names = [entry.name for entry in islice(os.scandir(nearby), _MOST_ENTRIES)]
        except OSError:
            return None
        near = nearest(part, (name for name in names if not name.startswith(".")), _LEAST_ALIKE)
        if near is None:
            return None
        nearby /= near
    return os.fspath(nearby)


def _files_in(folder: Path) -> list[Path]:
    try:
        entries = [*folder.iterdir()]
    except OSError as error:
        raise SourceError(f"{folder}: cannot be read: {error.strerror or error}") from error
    return sorted(p for p in entries if p.is_file() and not p.name.startswith("."))
