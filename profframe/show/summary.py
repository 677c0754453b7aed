"""A trace in a few labelled lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from profframe.query.selection import spans
from profframe.readers.formats import FORMATS
from profframe.show import units
from profframe.show.special_files import FileSummaries

_USUAL: Final = ("chrome", "torch")
"""Readers of what torch's profiler records."""
_NAMED_BELOW: Final = ("dumps", "execution_traces", "nccl_records")
"""Contents whose line says what they are."""
_LONGEST_NAME = 60
_MOST_RUNS = 5
_MOST_CATEGORIES = 6
_LEAST_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class Summary:
    """Frames about a trace, and lines made from them."""

    overview: pl.DataFrame
    kinds: pl.DataFrame
    steps: pl.DataFrame
    traces: pl.DataFrame
    categories: pl.DataFrame
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
            ("runs", self._runs()),
            ("format", self._formats()),
            *(line for words in self.words.parts for line in words.lines),
            ("events", ", ".join(f"{k} {units.count(n)}" for k, n in self.kinds.iter_rows())),
            ("devices", self._devices()),
            ("time in", self._categories()),
            ("steps", spans(self.steps["step"].drop_nulls())),
            ("quality", self._quality()),
        )
        return tuple((label, text) for label, text in lines if text)

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
        texts = [
            f"{short(run)} (rank{'s' if len(members) > 1 else ''} {spans(members)})"
            for run, members in ranks.items()
        ]
        rest = len(texts) - _MOST_RUNS
        return ", ".join([*texts[:_MOST_RUNS], *([f"and {rest:,} more"] if rest > 0 else [])])

    def _devices(self) -> str:
        number = int(self.overview["devices"].sum())
        types = sorted(self.traces["device_type"].drop_nulls().unique())
        return f"{number:,} {' + '.join(map(units.visible, types))}".strip() if number else ""

    def _categories(self) -> str:
        """Categories of kernels that took most of the devices' time."""
        total = sum(self.categories["total_ns"].drop_nulls())
        if not total:
            return ""
        parts = [
            f"{category} {units.share(time / total)}"
            for category, time in self.categories.iter_rows()
            if time >= _LEAST_SHARE * total
        ]
        rest = self.categories.height - _MOST_CATEGORIES
        more = [f"and {rest} more"] if len(parts) > _MOST_CATEGORIES else []
        return ", ".join([*parts[:_MOST_CATEGORIES], *more])

    def _quality(self) -> str:
        counts = self.quality.group_by("issue", maintain_order=True).agg(
            events=pl.max_horizontal(pl.col("events").sum(), pl.len())
        )
        return ", ".join(f"{units.visible(c)} {units.count(n)}" for c, n in counts.iter_rows())

    def __str__(self) -> str:
        width = max((len(label) for label, _ in self.lines), default=0)
        lines = (f"  {label:<{width}}  {text}" for label, text in self.lines)
        sentences = (f"  {line}" for words in self.words.parts for line in words.sentences)
        return "\n".join([f"Trace: {self.title}", *lines, *sentences])


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
