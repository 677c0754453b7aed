"""Comparison of two sides, each a trace or many: ops, kernels and annotations by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import polars as pl

from profframe.analysis.differences import Side, compare
from profframe.comparisons.memory_diff import diff_memory
from profframe.errors import ParameterError, UnknownNameError, explain_unknown_arguments
from profframe.loaders.load import load
from profframe.readers.formats import contents_of
from profframe.show.empty_frames import why_empty
from profframe.show.frame import frame
from profframe.trace.file_summaries import without_times
from profframe.trace.kept_rows import RunAnswers
from profframe.trace.trace import Trace

KERNEL_BY: Final = ("name", "short_name", "shapes", "category")
PER: Final = ("run", "step")
OUTSIDE: Final = ("none", "kernels", "all")
STEPS: Final = ("steady", "all")
_SIDES: Final = ("base", "other")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The differences between two sides.

    Attributes
    ----------
    rows
        As returned by `diff`.
    outside
        ``what``, and for each side ``base_outside`` and ``base_outside_ns``: what is outside
        profiler steps and left out, mean per step; one row for each kind that has any.
    sides
        The measurements of each side.
    models
        The models of the devices that each side used, in order; unknown ones by these words.
    lost_calls
        Number of launches of each side, in its samples, whose work is not in the trace.
    above
        ``what base_ns other_ns``: the mean ``step`` on the host, and how long devices were ``busy``
        and ``idle``, mean per sample, as in ``time_breakdown``; no row of what is not known of a
        side.
    is_of_memory
        Whether both sides are memory snapshots, and nothing else.
    """

    rows: pl.DataFrame
    outside: pl.DataFrame
    sides: tuple[Side, Side]
    models: tuple[tuple[str, ...], ...]
    lost_calls: tuple[int, ...]
    above: pl.DataFrame
    is_of_memory: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A side as it was read: its samples, what is left out, and its source."""

    side: Side
    outside: pl.DataFrame
    steps_left_out: int
    lost_calls: int
    above: pl.DataFrame
    formats: frozenset[str]
    models: tuple[str, ...]
    source: str
    why_empty: str | None
    note: str | None


@explain_unknown_arguments
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
    annotation its whole duration; so ops add up to the host's self time, and kernels to all kernel
    time, but annotations do not add up. Ranks of a run are added up. If a side has several runs (or
    steps), its numbers are means per run (or step); an absent row counts as 0. If both sides do,
    each row is tested against the noise: of the ``significant`` rows, 5 % are noise on average, and
    if there is only noise, at most one comparison in twenty has any. See
    `profframe.analysis.stats.noise`. A single run says nothing about the noise.

    Two memory snapshots are compared by stack, as in `diff_memory`.

    Parameters
    ----------
    base, other
        A `Trace`, or anything that `profframe.load` takes: a path, a glob, a list, a store.
    names
        Names of the sides, for the columns ``base`` and ``other``.
    kernel_by
        What kernels are matched by: ``"name"``; ``"short_name"``, without return type, template
        arguments and parameters; ``"shapes"``, the op that launched them and its input shapes; or
        ``"category"``, such as ``"gemm"``.
    per
        What is counted, averaged and compared: ``"run"``, or ``"step"``, which leaves out what is
        outside profiler steps unless ``outside`` says otherwise.
    copies
        Treat memory copies and fills as kernels.
    outside
        Per step, also count what is outside steps, spread evenly over them: ``"kernels"``, those on
        the devices (such as kernels launched before recording began), or ``"all"``. Rows with some
        of it are not tested.
    steps
        Steps that count: ``"steady"``, neither warm-up nor cut off, or ``"all"``.
    devices
        Separate rows for the kernels of each device.
    dtype
        Data type assumed for work of unknown type, such as ``"bf16"`` or ``"float16"``.

    Returns
    -------
    polars.DataFrame
        One row per ``what`` (op, kernel, annotation) and ``name``, and with ``devices=True`` per
        ``device``, in this order, the largest change first:

        ``base_calls other_calls``
            Executions, mean per sample.
        ``base_ns other_ns change_ns ratio``
            Time, mean per sample rounded half up; other minus base; other / base, NULL if base is
            0. NULL if no time is known.
        ``contribution``
            ``change_ns`` over the sum of its kind; NULL if that is 0, and for annotations.
        ``status``
            ``added``, ``removed``, ``changed`` or ``equal``, by calls and time.
        ``change_low_ns change_high_ns``
            Confidence interval of the change (95 %); NULL, like the next three, without
            repetitions, and if ``outside`` counts some of it.
        ``p_value q_value significant``
            For each row alone; the share of rows up to this p-value that is noise; whether q is at
            most 5 %.
        ``base_call_ns other_call_ns``
            Time per call, rounded half up; NULL if there are no calls, or no time is known.
        ``warning``
            If both sides have calls, but not equally many: how the number and the time per call
            changed, because the totals compare different amounts of work; else NULL.
        ``base_device_ns other_device_ns``
            Device time: launched by the op itself, of the kernel, or launched in the annotation.
        ``base_flops other_flops base_flops_per_s other_flops_per_s``
            Known floating-point work, in the row of the op that owns it and of the kernels that do
            it, and the rate over the time of its kernels (of the op if it launched none).
        ``base_bytes other_bytes base_bytes_per_s other_bytes_per_s``
            Bytes read and written, in the same way.
        ``base_flop_share other_flop_share base_bandwidth_share other_bandwidth_share``
            Share of the device peaks that the work achieved, over the time of kernels on known
            devices: of FLOP/s in their data type, and of memory bandwidth, as in `roofline`.
        ``base_outside_ns other_outside_ns``
            Time of all rows of this kind that is outside steps and left out, mean per sample.
        ``base_steps_left_out other_steps_left_out``
            Steps of the sides that do not count because they are not steady.
        ``device``
            Device of the kernels with ``devices=True``, else NULL.
        ``base_samples other_samples base other``
            Runs or steps of the sides, and their names.

    Raises
    ------
    ParameterError
        A value is invalid, or a side has no steps, or no times (dumps, execution traces, and a
        memory snapshot compared with something else).
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
    """Compare two sides as `diff` does, with what it leaves out."""
    _check(names, kernel_by, per, outside, steps)
    options = {
        "per": per,
        "kernel_by": kernel_by,
        "copies": copies,
        "devices": devices,
        "dtype": dtype,
    }
    sides = [_side(source, outside, steps, options) for source in (base, other)]
    is_of_memory = all(contents_of(side.formats) == {"snapshots"} for side in sides)
    for name, read in zip(names, sides, strict=True):
        if not is_of_memory and (text := without_times(read.formats)):
            raise ParameterError(f"{name} ({read.source}): {text}")
    for name, read in zip(names, sides, strict=True):
        if per == "step" and not read.side.samples.height:
            raise ParameterError(f"per='step': {name!r} has nothing inside profiler steps")
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
    with_names = ordered.with_columns(side_names)
    why = partial(
        _why_empty, {name: read.why_empty for name, read in zip(names, sides, strict=True)}
    )
    models = tuple(read.models for read in sides)
    lost = tuple(read.lost_calls for read in sides)
    notes = [f"{name}: {read.note}" for name, read in zip(names, sides, strict=True) if read.note]
    shown = frame(with_names, why=why, note="; ".join(notes) or None)
    base_above, other_above = (read.above for read in sides)
    above = base_above.join(
        other_above, on="what", maintain_order="left", suffix="_of_other"
    ).select("what", base_ns="mean_ns", other_ns="mean_ns_of_other")
    return Comparison(shown, filled, measured, models, lost, above, is_of_memory)


def _why_empty(sides: Mapping[str, str | None]) -> str:
    """Why there is nothing to compare: what both sides lack."""
    lacks = {name: why or "nothing is left of it" for name, why in sides.items()}
    if len({*lacks.values()}) == 1:
        return f"on both sides: {next(iter(lacks.values()))}"
    return "; ".join(f"{name}: {why}" for name, why in lacks.items())


def check_names(names: Any) -> None:
    """Raise a `ParameterError` unless these are names of two sides."""
    if (
        isinstance(names, str)
        or len(names) != 2
        or not all(isinstance(name, str) and name for name in names)
        or names[0] == names[1]
    ):
        raise ParameterError(f"names: needs two different texts, not {names!r}")


def _check(names: Any, kernel_by: str, per: str, outside: str, steps: str) -> None:
    check_names(names)
    for parameter, value, choices in (
        ("kernel_by", kernel_by, KERNEL_BY),
        ("per", per, PER),
        ("outside", outside, OUTSIDE),
        ("steps", steps, STEPS),
    ):
        if value not in choices:
            raise UnknownNameError.one_of(parameter, value, choices)
    if outside != "none" and per != "step":
        raise ParameterError(
            f"outside={outside!r}: only with per='step'; per='run' counts everything"
        )


def _side(source: Any, outside: str, steps: str, options: dict[str, Any]) -> _Read:
    """Read a side; its trace is then released."""
    trace = source if isinstance(source, Trace) else load(source)
    is_by_step = options["per"] == "step"
    answers = RunAnswers(trace)
    rows = answers.answer("run_samples", **options, outside="all" if is_by_step else "none")
    why = why_empty(rows)
    left_out = rows.clear()
    spread = None
    steps_left_out = 0
    if is_by_step:
        stepless = rows.filter(pl.col("step").is_null())
        rows = rows.filter(pl.col("step").is_not_null())
        samples = rows.select("run", "step").unique()
        counted = samples.join(skipped_steps(trace, steps), on=["run", "step"], how="anti")
        steps_left_out = samples.height - counted.height
        samples = counted
        counts = pl.lit(outside == "all") | (
            pl.lit(outside == "kernels") & (pl.col("what") == "kernel")
        )
        left_out, spread = stepless.filter(~counts), stepless.filter(counts)
    else:
        runs = pl.concat([answers.traces()["run"], rows["run"]]).unique()
        samples = pl.DataFrame({"run": runs}).with_columns(step=pl.lit(None, pl.Int64))
    samples = samples.sort("run", "step").with_row_index("sample")
    rows = rows.join(samples, on=["run", "step"], nulls_equal=True)
    keys = ("run", "rank", "step")
    side = Side(rows.drop(keys), samples, spread=None if spread is None else spread.drop(keys))
    traces = answers.traces()
    formats, sources = frozenset(traces["format"]), traces["source"]
    source_name = next(iter(sources), "")
    used = answers.answer("used_devices")["model"].fill_null("an unknown model")
    models = tuple(used.unique().sort())
    lost = answers.answer("lost_calls")
    if is_by_step:
        lost = lost.join(samples, on=["run", "step"], how="semi")
    lost_calls = int(lost["calls"].sum())
    return _Read(
        side,
        left_out,
        steps_left_out,
        lost_calls,
        _above(answers, samples),
        formats,
        models,
        source_name,
        why,
        answers.note(),
    )


def skipped_steps(trace: Trace, steps: str) -> pl.DataFrame:
    """Steps that do not count, ``run step``: not steady on some rank; none if no step is steady."""
    marks = trace.step_times()
    left_out = marks.filter(~pl.col("is_steady")).select("run", "step").unique()
    is_all = left_out.height == marks.select("run", "step").n_unique()
    return pl.DataFrame(left_out.clear() if steps == "all" or is_all else left_out)


def _above(answers: RunAnswers, samples: pl.DataFrame) -> pl.DataFrame:
    """Mean ``step`` on the host, and how long devices were ``busy`` and ``idle``: ``what mean_ns``.

    Times of devices are sums of ranks per sample.
    """
    keys = ["run", "step"]
    breakdown = answers.answer("time_breakdown").join(
        samples, on=keys, how="semi", nulls_equal=True
    )
    is_of_steps = samples["step"].count() > 0
    steps = (
        answers.answer("step_times")
        .join(samples, on=keys if is_of_steps else ["run"], how="semi")["host_ns"]
        .drop_nulls()
    )
    busy = pl.sum_horizontal("compute_ns", "exposed_communication_ns", "exposed_copy_ns")
    sums = [(int(steps.sum()), "step", len(steps))] if len(steps) else []
    if breakdown.height:
        of_devices = breakdown.select(busy.sum().alias("busy"), pl.col("idle_ns").sum())
        times = zip(of_devices.row(0), ("busy", "idle"), strict=True)
        sums += [(int(time), what, samples.height) for time, what in times]
    means = [(what, (2 * time + number) // (2 * number)) for time, what, number in sums]
    return pl.DataFrame(means, {"what": pl.String, "mean_ns": pl.Int64}, orient="row")


def _mean_outside(prefix: str, side: Side, rows: pl.DataFrame) -> pl.DataFrame:
    """Calls and time of rows that are left out, mean per sample, by kind; ranges add up to none."""
    number = max(side.samples.height, 1)
    sums = rows.filter(pl.col("what") != "annotation").group_by("what")
    return sums.agg(
        pl.col("calls").sum().alias(f"{prefix}_outside"),
        ((2 * pl.col("spent_ns").sum() + number) // (2 * number)).alias(f"{prefix}_outside_ns"),
    )
