"""Why analyses and charts have nothing: each says it, and it is true of the trace."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe import Trace, why_empty
from profframe.errors import AnswerError, ParameterError, UnknownNameError
from profframe.query.catalogue import catalogue
from profframe.trace.plots import Plots
from tests import needs
from tests.builders import event, loaded, stored, together
from tests.conftest import Run

EXAMPLES: Final = Path(__file__).parent.parent.parent / "examples"
GPU: Final = str(EXAMPLES / "gpu_training.json.gz")
CPU: Final = str(EXAMPLES / "cpu_training.json.gz")

NO_COLLECTIVES: Final = (
    "no collectives, sends or receives in this trace; record ranks of a job that uses "
    "torch.distributed"
)
NO_STEPS: Final = (
    "no profiler steps in this trace; record with schedule=, without which torch marks no steps, "
    "and call prof.step() at the end of each step"
)
NO_SECOND_RANK: Final = (
    "no second rank of a run in this trace; load the traces of all ranks together"
)
NO_HOST: Final = "no host slices in this trace; record with activities=[ProfilerActivity.CPU, ...]"
NO_DEVICE: Final = (
    "no device work (kernels, copies or fills) in this trace; record with "
    "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a device"
)
NO_KNOWN_WORK: Final = (
    "no device work with known FLOPs or bytes in this trace; record with record_shapes=True"
)
FEW: Final = "at least 3 are needed to tell an outlier"
LIKE_OTHERS: Final = (
    "none of 4 steps differs from the other steps of its run and rank by more than noise explains"
)
NO_DEPENDENCIES: Final = "nothing in this trace waited for anything else in it"


@cache
def _gpu() -> Trace:
    return profframe.load(GPU)


@cache
def _op() -> Trace:
    return loaded(event("aten::mm", 0, 10))


@cache
def _ranks(*, late: int = 0, step: int | None = None) -> Trace:
    """A collective of gloo on each of two ranks; the second comes so much later, before a step."""
    first = (event("gloo:all_reduce", 10, 90), event("aten::mm", 95, 99))
    second = (event("aten::add", 0, 10 + late), event("gloo:all_reduce", 10 + late, 90))
    marks = (
        []
        if step is None
        else [event(f"ProfilerStep#{step}", 100, 200, category="user_annotation")]
    )
    return together(loaded(*first, *marks, rank=0), loaded(*second, *marks, rank=1))


@cache
def _runs(number: int, *names: str) -> Trace:
    """Runs that are all alike."""
    ops = [event(name, 10 * place, 10 * place + 9) for place, name in enumerate(names)]
    return together(*(loaded(*ops, run=f"r{place}") for place in range(number)))


def _steps(number: int) -> Trace:
    marks = (
        event(f"ProfilerStep#{place}", 100 * place, 100 * place + 90, category="user_annotation")
        for place in range(number)
    )
    return loaded(*marks)


@cache
def _nothing_left() -> Trace:
    return _gpu().filter(start_ns=0, end_ns=1)


CASES: Final[Mapping[str, list[tuple[Callable[[], Any], str]]]] = {
    "trend": [
        (lambda: stored().trend(), "no runs in this trace"),
        (
            lambda: _runs(3, "a").filter(runs=()).trend(),
            "the filter leaves no runs; the whole trace has some",
        ),
        (lambda: _op().trend([]), "no metric is named; the default is metric='step_p50_ns'"),
    ],
    "regressions": [
        (
            lambda: _runs(4, "a", "b").regressions(baseline=3),
            "none of 2 ops and kernels takes longer than noise explains",
        ),
        (
            lambda: _runs(4, "a").regressions(baseline=3),
            "the only op or kernel does not take longer than noise explains",
        ),
        (
            lambda: _runs(4, "a").filter(kinds="kernel").regressions(baseline=3, every=True),
            "the filter leaves nothing of the trace",
        ),
        (
            lambda: together(
                *(loaded(run=f"r{place}") for place in range(3)), loaded(event("a", 0, 9), run="x")
            ).regressions(baseline=["r0", "r1"], runs=["r2"]),
            "the compared runs have no ops and no kernels",
        ),
    ],
    "outliers": [
        (
            lambda: _op().outliers(),
            f"there is 1 run to compare; {FEW}",
        ),
        (
            lambda: _runs(5, "a").outliers(),
            "none of 5 runs differs from the others by more than noise explains",
        ),
        (lambda: _op().outliers("step"), NO_STEPS),
        (
            lambda: _steps(2).outliers("step"),
            f"no rank has more than 2 profiler steps with a time; {FEW}",
        ),
        (lambda: _steps(4).outliers("step"), LIKE_OTHERS),
        (lambda: _op().outliers(top=0), "top=0 asks for no run"),
        (lambda: stored().outliers(), "no runs in this trace"),
    ],
    "blame": [
        (lambda: _op().blame(), NO_COLLECTIVES),
        (lambda: loaded(event("gloo:all_reduce", 0, 9)).blame(), NO_SECOND_RANK),
        (
            lambda: _ranks().filter(ranks=1).blame(),
            "the filter leaves no second rank of a run; the whole trace has some",
        ),
        (
            lambda: _ranks(late=50, step=3).blame(step=3),
            "no row with step=3; there are 2 rows without it",
        ),
        (
            lambda: together(
                loaded(event("gloo:all_reduce", 0, 9), rank=0),
                loaded(event("gloo:broadcast", 0, 9), rank=1),
            ).blame(),
            "no collective has two ranks or more here, with starts on clocks that can be compared",
        ),
    ],
    "dependencies": [
        (lambda: _op().dependencies(), NO_DEPENDENCIES),
        (lambda: stored().dependencies(), "no slices of any kind in this trace"),
        (
            lambda: _gpu().filter(kinds="overhead").dependencies(),
            "the filter leaves no slices of any kind; the whole trace has some",
        ),
        (lambda: _nothing_left().dependencies(), "the filter leaves nothing of the trace"),
    ],
    "critical_path": [
        (lambda: stored().critical_path().events, "no slices of any kind in this trace"),
        (lambda: _nothing_left().critical_path().events, "the filter leaves nothing of the trace"),
        (
            lambda: loaded(event("aten::mm", 5, 5)).critical_path().events,
            "no host slice or device work has both a start and a duration",
        ),
        (
            lambda: _op().critical_path().waits,
            "this path is of one rank; critical_path(across_ranks=True) is of all ranks",
        ),
        (lambda: _op().critical_path(across_ranks=True).waits, NO_SECOND_RANK),
        (
            lambda: _ranks().critical_path(across_ranks=True).waits,
            "no rank waits for another one on this path",
        ),
        (lambda: stored().critical_path().waits, "no slices of any kind in this trace"),
    ],
    "what_if_grid": [
        (
            lambda: _op().what_if_grid(communication=[], host=[]),
            "no factor is given: communication=[] and host=[]",
        ),
        (lambda: _op().what_if_grid(host=[]), "no factor is given: host=[]"),
    ],
    "tree": [
        (lambda: stored().tree().slices, NO_HOST),
        (
            lambda: _gpu().filter(kinds="kernel").tree().slices,
            "the filter leaves no host slices; the whole trace has some",
        ),
    ],
    "diff": [
        (
            lambda: profframe.diff(stored(traces=[{}]), stored(traces=[{}])),
            "on both sides: the trace is empty",
        ),
        (
            lambda: profframe.diff(stored(traces=[{}]), _nothing_left(), ("before", "after")),
            "before: the trace is empty; after: the filter leaves nothing of the trace",
        ),
    ],
    "explain": [
        (
            lambda: profframe.explain(CPU, CPU).causes,
            "a step takes equally long on both sides, and so does each of its parts",
        )
    ],
    "sql": [
        (
            lambda: _op().sql("FROM dependencies"),
            f"the table dependencies has no rows: {NO_DEPENDENCIES}",
        ),
        (
            lambda: _gpu().sql("FROM dependencies WHERE kind = 'x'"),
            "no row matches the query",
        ),
    ],
}
"""What has no rows, by the method; and why."""

ALWAYS_ROWS: Final[Mapping[str, str]] = {
    "what_if": "has a row of the unchanged trace, and raises an error without a run",
    "answer": "is checked of each answer",
    "advice": "is an answer",
    "key_averages": "is an answer",
    "roofline": "is an answer",
}
"""Methods that give a DataFrame and have no case here, and why not."""


def _methods() -> set[str]:
    """Public methods of a trace that give a DataFrame and are no answers."""
    answers = {answer.name for answer in catalogue()}
    found = {
        method.__name__
        for name, method in vars(Trace).items()
        if not name.startswith("_")
        and inspect.isfunction(method)
        and inspect.signature(method).return_annotation in {"pl.DataFrame", pl.DataFrame}
    }
    return found - answers - {"total_average"}  # a form of key_averages


def test_every_method_has_a_case() -> None:
    assert _methods() - ALWAYS_ROWS.keys() <= CASES.keys()
    assert {"blame", "trend", "outliers", "regressions", "dependencies"} <= _methods()


@pytest.mark.parametrize(
    ("ask", "reason"),
    [pytest.param(*case, id=f"{name}-{n}") for name in CASES for n, case in enumerate(CASES[name])],
)
def test_no_rows_say_why(ask: Callable[[], Any], reason: str) -> None:
    rows = ask()
    assert rows.height == 0
    assert why_empty(rows) == rows.why_empty == reason
    assert f"no rows: {reason}" in str(rows)


def test_rows_say_nothing() -> None:
    job, runs = _ranks(late=50), _runs(4, "a", "b")
    path = job.critical_path(across_ranks=True)
    for rows in (
        *(job.blame(), job.dependencies(), job.tree(rank=0).slices, path.events, path.waits),
        *(runs.trend(), runs.regressions(baseline=3, every=True), _op().what_if(host=0.5)),
        *(profframe.diff(CPU, CPU), profframe.explain(CPU, GPU).causes),
    ):
        assert rows.height
        assert why_empty(rows) is None
        assert "no rows" not in str(rows)


def test_rows_that_are_no_frame_say_nothing() -> None:
    assert why_empty(pl.DataFrame()) is None
    assert why_empty(_op().kernels().filter(pl.lit(True)).sort("name").head(1)) is not None
    assert why_empty(_op().self_times().filter(name="none")) is None


def test_a_reason_goes_to_other_processes() -> None:
    sent = pickle.loads(pickle.dumps(_op().step_times()))  # noqa: S301 - of this process
    assert why_empty(sent) == NO_STEPS
    assert why_empty(pickle.loads(pickle.dumps(_op().self_times()))) is None  # noqa: S301


def test_texts_of_nothing_say_why() -> None:
    assert _nothing_left().tree() == "no rows: the filter leaves nothing of the trace"
    path = repr(_nothing_left().critical_path())
    assert path == "CriticalPath of nothing: the filter leaves nothing of the trace"


@pytest.mark.parametrize("ask", [Trace.what_if, Trace.what_if_grid])
def test_nothing_can_be_predicted_without_a_run(ask: Callable[[Trace], Any]) -> None:
    with pytest.raises(AnswerError, match=r"^there is nothing to predict: no runs in this trace$"):
        ask(stored())
    with pytest.raises(AnswerError, match="predict: the filter leaves no runs; the whole trace"):
        ask(_op().filter(runs=()))


def test_sides_that_cannot_be_compared_say_what_they_lack() -> None:
    for side in (stored(), stored(traces=[{}])):
        with pytest.raises(AnswerError, match="base: nothing to explain, because no op, call"):
            profframe.explain(side, CPU)
        with pytest.raises(AnswerError, match="other: nothing to explain, because no op, call"):
            profframe.explain(CPU, side)
    with pytest.raises(ParameterError, match=r"^base: no allocations of a memory snapshot in this"):
        profframe.diff_memory(_op(), _op())


def test_a_name_is_not_sought_among_none() -> None:
    with pytest.raises(UnknownNameError, match=r"^no op named '\*'; there is no op at all$"):
        stored().trend("op:*")


CHARTS: Final[Mapping[str, tuple[Callable[[Trace], Any], str]]] = {
    "breakdown": (lambda t: t.plot.breakdown(), NO_DEVICE),
    "steps": (lambda t: t.plot.steps(), NO_STEPS),
    "kernel_categories": (lambda t: t.plot.kernel_categories(), NO_DEVICE),
    "kernels": (lambda t: t.plot.kernels(), "no kernels in this trace; record with"),
    "memory": (lambda t: t.plot.memory(), "no memory records by the profiler in this trace"),
    "snapshot_timeline": (lambda t: t.plot.snapshot_timeline(), "no memory snapshot with this"),
    "segments": (lambda t: t.plot.segments(), "no segments of a memory snapshot in this trace"),
    "queue_depth": (lambda t: t.plot.queue_depth(), "no device work whose launch is known in"),
    "idle": (lambda t: t.plot.idle(), NO_DEVICE),
    "roofline": (lambda t: t.plot.roofline(), "no kernels in this trace; record"),
    "ranks": (lambda t: t.plot.ranks(), NO_SECOND_RANK),
    "collectives": (lambda t: t.plot.collectives(), NO_COLLECTIVES),
    "trend": (lambda t: t.plot.trend(), "this trace has one run; load several: load('store')"),
}
"""Charts that one op is not enough for, and why."""


@pytest.mark.parametrize("name", CHARTS)
def test_charts_of_nothing_say_why(name: str) -> None:
    needs.module("altair")
    draw, reason = CHARTS[name]
    with pytest.raises(ParameterError, match=f"^{name}: {re.escape(reason)}"):
        draw(_op())


def _by_step(plots: Plots) -> Any:
    return plots.breakdown("step")


def _device_trend(plots: Plots) -> Any:
    return plots.trend(["kernel_ns", "busy_ns"])


def _trend_of_nothing(plots: Plots) -> Any:
    return plots.trend([])


def _three_runs() -> Trace:
    return _runs(3, "a")


def _kernels_of_unknown_work() -> Trace:
    return loaded(event("k", 0, 10, category="kernel", device=0, stream=7))


def _unfinished_step() -> Trace:
    step = event("ProfilerStep#1", 0, None, category="user_annotation")
    return loaded(step, event("k", 20, 30, category="kernel", device=0, stream=7))


def _kernels() -> Trace:
    return _gpu().filter(kinds="kernel")


def _after_steps() -> Trace:
    trace = _gpu()
    return trace.filter(start_ns=max(trace.profiler_steps["start_ns"].to_list()) + 1)


def _empty_ranks() -> Trace:
    return together(*(loaded(rank=rank) for rank in range(2)))


def _ops_of_two_ranks() -> Trace:
    return together(*(loaded(event("a", 0, 9), rank=rank) for rank in range(2)))


_RANKS_LACK: Final = f"{NO_DEVICE}; {NO_COLLECTIVES}"


@pytest.mark.parametrize(
    ("trace", "draw", "said"),
    [
        (stored, Plots.flame, "flame: no slices of any kind in this trace"),
        (_nothing_left, Plots.flame, "flame: the filter leaves nothing of the trace"),
        (stored, Plots.timeline, "timeline: no slices of any kind in this trace"),
        (_nothing_left, Plots.timeline, "timeline: the filter leaves nothing of the trace"),
        (
            _after_steps,
            _by_step,
            "breakdown: the filter leaves no profiler steps; the whole trace has",
        ),
        (
            _unfinished_step,
            _by_step,
            "breakdown: the length of no profiler step is known: see lack in step_times",
        ),
        (_kernels_of_unknown_work, Plots.roofline, f"roofline: {NO_KNOWN_WORK}"),
        (_empty_ranks, Plots.ranks, "ranks: the trace is empty"),
        (_ops_of_two_ranks, Plots.ranks, f"ranks: {_RANKS_LACK}"),
        (stored, Plots.trend, "trend: no runs in this trace"),
        (_three_runs, Plots.trend, f"trend: no run has a value of step_p50_ns: {NO_STEPS}"),
        (_three_runs, _device_trend, "trend: no run has a value of kernel_ns, busy_ns"),
        (_three_runs, _trend_of_nothing, "trend: no metric is named; the default is"),
    ],
)
def test_charts_say_what_is_left_of_a_trace(
    trace: Callable[[], Trace], draw: Callable[[Plots], Any], said: str
) -> None:
    needs.module("altair")
    plots = trace().plot
    with pytest.raises(ParameterError, match=f"^{re.escape(said)}"):
        draw(plots)


def test_every_chart_is_tried() -> None:
    names = {name for name, kind in vars(Plots).items() if callable(kind) and name[0] != "_"}
    assert names == {*CHARTS, "flame", "timeline", "regressions"}


def test_a_chart_without_regressions_says_so_above() -> None:
    needs.module("altair")
    title = _runs(4, "a", "b").plot.regressions(3).to_dict()["title"]
    assert "none of 2 ops and kernels takes longer than noise explains" in str(title)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("blame", CPU), NO_COLLECTIVES),
        (("answer", "blame", CPU), NO_COLLECTIVES),
        (("answer", "outliers", CPU, "--top", "3"), "there is 1 run to compare; at least 3"),
        (("answer", "trend", CPU, "-p", "metric=span_ns", "--top", "0"), None),
        (("roofline", CPU), "no kernels in this trace; record with activities="),
    ],
)
def test_verbs_say_why(arguments: tuple[str, ...], reason: str | None, run: Run) -> None:
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith(f"no rows: {reason}") == (reason is not None)
    code, out, err = run(*arguments, "--format", "json")
    assert err.startswith(f"note: no rows: {reason}") == (reason is not None)
    assert (out == "[]\n") == (reason is not None)


def test_verbs_that_compare_say_why(run: Run, tmp_path: Path) -> None:
    code, out, err = run("explain", CPU, CPU, "--format", "json")
    assert (code, out) == (0, "[]\n")
    assert (
        err == "note: no rows: a step takes equally long on both sides, and so does each of "
        "its parts\n"
    )
    store = tmp_path / "store"
    _runs(4, "a", "b").to_parquet(store)
    none = "none of 2 ops and kernels takes longer than noise explains"
    assert run("check", str(store), "--baseline", "3")[1].endswith(f"\n{none}\n")
    code, out, err = run("check", str(store), "--baseline", "3", "--format", "json")
    assert (code, out, err) == (0, "[]\n", f"note: no rows: {none}\n")


def test_advice_says_why(run: Run, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    stored(traces=[{}]).to_parquet(store)
    assert run("advice", store)[1] == "no findings: the trace is empty\n"


def test_the_path_across_one_rank_says_that_there_is_no_other(run: Run) -> None:
    out = run("critical-path", CPU, "--across-ranks")[1]
    assert out.endswith(f"What ranks wait for on others\nno rows: {NO_SECOND_RANK}\n")
