"""How long each step took: on the host, on the devices, and from one completion to the next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    combined,
    distinct,
    encoded,
    is_kind,
    numbers,
    present,
    stream_codes,
    words,
)
from profframe.facts.fact import Note, Output, Tables, any_of, columns, fact, listed
from profframe.facts.lost_work import lost_spans
from profframe.intervals import Ints, Mask, covered, last_until

MARK: Final = re.compile(r"ProfilerStep#(\d{1,18})")
"""Name of the slice that marks a step."""
OPEN, CUT, RECORDS, BEFORE = "open", "cut", "records", "before"
LACKS: Final = (OPEN, CUT, RECORDS, BEFORE)
"""Values of `profiler_steps.lack`."""
_CHECKS: Final = {CUT: "cut_step", RECORDS: "incomplete_step", BEFORE: "unknown_start_of_step"}
_LEAST_SHARE: Final = 0.05
"""Share of a step from which a difference matters."""
_LAUNCH_NS: Final = 200_000
"""Work that begins within this time of its launch has waited for nothing else."""
_NONE: Final = -1
_NEVER: Final = np.iinfo(np.int64).max
_UNKNOWN: Final = np.iinfo(np.int64).min
_PARTS: Final = (
    *("compute_ns", "exposed_communication_ns", "exposed_copy_ns", "unrecorded_ns", "idle_ns"),
    *("hidden_communication_ns", "hidden_copy_ns", "other_steps_ns"),
)
_OptionalInts: TypeAlias = tuple[Ints, Mask]
"""Values, and which of them are known."""


_INPUTS: Final = (
    "kind name start_ns dur_ns pid device stream launch_id op_id kernel_category wait_on_stream "
    "lost_start_ns lost_end_ns"
)


@fact(
    inputs=columns(events=f"{_INPUTS} step parent_id"),
    outputs=columns(profiler_steps=" ".join(schema.PROFILER_STEPS.names[2:])),
)
def step_times(tables: Tables) -> Output:
    """Make the table `profiler_steps`.

    Work of a device belongs to the step of its launch. A step is completed when its slice on the
    host has ended, and the work of all steps up to it (but see `_held`). It took the time since the
    completion before it, or since its own start where that is later: so the intervals of steps of a
    process do not overlap. Work that was launched before the first step is completed before it.
    """
    events = tables["events"]
    number = _numbers(events)
    marks = Marks.of_steps(events, number)
    if not marks.row.size:
        return Output()
    times = StepLengths.of(events, marks, _is_cut(events, marks))
    rows = times.table("profiler_steps", events, {"step": pa.array(number[marks.row])})
    return Output(rows, tuple(times.notes(lambda of: f"step {listed(number[of].tolist())}")))


@fact(
    inputs=columns(events=f"{_INPUTS} inference_phase phase_id"),
    outputs=columns(phase_steps=" ".join(schema.PHASE_STEPS.names[2:])),
    needs=any_of(events="phase_id"),
)
def phase_times(tables: Tables) -> Output:
    """Make the table `phase_steps`: intervals and times of occurrences of phases of inference.

    An occurrence within another one of its process is a part of that one's step. Notes for
    `quality` are made only in a trace without other steps, so that none is made twice.
    """
    events = tables["events"]
    marks = Marks.of_phases(events)
    if not marks.row.size:
        return Output()
    times = StepLengths.of(events, marks, np.zeros(marks.row.size, np.bool_))
    phase, phases = words(events, "inference_phase")
    rows = times.table("phase_steps", events, {"phase": encoded(phase[marks.row], phases)})
    if (_numbers(events) >= 0).any():
        return Output(rows)
    name, names = words(events, "name")
    of_rows = times.notes(lambda of: listed([names[code] for code in name[of].tolist()]))
    return Output(rows, tuple(of_rows))


@dataclass(frozen=True, slots=True)
class Marks:
    """Slices that mark steps, in the order of (process, start).

    ``process`` is a number; ``start`` and ``end`` are _UNKNOWN where the slice has none. ``home``
    has the mark of each call, synchronisation and work among the events, or -1.
    """

    row: Ints
    process: Ints
    start: Ints
    end: Ints
    home: Ints
    on_devices: bool = False

    @classmethod
    def of_steps(cls, events: pa.Table, number: Ints) -> Marks:
        """The slices of torch's profiler, from N of each."""
        marks = cls._at(events, np.flatnonzero(number >= 0))
        return replace(marks, home=_of_steps(events, marks, number)) if marks.row.size else marks

    @classmethod
    def of_phases(cls, events: pa.Table) -> Marks:
        """The outermost markers of phases."""
        phase = numbers(events, "phase_id", missing=_NONE)
        rows = np.flatnonzero(phase == np.arange(phase.size))
        # Of markers that begin at once the longest is the outer one.
        longest_first = np.argsort(-numbers(events, "dur_ns")[rows], kind="stable")
        marks = cls._at(events, rows[longest_first])
        if not marks.row.size:
            return marks
        outer = marks.outermost()
        place = np.full(phase.size + 1, _NONE, np.int64)
        place[marks.row] = np.cumsum(outer == np.arange(outer.size))[outer] - 1
        kept = np.unique(outer)
        on_devices = not is_kind(events, schema.HOST_KINDS)[marks.row].any()
        of_marks = (marks.row, marks.process, marks.start, marks.end)
        row, process, start, end = (values[kept] for values in of_marks)
        return cls(row, process, start, end, place[phase], on_devices)

    @classmethod
    def _at(cls, events: pa.Table, rows: Ints) -> Marks:
        """Marks at some rows, which stay in their order if they start at once."""
        process = words(events, "pid")[0][rows]
        start, dur = numbers(events, "start_ns")[rows], numbers(events, "dur_ns")[rows]
        has_start = present(events, "start_ns")[rows]
        has_end = has_start & present(events, "dur_ns")[rows]
        start = np.where(has_start, start, _UNKNOWN)
        end = np.where(has_end, start + dur, _UNKNOWN)
        order = np.lexsort((start, process))
        row, process, start, end = (values[order] for values in (rows, process, start, end))
        return cls(row, process, start, end, home=np.empty(0, np.int64))

    def outermost(self) -> Ints:
        """For each mark the one of its process that it runs within, or itself."""
        outer = np.arange(self.row.size)
        for steps in self.by_process():
            end = self.end[steps]
            longest = np.maximum.accumulate(end)
            is_outer = np.append(True, end[1:] > longest[:-1])
            outer[steps] = np.maximum.accumulate(np.where(is_outer, outer[steps], steps.start))
        return outer

    @property
    def has_start(self) -> Mask:
        """Mask of marks with a start."""
        return np.asarray(self.start != _UNKNOWN)

    @property
    def is_first(self) -> Mask:
        """Mask of the first mark of each process."""
        return np.append(True, self.process[1:] != self.process[:-1])

    def by_process(self) -> Iterator[slice]:
        """The marks of each process."""
        bounds = [*np.flatnonzero(self.is_first).tolist(), self.row.size]
        return (slice(*pair) for pair in pairwise(bounds))


