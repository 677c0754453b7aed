"""The roofline against a loop over kernels, on drawn kernels and devices, and on real ones."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe import load, schema
from profframe.trace.trace import Trace
from tests.builders import table
from tests.conftest import only_real_trace
from tests.members import few
from tests.oracles.rooflines import Row, roofline

KEY = ("run", "rank", "device", "name", "input_dims", "peak_dtype")
BY = ("kernel", "op", "shapes", "dtype")
USED = (
    *("run", "rank", "event_id", "kind", "name", "device", "dur_ns", "flops", "bytes"),
    *("work_id", "op_id", "work_dtype", "input_dims", "kernel_category"),
)


def agree(trace: Trace, by: str, dtype: str | None = None, *, override: bool = False) -> None:
    """Compare an answer with the loop, and its rows with each other."""
    found = trace.roofline(per=by, dtype=dtype, override=override).to_dicts()
    events = trace.events.select(USED).to_dicts()
    expected, unknown = roofline(events, trace.devices.to_dicts(), by, dtype, override=override)
    rest = [row for row in found if row["note"] == "unknown_work"]
    assert found[len(found) - len(rest) :] == rest
    assert {tuple(r[k] for k in KEY[:3]): r["total_ns"] for r in rest} == unknown
    rows = found[: len(found) - len(rest)]
    assert {tuple(row[k] for k in KEY) for row in rows} == expected.keys()
    assert len(rows) == len(expected)
    for row in rows:
        same(row, expected[tuple(row[k] for k in KEY)])
    lost = [row["lost_ns"] for row in rows if row["lost_ns"] is not None]
    assert lost == sorted(lost, reverse=True)
    assert all(row["lost_ns"] is None for row in rows[len(lost) :])
    for where in {(row["run"], row["rank"]) for row in found}:
        shares = [r["share"] for r in found if (r["run"], r["rank"]) == where]
        assert None in shares or sum(shares) == pytest.approx(1)


def same(row: Row, expected: Row) -> None:
    for name in ("calls", "kernels", "total_ns", "flops", "bytes", "bound"):
        assert row[name] == expected[name], name
    for name in ("flop_per_s", "bytes_per_s", "flop_share", "bandwidth_share"):
        wanted = expected[name]
        assert row[name] == (None if wanted is None else pytest.approx(float(wanted))), name
    limit = expected["limit_ns"]
    if limit is None:
        assert row["limit_ns"] is row["lost_ns"] is None
    else:
        assert abs(row["limit_ns"] - limit) <= Fraction(1, 2) + Fraction(row["kernels"], 1000)
        assert row["lost_ns"] == expected["limited_ns"] - row["limit_ns"]
    words = (row["note"] or "").split()
    if "unknown_device" not in words:
        assert ("bytes_only" in words) == expected["is_bytes_only"]
    fast = [
        note
        for note, share in (
            ("faster_than_peak", "flop_share"),
            ("faster_than_memory", "bandwidth_share"),
        )
        if expected[share] is not None and expected[share] > Fraction(105, 100)
    ]
    assert [word for word in words if word.startswith("faster")] == fast


some = st.none() | st.integers(0, 5000)
dtypes = st.sampled_from([None, "fp64", "fp32", "tf32", "bf16", "int64"])
rates = st.none() | st.integers(1, 10**12).map(float)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    where = st.fixed_dictionaries({"run": st.sampled_from("ab"), "rank": st.integers(0, 1)})
    devices: dict[tuple[Any, ...], Row] = {}
    for device in draw(st.lists(where, max_size=4)):
        columns = {
            f"{dtype}_flop_per_s": draw(rates) for dtype in ("fp64", "fp64_tensor", "fp32", "bf16")
        }
        columns["bandwidth_bytes_per_s"] = draw(rates)
        number = draw(st.integers(0, 1))
        row = device | {"device": number} | columns
        devices[device["run"], device["rank"], number] = row
    names = st.sampled_from([None, "gemm", "it's <b>", "unknown work"])
    kernel = st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["kernel", "kernel", "kernel", "memcpy"]),
            "name": names,
            "device": st.none() | st.integers(0, 1),
            "dur_ns": some,
            "flops": some,
            "bytes": some,
            "work_id": st.none() | st.integers(0, 3),
            "op_id": st.none() | st.integers(0, 3),
            "work_dtype": dtypes,
            "kernel_category": st.sampled_from([None, "attention_decode", "elementwise", "gemm"]),
        }
    )
    ops: Sequence[Row] = [
        {"kind": "host_op", "name": name, "input_dims": dims}
        for name, dims in (("mm", "[[2]]"), ("mm", "[[3]]"), ("add", None), (None, "[[2]]"))
    ]
    events: list[Row] = []
    for run, rank in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        drawn = draw(st.lists(kernel, max_size=8))
        rows = [dict(row) | {"run": run, "rank": rank} for row in (*ops, *drawn)]
        events += [row | {"event_id": number} for number, row in enumerate(rows)]
    tables = {"events": events, "devices": list(devices.values())}
    return Trace.from_tables({n: table(n, tables.get(n, ())) for n in schema.TABLES})


@given(traces(), st.sampled_from(BY), st.sampled_from([None, "bf16", "fp64"]), st.booleans())
def test_it_is_what_a_loop_finds(trace: Trace, by: str, dtype: str | None, override: bool) -> None:
    agree(trace, by, dtype, override=override and dtype is not None)


@given(traces())
@settings(max_examples=10)
def test_what_was_lost_is_the_same_however_it_is_grouped(trace: Trace) -> None:
    with trace.session() as asked:
        answers = [asked.roofline(per=by) for by in BY]
    for column in ("total_ns", "kernels", "flops", "bytes"):
        assert len({int(rows[column].sum()) for rows in answers}) == 1, column
    limits = [int(rows["limit_ns"].sum()) for rows in answers]
    assert max(limits) - min(limits) <= max(rows.height for rows in answers), "but for rounding"


TRACELENS = "AMD-AGI__TraceLens"
SAM = "pytorch-labs__segment-anything-fast"
REAL = {
    "H100": f"{TRACELENS}/h100/Qwen1.5-0.5B-Chat.json.gz",
    "H100 in tf32": "sidnb13__torch-profiling-tutorial/*589621105859.pt.trace.json",
    "A100": f"{SAM}/asdf_True.02c6e0.json.gz",
    "A100 in a search": f"{SAM}/amg_example_trace.1c507e.json.gz",
    "B300": f"{TRACELENS}/inference/sglang_deepseek_r1_B300_*.json.gz",
    "MI300": f"{TRACELENS}/mi300/Qwen1.5-0.5B-Chat.json.gz",
    "MI300 with images": f"{TRACELENS}/mi300/Falconsai_nsfw_image_detection.json.gz",
    "MI250": "facebookresearch__HolisticTraceAnalysis/amd/mi250_minitoy_train_*.json.gz",
}


@pytest.mark.parametrize("name", few(REAL, 4))
def test_real_traces_have_a_roofline_and_reasons(name: str, traces: Path) -> None:
    with only_real_trace(traces, REAL[name]).session() as trace:
        check_real(trace)


def check_real(trace: Trace) -> None:
    checks = set(trace.quality["issue"])
    for by in BY:
        rows = trace.roofline(per=by)
        known = rows.drop_nulls("lost_ns")
        assert known.height, "nothing to report"
        assert set(rows["note"].drop_nulls()) <= {
            "unknown_work", "no_peak", "bytes_only", "faster_than_peak", "faster_than_memory"
        }  # fmt: skip
        for share, check in (
            ("flop_share", "faster_than_peak"),
            ("bandwidth_share", "faster_than_memory"),
        ):
            if (rows[share].drop_nulls() > 1.05).any():
                assert check in checks
    assert "unknown_device" not in checks
    agree(trace, "shapes")


@pytest.mark.parametrize("source", ["examples/bf16.json.gz", "examples/cpu_training.json.gz"])
def test_a_trace_without_kernels_has_no_roofline(source: str) -> None:
    assert load(source).roofline().height == 0
