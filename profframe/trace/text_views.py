"""A trace as text: torch's table, a tree of slices, and a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from profframe.errors import without_secrets
from profframe.query.selection import Numbers, Text, check_compat
from profframe.show import notebook, units
from profframe.show.lines import Lines
from profframe.show.special_files import FileSummaries
from profframe.show.summary import Summary
from profframe.show.trace_header import TraceHeader
from profframe.trace import empty_reasons, generated_questions, query, trace_tables
from profframe.trace.at_once import Asker, at_once
from profframe.trace.base_trace import BaseTrace
from profframe.trace.file_summaries import file_summaries, question
from profframe.trace.query import own_rows

if TYPE_CHECKING:
    from profframe.show.tree_text import Tree

_KINDS = """
    SELECT kind, count(*) AS events
    FROM events
    WHERE replays IS NULL
    GROUP BY kind
    ORDER BY events DESC, kind"""

_EVENTS = "SELECT count(*) FROM events"
_HAS_WORK = """
    SELECT coalesce(bool_or(is_busy(kind) OR lost_start_ns IS NOT NULL), false) FROM events
"""
"""Whether there is work of devices, or calls whose work is lost."""
_SYNCHRONISING: Final = """
    SELECT name
    FROM (SELECT DISTINCT name FROM events WHERE is_call(kind))
    WHERE is_synchronising(name)
