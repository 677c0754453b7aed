"""Databases that ``nvprof -o`` writes (CUPTI's activities), of schema versions 8 to 26.

A table for each kind of activity; every one may be missing or empty. A marker is two rows that
share their ``id``; its thread is in a binary ``objectId``. Names are in ``StringTable``, mangled.
Which call of CUDA it was is a number; those that matter most have their names here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.assembly import assemble
from profframe.readers.build.rows import (
    Batch,
    Header,
    Quality,
    RawTrace,
    Rows,
    Table,
    conform,
    earliest,
    gather,
)
from profframe.readers.sqlite import nvtx
from profframe.readers.sqlite.cupti import (
    DRIVER_CALLS,
    RUNTIME_CALLS,
    UTC_NS,
    constant,
    copy_name,
    device_lines,
    filtered,
    has_devices,
    lookup,
    marks,
    named,
    note_leftovers,
    readable,
    set_name,
    slices,
    sync_name,
)
from profframe.readers.sqlite.database import LITTLE_ENDIAN, Asked, Database, SourceTable
from profframe.schema import INT64, TEXT
from profframe.system.disk_tables import Spool

MARKER: Final = "CUPTI_ACTIVITY_KIND_MARKER"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
DRIVER: Final = "CUPTI_ACTIVITY_KIND_DRIVER"
KERNELS: Final = MappingProxyType(
    {
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": "CONCURRENT_KERNEL",
        "CUPTI_ACTIVITY_KIND_KERNEL": "KERNEL",
        "CUPTI_ACTIVITY_KIND_CDP_KERNEL": "CDP_KERNEL",
    }
)
MEMCPY: Final = MappingProxyType(
    {"CUPTI_ACTIVITY_KIND_MEMCPY": "MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2": "MEMCPY2"}
)
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
SYNC: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
OVERHEAD: Final = "CUPTI_ACTIVITY_KIND_OVERHEAD"
NAME: Final = "CUPTI_ACTIVITY_KIND_NAME"

_STRINGS: Final = "StringTable"
_NOTHING: Final = "-- null --"
"""The text that stands for no name."""
_DESCRIBES: Final = re.compile(
    r"StringTable|Version|CUPTI_ACTIVITY_KIND_(DEVICE|DEVICE_ATTRIBUTE|CONTEXT|STREAM|NVLINK|PCIE"
    r"|SOURCE_LOCATOR|FUNCTION|MODULE|INSTRUCTION_CORRELATION)"
)
"""Tables that hold no events."""
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

_Columns = dict[str, pa.Array]
_Ints = npt.NDArray[np.int64]


def knows(database: Database) -> bool:
    """Whether nvprof wrote the database, if Nsight Systems did not: it has activities of CUDA."""
    return any(name.startswith("CUPTI_ACTIVITY_KIND_") for name in database.tables)


def read(database: Database, spool: Spool | None = None) -> RawTrace:
    """Read one database.

    Raises
    ------
    SourceError
        When the database is damaged; the message names the file and the table.
    """
    quality = Quality()
    with duckdb.connect(config={"threads": 1}) as connection:
        rows = _Rows(database, connection)
        found = gather(rows.all(quality), spool)
        accounted = note_leftovers(
            database, quality, rows.loaded, lambda name: bool(_DESCRIBES.fullmatch(name))
        )
        accounted["metadata"] = accounted.get("metadata", 0) + rows.described
        accounted["events"] = rows.ends
        header = _header(database, found, rows.text)
        return assemble(found, header, quality, 0, connection, elsewhere=accounted)


@dataclass(slots=True)
class _Rows:
    """Batches of rows, table by table; ``loaded`` are the tables that were read.

    ``ends`` counts the rows that are only the end of a slice.
    """

    database: Database
    connection: duckdb.DuckDBPyConnection
    loaded: set[str] = field(default_factory=set)
    described: int = 0
    ends: int = 0
    _strings: _Columns | None = None
    _process: str | None = None
    _devices: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The process, if there is only one, and the device of each context."""
        pids: set[int] = set()
        for name in (RUNTIME, DRIVER):
            table = self.database.table(name)
            where = f"GROUP BY {table['processId']}"
            for raw in self.database.batches(table, {"pid": (table["processId"], INT64)}, where):
                pids.update(raw["pid"].drop_null().to_pylist())
        self._process = str(*pids) if len(pids) == 1 else None
        for row in self.database.records(self.database.table("CUPTI_ACTIVITY_KIND_CONTEXT")):
            context, device = row.get("contextId"), row.get("deviceId")
            if isinstance(context, int) and isinstance(device, int):
                self._devices[context] = device

    def all(self, quality: Quality) -> Iterator[Batch]:
        """Every row; where two begin and end together, what is outside comes first."""
        yield from self.markers(quality)
        yield from self.calls(RUNTIME, "RUNTIME", RUNTIME_CALLS)
        yield from self.calls(DRIVER, "DRIVER", DRIVER_CALLS)
        for rows in (self.overhead, self.kernels, self.copies, self.sets, self.syncs, self.labels):
            yield from rows()

    def markers(self, quality: Quality) -> Iterator[Batch]:
        """NVTX ranges and marks."""
        table = self._open(MARKER)
        is_start, is_end = f"{table['flags']} & {_STARTS} <> 0", f"{table['flags']} & {_ENDS} <> 0"
        marker = {
            "time": (table["timestamp"], INT64),
            "id": (table["id"], INT64),
            "kind": (f"coalesce({table['objectKind']}, {_THREAD})", INT64),
            "object": _object(table),
        }
        named_marker = marker | {
            "name": (table["name"], INT64),
            "domain": (f"nullif({table['domain']}, 0)", INT64),
        }
        starts = self.database.whole(table, named_marker, f"WHERE {is_start}")
        ends = self.database.whole(table, marker, f"WHERE {is_end} AND NOT {is_start}")
        yield from self._paired(starts, ends, quality)
        instant = f"WHERE coalesce(NOT {is_start} AND NOT {is_end}, TRUE)"
        for raw in self.database.batches(table, named_marker, instant):
            columns = self._marker(raw)
            category = {"category": constant("MARKER", len(raw["time"]))}
            yield {Table.INSTANTS: marks(raw["time"], "i", columns | category)}

    def _paired(self, starts: _Columns, ends: _Columns, quality: Quality) -> Iterator[Batch]:
        """Each start with the end that shares its id; the n-th of an id belongs to the n-th."""
        start, end = _match(starts, ends, self.connection)
        self.ends += len(start)
        lone = np.ones(len(ends["time"]), np.bool_)
        lone[end] = False
        place = np.full(len(starts["time"]), -1, np.int64)
        place[start] = end
        at = pa.array(place, mask=place < 0)
        columns = self._marker(starts)
        ranges = nvtx.split(columns["name"])
        moves = pc.not_equal(_owner(starts), _owner(ends).take(at))
        yield {
            Table.EVENTS: slices(
                starts["time"],
                ends["time"].take(at),
                columns
                | {
                    "category": pc.if_else(ranges.is_op, "MARKER_OP", "MARKER"),
                    "name": ranges.name,
                    "sequence_nr": ranges.sequence_nr,
                    "external_id": ranges.external_id,
                    "input_dims": ranges.input_dims,
                    "scope": ranges.scope,
                    "is_async": pc.or_(pc.is_null(at), pc.fill_null(moves, fill_value=False)),
                    "args": nvtx.with_inputs(columns["args"], ranges.inputs),
                },
            )
        }
        if lone.any():
            quality.note("unmatched_end", int(lone.sum()))
            rest = filtered(ends, pa.array(lone))
            owners = self._owners(rest["kind"], rest["object"])
            category = {"category": constant("MARKER", len(rest["time"]))}
            yield {Table.INSTANTS: marks(rest["time"], "E", owners | category)}

    def _marker(self, raw: _Columns) -> _Columns:
        """Name, owner and arguments of markers."""
        domain = self.text(raw["domain"])
        texts = domain.dictionary_encode()
        members = [json.dumps({"domain": text}) for text in texts.dictionary.to_pylist()]
        args = pa.array(members, TEXT).take(texts.indices)
        return self._owners(raw["kind"], raw["object"]) | {
            "name": self.text(raw["name"]),
            "args": args,
        }

    def calls(self, name: str, category: str, known: MappingProxyType[int, str]) -> Iterator[Batch]:
        """Calls of the runtime or the driver, whatever their number is."""
        table = self._open(name)
        own = ("_id_", "start", "end", "processId", "threadId", "correlationId", "returnValue")
        returned = {"returnValue": f"nullif({table['returnValue']}, 0)"}
        for raw in self.database.batches(
            table,
            {
                **_times(table),
                "pid": (table["processId"], INT64),
                "tid": (f"{table['threadId']} & 4294967295", INT64),
                "correlation": (table["correlationId"], INT64),
                "call": (table["cbid"], INT64),
                "args": (table.json(*own, **returned), TEXT),
            },
        ):
            text = named(
                lambda c: known.get(c, f"{category.lower()} call {c}") if c >= 0 else None,
                raw["call"],
            )
            owners = {"pid": _numbers(raw["pid"]), "tid": _numbers(raw["tid"])}
            yield _batch(raw, raw | owners | {"name": text}, category)

    def overhead(self) -> Iterator[Batch]:
        """What the profiler and the compiler of the driver cost."""
        table = self._open(OVERHEAD)
        for raw in self.database.batches(
            table,
            {
                **_times(table),
                "kind": (table["objectKind"], INT64),
                "object": _object(table),
                "overhead": (table["overheadKind"], INT64),
            },
        ):
            owners = self._owners(raw["kind"], raw["object"])
            yield _batch(raw, owners | {"name": named(_overhead_name, raw["overhead"])}, "OVERHEAD")

    def kernels(self) -> Iterator[Batch]:
        """Kernels, concurrent, serial, and launched by kernels."""
        for name, category in KERNELS.items():
            table = self._open(name)
            for raw in self._on_device(table, {"name": (table["name"], INT64)}, "name"):
                yield _batch(raw, raw | {"name": readable(self.text(raw["name"]))}, category)

    def copies(self) -> Iterator[Batch]:
        """Copies to, from and between devices."""
        for name, category in MEMCPY.items():
            table = self._open(name)
            for raw in self._on_device(
                table,
                {
                    "kind": (table["copyKind"], INT64),
                    "source": (table["srcKind"], INT64),
                    "target": (table["dstKind"], INT64),
                    "bytes": (table["bytes"], INT64),
                },
            ):
                text = named(copy_name, raw["kind"], raw["source"], raw["target"])
                yield _batch(raw, raw | {"name": text}, category)

    def sets(self) -> Iterator[Batch]:
        """Memory that is set."""
        table = self._open(MEMSET)
        asked = {"kind": (table["memoryKind"], INT64), "bytes": (table["bytes"], INT64)}
        for raw in self._on_device(table, asked):
            yield _batch(raw, raw | {"name": named(set_name, raw["kind"])}, "MEMSET")

    def syncs(self) -> Iterator[Batch]:
        """Waits for events, streams and contexts."""
        table = self._open(SYNC)
        for raw in self._on_device(table, {"kind": (table["type"], INT64)}):
            yield _batch(raw, raw | {"name": named(sync_name, raw["kind"])}, "SYNCHRONIZATION")

    def labels(self) -> Iterator[Batch]:
        """Names of processes and threads; those of other things only describe."""
        table = self._open(NAME)
        for raw in self.database.batches(
            table,
            {
                "kind": (table["objectKind"], INT64),
                "object": _object(table),
                "name": (table["name"], INT64),
            },
        ):
            label = named(_LABELS.get, raw["kind"])
            owners = self._owners(raw["kind"], raw["object"])
            texts = self.text(raw["name"]).to_pylist()
            args = [None if text is None else json.dumps({"name": text}) for text in texts]
            columns = owners | {"name": label, "args": pa.array(args, TEXT)}
            known = pc.is_valid(label)
            self.described += int(pc.sum(pc.invert(known)).as_py() or 0)
            yield {Table.THREADS: conform(Table.THREADS, filtered(columns, known))}

    def _on_device(self, table: SourceTable, more: Asked, *without: str) -> Iterator[_Columns]:
        """Columns that the tables of device slices share."""
        correlation = table.first("correlationId", "runtimeCorrelationId")
        own = ("_id_", "start", "end", "deviceId", "streamId", "correlationId", *without)
        for raw in self.database.batches(
            table,
            {
                **_times(table),
                "device": (table["deviceId"], INT64),
                "context": (table["contextId"], INT64),
                "stream": (table["streamId"], INT64),
                "correlation": (correlation, INT64),
                "args": (table.json(*own), TEXT),
                **more,
            },
        ):
            device = pc.coalesce(raw["device"], self._device_of(raw["context"]))
            rows = len(device)
            pid = constant(self._process, rows)
            yield raw | {"device": device, "pid": pid, "tid": device_lines(device, raw["stream"])}

    def _device_of(self, context: pa.Array) -> pa.Array:
        encoded = context.dictionary_encode()
        devices = [self._devices.get(number) for number in encoded.dictionary.to_pylist()]
        return pa.array(devices, INT64).take(encoded.indices)

    def _owners(self, kind: pa.Array, object_: pa.Array) -> _Columns:
        """Process and thread of an object; an object of another kind has neither."""
        pid = pc.if_else(pc.less_equal(kind, _THREAD), pc.bit_wise_and(object_, 0xFFFFFFFF), None)
        tid = pc.if_else(pc.equal(kind, _THREAD), pc.shift_right(object_, 32), None)
        return {"pid": _numbers(pid), "tid": _numbers(pc.bit_wise_and(tid, 0xFFFFFFFF))}

    def _open(self, name: str) -> SourceTable:
        self.loaded.add(name)
        return self.database.table(name)

    def text(self, ids: pa.Array) -> pa.Array:
        """Text of an id; the texts are read when the first one is asked for."""
        if ids.null_count == len(ids):
            return pa.nulls(len(ids), TEXT)
        if self._strings is None:
            table = self.database.table(_STRINGS)
            asked = {"id": (table["_id_"], INT64), "text": (table["value"], TEXT)}
            strings = self.database.whole(table, asked)
            is_name = pc.not_equal(strings["text"], _NOTHING)
            self._strings = strings | {"text": pc.if_else(is_name, strings["text"], None)}
        return lookup(ids, self._strings)


