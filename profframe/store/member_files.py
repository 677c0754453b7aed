"""Finding and reading the files of a store."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from profframe import schema
from profframe.errors import StoreError, StoreVersionError, UnknownNameError
from profframe.query.answer_cache import FOLDER, AnswerCache
from profframe.query.selection import Integers, check_numbers, check_texts
from profframe.query.sources import Columns, TableRows
from profframe.remote.trees import Tree, for_database, remote
from profframe.remote.urls import is_url, local_path
from profframe.store import manifest, versions
from profframe.store.catalogue.listing import FEW, listed
from profframe.store.catalogue.places import PlaceList, Places
from profframe.store.damaged_file import (
    check_place,
    check_remote,
    no_rows,
    older_relation,
    relation,
)
from profframe.store.kept.records import folders
from profframe.store.kept.validity import explained
from profframe.store.layout import CATALOGUE, KEPT, Place, component, file_names, optional_tables
from profframe.store.manifest import PACK
from profframe.store.parquet import parquet_file, reading
from profframe.store.versions import Written
from profframe.store.visible_rows import large_parts, lazy
from profframe.system.holds import Hold

if TYPE_CHECKING:
    import duckdb
    import polars as pl

IN_USE: Final = ".in-use"
"""A file of a store in a cache; whoever reads the store holds it, so that nobody removes it."""
_LISTINGS: Final = 10
_AT_ONCE: Final = 16
"""Requests to a server at a time."""
_MANY: Final = 100
"""From so many folders on, a connection may read the folder of the store, not a list of files."""
_SMALL: Final = 256 << 10
"""Bytes of a file that is small."""
_ORDERED: Final = 500
"""Folders of which the rows are copied in their order."""
_SOME: Final = 100
"""Files of which the sizes are looked at."""
_RANKS: Final = ("rank=", ".old-rank=")
_PARTS: Final = ("run=", "rank=", PACK)
"""How the names of folders begin that may have files of a store."""


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """The files of a store, listed once; a `Source` for a `Trace`."""

    path: Path
    places: Places
    is_current: bool = True
    """Whether this version of profframe is known to have written all of it."""
    older: Mapping[Path, int] = field(default_factory=dict)
    """Folders of an older schema, and its version: some of their columns are missing."""
    hold: Hold | None = None
    """What keeps others from removing it."""

    def identity(self) -> Hashable:
        """Equal for stores of the same unchanged files."""
        # A relative path is of another store after a change of the working folder.
        return self.path.absolute(), self.places, self.is_current

    @property
    def answer_cache(self) -> AnswerCache | None:
        """What keeps answers about its rows for the next process: where the store is of a cache."""
        return None if self.hold is None else AnswerCache(self.path / FOLDER)

    def files(self, table: str) -> list[str]:
        """Paths of one table's files, by run and rank.

        Parameters
        ----------
        table
            Name of a table of the schema.

        Returns
        -------
        list of str
            One path per folder of the store; for an optional table, only of folders that have rows
            of it.
        """
        return [file for _, files in self.places.files(table) for file in files]

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: TableRows) -> None:
        """Let one connection read a part of a table by the table's name.

        Parameters
        ----------
        connection
            Connection that will read them.
        table
            Name of a table of the schema.
        part
            Columns and rows to read.
        """
        rows = self._relation(table)
        if table == "quality":
            for places_, where, note in self._notes():
                columns = ", ".join(f'{sql} AS "{name}"' for name, sql in note.items())
                traces = f"{self._relation('traces', places_)} WHERE {where}"
                rows = f"(FROM {rows} UNION ALL BY NAME SELECT {columns} FROM {traces})"  # noqa: S608
        # A plan opens a file for each mention of its table: to copy a small one takes less.
        if part.columns is not None and self._has_small(table):
            part.copy(connection, table, rows, in_order=len(self.places) <= _ORDERED)
        else:
            part.view(connection, table, rows)

    def _has_small(self, table: str) -> bool:
        """Whether the files of a table are small, by some of them."""
        if remote(self.path) is not None:
            return False
        files = self.files(table)
        some = files[:: -(-len(files) // _SOME) or 1]
        return sum(map(_size, some)) <= _SMALL * len(some)

    def _notes(self) -> Iterator[tuple[Places, str, Mapping[str, str]]]:
        """What `quality` says of other versions: of which traces, and its columns as SQL."""
        if not self.is_current:
            yield self.places, versions.others(), versions.note()
        if self.older:
            older = PlaceList(place for place in self.places if place.folder in self.older)
            yield older, "TRUE", versions.older_note()

    def held(self, tables: Mapping[str, Columns]) -> None:
        """None: all rows are in files."""

    def file_system(self) -> Any:
        """What opens these files for DuckDB, if they are elsewhere, and nothing else."""
        root = remote(self.path)
        return None if root is None else for_database(root.tree)

    def paths(self, tables: Iterable[str]) -> Iterator[str]:
        """Files that a connection reads for views of some tables.

        Parameters
        ----------
        tables
            Names of tables of the schema.

        Yields
        ------
        str
            Their paths, one per table and folder; of many folders, that of the store with a
            separator at its end.
        """
        if len(self.places) > _MANY:
            yield f"{self.path}{os.sep}"
            return
        for table in tables:
            yield from self.files(table)

    def scan(self, table: str, columns: Columns = None) -> pl.LazyFrame:  # noqa: ARG002 - a file is read by column
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
        rows = lazy(self.places, table)
        if table != "quality":
            return rows
        import polars as pl

        parts = [rows]
        for places_, where, note in self._notes():
            traces = lazy(places_, "traces").filter(pl.sql_expr(where))
            parts.append(traces.select(pl.sql_expr(sql).alias(name) for name, sql in note.items()))
        return pl.concat(parts)

    def sizes(self) -> pl.LazyFrame:
        """``run rank source_events`` of each trace; of many, by the catalogue.

        Returns
        -------
        polars.LazyFrame
            It may have more columns.
        """
        sizes = self.places.sizes()
        return self.scan("traces") if sizes is None else sizes.lazy()

    def _relation(self, table: str, places_: Places | None = None) -> str:
        """All rows of a table, or those of some folders, in SQL."""
        parts = [
            f"FROM {rows} WHERE {condition or 'TRUE'}"
            for condition, rows in self._by_condition(table, places_ or self.places)
        ]
        if parts and self.older:  # columns that no file has
            parts.insert(0, f"FROM {no_rows(table)}")
        return f"({' UNION ALL BY NAME '.join(parts)})" if parts else no_rows(table)

    def _by_condition(self, table: str, places_: Places) -> Iterator[tuple[str | None, str]]:
        """Files of a table as SQL, grouped by their schema and the condition on their rows."""
        for condition, files in places_.files(table):
            by_version: dict[int | None, list[str]] = {}
            for file in files if self.older else ():
                by_version.setdefault(self.older.get(Path(file).parent), []).append(file)
            for version, own in (by_version or {None: files}).items():
                if version is None:
                    yield condition, relation(own)
                else:
                    yield condition, older_relation(own, table, version)

    def parts(self, table: str) -> Iterator[pa.Table]:
        """Rows of a table as Arrow, in the schema's types.

        Parameters
        ----------
        table
            Name of a table of the schema.

        Yields
        ------
        pyarrow.Table
            At least one, of many rows.

        Raises
        ------
        StoreError
            A file is missing or damaged.
        """
        yield from large_parts(self.places, table)

    def check(self, *, thorough: bool = False) -> None:
        """Check every file.

        Parameters
        ----------
        thorough
            Whether to read all of it, to find why a question failed.

        Raises
        ------
        StoreError
            A file is missing or damaged, or was replaced since the store was opened.
        """
        if (root := remote(self.path)) is not None:
            check_remote(root, self.places, thorough=thorough)
            return
        for place in self.places:
            check_place(place, thorough=thorough)

    def split(self) -> tuple[Store, ...]:
        """One store per (run, rank), for work that should not hold everything in memory."""
        singles = [
            (replace(place, visible=frozenset({key})) if place.members else place)
            for place in self.places
            for key in (sorted(place.visible) if place.members else [("", 0)])
        ]
        return tuple(replace(self, places=PlaceList((place,))) for place in singles)

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Store:
        """The store without the files that have no rows of some runs and ranks.

        Parameters
        ----------
        runs, ranks
            Runs and ranks to keep; None for all. Files that stay can have rows of others.

        Returns
        -------
        Store
            It keeps at least one file, even if none has rows of these.
        """
        names = None if runs is None else frozenset(runs)
        places = self.places.only(names, ranks)
        return replace(self, places=places if len(places) else PlaceList(self.places[:1]))

    def successor(self) -> Store | None:
        """A store of these (run, rank)s in their current files; None if unchanged, or gone."""
        names = {name for place in self.places for name in place.names}
        root = _listed_again(self.path)
        current = [
            replace(
                place,
                visible=frozenset(k for k in place.visible if (component(k[0]), k[1]) in names),
            )
            for place in listed(root)
            if not place.names.isdisjoint(names)
        ]
        is_all = names == {name for place in current for name in place.names}
        new, old = (
            {(str(p.folder), p.identity) for p in listing} for listing in (current, self.places)
        )
        is_new = is_all and new != old
        return replace(self, path=root, places=PlaceList(current)) if is_new else None


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like a store, or a part of one.

    Parameters
    ----------
    path
        Any path; it need not exist.

    Returns
    -------
    bool
        True if there are files where a store has them; `scan` checks them.

    Examples
    --------
    >>> is_store("no/such/folder")
    False
    """
    root = root_at(path)
    if (far := remote(root)) is not None:  # to look further would take a request for each
        beginnings = (*_PARTS, CATALOGUE)
        return "traces.parquet" in far.names() or any(
            name.startswith(beginnings) for name in far.folders()
        )
    return _has_traces(os.fspath(root), _PARTS)


