"""Each fact reads and gives what it declares; what follows from that runs side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from profframe import schema
from profframe.facts import pipeline
from profframe.facts.fact import Fact, Output, Tables, any_of, columns, fact, with_output
from profframe.facts.graph_captures.attribution import CaptureSource, attribute_replays
from profframe.facts.kinds import kinds
from profframe.facts.launching_ops import launches
from profframe.facts.pipeline import FACTS, add_facts, facts_of
from profframe.readers.provenance import CompiledGraph, CompiledKernel
from profframe.readers.reading import read
from profframe.system.disk_tables import Spool
from tests.builders import event, tables
from tests.graphs import capture, replay
from tests.members import few
from tests.property.test_facts import SOURCES

EXAMPLES = ("gpu_training", "cpu_training", "cpu_training_stack")
REAL = (
    "AMD-AGI__TraceLens/normalization_layer_test.json.gz",
    "facebookresearch__HolisticTraceAnalysis/cupti_profiler_benchmark_result.json.gz",
    "GindaChen__nsys-ai/mock.sqlite",
)
COMPATS = (None, "torch")
NAMES = ("gemm", "act")
GRAPHS = [CompiledGraph("0/0", None, None, "", (CompiledKernel("gemm", 1),))]
OF_READERS = {f"{table}.{name}" for table, names in schema.READER_COLUMNS.items() for name in names}


def made_up() -> Tables:
    """Slices for what the examples lack: graphs, arrows, frames, overloads, and a source's sums."""
    flows = [
        {"category": category, "flow_id": "1", "phase": phase, "time_ns": time, "thread": thread}
        for category, start, end in (
            ("fwdbwd", (12, 0), (42, 1)),
            ("async_npu", (12, 0), (60, 2)),
            ("cpu_to_cuda", (12, 0), (60, 2)),
        )
        for phase, (time, thread) in (("s", start), ("f", end))
    ]
    step: dict[str, Any] = {"category": "user_annotation", "external_id": 9, "is_legacy": True}
    source = tables(
        event("ProfilerStep#1", 0, 100, **step),
        event("main", 1, 90, category="python_function"),
        event("## graph.py ##", 5, 40),
        event("## 1 ##", 10, 35),
        event("aten::mm.out", 12, 30, sequence_nr=3, stack="a;b", node_id=1),
        event("autograd::engine::evaluate_function: Mm", 41, 59, thread=1),
        event("Mm", 42, 58, thread=1, sequence_nr=3, fwd_thread=1, is_async=False),
        event("k", 60, 70, category="kernel", thread=2, device=0),
        event("range", 60, 70, category="gpu_user_annotation", thread=2, device=0),
        flows=flows,
        memory=[{"time_ns": 13, "bytes": 8, "device_type": "CPU", "thread": 0}],
        devices=[{"device": 0, "name": "NVIDIA T4"}],
        header={"profiler_flags": '{"with_flops": 1}'},
    )
    events = source["events"]
    for name in ("kernel_ns", "given_flops", "given_bytes", "cpu_bytes", "device_bytes"):
        events = events.append_column(name, pa.array([0] * events.num_rows, pa.int64()))
    events = events.append_column("named_by", pa.nulls(events.num_rows, pa.int64()))
    return {**source, "events": events}


def counted() -> Tables:
    """Slices that wait, and one that counted, for what the others lack, too."""
    call: dict[str, Any] = {"category": "cuda_runtime", "correlation": 5}
    line: dict[str, Any] = {"thread": 2, "device": 0, "stream": 7}
    wait: dict[str, Any] = {"sync_kind": "Stream Wait Event", "wait_on_correlation": 5}
    return tables(
        event("aten::mm", 0, 9),
        event("cudaEventRecord", 1, 2, **call),
        event("k", 3, 8, category="kernel", **line),
        event("wait", 4, 5, category="cuda_sync", **wait, **line),
        event("sync", 6, 7, category="cuda_sync", sync_kind="Stream Sync", **line),
        event("range", 10, 12, category="cuda_profiler_range", thread=3),
        counters=[{"event_id": 5, "name": "range", "series": "a", "time_ns": 10, "thread": 3}],
    )


