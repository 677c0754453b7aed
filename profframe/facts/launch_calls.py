"""The call that launched each device slice, by their correlation, or else by their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import is_kind, last_equal, numbers, present, stream_codes, words
from profframe.facts.fact import Note, note
from profframe.facts.graph_captures.recorded_captures import (
    COPY,
    FILL,
    KERNEL,
    REPLAY,
    is_call,
    without_work,
)
from profframe.intervals import Ints, Mask, last_until

_ON_DEVICE = schema.ON_DEVICE_KINDS
_CLOCK_ERROR_NS: Final = 1_000_000
"""By how much the clocks of a host and its device may differ in a sound trace."""
_BY_KIND: Final = {"kernel": KERNEL, "memcpy": COPY, "memset": FILL}
_NONE: Final = -1


def device_calls(events: pa.Table) -> tuple[Ints, Ints, Iterable[Note]]:
    """Rows of device slices, the launching call of each event (or -1), and notes.

    The call is the last one with the slice's correlation that began before it, and so the innermost
    of nested ones. Correlations are unique in a process, so a slice whose process made calls
    matches only those. If slices name such processes, a slice of another process has no launch in
    the trace. (Some profilers give the index of the device as process; this is ignored.) If none
    names one, calls of all processes match, and where several do, it is noted.
    """
    device = np.flatnonzero(is_kind(events, _ON_DEVICE))
    launch = np.full(events.num_rows, _NONE, np.int64)
    if not device.size:
        return device, launch, ()
    calls, searched = _CallKeys.of(events, device)
    is_shared = np.isin(searched, calls.shared)
    launch[device] = calls.of_slices(events, device, searched)
    busy = is_kind(events, schema.DEVICE_KINDS)[device]
    ambiguous = note("ambiguous_launch", device[busy & is_shared])
    return device, launch, (*ambiguous, *_in_order(events, launch))


@dataclass(frozen=True, slots=True)
class _CallKeys:
    """Calls by start, their keys, and ambiguous keys: of several calls that are not nested."""

    row: Ints
    key: Ints
    shared: Ints

    @classmethod
    def of(cls, events: pa.Table, device: Ints) -> tuple[_CallKeys, Ints]:
        """The calls, and the key that each device slice looks for, which may be no call's."""
        correlation = numbers(events, "correlation")
        process, _ = words(events, "pid")
        makes_calls = is_kind(events, schema.LAUNCH_KINDS)
        calls = np.flatnonzero(makes_calls & (correlation != 0))
        preorder, start = (numbers(events, name)[calls] for name in ("preorder", "start_ns"))
        # Nsight nests cudaLaunchKernel_v7000 in cudaLaunchKernel, both with the correlation and
        # often with the same times: in preorder the inner one comes last, so it is the launch.
        calls = calls[np.lexsort((preorder, start))]
        names_process = (process[device] >= 0) & ~_on_device_line(events)[device]
        is_caller = names_process & np.isin(process[device], process[makes_calls])
        # Where no device slice names a process that makes calls, keys need not be built.
        if not is_caller.any():
            return cls._at(events, calls, correlation[calls]), correlation[device]
        # A call is for slices of its own process, and for those that name none.
        # Correlations are unique in a process only: ranks merged into one file repeat them.
        distinct = np.unique(correlation)
        key = np.searchsorted(distinct, correlation)
        own = (process + 1) * distinct.size + key
        is_foreign = names_process & present(events, "device")[device]
        has_none = (correlation[device] == 0) | (is_foreign & ~is_caller)
        wanted = np.where(is_caller, own[device], key[device])
        wanted = np.where(has_none, _NONE, wanted)
        both = np.concatenate([key[calls], own[calls]])
        return cls._at(events, np.concatenate([calls, calls]), both), wanted

    @classmethod
    def _at(cls, events: pa.Table, calls: Ints, key: Ints) -> _CallKeys:
        place = np.arange(key.size)
        is_shadowed = last_equal(key, place, key) != place
        if not is_shadowed.any():
            return cls(calls, key, key[:0])
        of_several = np.isin(key, key[is_shadowed])
        thread, start = (
            numbers(events, name)[calls[of_several]] for name in ("thread", "start_ns")
        )
        end = start + numbers(events, "dur_ns")[calls[of_several]]
        order = np.lexsort((-end, start, key[of_several]))
        several, thread, end = key[of_several][order], thread[order], end[order]
        apart = (end[1:] > end[:-1]) | (thread[1:] != thread[:-1])
        apart &= several[1:] == several[:-1]
        return cls(calls, key, np.unique(several[1:][apart]))

    def of_slices(self, events: pa.Table, device: Ints, searched: Ints) -> Ints:
        """The call of each device slice; -1 is none.

        A call that began after the slice counts only if there is no other candidate, and if the
        clocks of host and device explain it: they differ by less than a millisecond, or most pairs
        are like this one.
        """
        start, timed = numbers(events, "start_ns"), present(events, "start_ns")
        launch = last_equal(self.key, self.row, searched)

        def late_by(at: Ints) -> Ints:
            both = (launch[at] >= 0) & timed[launch[at]] & timed[device[at]]
            return np.where(both, start[launch[at]] - start[device[at]], 0)

        # In a sound trace nothing is late: all that follows is for reused correlations and skewed
        # clocks.
        late = np.flatnonzero(late_by(np.arange(device.size)) > 0)
        if not late.size:
            return launch
        begun = timed[self.row]
        rows = self.row[begun]
        place = last_until(self.key[begun], start[rows], searched[late], start[device[late]])
        is_decided = (place >= 0) | np.isin(searched[late], self.shared)
        launch[late] = np.where(is_decided, np.append(rows, _NONE)[place], launch[late])
        late = late[late_by(late) > 0]
        # If most work begins before its call, the clocks are apart by an offset, and the pairs are
        # right.
        if 2 * late.size <= np.count_nonzero(launch >= 0):
            launch[late[late_by(late) > _CLOCK_ERROR_NS]] = _NONE
        return launch


