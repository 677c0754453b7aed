"""Files of a trace: a store, files for other tools, and a report."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING

import polars as pl

from profframe import store
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.parameters import check_override
from profframe.query.selection import Text
from profframe.trace.base_trace import BaseTrace
from profframe.trace.trace_tables import tables

if TYPE_CHECKING:
    from profframe.analysis.critical_path import CriticalPath
    from profframe.export.lines.added_tracks import Given


def to_parquet(self: BaseTrace, path: str | PathLike[str]) -> None:
    """Write every (run, rank) into a Parquet store, replacing those that exist.

    Parameters
    ----------
    path
        The store; created if it does not exist.

    Raises
    ------
    StoreError
        It cannot be written; its previous contents are kept.
    """
    for part in self._session.source.split():
        store.write(tables(type(self)(self._session.with_source(part))), path)


def export_chrome_trace(
    self: BaseTrace,
    path: str | PathLike[str],
    legacy: bool = False,
    highlight: CriticalPath | pl.DataFrame | None = None,
    tracks: Given | None = None,
    *,
    clocks: str = "corrected",
    collectives: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write a trace file for Perfetto, chrome://tracing and `profframe.load`.

    It is Chrome's JSON, or Perfetto's protobuf if the name ends in ``.pftrace`` or
    ``.perfetto-trace`` (optionally with ``.gz``): the same events in half the bytes.

    Several ranks go into one file, on one clock: each is its own group of processes, and `load`
    restores them. Choose the contents with `filter`.

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; an existing file is replaced at
        the end. `load` needs ``pip install 'profframe[perfetto]'`` for ``.pftrace``.
    legacy
        Write like torch's ``EventList.export_chrome_trace``: only what its ``events()`` has, in
        microseconds since the profiler started. torch writes kernels like host ops; here, events of
        a trace with device work also have categories, devices and ids, so that `load` finds the
        kernels and their ops. ``tid`` is the system's number of a thread; torch counts threads.
    highlight
        Events to highlight: a critical path, or a frame with ``event_id`` (and ``run`` and ``rank``
        for several traces). Their arguments get ``critical: 1``, they are red in chrome://tracing
        (JSON only), and arrows join the parts of a path (rows with ``start_ns``, ``dur_ns`` and
        ``edge``, in order) across threads, streams and ranks. Times in a frame are on the clock of
        the row's rank, as in ``events``.
    tracks
        Tracks to add, as a list or by title: ``"queue_depth"``, ``"memory"``,
        ``"exposed_communication"``, ``"critical_path"`` (of each rank), ``"path_across_ranks"``,
        ``"blame"``, ``"achieved_flop_per_s"``, the name of any other answer, a frame, or a critical
        path. Rows with ``start_ns`` and ``dur_ns`` become slices on separate lines, rows with
        ``time_ns`` become counters; each device and stream has its own. They are in a process
        ``profframe``. `load` keeps added slices in ``instants`` and added counters in ``counters``:
        they do not count as work. With several ranks, each gets the rows with its ``run`` and
        ``rank``, on its clock; a path across ranks also gets one line in a process for all, and so
        do rows without a rank, whose times are those of the file. ``"path_across_ranks"`` and
        ``"blame"`` appear only there, for the steps that are written: each slice of the latter is
        the time by which a rank was late to a collective, named after what cost most, and its
        ``cost_ns`` and ``held_up_ns`` are those of `blame`.
    clocks
        ``"corrected"``: known offsets of `clock_skew` are subtracted from the times of several
        ranks, and the file says so. ``"recorded"``: times stay as they are.
    collectives
        Whether arrows of category ``collective`` lead from the rank that came last to each
        collective to the others that waited for it.
    progress
        Called with the number of events written, the total, and what is being written.

    Raises
    ------
    UnknownNameError
        There is no track or answer with that name.
    ParameterError
        None of the highlighted events is in the file; a track has no column of times or values;
        these are requested with ``legacy``, which holds one (run, rank); or clocks have different
        origins, and no collective relates them.
    ExportError
        The file cannot be written.
    """
    from profframe.export import chrome
    from profframe.export.lines.event_list import listed_lines
    from profframe.trace.chrome_export import Wanted, write

    for name, value in (("highlight", highlight), ("tracks", tracks)):
        if legacy and value is not None:
            raise ParameterError(f"{name}: not available in torch's own format (legacy=True)")
    if legacy:
        with self._session.connection() as connection:
            chrome.write_list(path, listed_lines(connection))
        return
    write(self, path, Wanted(highlight, tracks, clocks, collectives, progress))


