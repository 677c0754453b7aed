"""The facts that torch computes differently, as torch does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import column, is_kind, numbers, present
from profframe.facts.device_time import device_time, time_columns
from profframe.facts.fact import Fact, Output, Tables, columns, fact, of_events
from profframe.facts.formulas import Formula
from profframe.facts.formulas.convolutions import UNPADDED
from profframe.facts.launch_calls import device_calls
from profframe.facts.launching_ops import (
    launch_columns,
    launches,
    naming_ops,
    ops_by_external_id,
    with_list_arrows,
)
from profframe.facts.nesting import BY_TIME, nesting, nesting_columns, nesting_rows
from profframe.facts.op_stacks import stack_column, stacks
from profframe.facts.op_work import NO_FORMULAS, work
from profframe.facts.python_frames import python_frames
from profframe.facts.self_time import self_columns, self_time
from profframe.facts.torch_compat.links import LINKS, has_numbers, torch_links, torch_threads
from profframe.facts.torch_compat.releases import NEWEST, Release
from profframe.intervals import Ints

_OF_NODE: Final = re.compile(r".*thread_id:")
"""The prefix of a thread id of another node, before torch's number."""
_NO_OPS: Final = ("MTIA", "HPU")
"""Devices whose work torch assigns to no op."""


@fact(inputs=columns(events="dur_ns"), outputs=python_frames.outputs)
def torch_frames(tables: Tables) -> Output:
    """Leave each Python frame as long as it was recorded."""
    events = tables["events"]
    return of_events(dur_ns=column("dur_ns", numbers(events, "dur_ns"), present(events, "dur_ns")))


@fact(inputs=columns(events="kind dur_ns parent_id depth"), outputs=self_time.outputs)
def torch_self_time(tables: Tables) -> Output:
    """Take the whole duration of each direct child, so that what two share counts twice."""
    events = tables["events"]
    nothing = np.zeros(events.num_rows, np.int64)
    return self_columns(events, nothing, nothing)


@fact(
    inputs=BY_TIME | LINKS | columns(threads="thread tid"),
    outputs=nesting.outputs,
    options=("release",),
)
def torch_nesting(tables: Tables, release: Release = NEWEST) -> Output:
    """Nest each call on the thread of the op that it is linked to."""
    events = tables["events"]
    thread = torch_threads(events, release)
    if events["node_id"].null_count == events.num_rows:
        return nesting_columns(events, thread)
    return nesting_columns(events, _turns(events, _numbers_of(tables["threads"], thread)))


def _numbers_of(threads: pa.Table, thread: Ints) -> Ints:
    """Codes of torch's numbers of threads, which are the same on several nodes."""
    texts = [_OF_NODE.sub("", tid or "").strip() for tid in threads["tid"].to_pylist()]
    _, code = np.unique(np.array(texts, dtype=np.str_), return_inverse=True)
    lookup = np.full(1 + int(thread.max(initial=0)), -1, np.int64)
    lookup[numbers(threads, "thread")] = code
    return lookup[thread]


def _turns(events: pa.Table, thread: Ints) -> Ints:
    """Slices of a thread from one change of its node to the next: torch does not sort by node."""
    rows = np.flatnonzero(nesting_rows(events))
    rows = rows[np.argsort(thread[rows], kind="stable")]
    node = numbers(events, "node_id", missing=-1)[rows]
    changes = (np.diff(thread[rows]) != 0) | (np.diff(node) != 0)
    turn = np.full(events.num_rows, -1, np.int64)
    turn[rows] = np.cumsum(np.append(0, changes))[: rows.size]
    return turn


@fact(inputs=launches.inputs | LINKS, outputs=launches.outputs, needs=launches.needs)
def torch_launches(tables: Tables) -> Output:
    """Use the op of the External id, whichever op made the call."""
    events = tables["events"]
    if not has_numbers(events):
        return launches.compute(tables)
    device, launch, odd = device_calls(events)
    op = np.full(events.num_rows, -1, np.int64)
    op[device] = ops_by_external_id(events, device, torch_links(events, NEWEST).linked[device])
    op = np.where(op < 0, naming_ops(events), op)
    launch, op, notes = with_list_arrows(tables, launch, op)
    return launch_columns(events, launch, op, (*odd, *notes))


@fact(
    inputs=device_time.inputs
    | LINKS
    | columns(events="merged_into named_by", traces="device_type"),
    outputs=device_time.outputs,
    options=("release",),
)
def torch_device_time(tables: Tables, release: Release = NEWEST) -> Output:
    """Count a device slice or sync at every slice with the number that it is linked to.

    A slice that absorbs duplicates has only the time of the innermost of them.
    """
    events = tables["events"]
    if not has_numbers(events):
        return device_time.compute(tables)
    own = _times(tables, release)
    return time_columns(events, own, own, schema.ON_DEVICE_KINDS)


def _times(tables: Tables, release: Release) -> Ints:
    """Own device time of each host slice."""
    events = tables["events"]
    links = torch_links(events, release)
    own = np.zeros(events.num_rows, np.int64)
    if tables["traces"]["device_type"][0].as_py() not in _NO_OPS:
        kinds = is_kind(events, (*schema.DEVICE_KINDS, "sync")) & present(events, "dur_ns")
        device = np.flatnonzero(kinds & (links.linked > 0))
        number, place = np.unique(links.linked[device], return_inverse=True)
        total = np.zeros(number.size + 1, np.int64)
        np.add.at(total, place, numbers(events, "dur_ns")[device])
        numbered = np.flatnonzero((links.own > 0) & np.isin(links.own, number))
        own[numbered] = total[np.searchsorted(number, links.own[numbered])]
        op = naming_ops(events)
        named = np.flatnonzero(kinds & (links.linked <= 0) & (op >= 0))
        np.add.at(own, op[named], numbers(events, "dur_ns")[named])
    merged = numbers(events, "merged_into", missing=-1)
    rows = np.flatnonzero(merged >= 0)
    rows = rows[np.argsort(numbers(events, "preorder")[rows])]
    times = own[rows]
    own[rows] = 0
    own[merged[rows]] = times  # if there are several, the last one wins: the innermost
    return own


@fact(inputs=stacks.inputs, outputs=stacks.outputs, needs=stacks.needs)
def torch_stacks(tables: Tables) -> Output:
    """Give a backward function without a sequence number the first stack without one.

    torch treats the missing number as a number.
    """
    return stack_column(tables, lambda _, functions: functions)


@fact(inputs=work.inputs, outputs=work.outputs, options=work.options, needs=work.needs)
def torch_work(tables: Tables, formulas: Mapping[str, Formula | None] = NO_FORMULAS) -> Output:
    """Count convolutions without their padding, as torch's reports do."""
    return work.compute(tables, {**UNPADDED, **formulas})


ALTERNATIVES: Final[Mapping[Fact, Fact]] = MappingProxyType(
    {
        python_frames: torch_frames,
        nesting: torch_nesting,
        self_time: torch_self_time,
        launches: torch_launches,
        device_time: torch_device_time,
        stacks: torch_stacks,
        work: torch_work,
    }
)
"""Facts, and torch's replacements for them."""
