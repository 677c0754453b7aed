"""Work of the ops of serving stacks, in real traces of vLLM, SGLang and xDiT."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from profframe.trace.trace import Trace
from tests.conftest import only_real_trace

INFERENCE = "AMD-AGI__TraceLens/inference"
LAUNCHES = ("hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel")
COMPUTES = r"mm\b|gemm|linear|convolution|moe_forward|sage_fwd|::mha_"


def inference(traces: Path, name: str) -> Trace:
    return only_real_trace(traces, f"{INFERENCE}/{name}.json.gz")


@pytest.mark.parametrize(
    ("name", "launches", "without"),
    [
        ("sglang_decode_capture_bs_32_rank0", 544, 2 * 36),  # attention of 36 layers
        ("vllm_piecewise_graph_capture", 361, 0),
        pytest.param("xdit_flux_aiter_sage_graph_capture", 1566, 0, marks=pytest.mark.long),
    ],
)
def test_each_launch_in_a_capture_has_bytes_and_products_have_flops(
    traces: Path, name: str, launches: int, without: int
) -> None:
    events = inference(traces, name).events
    started = events.filter(pl.col("kind") == "kernel")["launch_id"].implode()
    calls = events.filter(pl.col("name").is_in(LAUNCHES), ~pl.col("event_id").is_in(started))
    owners = calls.join(events, left_on="work_id", right_on="event_id", how="left")
    assert calls.height >= launches
    assert owners["bytes_right"].null_count() == without
    products = owners.filter(pl.col("name_right").str.contains(COMPUTES))
    assert products.height > 60
    assert products["flops_right"].min() > 0  # type: ignore[operator]


def test_known_work_where_a_model_is_served_without_graphs(traces: Path) -> None:
    events = inference(traces, "sglang_Qwen3-8B_prefilldecode").events
    kernels = events.filter(pl.col("kind") == "kernel")
    known = kernels.filter(pl.col("flops").is_not_null(), pl.col("bytes").is_not_null())
    assert int(known["dur_ns"].sum()) > 0.999 * int(kernels["dur_ns"].sum())
    attention = events.filter(pl.col("name") == "aiter::mha_batch_prefill")
    # 15 sequences of 1024 in 32 heads of 128; 8 heads of keys and values. The mask leaves half.
    assert set(attention["flops"]) == {2 * 15 * 32 * (1024 * 1025 // 2) * 256}
    assert set(attention["bytes"]) == {2 * 15360 * 128 * (32 + 2 * 8 + 32)}
    stored = events.filter(pl.col("name") == "sglang::store_cache")
    assert set(stored["bytes"]) == {4 * 15360 * 1024 * 2 + 15360 * 8}


def test_experts_of_a_layer_whose_weights_are_seen_inside(traces: Path) -> None:
    layers = inference(traces, "vllm_piecewise_graph_capture").events.filter(
        pl.col("name") == "vllm::moe_forward"
    )
    # 8192 rows, each to 4 of 32 experts: 3072 x 5888 and 2944 x 3072 in 4 bits.
    terms = 3072 * 5888 + 2944 * 3072
    assert layers.height == 24
    assert set(layers["flops"]) == {2 * 8192 * 4 * terms}
    assert set(layers["bytes"]) == {32 * terms // 2 + 2 * 8192 * 3072 * 2}
    assert set(layers["work_dtype"]) == {"bf16"}


@pytest.mark.parametrize(
    ("name", "op", "calls"),
    [
        ("sglang_decode_capture_bs_32_rank0",
         "sglang_profiler::attention_paged_attention_ragged_100", 36),
        ("vllm_piecewise_graph_capture", "vllm::unified_attention_with_output", 24),
    ],
)  # fmt: skip
def test_attention_over_a_cache_is_counted_as_unknown(
    traces: Path, name: str, op: str, calls: int
) -> None:
    trace = inference(traces, name)
    (note,) = trace.quality.filter(pl.col("issue") == "work_needs_lengths").to_dicts()
    assert note["events"] == calls
    assert f"{op} ({calls})" in note["detail"]
    calls_ = trace.events.filter(pl.col("name") == op)
    assert calls_["bytes"].null_count() == calls_["flops"].null_count() == calls


@pytest.mark.parametrize(
    "name",
    [
        "sglang_Qwen3-8B_prefilldecode",
        "vllm_piecewise_graph_execution",
        pytest.param("xdit_flux_aiter_sage_graph_capture", marks=pytest.mark.long),
        pytest.param("xdit_sd_3.5_profile_trace_rank_0", marks=pytest.mark.long),
    ],
)
def test_nothing_is_faster_than_its_device(traces: Path, name: str) -> None:
    checks = inference(traces, name).quality["issue"].to_list()
    assert not {"faster_than_peak", "faster_than_memory"} & set(checks)
