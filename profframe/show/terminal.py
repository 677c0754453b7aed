"""Frames as tables for a terminal, in human units."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from profframe.show import quality_text, units
from profframe.show.columns import (
    KEYS,
    MOMENTS,
    heading,
    headings_of,
    informative,
    since_start,
    texts,
    without_constant_keys,
)
from profframe.show.empty_frames import why_empty as reason
from profframe.show.special_files import FileSummary
from profframe.show.summary import Summary
from profframe.show.table_layout import GAP, Column, Wishes, heading_lines, layout

if TYPE_CHECKING:
    import polars as pl

INDENT: Final = 13
"""Columns of labels, such as those of the first lines."""
PIPE_WIDTH: Final = 160
"""Width of output that does not go to a terminal."""
_UNLIMITED: Final = 1_000_000
_FOLLOWERS: Final = (
    ("self_share", "self_ns"),
    ("share", "total_ns"),
    ("top_op", "share"),
    ("kernels_share", "total_ns"),
    ("top_op", "kernels_share"),
)
"""Pairs: in a ranking the first column follows the second."""
_MOST_HEADERS: Final = 8
_LONGEST_VALUE: Final = 60
"""Width of a value that all rows have."""
_LONGEST_HEADER: Final = 300
"""Characters of a value in a header that are shown."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of columns that ``--columns`` takes, for rows that people see under other names."""

    of: Mapping[str, str] = field(default_factory=dict)
    """By the name in the rows, where it is another one."""
    where: str = ""
    """What takes them, if it is another command."""
    command: str = ""
    """That command as it can be typed, on a line of its own instead."""
    is_cut: bool = False
    """Whether rows are left out, too, which the command has."""

    def __call__(self, name: str) -> str:
        """The name of a column."""
        return self.of.get(name, name)


AS_THEY_ARE: Final = Names()


class Folding(int):
    """A width in which long text is wrapped instead of cut."""


def table(
    frame: pl.DataFrame,
    width: int | None,
    title: str = "",
    headings: Mapping[str, str] = MappingProxyType({}),
    why_empty: str | None = None,
    *,
    keep: Collection[str] = (),
    main: Sequence[str] = (),
    whole: Collection[str] = (),
    names: Names = AS_THEY_ARE,
    notes: Iterable[tuple[str, str]] = (),
) -> RenderableType:
    """A frame as a table; columns that do not fit are named below it, and so are notes on others.

    What is the same in all rows is then said below it, too. Identifiers are left out first, the
    ``main`` columns last, and columns to ``keep`` never. Long text is cut in the middle, because
    names differ at their ends, but not in columns that are ``whole``. Without a ``width``, lines
    can have any length. ``names`` are those of the columns below the table. For a frame without
    rows, ``why_empty``, or the reason that the frame has itself, is shown without a heading.
    """
    parts: list[RenderableType] = [Text(title, style="bold cyan")] if title else []
    if not frame.height:
        why = reason(frame) if why_empty is None else why_empty
        return Group(*parts, Text(no_rows(why), style="dim"))
    columns = {
        name: Column(
            units.visible(label), texts(frame, name), frame.schema[name].is_numeric(), name in whole
        )
        for name, label in (headings_of(frame.columns) | dict(headings)).items()
        if name in frame.columns
    }
    chosen = layout(columns, width, Wishes({*keep, *_telling_apart(frame)}, main))
    for block in chosen.blocks:
        parts += [_block(columns, block, folds=isinstance(width, Folding))]
    of_shown = [(name, note) for name, note in notes if name not in {*chosen.left_out}]
    if of_shown:
        parts.append(Text("; ".join(note for _, note in of_shown), style="dim"))
    if chosen.shared:
        by_heading = {*names.of, *_named(of_shown, columns)}
        values = (
            f"{columns[name].heading if name in by_heading else name}={_value(columns[name])}"
            for name in chosen.shared
        )
        label = "in all these rows" if frame.height > 1 else "also"
        parts.append(Text(units.visible(f"{label}: {', '.join(values)}"), style="dim"))
    if chosen.left_out:
        left_out = ", ".join(dict.fromkeys(map(names, chosen.left_out)))
        where = f" ({names.where})" if names.where else ""
        line = f"not shown for lack of width: {left_out}{where}"
        parts.append(Text(units.visible(line), style="dim"))
    if names.command and (chosen.left_out or names.is_cut):
        more = f"{'more':<{INDENT}}{names.command}"
        parts.append(Text(more, style="dim", no_wrap=True, overflow="ignore"))
    return Group(*parts)


