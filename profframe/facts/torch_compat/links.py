"""Links from device slices to ops as torch makes them: by External id.

Only ``compat="torch"`` needs this. In half of the traces the number is that of an op; in others it
is something else that may equal an op's number by chance. A call without a link to an op has the
number that it shares with what it launched; until 2.14 torch took that for an External id, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    flags,
    is_kind,
    last_equal,
    numbers,
    present,
    source_order,
)
from profframe.facts.fact import columns
from profframe.facts.torch_compat.overloads import is_dropped
from profframe.facts.torch_compat.releases import Release, looks_up_unlinked_calls
from profframe.intervals import Ints

LINKS: Final = columns(events="kind name external_id correlation is_async start_ns dur_ns")
"""Columns for finding links."""
_OPS: Final = ("host_op", "annotation")
_CALLS: Final = ("runtime", "driver", "overhead", "other")


@dataclass(frozen=True, slots=True)
class EventLinks:
    """For each event the number that it links to, and its own number; 0 is none."""

    linked: Ints
    own: Ints


def has_numbers(events: pa.Table) -> bool:
    """Whether the source numbers its ops: databases of nvprof and Nsight Systems do not."""
    return bool(events["external_id"].null_count < events.num_rows)


def torch_links(events: pa.Table, release: Release) -> EventLinks:
    """The numbers of all events; dropped and asynchronous slices have none.

    A sync without a link has its own correlation as External id.
    """
    external, correlation = numbers(events, "external_id"), numbers(events, "correlation")
    linked = np.where(is_kind(events, (*schema.DEVICE_KINDS, *_CALLS)), external, 0)
    of_sync = is_kind(events, ("sync",)) & (external != correlation)
    linked[of_sync] = external[of_sync]
    own = np.where(is_kind(events, _OPS), external, 0)
    if looks_up_unlinked_calls(release):
        unlinked = is_kind(events, _CALLS) & (linked == 0)
        own[unlinked] = correlation[unlinked]
    own[is_dropped(events) | flags(events, "is_async")] = 0
    own[~present(events, "start_ns", "dur_ns")] = 0
    return EventLinks(linked, own)


def torch_threads(events: pa.Table, release: Release) -> Ints:
    """The thread of each event; that of a linked call is the last event's with its number."""
    links, thread = torch_links(events, release), numbers(events, "thread")
    numbered = np.flatnonzero(links.own)
    start = numbers(events, "start_ns")[numbered]
    numbered = numbered[np.lexsort((source_order(events)[numbered], start))]
    calls = np.flatnonzero(is_kind(events, _CALLS) & (links.linked > 0))
    op_of_call = last_equal(links.own[numbered], numbered, links.linked[calls])
    torch_thread = thread.copy()
    torch_thread[calls] = np.where(op_of_call < 0, thread[calls], thread[op_of_call])
    return torch_thread
