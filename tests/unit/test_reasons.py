"""Why a question has no rows: there is always a reason, and it is true of the trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe import Trace, schema
from profframe.errors import AnswerError
from profframe.query import reasons
from profframe.query.catalogue import find, selects
from profframe.query.header import parse, sql_directory
from tests.builders import event, loaded, stored, together
from tests.conftest import Run
from tests.members import few

EXAMPLES: Final = Path(__file__).parent.parent.parent / "examples"
GPU: Final = str(EXAMPLES / "gpu_training.json.gz")
CPU: Final = str(EXAMPLES / "cpu_training.json.gz")
BUSY: Final = ("kernel", "memcpy", "memset")
COMMUNICATION: Final = ("collective", "expert_parallel", "point_to_point")


def _kinds(*kinds: str) -> Callable[[Trace], bool]:
    return lambda trace: trace.events["kind"].is_in(kinds).any()


def _has(*columns: str) -> Callable[[Trace], bool]:
    return lambda trace: any(trace.events[name].count() > 0 for name in columns)


def _rows(*tables: str) -> Callable[[Trace], bool]:
    return lambda trace: any(getattr(trace, name).height > 0 for name in tables)


def _communicates(trace: Trace) -> bool:
    kernels = trace.events.filter(pl.col("kind") == "kernel")
    return kernels["kernel_category"].is_in(COMMUNICATION).any()


def _calls_collectives(trace: Trace) -> bool:
    host = trace.events.filter(pl.col("kind").is_in(["host_op", "annotation"]))["name"]
    named = trace.events.filter(pl.col("kind") == "kernel")["collective"].count() > 0
    return _communicates(trace) or named or host.str.contains(r"^(gloo|mpi):").any()


HAS: Final[Mapping[str, Callable[[Trace], bool]]] = {
    "traces": _rows("traces"),
    "slices": _rows("events"),
    "host_slices": _has("preorder"),
    "host_ops": _kinds("host_op"),
    "calls": _kinds("runtime", "driver"),
    "annotations": _kinds("annotation", "device_annotation"),
    "steps": lambda t: t.profiler_steps.height > 0,
    "device_work": _kinds(*BUSY),
    "device_time": lambda t: _kinds(*BUSY)(t) or t.profiler_steps["compute_ns"].count() > 0,
    "kernels": _kinds("kernel"),
    "copies": _kinds("memcpy", "memset"),
    "launches": _has("launch_id"),
    "graphs": _has("graph_position"),
    "communication": _communicates,
    "collective_calls": _calls_collectives,
    "collectives": _has("collective"),
    "known_work": lambda t: (
        _has("flops", "bytes")(t)
        and bool(
            t.events.filter(pl.col("kind").is_in(BUSY))
            .select((pl.col("flops").is_not_null() | pl.col("bytes").is_not_null()).any())
            .item()
        )
    ),
    "input_shapes": _has("input_dims"),
    "stacks": _has("stack", "python_stack"),
    "frames": lambda t: _kinds("python")(t) or _has("stack")(t),
    "modules": _has("python_module_id", "module_hierarchy"),
    "phases": _has("phase_id"),
    "recomputed": lambda t: bool(t.events["is_recompute"].any()),
    "data_loads": lambda t: t.events["name"].str.starts_with("enumerate(DataLoader)#").any(),
    "gil": _kinds("gil"),
    "collections": lambda t: (
        t.events.filter(pl.col("kind") == "python")["name"].eq_missing("Python GC").any()
    ),
    "memory": _rows("memory"),
    "instants": _rows("instants"),
    "counters": _rows("counters"),
    "counter_values": lambda t: t.counters["event_id"].null_count() > 0,
    "counted_slices": lambda t: t.counters["event_id"].count() > 0,
    "device_samples": lambda t: (
        t.counters.filter(pl.col("event_id").is_null())["device"].count() > 0
    ),
    "power": lambda t: (
        t.counters.filter(pl.col("event_id").is_null())["unit"].is_in(["W", "mW"]).any()
    ),
    "snapshots": _rows("allocations", "allocator_events", "segments"),
    "allocations": _rows("allocations"),
    "history": _rows("allocator_events"),
    "segments": _rows("segments"),
    "dumps": _rows("recorded_collectives", "process_groups"),
    "nccl_records": lambda t: (
        t.recorded_collectives["recorder"].is_in(["nccl_inspector", "nccl_profiler"]).any()
    ),
    "nodes": _rows("nodes"),
    "compiled_kernels": _rows("compiled_kernels"),
    "several_ranks": lambda t: t.traces.height > t.traces["run"].n_unique(),
}
"""The same as `reasons.LACKING` says, by polars."""


def _two_ranks() -> Trace:
    """A collective of gloo on each of two ranks, at the same time."""
    rows = (event("gloo:all_reduce", 10, 30), event("aten::mm", 40, 50))
    return together(loaded(*rows, rank=0), loaded(*rows, rank=1))


def _snapshot() -> Trace:
    block: dict[str, object] = {"segment_id": 0, "device": 0, "address": 0, "bytes": 512}
    return stored(
        traces=[{"format": "memory snapshot"}],
        segments=[block],
        allocations=[block | {"allocation_id": 0, "alloc_event_id": 0}],
        allocator_events=[{"allocator_event_id": 0, "action": "alloc", "bytes": 512, "device": 0}],
    )


TRACES: Final[Mapping[str, Callable[[], Trace]]] = {
    "example of a device": lambda: profframe.load(GPU),
    "example of the host": lambda: profframe.load(CPU),
    "its kernels alone": lambda: profframe.load(GPU).filter(kinds="kernel"),
    "its host alone": lambda: profframe.load(GPU).filter(kinds=["host_op", "python"]),
    "its second step": lambda: profframe.load(GPU).filter(steps=2).with_limits(timeout_s=60),
    "no moment of it": lambda: profframe.load(GPU).filter(start_ns=0, end_ns=1),
    "one op": lambda: loaded(event("aten::mm", 0, 10)),
    "two ranks": _two_ranks,
    "one of two ranks": lambda: _two_ranks().filter(ranks=1),
    "a snapshot": _snapshot,
    "a lock of Python": lambda: loaded(
        event("Waiting for GIL", 0, 10, category="NVTX"),
        event("Python GC", 20, 30, category="python_function"),
    ),
    "nothing": lambda: stored(traces=[{}]),
    "no trace": stored,
}


IN_EVERY_RUN: Final = (
    "example of the host", "its kernels alone", "one of two ranks", "a snapshot", "no trace",
)  # fmt: skip
"""One of each kind of reason; the others are long."""


@pytest.fixture(scope="module", params=few(TRACES, IN_EVERY_RUN))
def trace(request: pytest.FixtureRequest) -> Trace:
    return TRACES[request.param]()


@pytest.fixture(scope="module")
def answers(trace: Trace) -> dict[str, Any]:
    """All answers of the catalogue."""
    with trace.session() as asking:
        return {answer.name: asking.answer(answer.name) for answer in selects()}


def test_every_answer_says_what_it_needs() -> None:
    for answer in selects():
        reasons.check(answer)
        assert answer.recorded, answer.name
    recorded = find(sql_directory() / "inner" / "recorded.sql")
    assert {column.name for column in recorded.columns} == {*reasons.LACKING} == {*HAS}


def test_what_a_header_needs_is_known() -> None:
    lines = ("x: a.", "One row per a.", "needs: events", "recorded: wings", "a  BIGINT  a")
    text = "".join(f"-- {line}\n" for line in lines)
    with pytest.raises(AnswerError, match="'recorded:' names 'wings', which is not known"):
        reasons.check(parse(f"{text}SELECT 1 AS a", "x"))


@pytest.fixture(scope="module")
def has(trace: Trace) -> dict[str, bool]:
    """What is recorded."""
    return {name: bool(of(trace)) for name, of in HAS.items()}


def test_what_is_recorded_is_what_polars_says(trace: Trace, has: dict[str, bool]) -> None:
    row = trace.answer(sql_directory() / "inner" / "recorded.sql").row(0, named=True)
    assert row == has


def test_no_answer_has_rows_without_what_it_needs(
    has: dict[str, bool], answers: dict[str, Any]
) -> None:
    """Else the reason could be a guess."""
    for answer in selects():
        lacks = [names for names in answer.recorded if not any(map(has.__getitem__, names))]
        if lacks:
            assert not answers[answer.name].height, (answer.name, lacks)


def test_every_empty_answer_has_a_true_reason(trace: Trace, answers: dict[str, Any]) -> None:
    for name, frame in answers.items():
        if frame.height:
            assert frame.why_empty is None
            continue
        assert frame.why_empty is not None, name
        check_reason(trace, name, frame.why_empty)


def check_reason(trace: Trace, name: str, reason: str) -> None:
    """Hold a reason against the trace, by polars."""
    question, whole = find(name), _whole(trace)
    lacking = [f"no {reasons.LACKING[names[0]].what}" for names in question.recorded]
    if reason == "the trace is empty":
        assert _is_empty(trace)
        assert _is_empty(whole)
    elif reason == "the filter leaves nothing of the trace":
        assert _is_empty(trace)
        assert not _is_empty(whole)
    elif match := re.fullmatch(
        r"the filter leaves no row; there (?:is|are) (.+) rows? in .*", reason
    ):
        assert whole.answer(name).height == int(match[1].replace(",", ""))
    elif reason.startswith("the filter leaves no "):
        names = _named(question.recorded, reason.removeprefix("the filter leaves "))
        assert not any(HAS[need](trace) for need in names)
        assert any(HAS[need](whole) for need in names)
    elif any(reason.startswith(lack) for lack in lacking):
        names = _named(question.recorded, reason)
        assert not any(HAS[need](trace) or HAS[need](whole) for need in names)
    else:
        assert all(any(HAS[need](trace) for need in names) for names in question.recorded)
        assert not whole.answer(name).height
        grain = f"the trace has nothing to make a row of ({question.grain.rstrip('.')})"
        assert reason == (question.when_empty or grain)


def _named(recorded: tuple[tuple[str, ...], ...], reason: str) -> tuple[str, ...]:
    """What a reason says is lacking: all of it."""
    for names in recorded:
        if all(f"no {reasons.LACKING[need].what}" in reason for need in names):
            return names
    raise AssertionError(reason)


def _whole(trace: Trace) -> Trace:
    session = trace._session.unfiltered()
    return trace if session is None else Trace(session)


def _is_empty(trace: Trace) -> bool:
    names = {*schema.TABLES} - {"traces", "threads", "devices", "quality", "flows", "stacks"}
    return not any(getattr(trace, name).height for name in names)


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (
            lambda t: t.step_times(),
            "no profiler steps in this trace; record with schedule=, without",
        ),
        (lambda t: t.gaps(), "no device work (kernels, copies or fills) in this trace; record"),
        (lambda t: t.modules(), "no module calls in this trace; record with with_stack=True"),
        (lambda t: t.memory_peak(), "no memory records by the profiler and no allocations of a"),
        (lambda t: t.stragglers(), "no collectives, sends or receives in this trace; record ranks"),
        (lambda t: t.memory, "the table memory has no rows: no memory records by the profiler"),
        (
            lambda t: t.memory.sort("bytes").head(3),
            "the table memory has no rows: no memory records",
        ),
        (lambda t: t.sql("FROM counters"), "the table counters has no rows: no counters in this"),
        (
            lambda t: t.sql("SELECT name FROM events WHERE stack LIKE '%train%'"),
            "no row matches the query; events has 1 row; events.stack is NULL in all",
        ),
        (
            lambda t: t.sql("SELECT name FROM events WHERE name = 'x'"),
            "no row matches the query; events has 1 row",
        ),
        (lambda t: t.sql("SELECT 1 WHERE false"), "no row matches the query"),
        (
            lambda t: t.filter(kinds="kernel").step_times(),
            "no profiler steps in this trace; record with schedule=",
        ),
        (lambda t: t.filter(kinds="kernel").self_times(), "the filter leaves nothing of the trace"),
        (
            lambda t: t.filter(start_ns=50).sql("FROM events"),
            "the filter leaves no row of events; there is 1 row in the whole trace",
        ),
        (lambda t: t.filter(start_ns=50).with_limits("1GB").events, "the filter leaves no row of"),
        (
            lambda t: t.flame(top=1, min_share=0.5).filter(name="no such"),
            None,
        ),
    ],
)
def test_reasons(ask: Callable[[Trace], Any], reason: str | None) -> None:
    why = ask(loaded(event("aten::mm", 0, 10))).why_empty
    if reason is None:
        assert why is None
    else:
        assert str(why).startswith(reason)


def test_parameters_that_leave_nothing_are_the_reason() -> None:
    trace = loaded(event("aten::mm", 0, 10), counters=[{"name": "a", "time_ns": 1, "value": 1.0}])
    rows: Any = trace.counter_series(per="counter", name="no such")
    assert rows.why_empty == "no row with name='no such'; there is 1 row without it"


def test_names_near_those_that_no_row_has_are_told() -> None:
    module = event("nn.Module: Linear_0", 0, 10, category="python_function", python_module_id=0)
    rows: Any = loaded(module).modules(together=["Linaer*"])
    assert str(rows.why_empty).endswith("there is 1 row without it; near: 'nn.Module: Linear_0'")


def test_a_filter_of_a_filter_and_of_captured_work_knows_the_whole_trace() -> None:
    trace = loaded(event("ProfilerStep#1", 0, 90, category="user_annotation"), event("a", 5, 9))
    part = trace.filter(steps=1).filter(start_ns=5)
    rows: Any = part.step_times()
    assert rows.why_empty == ("the filter leaves no profiler steps; the whole trace has some")


def test_a_frame_without_rows_shows_why() -> None:
    rows: Any = loaded(event("aten::mm", 0, 10)).kernels()
    reason = "no kernels in this trace; record with activities="
    assert f"\nno rows: {reason}" in str(rows)
    assert str(rows) == repr(rows)
    assert f"<b>no rows</b>: {reason}" in rows._repr_html_()
    shown: list[str] = []

    class Printer:
        text = staticmethod(shown.append)

    rows._repr_pretty_(Printer(), False)
    assert f"no rows: {reason}" in shown[0]
    assert pl.DataFrame(rows).shape == (0, rows.width)


def test_a_store_that_is_gone_has_no_reason(tmp_path: Path) -> None:
    loaded(event("aten::mm", 0, 10)).to_parquet(tmp_path / "store")
    rows: Any = profframe.load(tmp_path / "store").kernels()
    for path in sorted((tmp_path / "store").rglob("*.parquet")):
        path.unlink()
    assert rows.why_empty is None
    assert "no rows" not in str(rows)


@pytest.mark.parametrize("arguments", [("answer", "kernels"), ("answer", "gaps", "--top", "3")])
def test_the_command_line_says_why(arguments: tuple[str, ...], run: Run) -> None:
    code, out, err = run(*arguments, CPU)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"no rows: no .+ in this trace; record with activities=.+\n", out)
    code, out, err = run(*arguments, CPU, "--format", "json")
    assert (code, out) == (0, "[]\n")
    assert err.startswith("note: no rows: no ")


def test_the_command_line_says_why_of_sql_and_filters(run: Run) -> None:
    assert run("sql", CPU, "FROM counters")[1].startswith("no rows: the table counters has no rows")
    shown = run("answer", "gaps", GPU, "--step", "2", "--columns", "dur_ns")[1]
    assert [line.strip() for line in shown.splitlines()[:2]][1] == "dur"
    assert run("answer", "counter_series", GPU, "-p", "name=x")[1].startswith(
        "no rows: no counters"
    )


def test_steps_keep_their_device_time_where_other_tables_are_filtered() -> None:
    trace = loaded(
        event("ProfilerStep#1", 0, 90, category="user_annotation"),
        event("cudaLaunchKernel", 5, 9, category="cuda_runtime", correlation=1),
        event("a", 20, 60, category="kernel", correlation=1, device=0, stream=7),
    )
    host = trace.filter(kinds=["annotation", "runtime"])
    for name in ("time_breakdown", "step_communication"):
        assert host.answer(name).select("step", "compute_ns").rows() == [(1, 40)], name
    none: Any = loaded(event("aten::mm", 0, 10)).time_breakdown()
    assert none.why_empty.startswith(
        "no device work (kernels, copies or fills) in this trace; record with activities="
    )