def _telling_apart(frame: pl.DataFrame) -> tuple[str, ...]:
    """The kind, if it alone tells rows of one name apart: an annotation and that of its device."""
    pair = ("name", "kind")
    if not {*pair} <= {*frame.columns}:
        return ()
    return ("kind",) if frame.select(pair).n_unique() > frame["name"].n_unique() else ()


def _named(notes: Iterable[tuple[str, str]], columns: Mapping[str, Column]) -> Iterator[str]:
    """Columns that notes are about, or name by their headings."""
    for about, note in notes:
        yield about
        yield from (name for name, column in columns.items() if f'"{column.heading}"' in note)


def _block(columns: Mapping[str, Column], widths: Mapping[str, int], *, folds: bool) -> Table:
    """Some columns of a table."""
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    cells = []
    for name, width in widths.items():
        column = columns[name]
        grid.add_column(
            Text(heading_lines(column.heading, width)),
            justify="right" if column.is_number else "left",
            vertical="top" if folds else "bottom",
            width=width,
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
        )
        cut = column.can_be_cut and not folds
        cells.append(_cut(column.cells, width) if cut else column.cells)
    for row in zip(*cells, strict=True):
        grid.add_row(*map(Text, row))
    return grid


def _cut(cells: Sequence[str], width: int) -> list[str]:
    """Texts that fit; those without wide characters stay unlike."""
    short = units.middles((text for text in cells if cell_len(text) == len(text)), width)
    return [short[text] if text in short else _cut_wide(text, width) for text in cells]


