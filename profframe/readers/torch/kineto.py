"""Read what Kineto recorded from the live object: its activities, and torch's events for them.

An activity has its arguments as the exporter would write them to a Chrome trace, so the same code
reads them. Torch's events have what no file contains: where an operation ended, its scope, its
overload, its flops. Both can be read any number of times; the exporter works once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import parsing_database
from profframe.readers.build.assembly import assemble
from profframe.readers.build.header_devices import live_device_type
from profframe.readers.build.row_tables import (
    Batch,
    Header,
    Quality,
    RawTrace,
    RowTable,
    conform,
    gather,
    replaced,
)
from profframe.readers.chrome.columns import batch_of
from profframe.readers.chrome.device_args import with_device_args
from profframe.readers.chrome.parsing import ARGS_TYPE
from profframe.readers.chrome.reading import device_type_of
from profframe.readers.chrome.session import Session
from profframe.readers.json import repair
from profframe.readers.json.numerals import marked, unmarked
from profframe.readers.torch.flows import FORWARD, flow_rows
from profframe.readers.torch.getters import (
    UNDECODABLE,
    Fields,
    Flags,
    Ints,
    as_texts,
    read_fields,
)

_ROWS: Final = 1 << 15
"""Number of activities in one batch."""
_LAST: Final = np.iinfo(np.int64).max
_NO_LINE: Final = np.iinfo(np.int64).min
_NUMBERS: Final = (
    "timestamp", "duration", "device_id", "resource_id", "correlation_id",
    "linked_correlation_id", "flow_id",
)  # fmt: skip
_ACTIVITY: Final[Mapping[str, npt.DTypeLike]] = {
    **dict.fromkeys(_NUMBERS, np.int64),
    **dict.fromkeys(("name", "type", "metadata_json"), object),
}
_EVENT: Final[Mapping[str, npt.DTypeLike]] = {
    "start_thread_id": np.uint64,
    "end_thread_id": np.uint64,
    "is_async": np.bool_,
    "scope": np.int32,
}
_SAMPLE: Final = 97
"""One in this many events is compared with its activity."""
_WITH_OVERLOAD: Final = r"::.*\."
"""Pattern in the names of activities if overloads were captured."""
_FLOW: Final[Mapping[str, npt.DTypeLike]] = {"flow_type": np.int64, "flow_start": np.bool_}

_OPERATIONS: Final = ("cpu_op", "user_annotation")
"""Categories of events that torch records itself."""
_ON_HOST: Final = (*_OPERATIONS, "python_function", "cpu_instant_event")
_INSTANT: Final = "cpu_instant_event"
_WITH_CORRELATION: Final = (
    "gpu_memcpy", "gpu_memset", "kernel", "cuda_runtime", "cuda_driver", "privateuse1_runtime",
    "privateuse1_driver",
)  # fmt: skip
"""Categories whose correlation id is not an External id."""
_KERNEL: Final = "kernel"
_COLLECTIVE: Final = "record_param_comms"
"""Op whose arguments its kernels repeat."""
_GPU_ORDER, _OVERHEAD_ORDER, _SPANS_ORDER = 5_000_000, 0x1000000, 0x20000000
"""Sort indices of processes, as the exporter writes them."""

_BROKEN: Final = r"""
    SELECT row, args FROM arguments
    WHERE NOT json_valid(args)
       OR regexp_matches(args, '[\[:,]\s*[+-]?(?i:nan|inf|infinity)\s*[,\]}]')"""
_EMPTY, _COMMA, _ID, _OPEN, _CLOSE = (
    pa.scalar(text, pa.string()) for text in ("", ",", '"External id":', "{", "}")
)
"""Typed, as all constants here: without a type Arrow tries an import each time."""
_NON_FINITE: Final = """
    SELECT bool_or(contains(args, 'nan') OR contains(args, 'NaN') OR contains(args, 'NAN')
                   OR contains(args, 'inf') OR contains(args, 'Inf') OR contains(args, 'INF'))
    FROM arguments"""
"""Whether there may be numbers that are not JSON; DuckDB would accept them."""


@dataclass(frozen=True, slots=True)
class ProfilerSettings:
    """Settings of the profiler, which its results do not have.

    Attributes
    ----------
    header : Header
        What the profiler knows without the events.
    elapsed : str, optional
        Getter of the device time that torch measured itself, in microseconds.
    with_flops : bool, optional
        Flops were to be recorded; None if unknown.
    on_host : bool
        No device was recorded.
    use_device : str, optional
        What torch calls the devices.
    """

    header: Header
    elapsed: str | None = None
    with_flops: bool | None = None
    on_host: bool = False
    use_device: str | None = None


@dataclass(frozen=True, slots=True)
class _ActivityBatch:
    """Some consecutive activities.

    Attributes
    ----------
    batch : Batch
        Their rows.
    numbers : Fields
        Numbers of each activity, and flags: ``is_slice``, ``is_host``, ``names_overload``.
    repairs : Counter
        Repairs of malformed arguments, by check.
    """

    batch: Batch
    numbers: Fields
    repairs: Counter[str]


def read(results: Any, settings: ProfilerSettings) -> RawTrace:
    """Read one finished profile, without using it up: a ``_ProfilerResult``."""
    return read_cycles([results], settings)


def read_cycles(cycles: Sequence[Any], settings: ProfilerSettings, earlier: int = 0) -> RawTrace:
    """Read finished profiles as one trace, without using them up.

    Parameters
    ----------
    cycles
        A ``_ProfilerResult`` of each cycle. Ids of ops, calls and kernels continue from one to the
        next; those of flows do not.
    settings
        What their profiler says besides the results.
    earlier
        Events of cycles before these, which are lost.
    """
    quality = Quality()
    if earlier:
        quality.note("earlier_cycles", earlier)
    with parsing_database.connect() as connection:
        recordings: list[_Recording] = []
        for results in cycles:
            first_flow = max((each.last_flow for each in recordings), default=0)
            recordings.append(_recording(results, settings, first_flow, quality, connection))
        numbers = {
            name: np.concatenate([each.numbers[name] for each in recordings])
            for name in ("device", "line", "is_host")
        }
        batches = [each.batch for each in recordings]
        batches[-1] |= {RowTable.THREADS: _labels(numbers)}
        parts = [part for each in recordings for part in each.parts]
        flows: list[Batch] = [{RowTable.FLOWS: batch[RowTable.FLOWS]} for batch in batches]
        device_type = live_device_type(device_type_of([*parts, *flows]), settings.use_device)
        header = replace(settings.header, device_type=device_type)
        session = Session()
        rows = gather(with_device_args(batch, session) for batch in batches)
        return assemble(rows, header, quality, 0)


@dataclass(frozen=True, slots=True)
class _Recording:
    """One cycle; ``parts`` are its rows in the order of reading."""

    batch: dict[RowTable, pa.Table]
    parts: list[Batch]
    numbers: Fields
    last_flow: int


def _recording(
    results: Any,
    settings: ProfilerSettings,
    first_flow: int,
    quality: Quality,
    connection: duckdb.DuckDBPyConnection,
) -> _Recording:
    activities = results.trace_activities()
    parts = [_part(connection, fields) for fields in _activity_fields(activities, settings)]
    events = _TorchEvents(results.events())
    batches = [part.batch for part in parts]
    numbers = {
        name: np.concatenate([part.numbers[name] for part in parts]) for name in parts[0].numbers
    }
    numbers["flow_id"] = np.where(numbers["flow_id"] > 0, numbers["flow_id"] + first_flow, 0)
    slices = _rows(batches, RowTable.EVENTS)
    if slices is not None and events.objects:
        slices = _with_torch_fields(slices, numbers, events, settings, quality)
    batch = {
        RowTable.EVENTS: _with_span(slices, numbers, results.trace_start_ns()),
        RowTable.FLOWS: _flows(activities, numbers),
    }
    for table in (RowTable.MEMORY, RowTable.INSTANTS):
        if (rows := _rows(batches, table)) is not None:
            batch[table] = rows
    for check, count in sum((part.repairs for part in parts), Counter[str]()).items():
        quality.note(check, count, "in the arguments of a live event")
    return _Recording(batch, batches, numbers, int(np.max(numbers["flow_id"], initial=0)))


def _rows(batches: Iterable[Batch], table: RowTable) -> pa.Table | None:
    parts = [batch[table] for batch in batches if table in batch]
    return pa.concat_tables(parts, promote_options="default") if parts else None


def _activity_fields(activities: Sequence[Any], settings: ProfilerSettings) -> Iterator[Fields]:
    """Fields of the activities, batch by batch; at least one batch.

    Kernels of a collective get the arguments of the op that describes it, which comes before.
    """
    collectives: dict[int, str] = {}
    excluded = {"linked_correlation_id"} if settings.on_host else set()
    types = {name: type_ for name, type_ in _ACTIVITY.items() if name not in excluded}
    for start in range(0, len(activities) or 1, _ROWS):
        fields = read_fields(activities[start : start + _ROWS], types)
        if settings.on_host:
            fields |= {"linked_correlation_id": np.zeros_like(fields["correlation_id"])}
        else:
            collectives |= _collectives(fields)
        yield _with_collectives(fields, collectives) if collectives else fields


def _collectives(fields: Fields) -> dict[int, str]:
    """Arguments of the ops that describe collectives, by correlation id."""
    if _COLLECTIVE not in fields["name"]:
        return {}
    rows = np.flatnonzero(np.array(fields["name"], object) == _COLLECTIVE).tolist()
    return {int(fields["correlation_id"][row]): fields["metadata_json"][row] for row in rows}


def _with_collectives(fields: Fields, collectives: Mapping[int, str]) -> Fields:
    op = fields["linked_correlation_id"]
    is_kernel = np.array(fields["type"], object) == _KERNEL
    arguments = list(fields["metadata_json"])
    for row in np.flatnonzero(is_kernel & np.isin(op, list(collectives))).tolist():
        arguments[row] = ",".join(filter(None, (arguments[row], collectives[int(op[row])])))
    return fields | {"metadata_json": arguments}


def _part(connection: duckdb.DuckDBPyConnection, fields: Fields) -> _ActivityBatch:
    """Rows of a batch of activities."""
    count = len(fields["name"])
    categories = pa.array(fields["type"], pa.string()).dictionary_encode()
    names = pa.array(fields["name"], pa.string()).dictionary_encode()
    with connection.cursor() as cursor:
        members, repairs = _parsed(cursor, _arguments(fields, categories))
    if fields[UNDECODABLE]:
        repairs += Counter(invalid_utf8=fields[UNDECODABLE])
    is_instant = _is(categories, (_INSTANT,))
    line = fields["resource_id"]
    numbers = {
        "timestamp": fields["timestamp"],
        "end": fields["timestamp"] + fields["duration"],
        "device": fields["device_id"],
        "line": np.where(line == _NO_LINE, 0, np.abs(line)),
        "flow_id": fields["flow_id"],
        "order": members["Ev Idx"].fill_null(_LAST).to_numpy(),
        "is_slice": ~is_instant,
        "is_host": _is(categories, _ON_HOST),
        "names_overload": pc.match_substring_regex(names.dictionary, _WITH_OVERLOAD).to_numpy(
            zero_copy_only=False
        ),
    }
    phase = pa.array(is_instant.astype(np.int8))
    members |= {
        "ph": pa.array(["X", "i"], pa.string()).take(phase),
        "s": pa.array([None, "t"], pa.string()).take(phase),
        "cat": categories,
        "name": names,
        "pid": as_texts(numbers["device"]),
        "tid": as_texts(numbers["line"]),
        "time_ns": pa.array(fields["timestamp"]),
        "dur_ns": pa.array(fields["duration"], mask=is_instant),
        **dict.fromkeys(("id", "bp"), pa.nulls(count, pa.string())),
        **dict.fromkeys(("bad_time", "bad_dur", "rounded"), pa.nulls(count, pa.bool_())),
    }
    return _ActivityBatch(batch_of(members), numbers, repairs)


def _is(categories: pa.Array, texts: Sequence[str]) -> Flags:
    values = pa.array(texts, pa.string())
    mask: Flags = pc.is_in(categories, values).to_numpy(zero_copy_only=False)
    return mask


def _arguments(fields: Fields, categories: pa.DictionaryArray) -> pa.Array:
    """Arguments as the exporter writes them, apart from spaces."""
    linked = fields["linked_correlation_id"]
    number = np.where(_is(categories, _WITH_CORRELATION), 0, fields["correlation_id"])
    external = np.where(linked != 0, linked, number)
    texts = pc.binary_join_element_wise(_ID, pa.array(external).cast(pa.string()), _EMPTY)
    texts = pc.if_else(pa.array(external != 0), texts, _EMPTY)
    metadata = pa.array(fields["metadata_json"], pa.string())
    has_both = pc.and_(pc.not_equal(texts, _EMPTY), pc.not_equal(metadata, _EMPTY))
    members = pc.binary_join_element_wise(
        texts, pc.if_else(has_both, _COMMA, _EMPTY), metadata, _EMPTY
    )
    objects = pc.binary_join_element_wise(_OPEN, members, _CLOSE, _EMPTY)
    return pc.if_else(pc.equal(members, _EMPTY), pa.scalar(None, pa.string()), objects)


def _parsed(
    cursor: duckdb.DuckDBPyConnection, args: pa.Array
) -> tuple[dict[str, pa.Array], Counter[str]]:
    """The arguments and their parsed members; those that are not JSON are repaired."""
    repairs: Counter[str] = Counter()
    cursor.register("arguments", pa.table({"row": np.arange(len(args)), "args": args}))
    try:
        non_finite = cursor.execute(_NON_FINITE).fetchall()[0][0]
        parsed = None if non_finite else _members(cursor, args)
    except duckdb.Error:
        parsed = None
    if parsed is None:
        rows, repairs = _repaired(cursor.execute(_BROKEN).fetchall())
        texts = [rows.get(i, text) for i, text in enumerate(args.to_pylist())]
        parsed = _members(cursor, pa.array(texts, pa.string()))
    flat = parsed.flatten()
    return {
        name.removeprefix("members."): column.combine_chunks()
        for name, column in zip(flat.column_names, flat.columns, strict=True)
    }, repairs


def _members(cursor: duckdb.DuckDBPyConnection, args: pa.Array) -> pa.Table:
    """The arguments without spaces, and their members."""
    texts = marked(args)
    cursor.register("texts", pa.table({"args": args, "marked": texts}))
    written = "json_extract(marked, '$')::VARCHAR"
    written = written if texts is args else unmarked(written)
    query = f"SELECT {written} AS args, from_json(args, '{ARGS_TYPE}') AS members FROM texts"
    return cursor.sql(query).to_arrow_table()


def _repaired(broken: Iterable[tuple[int, str]]) -> tuple[dict[int, str], Counter[str]]:
    """Repaired arguments by row; what cannot be repaired is kept as text."""
    rows: dict[int, str] = {}
    repairs: Counter[str] = Counter()
    for row, text in broken:
        repair_ = repair.repair(text + "]")
        is_one = len(repair_.elements) == 1
        repairs += repair_.repairs if is_one else Counter(unreadable_arguments=1)
        rows[row] = repair_.elements[0] if is_one else json.dumps({"args": text})
    return rows, repairs


class _TorchEvents:
    """Torch's own events, and their fields."""

    def __init__(self, objects: Sequence[Any]) -> None:
        self.objects = objects
        self.fields = read_fields(objects, _EVENT)

    def read(self, name: str, type_: npt.DTypeLike, rows: Ints) -> Any:
        """Another field of some events."""
        return read_fields(list(map(self.objects.__getitem__, rows.tolist())), {name: type_})[name]


