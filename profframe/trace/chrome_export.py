"""A Chrome trace of a `Trace`: of one (run, rank), or of several together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Final, TypeVar, cast

import duckdb
import polars as pl

from profframe.analysis import clocks
from profframe.analysis.critical_path import CriticalPath, find
from profframe.analysis.critical_path.late_costs import CAUSES
from profframe.errors import UnknownNameError
from profframe.export import chrome, pftrace
from profframe.export.lines.added_tracks import (
    BLAME,
    CRITICAL_PATH,
    PATH_ACROSS_RANKS,
    Given,
    Rows,
    added_rows,
    named_rows,
    of_a_trace,
    of_all_traces,
    path_line,
    rows_of,
    titled_rows,
)
from profframe.export.lines.batches import single_trace
from profframe.export.lines.chrome_events import ChromeEvents, chrome_events
from profframe.export.lines.forms import COLUMNS, JSON, Form
from profframe.export.lines.merged_ranks import (
    ARRIVALS,
    CLOCKS,
    STREAMS,
    MergedFile,
    RankPart,
    Row,
    base_of,
    check_clocks,
    first_time,
    parts_of,
)
from profframe.export.output_file import is_protobuf
from profframe.query import renamed
from profframe.query.catalogue import catalogue
from profframe.query.header import Answer
from profframe.query.per_trace import PerTrace
from profframe.query.session import Session
from profframe.query.sources import IN_EACH_TRACE
from profframe.trace.base_trace import BaseTrace
from profframe.trace.jobs import critical_path, late_slices
from profframe.trace.query import answer, own_rows
from profframe.trace.trace_tables import selected

if TYPE_CHECKING:
    from profframe.export.lines.batches import Lines

Steps = Sequence[int | None]
"""Profiler steps; a single None means everything."""
_STEPS: Final = "SELECT DISTINCT step FROM events WHERE step IS NOT NULL ORDER BY step"


def steps_of(part: BaseTrace, whole: BaseTrace) -> Steps:
    """Steps in a part of some traces; all if it has as many as the whole."""
    if part._session.selection.is_of_traces:  # noqa: SLF001 - a method of it
        return [None]
    steps: list[int | None] = own_rows(part, _STEPS)["step"].to_list()
    return [None] if steps == own_rows(whole, _STEPS)["step"].to_list() else steps


def path_across_ranks(whole: BaseTrace, steps: Steps) -> CriticalPath:
    """The path across the ranks of a run, through some steps of it."""
    paths = [critical_path(whole, step, across_ranks=True) for step in steps]
    if len(paths) < 2:
        return paths[0] if paths else critical_path(whole, across_ranks=True)
    return replace(paths[0], events=pl.concat(path.events for path in paths))


def blame(
    whole: BaseTrace, steps: Steps, ahead_ns: Mapping[tuple[str, int], int], *, corrected: bool
) -> pl.DataFrame:
    """Slices of the time by which ranks were late to collectives, on the clock of a file.

    One row per late rank and collective, from when the rank before it came until it came itself.
    ``cost_ns`` and ``held_up_ns`` are those of `Trace.blame`: they have the same sums for each
    rank, and the costs of the causes (``host_ns`` ...) add up to them. A slice is named after what
    costs most.
    """
    runs = sorted({run for run, _ in ahead_ns})
    rows = pl.concat(
        late_slices(whole, run, step, corrected=corrected) for run in runs for step in steps
    )
    ahead = pl.DataFrame(
        [(*key, ns) for key, ns in ahead_ns.items()],
        schema={"run": rows.schema["run"], "rank": rows.schema["rank"], "_ahead": pl.Int64},
        orient="row",
    )
    rank = pl.format("rank {}", "rank")
    waits = (
        pl.when(pl.col("waits_for_rank") == pl.col("rank"))
        .then(pl.lit("late as at another collective"))
        .otherwise(pl.format("wait for rank {}", "waits_for_rank"))
    )
    blamed = pl.coalesce("op", "name", pl.lit("nothing recorded"))
    return rows.join(ahead, on=["run", "rank"], maintain_order="left").select(
        pl.format("{} {}", "run", rank).alias("series") if len(runs) > 1 else rank.alias("series"),
        pl.when(pl.col("waits_for_rank").is_not_null())
        .then(waits)
        .otherwise(pl.format("{}: {}", "cause", blamed))
        .alias("name"),
        pl.col("start_ns") - pl.col("_ahead"),
        "dur_ns",
        pl.col("rank").alias("late_rank"),
        pl.col("kind").alias("collective"),
        "step",
        "cost_ns",
        "held_up_ns",
        "cause",
        pl.col("name").alias("slice"),
        "op",
        "module",
        "waits_for_rank",
        "largest_cost_ns",
        *(f"{cause}_ns" for cause in CAUSES),
    )


Item = TypeVar("Item")
Progress = Callable[[int, int, str], None]
_KEY: Final = ["run", "rank"]
_AT_ONCE: Final = 64
"""Maximum traces whose rows are read together."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of an export; see `Trace.export_chrome_trace`."""

    highlight: CriticalPath | pl.DataFrame | None = None
    tracks: Given | None = None
    clocks: str = CLOCKS[0]
    collectives: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.clocks not in CLOCKS:
            raise UnknownNameError.one_of("clocks", self.clocks, CLOCKS)

    @property
    def marked(self) -> pl.DataFrame | None:
        """Rows to highlight."""
        path = self.highlight
        return path.events if isinstance(path, CriticalPath) else path

    @property
    def has_path_of_job(self) -> bool:
        """Whether there is a path over several ranks, whose times are on one clock."""
        return any(map(_is_of_job, [self.highlight, *_each(self.tracks)])) or any(
            isinstance(track, str) and track == PATH_ACROSS_RANKS for track in _each(self.tracks)
        )

    def on_own_clocks(self, offsets: Mapping[tuple[str, int], int]) -> Wanted:
        """The options with paths over several ranks on the clock of each rank, like events."""
        tracks = self.tracks
        if isinstance(tracks, Mapping):
            tracks = {title: _on_own_clocks(what, offsets) for title, what in tracks.items()}
        elif tracks is not None and not isinstance(tracks, str):
            tracks = [_on_own_clocks(what, offsets) for what in tracks]
        return replace(self, highlight=_on_own_clocks(self.highlight, offsets), tracks=tracks)


