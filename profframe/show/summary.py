"""A trace in a few labelled lines: what is in it, and what its devices spent their time on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from profframe.query.selection import spans
from profframe.readers.formats import FORMATS
from profframe.show import notebook, units
from profframe.show.device_time import TimeParts, devices
from profframe.show.each_run import time_of_each, work_of_each
from profframe.show.run_paths import run_paths
from profframe.show.special_files import FileSummaries

_USUAL: Final = ("chrome", "torch")
"""Readers of what torch's profiler records."""
_NAMED_BELOW: Final = ("dumps", "execution_traces", "nccl_records")
"""Contents whose line says what they are."""
_LONGEST_NAME = 60
_MOST_RUNS = 5


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """Frames about a trace, and lines made from them, which are quick to compute."""

    overview: pl.DataFrame
    kinds: pl.DataFrame
    steps: pl.DataFrame
    traces: pl.DataFrame
    breakdown: pl.DataFrame
    categories: pl.DataFrame
    used_devices: pl.DataFrame
    quality: pl.DataFrame
    words: FileSummaries = field(default_factory=FileSummaries)

    @property
    def title(self) -> str:
        """Runs, ranks, events and span in one line."""
        span = self.overview["span_ns"].max()
        size = contents(self.overview)
        if self.words.is_all and not self.overview["events"].sum():
            return size.rpartition(", ")[0]
        return f"{size}, {units.duration(span)}" if isinstance(span, int) else size

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Label and text of each further line; lines without a text are left out."""
        lines = (
            *self.opening_lines(),
            ("runs", self._runs()),
            ("events", ", ".join(f"{k} {units.count(n)}" for k, n in self.kinds.iter_rows())),
            ("steps", spans(self.steps["step"].drop_nulls())),
            ("quality", self._quality()),
        )
        return tuple((label, text) for label, text in lines if text)

    @property
    def next_call(self) -> str:
        """What to ask next, with a comment; empty where there are no times."""
        is_timed = not self.words.is_all and self.overview["events"].sum()
        return "trace.summary()  # why devices wait, and what would gain most" if is_timed else ""

    @property
    def time_parts(self) -> TimeParts | None:
        """Device time by class."""
        return TimeParts.of(self.breakdown)

    @property
    def devices(self) -> str:
        """How many devices did something, and their models; empty without events."""
        if not self.overview["events"].sum():
            return ""
        has_time = self.breakdown.height > 0
        return devices(self.overview, self.traces, self.used_devices, has_time=has_time)

    @property
    def work(self) -> str:
        """The label of what devices did."""
        return "kernels" if self.overview["kernels"].sum() else "work"

    def opening_lines(self) -> Iterator[tuple[str, str]]:
        """Lines about what it is, and where the time goes."""
        yield "format", self._formats()
        for words in self.words.parts:
            yield from words.lines
        yield "device", "" if self.words.is_all else self.devices
        if self.time_parts:
            yield "time", next(iter(time_of_each(self.breakdown, self.overview)), "")
            runs = self.overview["run"].n_unique()
            yield self.work, next(iter(work_of_each(self.categories, runs)), "")

    def _formats(self) -> str:
        """Where it is from, if that is not the usual format of torch's profiler."""
        names = sorted({*self.traces["format"].drop_nulls()} & FORMATS.keys())
        formats = [FORMATS[name] for name in names]
        return ", ".join(
            form.words
            for form in formats
            if form.reader not in _USUAL and form.contents not in _NAMED_BELOW
        )

    def _runs(self) -> str:
        ranks: dict[str, list[int]] = {}
        for run, rank in self.overview.select("run", "rank").iter_rows():
            ranks.setdefault(run, []).append(rank)
        paths = run_paths(self.traces)
        files = {run: f", {path}" for run, path in paths.items()}
        texts = [
            f"{short(run)} (rank{'s' if len(members) > 1 else ''} {spans(members)}"
            f"{files.get(run, '')})"
            for run, members in ranks.items()
        ]
        rest = len(texts) - _MOST_RUNS
        return ", ".join([*texts[:_MOST_RUNS], *([f"and {rest:,} more"] if rest > 0 else [])])

    def _quality(self) -> str:
        counts = self.quality.group_by("issue", maintain_order=True).agg(
            events=pl.max_horizontal(pl.col("events").sum(), pl.len())
        )
        return ", ".join(f"{units.visible(c)} {units.count(n)}" for c, n in counts.iter_rows())

    def __str__(self) -> str:
        width = max((len(label) for label, _ in self.lines), default=0)
        lines = [f"  {label:<{width}}  {text}" for label, text in self.lines]
        lines += [f"  {line}" for words in self.words.parts for line in words.sentences]
        lines += [f"  {'next':<{width}}  {self.next_call}"] if self.next_call else []
        return "\n".join([f"Trace: {self.title}", *lines])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        lines = (*self.lines, *([("next", self.next_call)] if self.next_call else []))
        frames = []
        if self.overview.height > 1 and not self.words.is_all:
            frames.append(
                self.overview.select("run", "rank", "events", "span_ns", "kernels", "steps")
            )
        if self.quality.height:
            frames.append(self.quality.select("issue", "events", "action", "detail"))
        return notebook.trace_html(self.title, lines, self.words, frames)


def contents(rows: pl.DataFrame) -> str:
    """The number of runs, of ranks or (run, rank), and of their events, if all are known.

    Examples
    --------
    >>> contents(pl.DataFrame({"run": ["a", "a"], "rank": [0, 1], "events": [1200, 800]}))
    '1 run, 2 ranks, 2,000 events'
    """
    runs, traces = rows["run"].n_unique(), rows.select("run", "rank").n_unique()
    noun = "rank" if runs <= 1 else "trace"
    parts = [units.plural(runs, "run"), units.plural(traces, noun)]
    if not rows["events"].null_count():
        parts.append(units.plural(int(rows["events"].sum()), "event"))
    return ", ".join(parts)


def short(name: str) -> str:
    """A name in quotes, cut if it is long."""
    text = units.visible(name)
    return f"'{text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 3] + '...'}'"