def augment(
    self: BaseTrace, path: str | PathLike[str], dtype: object = None, *, override: bool = False
) -> None:
    """Write a trace with the work of ops and kernels in their arguments.

    Perfetto shows them: ``kernel_flop`` and ``kernel_num_gb`` (of 1e9 bytes) for host ops and
    kernels with known work, and for kernels on known devices ``achieved_flops_pct`` and
    ``achieved_bandwidth_pct``, percentages of the peaks that `roofline` uses. Everything else is as
    in `export_chrome_trace`. A trace can be augmented again.

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
        replaced at the end.
    dtype, override
        Data type assumed for work of unknown type, or with ``override`` for all work, as in
        `roofline`.

    Raises
    ------
    ParameterError
        There are several (run, rank), but a file holds one; or there is no such data type.
    ExportError
        The file cannot be written.
    """
    from profframe.export.lines.augment import augment
    from profframe.export.lines.batches import single_trace
    from profframe.export.lines.chrome_events import chrome_events
    from profframe.trace.chrome_export import form_of, write_events

    check_override(dtype, override)
    from profframe.facts.formulas.dtypes import peak_name

    word = "" if dtype is None else peak_name(dtype)
    is_whole = self._session.selection.is_of_traces
    with self._session.connection() as connection:
        trace = single_trace(connection)
        augment(connection, word, override=override)
        events = chrome_events(connection, trace, is_whole=is_whole, form=form_of(path))
        write_events(path, events)


def export_speedscope(self: BaseTrace, path: str | PathLike[str], metric: str = "self_ns") -> None:
    """Write host threads for https://www.speedscope.app: a profile for each (run, rank, thread).

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
        replaced at the end.
    metric
        ``"self_ns"``: the thread over time. ``"self_device_ns"``: widths are the device time that
        it launched.

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
    If slices overlap without nesting, the first is cut where the second begins; the profile's name
    says how many were cut. Nanoseconds count from the first slice of the (run, rank).
    """
    from profframe.export.lines import speedscope
    from profframe.export.lines.speedscope import thread_profiles

    with self._session.connection(dict.fromkeys(("events", "threads"))) as connection:
        speedscope.write(path, thread_profiles(connection, metric), metric)


def export_stacks(
    self: BaseTrace,
    path: str | PathLike[str],
    metric: str = "self_cpu_time_total",
    by: str = "stack",
) -> None:
    """Write stacks in the folded format of flame graphs, as torch does.

    A line is one event: its frames, the outermost first, and whole microseconds. If no stacks were
    recorded, but calls of Python functions were, the frames are those around the event
    (``python_stack``).

    Parameters
    ----------
    path
        File to write, compressed if it ends in ``.gz`` or ``.zst``; one that is there is
        replaced at the end.
    metric
        ``self_cpu_time_total``, or ``self_cuda_time_total`` (also ``xpu``, ``privateuse1``)
        for device time, whatever the type of device; or ``self_ns``, ``self_device_ns``.
    by
        ``"stack"``; or ``"path"``: a line is a node of `flame`, its frames are the slices around
        it, and the number is nanoseconds; the lines add up to the total.

    Raises
    ------
    UnknownNameError
        There is no such metric, or no such ``by``; the message suggests the nearest.
    ParameterError
        No event has a stack; or, by path, no event has self time.
    ExportError
        The file cannot be written.
    """
    from profframe.export.lines import folded_stacks
    from profframe.export.lines.folded_stacks import path_lines, stack_lines

    ways = {"stack": stack_lines, "path": path_lines}
    if by not in ways:
        raise UnknownNameError.one_of("by", by, ways)
    with self._session.connection() as connection:
        folded_stacks.write(path, ways[by](connection, metric))


def report(
    self: BaseTrace,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    sections: Text | None = None,
    top: int = 1000,
    timeline: str = "budget",
    per: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write a report about the whole trace: one HTML file that opens anywhere.

    It needs no network and no server. Its tables are the answers, each with its call; a cut table
    says so. For more than 16 traces, details cover the latest run and its first ranks; all runs
    are in section ``runs``.

    Parameters
    ----------
    path
        File to write; an existing file is replaced at the end.
    title
        Title of the page; by default the name of the run, or the number of runs.
    sections
        Only these: ``"overview"``, ``"advice"``, ``"timeline"``, ``"time"``, ``"operators"``,
        ``"kernels"``, ``"idle"``, ``"queues"``, ``"counters"``, ``"memory"``, ``"regions"``,
        ``"flame"``, ``"roofline"``, ``"ranks"``, ``"job"``, ``"runs"``, ``"quality"``,
        ``"provenance"``.
        Sections without data are always left out.
    top
        Maximum rows per table.
    timeline
        ``"budget"``: as many slices as fit into a page of 12 MB; the shortest of each lane are left
        out first. ``"full"``: all of them. ``"none"``: no timeline.
    per
        ``"rank"``: rows of each rank in tables that otherwise show the mean of several ranks, and
        the worst one.
    progress
        Called with the number of sections done, the total, and the name of the next.

    Raises
    ------
    UnknownNameError
        There is no such section, or no such value for ``timeline``.
    ParameterError
        ``top`` is less than 1, ``per`` is something else, or no section has anything to show.
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

    options = report.PageOptions(title, sections, top, timeline, per)
    report.write(type(self)(self._session.unlimited()), path, options, progress)
