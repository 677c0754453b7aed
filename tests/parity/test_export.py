"""Real profiles written and read again, and the exports of an `EventList` beside torch's own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.trace.trace import Trace
from tests import needs
from tests.conftest import real_trace
from tests.members import few
from tests.parity import stand_in
from tests.parity.profiles import SCENARIOS, Library
from tests.parity.stand_in import gpu_traces
from tests.round_trip import differences, faults, unbound_flows

TABLE = str.maketrans(" ;\t\n", "____")
BROKEN = ("deep_recursion", "hostile_names", "only_memory")
"""Of these torch has no events, or its list of them is no JSON."""
LISTED = tuple(name for name in SCENARIOS if name not in BROKEN)
WITH_STACKS = ("verbose", "double_backward", "torchscript", "python_export")


@pytest.mark.parametrize("name", few(SCENARIOS, 5))
def test_a_live_profile_reads_back(name: str, profiles: Library, tmp_path: Path) -> None:
    trace = profiles[name].loaded("profiler")
    trace.export_chrome_trace(tmp_path / "out.json")
    assert faults(tmp_path / "out.json") == []
    assert unbound_flows(tmp_path / "out.json") == []
    assert differences(trace, profframe.load(tmp_path / "out.json")) == []


@pytest.mark.parametrize("name", few(LISTED, 7))
def test_a_list_of_events_reads_back(name: str, profiles: Library, tmp_path: Path) -> None:
    trace = profiles[name].loaded("events")
    trace.export_chrome_trace(tmp_path / "out.json")
    assert differences(trace, profframe.load(tmp_path / "out.json")) == []


def renamed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The list with threads numbered as they appear: torch counts threads, we have their ids."""
    numbers: dict[object, int] = {}
    return [event | {"tid": numbers.setdefault(event["tid"], len(numbers))} for event in events]


@pytest.mark.parametrize("name", few(LISTED, 9))
def test_the_list_of_events_is_as_torch_writes_it(
    name: str, profiles: Library, tmp_path: Path
) -> None:
    taken = profiles[name]
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    taken.loaded("profiler").export_chrome_trace(ours, legacy=True)
    taken.events.export_chrome_trace(theirs)
    assert renamed(json.loads(ours.read_text())) == renamed(json.loads(theirs.read_text()))


@pytest.mark.parametrize("number", few(range(16), 6))
def test_the_list_of_a_gpu_trace_has_torchs_slices_and_arrows(
    number: int, traces: Path, tmp_path: Path
) -> None:
    path = gpu_traces()[number]
    assert path.is_relative_to(traces)
    events, base = stand_in.slices(path)
    if stand_in.categories(events) - stand_in.KNOWN - stand_in.NOT_EVENTS:
        needs.another_trace("it has categories that are not Kineto's")
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    real_trace(path, "torch").export_chrome_trace(ours, legacy=True)
    stand_in.torch_events(stand_in.stand_ins(events, base)).export_chrome_trace(theirs)
    listed = [json.loads(file.read_text()) for file in (ours, theirs)]
    arrows = [[e["id"] for e in one if e["ph"] == "s"] for one in listed]
    assert arrows[0] == arrows[1] == list(range(len(arrows[0])))
    slices = [
        Counter((e["ph"], e["name"], round(e.get("dur", 0), 3)) for e in one) for one in listed
    ]
    assert slices[0] == slices[1]


WORK = ["name", "kind", "device", "stream", "dur_ns"]


def device_work(trace: Trace) -> Counter[Any]:
    """Device slices with the op that has them."""
    events = trace.events
    op = events.select(op_id="event_id", by=pl.coalesce("merged_into", "event_id"))
    work = events.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    with_op = work.join(op, on="op_id", how="left").join(
        events.select(by="event_id", op="name", op_kind="kind"), on="by", how="left"
    )
    return Counter(with_op.select(*WORK, "op", "op_kind").rows())


