"""Pairs of real traces: causes add up, are the same the other way round, and explain the time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
import pytest

import profframe
from tests.members import few

HTA: Final = "facebookresearch__HolisticTraceAnalysis"
LENS: Final = "AMD-AGI__TraceLens"
SAM: Final = "pytorch-labs__segment-anything-fast"
PAIRS: Final = {
    "H100 to MI300X, Qwen": (
        f"{LENS}/h100/Qwen1.5-0.5B-Chat.json.gz",
        f"{LENS}/mi300/Qwen1.5-0.5B-Chat.json.gz",
    ),
    "H100 to MI300X, image model": (
        f"{LENS}/h100/Falconsai_nsfw_image_detection.json.gz",
        f"{LENS}/mi300/Falconsai_nsfw_image_detection.json.gz",
    ),
    "V100 and compiled": (
        f"{HTA}/trace_diff/control.json.gz",
        f"{HTA}/trace_diff/test.json.gz",
    ),
    "eager to fast": (f"{SAM}/asdf_False.9ab058.json.gz", f"{SAM}/asdf_True.02c6e0.json.gz"),
    "before and after a fix": (
        "pytorch__kineto/docs/before_fix_trace.json",
        "pytorch__kineto/docs/after_fix_trace.json",
    ),
    "made by hand": (f"{HTA}/trace_compare/base.json.gz", f"{HTA}/trace_compare/test.json.gz"),
    "benchmark": ("pytorch__benchmark/trace.json", "pytorch__benchmark/trace2.json"),
    "MI300X to B300": (
        f"{LENS}/inference/sglang_deepseek_r1_MI300_1782841132.2905657-TP-0-DECODE.trace.json.gz",
        f"{LENS}/inference/sglang_deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz",
    ),
    "two months of ResNet": (
        "pytorch__kineto/samples/resnet50_num_workers_0.2020-12.worker0.pt.trace.json.gz",
        "pytorch__kineto/samples/resnet50_num_workers_0.2021-01.worker0.pt.trace.json.gz",
    ),
}
REVERSED: Final = {
    "calls_added": "calls_removed",
    "calls_removed": "calls_added",
    "fusion_made": "fusion_lost",
    "fusion_lost": "fusion_made",
}


@pytest.mark.parametrize("pair", few(PAIRS, ["H100 to MI300X, Qwen", "before and after a fix"]))
def test_pairs(pair: str, traces: Path) -> None:
    sides = [profframe.load(traces / name) for name in PAIRS[pair]]
    there, back = profframe.explain(*sides), profframe.explain(*sides[::-1])
    for of in (there, back):
        assert of.causes["change_ns"].sum() == of.other_ns - of.base_ns
    sums = [
        of.causes.group_by("cause").agg(pl.col("change_ns").sum()).rows() for of in (there, back)
    ]
    turned = {REVERSED.get(cause, cause): -change for cause, change in sums[1]}
    assert {
        cause: pytest.approx(change, abs=len(there.causes)) for cause, change in sums[0]
    } == turned
    moved = int(there.causes["change_ns"].abs().sum())
    unexplained = int(there.causes.filter(cause="unexplained")["change_ns"].abs().sum())
    assert unexplained <= 0.05 * moved
    assert profframe.explain(sides[0], sides[0]).causes.is_empty()


@pytest.mark.parametrize("pair", few(PAIRS, ["H100 to MI300X, Qwen"]))
def test_products_are_paired(pair: str, traces: Path) -> None:
    """No product of matrices is gone, with another one in its place that is new."""
    sides = [profframe.load(traces / name) for name in PAIRS[pair]]
    causes = profframe.explain(*sides).causes
    gemm = r"gemm|Cijk|nvjet"
    gone = causes.filter(pl.col("base_kernel").str.contains(gemm), cause="calls_removed")
    new = causes.filter(pl.col("other_kernel").str.contains(gemm), cause="calls_added")
    assert gone.is_empty() or new.is_empty()
