"""Suggestions of advice as changes of a simulation, and their gains.

A remedy changes only what its finding is about: the events that a rule names, on the ranks that
have the finding. So a gain refers to the time that the rule looks at, whatever else is in the
trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profframe.analysis.critical_path.edges import SYNC
from profframe.analysis.simulation import changes
from profframe.analysis.simulation.changes import Change
from profframe.analysis.simulation.job_network import CLASSES, outcome
from profframe.analysis.simulation.rank import ARRIVAL, NOTHING, Lengths, Rank
from profframe.analysis.simulation.what_if import JobModel
from profframe.intervals import Ints, Mask, stab

_INPUT: Final = "input"
CAUSES: Final = {"host": "", _INPUT: "", "compute": "compute", "copy": "copy"}
"""Causes of late ranks that a replay can change, and the class of their work; else the host's."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The events of one rank that a remedy changes.

    Attributes
    ----------
    events : Ints
        The events.
    is_all : bool
        No events are named: it is all of the time that is looked at.
    factors : array or None
        What the time of each is multiplied by; None is 0.
    marks : Ints
        The profiler steps, which are what is looked at; none is the whole trace.
    but : Ints
        Events during which nothing changes, if none are named.
    """

    events: Ints
    factors: NDArray[np.float64] | None
    marks: Ints
    is_all: bool = False
    but: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Remedy:
    """A suggestion as a change: a word of `REPLAYS`, for each rank that has the finding.

    ``cause`` is for stragglers: what makes them late.
    """

    word: str
    ranks: Mapping[int, Changed]
    cause: str


def gains(model: JobModel, remedies: Sequence[Remedy]) -> tuple[list[int], float]:
    """Nanoseconds that each remedy gains, and how far the unchanged replay is off.

    A gain is the replay without the change minus the replay with it, so errors that both have
    cancel.
    """
    now = outcome(model.job, model.recorded).end
    gained = []
    for remedy in remedies:
        end = outcome(model.job, change(model, remedy)(model.recorded)).end
        # Against the unchanged replay, not the recording: errors that both replays have cancel.
        gained.append(max(now - end, 0))
    error = (now - model.length_ns) / model.length_ns if model.length_ns else 0.0
    return gained, error


def change(model: JobModel, remedy: Remedy) -> Change:
    """The durations of all ranks after the remedy."""
    nothing = np.empty(0, np.int64)
    parts = [remedy.ranks.get(rank, Changed(nothing, None, nothing)) for rank in model.ranks]
    if remedy.word == "works":
        return _works(model, parts)
    if remedy.word == "launches":
        return _launches(model, parts)
    if remedy.word == "stragglers":
        late = [rank in remedy.ranks for rank in model.ranks]
        return _stragglers(model, parts, late, remedy.cause)
    return _slices(model, parts, remedy.word)


def _works(model: JobModel, parts: Sequence[Changed]) -> Change:
    """Scale work; a transfer that takes no time takes none on all of its ranks."""
    chosen, factors, meetings = [], [], []
    for own, part in zip(model.job.ranks, parts, strict=True):
        event = own.graph.works.event
        rows = np.flatnonzero(np.isin(event, part.events))
        factor = np.zeros(event.size)
        if part.factors is not None:
            order = np.argsort(part.events, kind="stable")
            factor[rows] = part.factors[order[np.searchsorted(part.events[order], event[rows])]]
        mask = np.zeros(event.size, np.bool_)
        mask[rows] = True
        chosen.append(mask)
        factors.append(factor)
        work, meeting = _members(own)
        meetings.append(meeting[mask[work] & (factor[work] == 0)])
    # A transfer takes all ranks: it is hidden on all of them or on none.
    hidden = np.concatenate([*meetings, np.empty(0, np.int64)])
    for own, mask in zip(model.job.ranks, chosen, strict=True):
        work, meeting = _members(own)
        mask[work[np.isin(meeting, hidden)]] = True
    return changes.works(model.job, chosen, factors)


def _members(own: Rank) -> tuple[Ints, Ints]:
    """Works that are members of collectives with other ranks, and the node of each of these."""
    works = np.flatnonzero(own.nodes.start >= 0)
    start = own.nodes.start[works]
    arrivals = np.flatnonzero((own.arrows.kind == ARRIVAL) & (own.arrows.point < 0))
    order = arrivals[np.argsort(own.arrows.source[arrivals], kind="stable")]
    place = np.searchsorted(own.arrows.source[order], start)
    return works, own.arrows.target[order[place]]


def _launches(model: JobModel, parts: Sequence[Changed]) -> Change:
    """Launches during events take no time, on any thread."""
    free = []
    for own, its, part in zip(model.job.ranks, model.details, parts, strict=True):
        events = part.marks if part.is_all else part.events
        slices = own.graph.slices
        during = np.ones(slices.event.size, np.bool_)
        if events.size or not part.is_all:
            chosen = np.isin(slices.event, events)
            during = _covered(slices.start, slices.start[chosen], slices.end[chosen])
        if part.is_all and part.but.size:
            others = np.isin(slices.event, part.but)
            during &= ~_covered(slices.start, slices.start[others], slices.end[others])
        launches = changes.launching(own, its) & during
        free.append(changes.launch_points(own, launches, its))
    return changes.at_points(free)


def _slices(model: JobModel, parts: Sequence[Changed], word: str) -> Change:
    """Host time in slices becomes 0; for ``calls`` waits, too, for ``ops`` also work."""
    chosen = [
        np.isin(own.graph.slices.event, part.events)
        for own, part in zip(model.job.ranks, parts, strict=True)
    ]
    inside = [_within(own, rows) for own, rows in zip(model.job.ranks, chosen, strict=True)]

    def changed(lengths: Sequence[Lengths]) -> list[Lengths]:
        new = []
        for own, rows, old in zip(model.job.ranks, inside, lengths, strict=True):
            lag = old.lag
            if word == "calls":
                ends = own.nodes.point[rows & (own.nodes.point >= 0)]
                waits = (own.arrows.kind == SYNC) & np.isin(own.arrows.target, ends)
                lag = np.where(waits, NOTHING, lag)
            time = np.where(rows & ~own.unseen, 0, old.own)
            new.append(replace(old, own=time, lag=lag))
        if word != "ops":
            return new
        launched = [
            changes.launched(own, rows) for own, rows in zip(model.job.ranks, chosen, strict=True)
        ]
        return changes.works(model.job, launched, [0.0] * len(launched))(new)

    return changed


def _within(own: Rank, chosen: Mask) -> Mask:
    """Points up to which their thread was in one of some slices."""
    slices, points = own.graph.slices, own.graph.points
    columns = slices.thread[chosen], slices.start[chosen], slices.end[chosen] - 1
    inside = stab(*columns, points.thread, points.time) >= 0
    return np.append(False, inside[:-1])[: inside.size]


def _covered(at: Ints, start: Ints, end: Ints) -> Mask:
    """Moments from the start of any of some intervals to before its end."""
    begun = np.searchsorted(np.sort(start), at, side="right")
    done = np.searchsorted(np.sort(end), at, side="right")
    covered: Mask = begun > done
    return covered


def _stragglers(
    model: JobModel, parts: Sequence[Changed], late: Sequence[bool], cause: str
) -> Change:
    """Late ranks do what makes them late as the median rank does, in the time looked at.

    A cause on the host is either the calls of a data loader or all other activity of a thread.
    """
    number = CLASSES.index(CAUSES[cause]) if CAUSES[cause] else None

    def changed(lengths: Sequence[Lengths]) -> list[Lengths]:
        new = []
        columns = model.job.ranks, model.details, parts, late, lengths, model.usual
        for own, its, part, is_late, old, typical in zip(*columns, strict=True):
            if not is_late:
                new.append(old)
            elif number is None:
                rows = _looked_at(own, own.graph.points.time, part.marks)
                rows &= _within(own, its.is_load) == (cause == _INPUT)
                new.append(replace(old, own=np.where(rows, typical.own, old.own)))
            else:
                rows = _looked_at(own, own.graph.works.call_start, part.marks)
                rows &= its.classes == number
                new.append(replace(old, work=np.where(rows, typical.work, old.work)))
        return new

    return changed


def _looked_at(own: Rank, at: Ints, marks: Ints) -> Mask:
    """Moments in profiler steps; all moments if there are none."""
    if not marks.size:
        return np.ones(at.size, np.bool_)
    slices = own.graph.slices
    chosen = np.isin(slices.event, marks)
    return _covered(at, slices.start[chosen], slices.end[chosen])