"""
_HAS_PHASES = "SELECT coalesce(bool_or(phase_id IS NOT NULL), false) FROM events"
_MEMORY = ("memory", "allocations")
_HAS_MEMORY = "SELECT EXISTS (FROM memory) OR EXISTS (FROM allocations)"
_OWN_ORDER = "self_ns"
"""What the answer self_times is in the order of: to sort it again is a question more."""
_MOST_EVENTS: Final = 100_000
"""A notebook shows findings of a trace of at most this many events: of more they take seconds."""


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


def summary(self: BaseTrace) -> TraceHeader:
    """Tell what the trace is, where its time goes and what would gain most.

    The words are those that ``profframe TRACE`` prints first. It asks the rules of `advice`, which
    takes seconds for a million events; ``repr(trace)`` has the quick part.

    Returns
    -------
    profframe.show.trace_header.TraceHeader
        It shows itself as text (``str``) and in a notebook. Its fields are frames, most of them
        the rows of the answer of this name: ``overview``, ``breakdown`` (`time_breakdown`),
        ``categories`` (`kernel_categories`), ``idle``, ``steps``, ``mfu``, ``advice``,
        ``used_devices``, ``quality``, ...

    Examples
    --------
    >>> import profframe
    >>> summary = profframe.load("examples/gpu_training.json.gz").summary()
    >>> print(str(summary).splitlines()[1].strip())
    device    1 x NVIDIA H100 80GB HBM3
    >>> summary.advice["rule"][0]
    'data_loading'
    """
    with _shared(self) as trace:
        return header(trace)


def header(trace: BaseTrace, sort: str = "self_ns") -> TraceHeader:
    """What the first lines say, each frame computed once.

    Parameters
    ----------
    trace
        The trace.
    sort
        Column to sort the self times by.
    """
    words = _words(trace)
    with at_once(trace) as begin:
        advice = None if words.is_all else begin(lambda: query.advice(trace))  # the longest first
        quick = _contents(trace, words, begin)
        own: dict[str, Any] = {one.name: getattr(quick, one.name) for one in fields(quick)}
        if advice is None:
            return TraceHeader(**own)
        more = {name: begin(ask) for name, ask in _beyond(trace, quick, sort)}
        own |= {name: rows() for name, rows in more.items()}
        return TraceHeader(**own, advice=advice())


def _beyond(
    trace: BaseTrace, quick: Summary, sort: str
) -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    """The questions about a trace beyond the quick part and advice, as far as they apply."""
    ask = generated_questions
    session = trace._session  # noqa: SLF001 - of the trace's own package
    has_phases = not session.lacks("events", "phase_id") and own_rows(trace, _HAS_PHASES).item()
    if quick.breakdown.height:
        yield "idle", lambda: ask.idle(trace, per="device")
    if has_phases:
        yield "phases", lambda: ask.phases(trace)
    if quick.overview["kernels"].sum() > 0:
        yield "mfu", lambda: _mfu(trace, has_phases)
    if _has_counters(quick):
        yield "energy", lambda: ask.energy(trace)
    if not session.are_empty(_MEMORY) and own_rows(trace, _HAS_MEMORY).item():
        yield "memory_peak", lambda: ask.memory_peak(trace)
    order = None if sort == _OWN_ORDER else sort
    yield "self_times", lambda: ask.self_times(trace, sort=order)
    yield "frameworks", lambda: question(trace, "frameworks")
    yield "synchronising", lambda: own_rows(trace, _SYNCHRONISING)


def contents(trace: BaseTrace) -> Summary:
    """What is in a trace, and what its devices spent their time on: the quick part."""
    with at_once(trace) as begin:
        return _contents(trace, _words(trace), begin)


def _words(trace: BaseTrace) -> FileSummaries:
    """What files say that are no traces."""
    return file_summaries(trace, trace_tables.table(trace, "traces")["format"])


def _contents(trace: BaseTrace, words: FileSummaries, begin: Asker) -> Summary:
    ask, none = generated_questions, pl.DataFrame()
    overview = begin(lambda: ask.overview(trace))
    kinds = begin(lambda: own_rows(trace, _KINDS))
    steps = begin(lambda: ask.step_times(trace))
    used = None if words.is_all else begin(lambda: question(trace, "used_devices"))
    has_work = not words.is_all and own_rows(trace, _HAS_WORK).item()
    breakdown = begin(lambda: ask.time_breakdown(trace)) if has_work else None
    categories = begin(lambda: ask.kernel_categories(trace)) if has_work else None
    return Summary(
        overview=overview(),
        kinds=kinds(),
        steps=steps(),
        traces=trace_tables.table(trace, "traces"),
        breakdown=none if breakdown is None else breakdown(),
        categories=none if categories is None else categories(),
        used_devices=none if used is None else used(),
        quality=trace_tables.table(trace, "quality"),
        words=words,
    )


def prompt_text(self: BaseTrace) -> str:
    """What a prompt shows: the quick part; a sentence if the trace cannot be asked."""
    try:
        with _shared(self) as trace:
            return str(contents(trace))
    except Exception as error:  # noqa: BLE001 - a prompt shows what cannot be asked, too
        return _broken(error)


def notebook_html(self: BaseTrace) -> str:
    """What a notebook shows: the summary, without findings if there are many events."""
    with suppress(Exception), _shared(self) as trace:  # or else what is quick may do
        if own_rows(trace, _EVENTS).item() <= _MOST_EVENTS:
            return header(trace)._repr_html_()
    try:
        with _shared(self) as trace:
            return contents(trace)._repr_html_()
    except Exception as error:  # noqa: BLE001 - the same
        return notebook.text_html(_broken(error))


def _shared(self: BaseTrace) -> AbstractContextManager[BaseTrace]:
    """The trace without a row limit, over one connection."""
    return trace_tables.shared_session(type(self)(self._session.unlimited()))


def _broken(error: Exception) -> str:
    """The sentence in place of a trace that cannot be asked."""
    return f"Trace: cannot be read: {without_secrets(units.visible(str(error)))}"


def _has_counters(quick: Summary) -> bool:
    """Whether a trace has any, from what its sources hold: no question for the many without."""
    return any('"counters"' in (text or "") for text in quick.traces["accounted"])


def _mfu(trace: BaseTrace, has_phases: bool) -> pl.DataFrame:
    """Utilization by run and, if there are any, by phase."""
    rows = generated_questions.mfu(trace)
    return pl.concat([rows, generated_questions.mfu(trace, per="phase")]) if has_phases else rows
