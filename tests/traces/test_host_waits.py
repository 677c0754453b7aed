"""Calls that made the host wait in real traces, against plain loops over the text of each file."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import real_trace
from tests.members import few

TRACES: Final = (
    "pytorch-labs__segment-anything-fast/asdf_True.02c6e0.json.gz",
    "facebookresearch__param/dlrm_kineto/worker0_step_12.1694128201545.pt.trace.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
)
WORK: Final = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS: Final = ("cuda_runtime", "cuda_driver")
SYNCHRONISES: Final = re.compile(r"Synchronize|^(cuda|hip)(Free|FreeHost|HostFree)$")
CAN_BLOCK: Final = re.compile(r"^(cuda|hip)(Memcpy|Free)")
LONG_NS: Final = 20_000

Slice = dict[str, Any]
Sums = dict[tuple[str, str | None], tuple[int, int, int, int]]


def slices_of(path: Path) -> list[Slice]:
    """Slices with their start and end in nanoseconds."""
    with gzip.open(path, "rt") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    slices = [event for event in events if event.get("ph") == "X" and "cat" in event]
    for event in slices:
        event["start"] = int(event["ts"] * 1000)
        event["end"] = event["start"] + int(event["dur"] * 1000)
    return slices


def busy_within(work: list[Slice], start: int, end: int) -> int:
    """Time in which any work runs; it is sorted by start."""
    total, until = 0, start
    for piece in work:
        since, ends = max(piece["start"], until), min(piece["end"], end)
        total += max(ends - since, 0)
        until = max(until, ends)
    return total


def op_around(call: Slice, hosts: list[Slice]) -> str | None:
    """The op directly around a call."""
    around = [
        host
        for host in hosts
        if host is not call and host["start"] <= call["start"] and call["end"] <= host["end"]
    ]
    inner = min(around, key=lambda host: host["end"] - host["start"], default=None)
    return inner["name"] if inner is not None and inner["cat"] == "cpu_op" else None


def work_of(slices: list[Slice]) -> list[Slice]:
    """What devices did, by start."""
    return sorted((s for s in slices if s["cat"] in WORK), key=lambda s: s["start"])


def waiting(slices: list[Slice]) -> list[Slice]:
    """Calls that made the host wait."""
    copied: dict[int, tuple[int, bool]] = {}
    for piece in work_of(slices):
        if piece["cat"] == "gpu_memcpy":
            from_pageable = "Pageable -> Device" in piece["name"]
            copied[piece["args"]["correlation"]] = piece["end"], from_pageable
    calls = []
    for call in slices:
        if call["cat"] not in CALLS:
            continue
        length = call["end"] - call["start"]
        copy_end, by_host = copied.get(call["args"]["correlation"], (None, True))
        can = CAN_BLOCK.search(call["name"])
        is_done = copy_end is not None and copy_end <= call["end"]
        did = is_done or (by_host and length >= LONG_NS)
        if SYNCHRONISES.search(call["name"]) or (can and did):
            calls.append(call)
    return calls


def waits_of(path: Path) -> Sums:
    """By call and op: calls, time, the longest, and the time in which devices were idle."""
    slices = slices_of(path)
    work = work_of(slices)
    hosts = defaultdict(list)
    for host in slices:
        if host["cat"] in {"cpu_op", "user_annotation", "python_function", *CALLS}:
            hosts[host["pid"], host["tid"]].append(host)
    sums: Sums = {}
    for call in waiting(slices):
        length = call["end"] - call["start"]
        key = call["name"], op_around(call, hosts[call["pid"], call["tid"]])
        calls, total, longest, idle = sums.get(key, (0, 0, 0, 0))
        idle += length - busy_within(work, call["start"], call["end"])
        sums[key] = calls + 1, total + length, max(longest, length), idle
    return sums


def idle_after(waits: list[tuple[int, int]], work: list[tuple[int, int]]) -> int:
    """Time without work after waits, up to the next work or wait: one moment after the other.

    Only moments at which something begins or ends matter.
    """
    first, last = min(s for s, _ in work), max(e for _, e in work)
    moments = sorted({m for pair in (*waits, *work) for m in pair if first <= m <= last})
    total, is_after = 0, False
    for since, until in pairwise(moments):
        waiting = any(s <= since < e for s, e in waits)
        working = any(s <= since < e for s, e in work)
        ended = any(e == since for _, e in waits)
        is_after = not waiting and not working and (ended or is_after)
        total += (until - since) * is_after
    return total


def test_idle_time_after_waits_is_that_of_the_file(traces: Path) -> None:
    path = traces / TRACES[1]
    slices = slices_of(path)
    waits, work = (
        [(s["start"], s["end"]) for s in of] for of in (waiting(slices), work_of(slices))
    )
    rows = real_trace(path).host_waits()
    assert 0 < rows["idle_after_ns"].sum() == idle_after(waits, work)


@pytest.mark.parametrize("name", few(TRACES, 1), ids=range(len(TRACES)))
def test_waits_are_those_of_the_file(traces: Path, name: str) -> None:
    rows = real_trace(traces / name).host_waits()
    sums: Sums = {}
    for row in rows.to_dicts():
        key = row["name"], row["op"]
        calls, total, longest, idle = sums.get(key, (0, 0, 0, 0))
        sums[key] = (
            calls + row["calls"],
            total + row["total_ns"],
            max(longest, row["max_ns"]),
            idle + row["device_idle_ns"],
        )
    assert sums == waits_of(traces / name)
    assert 0 < rows["host_share"].sum() <= 1