def _numbers(events: pa.Table) -> Ints:
    """N of each slice `ProfilerStep#N`; -1 for others."""
    name, texts = words(events, "name")
    marks = [MARK.fullmatch(text) for text in texts]
    number = np.array([int(m[1]) if m else _NONE for m in marks] + [_NONE], np.int64)[name]
    return np.where(is_kind(events, schema.HOST_KINDS), number, _NONE)


def _of_steps(events: pa.Table, marks: Marks, number: Ints) -> Ints:
    """The mark of each call, synchronisation and work: the last with its step before its launch."""
    step, start = numbers(events, "step", missing=_NONE), numbers(events, "start_ns")
    kinds = (*schema.LAUNCH_KINDS, *schema.DEVICE_KINDS, "sync")
    rows = np.flatnonzero((step >= 0) & is_kind(events, kinds))
    cause = _causes(events, rows)
    is_timed = (cause >= 0) & present(events, "start_ns")[cause]
    moment = np.where(is_timed, start[cause], start[rows])
    is_launched = is_timed | ((cause >= 0) & is_kind(events, ("sync",))[rows])
    process = np.where(is_launched, words(events, "pid")[0][cause], _NONE)
    timed = np.flatnonzero(marks.has_start)
    key = combined(
        np.concatenate([marks.process[timed], process]),
        np.concatenate([number[marks.row[timed]], step[rows]]),
    )
    own, searched = key[: timed.size], key[timed.size :]
    home = np.full(events.num_rows, _NONE, np.int64)
    home[rows] = np.append(timed, _NONE)[last_until(own, marks.start[timed], searched, moment)]
    return home


