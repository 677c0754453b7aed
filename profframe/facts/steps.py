"""The profiler step of each slice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    column,
    is_kind,
    nulls,
    numbers,
    present,
    stream_codes,
    summed_duration,
    words,
)
from profframe.facts.fact import Note, Output, Tables, columns, fact, of_events
from profframe.intervals import Ints, last_until, stab

_STEP = re.compile(r"ProfilerStep#(\d{1,18})")
_MARKS = ("annotation", "host_op")


@fact(
    inputs=columns(events="kind name start_ns dur_ns pid device stream launch_id op_id"),
    outputs=columns(events="step"),
)
def steps(tables: Tables) -> Output:
    """Add ``step``.

    A host slice is in the step that it starts in, on any thread of the process; a step excludes its
    end, and if several steps are open, the one that started last counts. A device slice is in the
    step of its launch, or of its op if the source has no launches. A device annotation is in the
    step of the host slice that it shows on the device; if that is not known, in that of its first
    work. Device work outside all steps is counted, if there are steps.
    """
    events = tables["events"]
    name, texts = words(events, "name")
    matches = [_STEP.fullmatch(text) for text in texts]
    number = np.array([int(m[1]) if m else -1 for m in matches] + [-1], np.int64)[name]
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    process, _ = words(events, "pid")

    is_mark = (number >= 0) & (dur > 0) & present(events, "start_ns", "dur_ns")
    marks = np.flatnonzero(is_mark & is_kind(events, _MARKS))
    if not marks.size:
        return of_events(step=nulls(events, "step"))
    on_host = is_kind(events, (*schema.HOST_KINDS, "gil"))
    rows = np.flatnonzero(on_host & present(events, "start_ns"))
    # Steps touch: the next one begins in the nanosecond in which this one ends.
    last_inside = start[marks] + dur[marks] - 1
    group = process + 1
    match = stab(group[marks], start[marks], last_inside, group[rows], start[rows])
    step = np.full(events.num_rows, -1, np.int64)
    step[rows] = np.append(number[marks], -1)[match]

    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    # Ascend and lists of torch's events link device work to ops only.
    cause = launch if (launch >= 0).any() else op
    caused = np.flatnonzero(cause >= 0)
    # By launch, not by time: a host that runs ahead launches the next steps before the device gets
    # there.
    step[caused] = step[cause[caused]]

    shown = np.flatnonzero(is_kind(events, ("device_annotation",)) & (launch < 0))
    step[shown] = np.append(step, -1)[op[shown]]
    unmirrored = shown[op[shown] < 0]
    step[unmirrored] = np.append(step, -1)[_first_work(events, unmirrored)]
    return of_events(*_outside(events, step, launch), step=column("step", step, step >= 0))


def _first_work(events: pa.Table, annotations: Ints) -> Ints:
    """For each device annotation the first work that starts in it on its stream, or -1."""
    if not annotations.size:
        return annotations
    start = numbers(events, "start_ns")
    end = start + numbers(events, "dur_ns")
    line = stream_codes(events)
    is_work = is_kind(events, schema.DEVICE_KINDS) & present(events, "start_ns")
    work = np.flatnonzero(is_work)[::-1]
    # Backwards in time, so that the last one is the first.
    nearest = last_until(line[work], -start[work], line[annotations], -start[annotations])
    first = np.append(work, -1)[nearest]
    return np.where((first >= 0) & (start[first] < end[annotations]), first, -1)


def _outside(events: pa.Table, step: Ints, launch: Ints) -> Iterator[Note]:
    """A note on device work that is in no step."""
    is_work = is_kind(events, schema.DEVICE_KINDS) & present(events, "dur_ns")
    rows = np.flatnonzero(is_work & (step < 0))
    if rows.size:
        cut = np.count_nonzero(launch[rows] < 0)
        detail = f"{summed_duration(events, rows)}; the launch of {cut} is not in the trace"
        yield "outside_steps", rows.size, detail, int(rows[0])
