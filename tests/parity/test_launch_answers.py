"""``launches``, ``op_kernels`` and ``sequences`` against plain loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe import Trace
from tests.conftest import only_real_trace
from tests.members import few
from tests.oracles import launching
from tests.oracles.launching import Row
from tests.parity.launch_tables import answer, events_of, named, on

HOST: Final = ("cpu_op", "cpu_op", "python_function", "user_annotation")
CALLS: Final = ("cuda_runtime", "cuda_runtime", "cuda_driver")
DEVICE: Final = ("kernel", "kernel", "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
NAMES: Final = ("f", "f", "g", "ProfilerStep#1", "ProfilerStep#2", "%_'\"\\;--", None)
PLACE: Final = st.integers(0, 40) | st.none()
Oracle = Callable[..., list[tuple[Any, ...]]]
ORACLES: Final[Mapping[str, Oracle]] = {
    "launches": launching.launches,
    "op_kernels": launching.op_kernels,
    "sequences": launching.sequences,
}
REAL: Final = (
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    "AMD-AGI__TraceLens/inference/vllm_piecewise_graph_execution.json.gz",
    "AMD-AGI__TraceLens/inference/*B300*DECODE*.json.gz",
    "AMD-AGI__TraceLens/inference/*MI300*DECODE*.json.gz",
    "AMD-AGI__TraceLens/h100/Qwen1.5-0.5B-Chat.json.gz",
    "AMD-AGI__TraceLens/mi300/Falconsai_nsfw_image_detection.json.gz",
    "facebookresearch__HolisticTraceAnalysis/mtia/mtia_inference_rank_0.json.gz",
    "harryjmoss__particle_transformer/batch_size_64/*503264977721.pt.trace.json.gz",
    "facebookresearch__param/dlrm_kineto/worker0_step_12.*.json.gz",
    "pytorch-labs__segment-anything-fast/amg_example_trace.*.json.gz",
    "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank0/trace_view.json.gz",
    "bwyogatama__Mordred-Deprecated/report1.*.sqlite",
    "GindaChen__nsys-ai/h100_2gpu_1s.sqlite",
    "josiahdavis__profiling-lm/net.37e6fa.sql",
)


@st.composite
def slices(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(["host", "call", "call", "device", "device"]))
    start, dur = draw(PLACE), draw(st.integers(0, 20) | st.none())
    name = draw(st.sampled_from(NAMES))
    correlation = draw(st.none() | st.integers(1, 5))
    if kind == "device":
        place = {"pid": "0", "thread": 8, "device": 0, "stream": 7}
        category = draw(st.sampled_from(DEVICE))
        return on(category, start, dur, name, correlation=correlation, **place)
    thread = draw(st.integers(0, 1))
    if kind == "call":
        category = draw(st.sampled_from(CALLS))
        return on(category, start, dur, name, correlation=correlation, thread=thread)
    dims = draw(st.sampled_from(["[[1]]", "[[2]]", None]))
    return on(draw(st.sampled_from(HOST)), start, dur, name, input_dims=dims, thread=thread)


def rows_of(events: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = events.select(launching.COLUMNS).to_pylist()
    return rows


PARAMETERS: Final = st.one_of(
    st.fixed_dictionaries(
        {"outlier_call_ns": st.integers(0, 9), "outlier_delay_ns": st.integers(0, 9)}
    ).map(lambda given_: ("launches", given_)),
    st.fixed_dictionaries({"group_by_input_shape": st.booleans(), "copies": st.booleans()}).map(
        lambda given_: ("op_kernels", given_)
    ),
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["", "f", "g", "Step", "%", "%_'\"\\;--"]),
            "min_kernels": st.integers(0, 3),
            "top": st.integers(0, 3),
            "copies": st.booleans(),
        }
    ).map(lambda given_: ("sequences", given_)),
)


@given(
    st.lists(st.lists(slices(), max_size=25), min_size=1, max_size=3),
    PARAMETERS,
    st.integers(0, 30),
)
def test_plain_loops_say_the_same(
    ranks: list[list[Row]], asked: tuple[str, dict[str, Any]], cut: int
) -> None:
    events = events_of(*ranks)
    name, parameters = asked
    expected = ORACLES[name](rows_of(events), **parameters)
    assert answer(name, events, **parameters) == expected
    turned = pa.concat_tables([events.slice(cut), events.slice(0, cut)])
    assert answer(name, turned, **parameters) == expected


@pytest.mark.parametrize("pattern", few(REAL, 6), ids=range(len(REAL)))
def test_real_traces(pattern: str, traces: Path) -> None:
    with only_real_trace(traces, pattern).session() as trace:
        check_real(trace)


def check_real(trace: Trace) -> None:
    rows = trace.events.select(launching.COLUMNS).to_dicts()
    assert trace.launches().rows() == launching.launches(rows)
    assert trace.op_kernels().rows() == launching.op_kernels(rows)
    by_shape = {"group_by_input_shape": True, "copies": True}
    assert trace.op_kernels(**by_shape).rows() == launching.op_kernels(rows, **by_shape)  # type: ignore[arg-type]
    for text in ("", "aten::", "Launch"):
        asked: dict[str, Any] = {"name": text, "min_kernels": 2, "top": 0}
        assert trace.sequences(**asked).rows() == launching.sequences(rows, **asked)
    work = [row for row in rows if row["kind"] in launching.WORK]
    kernels = [row for row in work if row["kind"] == "kernel"]
    found = trace.launches()
    assert found.select("kernels", "copies", "fills").sum().sum_horizontal().item() == len(work)
    assert found["device_ns"].sum() == sum(row["dur_ns"] or 0 for row in work)
    found = trace.op_kernels()
    assert (found["kernels"] * found["calls"]).sum() == len(kernels)
    assert found["device_ns"].sum() == sum(row["dur_ns"] or 0 for row in kernels)


def test_a_store_says_the_same(traces: Path, tmp_path: Path) -> None:
    trace = only_real_trace(traces, REAL[1])
    trace.to_parquet(tmp_path / "store")
    store = Trace.from_store(tmp_path / "store")
    assert store.launches().equals(trace.launches())
    assert store.op_kernels().equals(trace.op_kernels())
    assert store.sequences(top=0).equals(trace.sequences(top=0))


def test_parts_of_a_trace_have_what_is_known(traces: Path) -> None:
    trace = only_real_trace(traces, REAL[1])
    kernels = trace.filter(kinds="kernel")
    (row,) = kernels.launches().to_dicts()
    assert (row["name"], row["calls"], row["total_ns"]) == (None, 0, None)
    assert row["kernels"] == kernels.events.height
    assert kernels.op_kernels()["name"].null_count() == kernels.op_kernels().height
    assert kernels.op_kernels()["device_ns"].sum() == trace.op_kernels()["device_ns"].sum()
    assert kernels.sequences().is_empty()
    ops = trace.filter(kinds="host_op")
    assert ops.launches().is_empty()
    assert ops.op_kernels().is_empty()


def graph(at: int, correlation: int, names: Sequence[str]) -> list[Row]:
    return [
        on("cuda_runtime", at, 5, "cudaGraphLaunch", correlation=correlation),
        *(
            on("kernel", at + 10 + i, 1, name, correlation=correlation, thread=8, device=0)
            for i, name in enumerate(names)
        ),
    ]


@pytest.mark.parametrize("name", ["op_kernels", "sequences"])
def test_long_sequences_are_cut_in_the_text_only(name: str) -> None:
    one = [f"kernel {i}" for i in range(500)]
    other = [*one[:70], "another", *one[71:]]
    events = events_of([*graph(0, 1, one), *graph(1000, 2, other), *graph(2000, 3, one)])
    rows = named(name, events)
    assert [(row["name"], row["kernels"], row["calls"]) for row in rows] == [
        ("cudaGraphLaunch", 500, 2),
        ("cudaGraphLaunch", 500, 1),
    ]
    text = " -> ".join(one[:64]) + " -> ... 436 more"
    assert [row["sequence"] for row in rows] == [text, text]
    assert rows[0]["first_event_id"] < rows[1]["first_event_id"]
