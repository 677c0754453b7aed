"""The same recording as rocprofv3 writes it: as a rocpd database, as JSON, and as ``.pftrace``.

No public sample of the first two was found: the tables are typed from AMD's published schema
(rocprofiler-sdk, ``share/rocprofiler-sdk-rocpd/rocpd_tables.sql`` of version 3), and the members
from its serialisation (``cxx/serialization/save.hpp``, ``generateJSON.cpp``); the tracks are those
of ``generatePerfetto.cpp``.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

KINDS: Final = (
    "NONE", "HSA_CORE_API", "HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "RCCL_API",
    "MEMORY_COPY", "KERNEL_DISPATCH", "MEMORY_ALLOCATION", "SCRATCH_MEMORY", "MARKER_CORE_API",
)  # fmt: skip
KIND_OF: Final = {
    "hsa_api": "HSA_CORE_API",
    "hip_api": "HIP_RUNTIME_API_EXT",
    "marker_api": "MARKER_CORE_RANGE_API",
    "rccl_api": "RCCL_API",
}
OPERATIONS: Final = {
    "HSA_CORE_API": ("hsa_init", "hsa_queue_create", "hsa_signal_destroy"),
    "HIP_RUNTIME_API_EXT": ("hipLaunchKernel", "hipMemcpyAsync", "hipMalloc", "hipFree"),
    "MARKER_CORE_RANGE_API": ("roctxMarkA", "roctxThreadRangeA", "roctxGetThreadId"),
    "RCCL_API": ("ncclAllReduce",),
    "MEMORY_COPY": (
        "NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE",
        "MEMORY_COPY_DEVICE_TO_HOST", "MEMORY_COPY_DEVICE_TO_DEVICE",
    ),
    "KERNEL_DISPATCH": ("NONE", "ENQUEUE", "COMPLETE"),
    "MEMORY_ALLOCATION": (
        "NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_VMEM_ALLOCATE",
        "MEMORY_ALLOCATION_FREE", "MEMORY_ALLOCATION_VMEM_FREE",
    ),
    "SCRATCH_MEMORY": (
        "NONE", "SCRATCH_MEMORY_ALLOC", "SCRATCH_MEMORY_FREE", "SCRATCH_MEMORY_ASYNC_RECLAIM",
    ),
}  # fmt: skip
CALLS: Final = ("hsa_api", "hip_api", "marker_api", "rccl_api")
HANDLE: Final = 9_000_000_000_000_000_000
"""Agents have large handles in JSON."""
MI300X: Final = "AMD Instinct MI300X"


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call of the host, or a marker with its text."""

    api: str
    name: str
    start: int
    end: int
    tid: int
    correlation: int
    ancestor: int = 0
    stream: int = 0
    message: str = ""
    arguments: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A kernel on a queue and a stream of an agent."""

    symbol: int
    start: int
    end: int
    tid: int
    correlation: int
    agent: int
    dispatch: int
    queue: int = 1
    stream: int = 0
    block: tuple[int, int, int] = (64, 1, 1)
    grid: tuple[int, int, int] = (640, 1, 1)
    scratch: int = 0
    lds: int = 0
    counters: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A copy from one agent to another."""

    name: str
    start: int
    end: int
    tid: int
    correlation: int
    source: int
    target: int
    bytes: int
    stream: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """An allocation, or with no agent a free; of memory, or of scratch."""

    name: str
    start: int
    end: int
    tid: int
    correlation: int
    agent: int | None
    bytes: int
    address: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """Everything of one process; agents are ``(type, name of the product)``."""

    pid: int = 100
    machine: str = "machine"
    command: tuple[str, ...] = ("/opt/app", "--train")
    agents: tuple[tuple[str, str], ...] = (("CPU", "AMD EPYC 9654"), ("GPU", MI300X))
    symbols: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    copies: tuple[Copy, ...] = ()
    allocations: tuple[Allocation, ...] = ()

    @property
    def tids(self) -> list[int]:
        """Threads with records."""
        rows: tuple[Any, ...] = (*self.calls, *self.kernels, *self.copies, *self.allocations)
        return sorted({row.tid for row in rows})

    @property
    def streams(self) -> set[int]:
        """Streams with work."""
        return {row.stream for row in self.kernels} | {row.stream for row in self.copies}


