"""Rows of the files of a store, those that count.

polars has the fastest reader of Parquet, but it panics at some damaged files, or ends the process.
It reads files that are as they were written, by their checksums; Arrow reads the others, and checks
what it has read.
"""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from profframe import manifest, schema
from profframe import table_files as files
from profframe.errors import StoreError
from profframe.frames import plain
from profframe.layout import Place, checksum

if TYPE_CHECKING:
    import polars as pl


def row_groups(
    place: Place,
    table: str,
    columns: Sequence[str] | None = None,
    may_matter: Callable[[files.RowGroup], bool] | None = None,
) -> Iterator[pa.Table]:
    """Rows of a table of one folder, those that count, in the schema's types.

    Parameters
    ----------
    place
        The folder.
    table
        Name of a table of the schema.
    columns
        Those that are needed, in this order; None for all.
    may_matter
        Whether rows of a row group can be needed; None if all are.

    Yields
    ------
    pyarrow.Table
        At least one; row group by row group.

    Raises
    ------
    StoreError
        The file is missing or damaged.
    """
    is_part = place.visible != place.members
    read = columns and [*dict.fromkeys((*columns, *(("run", "rank") if is_part else ())))]
    arrow = schema.TABLES[table].arrow
    yield pa.schema([arrow.field(name) for name in columns or arrow.names]).empty_table()
    runs = [run for run, _ in place.visible]
    for group in files.row_groups(place.file(table), table):
        if is_part and not _may_have(group, runs):
            continue
        if may_matter is not None and not may_matter(group):
            continue
        rows = group.rows(read)
        if is_part:
            kept = [part for key, part in by_trace(rows).items() if key in place.visible]
            rows = pa.concat_tables([rows[:0], *kept]).select(columns or arrow.names)
        yield rows


def lazy(places: Sequence[Place], table: str) -> pl.LazyFrame:
    """All rows of a table as a LazyFrame; nothing is read yet.

    Parameters
    ----------
    places
        Folders with a file of the table.
    table
        Name of a table of the schema.

    Returns
    -------
    polars.LazyFrame
        Text as plain String; columns and rows that are not asked for are not read.
    """
    from polars.io.plugins import register_io_source

    def frames(
        columns: list[str] | None, where: pl.Expr | None, rows: int | None, _at_once: int | None
    ) -> Iterator[pl.DataFrame]:
        as_written, others = _parted(places, table)
        of_all = where if rows is None else None  # the first rows are taken before others go
        parts = (_by_polars(as_written, table, columns, of_all, rows) for _ in as_written[:1])
        for frame in chain(parts, _by_arrow(others, table, columns, of_all)):
            if rows is None:
                yield frame
                continue
            first = frame.head(rows)
            rows -= len(first)
            yield first if where is None else first.filter(where)
            if not rows:
                return

    return register_io_source(frames, schema=_columns(table), is_pure=True)


def _parted(places: Iterable[Place], table: str) -> tuple[list[Place], list[Place]]:
    """Folders all of whose rows count and whose file is as it was written, and others."""
    parts: tuple[list[Place], list[Place]] = ([], [])
    for place in places:
        known = place.condition is None and _is_as_written(place.file(table))
        parts[not known].append(place)
    return parts


def _is_as_written(file: Path) -> bool:
    try:
        known = file.stat()
        return stat.S_ISREG(known.st_mode) and _has_its_checksum(
            file, (known.st_ino, known.st_size, known.st_mtime_ns)
        )
    except (OSError, StoreError):
        return False


@lru_cache(maxsize=65_536)
def _has_its_checksum(file: Path, _identity: tuple[int, int, int]) -> bool:
    known = manifest.read(file.parent).files.get(file.name)
    return known is not None and checksum(file) == known.sha256


@cache
def _columns(table: str) -> pl.Schema:
    return plain(schema.TABLES[table].arrow.empty_table()).schema


def _by_polars(
    places: Sequence[Place],
    table: str,
    columns: Sequence[str] | None,
    where: pl.Expr | None,
    rows: int | None,
) -> pl.DataFrame:
    import polars as pl

    paths = [str(place.file(table)) for place in places]
    found = pl.scan_parquet(paths, hive_partitioning=False, glob=False)
    found = found if columns is None else found.select(columns)
    found = found if rows is None else found.head(rows)
    try:
        return (found if where is None else found.filter(where)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        for place in places:
            for _ in row_groups(place, table):
                pass
        why = " ".join(str(error).split())
        raise StoreError(f"{paths[0]}: table {table!r} cannot be read: {why}") from error


def _by_arrow(
    places: Iterable[Place], table: str, columns: Sequence[str] | None, where: pl.Expr | None
) -> Iterator[pl.DataFrame]:
    may_matter = None if where is None else _any_of(where)
    parts = (part for place in places for part in row_groups(place, table, columns, may_matter))
    for part in files.in_groups(parts):
        yield plain(part) if where is None else plain(part).filter(where)


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


def _any_of(where: pl.Expr) -> Callable[[files.RowGroup], bool]:
    """Whether a condition holds for rows of a row group, by the few columns that it names."""
    names = [*dict.fromkeys(where.meta.root_names())]

    def holds(group: files.RowGroup) -> bool:
        if group.file.num_row_groups == 1:
            return True
        return bool(plain(group.rows(names)).select(where.any()).item())

    return holds


def _may_have(group: files.RowGroup, runs: Iterable[str]) -> bool:
    """Whether rows of some runs can be in a row group, by its statistics."""
    with files.reading(group.path):
        metadata = group.file.metadata.row_group(group.number)
        for number in range(metadata.num_columns):
            column = metadata.column(number)
            if column.path_in_schema == "run":
                known = column.statistics
                if known is None or not known.has_min_max:
                    return True
                return any(known.min <= run <= known.max for run in runs)
    return True
