"""Tracks beside a trace: counters and slices that are read back, and that no answer counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import profframe
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.catalogue import selects
from profframe.trace.trace import Trace
from tests import hostile

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "gpu_training.json.gz"
NAMED = ("queue_depth", "memory", "exposed_communication", "critical_path", "achieved_flop_per_s")
COUNTED = {"counter_series", "counter_series.counter"}


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    with profframe.load(EXAMPLE, run="r").session() as trace:
        yield trace


def again(trace: Trace, path: Path, **options: Any) -> Trace:
    trace.export_chrome_trace(path, **options)
    return profframe.load(path, run="r")


def added(trace: Trace) -> pl.DataFrame:
    return trace.instants.filter(pl.col("category") == "profframe")


def written(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") == "profframe"]


def test_events_facts_and_answers_stay_as_they_are(trace: Trace, tmp_path: Path) -> None:
    beside = again(trace, tmp_path / "o.json", tracks=[*NAMED, "gaps"])
    for table in ("events", "memory", "flows", "devices", "quality"):
        assert_frame_equal(getattr(beside, table), getattr(trace, table))
    assert added(beside).height > 0
    assert beside.counters.height > trace.counters.height
    assert beside.threads.filter(pl.col("pid") != "profframe").equals(trace.threads)
    source = ("source", "source_events", "accounted")
    assert_frame_equal(beside.traces.drop(source), trace.traces.drop(source))
    others = {"instants", "counters", "threads"}
    with beside.session() as asked:
        for answer in selects():
            reads = others & {*answer.needs} or any(column in answer.sql for column in source)
            if reads and answer.name not in COUNTED:
                assert_frame_equal(asked.answer(answer.name), trace.answer(answer.name))


def test_tracks_hold_what_their_answers_do(trace: Trace, tmp_path: Path) -> None:
    beside = again(trace, tmp_path / "o.json", tracks=NAMED)
    counters = beside.counters.filter(pl.col("category") == "profframe")

    def series(name: str, column: str) -> list[tuple[object, ...]]:
        chosen = (pl.col("name") == name) & (pl.col("series") == column)
        return counters.filter(chosen).select("time_ns", "value").rows()

    depth = trace.queue_depth()
    assert series("queue_depth device 0 stream 7", "depth") == depth["time_ns", "depth"].rows()
    memory = trace.memory_timeline(points=0).filter(pl.col("device_type") == "CUDA")
    for column in ("allocated_bytes", "reserved_bytes"):
        rows = memory["time_ns", column].rows()
        assert sorted(series("memory CUDA device 0", column), key=str) == sorted(rows, key=str)
    rates = trace.work_rates()["time_ns", "flop_per_s"]
    found = series("achieved_flop_per_s device 0", "flop_per_s")
    assert found == rates.rows()

    path = trace.critical_path().events
    slices = added(beside).filter(pl.col("tid") == "critical_path")
    lasting = path.filter(pl.col("dur_ns") >= 0)
    assert slices["time_ns", "dur_ns"].rows() == lasting["start_ns", "dur_ns"].rows()
    assert [json.loads(args)["bound"] for args in slices["args"]] == lasting["bound"].to_list()


def test_a_frame_becomes_counters_or_slices(trace: Trace, tmp_path: Path) -> None:
    start = trace.traces["start_ns"][0]
    power = pl.DataFrame(
        {
            "time_ns": [start, start + 10, start + 20, None],
            "device": [0, 0, 1, 0],
            "watts": [300.5, float("nan"), 280.0, 1.0],
            "op_id": [1, 2, 3, 4],
        }
    )
    phases = pl.DataFrame(
        {
            "start_ns": [start, start + 5, start + 30],
            "end_ns": [start + 10, start + 15, start + 40],
            "what": ["load", None, "</script>"],
            "rows": [1, 2, 3],
        }
    )
    again(trace, tmp_path / "o.json", tracks={"power": power, "phases": phases})
    events = written(tmp_path / "o.json")
    counters = [(e["name"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters == [
        ("power device 0", {"watts": 300.5}),
        ("power device 1", {"watts": 280.0}),
    ]
    slices = [(e["tid"], e["name"], e["dur"], e["args"]) for e in events if e["ph"] == "X"]
    assert slices == [
        ("phases", "load", 0.01, {"rows": 1}),
        ("phases (2)", "phases", 0.01, {"rows": 2}),
        ("phases", "</script>", 0.01, {"rows": 3}),
    ]


def test_rows_of_other_ranks_are_left_out(trace: Trace, tmp_path: Path) -> None:
    rows = pl.DataFrame({"run": ["r", "s", "r"], "rank": [0, 0, 1], "time_ns": [1, 2, 3], "n": 7})
    again(trace, tmp_path / "o.json", tracks=[rows])
    assert [(e["name"], e["args"]) for e in written(tmp_path / "o.json")] == [("track 1", {"n": 7})]


def test_a_path_of_a_step_and_a_second_round(trace: Trace, tmp_path: Path) -> None:
    path = trace.critical_path(step=2)
    once = again(trace, tmp_path / "o.json", tracks=[path], highlight=path)
    assert set(added(once)["tid"]) == {"critical_path"}
    twice = again(once, tmp_path / "p.json", tracks={"depth": "queue_depth"})
    assert_frame_equal(added(twice).drop("thread"), added(once).drop("thread"))
    assert twice.flame().equals(trace.flame())


def test_nothing_to_add_is_no_mistake(tmp_path: Path) -> None:
    cpu = profframe.load(EXAMPLE.with_name("cpu_training.json.gz"), run="r")
    beside = again(cpu, tmp_path / "o.json", tracks=["exposed_communication", "queue_depth"])
    assert_frame_equal(beside.events, cpu.events)
    assert beside.threads.equals(cpu.threads)


def test_hostile_names_stay_texts(tmp_path: Path) -> None:
    source = profframe.load(hostile.written(tmp_path), run="r")
    rows = pl.DataFrame(
        {"start_ns": range(len(hostile.NAMES)), "dur_ns": 1, "name": hostile.NAMES}
    ).with_columns(pl.col("start_ns") + source.traces["start_ns"][0])
    source.export_chrome_trace(tmp_path / "o.json", tracks={'a"b</script>': rows})
    slices = [e for e in written(tmp_path / "o.json") if e["ph"] == "X"]
    assert [e["name"] for e in slices] == [*hostile.NAMES]
    assert {e["tid"] for e in slices} == {'a"b</script>'}


@pytest.mark.parametrize(
    ("tracks", "message"),
    [
        ("memory", r"tracks: a list of names or frames, as \['memory'\]"),
        ([7], "needs a name, a polars DataFrame or a critical path, got int"),
        (
            [pl.DataFrame({"x": [1]})],
            r"needs a column time_ns or start_ns of integers, found \(x\)",
        ),
        ([pl.DataFrame({"time_ns": [1.5]})], "needs a column time_ns or start_ns of integers"),
        ([pl.DataFrame({"time_ns": [1], "op_id": [2]})], "or a column of numbers for a counter"),
        (
            [pl.DataFrame({"time_ns": range(2000), "device": range(2000), "x": 1})],
            "2,000 lines by device are too many",
        ),
    ],
)
def test_what_is_no_track(trace: Trace, tmp_path: Path, tracks: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        trace.export_chrome_trace(tmp_path / "o.json", tracks=tracks)
    assert not (tmp_path / "o.json").exists()


def test_unknown_and_legacy(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no track named 'memry'; did you mean 'memory'"):
        trace.export_chrome_trace(tmp_path / "o.json", tracks=["memry"])
    with pytest.raises(ParameterError, match="tracks: not available in torch"):
        trace.export_chrome_trace(tmp_path / "o.json", legacy=True, tracks=["memory"])
