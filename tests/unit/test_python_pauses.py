"""Python's lock in exports of Nsight Systems, and garbage collections that torch recorded."""

from __future__ import annotations

import gc
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe import cli
from tests import needs
from tests.databases import Row, accounted, columns, write
from tests.unit.test_nsys import DOMAIN, MAIN, OTHER, STRINGS, call, kernel, nvtx

TEXTS = (
    *STRINGS,
    {"id": 7, "value": "Holding GIL"},
    {"id": 8, "value": "Waiting for GIL"},
    {"id": 9, "value": "GIL Trace"},
)
GIL = Path(__file__).parents[2] / "examples" / "gil.sqlite"


def lock(start: int, end: int | None, text: int, thread: int = MAIN) -> Row:
    return nvtx(start, end, None, textId=text, domainId=3, globalTid=thread)


def test_the_lock_crosses_ranges_and_takes_no_part_in_them(tmp_path: Path) -> None:
    """A kernel launched while the lock is held belongs to the op, not to the lock."""
    path = write(
        tmp_path / "r.sqlite",
        {
            "StringIds": TEXTS,
            "NVTX_EVENTS": [
                nvtx(0, None, None, textId=9, eventType=DOMAIN, domainId=3),
                nvtx(0, 100, "ProfilerStep#4"),
                nvtx(5, 60, "forward"),
                lock(8, 40, 7),
                lock(40, 90, 8),
                lock(30, 90, 7, OTHER),
                lock(150, None, 8, OTHER),
            ],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [call(10, 20, 77)],
            "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(200, 260, 77)],
        },
    )
    trace = profframe.load(path)
    shown = columns(trace, "kind", "name", "step", "parent_id", "depth", "self_ns")
    assert shown == [
        ("annotation", "ProfilerStep#4", 4, None, 0, 45),
        ("annotation", "forward", 4, 0, 1, 45),
        ("gil", "Holding GIL", 4, None, None, None),
        ("gil", "Waiting for GIL", 4, None, None, None),
        ("gil", "Holding GIL", 4, None, None, None),
        ("gil", "Waiting for GIL", None, None, None, None),
        ("runtime", "cudaLaunchKernel_v7000", 4, 1, 2, 10),
        ("kernel", "void gemm<float>(float*)", 4, None, None, 60),
    ]
    assert trace.events["op_id"].to_list()[-1] == 1
    assert accounted(trace) == {"events": 8, "metadata": 10}
    assert set(trace.quality["issue"]) == {"missing_duration", "host_ahead"}
    assert trace.annotations()["name"].to_list() == ["ProfilerStep#4", "forward"]
    rows = trace.python_pauses().select("thread_name", "waits", "wait_ns", "holder_name", "holder")
    assert rows.rows() == [("501", 1, 50, "502", 1), ("502", 1, 0, None, None)]
    args = trace.events.filter(kind="gil")["args"]
    assert args.str.json_path_match("$.domain").unique().to_list() == ["GIL Trace"]


def test_the_made_up_run_waits_four_of_seven_milliseconds() -> None:
    trace = profframe.load(GIL)
    waits = trace.python_pauses().filter(thread_name="train")
    assert waits.select("waits", "wait_ns", "max_wait_ns", "holder_name").rows() == [
        (5, 20_000_000, 4_000_000, "collate")
    ]
    assert trace.python_pauses(per="step")["wait_ns"].to_list() == [4_600_000] * 5


def test_without_a_record_it_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str], example: Path
) -> None:
    assert cli.run(["answer", "python_pauses", str(example)]) == 0
    said = "".join(capsys.readouterr())
    assert "no records of Python's GIL" in said
    assert "python-gil" in said
    assert "record_python_gc_info" in said


def test_collections_that_torch_recorded(tmp_path: Path) -> None:
    """With torch's option each collection is a slice, and takes the time that torch says."""
    torch = needs.torch()
    options = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, with_stack=True, experimental_config=options
    ) as profile:
        gc.collect()
        torch.ones(2).sum()
        gc.collect()
    profile.export_chrome_trace(str(tmp_path / "t.json"))
    trace = profframe.load(tmp_path / "t.json")
    slices = trace.events.filter(pl.col("name") == "Python GC")
    assert slices.height >= 2
    assert set(slices["kind"]) == {"python"}
    row = trace.python_pauses().row(0, named=True)
    assert (row["collections"], row["collection_ns"]) == (slices.height, slices["dur_ns"].sum())
    assert (row["waits"], row["wait_ns"], row["holds"]) == (None, None, None)