def served() -> Tables:
    """A step of inference, whose graph the devices run."""
    call: dict[str, Any] = {"category": "cuda_runtime", "correlation": 5}
    line: dict[str, Any] = {"thread": 2, "device": 0, "stream": 7}
    return tables(
        event("step[DECODE bs=2]", 0, 9, category="user_annotation"),
        event("cudaGraphLaunch", 1, 2, **call),
        event("k", 3, 8, category="kernel", correlation=5, **line),
        event("step[DECODE bs=2 g_sq=2 g_sk=9 g_sqsq=2 g_sqsk=9]", 10, 19,
              category="user_annotation"),
        event("vllm::unified_attention", 12, 13, input_dims="[[2,4,8],[2,2,8],[2,2,8]]",
              input_types='["float","float","float"]'),
        event("cudaStreamSynchronize", 11, 12, **call | {"correlation": 6}),
        event("sync", 11, 12, category="cuda_sync", sync_kind="Stream Sync", correlation=6, **line),
        event("cudaGraphLaunch", 13, 14, **call | {"correlation": 7}),
        event("k", 6, 15, category="kernel", correlation=7, thread=3, device=0, stream=8),
    )  # fmt: skip


def shown() -> Tables:
    """The same, of which only the devices were recorded."""
    line: dict[str, Any] = {"thread": 2, "device": 0, "stream": 7}
    return tables(
        event("step[DECODE bs=2]", 0, 9, category="gpu_user_annotation", **line),
        event("k", 3, 8, category="kernel", **line),
    )


def ahead() -> Tables:
    """Two steps, the second of which waits for a copy of the first."""
    mark: dict[str, Any] = {"category": "user_annotation"}
    call: dict[str, Any] = {"category": "cuda_runtime"}
    line: dict[str, Any] = {"thread": 2, "device": 0}
    return tables(
        event("ProfilerStep#1", 0, 10, **mark),
        event("cudaMemcpyAsync", 1, 2, correlation=1, **call),
        event("ProfilerStep#2", 10, 20, **mark),
        event("cudaLaunchKernel", 11, 12, correlation=2, **call),
        event("cudaStreamWaitEvent", 12, 13, correlation=3, **call),
        event("copy", 3, 30, category="gpu_memcpy", correlation=1, stream=8, **line),
        event("k", 13, 15, category="kernel", correlation=2, stream=7, **line),
        event(
            "Stream Wait Event", 13, 14, category="cuda_sync", correlation=3, stream=7,
            wait_on_stream=8, **line,
        ),
    )  # fmt: skip


def ranges() -> Tables:
    """A launch whose kernel is a slice that counted."""
    return tables(
        event("cudaLaunchKernel", 1, 2, category="cuda_runtime", correlation=5),
        event("range", 10, 12, category="cuda_profiler_range", thread=3),
        counters=[{"event_id": 1, "name": "range", "series": "a", "time_ns": 10, "thread": 3}],
    )


def lossy() -> Tables:
    """Work without a call, without a correlation or before its call, and calls without work."""
    line: dict[str, Any] = {"category": "kernel", "thread": 2, "device": 0, "stream": 7}
    call: dict[str, Any] = {"category": "cuda_runtime"}
    return tables(
        event("ProfilerStep#1", 0, 90, category="user_annotation"),
        event("cudaStreamBeginCapture", 1, 2, **call),
        event("cudaLaunchKernel", 3, 4, correlation=1, **call),
        event("cudaStreamEndCapture", 5, 6, **call),
        event("cudaLaunchKernel", 10, 11, correlation=2, **call),
        event("cudaLaunchKernel", 20, 21, correlation=3, **call),
        event("cudaLaunchKernel", 30, 31, correlation=3, **call),
        event("cudaLaunchKernel", 50, 51, correlation=4, **call),
        event("cudaMemcpyAsync", 60, 61, correlation=5, **call),
        event("over", 24, 99, correlation=2, **line),
        event("k", 25, 28, correlation=3, **line),
        event("k", 45, 48, correlation=4, **line),
        event("copy", 70, 75, **line | {"category": "gpu_memcpy"}),
    )


def frames() -> Tables:
    """Python frames, one of which outlives its caller, and one that another thread called."""
    frame: dict[str, Any] = {"category": "python_function"}
    return tables(
        event("main", 0, 90, python_id=1, node_id=0, **frame),
        event("step", 10, 40, python_id=2, python_parent_id=1, node_id=0, **frame),
        event("lost", 20, 80, python_id=3, python_parent_id=2, node_id=0, **frame),
        event("aten::mm", 25, 30, node_id=0),
        event("hook", 20, 30, python_id=4, python_parent_id=2, thread=1, node_id=0, **frame),
    )


def without_numbers() -> Tables:
    """The same without External ids, and with FLOPs of the source's own."""
    source = made_up()
    events = source["events"]
    nothing = pa.nulls(events.num_rows, pa.int64())
    events = events.set_column(events.column_names.index("external_id"), "external_id", nothing)
    return {**source, "events": events.append_column("torch_flops", nothing)}


