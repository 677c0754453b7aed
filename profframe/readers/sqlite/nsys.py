"""Nsight Systems exports in SQLite, of 2020 and later.

Every table is optional and has other columns in other versions. A serialised id holds machine,
process (bits 24 to 47) and thread (bits 0 to 23); text is in ``StringIds``. Correlation ids are
unique in a process, so a slice on a device keeps the process that it belongs to.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.assembly import LONGEST_NS, assemble
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
from profframe.readers.sqlite.database import Asked, Database, SourceTable
from profframe.schema import BOOL, INT64, TEXT
from profframe.system.disk_tables import Spool

NVTX: Final = "NVTX_EVENTS"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
SYNC: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
GRAPH: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
OVERHEAD: Final = ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD")
PROCESSES: Final = "PROCESSES"
THREADS: Final = "ThreadNames"

_STRINGS: Final = "StringIds"
_ITS_OWN: Final = (
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "ThreadNames",
    "ProcessStreams",
    "OSRT_API",
)
_ITS_KINDS: Final = ("NVTX_", "TARGET_INFO_")
"""Tables that only Nsight Systems writes, and how others of them begin."""
_ACTIVITY: Final = "CUPTI_ACTIVITY_KIND_"
_DESCRIBES: Final = re.compile(
    r"StringIds|ThreadNames|PROCESSES|ProcessStreams|UnwindMethodType|NVTX_PAYLOAD_SCHEMAS"
    r"|NVTX_PAYLOAD_SCHEMA_ENTRIES|NVTX_PAYLOAD_ENUMS|NVTX_PAYLOAD_ENUM_ENTRIES|NVTX_SCOPES"
    r"|(ENUM|TARGET_INFO|META_DATA|ANALYSIS|EXPORT_META)_\w+"
)
"""Tables that hold no events."""
_MARKS: Final = (34, 65)
_NAMES: Final = (33, 39, 64, 72, 73, 74, 75, 76, 97, 98, 99)
"""NVTX event types that give a name to something."""
_THREAD_NAME: Final = 39
_DOMAIN: Final = 75
_STARTED: Final = (37, 60, 68, 71)
"""NVTX event types of ranges that may end on another thread."""
_DRIVER: Final = (1, 13)
"""Event classes of driver calls, EGL included; the others are of the runtime."""
_MACHINE: Final = 48
_PID: Final = 24
_ID: Final = 0xFFFFFF
"""Where machine, process and thread are in a serialised id."""
_DEVICE_KEYS: Final = {
    "cuDevice": "id",
    "name": "name",
    "totalMemory": "totalGlobalMem",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "maxThreadsPerBlock": "maxThreadsPerBlock",
    "maxRegistersPerBlock": "regsPerBlock",
    "threadsPerWarp": "warpSize",
    "maxShmemPerBlock": "sharedMemPerBlock",
    "smCount": "numSms",
    "maxRegistersPerSm": "regsPerMultiprocessor",
    "maxShmemPerBlockOptin": "sharedMemPerBlockOptin",
    "maxShmemPerSm": "sharedMemPerMultiprocessor",
}
"""What Kineto calls the properties of a device."""

_Columns = dict[str, pa.Array]


def knows(database: Database) -> bool:
    """Whether Nsight Systems wrote the database: by its tables, or by its serialised ids."""
    activities = [t for name, t in database.tables.items() if name.startswith(_ACTIVITY)]
    return (
        any(name in _ITS_OWN or name.startswith(_ITS_KINDS) for name in database.tables)
        or (_STRINGS in database.tables and bool(activities))
        or any("globalTid" in table or "globalPid" in table for table in activities)
    )


def read(database: Database, spool: Spool | None = None) -> RawTrace:
    """Read one export.

    Raises
    ------
    SourceError
        When the database is damaged; the message names the file and the table.
    """
    rows = _Rows(database)
    batches = itertools.chain(
        rows.ranges(),
        rows.calls(),
        rows.overhead(),
        rows.kernels(),
        rows.copies(),
        rows.sets(),
        rows.syncs(),
        rows.graphs(),
        rows.labels(),
    )
    found = gather(batches, spool)
    quality = Quality()
    accounted = note_leftovers(
        database, quality, rows.loaded, lambda name: bool(_DESCRIBES.fullmatch(name))
    )
    accounted["metadata"] = accounted.get("metadata", 0) + rows.described
    with duckdb.connect(config={"threads": 1}) as connection:
        header = _header(database, found)
        return assemble(found, header, quality, 0, connection, elsewhere=accounted)


@dataclass(slots=True)
class _Rows:
    """Batches of rows, table by table; ``loaded`` are the tables that were read."""

    database: Database
    loaded: set[str] = field(default_factory=set)
    described: int = 0
    _strings: _Columns | None = None
    _several_machines: bool = False

    def __post_init__(self) -> None:
        """Whether the ids are of several machines."""
        machines: set[int] = set()
        for name, column in ((PROCESSES, "globalPid"), (THREADS, "globalTid")):
            table = self.database.table(name)
            asked = {"machine": (f"DISTINCT {table[column]} >> {_MACHINE}", INT64)}
            for raw in self.database.batches(table, asked):
                machines.update(raw["machine"].drop_null().to_pylist())
        self._several_machines = len(machines) > 1

    def ranges(self) -> Iterator[Batch]:
        """NVTX: ranges, marks, and names of threads."""
        table = self._open(NVTX)
        domains = self._domains(table)
        own = ("start", "end", "eventType", "text", "textId", "globalTid", "endGlobalTid")
        args = table.json(*own, **_zero_is_none(table, "domainId", "category"))
        asked = {
            "start": (table["start"], INT64),
            "end": (table["end"], INT64),
            "type": (table["eventType"], INT64),
            "text": (table["text"], TEXT),
            "text_id": (table["textId"], INT64),
            "owner": (table["globalTid"], INT64),
            "ended_by": (table["endGlobalTid"], INT64),
            "domain": (table["domainId"], INT64),
            "args": (args, TEXT),
        }
        for raw in self.database.batches(table, asked):
            columns = raw | {"text": pc.coalesce(raw["text"], self._text(raw["text_id"]))}
            columns |= self._owners(raw["owner"])
            columns["args"] = _with_domain(columns["args"], raw["domain"], domains)
            kind = raw["type"]
            is_name, is_mark = _is_in(kind, _NAMES), _is_in(kind, _MARKS)
            is_range = pc.invert(pc.or_(is_name, is_mark))
            names_thread = pc.fill_null(pc.equal(kind, _THREAD_NAME), fill_value=False)
            self.described += int(pc.sum(pc.and_not(is_name, names_thread)).as_py() or 0)
            yield {
                Table.EVENTS: _range_rows(filtered(columns, is_range)),
                Table.INSTANTS: _mark_rows(filtered(columns, is_mark)),
                Table.THREADS: _label_rows("thread_name", filtered(columns, names_thread)),
            }

    def calls(self) -> Iterator[Batch]:
        """Calls of the runtime and the driver."""
        table = self._open(RUNTIME)
        own = ("start", "end", "correlationId", "globalTid", "nameId", "eventClass")
        args = table.json(*own, **_zero_is_none(table, "returnValue"))
        asked = {"event_class": (table["eventClass"], INT64), "args": (args, TEXT)}
        for raw in self._slices(table, asked):
            is_driver = _is_in(raw["event_class"], _DRIVER)
            yield _batch(raw, pc.if_else(is_driver, "DRIVER", "RUNTIME"))

    def overhead(self) -> Iterator[Batch]:
        """What the profiler and the driver cost besides."""
        for name in OVERHEAD:
            table = self._open(name)
            args = table.json("start", "end", "correlationId", "globalTid", "nameId", "eventClass")
            for raw in self._slices(table, {"args": (args, TEXT)}):
                yield _batch(raw, "OVERHEAD")

    def kernels(self) -> Iterator[Batch]:
        """Kernels, those of graphs node by node too."""
        table = self._open(KERNEL)
        names = ("demangledName", "shortName", "mangledName")
        for raw in self._on_device(table, {name: (table[name], INT64) for name in names}, *names):
            texts = {name: self._text(raw.pop(name)) for name in names}
            name = pc.coalesce(texts["demangledName"], texts["mangledName"], texts["shortName"])
            yield _batch(raw | {"name": readable(name)}, "KERNEL")

    def copies(self) -> Iterator[Batch]:
        """Copies to, from and between devices."""
        table = self._open(MEMCPY)
        for raw in self._on_device(
            table,
            {
                "kind": (table["copyKind"], INT64),
                "source": (f"{table['srcKind']} + 1", INT64),
                "target": (f"{table['dstKind']} + 1", INT64),
                "bytes": (table["bytes"], INT64),
            },
        ):
            name = named(copy_name, raw["kind"], raw["source"], raw["target"])
            yield _batch(raw | {"name": name}, "MEMCPY")

    def sets(self) -> Iterator[Batch]:
        """Memory that is set."""
        table = self._open(MEMSET)
        asked = {"kind": (f"{table['memKind']} + 1", INT64), "bytes": (table["bytes"], INT64)}
        for raw in self._on_device(table, asked):
            name = named(set_name, raw["kind"])
            yield _batch(raw | {"name": name}, "MEMSET")

    def syncs(self) -> Iterator[Batch]:
        """Waits for events, streams and contexts."""
        table = self._open(SYNC)
        for raw in self._on_device(table, {"kind": (table["syncType"], INT64)}):
            name = named(sync_name, raw["kind"])
            yield _batch(raw | {"name": name}, "SYNCHRONIZATION")

    def graphs(self) -> Iterator[Batch]:
        """Graphs that were traced as a whole."""
        table = self._open(GRAPH)
        for raw in self._on_device(table, {"graph": (table["graphId"], INT64)}):
            name = named(lambda g: f"graph {g}" if g >= 0 else "graph", raw["graph"])
            yield _batch(raw | {"name": name}, "GRAPH_TRACE")

    def labels(self) -> Iterator[Batch]:
        """Names of processes and threads."""
        table = self._open(PROCESSES)
        columns = {"owner": (table["globalPid"], INT64), "text": (table["name"], TEXT)}
        for raw in self.database.batches(table, columns):
            owners = self._owners(raw["owner"])
            rows = {"pid": owners["pid"], "tid": constant(None, len(raw["text"]))}
            yield {Table.THREADS: _label_rows("process_name", raw | rows)}
        table = self._open(THREADS)
        columns = {"owner": (table["globalTid"], INT64), "id": (table["nameId"], INT64)}
        for raw in self.database.batches(table, columns):
            text = {"text": self._text(raw["id"])}
            yield {Table.THREADS: _label_rows("thread_name", self._owners(raw["owner"]) | text)}

    def _open(self, name: str) -> SourceTable:
        self.loaded.add(name)
        return self.database.table(name)

    def _slices(self, table: SourceTable, more: Asked) -> Iterator[_Columns]:
        """Columns that the tables of host slices share."""
        for raw in self.database.batches(
            table,
            {
                "start": (table["start"], INT64),
                "end": (table["end"], INT64),
                "owner": (table["globalTid"], INT64),
                "name": (table["nameId"], INT64),
                "correlation": (table["correlationId"], INT64),
                **more,
            },
        ):
            columns = raw | self._owners(raw["owner"])
            yield columns | {"name": self._text(raw["name"])}

    def _on_device(self, table: SourceTable, more: Asked, *without: str) -> Iterator[_Columns]:
        """Columns that the tables of device slices share."""
        own = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId", *without)
        for raw in self.database.batches(
            table,
            {
                "start": (table["start"], INT64),
                "end": (table["end"], INT64),
                "owner": (table["globalPid"], INT64),
                "device": (table["deviceId"], INT64),
                "stream": (table["streamId"], INT64),
                "correlation": (table["correlationId"], INT64),
                "args": (table.json(*own), TEXT),
                **more,
            },
        ):
            columns = raw | self._owners(raw["owner"])
            columns["tid"] = device_lines(raw["device"], raw["stream"])
            yield columns

    def _owners(self, owner: pa.Array) -> _Columns:
        """Process and thread of a serialised id; the machine too, where there are several."""
        encoded = owner.dictionary_encode()
        distinct: list[int] = encoded.dictionary.to_pylist()
        machine = [f"{v >> _MACHINE}:" if self._several_machines else "" for v in distinct]
        pids = [f"{m}{v >> _PID & _ID}" for m, v in zip(machine, distinct, strict=True)]
        tids = [str(v & _ID) for v in distinct]
        return {
            "pid": pa.array(pids, TEXT).take(encoded.indices),
            "tid": pa.array(tids, TEXT).take(encoded.indices),
        }

    def _text(self, ids: pa.Array) -> pa.Array:
        """Text of an id; the texts are read when the first one is asked for."""
        if ids.null_count == len(ids):
            return pa.nulls(len(ids), TEXT)
        if self._strings is None:
            table = self.database.table(_STRINGS)
            self._strings = self.database.whole(
                table,
                {
                    "id": (table["id"], INT64),
                    "text": (table["value"], TEXT),
                },
            )
        return lookup(ids, self._strings)

    def _domains(self, table: SourceTable) -> _Columns:
        """Names of NVTX domains, by their number."""
        columns = {
            "id": (table["domainId"], INT64),
            "text": (table["text"], TEXT),
            "text_id": (table["textId"], INT64),
        }
        where = f"WHERE {table['eventType']} = {_DOMAIN}"
        rows = self.database.whole(table, columns, where)
        return {"id": rows["id"], "text": pc.coalesce(rows["text"], self._text(rows["text_id"]))}


def _batch(columns: _Columns, category: str | pa.Array) -> Batch:
    if isinstance(category, str):
        category = constant(category, len(columns["start"]))
    named_ = columns | {"category": category}
    return {Table.EVENTS: slices(columns["start"], columns["end"], named_)}


def _zero_is_none(table: SourceTable, *columns: str) -> dict[str, str]:
    """Members of the arguments that say nothing where they are 0."""
    return {name: f"nullif({table[name]}, 0)" for name in columns if name in table}


def _is_in(codes: pa.Array, values: tuple[int, ...]) -> pa.Array:
    return pc.is_in(codes, value_set=pa.array(values, INT64))


def _with_domain(args: pa.Array, domain: pa.Array, domains: _Columns) -> pa.Array:
    """Arguments with the name of the domain."""
    if not len(domains["id"]):
        return args
    texts = [None if t is None else json.dumps(t) for t in domains["text"].to_pylist()]
    name = lookup(domain, {"id": domains["id"], "text": pa.array(texts, TEXT)})
    member = pc.binary_join_element_wise('{"domain":', name, "")
    rest = pc.binary_join_element_wise(",", pc.utf8_slice_codeunits(args, 1), "")
    whole = pc.binary_join_element_wise(member, pc.fill_null(rest, "}"), "")
    return pc.if_else(pc.is_valid(name), whole, args)


def _range_rows(columns: _Columns) -> pa.Table:
    ranges = nvtx.split(columns["text"])
    unfinished = pc.is_null(columns["end"])
    moves = pc.not_equal(columns["ended_by"], columns["owner"])
    moves = pc.if_else(_is_in(columns["type"], _STARTED), moves, pa.scalar(value=False, type=BOOL))
    return slices(
        columns["start"],
        columns["end"],
        {
            "category": pc.if_else(ranges.is_op, "NVTX_OP", "NVTX"),
            "name": ranges.name,
            "pid": columns["pid"],
            "tid": columns["tid"],
            "sequence_nr": ranges.sequence_nr,
            "external_id": ranges.external_id,
            "input_dims": ranges.input_dims,
            "scope": ranges.scope,
            "is_async": pc.if_else(unfinished, pa.scalar(value=True, type=BOOL), moves),
            "args": nvtx.with_inputs(columns["args"], ranges.inputs),
        },
    )


def _mark_rows(columns: _Columns) -> pa.Table:
    shared = {name: columns[name] for name in ("pid", "tid", "args")}
    count = len(columns["start"])
    more = {
        "category": constant("NVTX", count),
        "name": columns["text"],
        "scope": constant("t", count),
    }
    return marks(columns["start"], "i", shared | more)


def _label_rows(label: str, columns: _Columns) -> pa.Table:
    texts = columns["text"].to_pylist()
    args = [None if text is None else json.dumps({"name": text}) for text in texts]
    return conform(
        Table.THREADS,
        {
            "name": constant(label, len(texts)),
            "pid": columns["pid"],
            "tid": columns["tid"],
            "args": pa.array(args, TEXT),
        },
    )


def _header(database: Database, rows: Rows) -> Header:
    exported = _pairs(database, "META_DATA_EXPORT") | _pairs(database, "EXPORT_META_DATA")
    first = earliest(rows)
    base_ns = None
    session = database.records(database.table("TARGET_INFO_SESSION_START_TIME"))
    is_utc = first is not None and first >= UTC_NS
    if session and not is_utc and type(utc := session[0].get("utcEpochNs")) is int:
        base = utc - _integer(exported.get("EXPORT_PARAM_TIME_SHIFT"))
        base_ns = base if abs(base) < LONGEST_NS else None
    devices = [_device(row) for row in database.records(database.table("TARGET_INFO_GPU"))]
    metadata = {
        "export": exported,
        "capture": _pairs(database, "META_DATA_CAPTURE"),
        "session": session,
        "analysis": database.records(database.table("ANALYSIS_DETAILS")),
    }
    metadata = {name: value for name, value in metadata.items() if value}
    return Header(
        format="nsys",
        clock="utc" if is_utc or base_ns is not None else "relative",
        base_ns=base_ns,
        device_type="CUDA" if has_devices([rows]) else None,
        device_properties=json.dumps(devices) if devices else None,
        metadata=json.dumps(metadata) if metadata else None,
    )


def _pairs(database: Database, name: str) -> dict[str, Any]:
    return {
        str(row.get("name")): row.get("value") for row in database.records(database.table(name))
    }


def _integer(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0


def _device(row: dict[str, Any]) -> dict[str, Any]:
    """Properties of a device by Kineto's names, then the others by the source's."""
    ordinal = row.get("cuDevice", row.get("id"))
    named_ = {kineto: row[own] for own, kineto in _DEVICE_KEYS.items() if own in row}
    rest = {name: value for name, value in row.items() if name not in _DEVICE_KEYS}
    return {"id": ordinal, **named_, **{k: v for k, v in rest.items() if k != "id"}}
