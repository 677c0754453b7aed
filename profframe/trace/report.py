"""A trace as one HTML page: which runs and ranks, and sections that are made in parallel."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from typing import Final

import duckdb
import polars as pl

from profframe import __version__
from profframe.analysis import run_selection
from profframe.errors import ParameterError, UnknownNameError
from profframe.export.output_file import check_name, written
from profframe.pages.report import page
from profframe.query.selection import integer, spans, texts
from profframe.show import units
from profframe.show.device_time import MOST_PARTS, models
from profframe.trace.base_trace import BaseTrace
from profframe.trace.file_summaries import question
from profframe.trace.sections.registry import SECTIONS
from profframe.trace.sections.replies import Context, context_of
from profframe.trace.sections.timeline import FORMS
from profframe.trace.trace_tables import selected, shared_session, table

Progress = Callable[[int, int, str], None]

_MOST_TRACES: Final = 16
"""Number of (run, rank) that sections show in detail."""
_AT_ONCE: Final = max(2, min(4, os.cpu_count() or 1))
"""Sections that are made at the same time: no question keeps all cores busy all the time."""
_LONG: Final = ("job", "advice", "idle", "ranks", "time", "timeline", "flame", "regions")
"""Sections that are started first; the timeline shows advice, and would only wait for it."""
_WAITS: Final = "overview"
"""It shows what other sections also ask."""
_RANK: Final = "rank"
_OF_RUNS: Final = "runs"
_OF_RANKS: Final = "ranks"
_OF_JOB: Final = "job"


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Options of a page."""

    title: str | None = None
    sections: str | Iterable[str] | None = None
    top: int = 1000
    timeline: str = FORMS[0]
    per: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The sections, in the order of the page."""
        if self.sections is None:
            return tuple(SECTIONS)
        given = texts("sections", self.sections)
        unknown = [key for key in given if key not in SECTIONS]
        if unknown:
            raise UnknownNameError.among("section", unknown[0], SECTIONS)
        return tuple(key for key in SECTIONS if key in given)

    def check(self) -> None:
        """Check the options before a large trace is loaded."""
        page.check_installed()
        if not self.keys or integer("top", self.top) < 1:
            raise ParameterError(
                "sections, top: a report needs at least one section and one row per table"
            )
        if self.timeline not in FORMS:
            raise UnknownNameError.one_of("timeline", self.timeline, FORMS)
        if self.per not in {None, _RANK}:
            raise ParameterError(f"per: {_RANK!r} or None, not {self.per!r}")


@dataclass(frozen=True, slots=True)
class _Scopes:
    """Extents of sections."""

    everything: BaseTrace
    ranks: BaseTrace
    job: BaseTrace
    """All ranks of one run."""
    detail: BaseTrace
    note: str

    def of(self, section: str) -> BaseTrace:
        """The trace that a section covers."""
        scopes = {_OF_RUNS: self.everything, _OF_RANKS: self.ranks, _OF_JOB: self.job}
        return scopes.get(section, self.detail)


def write(
    trace: BaseTrace,
    path: str | PathLike[str],
    options: PageOptions,
    progress: Progress | None = None,
) -> None:
    """Write the page."""
    check_name(path)
    options.check()
    keys = options.keys
    made_with = _made_with(options)
    traces = table(trace, "traces")
    scopes = _scopes(trace, traces)
    sections = {}
    with (
        _conversations(scopes, options, made_with) as ask,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        futures = {key: pool.submit(SECTIONS[key], ask(key)) for key in _in_turn(keys)}
        try:
            for done, key in enumerate(keys):
                if progress is not None:
                    progress(done, len(keys), key)
                if section := futures[key].result():
                    sections[key] = section
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    if not sections:
        raise ParameterError(f"sections: there is nothing to show in {', '.join(keys)}")
    note = scopes.note
    if _OF_JOB in sections and not note and traces["run"].n_unique() > 1:
        latest = table(scopes.job, "traces")["run"][0]
        note = f"Section Job covers the latest run, {units.visible(latest)}."
    html = page.html(options.title or _name(traces), summary(trace, traces), note, sections)
    with written(path) as put:
        put(html.encode())
    if progress is not None:
        progress(len(keys), len(keys), "done")


def _in_turn(keys: Iterable[str]) -> list[str]:
    """The order in which sections are started: long ones first, those that wait for others last."""
    return sorted(
        keys, key=lambda key: (key == _WAITS, _LONG.index(key) if key in _LONG else len(_LONG))
    )


@contextmanager
def _conversations(
    scopes: _Scopes, options: PageOptions, made_with: dict[str, str]
) -> Iterator[Callable[[str], Context]]:
    """Give a function from a section to the trace that it asks, one for each scope."""
    with ExitStack() as stack:

        @cache
        def conversation(scope: BaseTrace) -> Context:
            asked_trace = stack.enter_context(shared_session(scope, _AT_ONCE))
            context = context_of(asked_trace, options.top, made_with, options.timeline)
            return replace(context, has_means=options.per != _RANK)

        yield lambda section: conversation(scopes.of(section))


def _scopes(trace: BaseTrace, traces: pl.DataFrame) -> _Scopes:
    """Everything if there is little; else the latest run, and its first ranks."""
    runs = run_selection.in_order(traces.select("run", "clock", "start_ns"))["run"].to_list()
    job = selected(trace, runs=runs[-1]) if len(runs) > 1 else trace
    if traces.height <= _MOST_TRACES:
        return _Scopes(trace, trace, job, trace, "")
    latest, notes = runs[-1], []
    if len(runs) > 1:
        notes.append(
            f"All {len(runs):,} runs are in section Runs. "
            f"The other sections cover the latest, {units.visible(latest)}."
        )
    ranks = sorted(traces.filter(pl.col("run") == latest)["rank"].to_list())
    if len(ranks) <= _MOST_TRACES:
        return _Scopes(trace, job, job, job, " ".join(notes))
    few = ranks[:_MOST_TRACES]
    notes.append(
        f"All {len(ranks):,} ranks are in sections Ranks and Job; "
        f"the others show ranks {spans(few)}."
    )
    return _Scopes(trace, job, job, selected(job, ranks=few), " ".join(notes))


def _name(traces: pl.DataFrame) -> str:
    runs = traces["run"].unique(maintain_order=True)
    return str(runs[0]) if len(runs) == 1 else units.plural(len(runs), "run")


def summary(trace: BaseTrace, traces: pl.DataFrame) -> str:
    """A line about what was loaded: runs and ranks, models of devices, and files."""
    runs = traces["run"].n_unique()
    sources = traces["source"].unique(maintain_order=True)
    parts = [
        *([units.plural(runs, "run")] if runs > 1 else []),
        units.plural(traces.height, "rank" if runs == 1 else "trace"),
        *_devices(trace, traces, runs),
        sources[0] if len(sources) == 1 else units.plural(len(sources), "file"),
    ]
    return ", ".join(parts)


def _devices(trace: BaseTrace, traces: pl.DataFrame, runs: int) -> Iterator[str]:
    """Models of the devices that did something, or else their type.

    Those of several runs may be the same devices, and are not counted.
    """
    types = sorted(traces["device_type"].drop_nulls().unique())
    used = question(trace, "used_devices")["model"]
    if not used.len():
        yield from map(units.visible, types)
    elif runs == 1:
        yield models(used, units.visible(" + ".join(types)) or "device")
    else:
        yield from map(units.visible, used.drop_nulls().unique().sort().head(MOST_PARTS))


def _made_with(options: PageOptions) -> dict[str, str]:
    """Versions and options that the page shows."""
    return {
        "profframe": __version__,
        "Python": platform.python_version(),
        "DuckDB": duckdb.__version__,
        "polars": pl.__version__,
        "charts": page.chart_libraries(),
        "sections": ", ".join(options.keys),
        "rows of a table": f"{options.top:,}",
        "timeline": options.timeline,
    }