def operation(kind: str, name: str) -> tuple[int, int]:
    return KINDS.index(kind), OPERATIONS[kind].index(name)


# The database ---------------------------------------------------------------------------------

TABLES: Final = {
    "metadata": "tag:t! value:t!",
    "string": "guid string:t!",
    "info_node": "guid hash! machine_id:t! system_name:t hostname:t release:t version:t "
    "hardware_name:t domain_name:t",
    "info_process": "guid nid! ppid pid! init fini start end command:t environment:j extdata:j",
    "info_thread": "guid nid! ppid pid! tid! name:t start end extdata:j",
    "info_agent": "guid nid! pid! type:t absolute_index logical_index type_index uuid name:t "
    "model_name:t vendor_name:t product_name:t user_name:t extdata:j",
    "info_queue": "guid nid! pid! name:t extdata:j",
    "info_stream": "guid nid! pid! name:t extdata:j",
    "info_pmc": "guid nid! pid! agent_id target_arch:t event_code instance_id name:t! symbol:t! "
    "description:t long_description:t component:t units:t value_type:t block:t expression:t "
    "is_constant is_derived extdata:j",
    "info_code_object": "guid nid! pid! agent_id uri:t load_base load_size load_delta "
    "storage_type:t extdata:j",
    "info_kernel_symbol": "guid nid! pid! code_object_id! kernel_name:t display_name:t "
    "kernel_object kernarg_segment_size kernarg_segment_alignment group_segment_size "
    "private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count extdata:j",
    "track": "guid nid! pid tid name_id extdata:j",
    "event": "guid category_id stack_id parent_stack_id correlation_id call_stack:j line_info:j "
    "extdata:j",
    "arg": "guid event_id! position! type:t! name:t! value:t extdata:j",
    "pmc_event": "guid event_id pmc_id! value:r extdata:j",
    "region": "guid nid! pid! tid! start! end! name_id! event_id extdata:j",
    "sample": "guid track_id! timestamp! event_id extdata:j",
    "kernel_dispatch": "guid nid! pid! tid agent_id! kernel_id! dispatch_id! queue_id! stream_id! "
    "start! end! private_segment_size group_segment_size workgroup_size_x! workgroup_size_y! "
    "workgroup_size_z! grid_size_x! grid_size_y! grid_size_z! region_name_id event_id extdata:j",
    "memory_copy": "guid nid! pid! tid start! end! name_id! dst_agent_id dst_address src_agent_id "
    "src_address size! queue_id stream_id region_name_id event_id extdata:j",
    "memory_allocate": "guid nid! pid! tid agent_id type:t level:t start! end! address size! "
    "queue_id stream_id event_id extdata:j",
}
"""Tables of a process by their names between ``rocpd_`` and its UUID, and their columns.

Columns are integers, texts (t), JSON (j) or real (r); ``!`` is never NULL.
"""
_TYPES: Final = {"": "INTEGER", "t": "TEXT", "r": "REAL", "j": "JSONB"}


def columns_of(table: str, guid: str) -> str:
    """The columns of a table, as SQL."""
    columns = ["id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"]
    for word in TABLES[table].split():
        name, _, code = word.rstrip("!").partition(":")
        rule = "NOT NULL" if word.endswith("!") or code == "j" else ""
        default = "DEFAULT '{}'" if code == "j" else ""
        if name == "guid":
            code, rule, default = "t", "NOT NULL", f"DEFAULT '{guid}'"
        columns.append(f'"{name}" {_TYPES[code]} {default} {rule}')
    return ", ".join(columns)


@dataclass(slots=True)
class _Tables:
    connection: sqlite3.Connection
    suffix: str
    strings: dict[str, int] = field(default_factory=dict)
    events: int = 0

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("?" * len(row))
            self.connection.execute(
                f'INSERT INTO "rocpd_{table}{self.suffix}" ({names}) VALUES ({marks})',
                list(row.values()),
            )

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.insert("string", [{"id": self.strings[text], "string": text}])
        return self.strings[text]

    def event(self, kind: str, row: Any, ancestor: int, extdata: str = "{}") -> int:
        self.events += 1
        own = {
            "id": self.events, "category_id": self.string(kind), "stack_id": row.correlation,
            "parent_stack_id": ancestor, "correlation_id": 0, "extdata": extdata,
        }  # fmt: skip
        self.insert("event", [own])
        return self.events


