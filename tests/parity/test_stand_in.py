"""Real traces of GPUs against torch's own post-processing, fed with stand-ins for its events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe.facts.torch_compat.overloads import DROPPED_NAMES
from profframe.facts.torch_compat.releases import installed, looks_up_unlinked_calls
from tests import needs
from tests.conftest import real_trace
from tests.members import few
from tests.parity import stand_in
from tests.parity.comparing import Ours, demangled, ns
from tests.parity.stand_in import Json, gpu_traces

FOUND: Final = gpu_traces()
LARGEST: Final = 13
"""So many of them have three times as many events as all others; of these every second is run."""
GPU_TRACES: Final = pytest.mark.parametrize(
    "path",
    needs.members(few(FOUND, FOUND[:-LARGEST:2])),
    ids=[str(number) for number in range(len(FOUND))],
)


def theirs(path: Path) -> tuple[Mapping[int, Any], bool]:
    """torch's events by the row of their slice, and whether it has moved calls between threads."""
    events, base = stand_in.slices(path)
    if stand_in.categories(events) - stand_in.KNOWN - stand_in.NOT_EVENTS:
        needs.another_trace("it has categories that are not Kineto's")
    made = stand_in.stand_ins(events, base)
    before = {one.row: one.thread for one in made}
    found = {
        stand_in.row_of(event): event
        for event in stand_in.torch_events(made)
        if stand_in.row_of(event) >= 0
    }
    moved = any(event.thread != before[row] for row, event in found.items())
    return found, moved


def host_fields(event: Any) -> dict[str, Any]:
    parent = event.cpu_parent
    return {
        "name": event.trace_name,
        "parent": None if parent is None else stand_in.row_of(parent),
        "own_ns": ns(event.self_cpu_time_total),
        "memory": [event.cpu_memory_usage, event.device_memory_usage],
        "own_memory": [event.self_cpu_memory_usage, event.self_device_memory_usage],
        "scope": event.scope,
    }


def device_fields(event: Any) -> dict[str, Any]:
    return {
        "device_ns": ns(event.device_time_total),
        "self_device_ns": ns(event.self_device_time_total),
    }


def our_host_fields(ours: Ours) -> dict[int, dict[str, Any]]:
    own, names = ours.own("self_ns"), demangled(ours.kept)
    own_cpu, own_device = ours.own("self_cpu_bytes"), ours.own("self_device_bytes")
    return {
        row["event_id"]: {
            "name": names[row["name"]],
            "parent": ours.survivor(row["parent_id"]),
            "own_ns": own[row["event_id"]] if row["depth"] is not None else 0,
            "memory": [row["cpu_bytes"] or 0, row["device_bytes"] or 0],
            "own_memory": [own_cpu[row["event_id"]], own_device[row["event_id"]]],
            "scope": row["scope"] or 0,
        }
        for row in ours.kept
    }


def shared(ours: Ours) -> dict[int, int]:
    """Time that two children of a slice share, which torch takes from its own time twice."""
    reach: dict[int, int] = {}
    twice: Counter[int] = Counter()
    nested = [row for row in ours.rows if row["parent_id"] is not None]
    for row in sorted(nested, key=lambda row: row["start_ns"]):
        start, end, parent = row["start_ns"], row["start_ns"] + row["dur_ns"], row["parent_id"]
        before = reach.get(parent, start)
        if (into := ours.survivor(parent)) is not None:
            twice[into] += max(0, min(before, end) - start)
        reach[parent] = max(before, end)
    return twice


def nested_by_number(default: Ours, ours: Ours) -> set[int]:
    """Slices that torch nests by time alone: what is in a Python frame, and frames that are cut."""
    rows = {
        one["event_id"]
        for one, other in zip(default.rows, ours.rows, strict=True)
        if (one["parent_id"], one["dur_ns"]) != (other["parent_id"], other["dur_ns"])
    }
    kinds = [part.rows[row]["kind"] for part in (default, ours) for row in rows]
    assert not rows or "python" in kinds
    return {row for row in map(default.survivor, rows) if row is not None}


def check(path: Path) -> None:
    """Both ways of loading against torch, the default one but for device times."""
    needs.torch()
    found, moved = theirs(path)
    ours = Ours(real_trace(path, "torch"))
    mine = our_host_fields(ours)
    assert mine == {row: host_fields(event) for row, event in found.items()}
    device = {
        row["event_id"]: {name: row[name] or 0 for name in ("device_ns", "self_device_ns")}
        for row in ours.kept
    }
    assert device == {row: device_fields(event) for row, event in found.items()}
    if not moved:
        default = Ours(real_trace(path))
        fields, twice = our_host_fields(default), shared(default)
        of_frames = default.own("shared_ns")
        frames = nested_by_number(default, ours)
        changed = {part[row]["parent"] for part in (fields, mine) for row in frames} | frames
        assert fields.keys() == mine.keys()
        for row in fields.keys() - changed:
            mine[row]["own_ns"] += twice.get(row, 0) - of_frames[row]
            assert fields[row] == mine[row], row


