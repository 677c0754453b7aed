"""``profframe export --step``: all steps that are named, with the ranges of devices in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe import Trace
from tests.conftest import Run
from tests.members import few


def slices(step: int) -> list[dict[str, Any]]:
    """A step with an op, a launch, its kernel, and the step's range on the device."""
    at = 1000 * step
    host: dict[str, Any] = {"ph": "X", "pid": 1, "tid": 1}
    device: dict[str, Any] = {"ph": "X", "pid": 0, "tid": 7}
    lane = {"device": 0, "stream": 7}
    name = f"ProfilerStep#{step}"
    rows = [
        host | {"cat": "user_annotation", "name": name, "ts": at, "dur": 900},
        host | {"cat": "cpu_op", "name": "aten::mm", "ts": at + 10, "dur": 50},
        host | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 20, "dur": 5},
        device | {"cat": "kernel", "name": "gemm", "ts": at + 2000, "dur": 30},
        device | {"cat": "gpu_user_annotation", "name": name, "ts": at + 2000, "dur": 30},
    ]
    args: list[dict[str, Any]] = [
        {"External id": 100 * step},
        {"External id": 100 * step + 1},
        {"correlation": step, "External id": 100 * step + 1},
        {"correlation": step, "External id": 100 * step + 1, **lane},
        {"External id": 100 * step, **lane},
    ]
    return [row | {"args": given} for row, given in zip(rows, args, strict=True)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three steps, and a kernel whose launch was cut off, while the second step was on."""
    cut_off = {
        "ph": "X",
        "cat": "kernel",
        "name": "cut off",
        "pid": 0,
        "tid": 7,
        "ts": 2500,
        "dur": 9,
        "args": {"correlation": 77, "device": 0, "stream": 7},
    }
    events = [*slices(1), *slices(2), *slices(3), cut_off]
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def checks(trace: Trace) -> dict[str, int]:
    return dict(trace.quality.select("issue", "events").iter_rows())


@pytest.mark.parametrize(
    ("steps", "kernels"), few([((2, 3), 2), ((2,), 1), ((1, 2, 3), 3)], 2, arguments=2)
)
def test_every_step_that_is_named(
    run: Run, source: Path, tmp_path: Path, steps: tuple[int, ...], kernels: int
) -> None:
    file = tmp_path / "copy.json"
    options = [word for step in steps for word in ("--step", str(step))]

    code, _, _ = run("export", str(source), "-o", str(file), *options)

    assert code == 0
    copy = profframe.load(file)
    assert sorted(copy.events["step"].unique()) == list(steps)
    for kind in ("kernel", "device_annotation"):
        assert copy.events.filter(kind=kind)["step"].sort().to_list() == list(steps)
    assert copy.events.filter(kind="kernel").height == kernels


def test_quality_of_the_copy_is_of_what_it_has(run: Run, source: Path, tmp_path: Path) -> None:
    whole = checks(profframe.load(source))
    assert whole["outside_steps"] == whole["kernel_without_launch"] == 1
    file = tmp_path / "copy.json"
    run("export", str(source), "-o", str(file), "--step", "2", "--step", "3")
    assert {"outside_steps", "kernel_without_launch"}.isdisjoint(checks(profframe.load(file)))


def test_a_step_that_is_not_there_is_an_error(run: Run, source: Path, tmp_path: Path) -> None:
    code, _, err = run(
        "export", str(source), "-o", str(tmp_path / "x.json"), "--step", "2", "--step", "9"
    )
    assert code == 1
    assert "no step 9 (known: 1-3)" in err


def test_show_takes_several_steps(run: Run, source: Path) -> None:
    code, out, _ = run("show", str(source), "--step", "2", "--step", "3")
    assert code == 0
    assert "gemm" in out
    assert "cut off" not in out
