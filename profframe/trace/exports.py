"""Files of a trace: a store, files for other tools, and a report."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING

import polars as pl

from profframe import store
from profframe.analysis.critical_path import CriticalPath
from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.formulas.dtypes import peak_name
from profframe.query.parameters import check_override
from profframe.query.selection import Text

if TYPE_CHECKING:
    from profframe.analysis.export_lines.tracks import Given
    from profframe.trace.trace import Trace


def to_parquet(self: Trace, path: str | PathLike[str]) -> None:
    """Write every (run, rank) into a Parquet store; one that is there already is replaced.

    Parameters
    ----------
    path
        The store; made if it does not exist.

    Raises
    ------
    StoreError
        It cannot be written; what was in it is still there.
    """
    for part in self._session.source.split():
        store.write(type(self)(self._session.with_source(part)).tables, path)


def export_chrome_trace(
    self: Trace,
    path: str | PathLike[str],
    legacy: bool = False,
    highlight: CriticalPath | pl.DataFrame | None = None,
    tracks: Given | None = None,
    *,
    clocks: str = "corrected",
    collectives: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write a trace that Perfetto, chrome://tracing and `profframe.load` open.

    It is Chrome's JSON, or Perfetto's protobuf where the name ends in ``.pftrace`` or
    ``.perfetto-trace`` (and maybe ``.gz``): the same events, in half of the bytes.

    Several ranks go into one file, on one clock: each is a group of processes of its own there,
    and `load` gives them back. Choose what is in it with `filter`.

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
        replaced at the end. `load` needs ``pip install 'profframe[perfetto]'`` for ``.pftrace``.
    legacy
        Write as torch's ``EventList.export_chrome_trace`` does: only what its ``events()``
        has, in microseconds since the profiler started.
    highlight
        Events to highlight: a critical path, or a frame with ``event_id`` (and ``run``
        and ``rank``, where they are of several traces). Their arguments have ``critical: 1``,
        they are red in chrome://tracing (of JSON), and arrows join the parts of a path (rows with
        ``start_ns``, ``dur_ns`` and ``edge``, in their order) from one thread, stream or rank to
        another. Times of a frame are by the clock of the row's rank, as in ``events``.
    tracks
        What to add, as a list or by titles: ``"queue_depth"``, ``"memory"``,
        ``"exposed_communication"``, ``"critical_path"`` (of each rank), ``"path_across_ranks"``,
        ``"blame"``, ``"achieved_flop_per_s"``, the name of any other answer, a frame, or a critical
        path. Rows with ``start_ns`` and ``dur_ns``
        become slices on lines of their own, those with ``time_ns`` counters of their numbers;
        each device and stream has its own. They are of a process ``profframe``. `load` keeps
        added slices in ``instants`` and added counters in ``counters``: nothing counts them.
        Of several ranks each has those rows that have its ``run`` and ``rank``, on its clock; a
        path over several ranks is also one line of a process for all, and so are rows without a
        rank, whose times are those of the file. ``"path_across_ranks"`` and ``"blame"`` are there
        alone, of the steps that are written: each slice of the latter is the time by which a rank
        was late to a collective, named by what cost most in it, and its ``cost_ns`` and
        ``held_up_ns`` are those of `blame`.
    clocks
        ``"corrected"``: the offsets of `clock_skew` are taken off the times of several ranks
        where they are known, and the file says so. ``"recorded"``: times stay as they are.
    collectives
        Whether arrows of the category ``collective`` lead from the rank that came last to each
        collective to the others that waited in it.
    progress
        Called with the number of events written, of all, and what is being written.

    Raises
    ------
    UnknownNameError
        There is no track and no answer of that name.
    ParameterError
        Nothing that was highlighted is in the file, or a track has no column of times or values,
        or such are to be written as torch does, which holds one (run, rank). Or clocks have not
        the same origin, and no collective says by how much they differ.
    ExportError
        The file cannot be written.
    """
    from profframe.analysis.export_lines.legacy import listed_lines
    from profframe.export import chrome
    from profframe.trace.chrome_export import Wanted, write

    for name, value in (("highlight", highlight), ("tracks", tracks)):
        if legacy and value is not None:
            raise ParameterError(f"{name}: not in the form that torch writes (legacy=True)")
    if legacy:
        with self._session.connection() as connection:
            chrome.write_list(path, listed_lines(connection))
        return
    write(self, path, Wanted(highlight, tracks, clocks, collectives, progress))


