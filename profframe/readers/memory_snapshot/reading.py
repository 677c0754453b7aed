"""Read memory snapshots of torch's caching allocator (`torch.cuda.memory._dump_snapshot`).

Those of torch.xpu have the same form.

The words of the format occur only in this folder. The pickle is decoded, not loaded: nothing in it
is run, and records become columns, a few thousand at a time.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import NotATraceError, SourceError
from profframe.readers import memory_snapshot
from profframe.readers.build.assembly import assemble
from profframe.readers.build.row_tables import (
    Header,
    Quality,
    RawTrace,
    RowTable,
    conform,
    gather,
    repeated,
    replaced,
)
from profframe.readers.bytes import ByteSource
from profframe.readers.memory_snapshot.lifetimes import lifetimes
from profframe.readers.memory_snapshot.recording import (
    HOST,
    LONGEST_US,
    Recording,
    masked,
    named,
    unless_empty,
)
from profframe.readers.pickle import limits
from profframe.readers.pickle.contents import FRAME_FIELDS, Contents
from profframe.readers.pickle.records import Chunk, Kind, RecordMachine
from profframe.readers.pickle.unfolding import Unfolding
from profframe.system import collector
from profframe.system.disk_tables import PIECE_ROWS, Spool, SpooledTable

_TRACES: Final = "device_traces"
_BLOCKS: Final = "blocks"
_SEGMENTS: Final = "segments"
_ANNOTATIONS: Final = "external_annotations"
_HOST_TRACES: Final = "host_traces"
_HOST_SEGMENTS: Final = "host_segments"
"""What `_record_memory_history(record_pinned_host_memory=True)` adds: one list of records, not one
for each device, and segments of a block each."""
_RECORD: Final[Mapping[str, Kind]] = {
    "action": "text", "addr": "number", "device_free": "number", "size": "number",
    "stream": "number", "time_us": "number", "frames": "stack", "compile_context": "text",
    "user_metadata": "text", "pool_id": "tuple",
}  # fmt: skip
_FIELDS: Final[Mapping[str, Mapping[str, Kind]]] = {
    _TRACES: _RECORD,
    _HOST_TRACES: _RECORD,
    _BLOCKS: {
        "address": "number", "size": "number", "requested_size": "number", "state": "text",
        "frames": "stack", "user_metadata": "text",
    },
}  # fmt: skip
_SETTINGS: Final = "allocator_settings"
_XPU_SETTING: Final = "PYTORCH_ALLOC_CONF"
_XPU_FILE: Final = re.compile(r"(^|[/\\])torch[/\\]xpu[/\\]")
_XPU_NAME: Final = re.compile(r"\b(XPUCachingAllocator|c10::xpu)::")
_UTC_US: Final = 1_200_000_000_000_000
"""Times from here on, in microseconds, are since the epoch (the year 2008)."""
_ACTIVE: Final = "active"
_PHASES: Final = {"START": "B", "END": "E"}
_DEVICE_BITS: Final = 16
_STACKS: Final = 1 << 14
"""Number of stacks that become rows at once."""
_MOST_DEVICES: Final = HOST


def read(
    source: ByteSource,
    spool: Spool | None = None,
    threads: int | None = None,  # noqa: ARG001
) -> RawTrace:
    """Read one memory snapshot.

    Parameters
    ----------
    source
        Its bytes.
    spool
        Where its records go; None for memory.
    threads
        Not used: one thread decodes.

    Raises
    ------
    NotATraceError
        It has more than plain data, which could run code, or it is not a snapshot.
    SourceError
        It is damaged or ends early; the message names the place.
    """
    recording = Recording(spool)
    blocks = _Blocks()

    def take(chunk: Chunk) -> None:
        if chunk.name != _BLOCKS:
            recording.add(chunk, machine.contents.texts)
        else:
            blocks.parts.append(chunk)

    machine = RecordMachine(
        source.blocks(), source.path, _FIELDS, frozenset([_TRACES]), take, _prepare
    )
    try:
        with collector.paused():  # else half of the time: each record is a tuple for a while
            snapshot = machine.value()
    except SourceError as error:
        if source.damage is None:
            raise
        raise SourceError(f"{error} ({source.damage})") from error
    if isinstance(snapshot, list):  # of torch.cuda.memory_snapshot()
        snapshot = {_SEGMENTS: snapshot}
    parts = {_TRACES, _SEGMENTS, _HOST_TRACES, _HOST_SEGMENTS}
    if not isinstance(snapshot, dict) or not snapshot.keys() & parts:
        raise NotATraceError(
            f"{source.path}: not a trace: a pickle of a {type(snapshot).__name__} without "
            f"{_SEGMENTS} and {_TRACES}, unlike those of torch.cuda.memory._dump_snapshot"
        )
    return _tables(snapshot, machine, recording, blocks, source, spool)


@dataclasses.dataclass(slots=True)
class _Blocks:
    """Rows of blocks in the order of the file."""

    parts: list[Chunk] = dataclasses.field(default_factory=list)

    def column(self, key: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Values, and a mask of those that are there."""
        none = np.empty(0, np.int64)
        return (
            np.concatenate([none, *(part.columns[key] for part in self.parts)]),
            np.concatenate([none.astype(np.bool_), *(part.is_there[key] for part in self.parts)]),
        )

    def lists(self) -> npt.NDArray[np.int64]:
        """Number of the list of each row."""
        return np.concatenate([np.empty(0, np.int64), *(part.lists for part in self.parts)])


