"""``kernels``, ``kernel_overlap``, ``annotations`` and ``modules`` against plain loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe import Trace, schema
from tests.builders import Row, event, loaded, loaded_ranks
from tests.conftest import only_real_trace, real_trace
from tests.members import few
from tests.oracles import kernels as oracle
from tests.oracles.intervals import length, merged, shared

REAL: Final = (
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    "AMD-AGI__TraceLens/inference/vllm_piecewise_graph_execution.json.gz",
    "AMD-AGI__TraceLens/inference/*B300*DECODE*.json.gz",
    "AMD-AGI__TraceLens/inference/*MI300*DECODE*.json.gz",
    "AMD-AGI__TraceLens/h100/Qwen1.5-0.5B-Chat.json.gz",
    "AMD-AGI__TraceLens/mi300/resnet_act_checkpoint.json.gz",
    "facebookresearch__HolisticTraceAnalysis/mtia/mtia_inference_rank_0.json.gz",
    "facebookresearch__HolisticTraceAnalysis/nccl_data.json.gz",
    "facebookresearch__HolisticTraceAnalysis/with_gpu_user_annotation/*.json.gz",
    "facebookresearch__param/dlrm_kineto/worker0_step_12.*.json.gz",
    "luatil__torch-profile/trace_04.json.gz",
    "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank0/trace_view.json.gz",
    "GindaChen__nsys-ai/mock.sqlite",
)
ORACLES: Final[Mapping[str, Callable[..., oracle.Answer]]] = {
    "kernels": oracle.of_kernels,
    "kernel_categories": oracle.of_categories,
    "kernel_overlap": oracle.of_overlap,
    "annotations": oracle.of_annotations,
    "modules": oracle.of_modules,
}
ASKED: Final[Sequence[tuple[str, dict[str, Any]]]] = (
    *(("kernels", {"per": by}) for by in ("name", "short_name", "category", "class")),
    *(("kernel_categories", {"per": per}) for per in ("rank", "step", "stream")),
    ("kernels", {"per": "short_name", "top": 2, "copies": True}),
    *(("kernel_overlap", {"per": per}) for per in ("rank", "process_group", "collective")),
    ("annotations", {}),
    ("modules", {}),
)
NAMES: Final = (
    "void mm<float, (bool)1>(int*, A<B<2> >)",
    "void at::(anonymous namespace)::mm<1>(int)",
    "ncclDevKernel_AllReduce(Args<4096ul>)",
    "nccl_send",
    "deep_ep::intranode::dispatch<8>(int)",
    "allreduce_fusion_kernel<8>(int)",
    "(odd) ::name",
    "cut<off, (short",
    None,
)
HIERARCHIES: Final = (
    "",
    "TOP(N)::forward.",
    "TOP(N)::forward.a(A)::forward.",
    "TOP(N)::forward.a(A)::forward.SELF(A)::help.b(B)::forward.::relu.",
    "TOP()::defaults.",
    "net.a",
)
KINDS: Final = (
    *("device", "device", "mark", "mark", "call", "host", "frame", "range", "backward", "autograd"),
)
WORK: Final = ("kernel", "kernel", "kernel", "gpu_memcpy", "gpu_memset")
PLACE: Final = st.integers(0, 40) | st.none()


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, dur = draw(PLACE), draw(st.integers(0, 20) | st.none())
    end = None if start is None or dur is None else start + dur
    correlation = draw(st.none() | st.integers(1, 4))
    said: dict[str, Any] = {
        "process_group": draw(st.sampled_from(["tp", "dp", None, None])),
        "collective": draw(st.sampled_from(["allreduce", None])),
    }
    kind = draw(st.sampled_from(KINDS))
    if kind in ("device", "range"):
        category = "gpu_user_annotation"
        if kind == "device":
            category = draw(st.sampled_from(WORK))
        names = NAMES if kind == "device" else ("f", "only here")
        place: dict[str, Any] = {"pid": "0", "thread": 8, "device": draw(st.integers(0, 1)), **said}
        place["stream"] = draw(st.sampled_from([7, None]))
        name = draw(st.sampled_from(names))
        return event(name, start, end, category=category, correlation=correlation, **place)
    more: dict[str, Any] = {"thread": draw(st.integers(0, 1))}
    if kind == "backward":
        more = {"thread": draw(st.integers(1, 2)), "fwd_thread": draw(st.sampled_from([1, 9]))}
        return event("MulBackward0", start, end, sequence_nr=draw(st.integers(1, 2)), **more)
    if kind == "mark":
        name = draw(st.sampled_from(["f", "f", "g", "ProfilerStep#1", "ProfilerStep#2", None]))
        return event(name, start, end, category="user_annotation", **more)
    if kind in ("call", "autograd"):
        more["thread"] = 2 if kind == "autograd" else more["thread"]
        return event("go", start, end, category="cuda_runtime", correlation=correlation, **more)
    if kind == "host":
        more |= said | {"module_hierarchy": draw(st.sampled_from(HIERARCHIES))}
        more["sequence_nr"] = draw(st.sampled_from([None, 1, 2]))
        return event("record_param_comms", start, end, **more)
    more["python_module_id"] = draw(st.sampled_from([None, 0, 1]))
    name = draw(st.sampled_from(["nn.Module: A", "nn.Module: B"]))
    return event(name, start, end, category="python_function", **more)


def rows_of(trace: Trace) -> list[dict[str, Any]]:
    return trace.events.select(oracle.COLUMNS).to_dicts()


def check(trace: Trace, rows: list[dict[str, Any]], name: str, asked: dict[str, Any]) -> None:
    expected = ORACLES[name](rows, **asked)
    found = trace.answer(name, **asked)
    if name == "modules":  # backward, totals, their order and classes have cases of their own
        apart = pl.selectors.contains("backward") | pl.selectors.starts_with("total_", "modules")
        got = [rounded(row) for row in found.select(~apart).rows()]
        assert sorted(got, key=repr) == sorted(map(rounded, expected), key=repr)
        return
    if name == "kernels":  # names of precisions have cases of their own
        found = found.drop("precision")
    if name == "annotations":  # those of steps are compared in test_step_times
        found = found.drop("device_start_ns", "step_ns", "lag_ns")
    assert [*map(rounded, found.rows())] == [*map(rounded, expected)], (name, asked)


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(cell, 9) if isinstance(cell, float) else cell for cell in row)


RANK: Final = st.lists(slices(), max_size=4) | st.lists(slices(), min_size=12, max_size=30)


@settings(max_examples=max(1, settings().max_examples // 4))
@given(st.lists(RANK, min_size=1, max_size=3))
def test_plain_loops_say_the_same(ranks: list[list[Row]]) -> None:
    with loaded_ranks(ranks).session() as trace:
        rows = rows_of(trace)
        for asked in ASKED:
            check(trace, rows, *asked)


@pytest.mark.parametrize(
    "pattern",
    few(REAL, (REAL[8], REAL[12])),
    ids=range(len(REAL)),
)
def test_real_traces(pattern: str, traces: Path) -> None:
    with only_real_trace(traces, pattern).session() as trace:
        rows = rows_of(trace)
        for asked in ASKED:
            check(trace, rows, *asked)
        parts_add_up(trace)


def parts_add_up(trace: Trace) -> None:
    by_name, by_class = trace.kernels(copies=True), trace.kernels(per="class", copies=True)
    for rows in (by_class, trace.kernels(top=3, copies=True), trace.kernels("short_name", 1, True)):
        assert rows["total_ns"].sum() == by_name["total_ns"].sum()
        assert rows["calls"].sum() == by_name["calls"].sum()
        assert rows["share"].sum() == pytest.approx(1 if rows["total_ns"].sum() else 0)
    whole = trace.time_breakdown().filter(pl.col("step").is_null())
    for per in ("rank", "process_group", "collective"):
        overlap = trace.kernel_overlap(per=per)
        assert (overlap["hidden_ns"] + overlap["exposed_ns"]).equals(overlap["communication_ns"])
        if per == "rank":
            hidden, exposed = overlap["hidden_ns"].sum(), overlap["exposed_ns"].sum()
            assert whole["hidden_communication_ns"].sum() == hidden
            assert whole["exposed_communication_ns"].sum() == exposed
    for rows in (trace.annotations(), trace.modules()):
        busy, device = rows["busy_ns"], rows["device_ns"]
        assert (busy <= device).all()
        span = "span_ns" if "span_ns" in rows.columns else "device_window_ns"
        known = rows.drop_nulls(span)
        assert (known["busy_ns"] + known["idle_ns"] <= known[span]).all()
        assert (known["exposed_communication_ns"] <= known["busy_ns"]).all()
    modules = trace.modules().drop_nulls("self_host_ns")
    assert (modules["self_host_ns"] <= modules["host_ns"]).all()
    assert (modules["self_device_ns"] <= modules["device_ns"]).all()


def test_annotations_have_the_device_time_of_the_fact(traces: Path) -> None:
    trace = only_real_trace(traces, REAL[7])
    nested = trace.events.drop_nulls("preorder")
    alone = nested.filter(pl.col("parent_id").is_null()).rows(named=True)
    expected: dict[tuple[Any, Any], int] = defaultdict(int)
    for mark in nested.filter(pl.col("kind") == "annotation").rows(named=True):
        meanwhile = (  # what the thread of autograd did for the only other one
            row["device_ns"]
            for row in alone
            if row["thread"] != mark["thread"]
            and mark["start_ns"] <= row["start_ns"] < mark["start_ns"] + mark["dur_ns"]
        )
        expected[mark["step"], mark["name"]] += mark["device_ns"] + sum(meanwhile)
    found = trace.annotations()
    assert {row[:2]: row[2] for row in found.select("step", "name", "device_ns").rows()} == expected
    backward = found.filter(name="## backward ##")
    assert (backward["device_ns"] > 37_000_000).all()


@pytest.mark.long
def test_a_store_says_the_same(traces: Path, tmp_path: Path) -> None:
    trace = only_real_trace(traces, REAL[5])
    trace.to_parquet(tmp_path / "store")
    store = Trace.from_store(tmp_path / "store")
    with trace.session() as here, store.session() as there:
        for name, asked in dict(ASKED).items():
            assert there.answer(name, **asked).equals(here.answer(name, **asked))


def test_parts_of_a_trace_have_what_is_known(traces: Path) -> None:
    trace = only_real_trace(traces, REAL[5])
    kernels = trace.filter(kinds="kernel")
    assert (
        kernels.kernels()
        .drop("^(top_op|launch_site).*$")
        .equals(trace.kernels().drop("^(top_op|launch_site).*$"))
    )
    assert kernels.annotations().is_empty()
    assert kernels.modules().is_empty()
    no_leaves = trace.filter(kinds=("annotation", "kernel")).annotations()
    whole = trace.annotations().drop_nulls("calls")  # without work that no annotation has
    assert no_leaves.select("name", "calls", "host_ns").equals(
        whole.select("name", "calls", "host_ns")
    )
    assert no_leaves["device_ns"].null_count() == no_leaves.height
    step = trace.filter(steps=16)
    assert step.annotations().equals(whole.filter(pl.col("step") == 16))
    assert step.modules().equals(trace.modules().filter(pl.col("step") == 16))
    host = trace.filter(kinds=schema.HOST_KINDS)
    assert host.kernels().is_empty()
    assert host.kernel_overlap().is_empty()
    assert set(host.annotations()["device_ns"]) == {0}


@pytest.mark.long
def test_steps_of_eight_ranks_are_one_question(traces: Path, tmp_path: Path) -> None:
    paths = sorted((traces / "facebookresearch__param" / "dlrm_kineto").glob("worker*"))
    assert len(paths) == 8
    single = [real_trace(path) for path in paths]
    for trace in single:
        trace.to_parquet(tmp_path / "store")
    store = Trace.from_store(tmp_path / "store")
    parts = store.time_breakdown()
    assert parts.equals(pl.concat([trace.time_breakdown() for trace in single]))
    assert parts.filter(pl.col("step") == 10)["rank"].to_list() == list(range(8))
    assert parts["span_ns"].equals(
        parts.select(
            pl.sum_horizontal(
                "compute_ns", "exposed_communication_ns", "exposed_copy_ns", "idle_ns"
            ).alias("span_ns")
        )["span_ns"]
    )
    for name in ("kernels", "kernel_overlap", "annotations"):
        together = store.answer(name)
        alone = pl.concat([trace.answer(name) for trace in single])
        assert together.height
        assert sorted(map(str, together.rows())) == sorted(map(str, alone.rows()))


def hta_type(name: str) -> str:
    """d.0, by name only: for the names below, and without DEV-2."""
    if name.startswith("nccl"):
        return "communication"
    return "memory" if name.startswith(("Memcpy", "Memset")) else "computation"


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["nccl_sum", "nccl_send", "mm", "add", "Memcpy HtoD", "Memset"]),
            st.integers(0, 40),
            st.integers(0, 20),
        ),
        min_size=1,
        max_size=20,
    ),
)
def test_formulas_of_hta(slices: list[tuple[str, int, int]]) -> None:
    """d.3 and d.6 in whole microseconds.

    Memsets are computation here and memory there, so d.6 leaves those out that are in the way.
    DEV-7 and DEV-8: with more names than rows HTA sums sums, so its table is compared with all.
    """
    kinds = {"Memcpy HtoD": "gpu_memcpy", "Memset": "gpu_memset"}
    trace = loaded(
        *(
            event(
                name, start * 1000, (start + dur) * 1000, category=kinds.get(name, "kernel"),
                thread=8, device=0, stream=7,
            )
            for name, start, dur in slices
        )
    )  # fmt: skip
    durations: dict[str, list[int]] = defaultdict(list)
    for name, _, dur in slices:
        durations[name].append(dur)
    found = trace.kernels(copies=True).select("name", "total_ns", "max_ns", "min_ns", "std_ns")
    for name, total, longest, shortest, std in found.iter_rows():
        known = durations.pop(name)
        assert (total, longest, shortest) == (
            sum(known) * 1000,
            max(known) * 1000,
            min(known) * 1000,
        )
        mean = sum(known) / len(known)
        variance = sum((d - mean) ** 2 for d in known) / max(len(known) - 1, 1)
        assert (std or 0) == pytest.approx(1000 * variance**0.5, abs=1)
    assert not durations
    if any(name == "Memset" for name, _, _ in slices):
        return
    communication, computation = (
        [(start, start + dur) for name, start, dur in slices if hta_type(name) == type_]
        for type_ in ("communication", "computation")
    )
    both, talked = shared(merged(communication), merged(computation)), length(communication)
    rows = trace.kernel_overlap()["hidden_share"].to_list()
    assert rows == ([] if not communication else [pytest.approx(both / talked) if talked else None])


@settings(max_examples=10)
@given(
    st.recursive(
        st.just(""), lambda inner: st.tuples(inner, inner).map(lambda two: f"{two[0]}<{two[1]}>")
    ).map(lambda noise: f"void at::native::kernel{noise}(int, float)")
)
def test_short_names_however_nested(name: str) -> None:
    """d.13, and unnamed namespaces leave no empty part."""
    trace = loaded(event(name, 0, 1, category="kernel"))
    assert trace.kernels(per="short_name")["name"].to_list() == ["at::native::kernel"]
