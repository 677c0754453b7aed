"""Databases that ``nvprof -o`` writes (CUPTI's activities), of schema versions 8 to 26.

A table for each kind of activity; every one may be missing or empty. A marker is two rows that
share their ``id``; its thread is in a binary ``objectId``. Names are in ``StringTable``, mangled.
Which call of CUDA it was is a number; those that matter most have their names here.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.rows import Batch, Header, RawTrace, Table
from profframe.readers.sqlite.activities import (
    Activities,
    Activity,
    Columns,
    Described,
    constant,
    device_properties,
    events,
    filtered,
    integers,
    labels,
    marks,
    ranges,
)
from profframe.readers.sqlite.cupti import (
    DRIVER_CALLS,
    RUNTIME_CALLS,
    copy_name,
    named,
    set_name,
    sync_name,
)
from profframe.readers.sqlite.database import LITTLE_ENDIAN, Database, SourceTable
from profframe.schema import INT64, TEXT
from profframe.system.disk_tables import Spool

MARKER: Final = "CUPTI_ACTIVITY_KIND_MARKER"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
DRIVER: Final = "CUPTI_ACTIVITY_KIND_DRIVER"
OVERHEAD: Final = "CUPTI_ACTIVITY_KIND_OVERHEAD"
NAME: Final = "CUPTI_ACTIVITY_KIND_NAME"

_ACTIVITY: Final = "CUPTI_ACTIVITY_KIND_"
_STARTS: Final = 2
_ENDS: Final = 4
"""Flags of a marker; one with neither is an instant."""
_PROCESS: Final = 1
_THREAD: Final = 2
"""Kinds of object that a marker, a name or overhead belongs to."""
_LABELS: Final = MappingProxyType({_PROCESS: "process_name", _THREAD: "thread_name"})
_BYTES: Final = 8
"""Bytes of an object's id that tell process and thread."""
_OVERHEADS: Final = (
    "Unknown", "Buffer Flush", "Instrumentation", "Resource", "Runtime Triggered Module Loading",
    "Lazy Function Loading", "Command Buffer Full",
)  # fmt: skip
_COMPILER: Final = 1
_DEVICE_KEYS: Final = {
    "id": "id",
    "name": "name",
    "globalMemorySize": "totalGlobalMem",
    "computeCapabilityMajor": "computeMajor",
    "computeCapabilityMinor": "computeMinor",
    "maxThreadsPerBlock": "maxThreadsPerBlock",
    "maxRegistersPerBlock": "regsPerBlock",
    "numThreadsPerWarp": "warpSize",
    "maxSharedMemoryPerBlock": "sharedMemPerBlock",
    "numMultiprocessors": "numSms",
    "maxRegistersPerMultiprocessor": "regsPerMultiprocessor",
    "maxSharedMemoryPerMultiprocessor": "sharedMemPerMultiprocessor",
}
"""What Kineto calls the properties of a device."""

_TIMES: Final = MappingProxyType(
    {
        name: f"CASE WHEN {{start}} <> 0 OR {{end}} <> 0 THEN {{{name}}} END"
        for name in ("start", "end")
    }
)
"""Start and end; two zeros say that nobody measured them."""
_PAIRS: Final = """
    WITH first AS (
        SELECT row, pid, id, row_number() OVER (PARTITION BY pid, id ORDER BY time, row) AS turn
        FROM (SELECT row_number() OVER () - 1 AS row, object & 4294967295 AS pid, id, time
              FROM starts)),
    second AS (
        SELECT row, pid, id, row_number() OVER (PARTITION BY pid, id ORDER BY time, row) AS turn
        FROM (SELECT row_number() OVER () - 1 AS row, object & 4294967295 AS pid, id, time
              FROM ends))
    SELECT first.row AS first, second.row AS second
    FROM first JOIN second
      ON first.pid IS NOT DISTINCT FROM second.pid AND first.id = second.id
     AND first.turn = second.turn
    ORDER BY ALL"""
