"""Rows of the files of a store, those that count.

polars has a reader of Parquet of its own, which ends the whole process at some damaged files. So
Arrow reads them, and polars is given what has been checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.query.result import plain
from profframe.store import parquet as files
from profframe.store.layout import Place

if TYPE_CHECKING:
    import polars as pl


def row_groups(
    place: Place, table: str, columns: Sequence[str] | None = None
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
        yield group.rows(names) if place.condition is None else _counted(place, group, names)


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
        names = columns or schema.TABLES[table].names
        # The first rows are taken before others go.
        may_matter = None if where is None or rows is not None else _any_of(where)
        parts = (
            group.known(names) if place.condition is None else _counted(place, group, names)
            for place in places
            for group in _groups(place, table)
            if may_matter is None or may_matter(group)
        )
        groups = files.in_groups(parts, files.ROW_GROUP if rows is None else rows)
        for part in _read_ahead(groups) if rows is None else groups:
            frame = plain(files.completed(part, table, names).combine_chunks())
            if rows is not None:
                frame = frame.head(rows)
                rows -= frame.height
            yield frame if where is None else frame.filter(where)
            if rows == 0:
                return

    return register_io_source(frames, schema=_columns(table), is_pure=True)


def _read_ahead(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same, each read while the one before it is used."""
    with ThreadPoolExecutor(1, "profframe-read") as pool:
        coming = pool.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = pool.submit(next, parts, None)
            yield part


@cache
def _columns(table: str) -> pl.Schema:
    return plain(schema.TABLES[table].arrow.empty_table()).schema


def _groups(place: Place, table: str) -> Iterator[files.RowGroup]:
    """The row groups of a table of one folder that can have rows that count."""
    runs = None if place.condition is None else [run for run, _ in place.visible]
    for group in files.row_groups(place.file(table), table):
        if runs is None or _may_have(group, runs):
            yield group


def _counted(place: Place, group: files.RowGroup, columns: Sequence[str]) -> pa.Table:
    """The rows that count of a row group of which not all do."""
    rows = group.rows([*dict.fromkeys((*columns, "run", "rank"))])
    kept = [part for key, part in by_trace(rows).items() if key in place.visible]
    return pa.concat_tables([rows[:0], *kept]).select(columns)


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
