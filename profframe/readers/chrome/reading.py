"""Read Chrome trace JSON, from Kineto and other writers, into tables.

DuckDB parses the events, a few megabytes at a time and on all cores; no event becomes a Python
object.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import NotATraceError, SourceError
from profframe.native.library import library
from profframe.readers import parsing_database
from profframe.readers.build.assembly import assemble
from profframe.readers.build.header_devices import UNNAMED, is_private, private_device
from profframe.readers.build.row_tables import (
    Batch,
    Header,
    Quality,
    RawTrace,
    Rows,
    RowTable,
    earliest,
    gather,
    replaced,
)
from profframe.readers.bytes import ByteSource, is_pipe
from profframe.readers.chrome import EVENTS_KEY, added_args, is_of_kineto
from profframe.readers.chrome.columns import DEVICE_CATEGORIES, OWN_KEY
from profframe.readers.chrome.job import JOB_KEY, Job, job_of, rows_of_traces
from profframe.readers.chrome.merged import Merged, merged
from profframe.readers.chrome.parsing import Parser
from profframe.readers.chrome.parts import (
    OF_RANKS,
    MixedRanksError,
    SeveralTracesError,
    spans,
    split,
    windows,
)
from profframe.readers.json.exact import dumps
from profframe.readers.json.opening import NoArrayError, opening
from profframe.readers.json.repair import DROPS
from profframe.readers.json.stream import ArrayReader, members_in
from profframe.schema import INT32
from profframe.system.disk_tables import Spool
from profframe.system.drafts import scratch

__all__ = [
    "SeveralTracesError",
    "device_type_of",
    "distributed_job",
    "read",
    "read_parts",
]

_PHASE: Final = b'"ph"'
_KINETO: Final = "kineto"
_ASCEND: Final = "Ascend Hardware"
_STREAM: Final = re.compile(r"Stream (\d{1,9})")
_DEVICE_TYPES: Final = (
    (re.compile(r"mtia_"), "MTIA"),
    (re.compile(r"xpu_"), "XPU"),
    (re.compile(r"hpu_"), "HPU"),
    (re.compile(r"async_npu"), "NPU"),
    (re.compile(r"privateuse1_"), UNNAMED),
    (re.compile(r"cpu_to_xpu\Z"), "XPU"),
    (re.compile(r"cpu_to_mtia\Z"), "MTIA"),
    (re.compile(r"cpu_to_hpu\Z"), "HPU"),
    (re.compile("(?:cpu_to_cuda|" + "|".join(DEVICE_CATEGORIES) + r")\Z"), "CUDA"),
)
"""The first match names the devices of the trace; ROCm is called CUDA, as in torch."""
_BASE: Final = "baseTimeNanoseconds"
_OF_ALL_PARTS: Final = ("schemaVersion", "deviceProperties", "displayTimeUnit", _BASE)
"""Header members of a file with several traces that apply to all of them."""
_TO_DEVICE: Final = "cpu_to_"
_DEVICE_LABEL: Final = re.compile(r"(?!(?:CPU|GPU)\b)([A-Za-z]\w*) \d+\s*")
"""Label of a device's process."""
_FLAGS: Final = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_UTC_US: Final = 1_200_000_000_000_000
"""Times from this one on, in microseconds, are since the epoch (the year 2008)."""


