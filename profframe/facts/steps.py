"""The profiler step of each slice."""

from __future__ import annotations

import re

import numpy as np

from profframe import schema
from profframe.facts.columns import column, is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.intervals import stab

_STEP = re.compile(r"ProfilerStep#(\d{1,18})")
_MARKS = ("annotation", "host_op")


@fact(
    inputs=columns(events="kind name start_ns dur_ns pid launch_id op_id"),
    outputs=columns(events="step"),
)
def steps(tables: Tables) -> Output:
    """Add ``step``.

    A host slice is in the step that it starts in, on any thread of the process; a step excludes its
    end, and of several open steps the one that started last counts. A device slice is in the step
    of its launch, or of its op if the source has no launches.
    """
    events = tables["events"]
    name, texts = words(events, "name")
    matches = [_STEP.fullmatch(text) for text in texts]
    number = np.array([int(m[1]) if m else -1 for m in matches] + [-1], np.int64)[name]
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    process, _ = words(events, "pid")

    is_mark = (number >= 0) & (dur > 0) & present(events, "start_ns", "dur_ns")
    marks = np.flatnonzero(is_mark & is_kind(events, _MARKS))
    rows = np.flatnonzero(is_kind(events, schema.HOST_KINDS) & present(events, "start_ns"))
    last_inside = start[marks] + dur[marks] - 1
    group = process + 1
    match = stab(group[marks], start[marks], last_inside, group[rows], start[rows])
    step = np.full(events.num_rows, -1, np.int64)
    step[rows] = np.append(number[marks], -1)[match]

    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    cause = launch if (launch >= 0).any() else op
    caused = np.flatnonzero(cause >= 0)
    step[caused] = step[cause[caused]]
    return of_events(step=column("step", step, step >= 0))
