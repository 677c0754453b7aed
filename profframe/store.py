"""The Parquet store: one folder per (run, rank), one file per table.

::

    <store>/run=<run>/rank=<rank>/<table>.parquet     run percent-encoded
    <store>/pack-<id>/<table>.parquet                 many (run, rank) in one
    <store>/.tmp-<id>/                                a writer at work; readers pass it by

``run`` and ``rank`` are columns of every file as well, so a reader needs nothing from the path. A
folder is written aside and published by one rename, or exchanged with the one that it replaces: a
writer killed at any point leaves the old state or the new one. Where the file system cannot
exchange two folders, the old one is first renamed to ``.old-rank=<rank>`` beside it; readers take
that one while ``rank=<rank>`` is missing, and the next writer puts it back.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema
from profframe.errors import StoreError, StoreVersionError
from profframe.selection import literal
from profframe.table_files import VERSION_KEY, write_file

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_TEMPORARY: Final = ".tmp-"
_SET_ASIDE: Final = ".old-"
_UNFINISHED: Final = ".part"
"""Ending of a file at work, so that a pattern for Parquet passes by what a killed writer left."""
_STALE_S: Final = 24 * 3600
_LONGEST_COMPONENT: Final = 200
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_TABLE_FILES: Final = frozenset(f"{name}.parquet" for name in schema.TABLES)
_MARKS: Final = (
    "traces.parquet",
    "rank=*/traces.parquet",
    "run=*/rank=*/traces.parquet",
    "run=*/.old-rank=*/traces.parquet",
    "pack-*/traces.parquet",
)


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """The files of a store, found once; a source of tables for a `Trace`."""

    path: Path
    folders: tuple[Path, ...]

    def files(self, table: str) -> list[str]:
        """Paths of one table's files, by run and rank.

        Parameters
        ----------
        table
            Name of a table of the schema.

        Returns
        -------
        list of str
            One path per folder of the store.
        """
        return [str(folder / f"{table}.parquet") for folder in self.folders]

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str:  # noqa: ARG002
        """SQL of a relation with all rows of a table.

        Parameters
        ----------
        connection
            Connection that will read it; files need no registration on it.
        table
            Name of a table of the schema.

        Returns
        -------
        str
            A table function call.
        """
        files = ", ".join(literal(file) for file in self.files(table))
        return f"read_parquet([{files}], hive_partitioning = false)"

    def scan(self, table: str) -> pl.LazyFrame:
        """All rows of a table as a LazyFrame; nothing is read yet.

        Parameters
        ----------
        table
            Name of a table of the schema.

        Returns
        -------
        polars.LazyFrame
            Text as plain String.
        """
        import polars as pl

        return pl.scan_parquet(self.files(table), hive_partitioning=False, glob=False)

    def parts(self, table: str) -> Iterator[pa.Table]:
        """Rows of a table as Arrow, file by file, in the schema's types.

        Parameters
        ----------
        table
            Name of a table of the schema.

        Yields
        ------
        pyarrow.Table
            The rows of one file.

        Raises
        ------
        StoreError
            A file is missing or damaged.
        """
        names = [column.name for column in schema.TABLES[table] if column.type == schema.NAME]
        for file in self.files(table):
            with _named(Path(file)):
                yield (
                    pq.ParquetFile(file, read_dictionary=names)
                    .read()
                    .cast(schema.TABLES[table].arrow)
                )

    def check(self) -> None:
        """Look at every file.

        Raises
        ------
        StoreError
            A file is missing or damaged.
        """
        for table in schema.TABLES:
            for file in self.files(table):
                with _named(Path(file)):
                    pq.read_metadata(file)

    def split(self) -> tuple[Store, ...]:
        """One store per folder, for work that should not hold everything in memory."""
        return tuple(Store(self.path, (folder,)) for folder in self.folders)


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like a store, or like a part of one.

    Parameters
    ----------
    path
        Any path; it need not exist.

    Returns
    -------
    bool
        True if there are files where a store has them; `scan` says whether they are sound.

    Examples
    --------
    >>> is_store("no/such/folder")
    False
    """
    folder = Path(path)
    return folder.is_dir() and any(next(folder.glob(mark), None) for mark in _MARKS)


