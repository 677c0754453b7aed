"""Changes to a job: other durations of what its ranks did.

A change is a function from durations to durations, so several can be applied in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from profframe.analysis.critical_path.edges import GRAPH, LAUNCH, ORDERED, SYNC, WAIT
from profframe.analysis.critical_path.graph import NONE
from profframe.analysis.simulation.job_network import CLASSES, JobNetwork
from profframe.analysis.simulation.rank import ALONE, HOLD, NOTHING, TRANSFER, Lengths, Rank
from profframe.intervals import Ints, Mask, last_until, stab

COMMUNICATION: Final = CLASSES.index("communication")
COPY: Final = CLASSES.index("copy")
_LONGEST: Final = 2.0**60
_ALIKE: Final = 0.9
"""Ranks do the same if they share at least this much of what they do."""


@dataclass(frozen=True, slots=True)
class Details:
    """Attributes of a rank's activities that changes select by.

    Attributes
    ----------
    classes : Ints
        The class of each work, from ``CLASSES``.
    work_name, slice_name : Ints
        Numbers of the names of works and slices, the same on all ranks.
    is_call, is_op : Mask
        Slices that are calls of the driver or its runtime, and those that are ops.
    is_load : Mask
        Slices in which a thread waits for its next batch of data.
    """

    classes: Ints
    work_name: Ints
    slice_name: Ints
    is_call: Mask
    is_op: Mask
    is_load: Mask


Change: TypeAlias = Callable[[Sequence[Lengths]], list[Lengths]]
"""A function that changes the durations of all ranks."""


def scaled(values: Ints, factor: float) -> Ints:
    """Nanoseconds times a factor, rounded."""
    return values if factor == 1 else rounded(values * factor)


def rounded(times: NDArray[np.floating]) -> Ints:
    """Whole nanoseconds; at most 36 years."""
    whole: Ints = np.rint(np.minimum(times, _LONGEST)).astype(np.int64)
    return whole


def _where(values: Ints, rows: Mask, factor: float) -> Ints:
    return np.where(rows, scaled(values, factor), values)


def host(job: JobNetwork, factor: float) -> Change:
    """Scale all host time."""

    def change(lengths: Sequence[Lengths]) -> list[Lengths]:
        return [
            replace(new, own=_where(new.own, ~own.unseen, factor))
            for own, new in zip(job.ranks, lengths, strict=True)
        ]

    return change


def communication(job: JobNetwork, details: Sequence[Details], factor: float) -> Change:
    """Scale transfers; for collectives without the other ranks, their whole time."""

    def change(lengths: Sequence[Lengths]) -> list[Lengths]:
        changed = []
        for own, its, new in zip(job.ranks, details, lengths, strict=True):
            transfers = np.isin(own.arrows.kind, (TRANSFER, ALONE))
            work = _where(new.work, its.classes == COMMUNICATION, factor)
            changed.append(replace(new, work=work, lag=_where(new.lag, transfers, factor)))
        return changed

    return change


def transfers(job: JobNetwork, sizes: Ints, latency_ns: float, bytes_per_ns: float) -> Change:
    """Transfers that take a latency and the time of their bytes.

    ``sizes`` are the bytes that pass the slowest link in each collective, -1 if not known.
    """

    def change(lengths: Sequence[Lengths]) -> list[Lengths]:
        changed = []
        for own, new in zip(job.ranks, lengths, strict=True):
            arrows, lag = own.arrows, new.lag.copy()
            rows = np.flatnonzero(arrows.kind == TRANSFER)
            # A transfer leaves the node of its collective; these are numbered from 1, after the
            # origin.
            size = sizes[arrows.source[rows] - 1]
            rows, size = rows[size >= 0], size[size >= 0]
            lag[rows] = rounded(latency_ns + size / bytes_per_ns)
            changed.append(replace(new, lag=lag))
        return changed

    return change


def works(
    job: JobNetwork, chosen: Sequence[Mask], factors: Sequence[NDArray[np.float64] | float]
) -> Change:
    """Scale chosen works of each rank; for collectives with others, the transfers.

    A call in which a host makes a copy changes with the copy.
    """

    def change(lengths: Sequence[Lengths]) -> list[Lengths]:
        changed = []
        for own, rows, factor, new in zip(job.ranks, chosen, factors, lengths, strict=True):
            times: NDArray[np.float64] = np.where(rows, factor, 1.0)
            arrows, member = _members(own)
            lag = new.lag.copy()
            lag[arrows] = rounded(lag[arrows] * times[member])
            work = rounded(new.work * times)
            copy, at, spent = _copying(own)
            more = np.bincount(at, spent * (times[copy] - 1), new.own.size).astype(np.float64)
            # A host makes copies of pageable memory itself, in the call: without this, they were
            # said to gain 1.0 ms where they take 322 of 676.
            own_time = np.maximum(new.own + rounded(more), 0)
            changed.append(replace(new, work=work, lag=lag, own=own_time))
        return changed

    return change


def _copying(own: Rank) -> tuple[Ints, Ints, Ints]:
    """Copies that a host makes in a call, the point at which it returns, and its time for each."""
    works, points = own.graph.works, own.graph.points
    copy = np.flatnonzero(works.by_host & (works.call >= 0))
    begun = np.maximum(works.end[copy] - works.whole[copy], works.call_start[copy])
    copy, begun = copy[begun < works.call_end[copy]], begun[begun < works.call_end[copy]]
    at = points.at(works.call_thread[copy], works.call_end[copy])
    return copy, at, np.minimum(works.call_end[copy] - begun, own.recorded.own[at])


def _members(own: Rank) -> tuple[Ints, Ints]:
    """Arrows to the ends of works of collectives with other ranks, and these works."""
    tails = np.flatnonzero(own.nodes.tail >= 0)
    arrows = np.flatnonzero(np.isin(own.arrows.kind, (TRANSFER, ALONE)))
    first = own.nodes.tail[tails[:1]].sum()
    place = own.arrows.target[arrows] - first
    of_work = (place >= 0) & (place < tails.size)
    return arrows[of_work], tails[place[of_work]]


def launches(job: JobNetwork, details: Sequence[Details]) -> Change:
    """Launching takes no time, as in a graph: its calls, the ops around them, and what is between.

    Between the calls run the interpreter and ops that launch nothing, such as views. Gaps that take
    longer than such gaps usually do, or that wait, have another reason, and stay.
    """
    return at_points(
        launch_points(own, launching(own, its), its)
        for own, its in zip(job.ranks, details, strict=True)
    )


def without(job: JobNetwork, slices: Sequence[Mask]) -> Change:
    """Self time of the chosen slices becomes 0."""
    inside = (np.append(NONE, own.graph.points.inside[:-1]) for own in job.ranks)
    return at_points(np.append(rows, False)[at] for rows, at in zip(slices, inside, strict=True))


def at_points(points: Iterable[Mask]) -> Change:
    """Host time before the chosen points of each rank becomes 0."""
    chosen = [*points]

    def change(lengths: Sequence[Lengths]) -> list[Lengths]:
        return [
            replace(new, own=np.where(rows, 0, new.own))
            for rows, new in zip(chosen, lengths, strict=True)
        ]

    return change


def launch_points(own: Rank, launches: Mask, details: Details) -> Mask:
    """Points before which a thread launched work, or continued to the next launch."""
    points = own.graph.points
    inside = np.append(NONE, points.inside[:-1])
    free: Mask = np.append(launches, False)[inside]
    calls = np.cumsum(np.append(details.is_call, False)[inside] & ~free)
    at = np.flatnonzero(free)
    before, after = at[:-1], at[1:]
    goes_on = (points.thread[before] == points.thread[after]) & (calls[before] == calls[after])
    between = np.zeros(free.size, np.int64)
    between[before[goes_on] + 1] += 1
    between[after[goes_on]] -= 1
    is_between = np.cumsum(between) > 0
    is_op = np.append(details.is_op, False)[inside]
    # Ops and the interpreter between them have different usual lengths.
    for rows in (np.flatnonzero(is_between & is_op), np.flatnonzero(is_between & ~is_op)):
        if rows.size:
            length = own.recorded.own[rows]
            low, high = np.quantile(length, (0.25, 0.75))
            # A graph removes what is between two launches, too: with it 21.6 ms were predicted, and
            # 22.3 recorded as a graph. A longer pause has another reason, and stays.
            free[rows[length <= high + 3 * (high - low)]] = True
    return free


def launching(own: Rank, details: Details) -> Mask:
    """Slices that launch work, and ops that contain one of them."""
    slices, works_of = own.graph.slices, own.graph.works
    launched = works_of.call >= 0
    calls = np.isin(slices.event, works_of.call[launched])
    thread, start = slices.thread[calls], slices.start[calls]
    call = last_until(thread, start, slices.thread, slices.end - 1)
    contains = np.append(start, NONE)[call] >= slices.start
    return (calls & details.is_call) | (details.is_op & contains)


def copies(job: JobNetwork, details: Sequence[Details]) -> Change:
    """Copies take no time: nothing waits for them."""
    chosen = [its.classes == COPY for its in details]
    return works(job, chosen, [0.0] * len(chosen))


def fused(job: JobNetwork, chosen: Sequence[Mask]) -> Change:
    """All work that each chosen slice launches becomes one, as long as the longest piece.

    ``chosen`` are these slices; their other launches take no time.
    """
    parts = [_fused(own, rows) for own, rows in zip(job.ranks, chosen, strict=True)]

    def change(lengths: Sequence[Lengths]) -> list[Lengths]:
        changed = []
        for own, (group, call_group), new in zip(job.ranks, parts, lengths, strict=True):
            work, own_time = new.work.copy(), new.own.copy()
            rows = np.flatnonzero(group >= 0)
            rows = rows[np.lexsort((rows, -work[rows], group[rows]))]
            # The longest stays; the others are in it.
            rest = rows[1:][group[rows[1:]] == group[rows[:-1]]]
            work[rest] = 0
            calls = np.flatnonzero(call_group >= 0)
            later = calls[1:][call_group[calls[1:]] == call_group[calls[:-1]]]
            is_later = np.zeros(call_group.size + 1, np.bool_)
            is_later[later] = True
            inside = np.append(NONE, own.graph.points.inside[:-1])
            own_time[is_later[inside]] = 0
            changed.append(replace(new, work=work, own=own_time))
        return changed

    return change


def launched(own: Rank, chosen: Mask) -> Mask:
    """Works that were launched in one of some slices."""
    is_launched: Mask = _fused(own, chosen)[0] >= 0
    return is_launched


def _fused(own: Rank, chosen: Mask) -> tuple[Ints, Ints]:
    """The slice that each work, and each slice that launches work, was launched in; else -1."""
    slices, works_of = own.graph.slices, own.graph.works
    rows = np.flatnonzero(chosen)
    within = np.append(rows, NONE)
    launched = works_of.call >= 0
    group = np.full(works_of.event.size, NONE, np.int64)
    columns = slices.thread[rows], slices.start[rows], slices.end[rows] - 1
    group[launched] = within[
        stab(*columns, works_of.call_thread[launched], works_of.call_start[launched])
    ]
    calls = np.flatnonzero(np.isin(slices.event, works_of.call[launched]))
    call_group = np.full(slices.event.size, NONE, np.int64)
    call_group[calls] = within[stab(*columns, slices.thread[calls], slices.start[calls])]
    return group, call_group


def nothing(lengths: Sequence[Lengths]) -> list[Lengths]:
    """The identity: no duration changes."""
    return [*lengths]


def stragglers(job: JobNetwork, details: Sequence[Details]) -> Change:
    """Each work, slice and gap between slices takes what it takes on the median rank.

    They are matched by name and by order: the n-th of a name on each rank. With two ranks, the
    median is the one that takes less for all of that name: the lesser of each pair would be less
    than either rank takes. If ranks do the same except for a tenth, what half of them lack takes no
    time; anything else that not all have stays as it is.
    """

    def change(lengths: Sequence[Lengths]) -> list[Lengths]:
        parts = [*zip(job.ranks, details, lengths, strict=True)]
        owns = _medians([_host_pieces(*part) for part in parts])
        changed = []
        for new, (slot, old, median) in zip(lengths, owns, strict=True):
            ratio = np.divide(median, old, out=np.ones(old.size), where=old > 0)
            times = np.append(ratio, 1.0)[slot]
            changed.append(replace(new, own=rounded(new.own * times)))
        medians = _medians([_work_pieces(*part) for part in parts])
        for place, (slot, _, median) in enumerate(medians):
            old = changed[place].work
            work = np.where(slot >= 0, np.append(median, 0)[slot], old)
            changed[place] = replace(changed[place], work=work)
        return changed

    return change


_Pieces: TypeAlias = tuple[Ints, Ints, Ints]
"""The piece that each row is a part of (-1: none), and the name and time of each piece."""


def _host_pieces(own: Rank, details: Details, lengths: Lengths) -> _Pieces:
    """Slices in the order of their starts, and the gaps before them."""
    points, slices = own.graph.points, own.graph.slices
    size = slices.event.size
    inside = np.append(NONE, points.inside[:-1])
    gap = (inside < 0) & (points.inside >= 0)
    slot = np.where(gap, points.inside + size, inside)
    slot[own.unseen] = NONE
    rows = slot >= 0
    time = np.bincount(slot[rows], weights=lengths.own[rows], minlength=2 * size)
    order = np.argsort(slices.start, kind="stable")
    name = np.concatenate([details.slice_name, ~details.slice_name])
    place = np.concatenate([order, order + size])
    back = np.empty(2 * size + 1, np.int64)
    back[place], back[-1] = np.arange(2 * size), NONE
    return back[slot], name[place], time.astype(np.int64)[place]


def _work_pieces(own: Rank, details: Details, lengths: Lengths) -> _Pieces:
    """Works except communication, in the order of their launches."""
    works_of = own.graph.works
    rows = np.flatnonzero(details.classes != COMMUNICATION)
    order = rows[np.lexsort((works_of.start[rows], works_of.call_start[rows]))]
    slot = np.full(works_of.event.size, NONE, np.int64)
    slot[order] = np.arange(order.size)
    return slot, details.work_name[order], lengths.work[order]


def _medians(ranks: Sequence[_Pieces]) -> list[_Pieces]:
    """For each rank its slots and times, and the median times of all ranks."""
    names = np.unique(np.concatenate([np.unique(name) for _, name, _ in ranks]))
    codes = [np.searchsorted(names, name) for _, name, _ in ranks]
    counts = np.array([np.bincount(code, minlength=names.size) for code in codes])
    shared = counts.min(axis=0)
    turn = np.arange(shared.sum()) - np.repeat(np.cumsum(shared) - shared, shared)
    places = [
        np.argsort(code, kind="stable")[np.repeat(np.cumsum(count) - count, shared) + turn]
        for code, count in zip(codes, counts, strict=True)
    ]
    rows = [time[place] for (_, _, time), place in zip(ranks, places, strict=True)]
    median = _median(rows, np.repeat(np.arange(names.size), shared))
    # What half of the ranks lack is extra work of the others, unless ranks do different things.
    usual = np.sort(counts, axis=0)[(len(ranks) - 1) // 2]
    is_alike = len(ranks) * shared.sum() >= _ALIKE * counts.sum()
    pieces = []
    for (slot, _, time), place, code, count in zip(ranks, places, codes, counts, strict=True):
        typical = time.copy()
        typical[place] = median
        if is_alike:
            order = np.argsort(code, kind="stable")
            turns = np.arange(order.size) - np.repeat(np.cumsum(count) - count, count)
            typical[order[turns >= np.repeat(usual, count)]] = 0
        pieces.append((slot, time, typical))
    return pieces


def _median(ranks: Sequence[Ints], code: Ints) -> Ints:
    """The median of all ranks; with two, the times of the one that is less for all of a code."""
    if len(ranks) != 2:
        median: Ints = np.rint(np.median(np.array(ranks), axis=0)).astype(np.int64)
        return median
    first, second = ranks
    less = np.bincount(code, weights=first) <= np.bincount(code, weights=second)
    return np.where(less[code], first, second)


def whole(job: JobNetwork, lengths: Sequence[Lengths]) -> list[Lengths]:
    """Work that overlapped the one before it takes its whole duration once that one is shorter."""
    changed = []
    for own, new in zip(job.ranks, lengths, strict=True):
        before, recorded = own.streams.before, own.recorded.work
        # A kernel may begin under the one before it (programmatic launch). Without that one it
        # takes between the part after its end and its whole time.
        hidden = own.graph.works.whole - recorded
        left = np.divide(new.work, recorded, out=np.ones(recorded.size), where=recorded > 0)
        gone = np.where(before >= 0, 1 - np.minimum(np.append(left, 1.0)[before], 1), 0.0)
        more = np.asarray(hidden * gone * left, np.float64)
        changed.append(replace(new, work=new.work + rounded(more)))
    return changed


def shortens_works_only(job: JobNetwork, lengths: Sequence[Lengths]) -> bool:
    """Whether no work takes longer than recorded, and all else what was recorded.

    Calls in which a host makes copies may take less.
    """
    return all(
        bool((new.work <= own.recorded.work).all())
        and bool((new.own <= own.recorded.own).all())
        and np.isin(np.flatnonzero(new.own != own.recorded.own), _copying(own)[1]).all()
        and np.array_equal(new.gap, own.recorded.gap)
        and bool((new.lag <= own.recorded.lag).all())
        for own, new in zip(job.ranks, lengths, strict=True)
    )


def held(job: JobNetwork, lengths: Sequence[Lengths]) -> list[Lengths]:
    """Work that came unusually late starts at its recorded time, whatever comes before it."""
    changed = []
    for own, new in zip(job.ranks, lengths, strict=True):
        arrows = own.arrows
        late = arrows.binds & (arrows.slack > arrows.most) & (arrows.kind < SYNC)
        # The delay is held by time (HOLD) instead, so it must not count a second time after its
        # cause.
        lag = np.where(late, arrows.usual, new.lag)
        lag = np.where(arrows.kind == HOLD, arrows.slack, lag)
        changed.append(replace(new, lag=lag, gap=np.minimum(new.gap, own.usual_gap)))
    return changed


def without_guesses(job: JobNetwork, lengths: Sequence[Lengths]) -> list[Lengths]:
    """Drop dependencies that are only suggested by order; work keeps its distance to its launch."""
    changed = []
    for own, new in zip(job.ranks, lengths, strict=True):
        arrows = own.arrows
        guesses = (arrows.certainty == ORDERED) & np.isin(arrows.kind, (WAIT, GRAPH))
        late = guesses & arrows.binds
        launches_of = np.isin(
            arrows.target * 2**32 + arrows.into, (arrows.target * 2**32 + arrows.into)[late]
        )
        lag = np.where((arrows.kind == LAUNCH) & launches_of, arrows.slack, new.lag)
        changed.append(replace(new, lag=np.where(guesses, NOTHING, lag)))
    return changed