def _cut_wide(text: str, width: int) -> str:
    """A text with characters of two cells, or none."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"


def _value(column: Column) -> str:
    """What all rows have, in a line with others."""
    return _cut([column.value], _LONGEST_VALUE)[0]


def no_rows(why: str | None) -> str:
    """The text in place of rows.

    Examples
    --------
    >>> no_rows("no profiler steps in this trace"), no_rows(None)
    ('no rows: no profiler steps in this trace', 'no rows')
    """
    return "no rows" if why is None else f"no rows: {units.visible(why)}"


def ranking(
    frame: pl.DataFrame,
    top: int,
    width: int | None,
    title: str,
    *,
    keep: Collection[str] = (),
    main: Sequence[str] = (),
    names: Names = AS_THEY_ARE,
    notes: Callable[[pl.DataFrame], Iterable[tuple[str, str]]] = lambda _: (),
) -> RenderableType:
    """The first rows of a sorted answer, with the columns that matter most on the left.

    ``notes`` makes those on the rows and columns that are shown.
    """
    more = f" (top {top:,} of {frame.height:,})" if frame.height > top else ""
    first = without_constant_keys(frame).head(top)
    first = first.select(one.name for one in first if one.null_count() < first.height)
    order = list(first.columns)
    for name, anchor in _FOLLOWERS:
        if {name, anchor} <= {*order}:
            order.remove(name)
            order.insert(order.index(anchor) + 1, name)
    shown = first.select(order)
    return table(shown, width, title + more, keep=keep, main=main, names=names, notes=notes(shown))


def notes(quality: pl.DataFrame, width: int | None) -> RenderableType:
    """Quality notes; those that several ranks or files share once."""
    lines = grid()
    lines.add_column(no_wrap=True)
    lines.add_column(justify="right", no_wrap=True)
    lines.add_column(overflow="fold", max_width=width)
    for line in quality_text.lines(quality):
        lines.add_row(*(Text(units.visible(part)) for part in line))
    return Group(Text(quality_text.HEADING, style="bold cyan"), lines)


def summary(summary: Summary, name: str) -> RenderableType:
    """The summary of a trace."""
    lines = _labelled()
    for label, text in summary.lines:
        lines.add_row(label, Text(text))
    return Group(Text(f"{units.visible(name)}: {summary.title}", style="bold"), lines)


def sentences(words: FileSummary) -> RenderableType:
    """What matters most in a file, one sentence per line."""
    lines = (*words.sentences, *((words.hint,) if words.hint else ()))
    return Text("\n".join(lines))


def words(
    words: FileSummary, top: int, width: int | None, command: Callable[[Sequence[str]], str]
) -> Iterator[RenderableType]:
    """What is shown about a file first: sentences, stacks, and rows of tables.

    ``command`` makes what is typed of the words of a question.
    """
    yield sentences(words)
    for excerpt in words.excerpts:
        yield Text(excerpt)
    for (title, rows), question in zip(words.tables, words.questions, strict=True):
        names = Names(words.names, command=command(question), is_cut=rows.height > top)
        yield ranking(rows, top, width, title, names=names)


def headers(traces: pl.DataFrame) -> Iterator[RenderableType]:
    """The header of each trace, a line for each value."""
    for row in traces.head(_MOST_HEADERS).iter_rows(named=True):
        lines = _labelled()
        for name, value in row.items():
            if value is not None and name not in KEYS:
                moment = name in MOMENTS and row["clock"] == "utc"
                text = units.moment(value) if moment else _header_text(name, str(value))
                lines.add_row(heading(name) if moment else name, Text(text))
        title = f"{units.visible(row['run'])}, rank {row['rank']}"
        yield Group(Text(title, style="bold cyan"), lines)
    if traces.height > _MOST_HEADERS:
        yield Text(f"and {traces.height - _MOST_HEADERS:,} more", style="dim")


def _header_text(name: str, value: str) -> str:
    """A value of a header, cut to a line or two; the table `traces` has all of it."""
    if name == "device_properties" and isinstance(devices := json.loads(value), list):
        names = Counter(str(d.get("name")) for d in devices if isinstance(d, dict))
        value = ", ".join(f"{count} x {device}" for device, count in names.items())
    text = units.visible(value)
    return text if len(text) <= _LONGEST_HEADER else text[:_LONGEST_HEADER] + " …"


def prose(frame: pl.DataFrame) -> RenderableType:
    """A frame of sentences, which are wrapped instead of cut."""
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name in frame.columns:
        first = name == frame.columns[0]
        grid.add_column(heading(name), no_wrap=first, overflow="fold")
    for row in frame.iter_rows():
        grid.add_row(*(Text(units.visible(value or "")) for value in row))
    return grid


def frame_text(
    frame: pl.DataFrame, rows: int, starts: pl.DataFrame | None, why_empty: str | None = None
) -> str:
    """A frame at a text prompt: as wide as the terminal, with its size below."""
    head = frame.head(rows)
    relative = head if starts is None else since_start(head, starts)
    columns = relative.select(informative(frame))
    headings = {name: name for name in columns.columns}
    total = f"{head.height:,} of " if head.height < frame.height else ""
    size = f"{total}{units.plural(frame.height, 'row')}, {units.plural(frame.width, 'column')}"
    grid = table(columns, console().width, headings=headings, why_empty=why_empty)
    return text(Group(grid, Text(size))).rstrip("\n")


def console(*, error: bool = False) -> Console:
    """A console that interprets no markup in the text of a trace, and highlights no numbers."""
    return Console(stderr=error, markup=False, highlight=False, emoji=False, force_jupyter=False)


def text(part: RenderableType, width: int | None = None) -> str:
    """Rich output as plain text of a width; None for any."""
    file = io.StringIO()
    plain = Console(
        file=file,
        width=width or _UNLIMITED,
        markup=False,
        highlight=False,
        emoji=False,
        force_jupyter=False,  # else a notebook gets it instead of the file
        color_system=None,  # nor does it get colours, whatever the environment says
        force_terminal=False,
    )
    plain.print(part)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def grid() -> Table:
    """Lines of cells without headings."""
    return Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)


def _labelled() -> Table:
    """A grid of labels and texts."""
    lines = grid()
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    return lines
