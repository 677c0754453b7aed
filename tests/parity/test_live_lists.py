"""Lists of torch's events, profilers that hold none, and what else a person may hand over."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe import ParameterError, SourceError
from tests import needs
from tests.parity.comparing import Ours
from tests.parity.profiles import SCENARIOS, Library

torch = needs.torch()
FunctionEvent = torch.autograd.profiler_util.FunctionEvent
EventList = torch.autograd.profiler_util.EventList
CUDA = torch.autograd.DeviceType.CUDA

AS_IN_THE_PROFILE: Final = (
    "kind", "category", "dur_ns", "pid", "tid", "device", "stream", "correlation", "external_id",
    "sequence_nr", "fwd_thread", "scope", "overload_name", "is_async", "is_remote", "is_legacy",
    "node_id", "python_id", "python_parent_id", "python_module_id", "input_dims", "input_types",
    "input_strides", "concrete_inputs", "stack", "torch_flops",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted({*SCENARIOS} - {"deep_recursion"}))
def test_an_event_list_has_what_its_profile_has(name: str, profiles: Library) -> None:
    taken = profiles[name]
    of_list = taken.loaded("events", taken.compat)
    of_profile = Ours(taken.loaded("profiler", "torch"))
    rows = sorted(of_list.events.to_dicts(), key=lambda r: (r["start_ns"], -r["dur_ns"]))
    own = of_profile.own("self_ns")
    origin = taken.results.trace_start_ns()
    for mine, its in zip(rows, of_profile.kept, strict=True):
        no_thread = {"pid": "0"} if its["tid"] == "0" else {}  # torch's list knows no process of it
        expected = its | no_thread
        assert [mine[column] for column in AS_IN_THE_PROFILE] == [
            expected[column] for column in AS_IN_THE_PROFILE
        ]
        assert mine["start_ns"] + origin == its["start_ns"]
        assert (mine["self_ns"] or 0) == own[its["event_id"]]
        for column in ("cpu_bytes", "device_bytes"):
            assert (mine[column] or 0) == (its[column] or 0)
    assert of_list.memory["op_id"].null_count() == len(of_list.memory)
    assert of_list.traces.select("format", "clock").rows() == [("torch", "relative")]


def event(name: str, start: float | None, end: float, **more: Any) -> Any:
    """An event by hand; times in microseconds."""
    number = more.pop("id", 0)
    return FunctionEvent(
        number, name, more.pop("thread", 1), start, end, input_shapes=[], stack=[], **more
    )


def select(trace: profframe.Trace, *columns: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = trace.events.select(columns).rows()
    return rows


def test_events_by_hand_nest_by_thread() -> None:
    trace = profframe.load(
        [
            event("inner", 1, 2.5),
            event("outer", 0, 10),
            event("elsewhere", 1, 2, thread=2),
            event("started elsewhere", 3, 4, is_async=True),
        ]
    )
    assert select(trace, "name", "start_ns", "dur_ns", "parent_id", "self_ns") == [
        ("inner", 1000, 1500, 1, 1500),
        ("outer", 0, 10_000, None, 8500),
        ("elsewhere", 1000, 1000, None, 1000),
        ("started elsewhere", 3000, 1000, None, None),
    ]
    assert trace.traces.select("run", "source", "clock").rows() == [
        ("live", "live list of FunctionEvent", "relative")
    ]


def test_torchs_own_numbers_are_those_of_its_properties() -> None:
    """Kernels that torch has already linked, where no slice stands for them."""
    outer, inner = event("outer", 0, 100, use_device="cuda"), event("inner", 10, 50)
    outer.append_kernel("first", 0, 30.5)
    inner.append_kernel("second", 0, 20)
    inner.append_kernel("third", 0, 0.25)
    trace = profframe.load([outer, inner])
    assert select(trace, "name", "device_ns", "self_device_ns") == [
        ("outer", 50_750, 30_500),
        ("inner", 20_250, 20_250),
    ]


def legacy(name: str, start: float, end: float, device_us: float, **more: Any) -> Any:
    """An event of the profiler before Kineto: its one kernel is all its device time."""
    one = event(name, start, end, is_legacy=True, use_device="cuda", **more)
    one.append_kernel(name, 0, device_us)
    return one


def test_the_one_kernel_of_a_legacy_event_is_its_device_time() -> None:
    events = EventList(
        [
            legacy("outer", 0, 100, 90),
            legacy("middle", 10, 50, 35),
            legacy("inner", 20, 30, 9),
            legacy("second", 60, 70, 5),
        ],
        use_device="cuda",
    )
    trace = profframe.load(events)
    events._build_tree()
    assert select(trace, "name", "is_legacy", "device_ns", "self_device_ns") == [
        ("outer", True, 90_000, 50_000),
        ("middle", True, 35_000, 26_000),
        ("inner", True, 9_000, 9_000),
        ("second", True, 5_000, 5_000),
    ]
    assert [(e.device_time_total, e.self_device_time_total) for e in events] == [
        (90, 50), (35, 26), (9, 9), (5, 5),
    ]  # fmt: skip


def test_the_profiler_before_kineto() -> None:
    from torch.autograd import profiler_legacy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        with profiler_legacy.profile(record_shapes=True, profile_memory=True) as taken:
            x = torch.ones(4, 4, requires_grad=True)
            (x @ x).sum().backward()
    theirs = [one for one in taken.function_events if one.name != "[memory]"]
    for source in (taken, taken.function_events):
        trace = profframe.load(source)
        own = {row["event_id"]: row["self_ns"] for row in trace.events.to_dicts()}
        for row in trace.events.filter(pl.col("merged_into").is_not_null()).to_dicts():
            own[row["merged_into"]] += own[row["event_id"]]
        kept = trace.events.filter(pl.col("merged_into").is_null()).to_dicts()
        assert set(trace.events["is_legacy"]) == {True}
        assert [(row["name"], row["dur_ns"], own[row["event_id"]]) for row in kept] == [
            (
                one.name,
                round(one.time_range.end * 1000) - round(one.time_range.start * 1000),
                round(one.self_cpu_time_total * 1000),
            )
            for one in theirs
        ]


def test_device_slices_of_a_list_are_linked() -> None:
    device = {"device_type": CUDA, "device_index": 1, "device_resource_id": 7, "thread": 7}
    events = [
        event("aten::mm", 0, 100, id=5, activity_type="cpu_op", device_resource_id=900),
        event(
            "cudaLaunchKernel", 10, 20, id=71, activity_type="cuda_runtime",
            device_resource_id=900, linked_correlation_id=5,
        ),
        event(
            "sgemm", 30, 60, id=71, activity_type="kernel", linked_correlation_id=5, **device
        ),
        event("Memcpy HtoD", 60, 61, id=72, **device),
        event("region", 30, 61, id=9, is_user_annotation=True, **device),
    ]  # fmt: skip
    trace = profframe.load(EventList(events, use_device="cuda"))
    assert select(trace, "name", "kind", "device", "stream", "op_id", "device_ns") == [
        ("aten::mm", "host_op", None, None, None, 30_000),
        ("cudaLaunchKernel", "runtime", None, None, None, 0),
        ("sgemm", "kernel", 1, 7, 0, 30_000),
        ("Memcpy HtoD", "memcpy", 1, 7, None, 1_000),
        ("region", "device_annotation", 1, 7, None, 31_000),
    ]
    assert trace.traces["device_type"].to_list() == ["CUDA"]


def test_records_of_a_list() -> None:
    events = [
        event("aten::empty", 0, 5, cpu_memory_usage=64, device_memory_usage=-8),
        event("[memory]", 7, 7, cpu_memory_usage=-64),
        event("[memory]", 8, 8, device_memory_usage=512),
        event("[OutOfMemory]", 9, 9),
    ]
    trace = profframe.load(EventList(events, use_device="xpu", profile_memory=True))
    assert select(trace, "name", "cpu_bytes", "device_bytes") == [("aten::empty", 64, -8)]
    assert trace.memory.select("time_ns", "bytes", "device_type", "op_id").rows() == [
        (7000, -64, "CPU", None),
        (8000, 512, "XPU", None),
    ]
    assert trace.instants.select("name", "time_ns").rows() == [("[OutOfMemory]", 9000)]


def test_events_of_other_nodes_nest_apart() -> None:
    trace = profframe.load(
        [
            event("here", 0, 9),
            event("there", 1, 8, node_id=2, is_remote=True),
            event("there too", 2, 3, node_id=2, is_remote=True),
        ]
    )
    assert select(trace, "name", "node_id", "is_remote", "parent_id", "tid") == [
        ("here", None, False, None, "1"),
        ("there", 2, True, None, "node_id:2, thread_id:1"),
        ("there too", 2, True, 1, "node_id:2, thread_id:1"),
    ]


def test_times_that_cannot_be() -> None:
    trace = profframe.load(
        [event("never", None, 3), event("endless", 1, float("inf")), event("back", 9, 3)]
    )
    assert select(trace, "name", "start_ns", "dur_ns") == [
        ("never", None, None),
        ("endless", 1000, None),
        ("back", 9000, None),
    ]
    assert {"impossible_time", "impossible_duration", "negative_duration"} <= {
        *trace.quality["issue"]
    }


def test_fields_of_another_type_are_refused() -> None:
    for broken in (event("f", 0, 1, id="first"), event("f", 0, 1, scope=None)):
        with pytest.raises(
            ParameterError, match="a FunctionEvent has a value that torch's own never have"
        ):
            profframe.load([broken])


def test_events_without_names_or_shapes() -> None:
    bare = FunctionEvent(1, None, 1, 0, 2)
    odd = event("odd", 3, 4, structured_input_shapes=[[1, torch.Size([2])]], device_type=CUDA)
    trace = profframe.load([bare, odd])
    assert select(trace, "name", "kind", "input_dims", "stack") == [
        (None, "host_op", None, None),
        ("odd", "kernel", "[[1,[2]]]", None),
    ]


def test_an_empty_list_of_events_is_an_empty_trace() -> None:
    trace = profframe.load(EventList())
    assert len(trace.events) == 0
    assert trace.quality["issue"].to_list() == ["no_events"]


def averages() -> Any:
    events = EventList([event("f", 0, 1), event("f", 2, 3)])
    events._build_tree()
    return events.key_averages()


def test_averages_are_refused() -> None:
    for given in (averages(), list(averages())):
        with pytest.raises(ParameterError, match=r"element 0 is an average.*its \.events"):
            profframe.load(given)
    with pytest.raises(ParameterError, match="element 1 is an average"):
        profframe.load([event("f", 0, 1), *averages()])
    with pytest.raises(ParameterError, match="element 1 is a str, not a FunctionEvent"):
        profframe.load([event("f", 0, 1), "trace.json"])


def test_one_event_or_average_is_no_list() -> None:
    for given in (event("f", 0, 1), averages()[0]):
        with pytest.raises(ParameterError, match="a list of"):
            profframe.load(given)


def unfinished() -> Iterator[Any]:
    yield torch.profiler.profile()
    yield torch.autograd.profiler.profile()
    yield torch.autograd.profiler.profile(enabled=False)


def test_a_profile_without_events_is_refused() -> None:
    for profiler in unfinished():
        with pytest.raises(SourceError, match="it is still running, or never ran"):
            profframe.load(profiler)


def test_a_running_profile_is_refused_and_runs_on() -> None:
    with torch.profiler.profile() as profiler:
        torch.ones(2)
        with pytest.raises(SourceError, match="still running"):
            profframe.load(profiler)
        torch.ones(3)
    assert profframe.load(profiler).events["name"].to_list().count("aten::ones") == 2


def test_a_cycle_may_be_loaded_when_it_is_ready() -> None:
    loaded = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2),
            on_trace_ready=lambda profiler: loaded.append(profframe.load(profiler)),
        ) as profiler:
            for size in range(4):
                torch.ones(size)
                profiler.step()
    names = [set(trace.events["name"]) for trace in loaded]
    assert ["ProfilerStep#1" in one for one in names] == [True, False]
    assert ["ProfilerStep#3" in one for one in names] == [False, True]


def test_events_of_all_cycles_are_in_the_list() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2), acc_events=True
        ) as profiler:
            for size in range(4):
                torch.ones(size)
                profiler.step()
    events = profiler.events()
    assert len(profframe.load(events).events) == len(events) > len(profframe.load(profiler).events)


def test_a_trace_only_profile_has_its_events() -> None:
    from torch._C._profiler import _ExperimentalConfig

    with torch.profiler.profile(
        experimental_config=_ExperimentalConfig(trace_only=True)
    ) as profiler:
        torch.ones(2).add(1)
    events = profframe.load(profiler).events
    assert {"aten::ones", "aten::add"} <= set(events["name"])
    assert events.filter(pl.col("name") == "aten::add")["self_ns"].to_list() > [0]


def test_a_live_profile_has_the_rank_of_its_process() -> None:
    distributed = torch.distributed
    with torch.profiler.profile() as profiler:
        torch.ones(2)
    named = profframe.load(profiler).traces.select("run", "rank", "rank_source", "world_size")
    assert named.rows() == [("live", 0, "assumed", None)]
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        in_job = profframe.load(profiler).traces
        given = profframe.load(profiler, run="night", rank=3).traces
    finally:
        distributed.destroy_process_group()
    assert in_job.select("rank_source", "world_size", "backend").rows() == [
        ("distributedInfo", 1, "gloo")
    ]
    assert given.select("run", "rank", "rank_source").rows() == [("night", 3, "argument")]


def test_a_cache_is_for_files(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"cache works only for files.*to_parquet"):
        profframe.load([event("f", 0, 1)], cache=tmp_path)


def test_other_objects_of_torch_are_no_sources() -> None:
    for other in (torch.ones(2), torch.autograd.profiler.emit_nvtx(), torch.profiler.schedule):
        with pytest.raises(ParameterError, match="a source is"):
            profframe.load(other)


def test_a_live_profile_goes_into_a_store_and_back(profiles: Library, tmp_path: Path) -> None:
    trace = profframe.load(profiles["training"].profiler, run="night")
    trace.to_parquet(tmp_path / "store")
    back = profframe.load(tmp_path / "store")
    for name in trace.tables:
        assert back.tables[name].to_pylist() == trace.tables[name].to_pylist()
