"""Gather the rows of a trace that a timeline draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from profframe.errors import AnswerError, ParameterError, UnknownNameError
from profframe.pages.timeline.timeline_data import KEY, SLICE_COLUMNS, TimelineRows
from profframe.trace.base_trace import BaseTrace
from profframe.trace.jobs import critical_path
from profframe.trace.query import answer
from profframe.trace.trace_tables import table

MOST_READ: Final = 3_000_000
"""Maximum slices: only the longest are read, unless all are wanted, as a page has no more room."""
MOST_WITH_OTHERS: Final = 500_000
"""A page with more slices has no `OTHER_COLUMNS`: there is no room for them."""
_POINTS: Final = 1000
"""Maximum points of a counter."""
_MOST_PATH_EVENTS: Final = 2_000_000
"""A trace with more events and no steps gets no critical path."""
_MOST_PATH_RUNS: Final = 8
"""More runs than this get no critical path."""


def timeline_rows(trace: BaseTrace, most: int | None = MOST_READ) -> TimelineRows:
    """Get everything that a timeline draws; of the slices at most the ``most`` longest."""
    traces = table(trace, "traces").select(*KEY, "clock").sort(KEY)
    session = trace._session  # noqa: SLF001 - a method of it
    durations = session.scan("events", frozenset(["dur_ns"])).select("dur_ns").collect()
    number = durations.height
    unread_ns = -1
    if most is not None and number > most:
        longest = durations["dur_ns"].quantile(1 - most / number, interpolation="higher")
        unread_ns = int(longest or 0)
    is_read = pl.col("dur_ns").is_null() | (pl.col("dur_ns") > unread_ns)

    def read(columns: Sequence[str]) -> pl.DataFrame:
        wanted = session.scan("events", frozenset((*columns, "dur_ns")))
        return (wanted if unread_ns < 0 else wanted.filter(is_read)).select(columns).collect()

    slices = read(SLICE_COLUMNS)
    path, path_of, path_lacks = _path(trace, pl.DataFrame(traces), number)
    return TimelineRows(
        traces=pl.DataFrame(traces),
        slices=slices,
        threads=pl.DataFrame(table(trace, "threads")),
        offsets=_offsets(trace, traces),
        steps=pl.DataFrame(answer(trace, "step_times")),
        findings=pl.DataFrame(answer(trace, "advice")),
        counters=_counters(trace),
        path=path,
        path_of=path_of,
        path_lacks=path_lacks,
        others=read if number <= MOST_WITH_OTHERS else None,
        unread=number - slices.height,
        unread_ns=max(unread_ns, 0),
    )


def _offsets(trace: BaseTrace, traces: pl.DataFrame) -> pl.DataFrame:
    """By how much clocks are ahead; with a single trace there is nothing to compare."""
    if traces.height < 2:
        return traces.select(*KEY, pl.lit(None, pl.Int64).alias("offset_ns"))
    return pl.DataFrame(answer(trace, "clock_skew")).select(*KEY, "offset_ns")


def _counters(trace: BaseTrace) -> pl.DataFrame:
    """All counters in one form, at most `_POINTS` points each."""
    queues = pl.DataFrame(answer(trace, "queue_depth", points=_POINTS)).select(
        *KEY, "device", "stream", pl.lit("queue depth").alias("name"),
        pl.lit(None, pl.String).alias("unit"), "time_ns",
        pl.col("depth").cast(pl.Float64).alias("value"),
    )  # fmt: skip
    device_type = pl.col("device_type").fill_null("unknown device")
    records = pl.DataFrame(answer(trace, "memory_timeline", points=_POINTS))
    memory = [
        records.filter(pl.col(f"{what}_bytes").is_not_null()).select(
            *KEY, "device", pl.lit(None, queues.schema["stream"]).alias("stream"),
            pl.format("memory {}: {}", pl.lit(what), device_type).alias("name"),
            pl.lit("bytes").alias("unit"), "time_ns",
            pl.col(f"{what}_bytes").cast(pl.Float64).alias("value"),
        )
        for what in ("allocated", "reserved")
    ]  # fmt: skip
    return pl.concat([queues, *memory, _sampled(trace, queues.schema["stream"])])


def _sampled(trace: BaseTrace, stream: pl.DataType) -> pl.DataFrame:
    """Counters of the source: the maximum value in each part of a counter's time."""
    rows = pl.DataFrame(answer(trace, "counter_series")).drop_nulls(["time_ns", "value"])
    series = pl.when(pl.col("series").ne_missing(pl.col("name"))).then(pl.col("series"))
    labels = [pl.col("name").fill_null("(no name)"), series, pl.col("counter_id")]
    named = rows.select(
        *KEY, "device", pl.lit(None, stream).alias("stream"),
        pl.concat_str(labels, separator=" ", ignore_nulls=True).alias("name"),
        "unit", "time_ns", "value",
    )  # fmt: skip
    keys = [*KEY, "device", "name", "unit"]
    since = pl.col("time_ns") - pl.col("time_ns").min().over(keys)
    span = (since.max().over(keys) + 1).cast(pl.Float64)
    many = pl.len().over(keys) > _POINTS
    part = pl.when(many).then((since * _POINTS / span).floor()).otherwise(pl.col("time_ns"))
    thinned = (
        named.with_columns(part.alias("_part"))
        .sort("value", descending=True, nulls_last=True)
        .unique([*keys, "_part"], keep="first", maintain_order=True)
    )
    return thinned.drop("_part").sort([*keys, "time_ns"], nulls_last=True)


def _path(
    trace: BaseTrace, traces: pl.DataFrame, events: int
) -> tuple[pl.DataFrame, dict[str | None, str], str]:
    """The critical path of the slowest step of each run, what it covers, and why a run has none.

    It goes across ranks if a run has several.
    """
    times = pl.DataFrame(answer(trace, "step_times")).filter(pl.col("lack").is_null())
    runs = traces["run"].unique(maintain_order=True).to_list()
    parts: list[pl.DataFrame] = []
    of: dict[str | None, str] = {}
    lacks = []
    for run in runs[:_MOST_PATH_RUNS]:
        is_run = pl.col("run").eq_missing(pl.lit(run))
        step = _slowest(times.filter(is_run))
        several = traces.filter(is_run).height > 1
        name = f" of run {run}" if len(runs) > 1 else ""
        if step is None and events > _MOST_PATH_EVENTS:
            lacks.append(
                f"the trace{name} has no steps, and more than {_MOST_PATH_EVENTS:,} events"
            )
            continue
        try:
            path = critical_path(trace, step, run, across_ranks=several)
        except (AnswerError, ParameterError, UnknownNameError, OverflowError) as error:
            lacks.append(f"{name.removeprefix(' ')}{': ' if name else ''}{error}")
            continue
        parts.append(pl.DataFrame(path.events))
        of[run] = "the whole trace" if step is None else f"step {step}, the slowest"
    if len(runs) > _MOST_PATH_RUNS:
        lacks.append(f"only the first {_MOST_PATH_RUNS} of {len(runs):,} runs have one")
    paths = pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()
    return paths, of, "; ".join(lacks)


def _slowest(times: pl.DataFrame) -> int | None:
    """The slowest step of a run among those that most of its ranks have; None without steps."""
    shared = pl.struct(KEY).n_unique().over("step")
    slowest = times.sort(shared, "step_ns", -pl.col("step"), descending=True).head(1)
    return None if slowest.is_empty() else int(slowest["step"][0])
