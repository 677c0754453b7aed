"""The Parquet store: one folder per (run, rank), one file per table.

::

    <store>/run=<run>/rank=<rank>/<table>.parquet     run percent-encoded
    <store>/pack-<id>/<table>.parquet                 many (run, rank) in one
    <store>/.tmp-<id>/                                a writer at work; readers pass it by

``run`` and ``rank`` are columns of every file as well, so a reader needs nothing from the path. A
folder is written aside and published by one rename, or exchanged with the one that it replaces: a
writer killed at any point leaves the old state or the new one. Where the file system cannot
exchange two folders, the old one is first renamed to ``.old-rank=<rank>`` beside it; readers take
that one while ``rank=<rank>`` is missing, and the next writer puts it back. ``manifest.json`` in
each folder has size and checksum of its files; `profframe.layout` has the rules of packs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema
from profframe.errors import StoreError, StoreVersionError
from profframe.layout import (
    SET_ASIDE,
    Place,
    component,
    folder_of,
    packs,
    places,
    write_manifest,
)
from profframe.selection import Integers, check_numbers, check_texts, literal
from profframe.table_files import VERSION_KEY, write_file

if TYPE_CHECKING:
    import duckdb
    import polars as pl

__all__ = [
    "Store",
    "add",
    "check_folder",
    "component",
    "folders",
    "has",
    "is_store",
    "publish",
    "put",
    "row_groups",
    "scan",
    "write",
]

_TEMPORARY: Final = ".tmp-"
_UNFINISHED: Final = ".part"
"""Ending of a file at work, so that a pattern for Parquet passes by what a killed writer left."""
_STALE_S: Final = 24 * 3600
_LISTINGS: Final = 10
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
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
    places: tuple[Place, ...]

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
        return [str(place.file(table)) for place in self.places]

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
            What can follow FROM.
        """
        parts = [
            f"FROM {_read(files)} WHERE {condition or 'TRUE'}"
            for condition, files in self._by_condition(table)
        ]
        return f"({' UNION ALL BY NAME '.join(parts)})"

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

        parts = []
        for condition, files in self._by_condition(table):
            rows = pl.scan_parquet(files, hive_partitioning=False, glob=False)
            parts.append(rows if condition is None else rows.filter(pl.sql_expr(condition)))
        return parts[0] if len(parts) == 1 else pl.concat(parts)

    def _by_condition(self, table: str) -> Iterator[tuple[str | None, list[str]]]:
        """Files of a table with what holds for their rows; those of which all count together."""
        whole = [str(place.file(table)) for place in self.places if place.condition is None]
        if whole:
            yield None, whole
        for place in self.places:
            if place.condition is not None:
                yield place.condition, [str(place.file(table))]

    def parts(self, table: str) -> Iterator[pa.Table]:
        """Rows of a table as Arrow, in the schema's types.

        Parameters
        ----------
        table
            Name of a table of the schema.

        Yields
        ------
        pyarrow.Table
            The rows of one folder, or some rows of a pack.

        Raises
        ------
        StoreError
            A file is missing or damaged.
        """
        for place in self.places:
            several = row_groups(place, table)
            if not place.members:
                yield pa.concat_tables(several)
            else:
                yield from several

    def check(self) -> None:
        """Look at every file.

        Raises
        ------
        StoreError
            A file is missing or damaged.
        """
        for place in self.places:
            for table in schema.TABLES:
                try:
                    with _named(place.file(table)):
                        pq.read_metadata(place.file(table))
                except StoreError as error:
                    if place.folder.exists() and not _reads(place.file(table)):
                        raise
                    raise StoreError(
                        f"{place.file(table)}: removed or packed since the store was opened; "
                        "load it again"
                    ) from error

    def split(self) -> tuple[Store, ...]:
        """One store per (run, rank), for work that should not hold everything in memory."""
        alone = [
            (replace(place, visible=frozenset({key})) if place.members else place)
            for place in self.places
            for key in (sorted(place.visible) if place.members else [("", 0)])
        ]
        return tuple(Store(self.path, (place,)) for place in alone)

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Store:
        """The store without the files that have nothing of some runs and ranks.

        Parameters
        ----------
        runs, ranks
            What is asked for; None for all. Rows of others can be in the files that are left.

        Returns
        -------
        Store
            Never without files: one is left where nothing is asked for.
        """
        names = None if runs is None else {component(run) for run in runs}
        found = [chosen for place in self.places if (chosen := place.only(names, ranks))]
        return Store(self.path, tuple(found) or self.places[:1])

    def again(self) -> Store | None:
        """The same (run, rank)s, where they are now; None if they are where they were, or gone."""
        wanted = {name for place in self.places for name in place.names}
        found = [
            replace(
                place,
                visible=frozenset(k for k in place.visible if (component(k[0]), k[1]) in wanted),
            )
            for place in places(self.path)
            if not place.names.isdisjoint(wanted)
        ]
        is_all = wanted == {name for place in found for name in place.names}
        has_moved = {place.folder for place in found} != {place.folder for place in self.places}
        return Store(self.path, tuple(found)) if is_all and has_moved else None