def _prepare(name: str, row: dict[Any, Any]) -> dict[Any, Any]:
    """A row as torch writes it today: before 2.1, blocks had a history, newest first."""
    history = row.get("history")
    if name != _BLOCKS or not isinstance(history, list) or not history:
        return row
    last = history[0] if isinstance(history[0], dict) else {}
    return {
        **{key: value for key, value in row.items() if key != "history"},
        "frames": row.get("frames") or last.get("frames") or [],
        "requested_size": row.get("requested_size", last.get("real_size")),
        "address": row.get("address", last.get("addr")),
    }


def _tables(  # noqa: PLR0917
    snapshot: dict[Any, Any],
    machine: RecordMachine,
    recording: Recording,
    blocks: _Blocks,
    source: ByteSource,
    spool: Spool | None,
) -> RawTrace:
    """The tables of the trace; what is not needed for the next one is released."""
    quality = Quality()
    unfolding = Unfolding(source.path)
    devices = _lists(snapshot.get(_TRACES), source)
    host = _host_list(snapshot.get(_HOST_TRACES), source)
    device_type = _device_type(snapshot.get(_SETTINGS), machine.contents)
    of_devices, of_host = (
        _dicts(snapshot.get(name), name, source) for name in (_SEGMENTS, _HOST_SEGMENTS)
    )
    segments, segment_of_list, odd_values = _segments(
        of_devices, of_host, device_type, machine, unfolding
    )
    block_rows, at_end = _block_rows(blocks, segments, segment_of_list, machine)
    stacks = _stacks(machine.contents, spool)
    unread = sum(machine.contents.unknown_keys.values())
    machine.release()
    recording.finish(devices, host)
    pairs = lifetimes(recording, at_end, device_type)
    annotations, odd_annotations = _annotations(snapshot.get(_ANNOTATIONS), source)
    rows = conform(RowTable.EVENTS, annotations)
    start_us, end_us = recording.span()
    is_utc = start_us is not None and start_us >= _UTC_US
    clock = "utc" if is_utc else "unknown" if start_us is None else "relative"
    header = Header(
        format=memory_snapshot.FORMAT,
        clock=clock,
        rank_source="assumed",
        device_type=device_type,
        metadata=_metadata(snapshot, machine, unfolding),
    )
    if odd := unfolding.odd_values + odd_annotations:
        quality.note("odd_value", odd, f"in {_ANNOTATIONS} and metadata")
    if odd := odd_values + machine.odd_values + machine.contents.odd_values:
        quality.note("odd_value", odd, "in tables segments, blocks and allocator_events")
    if unread:
        quality.note("unread_key", unread, "traces.metadata has the keys")
    if odd := recording.impossible_times:
        quality.note("impossible_time", odd, "in table allocator_events")
    counts = {
        "segments": segments.num_rows,
        "blocks": block_rows.num_rows,
        "allocator_events": recording.count,
    }
    raw = assemble(gather([{RowTable.EVENTS: rows}]), header, quality, 0, unread=counts)
    traces = raw.tables["traces"]
    for name, us, of_both in (("start_ns", start_us, min), ("end_ns", end_us, max)):
        if us is not None:
            other = traces[name][0].as_py()
            time = us * 1000 if other is None else of_both(us * 1000, other)
            traces = replaced(traces, name, pa.array([time], pa.int64()))
    own = {
        "segments": segments,
        "blocks": block_rows,
        "allocations": _together(pairs.columns, spool),
        "allocator_events": recording.table(pairs.allocation_of_event, device_type),
        "stacks": stacks,
    }
    return RawTrace({**raw.tables, "traces": traces, **own}, raw.header)


