"""Keep the catalogue of a store on a file system: add what was written, and mend it.

The folders are there before their rows are, and gone before a row says so. So whoever is killed in
between, or cannot write the catalogue, leaves a store that readers see as it is, only later.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import polars as pl

from profframe import schema
from profframe.errors import StoreError
from profframe.store import manifest
from profframe.store.catalogue import segments
from profframe.store.catalogue.listing import LISTED, of_catalogue, only_members
from profframe.store.catalogue.rows import as_table, rows_of, run_states, tombstone
from profframe.store.catalogue.segments import LocalSegments
from profframe.store.layout import (
    CATALOGUE,
    STAGED,
    TEMPORARY,
    Place,
    check_own,
    component,
    folder_of,
    folders_in,
    identity,
    name_of,
    optional_tables,
)
from profframe.store.manifest import PACK, Key
from profframe.store.parquet import keys_in
from profframe.system import drafts

Rows = list[dict[str, Any]]
_LOGGER: Final = "profframe.store"
_RUN: Final = "run="
_FILES: Final = frozenset(
    f"{name}.parquet" for name in schema.TABLES if name not in schema.OPTIONAL_TABLES
)
_BATCH: Final = 2_000
"""Most members whose rows are in memory at once."""


def record(root: Path, folders: Iterable[Path], removed: Iterable[Key] = ()) -> None:
    """Add folders of one member each to the catalogue, as they are now, and take others out.

    Nothing is done in a draft. An error is only logged: readers look into folders that the
    catalogue does not know.

    Parameters
    ----------
    root
        The store.
    folders
        Folders that were published.
    removed
        Run and rank of folders that are gone.
    """
    if root.name.startswith((TEMPORARY, STAGED)):
        return
    with _logged(root):
        rows = [row for folder in folders for row in _rows_of_single(root, folder)]
        _append(root, [*rows, *_tombstones(root, removed)])


def record_packs(root: Path, packs: Iterable[str]) -> None:
    """Add the members of packs to the catalogue, unless what they replace is still there.

    Parameters
    ----------
    root
        The store.
    packs
        Names of packs.
    """
    with _logged(root):
        _append(root, [row for pack in packs for row in _rows_of_pack(root, root / pack)])


def mend(root: Path) -> None:
    """Let the catalogue of a store say what the folders say, and remove leftovers of writers.

    Parameters
    ----------
    root
        The store.
    """
    with _logged(root):
        if not only_members(root):
            return
        _remove_damaged(root)
        state = of_catalogue(root)
        unknown = state.unknown if state is not None else _names(root)
        runs = [name for name in unknown if name.startswith(_RUN)]
        by_run = _rows_by_run(root, runs)
        rows: Rows = []
        for name in runs:
            rows += _rows_of_run(root, name, by_run.get(name, []))
            if len(rows) >= _BATCH:
                _append(root, rows)
                rows = []
        for name in unknown:
            if name.startswith(PACK):
                rows += _rows_of_pack(root, root / name)
        _append(root, rows)


def _rows_by_run(root: Path, runs: list[str]) -> dict[str, Rows]:
    """Rows that the catalogue has of the folders of some runs."""
    rows = segments.read(LocalSegments(root), LISTED).latest()
    of_run = pl.col("folder").str.extract(r"^([^/]*)").alias("of_run")
    rows = rows.with_columns(of_run).filter(~pl.col("is_removed"), pl.col("of_run").is_in(runs))
    by_run: dict[str, Rows] = defaultdict(list)
    for row in rows.iter_rows(named=True):
        by_run[row["of_run"]].append(row)
    return by_run


def fold(root: Path) -> None:
    """Fold the catalogue of a store into one segment, without rows of folders that are gone."""
    with _logged(root):
        names = {*_names(root)}
        of_folder = pl.col("folder").str.extract(r"^([^/]*)")

        def is_live(rows: pl.DataFrame) -> pl.Series:
            return rows.select(of_folder.is_in([*names])).to_series()

        segments.fold(LocalSegments(root), all_of_them=True, is_live=is_live)


def _names(root: Path) -> list[str]:
    """Names of folders of runs and of packs."""
    with suppress(OSError):
        names = (path.name for path in root.iterdir())
        return sorted(name for name in names if name.startswith((_RUN, PACK)))
    return []


@contextmanager
def _logged(root: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, StoreError) as error:
        logging.getLogger(_LOGGER).debug("%s: its catalogue is not up to date: %s", root, error)


def _append(root: Path, rows: Rows) -> None:
    """Add a segment of rows, with what the folders of their runs have."""
    names = {row["folder"].partition("/")[0] for row in rows if row["folder"].startswith(_RUN)}
    if not rows:
        return
    check_own(root, root / CATALOGUE)
    drafts.sweep(root / CATALOGUE, segments.DRAFT)
    states = run_states(root, sorted(names))
    with_states = []
    for row in rows:
        time_ns, checksum = states.get(row["folder"].partition("/")[0], (None, None))
        with_states.append(row | {"run_mtime_ns": time_ns, "run_checksum": checksum})
    segments.append(LocalSegments(root), as_table(with_states))


def _rows_of_single(root: Path, folder: Path) -> Rows:
    """The row of a folder of one member; none if it is gone, damaged, or named otherwise."""
    with suppress(StoreError, OSError):
        files = {entry.name for entry in folder.iterdir()}
        if not files.issuperset(_FILES):
            return []
        rows = rows_of(root, Place(folder, name_of(folder), optional=optional_tables(files)))
        if [(component(row["run"]), row["rank"]) for row in rows] == [name_of(folder)]:
            return rows
    return []


def _tombstones(root: Path, removed: Iterable[Key]) -> Rows:
    folders = ((run, rank, folder_of(root, run, rank)) for run, rank in removed)
    return [
        tombstone(run, rank, folder.relative_to(root).as_posix())
        for run, rank, folder in folders
        if not folder.exists()
    ]


def _rows_of_run(root: Path, name: str, catalogued: Rows) -> Rows:
    """Rows that the catalogue lacks for the folder of a run; one at least, to say what it has."""
    rows: Rows = []
    present: set[str] = set()
    rows_by_folder = {row["folder"]: row for row in catalogued}
    for folder, _ in folders_in(root / name):
        where = folder.relative_to(root).as_posix()
        present.add(where)
        row = rows_by_folder.get(where)
        if row is None or identity(folder) != f"{row['traces_bytes']}-{row['traces_mtime_ns']}":
            rows += _rows_of_single(root, folder)
    rows += [
        tombstone(row["run"], row["rank"], where)
        for where, row in rows_by_folder.items()
        if where not in present
    ]
    if rows or not present:
        return rows
    return _rows_of_single(root, root / min(present))


def _rows_of_pack(root: Path, pack: Path) -> Rows:
    """Rows of a pack, with what it replaces; none while that is still there."""
    try:
        replaced = manifest.read(pack).replaces
        if any(_is_there(root, name, expected) for name, expected in replaced.items()):
            return []
        keys = keys_in(pack / "traces.parquet")
        files = {entry.name for entry in pack.iterdir()}
        place = Place(pack, members=keys, visible=keys, optional=optional_tables(files))
        rows = rows_of(root, place)
    except (OSError, StoreError):
        return []
    by_name = {(component(row["run"]), row["rank"]): row for row in rows}
    for name, expected in replaced.items():
        if name.startswith(PACK):
            continue
        folder = Path(name)
        key = name_of(folder)
        if key is None:
            return []
        size, _, time_ns = expected.partition("-")
        of_folder = {"replaced_bytes": int(size), "replaced_mtime_ns": int(time_ns)}
        if key in by_name:
            by_name[key].update(of_folder)
        elif "~" in key[0]:
            return []
        else:
            rows.append(tombstone(unquote(key[0]), key[1], pack.name) | of_folder)
    return rows


def _is_there(root: Path, name: str, expected: str) -> bool:
    """Whether a folder that was replaced is still there."""
    folder = root / name
    now = identity(folder)
    return folder.exists() and (not expected or now == expected)


def _remove_damaged(root: Path) -> None:
    files = LocalSegments(root)
    try:
        segments.read(files, LISTED)
    except StoreError:
        for name in segments.damaged(files):
            files.remove(name)
