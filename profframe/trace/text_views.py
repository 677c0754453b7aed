"""A trace as text: torch's table, a tree of slices, and a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profframe.query.selection import Numbers, Text, check_compat
from profframe.show.lines import Lines
from profframe.show.summary import Summary
from profframe.trace import empty_reasons, generated_questions, trace_tables
from profframe.trace.base_trace import BaseTrace
from profframe.trace.file_summaries import file_summaries
from profframe.trace.query import own_rows

if TYPE_CHECKING:
    from profframe.show.tree_text import Tree

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
    self: BaseTrace,
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
    """The text of torch's ``key_averages().table()``.

    Numbers are rounded once, half to even; FLOPs and sources are below their own headers; control
    bytes are escaped. ``compat="torch"`` repeats torch's text character for character.

    Parameters
    ----------
    sort_by
        torch's attribute to sort by, largest first: ``cpu_time_total``, ``count``, ...
    row_limit
        Number of rows to print; negative for all.
    max_src_column_width, max_name_column_width
        Maximum characters of the source and the name; None for no limit.
    header
        A line above the table.
    top_level_events_only
        Leave out events whose first occurrence is inside another event.
    time_unit
        ``s``, ``ms`` or ``us`` for all times.
    group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        As in `key_averages`.
    compat
        ``"torch"``: as torch prints it, including its floating-point rounding.

    Returns
    -------
    str
        The lines. For several traces, one table each, with its run and rank above it.

    Raises
    ------
    UnknownNameError
        There is no such attribute or unit; the message suggests the nearest.
    ParameterError
        Another value is invalid.
    """
    from profframe.analysis.torch_table.table_rows import read
    from profframe.show import torch_table

    check_compat(compat)
    options = torch_table.TableOptions(
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
    self: BaseTrace,
    event_id: int | None = None,
    depth: int | None = None,
    run: Text | None = None,
    rank: Numbers | None = None,
    top: int = 200,
) -> Tree:
    """Draw the tree of host slices, depth first, with their times.

    Parameters
    ----------
    event_id
        Slice to begin with; None for all outermost slices, the busiest thread first.
    depth
        Levels below it; None for as many as fit into ``top``.
    run, rank
        Which trace, if there are several.
    top
        Maximum number of slices, the first in order; 0 for all.

    Returns
    -------
    profframe.show.tree_text.Tree
        Text with a line for each slice: duration, self time, device time launched inside it, share
        of the outermost slice drawn, ``event_id``, and name. ``(+n inside)`` counts slices that are
        too deep, the last line all slices that are not drawn.

    Raises
    ------
    UnknownNameError
        There is no such event, run or rank.
    ParameterError
        There are several traces, or the event is not a host slice that nests, such as a kernel.
    """
    from profframe.analysis.call_tree import call_tree
    from profframe.show.tree_text import text

    session = self._session.filter(runs=run, ranks=rank)
    with session.connection(dict.fromkeys(("events", "threads"))) as connection:
        slices = call_tree(connection, event_id, depth, top)
    return text(slices, empty_reasons.of_tree(type(self)(session)))


def summary(self: BaseTrace) -> Summary:
    """The contents in a few labelled lines; the text of ``repr``."""
    trace = type(self)(self._session.unlimited())
    traces = trace_tables.table(trace, "traces")
    return Summary(
        overview=generated_questions.overview(trace),
        kinds=own_rows(trace, _KINDS),
        steps=generated_questions.step_times(trace),
        traces=traces,
        categories=own_rows(trace, _CATEGORIES),
        quality=trace_tables.table(trace, "quality"),
        words=file_summaries(trace, traces["format"]),
    )
