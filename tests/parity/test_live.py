"""A live profile against torch's own events, to the nanosecond, and against its exported file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe.facts.torch_names import DROPPED_NAMES
from tests.parity.profiles import SCENARIOS, Library, Taken

Row = Mapping[str, Any]

READABLE: Final = pytest.mark.parametrize("name", sorted({*SCENARIOS} - {"deep_recursion"}))
"""The profiles that torch itself can make its events of."""
PYTHON_THREADS: Final = (1 << 64) - 1
"""The one thread that torch has for all Python frames of threads without operations."""
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
    live, file = profframe.load(taken.profiler), profframe.load(taken.path)
    permitted = {*NOT_IN_THE_FILE, *NOT_IN_SOME_FILES.get(taken.name, ())}
    assert differences(live, file) <= permitted
    # Of the end of slices: only those that were still open, and the profiler's own.
    ends = zip(live.events.rows(named=True), file.events.rows(named=True), strict=True)
    other = [row for row, its in ends if row["dur_ns"] != its["dur_ns"]]
    assert all(row["is_async"] or row["kind"] == "profiler" for row in other)


def test_loading_takes_nothing_away(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
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


@dataclass(frozen=True)
class Ours:
    """Slices as torch's `events()` has them: without those that it drops, in its order."""

    trace: profframe.Trace

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.trace.events.rows(named=True)
        return rows

    @cached_property
    def is_kept(self) -> list[bool]:
        return [
            row["kind"] != "profiler"
            and row["name"] not in DROPPED_NAMES
            and row["merged_into"] is None
            for row in self.rows
        ]

    @cached_property
    def kept(self) -> list[dict[str, Any]]:
        rows = [row for row, is_kept in zip(self.rows, self.is_kept, strict=True) if is_kept]
        return sorted(rows, key=lambda row: (row["start_ns"], self.number(row)))

    @staticmethod
    def number(row: Row) -> tuple[int, Any]:
        """What orders slices of one start: the longer one first, then the profiler's own order."""
        args = json.loads(row["args"]) if row["args"] else {}
        return -row["dur_ns"], args.get("Ev Idx", row["event_id"])

    def survivor(self, event_id: int | None) -> int | None:
        """A slice that torch has: itself, or the nearest around it."""
        while event_id is not None and not self.is_kept[event_id]:
            event_id = self.rows[event_id]["parent_id"]
        return event_id

    def own(self, column: str) -> dict[int, int]:
        """A slice's own share, and that of what torch does not have inside it."""
        total: dict[int, int] = {}
        for row in self.rows:
            into = self.survivor(row["event_id"])
            if into is not None and row["kind"] != "profiler":
                total[into] = total.get(into, 0) + (row[column] or 0)
        return total


def list_of(text: str | None) -> list[Any]:
    return json.loads(text) if text else []


def ns(us: float) -> int:
    return round(us * 1000)


def of_torch(event: Any, start_ns: int) -> dict[str, Any]:
    """What torch says of one event."""
    return {
        "name": event.trace_name,
        "start_ns": ns(event.time_range.start) + start_ns,
        "end_ns": ns(event.time_range.end) + start_ns,
        "category": event.activity_type,
        "pid": str(event.device_index),
        "tid": str(event.device_resource_id),
        "external_id": event.id,
        "sequence_nr": event.sequence_nr,
        "fwd_thread": event.fwd_thread if event.sequence_nr >= 0 else 0,
        "scope": event.scope,
        "overload_name": event.overload_name,
        "is_async": event.is_async,
        "is_remote": event.is_remote,
        "is_legacy": event.is_legacy,
        "node_id": event.node_id,
        "python_ids": [event.python_id, event.python_parent_id, event.python_module_id],
        "shapes": event.structured_input_shapes,
        "strides": event.structured_input_strides,
        "types": event.input_dtypes,
        "stack": event.stack,
        "flops": event.flops or 0,
        "memory": [event.cpu_memory_usage, event.device_memory_usage],
        "own_memory": [event.self_cpu_memory_usage, event.self_device_memory_usage],
        "own_ns": ns(event.self_cpu_time_total),
        "is_annotation": event.is_user_annotation,
    }


