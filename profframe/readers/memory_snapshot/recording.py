"""Records of the allocator as columns: what pairs them stays in memory, the rest may go to disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe import schema
from profframe.readers.pickle.records import Chunk
from profframe.system import memory_limit
from profframe.system.disk_tables import Builder, Spool, SpooledTable

Ints = npt.NDArray[np.int64]

ALLOC: Final = 1
FREE_REQUESTED: Final = 2
FREE_COMPLETED: Final = 3
ANNOTATE: Final = 4
_PAIRED: Final = {
    "alloc": ALLOC,
    "free_requested": FREE_REQUESTED,
    "free_completed": FREE_COMPLETED,
    "annotate": ANNOTATE,
}
HOST: Final = (1 << 15) - 1
"""What stands for pinned host memory among the indices of devices."""
LONGEST_US: Final = (1 << 62) // 1000


class Recording:
    """All records, in the source's order.

    Parameters
    ----------
    spool
        Where the rows go; None for memory.
    """

    def __init__(self, spool: Spool | None) -> None:
        self.count = 0
        self.impossible_times = 0
        self.kind = np.zeros(0, np.int8)
        """What each record does to an allocation; 0 for nothing."""
        self.address = np.zeros(0, np.int64)
        self.device = np.zeros(0, np.int16)
        """Device of each record; `HOST`, or -1 for a list without a device."""
        self.rows: pa.Table | SpooledTable = pa.table({})
        self._spans: list[tuple[int, int]] = []
        self._paired: list[tuple[npt.NDArray[np.int8], Ints]] = []
        self._lists: list[tuple[int, int]] = []
        self._parts: list[pa.Table] = []
        self._builder = None if spool is None else Builder(spool, _TYPES)

    def add(self, chunk: Chunk, texts: list[str]) -> None:
        """Add some rows."""
        values, there = chunk.columns, chunk.is_there
        time, has_time = values["time_us"], there["time_us"]
        impossible = has_time & ((time <= -LONGEST_US) | (time >= LONGEST_US))
        self.impossible_times += int(impossible.sum())
        has_time &= ~impossible
        if has_time.any():
            self._spans.append((int(time[has_time].min()), int(time[has_time].max())))
        is_paired = there["action"] & there["addr"]
        action = named(values["action"], there["action"], texts)
        kinds = [_PAIRED.get(name, 0) for name in action.dictionary.to_pylist()]
        kind = np.array([*kinds, 0], np.int8)[action.indices.fill_null(len(kinds)).to_numpy()]
        kind = np.where(is_paired, kind, 0)
        self._paired.append((kind.astype(np.int8), np.where(is_paired, values["addr"], 0)))
        count = len(time)
        rows = pa.table(
            {
                "allocator_event_id": pa.array(np.arange(self.count, self.count + count)),
                "action": action,
                "address": masked(values["addr"], there["addr"]),
                "bytes": masked(values["size"], there["size"]),
                "stream": masked(values["stream"], there["stream"]),
                "time_ns": masked(np.where(has_time, time, 0) * 1000, has_time),
                "device_free_bytes": masked(values["device_free"], there["device_free"]),
                "stack_id": masked(values["frames"], there["frames"]),
                "compile_context": named(
                    values["compile_context"], there["compile_context"], texts
                ),
                "pool": named(values["pool_id"], there["pool_id"], texts),
                "metadata": unless_empty(values["user_metadata"], there["user_metadata"], texts),
            }
        )
        if self._builder is None:
            self._parts.append(rows)
        else:
            self._builder.add(rows)
        changes = np.flatnonzero(np.append([True], chunk.lists[1:] != chunk.lists[:-1]))
        counts = np.diff(np.append(changes, count))
        self._lists += zip(chunk.lists[changes].tolist(), counts.tolist(), strict=True)
        self.count += count
        memory_limit.check(self.count * 16)

    def finish(self, devices: list[int], host: int | None = None) -> None:
        """Set the devices of lists, and combine the rows.

        Parameters
        ----------
        devices
            Number of the list of each device.
        host
            Number of the list of pinned host memory.
        """
        of_list = {number: device for device, number in enumerate(devices)}
        if host is not None:
            of_list[host] = HOST
        runs = [(of_list.get(number, -1), count) for number, count in self._lists]
        values, counts = np.array(runs or [(0, 0)], np.int64).T
        self.device = np.repeat(values.astype(np.int16), counts)
        self.kind = np.concatenate([self.kind, *(kind for kind, _ in self._paired)])
        self.address = np.concatenate([self.address, *(address for _, address in self._paired)])
        self._paired = []
        if self._builder is None:
            empty = pa.schema(_TYPES).empty_table()
            self.rows = pa.concat_tables([empty, *self._parts]).unify_dictionaries()
        else:
            self.rows = self._builder.table()

    def span(self) -> tuple[int | None, int | None]:
        """Earliest and latest time, in microseconds."""
        if not self._spans:
            return None, None
        return min(first for first, _ in self._spans), max(last for _, last in self._spans)

    def of(self, column: str, events: Ints) -> pa.Array:
        """Values of a column for some records; NULL where the number of the record is below 0."""
        at = pa.array(events, mask=events < 0)
        values = self.rows[column]
        whole = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
        return whole.take(at)

    def table(
        self, allocation_of_event: npt.NDArray[np.int32], device_type: str
    ) -> pa.Table | SpooledTable:
        """The rows of `allocator_events`."""
        allocation = pa.array(allocation_of_event, mask=allocation_of_event < 0)
        rows = self.rows.append_column("device_type", types_of(self.device, device_type))
        rows = rows.append_column("device", indices_of(self.device))
        return rows.append_column("allocation_id", allocation.cast(pa.int64()))


def types_of(device: npt.NDArray[np.int16], device_type: str) -> pa.DictionaryArray:
    """Types of devices by their numbers, where `HOST` is pinned host memory."""
    is_host = (device == HOST).astype(np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(is_host, mask=device < 0), pa.array([device_type, schema.PINNED])
    )


def indices_of(device: npt.NDArray[np.int16]) -> pa.Array:
    """Indices of devices; NULL for pinned host memory."""
    return pa.array(device.astype(np.int32), mask=(device < 0) | (device == HOST))


_TYPES: Final = {
    field.name: field.type
    for field in schema.ALLOCATOR_EVENTS.arrow
    if field.name not in {"run", "rank", "device_type", "device", "allocation_id", "op_id", "step"}
}


def masked(values: Ints, is_there: npt.NDArray[np.bool_]) -> pa.Array:
    """Numbers, with NULL where there is none."""
    return pa.array(values, mask=~is_there)


def named(
    numbers: Ints, is_there: npt.NDArray[np.bool_], texts: Sequence[str]
) -> pa.DictionaryArray:
    """Repeated text by its number; the dictionary has what occurs."""
    used, places = np.unique(numbers[is_there], return_inverse=True)
    indices = np.zeros(len(numbers), np.int32)
    indices[is_there] = places
    names = pa.array([texts[number] for number in used.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=~is_there), names)


def unless_empty(
    numbers: Ints, is_there: npt.NDArray[np.bool_], texts: Sequence[str]
) -> pa.DictionaryArray:
    """Text of the program by its number; torch writes an empty one where there is none."""
    if "" not in texts:
        return named(numbers, is_there, texts)
    return named(numbers, is_there & (numbers != texts.index("")), texts)
