"""What scripts/device_peaks.py measures, computes and writes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profframe import load
from profframe.facts.device_catalogue import fitting, models
from scripts import device_peaks
from scripts.device_peaks import (
    Best,
    Device,
    EventClock,
    MeasuringError,
    best_ns,
    copy_bytes,
    product_flop,
)
from tests import needs

QUICK = ("--device", "cpu", "--sizes", "32,64", "--copy-mib", "1", "--repeats", "1")
MIB = 1 << 20


@dataclass
class Ticks:
    """A clock that tells the given time of each call, and what it was asked."""

    times: Iterator[float]
    asked: list[int] = field(default_factory=list)

    def elapsed_ns(self, call: Callable[[], object], calls: int) -> float:
        for _ in range(calls):
            call()
        self.asked.append(calls)
        return next(self.times) * calls


@dataclass(frozen=True)
class Fake(Device):
    """A device whose products take what its clock says; one size is too large for it."""

    too_large: int = 0

    def product(self, dtype: str, size: int) -> Callable[[], object]:
        assert dtype in device_peaks.DTYPES
        if size == self.too_large:
            raise RuntimeError("out of memory\nsecond line")
        return lambda: None

    def copy(self, size: int) -> Callable[[], object]:
        return lambda: size


class Torch:
    """As much of torch as a fake device needs."""

    __version__ = "9.9"

    def __init__(self) -> None:
        self.words = ["medium"]

    def get_float32_matmul_precision(self) -> str:
        return self.words[-1]

    def set_float32_matmul_precision(self, word: str) -> None:
        self.words.append(word)


def fake(*times: float, name: str = "My GPU", **more: Any) -> Fake:
    where = SimpleNamespace(type="cuda")
    return Fake(Torch(), where, name, Ticks(iter(times)), **more)


# Arithmetic


def test_work_is_counted_by_hand() -> None:
    assert product_flop(3, 4, 5) == 2 * 3 * 4 * 5 == 120
    assert copy_bytes(100) == 200
    assert Best(4, 128, 64.0).per_s == 2e9
    assert Best(100, copy_bytes(100), 50.0).per_s == 4e9


def test_the_least_time_of_a_call_counts_and_the_first_does_not() -> None:
    clock = Ticks(iter([1.0, 5e6, 7e6, 4e6, 6e6]))
    assert best_ns(lambda: None, clock, 3) == 4e6
    assert clock.asked == [1, 1, 4, 4, 4], "20 ms are four calls of 5 ms"


@pytest.mark.parametrize(("once", "calls"), [(1e9, 1), (20e6, 1), (19e6, 2), (1.0, 200), (0, 200)])
def test_short_calls_are_repeated_between_two_looks_at_the_clock(once: float, calls: int) -> None:
    clock = Ticks(iter([9.0, once, 8.0]))
    assert best_ns(lambda: None, clock, 1) == 8.0
    assert clock.asked[-1] == calls


def test_a_clock_that_stands_still_is_refused() -> None:
    with pytest.raises(MeasuringError, match="stands still"):
        best_ns(lambda: None, Ticks(iter([0.0, 0.0, 0.0])), 1)


def test_events_tell_milliseconds() -> None:
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")

        def elapsed_time(self, _: Event) -> float:
            return 2.5

    runtime = SimpleNamespace(Event=Event, synchronize=lambda: log.append("synchronize"))
    assert EventClock(runtime).elapsed_ns(lambda: log.append("call"), 2) == 2.5e6
    assert log == ["synchronize", "record", "call", "call", "record", "synchronize"]


def test_the_best_size_of_a_type_counts() -> None:
    lines: list[str] = []
    # 32: 65,536 FLOPs in 32,768 ns are 2 GFLOP/s; 64: 524,288 in 131,072 are 4.
    device = fake(1.0, 32768.0, 32768.0, 1.0, 131072.0, 131072.0, too_large=128)
    best = device_peaks.best_product(device, "bf16", (32, 128, 64), 1, lines.append)
    assert best == Best(64, 524288, 131072.0)
    assert best.per_s == 4e9
    assert lines == [
        "bf16 32: 0.002 TFLOP/s, 0.033 ms",
        "bf16 128: not measured: out of memory",
        "bf16 64: 0.004 TFLOP/s, 0.131 ms",
    ]
    assert device_peaks.best_product(device, "bf16", (128,), 1, lines.append) is None


@pytest.mark.parametrize(("dtype", "word"), [("tf32", "high"), ("fp32", "highest")])
def test_tf32_is_only_where_it_is_measured_and_the_precision_is_given_back(
    dtype: str, word: str
) -> None:
    device = fake(1.0, 1.0, 1.0)
    device_peaks.best_product(device, dtype, (32,), 1, lambda _: None)
    assert device.torch.words == ["medium", word, "medium"]


def test_an_entry_has_what_was_measured_and_is_for_that_name_alone() -> None:
    device = fake(1.0, 8 * MIB, 8 * MIB, name="A(B) [C].*+ 80GB", memory_bytes=5, cache_bytes=7)
    copied = device_peaks.best_copy(device, 4 * MIB, 1, lambda _: None)
    products = {"fp16": Best(64, 524288, 131072.0), "fp8": Best(32, 65536, 3.0)}
    entry = device_peaks.entry(device, products, copied, date(2026, 11, 29))
    assert entry["comment"] == (
        "Measured by scripts/device_peaks.py on 2026-11-29 with torch 9.9: "
        "products of fp16 64, fp8 32; a copy of 4 MiB."
    )
    known = models({"Mine": entry})
    assert known["Mine"].columns == {
        "model": "Mine",
        "memory_bytes": 5,
        "cache_bytes": 7,
        "bandwidth_bytes_per_s": 1e9,
        "fp16_flop_per_s": 4e9,
        "fp8_flop_per_s": 2.18453e13,
    }
    row = dict.fromkeys(("memory_bytes", "multiprocessors", "compute_capability"))
    assert fitting(row | {"name": device.name}, known) == ["Mine"]
    assert fitting(row | {"name": "A(B) [C] 80GB"}, known) == []


def runtime(arch: str) -> Any:
    properties = SimpleNamespace(total_memory=206, L2_cache_size=4, gcnArchName=arch)
    return SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 2,
        set_device=lambda _: None,
        get_device_properties=lambda _: properties,
        get_device_name=lambda index: f"AMD Instinct MI300X {index}",
    )


def torch_with(**runtimes: Any) -> Any:
    def device(text: str, index: int | None = None) -> Any:
        kind, _, number = text.partition(":")
        return SimpleNamespace(type=kind, index=int(number) if number else index)

    accelerator = SimpleNamespace(current_accelerator=lambda: next(iter(runtimes), None))
    return SimpleNamespace(__version__="9.9", device=device, accelerator=accelerator, **runtimes)


@pytest.mark.parametrize(
    ("arch", "fp8"), [("gfx942:sramecc+", "float8_e4m3fnuz"), ("gfx950", "float8_e4m3fn")]
)
def test_a_device_has_the_sizes_and_types_that_its_runtime_tells(arch: str, fp8: str) -> None:
    opened = device_peaks.open_device(torch_with(cuda=runtime(arch)), "cuda:1")
    assert (opened.name, opened.where.index) == ("AMD Instinct MI300X 1", 1)
    assert (opened.memory_bytes, opened.cache_bytes, opened.fp8) == (206, 4, fp8)
    assert isinstance(opened.clock, EventClock)


def test_a_runtime_that_tells_nothing_of_its_device_is_enough() -> None:
    plain = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1)
    opened = device_peaks.open_device(torch_with(mps=plain), None)
    assert (opened.name, opened.memory_bytes, opened.cache_bytes) == ("mps", None, None)


def test_a_device_beyond_the_last_is_refused() -> None:
    with pytest.raises(MeasuringError, match=r"no device 'cuda:2': torch 9\.9 has 2 of type cuda"):
        device_peaks.open_device(torch_with(cuda=runtime("")), "cuda:2")


# With torch, on the CPU


def trace_of(folder: Path, device: str) -> Path:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.0, "dur": 1.0}
    events = [kernel | {"args": {"device": 0, "stream": 7, "kernel_num_gb": 1e-9}}]
    header = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": device}]}
    path = folder / "trace.json"
    path.write_text(json.dumps(header | {"traceEvents": events}))
    return path


def test_what_is_written_can_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = needs.torch()
    before = torch.get_float32_matmul_precision()
    output = tmp_path / "mine.json"
    device_peaks.main([*QUICK, "--dtypes", "fp64,fp32,bf16,int8", "-o", str(output)])
    assert torch.get_float32_matmul_precision() == before
    assert capsys.readouterr() == ("", "")

    (entry,) = json.loads(output.read_text()).values()
    assert {"fp64", "fp32", "bf16"} <= entry["dense_flop_per_s"].keys()
    assert "only for trying this out" in entry["comment"]
    trace = load(trace_of(tmp_path, "CPU"), devices=output)
    (device,) = trace.devices.rows(named=True)
    assert device["model"] == "CPU (measured)"
    assert device["bandwidth_bytes_per_s"] == entry["bandwidth_bytes_per_s"]
    assert device["fp32_flop_per_s"] == entry["dense_flop_per_s"]["fp32"]
    (row,) = trace.roofline().rows(named=True)
    assert row["bandwidth_share"] == row["bytes_per_s"] / entry["bandwidth_bytes_per_s"]
    assert trace.quality.height == 0


def test_a_pipe_gets_the_file_alone(capsys: pytest.CaptureFixture[str]) -> None:
    needs.torch()
    device_peaks.main([*QUICK, "--dtypes", "fp32", "--model", "NVIDIA T4"])
    written, told = capsys.readouterr()
    assert told == ""
    columns = models(json.loads(written))["NVIDIA T4"].columns
    (rates,) = [entry["dense_flop_per_s"] for entry in json.loads(written).values()]
    assert columns["fp32_flop_per_s"] == rates["fp32"]
    assert columns["int8_flop_per_s"] == 130e12, "what was not measured stays"


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.torch()
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    output = tmp_path / "mine.json"
    device_peaks.main([*QUICK, "--dtypes", "fp32", "-o", str(output)])
    head, warning, copied, *products, end = terminal.getvalue().splitlines()
    assert head.startswith("CPU (cpu), torch ")
    assert warning == "the CPU is only for trying this out, traces list none among their devices"
    assert copied.startswith("copy of 1 MiB: ")
    assert [line.split(":")[0] for line in products] == ["fp32 32", "fp32 64"]
    assert end == f"written to {output}: profframe.load(trace, devices={str(output)!r})"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "cuda:7"), "no device 'cuda:7': torch"),
        (("--device", "nonsense"), "no device 'nonsense': it is written as"),
        (("--device", "meta"), "no device 'meta': torch"),
        ((*QUICK, "--dtypes", "fp4"), "--dtypes: no 'fp4'; there are fp64 fp32"),
        ((*QUICK, "--sizes", "10"), "10 is no multiple of 16"),
        ((*QUICK, "--sizes", "0"), "needs whole numbers"),
        ((*QUICK, "--sizes", "64,"), "needs whole numbers"),
        ((*QUICK, "--repeats", "0"), "must be at least 1"),
        ((*QUICK, "--copy-mib", "-1"), "must be at least 1"),
        ((*QUICK, "-o", "/nowhere/at/all.json"), "there is no such folder"),
        ((*QUICK, "--dtypes", "fp32", "-o", "/"), "/: Is a directory"),
    ],
)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    needs.torch()
    with pytest.raises(SystemExit) as stop:
        device_peaks.main(arguments)
    text = str(stop.value)
    assert text.startswith("device_peaks: ")
    assert message in text
    assert "\n" not in text


def test_a_machine_without_an_accelerator_is_one_line() -> None:
    torch = needs.torch()
    if torch.accelerator.is_available():
        device_peaks.main(["--dtypes", "fp32", "--sizes", "256", "--copy-mib", "8"])
        return
    with pytest.raises(SystemExit, match=r"no accelerator: torch .* or --device cpu$"):
        device_peaks.main([])