def of_ours(ours: Ours) -> Iterator[dict[str, Any]]:
    """The same of each of our slices."""
    own = ours.own("self_ns")
    own_cpu, own_device = ours.own("self_cpu_bytes"), ours.own("self_device_bytes")
    ids = ("python_id", "python_parent_id", "python_module_id")
    for row in ours.kept:
        event_id = row["event_id"]
        yield {
            "name": row["name"],
            "start_ns": row["start_ns"],
            "end_ns": row["start_ns"] + row["dur_ns"],
            "category": row["category"],
            "pid": row["pid"],
            "tid": row["tid"],
            "external_id": row["external_id"] or 0,
            "sequence_nr": -1 if row["sequence_nr"] is None else row["sequence_nr"],
            "fwd_thread": row["fwd_thread"] or 0,
            "scope": row["scope"] or 0,
            "overload_name": row["overload_name"] or "",
            "is_async": row["is_async"],
            "is_remote": row["is_remote"],
            "is_legacy": row["is_legacy"],
            "node_id": -1 if row["node_id"] is None else row["node_id"],
            "python_ids": [-1 if row[name] is None else row[name] for name in ids],
            "shapes": list_of(row["input_dims"]),
            "strides": list_of(row["input_strides"]),
            "types": list_of(row["input_types"]),
            "stack": row["stack"].split(";") if row["stack"] else [],
            "flops": row["torch_flops"] or 0,
            "memory": [row["cpu_bytes"] or 0, row["device_bytes"] or 0],
            "own_memory": [own_cpu[event_id], own_device[event_id]],
            "own_ns": own[event_id],
            "is_annotation": row["kind"] == "annotation",
        }


def slices_of(events: Sequence[Any]) -> list[Any]:
    return [event for event in events if event.name not in {"[memory]", "[OutOfMemory]"}]


@READABLE
def test_every_field_is_as_in_torchs_events(name: str, profiles: Library) -> None:
    taken = profiles[name]
    ours = Ours(profframe.load(taken.profiler, compat="torch"))
    theirs = slices_of(taken.events)
    start_ns = taken.results.trace_start_ns()
    names = demangled(ours.kept)
    assert len(ours.kept) == len(theirs)
    for mine, event in zip(of_ours(ours), theirs, strict=True):
        assert mine | {"name": names[mine["name"]]} == of_torch(event, start_ns)


def demangled(rows: Sequence[Row]) -> dict[str, str]:
    """Names as torch shows them; the table has them as they were recorded."""
    import torch

    names = {row["name"] for row in rows}
    return {name: torch._C._demangle(name) if len(name) > 1 else name for name in names}


@READABLE
def test_parents_are_torchs(name: str, profiles: Library) -> None:
    taken = profiles[name]
    ours = Ours(profframe.load(taken.profiler))
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
    ours = Ours(profframe.load(taken.profiler))
    pairs = {
        (row["thread"], event.thread)
        for row, event in zip(ours.kept, slices_of(taken.events), strict=True)
        if event.thread != PYTHON_THREADS
    }
    assert len(pairs) == len({mine for mine, _ in pairs}) == len({its for _, its in pairs})


@READABLE
def test_memory_outside_every_event_is_torchs(name: str, profiles: Library) -> None:
    taken = profiles[name]
    trace = profframe.load(taken.profiler)
    outside = [row for row in trace.memory.rows(named=True) if row["op_id"] is None]
    start_ns = taken.results.trace_start_ns()
    theirs = [event for event in taken.events if event.name == "[memory]"]
    assert sorted((row["time_ns"], row["bytes"]) for row in outside) == sorted(
        (ns(event.time_range.start) + start_ns, event.cpu_memory_usage) for event in theirs
    )


def test_a_recursion_that_torch_cannot(profiles: Library) -> None:
    taken = profiles["deep_recursion"]
    events = profframe.load(taken.profiler).events
    levels = [row for row in events.rows(named=True) if row["name"].startswith("level")]
    assert [row["depth"] for row in levels] == list(range(1200))
    assert [row["parent_id"] for row in levels[1:]] == [row["event_id"] for row in levels[:-1]]
    with pytest.raises(RecursionError):
        taken.profiler.events()
