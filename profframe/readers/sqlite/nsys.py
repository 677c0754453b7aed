"""Nsight Systems exports in SQLite, of 2020 and later.

Every table is optional, and its columns depend on the version. A serialised id holds machine,
process (bits 24 to 47) and thread (bits 0 to 23); text is in ``StringIds``. Correlation ids are
unique in a process, so a slice on a device keeps the process that it belongs to.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.assembly import LONGEST_NS
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
    lookup,
    marks,
    ranges,
    with_member,
)
from profframe.readers.sqlite.cupti import copy_name, set_name, sync_name
from profframe.readers.sqlite.sqlite_file import SourceTable, SqliteFile
from profframe.schema import INT64, TEXT
from profframe.system.disk_tables import Spool

NVTX: Final = "NVTX_EVENTS"
RUNTIME: Final = f"{PREFIX}RUNTIME"
OVERHEAD: Final = (f"{PREFIX}OVERHEAD", "PROFILER_OVERHEAD")
PROCESSES: Final = "PROCESSES"
THREADS: Final = "ThreadNames"

_OWN_TABLES: Final = (
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "ThreadNames",
    "ProcessStreams",
    "OSRT_API",
)
_OWN_PREFIXES: Final = ("NVTX_", "TARGET_INFO_")
"""Tables that only Nsight Systems writes, and prefixes of others."""
_CALL_COLUMNS: Final = ("start", "end", "correlationId", "globalTid", "nameId", "eventClass")
"""Columns of calls that are not arguments."""
_MARKS: Final = (34, 65)
_NAMES: Final = (33, 39, 64, 72, 73, 74, 75, 76, 97, 98, 99)
"""NVTX event types that name something."""
_THREAD_NAME: Final = 39
_DOMAIN: Final = 75
_ASYNC: Final = (37, 60, 68, 71)
"""NVTX event types of ranges that may end on another thread."""
_DRIVER: Final = (1, 13)
"""Event classes of driver calls, including EGL; others are runtime calls."""
_MACHINE: Final = 48
_PID: Final = 24
_ID: Final = 0xFFFFFF
"""Bits of machine, process and thread in a serialised id."""
_DEVICE_KEYS: Final = {
    "id": "id",
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
"""Kineto's names of device properties."""


def knows(database: SqliteFile) -> bool:
    """Whether Nsight Systems wrote the database: by its tables, or by its serialised ids."""
    activities = [t for name, t in database.tables.items() if name.startswith(PREFIX)]
    return (
        any(name in _OWN_TABLES or name.startswith(_OWN_PREFIXES) for name in database.tables)
        or (_Export.STRINGS in database.tables and bool(activities))
        or any("globalTid" in table or "globalPid" in table for table in activities)
    )


def read(database: SqliteFile, spool: Spool | None = None) -> RawTrace:
    """Read one export.

    Raises
    ------
    SourceError
        The database is damaged; the message names the file and the table.
    """
    return _Export.read(database, spool)


def _graph_name(graph: int) -> str:
    return f"graph {graph}" if graph >= 0 else "graph"


