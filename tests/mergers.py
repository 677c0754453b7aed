"""Traces of ranks as torch writes them, and how public tools merge such into one file.

The rules are those of SGLang's ``ProfileMerger``, TraceLens's ``TraceFuse``, Triton-distributed's
``group_profile`` (offset and name), an offset for each rank with all events in the order of time,
and one process for each rank, as tools around Megatron do. Nothing of theirs is copied.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
Document: TypeAlias = dict[str, Any]

COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
BASE_NS = 1_700_000_000_000_000_000


def part(rank: int, seed: int, *, devices: int = 1, pid: int | None = None) -> Document:
    """The trace of one rank: ops that launch kernels, a collective, memory, a step, Python."""
    draw = random.Random(f"{seed} {rank}")  # noqa: S311 - no secret
    host = pid or 400 + 7 * rank
    events = [*_labels(host)]
    at = 1000.0 + draw.randrange(50)
    begin = at
    for number in range(1, draw.randrange(4, 9)):
        device, width = draw.randrange(devices), draw.randrange(20, 90)
        name = draw.choice(("aten::mm", "aten::addmm", "aten::add"))
        names = (name, f"{name[6:]}_kernel_{rank}")
        events += _launch(host, device, number, at, names, width=width)
        at += width + draw.randrange(100, 300)
    comms = {
        "Collective name": "allreduce", "In msg nelems": 64, "Out msg nelems": 64, "Group size": 2,
        "dtype": "Float", "Process Group Name": "0", "Seq": 1,
    }  # fmt: skip
    events += _launch(host, 0, 90, at, ("c10d::allreduce_", COLLECTIVE), width=40, **comms)
    events += [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{seed % 5}", "pid": host,
         "tid": host, "ts": begin - 5, "dur": at - begin + 100, "args": {"External id": 900}},
        {"ph": "X", "cat": "python_function", "name": "train.py(3): step", "pid": host, "tid": host,
         "ts": begin - 2, "dur": at - begin + 50, "args": {"Python id": 1, "Ev Idx": 99}},
        {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": host,
         "tid": host, "ts": begin + 3, "args": {"Total Allocated": 64 + rank, "Bytes": 64,
         "Addr": 7, "Device Id": -1, "Device Type": 0, "Ev Idx": 98}},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
         "tid": "PyTorch Profiler", "ts": begin - 9, "dur": at - begin + 200,
         "args": {"Op count": 0}},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": at + 300},
    ]  # fmt: skip
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
        "baseTimeNanoseconds": BASE_NS,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 8},
        "traceEvents": events,
    }


def _labels(host: int) -> list[Event]:
    labels: list[tuple[str, Event, int, int]] = [
        ("process_name", {"name": "python"}, host, 0),
        ("process_labels", {"labels": "CPU"}, host, 0),
        ("process_sort_index", {"sort_index": host}, host, 0),
        ("thread_name", {"name": f"thread {host} (python)"}, host, host),
    ]
    for device in range(2):
        labels += [
            ("process_name", {"name": "python"}, device, 0),
            ("process_labels", {"labels": f"GPU {device}"}, device, 0),
            ("process_sort_index", {"sort_index": 5_000_000 + device}, device, 0),
            ("thread_name", {"name": "stream 7 "}, device, 7),
        ]
    return [
        {"ph": "M", "name": name, "ts": 900.0, "pid": pid, "tid": tid, "args": args}
        for name, args, pid, tid in labels
    ]


def _launch(
    host: int, device: int, number: int, at: float, names: tuple[str, str], **args: Any
) -> list[Event]:
    """An op, its call, and a kernel of that number of microseconds."""
    op, kernel, width = *names, args.pop("width")
    link = {"correlation": number, "External id": number}
    slices = [
        {"cat": "cpu_op", "name": op, "pid": host, "tid": host, "ts": at, "dur": 60,
         "args": {"External id": number, "Ev Idx": number}},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": host, "tid": host,
         "ts": at + 10, "dur": 6, "args": link},
        {"cat": "kernel", "name": kernel, "pid": device, "tid": 7, "ts": at + 30, "dur": width,
         "args": {"device": device, "context": 1, "stream": 7, **link, **args}},
    ]  # fmt: skip
    arrow = {"id": number, "cat": "ac2g", "name": "ac2g"}
    return [
        *({"ph": "X"} | one for one in slices),
        {"ph": "s", **arrow, "pid": host, "tid": host, "ts": at + 10},
        {"ph": "f", **arrow, "pid": device, "tid": 7, "ts": at + 30, "bp": "e"},
    ]


def together(parts: Sequence[Document], change: Callable[[Event, int], None]) -> Document:
    """One file with the header of the first, after a change of each event of each rank."""
    parts = copy.deepcopy([*parts])
    for one in parts:
        for event in one["traceEvents"]:
            change(event, one["distributedInfo"]["rank"])
    events = [event for one in parts for event in one["traceEvents"]]
    return parts[0] | {"traceEvents": events}


def by_label(parts: Sequence[Document], form: str = "[TP{rank:02d}-PP00] {pid}") -> Document:
    """The id of a process becomes a text with its rank (SGLang)."""

    def change(event: Event, rank: int) -> None:
        event["pid"] = form.format(rank=rank, pid=event["pid"])

    merged = together(parts, change)
    merged["deviceProperties"] = [d for one in parts for d in one["deviceProperties"]]
    return merged


def by_args(parts: Sequence[Document]) -> Document:
    """Ranks in arguments, and offsets of all ids that were unique in a rank (TraceLens)."""

    def change(event: Event, rank: int) -> None:
        args = event.setdefault("args", {})
        args["rank"] = rank
        for field, holder in (("id", event), ("pid", event), ("correlation", args)):
            if field in holder:
                args[f"{field}_raw"] = holder[field]
                if isinstance(holder[field], int):
                    holder[field] += rank * 10_000

    return {"traceEvents": together(list(map(without_lost, parts)), change)["traceEvents"]}


def without_lost(one: Document) -> Document:
    """A trace without what TraceLens leaves out."""
    events = [e for e in one["traceEvents"] if e.get("cat") not in ("Trace", "python_function")]
    return one | {"traceEvents": events}


def by_offset_and_name(parts: Sequence[Document]) -> Document:
    """Offsets of processes and threads, and ranks in their names (Triton-distributed)."""

    def change(event: Event, rank: int) -> None:
        for key in ("pid", "tid"):
            delta = rank * 100_000_000
            was = event[key]
            event[key] = f"{was}_{delta}" if isinstance(was, str) else was + delta
        if event["name"] in ("process_name", "thread_name"):
            event["args"]["name"] += f"_rank{rank}"
        elif event["name"] == "process_labels":
            event["args"]["labels"] += f"_{rank}"

    return together(parts, change)


def by_offset(parts: Sequence[Document], stride: int = 1_000_000, lines: int = 65_536) -> Document:
    """Offsets of processes and threads, and all events in the order of time."""

    def change(event: Event, rank: int) -> None:
        for key, width in (("pid", stride), ("tid", lines)):
            if isinstance(event[key], int):
                event[key] += rank * width

    merged = together(parts, change)
    merged["traceEvents"].sort(key=lambda event: event.get("ts", 0))
    return merged


def by_process(parts: Sequence[Document], *, is_named: bool = True) -> Document:
    """One process for each rank, with its name (tools around Megatron)."""

    def change(event: Event, rank: int) -> None:
        event["pid"] = rank + 1

    merged = together(parts, change)
    ranks = [one["distributedInfo"]["rank"] for one in parts]
    merged["traceEvents"] += [
        {"name": "process_name", "ph": "M", "pid": rank + 1, "tid": 0,
         "args": {"name": f"Rank {rank}"}}
        for rank in ranks if is_named
    ]  # fmt: skip
    return merged


def by_args_alone(parts: Sequence[Document]) -> Document:
    """Ranks in arguments, and nothing else."""

    def change(event: Event, rank: int) -> None:
        event.setdefault("args", {})["rank"] = rank

    return together(parts, change)
