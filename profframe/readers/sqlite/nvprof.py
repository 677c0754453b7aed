"""Databases that ``nvprof -o`` writes (CUPTI's activities), of schema versions 8 to 26.

There is a table for each kind of activity; each may be missing or empty. A marker is two rows with
the same ``id``; its thread is in a binary ``objectId``. Names are in ``StringTable``, mangled. CUDA
calls have numbers; the most important ones are named here.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.row_tables import Batch, Header, RawTrace
from profframe.readers.sqlite.activities import (
    PREFIX,
    Activities,
    Activity,
    Columns,
    Expressions,
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
    names_by_code,
    set_name,
    sync_name,
)
from profframe.readers.sqlite.sqlite_file import LITTLE_ENDIAN, SourceTable, SqliteFile
from profframe.schema import INT64, TEXT
from profframe.system.disk_tables import Spool

MARKER: Final = f"{PREFIX}MARKER"
OVERHEAD: Final = f"{PREFIX}OVERHEAD"
NAME: Final = f"{PREFIX}NAME"
CALLS: Final = MappingProxyType({"RUNTIME": RUNTIME_CALLS, "DRIVER": DRIVER_CALLS})
"""Tables of calls, and the names of calls by number."""

_STARTS: Final = 2
_ENDS: Final = 4
"""Flags of a marker; without both it is an instant."""
_PROCESS: Final = 1
_THREAD: Final = 2
"""Kinds of objects that markers, names and overhead belong to."""
_LABELS: Final = MappingProxyType({_PROCESS: "process_name", _THREAD: "thread_name"})
_BYTES: Final = 8
"""Bytes of an object's id with process and thread."""
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
"""Kineto's names of device properties."""

_TIMES: Final = MappingProxyType(
    {
        name: f"CASE WHEN {{start}} <> 0 OR {{end}} <> 0 THEN {{{name}}} END"
        for name in ("start", "end")
    }
)
"""Start and end; two zeros mean not measured."""
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


def knows(database: SqliteFile) -> bool:
    """Whether the database has activities of CUDA; ask the reader of Nsight Systems first."""
    return any(name.startswith(PREFIX) for name in database.tables)


def read(database: SqliteFile, spool: Spool | None = None) -> RawTrace:
    """Read one database.

    Raises
    ------
    SourceError
        The database is damaged; the message names the file and the table.
    """
    return _Profile.read(database, spool)