def _lists(value: Any, source: ByteSource) -> list[int]:
    """Numbers of the lists of records, by device."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise SourceError(f"{source.path}: {_TRACES} is not a list with one list for each device")
    if len(value) > _MOST_DEVICES:
        raise SourceError(
            f"{source.path}: {_TRACES} names {len(value):,} devices, more than a "
            f"machine has ({_MOST_DEVICES:,} are read): the snapshot is damaged; take it again"
        )
    return [getattr(part, "number", -1) for part in value]


def _host_list(value: Any, source: ByteSource) -> int | None:
    """Number of the list of records of pinned host memory."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise SourceError(f"{source.path}: {_HOST_TRACES} is not a list of records")
    return getattr(value, "number", None)


def _device_type(settings: Any, contents: Contents) -> str:
    """Type of the devices: by settings of the allocator, without these by a frame in it."""
    names = [n for n in settings if isinstance(n, str)] if isinstance(settings, dict) else []
    if any("cuda" in name.lower() for name in names):
        return "CUDA"
    is_xpu = _XPU_SETTING in names or any(
        _XPU_FILE.search(file or "") or _XPU_NAME.search(name or "")
        for name, file, *_ in contents.frames
    )
    return "XPU" if is_xpu else "CUDA"


def _dicts(value: Any, name: str, source: ByteSource) -> list[dict[Any, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise SourceError(f"{source.path}: {name} is not a list of dicts")
    return _counted(value, name, source)


def _counted(value: list[Any], name: str, source: ByteSource) -> list[Any]:
    if len(value) > limits.MOST_ROWS:
        raise SourceError(
            f"{source.path}: {name} has {len(value):,} values, of which "
            f"{limits.MOST_ROWS:,} can be read: record fewer (max_entries=)"
        )
    return value


_SEGMENT_NUMBERS: Final = (
    ("device", "device"), ("address", "address"), ("bytes", "total_size"),
    ("allocated_bytes", "allocated_size"), ("active_bytes", "active_size"),
    ("requested_bytes", "requested_size"), ("stream", "stream"),
)  # fmt: skip
_SEGMENT_VALUES: Final = (
    *_SEGMENT_NUMBERS, ("segment_type", "segment_type"), ("pool", "segment_pool_id"),
    ("is_expandable", "is_expandable"),
)  # fmt: skip


def _segments(
    of_devices: list[dict[Any, Any]],
    of_host: list[dict[Any, Any]],
    device_type: str,
    machine: RecordMachine,
    unfolding: Unfolding,
) -> tuple[pa.Table, dict[int, int], int]:
    """Segments, their rows by the number of their block list, and the number of odd values."""
    rows = [*of_devices, *of_host]
    columns: dict[str, list[Any]] = {
        name: [(_device if name == "device" else _whole)(row.get(key)) for row in rows]
        for name, key in _SEGMENT_NUMBERS
    }
    # Pinned memory has the device -1 there.
    columns["device"][len(of_devices) :] = [row.get("device") for row in of_host]
    columns |= {
        "segment_type": [_text(row.get("segment_type")) for row in rows],
        "pool": [_pool(row.get("segment_pool_id"), unfolding) for row in rows],
        "is_expandable": [
            value if isinstance(value := row.get("is_expandable"), bool) else None for row in rows
        ],
    }
    odd = sum(
        row.get(key) is not None and value is None
        for name, key in _SEGMENT_VALUES
        for row, value in zip(rows, columns[name], strict=True)
    )
    indices = columns["device"][: len(of_devices)]
    types = [None if device is None else device_type for device in indices]
    columns |= {
        "segment_id": list(range(len(rows))),
        "device_type": [*types, *[schema.PINNED] * len(of_host)],
        "device": [*indices, *[None] * len(of_host)],
        "stack_id": [machine.contents.stack_id(row.get("frames")) for row in rows],
    }
    numbers = {
        part.number: i
        for i, row in enumerate(rows)
        if (part := row.get(_BLOCKS)) is not None and hasattr(part, "number")
    }
    return _typed(schema.SEGMENTS, columns), numbers, odd


def _block_rows(
    blocks: _Blocks, segments: pa.Table, segment_of_list: Mapping[int, int], machine: RecordMachine
) -> tuple[pa.Table, pa.Table]:
    """Blocks, and those that are allocated at the end, with the pool of their segment."""
    lists = blocks.lists()
    numbers_of_lists = np.array([*segment_of_list.items(), (-1, -1)], np.int64)
    numbers_of_lists = numbers_of_lists[np.argsort(numbers_of_lists[:, 0])]
    place = np.searchsorted(numbers_of_lists[:, 0], lists).clip(max=len(numbers_of_lists) - 1)
    segment = np.where(numbers_of_lists[place, 0] == lists, numbers_of_lists[place, 1], -1)
    columns = {"block_id": pa.array(np.arange(len(lists)))}
    columns["segment_id"] = masked(segment, segment >= 0)
    at = columns["segment_id"]
    of_segments = {
        name: segments[name].combine_chunks().take(at) for name in ("device_type", "device", "pool")
    }
    columns |= {name: of_segments[name] for name in ("device_type", "device")}
    sizes, has_size = blocks.column("size")
    addresses, has_address = blocks.column("address")
    # Before 2.1 blocks had no addresses: they follow each other in their segment.
    is_first = np.append([True], lists[1:] != lists[:-1])[: len(lists)]
    ends = np.cumsum(sizes * has_size)
    begins = ends - sizes * has_size
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(lists)), 0))
    base = pc.fill_null(segments["address"].combine_chunks().take(at), -1).to_numpy()
    reckoned = base + begins - begins[first] if len(lists) else base
    columns["address"] = masked(
        np.where(has_address, addresses, reckoned), has_address | (base >= 0)
    )
    columns["bytes"] = masked(sizes, has_size)
    columns["requested_bytes"] = masked(*blocks.column("requested_size"))
    columns["state"] = named(*blocks.column("state"), machine.contents.texts)
    columns["stack_id"] = masked(*blocks.column("frames"))
    columns["metadata"] = unless_empty(*blocks.column("user_metadata"), machine.contents.texts)
    rows = _typed(schema.BLOCKS, columns)
    return rows, _allocated(rows, of_segments["pool"])