def _each(tracks: Given | None) -> Iterable[object]:
    if tracks is None or isinstance(tracks, str):
        return ()
    return tracks.values() if isinstance(tracks, Mapping) else tracks


def _is_of_job(what: object) -> bool:
    return isinstance(what, CriticalPath) and what.run is not None and what.rank is None


def _on_own_clocks(what: Item, offsets: Mapping[tuple[str, int], int]) -> Item:
    if not isinstance(what, CriticalPath) or not _is_of_job(what):
        return what
    rows = what.events
    ahead = pl.DataFrame(
        [(rank, ns) for (run, rank), ns in offsets.items() if run == what.run],
        schema={"rank": rows.schema["rank"], "_ahead": pl.Int64},
        orient="row",
    )
    start = pl.col("start_ns") + pl.col("_ahead").fill_null(0)
    moved = rows.join(ahead, on="rank", how="left", maintain_order="left").with_columns(start)
    return replace(what, events=moved.drop("_ahead"))


def write(trace: BaseTrace, path: str | PathLike[str], wanted: Wanted) -> None:
    """Write the file: Perfetto's protobuf if it has such a name, else Chrome's JSON."""
    session = trace._session.unlimited()  # noqa: SLF001 - a method of it
    form = form_of(path)
    if session.rows("traces").height > 1:
        job = _job(type(trace)(session), wanted, form)
        if form is JSON:
            chrome.write_job(path, job)
        else:
            pftrace.write_job(path, job)
        return
    is_whole = session.selection.is_of_traces
    with session.connection() as connection:
        row = single_trace(connection)
        added = None
        if wanted.tracks is not None:
            alone = _Shared(trace, {(row["run"], row["rank"]): 0} if row else {}, {}, wanted.clocks)
            added = added_rows(wanted.tracks, partial(_track, trace, alone), row)
        events = chrome_events(
            connection, row, is_whole=is_whole, marked=wanted.marked, tracks=added, form=form
        )
        done = _Done(wanted.progress, session)
        write_events(path, replace(events, lines=done.watch(events.lines, "")), added)