@GPU_TRACES
def test_host_and_device_times_are_torchs(path: Path) -> None:
    check(path)


def slice_(category: str, name: str, start: int, end: int, tid: int = 1, **args: object) -> Json:
    named = {key.replace("_", " "): value for key, value in args.items()}
    on_device = category in stand_in.DEVICE or category.startswith(("gpu", "cuda_sync"))
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0 if on_device else 1,
        "tid": 7 if on_device else tid,
        "ts": start,
        "dur": end - start,
        "args": named,
    }


def written(folder: Path, *events: Json) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def device_ns(path: Path, compat: str | None) -> list[int | None]:
    column: list[int | None] = profframe.load(path, compat=compat).events["device_ns"].to_list()
    return column


def test_a_call_without_an_op_takes_the_kernels_of_an_op_of_its_number(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        slice_("cpu_op", "aten::mm", 0, 50, External_id=7),
        slice_("cuda_runtime", "cudaLaunchKernel", 10, 20, correlation=99, External_id=7),
        slice_("cuda_runtime", "cudaDeviceSynchronize", 60, 90, correlation=7),
        slice_("kernel", "sgemm", 30, 70, correlation=99, External_id=7),
    )
    check(path)
    of_sync = 40_000 if looks_up_unlinked_calls(installed()) else 0
    assert device_ns(path, "torch") == [40_000, 0, of_sync, 40_000]
    assert device_ns(path, None) == [40_000, 0, 0, 40_000]


def test_a_duplicate_brings_its_kernels_and_takes_away_those_of_the_outer(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        slice_("cpu_op", "around", 0, 100, External_id=1),
        slice_("cpu_op", "f", 10, 90, External_id=2),
        slice_("cpu_op", "f", 20, 80, External_id=3),
        slice_("cpu_op", "f", 30, 70, External_id=4),
        slice_("kernel", "of the outer", 100, 101, correlation=0, External_id=2),
        slice_("kernel", "of the middle", 101, 103, correlation=0, External_id=3),
        slice_("kernel", "of the inner", 103, 107, correlation=0, External_id=4),
        slice_("cpu_op", "g", 200, 300, External_id=5),
        slice_("cpu_op", "g", 210, 290, External_id=6),
        slice_("kernel", "lost", 300, 308, correlation=0, External_id=5),
    )
    check(path)
    torchs = device_ns(path, "torch")
    assert [torchs[i] for i in (0, 1, 7)] == [4_000, 4_000, 0]
    right = device_ns(path, None)
    assert [right[i] for i in (0, 1, 7)] == [7_000, 7_000, 8_000]


def test_a_linked_call_is_on_the_thread_of_its_op(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        slice_("cpu_op", "aten::mm", 0, 50, External_id=7),
        slice_("cpu_op", "aten::add", 0, 50, tid=2, External_id=8),
        slice_("cuda_runtime", "cudaLaunchKernel", 10, 20, tid=2, correlation=99, External_id=7),
        slice_("cuda_runtime", "cudaMemcpy", 30, 40, tid=2, correlation=98),
    )
    check(path)
    parents = [
        profframe.load(path, compat=c).events["parent_id"].to_list() for c in ("torch", None)
    ]
    assert parents == [[None, None, 0, 1], [None, None, 1, 1]]


def test_what_torch_drops_is_around_nothing(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        slice_("cpu_op", "f", 0, 100, External_id=1),
        slice_("cpu_op", "aten::is_leaf", 10, 20, External_id=2),
        slice_("cpu_op", "aten::_version", 30, 90, External_id=3),
        slice_("cpu_op", "f", 40, 80, External_id=4),
        slice_("kernel", "k", 100, 101, correlation=0, External_id=4),
        slice_("kernel", "of what is dropped", 101, 103, correlation=0, External_id=3),
    )
    check(path)
    assert profframe.load(path).events["merged_into"].to_list()[:4] == [None, None, None, 0]


def test_syncs_and_regions_of_a_device(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        slice_("user_annotation", "region", 0, 60, External_id=3),
        slice_("cpu_op", "aten::mm", 0, 50, External_id=7),
        slice_("gpu_user_annotation", "region", 5, 65, External_id=3),
        slice_("cuda_sync", "Stream Sync", 10, 20, correlation=3, External_id=3),
        slice_("cuda_sync", "Stream Sync", 20, 50, correlation=4, External_id=7),
        slice_("overhead", "Lazy Function Loading", 51, 52),
    )
    check(path)
    assert device_ns(path, "torch") == [30_000, 30_000, 60_000, 10_000, 30_000, 0]
    assert device_ns(path, None) == [0, 0, 60_000, None, None, 0]


def test_there_are_traces_of_gpus(traces: Path) -> None:
    assert len(gpu_traces()) > 20, traces
    assert not {"aten::mm", "cudaLaunchKernel"} & {*DROPPED_NAMES}
