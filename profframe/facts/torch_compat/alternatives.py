"""Facts that torch finds in another way, also where that is wrong: ``compat="torch"``."""

from __future__ import annotations

import numpy as np

from profframe import schema
from profframe.facts import device_time as times
from profframe.facts import launches as calls
from profframe.facts.columns import Tables, is_kind, numbers, present
from profframe.facts.nesting import nested
from profframe.facts.stacks import with_stacks
from profframe.facts.torch_compat.links import has_numbers, torch_links, torch_threads
from profframe.intervals import Ints

_NOT_TORCHS = ("MTIA", "HPU")
"""Devices whose work torch gives to no op."""


def nesting(tables: Tables) -> Tables:
    """A call is on the thread of the op that it is linked to."""
    return nested(tables, torch_threads(tables["events"]))


def launches(tables: Tables) -> Tables:
    """The op of a slice on a device is that of its External id, whoever made the call."""
    events = tables["events"]
    if not has_numbers(events):
        return calls.launches(tables)
    device = np.flatnonzero(is_kind(events, calls.ON_DEVICE))
    op = np.full(events.num_rows, -1, np.int64)
    op[device] = calls.ops_by_external_id(tables, device, torch_links(events).linked[device])
    return calls.linked(tables, calls.calls_by_correlation(tables), op)


def device_time(tables: Tables) -> Tables:
    """A slice on a device, a sync too, counts at everything with the number that it is linked to.

    A slice that takes over the time of duplicates has only what the innermost of them launched.
    """
    if not has_numbers(tables["events"]):
        return times.device_time(tables)
    return times.with_times(tables, *_torch_times(tables), (*times.ON_DEVICE, "sync"))


def stacks(tables: Tables) -> Tables:
    """A backward function without a sequence number has the stack of the first slice without one.

    torch takes the missing number for a number.
    """
    return with_stacks(tables, is_numbered=np.ones(tables["events"].num_rows, np.bool_))


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
