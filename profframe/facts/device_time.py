"""How long devices worked for each slice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import (
    Tables,
    column,
    flags,
    is_kind,
    numbers,
    present,
    with_columns,
)
from profframe.facts.torch_compat.links import has_numbers, torch_links
from profframe.intervals import Ints, Mask, nearest, subtree_sums

_NOT_TORCHS = ("MTIA", "HPU")
"""Devices whose work torch gives to no op."""


def device_time(tables: Tables, compat: str | None = None) -> Tables:
    """Add ``device_ns self_device_ns``.

    A busy slice counts once, at its op, else at its call: that is ``self_device_ns``.
    ``device_ns`` of a host slice is the sum of what was launched inside it; a call within an op
    has none of its own, as in torch. An annotation on a device has its duration, and costs its
    call nothing.

    With ``compat="torch"`` a slice on a device, a sync too, counts at everything that has the
    number that it is linked to, and a slice that takes over the time of duplicates has only what
    the innermost of them launched.
    """
    events = tables["events"]
    by_number = compat is not None and has_numbers(events)
    own, inside = _torch_times(tables) if by_number else _times(tables)
    given = _given(events)
    own, inside = own + given, inside + given
    nests = present(events, "preorder")
    rows = np.flatnonzero(nests)
    place = np.cumsum(nests) - 1
    last = place[numbers(events, "last_descendant_id")[rows]]
    preorder = numbers(events, "preorder")[rows]
    inclusive = own.copy()
    inclusive[rows] = np.where(
        is_kind(events, schema.LAUNCH_KINDS)[rows],
        subtree_sums(preorder, last, own[rows]),
        subtree_sums(preorder, last, inside[rows]),
    )
    on_device = (*schema.DEVICE_KINDS, "device_annotation", *(("sync",) if by_number else ()))
    of_device = is_kind(events, on_device) & present(events, "dur_ns")
    dur = numbers(events, "dur_ns")
    own, inclusive = (np.where(of_device, dur, times) for times in (own, inclusive))
    known = nests | of_device | (own > 0)
    known[_credited(events)[1]] = True
    return with_columns(
        tables,
        "events",
        device_ns=column("device_ns", inclusive, known),
        self_device_ns=column("self_device_ns", own, known),
    )


def _times(tables: Tables) -> tuple[Ints, Ints]:
    """Device time of each host slice that is its own, and that to sum over what is inside."""
    events = tables["events"]
    device, credited = _credited(events)
    dur = numbers(events, "dur_ns")[device]
    launch = numbers(events, "launch_id", missing=-1)[device]
    own, inside = np.zeros((2, events.num_rows), np.int64)
    np.add.at(own, credited, dur)
    np.add.at(inside, np.where(launch >= 0, launch, credited), dur)
    return own, inside


def _credited(events: pa.Table) -> tuple[Ints, Ints]:
    """Rows of busy slices, and the op of each, or its call where there is no op."""
    busy = is_kind(events, schema.DEVICE_KINDS) & present(events, "dur_ns")
    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    credited = np.where(op >= 0, op, launch)
    rows = np.flatnonzero(busy & (credited >= 0))
    return rows, credited[rows]


def _torch_times(tables: Tables) -> tuple[Ints, Ints]:
    """The same as torch links them."""
    events = tables["events"]
    links = torch_links(events)
    own = np.zeros(events.num_rows, np.int64)
    if tables["traces"]["device_type"][0].as_py() not in _NOT_TORCHS:
        kinds = is_kind(events, (*schema.DEVICE_KINDS, "sync")) & present(events, "dur_ns")
        device = np.flatnonzero(kinds & (links.linked > 0))
        number, which = np.unique(links.linked[device], return_inverse=True)
        total = np.zeros(number.size + 1, np.int64)
        np.add.at(total, which, numbers(events, "dur_ns")[device])
        named = np.flatnonzero((links.own > 0) & np.isin(links.own, number))
        own[named] = total[np.searchsorted(number, links.own[named])]
    merged = numbers(events, "merged_into", missing=-1)
    rows = np.flatnonzero(merged >= 0)
    rows = rows[np.argsort(numbers(events, "preorder")[rows])]
    of_rows = own[rows]
    own[rows] = 0
    own[merged[rows]] = of_rows  # of several the last one counts: the innermost
    return own, own.copy()


def _given(events: pa.Table) -> Ints:
    """Device time that the source has measured itself.

    That of a slice of the profiler before Kineto is of all that is inside it, whatever else is
    known of that.
    """
    if "kernel_ns" not in events.column_names:
        return np.zeros(events.num_rows, np.int64)
    given = numbers(events, "kernel_ns")
    legacy: Mask = flags(events, "is_legacy")
    parent = numbers(events, "parent_id", missing=-1)
    around = np.append(nearest(parent, legacy), -1)[parent]
    rows = np.flatnonzero((around >= 0) & (given != 0))
    own = given.copy()
    np.subtract.at(own, around[rows], given[rows])
    return own
