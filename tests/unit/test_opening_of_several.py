"""The first lines about several programs, and about traces in which devices hardly work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profframe import load
from tests.conftest import Run
from tests.unit.test_opening import first_lines, labelled

NOW_US = 1_700_000_000_000_000
Slice = tuple[str, str, int, float, float, dict[str, Any]]


def program(pid: int, at: float, steps: int = 0, late: float = 0, kernels: int = 2) -> list[Slice]:
    """Launches of kernels of 30 us each 100 us, `late` us before them, maybe in steps."""
    slices: list[Slice] = []
    for number in range(kernels):
        start = at + 100 * number
        args = {"correlation": 1 + number}
        slices += [
            ("cpu_op", "aten::mm", pid, start, 40, {}),
            ("cuda_runtime", "cudaLaunchKernel", pid, start + 1, 5, args),
            ("kernel", "sgemm", 0, start + 50 + late, 30, args | {"device": 0, "stream": 7}),
        ]
        if number < steps:
            slices.append(("user_annotation", f"ProfilerStep#{number}", pid, start, 100, {}))
    return slices


def written(path: Path, slices: list[Slice], **head: Any) -> Path:
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid or 7}
        | {"ts": NOW_US + ts, "dur": dur, "args": args}
        for category, name, pid, ts, dur, args in slices
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    devices = [{"id": 0, "name": "NVIDIA A100"}]
    text = {"schemaVersion": 1, "deviceProperties": devices} | head | {"traceEvents": events}
    path.write_text(json.dumps({key: value for key, value in text.items() if value is not None}))
    return path


def test_traces_of_one_device_are_not_several_devices(tmp_path: Path, run: Run) -> None:
    for number in range(4):
        written(tmp_path / f"h_1.{1700000000 + number}.pt.trace.json", program(1, 1000 * number))
    lines = labelled(printed := run(tmp_path)[1])
    assert ": 4 runs, 4 traces, no profiler steps, at most " in first_lines(printed)[0]
    assert lines["device"] == ["1 x NVIDIA A100 in each of 4 traces"]
    assert lines["time"] == [
        "idle 53.8 %, compute 46.2 % of the time of each run; runs are not averaged"
    ]


def test_devices_of_unlike_traces_are_of_their_traces(tmp_path: Path, run: Run) -> None:
    written(tmp_path / "a.json", program(1, 0))
    written(tmp_path / "b.json", program(2, 9000), deviceProperties=[{"id": 0, "name": "B"}])
    (line,) = labelled(run(tmp_path)[1])["device"]
    assert sorted(line.split(", ")) == ["1 x B in 1 trace", "1 x NVIDIA A100 in 1 trace"]


def test_ranks_of_a_job_have_devices_of_their_own(tmp_path: Path, run: Run) -> None:
    for rank in range(2):
        written(tmp_path / f"rank{rank}.json", program(1 + rank, 0))
    lines = labelled(printed := run(tmp_path)[1])
    assert ": 1 run, 2 ranks, " in first_lines(printed)[0]
    assert lines["device"] == ["2 x NVIDIA A100"]
    assert lines["time"][0].endswith(" of 260.000 us on the devices of 2 ranks")
    assert "260.000 us on the devices of 2 ranks, all but 100.000 us of the traces\n" in str(
        load(tmp_path)
    )


def test_steps_of_one_program_are_not_the_time_of_all(tmp_path: Path, run: Run) -> None:
    written(tmp_path / "a.json", program(1, 0, steps=2))
    written(tmp_path / "b.json", program(2, 9000))
    lines = labelled(printed := run(tmp_path)[1])
    assert ": 2 runs, 2 traces, 0 to 2 steps each, " in first_lines(printed)[0]
    assert lines["time"][0].split("; ") == [
        "a: compute 30.0 %, idle 70.0 % of 100.000 us per step, the mean of 2",
        "b: compute 46.2 %, idle 53.8 % of 130.000 us on the devices",
    ]
    assert lines["kernels"] == ["a gemm 100.0 %, b gemm 100.0 %"]


def test_programs_are_listed_and_not_averaged(tmp_path: Path, run: Run) -> None:
    written(tmp_path / "a.json", program(1, 0, steps=2))
    written(tmp_path / "b.json", program(2, 9000, steps=2))
    written(tmp_path / "c.json", program(3, 20_000, kernels=4))
    (time,) = labelled(run(tmp_path)[1])["time"]
    assert time == (
        "idle 63.6 % (c) to 70.0 % (a), compute 30.0 % (a) to 36.4 % (c) of the time of each run; "
        "runs are not averaged"
    )


def host_only(path: Path) -> Path:
    return written(path, [("cpu_op", "aten::mm", 9, 0, 40, {})], deviceProperties=None)


def test_runs_without_devices_are_counted(tmp_path: Path, run: Run) -> None:
    for name in "abc":
        written(tmp_path / f"{name}.json", program(1, 0, steps=2))
    host_only(tmp_path / "host.json")
    assert labelled(run(tmp_path)[1])["time"] == [
        "idle 70.0 %, compute 30.0 % of the time of 3 of 4 runs (the others have no device work)"
    ]


def test_the_only_run_with_devices_is_named(tmp_path: Path, run: Run) -> None:
    written(tmp_path / "a.json", program(1, 0, steps=2))
    host_only(tmp_path / "host.json")
    lines = labelled(run(tmp_path)[1])
    (time,) = lines["time"]
    assert time.startswith("a: compute 30.0 %, idle 70.0 % ")
    assert time.endswith(" of 100.000 us per step, the mean of 2")
    assert lines["kernels"] == ["a: gemm 100.0 %"]


def test_two_runs_say_of_how_many_steps_and_devices(tmp_path: Path) -> None:
    other: Slice = ("kernel", "sgemm", 0, 80, 70, {"device": 1, "stream": 7})
    written(tmp_path / "a.json", program(1, 0, steps=2))
    written(tmp_path / "b.json", [*program(2, 0), other])
    (time,) = [line for line in str(load(tmp_path)).splitlines() if line.startswith("  time")]
    assert "70.0 % of 100.000 us per step, the mean of 2; b: " in time
    assert "; idle is when none of the 2 devices works" in time


def test_a_mean_says_of_how_many_ranks_and_steps(tmp_path: Path) -> None:
    for rank in range(2):
        written(tmp_path / f"rank{rank}.json", program(1 + rank, 0, steps=2))
    assert " of 100.000 us per step, the mean of 4 = 2 ranks x 2 steps\n" in str(load(tmp_path))


def test_several_devices_are_idle_when_none_works(tmp_path: Path, run: Run) -> None:
    """One works from 50 to 80 us and from 150 to 180, the other from 80 to 150."""
    other: Slice = ("kernel", "sgemm", 0, 80, 70, {"device": 1, "stream": 7})
    path = written(tmp_path / "a.json", [*program(1, 0), other])
    (time,) = labelled(printed := run(path)[1])["time"]
    assert time.endswith("; idle is when none of the 2 devices works")
    assert "idle 0.0 % of 130.000 us on the devices" in time
    assert "idle %: of the span, in which none of the 2 devices works" in printed
    (alone,) = labelled(run(written(tmp_path / "b.json", program(1, 0)))[1])["time"]
    assert "; idle is when" not in alone


def test_the_pace_is_that_of_one_program(tmp_path: Path, run: Run) -> None:
    written(tmp_path / "even.json", program(1, 0, steps=2))
    written(tmp_path / "ahead.json", program(2, 9000, steps=2, late=150))
    (pace,) = labelled(run(tmp_path)[1])["pace"]
    text = "the host runs up to 130.000 us ahead in ahead: after the first step it takes 100.000 us"
    assert pace.startswith(text)
    (alone,) = labelled(run(tmp_path / "ahead.json")[1])["pace"]
    assert alone == pace.replace(" in ahead", "")


def test_the_pace_begins_after_the_first_step(tmp_path: Path, run: Run) -> None:
    """The devices are still at earlier work when it begins: what it takes then is no pace."""
    slices = program(1, 0, steps=3, late=150, kernels=3)
    before: Slice = ("kernel", "sgemm", 0, -10, 195, {"device": 0, "stream": 7})
    lines = labelled(run(written(tmp_path / "a.json", [*slices, before]))[1])
    assert lines["pace"][0].endswith(
        "after the first step it takes 100.000 us per step, and the devices complete one every "
        "100.000 us"
    )
    assert " of 81.667 us per step, the mean of 3" in lines["time"][0]


def test_devices_may_catch_up(tmp_path: Path, run: Run) -> None:
    """The host ended the first step 70 us before the devices, and waits for nothing later."""
    slices = program(1, 0, steps=3, kernels=3)
    slices = [(*one[:4], 120, one[5]) if one[0] == "kernel" else one for one in slices]
    slices = [one for one in slices if one[0] != "kernel" or one[3] < 100]
    later: list[Slice] = [
        ("kernel", "sgemm", 0, start, 30, {"device": 0, "stream": 7, "correlation": number})
        for number, start in ((2, 170), (3, 250))
    ]
    (pace,) = labelled(run(written(tmp_path / "a.json", slices + later))[1])["pace"]
    assert pace == (
        "the host runs up to 70.000 us ahead: after the first step the devices catch up: they "
        "complete a step every 65.000 us, the host takes 100.000 us"
    )


@pytest.mark.parametrize(
    ("late", "cause", "bound"),
    [
        (0, "mostly waiting for the host", "host-bound: "),
        (470, "mostly waiting for the host", "host-bound: "),
        (900, "mostly between a launch and its start: other work may be missing", ""),
    ],
)
def test_the_host_is_to_blame_until_it_launches(
    late: float, cause: str, bound: str, tmp_path: Path, run: Run
) -> None:
    """A kernel of 10 us, and one at 1000 that was launched just before, or up to 900 us earlier."""
    slices: list[Slice] = [("cpu_op", "aten::mm", 1, 0, 1000, {})]
    for number, (launch, start) in enumerate(((0, 10), (980 - late, 1000)), 1):
        args = {"correlation": number}
        slices += [
            ("cuda_runtime", "cudaLaunchKernel", 1, launch, 5, args),
            ("kernel", "sgemm", 0, start, 10, args | {"device": 0, "stream": 7}),
        ]
    (time,) = labelled(run(written(tmp_path / "a.json", slices))[1])["time"]
    assert time.startswith(f"{bound}compute 2.0 %, idle 98.0 % ({cause}) of ")


def test_a_single_fill_is_not_a_busy_trace(tmp_path: Path, run: Run) -> None:
    fill: Slice = ("gpu_memset", "Memset (Device)", 0, 500, 2, {"device": 0, "stream": 7})
    host: Slice = ("cpu_op", "aten::zeros", 1, 0, 1000, {})
    lines = labelled(run(written(tmp_path / "a.json", [host, fill]))[1])
    assert lines["time"] == [
        "compute 100.0 %, idle 0.0 % of 2.000 us on the devices, 0.2 % of the trace"
    ]
    assert lines["work"] == ["copy 100.0 %"]
    assert "kernels" not in lines
    assert lines["next"][0].startswith("profframe tree ")


@pytest.mark.parametrize(
    ("version", "recorder"), [(1, "torch's profiler"), (None, "Chrome trace JSON")]
)
def test_who_recorded_it_is_said_where_the_file_says_so(
    version: int | None, recorder: str, tmp_path: Path, run: Run
) -> None:
    path = written(tmp_path / "a.json", program(1, 0), schemaVersion=version, deviceProperties=None)
    assert labelled(run(path)[1])["recorded"][0].partition(";")[0] == recorder


def test_lines_of_all_ranks_begin_with_the_longest_idle_time(run: Run) -> None:
    lines = iter(run("show", "examples/job", "--top", "1", "--per", "rank")[1].splitlines())
    title = next(line for line in lines if line.startswith("Idle time by line of your code"))
    next(lines)
    assert (title.endswith("(top 1 of 20)"), next(lines).split()[0]) == (True, "2")


@pytest.mark.parametrize(("call", "answer"), [("Synchronize", "host_waits"), ("Query", "gaps")])
def test_after_calls_that_hold_up_the_host_the_next_question_is_which(
    call: str, answer: str, tmp_path: Path, run: Run
) -> None:
    """Each call ends after the kernel, and the device is idle until the host launches again."""
    waits: list[Slice] = [
        ("cuda_runtime", f"cudaStream{call}", 1, 100 * number + 50, 31, {}) for number in range(4)
    ]
    path = written(tmp_path / "a.json", [*program(1, 0, steps=4, kernels=4), *waits])
    commands = labelled(run(path)[1])["next"]
    assert any(command.startswith(f"profframe answer {answer} ") for command in commands)
