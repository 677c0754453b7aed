"""Events of torch and of ours in one form, to be compared field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pytest

import profframe
from profframe.facts.torch_compat.overloads import DROPPED_NAMES
from tests.parity.profiles import SCENARIOS

Row = Mapping[str, Any]

READABLE: Final = pytest.mark.parametrize("name", sorted({*SCENARIOS} - {"deep_recursion"}))
"""The profiles that torch itself can make its events of."""


PYTHON_THREADS: Final = (1 << 64) - 1
"""The one thread that torch has for all Python frames of threads without operations."""


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
    """What torch says of one event; of a thread that it knows nothing of, no process."""
    pid = {} if event.thread == PYTHON_THREADS else {"pid": str(event.device_index)}
    return pid | {
        "name": event.trace_name,
        "start_ns": ns(event.time_range.start) + start_ns,
        "end_ns": ns(event.time_range.end) + start_ns,
        "category": event.activity_type,
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


def demangled(rows: Sequence[Row]) -> dict[str, str]:
    """Names as torch shows them; the table has them as they were recorded."""
    import torch

    names = {row["name"] for row in rows}
    return {name: torch._C._demangle(name) if len(name) > 1 else name for name in names}
