"""Further columns for the table of a selected slice: numbers, and texts by number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from profframe.pages.timeline.encoding import PackedColumn, differences, numbered
from profframe.pages.timeline.metadata import cut
from profframe.pages.timeline.page_slices import Content
from profframe.pages.timeline.timeline_data import OTHER_COLUMNS

_MOST_TEXT: Final = 1_500_000
"""Maximum characters of all distinct texts; the longest columns are left out and named."""
_MOST_VALUES: Final = 2_000_000
"""Values of columns that are read together."""
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
    columns: dict[str, PackedColumn] = {}
    texts: dict[str, pl.Series] = {}
    for name, one in _columns(content):
        is_missing = one.is_null().to_numpy()
        if _is_number(one):
            values = differences(one.fill_null(0).cast(pl.Int64).to_numpy(), is_missing)
        else:
            of_slices, texts[name] = _texts(one)
            values = numbered(of_slices, texts[name])
        columns[name] = PackedColumn(f"other.{name}", values, is_missing)
    left_out = _without_room(texts)
    kept = [name for name in columns if name not in left_out]
    shown = {name: [cut(text, _LONGEST) for text in texts[name]] for name in kept if name in texts}
    head = {"names": kept, "texts": shown, "left_out": sorted(left_out)}
    return [columns[name] for name in kept], head


def _columns(content: Content) -> Iterator[tuple[str, pl.Series]]:
    """Columns with a value, few at a time: texts of all would take much memory."""
    read = content.rows.others
    if read is None:
        return
    few = max(1, _MOST_VALUES // max(1, content.rows.slices.height))
    for first in range(0, len(OTHER_COLUMNS), few):
        frame = read(OTHER_COLUMNS[first : first + few])[content.order]
        yield from ((one.name, one) for one in frame if one.null_count() < one.len())


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
