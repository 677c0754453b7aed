"""The call that launched each device slice, and the op that made the call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    encoded,
    ids,
    is_kind,
    last_equal,
    numbers,
    present,
    summed_duration,
    words,
)
from profframe.facts.fact import (
    Columns,
    Note,
    Output,
    Tables,
    any_of,
    columns,
    fact,
    note,
    of_events,
)
from profframe.facts.flow_ends import arrows, starting_at
from profframe.facts.kinds import LAUNCH_ARROWS
from profframe.facts.launch_calls import device_calls
from profframe.facts.list_arrows import LIST_ARROW_COLUMNS, list_arrows
from profframe.intervals import Ints, nearest, stab

COUNTED_COLUMNS: Final[Columns] = columns(
    counters="event_id", events="kind name start_ns parent_id"
)
"""Columns for finding the ops of slices with counters."""
_LAUNCHES: Final = "LaunchKernel"


def place_counted(tables: Tables, launch: Ints, op: Ints) -> tuple[Ints, Ints, Iterable[Note]]:
    """Calls and ops, also of slices with hardware counters.

    Work of a device has its own correlation, and is left. A slice inside a host op, on its thread,
    belongs to the innermost one. Each other slice is for
    one kernel, on a clock that may not be the host's: if there are as many as launches of kernels,
    the first belongs to the first launch, and so on. Otherwise they are noted.
    """
    if not tables["counters"].num_rows:
        return launch, op, ()
    counting = np.unique(numbers(tables["counters"], "event_id", missing=-1))
    counting = counting[counting >= 0]
    counting = counting[~is_kind(tables["events"], schema.DEVICE_KINDS)[counting]]
    if not counting.size:
        return launch, op, ()
    events, launch, op = tables["events"], launch.copy(), op.copy()
    parent = numbers(events, "parent_id", missing=-1)
    around = np.append(nearest(parent, is_kind(events, ("host_op",))), -1)
    op[counting] = around[parent[counting]]
    placed, calls = counting[op[counting] < 0], _launches(tables)
    if placed.size and placed.size == calls.size:
        placed = placed[np.argsort(numbers(events, "start_ns")[placed], kind="stable")]
        launch[placed] = calls
        op[placed] = around[parent[calls]]
    elif placed.size:
        detail = f"{placed.size} slices, {calls.size} launches"
        return launch, op, [("counted_slice_without_launch", placed.size, detail, int(placed[0]))]
    return launch, op, ()


def _launches(tables: Tables) -> Ints:
    """Calls that launch a kernel, in the order of time."""
    events = tables["events"]
    codes, texts = words(events, "name")
    launches = np.array([*(_LAUNCHES in text for text in texts), False], np.bool_)[codes]
    launches &= is_kind(events, schema.LAUNCH_KINDS) & present(events, "start_ns")
    rows = np.flatnonzero(launches)
    return rows[np.argsort(numbers(events, "start_ns")[rows], kind="stable")]


_ON_DEVICE = schema.ON_DEVICE_KINDS


@fact(
    inputs=LIST_ARROW_COLUMNS
    | COUNTED_COLUMNS
    | columns(
        events="kind name start_ns dur_ns pid device stream correlation external_id named_by "
        "parent_id preorder"
    ),
    outputs=columns(events="launch_id op_id attributed_by"),
    needs=any_of(kinds=schema.ON_DEVICE_KINDS, counters="event_id", flows="category"),
)
def launches(tables: Tables) -> Output:
    """Add ``launch_id op_id attributed_by``.

    A device slice belongs to the runtime or driver call with its correlation, and so to the
    innermost host op around that call; else to the op that names it as its own. It belongs to the
    op of its External id only if there is no call, and to the op at the start of its arrow only if
    the source has no correlations. In a source without such ids it may belong to an annotation. In
    the lists that torch writes, only arrows connect them; an arrow that starts at a call gives the
    call, too. A slice with counters belongs to the op around it, or to the launch at its position.
    """
    events = tables["events"]
    device, launch, odd = device_calls(events)
    if not device.size:  # only arrows and counters may say something
        return launch_columns(events, *with_list_arrows(tables, launch, launch.copy()))
    op = _ops_around(events, launch)
    named = naming_ops(events)
    op = np.where(op < 0, named, op)
    # The External id is the last resort: in half of the real GPU traces these ids are in another
    # number space, and in some they name a wrong op (`external_id_mismatch`).
    unlaunched = device[(launch[device] < 0) & (op[device] < 0)]
    # A sync's External id is its own correlation, so it means nothing.
    link = np.where(is_kind(events, ("sync",)), 0, numbers(events, "external_id"))
    op[unlaunched] = ops_by_external_id(events, unlaunched, link[unlaunched])
    _follow_arrows(tables, op)
    launch, op, notes = with_list_arrows(tables, launch, op)
    return launch_columns(events, launch, op, (*odd, *notes))


def with_list_arrows(tables: Tables, launch: Ints, op: Ints) -> tuple[Ints, Ints, Iterable[Note]]:
    """The calls and ops, also of slices that only an arrow of a list connects.

    Slices that have hardware counters are placed last.
    """
    events = tables["events"]
    is_linked = (launch >= 0) | (op >= 0)
    source, notes = list_arrows(tables, int(is_linked.sum()))
    # Arrows only fill what correlations and ids leave open: all they say is what begins at a
    # moment.
    source[is_linked] = -1
    if (source >= 0).any():
        is_call = is_kind(events, schema.LAUNCH_KINDS)[source] & (source >= 0)
        calls = np.where(is_call, source, -1)
        op = np.where(is_call, _ops_around(events, calls), np.where(source >= 0, source, op))
        launch = np.where(is_call, source, launch)
    launch, op, more = place_counted(tables, launch, op)
    return launch, op, (*notes, *more)


def launch_columns(events: pa.Table, launch: Ints, op: Ints, notes: Iterable[Note] = ()) -> Output:
    """Columns of these calls and ops, with notes about inconsistencies."""
    busy = is_kind(events, schema.DEVICE_KINDS)
    correlation = numbers(events, "correlation")
    unlaunched = busy & (correlation != 0) & (launch < 0)
    makes_calls = is_kind(events, schema.LAUNCH_KINDS) & (correlation != 0)
    # A source whose calls have no correlations, such as a list of torch's events, links in other
    # ways.
    unlinked = busy & (correlation == 0) & (launch < 0) & (op < 0) & makes_calls.any()
    external = numbers(events, "external_id")
    has_id = external != 0
    # Ids of 0 are no ids, and a sync has its own correlation there.
    joined = (launch >= 0) & (op >= 0) & ~is_kind(events, ("sync",))
    mismatch = joined & has_id & has_id[op] & (external[op] != external)
    of_work = {"kernel_without_launch": unlaunched, "kernel_without_correlation": unlinked}
    lacking = ((check, np.flatnonzero(is_one)) for check, is_one in of_work.items())
    return of_events(
        *notes,
        *(
            one
            for check, rows in lacking
            for one in note(check, rows, summed_duration(events, rows))
        ),
        *note("external_id_mismatch", np.flatnonzero(mismatch)),
        launch_id=ids(launch),
        op_id=ids(op),
        attributed_by=encoded(np.where(op < 0, -1, launch < 0), ("launch", "source")),
    )


def naming_ops(events: pa.Table) -> Ints:
    """Row of the op that names each device slice as its own, or -1."""
    op = np.full(events.num_rows, -1, np.int64)
    if "named_by" in events.column_names:
        row = numbers(events, "named_by", missing=-1)
        is_op = is_kind(events, ("host_op", "annotation"))
        is_named = is_kind(events, _ON_DEVICE) & (row >= 0) & (row < row.size)
        rows = np.flatnonzero(is_named)
        rows = rows[is_op[row[rows]]]
        op[rows] = row[rows]
    return op


def _ops_around(events: pa.Table, launch: Ints) -> Ints:
    """For each slice with a launch, the innermost host op around it.

    Otherwise the innermost annotation, if the source has no ids of ops: then only ranges say what
    launched the work.
    """
    op = _innermost(events, launch, "host_op")
    if present(events, "external_id")[launch >= 0].any():
        return op
    unowned = np.where(op < 0, launch, -1)
    return np.where(op < 0, _innermost(events, unowned, "annotation"), op)


def _innermost(events: pa.Table, rows: Ints, kind: str) -> Ints:
    """The innermost slice of this kind around each of the rows."""
    parent = numbers(events, "parent_id", missing=-1)
    is_match = is_kind(events, (kind,))
    around = rows.copy()
    pending = np.flatnonzero(around >= 0)
    while (pending := pending[~is_match[around[pending]]]).size:
        around[pending] = parent[around[pending]]
        pending = pending[around[pending] >= 0]
    return around


def ops_by_external_id(events: pa.Table, rows: Ints, searched: Ints) -> Ints:
    """Host op, else annotation, that is the only one with each External id; 0 means none."""
    external = numbers(events, "external_id")
    ops = np.full(rows.size, -1, np.int64)
    pending = searched != 0
    if not pending.any():
        return ops
    for kind in ("host_op", "annotation"):
        candidates = np.flatnonzero(is_kind(events, (kind,)) & (external != 0))
        number, first, count = np.unique(
            external[candidates], return_index=True, return_counts=True
        )
        place = last_equal(number, np.arange(number.size), searched)
        exists = pending & (place >= 0)
        # An id of several ops names none of them, and is not looked up among annotations either.
        unique = exists & (np.append(count, 0)[place] == 1)
        ops[unique] = candidates[first[place[unique]]]
        pending &= ~exists
    return ops


def _follow_arrows(tables: Tables, op: Ints) -> None:
    """Fill in the ops of device slices that only an arrow connects."""
    events = tables["events"]
    # Only Ascend's traces have such arrows in place of correlations.
    if present(events, "correlation").any():
        return
    on_device = np.flatnonzero(is_kind(events, _ON_DEVICE) & (op < 0))
    tails, heads = arrows(tables["flows"], LAUNCH_ARROWS)
    if not on_device.size or not tails.num_rows:
        return
    starts_at = starting_at(events, on_device, heads)
    ops = np.flatnonzero(is_kind(events, ("host_op",)) & present(events, "preorder"))
    start = numbers(events, "start_ns")[ops]
    end = start + numbers(events, "dur_ns")[ops]
    thread, at = numbers(tails, "thread"), numbers(tails, "time_ns")
    op_row = stab(numbers(events, "thread")[ops], start, end, thread, at)
    is_connected = (starts_at >= 0) & (op_row >= 0)
    op[starts_at[is_connected]] = ops[op_row[is_connected]]
