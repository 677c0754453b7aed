"""Chrome trace JSON, as Kineto and others write it, straight into the tables.

The words of the format (``ph``, ``cat``, ``args`` and what is in it) are written in this module
alone. DuckDB parses the events, a few megabytes at a time and on all cores; no event becomes a
Python object.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.errors import NotATraceError
from profframe.readers.assembly import assemble
from profframe.readers.bytes import ByteSource
from profframe.readers.json_repair import DROPS
from profframe.readers.json_text import ArrayReader, Document, NoArrayError, Parsed, Wave
from profframe.readers.rows import Batch, Header, Quality, RawTrace, Table, earliest, split

_EVENTS_KEY: Final = "traceEvents"
_KEYS: Final = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "s", "bp", "args")
"""Keys of an event that have a column; any other is put among its arguments."""
_INTEGER_ARGS: Final = (
    "External id", "correlation", "device", "stream", "Stream Id", "Sequence number",
    "Fwd thread id", "Ev Idx", "Python id", "Python parent id", "Python module id", "Addr",
    "Bytes", "Device Type", "Device Id", "Total Allocated", "Total Reserved",
)  # fmt: skip
_TEXT_ARGS: Final = (
    "Module Hierarchy", "Input Dims", "Input type", "Input Strides", "Concrete Inputs",
    "Call stack",
)  # fmt: skip

_DEVICE_CATEGORIES: Final = (
    "kernel", "Kernel", "concurrent_kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset",
    "gpu_user_annotation", "cuda_sync", "cuda_event", "mtia_ccp_events", "hpu_op",
)  # fmt: skip
_DEVICE_TYPES: Final = (
    (re.compile(r"mtia_"), "MTIA"),
    (re.compile(r"xpu_"), "XPU"),
    (re.compile(r"hpu_"), "HPU"),
    (re.compile(r"async_npu"), "NPU"),
    (re.compile(r"privateuse1_"), "PRIVATEUSEONE"),
    (re.compile("(?:" + "|".join(_DEVICE_CATEGORIES) + r")\Z"), "CUDA"),
)
"""The first that is found names the devices of the trace; ROCm calls itself CUDA, as torch does."""
_ALLOCATOR_DEVICES: Final = (
    "CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "VULKAN",
    "METAL", "XPU", "MPS", "META", "HPU", "VE", "LAZY", "IPU", "MTIA", "PRIVATEUSEONE",
)  # fmt: skip
"""c10::DeviceType by number."""
_FLAGS: Final = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_UTC_US: Final = 1_200_000_000_000_000
"""A time from here on, in microseconds, is since the epoch (it is the year 2008)."""

_DESTINATION: Final = f"""
    CASE WHEN name = '[memory]' AND ph IN ('i', 'I', 'X')
              AND coalesce(cat, 'cpu_instant_event') = 'cpu_instant_event' THEN {Table.MEMORY}
         WHEN ph IN ('X', 'B', 'E') THEN {Table.EVENTS}
         WHEN ph IN ('s', 't', 'f') THEN {Table.FLOWS}
         WHEN ph = 'C' THEN {Table.COUNTERS}
         WHEN ph = 'M' AND name IN ('process_name', 'process_labels', 'process_sort_index',
                                    'thread_name', 'thread_sort_index') THEN {Table.THREADS}
         ELSE {Table.INSTANTS} END::UTINYINT"""


def _from_text(type_: str, keys: tuple[str, ...]) -> dict[str, str]:
    return dict.fromkeys(keys, type_)


_EVENT_TYPE: Final = json.dumps(
    [
        _from_text("VARCHAR", _KEYS)
        | _from_text("DECIMAL(28, 6)", ("ts", "dur"))
        | _from_text("JSON", ("args",))
    ]
)
"""The decimals make DuckDB keep the text of every number; else all would go through a double."""
_TIME_TEXT_TYPE: Final = json.dumps([_from_text("VARCHAR", ("ts", "dur"))])
_ARGS_TYPE: Final = json.dumps(
    _from_text("BIGINT", _INTEGER_ARGS)
    | _from_text("VARCHAR", _TEXT_ARGS)
    | {"finished": "BOOLEAN"}
)
_OLD_ARGS_TYPE: Final = json.dumps({"external id": "BIGINT", "Input dims": "VARCHAR"})
"""Spellings until 2021; DuckDB folds case: one structure cannot hold them beside the new ones."""

_LOOK: Final = r"""
    SELECT list_distinct(flatten(keys)), list_contains(keys, []),
           CASE WHEN contains(t, 'nan') OR contains(t, 'NaN') OR contains(t, 'NAN')
                     OR contains(t, 'inf') OR contains(t, 'Inf') OR contains(t, 'INF')
                THEN regexp_matches(t, '[\[:,]\s*[+-]?(?i:nan|inf|infinity)\s*[,\]}]')
                ELSE false END,
           contains(t, 'external id') OR contains(t, 'Input dims')
    FROM (SELECT t, json_keys(t, '$[*]') AS keys FROM pieces)"""
"""Of each piece: keys of its events, elements without a key, numbers not of JSON, old spellings."""

_OTHER_KEYS: Final = f"""
    array_to_string(list_transform(
        list_filter(map_entries(m), lambda e: e.key NOT IN {_KEYS!r}),
        lambda e: to_json(e.key)::VARCHAR || ':' || coalesce(e.value, 'null')), ',')"""
_WITH_OTHER_KEYS: Final = f"""
    SELECT * EXCLUDE (args, given, other),
           CASE WHEN other = '' THEN given
                WHEN coalesce(given, '{{}}') = '{{}}' THEN '{{' || other || '}}'
                WHEN given[1] = '{{' THEN given[:-2] || ',' || other || '}}'
                ELSE '{{"args":' || given || ',' || other || '}}' END AS args
    FROM (SELECT * EXCLUDE (m), args::VARCHAR AS given, {_OTHER_KEYS} AS other
          FROM (SELECT {{events}}, unnest(from_json(t, '["MAP(VARCHAR, JSON)"]')) AS m
                FROM pieces))"""
_EVENTS: Final = f"unnest(from_json(t, '{_EVENT_TYPE}'), max_depth := 2)"
_TIME_TEXTS: Final = f"unnest(from_json(t, '{_TIME_TEXT_TYPE}')) AS time_text"


def _select(other_keys: bool, old_args: bool, time_texts: bool) -> str:
    """The query that makes the rows of a wave, in the columns that `rows` takes."""
    events = f"{_EVENTS}, {_TIME_TEXTS}" if time_texts else _EVENTS
    if other_keys:
        source = _WITH_OTHER_KEYS.replace("{events}", events)
    else:
        source = f"SELECT {events} FROM pieces"
    external_id, input_dims, old = 'a."External id"', 'a."Input Dims"', ""
    if old_args:
        external_id = f'coalesce({external_id}, o."external id")'
        input_dims = f'coalesce({input_dims}, o."Input dims")'
        old = f", from_json(args, '{_OLD_ARGS_TYPE}') AS o"
    on_device = f'(cat IN {_DEVICE_CATEGORIES!r} OR a."Stream Id" IS NOT NULL)'
    lost_time = " OR time_text.ts IS NOT NULL AND ts IS NULL" if time_texts else ""
    lost_dur = " OR time_text.dur IS NOT NULL AND dur IS NULL" if time_texts else ""
    return f"""
    SELECT {_DESTINATION} AS destination, ph AS phase, cat AS category, name, pid, tid,
           TRY_CAST(ts_ns AS BIGINT) AS time_ns, TRY_CAST(raw_dur_ns AS BIGINT) AS dur_ns,
           ts IS NOT NULL AND TRY_CAST(ts_ns AS BIGINT) IS NULL{lost_time} AS bad_time,
           dur IS NOT NULL AND TRY_CAST(raw_dur_ns AS BIGINT) IS NULL{lost_dur} AS bad_dur,
           coalesce(ts_ns % 1 <> 0, false) OR coalesce(raw_dur_ns % 1 <> 0, false) AS rounded,
           id, s AS mark_scope, bp AS binding_point, args,
           CASE WHEN {on_device} THEN coalesce(a.device, TRY_CAST(pid AS INTEGER)) END AS device,
           CASE WHEN {on_device}
                THEN coalesce(a.stream, a."Stream Id",
                              TRY_CAST(regexp_extract(tid, '\\d+$') AS INTEGER))
                END AS stream,
           a.correlation, {external_id} AS external_id,
           CASE WHEN a."Sequence number" >= 0 THEN a."Sequence number" END AS sequence_nr,
           a."Fwd thread id" AS fwd_thread, a."Ev Idx" AS ev_idx,
           CASE WHEN NOT a.finished THEN true END AS is_async,
           a."Python id" AS python_id, a."Python parent id" AS python_parent_id,
           a."Python module id" AS python_module_id, a."Module Hierarchy" AS module_hierarchy,
           {input_dims} AS input_dims, a."Input type" AS input_types,
           a."Input Strides" AS input_strides, a."Concrete Inputs" AS concrete_inputs,
           a."Call stack" AS stack,
           a.Addr AS address, a.Bytes AS bytes,
           {list(_ALLOCATOR_DEVICES)!r}[a."Device Type" + 1] AS device_type,
           CASE WHEN a."Device Type" > 0 THEN a."Device Id" END AS memory_device,
           a."Total Allocated" AS total_allocated_bytes,
           a."Total Reserved" AS total_reserved_bytes
    FROM (SELECT *, from_json(args, '{_ARGS_TYPE}') AS a{old},
                 ts * 1000::DECIMAL(10, 0) AS ts_ns, dur * 1000::DECIMAL(10, 0) AS raw_dur_ns
          FROM ({source}))"""


def _has_unread_times(rows: pa.Table) -> bool:
    """Whether a time is missing that should be there: it was missing, or was no number."""
    marks = pc.not_equal(rows["destination"], Table.THREADS.value)
    no_time = pc.and_(marks, pc.is_null(rows["time_ns"]))
    no_dur = pc.and_(pc.equal(rows["phase"], "X"), pc.is_null(rows["dur_ns"]))
    return bool(pc.any(pc.or_kleene(no_time, no_dur)).as_py())


@dataclass(frozen=True, slots=True)
class _Look:
    """What a first look at a wave's pieces found."""

    sound: bool
    other_keys: bool
    old_args: bool


