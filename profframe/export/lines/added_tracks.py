"""Rows of an answer as additional tracks: counters over time, and slices on their own lines.

Added rows belong to a process ``profframe``. Its slices have that category, too: the reader keeps
these among the instants, where no answer counts them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import polars as pl

from profframe.errors import ParameterError, UnknownNameError
from profframe.export.lines.overlap_lanes import lanes_of

if TYPE_CHECKING:
    from profframe.analysis.critical_path import CriticalPath

Rows: TypeAlias = "pl.DataFrame | CriticalPath"
Given: TypeAlias = "Sequence[str | Rows] | Mapping[str, str | Rows]"
"""Names of tracks or answers, or rows; or a mapping from the titles of tracks to these."""

_KEYS: Final = ("run", "rank")
_APART: Final = ("device_type", "device", "stream", "process_group", "series", "counter_id")
"""Columns whose values get separate lines."""
_NUMBERED: Final = ("device", "stream")
_NO_VALUES: Final = frozenset({*_KEYS, *_APART, "step", "thread", "time_ns", "start_ns", "end_ns"})
_MOST_LINES: Final = 1000
_SCHEMA: Final = {
    "time_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "line": pl.String,
    "name": pl.String,
    "args": pl.String,
}


@dataclass(frozen=True, slots=True)
class Named:
    """The definition of a named track: an answer, its parameters, and the columns to use."""

    answer: str
    parameters: tuple[tuple[str, object], ...] = ()
    columns: tuple[str, ...] = ()


TRACKS: Final[Mapping[str, Named]] = MappingProxyType(
    {
        "queue_depth": Named("queue_depth"),
        "memory": Named(
            "memory_timeline",
            (("points", 0),),
            ("device_type", "device", "time_ns", "allocated_bytes", "reserved_bytes"),
        ),
        "exposed_communication": Named("exposed_communication"),
        "achieved_flop_per_s": Named("work_rates", columns=("device", "time_ns", "flop_per_s")),
    }
)
"""Tracks that are made from an answer of another name, or from some of its columns."""
CRITICAL_PATH: Final = "critical_path"
PATH_ACROSS_RANKS: Final = "path_across_ranks"
BLAME: Final = "blame"
_PATH: Final = ("rank", "name", "start_ns", "dur_ns", "edge")
"""Columns of a path over several ranks."""


def added_rows(
    given: Given, ask: Callable[[str], Rows], trace: Mapping[str, object]
) -> pl.DataFrame:
    """Make the rows of tracks from answers and frames.

    A frame with ``start_ns`` and ``dur_ns`` (or ``end_ns``) becomes slices: ``name``, or else its
    first column of text, is the name of a slice, and the other columns are its arguments. One with
    ``time_ns`` (or ``start_ns`` alone) becomes a counter for each of its other numeric columns
    except ids. Each ``device``, ``stream``, ``series`` ... has a line of its own, and slices that
    overlap go to several lines. Rows without a time are left out.

    So are rows of another run or rank.

    Examples
    --------
    >>> rows = pl.DataFrame({"time_ns": [10, 20], "device": [0, 0], "watts": [300.5, 280.0]})
    >>> added_rows({"power": rows}, lambda name: rows, {}).select("name", "args").row(0)
    ('power device 0', '{"watts":300.5}')
    """
    return rows_of(titled_rows(given, ask), trace)


def titled_rows(given: Given, ask: Callable[[str], Rows]) -> list[tuple[str, Rows]]:
    """Rows of tracks with their titles; names are run as answers."""
    rows = [(title, ask(what) if isinstance(what, str) else what) for title, what in _titled(given)]
    for title, what in rows:
        if _frame(what) is None:
            raise ParameterError(
                f"tracks: {title!r}: needs a name, a polars DataFrame or a critical path, "
                f"got {type(what).__name__}"
            )
    return rows


def rows_of(titled: Sequence[tuple[str, Rows]], trace: Mapping[str, object]) -> pl.DataFrame:
    """The rows of tracks that belong to a trace, or to none."""
    made = [pl.DataFrame(schema=_SCHEMA)]
    for title, rows in titled:
        frame = _frame(rows)
        assert frame is not None  # noqa: S101 - `titled_rows` has seen to it
        for key in _KEYS:
            if key in frame.columns and key in trace:
                frame = frame.filter(pl.col(key) == trace[key])
        made.append(_track(title, frame, apart=isinstance(rows, pl.DataFrame)))
    return pl.concat(made)


def _frame(rows: Rows) -> pl.DataFrame | None:
    frame = rows if isinstance(rows, pl.DataFrame) else getattr(rows, "events", None)
    return frame if isinstance(frame, pl.DataFrame) else None


def of_a_trace(titled: Sequence[tuple[str, Rows]]) -> list[tuple[str, Rows]]:
    """The tracks that have rows of single traces."""
    frames = [(title, rows, _frame(rows)) for title, rows in titled]
    return [(t, rows) for t, rows, frame in frames if frame is not None and "rank" in frame.columns]


def of_all_traces(
    titled: Sequence[tuple[str, Rows]], ahead_ns: Mapping[tuple[str, int], int]
) -> list[tuple[str, Rows]]:
    """Rows of tracks that belong to no single trace, and paths over several of them.

    ``ahead_ns`` is by how much the clock of each is ahead; traces that are not in it are left out.
    """
    kept: list[tuple[str, Rows]] = []
    for title, rows in titled:
        frame = _frame(rows)
        assert frame is not None  # noqa: S101 - `titled_rows` has seen to it
        if "rank" not in frame.columns:
            kept.append((title, rows))
            continue
        if not (rest := frame.filter(pl.col("rank").is_null())).is_empty():
            kept.append((title, rest.drop(_KEYS, strict=False)))
        if set(_PATH) <= set(frame.columns) and frame["rank"].n_unique() > 1:
            kept.append((title, path_line(frame, ahead_ns)))
    return kept


def path_line(frame: pl.DataFrame, ahead_ns: Mapping[tuple[str, int], int]) -> pl.DataFrame:
    """A path over several ranks as one line, each segment with its rank, on the clock of a file."""
    runs = {run for run, _ in ahead_ns}
    ahead = pl.DataFrame(
        [(run, rank, ns) for (run, rank), ns in ahead_ns.items()],
        schema={"run": pl.String, "rank": pl.Int64, "_ahead": pl.Int64},
        orient="row",
    )
    keys = [key for key in _KEYS if key in frame.columns]
    if "run" not in keys and len(runs) > 1:
        raise ParameterError("tracks: a path over ranks of several runs needs a column run")
    typed = frame.with_columns(pl.col("rank").cast(pl.Int64))
    path = typed.join(ahead.select(*keys, "_ahead"), on=keys, maintain_order="left")
    name = pl.col("name").cast(pl.String).fill_null("")
    return path.select(
        name=pl.format("rank {}: {}", "rank", name),
        start_ns=pl.col("start_ns") - pl.col("_ahead"),
        dur_ns="dur_ns",
        **{
            column: column
            for column in ("bound", "edge", "kind", "waiting_rank")
            if column in path.columns
        },
    )


def named_rows(
    name: str,
    answer: Callable[..., pl.DataFrame],
    others: Mapping[str, Callable[[], Rows]],
    answers: Sequence[str],
) -> Rows:
    """Rows of a track or an answer by its name; ``others`` are tracks that are not answers."""
    if name in others:
        return others[name]()
    if name in TRACKS:
        named = TRACKS[name]
        rows = answer(named.answer, **dict(named.parameters))
        return rows.select(*_KEYS, *named.columns) if named.columns else rows
    if name not in answers:
        raise UnknownNameError.among("track", name, (*TRACKS, *others, *answers))
    return answer(name)


def _titled(given: Given) -> list[tuple[str, str | Rows]]:
    if isinstance(given, str):
        raise ParameterError(f"tracks: a list of names or frames, as [{given!r}]")
    if isinstance(given, Mapping):
        return [(str(title), what) for title, what in given.items()]
    return [
        (f"track {number}", what)
        if isinstance(what, pl.DataFrame)
        else (what if isinstance(what, str) else CRITICAL_PATH, what)
        for number, what in enumerate(given, start=1)
    ]


def _track(title: str, frame: pl.DataFrame, *, apart: bool) -> pl.DataFrame:
    """The rows of one track; each combination of the columns that separate lines has its own."""
    columns = frame.columns
    duration = pl.col("dur_ns") if "dur_ns" in columns else pl.col("end_ns") - pl.col("start_ns")
    are_slices = "start_ns" in columns and not {"dur_ns", "end_ns"}.isdisjoint(columns)
    time = next((name for name in ("start_ns", "time_ns") if name in columns), None)
    if time is None or not frame[time].dtype.is_integer():
        names = ", ".join(columns)
        raise ParameterError(
            f"tracks: {title!r}: needs a column time_ns or start_ns of integers, found ({names})"
        )
    by = [name for name in _APART if apart and name in columns]
    line = _line(title, frame, by)
    timed = frame.with_columns(
        pl.col(time).cast(pl.Int64).alias("_time"), line.alias("_line")
    ).filter(pl.col("_time").is_not_null())
    if timed["_line"].n_unique() > _MOST_LINES:
        raise ParameterError(
            f"tracks: {title!r}: {timed['_line'].n_unique():,} lines by {', '.join(by)} are too "
            f"many; choose rows, at most {_MOST_LINES:,} lines"
        )
    if not are_slices:
        return _counters(title, timed.sort("_time", maintain_order=True), time)
    lasting = timed.with_columns(duration.cast(pl.Int64).alias("_dur")).filter(pl.col("_dur") >= 0)
    outer_first = [False, True]
    rows = lasting.sort("_time", "_dur", descending=outer_first, maintain_order=True)
    return _slices(rows, by)


def _line(title: str, frame: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
    """The name of a line: the title, and what distinguishes it from the other lines."""
    parts = [
        pl.lit(f" {name} " if name in _NUMBERED else " ") + pl.col(name).cast(pl.String)
        for name in by
        if frame[name].null_count() < frame.height
    ]
    return pl.concat_str([pl.lit(title), *(part.fill_null("") for part in parts)])


def _counters(title: str, rows: pl.DataFrame, time: str) -> pl.DataFrame:
    values = [
        column
        for column in _others(rows, *_NO_VALUES, time)
        if column.dtype.is_numeric() and not column.name.endswith("_id")
    ]
    if not values:
        raise ParameterError(
            f"tracks: {title!r}: needs dur_ns or end_ns for slices, or a column of numbers for a "
            f"counter, found ({', '.join(column.name for column in _others(rows))})"
        )
    return rows.select(
        pl.col("_time").alias("time_ns"),
        pl.lit(None, pl.Int64).alias("dur_ns"),
        pl.col("_line").alias("line"),
        pl.col("_line").alias("name"),
        _members(values).alias("args"),
    ).filter(pl.col("args") != "{}")


def _slices(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    texts = [column.name for column in _others(rows, *_KEYS, *by) if column.dtype == pl.String]
    named = next((name for name in ("name", *texts) if name in texts), None)
    label = pl.col("_line") if named is None else pl.col(named).fill_null(pl.col("_line"))
    return rows.select(
        pl.col("_time").alias("time_ns"),
        pl.col("_dur").alias("dur_ns"),
        _lanes(rows).alias("line"),
        label.alias("name"),
        _members(_others(rows, *_KEYS, "start_ns", "dur_ns", "end_ns", named)).alias("args"),
    )


def _others(rows: pl.DataFrame, *left_out: str | None) -> list[pl.Series]:
    """Columns of a track, without some."""
    return [
        column for column in rows if not column.name.startswith("_") and column.name not in left_out
    ]


def _lanes(rows: pl.DataFrame) -> pl.Series:
    """Lines on which slices nest: if two overlap, the later one goes to the next line."""
    start = rows["_time"].to_numpy()
    end = start + rows["_dur"].to_numpy()
    _, group = np.unique(rows["_line"].to_numpy(), return_inverse=True)
    lane = lanes_of(group.astype(np.int64), start, end)
    number = pl.lit(pl.Series(lane + 1))
    beside = pl.when(number > 1).then(pl.format(" ({})", number)).otherwise(pl.lit(""))
    return rows.select(pl.col("_line") + beside).to_series()


def _members(columns: Sequence[pl.Series]) -> pl.Expr:
    """JSON objects with a member for each value; NULL and NaN are left out."""
    parts = []
    for number, column in enumerate(columns):
        key = "," + json.dumps(column.name) + ":"
        dtype = column.dtype
        if dtype.is_float():
            column = column.set(~column.is_finite() & column.is_not_null(), None)  # noqa: PLW2901
        if dtype.is_numeric() or dtype == pl.Boolean:
            text = column.cast(pl.String)
        else:
            text = _quoted(column)
        parts.append(pl.lit(key) + pl.lit(text.alias(str(number))))
    if not parts:
        return pl.lit("{}")
    inside = pl.concat_str(parts, ignore_nulls=True).str.strip_prefix(",")
    return pl.concat_str([pl.lit("{"), inside, pl.lit("}")])


def _quoted(column: pl.Series) -> pl.Series:
    """Values as JSON text; each distinct one is written once."""
    if column.dtype.is_nested():
        texts = [json.dumps(value, default=str) for value in column.to_list()]
        return pl.Series(texts, dtype=pl.String).set(column.is_null(), None)
    values = column.cast(pl.String)
    distinct = values.drop_nulls().unique()
    quoted = pl.Series([json.dumps(value) for value in distinct], dtype=pl.String)
    return values.replace_strict(distinct, quoted, default=None, return_dtype=pl.String)
