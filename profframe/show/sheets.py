"""Text for spreadsheets: none of it is taken for a formula, or acts on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profframe.show.units import ACTING_IN_LINES, visible_lines

if TYPE_CHECKING:
    import polars as pl

_FORMULA: Final = r"^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]"
"""Beginning of a formula; some spreadsheets also accept wide characters."""
_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def for_sheets(frame: pl.DataFrame) -> pl.DataFrame:
    """Write an apostrophe before each text that a spreadsheet would compute, and escapes.

    Numbers do not change, not even those in text. Characters that would act on a terminal, or
    reorder or hide text, become escapes; tabs and line breaks stay.

    Examples
    --------
    >>> import polars as pl
    >>> for_sheets(pl.DataFrame({"name": ["=1+1", "aten::mm", "-1"], "x": [-1, 0, 1]})).rows()
    [("'=1+1", -1), ('aten::mm', 0), ('-1', 1)]
    """
    import polars as pl

    names = pl.Series(frame.columns, dtype=pl.String)
    plain = pl.DataFrame(frame).rename(dict(zip(names, _plain(names), strict=True)))
    texts = [column for column in plain if column.dtype == pl.String]
    return plain.with_columns(map(_plain, texts))


def _plain(texts: pl.Series) -> pl.Series:
    """Texts with escapes for what acts, and no formula."""
    acting = texts.filter(texts.str.contains(ACTING_IN_LINES)).unique()
    return _without_formulas(texts.replace(acting, [*map(visible_lines, acting)]))


def _without_formulas(texts: pl.Series) -> pl.Series:
    import polars as pl

    text = pl.col(texts.name)
    is_formula = text.str.contains(_FORMULA) & ~text.str.contains(_NUMBER)
    plain = pl.when(is_formula).then("'" + text).otherwise(text)
    return texts.to_frame().select(plain.alias(texts.name)).to_series()
