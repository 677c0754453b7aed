"""Stand-ins for the objects of a profile: on a machine without a device, all that a GPU's has.

They have the methods of torch's own, so that torch's exporter in Python writes their file, and the
name of its class, by which a live object is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

HOST: Final = 41
"""Process of the host; its one thread has the same number."""
START_NS: Final = 1_790_000_000_000_000_000


class Stand:
    """An object with a method for each field."""

    defaults: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, **fields: Any) -> None:
        assert fields.keys() <= self.defaults.keys()
        self.fields = {**self.defaults, **fields}

    def __init_subclass__(cls) -> None:
        for name in cls.defaults.keys() - cls.__dict__.keys():
            setattr(cls, name, lambda self, name=name: self.fields[name])


class Activity(Stand):
    """What Kineto recorded."""

    defaults = {  # noqa: RUF012 -- read once, when the class is made
        "name": "aten::mm", "type": "cpu_op", "timestamp": START_NS, "duration": 0,
        "device_id": HOST, "resource_id": HOST, "correlation_id": 0, "linked_correlation_id": 0,
        "metadata_json": "", "flow_id": 0, "flow_type": 0, "flow_start": False,
        "linked_activity": None,
    }  # fmt: skip


class Event(Stand):
    """Torch's view of it."""

    defaults = {  # noqa: RUF012
        "name": "aten::mm", "start_ns": START_NS, "duration_ns": 0, "start_thread_id": 1,
        "end_thread_id": 1, "is_async": False, "scope": 0, "flops": 0, "overload_name": "",
        "cuda_elapsed_us": -1,
    }  # fmt: skip


@dataclass
class Results:
    """A finished profile; `read` is how often it was asked."""

    activities: list[Activity]
    torch_events: list[Event]
    read: int = 0

    def trace_activities(self) -> list[Activity]:
        self.read += 1
        return self.activities

    def events(self) -> list[Event]:
        return self.torch_events

    def trace_start_ns(self) -> int:
        return START_NS

    def save(self, path: str) -> None:
        raise AssertionError(f"the exporter works once, and {path} is the user's")


Results.__module__, Results.__qualname__ = "torch._C._autograd", "_ProfilerResult"


def taken(*activities: Mapping[str, Any], **of_event: Mapping[str, Any]) -> Results:
    """Results of activities by ``at`` and ``lasts`` (ns); ``of_event`` has more, by name."""
    made, events = [], []
    for place, given in enumerate(activities):
        fields = dict(given)
        at, lasts = fields.pop("at"), fields.pop("lasts", 0)
        metadata = fields.pop("metadata_json", "")
        if fields.get("type", "cpu_op") in {"cpu_op", "user_annotation", "cpu_instant_event"}:
            metadata = ", ".join(filter(None, (metadata, f'"Ev Idx": {place}')))
        made.append(
            Activity(timestamp=START_NS + at, duration=lasts, metadata_json=metadata, **fields)
        )
        name = fields.get("name", "aten::mm")
        more = {"name": name, "start_ns": START_NS + at, "duration_ns": lasts}
        events.append(Event(**more | dict(of_event.get(name, {}))))
    events.sort(key=lambda event: event.fields["start_ns"])
    return Results(made, events)


def gpu_profile() -> Results:
    """An op in a region launches a kernel and a copy; a collective; memory of the device."""
    runtime: dict[str, Any] = {"type": "cuda_runtime"}
    stream_7: dict[str, Any] = {"device_id": 0, "resource_id": 7}
    stream_8 = stream_7 | {"resource_id": 8}
    of_mm, of_collective = {"linked_correlation_id": 2}, {"linked_correlation_id": 3}
    starts = {"flow_id": 1, "flow_type": 1, "flow_start": True}
    launches = {"flow_id": 9, "flow_type": 2, "flow_start": True}
    launched = {"flow_id": 9, "flow_type": 2}

    def at(start: int, lasts: int, number: int, said: str = "", **more: Any) -> dict[str, Any]:
        times = {"at": start, "lasts": lasts, "correlation_id": number}
        return times | {"metadata_json": said} | more

    def on(stream: int, correlation: int, more: str = "") -> str:
        return f'"device": 0, "stream": {stream}, "correlation": {correlation}{more}'

    block = (
        '"Total Reserved": 4096, "Total Allocated": 512, "Bytes": 512, "Device Id": 0, '
        '"Device Type": 1, "Addr": 64'
    )
    sizes = ', "warps per SM": inf, "grid": [1, 2, 3]'
    comms = '"Collective name": "allreduce", "Rank": 0'
    return taken(
        {"name": "step", "type": "user_annotation", **at(0, 1000, 1)},
        {"name": "aten::mm", **at(100, 500, 2), **starts},
        {"name": "[memory]", "type": "cpu_instant_event", **at(150, 0, 0, block)},
        {"name": "record_param_comms", **at(700, 100, 3, comms)},
        {"name": "cudaLaunchKernel", **runtime, **at(200, 50, 71, '"correlation": 71')}
        | of_mm
        | launches,
        {"name": "cudaMemcpyAsync", **runtime, **at(300, 20, 72, '"correlation": 72'), **of_mm},
        {"name": "cudaLaunchKernel", **runtime, **at(720, 20, 73, '"correlation": 73')}
        | of_collective,
        {"name": "sgemm", "type": "kernel", **at(400, 300, 71, on(7, 71, sizes)), **of_mm}
        | launched
        | stream_7,
        {"name": "Memcpy DtoH", "type": "gpu_memcpy", **at(710, 40, 72, on(7, 72)), **of_mm}
        | stream_7,
        {"name": "ncclKernel", "type": "kernel", **at(800, 90, 73, on(8, 73)), **of_collective}
        | stream_8,
        {"name": "step", "type": "gpu_user_annotation", **at(400, 490, 1), **stream_7}
        | {"linked_correlation_id": 1},
        {"name": "Stream Sync", "type": "cuda_sync", **at(850, 60, 74, on(7, 74)), **stream_7},
        {"name": "Activity Buffer Request", "type": "overhead", **at(900, 30, 0)}
        | {"device_id": -1, "resource_id": -(1 << 63)},
        step={"scope": 7},
    )
