"""Questions about a whole job: its critical path, blame, dependencies, and predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, overload

import duckdb
import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.analysis import run_selection
from profframe.analysis.clocks import MATCHES
from profframe.errors import AnswerError, ParameterError, UnknownNameError
from profframe.facts.device_catalogue import Devices
from profframe.query.catalogue import resolve
from profframe.query.per_trace import TraceConnections
from profframe.query.selection import (
    Integers,
    Numbers,
    Text,
    check_numbers,
    integers,
    one_integer,
    texts,
)
from profframe.query.session import Session
from profframe.show import units
from profframe.show.frame import frame
from profframe.show.path_text import ShownPath
from profframe.trace import empty_reasons
from profframe.trace.base_trace import BaseTrace
from profframe.trace.parts import Each, asked_of_each
from profframe.workers.crew import On

if TYPE_CHECKING:
    from profframe.analysis.critical_path import CriticalPath, path_across_ranks
    from profframe.analysis.critical_path import blame as blaming
    from profframe.analysis.simulation import what_if as replay

FACTORS: Final = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
_MOST_UNRECORDED: Final = 0.01
"""Share of the time in which lost work may have run up to which a replay is close."""


@overload
def critical_path(
    self: BaseTrace,
    step: Numbers | None = ...,
    run: Text | None = ...,
    rank: Numbers | None = ...,
    annotation: str | None = ...,
    instance: int = ...,
    *,
    across_ranks: bool = ...,
    each: None = ...,
    on: None = ...,
) -> ShownPath: ...


@overload
def critical_path(
    self: BaseTrace,
    step: Numbers | None = ...,
    run: Text | None = ...,
    rank: Numbers | None = ...,
    annotation: str | None = ...,
    instance: int = ...,
    *,
    across_ranks: bool = ...,
    each: Each,
    on: On = ...,
) -> pl.DataFrame: ...


def critical_path(  # noqa: PLR0917 -- which part of which trace
    self: BaseTrace,
    step: Numbers | None = None,
    run: Text | None = None,
    rank: Numbers | None = None,
    annotation: str | None = None,
    instance: int = 0,
    *,
    across_ranks: bool = False,
    each: Each | None = None,
    on: On = None,
) -> ShownPath | pl.DataFrame:
    """Find what the end of a step had to wait for, back to its start: host, launches, devices.

    Parameters
    ----------
    step
        N of a profiler step: from the completion of the step before it, or its own start, to its
        own, as in `step_times`; across ranks as in `runs`, but on one clock. If it is not known on
        a rank, from its first start to the end of its last work.
    run, rank
        The trace, if there are several.
    annotation
        Name of an annotation to use instead of a step.
    instance
        Which of the annotations with that name, from 0.
    across_ranks
        Follow the path through all ranks of a run, on one clock: from each collective to the rank
        that came last.
    each, on
        The path of each rank, or across the ranks of each run, and where they are found, as for
        `answer`: the `events` of all paths in one frame, by run and rank.

    Returns
    -------
    CriticalPath
        Its ``events`` without gaps, its ``length_ns``, and its ``bounds``: how much of the length
        is bound by what. Across ranks, ``waits`` says which ranks the others waited for, and what
        these did. Without step and annotation, the path is that of the whole trace.

    Raises
    ------
    UnknownNameError
        There is no such run, rank, step or annotation; the message lists the existing ones.
    ParameterError
        There are several (run, rank), or a value has the wrong type.

    Examples
    --------
    >>> from profframe import load
    >>> path = load("examples/cpu_training.json.gz").critical_path()
    >>> path.bounds["bound"][0], path.bounds["total_ns"].sum() == path.length_ns
    ('host', True)
    """
    from profframe.analysis.critical_path import find

    if each is not None or on is not None:
        if each == "run" and not across_ranks:
            raise ParameterError(
                "critical_path: a path is of one rank: each='rank', or across_ranks"
            )
        part = _chosen(self, run, rank)
        named = {"step": step, "annotation": annotation, "instance": instance}
        return asked_of_each(
            part, "critical_path", named | {"across_ranks": across_ranks}, each, on
        )
    views = dict.fromkeys(("events", "traces", "profiler_steps"))

    def height(part: Session, _: Mapping[str, object]) -> int:
        trace = type(self)(part)
        return critical_path(trace, run=run, rank=rank, across_ranks=across_ranks).events.height

    why = empty_reasons.of_path(self, height)
    step = one_integer("step", step)
    if across_ranks:
        return ShownPath.of(_across_ranks(self, run, rank, (step, annotation, instance)), why)
    session = self._session.filter(runs=run, ranks=rank)
    with session.connection(views) as connection:
        path = find(connection, step, annotation, instance)
    return ShownPath.of(path, why)


def blame(
    self: BaseTrace,
    per: str = "name",
    run: Text | None = None,
    step: Numbers | None = None,
    *,
    corrected: bool = True,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Find what each rank, op, module and cause costs a job: what made ranks late.

    A rank that comes to a collective later than the median rank is late by the time since the rank
    before it. What it did since both were last together, and the other rank did not, is to blame.
    Both are compared along their critical paths, so host time that hides behind device work costs
    nothing. A rank that is late only because it waited for another one has the cause ``wait``, and
    the rank that it waited for. What makes a rank late to several collectives, because they overlap
    or the others go on meanwhile, counts once.

    Parameters
    ----------
    per
        What each row is: ``"name"`` (rank, cause, name, op and module), ``"op"`` (rank, cause and
        op), ``"module"``, ``"cause"`` or ``"rank"``; other columns are NULL.
    run
        The run, where there are several.
    step
        Number or numbers of profiler steps: only collectives that were launched in them.
    corrected
        Correct clocks by the offsets of `clock_skew`, if all are known.
    each, on
        With ``each="run"`` the rows of all runs, one run after the other, and where they are
        computed, as for `answer`.

    Returns
    -------
    polars.DataFrame
        The most costly first, waits for other ranks last; then transfers:

        ``run rank``
            The late rank; NULL for transfers.
        ``part``
            ``entry``: late ranks, which the others wait for when they enter collectives.
            ``transfer``: what collectives took once all ranks were there.
        ``cause``
            ``host``, ``input`` (in a data loader call), ``launch`` (until work began),
            ``compute``, ``copy``, ``communication``, or ``wait``: for another rank, or where
            nothing was recorded.
        ``name op module``
            The slice, the innermost op and the innermost module around it or its launch.
        ``waits_for_rank``
            The rank that it waited for. It is the rank itself for the rest of a delay whose reason
            counts at another collective, and negative for the part of one that does.
        ``cost_ns held_up_ns``
            Time that it costs the job, and the part of it in which only this rank was missing;
            negative if the late rank did less than the other. For each rank, ``cost_ns`` adds up to
            ``held_up_ns`` plus ``shared_ns`` of `stragglers`, and ``held_up_ns`` to its
            ``held_up_ns``, which is NULL for transfers.
        ``steps cost_per_step_ns``
            Number of profiler steps, and the cost per step; the whole cost if there are none.
        ``part_share``
            Its share of the part.
        ``is_corrected``
            Whether clocks were corrected in all of them; if not, times are as recorded.

    Raises
    ------
    UnknownNameError
        There is no such run or step, or no such ``per``.
    ParameterError
        There are several runs, or a value has the wrong type.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/cpu_training.json.gz").blame().height
    0
    """
    from profframe.analysis.critical_path import blame as blaming

    if per not in blaming.PER:
        raise UnknownNameError.one_of("per", per, blaming.PER)
    if each is not None or on is not None:
        named = {"per": per, "step": step, "corrected": corrected}
        return asked_of_each(_chosen(self, run), "blame", named, each, on)
    steps = None if step is None else _some_steps(self._session, integers("step", step))
    session, costs = _late_costs(self, run, steps, corrected=corrected)
    rows = blaming.find(session.select, costs, per)

    def height(part: Session, given: Mapping[str, object]) -> int:
        chosen = steps if given else None
        return blame(type(self)(part), "rank", run, chosen, corrected=corrected).height

    return frame(rows, why=empty_reasons.of_blame(self, height, run, steps, corrected=corrected))


