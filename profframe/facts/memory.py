"""Memory that was allocated and freed inside each host slice, and the op of each record."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import column, ids, is_kind, is_text, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact
from profframe.intervals import Ints, Mask, child_sums, stab, window_sums

HOST_MEMORY: Final = ("CPU", "MKLDNN", "IDEEP")
DEVICE_MEMORY: Final = ("CUDA", "PRIVATEUSEONE", "HIP", "XPU")
"""Device types that torch counts; others (MPS, MTIA, HPU, ...) it counts nowhere."""


@fact(
    inputs=columns(
        events="kind start_ns dur_ns thread parent_id preorder cpu_bytes device_bytes",
        memory="time_ns bytes device_type thread",
    ),
    outputs=columns(
        events="cpu_bytes self_cpu_bytes device_bytes self_device_bytes", memory="op_id"
    ),
)
def memory(tables: Tables) -> Output:
    """Add ``cpu_bytes self_cpu_bytes device_bytes self_device_bytes``, and ``memory.op_id``.

    As torch does, a slice counts every record from its start to its end, both included, on
    whatever thread: frees are negative, and what is its own is that minus its direct children's
    (0 for a slice that does not nest). A record's op is the innermost host op around it on its
    thread, else the innermost host slice there, else the one on any thread that started last.
    """
    events = tables["events"]
    host = _host(events)
    summed = host & bool(tables["memory"].num_rows)
    nests, parent = present(events, "preorder"), numbers(events, "parent_id", missing=-1)
    added: dict[str, pa.Array] = {"memory.op_id": ids(_ops(tables))}
    for name, within in zip(_COLUMNS, _sums(tables, host), strict=True):
        if name in events.column_names:  # the source has counted itself
            total, known = numbers(events, name), host & present(events, name)
        else:
            total, known = np.zeros(events.num_rows, np.int64), summed
            total[host] = within
        own = np.where(nests, total - child_sums(parent, np.where(nests, total, 0)), 0)
        added[f"events.{name}"] = column(name, total, known)
        added[f"events.self_{name}"] = column(f"self_{name}", own, known)
    return Output(added)


_COLUMNS: Final = {"cpu_bytes": HOST_MEMORY, "device_bytes": DEVICE_MEMORY}


def _sums(tables: Tables, host: Mask) -> list[Ints]:
    """What each host slice counts, of host memory and of that of devices."""
    events, records = tables["events"], tables["memory"]
    used = np.flatnonzero(present(records, "time_ns"))
    size, type_ = numbers(records, "bytes"), records["device_type"]
    kinds = [np.where(is_text(type_, *types), size, 0)[used] for types in _COLUMNS.values()]
    return window_sums(numbers(records, "time_ns")[used], kinds, *_spans(events, host))


def _host(events: pa.Table) -> Mask:
    """Slices that may have memory."""
    return is_kind(events, schema.HOST_KINDS) & present(events, "start_ns", "dur_ns")


def _spans(events: pa.Table, chosen: Mask) -> tuple[Ints, Ints]:
    """Starts and ends of some slices."""
    start = numbers(events, "start_ns")[chosen]
    return start, start + numbers(events, "dur_ns")[chosen]


def _ops(tables: Tables) -> Ints:
    """For each record the event it is counted in; the next rule is for what is still without."""
    events, records = tables["events"], tables["memory"]
    host = _host(events)
    rows = np.flatnonzero(host)
    start, end = _spans(events, host)
    thread, at = numbers(events, "thread")[rows], numbers(records, "time_ns")
    where = numbers(records, "thread")
    found = np.full(records.num_rows, -1, np.int64)
    open_ = present(records, "time_ns")

    def look(inside: Mask, group: Ints, at_group: Ints) -> None:
        wanted = np.flatnonzero(open_ & (found < 0))
        near = np.flatnonzero(inside & np.isin(group, at_group[wanted]))
        hit = stab(group[near], start[near], end[near], at_group[wanted], at[wanted])
        found[wanted] = np.where(hit < 0, -1, rows[near][hit] if near.size else -1)

    is_op = is_kind(events, ("host_op",))[rows]
    anything = np.ones(rows.size, np.bool_)
    look(is_op, thread, where)
    look(anything, thread, where)
    look(anything, np.zeros_like(thread), np.zeros_like(where))
    return found