class _Parser:
    """Makes rows of text; each call has a cursor of its own, so that calls run in parallel."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def wave(self, wave: Wave) -> Parsed[Batch]:
        """Rows of each run of sound pieces; None for a run that needs repair."""
        text, offsets = wave.arrays()
        pieces = _pieces(text, offsets)
        count = len(wave.bounds)
        rows = self._rows(pieces, strict=True)
        if rows is not None:
            return Parsed(wave, [(0, count, rows)])
        return Parsed(
            wave, _runs([self._rows(pieces.slice(i, 1), strict=True) for i in range(count)])
        )

    def array(self, text: bytes) -> Batch | None:
        """Rows of one array of mended events, or None where it does not parse."""
        return self._rows(_pieces(text, [0, len(text)]), strict=False)

    def _rows(self, pieces: pa.LargeStringArray, *, strict: bool) -> Batch | None:
        with self._connection.cursor() as cursor:
            cursor.register("pieces", pa.table({"t": pieces}))
            try:
                look = _look(cursor)
                if strict and not look.sound:
                    return None
                select = partial(_select, look.other_keys, look.old_args)
                rows = cursor.sql(select(time_texts=False)).to_arrow_table()
                if _has_unread_times(rows):
                    rows = cursor.sql(select(time_texts=True)).to_arrow_table()
            except (duckdb.Error, UnicodeDecodeError):
                return None
        return split(rows)


def _pieces(text: bytes, offsets: list[int]) -> pa.LargeStringArray:
    bounds = pa.py_buffer(np.asarray(offsets, dtype=np.int64))
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, bounds, pa.py_buffer(text))


def _look(cursor: duckdb.DuckDBPyConnection) -> _Look:
    found = cursor.execute(_LOOK).fetchall()
    keys = {key for row in found for key in row[0] or ()}
    return _Look(
        sound=not any(row[1] or row[2] for row in found),
        other_keys=not keys.issubset(_KEYS),
        old_args=any(row[3] for row in found),
    )


def _runs(pieces: list[Batch | None]) -> list[tuple[int, int, Batch | None]]:
    """Neighbouring pieces that need repair become one run; sound ones stay apart."""
    runs: list[tuple[int, int, Batch | None]] = []
    for i, rows in enumerate(pieces):
        if rows is None and runs and runs[-1][2] is None:
            runs[-1] = (runs[-1][0], i + 1, None)
        else:
            runs.append((i, i + 1, rows))
    return runs


def read(source: ByteSource) -> RawTrace:
    """Read one Chrome trace.

    Raises
    ------
    NotATraceError
        When the source is no JSON, or JSON without trace events; the message names file and place.
    SourceError
        When the file cannot be read.
    """
    with duckdb.connect(config={"threads": 1}) as connection:
        parser = _Parser(connection)
        threads = max(1, min(8, os.cpu_count() or 1))
        reader = ArrayReader(source.blocks(), _EVENTS_KEY, parser.wave, parser.array, threads)
        try:
            batches = list(reader.rows())
        except NoArrayError as error:
            raise _not_a_trace(source, str(error)) from None
        document = reader.document
        if document.is_array and not any(_has_phase(batch) for batch in batches):
            raise _not_a_trace(source, "no element of the JSON array is an event with a phase")
        quality = _quality(document, source)
        dropped = sum(document.found[check] for check in DROPS)
        return assemble(batches, _header(document, batches), quality, dropped, connection)


def _not_a_trace(source: ByteSource, why: str) -> NotATraceError:
    damage = f"; {source.damage}" if source.damage else ""
    return NotATraceError(
        f"{source.path}: not a trace: {why}{damage} (expected Chrome trace JSON: an object with "
        f"{_EVENTS_KEY!r}, or an array of events)"
    )


def _has_phase(batch: Batch) -> bool:
    return any(
        table is not Table.INSTANTS or rows["phase"].null_count < rows.num_rows
        for table, rows in batch.items()
    )


def _quality(document: Document, source: ByteSource) -> Quality:
    """What reading the text has found."""
    quality = Quality()
    for check, count in document.found.items():
        place = document.first.get(check)
        details = [f"first at byte {place:,}" if place is not None else "outside the events"]
        if check == "truncated" and source.damage:
            details.append(source.damage)
        quality.note(check, count, "; ".join(details))
    if source.damage and "truncated" not in document.found:
        quality.note("damaged_stream", 0, source.damage)
    return quality


def _header(document: Document, batches: list[Batch]) -> Header:
    """What the members around the events say."""
    rest = dict(document.header)
    base_ns = _integer(rest.pop("baseTimeNanoseconds", None))
    distributed = _distributed(rest.get("distributedInfo"))
    flags = {flag: rest.pop(flag) for flag in _FLAGS if flag in rest}
    devices = rest.pop("deviceProperties", None)
    is_kineto = "schemaVersion" in rest or devices is not None
    backend = distributed.get("backend")
    return Header(
        format="kineto" if is_kineto else "chrome",
        clock=_clock(base_ns, batches, is_kineto),
        base_ns=base_ns,
        rank=_index(distributed.get("rank")),
        world_size=_index(distributed.get("world_size")),
        backend=backend if isinstance(backend, str) else None,
        device_type=_device_type(batches),
        device_properties=json.dumps(devices) if devices else None,
        profiler_flags=json.dumps(flags) if flags else None,
        metadata=json.dumps(rest) if rest else None,
    )


def _clock(base_ns: int | None, batches: list[Batch], is_kineto: bool) -> str:
    """Which clock the times are on; Kineto lost the origin between 2024-04-22 and 2024-05-10."""
    if base_ns is not None:
        return "utc"
    first = earliest(batches)
    if first is not None and first >= _UTC_US * 1000:
        return "utc"
    in_nanoseconds = first is not None and any(
        np.any(batch[Table.EVENTS]["start_ns"].to_numpy() % 1000 > 0)
        for batch in batches
        if Table.EVENTS in batch
    )
    return "unknown" if is_kineto and in_nanoseconds else "relative"


def _distributed(value: object) -> dict[str, Any]:
    """The distributed job, in any shape that was written: an object, a list of them, JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if isinstance(value, list):
        value = next((v for v in value if isinstance(v, dict)), None)
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    try:
        number = int(value) if isinstance(value, (int, float, str)) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) < 1 << 62 else None


def _index(value: object) -> int | None:
    number = _integer(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def _device_type(batches: list[Batch]) -> str | None:
    categories: set[str] = set()
    for batch in batches:
        for table in (Table.EVENTS, Table.FLOWS):
            if table in batch:
                categories.update(
                    c
                    for c in batch[table]["category"].chunk(0).dictionary.to_pylist()
                    if c is not None
                )
    return next((name for word, name in _DEVICE_TYPES if any(map(word.match, categories))), None)
