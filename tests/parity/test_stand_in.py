"""Real traces of GPUs against torch's own post-processing, fed with stand-ins for its events."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe.facts.torch_names import DROPPED_NAMES
from tests.conftest import TRACES
from tests.parity import stand_in
from tests.parity.test_live import Ours, demangled, ns

MOST_EVENTS: Final = int(os.environ.get("PROFFRAME_STAND_INS", "16000"))
"""Larger traces are left out: torch needs a minute for half a million events."""


def gpu_traces() -> list[Path]:
    """Traces of the index in which a device was busy, by size."""
    if not (TRACES / "index.csv").is_file():
        return []
    with (TRACES / "index.csv").open(newline="") as index:
        rows = [
            row
            for row in csv.DictReader(index)
            if row["kind"].startswith("chrome-trace-json")
            and int(row["events"]) <= MOST_EVENTS
            and any(f"{category}:" in row["categories"] for category in stand_in.DEVICE)
        ]
    return [TRACES / row["path"] for row in sorted(rows, key=lambda row: int(row["events"]))]


FOUND: Final = gpu_traces()
GPU_TRACES: Final = pytest.mark.parametrize(
    "path", FOUND, ids=[str(number) for number in range(len(FOUND))]
)


def theirs(path: Path) -> tuple[Mapping[int, Any], bool]:
    """torch's events by the row of their slice, and whether it has moved calls between threads."""
    events, base = stand_in.slices(path)
    if unknown := stand_in.categories(events) - stand_in.KNOWN - stand_in.NOT_EVENTS:
        pytest.skip(f"categories that are not Kineto's: {unknown}")
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


@GPU_TRACES
def test_host_and_device_times_are_torchs(path: Path) -> None:
    pytest.importorskip("torch")
    found, moved = theirs(path)
    ours = Ours(profframe.load(path, compat="torch"))
    mine = our_host_fields(ours)
    assert mine == {row: host_fields(event) for row, event in found.items()}
    device = {
        row["event_id"]: {name: row[name] or 0 for name in ("device_ns", "self_device_ns")}
        for row in ours.kept
    }
    assert device == {row: device_fields(event) for row, event in found.items()}
    if not moved:
        assert our_host_fields(Ours(profframe.load(path))) == mine


def test_there_are_traces_of_gpus(traces: Path) -> None:
    assert len(gpu_traces()) > 20, traces
    assert not {"aten::mm", "cudaLaunchKernel"} & {*DROPPED_NAMES}
