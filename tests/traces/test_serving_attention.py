"""Attention in steps of servers: real traces against the figures of another tool, and by hand.

TraceLens leaves out half of the diagonal of the causal mask: with 15 prompts of 1024 tokens it has
a thousandth less.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe.trace.trace import Trace
from tests.places import ORACLES

FOLDER = "AMD-AGI__TraceLens/inference"
ATTENTION = ("sglang_profiler::attention_paged_attention_ragged", "aiter::mha_batch_prefill",
             "vllm::unified_attention_with_output")  # fmt: skip
SETS = {
    "sglang_decode": ("sglang_Qwen3-8B_decode", "sglang_decode_capture_bs_32_rank0"),
    "sglang_prefilldecode": ("sglang_Qwen3-8B_prefilldecode", None),
    "vllm_prefilldecode_piecewise": (
        "vllm_piecewise_graph_execution",
        "vllm_piecewise_graph_capture",
    ),
}


@cache
def served(traces: Path, name: str) -> Trace:
    execution, capture = SETS[name]
    folder = traces / FOLDER
    captures = None if capture is None else folder / f"{capture}.json.gz"
    return profframe.load(folder / f"{execution}.json.gz", captures=captures)


@pytest.mark.parametrize("name", SETS)
def test_as_another_tool_counts(traces: Path, name: str) -> None:
    with (ORACLES / "TraceLens" / name / "InferenceAttention_fwd.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["name"].startswith(ATTENTION)]
    assert rows
    events = served(traces, name).events
    for row in rows:
        calls = events.filter(
            pl.col("name").str.starts_with(row["name"]) & pl.col("flops").is_not_null()
        )
        (counted,) = set(zip(calls["flops"], calls["bytes"], strict=True))
        assert counted[0] == pytest.approx(float(row["GFLOPS_first"]) * 1e9, rel=0.002)
        assert counted[1] == float(row["Data Moved (MB)_first"]) * 2**20


@pytest.mark.parametrize(
    ("name", "heads", "lengths"),
    [
        ("sglang_decode", (32, 8, 128), (32, 32785, 32785)),
        ("sglang_prefilldecode", (32, 8, 128), (15360, 15360, 15 * 1024 * 1025 // 2)),
        ("vllm_prefilldecode_piecewise", (64, 8, 64),
         (8192, 8430 + 34489, 7671310 - (7475785 - 8155) // 2 + 34489)),
    ],
)  # fmt: skip
def test_by_hand(
    traces: Path, name: str, heads: tuple[int, int, int], lengths: tuple[int, int, int]
) -> None:
    """Products for scores and values; queries and results, keys and values, in two bytes each."""
    trace = served(traces, name)
    known = trace.events.filter(
        pl.col("name").str.contains("|".join(ATTENTION)) & pl.col("flops").is_not_null()
    )
    query_heads, key_heads, width = heads
    queries, keys, pairs = lengths
    flops = 2 * query_heads * pairs * 2 * width
    moved = 2 * 2 * (queries * query_heads + keys * key_heads) * width
    assert set(zip(known["flops"], known["bytes"], strict=True)) == {(flops, moved)}
    assert "work_needs_lengths" not in trace.quality["issue"]
    # Every second layer of the model of vLLM sees a window, which is not recorded.
    assert ("uneven_attention" in trace.quality["issue"]) == name.startswith("vllm")


def test_bandwidth_of_paged_attention(traces: Path) -> None:
    """It reads its whole cache: 43 % of what the memory can do."""
    (row,) = (
        served(traces, "sglang_decode")
        .roofline(per="op")
        .filter(pl.col("name").str.contains("paged_attention"))
        .to_dicts()
    )
    assert (row["calls"], row["flops"]) == (36, 36 * 537149440)
    assert row["bytes_per_s"] == pytest.approx(2.28e12, rel=0.005)
    assert row["bandwidth_share"] == pytest.approx(0.43, abs=0.005)
    assert row["bound"] == "memory"
