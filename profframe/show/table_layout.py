"""Which columns of a table fit a width, in how many blocks, and how wide they are.

What is the same in all rows is said once, in a line below the table. Then identifiers are left out,
then what no reader came for, from the right; what is narrow comes back if there is room. Columns to
keep, and the run and rank that tell rows apart, are in further blocks if need be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rich.cells import cell_len

from profframe.show.columns import KEYS

GAP: Final = 2
"""Blanks between columns."""
_NARROW: Final = 28
"""Text is cut to this width before an identifier is left out."""
_NARROWEST: Final = 20
"""Text is cut to this width before any other column is left out."""
_NARROWEST_SUBJECT: Final = 40
"""Text that rows are about is cut to this width before a column is left out."""
_PAIRS: Final = (("from_", "to_"), ("base_", "other_"), ("source_", "target_"))
"""Beginnings of columns that say nothing without each other."""


@dataclass(frozen=True)
class Column:
    """A column as it is shown."""

    heading: str
    cells: Sequence[str]
    is_number: bool
    is_whole: bool = False
    """Whether its text is never cut."""

    @property
    def can_be_cut(self) -> bool:
        """Whether it can be narrower than its text."""
        return not (self.is_number or self.is_whole)

    @property
    def width(self) -> int:
        """Width in which nothing is cut, and the heading is in one line."""
        return max(cell_len(self.heading), self.width_of_cells)

    @property
    def narrow_width(self) -> int:
        """Width in which nothing is cut, and the heading is in two lines."""
        words = self.heading.split(" ")
        halves = ((words[:place], words[place:]) for place in range(len(words)))
        least = min(max(cell_len(" ".join(half)) for half in both) for both in halves)
        return max(least, self.width_of_cells)

    @cached_property
    def width_of_cells(self) -> int:
        """Width of the widest cell; there may be many."""
        return max(map(cell_len, self.cells), default=0)

    @cached_property
    def value(self) -> str:
        """What all rows have; empty if they differ."""
        return self.cells[0].strip() if len({*self.cells}) == 1 else ""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a table shows if not everything fits."""

    keep: Collection[str] = ()
    """Columns that are never left out: sorted by, or named."""
    main: Sequence[str] = ()
    """Columns that are left out last, the first one never; without them, that is the first column
    of the table."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a table with their widths, and those that are not in it."""

    blocks: tuple[Mapping[str, int], ...]
    """Tables that stand below each other, of the same rows."""
    shared: tuple[str, ...] = ()
    """Columns with one value in all rows, which is said once."""
    left_out: tuple[str, ...] = ()


def layout(columns: Mapping[str, Column], width: int | None, wishes: Wishes) -> Layout:
    """Choose the columns, which stay in their order; only text is cut.

    Examples
    --------
    >>> columns = {
    ...     name: Column(name, cells, is_number=True)
    ...     for name, cells in {"name": ["a", "b"], "stream": ["7", "7"], "id": ["1", "2"]}.items()
    ... }
    >>> layout(columns, 10, Wishes())
    Layout(blocks=({'name': 4, 'id': 2},), shared=('stream',), left_out=())
    >>> layout(columns, 10, Wishes(keep=["stream", "id"])).blocks
    ({'name': 4}, {'stream': 6, 'id': 2})
    """
    full = {name: column.width for name, column in columns.items()}
    if width is None or _total(full) <= width or not columns:
        return Layout((full,))
    subject = next((name for name in wishes.main if name in columns), next(iter(columns)))
    draft = _Draft(columns, width, subject)
    keys = (name for name in KEYS if name in columns and not columns[name].value)
    kept = _with_partners({subject, *keys, *wishes.keep}, columns)
    main = [name for name in reversed(wishes.main) if name in columns and name not in kept]
    rest = [name for name in reversed([*columns]) if name not in {*kept, *main}]
    ids = [name for name in rest if name.endswith("_id")]
    others = [*ids, *(name for name in rest if name not in ids)]
    same = [name for name in (*others, *main) if columns[name].value]
    draft.share(name for name in same if name in others)
    draft.leave_out(ids)
    draft.narrow()
    draft.share(name for name in same if name in main)
    draft.leave_out((*others, *main))
    draft.take_back(name for name in (*reversed(main), *reversed(others)) if name not in ids)
    blocks = (*map(draft.widened, draft.blocks()),)
    shared = (*(name for name in columns if name in draft.shared),)
    shown = {*draft.widths, *shared}
    return Layout(blocks, shared, (*(name for name in columns if name not in shown),))


