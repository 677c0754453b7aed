"""Text for spreadsheets, none of which is taken for a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_FORMULA: Final = r"^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]"
"""Beginning of a formula; some spreadsheets also accept wide characters."""
_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Write an apostrophe before each text that a spreadsheet would compute.

    Numbers do not change, not even those in text.

    Examples
    --------
    >>> import polars as pl
    >>> without_formulas(pl.DataFrame({"name": ["=1+1", "aten::mm", "-1"], "x": [-1, 0, 1]})).rows()
    [("'=1+1", -1), ('aten::mm', 0), ('-1', 1)]
    """
    import polars as pl

    names = pl.Series(frame.columns, dtype=pl.String)
    plain = pl.DataFrame(frame).rename(dict(zip(names, _without_formulas(names), strict=True)))
    texts = [column for column in plain if column.dtype == pl.String]
    return plain.with_columns(_without_formulas(column) for column in texts)


def _without_formulas(texts: pl.Series) -> pl.Series:
    import polars as pl

    text = pl.col(texts.name)
    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    plain = pl.when(is_formula).then("'" + text).otherwise(text)
    return texts.to_frame().select(plain.alias(texts.name)).to_series()
