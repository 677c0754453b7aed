"""Memory that each host slice allocated and freed, and the op of each record."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import column, ids, is_kind, is_text, numbers, present
from profframe.facts.fact import Output, Tables, any_of, columns, fact
from profframe.intervals import Ints, Mask, child_sums, stab, window_sums

HOST_MEMORY: Final = ("CPU", "MKLDNN", "IDEEP")
DEVICE_MEMORY: Final = ("CUDA", "PRIVATEUSEONE", "HIP", "XPU")
"""Device types that torch counts; the second has the name of its backend, if it has one."""
OTHER_MEMORY: Final = (
    "OPENGL", "OPENCL", "FPGA", "MAIA", "XLA", "VULKAN", "METAL", "MPS", "META", "HPU", "VE",
    "LAZY", "IPU", "MTIA",
)  # fmt: skip
"""Device types that torch does not count. Any other may be the name of a backend."""


@fact(
    inputs=columns(
        events="kind start_ns dur_ns thread parent_id preorder cpu_bytes device_bytes",
        memory="time_ns bytes device_type thread",
    ),
    outputs=columns(
        events="cpu_bytes self_cpu_bytes device_bytes self_device_bytes", memory="op_id"
    ),
    needs=any_of(memory="time_ns bytes device_type thread", events="cpu_bytes device_bytes"),
)
def memory(tables: Tables) -> Output:
    """Add ``cpu_bytes self_cpu_bytes device_bytes self_device_bytes``, and ``memory.op_id``.

    As in torch, a slice counts every record from its start to its end, both included, on any
    thread: frees are negative, and its self memory is that minus its direct children's (0 for a
    slice that does not nest). A record's op is the innermost host op around it on its
    thread, else the innermost host slice there, else the one on any thread that started last.
    """
    events = tables["events"]
    if not tables["memory"].num_rows and not {*_COLUMNS}.intersection(events.column_names):
        unknown = pa.nulls(events.num_rows, pa.int64())
        names = (f"events.{own}{name}" for own in ("", "self_") for name in _COLUMNS)
        return Output({**dict.fromkeys(names, unknown), "memory.op_id": unknown[:0]})
    host = _host(events)
    # Without any record 0 bytes would be a claim; with some, a slice without records allocated
    # nothing.
    is_counted = host & bool(tables["memory"].num_rows)
    nests, parent = present(events, "preorder"), numbers(events, "parent_id", missing=-1)
    *sums_of, records = _sums(tables, host)
    output: dict[str, pa.Array] = {"memory.op_id": ids(_ops(tables, host, records > 0))}
    for name, sums in zip(_COLUMNS, sums_of, strict=True):
        if name in events.column_names:  # the source has counted them
            total, valid = numbers(events, name), host & present(events, name)
        else:
            total, valid = np.zeros(events.num_rows, np.int64), is_counted
            total[host] = sums
        self_bytes = np.where(nests, total - child_sums(parent, np.where(nests, total, 0)), 0)
        output[f"events.{name}"] = column(name, total, valid)
        output[f"events.self_{name}"] = column(f"self_{name}", self_bytes, valid)
    return Output(output)


_COLUMNS: Final = ("cpu_bytes", "device_bytes")


def _sums(tables: Tables, host: Mask) -> list[Ints]:
    """Host memory, device memory and number of records of each host slice."""
    events, records = tables["events"], tables["memory"]
    timed = np.flatnonzero(present(records, "time_ns"))
    size, type_ = numbers(records, "bytes"), records["device_type"]
    on_host = is_text(type_, *HOST_MEMORY)
    on_device = present(records, "device_type") & ~on_host & ~is_text(type_, *OTHER_MEMORY)
    values = [np.where(mask, size, 0)[timed] for mask in (on_host, on_device)]
    values.append(np.ones(timed.size, np.int64))
    return window_sums(numbers(records, "time_ns")[timed], values, *_spans(events, host))


def _host(events: pa.Table) -> Mask:
    """Slices that may have memory records."""
    return is_kind(events, schema.HOST_KINDS) & present(events, "start_ns", "dur_ns")


def _spans(events: pa.Table, mask: Mask) -> tuple[Ints, Ints]:
    """Starts and ends of the slices in a mask."""
    start = numbers(events, "start_ns")[mask]
    return start, start + numbers(events, "dur_ns")[mask]


def _ops(tables: Tables, host: Mask, has_records: Mask) -> Ints:
    """The event of each record, by three rules in order; few host slices have any in them."""
    events, records = tables["events"], tables["memory"]
    rows = np.flatnonzero(host)[has_records]
    start, end = (of[has_records] for of in _spans(events, host))
    thread, at = numbers(events, "thread")[rows], numbers(records, "time_ns")
    record_thread = numbers(records, "thread")
    ops = np.full(records.num_rows, -1, np.int64)
    timed = present(records, "time_ns")

    def search(mask: Mask, group: Ints, at_group: Ints) -> None:
        left = np.flatnonzero(timed & (ops < 0))
        near = np.flatnonzero(mask & np.isin(group, at_group[left]))
        hit = stab(
            group[near],
            start[near],
            end[near],
            at_group[left],
            at[left],
        )
        ops[left] = np.where(hit < 0, -1, rows[near][hit] if near.size else -1)

    is_op = is_kind(events, ("host_op",))[rows]
    any_slice = np.ones(rows.size, np.bool_)
    search(is_op, thread, record_thread)
    search(any_slice, thread, record_thread)
    # Third rule, for a thread without slices: torch counts records on any thread, so the last slice
    # that is open anywhere has it.
    search(any_slice, np.zeros_like(thread), np.zeros_like(record_thread))
    return ops
