"""Checks of a trace's consistency: the rules of torch's validator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import is_kind, last_equal, numbers, present, stream_codes, words
from profframe.facts.fact import Note, Output, Tables, columns, fact
from profframe.facts.kinds import COLLECTIVE_RECORD
from profframe.facts.scopes import evaluations
from profframe.intervals import Ints, Mask

_LAUNCHES: Final = "LaunchKernel"
_RECORDS: Final = ("cudaEventRecord", "hipEventRecord")
_STREAM_SYNC: Final = "Stream Sync"
_STREAM_WAIT: Final = "Stream Wait Event"
_EVENT_SYNC: Final = "Event Sync"
_METADATA: Final = ("collective", "element_type", "in_elements", "out_elements", "group_size")


@fact(
    inputs=columns(
        events="kind name start_ns dur_ns device stream correlation external_id sequence_nr "
        "launch_id sync_kind wait_on_correlation " + " ".join(_METADATA)
    ),
    outputs=columns(),
)
def consistency(tables: Tables) -> Output:
    """Count violations of the rules of torch's own trace validator.

    Some of torch's rules check less than they are meant to; these checks cover more: a kernel is
    compared with its own launch, whatever its name, or, without one, with the first launch of its
    external_id.
    """
    events = tables["events"]
    return Output(
        notes=(
            *_early_kernels(events),
            *_kernels_during_syncs(events),
            *_unknown_waits(events),
            *_bare_collectives(events),
            *_repeated_numbers(events),
        )
    )


def _early_kernels(events: pa.Table) -> Iterator[Note]:
    """Kernels that start before their launch."""
    start, external = numbers(events, "start_ns"), numbers(events, "external_id")
    timed = present(events, "start_ns")
    kernels = np.flatnonzero(is_kind(events, ("kernel",)) & timed)
    launch = numbers(events, "launch_id", missing=-1)[kernels]
    by_id = np.flatnonzero(
        is_kind(events, schema.LAUNCH_KINDS) & _named(events, _LAUNCHES) & timed & (external != 0)
    )
    by_id = by_id[np.argsort(-start[by_id], kind="stable")]
    first = last_equal(external[by_id], by_id, external[kernels])
    launch = np.where(launch < 0, np.where(external[kernels] != 0, first, -1), launch)
    early = kernels[(launch >= 0) & timed[launch] & (start[kernels] < start[launch])]
    if early.size:
        distinct = np.unique(external[early]).size
        detail = f"with {distinct} external_id{'s' * (distinct > 1)}"
        yield "kernel_before_launch", early.size, detail, int(early[0])


def _kernels_during_syncs(events: pa.Table) -> Iterator[Note]:
    """Kernels that run on a stream when a synchronisation with it starts, as pairs of both."""
    timed = present(events, "start_ns")
    syncs = np.flatnonzero(_is_sync(events, _STREAM_SYNC) & timed)
    kernels = np.flatnonzero(is_kind(events, ("kernel",)) & timed)
    if not syncs.size or not kernels.size:
        return
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    chosen = np.concatenate([syncs, kernels])
    line = stream_codes(events)[chosen]
    sync_line, kernel_line = line[: syncs.size], line[syncs.size :]
    moments = np.unique(np.concatenate([start[chosen], (start + dur)[kernels]]))

    def place(rows: Ints, at: Ints) -> Ints:
        return rows * moments.size + np.searchsorted(moments, at)

    # Of a line: those that started before a moment, without those that had ended by then.
    began = np.sort(place(kernel_line, start[kernels]))
    ended = np.sort(place(kernel_line, (start + dur)[kernels]))
    at = place(sync_line, start[syncs])
    running = np.searchsorted(began, at, side="left") - np.searchsorted(ended, at, side="right")
    # A kernel of zero length that starts at the moment has ended, and did not start before.
    empty = kernels[dur[kernels] == 0]
    if empty.size:
        at_once = np.sort(place(kernel_line[dur[kernels] == 0], start[empty]))
        running += np.searchsorted(at_once, at, side="right") - np.searchsorted(
            at_once, at, side="left"
        )
    odd = np.flatnonzero(running > 0)
    if odd.size:
        first = syncs[odd[0]]
        detail = f"in {odd.size} synchronisations, the first is event {first}"
        yield "kernel_during_sync", int(running[odd].sum()), detail, int(first)


def _unknown_waits(events: pa.Table) -> Iterator[Note]:
    """Waits for an event that no call recorded, or that was recorded later."""
    waits = _is_sync(events, _STREAM_WAIT)
    rows = np.flatnonzero(waits | _is_sync(events, _EVENT_SYNC))
    if not rows.size:
        return
    start, timed = numbers(events, "start_ns"), present(events, "start_ns")
    record = numbers(events, "wait_on_correlation", missing=-1)[rows]
    calls = np.flatnonzero(
        is_kind(events, schema.LAUNCH_KINDS) & _named(events, *_RECORDS, beginning=True) & timed
    )
    keys = np.concatenate(
        [numbers(events, name, missing=-1)[calls] for name in ("external_id", "correlation")]
    )
    calls = np.concatenate([calls, calls])
    order = np.argsort(-start[calls], kind="stable")
    first = last_equal(keys[order], calls[order], record)
    is_wait = waits[rows]
    missing = record < 0
    absent = is_wait & ~missing & (first < 0)
    late = is_wait & ~missing & (first >= 0) & timed[rows] & (start[first] > start[rows])
    odd = rows[missing | absent | late]
    if odd.size:
        detail = (
            f"{missing.sum()} name no event, of {absent.sum()} no record is in the trace, "
            f"{late.sum()} are before the record"
        )
        yield "wait_for_unknown_event", odd.size, detail, int(odd[0])


def _bare_collectives(events: pa.Table) -> Iterator[Note]:
    """Records of collectives that lack some of their description."""
    records = is_kind(events, ("host_op",)) & _named(events, COLLECTIVE_RECORD, whole=True)
    bare = np.flatnonzero(records & ~present(events, *_METADATA))
    if bare.size:
        lacks = [name for name in _METADATA if not present(events, name)[bare].all()]
        yield "collective_without_metadata", bare.size, ", ".join(lacks), int(bare[0])


def _repeated_numbers(events: pa.Table) -> Iterator[Note]:
    """Sequence numbers of evaluations of more than one function."""
    rows = np.flatnonzero(evaluations(events) & present(events, "sequence_nr"))
    if not rows.size:
        return
    names, texts = words(events, "name")
    sequence = numbers(events, "sequence_nr")[rows]
    distinct, number = np.unique(sequence, return_inverse=True)
    pairs = np.unique(number * len(texts) + names[rows])
    functions = np.bincount(pairs // len(texts), minlength=distinct.size)
    repeated = functions > 1
    if repeated.any():
        odd = rows[repeated[number]]
        detail = f"first {distinct[number[repeated[number]][0]]}"
        yield "repeated_sequence_number", int(repeated.sum()), detail, int(odd[0])


def _is_sync(events: pa.Table, text: str) -> Mask:
    codes, texts = words(events, "sync_kind")
    return np.array([*(word == text for word in texts), False], np.bool_)[codes]


def _named(events: pa.Table, *parts: str, beginning: bool = False, whole: bool = False) -> Mask:
    """Rows whose name contains one of the parts, begins with one, or is one."""
    codes, texts = words(events, "name")
    if whole:
        matches = [text in parts for text in texts]
    elif beginning:
        matches = [text.startswith(parts) for text in texts]
    else:
        matches = [any(part in text for part in parts) for text in texts]
    return np.array([*matches, False], np.bool_)[codes]
