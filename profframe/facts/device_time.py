"""How long devices worked for each slice."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import column, flags, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.intervals import Ints, Mask, nearest, subtree_sums

_ON_DEVICE = (*schema.DEVICE_KINDS, "device_annotation")


@fact(
    inputs=columns(
        events="kind dur_ns parent_id preorder last_descendant_id launch_id op_id"
        " kernel_ns is_legacy"
    ),
    outputs=columns(events="device_ns self_device_ns"),
)
def device_time(tables: Tables) -> Output:
    """Add ``device_ns self_device_ns``.

    A busy slice counts once, at its op, else at its call: that is ``self_device_ns``.
    ``device_ns`` of a host slice is the sum of what was launched inside it; a call within an op
    has none of its own, as in torch. An annotation on a device has its duration, and costs its
    call nothing.
    """
    events = tables["events"]
    return summed(events, *_times(events), _ON_DEVICE)


def summed(events: pa.Table, own: Ints, inside: Ints, on_device: Collection[str]) -> Output:
    """The columns, of device time that is a slice's own and that to sum over what is inside.

    A slice of one of the kinds ``on_device`` has its duration.
    """
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
    of_device = is_kind(events, on_device) & present(events, "dur_ns")
    dur = numbers(events, "dur_ns")
    own, inclusive = (np.where(of_device, dur, times) for times in (own, inclusive))
    known = nests | of_device | (own > 0)
    known[_credited(events)[1]] = True
    return of_events(
        device_ns=column("device_ns", inclusive, known),
        self_device_ns=column("self_device_ns", own, known),
    )


def _times(events: pa.Table) -> tuple[Ints, Ints]:
    """Device time of each host slice that is its own, and that to sum over what is inside."""
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