def read(
    source: ByteSource,
    spool: Spool | None = None,
    threads: int | None = None,
    *,
    as_one: bool = False,
    source_pids: Mapping[str, str | None] = MappingProxyType({}),
) -> RawTrace:
    """Read one Chrome trace.

    Parameters
    ----------
    source
        Its text.
    spool
        Where its tables go; None for memory.
    threads
        Threads that parse; None for one per processor, up to 8.
    as_one
        Whether several traces in it, if there are several, are read as one.
    source_pids
        The ids of processes in the traces that it was made from, if they are known already.

    Raises
    ------
    SeveralTracesError
        It has several traces.
    NotATraceError
        The source is not JSON, or JSON without trace events; the message names file and place.
    SourceError
        The file cannot be read.
    """
    if library() is None:
        parsing_database.open_in_background()
    parser = Parser(source_pids)
    threads = threads or min(8, os.cpu_count() or 1)
    reader = ArrayReader(
        source.blocks(),
        EVENTS_KEY,
        parser.wave,
        parser.array,
        threads,
        mark=_PHASE,
        begun=partial(_begun, parser, source.path, is_spooled=spool is not None),
    )
    try:
        rows = gather(reader.rows(), spool)
    except NoArrayError as error:
        raise _not_a_trace(source, str(error)) from None
    document = reader.document
    if document.is_array and not _has_phase(rows):
        raise _not_a_trace(source, "no element of the JSON array is an event with a phase")
    if document.repairs["not_an_event"] and not any(part.num_rows for part in rows.values()):
        raise _not_a_trace(source, f"no element of {EVENTS_KEY!r} is an event")
    quality = Quality()
    for note in document.notes("events", source.damage):
        quality.note(*note)
    dropped = sum(document.repairs[check] for check in DROPS)
    job = None if as_one else job_of(document.header)
    ranks = None
    if not (as_one or job or OWN_KEY in document.header or JOB_KEY in document.header):
        rows, ranks = _ranks_of(source.path, rows)
    several = job or ranks
    if several and several.pids and not parser.source_pids and not is_pipe(source.path):
        with closing(ByteSource(source.path)) as second:  # they come after the events
            return read(second, spool, threads, source_pids=several.pids)
    if ranks is not None:
        parts = [] if spool else _of_ranks(rows, ranks, document.header, quality, dropped)
        raise SeveralTracesError(source.path, ranks.count, document.header, parts, OF_RANKS)
    return trace_of(source.path, rows, document.header, quality, dropped, job=job, as_one=as_one)


def trace_of(
    path: Path,
    rows: Rows,
    members: Mapping[str, Any],
    quality: Quality,
    dropped: int,
    *,
    job: Job | None,
    as_one: bool,
) -> RawTrace:
    """The trace in a file, by the members around its events.

    Raises
    ------
    SeveralTracesError
        It has several.
    """
    if job is not None:
        parts = _of_job(rows, job, members, quality, dropped)
        if len(parts) == 1:
            return parts[0]
        raise SeveralTracesError(path, len(parts), members, parts)
    exported = _exported(members)
    header = _header(members, rows, _base_ns(members))
    count = windows(rows[RowTable.INSTANTS])
    if count > 1 and not as_one:
        raise SeveralTracesError(path, count, members)
    if exported is not None:
        header = _exported_header(header, exported)
    else:  # an exported trace has the spans of all its cycles
        count = max(count, spans(rows[RowTable.EVENTS]))
    if count > 1:
        quality.note("mixed_traces", rows[RowTable.EVENTS].num_rows, f"{count} traces")
    return _finished(assemble(rows, header, quality, dropped), exported)


def _begun(parser: Parser, path: Path, before: bytes, *, is_spooled: bool) -> None:
    """Tell the parser what the members before the events say about processes."""
    if JOB_KEY.encode() not in before:
        return
    job = job_of(members_in(before))
    if job is None:
        return
    if is_spooled and len(job.traces) > 1:
        raise SeveralTracesError(path, len(job.traces), {JOB_KEY: None})
    parser.source_pids = job.pids