def _allocated(blocks: pa.Table, pool: pa.Array) -> pa.Table:
    """Blocks that are allocated at the end, with numbers of their devices."""
    is_active = pc.starts_with(blocks["state"].cast(pa.string()), _ACTIVE)
    is_host = pc.fill_null(pc.equal(blocks["device_type"], schema.PINNED), fill_value=False)
    device = pc.if_else(is_host, pa.scalar(HOST, pa.int32()), blocks["device"])
    has_place = pc.and_(pc.is_valid(blocks["address"]), pc.is_valid(device))
    rows = blocks.set_column(blocks.schema.get_field_index("device"), "device", device)
    rows = rows.append_column("pool", pool)
    return rows.filter(pc.fill_null(pc.and_(is_active, has_place), fill_value=False))


def _together(
    columns: Iterator[tuple[str, pa.Array]], spool: Spool | None
) -> pa.Table | SpooledTable:
    """A table of columns that arrive one by one."""
    name, first = next(columns)
    whole = pa.table({name: first})
    rows: pa.Table | SpooledTable = whole
    if spool is not None:
        rows = spool.table(
            whole.slice(start, PIECE_ROWS) for start in range(0, max(1, len(first)), PIECE_ROWS)
        )
    for name, values in columns:
        rows = rows.append_column(name, values)
    return rows


def _stacks(contents: Contents, spool: Spool | None) -> pa.Table | SpooledTable:
    """One row per frame of each stack."""
    none = ((),) * len(FRAME_FIELDS)
    names, files, lines, *fx = zip(*contents.frames, strict=True) if contents.frames else none
    frames = {
        "name": repeated(names),
        "file": repeated(files),
        "line": pa.array(lines, pa.int64()),
        **dict(zip(("fx_op", "fx_node", "fx_target", "fx_trace"), map(repeated, fx), strict=True)),
    }
    parts = (
        _frames_of_stacks(contents.stacks[first : first + _STACKS], first, frames)
        for first in range(0, max(1, len(contents.stacks)), _STACKS)
    )
    return pa.concat_tables(parts) if spool is None else spool.table(parts)


