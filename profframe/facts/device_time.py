"""Device time of each slice."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import column, flags, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.intervals import Ints, Mask, nearest, subtree_sums

_ON_DEVICE = (*schema.DEVICE_KINDS, "device_annotation")


@fact(
    inputs=columns(
        events="kind dur_ns parent_id preorder last_descendant_id launch_id op_id"
        " replays kernel_ns is_legacy"
    ),
    outputs=columns(events="device_ns self_device_ns"),
)
def device_time(tables: Tables) -> Output:
    """Add ``device_ns self_device_ns``.

    A busy slice counts once, for its op, or else for its call: that is ``self_device_ns``.
    ``device_ns`` of a host slice is the sum over everything launched inside it, and of a captured
    one over everything replayed for it; a call within an op has no self time, as in torch. A device
    annotation has its duration, and adds nothing to its call.
    """
    events = tables["events"]
    return time_columns(events, *_times(events), _ON_DEVICE)


def time_columns(
    events: pa.Table, self_time: Ints, nested_time: Ints, on_device: Collection[str]
) -> Output:
    """The columns, from the own device time of slices, and the time to sum over those inside.

    Slices of the kinds ``on_device`` have their duration.
    """
    measured = _measured(events)
    self_time, nested_time = self_time + measured, nested_time + measured
    nests = present(events, "preorder")
    rows = np.flatnonzero(nests)
    place = np.cumsum(nests) - 1
    last = place[numbers(events, "last_descendant_id")[rows]]
    preorder = numbers(events, "preorder")[rows]
    inclusive = self_time.copy()
    if self_time.any() or nested_time.any():  # there is work of devices
        inclusive[rows] = np.where(
            # In torch a call has device time only if no op claims it.
            is_kind(events, schema.LAUNCH_KINDS)[rows],
            subtree_sums(preorder, last, self_time[rows]),
            subtree_sums(preorder, last, nested_time[rows]),
        )
    of_device = is_kind(events, on_device) & present(events, "dur_ns")
    dur = numbers(events, "dur_ns")
    self_time, inclusive = (np.where(of_device, dur, times) for times in (self_time, inclusive))
    valid = nests | of_device | (self_time > 0)
    valid[_credited(events)[1]] = True
    return of_events(
        device_ns=column("device_ns", inclusive, valid),
        self_device_ns=column("self_device_ns", self_time, valid),
    )


def _times(events: pa.Table) -> tuple[Ints, Ints]:
    """Own device time of each host slice, and the time to sum over those inside."""
    device, credited = _credited(events)
    dur = numbers(events, "dur_ns")[device]
    launch = numbers(events, "launch_id", missing=-1)[device]
    self_time, nested_time = np.zeros((2, events.num_rows), np.int64)
    np.add.at(self_time, credited, dur)
    # At the call and not at the op: annotations and modules between the two contain the call, too.
    np.add.at(nested_time, np.where(launch >= 0, launch, credited), dur)
    if "replays" in events.column_names:
        # The graph launch is nowhere inside the captured op that gets the time, so that gets it
        # directly.
        of_graph = (launch >= 0) & present(events, "replays")[credited]
        np.add.at(nested_time, credited[of_graph], dur[of_graph])
    return self_time, nested_time


def _credited(events: pa.Table) -> tuple[Ints, Ints]:
    """Rows of busy slices, and the op (else the call) that each is credited to."""
    busy = is_kind(events, schema.DEVICE_KINDS) & present(events, "dur_ns")
    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    credited = np.where(op >= 0, op, launch)
    rows = np.flatnonzero(busy & (credited >= 0))
    return rows, credited[rows]


def _measured(events: pa.Table) -> Ints:
    """Own device time that the source has measured itself.

    The time of a slice of the profiler before Kineto includes all slices inside it.
    """
    if "kernel_ns" not in events.column_names:
        return np.zeros(events.num_rows, np.int64)
    measured = numbers(events, "kernel_ns")
    legacy: Mask = flags(events, "is_legacy")
    parent = numbers(events, "parent_id", missing=-1)
    around = np.append(nearest(parent, legacy), -1)[parent]
    rows = np.flatnonzero((around >= 0) & (measured != 0))
    self_time = measured.copy()
    np.subtract.at(self_time, around[rows], measured[rows])
    return self_time
