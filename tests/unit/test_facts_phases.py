"""Phases of inference: what names of marks say, and which slices are in which occurrence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from profframe import load
from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.phases import mark_of
from tests.builders import Row, column, event, facts, loaded

RUNNER: Final = "/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py(3194): "
GRAPHS: Final = "/sglang/python/sglang/srt/model_executor/cuda_graph_runner.py(1333): "
EAGLE: Final = "sglang/srt/speculative/eagle_worker_v2.py(7): "


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("execute_context_2(14721)_generation_0(0)", "prefill"),
        ("execute_context_0(0)_generation_64(64)", "decode"),
        ("execute_context_0(0)_generation_32(128)", "verify"),
        ("execute_context_2(6144)_generation_3(3)", "mixed"),
        ("execute_context_0(0)_generation_0(0)", "idle"),
        ("execute_context_0_generation_64", "decode"),
        ("execute_context_1(888_788544)_generation_0(0)", "prefill"),
        ("execute_diffusion_1_256x256", "diffusion"),
        ("decode[bs=117/128 tok=117 d=117 sqsq=117 sqsk=9000 sk=9000]", "decode"),
        ("eager_decode[bs=2 tok=2 ctx=[30, 40]]", "decode"),
        ("dummy_decode[bs=8]", "dummy"),
        ("dummy_eager_decode[bs=8]", "dummy"),
        ("dummy_prefill[bs=1 tok=16 ctx=16]", "dummy"),
        ("draft[0/3 bs=8]", "draft"),
        ("dspark[bs=8 T=4]", "draft"),
        ("capture_graph_bs_64", "capture"),
        ("v2_gpu_model_runner: draft", "draft"),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
            "decode",
        ),
        ("execute_128_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq128sk9sqsq512sqsk9)", "verify"),
        ("execute_9_context_1(sq8sk8sqsq64sqsk64)_generation_1(sq1sk5sqsq1sqsk5)", "mixed"),
        ("execute_new_3_cached_0", "prefill"),
        ("execute_new_3_cached_2", None),
        ("step[EXTEND bs=15 toks=15360]", "prefill"),
        ("step[EXTEND bs=1 toks=1025 c_sqsq=1050625 c_sqsk=1050625 c_sk=1025]", "prefill"),
        ("step[DECODE bs=32]", "decode"),
        ("EXTEND", "prefill"),
        ("ForwardMode.DECODE", "decode"),
        ("TARGET_VERIFY", "verify"),
        ("step[decode bs=32]", "decode"),
        ("step[prefill bs=2 toks=9]", "prefill"),
        ("step[MIXED bs=66 c=2 g=64 c_sq=2048]", "mixed"),
        ("step[mixed bs=4 ext=3 dec=1]", "mixed"),
        ("step[IDLE bs=0]", "idle"),
        ("step[idle]", "idle"),
        ("step[TARGET_VERIFY bs=8]", "verify"),
        ("step[DRAFT_EXTEND bs=8]", "draft"),
        ("step[DRAFT_EXTEND_V2 bs=8]", "draft"),
        ("step[SPLIT_PREFILL bs=8]", "prefill"),
        ("step[DLLM_EXTEND bs=8]", None),
        ("prefill[bs=2 tok=14721 ctx=[7803, 6918]]", "prefill"),
        ("decode[bs=117/128 tok=117 d=117]", "decode"),
        ("decode[bs=32 tok=128 d=32 spec=3]", "verify"),
        ("decode[bs=128 tok=384 p=2 d=126]", "mixed"),
        ("[Executor] _forward_step 12: 0 ctx reqs, 0 ctx tokens, 8 gen reqs", "decode"),
        ("[Executor] _forward_step 12: 1 ctx reqs, 8 gen reqs", "mixed"),
        ("gpu_model_runner: draft", "draft"),
        ("gpu_model_runner: forward", None),
        ("draft_extend", "draft"),
        ("EAGLE_VERIFY", "verify"),
        ("Decode", "decode"),
        ("capture_8192_PIECEWISE", "capture"),
    ],
)
def test_marks(name: str, phase: str | None) -> None:
    mark = mark_of(name, is_frame=False)
    assert mark is not None
    assert mark.phase == phase


@pytest.mark.parametrize(
    "name",
    [
        "",
        "aten::mm",
        "ProfilerStep#4",
        "decoder",
        "extend",
        "step[3]x",
        "execute_diffusion_1_256",
        "execute_context_1(",
        "step",
    ],
)
def test_no_marks(name: str) -> None:
    assert mark_of(name, is_frame=False) is None


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (RUNNER + "forward_extend", "prefill"),
        (RUNNER + "forward_decode", "decode"),
        (RUNNER + "forward_idle", "idle"),
        (GRAPHS + "replay", "decode"),
        (GRAPHS + "capture_one_batch_size", "capture"),
        (EAGLE + "draft", "draft"),
        (EAGLE + "forward_draft_extend_after_decode", "draft"),
        (EAGLE + "verify", "verify"),
        ("vllm/v1/worker/gpu_model_runner.py(4712): _dummy_run", "dummy"),
        ("C:\\vllm\\v1\\worker\\gpu_worker.py(4): execute_dummy_batch", "dummy"),
        ("vllm/v1/worker/gpu/model_runner.py(3): execute_model", None),
        ("vllm/v1/worker/gpu_model_runner.py(3): propose_draft_token_ids", "draft"),
    ],
)
def test_frames(name: str, phase: str | None) -> None:
    mark = mark_of(name, is_frame=True)
    assert mark is not None
    assert mark.phase == phase


def test_other_frames() -> None:
    for name in (RUNNER + "forward", "train.py(3): verify", "vllm/entry.py(2): draft"):
        assert mark_of(name, is_frame=True) is None


def mark(name: str, start: int, end: int | None, **more: Any) -> Row:
    return event(name, start, end, category="user_annotation", **more)


def frame(name: str, start: int, end: int) -> Row:
    return event(name, start, end, category="python_function")


def call(start: int, correlation: int, name: str = "cudaLaunchKernel") -> Row:
    return event(name, start, start + 1, category="cuda_runtime", correlation=correlation)


def kernel(name: str, start: int, correlation: int | None) -> Row:
    on_device: dict[str, Any] = {"thread": 9, "device": 0, "stream": 7, "category": "kernel"}
    return event(name, start, start + 5, correlation=correlation, **on_device)


def phases(*events: Row) -> dict[str, tuple[str | None, str | None]]:
    """Phase of each slice, and the name of the mark that its occurrence began with."""
    rows = facts(*events)["events"].select(["name", "inference_phase", "phase_id"]).to_pylist()
    return {
        row["name"]: (
            row["inference_phase"],
            None if row["phase_id"] is None else rows[row["phase_id"]]["name"],
        )
        for row in rows
    }


def test_work_belongs_to_the_phase_of_its_launch_also_after_it() -> None:
    result = phases(
        mark("execute_context_0(0)_generation_2(2)", 0, 50),
        mark("step[DECODE bs=2]", 10, 40),
        call(20, 1, "cudaGraphLaunch"),
        call(45, 2),
        mark("step[EXTEND bs=1 toks=9]", 60, 70),
        call(65, 3),
        call(80, 4),
        kernel("a", 61, 1),
        kernel("b", 100, 2),
        kernel("c", 110, 3),
        kernel("d", 120, 4),
        kernel("e", 130, None),
    )
    outer = "execute_context_0(0)_generation_2(2)"
    assert {name: result[name] for name in ("step[DECODE bs=2]", "a", "b", "c", "d", "e")} == {
        "step[DECODE bs=2]": ("decode", outer),
        "a": ("decode", outer),
        "b": ("decode", outer),
        "c": ("prefill", "step[EXTEND bs=1 toks=9]"),
        "d": (None, None),
        "e": (None, None),
    }


def test_in_a_draft_all_is_the_drafts_and_a_verification_is_apart() -> None:
    result = phases(
        mark("execute_context_0(0)_generation_2(2)", 0, 100),
        mark("step[TARGET_VERIFY bs=2]", 10, 40),
        frame(RUNNER + "forward_extend", 12, 38),
        event("verified", 20, 25),
        mark("draft", 50, 80),
        mark("step[DECODE bs=2]", 55, 70),
        event("drafted", 60, 65),
        event("rest", 90, 95),
    )
    assert result["verified"] == ("verify", "step[TARGET_VERIFY bs=2]")
    assert result["drafted"] == ("draft", "draft")
    assert result["rest"][0] == "decode"


def test_frames_count_where_no_annotation_marks_forward_passes() -> None:
    forward = frame(RUNNER + "forward_decode", 0, 50)
    verify = [frame(EAGLE + "verify", 60, 99), frame(GRAPHS + "replay", 70, 90)]
    inside = event("x", 10, 20)
    last = event("y", 75, 80)
    alone = phases(forward, inside, *verify, last)
    assert alone["x"] == ("decode", RUNNER + "forward_decode")
    assert alone["y"] == ("verify", EAGLE + "verify")
    marked = phases(forward, inside, *verify, last, mark("step[DECODE bs=1]", 200, 210))
    assert marked["x"] == (None, None)
    assert marked["y"] == ("verify", EAGLE + "verify")


def test_an_occurrence_of_an_unknown_phase_has_a_mark_and_no_phase() -> None:
    result = phases(mark("gpu_model_runner: forward", 0, 50), event("x", 10, 20))
    assert result["x"] == (None, "gpu_model_runner: forward")


def test_captures_and_dummy_runs_have_all_inside_them() -> None:
    dummy = "vllm/v1/worker/gpu_model_runner.py(4712): _dummy_run"
    result = phases(
        frame(dummy, 0, 50), mark("step[DECODE bs=1]", 5, 20), event("x", 10, 12),
        mark("capture_8_DECODE", 60, 90), mark("step[DECODE bs=8]", 65, 80), event("y", 70, 72),
    )  # fmt: skip
    assert result["x"] == ("dummy", dummy)
    assert result["y"] == ("capture", "capture_8_DECODE")


def test_marks_of_devices_alone() -> None:
    shown: dict[str, Any] = {"category": "gpu_user_annotation", "device": 0, "thread": 9}
    again: dict[str, Any] = shown | {"stream": 8, "thread": 10}
    tables = facts(
        event("execute_context_0(0)_generation_1(1)", 0, 50, stream=7, **shown),
        event("step[DECODE bs=1]", 5, 40, stream=7, **shown),
        event("step[DECODE bs=1]", 8, 45, **again),
        event("step[DECODE bs=1]", 60, 90, stream=7, **shown),
        kernel("a", 10, None),
        kernel("b", 45, None),
        kernel("c", 70, None),
        kernel("d", 95, None),
    )
    assert column(tables, "phase_id") == [0, 0, 2, 3, 0, 0, 3, None]
    assert column(tables, "inference_phase")[4:] == ["decode"] * 3 + [None]


def test_what_never_ended_or_has_no_time_marks_nothing() -> None:
    assert set(phases(mark("draft", 3, None), event("x", 5, 6)).values()) == {(None, None)}


def served() -> Sequence[Row]:
    return (
        mark("step[EXTEND bs=1 toks=9]", 0, 40),
        call(10, 1),
        mark("step[DECODE bs=2]", 50, 90),
        call(60, 2),
        kernel("a", 45, 1),
        kernel("b", 95, 2),
    )


def test_a_filter_keeps_what_belongs_to_a_phase() -> None:
    trace = loaded(*served(), memory=[{"time_ns": t, "bytes": t} for t in (5, 45, 70, 95)])
    decode = trace.filter(phases="decode")
    assert decode.events["name"].to_list() == ["step[DECODE bs=2]", "cudaLaunchKernel", "b"]
    assert decode.memory["bytes"].to_list() == [70]
    assert decode.phases()["phase"].to_list() == ["decode"]
    assert trace.filter(phases=["decode", "prefill"]).events.height == 6
    assert trace.filter(phases="decode", kinds="kernel").events["name"].to_list() == ["b"]
    assert trace.filter(phases=[]).events.is_empty()


def test_a_filter_says_which_phases_there_are() -> None:
    trace = loaded(*served())
    with pytest.raises(UnknownNameError, match=r"no phase named 'mixed' \(known: decode, prefill"):
        trace.filter(phases="mixed")
    with pytest.raises(UnknownNameError, match="the trace has no inference phases"):
        loaded(event("x", 0, 1)).filter(phases="decode")
    with pytest.raises(ParameterError, match="phases: needs text"):
        trace.filter(phases=3)  # type: ignore[arg-type]


def test_a_store_has_phases_too(tmp_path: Path) -> None:
    loaded(*served()).to_parquet(tmp_path / "store")
    assert load(tmp_path / "store").filter(phases="prefill").events["name"].to_list() == [
        "step[EXTEND bs=1 toks=9]", "cudaLaunchKernel", "a",
    ]  # fmt: skip
