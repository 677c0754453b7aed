"""A data type that a user gives: every name that it may have, and what it is taken for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from profframe.errors import ParameterError, ProfframeError, UnknownNameError
from profframe.facts.formulas.dtypes import PEAK_NAMES, peak_name
from profframe.show import compact_tables
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import stored
from tests.conftest import Run


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("fp64 float64 double torch.float64 torch.double f64 FP64 Double", "fp64"),
        ("fp32 float32 float torch.float32 torch.float f32 numpy.float32 Float single", "fp32"),
        ("tf32 TF32 torch.tf32", "tf32"),
        ("fp16 float16 half torch.float16 torch.half c10::Half Half f16", "fp16"),
        ("bf16 bfloat16 torch.bfloat16 c10::BFloat16 BFloat16", "bf16"),
        ("fp8 float8 float8_e4m3fn torch.float8_e5m2 float8_e4m3fnuz float8_e8m0fnu", "fp8"),
        ("c10::Float8_e4m3fn fp8_e4m3 e5m2 mxfp8", "fp8"),
        ("fp6 float6_e2m3fn mxfp6", "fp6"),
        ("fp4 float4_e2m1fn_x2 torch.float4_e2m1fn_x2 nvfp4 mxfp4", "fp4"),
        ("int8 torch.int8 qint8 torch.qint8 char", "int8"),
    ],
)
def test_names(names: str, expected: str) -> None:
    assert {peak_name(name) for name in names.split()} == {expected}
    assert peak_name(f" {expected.upper()}\n") == expected


def test_objects() -> None:
    torch = needs.torch()
    given = {
        torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.half: "fp16",
        torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8", torch.int8: "int8",
    }  # fmt: skip
    assert {dtype: peak_name(dtype) for dtype in given} == given
    assert peak_name(np.float16) == peak_name(np.dtype("float16")) == "fp16"


@pytest.mark.parametrize(
    "name", ["fp17", "float23", "", "int64", "fp32_tensor", "float8e", "uint8", float, 3, None, {}]
)
def test_other_names_are_one_clear_error(name: object) -> None:
    with pytest.raises(UnknownNameError) as error:
        peak_name(name)
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in (*PEAK_NAMES, "float32", "bfloat16", "half"))


def test_an_array_is_no_data_type(trace: Trace) -> None:
    with pytest.raises(UnknownNameError, match=r"no dtype named '\[1 2\]'"):
        trace.roofline(dtype=np.array([1, 2]))


def test_a_name_that_is_nearly_one_says_which() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'bfloat16'"):
        peak_name("bflaot16")


@pytest.mark.parametrize(
    "name", ["int32", "torch.int32", "int64", "uint8", "i32", "bool", "complex64", "long", "int4"]
)
def test_types_without_a_peak_are_not_taken_for_slips(name: str) -> None:
    with pytest.raises(UnknownNameError, match="no device has a peak for") as error:
        peak_name(name)
    assert "did you mean" not in str(error.value)
    assert all(word in str(error.value) for word in PEAK_NAMES)


# What it is taken for

KERNEL = {"kind": "kernel", "category": "kernel", "pid": "0", "tid": "7", "device": 0}
KERNEL |= {"dur_ns": 100, "flops": 50_000, "bytes": 10}
PEAKS = {"fp32_flop_per_s": 1e12, "bf16_flop_per_s": 2e12, "tf32_flop_per_s": 4e12}


@pytest.fixture
def trace() -> Trace:
    """A kernel in bf16, and one of which the type is not known."""
    return stored(
        events=[
            KERNEL | {"name": "known", "work_dtype": "bf16", "start_ns": 0},
            KERNEL | {"name": "unknown", "start_ns": 200},
        ],
        devices=[{"device": 0, "name": "D", "bandwidth_bytes_per_s": 1e12, **PEAKS}],
        threads=[{"pid": "0", "tid": "7"}],
        traces=[{"format": "kineto", "clock": "relative"}],
    )


def held(trace: Trace, **options: Any) -> dict[str, tuple[str | None, float | None]]:
    rows = trace.roofline(**options).select("name", "peak_dtype", "flop_share").rows()
    return {name: (dtype, share) for name, dtype, share in rows}


def test_what_is_known_stays(trace: Trace) -> None:
    known = ("bf16", 0.25)
    assert held(trace) == {"known": known, "unknown": (None, None)}
    for dtype in ("fp32", "float32", "torch.float32", np.float32):
        assert held(trace, dtype=dtype) == {"known": known, "unknown": ("fp32", 0.5)}
    assert held(trace, dtype="tf32") == {"known": known, "unknown": ("tf32", 0.125)}


def test_override_goes_before_what_is_known(trace: Trace) -> None:
    both = ("fp32", 0.5)
    assert held(trace, dtype="float32", override=True) == {"known": both, "unknown": both}
    answer = trace.answer("roofline", dtype="torch.float32", override=True)
    assert answer["flop_share"].to_list() == [0.5, 0.5]
    assert trace.plot.roofline(dtype=np.float32, override=True).to_dict()
    for ask in (
        lambda: trace.roofline(override=True),
        lambda: trace.answer("roofline", override=True),
        lambda: trace.augment("out.json", override=True),
    ):
        with pytest.raises(ParameterError, match="override needs a dtype"):
            ask()
    with pytest.raises(ParameterError, match="override: needs True or False, got 'false'"):
        trace.augment("out.json", "fp32", override="false")  # type: ignore[arg-type]


def shares(trace: Trace, path: Path, **options: Any) -> list[float | None]:
    trace.augment(path, **options)
    events = json.loads(path.read_text())["traceEvents"]
    return [e["args"].get("achieved_flops_pct") for e in events if e["ph"] == "X"]


def test_augment_takes_it_with_the_same_meaning(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    assert shares(trace, path) == [25.0, None]
    assert shares(trace, path, dtype="float32") == [25.0, 50.0]
    assert shares(trace, path, dtype="float32", override=True) == [50.0, 50.0]
    with pytest.raises(ProfframeError, match="no dtype named 'fp17'"):
        trace.augment(path, dtype="fp17")


def row(lost_ns: int | None, total_ns: int, limit_ns: int | None, note: str | None = None) -> Any:
    return {"run": "r", "rank": 0, "device": 0, "lost_ns": lost_ns, "total_ns": total_ns} | {
        "limit_ns": limit_ns, "note": note, "peak_dtype": None, "peak_flop_per_s": None,
        "peak_bytes_per_s": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(4_701, 5_000, 299), row(None, 155_000, None, "bytes_only")],
         "of the 5.000 us of that with a known limit, 4.701 us (94.0 %) was lost."),
        ([row(1_000, 5_000, 2_000)],  # of 5 us, 3 have a limit
         "of the 3.000 us of that with a known limit, 1.000 us (33.3 %) was lost."),
        ([row(1_000, 5_000, 4_000)], "is known; 1.000 us (20.0 %) of that was lost."),
        ([row(-10, 100, 110)], "is known; it took less than these peaks allow."),
        ([row(-10, 100, 110), row(None, 100, None)],
         "the 0.100 us of that with a known limit took less than these peaks allow."),
        ([row(None, 100, None)], "0.100 us of kernels is known."),
    ],
)  # fmt: skip
def test_what_was_lost_is_of_what_has_a_limit(rows: list[Any], said: str) -> None:
    devices = pl.DataFrame({"run": ["r"], "rank": [0], "device": [0], "model": ["D"], "name": [""]})
    assert compact_tables.roofline_headline(pl.DataFrame(rows), devices).endswith(said)


def test_the_command_line(trace: Trace, tmp_path: Path, run: Run) -> None:
    store, out = str(tmp_path / "store"), str(tmp_path / "out.json")
    trace.to_parquet(store)

    def rows(*arguments: str) -> list[tuple[str, float]]:
        assert run("roofline", store, "-o", out, *arguments) == (0, "", "")
        return [(row["peak_dtype"], row["flop_share"]) for row in json.loads(Path(out).read_text())]

    assert sorted(rows("--dtype", "float32")) == [("bf16", 0.25), ("fp32", 0.5)]
    assert rows("--dtype", "torch.float32", "--override") == [("fp32", 0.5)] * 2
    code, text, _ = run("roofline", store, "--dtype", "float32")
    assert code == 0
    assert "at most 2.00 TFLOP/s bf16, 1.00 TFLOP/s fp32, 1.00 TB/s of memory" in text
    assert run("answer", "roofline", store, "-p", "dtype=half", "-p", "override=true")[0] == 0
    assert run("augment", store, out, "--dtype", "float32", "--override")[0] == 0
    assert Path(out).read_text().count('"achieved_flops_pct":50.0') == 2
    for verb in (("roofline", store), ("augment", store, out)):
        code, _, err = run(*verb, "--dtype", "fp17")
        assert (code, "no dtype named 'fp17'" in err, "fp16" in err) == (2, True, True)
        code, _, err = run(*verb, "--override")
        assert (code, "override needs a dtype" in err) == (2, True)


def test_peaks_that_work_exceeds_are_not_said_to_be_lost_time(trace: Trace) -> None:
    """At a peak a hundredth as high the work would have taken longer than it did."""
    slow = {"D 1": {"match": [{"name": "^D$"}], "dense_flop_per_s": {"bfloat16": 2e10}}}
    other = trace.with_devices(slow)
    headline = compact_tables.roofline_headline(other.roofline(dtype="bf16"), other.devices)
    assert "it took less than these peaks allow" in headline
    assert "-" not in headline.splitlines()[-1]
