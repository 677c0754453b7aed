"""What runs once more in backward, for activation checkpointing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from tests import needs
from tests.builders import Row, column, event, facts

EVALUATE = "autograd::engine::evaluate_function: "
FRAME = "/usr/lib/python3/site-packages/torch/utils/checkpoint.py(1500): recompute_fn"


def marks(*events: Row, **others: Any) -> dict[str, bool | None]:
    """`is_recompute` by name."""
    tables = facts(*events, **others)
    pairs = zip(column(tables, "name"), column(tables, "is_recompute"), strict=True)
    return {str(name): mark for name, mark in pairs}  # type: ignore[misc]


def python(name: str, start: int, end: int) -> Row:
    return event(name, start, end, category="python_function")


def test_inside_torchs_frame_all_is_recomputed() -> None:
    on_device: dict[str, Any] = {"thread": 9, "device": 0, "stream": 7, "category": "kernel"}
    found = marks(
        event("forward", 0, 9),
        event(f"{EVALUATE}Relu", 10, 90),
        event("Relu", 11, 89),
        python("torch/utils/checkpoint.py(1111): unpack_hook", 12, 60),
        python(FRAME, 13, 50),
        event("again", 20, 40),
        event("part", 21, 39),
        event("cudaLaunchKernel", 22, 24, category="cuda_runtime", correlation=1),
        event("relu_backward", 70, 80),
        event("cudaLaunch", 72, 74, category="cuda_runtime", correlation=2),
        event("k again", 30, 35, correlation=1, **on_device),
        event("k", 80, 85, correlation=2, **on_device),
        event("lost", 90, 95, correlation=3, **on_device),
        event("PyTorch Profiler (0)", 0, 99, category="Trace", thread=5),
    )
    yes = {FRAME, "again", "part", "cudaLaunchKernel", "k again"}
    assert {name for name, mark in found.items() if mark} == yes
    assert {name for name, mark in found.items() if mark is None} == {
        "lost", "PyTorch Profiler (0)",
    }  # fmt: skip


def test_a_reentrant_checkpoint_runs_forward_then_backward() -> None:
    outer = "CheckpointFunctionBackward"
    found = marks(
        event(EVALUATE + outer, 0, 90),
        event(outer, 1, 89),
        event("again", 2, 9, sequence_nr=4),
        event(f"{EVALUATE}Mm", 10, 80),
        event("Mm", 11, 79, sequence_nr=4, fwd_thread=1),
        event("mm", 12, 20),
        event(f"{EVALUATE}Inner{outer}", 81, 88),
        event(f"Inner{outer}", 82, 87),
        event("inner again", 83, 84, sequence_nr=5),
    )
    assert {name for name, mark in found.items() if mark} == {"again", "inner again"}


def test_without_frames_what_records_for_autograd_among_what_does_not() -> None:
    found = marks(
        event("conv", 0, 9, sequence_nr=1),
        event(f"{EVALUATE}Conv", 10, 90),
        event("Conv", 11, 89, sequence_nr=1, fwd_thread=1),
        event("again", 20, 40, sequence_nr=8),
        event("part", 21, 39),
        event("conv_backward", 50, 60),
        event("deeper", 51, 52, sequence_nr=9),
    )
    assert {name for name, mark in found.items() if mark} == {"again", "part"}


def test_where_backward_itself_records_nothing_is_recomputed() -> None:
    """As with ``create_graph=True``."""
    found = marks(
        event("mul", 0, 9, sequence_nr=1),
        event(f"{EVALUATE}Mul", 10, 90),
        event("Mul", 11, 89, sequence_nr=1, fwd_thread=1),
        event("mul 1", 20, 40, sequence_nr=8),
        event("mul 2", 50, 60, sequence_nr=9),
    )
    assert set(found.values()) == {False}


def test_a_source_without_autograd_and_frames_cannot_tell() -> None:
    found = marks(event("range", 0, 9), event("call", 1, 2, category="cuda_runtime"))
    assert set(found.values()) == {None}
    assert set(marks(event("mm", 0, 9, sequence_nr=0)).values()) == {False}
    assert marks() == {}


@pytest.mark.parametrize("with_stack", [True, False])
@pytest.mark.parametrize("mode", ["kept", "reentrant", "not reentrant"])
def test_live_checkpoints_run_each_op_of_their_forward_again(mode: str, with_stack: bool) -> None:
    torch = needs.torch()
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(4, 8, requires_grad=True)
    weight = torch.randn(8, 8, requires_grad=True)

    def block(y: Any) -> Any:
        return torch.nn.functional.softplus(y @ weight).square()

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=with_stack
    ) as prof:
        y = x
        for _ in range(3):
            again = {"use_reentrant": mode == "reentrant"}
            y = block(y) if mode == "kept" else checkpoint(block, y, **again)
        y.sum().backward()
    ops = profframe.load(prof).sql("""
        SELECT name, count(*) FILTER (is_recompute) AS again, count(*) FILTER (is_recompute IS NULL)
        FROM events
        WHERE name IN ('aten::softplus', 'aten::softplus_backward', 'aten::sum')
        GROUP BY name ORDER BY name""")
    times = 0 if mode == "kept" else 3
    assert ops.rows() == [
        ("aten::softplus", times, 0), ("aten::softplus_backward", 0, 0), ("aten::sum", 0, 0),
    ]  # fmt: skip


def test_a_real_run_has_the_numbers_of_another_tool(traces: Path) -> None:
    """243 of the ops that launch kernels, with 4.12 ms; with and without Python frames."""
    source = traces / "AMD-AGI__TraceLens/mi300/resnet_act_checkpoint.json.gz"
    trace = profframe.load(source)
    again = trace.recompute()
    assert (again["launching"].sum(), again["kernel_ns"].sum()) == (243, 4_122_223)
    assert again.filter(pl.col("device_ns") > 0)["module"].null_count() == 0


def test_and_so_it_has_without_frames(traces: Path, tmp_path: Path) -> None:
    source = traces / "AMD-AGI__TraceLens/mi300/resnet_act_checkpoint.json.gz"
    document = json.loads(gzip.decompress(source.read_bytes()))
    events = document["traceEvents"]
    document["traceEvents"] = [row for row in events if row.get("cat") != "python_function"]
    (tmp_path / "trace.json").write_text(json.dumps(document))
    again = profframe.load(tmp_path / "trace.json").recompute()
    assert (again["launching"].sum(), again["kernel_ns"].sum()) == (243, 4_122_223)