def _in_order(events: pa.Table, launch: Ints) -> Iterator[Note]:
    """Match work without a correlation in order, where only one matching is possible.

    A matching is the only one if all such work of a kind is on one stream, and if equally many
    calls for that kind lack work, the n-th of them before the n-th work.
    """
    correlation = numbers(events, "correlation")
    busy = is_kind(events, schema.DEVICE_KINDS)
    unlinked = busy & (launch < 0) & (correlation == 0)
    if not unlinked.any() or not is_call(events, *_BY_KIND.values(), REPLAY).any():
        return
    start = numbers(events, "start_ns")
    stream = stream_codes(events)
    matched = np.zeros(events.num_rows, np.bool_)
    for kind, pattern in _BY_KIND.items():
        rows = np.flatnonzero(unlinked & is_kind(events, (kind,)) & present(events, "start_ns"))
        rows = rows[np.argsort(start[rows], kind="stable")]
        patterns = (pattern, REPLAY) if kind == "kernel" else (pattern,)
        calls = without_work(events, launch, *patterns)
        # Work of two streams may start in another order than it was launched in.
        if not rows.size or calls.size != rows.size or (stream[rows] != stream[rows[0]]).any():
            continue
        # A graph launch runs any number of kernels, so equal counts would prove nothing.
        if (start[calls] <= start[rows]).all() and not is_call(events, REPLAY)[calls].any():
            launch[rows], matched[rows] = calls, True
    yield from note("launch_by_order", np.flatnonzero(matched))


def _on_device_line(events: pa.Table) -> Mask:
    """Slices whose process id is the index of their device."""
    codes, texts = words(events, "pid")
    # MTIA writes the index of the device as the process: taken for a process, no kernel had a
    # launch.
    index = [int(text) if text.isdecimal() and len(text) < 10 else -2 for text in texts]
    line: Mask = np.array([*index, -2])[codes] == numbers(events, "device", missing=-1)
    return line