def _with_torch_fields(
    slices: pa.Table,
    numbers: Fields,
    events: _TorchEvents,
    settings: ProfilerSettings,
    quality: Quality,
) -> pa.Table:
    """Slices with the fields that only the live object has.

    Torch's events are the activities sorted by time, ties in the profiler's own order.
    """
    place = np.lexsort((numbers["order"], numbers["timestamp"]))
    event_of = np.empty_like(place)
    event_of[place] = np.arange(place.size)
    row = event_of[numbers["is_slice"]]
    sample = np.arange(0, place.size, _SAMPLE)
    if place.size != len(events.objects) or not np.array_equal(
        events.read("start_ns", np.int64, sample), numbers["timestamp"][place[sample]]
    ):
        quality.note("unmatched_live_events", slices.num_rows)
        return slices
    fields = events.fields
    is_async = fields["is_async"] | (fields["start_thread_id"] != fields["end_thread_id"])
    is_async = is_async[row]
    is_operation = _is(slices["category"].combine_chunks(), _OPERATIONS)
    columns = {
        "is_async": pa.array(is_async),
        "is_remote": pa.array(np.zeros(row.size, np.bool_)),
        "is_legacy": pa.array(np.zeros(row.size, np.bool_)),
        "scope": pa.array(fields["scope"][row], mask=~is_operation),
        "dur_ns": _durations(slices, is_async, row, events),
    }
    if numbers["names_overload"].any():
        columns |= _names(events, row)
    if settings.with_flops is not False:
        flops = events.read("flops", np.uint64, row).astype(np.int64)
        if settings.with_flops or flops.any():
            columns["torch_flops"] = pa.array(flops)
    if settings.elapsed:
        elapsed = events.read(settings.elapsed, np.int64, row)
        is_legacy = is_operation & ~is_async & (elapsed > 0)
        columns["is_legacy"] = pa.array(is_legacy)
        columns["kernel_ns"] = pa.array(elapsed * 1000, mask=~is_legacy)
    for name, values in columns.items():
        exists = name in slices.column_names
        slices = replaced(slices, name, values) if exists else slices.append_column(name, values)
    return slices


