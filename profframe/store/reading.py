"""Finding and reading the files of a store."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema
from profframe.errors import StoreError, StoreVersionError
from profframe.layout import Place, component, places, reading
from profframe.selection import Integers, check_numbers, check_texts, literal
from profframe.sources import Part
from profframe.store import versions
from profframe.table_files import VERSION_KEY

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_LISTINGS: Final = 10
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
    is_current: bool = True
    """Whether it is known that this version of profframe has made all of it."""

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

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: Part) -> None:
        """Let a connection, and no other, read a part of a table by the table's name.

        Parameters
        ----------
        connection
            Connection that will read them.
        table
            Name of a table of the schema.
        part
            What is needed of it.
        """
        rows = self._relation(table)
        if table == "quality" and not self.is_current:
            note = ", ".join(f'{sql} AS "{name}"' for name, sql in versions.note().items())
            traces = f"{self._relation('traces')} WHERE {versions.others()}"
            rows = f"(FROM {rows} UNION ALL BY NAME SELECT {note} FROM {traces})"  # noqa: S608
        part.view(connection, table, rows)

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

        if table == "quality" and not self.is_current:
            traces = self._scan("traces").filter(pl.sql_expr(versions.others()))
            note = (pl.sql_expr(sql).alias(name) for name, sql in versions.note().items())
            return pl.concat([self._scan(table), traces.select(note)])
        return self._scan(table)

    def _relation(self, table: str) -> str:
        """All rows of a table, in SQL."""
        parts = [
            f"FROM {_read(files)} WHERE {condition or 'TRUE'}"
            for condition, files in self._by_condition(table)
        ]
        return f"({' UNION ALL BY NAME '.join(parts)})"

    def _scan(self, table: str) -> pl.LazyFrame:
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
                    with reading(place.file(table)):
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
        return tuple(replace(self, places=(place,)) for place in alone)

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
        return replace(self, places=tuple(found) or self.places[:1])

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
        return replace(self, places=tuple(found)) if is_all and has_moved else None


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
        reading(place.file(table)),
        pq.ParquetFile(place.file(table), read_dictionary=names) as file,
    ):
        runs = [run for run, _ in place.visible]
        yield arrow.empty_table()
        for number in range(file.num_row_groups):
            if place.members and not _may_have(file.metadata.row_group(number), runs):
                continue
            rows = file.read_row_group(number).cast(arrow)
            if place.visible != place.members:
                kept = [part for key, part in by_trace(rows).items() if key in place.visible]
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
        checked = [check_folder(root, place.folder) for place in found.places]
    except StoreError:  # also of what was removed, packed or written again after it was listed
        if tries:
            return _scan(root, runs, ranks, tries - 1)
        raise
    return replace(found, is_current=all(map(versions.is_current, checked)))


def check_folder(root: Path, folder: Path) -> pq.FileMetaData:
    """Raise an error if a folder lacks a table, or is of another schema version.

    Returns
    -------
    pyarrow.parquet.FileMetaData
        Of its file of `traces`.
    """
    there: set[str] = set()
    with suppress(OSError), os.scandir(folder) as entries:
        there.update(entry.name for entry in entries if entry.is_file())
    missing = [name for name in schema.TABLES if f"{name}.parquet" not in there]
    if missing:
        raise StoreError(f"{folder / missing[0]}.parquet: missing from the store; convert it again")
    file = folder / "traces.parquet"
    with reading(file):
        metadata = pq.read_metadata(file)
    found = (metadata.metadata or {}).get(VERSION_KEY)
    if found is None:
        raise StoreError(f"{file}: Parquet, but not of profframe: it has no {VERSION_KEY.decode()}")
    if found != str(schema.SCHEMA_VERSION).encode():
        raise StoreVersionError(
            f"{root}: store of schema version {found.decode(errors='replace')}, this profframe "
            f"reads version {schema.SCHEMA_VERSION}; convert the traces again, or install the "
            "profframe that wrote it"
        )
    return metadata


def by_trace(table: pa.Table) -> dict[tuple[str, int], pa.Table]:
    """Give the rows of each (run, rank), in their order; slices, not copies."""
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


def _reads(file: Path) -> bool:
    """Whether it can be read now: it may have been written again."""
    try:
        pq.read_metadata(file)
    except (OSError, pa.ArrowException):
        return False
    return True
