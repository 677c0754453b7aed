"""Frames as tables for a terminal, in human units."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from profframe.show import units
from profframe.show.summary import Summary

if TYPE_CHECKING:
    import polars as pl

_NARROWEST: Final = 28
"""Text is cut to this before a column is left out."""
_GAP: Final = 2
_UNLIMITED: Final = 1_000_000
_KEYS: Final = ("run", "rank")
_MOMENTS: Final = ("start_ns", "time_ns", "end_ns")
_BESIDE: Final = (("self_share", "self_ns"), ("share", "total_ns"), ("top_op", "share"))
"""Columns of an answer that stand right of another one in a ranking."""
_MOST_HEADERS: Final = 8
_LONGEST_HEADER: Final = 300
"""Characters of a value in a header that are shown."""
_NUMBERS_AS_NAMES: Final = frozenset(
    {"rank", "device", "stream", "thread", "step", "scope", "address"}
)
"""Integers that name something: they take no separators."""
_ENDINGS: Final[tuple[tuple[str, Callable[[float], str], str], ...]] = (
    ("_ns", units.duration, ""),
    ("_bytes", units.size, ""),
    ("bytes", units.size, "bytes"),
    ("bytes_per_s", units.rate, "rate"),
    ("flop_per_s", units.flop_rate, "flop rate"),
    ("flops", units.flops, "flops"),
    ("share", units.share, "%"),
)
"""Ending of a column's name, how its values are shown, and what stands in the ending's place."""


def heading(column: str) -> str:
    """Name of a column without the unit that its values carry.

    Examples
    --------
    >>> heading("self_ns"), heading("self_share"), heading("share"), heading("top_op")
    ('self', 'self %', '%', 'top op')
    """
    for ending, _, instead in _ENDINGS:
        if column.endswith(ending):
            column = column.removesuffix(ending) + instead
    return column.replace("_", " ")


def cell(column: str, value: object) -> str:
    """One value in human units.

    Examples
    --------
    >>> cell("self_ns", 1_500_000), cell("calls", 12345), cell("rank", 1024), cell("name", None)
    ('1.500 ms', '12,345', '1024', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return units.visible(str(value))
    if not math.isfinite(value):
        return str(value)
    for ending, show, _ in _ENDINGS:
        if column.endswith(ending):
            return show(value)
    if isinstance(value, float):
        return f"{value:,.6g}"
    named = column in _NUMBERS_AS_NAMES or column.endswith("_id")
    return str(value) if named else units.count(value)


def table(
    frame: pl.DataFrame,
    width: int | None,
    title: str = "",
    headings: Mapping[str, str] = MappingProxyType({}),
) -> RenderableType:
    """A frame as a table; columns that do not fit are named below it.

    Parameters
    ----------
    frame
        The rows to show.
    width
        Columns of the terminal; None where lines may be of any length.
    title
        What stands above the table.
    headings
        What stands above a column, in place of its name.

    Returns
    -------
    rich.console.RenderableType
        What `rich` prints.
    """
    above = {name: headings.get(name, heading(name)) for name in frame.columns}
    cells = {name: [cell(name, value) for value in frame[name].to_list()] for name in frame.columns}
    texts = {name for name in frame.columns if not frame.schema[name].is_numeric()}
    widths = _widths(cells, above, texts, width)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name, columns in widths.items():
        grid.add_column(
            Text(above[name]),
            justify="left" if name in texts else "right",
            width=columns,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in zip(*(cells[name] for name in widths), strict=True):
        grid.add_row(*map(Text, row))
    parts: list[RenderableType] = [Text(title, style="bold cyan")] if title else []
    parts.append(grid if frame.height else Text("no rows", style="dim"))
    if len(widths) < len(cells):
        left_out = ", ".join(headings.get(name, name) for name in cells if name not in widths)
        parts.append(Text(f"not shown, for want of width: {left_out}", style="dim"))
    return Group(*parts)


def ranking(frame: pl.DataFrame, top: int, width: int | None, title: str) -> RenderableType:
    """The first rows of an answer that has its largest first, what matters most to the left.

    Parameters
    ----------
    frame
        The answer.
    top
        Number of rows.
    width
        Columns of the terminal; None where lines may be of any length.
    title
        What the rows are.

    Returns
    -------
    rich.console.RenderableType
        What `rich` prints.
    """
    more = f" (top {top:,} of {frame.height:,})" if frame.height > top else ""
    first = _without_constant_keys(frame).head(top)
    names = list(first.columns)
    for name, left in _BESIDE:
        if {name, left} <= {*names}:
            names.remove(name)
            names.insert(names.index(left) + 1, name)
    return table(first.select(names), width, title + more)


def notes(quality: pl.DataFrame, width: int | None) -> RenderableType:
    """What the checks found.

    Parameters
    ----------
    quality
        The table `quality`.
    width
        Columns of the terminal; None where lines may be of any length.

    Returns
    -------
    rich.console.RenderableType
        What `rich` prints.
    """
    lines = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    lines.add_column(no_wrap=True)
    lines.add_column(justify="right", no_wrap=True)
    lines.add_column(overflow="fold", max_width=None if width is None else width)
    single = quality.select(_KEYS).n_unique() == 1
    for row in quality.iter_rows(named=True):
        where = "" if single else f" [{row['run']}, rank {row['rank']}]"
        said = row["action"] if row["detail"] is None else f"{row['action']}: {row['detail']}"
        lines.add_row(
            Text(units.visible(row["check"])),
            Text(units.count(row["events"])),
            Text(units.visible(said + where)),
        )
    return Group(Text("Quality", style="bold cyan"), lines)


def summary(found: Summary, name: str) -> RenderableType:
    """What is inside a trace.

    Parameters
    ----------
    found
        What is inside.
    name
        What was loaded.

    Returns
    -------
    rich.console.RenderableType
        What `rich` prints.
    """
    lines = _lines()
    for label, text in found.lines:
        lines.add_row(label, Text(text))
    return Group(Text(f"{units.visible(name)}: {found.title}", style="bold"), lines)


def headers(traces: pl.DataFrame) -> Iterator[RenderableType]:
    """What each trace's header says, a line for each thing that is known.

    Parameters
    ----------
    traces
        The table `traces`.

    Yields
    ------
    rich.console.RenderableType
        What `rich` prints, one for each of the first (run, rank).
    """
    for row in traces.head(_MOST_HEADERS).iter_rows(named=True):
        lines = _lines()
        for name, value in row.items():
            if value is not None and name not in _KEYS:
                moment = name in _MOMENTS and row["clock"] == "utc"
                text = units.moment(value) if moment else _header_text(name, str(value))
                lines.add_row(heading(name) if moment else name, Text(text))
        title = f"{units.visible(row['run'])}, rank {row['rank']}"
        yield Group(Text(title, style="bold cyan"), lines)
    if traces.height > _MOST_HEADERS:
        yield Text(f"and {traces.height - _MOST_HEADERS:,} more", style="dim")


def _header_text(name: str, value: str) -> str:
    """A value of a header on a line or two; all of it is in the table `traces`."""
    if name == "device_properties" and isinstance(devices := json.loads(value), list):
        names = Counter(str(d.get("name")) for d in devices if isinstance(d, dict))
        value = ", ".join(f"{count} x {device}" for device, count in names.items())
    text = units.visible(value)
    return text if len(text) <= _LONGEST_HEADER else text[:_LONGEST_HEADER] + " …"


def prose(frame: pl.DataFrame) -> RenderableType:
    """A frame of sentences, which are wrapped and not cut.

    Parameters
    ----------
    frame
        Text; its first column is never wrapped.

    Returns
    -------
    rich.console.RenderableType
        What `rich` prints.
    """
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in frame.columns:
        first = name == frame.columns[0]
        grid.add_column(heading(name), no_wrap=first, overflow="fold")
    for row in frame.iter_rows():
        grid.add_row(*(Text(units.visible(value or "")) for value in row))
    return grid


def since_start(frame: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """Moments as time since the start of their trace, which is what a person can read.

    Parameters
    ----------
    frame
        Rows with or without moments (``start_ns``, ``time_ns``, ``end_ns``).
    traces
        The table `traces`.

    Returns
    -------
    polars.DataFrame
        The same rows; as they are where it is not known which trace they are of. What is of several
        ranks, without one, is since the first of them.
    """
    import polars as pl

    moments = [n for n in _MOMENTS if frame.schema.get(n) == pl.Int64]
    starts = traces.select(*_KEYS, pl.col("start_ns").alias("_start"))
    if not moments:
        return frame
    if all(frame.schema.get(key) == traces.schema[key] for key in _KEYS):
        placed = frame.join(starts, on=_KEYS, how="left", maintain_order="left")
        of_run = starts.group_by("run").agg(pl.col("_start").min().alias("_first"))
        placed = placed.join(of_run, on="run", how="left", maintain_order="left")
        placed = placed.with_columns(pl.coalesce("_start", "_first")).drop("_first")
    elif traces.height == 1:
        placed = frame.with_columns(pl.lit(starts["_start"].first()).alias("_start"))
    else:
        return frame.with_columns(pl.col(moments).cast(pl.String))
    return placed.with_columns(pl.col(moments) - pl.col("_start").fill_null(0)).drop("_start")


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without columns that say nothing: all NULL, or the one run and rank there is."""
    full = frame.select(column for column in frame if column.null_count() < frame.height)
    return _without_constant_keys(full if frame.height else frame)


def console(*, error: bool = False) -> Console:
    """A console that takes no markup from the text of a trace and paints no numbers in it."""
    return Console(stderr=error, markup=False, highlight=False, emoji=False)


def text(part: RenderableType) -> str:
    """What `rich` would print, as plain text of any width."""
    file = io.StringIO()
    Console(file=file, width=_UNLIMITED, markup=False, highlight=False, emoji=False).print(part)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _lines() -> Table:
    """Labels and texts."""
    lines = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    return lines


def _without_constant_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without the run, or run and rank, where they are the same in all rows."""
    if not set(_KEYS) <= set(frame.columns) or frame["run"].n_unique() > 1:
        return frame
    return frame.drop("run") if frame["rank"].n_unique() > 1 else frame.drop(_KEYS)


def _widths(
    cells: Mapping[str, list[str]], above: Mapping[str, str], texts: set[str], width: int | None
) -> dict[str, int]:
    """Widths of the columns that fit, from the left; only text is cut."""
    needed = {name: max(map(cell_len, [above[name], *values])) for name, values in cells.items()}
    if width is None:
        return needed
    shown: dict[str, int] = {}
    used = 0
    for name, columns in needed.items():
        least = min(columns, _NARROWEST) if name in texts else columns
        if shown and used + least > width:
            break
        shown[name] = min(least, width)
        used += least + _GAP
    spare = max(width - used + _GAP, 0)
    for name in sorted(shown, key=needed.__getitem__):
        if name in texts:
            wider = min(needed[name] - shown[name], spare)
            shown[name] += wider
            spare -= wider
    return shown
