"""Text for spreadsheets, in which nothing is taken for a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_FORMULA: Final = r"^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]"
"""Beginning of a formula; some spreadsheets also accept wide characters."""
_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def defused(frame: pl.DataFrame) -> pl.DataFrame:
    """Write an apostrophe before each text that a spreadsheet would compute.

    Numbers do not change, also those in text.

    Examples
    --------
    >>> import polars as pl
    >>> defused(pl.DataFrame({"name": ["=1+1", "aten::mm", "-1"], "x": [-1, 0, 1]})).rows()
    [("'=1+1", -1), ('aten::mm', 0), ('-1', 1)]
    """
    import polars as pl

    names = pl.Series(frame.columns, dtype=pl.String)
    plain = pl.DataFrame(frame).rename(dict(zip(names, _defused(names), strict=True)))
    texts = [column for column in plain if column.dtype == pl.String]
    return plain.with_columns(_defused(column) for column in texts)


def _defused(texts: pl.Series) -> pl.Series:
    import polars as pl

    name = pl.col(texts.name)
    computed = name.str.contains(_FORMULA) & ~name.str.contains(_NUMBER)
    chosen = pl.when(computed).then("'" + name).otherwise(name)
    return texts.to_frame().select(chosen.alias(texts.name)).to_series()