"""The n-th end of an id belongs to its n-th start."""

_Ints = npt.NDArray[np.int64]


def knows(database: Database) -> bool:
    """Whether nvprof wrote the database, if Nsight Systems did not: it has activities of CUDA."""
    return any(name.startswith(_ACTIVITY) for name in database.tables)


def read(database: Database, spool: Spool | None = None) -> RawTrace:
    """Read one database.

    Raises
    ------
    SourceError
        When the database is damaged; the message names the file and the table.
    """
    return _Profile.read(database, spool)


@dataclass(slots=True)
class _Profile(Activities):
    """A database of nvprof, table by table."""

    STRINGS: ClassVar = "StringTable"
    STRING: ClassVar[Described] = {"id": "{_id_}", "text": "nullif({value}, '-- null --')"}
    SHARED: ClassVar[Described] = {
        **_TIMES,
        "device": "{deviceId}",
        "context": "{contextId}",
        "stream": "{streamId}",
        "correlation": "coalesce({correlationId}, {runtimeCorrelationId})",
    }
    LEFT_OUT: ClassVar = ("_id_", "start", "end", "deviceId", "streamId", "correlationId")
    ACTIVITIES: ClassVar = (
        *(
            Activity(f"{_ACTIVITY}{kernel}", kernel, names=("name",))
            for kernel in ("CONCURRENT_KERNEL", "KERNEL", "CDP_KERNEL")
        ),
        *(
            Activity(
                f"{_ACTIVITY}{copy}",
                copy,
                codes={"kind": "{copyKind}", "source": "{srcKind}", "target": "{dstKind}"},
                title=copy_name,
                more={"bytes": "{bytes}"},
            )
            for copy in ("MEMCPY", "MEMCPY2")
        ),
        Activity(
            f"{_ACTIVITY}MEMSET",
            "MEMSET",
            codes={"kind": "{memoryKind}"},
            title=set_name,
            more={"bytes": "{bytes}"},
        ),
        Activity(
            f"{_ACTIVITY}SYNCHRONIZATION",
            "SYNCHRONIZATION",
            codes={"kind": "{type}"},
            title=sync_name,
        ),
    )
    DESCRIBE: ClassVar = re.compile(
        r"StringTable|Version|CUPTI_ACTIVITY_KIND_(DEVICE|DEVICE_ATTRIBUTE|CONTEXT|STREAM|NVLINK"
        r"|PCIE|SOURCE_LOCATOR|FUNCTION|MODULE|INSTRUCTION_CORRELATION)"
    )

    _process: str | None = None
    _devices: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The process, if there is only one, and the device of each context."""
        pids: set[int] = set()
        for name in (RUNTIME, DRIVER):
            table = self.database.table(name)
            where = f"GROUP BY {table['processId']}"
            for raw in self.database.batches(table, integers(table, {"pid": "{processId}"}), where):
                pids.update(raw["pid"].drop_null().to_pylist())
        self._process = str(*pids) if len(pids) == 1 else None
        for row in self.database.records(self.database.table(f"{_ACTIVITY}CONTEXT")):
            context, device = row.get("contextId"), row.get("deviceId")
            if isinstance(context, int) and isinstance(device, int):
                self._devices[context] = device

    def batches(self) -> Iterator[Batch]:
        """Every row; where two begin and end together, what is outside comes first."""
        on_devices = itertools.chain.from_iterable(map(self.slices, self.ACTIVITIES))
        return itertools.chain(
            self._markers(),
            self._calls(RUNTIME, "RUNTIME", RUNTIME_CALLS),
            self._calls(DRIVER, "DRIVER", DRIVER_CALLS),
            self._overhead(),
            on_devices,
            self._labels(),
        )

    def placed(self, raw: Columns) -> Columns:
        """The one process, and the device, by the context where it is not given."""
        device = pc.coalesce(raw["device"], self._device_of(raw["context"]))
        return {"device": device, "pid": constant(self._process, len(device))}

    def header(self, *, is_utc: bool) -> Header:
        """The devices and the version of the database."""
        version = self.database.records(self.database.table("Version"))
        devices = self.database.records(self.database.table(f"{_ACTIVITY}DEVICE"))
        for device in devices:
            if isinstance(device.get("name"), int):
                device["name"] = self.text(pa.array([device["name"]], INT64))[0].as_py()
        properties = [device_properties(row, _DEVICE_KEYS) for row in devices]
        return Header(
            format="nvprof",
            clock="utc" if is_utc else "relative",
            device_properties=json.dumps(properties) if properties else None,
            metadata=json.dumps(version[0]) if version else None,
        )

    def _markers(self) -> Iterator[Batch]:
        """NVTX ranges and marks."""
        table = self.open(MARKER)
        is_start, is_end = f"{table['flags']} & {_STARTS} <> 0", f"{table['flags']} & {_ENDS} <> 0"
        kind = f"coalesce({{objectKind}}, {_THREAD})"
        marker = integers(table, {"time": "{timestamp}", "id": "{id}", "kind": kind})
        marker |= _object(table)
        named_marker = marker | integers(table, {"name": "{name}", "domain": "nullif({domain}, 0)"})
        starts = self.database.whole(table, named_marker, f"WHERE {is_start}")
        ends = self.database.whole(table, marker, f"WHERE {is_end} AND NOT {is_start}")
        yield from self._paired(starts, ends)
        instant = f"WHERE coalesce(NOT {is_start} AND NOT {is_end}, TRUE)"
        for raw in self.database.batches(table, named_marker, instant):
            columns = self._marker(raw)
            category = {"category": constant("MARKER", len(raw["time"]))}
            yield {Table.INSTANTS: marks(raw["time"], "i", columns | category)}

    def _paired(self, starts: Columns, ends: Columns) -> Iterator[Batch]:
        """Each start with the end that shares its id; the n-th of an id belongs to the n-th."""
        start, end = _match(starts, ends, self.connection)
        self.accounted["events"] += len(start)
        lone = np.ones(len(ends["time"]), np.bool_)
        lone[end] = False
        place = np.full(len(starts["time"]), -1, np.int64)
        place[start] = end
        at = pa.array(place, mask=place < 0)
        columns = {"start": starts["time"], "end": ends["time"].take(at)} | self._marker(starts)
        moves = pc.not_equal(_owner(starts), _owner(ends).take(at))
        is_async = pc.or_(pc.is_null(at), pc.fill_null(moves, fill_value=False))
        yield ranges(columns, "MARKER", is_async)
        if lone.any():
            self.quality.note("unmatched_end", int(lone.sum()))
            rest = filtered(ends, pa.array(lone))
            owners = self._owners(rest["kind"], rest["object"])
            category = {"category": constant("MARKER", len(rest["time"]))}
            yield {Table.INSTANTS: marks(rest["time"], "E", owners | category)}

    def _marker(self, raw: Columns) -> Columns:
        """Name, owner and arguments of markers."""
        domain = self.text(raw["domain"])
        texts = domain.dictionary_encode()
        members = [json.dumps({"domain": text}) for text in texts.dictionary.to_pylist()]
        args = pa.array(members, TEXT).take(texts.indices)
        return self._owners(raw["kind"], raw["object"]) | {
            "name": self.text(raw["name"]),
            "args": args,
        }

    def _calls(self, name: str, category: str, known: Mapping[int, str]) -> Iterator[Batch]:
        """Calls of the runtime or the driver, whatever their number is."""

        def title(call: int) -> str | None:
            return known.get(call, f"{category.lower()} call {call}") if call >= 0 else None

        table = self.open(name)
        own = ("_id_", "start", "end", "processId", "threadId", "correlationId", "returnValue")
        returned = {"returnValue": f"nullif({table['returnValue']}, 0)"}
        numbers = {
            **_TIMES,
            "pid": "{processId}",
            "tid": "{threadId} & 4294967295",
            "correlation": "{correlationId}",
            "call": "{cbid}",
        }
        asked = integers(table, numbers) | {"args": (table.json(*own, **returned), TEXT)}
        for raw in self.database.batches(table, asked):
            owners = {"pid": raw["pid"].cast(TEXT), "tid": raw["tid"].cast(TEXT)}
            yield events(raw | owners | {"name": named(title, raw["call"])}, category)

    def _overhead(self) -> Iterator[Batch]:
        """What the profiler and the compiler of the driver cost."""
        table = self.open(OVERHEAD)
        numbers = {**_TIMES, "kind": "{objectKind}", "overhead": "{overheadKind}"}
        asked = integers(table, numbers) | _object(table)
        for raw in self.database.batches(table, asked):
            name = {"name": named(_overhead_name, raw["overhead"])}
            times = {"start": raw["start"], "end": raw["end"]}
            yield events(times | self._owners(raw["kind"], raw["object"]) | name, "OVERHEAD")

    def _labels(self) -> Iterator[Batch]:
        """Names of processes and threads; those of other things only describe."""
        table = self.open(NAME)
        asked = integers(table, {"kind": "{objectKind}", "name": "{name}"}) | _object(table)
        for raw in self.database.batches(table, asked):
            label = named(_LABELS.get, raw["kind"])
            owners = self._owners(raw["kind"], raw["object"])
            known = pc.is_valid(label)
            self.accounted["metadata"] += int(pc.sum(pc.invert(known)).as_py() or 0)
            columns = filtered(owners | {"text": self.text(raw["name"])}, known)
            yield labels(label.filter(known), columns)

    def _device_of(self, context: pa.Array) -> pa.Array:
        encoded = context.dictionary_encode()
        devices = [self._devices.get(number) for number in encoded.dictionary.to_pylist()]
        return pa.array(devices, INT64).take(encoded.indices)

    def _owners(self, kind: pa.Array, object_: pa.Array) -> Columns:
        """Process and thread of an object; an object of another kind has neither."""
        pid = pc.if_else(pc.less_equal(kind, _THREAD), pc.bit_wise_and(object_, 0xFFFFFFFF), None)
        tid = pc.if_else(pc.equal(kind, _THREAD), pc.shift_right(object_, 32), None)
        return {"pid": pid.cast(TEXT), "tid": pc.bit_wise_and(tid, 0xFFFFFFFF).cast(TEXT)}


def _object(table: SourceTable) -> dict[str, tuple[str, pa.DataType]]:
    """Process and thread of a row, from the first bytes of the id of its object."""
    id_ = table["objectId"]
    whole = f"CASE WHEN typeof({id_}) = 'blob' AND length({id_}) >= {_BYTES} THEN {id_} END"
    first = f"substr({whole}, 1, {_BYTES})"
    return {"object": (first, LITTLE_ENDIAN)}


def _owner(rows: Columns) -> pa.Array:
    """Thread of a row in one number; the process alone where it belongs to that."""
    process = pc.bit_wise_and(rows["object"], 0xFFFFFFFF)
    return pc.if_else(pc.equal(rows["kind"], _THREAD), rows["object"], process)


def _overhead_name(kind: int) -> str:
    if kind == _COMPILER:
        return "Driver Compiler"
    high, low = divmod(max(kind, 0), 1 << 16)
    return _OVERHEADS[high] if not low and high < len(_OVERHEADS) else _OVERHEADS[0]


def _match(
    starts: Columns, ends: Columns, connection: duckdb.DuckDBPyConnection
) -> tuple[_Ints, _Ints]:
    """Rows of starts and of ends that belong together, by process and id, in order of time."""
    for name, rows in (("starts", starts), ("ends", ends)):
        connection.register(name, pa.table({key: rows[key] for key in ("object", "id", "time")}))
    found = connection.sql(_PAIRS).fetchnumpy()
    for name in ("starts", "ends"):
        connection.unregister(name)
    first, second = (np.asarray(found[name], np.int64) for name in ("first", "second"))
    return first, second