def _object(table: SourceTable) -> tuple[str, pa.DataType]:
    """Process and thread of a row, from the first bytes of the id of its object."""
    id_ = table["objectId"]
    whole = f"CASE WHEN typeof({id_}) = 'blob' AND length({id_}) >= {_BYTES} THEN {id_} END"
    first = f"substr({whole}, 1, {_BYTES})"
    return (first, LITTLE_ENDIAN)


def _owner(rows: _Columns) -> pa.Array:
    """Thread of a row in one number; the process alone where it belongs to that."""
    process = pc.bit_wise_and(rows["object"], 0xFFFFFFFF)
    return pc.if_else(pc.equal(rows["kind"], _THREAD), rows["object"], process)


def _times(table: SourceTable) -> Asked:
    """Start and end; two zeros say that nobody measured them."""
    start, end = table["start"], table["end"]
    return {
        name: (f"CASE WHEN {start} <> 0 OR {end} <> 0 THEN {time} END", INT64)
        for name, time in (("start", start), ("end", end))
    }


def _batch(raw: _Columns, columns: _Columns, category: str) -> Batch:
    named_ = columns | {"category": constant(category, len(raw["start"]))}
    return {Table.EVENTS: slices(raw["start"], raw["end"], named_)}


def _numbers(values: pa.Array) -> pa.Array:
    return values.cast(TEXT)


