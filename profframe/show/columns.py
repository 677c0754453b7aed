"""What a column's name says of its values: their unit, and how a person wants to read them.

Names end in their unit (``_ns``, ``_bytes``, ``_share``, ``_per_s``): so a frame is all that is
needed to show it, in a terminal and in a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

KEYS: Final = ("run", "rank")
"""What tells traces apart."""
MOMENTS: Final = ("start_ns", "time_ns", "end_ns")
"""Columns of times on the clock of their trace."""
_DATES_FROM: Final = 10**18
"""Nanoseconds that are a date, counted from 1970: no duration is 31 years long."""
_NUMBERS_AS_NAMES: Final = frozenset(
    {"rank", "device", "stream", "thread", "step", "scope", "address", "schema_version"}
)
"""Integers that name something: they take no separators."""
_OF_METRIC: Final = frozenset({"value", "level", "typical", "base_value", "other_value"})
"""Columns whose unit is that of the metric that the row is of."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What the values of a column are."""

    ending: str
    """How its name ends."""
    shown: Callable[[float], str]
    instead: str
    """What stands in the ending's place where the unit is beside each value."""
    word: str
    """What the number itself is in."""
    is_share: bool = False


def _time(ns: float) -> str:
    return units.moment(int(ns)) if ns >= _DATES_FROM else units.duration(ns)


UNITS: Final = (
    Unit("_ns", _time, "", "ns"),
    Unit("_bytes", units.size, "", "bytes"),
    Unit("bytes", units.size, "bytes", "bytes"),
    Unit("bytes_per_s", units.rate, "rate", "bytes/s"),
    Unit("gb_per_s", lambda gb: units.rate(gb * 1e9), "rate", "GB/s"),
    Unit("flop_per_s", units.flop_rate, "flop rate", "FLOP/s"),
    Unit("flops_per_s", units.flop_rate, "flop rate", "FLOP/s"),
    Unit("flops", units.flops, "flops", "FLOP"),
    Unit("share", units.share, "%", "", is_share=True),
)


def unit(column: str) -> Unit | None:
    """The unit of a column, by its name.

    Examples
    --------
    >>> unit("self_ns").word, unit("calls")
    ('ns', None)
    """
    return next((one for one in UNITS if column.endswith(one.ending)), None)


def heading(column: str) -> str:
    """Name of a column without the unit that its values carry.

    Examples
    --------
    >>> heading("self_ns"), heading("self_share"), heading("share"), heading("top_op")
    ('self', 'self %', '%', 'top op')
    """
    known = unit(column)
    if known is not None:
        column = column.removesuffix(known.ending) + known.instead
    return column.replace("_", " ")


def cell(column: str, value: object) -> str:
    """One value in human units.

    Examples
    --------
    >>> cell("self_ns", 1_500_000), cell("calls", 12345), cell("rank", 1024), cell("name", None)
    ('1.500 ms', '12,345', '1024', '')
    """
    if value is None:
        return ""
    value = float(value) if isinstance(value, Decimal) else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return units.visible(str(value))
    if not math.isfinite(value):
        return str(value)
    known = unit(column)
    if known is not None:
        return known.shown(value)
    if isinstance(value, float):
        return f"{value:,.6g}"
    named = column in _NUMBERS_AS_NAMES or column.endswith("_id")
    return str(value) if named else units.count(value)


def unit_of(column: pl.Series) -> Unit | None:
    """The unit of a column, by its name and type: unsigned numbers count something.

    They are what polars makes of ``count``, ``len`` and ``n_unique``, whatever it counts.
    """
    counts = column.dtype.is_unsigned_integer() or not column.dtype.is_numeric()
    return None if counts else unit(column.name)


def texts(frame: pl.DataFrame, name: str) -> list[str]:
    """Values of a column in human units.

    Where a row is of a ``metric``, its ``value`` and what it is held against are in its unit.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"metric": ["span_ns", "steps"], "value": [1_500.0, 3.0]})
    >>> texts(rows, "value")
    ['1.500 us', '3']
    >>> times = pl.DataFrame({"self_ns": [1_500, None]})
    >>> texts(times, "self_ns"), texts(times.select(pl.col("self_ns").count()), "self_ns")
    (['1.500 us', ''], ['1'])
    """
    column = frame[name]
    if name in _OF_METRIC and "metric" in frame.columns:
        metrics = frame["metric"].to_list()
        values = zip(metrics, column.to_list(), strict=True)
        return [cell(_of_metric(metric), value) for metric, value in values]
    known = "" if column.dtype.is_unsigned_integer() else name
    return [cell(known, value) for value in column.to_list()]


def _of_metric(metric: object) -> str:
    """A name for values of a metric, that ends in their unit; ops and kernels have times."""
    name = str(metric)
    return "_ns" if ":" in name else name


def since_start(frame: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """Moments as time since the start of their trace, which is what a person can read.

    Rows of several ranks count from the first of them. Rows stay as they are where nobody knows
    their trace, and where they are traces.
    """
    import polars as pl

    moments = [n for n in MOMENTS if frame.schema.get(n) == pl.Int64]
    starts = traces.select(*KEYS, pl.col("start_ns").alias("_start"))
    if not moments:
        return frame
    if all(frame.schema.get(key) == traces.schema[key] for key in KEYS):
        placed = frame.join(starts, on=KEYS, how="left", maintain_order="left")
        of_run = starts.group_by("run").agg(pl.col("_start").min().alias("_first"))
        placed = placed.join(of_run, on="run", how="left", maintain_order="left")
        placed = placed.with_columns(pl.coalesce("_start", "_first")).drop("_first")
    elif traces.height == 1:
        placed = frame.with_columns(pl.lit(starts["_start"].first()).alias("_start"))
    else:
        return frame
    if "dur_ns" not in frame.columns:
        moments = [n for n in moments if not (placed[n] == placed["_start"]).all()]
    since = pl.col(moments) - pl.col("_start").fill_null(0)
    return placed.with_columns(since).drop("_start")


def telling(frame: pl.DataFrame) -> list[str]:
    """Names of the columns that say something: not all NULL, nor the one run and rank there is.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"run": ["a", "a"], "rank": [0, 1], "step": [None, None], "n": [1, 2]})
    >>> telling(rows)
    ['rank', 'n']
    """
    full = [column.name for column in frame if column.null_count() < frame.height]
    same = _constant_keys(frame)
    return [name for name in full if name not in same] if frame.height else frame.columns


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without columns that say nothing: all NULL, or the one run and rank there is."""
    return frame.select(telling(frame))


def without_constant_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without the run, or run and rank, where they are the same in all rows."""
    return frame.drop(_constant_keys(frame))


def _constant_keys(frame: pl.DataFrame) -> Sequence[str]:
    if not set(KEYS) <= set(frame.columns) or _varies(frame["run"]):
        return ()
    return KEYS[:1] if _varies(frame["rank"]) else KEYS


def _varies(column: pl.Series) -> bool:
    """Whether there are two different values, of which counting would be slower."""
    return bool(column.ne_missing(column.first()).any())