def scan(path: str | os.PathLike[str]) -> Store:
    """Find the files of a store and check that they are of this schema version.

    Parameters
    ----------
    path
        The store, or a ``run=...``, ``rank=...`` or ``pack-...`` folder of one.

    Returns
    -------
    Store
        Its files; no table has been read.

    Raises
    ------
    StoreError
        There is no store, or a file of it is missing or damaged.
    StoreVersionError
        It was written with another schema version.
    """
    root = Path(path)
    if not root.is_dir():
        raise StoreError(f"{root}: no such folder; a store is made by to_parquet() or convert")
    if not is_store(root):
        raise StoreError(
            f"{root}: not a profframe store: no run=.../rank=.../traces.parquet in it; "
            "a store is made by to_parquet() or convert"
        )
    found = sorted(folders(root), key=_by_run_and_rank)
    for folder in found:
        _check(root, folder)
    return Store(root, tuple(found))


def has(path: str | os.PathLike[str], run: str, rank: int) -> bool:
    """Whether a (run, rank) has a folder of its own in a store.

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
    folder = Path(path) / f"run={component(run)}" / f"rank={rank}"
    return folder.exists() or folder.with_name(_SET_ASIDE + folder.name).exists()


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
        False if there is one already, of whatever process: nothing has been written.

    Raises
    ------
    StoreError
        It cannot be written; what was in the store is still there.
    """
    return _write(tables, path, replace=False)


