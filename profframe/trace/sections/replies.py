"""Answers for the page: each run once, cut to what a page holds, and turned into its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Final

import polars as pl

from profframe.errors import ParameterError
from profframe.pages.report.frame_columns import FrameView
from profframe.pages.report.page_parts import Chart, TablePart
from profframe.query.catalogue import find, resolve
from profframe.query.header import RankKeys, sql_directory
from profframe.show.columns import KEYS
from profframe.show.kernel_names import of_answer
from profframe.show.rank_means import largest_first, rank_means, worst
from profframe.show.rank_means import title as title_of_means
from profframe.trace.base_trace import BaseTrace
from profframe.trace.plots import Plots
from profframe.trace.query import answer
from profframe.trace.trace_tables import table

_RECORDED: Final = "report/recorded_columns.sql"
"""Which columns of `events` hold anything: without some of them answers have nothing to say."""
_DRAWING: Final = Lock()
"""altair numbers its charts in a global: one chart at a time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Rows of an answer, and the call that returns them."""

    name: str
    call: str
    frame: pl.DataFrame

    def __bool__(self) -> bool:
        return self.frame.height > 0


@dataclass(frozen=True, slots=True)
class Context:
    """A trace, and the limits of the page."""

    trace: BaseTrace
    traces: pl.DataFrame
    """Its table `traces`."""
    rows: int
    """Maximum rows of a table."""
    constant_keys: tuple[str, ...]
    """``run`` and ``rank``, where there is only one."""
    starts: pl.DataFrame
    """``run rank start_ns``: moments are shown since then."""
    made_with: Mapping[str, str]
    """Versions and options, for the page to say."""
    timeline: str = "budget"
    """Which slices the timeline has: one of `profframe.trace.sections.timeline.FORMS`."""
    has_means: bool = True
    """Whether rows of several ranks are one row where they are about one thing."""

    def filled_columns(self) -> set[str]:
        """Optional columns of `events` that have values."""
        flags = answer(self.trace, sql_directory() / _RECORDED).row(0, named=True)
        return {column for column, has_values in flags.items() if has_values}

    def answer(self, name: str, **parameters: object) -> Reply:
        """Run an answer of the catalogue."""
        select = resolve(name, parameters)[0].name
        rows = pl.DataFrame(answer(self.trace, name, **parameters))
        return Reply(
            select,
            call_text(name, **parameters),
            rows if select == "kernels" else of_answer(select, rows),
        )

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
        full_text: bool = False,
        column_docs: Mapping[str, str] | None = None,
    ) -> TablePart:
        """A table of the rows.

        ``main`` columns are visible at first, or all if there are none. Without ``by`` rows keep
        their order. ``key`` is the name of the frame in the page, if that of the answer is in use.
        ``column_docs`` says what columns are, where no answer of the catalogue does.
        """
        rows, means = reply.frame, self._means(reply, by)
        if means is not None:
            about = f"{about} Each row is the {title_of_means(rows)}.".strip()
            rows, main = means, _with_worst(main, by)
        if by:
            rows = largest_first(rows, by)
        head = rows.head(self.rows)
        empty = {column.name for column in head if column.null_count() == head.height}
        frame = head.drop(empty.union(self.constant_keys), strict=False)
        visible = [name for name in main if name in frame.columns and not _is_zero(frame[name])]
        return TablePart(
            key=key or reply.name,
            label=label,
            view=FrameView(
                frame,
                (*(key for key in KEYS if key in frame.columns), *visible) if visible else (),
                docs(reply.name) if column_docs is None else column_docs,
                self._origin(head),
            ),
            calls=(reply.call,),
            title=title,
            about=about,
            sorted=f"{by} descending" if by else "",
            cut=_cut(head.height, rows.height, by, reply.call),
            full_text=full_text,
        )

    def _means(self, reply: Reply, by: str) -> pl.DataFrame | None:
        """Rows of several ranks as one each; None if each has its own."""
        keys = _rank_keys(reply.name)
        if not by or keys is None or not self.has_means or "rank" in self.constant_keys:
            return None
        means = rank_means(reply.frame, keys, by)
        return None if means is reply.frame else means

    def _origin(self, frame: pl.DataFrame) -> pl.Series | None:
        """Start of the trace of each row; of the first rank if a row covers several."""
        keys = [key for key in KEYS if frame.schema.get(key) == self.starts.schema[key]]
        if not keys or not self.starts.height:
            return None
        if self.starts.height == 1:
            return pl.repeat(self.starts["start_ns"][0], frame.height, dtype=pl.Int64, eager=True)
        starts = self.starts.group_by(keys).agg(pl.col("start_ns").min().alias("_start"))
        joined = frame.select(keys).join(
            starts, on=keys, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["_start"].fill_null(self.starts["start_ns"].min())

    def chart(self, name: str, label: str, *arguments: str) -> tuple[Chart, ...]:
        """A chart of `Trace.plot`; nothing if the trace lacks what it draws."""
        draw: Callable[..., Any] = getattr(Plots(self.trace), name)
        quoted = ", ".join(f'"{argument}"' for argument in arguments)
        call = f"trace.plot.{name}({quoted})"
        try:
            return (self.drawn(f"{name}-chart", label, partial(draw, *arguments), (call,)),)
        except ParameterError:
            return ()

    def drawn(self, key: str, label: str, draw: Callable[[], Any], calls: tuple[str, ...]) -> Chart:
        """A chart of rows from these calls."""
        from profframe.pages.plots import drawing, split_chart

        with _DRAWING, drawing():
            spec, frames = split_chart(draw())
        views = {name: FrameView(frame) for name, frame in frames.items()}
        return Chart(key, label, spec, views, calls)


def context_of(
    trace: BaseTrace, rows: int, made_with: Mapping[str, str], timeline: str = "budget"
) -> Context:
    """The keys and starts of a trace, found once for all sections."""
    traces = table(trace, "traces")
    constant_keys = tuple(key for key in KEYS if traces[key].n_unique() < 2)
    starts = traces.select(*KEYS, pl.col("start_ns").fill_null(0))
    return Context(trace, traces, rows, constant_keys, starts, made_with, timeline)


def call_text(name: str, **parameters: object) -> str:
    """The call that runs an answer, as a user writes it.

    Examples
    --------
    >>> call_text("idle", per="device")
    'trace.idle(per="device")'
    """
    arguments = ", ".join(
        f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
        for name, value in parameters.items()
    )
    return f"trace.{name}({arguments})"


def whole(reply: Reply) -> Reply:
    """The rows about whole traces of an answer that also has rows about steps, if it has any."""
    if "step" not in reply.frame.columns:
        return reply
    rows = reply.frame.filter(pl.col("step").is_null())
    return replace(reply, frame=rows) if rows.height else reply


def _rank_keys(name: str) -> RankKeys | None:
    """What rows of several ranks have in common, if there is such an answer."""
    return find(name).rank_keys if _has_answer(name) else None


def _has_answer(name: str) -> bool:
    return (sql_directory() / "answers" / f"{name}.sql").is_file()


def _with_worst(main: Sequence[str], by: str) -> tuple[str, ...]:
    """Visible columns with those of the worst rank behind what it has the most of."""
    own = (worst(by), "worst_rank")
    return (*(name for one in main for name in ((one, *own) if one == by else (one,))),)


def docs(name: str) -> dict[str, str]:
    """What each column of an answer is; empty if there is no such answer.

    Examples
    --------
    >>> docs("self_times")["calls"]
    'number of slices'
    """
    if not _has_answer(name):
        return {}
    return {
        column.name: f"{column.doc}{f' ({column.unit})' if column.unit else ''}"
        for column in find(name).columns
    }


def _is_zero(column: pl.Series) -> bool:
    return column.dtype.is_numeric() and len(column) > 1 and bool((column == 0).all())


def _cut(shown: int, rows: int, by: str, call: str) -> str:
    if shown == rows:
        return ""
    which = f"those with the most {by}" if by else "the first"
    return f"This page has {shown:,} of {rows:,} rows, {which}; {call} gives all."