def _chosen(self: BaseTrace, run: Text | None, rank: Numbers | None = None) -> BaseTrace:
    """Some runs and ranks of a trace, or all."""
    return type(self)(self._session.filter(runs=run, ranks=rank))


def _some_steps(session: Session, steps: Integers) -> tuple[int, ...]:
    """Numbers of steps that there are; a range may reach beyond them."""
    present = session.rows("profiler_steps")["step"].drop_nulls().unique().sort().to_list()
    check_numbers("step", steps, present)
    return tuple(step for step in present if step in steps)


def late_slices(self: BaseTrace, run: str, step: int | None, *, corrected: bool) -> pl.DataFrame:
    """Each time that a rank of a run was late to a collective, with what is to blame for it."""
    from profframe.analysis.critical_path.blame import slices

    steps = None if step is None else (step,)
    session, costs = _late_costs(self, run, steps, corrected=corrected)
    return slices(session.select, costs)


def _late_costs(
    self: BaseTrace, run: Text | None, steps: tuple[int, ...] | None, *, corrected: bool
) -> tuple[Session, blaming.LateCosts]:
    """The session of a run, and what its late ranks cost, cached for other groupings."""
    from profframe.analysis.critical_path.blame import compare

    session, name, ranks = _job(self, run, "blame")

    def compute() -> blaming.LateCosts:
        with _connections(session, ranks) as connect:
            gathered = _gathered(session, connect, ranks, (None, None, 0), corrected=corrected)
            matches = _matches(session, ranks)
            return compare(connect, matches, gathered, name, steps=steps, corrected=corrected)

    return session, session.cache_last("blame", (tuple(ranks), steps, corrected), compute)


