"""Which call put a slice on a device, and which op made the call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import ids, is_kind, last_equal, numbers, present, words
from profframe.facts.fact import Note, Output, Tables, columns, fact, note, of_events
from profframe.facts.flow_links import LINKED, arrows, starting
from profframe.facts.kinds import LAUNCH_ARROWS
from profframe.intervals import Ints, Mask, stab

_ON_DEVICE = (*schema.DEVICE_KINDS, "sync", "device_annotation")


@fact(
    inputs=LINKED | columns(events="kind pid device correlation external_id parent_id preorder"),
    outputs=columns(events="launch_id op_id"),
)
def launches(tables: Tables) -> Output:
    """Add ``launch_id op_id``.

    A slice on a device belongs to the runtime or driver call with its correlation, and so to the
    innermost host op around that call; to the op of its External id only where there is no call,
    and to that from which an arrow leads to it only where the source has no correlations at all.
    In a source without such ids it may belong to an annotation.
    """
    events = tables["events"]
    device, launch = device_calls(events)
    op = _ops_around(events, launch)
    without = device[launch[device] < 0]
    # A sync's External id is its own correlation, so it tells nothing.
    link = np.where(is_kind(events, ("sync",)), 0, numbers(events, "external_id"))
    op[without] = ops_by_external_id(events, without, link[without])
    _follow_arrows(tables, op)
    return launched(events, launch, op)


def launched(events: pa.Table, launch: Ints, op: Ints) -> Output:
    """The columns of these calls and ops, and what is wrong with them."""
    return of_events(*_notes(events, launch, op), launch_id=ids(launch), op_id=ids(op))


def device_calls(events: pa.Table) -> tuple[Ints, Ints]:
    """Rows of slices on a device, and for each event the row of its call, or -1."""
    device = np.flatnonzero(is_kind(events, _ON_DEVICE))
    launch = np.full(events.num_rows, -1, np.int64)
    launch[device] = _launches(events, device)
    return device, launch


def _launches(events: pa.Table, device: Ints) -> Ints:
    """Row of the call with the correlation of each device slice; of several the innermost.

    Correlations are unique in a process, so a slice whose process made calls is joined in it
    only. Where slices name such processes, one of another process has no launch in the trace. (A
    profiler may give the index of the device for the process; that says nothing.)
    """
    correlation = numbers(events, "correlation")
    process, _ = words(events, "pid")
    makes_calls = is_kind(events, schema.LAUNCH_KINDS)
    calls = np.flatnonzero(makes_calls & (correlation != 0))
    preorder, start = (numbers(events, name)[calls] for name in ("preorder", "start_ns"))
    calls = calls[np.lexsort((preorder, start))]
    anywhere = last_equal(correlation[calls], calls, correlation[device])
    names_process = (process[device] >= 0) & ~_on_device_line(events)[device]
    made_calls = names_process & np.isin(process[device], process[makes_calls])
    if not made_calls.any():
        return anywhere
    distinct = np.unique(correlation)
    key = process * distinct.size + np.searchsorted(distinct, correlation)
    within = last_equal(key[calls], calls, key[device])
    elsewhere = names_process & present(events, "device")[device]
    return np.where(made_calls, within, np.where(elsewhere, -1, anywhere))


def _on_device_line(events: pa.Table) -> Mask:
    """Slices whose process is called by the index of their device."""
    codes, texts = words(events, "pid")
    index = [int(text) if text.isdecimal() and len(text) < 10 else -2 for text in texts]
    line: Mask = np.array([*index, -2])[codes] == numbers(events, "device", missing=-1)
    return line


def _ops_around(events: pa.Table, launch: Ints) -> Ints:
    """For each slice with a launch, the innermost host op around it.

    Where there is none, the innermost annotation, if the source has no ids of ops: its ranges are
    all that says on whose behalf work was launched.
    """
    op = _innermost(events, launch, "host_op")
    if present(events, "external_id")[launch >= 0].any():
        return op
    without = np.where(op < 0, launch, -1)
    return np.where(op < 0, _innermost(events, without, "annotation"), op)


def _innermost(events: pa.Table, rows: Ints, kind: str) -> Ints:
    """The innermost slice of this kind around each of the rows."""
    parent = numbers(events, "parent_id", missing=-1)
    is_wanted = is_kind(events, (kind,))
    around = rows.copy()
    open_ = np.flatnonzero(around >= 0)
    while (open_ := open_[~is_wanted[around[open_]]]).size:
        around[open_] = parent[around[open_]]
        open_ = open_[around[open_] >= 0]
    return around


def ops_by_external_id(events: pa.Table, rows: Ints, wanted: Ints) -> Ints:
    """Host op, else annotation, that is the only one with the wanted External id; 0 is none."""
    external = numbers(events, "external_id")
    found = np.full(rows.size, -1, np.int64)
    open_ = wanted != 0
    for kind in ("host_op", "annotation"):
        named = np.flatnonzero(is_kind(events, (kind,)) & (external != 0))
        number, first, count = np.unique(external[named], return_index=True, return_counts=True)
        at = last_equal(number, np.arange(number.size), wanted)
        known = open_ & (at >= 0)
        unique = known & (np.append(count, 0)[at] == 1)
        found[unique] = named[first[at[unique]]]
        open_ &= ~known
    return found


def _follow_arrows(tables: Tables, op: Ints) -> None:
    """Fill in the ops of slices on a device that nothing but an arrow leads to."""
    events = tables["events"]
    if present(events, "correlation").any():
        return
    on_device = np.flatnonzero(is_kind(events, _ON_DEVICE) & (op < 0))
    tails, heads = arrows(tables["flows"], LAUNCH_ARROWS)
    if not on_device.size or not tails.num_rows:
        return
    starts_at = starting(events, on_device, heads)
    ops = np.flatnonzero(is_kind(events, ("host_op",)) & present(events, "preorder"))
    start = numbers(events, "start_ns")[ops]
    end = start + numbers(events, "dur_ns")[ops]
    thread, at = numbers(tails, "thread"), numbers(tails, "time_ns")
    inside = stab(numbers(events, "thread")[ops], start, end, thread, at)
    known = (starts_at >= 0) & (inside >= 0)
    op[starts_at[known]] = ops[inside[known]]


def _notes(events: pa.Table, launch: Ints, op: Ints) -> Iterator[Note]:
    busy = is_kind(events, schema.DEVICE_KINDS)
    lost = busy & (numbers(events, "correlation") != 0) & (launch < 0)
    yield from note("kernel_without_launch", np.flatnonzero(lost))
    yield from note("external_id_mismatch", np.flatnonzero(_mismatch(events, launch, op)))


def _mismatch(events: pa.Table, launch: Ints, op: Ints) -> Mask:
    external = numbers(events, "external_id")
    known = external != 0
    joined = (launch >= 0) & (op >= 0) & ~is_kind(events, ("sync",))
    mismatch: Mask = joined & known & known[op] & (external[op] != external)
    return mismatch