@pytest.mark.parametrize("number", few(range(16), 4))
def test_the_list_of_a_gpu_trace_reads_back_with_its_kernels(
    number: int, traces: Path, tmp_path: Path
) -> None:
    path = gpu_traces()[number]
    assert path.is_relative_to(traces)
    trace = real_trace(path)
    trace.export_chrome_trace(tmp_path / "list.json", legacy=True)
    work = device_work(trace)
    assert work
    assert device_work(profframe.load(tmp_path / "list.json")) == work


@pytest.mark.parametrize("name", ["hostile_names", "only_memory"])
def test_the_list_is_json_where_torchs_is_not(name: str, profiles: Library, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    trace = profiles[name].loaded("profiler")
    trace.export_chrome_trace(out, legacy=True)
    kinds = ["profiler", "other"]
    names = trace.events.filter(~trace.events["kind"].is_in(kinds))["name"].to_list()
    assert sorted(e["name"] for e in json.loads(out.read_text())) == sorted(names)


@pytest.mark.parametrize("name", few(sorted({*LISTED, "hostile_names"} - {"empty"}), 9))
def test_the_list_loads_with_its_times_and_kinds(
    name: str, profiles: Library, tmp_path: Path
) -> None:
    taken = profiles[name]
    path = tmp_path / "list.json"
    taken.events.export_chrome_trace(path)
    listed = profframe.load(path).events
    named = [event for event in taken.events if event.trace_name is not None]
    assert listed["start_ns"].to_list() == [round(e.time_range.start * 1000) for e in named]
    assert listed["dur_ns"].to_list() == [round(e.time_range.elapsed_us() * 1000) for e in named]
    assert listed["pid"].unique().to_list() == ["CPU functions"]
    assert set(listed["kind"]) <= {"host_op", "annotation", "python"}
    steps = listed.filter(listed["name"].str.starts_with("ProfilerStep#"))
    assert set(steps["kind"]) <= {"annotation"}


def folded(events: Any, metric: str) -> tuple[list[str], bool]:
    """torch's lines, of whole nanoseconds; and whether its float of one falls below its value."""
    lines, is_tie = [], False
    for event in events:
        time_us = getattr(event, metric.replace("cuda", "device"))
        whole = round(time_us * 1000) // 1000
        if event.stack and whole > 0:
            frames = ";".join(entry.translate(TABLE) for entry in reversed(event.stack))
            lines.append(f"{frames} {whole}")
            is_tie |= whole != int(time_us)
    return lines, is_tie


@pytest.mark.parametrize("metric", ["self_cpu_time_total", "self_cuda_time_total"])
@pytest.mark.parametrize("source", ["profiler", "path"])
@pytest.mark.parametrize("name", few(WITH_STACKS, 2))
def test_folded_stacks_are_torchs(
    name: str, source: str, metric: str, profiles: Library, tmp_path: Path
) -> None:
    taken = profiles[name]
    ours, theirs = tmp_path / "ours.txt", tmp_path / "theirs.txt"
    taken.loaded(source, taken.compat).export_stacks(ours, metric)
    lines, is_tie = folded(taken.events, metric)
    assert ours.read_text().splitlines() == lines
    if not is_tie:
        taken.events.export_stacks(theirs, metric)
        assert ours.read_text() == theirs.read_text()


def without_stacks(trace: Trace) -> bool:
    return trace.events["stack"].null_count() == trace.events.height


def test_without_stacks_they_are_of_the_python_frames(profiles: Library, tmp_path: Path) -> None:
    trace = profiles["stacks"].loaded("profiler")
    assert without_stacks(trace)
    trace.export_stacks(tmp_path / "out.txt")
    lines = (tmp_path / "out.txt").read_text().splitlines()
    frames = {line.rpartition(" ")[0].split(";")[-1] for line in lines}
    python = trace.events.filter(trace.events["kind"] == "python")["name"]
    assert lines
    assert frames <= {name.translate(TABLE) for name in python}