def _across_ranks(
    self: BaseTrace,
    run: Text | None,
    rank: Numbers | None,
    what: tuple[int | None, str | None, int],
) -> CriticalPath:
    from profframe.analysis.critical_path.path_across_ranks import find

    if rank is not None:
        raise ParameterError(
            "rank and across_ranks: give one of them, or filter(ranks=[...]) for some ranks"
        )
    session, name, ranks = _job(self, run, "a critical path")
    with _connections(session, ranks) as connect:
        gathered = _gathered(session, connect, ranks, what)
        return find(connect, gathered, name, what[0], what[1])


def _gathered(
    session: Session,
    connect: path_across_ranks.Connect,
    ranks: list[int],
    what: tuple[int | None, str | None, int],
    *,
    corrected: bool = True,
) -> path_across_ranks.JobWindow:
    """The gathered rows of all ranks, cached, since several questions need them."""
    from profframe.analysis.critical_path.path_across_ranks import gather

    def compute() -> path_across_ranks.JobWindow:
        return gather(connect, lambda: _matches(session, ranks), ranks, what, corrected=corrected)

    if len(ranks) == 1:  # its model alone is asked for again
        return compute()
    return session.cache_last("job", (tuple(ranks), what, corrected), compute)


def _matches(session: Session, ranks: list[int]) -> pa.Table:
    """The collectives of all ranks, cached: every analysis of a job begins with them."""
    sql = MATCHES if len(ranks) > 1 else f"{MATCHES} LIMIT 0"  # one rank meets no other
    return session.cache_last("matches", sql, partial(session.select, sql))


def _job(self: BaseTrace, run: Text | None, what: str) -> tuple[Session, str | None, list[int]]:
    """The session of one run, its name and its ranks."""
    session = _of_run(self._session, run)
    traces = session.sizes().select("run", "rank")
    runs = traces["run"].unique(maintain_order=True).to_list()
    if len(runs) > 1:
        raise ParameterError(
            f"{what} covers one run, and there are {len(runs):,} "
            f"({run_selection.some_names(runs)}); choose one, as in run={runs[0]!r}"
        )
    return session, next(iter(runs), None), traces["rank"].to_list()


def _of_run(session: Session, run: Text | None) -> Session:
    """The session of a run; the same object if it is the only run, which may be read already."""
    is_only = session.sizes()["run"].unique().to_list() == [run]
    return session if is_only else session.filter(runs=run)


def _connect(session: Session) -> path_across_ranks.Connect:
    """Connections to tables of one rank of a run, or of all."""
    parts = TraceConnections(
        session, dict.fromkeys(("events", "traces", "flows", "devices", "profiler_steps"))
    )
    return lambda rank: parts.connection(None, rank)


