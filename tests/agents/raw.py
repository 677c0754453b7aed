"""What a trace says, in plain Python over its JSON: the oracle of the questions."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

Slice = dict[str, Any]
HOST = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True)
class Raw:
    """The document of a file, and its slices: the n-th has ``event_id`` n."""

    document: dict[str, Any]
    slices: list[Slice]

    @classmethod
    def read(cls, path: Path) -> Raw:
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        document = json.loads(text, parse_float=Decimal)
        slices = [event for event in document["traceEvents"] if event.get("ph") == "X"]
        for number, event in enumerate(slices):
            event["event_id"] = number
            event["start_ns"] = int(Decimal(event["ts"]) * 1000)
            event["dur_ns"] = int(Decimal(event["dur"]) * 1000)
            event["end_ns"] = event["start_ns"] + event["dur_ns"]
        return cls(document, slices)

    @property
    def rank(self) -> int:
        return int(self.document.get("distributedInfo", {}).get("rank", 0))

    def of(self, *categories: str) -> list[Slice]:
        return [event for event in self.slices if event.get("cat") in categories]

    def named(self, name: str) -> list[Slice]:
        return [event for event in self.slices if event["name"] == name]

    @property
    def work(self) -> list[Slice]:
        """What devices did."""
        return self.of(*WORK)

    @property
    def memory(self) -> list[Slice]:
        """Records of allocations."""
        return [event for event in self.document["traceEvents"] if event["name"] == "[memory]"]

    @property
    def steps(self) -> dict[int, int]:
        """Length of each profiler step."""
        marks = [e for e in self.of("user_annotation") if e["name"].startswith("ProfilerStep#")]
        return {int(e["name"].partition("#")[2]): e["dur_ns"] for e in marks}

    def has_arg(self, name: str) -> bool:
        return any(name in event.get("args", {}) for event in self.slices)


def longest(slices: Iterable[Slice]) -> Slice:
    return max(slices, key=lambda event: event["dur_ns"])


def total(slices: Iterable[Slice]) -> int:
    return sum(event["dur_ns"] for event in slices)


def union(slices: Iterable[Slice]) -> list[tuple[int, int]]:
    """Spans that some slice covers."""
    spans: list[tuple[int, int]] = []
    for begin, end in sorted((event["start_ns"], event["end_ns"]) for event in slices):
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((begin, end))
    return spans


def covered(slices: Iterable[Slice]) -> int:
    return sum(end - begin for begin, end in union(slices))


def gaps(slices: Iterable[Slice]) -> list[int]:
    """How long nothing ran, each time between two pieces of work."""
    spans = union(slices)
    return [after[0] - before[1] for before, after in pairwise(spans)]


def totals(slices: Iterable[Slice], key: str = "name") -> dict[Any, int]:
    sums: dict[Any, int] = defaultdict(int)
    for event in slices:
        sums[event[key]] += event["dur_ns"]
    return sums


def largest(sums: dict[Any, int]) -> tuple[Any, int]:
    name = max(sums, key=lambda key: sums[key])
    return name, sums[name]


def inside(outer: Slice, inner: Slice) -> bool:
    """Whether a slice is inside another one of its thread."""
    return (
        (outer["pid"], outer["tid"]) == (inner["pid"], inner["tid"])
        and outer["start_ns"] <= inner["start_ns"]
        and inner["end_ns"] <= outer["end_ns"]
        and outer is not inner
    )


def innermost(slices: Iterable[Slice], inner: Slice) -> Slice:
    """The shortest of some slices that is around another one."""
    return min((e for e in slices if inside(e, inner)), key=lambda event: event["dur_ns"])


def self_times(slices: list[Slice]) -> dict[str, int]:
    """Time of each name without what is directly inside, for slices of a thread that nest."""
    sums: dict[str, int] = defaultdict(int)
    stack: list[Slice] = []
    for event in sorted(slices, key=lambda e: (e["start_ns"], -e["end_ns"], e["event_id"])):
        while stack and stack[-1]["end_ns"] <= event["start_ns"]:
            stack.pop()
        if stack:
            sums[stack[-1]["name"]] -= event["dur_ns"]
        sums[event["name"]] += event["dur_ns"]
        stack.append(event)
    return sums


def launches(raw: Raw) -> dict[Any, Slice]:
    """Calls of a runtime by their correlation."""
    calls = raw.of("cuda_runtime", "cuda_driver")
    return {call["args"]["correlation"]: call for call in calls if "correlation" in call["args"]}
