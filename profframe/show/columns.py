"""Units of columns, and their values as people read them.

Names of columns end in their unit (``_ns``, ``_bytes``, ``_share``, ``_per_s``), so a frame can be
shown in a terminal and in a notebook without further data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

KEYS: Final = ("run", "rank")
"""Keys of a trace."""
MOMENTS: Final = ("start_ns", "time_ns", "end_ns", "device_start_ns", "max_wait_start_ns")
"""Columns of points in time, on the clock of their trace."""
_MOMENTS_OF_TRACES: Final = frozenset({"start_ns", "end_ns"})
_DATES_FROM: Final = 10**18
"""From this value on, nanoseconds are a date, counted from 1970: no duration is 31 years long."""
_EXPONENT_FROM: Final = 10**6
"""From here on six digits would need an exponent."""
NUMBERS_AS_NAMES: Final = frozenset(
    {"rank", "device", "stream", "thread", "step", "scope", "address", "schema_version"}
)
"""Integers that are identifiers: they are written without separators."""
_NOUNS: Final[Mapping[str, str]] = {"_ns": "time", "_bytes": "size", "_j": "energy"}
"""What columns of a unit are, by its ending."""
_METRIC_COLUMNS: Final = frozenset({"value", "level", "typical", "base_value", "other_value"})
"""Columns in the unit of the metric of their row."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of columns."""

    ending: str
    """Ending of the column's name."""
    format: Callable[[float], str]
    replacement: str
    """What replaces the ending in a heading, because each value shows the unit."""
    word: str
    """Unit of the number itself."""
    is_share: bool = False


def _time(ns: float) -> str:
    return units.moment(int(ns)) if ns >= _DATES_FROM else units.lined_up(units.duration(ns))


def _size(number: float) -> str:
    return units.lined_up(units.size(number))


_OTHER_NAMES: Final = (("counter", "series"), ("name", "short_name"))
"""Pairs of columns of which the second may say the same as the first."""
UNITS: Final = (
    Unit("_ns", _time, "", "ns"),
    Unit("_bytes", _size, "", "bytes"),
    Unit("bytes", _size, "bytes", "bytes"),
    Unit("bytes_per_s", units.rate, "rate", "bytes/s"),
    Unit("gb_per_s", lambda gb: units.rate(gb * 1e9), "rate", "GB/s"),
    Unit("flop_per_s", units.flop_rate, "flop rate", "FLOP/s"),
    Unit("flops_per_s", units.flop_rate, "flop rate", "FLOP/s"),
    Unit("flops", units.flops, "flops", "FLOP"),
    Unit("_j", units.energy, "", "J"),
    Unit("_w", units.power, "", "W"),
    Unit("share", units.share, "%", "", is_share=True),
    Unit("mfu", units.share, "MFU", "", is_share=True),
    Unit("hfu", units.share, "HFU", "", is_share=True),
)


def unit_by_name(column: str) -> Unit | None:
    """The unit of a column, by its name.

    Examples
    --------
    >>> unit_by_name("self_ns").word, unit_by_name("calls")
    ('ns', None)
    """
    return next((unit for unit in UNITS if column.endswith(unit.ending)), None)


def heading(column: str) -> str:
    """Name of a column without the unit that its values carry.

    Examples
    --------
    >>> heading("self_ns"), heading("self_share"), heading("share"), heading("top_op")
    ('self', 'self %', '%', 'top op')
    """
    unit = unit_by_name(column)
    if unit is not None:
        column = column.removesuffix(unit.ending) + unit.replacement
    return column.replace("_", " ")