def parts_of(self: BaseTrace) -> TraceConnections:
    """The rows of a trace by (run, rank)."""
    return TraceConnections(
        self._session, dict.fromkeys(("events", "traces", "counters", "profiler_steps"))
    )


@contextmanager
def _connections(session: Session, ranks: Sequence[int]) -> Iterator[path_across_ranks.Connect]:
    """Connections to tables of one rank, or of all, each of which is opened only once.

    Opening a connection takes as long as reading a small trace. A single rank is all of them.
    """
    connect = _connect(session)
    with ExitStack() as stack:
        opened: dict[int | None, duckdb.DuckDBPyConnection] = {}

        def kept(rank: int | None) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
            key = rank if len(ranks) > 1 else None
            if key not in opened:
                opened[key] = stack.enter_context(connect(key))
            return nullcontext(opened[key])

        yield kept


def dependencies(self: BaseTrace, *, each: Each | None = None, on: On = None) -> pl.DataFrame:
    """What had to wait for what: launches, streams, waits, collectives of all ranks, and more.

    In SQL it is the table `dependencies`. It is computed when a query names it.

    Parameters
    ----------
    each, on
        Ask each run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per pair of moments, by target; `docs/tables.md` has its columns.

    Examples
    --------
    >>> from profframe import load
    >>> rows = load("examples/gpu_training.json.gz").dependencies()
    >>> sorted(rows["kind"].unique())
    ['backward', 'launch', 'stream', 'sync', 'thread']
    """
    if each is not None or on is not None:
        return asked_of_each(self, "dependencies", {}, each, on)
    rows = pl.DataFrame(dependency_table(self._session))
    plain = rows.with_columns(pl.col(pl.Categorical).cast(pl.String))
    why = empty_reasons.of_dependencies(self, lambda part, _: dependency_table(part).num_rows)
    return frame(plain, why=why)


def dependency_table(session: Session) -> pa.Table:
    """The table `dependencies` of all runs."""
    from profframe.analysis import dependencies as waits

    runs = session.sizes()["run"].unique().sort().to_list()
    tables = [schema.DEPENDENCIES.arrow.empty_table()]
    for run in runs:
        of_run = _of_run(session, run)
        ranks = of_run.sizes()["rank"].to_list()
        with _connections(of_run, ranks) as connect:
            gathered = _gathered(of_run, connect, ranks, (None, None, 0))
            tables.append(waits.dependencies(connect, gathered, run))
    return pa.concat_tables(tables)


