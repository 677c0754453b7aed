"""Stand-ins for Kineto's events, made of a trace of a GPU: torch's own Python code without a GPU.

torch's `_parse_kineto_results` and `EventList` take anything with the getters of a Kineto event. A
stand-in answers them out of the JSON of a trace as plain Python reads it. What the file does not
hold (stacks, shapes) is empty.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.conftest import TRACES

Json = Mapping[str, Any]

OPS: Final = ("cpu_op", "Operator")
REGIONS: Final = ("user_annotation",)
FRAMES: Final = ("python_function",)
CALLS: Final = ("cuda_runtime", "cuda_driver", "Runtime", "overhead")
DEVICE: Final = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
SYNC: Final = "cuda_sync"
DEVICE_REGION: Final = "gpu_user_annotation"
KNOWN: Final = {*OPS, *REGIONS, *FRAMES, *CALLS, *DEVICE, SYNC, DEVICE_REGION}
NOT_EVENTS: Final = {"Trace", None}
EVALUATION: Final = "autograd::engine::evaluate_function: "
MEMORY: Final = "[memory]"
LAST: Final = 1 << 62


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
            and any(f"{category}:" in row["categories"] for category in DEVICE)
        ]
    return [TRACES / row["path"] for row in sorted(rows, key=lambda row: int(row["events"]))]


@dataclass
class StandIn:
    """One Kineto event; `row` is its number among the slices of the file."""

    row: int
    name_: str
    category: str
    start: int
    end: int
    thread: int
    args: Json
    type_: Any
    scope_: int = 0
    nbytes_: int = 0

    def name(self) -> str:
        return self.name_

    def start_ns(self) -> int:
        return self.start

    def end_ns(self) -> int:
        return self.end

    def device_type(self) -> Any:
        return self.type_

    def start_thread_id(self) -> int:
        return self.thread

    end_thread_id = start_thread_id

    def is_async(self) -> bool:
        return self.args.get("finished") is False

    def number(self, *names: str) -> int:
        return next((int(self.args[name]) for name in names if name in self.args), 0)

    def external_id(self) -> int:
        return self.number("External id", "external id")

    def correlation_id(self) -> int:
        if self.category in (*OPS, *REGIONS):
            return self.external_id()
        return 0 if self.category in FRAMES else self.number("correlation")

    def linked_correlation_id(self) -> int:
        if self.category in (*OPS, *REGIONS, *FRAMES, DEVICE_REGION):
            return 0
        linked = self.external_id()
        return 0 if self.category == SYNC and linked == self.number("correlation") else linked

    def scope(self) -> int:
        return self.scope_

    def nbytes(self) -> int:
        return self.nbytes_

    def sequence_nr(self) -> int:
        return int(self.args.get("Sequence number", -1))

    def fwd_thread_id(self) -> int:
        return self.number("Fwd thread id")

    def is_user_annotation(self) -> bool:
        return self.category in (*REGIONS, DEVICE_REGION)

    def is_python_function(self) -> bool:
        return self.category in FRAMES

    def python_module_id(self) -> int:
        """Carries the row through torch's code, which hands it on unread."""
        return self.row

    def cuda_elapsed_us(self) -> int:
        return -1

    def activity_type(self) -> str:
        return self.category

    def __getattr__(self, name: str) -> Callable[[], Any]:
        """Of anything else there is nothing."""
        empty = EMPTY[name]
        return lambda: empty


EMPTY: Final[Mapping[str, Any]] = {
    "shapes": [],
    "structured_input_shapes": [],
    "structured_input_strides": [],
    "concrete_inputs": [],
    "stack": [],
    "dtypes": [],
    "kwinputs": {},
    "extra_meta": {},
    "typed_metadata": {},
    "overload_name": "",
    "metadata_json": "",
    "device_index": 0,
    "device_resource_id": 0,
    "flops": 0,
    "flow_id": 0,
    "flow_type": 0,
    "flow_start": False,
    "python_id": -1,
    "python_parent_id": -1,
    "is_hidden_event": False,
}


def ns(us: object) -> int:
    return int(Decimal(str(us)) * 1000)


def slices(path: Path) -> tuple[list[Json], int]:
    """All events of the file, and what is to be added to their times."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=Decimal, strict=False)
    if isinstance(document, list):
        return document, 0
    return document["traceEvents"], int(document.get("baseTimeNanoseconds") or 0)


def categories(events: Iterable[Json]) -> set[str | None]:
    return {event.get("cat") for event in events if event.get("ph") == "X"}


def stand_ins(events: Iterable[Json], base: int) -> list[StandIn]:
    """Kineto's events in its own order: by start, then as the profiler numbered them."""
    from torch.autograd import DeviceType

    threads: dict[tuple[object, object], int] = {}
    rows = itertools.count()
    made: list[StandIn] = []
    for event in events:
        category, name = event.get("cat"), event.get("name")
        is_memory = name == MEMORY and event.get("ph") in {"i", "I", "X"}
        is_slice = event.get("ph") == "X" and not is_memory
        row = next(rows) if is_slice else -1
        if not is_memory and (not is_slice or category in NOT_EVENTS):
            continue
        args = event.get("args") or {}
        start = ns(event["ts"]) + base
        on_device = category in (*DEVICE, SYNC, DEVICE_REGION)
        one = StandIn(
            row=row,
            name_=str(name),
            category=str(category),
            start=start,
            end=start + (ns(event["dur"]) if is_slice else 0),
            thread=threads.setdefault((event["pid"], event["tid"]), len(threads) + 1),
            args=args,
            type_=DeviceType.CUDA if on_device else DeviceType.CPU,
        )
        if is_memory:
            one.type_ = DeviceType(int(args["Device Type"]))
            one.nbytes_ = int(args["Bytes"])
        made.append(one)
    made.sort(key=lambda one: (one.start, int(one.args.get("Ev Idx", LAST)), one.row))
    _find_backward_functions(made)
    return made


def _find_backward_functions(made: Iterable[StandIn]) -> None:
    before: dict[int, str] = {}
    for one in made:
        if one.category in REGIONS:
            one.scope_ = 7
        if one.category in OPS:
            if before.get(one.thread) == EVALUATION + one.name_:
                one.scope_ = 1
            before[one.thread] = one.name_


def torch_events(made: list[StandIn]) -> Any:
    """The `EventList` that torch makes of the stand-ins."""
    from torch.autograd import profiler, profiler_util

    first = min((one.start for one in made), default=0)
    results = SimpleNamespace(events=lambda: made, trace_start_ns=lambda: first)
    parsed = profiler.profile._parse_kineto_results(SimpleNamespace(use_device="cuda"), results)
    found = profiler_util.EventList(parsed, use_device="cuda", profile_memory=True)
    found._build_tree()
    return found


def row_of(event: Any) -> int:
    """Number of the slice that a `FunctionEvent` was made of; -1 for a record of memory."""
    return int(event.python_module_id)
