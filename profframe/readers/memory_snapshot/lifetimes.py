"""When each allocation was made and freed, from the records of its address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.memory_snapshot.recording import (
    ALLOC,
    ANNOTATE,
    FREE_COMPLETED,
    FREE_REQUESTED,
    Recording,
    indices_of,
    types_of,
)

Ints = npt.NDArray[np.int64]

_LAST: Final = (1 << 63) - 1
_NAMES: Final = {ALLOC: "alloc", FREE_REQUESTED: "free_requested", FREE_COMPLETED: "free"}


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The rows of `allocations`, and the allocation of each record; -1 for none."""

    columns: Iterator[tuple[str, pa.Array]]
    allocation_of_event: npt.NDArray[np.int32]


def lifetimes(recording: Recording, at_end: pa.Table, device_type: str) -> Lifetimes:
    """Pair the records of each address.

    An allocation begins at its record; before the first record of its address, if that frees it; or
    before all records, if it is in a block at the end that no record made.

    Parameters
    ----------
    recording
        All records.
    at_end
        Blocks that are allocated at the end, with numbers of their devices.
    device_type
        Type of the devices.
    """
    events, begins = _by_address(recording)
    kind = recording.kind[events]
    number = np.cumsum(begins, dtype=np.int32) - 1
    count = int(begins.sum())
    first = events[begins]
    ids = {code: np.full(count, -1, np.int64) for code in _NAMES}
    for code, of_code in ids.items():
        rows = np.flatnonzero(kind == code)[::-1]  # the first one counts
        of_code[number[rows]] = events[rows]
    is_alive = ids[FREE_COMPLETED] < 0
    lives = first[is_alive]
    is_made = _among(at_end, recording.device[lives], recording.address[lives])
    rest = at_end.filter(pa.array(~is_made))

    # By device, and in the order in which they were made; those without a record last.
    made = np.where(ids[ALLOC] < 0, _LAST, ids[ALLOC])
    made = np.append(made, np.full(rest.num_rows, _LAST))
    devices = np.append(recording.device[first], rest["device"].to_numpy().astype(np.int16))
    rank = np.lexsort((made, devices))
    place = np.empty(len(rank), np.int32)
    place[rank] = np.arange(len(rank), dtype=np.int32)
    of_event = np.full(recording.count, -1, np.int32)
    of_event[events] = place[:count][number]
    notes, about = _annotated(recording, events, number, kind, rest)
    of_event[notes] = np.append(place, -1)[about]
    pool = _pools(recording, first, is_alive, at_end)
    note = np.full(len(rank), -1, np.int64)
    has_place = of_event[notes] >= 0
    note[of_event[notes[has_place]]] = notes[has_place]  # the last one stays
    own = {
        "device_type": types_of(devices[rank], device_type),
        "device": indices_of(devices[rank]),
        "annotation": recording.of("metadata", note),
    }
    return Lifetimes(_columns(recording, first, ids, rest, rank, pool, own), of_event)