def write(tables: Mapping[str, pa.Table], path: str | os.PathLike[str]) -> None:
    """Write every (run, rank) of some tables into a store; one that is there already is replaced.

    Parameters
    ----------
    tables
        All tables of the schema, with ``run`` and ``rank``; ``traces`` has one row per (run, rank).
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
    """Write one (run, rank) of which only a part is in memory at a time.

    Parameters
    ----------
    tables
        Every table of the schema as its parts, in their order, all of this run and rank.
    path
        The store; made if it does not exist.
    run, rank
        Names of the trace.
    replace
        Whether it may take the place of one that is there.

    Returns
    -------
    bool
        False if there is one already that is not to be replaced: it is as it was.

    Raises
    ------
    StoreError
        It cannot be written; what was in the store is still there.
    """
    root = Path(path)
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        return _write_one(tables, root, component(run), rank, replace=replace)
    except OSError as error:
        raise _cannot_write(root, error) from error


def _write(tables: Mapping[str, pa.Table], path: str | os.PathLike[str], *, replace: bool) -> bool:
    """Whether all were written."""
    root = Path(path)
    parts = {name: _by_trace(table) for name, table in tables.items()}
    unnamed = {key for part in parts.values() for key in part} - parts["traces"].keys()
    if unnamed:
        run, rank = min(unnamed)
        raise StoreError(f"{root}: run {run!r}, rank {rank} has rows but no row in `traces`")
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        written = True
        for run, rank in parts["traces"]:
            one = {name: [part.get((run, rank), tables[name][:0])] for name, part in parts.items()}
            written &= _write_one(one, root, component(run), rank, replace=replace)
    except OSError as error:
        raise _cannot_write(root, error) from error
    return written


def _cannot_write(root: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{error.filename or root}: cannot write the store: {error.strerror or error}"
    )


def component(run: str) -> str:
    """Write a run's name as one safe path component.

    Letters, digits, ``_``, ``-`` and ``.`` stay, the rest is percent-encoded, so that
    `urllib.parse.unquote` gives the name back. A name too long for a file system is cut and ends in
    ``~`` and a digest of it all; the column ``run`` has it in full.

    Parameters
    ----------
    run
        Any text.

    Returns
    -------
    str
        The component, without ``run=``.

    Examples
    --------
    >>> component("2024/lr=0.1 é")
    '2024%2Flr%3D0.1%20%C3%A9'
    """
    encoded = quote(run, safe="").replace("~", "%7E")
    if len(encoded) <= _LONGEST_COMPONENT:
        return encoded
    return f"{encoded[:160]}~{hashlib.sha256(run.encode()).hexdigest()[:32]}"


def folders(root: Path) -> Iterator[Path]:
    """Folders with table files, no hidden ones; a set-aside one stands in for a missing one.

    Parameters
    ----------
    root
        The store.

    Yields
    ------
    Path
        A folder of one (run, rank), or a pack of many; in no order.
    """
    for where, names, files in os.walk(root):
        folder = Path(where)
        if not _TABLE_FILES.isdisjoint(files):
            yield folder
        present = set(names)
        names[:] = [
            name
            for name in names
            if not name.startswith(".")
            or (name.startswith(_SET_ASIDE) and name.removeprefix(_SET_ASIDE) not in present)
        ]


def _by_run_and_rank(folder: Path) -> tuple[str, int, str]:
    rank = folder.name.removeprefix(_SET_ASIDE).removeprefix("rank=")
    return str(folder.parent), int(rank) if rank.isdecimal() else -1, folder.name


def _check(root: Path, folder: Path) -> None:
    missing = [name for name in schema.TABLES if not (folder / f"{name}.parquet").is_file()]
    if missing:
        raise StoreError(f"{folder / missing[0]}.parquet: missing from the store; convert it again")
    file = folder / "traces.parquet"
    with _named(file):
        metadata = pq.read_metadata(file).metadata or {}
    found = metadata.get(VERSION_KEY)
    if found is None:
        raise StoreError(f"{file}: Parquet, but not of profframe: it has no {VERSION_KEY.decode()}")
    if found != str(schema.SCHEMA_VERSION).encode():
        raise StoreVersionError(
            f"{root}: store of schema version {found.decode(errors='replace')}, this profframe "
            f"reads version {schema.SCHEMA_VERSION}; convert the traces again, or install the "
            "profframe that wrote it"
        )


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Errors of reading that name the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{file}: cannot be read: {error}; convert the trace again") from error


def _by_trace(table: pa.Table) -> dict[tuple[str, int], pa.Table]:
    """Rows of each (run, rank), in their order; slices, not copies."""
    if len(table) == 0:
        return {}
    run = pa.concat_arrays(table["run"].unify_dictionaries().chunks)
    codes, rank = run.indices.to_numpy(), table["rank"].to_numpy()
    edges = np.flatnonzero((codes[1:] != codes[:-1]) | (rank[1:] != rank[:-1])) + 1
    slices = defaultdict(list)
    for start, end in pairwise([0, *edges.tolist(), len(table)]):
        key = run.dictionary[int(codes[start])].as_py(), int(rank[start])
        slices[key].append(table.slice(start, end - start))
    return {key: pa.concat_tables(parts) for key, parts in slices.items()}


def _write_one(
    tables: Mapping[str, Iterable[pa.Table]], root: Path, run: str, rank: int, *, replace: bool
) -> bool:
    temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=root))
    try:
        fresh = temporary / f"rank={rank}"
        fresh.mkdir()
        for name, parts in tables.items():
            write_file(fresh / f"{name}{_UNFINISHED}", name, parts)
        for part in fresh.iterdir():
            part.rename(part.with_suffix(".parquet"))
        return publish(fresh, root / f"run={run}" / fresh.name, replace=replace)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish(fresh: Path, target: Path, *, replace: bool) -> bool:
    """Put a folder where there is none, or in the place of another if that may be, in one step.

    Parameters
    ----------
    fresh
        Folder of one (run, rank), on the file system of the store; it is moved.
    target
        Where it is to be: ``run=<run>/rank=<rank>`` of a store.
    replace
        Whether another may be there, which goes.

    Returns
    -------
    bool
        False if there is one that may not be replaced: nothing has been done.
    """
    target.parent.mkdir(exist_ok=True)
    aside = target.with_name(_SET_ASIDE + target.name)
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


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def _sweep(root: Path) -> None:
    """Remove what writers killed long ago have left."""
    for leftover in root.glob(f"{_TEMPORARY}*"):
        if time.time() - leftover.stat().st_mtime > _STALE_S:
            shutil.rmtree(leftover, ignore_errors=True)