def _names(events: _TorchEvents, row: Ints) -> dict[str, pa.Array]:
    """Names of operators and of their overloads, if the activity's name has both."""
    overloads = pa.array(events.read("overload_name", object, row), pa.string())
    names = pa.array(events.read("name", object, row), pa.string())
    overloads = pc.if_else(pc.equal(overloads, _EMPTY), pa.scalar(None, pa.string()), overloads)
    return {"overload_name": overloads.dictionary_encode(), "name": names.dictionary_encode()}


def _durations(slices: pa.Table, is_async: Flags, row: Ints, events: _TorchEvents) -> pa.Array:
    """Durations; slices open at the end of the profile have another end in torch's events."""
    duration = slices["dur_ns"].to_numpy().copy()
    rows = np.flatnonzero(is_async)
    duration[rows] = events.read("duration_ns", np.int64, row[rows])
    return pa.array(duration)


def _with_span(slices: pa.Table | None, numbers: Fields, start_ns: int) -> pa.Table:
    """The slices, and that of the profiler itself: from its start to the last end."""
    end_ns = int(np.max(numbers["end"], initial=start_ns))
    false = pa.array([False], pa.bool_())
    texts = {
        "phase": "X",
        "category": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "tid": "PyTorch Profiler",
        "args": '{"Op count":0}',
    }
    span = conform(
        RowTable.EVENTS,
        {
            "start_ns": pa.array([start_ns], pa.int64()),
            "dur_ns": pa.array([end_ns - start_ns], pa.int64()),
            **dict.fromkeys(("is_remote", "is_legacy"), false),
            **{name: pa.array([text], pa.string()) for name, text in texts.items()},
        },
    )
    if slices is None:
        return span
    return pa.concat_tables([slices, span], promote_options="default")


