"""Answers for the page: asked once each, cut to what a page holds, and made into its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from threading import Lock
from typing import Any, Final, Protocol

import polars as pl

from profframe.errors import ParameterError
from profframe.query.answering import find, sql_directory
from profframe.show.columns import KEYS
from profframe.show.report.columns import Shown
from profframe.show.report.parts import Chart, Table

_RECORDED: Final = "report/recorded_columns.sql"
"""Which columns of `events` hold anything: without some of them answers have nothing to say."""
_DRAWING: Final = Lock()
"""altair numbers what it draws: one chart at a time."""


class Reported(Protocol):
    """What a page is about: `profframe.trace.trace.Trace`, as far as a page uses it.

    A page asks as it goes: which answers a section shows depends on the rows of others. So it needs
    the trace itself, which this room cannot import: a trace imports what shows it.
    """

    @property
    def traces(self) -> pl.DataFrame:
        """One row per (run, rank)."""

    @property
    def devices(self) -> pl.DataFrame:
        """One row per device."""

    @property
    def quality(self) -> pl.DataFrame:
        """One row per check that found something."""

    @property
    def plot(self) -> Any:
        """Charts."""

    def answer(self, answer: str | PathLike[str], /, **parameters: object) -> pl.DataFrame:
        """Run an answer of the catalogue, or of a file."""

    def trend(self, metric: str) -> pl.DataFrame:
        """Follow a metric from run to run."""

    def regressions(self, baseline: int) -> pl.DataFrame:
        """Find what takes longer than in runs before."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Rows, and what gave them."""

    name: str
    call: str
    frame: pl.DataFrame

    def __bool__(self) -> bool:
        return self.frame.height > 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A trace to ask, and what bounds the page."""

    trace: Reported
    rows: int
    """Most rows of a table."""
    dull: tuple[str, ...]
    """``run`` and ``rank``, where there is only one."""
    starts: pl.DataFrame
    """``run rank start_ns``: moments are shown since then."""
    made_with: Mapping[str, str]
    """Versions and options, for the page to say."""

    def known(self) -> set[str]:
        """Columns of `events` that hold anything, of those that not all traces have."""
        recorded = self.trace.answer(sql_directory() / _RECORDED).row(0, named=True)
        return {column for column, is_recorded in recorded.items() if is_recorded}

    def answer(self, name: str, **parameters: object) -> Reply:
        """Ask an answer of the catalogue."""
        rows = pl.DataFrame(self.trace.answer(name, **parameters))
        return Reply(name, called(name, **parameters), rows)

    def table(
        self,
        reply: Reply,
        label: str,
        main: Sequence[str] = (),
        by: str = "",
        *,
        key: str = "",
        title: str = "",
        about: str = "",
        whole: bool = False,
    ) -> Table:
        """A table of the rows.

        ``main`` columns are seen at first, all where none are named. Without ``by`` rows stay as
        they come. ``key`` is the name of the frame in the page, where that of the answer is taken.
        """
        frame = reply.frame
        rows = (
            frame.sort(by, descending=True, nulls_last=True, maintain_order=True) if by else frame
        )
        kept = rows.head(self.rows)
        empty = {column.name for column in kept if column.null_count() == kept.height}
        left = kept.drop(name for name in kept.columns if name in empty or name in self.dull)
        seen = [name for name in main if name in left.columns and not _is_zero(left[name])]
        return Table(
            key=key or reply.name,
            label=label,
            shown=Shown(
                left, (*_keys(left), *seen) if seen else (), docs(reply.name), self._origin(kept)
            ),
            calls=(reply.call,),
            title=title,
            about=about,
            sorted=f"{by} descending" if by else "",
            cut=_cut(kept.height, rows.height, by, reply.call),
            whole=whole,
        )

    def _origin(self, frame: pl.DataFrame) -> pl.Series | None:
        """Start of the trace of each row; of what is of several ranks, that of the first."""
        keys = [key for key in KEYS if frame.schema.get(key) == self.starts.schema[key]]
        if not keys or not self.starts.height:
            return None
        if self.starts.height == 1:
            return pl.repeat(self.starts["start_ns"][0], frame.height, dtype=pl.Int64, eager=True)
        of_keys = self.starts.group_by(keys).agg(pl.col("start_ns").min().alias("_start"))
        placed = frame.select(keys).join(
            of_keys, on=keys, how="left", nulls_equal=True, maintain_order="left"
        )
        return placed["_start"].fill_null(self.starts["start_ns"].min())

    def chart(self, name: str, label: str, *arguments: str) -> tuple[Chart, ...]:
        """A chart of `Trace.plot`; none, where the trace lacks what it draws."""
        from profframe.show.plots import taken_apart

        draw: Callable[..., Any] = getattr(self.trace.plot, name)
        try:
            with _DRAWING:
                spec, frames = taken_apart(draw(*arguments))
        except ParameterError:
            return ()
        said = ", ".join(f'"{argument}"' for argument in arguments)
        shown = {name: Shown(frame) for name, frame in frames.items()}
        return (Chart(f"{name}-chart", label, spec, shown, (f"trace.plot.{name}({said})",)),)


def asked(trace: Reported, rows: int, made_with: Mapping[str, str]) -> Asked:
    """Prepare to ask a trace."""
    traces = trace.traces
    dull = tuple(key for key in KEYS if traces[key].n_unique() < 2)
    starts = traces.select(*KEYS, pl.col("start_ns").fill_null(0))
    return Asked(trace, rows, dull, starts, made_with)


def called(name: str, **parameters: object) -> str:
    """How a user asks for an answer.

    Examples
    --------
    >>> called("idle", per="device")
    'trace.idle(per="device")'
    """
    said = ", ".join(
        f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
        for name, value in parameters.items()
    )
    return f"trace.{name}({said})"


def docs(name: str) -> dict[str, str]:
    """What each column of an answer is; nothing of what is no answer.

    Examples
    --------
    >>> docs("self_times")["calls"]
    'number of slices'
    """
    if not (sql_directory() / "answers" / f"{name}.sql").is_file():
        return {}
    return {
        column.name: f"{column.doc}{f' ({column.unit})' if column.unit else ''}"
        for column in find(name).columns
    }


def _is_zero(column: pl.Series) -> bool:
    return column.dtype.is_numeric() and len(column) > 1 and bool((column == 0).all())


def _keys(frame: pl.DataFrame) -> list[str]:
    return [key for key in KEYS if key in frame.columns]


def _cut(kept: int, rows: int, by: str, call: str) -> str:
    if kept == rows:
        return ""
    which = f"those with the most {by}" if by else "the first"
    return f"This page has {kept:,} of {rows:,} rows, {which}; {call} gives all."
