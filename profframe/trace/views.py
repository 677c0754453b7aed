"""A trace as text: torch's table, a tree of slices, and a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profframe.analysis.call_tree import call_tree
from profframe.analysis.torch_table.rows import read
from profframe.query.selection import check_compat
from profframe.show import torch_table
from profframe.show import tree as trees
from profframe.show.first_words import first_words
from profframe.show.lines import Lines
from profframe.show.summary import Summary

if TYPE_CHECKING:
    from profframe.trace.trace import Trace

_KINDS = """
    SELECT kind, count(*) AS events
    FROM events
    WHERE replays IS NULL
    GROUP BY kind
    ORDER BY events DESC, kind"""

_CATEGORIES = """
    SELECT kernel_category AS category, try_cast(sum(dur_ns) AS BIGINT) AS total_ns
    FROM events
    WHERE kernel_category IS NOT NULL AND dur_ns IS NOT NULL
    GROUP BY kernel_category
    ORDER BY total_ns DESC NULLS LAST, category
"""


def table(  # noqa: PLR0917 -- torch's own arguments
    self: Trace,
    sort_by: str | None = None,
    row_limit: int = 100,
    max_src_column_width: int | None = 75,
    max_name_column_width: int | None = 55,
    header: str | None = None,
    top_level_events_only: bool = False,
    time_unit: str | None = None,
    group_by_input_shape: bool = False,
    group_by_stack_n: int = 0,
    group_by_overload_name: bool = False,
    include_python_functions: bool | None = None,
    compat: str | None = None,
) -> str:
    """Give the text of torch's ``key_averages().table()``.

    Numbers are rounded once, half to even; FLOPs and sources stand below their own headers;
    control bytes are written as escapes. ``compat="torch"`` repeats torch to the character.

    Parameters
    ----------
    sort_by
        torch's attribute to sort by, the largest first: ``cpu_time_total``, ``count``, ...
    row_limit
        Rows to print; all of them if it is negative.
    max_src_column_width, max_name_column_width
        Characters of the source and of the name; None is no limit.
    header
        A line above the table.
    top_level_events_only
        Leave out what has its first occurrence inside another event.
    time_unit
        ``s``, ``ms`` or ``us`` for all times.
    group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        As in `key_averages`.
    compat
        ``"torch"``: as torch prints it, with what its floats make of a tie.

    Returns
    -------
    str
        Lines. Of several traces, a table each, with its run and rank above it.

    Raises
    ------
    UnknownNameError
        Rows have no such attribute, or there is no such unit; the message suggests the nearest.
    ParameterError
        Another value cannot be used.
    """
    check_compat(compat)
    options = torch_table.Options(
        sort_by,
        row_limit,
        max_src_column_width,
        max_name_column_width,
        header,
        top_level_events_only,
        time_unit,
        group_by_input_shape,
        group_by_stack_n,
        group_by_overload_name,
        include_python_functions,
        as_torch=compat == "torch",
    )
    with self._session.connection() as connection:
        pages = read(
            connection, options.grouping, options.include_python_functions, options.as_torch
        )
    return Lines(torch_table.text(pages, options))


def tree(  # noqa: PLR0917 -- which part of which trace
    self: Trace,
    event_id: int | None = None,
    depth: int | None = None,
    run: str | None = None,
    rank: int | None = None,
    row_limit: int = 200,
) -> trees.Tree:
    """Draw host slices inside one another, depth first, with their times.

    Parameters
    ----------
    event_id
        Slice to begin with; None for all that are in no other, the busiest thread first.
    depth
        Levels below it; None for as many as fit into the rows.
    run, rank
        Which trace, where there are several.
    row_limit
        Slices to draw; all of them if it is negative.

    Returns
    -------
    profframe.show.tree.Tree
        Text with a line for each slice: duration, what of it is in none of its children, device
        time launched inside it, share of the outermost slice that is drawn, ``event_id``, and
        name. ``(+n inside)`` counts slices that are too deep, the last line all that are not
        drawn.

    Raises
    ------
    UnknownNameError
        There is no such event, run or rank.
    ParameterError
        There are several traces, or the event is no host slice that nests, as a kernel.
    """
    session = self._session.filter(runs=run, ranks=rank)
    with session.connection(dict.fromkeys(("events", "threads"))) as connection:
        slices = call_tree(connection, event_id, depth, row_limit)
    return trees.text(slices)


def summary(self: Trace) -> Summary:
    """What is inside, in a few labelled lines; the text of ``repr``."""
    trace = type(self)(self._session.unlimited())
    traces = trace.traces
    return Summary(
        overview=trace.overview(),
        kinds=trace.sql(_KINDS),
        steps=trace.steps(),
        traces=traces,
        categories=trace.sql(_CATEGORIES),
        quality=trace.quality,
        words=first_words(trace, traces["format"]),
    )
