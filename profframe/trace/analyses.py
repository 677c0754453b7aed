"""Statistics of many runs. Their numbers are SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from profframe.analysis import outliers as unlike
from profframe.analysis import regressions as slower
from profframe.analysis import selecting, trends
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.selection import Text, integer, texts
from profframe.show.frame import frame

if TYPE_CHECKING:
    from profframe.trace.trace import Trace


def trend(self: Trace, metric: Text = "step_p50_ns", per_step: int = 0) -> pl.DataFrame:
    """Follow metrics from run to run, and find where they change for good.

    Runs are ordered by their start where all are on the clock of the world, else by name. A
    change point is a run from which on the metric has another level. Where nothing changes, at
    most one call in a hundred finds any, however many metrics it has;
    `profframe.analysis.stats.change_points` says how.

    Parameters
    ----------
    metric
        One or several: a column of `runs`; ``op:NAME`` for the self time of an op, or
        ``kernel:NAME`` for the time of a kernel, all ranks together. ``*`` in a name stands
        for anything: ``op:*`` are all ops.
    per_step
        As for `runs`, where the metric is ``throughput_per_s``.

    Returns
    -------
    polars.DataFrame
        One row per metric and run, in the order of the runs:

        ``metric run start_ns``
            Start of the run; NULL where runs are ordered by name.
        ``value``
            Of the run; NULL where it has none. An op that a run does not have takes 0.
        ``level``
            Median of the runs from one change to the next.
        ``is_change``
            The run is the first of another level.
        ``ratio``
            This level over the one before, at a change.
        ``p_value``
            Chance of a change as clear where there is none, at a change.

    Raises
    ------
    UnknownNameError
        There is no such metric, op or kernel; the message suggests the nearest.

    Examples
    --------
    >>> from profframe import load
    >>> rows = load("examples/cpu_training.json.gz").trend(["span_ns", "op:aten::addmm"])
    >>> rows["metric", "run", "is_change"].rows()
    [('span_ns', 'cpu_training', False), ('op:aten::addmm', 'cpu_training', False)]
    """
    order = _order(self)
    values = trends.metrics(
        [*dict.fromkeys(texts("metric", metric))],
        order,
        runs=lambda: self.runs(per_step),
        samples=self.samples,
    )
    return frame(trends.trend(order, list(values.items())))


def regressions(
    self: Trace,
    baseline: selecting.Runs,
    runs: selecting.Runs | None = None,
    *,
    kernel_by: str = "name",
    copies: bool = False,
    every: bool = False,
) -> pl.DataFrame:
    """Find ops and kernels that take longer than in several runs before, beyond noise.

    The time of an op is its self time, so what contains a slow op is not slow; that of a kernel
    is its duration. Ranks of a run are added up. Each row is tested by how much it differs from
    run to run; where the rows of a run go up and down together, as on a warm machine, that is
    its ``pace``, and times are tested over it: what got slower only as everything did is no
    regression. Where nothing but noise differs, at most one call in a hundred finds any.

    Parameters
    ----------
    baseline
        Names or patterns (``"main-*"``) of at least two runs; or a number: of runs just before
        those that are held against them.
    runs
        What is held against the baseline, all together: names or patterns; or a number, of
        the latest runs. Without it, all other runs; the latest, where the baseline is a number.
    kernel_by, copies
        As for `profframe.diff`.
    every
        All ops and kernels, and not only those that regressed.

    Returns
    -------
    polars.DataFrame
        One row per op or kernel, what grew most first:

        ``what name``
            ``op`` or ``kernel``, and its name.
        ``base_calls other_calls base_ns other_ns change_ns ratio``
            Means per run; a run without it counts 0.
        ``pace``
            How slow the runs are as a whole, ops and kernels each for themselves: 1.1 is 10 %
            slower than the baseline; 1 where rows do not go up and down together.
        ``change_low_ns change_high_ns``
            Confidence interval (95 %) of the change at equal pace.
        ``p_value q_value significant``
            Of each row alone; the part of the rows up to this p-value that is noise; q at most
            1 %.
        ``base_runs other_runs``
            Number of runs.

    Raises
    ------
    UnknownNameError
        No run has that name or fits that pattern.
    ParameterError
        The baseline is less than two runs, or nothing is left to hold against it.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/cpu_training.json.gz").regressions(baseline="cpu_*")
    Traceback (most recent call last):
    profframe.errors.ParameterError: baseline: needs at least 2 runs to tell noise from a \
change, found 1 of 1
    """
    base, others = selecting.sides(_order(self)["run"].to_list(), baseline, runs)
    samples = self.samples(kernel_by=kernel_by, copies=copies)
    rows = slower.compare_runs(samples, base, others)
    return frame(slower.answer_rows(rows) if every else slower.regressions(rows))


def outliers(self: Trace, per: str = "run", top: int = 10, ops: int = 3) -> pl.DataFrame:
    """Find runs or steps that are unlike the rest, and the ops that make them so.

    A run is held against the median of the others, by each of its span, median step, self time
    of ops, time of kernels, exposed communication, idle time and peaks of memory. A step is
    held against the median of the other steps of its run and rank, where there are three or
    more. Where nothing but noise differs, about one call in a hundred finds any.

    Parameters
    ----------
    per
        ``"run"`` or ``"step"``.
    top
        The most unlike so many runs or steps.
    ops
        The so many ops and kernels that differ most in time, for each.

    Returns
    -------
    polars.DataFrame
        One row per run (or step), metric that is unlike, and op; the most unlike first:

        ``run rank step metric value typical``
            The value and the median that it is held against. Rank and step are NULL for runs.
        ``score q_value``
            Distance in units of the noise, with its sign; part of those as far off that is
            noise.
        ``what name spent_ns typical_ns excess_ns``
            An op or kernel, its time (self time of ops), its median, and the difference; NULL
            where the metric is no time.

    Raises
    ------
    UnknownNameError
        ``per`` is something else.
    ParameterError
        A number is below zero, or no integer.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/cpu_training.json.gz").outliers().height
    0
    """
    if per not in {"run", "step"}:
        raise UnknownNameError.among("per", per, ("run", "step"))
    for name, value in (("top", top), ("ops", ops)):
        if integer(name, value) < 0:
            raise ParameterError(f"{name}: a number from 0, not {value}")
    if per == "run":
        rows, trace = unlike.outlying_runs(self.runs(), top), self
    else:
        rows = unlike.outlying_steps(self.step_times(), top)
        trace = self.filter(runs=rows["run"].unique().to_list())
    samples = (trace if rows.height else self.filter(runs=())).samples(per=per)
    return frame(unlike.with_ops(rows, samples, ops))


def _order(self: Trace) -> pl.DataFrame:
    return selecting.in_order(self.traces.select("run", "clock", "start_ns"))
