"""Writing into a store, each (run, rank) in one step."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from profframe.errors import StoreError
from profframe.remote.urls import is_url, local_path
from profframe.store.catalogue.listing import listed
from profframe.store.catalogue.upkeep import record
from profframe.store.layout import (
    SET_ASIDE,
    check_own,
    folder_of,
    packs,
    store_errors,
    temporary,
    write_manifest,
)
from profframe.store.leftovers import remove_drafts
from profframe.store.parquet import rows_to_write, write_file
from profframe.store.visible_rows import by_trace

_UNFINISHED: Final = ".part"
"""Ending of an unfinished file, so that ``*.parquet`` skips what a killed writer left."""
_ATTEMPTS: Final = 1000
_CONFLICTS: Final = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)
"""Errors of a rename while another process changes the same folder."""
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def has(path: str | os.PathLike[str], run: str, rank: int) -> bool:
    """Whether a store has a (run, rank).

    Parameters
    ----------
    path
        The store; it need not exist.
    run, rank
        Names of the trace.

    Returns
    -------
    bool
        True if `add` would not write it.
    """
    root = Path(path)
    folder = folder_of(root, run, rank)
    if folder.exists() or folder.with_name(SET_ASIDE + folder.name).exists():
        return True
    return bool(packs(root)) and any((run, rank) in place.visible for place in listed(root, {run}))


def place_to_write(path: str | os.PathLike[str]) -> Path:
    """The folder that a store is, or will be in.

    Parameters
    ----------
    path
        The store; it need not exist.

    Returns
    -------
    Path
        The same; nothing has been made there.

    Raises
    ------
    StoreError
        It cannot be a folder, or this process may not write there.
    """
    root = _local(path)
    nearest = next(place for place in (root, *root.absolute().parents) if os.path.lexists(place))
    if not nearest.is_dir():
        raise StoreError(f"{root}: cannot be a store, as {nearest} is no folder; give another path")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise StoreError(
            f"{root}: cannot be a store, as this process may not write into {nearest}; give "
            "another path"
        )
    return root


def _local(path: str | os.PathLike[str]) -> Path:
    if isinstance(path, str) and is_url(path):
        path = local_path(path) or path
    if isinstance(path, str) and is_url(path) and not Path(path).exists():
        raise StoreError(
            f"{path}: a URL, where only convert writes a store (profframe convert TRACE -o URL)"
        )
    return Path(path)


def add(tables: Mapping[str, pa.Table], path: str | os.PathLike[str]) -> bool:
    """Write one (run, rank) into a store, unless it has one of that name.

    Parameters
    ----------
    tables
        As for `write`, of one (run, rank).
    path
        The store; made if it does not exist.

    Returns
    -------
    bool
        False if there is one already, from any process: nothing has been written.

    Raises
    ------
    StoreError
        It cannot be written; what was in the store is still there.
    """
    return _write(tables, path, replace=False)


def write(tables: Mapping[str, pa.Table], path: str | os.PathLike[str]) -> None:
    """Write every (run, rank) of some tables into a store; replace those that are there already.

    Parameters
    ----------
    tables
        All tables of the schema but for optional ones without rows, with ``run`` and ``rank``;
        ``traces`` has one row per (run, rank).
    path
        The store; made if it does not exist.

    Raises
    ------
    StoreError
        Something cannot be written; what was in the store is still there.
    """
    _write(tables, path, replace=True)


def put(
    tables: Mapping[str, Iterable[pa.Table]],
    path: str | os.PathLike[str],
    run: str,
    rank: int,
    *,
    replace: bool = True,
) -> bool:
    """Write one (run, rank), one part in memory at a time.

    Parameters
    ----------
    tables
        Every table of the schema as its parts, in their order, all of this run and rank.
    path
        The store; made if it does not exist.
    run, rank
        Names of the trace.
    replace
        Whether it may replace one that is there.

    Returns
    -------
    bool
        False if there is one already and ``replace`` is False: it is unchanged.

    Raises
    ------
    StoreError
        It cannot be written; what was in the store is still there.
    """
    with _opened(path) as root:
        is_written = _write_one(tables, root, run, rank, replace=replace)
        if is_written:
            record(root, [folder_of(root, run, rank)])
        return is_written


def _write(tables: Mapping[str, pa.Table], path: str | os.PathLike[str], *, replace: bool) -> bool:
    """Whether all of them were written."""
    parts = {name: by_trace(table) for name, table in tables.items()}
    unnamed = {key for part in parts.values() for key in part} - parts["traces"].keys()
    if unnamed:
        run, rank = min(unnamed)
        raise StoreError(f"{Path(path)}: run {run!r}, rank {rank} has rows but no row in `traces`")
    written = []
    with _opened(path) as root:
        try:
            for key in parts["traces"]:
                rows = {name: [part.get(key, tables[name][:0])] for name, part in parts.items()}
                if _write_one(rows, root, *key, replace=replace):
                    written.append(folder_of(root, *key))
        finally:
            record(root, written)
    return len(written) == len(parts["traces"])


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The folder of a store, made if it does not exist."""
    root = _local(path)
    with store_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        remove_drafts(root)
        yield root


def _write_one(
    tables: Mapping[str, Iterable[pa.Table]], root: Path, run: str, rank: int, *, replace: bool
) -> bool:
    if not replace and has(root, run, rank):
        return False
    with temporary(root) as folder:
        fresh = folder / f"rank={rank}"
        fresh.mkdir()
        for name, parts in tables.items():
            if (rows := rows_to_write(name, parts)) is not None:
                write_file(fresh / f"{name}{_UNFINISHED}", name, rows)
        for part in fresh.iterdir():
            part.rename(part.with_suffix(".parquet"))
        write_manifest(fresh)
        return publish(fresh, folder_of(root, run, rank), replace=replace)


def publish(fresh: Path, target: Path, *, replace: bool) -> bool:
    """Move a folder to its place in one step, or swap it with the one there.

    Parameters
    ----------
    fresh
        Folder of one (run, rank), on the file system of the store; it is moved.
    target
        Its place: ``run=<run>/rank=<rank>`` of a store.
    replace
        Whether it may replace another folder there.

    Returns
    -------
    bool
        False if there is one and ``replace`` is False: nothing has been done.
    """
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            return _publish(fresh, target, replace=replace)
        except OSError as error:  # other processes publish, restore and remove here
            if error.errno not in _CONFLICTS or not fresh.exists() or not attempts_left:
                raise
    raise AssertionError


def _publish(fresh: Path, target: Path, *, replace: bool) -> bool:
    aside = target.with_name(SET_ASIDE + target.name)
    for folder in (target, aside):
        check_own(target.parent.parent, folder)
    target.parent.mkdir(exist_ok=True)
    if aside.exists() and not target.exists():
        aside.rename(target)
    try:
        fresh.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not replace:
            return False
        if not _exchange(fresh, target):
            shutil.rmtree(aside, ignore_errors=True)
            target.rename(aside)
            fresh.rename(target)
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    return bool(rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)
