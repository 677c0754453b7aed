"""The verbs `roofline` and `augment`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profframe import load
from tests.builders import stored
from tests.conftest import Run

HOSTILE = "[red]gemm[/red]\x1b[31m\n<b>'\""
MINE = {"Mine": {"match": [{"name": "\\bX1\\b"}], "bandwidth_bytes_per_s": 1e12}}
EXAMPLE = "examples/cpu_training.json.gz"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A known device, and one that is not."""
    kernel = {"kind": "kernel", "category": "kernel", "pid": "1", "tid": "7", "start_ns": 10}
    kernel |= {"device": 0, "work_dtype": "bf16", "flops": 10**9, "bytes": 10**6, "dur_ns": 2000}
    path = tmp_path / "store"
    stored(
        events=[
            kernel | {"name": HOSTILE},
            kernel | {"name": "mystery", "flops": None, "bytes": None},
            kernel | {"name": "add", "rank": 1, "event_id": 0},
        ],
        devices=[
            {"name": "T", "model": "T 1", "bf16_flop_per_s": 1e15, "bandwidth_bytes_per_s": 2**40},
            {"rank": 1, "name": "X1\x1b[31m"},
        ],
        threads=[{"rank": rank, "pid": "1", "tid": "7"} for rank in (0, 1)],
        traces=[{"rank": rank, "clock": "relative", "format": "kineto"} for rank in (0, 1)],
    ).to_parquet(path)
    return str(path)


@pytest.fixture
def devices(tmp_path: Path) -> str:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(MINE))
    return str(path)


def test_peaks_and_what_is_known_stand_above_the_rows(store: str, run: Run) -> None:
    code, out, _ = run("roofline", store)
    lines = out.splitlines()
    assert code == 0
    known = "The work of 4.000 us (66.7 %) of 6.000 us of kernels is known"
    assert lines[:3] == [
        "T 1: at most 1.00 PFLOP/s bf16, 1.10 TB/s of memory.",
        r"X1\x1b[31m: no known peaks, so no shares; roofline --devices FILE takes yours (JSON).",
        f"{known}; of the 2.000 us of that with a known limit, 1.000 us (50.0 %) was lost.",
    ]
    assert "Roofline by kernel" in out
    assert "unknown_device" in out
    assert "\x1b" not in out


def test_own_devices(store: str, devices: str, run: Run) -> None:
    peaks = "Mine: at most 1.00 TB/s of memory."
    assert peaks in run("roofline", store, "--devices", devices)[1]


def test_all_rows_and_columns_in_a_file(store: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "rows.json"
    assert run("roofline", store, "--per", "dtype", "-o", str(path)) == (0, "", "")
    rows = json.loads(path.read_text())
    assert [row["name"] for row in rows] == ["bf16", "bf16", "unknown work"]
    assert list(rows[0]) == load(store).roofline().columns


def test_no_kernels_are_said_to_be_none(run: Run) -> None:
    code, out, _ = run("roofline", EXAMPLE)
    assert code == 0
    assert out.startswith("no rows: no kernels in this trace; record with activities=")


def test_augment_writes_and_says_how_much_is_known(
    store: str, devices: str, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "out.json"
    code, out, err = run("augment", store, str(path), "--rank", "0")
    assert (code, out) == (0, "")
    assert err == f"{path}: FLOPs or bytes known for 1 of 2 kernels\n"
    assert '"achieved_flops_pct":50.0' in path.read_text()
    assert run("augment", store, str(path), "--rank", "1", "--devices", devices)[0] == 0
    assert '"achieved_bandwidth_pct":50.0' in path.read_text()
