"""A live profile against torch's own events, to the nanosecond, and against its exported file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from tests import needs
from tests.parity.comparing import (
    PYTHON_THREADS,
    READABLE,
    Ours,
    demangled,
    ns,
    of_ours,
    of_torch,
    slices_of,
)
from tests.parity.profiles import Library, Taken

Row = Mapping[str, Any]

NOT_IN_THE_FILE: Final[Mapping[str, str]] = {
    # Section 2.4 of the parity rules: what the file does not hold.
    "events.is_async": "the file says it of unfinished events only",
    "events.dur_ns": "unfinished events last to the end of the window, which the span has too",
    "traces.source": "where it is from",
    "traces.format": "what it is",
    "traces.rank_source": "where the rank is from",
    "traces.base_ns": "live times are since the epoch",
    "traces.metadata": "the exporter adds the host, the file, its version",
    "traces.source_events": "marks and labels of the exporter",
    "traces.accounted": "marks and labels of the exporter",
    "traces.end_ns": "the end of the window",
    "memory.category": "torch finds it in the live profile only",
    "threads.thread_name": "the exporter adds the system's name of the thread",
}
NOT_IN_SOME_FILES: Final[Mapping[str, Mapping[str, str]]] = {
    "async_regions": dict.fromkeys(
        (
            "events.parent_id",
            "events.depth",
            "events.root_id",
            "events.preorder",
            "events.last_descendant_id",
            "events.self_ns",
            "events.device_ns",
            "events.self_device_ns",
            "events.self_cpu_bytes",
            "events.self_device_bytes",
            "events.op_id",
            "events.step",
            "events.is_recompute",
            "events.annotation_id",
            "memory.op_id",
        ),
        "that a region is asynchronous, and so takes no part in the nesting",
    ),
    "torchscript": {"events.scope": "RecordScope other than 0, 1, 7"},
    "hostile_names": {"events.name": "the exporter changes names"},
    "python_export": {
        "events.start_ns": "when the profiler began",
        "events.torch_flops": "that flops were asked for",
        "traces.start_ns": "when the profiler began",
        "traces.profiler_flags": "the flags",
        "threads.thread_sort_index": "it labels a thread that torch knows nothing of, too",
    },
    "autograd_profile": {"traces.profiler_flags": "the flags"},
}


def differences(live: profframe.Trace, file: profframe.Trace) -> set[str]:
    """Columns that differ; marks and lines that only the exporter has are left out."""
    found = set()
    lines = set(live.threads.select("pid", "tid").rows())
    for table in live.tables:
        left, right = live.tables[table].to_pylist(), file.tables[table].to_pylist()
        if table == "threads":
            right = [row for row in right if (row["pid"], row["tid"]) in lines]
        if table == "instants":
            right = [row for row in right if row["category"] is not None]
        assert len(left) == len(right), table
        found |= {
            f"{table}.{column}"
            for mine, its in zip(left, right, strict=True)
            for column in mine
            if mine[column] != its[column]
        }
    return found - {f"{table}.run" for table in live.tables}


def test_what_a_live_profile_has_its_file_has_too(taken: Taken) -> None:
    live, file = taken.loaded("profiler"), taken.loaded("path")
    permitted = {*NOT_IN_THE_FILE, *NOT_IN_SOME_FILES.get(taken.name, ())}
    assert differences(live, file) <= permitted
    # Of the end of slices: only those that were still open, and the profiler's own.
    ends = zip(live.events.rows(named=True), file.events.rows(named=True), strict=True)
    other = [row for row, its in ends if row["dur_ns"] != its["dur_ns"]]
    assert all(row["is_async"] or row["kind"] == "profiler" for row in other)


def test_loading_takes_nothing_away(tmp_path: Path) -> None:
    torch = needs.torch()
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as taken:
        torch.ones(3).add(1)
    first = profframe.load(taken)
    results = profframe.load(taken.profiler.kineto_results)
    taken.export_chrome_trace(str(tmp_path / "trace.json"))
    again = profframe.load(taken)
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    for table in first.tables:
        assert again.tables[table].equals(first.tables[table]), table
    assert results.tables["events"].equals(first.tables["events"])
    names = [event.name for event in slices_of(taken.events())]
    assert names == [row["name"] for row in Ours(first).kept]


@READABLE
def test_every_field_is_as_in_torchs_events(name: str, profiles: Library) -> None:
    taken = profiles[name]
    ours = Ours(taken.loaded("profiler", "torch"))
    theirs = slices_of(taken.events)
    start_ns = taken.results.trace_start_ns()
    names = demangled(ours.kept)
    assert len(ours.kept) == len(theirs)
    for mine, event in zip(of_ours(ours), theirs, strict=True):
        its = of_torch(event, start_ns)
        known = mine | {"name": names[mine["name"]]}
        assert {field: known[field] for field in its} == its


@READABLE
def test_parents_are_torchs(name: str, profiles: Library) -> None:
    taken = profiles[name]
    ours = Ours(taken.loaded("profiler", taken.compat))
    theirs = slices_of(taken.events)
    place = {row["event_id"]: i for i, row in enumerate(ours.kept)}
    where = {id(event): i for i, event in enumerate(theirs)}
    parents = [ours.survivor(row["parent_id"]) for row in ours.kept]
    assert [None if p is None else place[p] for p in parents] == [
        None if event.cpu_parent is None else where[id(event.cpu_parent)] for event in theirs
    ]


@READABLE
def test_threads_are_torchs_by_another_name(name: str, profiles: Library) -> None:
    taken = profiles[name]
    ours = Ours(taken.loaded("profiler"))
    pairs = {
        (row["thread"], event.thread)
        for row, event in zip(ours.kept, slices_of(taken.events), strict=True)
        if event.thread != PYTHON_THREADS
    }
    assert len(pairs) == len({mine for mine, _ in pairs}) == len({its for _, its in pairs})


@READABLE
def test_memory_outside_every_event_is_torchs(name: str, profiles: Library) -> None:
    taken = profiles[name]
    trace = taken.loaded("profiler")
    outside = [row for row in trace.memory.rows(named=True) if row["op_id"] is None]
    start_ns = taken.results.trace_start_ns()
    theirs = [event for event in taken.events if event.name == "[memory]"]
    assert sorted((row["time_ns"], row["bytes"]) for row in outside) == sorted(
        (ns(event.time_range.start) + start_ns, event.cpu_memory_usage) for event in theirs
    )


def test_a_recursion_that_torch_cannot(profiles: Library) -> None:
    taken = profiles["deep_recursion"]
    events = taken.loaded("profiler").events
    levels = [row for row in events.rows(named=True) if row["name"].startswith("level")]
    assert [row["depth"] for row in levels] == list(range(1200))
    assert [row["parent_id"] for row in levels[1:]] == [row["event_id"] for row in levels[:-1]]
    with pytest.raises(RecursionError):
        taken.profiler.events()


def test_frames_around_regions_steps_and_optimizers_have_their_own_time() -> None:
    torch = needs.torch()
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):  # torch forgets names of what it imports in the first
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True
        ) as profiler:
            for _ in range(2):
                with torch.profiler.record_function("region"):
                    model(torch.ones(4, 8)).sum().backward()
                optimizer.step()
                profiler.step()
    events = profframe.load(profiler).events
    own, spans = (events[name].to_list() for name in ("self_ns", "dur_ns"))
    assert min(each for each in own if each is not None) >= 0
    roots = events.filter(events["depth"] == 0)
    assert events["self_ns"].sum() == roots["dur_ns"].sum()
    framed = events.filter(events["python_id"].is_not_null())
    frames = dict(framed.select("python_id", "event_id").rows())
    parents, numbers = (events[name].to_list() for name in ("parent_id", "python_id"))
    for row in framed.rows(named=True):
        around = row["parent_id"]
        while around is not None and numbers[around] is None:
            around = parents[around]
        assert around == frames.get(row["python_parent_id"])
    theirs = profiler.key_averages().table(row_limit=-1, max_name_column_width=200)
    options: Any = {"compat": "torch", "row_limit": -1, "max_name_column_width": 200}
    lines = [
        str(profframe.load(profiler, compat=compat).table(**options)).splitlines()
        for compat in (None, "torch")
    ]
    assert lines[1] == theirs.splitlines()
    differ = [one for one, other in zip(*lines, strict=True) if one != other]
    names = {line.strip().split("  ")[0].rpartition(": ")[2] for line in differ}
    assert names <= {"region", "ProfilerStep*", "Optimizer.step#SGD.step", "__enter__"}
    as_torch = profframe.load(profiler, compat="torch").events
    assert min(as_torch["self_ns"].drop_nulls().to_list()) < 0
    assert as_torch["dur_ns"].to_list() == spans