def what_if(
    self: BaseTrace,
    step: Numbers | None = None,
    run: Text | None = None,
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
    """Predict how long a step, or the whole trace, would take after a change.

    The recording is replayed on all ranks of a run, on one clock: each activity begins when
    everything it waited for is done. `docs/what_if.md` explains what a replay can and cannot
    predict.

    Parameters
    ----------
    step
        N of a profiler step, as `critical_path` has it; without it the whole trace.
    run
        The run, where there are several.
    communication
        Factor for the time of transfers; for all communication if the other ranks are not loaded,
        because waiting then cannot be told from transfer.
    bandwidth_gb_per_s, latency_us
        Alternatively, the slowest link: a transfer takes the latency plus the time of its bytes.
    stragglers
        False: each op, gap between ops, and kernel takes as long as on the median rank, matched by
        name and order; with two ranks, as on the one that takes less for all of that name. If ranks
        share nine tenths, what half of them lack takes no time. If the job would then take longer,
        no rank holds it up, and nothing changes.
    kernels, categories
        Factors for the time of kernels, copies and fills by name or category; ``*`` in a name
        stands for anything, and 0 removes them.
    launches
        False: calls that launch work, and the ops around them, take no time, as in a graph.
    host
        Factor for the time of everything that threads do.
    copies
        False: copies take no time, as if they ran beside everything else.
    fused
        Names of ops, modules or annotations: the kernels that each launches become one, as long as
        the longest.
    device
        Name of a model in `docs/devices.md`: work with known FLOPs and bytes scales by its peaks,
        memory-bound work by its bandwidth.
    devices
        More models, as `load` takes them.

    Returns
    -------
    polars.DataFrame
        One row without a change (``nothing``), one for each change, and one for all of them
        together:

        ``change``
            The change.
        ``now_ns predicted_ns saved_ns saved_share``
            Length of the step as recorded and as predicted.
        ``low_ns high_ns``
            The shortest and the longest prediction under other assumptions about what is not
            recorded: work that came later than its known causes explain comes when it came; waits
            that only the order suggests do not count.
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
    AnswerError
        There is no run.

    Examples
    --------
    >>> from profframe import load
    >>> rows = load("examples/cpu_training.json.gz").what_if(host=0.5)
    >>> rows["change"].to_list(), rows["saved_ns"][1] > 0
    (['nothing', 'host x 0.5'], True)
    """
    from profframe.analysis.simulation.what_if import Wishes, predictions

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
    rows = predictions(model, wishes, connect, session.table("devices"), devices)
    return frame(rows)


def what_if_grid(
    self: BaseTrace,
    step: Numbers | None = None,
    run: Text | None = None,
    *,
    communication: Sequence[float] = FACTORS,
    host: Sequence[float] = FACTORS,
) -> pl.DataFrame:
    """Predict how long a step, or the whole trace, would take for many factors at once.

    Like `what_if` with one factor for communication and one for the host.

    Parameters
    ----------
    step
        N of a profiler step, as `critical_path` has it; without it the whole trace.
    run
        The run, where there are several.
    communication
        Factors for the time of transfers.
    host
        Factors for the time of everything that threads do.

    Returns
    -------
    polars.DataFrame
        One row for each pair, by ``communication`` and then ``host`` in the given order, with the
        ``now_ns predicted_ns saved_ns saved_share`` of `what_if`.

    Raises
    ------
    UnknownNameError
        There is no such run or step.
    ParameterError
        There are several runs, or a factor is negative or not a number.
    AnswerError
        There is no run.

    Examples
    --------
    >>> from profframe import load
    >>> rows = load("examples/cpu_training.json.gz").what_if_grid(communication=[1], host=[0, 1])
    >>> rows["predicted_ns"][0] < rows["predicted_ns"][1]
    True
    """
    from profframe.analysis.simulation.what_if import grid

    model, _, _ = replayed(self, step, run)
    rows = grid(model, communication, host)
    return frame(rows, why=empty_reasons.of_grid(len(communication), len(host)))


def _assert_recorded(session: Session, step: int | None) -> None:
    """Refuse to predict where work that is not in the trace may have run for much of the time."""
    if session.lacks("events", "lost_start_ns"):
        return
    count = "SELECT count(lost_start_ns) AS calls FROM events"
    lost = session.select(count).column("calls")[0].as_py()
    if not lost:
        return
    parts = session.answer(*resolve("time_breakdown", {})).filter(
        pl.col("step").is_null() if step is None else pl.col("step") == step
    )
    shares = (parts["unrecorded_ns"] / parts["span_ns"]).to_list()
    share = max((part for part in shares if part is not None), default=0.0)
    if share > _MOST_UNRECORDED:
        raise AnswerError(
            f"the work of {units.plural(lost, 'call')} is not in the trace, and may have run for "
            f"{share:.1%} of the time: predictions need whole records; `quality` says which steps "
            "lack some"
        )


def replayed(
    self: BaseTrace, step: Numbers | None, run: Text | None
) -> tuple[replay.JobModel, path_across_ranks.Connect, Session]:
    """The replay model of a run, built once, with connections to its rows and its session."""
    from profframe.analysis.simulation import what_if as replay

    step = one_integer("step", step)
    session, _, ranks = _job(self, run, "a prediction")
    if not ranks:
        lack = empty_reasons.lack_of(type(self)(session), "traces")
        raise AnswerError(f"there is nothing to predict: {lack}")
    _assert_recorded(session, step)
    what = (step, None, 0)
    with _connections(session, ranks) as connect:
        key = (tuple(ranks), what)
        model = session.cache_last(
            "model", key, lambda: replay.model(connect, _gathered(session, connect, ranks, what))
        )
    return model, _connect(session), session