def form_of(path: str | PathLike[str]) -> Form:
    """The form of events in a file of that name."""
    return COLUMNS if is_protobuf(path) else JSON


def write_events(
    path: str | PathLike[str], events: ChromeEvents, tracks: pl.DataFrame | None = None
) -> None:
    """Write the events of one trace, which are in the form that the file's name implies."""
    if form_of(path) is JSON:
        chrome.write(path, events)
    else:
        pftrace.write(path, events, first_time(events.trace, tracks) or 0)


class _Done:
    """Reports how much of a file is written."""

    def __init__(self, progress: Progress | None, session: Session) -> None:
        self._progress = progress
        self._done = 0
        self._all = 0
        if progress is not None:
            self._all = session.select("SELECT count(*) AS events FROM events")["events"][0].as_py()

    def watch(self, lines: Lines, what: str) -> Lines:
        """The lines; each batch is reported when it is written."""
        for batch in lines:
            yield batch
            self._done += len(batch)
            if self._progress is not None:
                self._progress(self._done, max(self._done, self._all), what)


def _job(trace: BaseTrace, wanted: Wanted, form: Form) -> MergedFile:
    """Several traces, prepared to be written one after another."""
    session = trace._session  # noqa: SLF001 - a method of it
    traces = session.rows("traces").sort(_KEY).to_dicts()
    threads = session.rows("threads").sort([*_KEY, "thread"])
    offsets: dict[tuple[str, int], int] = {}
    whole = session.with_selection(session.selection.of_traces())
    if wanted.clocks == CLOCKS[0] or wanted.has_path_of_job:
        rows = whole.answer(clocks.offsets(), {})
        offsets = {(run, rank): offset for run, rank, offset in rows.rows()}
    wanted = wanted.on_own_clocks(offsets)
    ahead_of_job = offsets
    if wanted.clocks != CLOCKS[0]:
        offsets = {}
    streams: dict[tuple[str, int, int], int] = {}
    if threads["thread_name"].null_count():
        streams = {
            (run, rank, line): n for run, rank, line, n in session.answer(STREAMS, {}).rows()
        }
    parts = parts_of(traces, threads.to_dicts(), streams, offsets)
    if wanted.clocks == CLOCKS[0]:
        check_clocks(parts)
    tracks = None
    if wanted.tracks is not None:
        ahead = {(p.trace["run"], p.trace["rank"]): p.place.ahead_ns for p in parts}
        shared = _Shared(trace, ahead, ahead_of_job, wanted.clocks)
        tracks = _tracks(trace, parts, wanted.tracks, shared)
    arrivals = None
    if wanted.collectives:
        query = ARRIVALS.format(corrected=wanted.clocks == CLOCKS[0])
        arrivals = session.answer(Answer("arrivals", query), {})
    return MergedFile(
        parts=parts,
        clocks=wanted.clocks,
        base_ns=base_of(parts),
        connect=_Connections(session, traces),
        watch=_Done(wanted.progress, session).watch,
        is_whole=session.selection.is_of_traces and (arrivals is None or arrivals.is_empty()),
        form=form,
        marked=wanted.marked,
        tracks=tracks,
        arrivals=arrivals,
    )


