"""Text for spreadsheets: what a program would take for a formula is text there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_FORMULA: Final = r"^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]"
"""How a text begins that spreadsheets compute; some of them also take wide characters for it."""
_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def defused(frame: pl.DataFrame) -> pl.DataFrame:
    """Write an apostrophe before each text that a spreadsheet would compute.

    Text that is a number stays as it is, and so does all that is no text.

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
