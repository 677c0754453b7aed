"""Exported traces in which a path or other events stand out, and paths on the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.errors import ParameterError
from profframe.trace.trace import Trace
from tests.conftest import Run


def slice_(category: str, name: str, start: int, length: int, **args: object) -> dict[str, Any]:
    tid = "stream 7" if category == "kernel" else 1
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid}
    return event | {"ts": start, "dur": length} | ({"args": args} if args else {})


EVENTS = [
    slice_("user_annotation", "ProfilerStep#3", 0, 100),
    slice_("cpu_op", "aten::mm", 10, 50, **{"Ev Idx": 1}),
    slice_("cuda_runtime", "cudaLaunchKernel", 20, 10, correlation=1),
    slice_("kernel", "gemm", 40, 80, correlation=1, device=0, stream=7),
    slice_("cpu_op", "aten::add", 70, 10),
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 8, "pid": 1, "tid": 1, "ts": 20},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 8, "pid": 1, "tid": "stream 7", "ts": 40},
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "trace.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}))
    return path


@pytest.fixture
def trace(source: Path) -> Trace:
    return profframe.load(source)


def written(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def test_the_path_is_marked_and_joined_by_arrows(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json.gz", highlight=trace.critical_path(3))
    events = written(tmp_path / "o.json.gz")

    marked = [e["name"] for e in events if e.get("args", {}).get("critical") == 1]
    assert marked == ["ProfilerStep#3", "aten::mm", "cudaLaunchKernel", "gemm"]
    assert [e["name"] for e in events if e.get("cname") == "terrible"] == marked
    arrows = [e for e in events if e.get("cat") == "critical_path"]
    assert arrows == [
        {
            "ph": "s",
            "cat": "critical_path",
            "name": "launch",
            "pid": 1,
            "tid": 1,
            "ts": 29.999,
            "id": 9,
        },
        {
            "ph": "f",
            "cat": "critical_path",
            "name": "launch",
            "pid": 1,
            "tid": "stream 7",
            "ts": 40,
            "id": 9,
            "bp": "e",
        },
    ]


def test_the_tables_are_the_same_but_for_the_marks(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    trace.export_chrome_trace(path, highlight=trace.critical_path())
    again = profframe.load(path, run="trace")

    assert again.events.drop("args").equals(trace.events.drop("args"))
    new = again.flows.filter(pl.col("category") == "critical_path")
    assert new["phase"].to_list() == ["s", "f"]
    assert again.flows.filter(pl.col("category") != "critical_path").height == trace.flows.height
    assert again.threads.equals(trace.threads)
    assert again.critical_path().events.equals(trace.critical_path().events)
    # What is marked can be marked again.
    again.export_chrome_trace(tmp_path / "twice.json", highlight=again.critical_path())
    assert len([e for e in written(tmp_path / "twice.json") if e.get("cname")]) == 4


def test_any_frame_of_events_can_be_highlighted(trace: Trace, tmp_path: Path) -> None:
    frame = pl.DataFrame({"event_id": [4, None, 4, 99, -1], "rank": [0, 0, 0, 0, 0]})
    trace.export_chrome_trace(tmp_path / "o.json", highlight=frame)
    events = written(tmp_path / "o.json")
    assert [e["name"] for e in events if e.get("args", {}).get("critical")] == ["aten::add"]
    assert not [e for e in events if e.get("cat") == "critical_path"]


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"name": ["gemm"]}),
        pl.DataFrame({"event_id": ["0"]}),
        pl.DataFrame({"event_id": [99]}),
        pl.DataFrame({"event_id": [0], "rank": [5]}),
        pl.DataFrame({"event_id": [0], "run": ["other"]}),
    ],
    ids=["no ids", "ids of text", "no such event", "other rank", "other run"],
)
def test_what_cannot_be_highlighted(frame: pl.DataFrame, trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="highlight: "):
        trace.export_chrome_trace(tmp_path / "o.json", highlight=frame)
    assert not (tmp_path / "o.json").exists()


def test_torchs_form_has_no_place_for_marks(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="legacy"):
        trace.export_chrome_trace(tmp_path / "o.json", legacy=True, highlight=trace.critical_path())


def test_the_verb_shows_what_binds_and_writes_an_overlay(
    source: Path, tmp_path: Path, run: Run
) -> None:
    overlay = tmp_path / "overlay.json"
    code, out, err = run("critical-path", source, "--step", 3, "--overlay", overlay)
    assert (code, err) == (0, "")
    assert "Critical path of step 3 of trace, rank 0: 120.000 us, 4 parts" in out
    assert "What takes longest on the path" in out
    assert [e["name"] for e in written(overlay) if e.get("cname")][-1] == "gemm"


@pytest.mark.parametrize("verb", [("critical-path",), ("answer", "critical_path")])
def test_the_rows_are_those_of_python(verb: tuple[str, ...], source: Path, run: Run) -> None:
    option = ("--step", "3") if len(verb) == 1 else ("-p", "step=3")
    rows = json.loads(run(*verb, source, *option, "--format", "json")[1])
    assert rows == profframe.load(source).critical_path(3).events.to_dicts()


def test_wrong_usage_and_bad_input(source: Path, run: Run) -> None:
    code, out, _ = run("answer", "critical_path")
    assert code == 0
    assert "across_ranks" in out
    assert run("answer", "critical_path", source, "-p", "step=x")[0] == 2
    assert "-p step=3" in run("answer", "critical_path", source, "-p", "stp=3")[2]
    code, _, err = run("critical-path", source, "--step", 4)
    assert (code, err) == (1, f"error: {source}: no step 4 (known: 3)\n")
