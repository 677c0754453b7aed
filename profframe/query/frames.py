"""Arrow tables and results of DuckDB, as polars frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import duckdb
import polars as pl
import pyarrow as pa

from profframe.errors import AnswerError
from profframe.query.selection import TIME

SELECTION_COLUMNS: Final = frozenset(
    ("run", "rank", "kind", "step", "inference_phase", "replays", *TIME.values())
)
"""Columns that conditions of a selection read."""
_WITHOUT_TYPE: Final = frozenset(("bignum", "geometry", "interval", "type", "union", "variant"))
"""Types of DuckDB that polars has none for, or can neither show nor write."""
_NESTED: Final = frozenset(("array", "list", "map", "struct", "tuple"))
_MAP: Final[Any] = getattr(pl, "Map", type(None))  # since polars 2.1
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999: what Python's dates hold, and polars can show."""
_PER_S: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_S: Final = 86_400


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
    """The rows of a query, DuckDB's 128-bit sums as Int64 where they fit, maps as lists of pairs.

    Raises
    ------
    AnswerError
        polars cannot hold a column; the message names it.
    """
    for name, type_ in zip(relation.columns, relation.types, strict=True):
        if not _WITHOUT_TYPE.isdisjoint(_ids(type_)):
            raise AnswerError(_advice(name, f"has a type that polars has none for, {type_}"))
    try:
        rows = plain(relation.to_arrow_table())
    except pl.exceptions.PolarsError as error:
        types = ", ".join(map(str, relation.types))
        raise AnswerError(
            f"polars has no type for a column of the result ({types}); cast it, as in x::VARCHAR"
        ) from error
    rows = rows.cast(
        {name: pairs for name, of in rows.schema.items() if (pairs := _paired(of)) != of}
    )
    for column in rows:
        if not all(map(_is_in_years, _moments(column))):
            raise AnswerError(_advice(column.name, "has dates outside the years 1 to 9999"))
    wide = [n for n, t in zip(relation.columns, relation.types, strict=True) if t == "HUGEINT"]
    try:
        return rows.with_columns(pl.col(wide).cast(pl.Int64))
    except pl.exceptions.InvalidOperationError:
        return rows.with_columns(pl.col(wide).cast(pl.Int128))


def _advice(name: str, why: str) -> str:
    return f"column {name!r} {why}; cast it, as in x::VARCHAR"


def _ids(type_: Any) -> Iterator[str]:
    """Names of a type of DuckDB, and of those inside it."""
    yield type_.id
    if type_.id in _NESTED:
        for _, inside in type_.children:
            if not isinstance(inside, int):  # the length of arrays
                yield from _ids(inside)


def _paired(dtype: Any) -> Any:
    """The type with lists of pairs for maps, which not everything can show or write."""
    if isinstance(dtype, _MAP):
        return pl.List(pl.Struct({"key": _paired(dtype.key), "value": _paired(dtype.value)}))
    if isinstance(dtype, pl.List):
        return pl.List(_paired(dtype.inner))
    if isinstance(dtype, pl.Array):
        return pl.Array(_paired(dtype.inner), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _paired(field.dtype) for field in dtype.fields})
    return dtype


def _moments(column: pl.Series) -> Iterator[pl.Series]:
    """Dates and times in a column, also those within its values."""
    if isinstance(column.dtype, (pl.Date, pl.Datetime)):
        yield column
    elif isinstance(column.dtype, (pl.List, pl.Array)):
        inner: Any = column.dtype.inner
        if inner.is_temporal() or inner.is_nested():
            yield from _moments(column.explode())
    elif isinstance(column.dtype, pl.Struct):
        for field in column.struct.fields:
            yield from _moments(column.struct.field(field))


def _is_in_years(moments: pl.Series) -> bool:
    """Whether all lie in years that Python has."""
    numbers = moments.to_physical()
    if isinstance(moments.dtype, pl.Datetime):
        seconds = numbers // _PER_S[moments.dtype.time_unit]
    else:
        seconds = numbers.cast(pl.Int64) * _DAY_S
    return bool(seconds.is_between(_FIRST_S, _LAST_S).all())


def _gathered(name: str, column: pa.ChunkedArray) -> pl.Series:
    parts = []
    for chunk in column.unify_dictionaries().chunks or [pa.array([], column.type)]:
        texts = pl.Series(name, chunk.dictionary, pl.String)
        parts.append(texts.gather(pl.Series(chunk.indices)))
    return pl.concat(parts)