class _Connections:
    """Connections to the tables of one trace after another; some traces are read together."""

    def __init__(self, session: Session, traces: list[dict[str, object]]) -> None:
        self._session = session
        self._keys = [(str(row["run"]), cast("int", row["rank"])) for row in traces]
        self._read: tuple[list[tuple[str, int]], PerTrace | None] = [], None

    def __call__(self, trace: Row | None) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        if trace is None:
            return self._session.connection()
        key = trace["run"], trace["rank"]
        if key not in self._read[0]:
            first = self._keys.index(key)
            some = [other for other in self._keys[first:][:_AT_ONCE] if other[0] == key[0]]
            self._read = self._first(some)
        rows = self._read[1]
        if rows is None:
            return self._session.filter(runs=key[0], ranks=key[1]).connection()
        return rows.connection(*key)

    def _first(self, some: list[tuple[str, int]]) -> tuple[list[tuple[str, int]], PerTrace | None]:
        """The first traces of a run, as many as fit into memory together."""
        rows = None
        while rows is None and len(some) > 1:
            part = self._session.filter(runs=some[0][0], ranks=[rank for _, rank in some])
            rows = PerTrace.of(part, IN_EACH_TRACE)
            some = some if rows is not None else some[: len(some) // 4]
        return some, rows


@dataclass(frozen=True, slots=True)
class _Shared:
    """The job-wide data that tracks are made from, computed once."""

    trace: BaseTrace
    ahead_ns: Mapping[tuple[str, int], int]
    """Offsets that are subtracted from the times of each trace."""
    offsets: Mapping[tuple[str, int], int]
    """By how much the clock of each is ahead, if known."""
    clocks: str

    def path(self) -> pl.DataFrame:
        """The path across ranks, as one line."""
        whole, steps = self._whole()
        path = _on_own_clocks(path_across_ranks(whole, steps), self.offsets)
        return path_line(path.events, self.ahead_ns)

    def blame(self) -> pl.DataFrame:
        """Slices of `blame` for late ranks."""
        whole, steps = self._whole()
        corrected = self.clocks == CLOCKS[0]
        return blame(whole, steps, self.ahead_ns, corrected=corrected)

    def _whole(self) -> tuple[BaseTrace, Steps]:
        """All of the traces, and the steps that are written."""
        session = self.trace._session.unlimited()  # noqa: SLF001 - a method of it
        whole = type(self.trace)(session.with_selection(session.selection.of_traces()))
        return whole, steps_of(self.trace, whole)


def _tracks(
    trace: BaseTrace, parts: list[RankPart], given: Given, shared: _Shared
) -> dict[int | None, pl.DataFrame]:
    """Rows of tracks by the place of their trace; None for those of all traces."""
    answers: dict[str, Rows] = {}

    def ask(part: RankPart, name: str) -> Rows:
        if name == CRITICAL_PATH:  # of one trace
            of = selected(trace, runs=part.trace["run"], ranks=part.trace["rank"])
            return _track(of, shared, name)
        if name not in answers:
            answers[name] = _track(trace, shared, name)
        return answers[name]

    tracks: dict[int | None, pl.DataFrame] = {}
    titled: list[tuple[str, Rows]] = []
    for part in parts:
        key = {name: part.trace[name] for name in _KEY}
        titled = titled_rows(given, partial(ask, part))
        tracks[part.place.number] = rows_of(of_a_trace(titled), key)
    of_all = rows_of(of_all_traces(titled, shared.ahead_ns), {})
    return tracks if of_all.is_empty() else tracks | {None: of_all}


def _track(trace: BaseTrace, shared: _Shared, name: str) -> Rows:
    if name in renamed.ANSWERS:
        return answer(trace, name)

    def path() -> CriticalPath:
        with trace._session.connection() as connection:  # noqa: SLF001 - a method of it
            return find(connection)

    others: dict[str, Callable[[], Rows]] = {
        CRITICAL_PATH: path,
        PATH_ACROSS_RANKS: shared.path,
        BLAME: shared.blame,
    }
    return named_rows(name, partial(answer, trace), others, [one.name for one in catalogue()])
