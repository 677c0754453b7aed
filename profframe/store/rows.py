"""Rows of the files of a store, those that count.

polars has a reader of Parquet of its own, which ends the whole process at some damaged files. So
Arrow reads them, and polars is given what has been checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe import table_files as files
from profframe.frames import plain
from profframe.layout import Place

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
        may_matter = None if where is None or rows is not None else _any_of(where)
        parts = (part for place in places for part in row_groups(place, table, columns, may_matter))
        for part in files.in_groups(parts):
            frame = plain(part)
            if rows is not None:
                frame = frame.head(rows)
                rows -= frame.height
            yield frame if where is None else frame.filter(where)
            if rows == 0:
                return

    nothing = plain(schema.TABLES[table].arrow.empty_table())
    return register_io_source(frames, schema=nothing.schema, is_pure=True)


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

    def holds(group: files.RowGroup) -> bool:
        if group.file.num_row_groups == 1:
            return True
        return bool(plain(group.rows(where.meta.root_names())).select(where.any()).item())

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
