"""Memory that was allocated and freed inside each host slice, and the op of each record."""

from __future__ import annotations

from typing import Final

import numpy as np

from profframe import schema
from profframe.facts.columns import (
    Tables,
    column,
    ids,
    is_kind,
    is_text,
    numbers,
    present,
    with_columns,
)
from profframe.intervals import Ints, Mask, child_sums, stab, window_sums

HOST_MEMORY: Final = ("CPU", "MKLDNN", "IDEEP")
DEVICE_MEMORY: Final = ("CUDA", "PRIVATEUSEONE", "HIP", "XPU")
"""Device types that torch counts; others (MPS, MTIA, HPU, ...) it counts nowhere."""


def memory(tables: Tables) -> Tables:
    """Add ``cpu_bytes self_cpu_bytes device_bytes self_device_bytes``, and ``memory.op_id``.

    As torch does, a slice counts every record from its start to its end, both included, on
    whatever thread: frees are negative, and what is its own is that minus its direct children's
    (0 for a slice that does not nest). A record's op is the innermost host op around it on its
    thread, else the innermost host slice there, else the one on any thread that started last.
    """
    events, records = tables["events"], tables["memory"]
    host = is_kind(events, schema.HOST_KINDS) & present(events, "start_ns", "dur_ns")
    rows = np.flatnonzero(host)
    start = numbers(events, "start_ns")[rows]
    end = start + numbers(events, "dur_ns")[rows]
    used = np.flatnonzero(present(records, "time_ns"))
    size, type_ = numbers(records, "bytes"), records["device_type"]
    kinds = [np.where(is_text(type_, *types), size, 0)[used] for types in _COLUMNS.values()]
    sums = window_sums(numbers(records, "time_ns")[used], kinds, start, end)

    nests = present(events, "preorder")
    parent = numbers(events, "parent_id", missing=-1)
    known = host & bool(records.num_rows)
    columns = {}
    for name, within in zip(_COLUMNS, sums, strict=True):
        total = np.zeros(events.num_rows, np.int64)
        total[rows] = within
        if name in events.column_names:  # the source has counted itself
            total, known = numbers(events, name), host & present(events, name)
        own = np.where(nests, total - child_sums(parent, np.where(nests, total, 0)), 0)
        columns[name] = column(name, total, known)
        columns[f"self_{name}"] = column(f"self_{name}", own, known)
    with_bytes = with_columns(tables, "events", **columns)
    return with_columns(with_bytes, "memory", op_id=ids(_ops(tables, rows, start, end)))


_COLUMNS: Final = {"cpu_bytes": HOST_MEMORY, "device_bytes": DEVICE_MEMORY}


def _ops(tables: Tables, rows: Ints, start: Ints, end: Ints) -> Ints:
    """For each record the event it is counted in; the next rule is for what is still without."""
    events, records = tables["events"], tables["memory"]
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
