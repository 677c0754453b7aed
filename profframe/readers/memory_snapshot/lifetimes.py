"""When each allocation was made and freed, from the records of its address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.memory_snapshot.recording import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    Recording,
)

Ints = npt.NDArray[np.int64]

_LAST: Final = (1 << 63) - 1
_NAMES: Final = {ALLOC: "alloc", FREE_REQUESTED: "free_requested", FREE_COMPLETED: "free"}


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The rows of `allocations`, and the allocation of each record; -1 for none."""

    columns: Iterator[tuple[str, pa.Array]]
    allocation_of_event: npt.NDArray[np.int32]


def lifetimes(recording: Recording, at_end: pa.Table) -> Lifetimes:
    """Pair the records of each address.

    An allocation begins at its record; before the first record of its address, if that frees it; or
    before all records, if it is in a block at the end that no record made.

    Parameters
    ----------
    recording
        All records.
    at_end
        Blocks that are allocated at the end.
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
    lives = first[ids[FREE_COMPLETED] < 0]
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
    return Lifetimes(_columns(recording, first, ids, rest, devices[rank], rank), of_event)


def _by_address(recording: Recording) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Records that make or free memory, by device and address, and where an allocation begins."""
    parts, starts = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for device in range(int(recording.device.max(initial=-1)) + 1):
        events = np.flatnonzero((recording.kind > 0) & (recording.device == device))
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
    devices: npt.NDArray[np.int16],
    rank: Ints,
) -> Iterator[tuple[str, pa.Array]]:
    """The columns one by one, so that only one is in memory at a time."""

    def joined(values: pa.Array, others: pa.ChunkedArray | None = None) -> pa.Array:
        more = [pa.nulls(rest.num_rows, values.type)] if others is None else others.chunks
        return pa.concat_arrays([values, *more]).take(pa.array(rank))

    yield "allocation_id", pa.array(np.arange(len(rank)))
    yield "device", pa.array(devices.astype(np.int32))
    yield "address", joined(pa.array(recording.address[first]), rest["address"])
    sizes = pc.coalesce(rest["requested_bytes"], rest["bytes"])
    yield "bytes", joined(recording.of("bytes", first), sizes)
    yield "stream", joined(recording.of("stream", first))
    yield "stack_id", joined(recording.of("stack_id", ids[ALLOC]), rest["stack_id"])
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