def _by_address(recording: Recording) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Records that make or free memory, by device and address, and where an allocation begins."""
    parts, starts = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    is_pair = (recording.kind > 0) & (recording.kind != ANNOTATE)
    for device in np.unique(recording.device[recording.device >= 0]).tolist():
        events = np.flatnonzero(is_pair & (recording.device == device))
        events = events[np.argsort(recording.address[events], kind="stable")]
        address, kind = recording.address[events], recording.kind[events]
        begins = kind == ALLOC
        begins[:1] = True
        # Free memory is not freed again: such a record belongs to another allocation.
        begins[1:] |= (address[1:] != address[:-1]) | (kind[:-1] == FREE_COMPLETED)
        parts.append(events)
        starts.append(begins)
    return np.concatenate(parts), np.concatenate(starts)


def _columns(  # noqa: PLR0917
    recording: Recording,
    first: Ints,
    ids: dict[int, Ints],
    rest: pa.Table,
    rank: Ints,
    pool: pa.Array,
    own: Mapping[str, pa.Array],
) -> Iterator[tuple[str, pa.Array]]:
    """The columns one by one, so that only one is in memory at a time."""

    def joined(values: pa.Array, others: pa.ChunkedArray | None = None) -> pa.Array:
        more = [pa.nulls(rest.num_rows, values.type)] if others is None else others.chunks
        return pa.concat_arrays([values, *more]).take(pa.array(rank))

    yield "allocation_id", pa.array(np.arange(len(rank)))
    yield from own.items()
    yield "address", joined(pa.array(recording.address[first]), rest["address"])
    sizes = pc.coalesce(rest["requested_bytes"], rest["bytes"])
    yield "bytes", joined(recording.of("bytes", first), sizes)
    yield "stream", joined(recording.of("stream", first))
    yield "stack_id", joined(recording.of("stack_id", ids[ALLOC]), rest["stack_id"])
    yield "pool", joined(pool, rest["pool"])
    yield "metadata", joined(recording.of("metadata", ids[ALLOC]), rest["metadata"])
    yield "compile_context", joined(recording.of("compile_context", ids[ALLOC]))
    for code, name in _NAMES.items():
        yield f"{name}_ns", joined(recording.of("time_ns", ids[code]))
        yield f"{name}_event_id", joined(pa.array(ids[code], mask=ids[code] < 0))


def _among(blocks: pa.Table, device: npt.NDArray[np.int16], address: Ints) -> npt.NDArray[np.bool_]:
    """Mask of blocks that are one of these allocations."""
    addresses, devices = blocks["address"].to_numpy(), blocks["device"].to_numpy()
    is_made = np.zeros(len(addresses), np.bool_)
    for one in np.unique(devices):
        of_device = devices == one
        is_made[of_device] = np.isin(addresses[of_device], address[device == one])
    return is_made


def _pools(
    recording: Recording, first: Ints, is_alive: npt.NDArray[np.bool_], at_end: pa.Table
) -> pa.DictionaryArray:
    """Pool of each allocation with records: theirs, else that of its segment at the end."""
    own, of_blocks = recording.of("pool", first), at_end["pool"].combine_chunks()
    if not own.null_count or not at_end.num_rows:
        return own
    block = np.full(len(first), -1, np.int64)
    addresses, devices = at_end["address"].to_numpy(), at_end["device"].to_numpy()
    for device in np.unique(devices).tolist():
        rows = np.flatnonzero(devices == device)
        rows = rows[np.argsort(addresses[rows], kind="stable")]
        lives = np.flatnonzero(is_alive & (recording.device[first] == device))
        wanted = recording.address[first[lives]]
        place = np.minimum(np.searchsorted(addresses[rows], wanted), len(rows) - 1)
        is_here = addresses[rows][place] == wanted
        block[lives[is_here]] = rows[place[is_here]]
    return _either(own, of_blocks.take(pa.array(block, mask=block < 0)))


def _either(first: pa.DictionaryArray, second: pa.DictionaryArray) -> pa.DictionaryArray:
    """The first text of each row that there is."""
    texts: dict[str, int] = {}
    codes = np.full(len(first), -1, np.int64)
    for one in (second, first):
        distinct = one.dictionary.to_pylist()
        numbers = np.array([*(texts.setdefault(text, len(texts)) for text in distinct), -1])
        code = numbers[one.indices.fill_null(len(distinct)).to_numpy()]
        codes = np.where(code < 0, codes, code)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0), pa.array([*texts], pa.string())
    )


def _annotated(
    recording: Recording,
    events: Ints,
    number: npt.NDArray[np.int32],
    kind: npt.NDArray[np.int8],
    rest: pa.Table,
) -> tuple[Ints, Ints]:
    """Records of annotations, and the allocation that each is about; -1 for none.

    It is the one that lives then: that of the record before of the same address, unless that freed
    it; else that of the one after, unless that makes one; without one, a block at the end that no
    record made, whose numbers follow those of the others.
    """
    notes = np.flatnonzero((recording.kind == ANNOTATE) & (recording.device >= 0))
    about = np.full(len(notes), -1, np.int64)
    for device in np.unique(recording.device[notes]).tolist():
        own = np.flatnonzero(recording.device[notes] == device)
        at, address = notes[own], recording.address[notes[own]]
        rows = np.flatnonzero(recording.device[events] == device)
        group = np.append(number[rows], -1).astype(np.int64)
        of_row, when = recording.address[events[rows]], events[rows]
        pairs = _Pairs(of_row, when, np.append(kind[rows], -1))
        before, after = pairs.around(address, at)
        lives = (before >= 0) & (pairs.kind[before] != FREE_COMPLETED)
        lived = ~lives & (after >= 0) & (pairs.kind[after] != ALLOC)
        about[own] = np.where(lives, group[before], np.where(lived, group[after], -1))
        places = np.flatnonzero(rest["device"].to_numpy() == device)
        if len(places):
            blocks = rest["address"].to_numpy()[places]
            order = np.argsort(blocks, kind="stable")
            place = np.minimum(np.searchsorted(blocks[order], address), len(places) - 1)
            is_block = (blocks[order][place] == address) & (after < 0) & ~lives
            count = int(number[-1]) + 1 if len(number) else 0
            about[own[is_block]] = count + places[order][place[is_block]]
    return notes, about


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Records of one device that make or free memory, by address and number."""

    address: Ints
    when: Ints
    kind: npt.NDArray[np.int8]
    """One more than there are records: -1."""

    def around(self, address: Ints, when: Ints) -> tuple[Ints, Ints]:
        """The last record of each address before a moment, and the first one after; -1 for none."""
        count = len(self.address)
        every = np.append(self.address, address)
        moments = np.append(self.when, when)
        order = np.lexsort((moments, every))
        is_pair = order < count
        before = np.cumsum(is_pair) - 1
        at = np.empty(len(order), np.int64)
        at[order] = before
        place = at[count:]
        after = place + 1
        padded = np.append(self.address, -1)
        has_before = (place >= 0) & (padded[place] == address)
        has_after = (after < count) & (padded[np.minimum(after, count)] == address)
        return np.where(has_before, place, -1), np.where(has_after, after, -1)