def _overhead_name(kind: int) -> str:
    if kind == _COMPILER:
        return "Driver Compiler"
    high, low = divmod(max(kind, 0), 1 << 16)
    return _OVERHEADS[high] if not low and high < len(_OVERHEADS) else _OVERHEADS[0]


def _match(
    starts: _Columns, ends: _Columns, connection: duckdb.DuckDBPyConnection
) -> tuple[_Ints, _Ints]:
    """Rows of starts and of ends that belong together, by process and id, in order of time."""
    for name, rows in (("starts", starts), ("ends", ends)):
        connection.register(name, pa.table({key: rows[key] for key in ("object", "id", "time")}))
    found = connection.sql(_PAIRS).fetchnumpy()
    for name in ("starts", "ends"):
        connection.unregister(name)
    first, second = (np.asarray(found[name], np.int64) for name in ("first", "second"))
    return first, second


def _header(database: Database, rows: Rows, names: Callable[[pa.Array], pa.Array]) -> Header:
    first = earliest(rows)
    version = database.records(database.table("Version"))
    devices = database.records(database.table("CUPTI_ACTIVITY_KIND_DEVICE"))
    for device in devices:
        if isinstance(device.get("name"), int):
            device["name"] = names(pa.array([device["name"]], INT64))[0].as_py()
    return Header(
        format="nvprof",
        clock="utc" if first is not None and first >= UTC_NS else "relative",
        device_type="CUDA" if has_devices([rows]) else None,
        device_properties=json.dumps([_device(row) for row in devices]) if devices else None,
        metadata=json.dumps(version[0]) if version else None,
    )


def _device(row: dict[str, Any]) -> dict[str, Any]:
    """Properties of a device by Kineto's names, then the others by the source's."""
    named_ = {kineto: row[own] for own, kineto in _DEVICE_KEYS.items() if own in row}
    return named_ | {k: v for k, v in row.items() if k not in _DEVICE_KEYS and k != "_id_"}
