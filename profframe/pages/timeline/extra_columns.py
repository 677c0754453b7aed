"""Further columns for the table of a selected slice: numbers, and texts by number."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from profframe.pages.timeline.encoding import PackedColumn, differences, numbered
from profframe.pages.timeline.metadata import cut
from profframe.pages.timeline.page_slices import Content

_MOST_TEXT: Final = 1_500_000
"""Maximum characters of all distinct texts; the longest columns are left out and named."""
_LONGEST: Final = 2_000
"""Maximum characters of a text."""
_EXACT: Final = 2**51
"""Numbers below this are exact in a script, and so is the difference of two of them."""
NO_OTHERS: Final[dict[str, Any]] = {"names": None, "texts": {}, "left_out": []}
"""What a page without these columns says."""


def others(content: Content) -> tuple[list[PackedColumn], dict[str, Any]]:
    """The columns, and how to read them.

    Returns
    -------
    columns : list of PackedColumn
        As in `names`, each behind ``other.``.
    head : dict
        ``names`` of the columns with a value; ``texts`` of those that are not numbers, by name;
        ``left_out``, names of columns that there is no room for.
    """
    frame = content.rows.others
    frame = pl.DataFrame() if frame is None else frame[content.order]
    frame = frame.select(one.name for one in frame if one.null_count() < one.len())
    texts = {one.name: _texts(one) for one in frame if not _is_number(one)}
    left_out = _without_room({name: distinct for name, (_, distinct) in texts.items()})
    kept = [one.name for one in frame if one.name not in left_out]
    columns = []
    for name in kept:
        is_missing = frame[name].is_null().to_numpy()
        if name in texts:
            values = numbered(*texts[name])
        else:
            values = differences(frame[name].fill_null(0).cast(pl.Int64).to_numpy(), is_missing)
        columns.append(PackedColumn(f"other.{name}", values, is_missing))
    shown = {
        name: [cut(text, _LONGEST) for text in texts[name][1]] for name in kept if name in texts
    }
    return columns, {"names": kept, "texts": shown, "left_out": sorted(left_out)}


def _is_number(column: pl.Series) -> bool:
    if not column.dtype.is_integer():
        return False
    low, high = column.min(), column.max()
    return int(low) > -_EXACT and int(high) < _EXACT  # type: ignore[arg-type]


def _texts(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """A column as texts, and the distinct ones."""
    if column.dtype == pl.Boolean:
        column = column.replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)
    texts = column.cast(pl.String)
    return texts, texts.drop_nulls().unique(maintain_order=True)


def _without_room(texts: dict[str, pl.Series]) -> set[str]:
    """Columns whose distinct texts are too long, when shorter columns go first."""
    sizes = {name: int(distinct.str.len_chars().sum()) for name, distinct in texts.items()}
    room, left_out = _MOST_TEXT, set()
    for name in sorted(sizes, key=lambda one: sizes[one]):
        room -= sizes[name]
        if room < 0:
            left_out.add(name)
    return left_out