@pytest.fixture(scope="module")
def sources(root: Path) -> Mapping[str, Tables]:
    files = {name: read(root / "examples" / f"{name}.json.gz").tables for name in EXAMPLES}
    made = {"made up": made_up(), "without numbers": without_numbers(), "counted": counted()}
    made["replays"] = tables(*replay(NAMES))
    made |= {"served": served(), "shown": shown(), "ahead": ahead(), "lossy": lossy()}
    made["ranges"] = ranges()
    made["frames"] = frames()
    made["dependencies"] = read(root / "tests" / "data" / "cuspy" / "rich_deps.json").tables
    return files | made


def only(source: Tables, names: Iterable[str]) -> Tables:
    """Tables with these columns alone."""
    chosen = defaultdict(list)
    for name in names:
        table, _, column = name.partition(".")
        if column in source[table].column_names:
            chosen[table].append(column)
    return {table: source[table].select(kept) for table, kept in chosen.items()}


def assert_declared(
    source: Tables, compat: str | None, captures: Sequence[CaptureSource] = ()
) -> None:
    """Each fact makes of its inputs alone what the pipeline makes of everything."""
    whole = add_facts(source, compat=compat, captures=captures)
    made = source
    for each in facts_of(compat):
        output = each.compute(only(made, each.inputs))
        assert set(output.columns) in (set(), each.outputs)
        for name, values in output.columns.items():
            table, _, column = name.partition(".")
            if whole[table].num_rows == len(values):  # not yet, before those of captures
                assert whole[table][column].to_pylist() == values.to_pylist(), name
        if each.needs is not None and not each.needs.met(made):
            assert not output.notes
            output = each.output(made)
        made = with_output(made, output)
        if each.outputs == launches.outputs:
            made = attribute_replays(made, captures)
    assert whole["quality"].equals(made["quality"])
    assert {t: sorted(whole[t].column_names) for t in whole} == {
        t: sorted(made[t].column_names) for t in made
    }


@pytest.mark.parametrize("compat", COMPATS)
@pytest.mark.parametrize(
    "name",
    [
        *EXAMPLES,
        "made up",
        "without numbers",
        "counted",
        "served",
        "shown",
        "frames",
        "dependencies",
    ],
)
def test_a_fact_needs_its_inputs_alone_and_gives_its_outputs(
    name: str, compat: str | None, sources: Mapping[str, Tables]
) -> None:
    assert_declared(sources[name], compat)


@pytest.mark.parametrize("compat", COMPATS)
def test_so_it_does_with_the_rows_of_captures(
    compat: str | None, sources: Mapping[str, Tables]
) -> None:
    assert_declared(sources["replays"], compat, [capture(NAMES)])


@pytest.mark.parametrize("compat", few(COMPATS, 3))
@pytest.mark.parametrize("name", REAL)
def test_so_it_does_for_real_traces(name: str, compat: str | None, traces: Path) -> None:
    assert_declared(read(traces / name).tables, compat)


@given(SOURCES)
def test_so_it_does_for_random_traces(source: Tables) -> None:
    for compat in COMPATS:
        assert_declared(source, compat)


class Recorded:
    """A table that notes which of its columns are read."""

    def __init__(self, name: str, table: pa.Table, seen: set[str]) -> None:
        self._name, self._table, self._seen = name, table, seen

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        self._seen.add(f"{self._name}.{column}")
        return self._table[column]

    def __getattr__(self, name: str) -> Any:
        if name in {"select", "to_pylist"}:
            self._seen |= {f"{self._name}.{column}" for column in self._table.column_names}
        return getattr(self._table, name)


def test_a_fact_reads_each_of_its_inputs_and_gives_each_output(
    sources: Mapping[str, Tables],
) -> None:
    seen: dict[Fact, set[str]] = defaultdict(set)
    outputs: dict[Fact, set[str]] = defaultdict(set)
    for compat in COMPATS:
        for source in sources.values():
            made = source
            for each in facts_of(compat):
                inputs = only(made, each.inputs).items()
                recorded: Any = {name: Recorded(name, rows, seen[each]) for name, rows in inputs}
                given = {"provenance": GRAPHS} if "provenance" in each.options else {}
                output = each.compute(recorded, **given)
                outputs[each] |= set(output.columns)
                made = with_output(made, output)
                if each.outputs == launches.outputs:
                    made = attribute_replays(made, [capture(NAMES)])
    unread = {each.compute.__name__: each.inputs - names for each, names in seen.items()}
    assert {name: names for name, names in unread.items() if names} == {}
    assert outputs == {each: each.outputs for each in seen}