def _frames_of_stacks(stacks: list[bytes], first: int, frames: Mapping[str, pa.Array]) -> pa.Table:
    """The rows of some stacks, numbered from a first number on."""
    ids = np.frombuffer(b"".join(stacks), np.int32)
    depths = np.array([len(stack) >> 2 for stack in stacks], np.int64)
    number = np.repeat(np.arange(first, first + len(depths)), depths)
    depth = np.arange(len(ids)) - np.repeat(np.cumsum(depths) - depths, depths)
    columns = {"stack_id": pa.array(number), "depth": pa.array(depth, pa.int32())}
    columns |= {name: values.take(pa.array(ids)) for name, values in frames.items()}
    return _typed(schema.STACKS, columns)


def _annotations(value: Any, source: ByteSource) -> tuple[dict[str, pa.Array], int]:
    """Begin and end of annotations of the program, as slices of a thread for each device.

    The second result is the number of values that could not be read.
    """
    values = _counted(value, _ANNOTATIONS, source) if isinstance(value, list) else []
    rows = [row for row in values if isinstance(row, dict) and _phase(row) is not None]
    columns: dict[str, list[Any]] = {
        "name": [_text(row.get("name")) for row in rows],
        "time_us": [_whole(row.get("time_us"), LONGEST_US.bit_length()) for row in rows],
        "device": [_whole(row.get("device"), _DEVICE_BITS) for row in rows],
    }
    odd = (value is not None and not isinstance(value, list)) + len(values) - len(rows)
    odd += sum(
        row.get(name) is not None and kept is None
        for name, column in columns.items()
        for row, kept in zip(rows, column, strict=True)
    )
    return {
        "phase": pa.array([_phase(row) for row in rows], pa.string()),
        "category": pa.array(["user_annotation"] * len(rows), pa.string()),
        "name": repeated(columns["name"]),
        "start_ns": pa.array(
            [None if us is None else us * 1000 for us in columns["time_us"]], pa.int64()
        ),
        "pid": pa.array([_ANNOTATIONS] * len(rows), pa.string()),
        "tid": pa.array([f"device {device or 0}" for device in columns["device"]], pa.string()),
    }, odd


def _phase(row: dict[Any, Any]) -> str | None:
    stage = row.get("stage")
    return _PHASES.get(stage) if isinstance(stage, str) else None


def _metadata(snapshot: dict[Any, Any], machine: RecordMachine, unfolding: Unfolding) -> str | None:
    rest = {
        key: value
        for key, value in snapshot.items()
        if key not in {_SEGMENTS, _TRACES, _ANNOTATIONS, _HOST_SEGMENTS, _HOST_TRACES}
    }
    if machine.contents.unknown_keys:
        rest["keys_not_loaded"] = dict(sorted(machine.contents.unknown_keys.items()))
    return unfolding.json(rest) if rest else None


def _typed(table: schema.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Rows of a table in its types; columns that are missing are NULL."""
    count = len(next(iter(columns.values())))
    fields = [field for field in table.arrow if field.name not in {"run", "rank"}]
    return pa.table(
        [_column(columns.get(field.name), field.type, count) for field in fields],
        names=[field.name for field in fields],
    )


def _column(values: Any, type_: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, type_)
    if isinstance(values, list):
        plain = pa.string() if pa.types.is_dictionary(type_) else type_
        values = pa.array(values, plain)
        return values.dictionary_encode() if pa.types.is_dictionary(type_) else values
    return values if values.type == type_ else values.cast(type_)


def _whole(value: Any, bits: int = 64) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and -1 << bits - 1 <= value < 1 << bits - 1 else None


def _device(value: Any) -> int | None:
    whole = _whole(value)
    return whole if whole is not None and 0 <= whole < HOST else None


def _text(value: Any) -> str | None:
    """Text, also of a number; None for anything else."""
    return str(value) if isinstance(value, (str, int, float)) else None


def _pool(value: Any, unfolding: Unfolding) -> str | None:
    is_list = isinstance(value, (list, tuple))
    return unfolding.json(value, (",", ":")) if is_list else None