def headings_of(names: Sequence[str]) -> dict[str, str]:
    """Headings of columns side by side: no two are the same, and none is that of another's name.

    Examples
    --------
    >>> headings_of(["owner_name", "owner_ns", "max_ns"])
    {'owner_name': 'owner name', 'owner_ns': 'owner time', 'max_ns': 'max'}
    >>> headings_of(["bytes", "bytes_ns"])
    {'bytes': 'bytes', 'bytes_ns': 'bytes time'}
    """
    short = {name: heading(name) for name in names}
    of_names = {text.removesuffix(" name") for text in short.values() if text.endswith(" name")}
    counts = Counter([*short.values(), *of_names])
    return {
        name: f"{text} {_NOUNS[unit.ending]}"
        if counts[text] > 1 and (unit := unit_by_name(name)) and unit.ending in _NOUNS
        else text
        for name, text in short.items()
    }


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
    unit = unit_by_name(column)
    if unit is not None:
        return unit.format(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if _EXPONENT_FROM <= abs(value) < _DATES_FROM else f"{value:,.6g}"
    is_name = column in NUMBERS_AS_NAMES or column.endswith("_id")
    return str(value) if is_name else units.count(value)


def unit_of(column: pl.Series) -> Unit | None:
    """The unit of a column, by its name and type; None for unsigned numbers, which are counts.

    polars has this type for ``count``, ``len`` and ``n_unique``.
    """
    counts = column.dtype.is_unsigned_integer() or not column.dtype.is_numeric()
    return None if counts else unit_by_name(column.name)


def texts(frame: pl.DataFrame, name: str) -> list[str]:
    """Values of a column in human units.

    In rows with a ``metric``, values and the values that they are compared with are in the unit of
    that metric; metrics of ops and kernels are times.

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
    if name in _METRIC_COLUMNS and "metric" in frame.columns:
        names = ["_ns" if ":" in str(metric) else str(metric) for metric in frame["metric"]]
        return list(map(cell, names, column.to_list()))
    unit_name = "" if column.dtype.is_unsigned_integer() else name
    return [cell(unit_name, value) for value in column.to_list()]


def since_start(frame: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """Points in time as time since the start of their trace, which is easier to read.

    Rows of several ranks count from the first rank's start. Rows are unchanged if their trace is
    unknown, or if they are traces themselves.
    """
    import polars as pl

    moments = [n for n in MOMENTS if frame.schema.get(n) == pl.Int64]
    starts = traces.select(*KEYS, pl.col("start_ns").alias("_start"))
    if not moments:
        return frame
    if all(frame.schema.get(key) == traces.schema[key] for key in KEYS):
        joined = frame.join(starts, on=KEYS, how="left", maintain_order="left")
        first_starts = starts.group_by("run").agg(pl.col("_start").min().alias("_first"))
        joined = joined.join(first_starts, on="run", how="left", maintain_order="left")
        joined = joined.with_columns(pl.coalesce("_start", "_first")).drop("_first")
    elif traces.height == 1:
        joined = frame.with_columns(pl.lit(starts["_start"].first()).alias("_start"))
    else:
        return frame
    may_be_traces = {*moments} <= _MOMENTS_OF_TRACES and "dur_ns" not in frame.columns
    if may_be_traces and "start_ns" in moments and (joined["start_ns"] == joined["_start"]).all():
        return frame
    elapsed = pl.col(moments) - pl.col("_start").fill_null(0)
    return joined.with_columns(elapsed).drop("_start")


def informative(frame: pl.DataFrame, keys_of: pl.DataFrame | None = None) -> list[str]:
    """Names of the columns that are not all NULL, and not a constant run and rank.

    Run and rank are constant if they are so in ``keys_of``, where the frame has its first rows.
    A second name is left out where it says nothing else: that of a counter's value, and the short
    one of kernels.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"run": ["a", "a"], "rank": [0, 1], "step": [None, None], "n": [1, 2]})
    >>> informative(rows), informative(rows.with_columns(counter=pl.lit("c"), series=pl.lit("c")))
    (['rank', 'n'], ['rank', 'n', 'counter'])
    >>> informative(rows.head(1), keys_of=rows)
    ['rank', 'n']
    >>> informative(pl.DataFrame({"name": ["gemm", "others"], "short_name": ["gemm", None]}))
    ['name']
    """
    filled = [column.name for column in frame if column.null_count() < frame.height]
    keys = _constant_keys(frame if keys_of is None else keys_of)
    useless = {*keys, *_repeated_names(frame)}
    return [name for name in filled if name not in useless] if frame.height else frame.columns


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without columns that are all NULL, and without a constant run and rank."""
    return frame.select(informative(frame))


def are_parts(shares: pl.Series) -> bool:
    """Whether shares of a change say something: where changes cancel, one is more than the whole.

    Examples
    --------
    >>> import polars as pl
    >>> are_parts(pl.Series([0.75, 0.25])), are_parts(pl.Series([1.5, -0.5, None]))
    (True, False)
    """
    values = shares.drop_nulls()
    return len(values) > 0 and bool((values.abs() <= 1).all())


def without_constant_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without the run, or run and rank, if they are the same in all rows."""
    return frame.drop(_constant_keys(frame))


def _constant_keys(frame: pl.DataFrame) -> Sequence[str]:
    if not set(KEYS) <= set(frame.columns) or _varies(frame["run"]):
        return ()
    return KEYS[:1] if _varies(frame["rank"]) else KEYS


def _repeated_names(frame: pl.DataFrame) -> Sequence[str]:
    return [
        second
        for first, second in _OTHER_NAMES
        if {first, second} <= {*frame.columns}
        and not (frame[second].ne_missing(frame[first]) & frame[second].is_not_null()).any()
    ]


def _varies(column: pl.Series) -> bool:
    """Whether there are two different values; counting them would be slower."""
    return bool(column.ne_missing(column.first()).any())