class _Draft:
    """Widths of columns while they are made to fit."""

    def __init__(self, columns: Mapping[str, Column], width: int, subject: str) -> None:
        self._columns, self._width, self._subject = columns, width, subject
        self.shared: set[str] = set()
        self.widths = {
            name: self._least(name, column.width, _NARROW) for name, column in columns.items()
        }

    @property
    def _fits(self) -> bool:
        return _total(self.widths) <= self._width

    def share(self, names: Iterable[str]) -> None:
        """Take columns with one value out of the table, until the others fit."""
        for name in names:
            if self._fits:
                return
            if self.widths.pop(name, None) is not None:
                self.shared.add(name)

    def leave_out(self, names: Iterable[str]) -> None:
        """Leave columns out, each with its partner, until the others fit."""
        for name in names:
            if self._fits:
                return
            for one in _with_partners([name], self.widths):
                self.widths.pop(one, None)

    def take_back(self, names: Iterable[str]) -> None:
        """Take columns that were left out where they fit beside whole texts of the others."""
        left_out = [name for name in names if name not in {*self.widths, *self.shared}]
        for name in left_out:
            widths = {one: self._columns[one].width for one in (*self.widths, name)}
            if _total(widths) <= self._width and len(_with_partners([name], self._columns)) == 1:
                self.widths[name] = widths[name]

    def narrow(self) -> None:
        """Break headings, then cut texts to the least width."""
        for narrowest in (_NARROW, _NARROWEST):
            if not self._fits:
                self.widths = {
                    name: self._least(name, self._columns[name].narrow_width, narrowest)
                    for name in self.widths
                }

    def blocks(self) -> list[dict[str, int]]:
        """Widths in tables that fit: the first has the subject, others if there is room for it."""
        if not self._fits and self._columns[self._subject].can_be_cut:
            spare = self._width - (_total(self.widths) - self.widths[self._subject])
            least = min(self.widths[self._subject], _NARROWEST)
            self.widths[self._subject] = max(spare, least)
        subject = {self._subject: self.widths[self._subject]}
        blocks = [dict(subject)]
        for name, columns in self.widths.items():
            if name == self._subject:
                continue
            if _total(blocks[-1] | {name: columns}) > self._width:
                has_room = _total(subject | {name: columns}) <= self._width
                blocks.append(dict(subject) if has_room else {})
            blocks[-1][name] = columns
        return blocks

    def widened(self, block: Mapping[str, int]) -> dict[str, int]:
        """A table in which texts, and headings in several lines, have the room that is left."""
        widths = {name: block[name] for name in self._columns if name in block}
        spare = max(self._width - _total(widths), 0)
        for name in sorted(widths, key=lambda name: self._columns[name].width):
            wider = self._columns[name].width - widths[name]
            if self._columns[name].can_be_cut or wider <= spare:
                widths[name] += min(wider, spare)
                spare -= min(wider, spare)
        return widths

    def _least(self, name: str, columns: int, narrowest: int) -> int:
        """The width of a column whose text is cut."""
        if self._columns[name].can_be_cut:
            of_subject = max(_NARROWEST_SUBJECT, self._width * 2 // 5)
            columns = min(columns, of_subject if name == self._subject else narrowest)
        return min(columns, self._width)


def heading_lines(heading: str, width: int) -> str:
    r"""A heading with line breaks instead of blanks, where it is wider than its column.

    Examples
    --------
    >>> heading_lines("p50 op delay", 9), heading_lines("p50 op delay", 12)
    ('p50 op\ndelay', 'p50 op delay')
    """
    lines: list[str] = []
    for word in heading.split(" "):
        if lines and cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def _with_partners(names: Collection[str], columns: Collection[str]) -> set[str]:
    """The columns of these names, and those that they say nothing without."""
    pairs = [pair[::step] for pair in _PAIRS for step in (1, -1)]
    partners = {
        f"{other}{name.removeprefix(one)}"
        for name in names
        for one, other in pairs
        if name.startswith(one)
    }
    return {*names, *partners} & {*columns}


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
