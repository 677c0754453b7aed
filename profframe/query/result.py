"""Arrow tables and results of DuckDB, as polars frames."""

from __future__ import annotations

from typing import Final

import duckdb
import polars as pl
import pyarrow as pa

from profframe.errors import AnswerError
from profframe.query.selection import TIME

SELECTION_COLUMNS: Final = frozenset(
    ("run", "rank", "kind", "step", "inference_phase", "replays", *TIME.values())
)
"""Columns that conditions of a selection read."""


def plain(table: pa.Table) -> pl.DataFrame:
    """A table as a DataFrame, dictionaries as plain String.

    Rows share equal texts: a column of stacks would be a hundred times as large otherwise.
    """
    return pl.DataFrame(
        [
            _gathered(name, column)
            if pa.types.is_dictionary(column.type)
            else pl.Series(name, column)
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
    )


def selected(table: pa.Table, where: str) -> pa.Table:
    """The rows for which a condition of the selection is true."""
    columns = [name for name in table.column_names if name in SELECTION_COLUMNS]
    mask = plain(table.select(columns)).with_columns(selected=pl.sql_expr(where).fill_null(False))
    return table.filter(mask["selected"].to_arrow())


def frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of a query, DuckDB's 128-bit sums as Int64 where they fit."""
    try:
        rows = plain(relation.to_arrow_table())
    except pl.exceptions.PolarsError as error:
        types = ", ".join(map(str, relation.types))
        raise AnswerError(
            f"polars has no type for a column of the result ({types}); cast it, as in x::VARCHAR"
        ) from error
    wide = [n for n, t in zip(relation.columns, relation.types, strict=True) if t == "HUGEINT"]
    try:
        return rows.with_columns(pl.col(wide).cast(pl.Int64))
    except pl.exceptions.InvalidOperationError:
        return rows.with_columns(pl.col(wide).cast(pl.Int128))


def _gathered(name: str, column: pa.ChunkedArray) -> pl.Series:
    parts = []
    for chunk in column.unify_dictionaries().chunks or [pa.array([], column.type)]:
        texts = pl.Series(name, chunk.dictionary, pl.String)
        parts.append(texts.gather(pl.Series(chunk.indices)))
    return pl.concat(parts)
