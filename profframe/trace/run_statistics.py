"""Statistics of many runs. Their numbers are SQL."""

from __future__ import annotations

from functools import partial

import polars as pl

from profframe.analysis import run_selection
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.selection import Text, integer, texts
from profframe.show.frame import frame
from profframe.trace import empty_reasons, generated_questions
from profframe.trace.base_trace import BaseTrace
from profframe.trace.kept_rows import RunAnswers
from profframe.trace.trace_tables import selected


def trend(self: BaseTrace, metric: Text = "step_p50_ns", per_step: int = 0) -> pl.DataFrame:
    """Follow metrics from run to run, and find where they change for good.

    Runs are ordered by start if all have wall-clock times, else by name. A change point is a run
    from which on the metric has a new level. If nothing changes, at most one call in a hundred
    reports a change, however many metrics it has;
    see `profframe.analysis.stats.change_points`.

    Parameters
    ----------
    metric
        One or several: a column of `runs`; ``op:NAME`` for the self time of an op, or
        ``kernel:NAME`` for the time of a kernel, over all ranks. ``*`` in a name stands for
        anything: ``op:*`` means all ops.
    per_step
        As for `runs`, for the metric ``throughput_per_s``.

    Returns
    -------
    polars.DataFrame
        One row per metric and run, in the order of the runs:

        ``metric run start_ns``
            Start of the run; NULL if runs are ordered by name.
        ``value``
            Value of the run; NULL if it has none. An op that a run lacks counts 0.
        ``level``
            Median of the runs from one change to the next.
        ``is_change``
            Whether the run is the first of a new level.
        ``ratio``
            At a change, this level over the previous one.
        ``p_value``
            At a change, the chance of one as clear if nothing changed.

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
    from profframe.analysis import trends

    answers = RunAnswers(self)
    order = run_selection.in_order(answers.traces())
    values = trends.metrics(
        [*dict.fromkeys(texts("metric", metric))],
        order,
        runs=partial(answers.answer, "runs", per_step=per_step),
        samples=partial(answers.answer, "run_samples", columns=trends.SAMPLE_COLUMNS),
    )
    rows = trends.trend(order, list(values.items()))
    return frame(rows, why=empty_reasons.of_trend(self, len(values)), note=answers.note())


def regressions(
    self: BaseTrace,
    baseline: run_selection.Runs,
    runs: run_selection.Runs | None = None,
    *,
    kernel_by: str = "name",
    copies: bool = False,
    every: bool = False,
) -> pl.DataFrame:
    """Find ops and kernels that take longer than in several earlier runs, beyond noise.

    The time of an op is its self time, so an op that contains a slow op is not slow itself; the
    time of a kernel is its duration. Ranks of a run are added up. Each row is tested by how much it
    differs from run to run. If all rows of a run go up and down together, as on a warm machine,
    that is its ``pace``, and times are tested relative to it: what got slower only because
    everything did is not a regression. If only noise differs, at most one call in a hundred finds a
    regression.

    Parameters
    ----------
    baseline
        Names or patterns (``"main-*"``) of at least two runs; or the number of runs just before the
        compared ones.
    runs
        Runs to compare with the baseline, all together: names or patterns, or the number of latest
        runs. By default all other runs, or the latest run if the baseline is a number.
    kernel_by, copies
        As for `profframe.diff`.
    every
        Return all ops and kernels, not only those that regressed.

    Returns
    -------
    polars.DataFrame
        One row per op or kernel, the largest growth first:

        ``what name``
            ``op`` or ``kernel``, and its name.
        ``base_calls other_calls base_ns other_ns change_ns ratio``
            Means per run; runs without it count 0.
        ``pace``
            How slow the runs are overall, separately for ops and kernels: 1.1 is 10 % slower than
            the baseline; 1 if rows do not go up and down together.
        ``change_low_ns change_high_ns``
            Confidence interval (95 %) of the change at equal pace.
        ``p_value q_value significant``
            For each row alone; the share of rows up to this p-value that is noise; whether q is at
            most 1 %.
        ``base_runs other_runs``
            Number of runs.

    Raises
    ------
    UnknownNameError
        No run has that name or matches that pattern.
    ParameterError
        The baseline has fewer than two runs, or no run is left to compare with it.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/cpu_training.json.gz").regressions(baseline="cpu_*")
    Traceback (most recent call last):
    profframe.errors.ParameterError: baseline: needs at least 2 runs to tell noise from a \
change, found 1 of 1
    """
    from profframe.analysis import regressions as slower

    answers = RunAnswers(self)
    order = run_selection.in_order(answers.traces())
    base, others = run_selection.sides(order["run"].to_list(), baseline, runs)
    samples = answers.answer("run_samples", [*base, *others], kernel_by=kernel_by, copies=copies)
    rows = slower.compare_runs(samples, base, others)
    return frame(
        slower.answer_rows(rows) if every else slower.regressions(rows),
        why=empty_reasons.of_regressions(self, rows.height, copies=copies),
        note=answers.note(),
    )


def outliers(self: BaseTrace, per: str = "run", top: int = 10, ops: int = 3) -> pl.DataFrame:
    """Find runs or steps that are unlike the rest, and the ops that make the difference.

    A run is compared with the median of the others by its span, median step, self time of ops, time
    of kernels, exposed communication, idle time and memory peaks. A step is compared with the
    median of the other steps of its run and rank, if there are three or more. If only noise
    differs, about one call in a hundred finds an outlier.

    Parameters
    ----------
    per
        ``"run"`` or ``"step"``.
    top
        Maximum number of runs or steps, the most unlike first.
    ops
        Maximum number of ops and kernels for each, those that differ most in time.

    Returns
    -------
    polars.DataFrame
        One row per run (or step), metric that is unlike the rest, and op; the most unlike first:

        ``run rank step metric value typical``
            The value and the median that it is compared with. Rank and step are NULL for runs.
        ``score q_value``
            Signed distance in units of the noise; share of rows at least as far off that is noise.
        ``what name spent_ns typical_ns excess_ns``
            An op or kernel, its time (self time for ops), its median, and the difference; NULL if
            the metric is not a time.

    Raises
    ------
    UnknownNameError
        ``per`` is something else.
    ParameterError
        A number is negative, or not an integer.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/cpu_training.json.gz").outliers().height
    0
    """
    from profframe.analysis import outliers as unlike

    if per not in {"run", "step"}:
        raise UnknownNameError.one_of("per", per, ("run", "step"))
    for name, value in (("top", top), ("ops", ops)):
        if integer(name, value) < 0:
            raise ParameterError(f"{name}: a number from 0, not {value}")
    answers = RunAnswers(self)
    if per == "run":
        every = answers.answer("runs")
        rows = unlike.outlying_runs(every, top)
    else:
        every = answers.answer("step_times")
        rows = unlike.outlying_steps(every, top)
    own = {*rows["run"]}
    if not own:
        samples = pl.DataFrame(schema=unlike.NO_SAMPLES)
    elif per == "run" or own & answers.history:
        samples = answers.answer("run_samples", own, unlike.SAMPLE_COLUMNS, per=per)
    else:
        samples = generated_questions.run_samples(selected(self, runs=own), per=per)
    why = empty_reasons.of_outliers(self, per, every, top)
    return frame(unlike.with_ops(rows, samples, ops), why=why, note=answers.note())
