"""Samples of devices, as Kineto, Cuspy, rocprof-sys and programs themselves write them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.readers.build.counters import device_of_name, device_of_process, unit_of
from profframe.show import trace_header
from profframe.show.columns import compact, heading
from profframe.show.terminal import table, text
from tests.conftest import Run
from tests.round_trip import differences


def sample(name: str, pid: object, ts: float, value: object, **more: object) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {"": value}, **more}


def slice_(cat: str, name: str, ts: float, dur: float, **args: object) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args
    }  # fmt: skip


def loaded(folder: Path, *events: dict[str, Any]) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return profframe.load(path)


def pm(name: str, ts: float, value: object, device: int = 0) -> dict[str, Any]:
    """As Kineto writes a PM sample: a counter for each metric."""
    return sample(name, f"GPU {device} Counters", ts, value, cat="hardware_counters", tid=0)


SM, DRAM = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "dram__bytes_read.sum"
KERNEL = slice_("kernel", "gemm", 10, 30, device=0, stream=7)


def test_pm_samples_have_a_device_and_a_name(tmp_path: Path) -> None:
    trace = loaded(tmp_path, KERNEL, pm(SM, 10, 12.5, 3), pm(DRAM, 10, 7, 3))
    columns = ("category", "name", "series", "value", "unit", "device")
    assert trace.counters.select(columns).rows() == [
        ("hardware_counters", SM, SM, 12.5, "%", 3),
        ("hardware_counters", DRAM, DRAM, 7.0, None, 3),
    ]


@pytest.mark.parametrize(
    ("name", "pid", "category", "device"),
    [
        ("Power (W)", "GPU 2 Counters", None, 2),
        ("GPU 1 Power (W)", "4711", None, 1),
        ("GPU Power [1] (S)", "4711", None, 1),
        ("GPU [0] VCN Activity [03] (S)", "4711", None, 0),
        ("mtia", "3", "mtia_counters", 3),
        ("xpu", "0", "xpu_scope_profiler", 0),
        ("memory", "3", None, None),
        ("GPU Power", "3", None, None),
        ("GPUs 5", "GPU 1 Counters ", None, None),
        ("Power of GPU 5", "GPU 9999999999 Counters", None, None),
        ("Power", "-1", "mtia_counters", None),
    ],
)
def test_devices(name: str, pid: str, category: str | None, device: int | None) -> None:
    of_process = device_of_process(pid, category)
    assert (device_of_name(name) if of_process is None else of_process) == device


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Power (W)", "W"),
        ("Power(mW)", "mW"),
        ("GPU 0 power_uw", "uW"),
        ("power draw [W]", "W"),
        ("Power (Watts)", "W"),
        ("board power in milliwatts", "mW"),
        ("power_kw", "kW"),
        ("Power W", "W"),
        ("Power", None),
        ("weight W", None),
        ("powerful W", None),
        ("Power (W) of 3", None),
        ("Temperature (C)", "C"),
        ("power " * 100_000, None),
    ],
)
def test_units(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


def test_the_unit_may_be_in_the_name_of_the_value(tmp_path: Path) -> None:
    event = {"ph": "C", "name": "GPU 0", "pid": 5, "ts": 1, "args": {"power_w": 5, "used": 3}}
    trace = loaded(tmp_path, KERNEL, event, event | {"ts": 3})
    assert trace.counters.select("series", "unit", "device").rows()[:2] == [
        ("power_w", "W", 0),
        ("used", None, 0),
    ]
    assert trace.energy().select("series", "energy_j").rows() == [("power_w", 1e-5)]


def test_what_kineto_writes_is_answered_by_op_and_kernel(tmp_path: Path) -> None:
    """A sample is stamped with its start: that at 40 is not of the kernel that ends there."""
    values = {0: 1, 10: 80, 20: 90, 30: 70, 40: 5, 50: 5}
    samples = [pm(SM, ts, value) for ts, value in values.items()]
    rows = loaded(tmp_path, KERNEL, *samples).counters_by_op(per="kernel").to_dicts()
    assert [(row["kernel"], row["mean_value"], row["samples"]) for row in rows] == [
        ("gemm", 80.0, 3)
    ]


def test_metrics_of_a_kernel_of_xpu_are_its_own(tmp_path: Path) -> None:
    """Kineto writes them at the start of a slice for the metrics, and zeros at its end."""
    scope = {"ph": "C", "cat": "xpu_scope_profiler", "name": "xpu", "pid": 0, "tid": 0}
    trace = loaded(
        tmp_path,
        slice_("kernel", "metrics: gemm", 9.999, 30.002, device=0, stream=7),
        KERNEL,
        scope | {"ts": 9.999, "args": {"GpuTime": 30, "XVE_ACTIVE": 0.5}},
        scope | {"ts": 40.001, "args": {"GpuTime": 0, "XVE_ACTIVE": 0}},
    )
    rows = trace.counters_by_op(per="kernel").select("kernel", "series", "mean_value").rows()
    assert rows == [
        ("metrics: gemm", "GpuTime", 30.0),
        ("metrics: gemm", "XVE_ACTIVE", 0.5),
        ("gemm", "GpuTime", None),
        ("gemm", "XVE_ACTIVE", None),
    ]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "text", None, [1], {"a": 1}, 1e308, "8"])
def test_values_that_are_no_numbers_cover_nothing(tmp_path: Path, value: object) -> None:
    samples = [pm("Power (W)", ts, 100) for ts in (10, 30, 40)]
    trace = loaded(tmp_path, KERNEL, *samples, pm("Power (W)", 20, value))
    (row,) = trace.counters_by_op().to_dicts()
    (power,) = trace.energy().to_dicts()
    if value == "8":
        assert (row["mean_value"], power["energy_j"]) == (208 / 3, 2.08e-3)
    elif value == 1e308:
        assert row["mean_value"] == pytest.approx(1e308 / 3)
        assert (power["energy_j"], power["sampled_ns"]) == (2e-3, 20_000)
    else:
        assert (row["mean_value"], row["covered_ns"], row["samples"]) == (100.0, 20_000, 2)
        assert (power["energy_j"], power["sampled_ns"]) == (2e-3, 20_000)


def test_counters_survive_an_export_and_a_store(tmp_path: Path) -> None:
    samples = [pm(SM, ts, 5) for ts in (10, 20, 40)] + [sample("Power (W)", 3, 10, 7)]
    trace = loaded(tmp_path, KERNEL, *samples)
    trace.to_parquet(tmp_path / "store")
    trace.export_chrome_trace(tmp_path / "again.json")
    for again in (profframe.load(tmp_path / "store"), profframe.load(tmp_path / "again.json")):
        assert again.counters_by_op().rows()[0][2:] == trace.counters_by_op().rows()[0][2:]
    assert not differences(trace, profframe.load(tmp_path / "again.json"))


def test_a_value_without_a_name_beside_others_keeps_none(tmp_path: Path) -> None:
    """Or it would be one with the value that has the name of the counter."""
    both = {"ph": "C", "name": "Power (W)", "pid": 5, "ts": 1, "args": {"": 1, "Power (W)": 3}}
    trace = loaded(tmp_path, KERNEL, both)
    assert trace.counters.select("series", "value").rows() == [("", 1.0), ("Power (W)", 3.0)]
    trace.export_chrome_trace(tmp_path / "again.json")
    again = profframe.load(tmp_path / "again.json")
    assert again.counters.select("series", "value").rows() == [("", 1.0), ("Power (W)", 3.0)]


def test_the_first_screen_has_energy_only_where_power_was_sampled(tmp_path: Path, run: Run) -> None:
    loaded(tmp_path, KERNEL, *(pm("Power (W)", ts, 100) for ts in (0, 10, 20, 40, 60)))
    text = run(str(tmp_path / "trace.json"))[1]
    assert "energy       6.000 mJ of 1 device, 50.0 % of it while idle; 100.000 W" in text
    loaded(tmp_path, KERNEL, *(pm(SM, ts, 100) for ts in (0, 10, 20, 40, 60)))
    assert "energy" not in run(str(tmp_path / "trace.json"))[1]


def first_energy(tmp_path: Path, *events: dict[str, Any]) -> str:
    """What the first screen says of energy, of the only answers that it takes."""
    trace = loaded(tmp_path, *events)
    opening: Any = SimpleNamespace(energy=trace.energy(), overview=trace.overview())
    return next(iter(trace_header._energy(opening)), "")


def test_the_first_screen_says_how_much_of_the_trace_has_samples(tmp_path: Path) -> None:
    """The kernel is from 10 to 40, and another ends at 1,010."""
    late = slice_("kernel", "late", 1_000, 10, device=0, stream=7)
    samples = [pm("Power (W)", ts, 100) for ts in (0, 10, 20, 40, 60)]
    assert first_energy(tmp_path, KERNEL, late, *samples).startswith(
        "6.000 mJ of 1 device in the 6.0 % of the trace with samples, 50.0 % of the energy"
    )
    other = slice_("kernel", "other", 10, 1_000, device=1, stream=7)
    whole = [pm("Power (W)", ts, 100) for ts in (10, 60, 1_010)]
    assert first_energy(tmp_path, KERNEL, late, other, *whole).startswith(
        "100.000 mJ of 1 of 2 devices, 96.0 % of it while idle"
    )


def test_the_first_screen_has_the_counter_that_contains_the_others(tmp_path: Path) -> None:
    samples = [
        pm(name, ts, watts)
        for name, watts in (("HBM Power (W)", 20), ("Total Power (W)", 100), ("Z Power (W)", 30))
        for ts in (0, 10, 20, 40, 60)
    ]
    assert first_energy(tmp_path, KERNEL, *samples).startswith("6.000 mJ of 1 device, 50.0 %")


@pytest.mark.parametrize(
    ("name", "pid", "times", "text"),
    [
        ("Power", None, (0, 60), "power without a unit"),
        ("Power (W)", "tool", (0, 60), "power was sampled, but of which device is not known"),
        ("Power (W)", "GPU 3 Counters", (0, 60), "power was sampled only of devices that have no"),
        ("Power (W)", None, (0, 10), "power was sampled only while no work ran"),
        ("Power", "tool", (0, 60), ""),
        ("Power (W)", None, (0,), ""),
    ],
)
def test_the_first_screen_says_why_there_is_no_energy(
    tmp_path: Path, name: str, pid: str | None, times: tuple[int, ...], text: str
) -> None:
    samples = [pm(name, ts, 100) | ({"pid": pid} if pid else {}) for ts in times]
    line = first_energy(tmp_path, KERNEL, *samples)
    assert line.startswith(text)
    assert bool(line) == bool(text)


@pytest.mark.parametrize(
    ("name", "parameters", "value"),
    [
        ("energy", {}, "mean_w"),
        ("energy", {"per": "kernel"}, "estimated_j"),
        ("counters_by_op", {"per": "kernel"}, "mean_value"),
    ],
)
def test_a_narrow_terminal_has_the_values(
    name: str, parameters: dict[str, str], value: str
) -> None:
    """The name of a value that is that of its counter is not said twice."""
    rows = profframe.load("examples/power.json.gz").answer(name, **parameters)
    shown = text(table(compact(rows), 80))
    headings = shown.splitlines()[:2]  # a heading of several words may take two lines
    assert all(any(word in line for line in headings) for word in heading(value).split())
    assert "series" not in shown


def test_a_report_has_energy_as_one_choice(tmp_path: Path) -> None:
    trace = loaded(tmp_path, KERNEL, *(pm("Power (W)", ts, 100) for ts in (0, 10, 20, 40, 60)))
    trace.report(tmp_path / "page.html", sections=["counters"])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Energy by kernel" in text
    assert "Energy by step" not in text


def test_categories_of_a_newer_profiler_are_named(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        slice_("collective_comm", "xccl::allreduce", 0, 9),
        slice_("xpu_sync", "zeEventHostSynchronize", 0, 1),
        slice_("cuda_event", "CUDA event", 0, 1, device=0, stream=7),
        slice_("cuda_profiler_range", "range", 0, 1, fma=3),
        slice_("tpu_op", "later", 0, 1),
        slice_("tpu_op", "later", 2, 1),
        KERNEL,
    )
    assert trace.events["kind"].to_list() == [
        "annotation", "sync", "sync", "other", "other", "other", "kernel",
    ]  # fmt: skip
    notes = trace.quality.filter(pl.col("issue") == "unknown_category").select("events", "detail")
    assert notes.rows() == [
        (
            2,
            (
                "slices of categories of torch that profframe does not know, "
                "as of a newer profiler: tpu_op"
            ),
        )
    ]


def test_other_writers_call_slices_what_they_like(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slice_("engine", "draw", 0, 9), slice_("ui", "click", 2, 1))
    assert trace.quality.filter(pl.col("issue") == "unknown_category").height == 0