@dataclass(slots=True)
class _Export(Activities):
    """An export of Nsight Systems, table by table."""

    STRINGS: ClassVar = "StringIds"
    STRING: ClassVar = ("{id}", "{value}")
    SHARED: ClassVar[Expressions] = {
        "start": "{start}",
        "end": "{end}",
        "owner": "{globalPid}",
        "device": "{deviceId}",
        "stream": "{streamId}",
        "correlation": "{correlationId}",
        "graph_id": "nullif({graphId}, 0)",
        "graph_node_id": "nullif({graphNodeId}, 0)",
    }
    EXCLUDED: ClassVar = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
    ACTIVITIES: ClassVar = (
        Activity("KERNEL", names=("demangledName", "mangledName", "shortName"), is_launched=True),
        Activity(
            "MEMCPY",
            codes=("{copyKind}", "{srcKind} + 1", "{dstKind} + 1"),
            title=copy_name,
            has_bytes=True,
        ),
        Activity("MEMSET", codes=("{memKind} + 1",), title=set_name, has_bytes=True),
        Activity("SYNCHRONIZATION", codes=("{syncType}",), title=sync_name),
        Activity("GRAPH_TRACE", codes=("{graphId}",), title=_graph_name),
    )
    DESCRIBE: ClassVar = re.compile(
        r"StringIds|ThreadNames|PROCESSES|ProcessStreams|UnwindMethodType|NVTX_PAYLOAD_SCHEMAS"
        r"|NVTX_PAYLOAD_SCHEMA_ENTRIES|NVTX_PAYLOAD_ENUMS|NVTX_PAYLOAD_ENUM_ENTRIES|NVTX_SCOPES"
        r"|(ENUM|TARGET_INFO|META_DATA|ANALYSIS|EXPORT_META)_\w+"
    )

    _several_machines: bool = False

    def __post_init__(self) -> None:
        """Find out whether there are several machines."""
        machines: set[int] = set()
        for name, column in ((PROCESSES, "globalPid"), (THREADS, "globalTid")):
            table = self.database.table(name)
            selection = integers(table, {"machine": f"DISTINCT {{{column}}} >> {_MACHINE}"})
            machines.update(self.database.read_all(table, selection)["machine"].to_pylist())
        machines.discard(None)
        self._several_machines = len(machines) > 1

    def batches(self) -> Iterator[Batch]:
        """All rows, table by table."""
        on_devices = itertools.chain.from_iterable(map(self.slices, self.ACTIVITIES))
        return itertools.chain(
            self._nvtx(), self._calls(), self._overhead(), on_devices, self._labels()
        )

    def location(self, raw: Columns) -> Columns:
        """The process, from its serialised id."""
        return {"pid": self._owners(raw["owner"])["pid"]}

    def _nvtx(self) -> Iterator[Batch]:
        """Ranges, marks, and names of threads."""
        table = self.open(NVTX)
        domains = self._domains(table)
        excluded = ("start", "end", "eventType", "text", "textId", "globalTid", "endGlobalTid")
        args = table.json(*excluded, **_zero_as_null(table, "domainId", "category"))
        numbers = {
            "start": "{start}",
            "end": "{end}",
            "type": "{eventType}",
            "text_id": "{textId}",
            "owner": "{globalTid}",
            "ended_by": "{endGlobalTid}",
            "domain": "{domainId}",
        }
        texts = {"text": (table["text"], TEXT), "args": (args, TEXT)}
        for raw in self.database.batches(table, integers(table, numbers) | texts):
            columns = raw | self._owners(raw["owner"])
            columns["text"] = pc.coalesce(raw["text"], self.text(raw["text_id"]))
            domain = lookup(raw["domain"], domains)
            columns["args"] = with_member(columns["args"], "domain", domain)
            kind = raw["type"]
            is_name, is_mark = _is_in(kind, _NAMES), _is_in(kind, _MARKS)
            is_range = pc.invert(pc.or_(is_name, is_mark))
            names_thread = pc.fill_null(pc.equal(kind, _THREAD_NAME), fill_value=False)
            describes = pc.and_not(is_name, names_thread)
            self.accounted["metadata"] += int(pc.sum(describes).as_py() or 0)
            yield {
                **_ranges(filtered(columns, is_range)),
                **_marks(filtered(columns, is_mark)),
                **labels("thread_name", filtered(columns, names_thread)),
            }

    def _calls(self) -> Iterator[Batch]:
        """Calls of the runtime and the driver."""
        for rows in self._on_host(RUNTIME, "returnValue"):
            is_driver = _is_in(rows["event_class"], _DRIVER)
            yield events(rows, pc.if_else(is_driver, "DRIVER", "RUNTIME"))

    def _overhead(self) -> Iterator[Batch]:
        """Overhead of the profiler and the driver."""
        for name in OVERHEAD:
            for rows in self._on_host(name):
                yield events(rows, "OVERHEAD")

    def _on_host(self, name: str, *zero_as_null: str) -> Iterator[Columns]:
        """Columns that the tables of host slices share."""
        table = self.open(name)
        args = table.json(*_CALL_COLUMNS, **_zero_as_null(table, *zero_as_null))
        numbers = {
            "start": "{start}",
            "end": "{end}",
            "owner": "{globalTid}",
            "name": "{nameId}",
            "correlation": "{correlationId}",
            "event_class": "{eventClass}",
        }
        selection = integers(table, numbers) | {"args": (args, TEXT)}
        for raw in self.database.batches(table, selection):
            yield raw | self._owners(raw["owner"]) | {"name": self.text(raw["name"])}

    def _labels(self) -> Iterator[Batch]:
        """Names of processes and threads."""
        table = self.open(PROCESSES)
        selection = integers(table, {"owner": "{globalPid}"}) | {"text": (table["name"], TEXT)}
        for raw in self.database.batches(table, selection):
            owners = self._owners(raw["owner"]) | {"tid": constant(None, len(raw["text"]))}
            yield labels("process_name", raw | owners)
        table = self.open(THREADS)
        selection = integers(table, {"owner": "{globalTid}", "id": "{nameId}"})
        for raw in self.database.batches(table, selection):
            text = {"text": self.text(raw["id"])}
            yield labels("thread_name", self._owners(raw["owner"]) | text)

    def _owners(self, owner: pa.Array) -> Columns:
        """Process and thread of a serialised id, with the machine if there are several."""
        encoded = owner.dictionary_encode()
        distinct: list[int] = encoded.dictionary.to_pylist()
        machine = [f"{v >> _MACHINE}:" if self._several_machines else "" for v in distinct]
        pids = [f"{m}{v >> _PID & _ID}" for m, v in zip(machine, distinct, strict=True)]
        tids = [str(v & _ID) for v in distinct]
        return {
            "pid": pa.array(pids, TEXT).take(encoded.indices),
            "tid": pa.array(tids, TEXT).take(encoded.indices),
        }

    def _domains(self, table: SourceTable) -> Columns:
        """Names of NVTX domains, as JSON, by number."""
        columns = {
            "id": (table["domainId"], INT64),
            "text": (table["text"], TEXT),
            "text_id": (table["textId"], INT64),
        }
        where = f"WHERE {table['eventType']} = {_DOMAIN}"
        rows = self.database.read_all(table, columns, where)
        names = pc.coalesce(rows["text"], self.text(rows["text_id"])).to_pylist()
        texts = [None if name is None else json.dumps(name) for name in names]
        return {"id": rows["id"], "text": pa.array(texts, TEXT)}

    def header(self, *, is_utc: bool) -> Header:
        """The clock, the devices, and what the export says about itself."""
        exported = self._pairs("META_DATA_EXPORT") | self._pairs("EXPORT_META_DATA")
        base_ns = None
        session = self._records("TARGET_INFO_SESSION_START_TIME")
        if session and not is_utc and type(utc := session[0].get("utcEpochNs")) is int:
            base = utc - _integer(exported.get("EXPORT_PARAM_TIME_SHIFT"))
            base_ns = base if abs(base) < LONGEST_NS else None
        gpus = self._records("TARGET_INFO_GPU")
        devices = [device_properties({"id": None} | row, _DEVICE_KEYS) for row in gpus]
        metadata = {
            "export": exported,
            "capture": self._pairs("META_DATA_CAPTURE"),
            "session": session,
            "analysis": self._records("ANALYSIS_DETAILS"),
        }
        metadata = {name: value for name, value in metadata.items() if value}
        return Header(
            format="nsys",
            clock="utc" if is_utc or base_ns is not None else "relative",
            base_ns=base_ns,
            device_properties=json.dumps(devices) if devices else None,
            metadata=json.dumps(metadata) if metadata else None,
        )

    def _records(self, name: str) -> list[dict[str, Any]]:
        return self.database.records(self.database.table(name))

    def _pairs(self, name: str) -> dict[str, Any]:
        return {str(row.get("name")): row.get("value") for row in self._records(name)}


def _zero_as_null(table: SourceTable, *columns: str) -> dict[str, str]:
    """Members of the arguments for which 0 means none."""
    return {name: f"nullif({table[name]}, 0)" for name in columns if name in table}


def _is_in(codes: pa.Array, values: tuple[int, ...]) -> pa.Array:
    return pc.is_in(codes, value_set=pa.array(values, INT64))


def _ranges(columns: Columns) -> Batch:
    """Ranges; those that end on another thread, or never, are asynchronous."""
    changes_thread = pc.not_equal(columns["ended_by"], columns["owner"])
    may_change = _is_in(columns["type"], _ASYNC)
    ends_elsewhere = pc.and_kleene(may_change, changes_thread)
    is_async = pc.or_kleene(pc.is_null(columns["end"]), ends_elsewhere)
    return ranges(columns | {"name": columns["text"]}, "NVTX", is_async)


def _marks(columns: Columns) -> Batch:
    scope = constant("t", len(columns["start"]))
    return marks(columns | {"name": columns["text"], "scope": scope}, "NVTX", "i")


def _integer(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0