def root_at(path: str | os.PathLike[str]) -> Path:
    """The folder that a path or a URL names; nothing of it is opened here."""
    if isinstance(path, str) and is_url(path) and not Path(path).exists():
        local = local_path(path)
        return Tree(path).path.as_path() if local is None else Path(local)
    far = remote(path)
    return Path(path) if far is None else far.as_path()


def _size(file: str) -> int:
    with suppress(OSError):  # whoever reads it says why it is gone
        return Path(file).stat().st_size
    return 0


def _listed_again(root: Path) -> Path:
    far = remote(root)
    return root if far is None else far.tree.fresh().path.as_path()


def _has_traces(folder: str, parts: tuple[str, ...]) -> bool:
    """Whether a folder has traces, or one in it whose name begins so; the first one decides."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "traces.parquet":
                return True
            below = _RANKS if entry.name.startswith("run=") else ()
            if entry.name.startswith(parts) and _has_traces(entry.path, below):
                return True
            if entry.name == KEPT and parts is _PARTS and folders(Path(folder)):
                return True
    return False


def scan(
    path: str | os.PathLike[str],
    runs: Iterable[str] | None = None,
    ranks: Integers | None = None,
) -> Store:
    """Find the files of a store and check that they are of a schema version that opens.

    Parameters
    ----------
    path
        The store, or a ``run=...``, ``rank=...`` or ``pack-...`` folder of one.
    runs, ranks
        Runs and ranks to load: other files are not opened. None for all.

    Returns
    -------
    Store
        Its files; no table has been read.

    Raises
    ------
    StoreError
        There is no store, or a file of it is missing or damaged.
    StoreVersionError
        It was written with a newer schema version, or one that is too old.
    UnknownNameError
        There is no such run or rank; the message says which there are.
    """
    root = root_at(path)
    is_remote = remote(root) is not None
    if not is_remote and not root.is_dir():
        raise StoreError(f"{root}: no such folder; create a store with to_parquet() or convert")
    if not is_store(root):
        raise StoreError(
            f"{root}: not a profframe store: no run=.../rank=.../traces.parquet in it; "
            "create a store with to_parquet() or convert"
        )
    if is_remote:
        return _scan(root, runs, ranks, 1)
    hold = Hold.of(root / IN_USE)
    return replace(_scan(root, runs, ranks, _LISTINGS), hold=hold)


def _scan(root: Path, runs: Iterable[str] | None, ranks: Integers | None, attempts: int) -> Store:
    try:
        files = _selected(root, runs, ranks)
        few = len(files.places) <= FEW
        checked = files.places if few else files.places.unchecked()
        written = _checked(root, checked)
    except StoreVersionError:
        raise
    except StoreError:  # also of folders that were removed or packed after they were listed
        if attempts:
            return _scan(_listed_again(root), runs, ranks, attempts - 1)
        raise
    older = {f: one.schema for f, one in written.items() if one.schema < schema.SCHEMA_VERSION}
    is_current = all(one.is_current for one in written.values())
    is_current = is_current and (few or files.places.are_current)
    return replace(files, is_current=is_current, older=older)


def _selected(root: Path, runs: Iterable[str] | None, ranks: Integers | None) -> Store:
    """The files of some runs and ranks; of these runs only, the catalogue is read."""
    names = None if runs is None else frozenset(runs)
    places = listed(root, names)
    if names is not None and not _has_all(places, names, ranks):
        places = listed(root)  # to say which there are
    if isinstance(places, PlaceList):
        places = PlaceList(p for p in places if p.visible == p.members or p.visible)
    files = Store(root, places)
    if names is None and ranks is None:
        return files
    try:
        check_texts("run", names or (), places.runs())
    except UnknownNameError as error:
        raise explained(error, root, names or ()) from error
    check_numbers("rank", ranks or (), places.ranks())
    return files.only(names, ranks)


def _has_all(places: Places, runs: frozenset[str], ranks: Integers | None) -> bool:
    """Whether the runs are there, and have all of the ranks among them."""
    if not runs <= {*places.runs()}:
        return False
    if ranks is None:
        return True
    present = {*places.ranks()}
    if isinstance(ranks, range):
        return any(rank in ranks for rank in present)
    return present.issuperset(ranks)


def _checked(root: Path, listing: Iterable[Place]) -> Mapping[Path, Written]:
    """What `check_folder` returns for each; elsewhere, each takes as long as the network needs."""
    if remote(root) is None:
        return {place.folder: check_folder(root, place) for place in listing}
    few = [*listing]
    with ThreadPoolExecutor(_AT_ONCE, "profframe-check") as pool:
        checks = pool.map(partial(check_folder, root), few)
        return dict(zip((place.folder for place in few), checks, strict=True))


def check_folder(root: Path, place: Place) -> Written:
    """Raise an error if a folder lacks a table, or is of a schema version that does not open.

    An optional table is missing only if the manifest lists it.

    Returns
    -------
    Written
        Which version wrote it.
    """
    folder = place.folder
    names = file_names(folder)
    listed = manifest.optional_in(folder) if manifest.NAME in names else frozenset()
    missing = [
        name
        for name in schema.TABLES
        if f"{name}.parquet" not in names and (name in listed or name not in schema.OPTIONAL_TABLES)
    ]
    file = folder / "traces.parquet"
    if file.name in names:  # before the others: a store of another version has other tables
        with parquet_file(file) as traces:
            metadata = traces.metadata
        with reading(file):
            version = versions.written(root, metadata, file)
    if missing:
        raise StoreError(f"{folder / missing[0]}.parquet: missing from the store; convert it again")
    if optional_tables(names) != place.optional:
        raise StoreError(f"{folder}: written again while the store was opened; load it again")
    return version