def _flows(activities: Sequence[Any], numbers: Fields) -> pa.Table:
    """Both ends of each flow, at the activities that it connects."""
    rows = np.flatnonzero(numbers["flow_id"] > 0)
    ends = read_fields(list(map(activities.__getitem__, rows.tolist())), _FLOW)
    columns = {
        "flow_id": pa.array(numbers["flow_id"][rows]).cast(pa.string()),
        "time_ns": pa.array(numbers["timestamp"][rows]),
        "pid": as_texts(numbers["device"][rows]),
        "tid": as_texts(numbers["line"][rows]),
    }
    return flow_rows(columns, ends["flow_type"] == FORWARD, ~ends["flow_start"])


def _labels(numbers: Fields) -> pa.Table:
    """Names and sort indices of processes and threads, as the exporter writes them."""
    devices, lines = numbers["device"], numbers["line"]
    on_host = set(_distinct(devices[numbers["is_host"]]))
    rows: list[tuple[str, str, str, dict[str, object]]] = []
    for device in _distinct(devices):
        label, order, thread = f"GPU {device}", _GPU_ORDER + device, "stream {} "
        if device in on_host:
            label, order, thread = "CPU", device, "thread {}"
        elif device < 0:
            label, order, thread = "Overhead", _OVERHEAD_ORDER, "thread {}"
        pid = str(device)
        rows += [
            ("process_name", pid, "0", {"name": "python"}),
            ("process_labels", pid, "0", {"labels": label}),
            ("process_sort_index", pid, "0", {"sort_index": order}),
        ]
        for line in _distinct(lines[devices == device]):
            if device in on_host and not line:
                continue  # Python ran on a thread unknown to torch
            rows += [
                ("thread_name", pid, str(line), {"name": thread.format(line)}),
                ("thread_sort_index", pid, str(line), {"sort_index": line}),
            ]
    rows.append(("process_sort_index", "Spans", "0", {"sort_index": _SPANS_ORDER}))
    names, pids, tids, args = zip(*rows, strict=True)
    return conform(
        RowTable.THREADS,
        {
            "name": pa.array(names, pa.string()),
            "pid": pa.array(pids, pa.string()),
            "tid": pa.array(tids, pa.string()),
            "args": pa.array(map(json.dumps, args), pa.string()),
        },
    )


def _distinct(numbers: Ints) -> list[int]:
    distinct: list[int] = sorted(pc.unique(pa.array(numbers)).to_pylist())
    return distinct
