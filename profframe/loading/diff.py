"""What changed between two sides, each a trace or many: ops, kernels and annotations by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from profframe.analysis.differences import Side, compare
from profframe.errors import ParameterError, UnknownNameError, naming_arguments
from profframe.loading.load import load
from profframe.loading.memory_diff import FORMATS, diff_memory
from profframe.show.first_words import without_times
from profframe.show.frame import frame
from profframe.trace.trace import Trace

KERNEL_BY: Final = ("name", "short_name", "shapes", "category")
PER: Final = ("run", "step")
OUTSIDE: Final = ("none", "kernels", "all")
STEPS: Final = ("steady", "all")
_SIDES: Final = ("base", "other")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What differs between two sides.

    Attributes
    ----------
    rows
        As `diff` returns them.
    outside
        ``what``, and of each side ``base_outside`` and ``base_outside_ns``: what is in no profiler
        step and left out, mean per step; one row for each kind of which there is any.
    sides
        What was measured of each.
    is_of_memory
        Both sides are memory snapshots, and nothing else.
    """

    rows: pl.DataFrame
    outside: pl.DataFrame
    sides: tuple[Side, Side]
    is_of_memory: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What is read of a side: its samples, what is left out, and where it is from."""

    side: Side
    outside: pl.DataFrame
    steps_left_out: int
    formats: frozenset[str]
    source: str


@naming_arguments
def diff(
    base: Any,
    other: Any,
    names: Sequence[str] = ("base", "other"),
    *,
    kernel_by: str = "name",
    per: str = "run",
    copies: bool = False,
    outside: str = "none",
    steps: str = "steady",
    devices: bool = False,
    dtype: str | None = None,
) -> pl.DataFrame:
    """Compare two sides: what took more or less time, what is new and what is gone.

    The time of an op is its self time on the host, that of a kernel its duration, that of an
    annotation its whole duration; so ops add up to the host's self time, kernels to all kernel
    time, and annotations to nothing. Ranks of a run are added up. Where a side holds several runs
    (or steps), its numbers are means per run (per step); where a row is absent it counts as 0.
    Where both do, each row is tested against the noise: of the rows that are ``significant``, 5 %
    are noise on average, and where there is nothing but noise, at most one comparison in twenty
    has any. `profframe.analysis.stats.noise` says how. One run alone says nothing of the noise.

    Two memory snapshots are compared as `diff_memory` does, by stack.

    Parameters
    ----------
    base, other
        A `Trace`, or anything that `profframe.load` takes: a path, a glob, a list, a store.
    names
        What to call the sides; they are the columns ``base`` and ``other``.
    kernel_by
        What kernels are matched by: ``"name"``; ``"short_name"``, without return type, template
        arguments and parameters; ``"shapes"``, the op that launched them and its input shapes; or
        ``"category"``, as ``"gemm"``.
    per
        What is counted, averaged and compared: ``"run"``, or ``"step"``, which leaves out what is
        in no profiler step, unless ``outside`` says otherwise.
    copies
        Copies and fills of memory are kernels, too.
    outside
        Per step, what is in no step counts, too, an even part of it in each: ``"kernels"``, those
        of the devices (as where their launch was cut off), or ``"all"``. Rows with some of it are
        not tested.
    devices
        Kernels of each device are rows of their own.
    dtype
        Data type, as ``"bf16"`` or ``"float16"``, of the work whose type is not known.

    Returns
    -------
    polars.DataFrame
        One row per ``what`` (op, kernel, annotation) and ``name``, and with ``devices=True`` per
        ``device``, in this order, the largest change first:

        ``base_calls other_calls``
            Executions, mean per sample.
        ``base_ns other_ns change_ns ratio``
            Time, mean per sample rounded half up; other less base; other / base, NULL where that
            is nothing. NULL where no time is known.
        ``contribution``
            ``change_ns`` over the sum of its kind; NULL where that is 0, and of annotations.
        ``status``
            ``added``, ``removed``, ``changed`` or ``equal``, by calls and time.
        ``change_low_ns change_high_ns``
            Confidence interval of the change (95 %); NULL, as the next three, without repetitions,
            and where ``outside`` counts some of it.
        ``p_value q_value significant``
            Of each row alone; the part of the rows up to this p-value that is noise; q at most 5 %.
        ``base_call_ns other_call_ns``
            Time of a call, rounded half up; NULL where there is none, or no time is known.
        ``warning``
            Where both sides have calls, but not as many: how the number and the time of a call
            changed, as the totals compare different amounts of work; else NULL.
        ``base_device_ns other_device_ns``
            Device time: launched by the op itself, of the kernel, or launched in the annotation.
        ``base_flops other_flops base_flops_per_s other_flops_per_s``
            Known floating-point work, in the row of the op that owns it and of the kernels that do
            it, and the rate in the time of its kernels (of the op where it launched none).
        ``base_bytes other_bytes base_bytes_per_s other_bytes_per_s``
            Bytes read and written, in the same way.
        ``base_flop_share other_flop_share base_bandwidth_share other_bandwidth_share``
            Part of the devices' peaks that the work achieved, in the time of the kernels on known
            devices: of FLOP/s in their data type, and of the rate of the memory, as in `roofline`.
        ``base_outside_ns other_outside_ns``
            Time of all rows of this kind that is in no step and left out, mean per sample.
        ``base_steps_left_out other_steps_left_out``
            Steps of the sides that do not count, as they are not steady.
        ``device``
            Device of the kernels with ``devices=True``, else NULL.
        ``base_samples other_samples base other``
            Runs or steps of the sides, and their names.

    Raises
    ------
    ParameterError
        A value cannot be used, or a side has no steps, or no times (dumps, execution traces, and
        a memory snapshot beside something else).
    SourceError
        A side cannot be read.

    Examples
    --------
    >>> rows = diff("examples/fp32.json.gz", "examples/bf16.json.gz", ("fp32", "bf16"))
    >>> ops = rows.filter(what="op")
    >>> ops["change_ns"].sum() == ops["other_ns"].sum() - ops["base_ns"].sum()
    True
    >>> rows["base", "other", "base_samples"].unique().rows()
    [('fp32', 'bf16', 1)]
    """
    result = comparison(
        base,
        other,
        names,
        kernel_by=kernel_by,
        per=per,
        copies=copies,
        outside=outside,
        steps=steps,
        devices=devices,
        dtype=dtype,
    )
    return diff_memory(base, other, names) if result.is_of_memory else result.rows


def comparison(
    base: Any,
    other: Any,
    names: Sequence[str] = _SIDES,
    *,
    kernel_by: str = "name",
    per: str = "run",
    copies: bool = False,
    outside: str = "none",
    steps: str = "steady",
    devices: bool = False,
    dtype: str | None = None,
) -> Comparison:
    """Compare two sides as `diff` does, and say what it leaves out."""
    _check(names, kernel_by, per, outside, steps)
    options = {
        "per": per,
        "kernel_by": kernel_by,
        "copies": copies,
        "devices": devices,
        "dtype": dtype,
    }
    sides = [_side(source, outside, steps, options) for source in (base, other)]
    is_of_memory = all(side.formats and side.formats <= FORMATS for side in sides)
    for name, read in zip(names, sides, strict=True):
        if not is_of_memory and (text := without_times(read.formats)):
            raise ParameterError(f"{name} ({read.source}): {text}")
    for name, read in zip(names, sides, strict=True):
        if per == "step" and not read.side.samples.height:
            raise ParameterError(f"per='step': nothing of {name!r} is in a profiler step")
    means = [
        _mean_outside(prefix, read.side, read.outside)
        for prefix, read in zip(_SIDES, sides, strict=True)
    ]
    outside_means = means[0].join(means[1], on="what", how="full", coalesce=True).sort("what")
    filled = outside_means.with_columns(pl.exclude("what").fill_null(0))
    side_names = (pl.lit(name).alias(side) for side, name in zip(_SIDES, names, strict=True))
    times = [f"{side}_outside_ns" for side in _SIDES]
    rows = compare(*(read.side for read in sides)).join(
        filled.select("what", *times), on="what", how="left", maintain_order="left"
    )
    last = ("device", *(f"{side}_samples" for side in _SIDES))
    numbers = (
        pl.lit(read.steps_left_out, pl.Int64).alias(f"{prefix}_steps_left_out")
        for prefix, read in zip(_SIDES, sides, strict=True)
    )
    ordered = rows.select(pl.exclude(*times, *last), pl.col(times).fill_null(0), *numbers, *last)
    measured = (sides[0].side, sides[1].side)
    return Comparison(frame(ordered.with_columns(side_names)), filled, measured, is_of_memory)


def check_names(names: Any) -> None:
    """Raise a `ParameterError` unless these are names of two sides."""
    if (
        isinstance(names, str)
        or len(names) != 2
        or not all(isinstance(name, str) and name for name in names)
        or names[0] == names[1]
    ):
        raise ParameterError(f"names: two different texts, not {names!r}")


def _check(names: Any, kernel_by: str, per: str, outside: str, steps: str) -> None:
    check_names(names)
    for parameter, value, choices in (
        ("kernel_by", kernel_by, KERNEL_BY),
        ("per", per, PER),
        ("outside", outside, OUTSIDE),
        ("steps", steps, STEPS),
    ):
        if value not in choices:
            raise UnknownNameError.among(parameter, value, choices)
    if outside != "none" and per != "step":
        raise ParameterError(f"outside={outside!r}: only with per='step'; a run counts all it has")


def _side(source: Any, outside: str, steps: str, options: dict[str, Any]) -> _Read:
    """What is read of a side; the trace is then released."""
    trace = source if isinstance(source, Trace) else load(source)
    is_by_step = options["per"] == "step"
    rows = trace.samples(**options, outside="all" if is_by_step else "none")
    left_out = rows.clear()
    spread = None
    steps_left_out = 0
    if is_by_step:
        stepless = rows.filter(pl.col("step").is_null())
        rows = rows.filter(pl.col("step").is_not_null())
        samples = rows.select("run", "step").unique()
        counted = samples.join(unsteady(trace, steps), on=["run", "step"], how="anti")
        steps_left_out = samples.height - counted.height
        samples = counted
        counts = pl.lit(outside == "all") | (
            pl.lit(outside == "kernels") & (pl.col("what") == "kernel")
        )
        left_out, spread = stepless.filter(~counts), stepless.filter(counts)
    else:
        runs = pl.concat([trace.traces["run"], rows["run"]]).unique()
        samples = pl.DataFrame({"run": runs}).with_columns(step=pl.lit(None, pl.Int64))
    samples = samples.sort("run", "step").with_row_index("sample")
    rows = rows.join(samples, on=["run", "step"], nulls_equal=True)
    keys = ("run", "rank", "step")
    side = Side(rows.drop(keys), samples, spread=None if spread is None else spread.drop(keys))
    traces = trace.traces
    formats, sources = frozenset(traces["format"]), traces["source"]
    return _Read(side, left_out, steps_left_out, formats, next(iter(sources), ""))


def unsteady(trace: Trace, steps: str) -> pl.DataFrame:
    """Steps that do not count, ``run step``: of some rank not steady; none if they were all."""
    marks = trace.steps()
    left_out = marks.filter(~pl.col("is_steady")).select("run", "step").unique()
    is_all = left_out.height == marks.select("run", "step").n_unique()
    return pl.DataFrame(left_out.clear() if steps == "all" or is_all else left_out)


def _mean_outside(prefix: str, side: Side, rows: pl.DataFrame) -> pl.DataFrame:
    """Calls and time of rows that are left out, mean per sample, by kind; ranges add up to none."""
    number = max(side.samples.height, 1)
    sums = rows.filter(pl.col("what") != "annotation").group_by("what")
    return sums.agg(
        pl.col("calls").sum().alias(f"{prefix}_outside"),
        ((2 * pl.col("spent_ns").sum() + number) // (2 * number)).alias(f"{prefix}_outside_ns"),
    )