@dataclass(slots=True)
class _Profile(Activities):
    """A database of nvprof, table by table."""

    STRINGS: ClassVar = "StringTable"
    STRING: ClassVar = ("{_id_}", "nullif({value}, '-- null --')")
    SHARED: ClassVar[Expressions] = {
        **_TIMES,
        "device": "{deviceId}",
        "context": "{contextId}",
        "stream": "{streamId}",
        "correlation": "coalesce({correlationId}, {runtimeCorrelationId})",
    }
    EXCLUDED: ClassVar = ("_id_", "start", "end", "deviceId", "streamId", "correlationId")
    ACTIVITIES: ClassVar = (
        *(
            Activity(kernel, names=("name",), is_launched=True)
            for kernel in ("CONCURRENT_KERNEL", "KERNEL", "CDP_KERNEL")
        ),
        *(
            Activity(
                copy,
                codes=("{copyKind}", "{srcKind}", "{dstKind}"),
                title=copy_name,
                has_bytes=True,
            )
            for copy in ("MEMCPY", "MEMCPY2")
        ),
        Activity("MEMSET", codes=("{memoryKind}",), title=set_name, has_bytes=True),
        Activity("SYNCHRONIZATION", codes=("{type}",), title=sync_name),
    )
    DESCRIBE: ClassVar = re.compile(
        r"StringTable|Version|CUPTI_ACTIVITY_KIND_(DEVICE|DEVICE_ATTRIBUTE|CONTEXT|STREAM|NVLINK"
        r"|PCIE|SOURCE_LOCATOR|FUNCTION|MODULE|INSTRUCTION_CORRELATION)"
    )

    _process: str | None = None
    _devices: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the process, if there is only one, and the device of each context."""
        pids: set[int] = set()
        for name in CALLS:
            table = self.database.table(PREFIX + name)
            selection = integers(table, {"pid": "DISTINCT {processId}"})
            pids.update(self.database.read_all(table, selection)["pid"].to_pylist())
        pids.discard(None)
        self._process = str(*pids) if len(pids) == 1 else None
        for row in self.database.records(self.database.table(f"{PREFIX}CONTEXT")):
            context, device = row.get("contextId"), row.get("deviceId")
            if isinstance(context, int) and isinstance(device, int):
                self._devices[context] = device

    def batches(self) -> Iterator[Batch]:
        """All rows; if two have equal times, the outer one comes first."""
        calls = itertools.chain.from_iterable(map(self._calls, CALLS))
        on_devices = itertools.chain.from_iterable(map(self.slices, self.ACTIVITIES))
        return itertools.chain(self._markers(), calls, self._overhead(), on_devices, self._labels())

    def location(self, raw: Columns) -> Columns:
        """The only process, and the device, from the context if it is NULL."""
        device = pc.coalesce(raw["device"], self._device_of(raw["context"]))
        return {"device": device, "pid": constant(self._process, len(device))}

    def header(self, *, is_utc: bool) -> Header:
        """The devices and the version of the database."""
        version = self.database.records(self.database.table("Version"))
        devices = self.database.records(self.database.table(f"{PREFIX}DEVICE"))
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
        starts = self.database.read_all(table, named_marker, f"WHERE {is_start}")
        ends = self.database.read_all(table, marker, f"WHERE {is_end} AND NOT {is_start}")
        yield from self._paired(starts, ends)
        instant = f"WHERE coalesce(NOT {is_start} AND NOT {is_end}, TRUE)"
        for raw in self.database.batches(table, named_marker, instant):
            yield marks({"start": raw["time"]} | self._marker(raw), "MARKER", "i")

    def _paired(self, starts: Columns, ends: Columns) -> Iterator[Batch]:
        """Pair each start with the end of its id, the n-th with the n-th."""
        start, end = _match(starts, ends, self.connection)
        self.accounted["events"] += len(start)
        lone = np.ones(len(ends["time"]), np.bool_)
        lone[end] = False
        ends_by_start = np.full(len(starts["time"]), -1, np.int64)
        ends_by_start[start] = end
        end_row = pa.array(ends_by_start, mask=ends_by_start < 0)
        columns = {"start": starts["time"], "end": ends["time"].take(end_row)} | self._marker(
            starts
        )
        changes_thread = pc.not_equal(_owner(starts), _owner(ends).take(end_row))
        is_async = pc.or_(pc.is_null(end_row), pc.fill_null(changes_thread, fill_value=False))
        yield ranges(columns, "MARKER", is_async)
        if lone.any():
            self.quality.note("unmatched_end", int(lone.sum()))
            lone_ends = filtered(ends, pa.array(lone))
            yield marks({"start": lone_ends["time"]} | _owners(lone_ends), "MARKER", "E")

    def _marker(self, raw: Columns) -> Columns:
        """Name, owner and arguments of markers."""
        domain = self.text(raw["domain"])
        texts = domain.dictionary_encode()
        members = [json.dumps({"domain": text}) for text in texts.dictionary.to_pylist()]
        args = pa.array(members, TEXT).take(texts.indices)
        return _owners(raw) | {"name": self.text(raw["name"]), "args": args}

    def _calls(self, category: str) -> Iterator[Batch]:
        """Calls of the runtime or the driver, including unknown ones."""

        def title(call: int) -> str | None:
            unknown = f"{category.lower()} call {call}"
            return CALLS[category].get(call, unknown) if call >= 0 else None

        table = self.open(PREFIX + category)
        excluded = ("_id_", "start", "end", "processId", "threadId", "correlationId", "returnValue")
        replacements = {"returnValue": f"nullif({table['returnValue']}, 0)"}
        numbers = {
            **_TIMES,
            "pid": "{processId}",
            "tid": "{threadId} & 4294967295",
            "correlation": "{correlationId}",
            "call": "{cbid}",
        }
        selection = integers(table, numbers) | {
            "args": (table.json(*excluded, **replacements), TEXT)
        }
        for raw in self.database.batches(table, selection):
            owners = {"pid": raw["pid"].cast(TEXT), "tid": raw["tid"].cast(TEXT)}
            yield events(raw | owners | {"name": names_by_code(title, raw["call"])}, category)

    def _overhead(self) -> Iterator[Batch]:
        """Overhead of the profiler and of the driver's compiler."""
        table = self.open(OVERHEAD)
        numbers = {**_TIMES, "kind": "{objectKind}", "overhead": "{overheadKind}"}
        selection = integers(table, numbers) | _object(table)
        for raw in self.database.batches(table, selection):
            name = {"name": names_by_code(_overhead_name, raw["overhead"])}
            times = {"start": raw["start"], "end": raw["end"]}
            yield events(times | _owners(raw) | name, "OVERHEAD")

    def _labels(self) -> Iterator[Batch]:
        """Names of processes and threads; names of other objects are metadata."""
        table = self.open(NAME)
        selection = integers(table, {"kind": "{objectKind}", "name": "{name}"}) | _object(table)
        for raw in self.database.batches(table, selection):
            label = names_by_code(_LABELS.get, raw["kind"])
            is_label = pc.is_valid(label)
            self.accounted["metadata"] += int(pc.sum(pc.invert(is_label)).as_py() or 0)
            columns = filtered(_owners(raw) | {"text": self.text(raw["name"])}, is_label)
            yield labels(label.filter(is_label), columns)

    def _device_of(self, context: pa.Array) -> pa.Array:
        encoded = context.dictionary_encode()
        devices = [self._devices.get(number) for number in encoded.dictionary.to_pylist()]
        return pa.array(devices, INT64).take(encoded.indices)


def _object(table: SourceTable) -> dict[str, tuple[str, pa.DataType]]:
    """Process and thread of a row, from the first bytes of its object's id."""
    id_ = table["objectId"]
    blob = f"CASE WHEN typeof({id_}) = 'blob' AND length({id_}) >= {_BYTES} THEN {id_} END"
    prefix = f"substr({blob}, 1, {_BYTES})"
    return {"object": (prefix, LITTLE_ENDIAN)}


def _owners(rows: Columns) -> Columns:
    """Process and thread of each row's object; an object of another kind has neither."""
    kind, object_ = rows["kind"], rows["object"]
    pid = pc.if_else(pc.less_equal(kind, _THREAD), pc.bit_wise_and(object_, 0xFFFFFFFF), None)
    tid = pc.if_else(pc.equal(kind, _THREAD), pc.shift_right(object_, 32), None)
    return {"pid": pid.cast(TEXT), "tid": pc.bit_wise_and(tid, 0xFFFFFFFF).cast(TEXT)}


def _owner(rows: Columns) -> pa.Array:
    """Thread of a row as one number, or the process if it belongs to that."""
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
    """Rows of matching starts and ends, by process and id, in order of time."""
    for name, rows in (("starts", starts), ("ends", ends)):
        connection.register(name, pa.table({key: rows[key] for key in ("object", "id", "time")}))
    pairs = connection.sql(_PAIRS).fetchnumpy()
    connection.unregister("starts").unregister("ends")
    first, second = (np.asarray(pairs[name], np.int64) for name in ("first", "second"))
    return first, second
