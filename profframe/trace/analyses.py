"""Analyses of a trace: its critical path, and statistics of many runs. Their numbers are SQL."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.analysis import dependencies as waits
from profframe.analysis import outliers as unlike
from profframe.analysis import regressions as slower
from profframe.analysis import selecting, trends
from profframe.analysis.critical_path import CriticalPath, job
from profframe.analysis.critical_path import blame as blaming
from profframe.analysis.critical_path import find as find_path
from profframe.analysis.replay import what_if as replay
from profframe.analysis.replay.what_if import Wishes
from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.models import Devices
from profframe.query.selection import Text, integer, texts
from profframe.query.session import Session
from profframe.show.frame import frame
from profframe.show.path import ShownPath

if TYPE_CHECKING:
    from profframe.trace.trace import Trace


def critical_path(  # noqa: PLR0917 -- which part of which trace
    self: Trace,
    step: int | None = None,
    run: str | None = None,
    rank: int | None = None,
    annotation: str | None = None,
    instance: int = 0,
    *,
    across_ranks: bool = False,
) -> ShownPath:
    """Find what the end of a step had to wait for, back to its start: host, launches, devices.

    Parameters
    ----------
    step
        N of a profiler step: from its start to the end of the last work that it launched.
    run, rank
        The trace, where there are several.
    annotation
        Name of an annotation in place of a step.
    instance
        Which of the annotations of that name, from 0.
    across_ranks
        Follow it through all ranks of a run, on one clock: from each collective to the rank that
        came last.

    Returns
    -------
    CriticalPath
        Its ``events`` without a gap, its ``length_ns``, and its ``bounds``: how much of the
        length is bound by what. Across ranks ``waits`` says which ranks the others waited for, and
        what these did. Without step and annotation it is of the whole trace.

    Raises
    ------
    UnknownNameError
        There is no such run, rank, step or annotation; the message says which there are.
    ParameterError
        There are several (run, rank), or a value is of the wrong type.

    Examples
    --------
    >>> from profframe import load
    >>> path = load("examples/cpu_training.json.gz").critical_path()
    >>> path.bounds["bound"][0], path.bounds["total_ns"].sum() == path.length_ns
    ('host', True)
    """
    views = dict.fromkeys(("events", "traces"))
    if across_ranks:
        return ShownPath.of(_across_ranks(self, run, rank, (step, annotation, instance)))
    session = self._session.filter(runs=run, ranks=rank)
    with session.connection(views) as connection:
        path = find_path(connection, step, annotation, instance)
    return ShownPath.of(path)


def blame(
    self: Trace,
    per: str = "name",
    run: str | None = None,
    step: int | None = None,
    *,
    corrected: bool = True,
) -> pl.DataFrame:
    """Find what each rank, op, module and cause costs a job: what late ranks did before others.

    A rank that comes later than the middle one to a collective is behind the rank before it. What
    it did since both were last together, and that rank did not, is to blame: the critical path of
    each of them back from there, so host time that hides behind work of the devices costs
    nothing. A rank that is late only because it waited for another one has that as its cause,
    ``wait``, and the rank that it waited for.

    Parameters
    ----------
    per
        What has a row: ``"name"`` (rank, cause, name, op and module), ``"op"`` (rank, cause and
        op), ``"module"``, ``"cause"`` or ``"rank"``; the columns of the others are NULL.
    run
        The run, where there are several.
    step
        N of a profiler step: only collectives that were launched in it.
    corrected
        Take the offsets of `clock_skew` off the clocks, where all are known.

    Returns
    -------
    polars.DataFrame
        What costs most first, what was late only because it waited last; then transfers:

        ``run rank``
            The late rank; NULL of transfers.
        ``part``
            ``entry``: late ranks, which the others wait for at the entry of collectives.
            ``transfer``: what collectives took with all ranks there.
        ``cause``
            ``host``, ``input`` (in a call of a data loader), ``launch`` (until work began),
            ``compute``, ``copy``, ``communication``, or ``wait``: for another rank, or where
            nothing was recorded.
        ``name op module``
            The slice, the innermost op and the innermost module around it or its launch.
        ``waits_for_rank``
            The rank that it waited for; itself, where it was late to a collective of one group,
            and then for the same reason to one of another: the reason counts there.
        ``cost_ns held_up_ns``
            Time that it costs the job, and the part of it in which only this rank was awaited;
            below 0 where the late rank did less than the other. Of each rank they add up to
            ``held_up_ns`` and ``shared_ns`` together of `stragglers` with the same ``corrected``,
            and to ``held_up_ns``; NULL of transfers.
        ``steps cost_per_step_ns``
            Number of profiler steps, and the cost of one: of all, where there are none.
        ``part_share``
            Its share of the part.

    Raises
    ------
    UnknownNameError
        There is no such run, or ``per`` is something else.
    ParameterError
        There are several runs, or a value is of the wrong type.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/cpu_training.json.gz").blame().height
    0
    """
    if per not in blaming.PER:
        raise UnknownNameError.among("per", per, blaming.PER)
    if step is not None:
        integer("step", step)
    session, name, ranks = _job(self, run, "blame")
    connect = _connect(session)
    return frame(blaming.find(connect, name, ranks, per, step=step, corrected=corrected))


def _across_ranks(
    self: Trace, run: str | None, rank: int | None, what: tuple[int | None, str | None, int]
) -> CriticalPath:
    if rank is not None:
        raise ParameterError(
            "rank and across_ranks: give one of them, or filter(ranks=[...]) for some ranks"
        )
    session, name, ranks = _job(self, run, "a critical path")
    gathered, connect = _gathered(session, ranks, what)
    return job.find(connect, gathered, name, what[0], what[1])


def _gathered(
    session: Session, ranks: list[int], what: tuple[int | None, str | None, int]
) -> tuple[job.Job, job.Connect]:
    """What ranks did, which several questions need, and connections to their rows."""
    connect = _connect(session)
    key = (tuple(ranks), what)
    return session.recent("job", key, lambda: job.gather(connect, ranks, what)), connect


def _job(self: Trace, run: str | None, what: str) -> tuple[Session, str | None, list[int]]:
    """The session of one run, its name and its ranks."""
    session = self._session.filter(runs=run)
    traces = session.rows("traces").select("run", "rank").unique().sort("run", "rank")
    runs = traces["run"].unique().to_list()
    if len(runs) > 1:
        raise ParameterError(
            f"{what} is of one run, and there are {len(runs)} "
            f"({selecting.some_traces(traces.rows())}); choose one: run=..."
        )
    return session, next(iter(runs), None), traces["rank"].to_list()


def _connect(session: Session) -> job.Connect:
    """Connections to tables of one rank, or of all."""
    tables = dict.fromkeys(("events", "traces", "flows", "devices"))

    def connect(rank: int | None) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        part = session if rank is None else session.filter(ranks=rank)
        return part.connection(tables)

    return connect


def dependencies(self: Trace) -> pl.DataFrame:
    """What had to wait for what: launches, streams, waits, collectives of all ranks, and more.

    In SQL it is the table `dependencies`. It is found when it is asked for.

    Returns
    -------
    polars.DataFrame
        One row per pair of moments, by target; `docs/tables.md` has its columns.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/gpu_training.json.gz").dependencies()["kind"][0]
    'launch'
    """
    rows = pl.DataFrame(dependency_table(self._session))
    return frame(rows.with_columns(pl.col(pl.Categorical).cast(pl.String)))


def dependency_table(session: Session) -> pa.Table:
    """The table `dependencies` of all runs."""
    runs = session.rows("traces")["run"].unique().sort().to_list()
    tables = [schema.DEPENDENCIES.arrow.empty_table()]
    for run in runs:
        of_run = session.filter(runs=run)
        ranks = of_run.rows("traces")["rank"].unique().sort().to_list()
        gathered, connect = _gathered(of_run, ranks, (None, None, 0))
        tables.append(waits.dependencies(connect, gathered, run))
    return pa.concat_tables(tables)


def what_if(
    self: Trace,
    step: int | None = None,
    run: str | None = None,
    *,
    communication: float | None = None,
    bandwidth_gb_per_s: float | None = None,
    latency_us: float | None = None,
    stragglers: bool = True,
    kernels: Mapping[str, float] | None = None,
    categories: Mapping[str, float] | None = None,
    launches: bool = True,
    host: float | None = None,
    copies: bool = True,
    fused: Text = (),
    device: str | None = None,
    devices: Devices | None = None,
) -> pl.DataFrame:
    """Predict what a step, or the whole trace, would take if something were otherwise.

    What happened is replayed on all ranks of a run, on one clock: each activity begins when all
    that it waited for is done. `docs/what_if.md` says what a replay knows and what it does not.

    Parameters
    ----------
    step
        N of a profiler step; without it the whole trace.
    run
        The run, where there are several.
    communication
        Factor of the time of transfers. Where the other ranks are not loaded, waiting for them
        cannot be told from transfer: then of all communication.
    bandwidth_gb_per_s, latency_us
        Instead, of the slowest link: a transfer takes the latency, and the time of its bytes.
    stragglers
        False: each op, gap between ops, and kernel takes what it takes on the median rank,
        matched by name and order; of two ranks on the one that takes less for all of that name.
    kernels, categories
        Factors of the time of kernels, copies and fills by name or category; ``*`` in a name
        stands for anything, and 0 takes them away.
    launches
        False: calls that launch work, and the ops around them, take no time, as in a graph.
    host
        Factor of the time of all that threads do.
    copies
        False: copies take no time, as if they ran beside everything else.
    fused
        Names of ops, modules or annotations: the work that each launches is one kernel, as long
        as the longest of it.
    device
        Name of a model of `docs/devices.md`: work with known operations and bytes scales
        by its peaks, what moves more than it computes by its bandwidth.
    devices
        More models, as `load` takes them.

    Returns
    -------
    polars.DataFrame
        One row for what is (``nothing`` changed), one for each change, and one for all of them
        together:

        ``change``
            What is otherwise.
        ``now_ns predicted_ns saved_ns saved_share``
            Length of the step as recorded and as predicted.
        ``low_ns high_ns``
            From the shortest to the longest prediction, if what is not recorded is taken
            otherwise: work that came later than usual after all that is known comes when it came;
            waits that only the order suggests do not count.
        ``replay_error``
            Replay of the unchanged step over what was recorded, minus 1.
        ``host_ns launch_ns compute_ns communication_ns copy_ns sync_ns idle_ns``
            Bounds of the new critical path; they add up to ``predicted_ns``.

    Raises
    ------
    UnknownNameError
        There is no such run, step, kernel, category, op or device.
    ParameterError
        There are several runs, or a value cannot be used.

    Examples
    --------
    >>> from profframe import load
    >>> rows = load("examples/cpu_training.json.gz").what_if(host=0.5)
    >>> rows["change"].to_list(), rows["saved_ns"][1] > 0
    (['nothing', 'host x 0.5'], True)
    """
    wishes = Wishes(
        communication=communication,
        bandwidth_gb_per_s=bandwidth_gb_per_s,
        latency_us=latency_us,
        stragglers=stragglers,
        kernels=kernels or {},
        categories=categories or {},
        launches=launches,
        host=host,
        copies=copies,
        fused=texts("fused", fused),
        device=device,
    )
    model, connect, session = replayed(self, step, run)
    rows = replay.predictions(model, wishes, connect, session.table("devices"), devices)
    return frame(rows)


def replayed(
    self: Trace, step: int | None, run: str | None
) -> tuple[replay.Model, job.Connect, Session]:
    """What can be replayed of a run, built once, with connections to its rows and its session."""
    session, _, ranks = _job(self, run, "a prediction")
    what = (step, None, 0)
    gathered, connect = _gathered(session, ranks, what)
    key = (tuple(ranks), what)
    model = session.recent("model", key, lambda: replay.model(connect, gathered))
    return model, connect, session


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