def _read(files: Iterable[str]) -> str:
    return f"read_parquet([{', '.join(map(literal, files))}], hive_partitioning = false)"


def row_groups(place: Place, table: str) -> Iterator[pa.Table]:
    """Rows of a table of one folder, those that count, in the schema's types.

    Parameters
    ----------
    place
        The folder.
    table
        Name of a table of the schema.

    Yields
    ------
    pyarrow.Table
        At least one; a pack is read row group by row group.

    Raises
    ------
    StoreError
        The file is missing or damaged.
    """
    names = [column.name for column in schema.TABLES[table] if column.type == schema.NAME]
    arrow = schema.TABLES[table].arrow
    with (
        _named(place.file(table)),
        pq.ParquetFile(place.file(table), read_dictionary=names) as file,
    ):
        runs = [run for run, _ in place.visible]
        yield arrow.empty_table()
        for number in range(file.num_row_groups):
            if place.members and not _may_have(file.metadata.row_group(number), runs):
                continue
            rows = file.read_row_group(number).cast(arrow)
            if place.visible != place.members:
                kept = [part for key, part in _by_trace(rows).items() if key in place.visible]
                rows = pa.concat_tables([rows[:0], *kept])
            yield rows


def _may_have(group: pq.RowGroupMetaData, runs: Iterable[str]) -> bool:
    """Whether rows of some runs can be in a row group, by its statistics."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "run":
            known = column.statistics
            if known is None or not known.has_min_max:
                return True
            return any(known.min <= run <= known.max for run in runs)
    return True


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


def scan(
    path: str | os.PathLike[str],
    runs: Iterable[str] | None = None,
    ranks: Integers | None = None,
) -> Store:
    """Find the files of a store and check that they are of this schema version.

    Parameters
    ----------
    path
        The store, or a ``run=...``, ``rank=...`` or ``pack-...`` folder of one.
    runs, ranks
        What is asked for: no file that has nothing of it is opened. None for all.

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
    UnknownNameError
        There is no such run or rank; the message says which there are.
    """
    root = Path(path)
    if not root.is_dir():
        raise StoreError(f"{root}: no such folder; a store is made by to_parquet() or convert")
    if not is_store(root):
        raise StoreError(
            f"{root}: not a profframe store: no run=.../rank=.../traces.parquet in it; "
            "a store is made by to_parquet() or convert"
        )
    return _scan(root, runs, ranks, _LISTINGS)


def _scan(root: Path, runs: Iterable[str] | None, ranks: Integers | None, tries: int) -> Store:
    listed = places(root)
    found = Store(root, tuple(p for p in listed if p.visible == p.members or p.visible))
    if runs is not None or ranks is not None:
        keys = [key for place in found.places for key in place.keys]
        check_texts("run", runs or (), (run for run, _ in keys))
        check_numbers("rank", ranks or (), (rank for _, rank in keys))
        found = found.only(runs, ranks)
    try:
        for place in found.places:
            check_folder(root, place.folder)
    except StoreError:  # also of what was removed, packed or written again after it was listed
        if tries:
            return _scan(root, runs, ranks, tries - 1)
        raise
    return found


def folders(root: Path) -> Iterator[Path]:
    """Folders of a store that have something that counts, and packs.

    Parameters
    ----------
    root
        The store.

    Yields
    ------
    Path
        A folder of one (run, rank), or a pack of many.
    """
    for place in places(root):
        yield place.folder


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
    return bool(packs(root)) and any((run, rank) in place.visible for place in places(root))


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
        if not replace and has(root, run, rank):
            return False
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
            if not replace and has(root, run, rank):
                written = False
                continue
            one = {name: [part.get((run, rank), tables[name][:0])] for name, part in parts.items()}
            written &= _write_one(one, root, component(run), rank, replace=replace)
    except OSError as error:
        raise _cannot_write(root, error) from error
    return written


def _cannot_write(root: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{error.filename or root}: cannot write the store: {error.strerror or error}"
    )


def check_folder(root: Path, folder: Path) -> None:
    """Raise an error if a folder lacks a table, or is of another schema version."""
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


def _reads(file: Path) -> bool:
    """Whether it can be read now: it may have been written again."""
    try:
        pq.read_metadata(file)
    except (OSError, pa.ArrowException):
        return False
    return True


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
        write_manifest(fresh)
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
    while True:
        try:
            return _publish(fresh, target, replace=replace)
        except FileNotFoundError:  # a run of which nothing is left may have been removed just now
            if target.parent.exists() or not fresh.exists():
                raise


def _publish(fresh: Path, target: Path, *, replace: bool) -> bool:
    target.parent.mkdir(exist_ok=True)
    aside = target.with_name(SET_ASIDE + target.name)
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
