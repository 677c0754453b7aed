"""Visible rows of the files of a store.

The Parquet reader of polars ends the whole process at some damaged files. So Arrow reads and checks
them for polars.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.query.frames import plain
from profframe.store import parquet as files
from profframe.store.layout import Place
from profframe.store.manifest import Key

if TYPE_CHECKING:
    import polars as pl


def row_groups(
    place: Place, table: str, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Visible rows of a table of one folder, in the schema's types.

    Parameters
    ----------
    place
        The folder.
    table
        Name of a table of the schema.
    columns
        Columns to read, in this order; None for all.

    Yields
    ------
    pyarrow.Table
        At least one; row group by row group.

    Raises
    ------
    StoreError
        The file is missing or damaged.
    """
    names = columns or schema.TABLES[table].names
    yield files.schema_of(table, tuple(names)).empty_table()
    for group in _groups(place, table):
        yield group.rows(names) if place.condition is None else _visible(place, group, names)


def large_parts(places: Iterable[Place], table: str) -> Iterator[pa.Table]:
    """Visible rows of a table of many folders, in the schema's types, many rows at once.

    Parameters
    ----------
    places, table
        As for `lazy`.

    Yields
    ------
    pyarrow.Table
        At least one; small folders together.

    Raises
    ------
    StoreError
        A file is missing or damaged.
    """
    names = schema.TABLES[table].names
    empty = files.schema_of(table, tuple(names)).empty_table()
    parts = files.in_groups(_present(places, table, names))
    for part in itertools.chain([next(parts, empty)], parts):
        yield files.with_all_columns(part, table, names)


def _present(
    places: Iterable[Place],
    table: str,
    names: Sequence[str],
    may_match: Callable[[files.RowGroup], bool] | None = None,
) -> Iterator[pa.Table]:
    """Visible rows of row groups, without columns that are all NULL there."""
    for place in places:
        for group in _groups(place, table):
            if may_match is None or may_match(group):
                is_whole = place.condition is None
                yield group.present_rows(names) if is_whole else _visible(place, group, names)


def lazy(places: Iterable[Place], table: str) -> pl.LazyFrame:
    """All rows of a table as a LazyFrame; nothing is read yet.

    Parameters
    ----------
    places
        Folders, with a file of the table or, of an optional one, without; iterated at each read.
    table
        Name of a table of the schema.

    Returns
    -------
    polars.LazyFrame
        Text as plain String; it reads only the columns and row groups that a query needs.
    """
    from polars.io.plugins import register_io_source

    def frames(
        columns: list[str] | None, where: pl.Expr | None, rows: int | None, _at_once: int | None
    ) -> Iterator[pl.DataFrame]:
        names = columns or schema.TABLES[table].names
        # A limit of rows applies before the condition.
        may_match = None if where is None or rows is not None else _matches(where)
        parts = _present(places, table, names, may_match)
        groups = files.in_groups(parts, files.ROW_GROUP if rows is None else rows)
        for part in _read_ahead(groups) if rows is None else groups:
            frame = plain(files.with_all_columns(part, table, names).combine_chunks())
            if rows is not None:
                frame = frame.head(rows)
                rows -= frame.height
            yield frame if where is None else frame.filter(where)
            if rows == 0:
                return

    return register_io_source(frames, schema=_columns(table), is_pure=True)


def _read_ahead(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Iterate over parts, each read ahead while the previous one is used."""
    with ThreadPoolExecutor(1, "profframe-read") as pool:
        future = pool.submit(next, parts, None)
        while (part := future.result()) is not None:
            future = pool.submit(next, parts, None)
            yield part


@cache
def _columns(table: str) -> pl.Schema:
    return plain(schema.TABLES[table].arrow.empty_table()).schema


def _groups(place: Place, table: str) -> Iterator[files.RowGroup]:
    """Row groups of a table of one folder that may have visible rows."""
    if not place.has(table):
        return
    runs = None if place.condition is None else [run for run, _ in place.visible]
    for group in files.row_groups(place.file(table), table):
        if runs is None or _may_have(group, runs):
            yield group


def _visible(place: Place, group: files.RowGroup, columns: Sequence[str]) -> pa.Table:
    """The visible rows of a row group with hidden ones."""
    rows = group.rows([*dict.fromkeys((*columns, "run", "rank"))])
    parts = [rows[:0]]
    for is_visible, stretches in groupby(_stretches(rows), lambda part: part[0] in place.visible):
        if is_visible:
            (_, start, end), *later = stretches
            parts.append(rows.slice(start, (later[-1][2] if later else end) - start))
    return pa.concat_tables(parts).select(columns)


def by_trace(table: pa.Table) -> dict[Key, pa.Table]:
    """Rows by (run, rank), in their order; slices, not copies."""
    slices = defaultdict(list)
    for key, start, end in _stretches(table):
        slices[key].append(table.slice(start, end - start))
    return {key: pa.concat_tables(parts) for key, parts in slices.items()}


def _stretches(table: pa.Table) -> Iterator[tuple[Key, int, int]]:
    """The (run, rank) of adjacent rows, where they begin and where they end."""
    if len(table) == 0:
        return
    run = pa.concat_arrays(table["run"].unify_dictionaries().chunks)
    names, codes, rank = (
        run.dictionary.to_pylist(),
        run.indices.to_numpy(),
        table["rank"].to_numpy(),
    )
    edges = np.flatnonzero((codes[1:] != codes[:-1]) | (rank[1:] != rank[:-1])) + 1
    for start, end in pairwise([0, *edges.tolist(), len(table)]):
        yield (names[codes[start]], int(rank[start])), start, end


def _matches(where: pl.Expr) -> Callable[[files.RowGroup], bool]:
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
        return files.may_have(metadata, runs)
