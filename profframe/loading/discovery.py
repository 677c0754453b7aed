"""What a source is: a live profile, a store, or files of traces. It is decided here, once."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from profframe import store
from profframe.errors import NoTraceFoundError, ParameterError, SourceError
from profframe.readers import torch as live

Source = str | os.PathLike[str]

_STDIN: Final = Path("/dev/stdin")
"""What ``-`` is; a file of that name is ``./-``."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A live profile of torch."""

    profile: object


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """A store, or a part of one."""

    path: Path


@dataclass(frozen=True, slots=True)
class Files:
    """Files to read; those that only a directory or a glob led to may be no traces."""

    paths: tuple[Path, ...]
    optional: frozenset[Path]


def discover(source: object) -> Profile | StoreFolder | Files:
    """What a source is.

    Raises
    ------
    NoTraceFoundError
        A path leads nowhere.
    ParameterError
        It is nothing of the kind, or a store among others.
    """
    if live.knows(source):
        return Profile(source)
    sources = listed(source)
    if folder := _store(sources):
        return folder
    try:
        return find(sources)
    except (NoTraceFoundError, ParameterError):
        if folder := _store(sources):  # it has been made meanwhile
            return folder
        raise


def _store(sources: Sequence[Source]) -> StoreFolder | None:
    is_one = len(sources) == 1 and store.is_store(sources[0])
    return StoreFolder(Path(sources[0])) if is_one else None


def listed(source: object) -> list[Source]:
    """One source or several, as a list of paths.

    Raises
    ------
    ParameterError
        One is no path.
    """
    several = (
        source
        if isinstance(source, Sequence) and not isinstance(source, (str, bytes))
        else [source]
    )
    for one in several:
        if not isinstance(one, (str, os.PathLike)) or not os.fspath(one):
            raise ParameterError(f"a source is a path or a list of paths, not {one!r}")
    return list(several)


def find(sources: Iterable[Source]) -> Files:
    """The files that paths, globs and directories lead to, each once.

    Raises
    ------
    NoTraceFoundError
        When one of them leads nowhere.
    """
    paths: list[Path] = []
    given: set[Path] = set()
    for source in sources:
        path = _STDIN if os.fspath(source) == "-" else Path(source)
        if store.is_store(path):
            raise ParameterError(f"{path} is a store; a store is given alone")
        if path.is_dir():
            inside = _inside(path)
            if not inside:
                raise NoTraceFoundError(
                    f"{path}: the directory holds no files; give a trace, or a glob with ** to "
                    "search below it"
                )
            paths += inside
        elif path.exists():
            given.add(path)
            paths.append(path)
        elif glob.has_magic(str(path)):
            names = glob.glob(str(path), recursive=True)  # noqa: PTH207 -- Path.glob takes no absolute pattern
            there = sorted(map(Path, names))
            matched = [p for p in there if p.is_file()]
            if not matched:  # as if a shell had named the folders that match
                matched = [file for folder in there for file in _inside(folder)]
            if not matched:
                raise NoTraceFoundError(f"{path}: no file matches the pattern")
            paths += matched
        else:
            raise NoTraceFoundError(f"{path}: no such file or directory")
    if not paths:
        raise NoTraceFoundError("nothing to load: the list of sources is empty")
    unique = tuple({path.absolute(): path for path in reversed(paths)}.values())[::-1]
    return Files(unique, frozenset(unique) - given)


def _inside(folder: Path) -> list[Path]:
    try:
        inside = [*folder.iterdir()]
    except OSError as error:
        raise SourceError(f"{folder}: cannot be read: {error.strerror or error}") from error
    return sorted(p for p in inside if p.is_file() and not p.name.startswith("."))