def _causes(events: pa.Table, rows: Ints) -> Ints:
    """The call behind each of some calls, synchronisations and works; -1 is unknown."""
    launch, op = (numbers(events, name, missing=_NONE) for name in ("launch_id", "op_id"))
    of_work = launch if (launch >= 0).any() else op
    kinds = (schema.LAUNCH_KINDS, ("sync",), schema.DEVICE_KINDS)
    causes = (rows, launch[rows], of_work[rows])
    return np.select([is_kind(events, kind)[rows] for kind in kinds], causes, _NONE)


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Device work, with its step and the time at which it was queued.

    ``mark`` is that of its step, or -1. ``queued`` is its own start where the launch is not known.
    """

    row: Ints
    mark: Ints
    process: Ints
    stream: Ints
    start: Ints
    end: Ints
    queued: Ints
    is_launched: Mask

    @classmethod
    def of(cls, events: pa.Table, marks: Marks) -> DeviceWork:
        """The work of the devices."""
        is_timed = present(events, "start_ns", "dur_ns")
        row = np.flatnonzero(is_kind(events, schema.DEVICE_KINDS) & is_timed)
        cause, start = _causes(events, row), numbers(events, "start_ns")
        launched = (cause >= 0) & present(events, "start_ns")[cause] & (not marks.on_devices)
        queued = np.where(launched, start[cause], start[row])
        process = np.where(launched, words(events, "pid")[0][cause], _NONE)
        mark = marks.home[row]
        end = start[row] + numbers(events, "dur_ns")[row]
        stream = stream_codes(events)[row]
        return cls(row, mark, process, stream, start[row], end, queued, launched)


@dataclass(frozen=True, slots=True)
class _Waiters:
    """Waiters on streams or devices: the step of each, and since when it waits."""

    line: Ints
    mark: Ints
    since: Ints

    def next_step(self, marks: Marks, line: Ints, mark: Ints, until: Ints) -> Ints:
        """The first mark after another one that has a waiter on a line by then; -1 is none."""
        none = np.full(mark.size, _NONE, np.int64)
        if not self.line.size:
            return none
        order = np.lexsort((self.mark, self.line))
        of_line, of_mark = self.line[order], self.mark[order]
        firsts = np.flatnonzero(
            np.append(True, (of_line[1:] != of_line[:-1]) | (of_mark[1:] != of_mark[:-1]))
        )
        since = np.minimum.reduceat(self.since[order], firsts)
        of_line, of_mark = of_line[firsts], of_mark[firsts]
        bits = marks.row.size + 1
        place = np.searchsorted(of_line * bits + of_mark, line * bits + mark, side="right")
        there = place < firsts.size
        place = np.where(there, place, 0)
        there &= (of_line[place] == line) & (since[place] < until)
        there &= marks.process[of_mark[place]] == marks.process[mark]
        return np.where(there, of_mark[place], none)


@dataclass(frozen=True, slots=True)
class StepLengths:
    """How long steps took: ``values`` of columns, what each lacks, and which work each held."""

    marks: Marks
    work: DeviceWork
    held: Ints
    values: dict[str, _OptionalInts]
    lack: npt.NDArray[np.str_]

    @classmethod
    def of(cls, events: pa.Table, marks: Marks, is_cut: Mask) -> StepLengths:
        """Compute the times of steps; ``is_cut`` marks those that the end of the profile cut."""
        work = DeviceWork.of(events, marks)
        held = _held(events, marks, work)
        before = _before(marks, work)
        reached = _reached(marks, work, held, before)
        lacks_records = _lacks_records(events, marks)
        began = _began(marks, work, before, reached, lacks_records)
        lacks = [marks.end == _UNKNOWN, is_cut, lacks_records, began == _UNKNOWN]
        lack = np.select(lacks, LACKS, "")
        is_known = (marks.end != _UNKNOWN) & ~np.isin(lack, (OPEN, RECORDS))
        completed = np.where(is_known, reached, _UNKNOWN)
        times = _times(marks, work, held, began, completed)
        parts = _parts(events, marks, work, began, completed)
        return cls(marks, work, held, times | parts, lack)

    def table(
        self, name: str, events: pa.Table, own: Mapping[str, pa.Array]
    ) -> dict[str, pa.Array]:
        """Columns of a table, by start: some of its own, and those of all steps."""
        marks = self.marks
        pid, texts = words(events, "pid")
        codes = np.array([LACKS.index(of) if of else _NONE for of in self.lack.tolist()], np.int64)
        values = {
            "event_id": pa.array(marks.row),
            **own,
            "pid": encoded(pid[marks.row], texts),
            **{of: pa.array(ns, pa.int64(), mask=~has) for of, (ns, has) in self.values.items()},
            "lack": encoded(codes, LACKS),
        }
        order = np.lexsort((marks.row, np.where(marks.has_start, marks.start, _NEVER)))
        if (order[1:] < order[:-1]).any():
            values = {of: array.take(pa.array(order)) for of, array in values.items()}
        return {f"{name}.{of}": array for of, array in values.items()}

    def notes(self, names: Callable[[Ints], str]) -> Iterator[Note]:
        """Notes on steps that should not be compared; ``names`` of steps by their rows."""
        row, work = self.marks.row, self.work
        for word, check in _CHECKS.items():
            of = np.flatnonzero(self.lack == word)
            if of.size:
                yield check, of.size, names(row[of]), int(row[of[0]])
        beside = np.flatnonzero((work.mark >= 0) & (self.held != work.mark))
        if beside.size:
            spent = int((work.end - work.start)[beside].sum())
            yield "unawaited_work", beside.size, f"{spent / 1e6:.3f} ms", int(work.row[beside[0]])
        times = [self.values[name] for name in ("host_ns", "step_ns", "lag_ns")]
        is_known = np.logical_and.reduce([has for _, has in times])
        whole = np.flatnonzero((self.lack == "") & is_known)
        host, step, lag = (values[whole] for values, _ in times)
        if is_ahead(host, step, lag):
            longest = int(np.argmax(lag))
            detail = f"up to {lag[longest] / 1e6:.3f} ms"
            yield "host_ahead", int(np.count_nonzero(lag)), detail, int(row[whole[longest]])


def _held(events: pa.Table, marks: Marks, work: DeviceWork) -> Ints:
    """The step that each piece of work delays, as a mark, or -1.

    A piece that ended before any work of a later step began delays its own step. A piece that ran
    beside later steps, such as the copy of a checkpoint, delays the last step before the first one
    that waits for it. A step waits for it that put work behind it on its stream, or synchronised
    with it, before it ended.
    """
    mark = work.mark
    held = mark.copy()
    begins = np.full(marks.row.size, _NEVER, np.int64)
    owned = np.flatnonzero(mark >= 0)
    np.minimum.at(begins, mark[owned], work.start[owned])
    for steps in marks.by_process():
        later = np.append(begins[steps][1:], _NEVER)
        begins[steps] = np.minimum.accumulate(later[::-1])[::-1]
    # Usually a step's work ends before that of the next begins, and nothing has to be searched.
    beside = owned[work.end[owned] > begins[mark[owned]]]
    if not beside.size:
        return held
    of, until = mark[beside], work.end[beside]
    behind = _Waiters(work.stream[owned], mark[owned], work.queued[owned])
    nearest = np.full(beside.size, _NEVER, np.int64)
    for waiters, line in (
        (behind, work.stream[beside]),
        *_synchronisations(events, marks, work.row[beside]),
    ):
        step = waiters.next_step(marks, line, of, until)
        nearest = np.minimum(nearest, np.where(step >= 0, step, _NEVER))
    # Nobody waits for it in the trace: it holds back no step, and is told as `unawaited_work`.
    held[beside] = np.where(nearest == _NEVER, _NONE, nearest - 1)
    return held


def _synchronisations(
    events: pa.Table, marks: Marks, rows: Ints
) -> Iterator[tuple[_Waiters, Ints]]:
    """Recorded waits for a stream, and for a whole device, each with the lines of some rows."""
    syncs = np.flatnonzero(is_kind(events, ("sync",)) & present(events, "start_ns"))
    if not syncs.size:
        return
    call = numbers(events, "launch_id", missing=_NONE)[syncs]
    start = numbers(events, "start_ns")
    since = np.where((call >= 0) & present(events, "start_ns")[call], start[call], start[syncs])
    mark = marks.home[syncs]
    code, texts = words(events, "name")
    # A stream that waits for another waits for the work of that one alone; if it is not known, the
    # wait says nothing.
    of_stream = np.array(["wait" in text.lower() for text in texts] + [False])[code][syncs]
    device, stream, on = (
        numbers(events, name, missing=_NONE) for name in ("device", "stream", "wait_on_stream")
    )
    on_stream = np.where(on[syncs] >= 0, on[syncs], np.where(of_stream, _NONE, stream[syncs]))
    of_one, of_all = ((mark >= 0) & (on_stream >= 0), (mark >= 0) & (on_stream < 0) & ~of_stream)
    line = combined(
        np.concatenate([device[syncs], device[rows]]), np.concatenate([on_stream, stream[rows]])
    )
    yield _Waiters(line[: syncs.size][of_one], mark[of_one], since[of_one]), line[syncs.size :]
    yield _Waiters(device[syncs][of_all], mark[of_all], since[of_all]), device[rows]


def _before(marks: Marks, work: DeviceWork) -> Ints:
    """End of the work that was launched before the first step of each process.

    _UNKNOWN where there is no such work, and for all other steps. Work whose launch is not known
    counts if it began before all work of steps.
    """
    before = np.full(marks.row.size, _UNKNOWN, np.int64)
    for steps in marks.by_process():
        first = steps.start
        own = (work.mark >= first) & (work.mark < steps.stop)
        begin = work.start[own].min(initial=_NEVER)
        earlier = np.where(
            work.is_launched,
            (work.process == marks.process[first]) & (work.queued < marks.start[first]),
            (work.start < begin) & own.any(),
        )
        before[first] = work.end[earlier & (work.mark < 0)].max(initial=_UNKNOWN)
    return before


def _reached(marks: Marks, work: DeviceWork, held: Ints, before: Ints) -> Ints:
    """When each step, and all work before it, had ended, as far as that is known."""
    ends = np.maximum(marks.end, before)
    holding = np.flatnonzero(held >= 0)
    np.maximum.at(ends, held[holding], work.end[holding])
    for steps in marks.by_process():
        ends[steps] = np.maximum.accumulate(ends[steps])
    return ends


def _began(
    marks: Marks, work: DeviceWork, before: Ints, reached: Ints, lacks_records: Mask
) -> Ints:
    """When the interval of each step began; _UNKNOWN if it has no start.

    The start of a first step, and of one behind a step that lacks records, is also unknown if its
    first work waited for something that was not recorded.
    """
    # A host that runs ahead begins a step while devices do the one before: trace_04 had 7.5 ms per
    # step on the host where the devices take 22.8.
    since = np.where(marks.is_first, before, np.roll(reached, 1))
    began = np.where(marks.has_start, np.maximum(marks.start, since), _UNKNOWN)
    # A first step may have waited a little for what was launched before the profile began: it lacks
    # a start only if that is a large part of it.
    share = np.where(marks.is_first, _LEAST_SHARE, 0)
    is_behind = marks.is_first | np.roll(lacks_records, 1)
    for step in np.flatnonzero(is_behind & marks.has_start & (reached != _UNKNOWN)):
        waited_ns = _waited_ns(work, np.flatnonzero(work.mark == step))
        if waited_ns > max(share[step] * (reached[step] - began[step]), _LAUNCH_NS):
            began[step] = _UNKNOWN
    return began


def _waited_ns(work: DeviceWork, own: Ints) -> int:
    """How long the first piece of a step waited although no earlier one was there to wait for.

    Such a wait shows that the device was busy with work that is not in the trace.
    """
    own = own[work.is_launched[own]]
    if not own.size:
        return 0
    # By launch: only what was launched first cannot have waited for other work of the step.
    piece = own[np.argmin(work.queued[own])]
    start = work.start[piece]
    ends = work.end[work.start < start]
    return int(start - ends.max(initial=work.queued[piece]))


def _is_cut(events: pa.Table, marks: Marks) -> Mask:
    """Mask of steps that the end of the profile cut.

    torch opens the next step within ``step()``, so the last step of a profile is often a stub. It
    is cut if it lacks a slice that is directly inside each of the other steps. If there is only one
    other step, it must lack most of that one's slices and take less than half its time.
    """
    cut = np.zeros(marks.row.size, np.bool_)
    if marks.is_first.all():
        return cut
    mark_of = np.full(events.num_rows + 1, _NONE, np.int64)
    mark_of[marks.row] = np.arange(marks.row.size)
    inside = mark_of[numbers(events, "parent_id", missing=_NONE)]
    children = np.flatnonzero(inside >= 0)
    name, texts = words(events, "name")
    pairs, _ = distinct(inside[children] * (len(texts) + 1) + name[children] + 1)
    of_mark, inner = np.divmod(pairs, len(texts) + 1)
    process, start = words(events, "pid")[0], numbers(events, "start_ns")
    is_host = is_kind(events, ("host_op", "annotation")) & present(events, "start_ns")
    took = marks.end - marks.start
    for steps in marks.by_process():
        last = steps.stop - 1
        others = np.arange(steps.start, last)
        others = others[marks.end[others] != _UNKNOWN]
        if not others.size or marks.end[last] == _UNKNOWN:
            continue
        # The program went on after it, so the profile did not end in it.
        if (is_host & (process == marks.process[last]) & (start >= marks.end[last])).any():
            continue
        names, counts = np.unique(inner[np.isin(of_mark, others)], return_counts=True)
        usual = names[counts == others.size]
        missing = np.setdiff1d(usual, inner[of_mark == last]).size
        if others.size > 1:
            cut[last] = missing > 0
        else:
            # One step does not show what is usual, so more has to be missing.
            cut[last] = 2 * missing > usual.size and bool(2 * took[last] < took[others[0]])
    return cut


def _lacks_records(events: pa.Table, marks: Marks) -> Mask:
    """Mask of steps with calls whose work is not in the trace."""
    lost = marks.home[np.flatnonzero(present(events, "lost_start_ns"))]
    lacks = np.zeros(marks.row.size, np.bool_)
    lacks[lost[lost >= 0]] = True
    return lacks


def _times(
    marks: Marks, work: DeviceWork, held: Ints, began: Ints, completed: Ints
) -> dict[str, _OptionalInts]:
    """Columns of times of each step."""
    owned = np.flatnonzero(work.mark >= 0)
    mark = work.mark[owned]
    first, last = np.full(marks.row.size, _NEVER), np.full(marks.row.size, _UNKNOWN)
    np.minimum.at(first, mark, work.start[owned])
    np.maximum.at(last, mark, work.end[owned])
    unawaited = np.bincount(mark, held[owned] != mark, marks.row.size).astype(np.int64)
    has_end = (marks.end != _UNKNOWN) & (not marks.on_devices)
    has_work = last != _UNKNOWN
    is_complete = completed != _UNKNOWN
    uses_devices = np.full(marks.row.size, work.row.size > 0)
    return {
        "start_ns": (marks.start, marks.has_start),
        "host_ns": (marks.end - marks.start, has_end),
        "device_start_ns": (first, has_work),
        "device_window_ns": (last - first, has_work),
        "began_ns": (began, began != _UNKNOWN),
        "completed_ns": (completed, is_complete),
        "step_ns": (completed - began, is_complete & (began != _UNKNOWN)),
        "lag_ns": (completed - marks.end, is_complete & has_end & uses_devices),
        "unawaited": (unawaited, uses_devices),
    }


def _parts(
    events: pa.Table, marks: Marks, work: DeviceWork, began: Ints, completed: Ints
) -> dict[str, _OptionalInts]:
    """Device time in the interval of each step, in parts that add up to it."""
    if not work.row.size:
        nothing = np.zeros(marks.row.size, np.int64)
        return dict.fromkeys(_PARTS, (nothing, nothing > 0))
    is_known = (began != _UNKNOWN) & (completed != _UNKNOWN)
    since, until = np.where(is_known, began, 0), np.where(is_known, completed, 0)
    code, texts = words(events, "kernel_category")
    communicates = np.array([text in schema.COMMUNICATION for text in texts] + [False])
    copies = is_kind(events, ("memcpy",))[work.row]
    talks = communicates[code][work.row] & ~copies
    computes = ~copies & ~talks

    def time_of(chosen: Mask) -> Ints:
        if not chosen.any():
            return np.zeros(marks.row.size, np.int64)
        return covered(work.start[chosen], work.end[chosen], since, until)

    compute, communication, copy = time_of(computes), time_of(talks), time_of(copies)
    # Each is the union of a growing set; the differences between them add up to the whole.
    both = time_of(~copies) if talks.any() else compute
    busy = time_of(~copies | copies) if copies.any() else both
    # A step whose own calls lost work has no interval.
    lost_since, lost_until = lost_spans(events, marks.home < 0)
    unidle = busy
    if lost_since.size:
        starts, ends = np.append(work.start, lost_since), np.append(work.end, lost_until)
        unidle = covered(starts, ends, since, until)
    own = np.zeros(marks.row.size, np.int64)
    mine = np.flatnonzero(work.mark >= 0)
    mark = work.mark[mine]
    start = np.maximum(work.start[mine], since[mark])
    end = np.minimum(work.end[mine], until[mark])
    for steps in marks.by_process():
        inside = (mark >= steps.start) & (mark < steps.stop) & (start < end)
        own[steps] = covered(start[inside], end[inside], since[steps], until[steps])
    exposed, exposed_copy = both - compute, busy - both
    hidden, hidden_copy = communication - exposed, copy - exposed_copy
    values = (
        *(compute, exposed, exposed_copy, unidle - busy, until - since - unidle),
        *(hidden, hidden_copy, busy - own),
    )
    return {name: (of, is_known) for name, of in zip(_PARTS, values, strict=True)}


def is_ahead(host: Ints, step: Ints, lag: Ints) -> bool:
    """Whether the host runs ahead of the devices, by these columns of whole steps in order.

    The host is ahead if the devices lag by more than a twentieth of a step, or if the paces of the
    two differ by as much. A first step does not count for the pace: it includes work that was
    launched before it.
    """
    differs = np.abs(host[1:].sum() - step[1:].sum()) > _LEAST_SHARE * step[1:].sum()
    return bool(differs or (lag > _LEAST_SHARE * step).any())