def _of_job(
    rows: Rows, job: Job, members: Mapping[str, Any], quality: Quality, dropped: int
) -> list[RawTrace]:
    """Each of the traces of a job; what was repaired in the file is noted in the first."""
    parts = []
    base_ns = _base_ns(members)
    own = members.get(OWN_KEY)
    counts = own.get("traces") if isinstance(own, dict) else None
    for number, (trace, part) in enumerate(zip(job.traces, rows_of_traces(rows, job), strict=True)):
        exported = {**trace.own}
        if isinstance(counts, list) and len(counts) == len(job.traces):
            exported |= counts[number] if isinstance(counts[number], dict) else {}
        header = _exported_header(_header(trace.header, part, base_ns), exported)
        source = _text(trace.own.get("rank_source")) or header.rank_source
        header = replace(header, run=trace.run, rank=trace.rank, rank_source=source)
        noted = Quality() if number else quality
        if trace.offset_ns:
            count = sum(map(len, part.values())) - len(part[RowTable.THREADS])
            noted.note("clock_corrected", count, f"{trace.offset_ns:,} ns were subtracted")
        raw = assemble(part, header, noted, 0 if number else dropped)
        raw = _finished(_with_base(raw, trace.base_ns), exported)
        parts.append(raw)
    return parts


def _ranks_of(path: Path, rows: Rows) -> tuple[Rows, Merged | None]:
    """The rows of a file and its ranks, if a tool of others merged several.

    Raises
    ------
    SourceError
        It did, and they cannot be told apart.
    """
    try:
        rows = added_args.labelled(rows)
        return rows, merged(rows, is_separable=windows(rows[RowTable.INSTANTS]) > 1)
    except MixedRanksError as error:
        raise SourceError(
            f"{path}: several ranks in one file, and their work cannot be told apart: {error} "
            "(load the files that it was merged from: a folder of these is one run)"
        ) from None


def _of_ranks(
    rows: Rows, ranks: Merged, members: Mapping[str, Any], quality: Quality, dropped: int
) -> list[RawTrace]:
    """Each of the ranks in a file; what was repaired in the file is noted in the first."""
    parts: list[RawTrace] = []
    for rank, part in ranks.parts(rows).items():
        header = _header(_of_rank(members, rank), part, _base_ns(members))
        header = replace(header, rank=rank, rank_source=ranks.source)
        raw = assemble(part, header, Quality() if parts else quality, 0 if parts else dropped)
        parts.append(_finished(raw, None))
    return parts


