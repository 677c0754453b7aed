"""Make up a database of rocprofv3 (rocpd): synthetic, no machine ran it.

The example database is made by it, from the repository's root::

    python -m examples.synthetic_rocprof examples/rocprof.db

It has the tables of AMD's published schema of version 3, of those that have rows, as ``rocprofv3
--hip-trace --kernel-trace --memory-copy-trace --marker-trace --memory-allocation-trace --pmc
SQ_WAVES`` writes them. A program that was ported to an MI300X multiplies and adds in each step. It
allocates its workspace in each step, too, and frees it: a free waits for the device, so the next
step launches into an empty queue.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

STEPS: Final = 6
STEP_NS: Final = 4_000_000
US: Final = 1_000
PID: Final = 4242
SUFFIX: Final = "_01990f3c_7d0a_7c1e_8a55_4242424242aa"
GUID: Final = SUFFIX[1:].replace("_", "-")
KERNELS: Final = (
    "Cijk_Ailk_Bljk_HHS_BH_MT256x256x64_MI16x16x1_SN",
    "void add_bias<__half>(__half*, __half const*, int)",
)
STRINGS: Final = (
    "", "HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "KERNEL_DISPATCH", "MEMORY_COPY",
    "MEMORY_ALLOCATION", "hipMalloc", "hipFree", "hipLaunchKernel", "hipMemcpyAsync",
    "roctxThreadRangeA", "MEMORY_COPY_HOST_TO_DEVICE",
)  # fmt: skip
TABLES: Final = """
    CREATE TABLE rocpd_metadata{0} (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
    CREATE TABLE rocpd_string{0} (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
    CREATE TABLE rocpd_info_process{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, command TEXT,
        environment JSONB, extdata JSONB);
    CREATE TABLE rocpd_info_thread{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, name TEXT);
    CREATE TABLE rocpd_info_agent{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, type TEXT,
        absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, name TEXT,
        product_name TEXT, extdata JSONB);
    CREATE TABLE rocpd_info_pmc{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, agent_id INTEGER, name TEXT);
    CREATE TABLE rocpd_info_kernel_symbol{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, code_object_id INTEGER,
        kernel_name TEXT, display_name TEXT, sgpr_count INTEGER, arch_vgpr_count INTEGER,
        accum_vgpr_count INTEGER);
    CREATE TABLE rocpd_event{0} (
        id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER,
        parent_stack_id INTEGER, correlation_id INTEGER, extdata JSONB);
    CREATE TABLE rocpd_region{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT,
        end BIGINT, name_id INTEGER, event_id INTEGER);
    CREATE TABLE rocpd_kernel_dispatch{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER,
        kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT,
        end BIGINT, private_segment_size INTEGER, group_segment_size INTEGER,
        workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER,
        grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, region_name_id INTEGER,
        event_id INTEGER);
    CREATE TABLE rocpd_memory_copy{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT,
        end BIGINT, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER,
        stream_id INTEGER, event_id INTEGER);
    CREATE TABLE rocpd_memory_allocate{0} (
        id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER,
        type TEXT, level TEXT, start BIGINT, end BIGINT, address INTEGER, size INTEGER,
        event_id INTEGER);
    CREATE TABLE rocpd_pmc_event{0} (
        id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER, pmc_id INTEGER, value REAL);
"""
"""Columns that rocprofv3 writes; it writes more."""
Row = tuple[str, dict[str, object]]
_OWN: Final = {"guid": GUID, "nid": 1, "pid": PID}
_GPU: Final = {
    "cu_count": 304, "gfx_target_version": 90402, "wave_front_size": 64,
    "mem_banks": [{"heap_type": 1, "size_in_bytes": 206_141_652_992}],
}  # fmt: skip


class Recording:
    """Rows, in the order in which they are recorded."""

    def __init__(self) -> None:
        self.events = 0
        self.dispatches = 0

    def event(self, kind: str, correlation: int, extdata: str = "{}") -> Row:
        """What a row of work or of a call refers to."""
        self.events += 1
        row = {"id": self.events, "guid": GUID, "category_id": STRINGS.index(kind) + 1}
        row |= {"stack_id": correlation, "parent_stack_id": 0, "correlation_id": 0}
        return "event", row | {"extdata": extdata}

    def call(self, name: str, number: int, start: int, end: int, text: str = "") -> Iterator[Row]:
        """A call of HIP, or a range with its text; its number is its correlation."""
        kind = "MARKER_CORE_RANGE_API" if text else "HIP_RUNTIME_API_EXT"
        yield self.event(kind, number, json.dumps({"message": text}) if text else "{}")
        row = {"id": number, **_OWN, "tid": PID, "start": start, "end": end}
        yield "region", row | {"name_id": STRINGS.index(name) + 1, "event_id": self.events}

    def kernel(self, symbol: int, number: int, start: int, end: int) -> Iterator[Row]:
        """A kernel, with the waves that it counted."""
        self.dispatches += 1
        yield self.event("KERNEL_DISPATCH", number)
        blocks = (304, 4096)[symbol]
        yield (
            "kernel_dispatch",
            {
                "id": self.dispatches, **_OWN, "tid": PID, "agent_id": 1, "kernel_id": symbol + 1,
                "dispatch_id": self.dispatches, "queue_id": 1, "stream_id": 1, "start": start,
                "end": end, "private_segment_size": 0,
                "group_segment_size": (65_536, 0)[symbol],
                "workgroup_size_x": 256, "workgroup_size_y": 1, "workgroup_size_z": 1,
                "grid_size_x": 256 * blocks, "grid_size_y": 1, "grid_size_z": 1,
                "region_name_id": 1, "event_id": self.events,
            },
        )  # fmt: skip
        yield "pmc_event", {"guid": GUID, "event_id": self.events, "pmc_id": 1, "value": 4 * blocks}

    def allocation(self, start: int, end: int, size: int) -> Iterator[Row]:
        """An allocation of the workspace; with no size, its free."""
        yield self.event("MEMORY_ALLOCATION", 0)
        row = {**_OWN, "tid": PID, "agent_id": 1 if size else None, "level": "REAL"}
        row |= {"type": "ALLOC" if size else "FREE", "start": start, "end": end}
        yield (
            "memory_allocate",
            row | {"address": 0x7F00_0000, "size": size, "event_id": self.events},
        )

    def copy(self, number: int, start: int, end: int, size: int) -> Iterator[Row]:
        """A copy to the device."""
        yield self.event("MEMORY_COPY", number)
        row = {**_OWN, "tid": PID, "start": start, "end": end, "size": size, "stream_id": 1}
        row |= {"name_id": STRINGS.index("MEMORY_COPY_HOST_TO_DEVICE") + 1}
        yield "memory_copy", row | {"dst_agent_id": 1, "src_agent_id": 0, "event_id": self.events}

    def step(self, step: int) -> Iterator[Row]:
        """One step: allocate, copy, multiply and add, free."""
        t, first = 10_000_000 + step * STEP_NS, 100 * step + 1
        end = t + STEP_NS - 10 * US
        yield from self.call("roctxThreadRangeA", first, t, end, f"ProfilerStep#{step}")
        yield from self.call("hipMalloc", first + 1, t + 10 * US, t + 900 * US)
        yield from self.allocation(t + 20 * US, t + 890 * US, 1 << 30)
        yield from self.call("hipMemcpyAsync", first + 2, t + 910 * US, t + 930 * US)
        yield from self.copy(first + 2, t + 940 * US, t + 1_040 * US, 4 << 20)
        work = t + 1_045 * US
        for pair in range(4):
            for symbol, length in enumerate((420, 40)):
                number = first + 10 + 2 * pair + symbol
                launch = t + (940 + 12 * (2 * pair + symbol)) * US
                yield from self.call("hipLaunchKernel", number, launch, launch + 6 * US)
                yield from self.kernel(symbol, number, work, work + length * US)
                work += (length + 2) * US
        yield from self.call("hipFree", first + 50, t + 1_050 * US, end - 20 * US)
        yield from self.allocation(work + 10 * US, end - 30 * US, 0)


def rows() -> Iterator[Row]:
    """All rows, by the names of their tables."""
    about: dict[str, object] = {"schema_version": "3", "uuid": SUFFIX, "guid": GUID}
    about["comment"] = "made by examples/synthetic_rocprof.py: no machine ran it"
    for tag, value in about.items():
        yield "metadata", {"tag": tag, "value": value}
    for text in STRINGS:
        yield "string", {"guid": GUID, "string": text}
    process = {"id": PID, **_OWN, "command": "./ported --steps 6"}
    yield "info_process", process | {"environment": "{}", "extdata": "{}"}
    yield "info_thread", {"id": PID, **_OWN, "tid": PID}
    yield "info_agent", {
        "id": 0, **_OWN, "type": "CPU", "absolute_index": 0, "logical_index": 0,
        "name": "AMD EPYC 9654", "product_name": "AMD EPYC 9654", "extdata": "{}",
    }  # fmt: skip
    yield "info_agent", {
        "id": 1, **_OWN, "type": "GPU", "absolute_index": 1, "logical_index": 1, "name": "gfx942",
        "product_name": "AMD Instinct MI300X", "extdata": json.dumps(_GPU),
    }  # fmt: skip
    yield "info_pmc", {"id": 1, **_OWN, "agent_id": 1, "name": "SQ_WAVES"}
    for number, name in enumerate(KERNELS, 1):
        symbol = {"id": number, **_OWN, "code_object_id": 1, "kernel_name": f"{name}.kd"}
        symbol |= {"display_name": name, "sgpr_count": 96, "arch_vgpr_count": 256}
        yield "info_kernel_symbol", symbol | {"accum_vgpr_count": 128 if number == 1 else 0}
    recording = Recording()
    for step in range(STEPS):
        yield from recording.step(step)


def write(path: Path) -> None:
    """Write the database."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript("PRAGMA page_size = 1024;" + TABLES.format(SUFFIX))
        for table, row in rows():
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            query = f"INSERT INTO rocpd_{table}{SUFFIX} ({names}) VALUES ({marks})"  # noqa: S608
            connection.execute(query, list(row.values()))


def main() -> None:
    """Write the database that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", type=Path, help="database to write, such as rocprof.db")
    write(parser.parse_args().output)


if __name__ == "__main__":
    main()