def test_every_column_of_a_fact_is_given_by_one() -> None:
    """But ``dur_ns``, which one fact takes from Python frames, and another one from device work.

    And ``stack``, which compiled kernels have from elsewhere.
    """
    names = [name for each in FACTS for name in each.outputs]
    assert len(names) == len(set(names)) + 2
    assert names.count("events.dur_ns") == names.count("events.stack") == 2
    declared = {f"{table.name}.{name}" for table in schema.TABLES.values() for name in table.names}
    assert set(names) <= declared
    keys = {f"{table}.{key}" for table in schema.TABLES for key in ("run", "rank")}
    of_captures = {"events.replays"}
    assert declared - OF_READERS - keys - of_captures == set(names) - OF_READERS


def test_a_fact_that_does_not_apply_gives_nulls_and_does_not_run() -> None:
    ran = []

    @fact(columns(events="kind name"), columns(events="step name"), needs=any_of(kinds=["kernel"]))
    def first(_: Tables) -> Output:
        ran.append("first")
        return Output()

    host: Tables = {**tables(event("aten::mm", 0, 9)), "flows": pa.table({"time_ns": [None]})}
    host = kinds(host)
    made = first(host)
    assert made["events"]["step"].to_pylist() == [None]
    assert made["events"]["name"].to_pylist() == ["aten::mm"]
    assert ran == []
    first(kinds(tables(event("k", 0, 9, category="kernel", device=0))))
    assert ran == ["first"]
    assert not any_of(flows="time_ns", memory="bytes", events="absent").met(host)
    assert any_of(flows="time_ns", events="name").met(host)


def test_needs_are_among_the_inputs() -> None:
    for each in {*facts_of(), *facts_of("torch")}:
        if each.needs is not None:
            assert each.needs.values <= each.inputs
            assert not each.needs.kinds or "events.kind" in each.inputs


@pytest.mark.parametrize("compat", COMPATS)
def test_a_fact_is_after_those_that_it_reads(compat: str | None) -> None:
    facts = facts_of(compat)
    for place, each in enumerate(facts):
        later = {name for other in facts[place + 1 :] for name in other.outputs}
        assert each.inputs & later <= OF_READERS


def test_facts_conflict_where_one_gives_what_the_other_reads_or_gives() -> None:
    def declared(inputs: str, outputs: str) -> Fact:
        return fact(columns(events=inputs), columns(events=outputs))(lambda _: Output())

    first = declared("name start_ns", "kind")
    for inputs, outputs, conflicts in (
        ("kind", "step", True),
        ("pid", "name", True),
        ("pid", "kind", True),
        ("name", "step", False),
    ):
        assert declared(inputs, outputs).conflicts_with(first) is conflicts


@pytest.mark.parametrize("compat", COMPATS)
@pytest.mark.parametrize("name", ["gpu_training", "made up"])
def test_whatever_runs_beside_the_others_the_facts_are_the_same(
    name: str, compat: str | None, sources: Mapping[str, Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = add_facts(sources[name], compat=compat)
    monkeypatch.setattr(pipeline, "FEW", 0)
    for beside in (facts_of(compat), facts_of(compat)[::2], facts_of(compat)[1::2], ()):
        monkeypatch.setattr(pipeline, "PARALLEL", frozenset(beside))
        made = add_facts(sources[name], compat=compat)
        for table, rows in expected.items():
            assert made[table].select(rows.column_names).equals(rows) or table == "quality"
            assert sorted(made[table].column_names) == sorted(rows.column_names)
        notes = (sorted(t["quality"]["issue"].to_pylist()) for t in (made, expected))
        assert next(notes) == next(notes)


def on_disk(source: Tables, folder: Path) -> Tables:
    spool = Spool(folder)
    return {**source, "events": spool.table([source["events"]])}


def test_on_disk_nothing_runs_beside_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pipeline, "ThreadPoolExecutor", NoThreads)
    monkeypatch.setattr(pipeline, "FEW", 0)
    with pytest.raises(RuntimeError, match="threads"):
        add_facts(made_up())
    assert add_facts(on_disk(made_up(), tmp_path))["events"].num_rows == 9


def test_with_few_slices_nothing_runs_beside_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "ThreadPoolExecutor", NoThreads)
    assert add_facts(made_up())["events"].num_rows == 9
    monkeypatch.setattr(pipeline, "FEW", 8)
    with pytest.raises(RuntimeError, match="threads"):
        add_facts(made_up())


class NoThreads(ThreadPoolExecutor):
    def submit(self, *_: object, **__: object) -> Future[Any]:
        raise RuntimeError("threads")


def test_arrows_in_pieces_have_the_ends_of_all_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = read(root / "examples" / "cpu_training.json.gz").tables
    whole = add_facts(raw)["flows"]["event_id"]
    monkeypatch.setattr("profframe.facts.flow_ends._PIECE", 7)
    assert whole.null_count < len(whole) > 7
    assert add_facts(raw)["flows"]["event_id"].equals(whole)
