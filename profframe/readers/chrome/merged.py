"""A file that a tool of others made of the traces of several ranks: which rank each row is of.

Such a tool writes the events of all ranks into one file, and leaves ids of calls, ops and arrows as
they are, so that these mean nothing outside their rank. It marks the rank of a process in its id
(``[TP01-PP00] 500``, ``rank1_500``), in its name (``rank1 python``), or in each event
(``args.rank``), or it only adds an offset for each rank to the ids of processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers.build.row_tables import Rows, RowTable, codes, replaced, time_column
from profframe.readers.chrome import added_args
from profframe.readers.chrome.job import split
from profframe.readers.chrome.parts import MixedRanksError
from profframe.readers.chrome.process_labels import Labels, labels_of
from profframe.readers.chrome.slices import Slices
from profframe.readers.ranks import place_of, rank_at, rank_in

Ranks: TypeAlias = dict[str, int]
"""Rank of each process, by its id in the file."""
_Id: TypeAlias = tuple[str, str]

PROCESSES: Final = "processes"
"""Where a rank is from: what the file says of its processes."""
ASSUMED: Final = "assumed"
_IDS: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"\[(?P<label>[^][]+)\]\s*(?P<pid>.*)",
        r"(?P<label>rank[-_ ]?\d+)[-_ :/.]*(?P<pid>.*)",
        r"(?P<pid>.*?)[-_ :/.@(]*(?P<label>rank[-_ ]?\d+)\)?",
        r"(?P<pid>.*)[_@](?P<label>\d+)",
    )
)
"""Ids with a label of their rank; one form is that of all processes in a file."""
_NUMBER: Final = re.compile(r"(\d{1,9})\D*\Z")
_OFFSET: Final = re.compile(r"(\D*)_(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Merged:
    """The ranks of a file.

    Attributes
    ----------
    ranks
        Rank of each process; other processes are of all ranks.
    source
        Where these are from.
    pids
        Ids of processes before they were merged, where these are certain.
    offsets
        What was added to the numbers of threads, by rank.
    before
        The rows of a rank as they were, except for those ids.
    """

    ranks: Ranks
    source: str
    pids: Mapping[str, str]
    offsets: Mapping[int, int]
    before: Callable[[Rows], Rows] = dict

    @property
    def count(self) -> int:
        """Number of ranks."""
        return len({*self.ranks.values()})

    def parts(self, rows: Rows) -> dict[int, Rows]:
        """The rows of each rank."""
        places = {rank: place for place, rank in enumerate(sorted({*self.ranks.values()}))}
        traces = {pid: places[rank] for pid, rank in self.ranks.items()}
        parts: list[dict[RowTable, pa.Table]] = [{} for _ in places]
        turns = _Turns(rows[RowTable.EVENTS], traces)
        for table, part in rows.items():
            numbers = turns.complete(table, part, _numbers(part, traces))
            for own, of_table in zip(parts, split(part, numbers, len(places)), strict=True):
                own[table] = of_table
        return {rank: self._as_before(parts[place], rank) for rank, place in places.items()}

    def _as_before(self, rows: Rows, rank: int) -> Rows:
        pids = {**self.pids}
        tids = partial(_thread_before, offset=self.offsets[rank])
        return {
            table: _renamed(_renamed(part, "pid", lambda pid: pids.get(pid, pid)), "tid", tids)
            for table, part in self.before(rows).items()
        }


@dataclass(frozen=True, slots=True)
class _File:
    """What a file says of its processes."""

    slices: Slices
    labels: Labels
    pids: Sequence[str]
    """All of them."""

    def has_several(self, ranks: Ranks) -> bool:
        """Whether there are slices of several of the ranks."""
        return len({ranks[pid] for pid in self.slices.pids if pid in ranks}) > 1

    def others(self, pids: Collection[str]) -> list[str]:
        """Other processes with slices; those of the profiler itself are of all ranks."""
        own = [pid for pid in self.slices.pids if pid not in pids]
        return [pid for pid in own if pid.isdecimal() or pid in self.slices.linked]

    def with_devices(self, hosts: Ranks) -> Ranks:
        """Ranks of all processes with slices, from those of some of them.

        Raises
        ------
        MixedRanksError
            Neither the ids of the others nor their order tells.
        """
        others = self.others(hosts)
        if not others:
            return hosts
        for way in (_by_offset, _by_order):
            ranks = way(self.slices, hosts, others)
            if ranks is not None and self.slices.follow_their_calls(hosts | ranks):
                return hosts | ranks
        raise MixedRanksError(f"the rank of {_several(others)} is not certain")

    def named(self, ranks: Ranks, pids: Mapping[str, str] | None = None) -> Merged:
        """The ranks of a file that names them, and the ids that processes had."""
        return self.merged(self.with_devices(ranks), PROCESSES, pids)

    def merged(self, ranks: Ranks, source: str, pids: Mapping[str, str] | None = None) -> Merged:
        """The ranks of a file from those of its processes with slices."""
        ranks = _with_idle(ranks, self.pids)
        own = {rank: [p for p in ranks if ranks[p] == rank] for rank in ranks.values()}
        if pids is None:
            texts, of_texts = _of_texts(self.pids, sorted(own))
            ranks |= of_texts
            before = (self.labels.pids_before(of) for of in own.values())
            pids = {pid: was for of in (*before, texts) for pid, was in of.items()}
        offsets = {rank: self.labels.offset_of_threads(of) for rank, of in own.items()}
        return Merged(ranks, source, pids, offsets)


def merged(rows: Rows, *, is_separable: bool) -> Merged | None:
    """The ranks of a file; None if it is of one, or nothing tells.

    Parameters
    ----------
    rows
        All rows of the file.
    is_separable
        Whether its traces are separable without their ranks.

    Raises
    ------
    MixedRanksError
        It is of several, which cannot be told apart.
    """
    file = _File(Slices(rows[RowTable.EVENTS]), labels_of(rows[RowTable.THREADS]), _every(rows))
    ranks, pids = _by_id(file.pids)
    if file.has_several(ranks):
        return file.named(ranks, pids)
    ranks, raw = added_args.ranks(rows)
    if file.has_several(ranks):
        return replace(file.named(ranks, raw), before=added_args.removed)
    ranks = {pid: rank for pid in file.pids if (rank := _in_labels(file.labels, pid)) is not None}
    return file.named(ranks) if file.has_several(ranks) else _unnamed(file, is_separable)


def _every(rows: Rows) -> list[str]:
    """All processes."""
    columns = (part["pid"] for part in rows.values() if part.num_rows)
    texts = (text for column in columns for text in column.unique().to_pylist())
    return [text for text in dict.fromkeys(texts) if text is not None]


def _by_id(pids: Collection[str]) -> tuple[Ranks, dict[str, str]]:
    """Ranks in the ids of all processes, and these ids without them."""
    for pattern in _IDS:
        matches = {pid: pattern.fullmatch(pid) for pid in pids}
        if matches and all(matches.values()):
            parts: dict[str, _Id] = {p: (m["label"], m["pid"]) for p, m in matches.items() if m}
            labels = _of_labels(dict.fromkeys(label for label, _ in parts.values()))
            ranks = {pid: labels[label] for pid, (label, _) in parts.items()}
            return ranks, {p: was for p, (own, was) in parts.items() if p.strip("[]") != own}
    return {}, {}


def _of_labels(labels: Collection[str]) -> Ranks:
    """A rank for each label: what it says, else its place."""
    places = {label: place for label in labels if (place := place_of(label)) is not None}
    if len(places) == len(labels):
        return {label: rank_at(place, places.values()) for label, place in places.items()}
    numbers = {label: int(match[1]) for label in labels if (match := _NUMBER.search(label))}
    if len({*numbers.values()}) == len(labels):
        return numbers
    return {label: number for number, label in enumerate(labels)}


def _in_labels(labels: Labels, pid: str) -> int | None:
    """The rank in the name or a label of a process, if these name one."""
    ranks = {rank for text in labels.texts(pid) if (rank := rank_in(text)) is not None}
    return ranks.pop() if len(ranks) == 1 else None


def _of_texts(pids: Collection[str], in_order: Sequence[int]) -> tuple[dict[str, str], Ranks]:
    """Ids that are texts before they were merged, and their ranks.

    A merger cannot add an offset to a text: it writes that behind it.
    """
    matches = {pid: _OFFSET.fullmatch(pid) for pid in pids if not pid.isdecimal()}
    offsets = {pid: int(match[2]) for pid, match in matches.items() if match}
    distinct = sorted({*offsets.values()})
    if len(distinct) != len(in_order):
        return {}, {}
    ranks = {pid: in_order[distinct.index(offset)] for pid, offset in offsets.items()}
    return {pid: match[1] for pid, match in matches.items() if match}, ranks


def _with_idle(ranks: Ranks, every: Sequence[str]) -> Ranks:
    """Ranks also of processes that only have labels: those of the nearest ids."""
    numeric = {int(pid): pid for pid in ranks if pid.isdecimal()}
    idle = [pid for pid in every if pid.isdecimal() and pid not in ranks] if numeric else []
    near = (min((abs(own - int(pid)), own) for own in numeric) for pid in idle)
    return ranks | {pid: ranks[numeric[own]] for pid, (_, own) in zip(idle, near, strict=True)}


def _by_offset(slices: Slices, hosts: Ranks, others: Sequence[str]) -> Ranks | None:
    """Ranks of processes of devices, by the offset of their ids from the number of the device."""
    offsets = _offsets(slices, others)
    distinct, in_order = sorted({*offsets.values()}), sorted({*hosts.values()})
    if len(offsets) < len(others) or len(distinct) != len(in_order):
        return None
    return {pid: in_order[distinct.index(offset)] for pid, offset in offsets.items()}


def _offsets(slices: Slices, pids: Sequence[str]) -> dict[str, int]:
    """How much more the ids of processes of devices are than the numbers of these."""
    devices = {pid: slices.of_device(pid) for pid in pids if pid.isdecimal()}
    return {pid: int(pid) - device for pid, device in devices.items() if device is not None}


def _by_order(slices: Slices, hosts: Ranks, others: Sequence[str]) -> Ranks | None:
    """Ranks of processes that stand in the file among those of one rank."""
    if not others:
        return {}
    hosts = {pid: rank for pid, rank in hosts.items() if pid in slices.pids}
    extents = sorted((*_extent(slices, hosts, rank), rank) for rank in {*hosts.values()})
    ends = [-1, *(end for _, end, _ in extents)]
    begins = [*(begin for begin, _, _ in extents), slices.count]
    if any(end > begin for end, begin in zip(ends, begins, strict=True)):
        return None
    is_host_first = all(slices.extent(pid)[0] > begins[0] for pid in others)
    ranks: Ranks = {}
    for pid in others:
        first, last = slices.extent(pid)
        around = zip(extents, ends, begins[1:], strict=False)
        fitting = [rank for (*_, rank), end, begin in around if end < first <= last < begin]
        if not fitting:
            return None
        ranks[pid] = fitting[0 if is_host_first else -1]
    return ranks


def _extent(slices: Slices, hosts: Ranks, rank: int) -> tuple[int, int]:
    extents = [slices.extent(pid) for pid, own in hosts.items() if own == rank]
    return min(first for first, _ in extents), max(last for _, last in extents)


def _unnamed(file: _File, is_separable: bool) -> Merged | None:
    """The ranks of a file in which several processes make calls, as those of one rank never do.

    Raises
    ------
    MixedRanksError
        Calls of several have one number, and they cannot be told apart.
    """
    slices = file.slices
    hosts = [pid for pid in slices.pids if file.labels.is_host(pid)]
    callers = slices.callers(hosts) if len(hosts) > 1 else []
    if len(callers) < 2:
        return None
    ranks = _by_all_offsets(file, callers)
    if ranks is not None and slices.follow_their_calls(ranks):
        return file.merged(ranks, ASSUMED)
    shared = None if is_separable else slices.shared_correlation(callers)
    if shared is None:
        return None
    own = {pid: rank for rank, pid in enumerate(_in_turn(slices, callers))}
    devices = _by_order(slices, own, file.others(own))
    if devices is not None and slices.follow_their_calls(own | devices):
        return file.merged(own | devices, ASSUMED)
    raise MixedRanksError(f"{_several(callers)} both have a call with correlation {shared}")


def _in_turn(slices: Slices, pids: Collection[str]) -> list[str]:
    """Processes in their order in the file if they take turns there, else by their ids."""
    in_order = sorted(pids, key=slices.extent)
    extents = pairwise(map(slices.extent, in_order))
    return (
        in_order
        if all(one[1] < other[0] for one, other in extents)
        else sorted(pids, key=lambda pid: (len(pid), pid))
    )


def _by_all_offsets(file: _File, callers: Sequence[str]) -> Ranks | None:
    """Ranks of all processes by offsets of their ids, where these of devices and hosts agree."""
    others = file.others(callers)
    own = _offsets(file.slices, others)
    offsets = sorted({*own.values()})
    is_numeric = all(map(str.isdecimal, callers))
    if not is_numeric or len(own) < len(others) or len(offsets) != len(callers):
        return None
    stride = min(after - before for before, after in pairwise(offsets))
    for pid in callers:
        numbers = {*file.labels.own_numbers(pid)}
        own[pid] = int(pid) - (numbers.pop() if len(numbers) == 1 else int(pid) % stride)
    if {own[pid] for pid in callers} != {*offsets}:
        return None
    return {pid: offsets.index(offset) for pid, offset in own.items()}


def _several(pids: Sequence[str]) -> str:
    shown = " and ".join(pids[:2])
    return f"process{'es' if len(pids) > 1 else ''} {shown}"


def _numbers(rows: pa.Table, traces: Mapping[str, int]) -> Ints:
    """Place of the rank of each row; -1 for a process of all ranks."""
    if not rows.num_rows:
        return np.empty(0, np.int64)
    code, pids = codes(rows["pid"])
    return np.array([traces.get("" if pid is None else pid, -1) for pid in pids], np.int64)[code]


class _Turns:
    """The turns in which ranks come in a file: one after the other, or by their times."""

    def __init__(self, slices: pa.Table, traces: Mapping[str, int]) -> None:
        number = _numbers(slices, traces)
        rows = np.flatnonzero(number >= 0)
        number = number[rows]
        start = slices["start_ns"].fill_null(0).to_numpy()[rows]
        end = start + slices["dur_ns"].fill_null(0).to_numpy()[rows]
        self._begin, self._end = (
            [int(pick(times[number == rank])) for rank in range(number.max() + 1)]
            for pick, times in ((np.min, start), (np.max, end))
        )
        turns = number[np.flatnonzero(np.diff(number, prepend=-1))].tolist()
        self._of_file = turns if len(turns) == len({*turns}) else None

    def complete(self, table: RowTable, rows: pa.Table, numbers: Ints) -> Ints:
        """The numbers, with those of rows of no rank: each rank has as many of a process."""
        others = np.flatnonzero(numbers < 0)
        if not others.size:
            return numbers
        code, _ = codes(rows["pid"])
        for shared in np.unique(code[others]):
            own = np.flatnonzero(code == shared)
            turns = self._of_file or self._by_time(table, rows.take(pa.array(own)))
            numbers[own] = np.array(turns)[np.arange(own.size) * len(turns) // own.size]
        return numbers

    def _by_time(self, table: RowTable, rows: pa.Table) -> list[int]:
        """Ranks in the order in which they begin, or in which they end, for what comes later."""
        is_timed = table is not RowTable.THREADS and rows.num_rows > 0
        first = pc.min(rows[time_column(table)]).as_py() if is_timed else None
        is_late = first is not None and first >= max(self._begin)
        times = self._end if is_late else self._begin
        return sorted(range(len(times)), key=times.__getitem__)


def _renamed(rows: pa.Table, column: str, before: Callable[[str], str]) -> pa.Table:
    """Rows with other texts in an encoded column, or a plain one."""
    values = rows[column]
    if not pa.types.is_dictionary(values.type):
        texts = [None if text is None else before(text) for text in values.to_pylist()]
        return replaced(rows, column, pa.chunked_array([pa.array(texts, values.type)]))
    if not rows.num_rows:
        return rows
    code, texts = codes(values)
    names = pa.array([None if text is None else before(text) for text in texts], pa.string())
    encoded = names.take(pa.array(code)).dictionary_encode()
    return replaced(rows, column, pa.chunked_array([encoded]))


def _thread_before(tid: str, offset: int) -> str:
    if tid.isdecimal():
        return str(int(tid) - offset) if int(tid) >= offset else tid
    return tid.removesuffix(f"_{offset}")
