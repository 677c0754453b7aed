"""From when until when each allocation lived: records of an address, put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.memory_snapshot.recording import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    NONE,
    Recording,
)

_LAST: Final = (1 << 63) - 1

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Columns of `allocations`, and the allocation of each record; -1 for none."""

    columns: dict[str, pa.Array]
    allocation_of_event: Ints


def lifetimes(recording: Recording, at_end: pa.Table) -> Lifetimes:
    """Pair the records of each address.

    An allocation begins at its record, or before the first one of its address, if that frees it;
    or before all of them, if it is in a block at the end that no record made.

    Parameters
    ----------
    recording
        All records.
    at_end
        Blocks that are allocated at the end.
    """
    columns = recording.columns
    kind = columns["kind"]
    events = np.flatnonzero((kind > 0) & (columns["address"] != NONE) & (columns["device"] >= 0))
    device, address = columns["device"][events], columns["address"][events]
    order = np.lexsort((address, device))  # it keeps the order of records
    events = events[order]
    device, address, kind = device[order], address[order], kind[events]
    is_first = np.append(True, (device[1:] != device[:-1]) | (address[1:] != address[:-1]))
    is_first = is_first[: len(events)]
    # A free that was completed ends an allocation, too: what frees the address again is another's.
    after_free = np.append(False, (kind[:-1] == FREE_COMPLETED))[: len(events)]
    begins = is_first | (kind == ALLOC) | after_free
    number = np.cumsum(begins) - 1
    count = int(begins.sum())
    ids = {code: np.full(count, -1, np.int64) for code in (ALLOC, FREE_REQUESTED, FREE_COMPLETED)}
    for code, of_code in ids.items():
        rows = np.flatnonzero(kind == code)[::-1]  # the first one counts
        of_code[number[rows]] = events[rows]
    first = events[begins]
    device, address = device[begins], address[begins]
    size = columns["bytes"][first]
    lives = ids[FREE_COMPLETED] < 0
    is_known = _among(at_end, device[lives], address[lives])
    rest = at_end.filter(pa.array(~is_known))
    more = rest.num_rows
    sizes = pc.coalesce(rest["requested_bytes"], rest["bytes"])

    # By device, and in the order in which they were made; those without a record last.
    made = np.append(np.where(ids[ALLOC] < 0, _LAST, ids[ALLOC]), np.full(more, _LAST))
    devices = np.append(device, rest["device"].to_numpy())
    rank = np.lexsort((made, devices))
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    of_event = np.full(recording.count, -1, np.int64)
    of_event[events] = place[:count][number]

    def joined(values: Ints, others: Any) -> pa.Array:
        both = pa.chunked_array([_nullable(values), *others.chunks], pa.int64())
        return both.combine_chunks().take(pa.array(rank))

    has_stack = (ids[ALLOC] >= 0) & (columns["stack_id"][first] >= 0)  # a free has its own
    nothing = pa.chunked_array([pa.nulls(more, pa.int64())])
    result = {
        "device": pa.array(devices[rank].astype(np.int32)),
        "address": joined(address, rest["address"]),
        "bytes": joined(size, sizes),
        "stream": joined(columns["stream"][first], nothing),
        "stack_id": joined(
            np.where(has_stack, columns["stack_id"][first], NONE),
            rest["stack_id"],
        ),
    }
    names = {ALLOC: "alloc", FREE_REQUESTED: "free_requested", FREE_COMPLETED: "free"}
    for code, name in names.items():
        of_code = ids[code]
        times = np.where(of_code < 0, NONE, columns["time_us"][of_code] if recording.count else NONE)
        has_time = times != NONE
        nanoseconds = np.where(has_time, times * np.where(has_time, 1000, 0), NONE)
        result[f"{name}_ns"] = joined(nanoseconds, nothing)
        result[f"{name}_event_id"] = joined(np.where(of_code < 0, NONE, of_code), nothing)
    return Lifetimes(result, of_event)


def _among(blocks: pa.Table, device: Ints, address: Ints) -> npt.NDArray[np.bool_]:
    """Which blocks are one of these allocations."""
    addresses = blocks["address"].to_numpy()
    devices = blocks["device"].to_numpy()
    is_known = np.zeros(len(addresses), np.bool_)
    for one in np.unique(devices):
        of_device = devices == one
        is_known[of_device] = np.isin(addresses[of_device], address[device == one])
    return is_known


def _nullable(values: Ints) -> pa.Array:
    values = values.astype(np.int64)
    return pa.array(values, mask=values == NONE)
