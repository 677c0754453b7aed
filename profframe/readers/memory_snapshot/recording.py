"""Records of the allocator as columns: what pairs them stays in memory, the rest may go to disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe import schema
from profframe.readers.pickle.records import Chunk
from profframe.system import memory_limit
from profframe.system.disk_tables import Builder, Spool

Ints = npt.NDArray[np.int64]

ALLOC: Final = 1
FREE_REQUESTED: Final = 2
FREE_COMPLETED: Final = 3
_PAIRED: Final = {"alloc": ALLOC, "free_requested": FREE_REQUESTED, "free_completed": FREE_COMPLETED}
_LONGEST_US: Final = (1 << 62) // 1000


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
        self._parts: list[dict[str, np.ndarray[Any, Any]]] = []
        self._lists: list[tuple[int, int]] = []
        self._spool = spool
        self._kinds = np.zeros(0, np.int8)
        self.columns: dict[str, np.ndarray[Any, Any]] = {}

    def add(self, chunk: Chunk, texts: list[str]) -> None:
        """Add some rows."""
        values, there = chunk.columns, chunk.is_there
        if len(self._kinds) < len(texts):
            self._kinds = np.array([_PAIRED.get(text, 0) for text in texts], np.int8)
        time = values["time_us"]
        has_time = there["time_us"]
        impossible = has_time & ((time <= -_LONGEST_US) | (time >= _LONGEST_US))
        self.impossible_times += int(impossible.sum())
        action = np.where(there["action"], values["action"], -1)
        part = {
            "action": action.astype(np.int32),
            "kind": np.where(action >= 0, self._kinds[action], 0).astype(np.int8),
            "address": _or_none(values["addr"], there["addr"]),
            "bytes": _or_none(values["size"], there["size"]),
            "stream": _or_none(values["stream"], there["stream"]),
            "time_us": _or_none(time, has_time & ~impossible),
            "device_free_bytes": _or_none(values["device_free"], there["device_free"]),
            "stack_id": np.where(there["frames"], values["frames"], -1).astype(np.int32),
            "compile_context": np.where(there["compile_context"], values["compile_context"], -1).astype(np.int32),
        }
        for name in ("stream", "device_free_bytes", "compile_context"):  # most have one value
            if len(part[name]) and (part[name] == part[name][0]).all():
                part[name] = np.broadcast_to(part[name][:1].copy(), len(part[name]))
        changes = np.flatnonzero(np.append(True, chunk.lists[1:] != chunk.lists[:-1]))
        counts = np.diff(np.append(changes, len(chunk.lists)))
        self._lists += zip(chunk.lists[changes].tolist(), counts.tolist(), strict=True)
        self._parts.append(part)
        self.count += len(time)
        memory_limit.check(self.count * 64)

    def finish(self, devices: list[int]) -> None:
        """Tell the devices of lists, and put what pairs records together.

        Parameters
        ----------
        devices
            Number of the list of each device.
        """
        of_list = {number: device for device, number in enumerate(devices)}
        runs = [(of_list.get(number, -1), count) for number, count in self._lists]
        values, counts = np.array(runs or [(0, 0)], np.int64).T
        self.columns = {"device": np.repeat(values, counts).astype(np.int16)}
        for name, type_ in _KEPT.items():
            parts = [part[name] for part in self._parts]
            self.columns[name] = np.concatenate([np.empty(0, type_), *parts])

    def span(self) -> tuple[int | None, int | None]:
        """Earliest and latest time, in microseconds."""
        times = [part["time_us"][part["time_us"] != NONE] for part in self._parts]
        times = [part for part in times if len(part)]
        if not times:
            return None, None
        return min(int(part.min()) for part in times), max(int(part.max()) for part in times)

    def table(self, texts: list[str], allocation_of_event: Ints) -> Any:
        """The rows of `allocator_events`."""
        fields = [f for f in schema.ALLOCATOR_EVENTS.arrow if f.name not in {"run", "rank"}]
        names = pa.array(texts, pa.string())
        parts = self._tables(names, allocation_of_event)
        if self._spool is None:
            tables: Iterable[pa.Table] = [*parts, pa.schema({f.name: f.type for f in fields}).empty_table()]
            return pa.concat_tables(tables).unify_dictionaries()
        builder = Builder(self._spool, {field.name: field.type for field in fields})
        for part in parts:
            builder.add(part)
        return builder.table()

    def _tables(self, names: pa.StringArray, allocation_of_event: Ints) -> Iterator[pa.Table]:
        start = 0
        for part in self._parts:
            end = start + len(part["kind"])
            time = part["time_us"]
            columns = {
                "allocator_event_id": pa.array(np.arange(start, end)),
                "device": pa.array(self.columns["device"][start:end].astype(np.int32)),
                "action": _named(part["action"], names),
                "address": _nullable(part["address"]),
                "bytes": _nullable(part["bytes"]),
                "stream": _nullable(part["stream"]),
                "time_ns": pa.array(np.where(time == NONE, 0, time) * 1000, mask=time == NONE),
                "device_free_bytes": _nullable(part["device_free_bytes"]),
                "stack_id": pa.array(part["stack_id"].astype(np.int64), mask=part["stack_id"] < 0),
                "compile_context": _named(part["compile_context"], names),
                "allocation_id": pa.array(
                    allocation_of_event[start:end].astype(np.int64),
                    mask=allocation_of_event[start:end] < 0,
                ),
            }
            start = end
            yield pa.table(columns)


NONE: Final = -(1 << 63)
"""In place of a number that there is not."""
_KEPT: Final = {
    "kind": np.int8, "address": np.int64, "bytes": np.int64, "time_us": np.int64,
    "stream": np.int64, "stack_id": np.int32,
}  # fmt: skip


def _or_none(values: Ints, is_there: npt.NDArray[np.bool_]) -> Ints:
    return np.where(is_there, values, NONE)


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == NONE)


def _named(numbers: npt.NDArray[np.int32], names: pa.StringArray) -> pa.DictionaryArray:
    indices = pa.array(numbers.clip(min=0), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(indices, names)