def augment(
    self: Trace, path: str | PathLike[str], dtype: object = None, *, override: bool = False
) -> None:
    """Write a trace with the work of ops and kernels among their arguments.

    Perfetto shows them: ``kernel_flop`` and ``kernel_num_gb`` (of 1e9 bytes) of host ops and
    kernels whose work is known, and of kernels on known devices ``achieved_flops_pct`` and
    ``achieved_bandwidth_pct``, percent of the peaks that `roofline` takes. All else stays as
    `export_chrome_trace` writes it. A trace can be augmented again.

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
        replaced at the end.
    dtype, override
        Data type that work of unknown type is taken for, or with ``override`` all work, as in
        `roofline`.

    Raises
    ------
    ParameterError
        There are several (run, rank): a file holds one. There is no such data type.
    ExportError
        The file cannot be written.
    """
    from profframe.analysis.export_lines.augment import augment
    from profframe.analysis.export_lines.chrome import chrome_events
    from profframe.analysis.export_lines.single_trace import single_trace
    from profframe.trace.chrome_export import form_of, write_events

    check_override(dtype, override)
    word = "" if dtype is None else peak_name(dtype)
    is_whole = self._session.selection.is_of_traces
    with self._session.connection() as connection:
        trace = single_trace(connection)
        augment(connection, word, override=override)
        events = chrome_events(connection, trace, is_whole=is_whole, form=form_of(path))
        write_events(path, events)


def export_speedscope(self: Trace, path: str | PathLike[str], metric: str = "self_ns") -> None:
    """Write host threads for https://www.speedscope.app: a profile of each (run, rank, thread).

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
        replaced at the end.
    metric
        ``"self_ns"``: the thread over time. ``"self_device_ns"``: as wide as the devices worked
        for it.

    Raises
    ------
    UnknownNameError
        There is no such metric; the message suggests the nearest.
    ParameterError
        There are no host slices, or no device time.
    ExportError
        The file cannot be written.

    Notes
    -----
    Of slices that overlap without nesting the first is cut where the second begins; the
    profile's name says how many. Nanoseconds are since the first slice of the (run, rank).
    """
    from profframe.analysis.export_lines.speedscope import thread_profiles
    from profframe.export import speedscope

    with self._session.connection(dict.fromkeys(("events", "threads"))) as connection:
        speedscope.write(path, thread_profiles(connection, metric), metric)


def export_stacks(
    self: Trace,
    path: str | PathLike[str],
    metric: str = "self_cpu_time_total",
    by: str = "stack",
) -> None:
    """Write stacks in the folded form that flame graphs are drawn from, as torch does.

    A line is one event: its frames, the outermost first, and whole microseconds. Where no
    stacks were recorded, but calls of Python functions were, the frames are those around the
    event (``python_stack``).

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
        replaced at the end.
    metric
        ``self_cpu_time_total``, or ``self_cuda_time_total`` (also ``xpu``, ``privateuse1``)
        for the time of the devices, whatever their type; or ``self_ns``, ``self_device_ns``.
    by
        ``"stack"``, or ``"path"``: a line is a node of `flame`, its frames are the slices
        around it, and the number is nanoseconds; the lines add up to all that there is.

    Raises
    ------
    UnknownNameError
        There is no such metric; the message suggests the nearest. Or ``by`` is something else.
    ParameterError
        No event has a stack; or by path, none has time of its own.
    ExportError
        The file cannot be written.
    """
    from profframe.analysis.export_lines.stacks import path_lines, stack_lines
    from profframe.export import stacks

    ways = {"stack": stack_lines, "path": path_lines}
    if by not in ways:
        raise UnknownNameError.among("by", by, ways)
    with self._session.connection() as connection:
        stacks.write(path, ways[by](connection, metric))


def report(
    self: Trace,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    sections: Text | None = None,
    rows: int = 1000,
    timeline: str = "budget",
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write a page about everything in the trace: one HTML file that opens anywhere.

    It needs no network and no server. Its tables are the answers, each with its call; what is
    cut is said there. Of more than 16 traces, details are of the latest run and its first
    ranks; all runs are in section ``runs``.

    Parameters
    ----------
    path
        File to write; one that is there is replaced at the end.
    title
        What stands above the page; the name of the run, or the number of runs.
    sections
        Only these: ``"overview"``, ``"advice"``, ``"timeline"``, ``"time"``, ``"operators"``,
        ``"kernels"``, ``"idle"``, ``"queues"``, ``"memory"``, ``"regions"``, ``"flame"``,
        ``"roofline"``, ``"ranks"``, ``"job"``, ``"runs"``, ``"quality"``, ``"provenance"``. What a
        trace has nothing of is left out anyway.
    rows
        Most rows of a table.
    timeline
        ``"budget"``: as many slices as there is room for in a page of 12 MB, the shortest of each
        lane left out first. ``"full"``: all of them. ``"none"``: no timeline.
    progress
        Called with the number of sections done, of all, and the name of the next.

    Raises
    ------
    UnknownNameError
        There is no such section, or no such form of the timeline.
    ParameterError
        ``rows`` is less than 1, or none of the sections has anything to show.
    MissingExtraError
        altair or jinja2 is not installed (``pip install 'profframe[report]'``).
    ExportError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from profframe import load
    >>> trace = load("examples/cpu_training.json.gz")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trace.report(Path(folder, "report.html"), sections=["operators"])
    ...     Path(folder, "report.html").read_text().splitlines()[0]
    '<!DOCTYPE html>'
    """
    from profframe.trace import report

    options = report.Options(title, sections, rows, timeline)
    report.write(type(self)(self._session.unlimited()), path, options, progress)