def write_database(
    path: Path, processes: Sequence[Process], *, version: str = "3", guids: Sequence[str] = ()
) -> Path:
    """A database with the tables of all processes; its views show those of the first."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = OFF")
        for number, process in enumerate(processes):
            guid = guids[number] if guids else f"0198a1b2-0000-7000-8000-{number:012x}"
            suffix = f"_{guid.replace('-', '_')}" if guid else ""
            tables = _Tables(connection, suffix)
            for name in TABLES:
                own = columns_of(name, guid)
                connection.execute(f'CREATE TABLE "rocpd_{name}{suffix}" ({own})')
                if not number and guid:
                    connection.execute(
                        f"CREATE VIEW rocpd_{name} AS SELECT * FROM rocpd_{name}{suffix}"
                    )
            about = {"schema_version": version, "uuid": suffix, "guid": guid}
            tables.insert("metadata", ({"tag": k, "value": v} for k, v in about.items()))
            _describe(tables, process)
            _record(tables, process)
    return path


def _describe(tables: _Tables, process: Process) -> None:
    nid = sum(process.machine.encode())
    own = {"nid": nid, "pid": process.pid}
    tables.insert("info_node", [{"id": nid, "hash": nid, "machine_id": process.machine}])
    command = " ".join(process.command)
    tables.insert("info_process", [{"id": process.pid, **own, "command": command}])
    tables.insert("info_thread", ({"id": tid, **own, "tid": tid} for tid in process.tids))
    rows = [kernel.queue for kernel in process.kernels]
    tables.insert("info_queue", ({"id": q, **own, "name": f"Queue {q}"} for q in {0, *rows}))
    streams = {0, *process.streams}
    tables.insert("info_stream", ({"id": s, **own, "name": f"Stream {s}"} for s in streams))
    for number, (type_, product) in enumerate(process.agents):
        about = agent(number, type_, product)
        tables.insert(
            "info_agent",
            [
                {
                    "id": number * 2, **own, "type": type_, "absolute_index": number * 2,
                    "logical_index": number, "type_index": 0, "name": about["name"],
                    "model_name": about["model_name"], "vendor_name": about["vendor_name"],
                    "product_name": product, "user_name": product, "extdata": json.dumps(about),
                }
            ],
        )  # fmt: skip
    tables.insert("info_code_object", [{"id": 1, **own, "agent_id": 2, "uri": "file://app"}])
    for number, name in enumerate(process.symbols, 1):
        row = {"id": number, **own, "code_object_id": 1, "kernel_name": f"{name}.kd"}
        row |= {"display_name": name, "arch_vgpr_count": 32, "accum_vgpr_count": 4}
        tables.insert("info_kernel_symbol", [row | {"sgpr_count": 96}])
    for number, name in enumerate(process.counters, 1):
        row = {"id": number, **own, "agent_id": 2, "target_arch": "GPU", "name": name}
        tables.insert("info_pmc", [row | {"symbol": name, "value_type": "ABS"}])


def _record(tables: _Tables, process: Process) -> None:
    nid = sum(process.machine.encode())
    own = {"nid": nid, "pid": process.pid}
    tracks: dict[tuple[int, int], int] = {}
    for call in process.calls:
        kind = KIND_OF[call.api]
        extra = json.dumps({"message": _marker(call)}) if call.api == "marker_api" else "{}"
        event = tables.event(kind, call, call.ancestor, extra)
        times = {"start": call.start, "end": call.end}
        tables.insert(
            "arg",
            (
                {"event_id": event, "position": n, "type": t, "name": name, "value": value}
                for n, (t, name, value) in enumerate(call.arguments)
            ),
        )
        if call.start != call.end:
            row = {"id": call.correlation, **own, "tid": call.tid, **times}
            tables.insert(
                "region", [row | {"name_id": tables.string(call.name), "event_id": event}]
            )
            continue
        key = (call.tid, tables.string(kind))
        if key not in tracks:
            tracks[key] = len(tracks) + 1
            tables.insert("track", [{"id": tracks[key], **own, "tid": call.tid, "name_id": key[1]}])
        row = {"id": call.correlation, "track_id": tracks[key], "timestamp": call.start}
        tables.insert("sample", [row | {"event_id": event}])
    for kernel in process.kernels:
        event = tables.event("KERNEL_DISPATCH", kernel, kernel.correlation)
        sizes = {f"workgroup_size_{axis}": n for axis, n in zip("xyz", kernel.block, strict=True)}
        sizes |= {f"grid_size_{axis}": n for axis, n in zip("xyz", kernel.grid, strict=True)}
        row = {
            "id": kernel.dispatch, **own, "tid": kernel.tid, "agent_id": kernel.agent * 2,
            "kernel_id": kernel.symbol, "dispatch_id": kernel.dispatch, "queue_id": kernel.queue,
            "stream_id": kernel.stream, "start": kernel.start, "end": kernel.end,
            "private_segment_size": kernel.scratch, "group_segment_size": kernel.lds, **sizes,
            "region_name_id": tables.string(""), "event_id": event,
        }  # fmt: skip
        tables.insert("kernel_dispatch", [row])
        for name, value in kernel.counters:
            pmc = process.counters.index(name) + 1
            tables.insert("pmc_event", [{"event_id": event, "pmc_id": pmc, "value": value}])
    for copy in process.copies:
        event = tables.event("MEMORY_COPY", copy, copy.correlation)
        copied = {
            **own, "tid": copy.tid, "start": copy.start, "end": copy.end,
            "name_id": tables.string(copy.name), "dst_agent_id": copy.target * 2,
            "src_agent_id": copy.source * 2, "dst_address": 0, "src_address": 0,
            "size": copy.bytes, "stream_id": copy.stream, "event_id": event,
        }  # fmt: skip
        tables.insert("memory_copy", [copied])
    for one in process.allocations:
        is_scratch = one.name.startswith("SCRATCH")
        kind = "SCRATCH_MEMORY" if is_scratch else "MEMORY_ALLOCATION"
        level = "SCRATCH" if is_scratch else "VIRTUAL" if "VMEM" in one.name else "REAL"
        word = one.name.rpartition("_")[2]
        allocated = {
            **own, "tid": one.tid, "agent_id": None if one.agent is None else one.agent * 2,
            "type": "ALLOC" if word == "ALLOCATE" else word, "level": level, "start": one.start,
            "end": one.end, "address": 0 if is_scratch else one.address, "size": one.bytes,
            "queue_id": 0, "stream_id": 0, "event_id": tables.event(kind, one, 0),
        }  # fmt: skip
        tables.insert("memory_allocate", [allocated])


def _marker(call: Call) -> str:
    return call.name if call.name == "roctxGetThreadId" else call.message


# JSON -----------------------------------------------------------------------------------------


def agent(number: int, type_: str, product: str) -> dict[str, Any]:
    """What rocprofiler says about an agent; there are more members, which nothing reads."""
    is_gpu = type_ == "GPU"
    banks = [{"heap_type": 1, "flags": 0, "width": 8192, "size_in_bytes": 206_141_652_992}]
    return {
        "size": 304, "id": {"handle": HANDLE + number}, "type": 2 if is_gpu else 1,
        "wave_front_size": 64 if is_gpu else 0, "cu_count": 304 if is_gpu else 0,
        "gfx_target_version": 90402 if is_gpu else 0, "workgroup_max_size": 1024 * is_gpu,
        "name": "gfx942" if is_gpu else product, "vendor_name": "AMD" if is_gpu else "CPU",
        "product_name": product, "model_name": "ip discovery" if is_gpu else "",
        "node_id": number * 2, "logical_node_id": number, "logical_node_type_id": 0,
        "mem_banks": banks if is_gpu else [], "gpu_index": 0 if is_gpu else -1,
    }  # fmt: skip


def document(processes: Sequence[Process]) -> dict[str, Any]:
    """The document of all processes."""
    return {"rocprofiler-sdk-tool": [_process(process) for process in processes]}


def write_document(path: Path, processes: Sequence[Process]) -> Path:
    """It as rocprofv3 writes it: with line breaks, and no indentation."""
    path.write_text(json.dumps(document(processes), indent=0, ensure_ascii=False), "utf-8")
    return path


def _process(process: Process) -> dict[str, Any]:
    messages = [
        {"key": call.correlation, "value": call.message}
        for call in process.calls
        if call.api == "marker_api" and call.name != "roctxGetThreadId"
    ]
    kinds = [{"kind": kind, "operations": list(OPERATIONS.get(kind, ()))} for kind in KINDS]
    symbols = [
        {
            "size": 80, "kernel_id": number, "code_object_id": 1, "kernel_name": f"{name}.kd",
            "sgpr_count": 96, "arch_vgpr_count": 32, "accum_vgpr_count": 4,
            "formatted_kernel_name": name, "demangled_kernel_name": f"{name} [clone .kd]",
            "truncated_kernel_name": name.partition("(")[0],
        }
        for number, name in enumerate(process.symbols, 1)
    ]  # fmt: skip
    empty = {"size": 0, "kernel_id": 0, "code_object_id": 0, "kernel_name": ""}
    return {
        "metadata": {
            "node": {"id": 1, "machine_id": process.machine, "hostname": "node"},
            "pid": process.pid, "init_time": 1, "fini_time": 2, "command": list(process.command),
        },
        "agents": [agent(n, type_, product) for n, (type_, product) in enumerate(process.agents)],
        "counters": [
            {"agent_id": {"handle": HANDLE + 1}, "id": {"handle": HANDLE + n}, "name": name}
            for n, name in enumerate(process.counters, 1)
        ],
        "strings": {
            "callback_records": kinds,
            "buffer_records": kinds,
            "marker_api": messages,
            "correlation_id": {"external": []},
            "counters": {"dimension_ids": []},
            "pc_sample_instructions": [],
        },
        "code_objects": [{"size": 96, "code_object_id": 1, "uri": "file://app"}],
        "kernel_symbols": [empty, *symbols],
        "host_functions": [],
        "summary": [],
        "callback_records": {
            "counter_collection": [_counted(k, process) for k in process.kernels if k.counters]
        },
        "buffer_records": {
            "kernel_dispatch": [_dispatch(kernel) for kernel in process.kernels],
            **{api: [_call(c) for c in process.calls if c.api == api] for api in CALLS},
            "memory_copy": [_copy(copy) for copy in process.copies],
            "memory_allocation": [
                _allocation(one) for one in process.allocations if one.name.startswith("MEMORY")
            ],
            "scratch_memory": [
                _allocation(one) for one in process.allocations if one.name.startswith("SCRATCH")
            ],
            "rocdecode_api": [],
            "pc_sample_host_trap": [],
        },
    }  # fmt: skip


def _numbers(kind: str, name: str) -> dict[str, int]:
    number, place = operation(kind, name)
    return {"size": 96, "kind": number, "operation": place}


def _common(row: Any, ancestor: int = 0) -> dict[str, Any]:
    return {
        "correlation_id": {"internal": row.correlation, "external": 0, "ancestor": ancestor},
        "start_timestamp": row.start,
        "end_timestamp": row.end,
        "thread_id": row.tid,
    }


def _call(call: Call) -> dict[str, Any]:
    row = _numbers(KIND_OF[call.api], call.name) | _common(call, call.ancestor)
    if call.api == "hip_api":
        row["args"] = [{"type": t, "name": n, "value": v} for t, n, v in call.arguments]
        row |= {"retval": {"uint64_t_retval": 0}, "stream_id": {"handle": call.stream}}
    return row


def _dispatch_info(kernel: Kernel) -> dict[str, Any]:
    return {
        "size": 88, "agent_id": {"handle": HANDLE + kernel.agent},
        "queue_id": {"handle": kernel.queue}, "kernel_id": kernel.symbol,
        "dispatch_id": kernel.dispatch, "private_segment_size": kernel.scratch,
        "group_segment_size": kernel.lds,
        "workgroup_size": dict(zip("xyz", kernel.block, strict=True)),
        "grid_size": dict(zip("xyz", kernel.grid, strict=True)),
    }  # fmt: skip


def _dispatch(kernel: Kernel) -> dict[str, Any]:
    row = _numbers("KERNEL_DISPATCH", "COMPLETE") | _common(kernel)
    return row | {"dispatch_info": _dispatch_info(kernel), "stream_id": {"handle": kernel.stream}}


def _counted(kernel: Kernel, process: Process) -> dict[str, Any]:
    records = [
        {"counter_id": {"handle": HANDLE + process.counters.index(name) + 1}, "value": value}
        for name, value in kernel.counters
    ]
    common = _common(kernel)
    tid = common.pop("thread_id")
    data = {"size": 144, **common, "dispatch_info": _dispatch_info(kernel)}
    return {
        "thread_id": tid, "dispatch_data": data, "records": records,
        "stream_id": {"handle": kernel.stream},
    }  # fmt: skip


def _copy(copy: Copy) -> dict[str, Any]:
    return {
        **_numbers("MEMORY_COPY", copy.name), **_common(copy),
        "dst_agent_id": {"handle": HANDLE + copy.target},
        "src_agent_id": {"handle": HANDLE + copy.source},
        "bytes": copy.bytes, "stream_id": {"handle": copy.stream},
    }  # fmt: skip


def _allocation(one: Allocation) -> dict[str, Any]:
    handle = 0 if one.agent is None else HANDLE + one.agent
    if one.name.startswith("SCRATCH"):
        row = _numbers("SCRATCH_MEMORY", one.name) | {"agent_id": {"handle": handle}}
        return row | _common(one) | {"flags": 0, "allocation_size": one.bytes}
    return {
        **_numbers("MEMORY_ALLOCATION", one.name), **_common(one), "agent_id": {"handle": handle},
        "address": f"0x{one.address:016x}", "allocation_size": one.bytes,
        "stream_id": {"handle": 0},
    }  # fmt: skip


# .pftrace -------------------------------------------------------------------------------------


def write_pftrace(path: Path, processes: Sequence[Process], pb: Any) -> Path:
    """It as Perfetto's protobuf; ``pb`` has the classes of its messages."""
    packets = [packet for process in processes for packet in _Packets(pb, process).all()]
    path.write_bytes(pb.Trace(packet=packets).SerializeToString())
    return path


