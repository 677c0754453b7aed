"""Work that waits for the devices, and the time in which they were idle."""

from __future__ import annotations

import numpy as np

from profframe import schema
from profframe.facts.arrays import column, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, any_of, columns, fact, of_events
from profframe.facts.lost_work import lost_spans
from profframe.intervals import covered, open_at


@fact(
    inputs=columns(events="kind start_ns dur_ns preorder launch_id lost_start_ns lost_end_ns"),
    outputs=columns(events="queue_depth idle_ns"),
    needs=any_of(kinds=schema.DEVICE_KINDS),
)
def queue_depth(tables: Tables) -> Output:
    """Fill ``queue_depth idle_ns``.

    A piece of device work (a kernel, copy or fill) waits from the start of the call that launched
    it to its own start, on any stream; a graph launch launches many. Work without a call in the
    trace does not wait, nor does work that starts before its call by the clocks.

    A device is busy while a piece runs on it. The idle time of a host slice is when all devices of
    the rank are idle, even before their first piece and after their last; but not while work that
    is not in the trace may have run.
    """
    events = tables["events"]
    timed = present(events, "start_ns")
    of_device = is_kind(events, schema.DEVICE_KINDS) & timed
    if not of_device.any():
        return Output()
    nests = present(events, "preorder") & timed
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    device, rows = np.flatnonzero(of_device), np.flatnonzero(nests | of_device)
    rows = rows[np.argsort(start[rows], kind="stable")]
    at, depth, idle = start[rows], np.empty_like(start), np.empty_like(start)

    launch = numbers(events, "launch_id", missing=-1)[device]
    launched = (launch >= 0) & timed[launch]
    started, called = start[device[launched]], start[launch[launched]]
    # Clocks that disagree may start work before its call: such a pair never waits, else depth would
    # be negative.
    depth[rows] = open_at(called, np.maximum(called, started), at)

    finished = device[present(events, "dur_ns")[device]]
    # Time in which lost work may have run is not known to be idle.
    since, until = lost_spans(events)
    since = np.concatenate([start[finished], since])
    until = np.concatenate([(start + dur)[finished], until])
    idle[rows] = dur[rows] - covered(since, until, at, at + dur[rows])
    return of_events(
        queue_depth=column("queue_depth", depth, (nests | of_device) & launched.any()),
        idle_ns=column("idle_ns", idle, nests & (finished.size > 0)),
    )