def _of_rank(members: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Members around the events of one rank: a merged file has those of its first, or all."""
    own = {**members}
    job, devices = members.get("distributedInfo"), members.get("deviceProperties")
    if isinstance(job, dict) and "rank" in job:
        own["distributedInfo"] = job | {"rank": rank}
    if isinstance(devices, list):
        own["deviceProperties"] = [d for i, d in enumerate(devices) if d not in devices[:i]]
    return own


def _with_base(raw: RawTrace, base_ns: int | None) -> RawTrace:
    """The trace with the base of its own file; its times are since the base of this file."""
    traces = replaced(raw.tables["traces"], "base_ns", pa.array([base_ns], pa.int64()))
    header = replace(raw.header, base_ns=base_ns)
    return RawTrace({**raw.tables, "traces": traces}, header)


def _finished(raw: RawTrace, exported: Mapping[str, Any] | None) -> RawTrace:
    """The trace with what is only known once all of it is read."""
    raw = _with_ascend_streams(_with_kineto_flags(raw))
    return raw if exported is None else _with_exported_counts(raw, exported)


def read_parts(
    path: Path, several: SeveralTracesError, threads: int | None = None
) -> list[RawTrace]:
    """Read each trace in a file, in order, or all as one if they cannot be separated.

    Raises
    ------
    SourceError
        The file cannot be read again.
    """
    with scratch() as folder:
        with closing(ByteSource(path)) as source:
            blocks = source.blocks()
            start = opening(blocks, EVENTS_KEY).text
            header = several.header
            shared = {member: header[member] for member in _OF_ALL_PARTS if member in header}
            paths = split(itertools.chain((start,), blocks), header, shared, folder)
        parts = []
        for part in paths if len(paths) == several.count else ():
            with closing(ByteSource(part)) as source:
                parts.append(read(source, threads=threads, as_one=True))
    if not parts or any(spans(raw.tables["events"]) > 1 for raw in parts):
        with closing(ByteSource(path)) as source:
            return [read(source, threads=threads, as_one=True)]
    return [_numbered(raw, number, len(parts)) for number, raw in enumerate(parts, 1)]


def _numbered(raw: RawTrace, number: int, count: int) -> RawTrace:
    """One of several traces in a file, with a note that says so."""
    detail = f"trace {number} of {count}"
    note = schema.quality_rows(("combined_file", raw.tables["events"].num_rows, detail, None))
    quality = pa.concat_tables([raw.tables["quality"], note])
    return replace(raw, tables={**raw.tables, "quality": quality})


def _with_kineto_flags(raw: RawTrace) -> RawTrace:
    """Events that Kineto wrote come from this node, and are not legacy events."""
    events = raw.tables["events"]
    if raw.header.format != _KINETO:
        return raw
    for name in ("is_remote", "is_legacy"):
        values = pc.fill_null(events[name], fill_value=False)
        events = replaced(events, name, values)
    return replace(raw, tables={**raw.tables, "events": events})


def _with_ascend_streams(raw: RawTrace) -> RawTrace:
    """On Ascend devices only the thread's name says the stream of an event."""
    threads, events = raw.tables["threads"], raw.tables["events"]
    lines = zip(threads["thread"], threads["process_name"], threads["thread_name"], strict=True)
    stream_of = {
        thread.as_py(): int(match[1])
        for thread, process, name in lines
        if str(process).startswith(_ASCEND) and (match := _STREAM.fullmatch(str(name)))
    }
    if not stream_of:
        return raw
    streams = [stream_of.get(thread) for thread in range(threads.num_rows)]
    stream = pa.array(streams, INT32).take(events["thread"])
    events = replaced(events, "stream", pc.coalesce(events["stream"], stream))
    return replace(raw, tables={**raw.tables, "events": events})


def _not_a_trace(source: ByteSource, reason: str) -> NotATraceError:
    damage = f"; {source.damage}" if source.damage else ""
    return NotATraceError(
        f"{source.path}: not a trace: {reason}{damage} (expected Chrome trace JSON: an object with "
        f"{EVENTS_KEY!r}, or an array of events)"
    )


def _has_phase(rows: Rows) -> bool:
    return any(
        part.num_rows > (part["phase"].null_count if table is RowTable.INSTANTS else 0)
        for table, part in rows.items()
    )


def base_of(members: Mapping[str, object]) -> int:
    """The moment that the times of a file count from."""
    return _base_ns(members) or 0


def _base_ns(members: Mapping[str, object]) -> int | None:
    return _integer(members.get(_BASE))


def _header(around: Mapping[str, Any], rows: Rows, base_ns: int | None) -> Header:
    """Header from the members around the events, and the base of their times."""
    members = {key: value for key, value in around.items() if key != _BASE}
    if _exported(around) is not None:
        del members[OWN_KEY]
    rank, world_size, backend = distributed_job(members.get("distributedInfo"))
    flags = {flag: members.pop(flag) for flag in _FLAGS if flag in members}
    is_kineto = is_of_kineto(members)
    devices = members.pop("deviceProperties", None)
    return Header(
        format=_KINETO if is_kineto else "chrome",
        clock=_clock(base_ns, rows, is_kineto),
        base_ns=base_ns,
        rank=rank,
        world_size=world_size,
        backend=backend,
        device_type=_device_type(rows),
        device_properties=dumps(devices) if devices else None,
        profiler_flags=dumps(flags) if flags else None,
        metadata=dumps(members) if members else None,
    )


def _device_type(rows: Rows) -> str | None:
    """Type of the devices; if torch does not know it, from a label or this process."""
    type_ = device_type_of([rows])
    if type_ != UNNAMED:
        return type_
    labels = rows[RowTable.THREADS].filter(
        pc.equal(rows[RowTable.THREADS]["name"], "process_labels")
    )
    texts = (_loads(args).get("labels") for args in labels["args"].to_pylist() if args)
    matches = (_DEVICE_LABEL.fullmatch(text) for text in texts if isinstance(text, str))
    return next((match[1].upper() for match in matches if match), private_device())


def _loads(args: str) -> dict[str, Any]:
    try:
        values = json.loads(args)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _exported(around: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an exported trace says about its source; None if profframe did not write the file."""
    exported = around.get(OWN_KEY)
    return (
        exported if isinstance(exported, dict) and {"format", "clock"} <= exported.keys() else None
    )


def _exported_header(header: Header, exported: Mapping[str, Any]) -> Header:
    """The header of an exported trace, with what the file says about its source."""
    clock = exported.get("clock")
    header = replace(
        header,
        format=_text(exported.get("format")) or header.format,
        clock=clock if clock in ("utc", "relative", "unknown") else header.clock,
        backend=_text(exported.get("backend")) or header.backend,
        device_type=_text(exported.get("device_type")) or header.device_type,
    )
    if header.world_size is None:
        header = replace(header, world_size=_index(exported.get("world_size")))
    rank, rank_source = _index(exported.get("rank")), exported.get("rank_source")
    if header.rank is None and rank is not None and rank_source in ("argument", "path"):
        header = replace(header, rank=rank, rank_source=rank_source)
    return header


def _with_exported_counts(raw: RawTrace, exported: Mapping[str, Any]) -> RawTrace:
    """Event counts of the exported trace, if the file still has all its events."""
    traces = raw.tables["traces"]
    accounted = exported.get("accounted")
    if (
        traces["source_events"][0].as_py() != exported.get("events")
        or not isinstance(accounted, dict)
        or not all(type(count) is int and 0 <= count < 1 << 48 for count in accounted.values())
    ):
        return raw
    counts = {"source_events": sum(accounted.values()), "accounted": json.dumps(accounted)}
    for name, value in counts.items():
        traces = replaced(traces, name, pa.array([value], traces.schema.field(name).type))
    return replace(raw, tables={**raw.tables, "traces": traces})


def _clock(base_ns: int | None, rows: Rows, is_kineto: bool) -> str:
    """Clock of the times; Kineto lost the origin between 2024-04-22 and 2024-05-10."""
    if base_ns is not None:
        return "utc"
    first = earliest(rows)
    if first is not None and first >= _UTC_US * 1000:
        return "utc"
    in_nanoseconds = np.any(rows[RowTable.EVENTS]["start_ns"].fill_null(0).to_numpy() % 1000 > 0)
    return "unknown" if is_kineto and in_nanoseconds else "relative"


def distributed_job(value: object) -> tuple[int | None, int | None, str | None]:
    """Rank, number of ranks and backend of a job, from its ``distributedInfo``."""
    job = _distributed(value)
    return _index(job.get("rank")), _index(job.get("world_size")), _text(job.get("backend"))


def _distributed(value: object) -> dict[str, Any]:
    """The distributed job, from an object, a list of objects, or JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _index(value: object) -> int | None:
    number = _integer(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def device_type_of(batches: Iterable[Batch]) -> str | None:
    """Type of the devices in use, by the categories of all rows."""
    columns = [
        batch[table]["category"]
        for batch in batches
        for table in (RowTable.EVENTS, RowTable.FLOWS)
        if table in batch
    ]
    categories = {c for column in columns for c in column.unique().to_pylist() if c}
    type_ = next((name for word, name in _DEVICE_TYPES if any(map(word.match, categories))), None)
    if type_ is None:  # arrows in a list of events name the device, such as cpu_to_npu
        names = {c.removeprefix(_TO_DEVICE) for c in categories if c.startswith(_TO_DEVICE)}
        return next((name.upper() for name in sorted(names) if is_private(name)), None)
    return type_