@dataclass(slots=True)
class _Packets:
    pb: Any
    process: Process

    def all(self) -> list[Any]:
        process, main = self.process, self.process.pid
        own = self.pb.ProcessDescriptor(pid=main, process_name=process.command[0])
        packets = [self._track("", process=own)]
        others = [tid for tid in process.tids if tid != main]
        for tid in process.tids:
            if tid == main:
                name = process.command[0].rpartition("/")[2]
                thread = self.pb.ThreadDescriptor(pid=main, tid=tid, thread_name=name)
                packets.append(self._track(tid, thread=thread))
            else:
                name = f"THREAD {others.index(tid) + 1} ({tid})"
                packets.append(self._track(tid, name=name))
        streams = sorted(process.streams)
        packets += [self._track(f"stream {s}", name=f'STREAM [" {s} "] ') for s in streams]
        for api in CALLS:
            for call in (call for call in process.calls if call.api == api):
                packets += self._call(call)
        for copy in process.copies:
            packets += self._copy(copy)
        for kernel in process.kernels:
            packets += self._kernel(kernel)
        return packets + self._counters()

    def _call(self, call: Call) -> list[Any]:
        kind, number = operation(KIND_OF[call.api], call.name)
        has_message = call.api == "marker_api" and call.name != "roctxGetThreadId"
        notes = {"tid": call.tid, "kind": kind, "operation": number, "corr_id": call.correlation}
        notes["ancestor_id"] = call.ancestor
        if call.api == "hip_api":
            notes["stream_ID"] = call.stream
        name = call.message if has_message and call.message else call.name
        return self._slice(call.tid, call.api, name, call, notes)

    def _copy(self, copy: Copy) -> list[Any]:
        kind, number = operation("MEMORY_COPY", copy.name)
        notes: dict[str, Any] = {
            "kind": kind, "operation": number, "src_agent": f"Agent-{copy.source}",
            "dst_agent": f"Agent-{copy.target}", "copy_bytes": copy.bytes,
            "corr_id": copy.correlation, "tid": copy.tid, "stream_ID": copy.stream,
        }  # fmt: skip
        return self._slice(f"stream {copy.stream}", "memory_copy", copy.name, copy, notes)

    def _kernel(self, kernel: Kernel) -> list[Any]:
        notes: dict[str, Any] = {
            "kind": KINDS.index("KERNEL_DISPATCH"), "agent": f"Agent-{kernel.agent}",
            "agent_type": "GPU", "corr_id": kernel.correlation, "queue": max(kernel.queue - 1, 0),
            "tid": kernel.tid, "kernel_id": kernel.symbol, "Scratch_Size": kernel.scratch,
            "LDS_Block_Size": kernel.lds, "VGPR_Count": 32, "Accum_VGPR_Count": 4,
            "SGPR_Count": 96, "workgroup_size": _product(kernel.block),
            "grid_size": _product(kernel.grid), "stream_ID": kernel.stream,
        }  # fmt: skip
        for name in dict.fromkeys(name for name, _ in kernel.counters):
            notes[name] = float(sum(value for own, value in kernel.counters if own == name))
        name = f"{self.process.symbols[kernel.symbol - 1]} [clone .kd]"
        return self._slice(f"stream {kernel.stream}", "kernel_dispatch", name, kernel, notes)

    def _slice(
        self, track: object, category: str, name: str, row: Any, notes: dict[str, Any]
    ) -> list[Any]:
        times = {"begin_ns": row.start, "end_ns": row.end, "delta_ns": row.end - row.start}
        annotations = [self._note(key, value) for key, value in (times | notes).items()]
        begin = {
            "name": name, "categories": [category], "flow_ids": [row.correlation],
            "debug_annotations": annotations,
        }  # fmt: skip
        return [
            self._event(row.start, "SLICE_BEGIN", track, **begin),
            self._event(row.end, "SLICE_END", track, categories=[category]),
        ]

    def _counters(self) -> list[Any]:
        """Each value at its kernel's start, in a track of its agent; 0 before and after."""
        packets, described = [], set()
        for kernel in self.process.kernels:
            for name in dict.fromkeys(name for name, _ in kernel.counters):
                value = sum(value for own, value in kernel.counters if own == name)
                track = f"Agent [{kernel.agent}] PMC {name}"
                if track not in described:
                    described.add(track)
                    own = self.pb.CounterDescriptor()
                    packets.append(self._track(track, name=track, counter=own))
                for time, at in ((kernel.start, value), (kernel.end, 0)):
                    event = {"counter_value": int(at), "categories": ["counter_collection"]}
                    packets.append(self._event(time, "COUNTER", track, **event))
        return packets

    def _note(self, name: str, value: object) -> Any:
        kinds = {str: "string_value", int: "uint_value", float: "double_value"}
        return self.pb.DebugAnnotation(name=name, **{kinds[type(value)]: value})

    def _uuid(self, track: object) -> int:
        return 1 + zlib.crc32(repr((self.process.pid, self.process.machine, track)).encode())

    def _track(self, track: object, **members: Any) -> Any:
        parent = {} if track == "" else {"parent_uuid": self._uuid("")}
        own = self.pb.TrackDescriptor(uuid=self._uuid(track), **parent, **members)
        return self.pb.TracePacket(trusted_packet_sequence_id=1, track_descriptor=own)

    def _event(self, time: int, kind: str, track: object, **members: Any) -> Any:
        type_ = getattr(self.pb.TrackEvent, f"TYPE_{kind}")
        own = self.pb.TrackEvent(type=type_, track_uuid=self._uuid(track), **members)
        return self.pb.TracePacket(trusted_packet_sequence_id=1, timestamp=time, track_event=own)


def _product(sizes: tuple[int, int, int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]
