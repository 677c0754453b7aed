"""rocprofv3's JSON: records of each kind in an array of its own, with numbers in place of names."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl
import pyarrow as pa

from profframe.errors import NotATraceError
from profframe.readers import parsing_database
from profframe.readers.build.assembly import assemble
from profframe.readers.build.row_tables import (
    Batch,
    Header,
    Quality,
    RawTrace,
    gather,
    header_of,
)
from profframe.readers.bytes import ByteSource
from profframe.readers.json.opening import NoArrayError, is_readable
from profframe.readers.json.repair import DROPS, read_document
from profframe.readers.json.stream import ArrayReader, Document
from profframe.readers.rocprof import DOCUMENT, DOCUMENT_KEY
from profframe.readers.rocprof.arrays import RecordArray, RecordArrays
from profframe.readers.rocprof.parsing import CALLS, FORMS, parser_of
from profframe.readers.rocprof.processes import (
    Agent,
    Process,
    agent_of,
    device_properties,
    pids_of,
)
from profframe.readers.rocprof.records import (
    ALLOCATION,
    COPY,
    KERNEL,
    SCRATCH,
    VALUES,
    Records,
    complete,
)
from profframe.system import memory_limit
from profframe.system.disk_tables import Spool

_CUT: Final = re.compile(rb'\}\s*+(,)\s*+(?=\{\s*+"(?:size|thread_id|record)"\s*+:)')
"""Between two records: their own members are objects in a row, too."""
_FIRST_THREADS: Final = 8
_TYPES: Final = {1: "CPU", 2: "GPU"}
_COUNTERS: Final = "counter_collection"
_ALLOCATES: Final = ("ALLOCATE", "ALLOC")
_NO_MESSAGE: Final = "roctxGetThreadId"
_ALWAYS: Final = (
    "tid", "kind", "operation", "correlation", "agent", "kernel_id", "dispatch_id", "scratch",
    "lds", "bytes", "src", "dst", "counters",
    *(f"{word}_{axis}" for word in ("workgroup", "grid") for axis in "xyz"),
)  # fmt: skip
"""Columns that every record has a value in; those of times have notes of their own."""
_MOST: Final = 1 << 63


def read(source: ByteSource, spool: Spool | None = None, threads: int | None = None) -> RawTrace:
    """Read one file.

    Raises
    ------
    NotATraceError
        The source has no processes.
    SourceError
        The file cannot be read.
    """
    parsing_database.open_in_background()
    text = _Text(threads or min(_FIRST_THREADS, os.cpu_count() or 1))
    text.read(source)
    trace = _Trace(text)
    rows = gather(trace.batches(), spool)
    quality = trace.quality(source)
    return assemble(rows, header_of(rows, trace.header), quality, text.dropped, unread=trace.unread)


@dataclass(slots=True)
class _Text:
    """The records of all arrays as columns, and what is around them."""

    threads: int
    arrays: dict[tuple[int, str], list[pa.Table]] = field(default_factory=dict)
    document: Document = field(default_factory=Document)
    header: Any = None
    others: Counter[str] = field(default_factory=Counter)
    """Records that no table has a place for."""
    strangers: int = 0
    """Elements that are no records."""
    odd: int = 0
    """Members that every record has, but that are no numbers."""

    @property
    def dropped(self) -> int:
        return sum(self.document.repairs[check] for check in DROPS) + self.strangers

    def read(self, source: ByteSource) -> None:
        """Read all of it."""
        arrays = RecordArrays(source.blocks())
        size = 0
        for array in arrays:
            parts = self.arrays.setdefault((array.process, array.name), [])
            for rows in self._rows(array, arrays):
                if array.name not in FORMS:
                    self.others[array.name] += rows["records"][0].as_py() or 0
                    continue
                parts.append(self._sound(rows))
                size += parts[-1].nbytes
                memory_limit.check(size)
        around = arrays.around
        header: Any = None
        if around is not None and is_readable(around):
            header, repairs = read_document(around.decode("utf-8", "surrogateescape"))
            self.document.repairs.update(repairs)
            if arrays.ends_early:
                self.document.repairs["truncated"] += 0
        else:
            self.document.repairs["unreadable_header"] += 1
        self.header = header.get(DOCUMENT_KEY) if isinstance(header, dict) else None
        if not isinstance(self.header, list) and not self.arrays:
            raise NotATraceError(
                f"{source.path}: not a trace: it has no processes (expected rocprofv3's JSON: an "
                f"object with a list {DOCUMENT_KEY!r})"
            )

    def _rows(self, array: RecordArray, arrays: RecordArrays) -> Iterator[pa.Table]:
        wave, whole = parser_of(array.name)
        reader = ArrayReader(
            _bracketed(array, arrays), array.name, wave, whole, self.threads, cut=_CUT
        )
        try:
            yield from reader.rows()
        except NoArrayError:  # there is nothing in it
            return
        self.document.note(reader.document.repairs, reader.document.first, array.start - 1)

    def _sound(self, rows: pa.Table) -> pa.Table:
        flags = rows["is_none"].to_numpy()
        self.strangers += int(flags.sum())
        sound = rows.filter(pa.array(~flags)) if flags.any() else rows
        self.odd += sum(sound[name].null_count for name in _ALWAYS if name in sound.column_names)
        return sound.drop_columns(["is_none"])


def _bracketed(array: RecordArray, arrays: RecordArrays) -> Iterator[bytes]:
    yield b"["
    yield from array.blocks
    if not arrays.is_cut:
        yield b"]"


@dataclass(slots=True)
class _Trace:
    """Rows of all processes."""

    text: _Text
    records: Records = field(default_factory=Records)
    processes: list[Process] = field(default_factory=list)
    lost_texts: int = 0
    non_finite: int = 0

    @property
    def unread(self) -> Counter[str]:
        total = Counter(self.text.others)
        total.update(self.records.extra)
        return total

    def batches(self) -> Iterator[Batch]:
        """All rows, process by process."""
        described = self.text.header if isinstance(self.text.header, list) else []
        count = max(len(described), 1 + max((n for n, _ in self.text.arrays), default=-1))
        owners = [_Owner.of(described[n] if n < len(described) else None) for n in range(count)]
        pids = pids_of([(owner.machine, owner.process.os_pid) for owner in owners])
        for number, (owner, pid) in enumerate(zip(owners, pids, strict=True)):
            owner.process.pid = pid
            self.processes.append(owner.process)
            yield from self._batches(number, owner)

    def _batches(self, number: int, owner: _Owner) -> Iterator[Batch]:
        process, records = owner.process, self.records
        process.threads = self._threads(number)
        process.by_queue = self._is_by_queue(number)
        for name in CALLS:
            for frame in self._frames(number, name):
                yield records.calls(self._called(frame, name, owner), process)
        for frame in self._frames(number, COPY):
            copies = self._named(frame, owner).with_columns(
                _address("src_address").cast(pl.String), _address("dst_address").cast(pl.String)
            )
            yield records.copies(complete(copies, "copies"), process)
        yield from self._kernels(number, owner)
        for name in (ALLOCATION, SCRATCH):
            for frame in self._frames(number, name):
                yield records.allocations(self._allocated(frame, name, owner), process)
        yield from records.memory(process)
        yield process.labels()

    def _kernels(self, number: int, owner: _Owner) -> Iterator[Batch]:
        """Kernels with their counters; without a trace of kernels, the counters have them."""
        process, counted = owner.process, list(self._frames(number, _COUNTERS))
        values = self._values(counted, owner)
        kernels = self._frames(number, KERNEL)
        first = next(kernels, None)
        dispatches = iter(counted) if first is None else itertools.chain((first,), kernels)
        for frame in dispatches:
            symbols = owner.symbols
            joined = frame.join(symbols, on="kernel_id", how="left", maintain_order="left")
            is_lost = pl.col("kernel_id").is_not_null() & pl.col("name").is_null()
            self.lost_texts += joined.filter(is_lost).height
            joined = joined.join(owner.regions, on="external", how="left", maintain_order="left")
            yield self.records.kernels(complete(joined, "kernels"), process, values)
        yield from self.records.counters(values, process)

    def _values(self, frames: list[pl.DataFrame], owner: _Owner) -> pl.DataFrame:
        """Hardware counters by dispatch, added up over the instances of a counter."""
        parts = [
            frame.select("key", "counters", "values")
            .explode("counters", "values", empty_as_null=False)
            .rename({"counters": "counter", "values": "value"})
            for frame in frames
        ]
        rows = pl.concat(parts) if parts else pl.DataFrame()
        if not rows.height:
            return pl.DataFrame(schema=VALUES)
        finite = pl.when(pl.col("value").is_finite()).then("value")
        self.non_finite += rows.filter(~pl.col("value").is_finite()).height
        summed = rows.group_by("key", "counter", maintain_order=True).agg(
            pl.when(finite.count() > 0).then(finite.sum()).alias("value"),
            pl.len().cast(pl.Int64).alias("records"),
        )
        named = summed.join(owner.counters, on="counter", how="left", maintain_order="left")
        named = named.with_columns(agent=None, unit=None)
        return named.select(pl.col(name).cast(type_) for name, type_ in VALUES.items())

    def _frames(self, number: int, name: str) -> Iterator[pl.DataFrame]:
        """Records of an array, which are forgotten as they are read."""
        parts = self.text.arrays.get((number, name), [])
        while parts:
            rows = parts.pop(0)
            if rows.num_rows:
                yield pl.DataFrame(rows)

    def _threads(self, number: int) -> set[int]:
        tables = (
            part for (n, _), parts in self.text.arrays.items() if n == number for part in parts
        )
        return {
            tid
            for table in tables
            if "tid" in table.column_names
            for tid in table["tid"].unique().to_pylist()
            if tid is not None
        }

    def _is_by_queue(self, number: int) -> bool:
        """Whether no work has a stream, although it was on several queues of an agent.

        Before ROCm 7, no record says a stream.
        """
        work = [
            part
            for name in (KERNEL, _COUNTERS, COPY)
            for part in self.text.arrays.get((number, name), [])
            if part.num_rows
        ]
        if work and all(part["stream"].null_count == part.num_rows for part in work):
            return True
        if any(part.num_rows for part in self.text.arrays.get((number, "hip_api"), [])):
            return False
        queues: set[tuple[int, int]] = set()
        for name in (KERNEL, _COUNTERS, COPY):
            for part in self.text.arrays.get((number, name), []):
                frame = pl.DataFrame(part)
                if (frame["stream"] > 0).any():
                    return False
                if name != COPY:
                    queues.update(frame.select("agent", "queue").unique().drop_nulls().rows())
        return max(Counter(agent for agent, _ in queues).values(), default=0) > 1

    def _named(self, frame: pl.DataFrame, owner: _Owner) -> pl.DataFrame:
        """The frame with the names of kinds and operations."""
        joined = frame.join(
            owner.operations, on=["kind", "operation"], how="left", maintain_order="left"
        )
        self.lost_texts += joined["name"].null_count()
        return joined

    def _called(self, frame: pl.DataFrame, name: str, owner: _Owner) -> pl.DataFrame:
        frame = self._named(frame, owner).with_columns(category=pl.lit(name))
        if name == "marker_api":
            is_range = pl.col("kind_name").str.starts_with("MARKER_CORE") & (
                pl.col("name") != _NO_MESSAGE
            )
            message = pl.when(is_range & (pl.col("message") != "")).then("message")
            frame = frame.join(owner.messages, on="correlation", how="left", maintain_order="left")
            frame = frame.with_columns(name=pl.coalesce(message, "name"))
        return complete(frame, "calls")

    def _allocated(self, frame: pl.DataFrame, name: str, owner: _Owner) -> pl.DataFrame:
        frame = self._named(frame, owner)
        word = pl.col("name").str.extract(r"_([A-Z]+)$")
        columns = {
            "category": pl.lit(name),
            "is_allocation": word.is_in(_ALLOCATES).fill_null(value=False),
        }
        if name == ALLOCATION:
            columns["address"] = _address("address")
        return complete(frame.with_columns(**columns), "allocations")

    def header(self, *, is_utc: bool) -> Header:
        """The devices, and what the processes say about themselves."""
        devices = device_properties(self.processes)
        processes = [{"pid": p.pid, "command": p.command} for p in self.processes]
        return Header(
            format=DOCUMENT,
            clock="utc" if is_utc else "relative",
            device_properties=json.dumps(devices) if devices else None,
            metadata=json.dumps({"processes": processes}) if processes else None,
        )

    def quality(self, source: ByteSource) -> Quality:
        """What was repaired, lost or not loaded."""
        quality = Quality()
        for note in self.text.document.notes("records", source.damage):
            quality.note(*note)
        if self.text.strangers:
            quality.note("not_an_event", self.text.strangers)
        if others := +self.text.others:
            detail = ", ".join(f"{name} {count:,}" for name, count in sorted(others.items()))
            quality.note("rows_not_loaded", others.total(), detail)
        if dropped := self.records.extra["dropped"]:
            quality.note(
                "rows_not_loaded", dropped, "hardware counters of kernels that are not in the file"
            )
        if self.lost_texts:
            quality.note("lost_text", self.lost_texts)
        if self.text.odd:
            quality.note("odd_member", self.text.odd)
        if self.non_finite:
            quality.note("non_finite_number", self.non_finite, "hardware counters")
        return quality


@dataclass(slots=True)
class _Owner:
    """A process, and the names that its records refer to."""

    process: Process
    machine: object
    operations: pl.DataFrame
    symbols: pl.DataFrame
    messages: pl.DataFrame
    regions: pl.DataFrame
    counters: pl.DataFrame

    @classmethod
    def of(cls, described: object) -> _Owner:
        """From the document; what has another form than expected counts as absent."""
        own = _dict(described)
        metadata, strings = _dict(own.get("metadata")), _dict(own.get("strings"))
        node = _dict(metadata.get("node"))
        pid, command = metadata.get("pid"), metadata.get("command")
        first = command[0] if isinstance(command, list) and command else command
        process = Process(
            None,
            pid if _is_number(pid) else None,
            first if isinstance(first, str) and first else None,
            dict(_agents(own.get("agents"))),
        )
        external = _dict(strings.get("correlation_id")).get("external")
        return cls(
            process,
            node.get("machine_id") if isinstance(node.get("machine_id"), str) else None,
            _operations(strings.get("buffer_records")),
            _symbols(own.get("kernel_symbols")),
            _pairs(strings.get("marker_api"), "correlation", "message"),
            _pairs(external, "external", "region"),
            _counters(own.get("counters")),
        )


def _agents(listed: object) -> Iterator[tuple[int, Agent]]:
    for row in map(_dict, _list(listed)):
        handle = _dict(row.get("id")).get("handle")
        if type(handle) is int and 0 <= handle < 1 << 64:
            type_ = row.get("type")
            yield handle, agent_of(row, _TYPES.get(type_) if type(type_) is int else None)


def _operations(listed: object) -> pl.DataFrame:
    rows = [
        (kind, number, own.get("kind"), name)
        for kind, own in enumerate(map(_dict, _list(listed)))
        for number, name in enumerate(_list(own.get("operations")))
        if isinstance(name, str) and isinstance(own.get("kind"), str)
    ]
    types = {"kind": pl.Int64, "operation": pl.Int64, "kind_name": pl.String, "name": pl.String}
    return pl.DataFrame(rows, types, orient="row")


def _symbols(listed: object) -> pl.DataFrame:
    keys = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
    numbers = ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count")
    rows = []
    for place, row in enumerate(map(_dict, _list(listed))):
        number = row.get("kernel_id", place)
        name = next((row[key] for key in keys if isinstance(row.get(key), str) and row[key]), None)
        counts = [row.get(key) if _is_number(row.get(key)) else None for key in numbers]
        if _is_number(number):
            rows.append((number, name, *counts))
    types = {
        "kernel_id": pl.Int64, "name": pl.String, "vgprs": pl.Int64, "accum_vgprs": pl.Int64,
        "sgprs": pl.Int64,
    }  # fmt: skip
    return _unique(pl.DataFrame(rows, types, orient="row"), "kernel_id")


def _pairs(listed: object, key: str, value: str) -> pl.DataFrame:
    rows = [
        (row["key"], row["value"])
        for row in map(_dict, _list(listed))
        if _is_number(row.get("key")) and isinstance(row.get("value"), str)
    ]
    return _unique(pl.DataFrame(rows, {key: pl.Int64, value: pl.String}, orient="row"), key)


def _counters(listed: object) -> pl.DataFrame:
    rows = []
    for row in map(_dict, _list(listed)):
        handle, name = _dict(row.get("id")).get("handle"), row.get("name")
        if type(handle) is int and 0 <= handle < 1 << 64 and isinstance(name, str):
            rows.append((handle, name))
    return _unique(
        pl.DataFrame(rows, {"counter": pl.UInt64, "name": pl.String}, orient="row"), "counter"
    )


def _address(name: str) -> pl.Expr:
    """An address from hexadecimal text; 0 means none."""
    text = pl.col(name).str.strip_prefix("0x")
    number = text.str.to_integer(base=16, strict=False, dtype=pl.Int64)
    return pl.when(number != 0).then(number).alias(name)


def _unique(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    return frame.unique(key, keep="first", maintain_order=True)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_number(value: object) -> bool:
    return type(value) is int and -_MOST <= value < _MOST
