"""Samples of each ``--fail-on`` metric, for both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, Final

import polars as pl

from profframe.analysis import differences
from profframe.analysis.fail_on import Limit, Measure, Sampled, Verdict, unit_of, verdicts
from profframe.comparisons.diff import Comparison, skipped_steps
from profframe.comparisons.diff import comparison as compare
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.header import sql_directory
from profframe.show.kernel_names import short_name
from profframe.trace.trace import Trace

_BY_STEP: Final = "mean of the steps"
_WHOLE: Final = "no steps on {}: the whole trace is the sample"
_HOST: Final = "host time: no device was used"


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """A side, its samples, and the options of its questions.

    Attributes
    ----------
    trace, name
        The side and its name.
    samples
        ``run step`` of each sample, ascending.
    options
        Arguments of `Trace.run_samples`.
    steps
        Which steps count.
    """

    trace: Trace
    name: str
    samples: pl.DataFrame
    options: Mapping[str, Any]
    steps: str

    @property
    def is_by_step(self) -> bool:
        return bool(self.options["per"] == "step")

    def rows(self, kernel_by: str, *, copies: bool) -> pl.DataFrame:
        """The answer `run_samples`; rows that the comparison has already computed are reused."""
        options = {**self.options, "kernel_by": kernel_by, "copies": copies}
        return self.trace.run_samples(**options, outside="all" if self.is_by_step else "none")

    def sums(self, rows: pl.DataFrame, column: str) -> Sampled:
        """Sums of a column in each sample; what is missing takes no time."""
        keys = ["run", "step"] if self.is_by_step else ["run"]
        sums = rows.group_by(keys).agg(pl.col(column).sum().alias("value"))
        values = self.samples.join(sums, on=keys, how="left", maintain_order="left")
        return _sampled(values.with_columns(pl.col("value").fill_null(0)))


def check_limits(
    limits: Sequence[Limit],
    sides: tuple[Trace, Trace],
    names: Sequence[str],
    comparison: Comparison,
    *,
    steps: str = "steady",
    **options: Any,
) -> list[Verdict]:
    """Check the metrics of two sides against limits.

    Parameters
    ----------
    limits
        Those that name a metric.
    sides, names
        Both sides, and their names.
    comparison
        The result of `profframe.comparisons.diff.comparison` for them with the same options.
    steps
        Which steps count, as for `profframe.diff`.
    **options
        ``per``, ``kernel_by``, ``copies``, ``devices`` and ``dtype``, as for `profframe.diff`.

    Returns
    -------
    list of Verdict
        In the order of the limits.

    Raises
    ------
    UnknownNameError
        Neither side has what a limit names.
    ParameterError
        A metric is not known on a side.
    """
    with sides[0].session() as base, sides[1].session() as other:  # limits ask for the same rows
        return _held(limits, (base, other), names, comparison, steps=steps, options=options)


def _held(
    limits: Sequence[Limit],
    sides: tuple[Trace, Trace],
    names: Sequence[str],
    comparison: Comparison,
    *,
    steps: str,
    options: Mapping[str, Any],
) -> list[Verdict]:
    levels = {options["per"]: comparison}
    if any(one.metric == "step" for one in limits):
        with suppress(ParameterError):  # a side has no steps
            by_step = {**options, "per": "step", "steps": steps}
            levels.setdefault("step", compare(*sides, names, **by_step))
    measures: dict[str, Measure] = {}
    chances: dict[str, float] = {}
    for per, measured in levels.items():
        both = tuple(
            _Side(trace, name, side.samples.select("run", "step"), {**options, "per": per}, steps)
            for trace, name, side in zip(sides, names, measured.sides, strict=True)
        )
        own = {
            one.metric: _measure(one, *both)
            for one in limits
            if ("step" if one.metric == "step" and "step" in levels else options["per"]) == per
        }
        measures |= own
        chances |= _chances(own, measured)
    return verdicts(limits, measures, chances)


def _chances(measures: Mapping[str, Measure], measured: Comparison) -> dict[str, float]:
    """P-values of the metrics that have a value in each sample of a comparison."""
    numbers = [side.samples.height for side in measured.sides]
    beside = {
        metric: (measure.base.values, measure.other.values)
        for metric, measure in measures.items()
        if measure.is_beside and [len(measure.base.values), len(measure.other.values)] == numbers
    }
    p_values = differences.chances(*measured.sides, [*beside.values()]) if beside else None
    return {} if p_values is None else dict(zip(beside, p_values, strict=True))


def check_peak_limits(limits: Sequence[Limit], rows: pl.DataFrame) -> list[Verdict]:
    """Check the peaks of two memory snapshots against limits, without pinned memory of the host.

    Parameters
    ----------
    limits
        Limits on ``memory`` only.
    rows
        As `profframe.diff_memory` gives them.

    Returns
    -------
    list of Verdict
        In the order of the limits.

    Raises
    ------
    ParameterError
        A limit is on something else.
    """
    for one in limits:
        if one.metric != "memory":
            raise ParameterError(f"{one.metric}: memory snapshots have only memory")
    of_devices = rows.filter(pl.col("memory") == "device")
    base, other = (
        Sampled(("",), (int(of_devices[f"{side}_peak_bytes"].sum()),)) for side in ("base", "other")
    )
    return verdicts(limits, {"memory": Measure(base, other, "bytes")})


def of_each_run(trace: Trace, metric: str) -> pl.DataFrame:
    """A metric of each run, ``run value``, for `profframe.analysis.run_limits.check`.

    For metrics of steps, it is the mean of the steady ones.
    """
    runs = trace.traces.select("run").unique().sort("run")
    options = {"per": "run", "kernel_by": "name", "copies": False, "devices": False, "dtype": None}
    samples = runs.with_columns(step=pl.lit(None, pl.Int64))
    side = _Side(trace, "a run", pl.DataFrame(samples), options, "steady")
    sampled = _measure(Limit(metric, Fraction(0)), side, side).base
    values = pl.DataFrame(
        {"run": sampled.runs, "value": sampled.values},
        schema={"run": pl.String, "value": pl.Float64},
    )
    return values.group_by("run", maintain_order=True).agg(pl.col("value").mean())


def _measure(limit: Limit, base: _Side, other: _Side) -> Measure:
    """A metric of both sides."""
    metric = limit.metric
    if limit.kind == "module":
        return _modules(limit, base, other)
    if limit.kind:
        return _named(limit, base, other)
    if metric == "step":
        return _steps(base, other)
    if metric == "memory":
        return _memory(base, other)
    if metric == "exposed_communication":
        return _exposed(base, other)
    return _of_runs(metric, base, other)


def _named(limit: Limit, base: _Side, other: _Side) -> Measure:
    """The time of all ops, kernels, annotations or categories that match a name or pattern."""
    sides = (base, other)
    what = "kernel" if limit.kind == "category" else limit.kind
    tables = []
    for side in sides:
        kernel_by, copies = side.options["kernel_by"], side.options["copies"]
        if limit.kind == "category":
            kernel_by, copies = "category", True
        tables.append(side.rows(kernel_by, copies=copies).filter(pl.col("what") == what))
    existing = {name for rows in tables for name in rows["name"].drop_nulls().unique()}
    chosen = _fitting(limit.name, existing, short_name if limit.kind == "kernel" else None)
    if not chosen:
        raise _neither(limit, existing)
    columns = [
        side.sums(rows.filter(pl.col("name").is_in(chosen)), "spent_ns")
        for side, rows in zip(sides, tables, strict=True)
    ]
    note = f"{len(chosen):,} names together" if len(chosen) > 1 else ""
    return Measure(columns[0], columns[1], "ns", note, is_beside=True)


def _fitting(
    pattern: str, existing: Iterable[str], shortened: Callable[[str], str] | None
) -> list[str]:
    """Names equal to the pattern, or else those that match it; for kernels also by short name."""
    names = {name: {name, shortened(name)} if shortened else {name} for name in existing}
    exact = [name for name, texts in names.items() if pattern in texts]
    return exact or [
        name for name, texts in names.items() if any(fnmatchcase(text, pattern) for text in texts)
    ]


def _neither(limit: Limit, existing: Collection[str]) -> UnknownNameError:
    """The error for a metric that neither side has."""
    if not existing:
        return UnknownNameError(f"{limit.metric}: neither side has any {limit.kind}")
    error = UnknownNameError.among(limit.kind, limit.name, existing)
    return UnknownNameError(f"{limit.metric}: on neither side: {error}")


def _modules(limit: Limit, base: _Side, other: _Side) -> Measure:
    """Device time of all modules that match a name or pattern, counted once; else host time."""
    existing = [{*side.trace.modules(per="run")["name"].drop_nulls()} for side in (base, other)]
    for side, names in zip((base, other), existing, strict=True):
        if not names:
            raise ParameterError(
                f"{limit.metric}: {side.name} has no modules: profile(with_modules=True) or "
                "with_stack=True records them"
            )
    chosen = _fitting(limit.name, existing[0] | existing[1], None)
    if not chosen:
        raise _neither(limit, existing[0] | existing[1])
    options = {"per": base.options["per"], "together": chosen}
    tables = [side.trace.modules(**options) for side in (base, other)]
    used = any(rows["total_device_ns"].sum() for rows in tables)
    column = "total_device_ns" if used else "total_host_ns"
    sums = [side.sums(rows, column) for side, rows in zip((base, other), tables, strict=True)]
    number = f"{len(chosen):,} names together" if len(chosen) > 1 else ""
    note = "; ".join(part for part in (number, "" if used else _HOST) if part)
    return Measure(sums[0], sums[1], "ns", note, is_beside=True)


def _steps(base: _Side, other: _Side) -> Measure:
    """How long each step took, until its last rank had completed it; else each whole trace."""
    values = [_step_times(side) for side in (base, other)]
    without = [side.name for side, own in zip((base, other), values, strict=True) if not own.values]
    if without:
        measure = _of_runs("span_ns", base, other, "step", "no steps, and no times")
        return Measure(measure.base, measure.other, "ns", _WHOLE.format(" and ".join(without)))
    is_beside = base.is_by_step
    return Measure(values[0], values[1], "ns", _BY_STEP, is_beside=is_beside)


def _step_times(side: _Side) -> Sampled:
    steps = pl.DataFrame(side.trace.answer(sql_directory() / "inner" / "job_steps.sql"))
    counted = steps.join(skipped_steps(side.trace, side.steps), on=["run", "step"], how="anti")
    return _sampled(counted.select("run", "step", value="step_ns"))


def _memory(base: _Side, other: _Side) -> Measure:
    """The maximum memory allocated on a device, or on the host if no device recorded any."""
    column = "peak_device_bytes"
    if not any(_column(side, column).values for side in (base, other)):
        column = "peak_host_bytes"
    note = "" if column == "peak_device_bytes" else "of the host"
    measure = _of_runs(column, base, other, "memory", "profile(profile_memory=True) records it")
    return Measure(measure.base, measure.other, "bytes", note)


def _exposed(base: _Side, other: _Side) -> Measure:
    """Time in which devices communicated and none computed."""
    communicates = [
        (side.trace.kernel_categories()["class"] == "communication").any() for side in (base, other)
    ]
    if not any(communicates):
        raise ParameterError("exposed_communication: no device communicates on either side")
    column = "exposed_communication_ns"
    if not base.is_by_step:
        return _of_runs(column, base, other, "exposed_communication")
    sums = [side.sums(side.trace.step_times(), column) for side in (base, other)]
    return Measure(sums[0], sums[1], "ns", is_beside=True)


def _of_runs(
    column: str, base: _Side, other: _Side, metric: str | None = None, hint: str = ""
) -> Measure:
    """A column of the answer `runs`, which each side has."""
    values = [_column(side, column) for side in (base, other)]
    missing = [side.name for side, own in zip((base, other), values, strict=True) if not own.values]
    if missing:
        where = "neither side" if len(missing) > 1 else f"{missing[0]} does not have it"
        words = f"{metric or column}: {'on ' if len(missing) > 1 else ''}{where}"
        raise ParameterError(f"{words}: {hint}" if hint else f"{words}: it is not known")
    return Measure(values[0], values[1], unit_of(column))


def _column(side: _Side, column: str) -> Sampled:
    rows = side.trace.runs().select("run", pl.col(column).alias("value"))
    return _sampled(rows.drop_nulls("value").sort("run"))


def _sampled(rows: pl.DataFrame) -> Sampled:
    """Samples of ``run`` and ``value``."""
    return Sampled(tuple(rows["run"]), tuple(rows["value"]))
