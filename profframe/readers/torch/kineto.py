"""What Kineto recorded, out of the live object: its activities, and torch's own view of them.

An activity carries its arguments in the words of the Chrome trace that the exporter would write, so
they are read by the same code. Torch's events say what no file holds: where an operation ended, its
scope, its overload, its flops. Both can be asked for any number of times; the exporter works once.
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
from profframe.readers.build.rows import (
    Batch,
    Header,
    Quality,
    RawTrace,
    Table,
    conform,
    gather,
    replaced,
)
from profframe.readers.chrome import device_type_of
from profframe.readers.chrome.columns import batch_of
from profframe.readers.chrome.device_args import with_device_args
from profframe.readers.chrome.parsing import ARGS_TYPE
from profframe.readers.chrome.session import Session
from profframe.readers.json import repair
from profframe.readers.torch.getters import UNDECODABLE, Fields, as_texts, fields

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ROWS: Final = 1 << 15
"""Activities in one batch."""
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
"""Of so many events one is compared with its activity."""
_WITH_OVERLOAD: Final = r"::.*\."
"""In the name of an activity where overloads were captured."""
_FLOW: Final[Mapping[str, npt.DTypeLike]] = {"flow_type": np.int64, "flow_start": np.bool_}
_FORWARD, _FLOW_NAMES = 1, ("ac2g", "fwdbwd")

_OPERATIONS: Final = ("cpu_op", "user_annotation")
"""Categories of what torch records itself."""
_ON_HOST: Final = (*_OPERATIONS, "python_function", "cpu_instant_event")
_INSTANT: Final = "cpu_instant_event"
_WITH_CORRELATION: Final = (
    "gpu_memcpy", "gpu_memset", "kernel", "cuda_runtime", "cuda_driver", "privateuse1_runtime",
    "privateuse1_driver",
)  # fmt: skip
"""Categories whose own number is no External id."""
_KERNEL: Final = "kernel"
_COLLECTIVE: Final = "record_param_comms"
"""Op whose arguments the kernels that it launched have, too."""
_GPU_ORDER, _OVERHEAD_ORDER, _SPANS_ORDER = 5_000_000, 0x1000000, 0x20000000
"""Where a viewer shows processes: as the exporter has it."""

_PARSED: Final = f"""
    SELECT json_extract(args, '$')::VARCHAR AS args, from_json(args, '{ARGS_TYPE}') AS given
    FROM arguments"""
_BROKEN: Final = r"""
    SELECT row, args FROM arguments
    WHERE NOT json_valid(args)
       OR regexp_matches(args, '[\[:,]\s*[+-]?(?i:nan|inf|infinity)\s*[,\]}]')"""
_NOTHING: Final[Mapping[str, npt.NDArray[Any]]] = {
    **dict.fromkeys(
        ("timestamp", "end", "device", "line", "flow_id", "order"), np.empty(0, np.int64)
    ),
    **dict.fromkeys(("is_slice", "is_host", "names_overload"), np.empty(0, np.bool_)),
}
"""Numbers of no activities."""
_EMPTY, _COMMA, _ID, _OPEN, _CLOSE = (
    pa.scalar(text, pa.string()) for text in ("", ",", '"External id":', "{", "}")
)
"""With a type, as all constants here: without one, Arrow tries an import each time."""
_NON_FINITE: Final = """
    SELECT bool_or(contains(args, 'nan') OR contains(args, 'NaN') OR contains(args, 'NAN')
                   OR contains(args, 'inf') OR contains(args, 'Inf') OR contains(args, 'INF'))
    FROM arguments"""
"""Whether there may be numbers that are not of JSON; DuckDB would take them."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the profiler says besides its results.

    Attributes
    ----------
    header : Header
        What is known without the events.
    elapsed : str, optional
        Getter of the device time that torch may have measured itself, in microseconds.
    with_flops : bool, optional
        Flops were asked for; None where that is not known.
    on_host : bool
        No device was recorded.
    """

    header: Header
    elapsed: str | None = None
    with_flops: bool | None = None
    on_host: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """Some consecutive activities.

    Attributes
    ----------
    batch : Batch
        Their rows.
    numbers : Fields
        Numbers of each activity, and flags: ``is_slice``, ``is_host``, ``names_overload``.
    mended : Counter
        What was wrong with arguments.
    """

    batch: Batch
    numbers: Fields
    mended: Counter[str]


def read(results: Any, told: Told) -> RawTrace:
    """Tables of one finished profile; nothing of it is used up.

    Parameters
    ----------
    results
        A ``_ProfilerResult``.
    told
        What its profiler says.
    """
    quality = Quality()
    activities = results.trace_activities()
    with parsing_database.connect() as connection:
        parts = [_part(connection, found) for found in _asked(activities, told)]
        recorded = _Recorded(results.events())
        batches = [part.batch for part in parts]
        numbers = {
            name: np.concatenate([_NOTHING[name], *(part.numbers[name] for part in parts)])
            for name in _NOTHING
        }
        slices = _rows(batches, Table.EVENTS)
        if slices is not None and recorded.events:
            slices = _with_recorded(slices, numbers, recorded, told, quality)
        batch = {
            Table.EVENTS: _with_span(slices, numbers, results.trace_start_ns()),
            Table.FLOWS: _flows(activities, numbers),
            Table.THREADS: _labels(numbers),
        }
        for table in (Table.MEMORY, Table.INSTANTS):
            if (rows := _rows(batches, table)) is not None:
                batch[table] = rows
        for check, count in sum((part.mended for part in parts), Counter[str]()).items():
            quality.note(check, count, "in the arguments of a live event")
        flows: Batch = {Table.FLOWS: batch[Table.FLOWS]}
        header = replace(told.header, device_type=device_type_of([*batches, flows]))
        rows = gather([with_device_args(batch, Session())])
        return assemble(rows, header, quality, 0, connection)


def _rows(batches: Iterable[Batch], table: Table) -> pa.Table | None:
    parts = [batch[table] for batch in batches if table in batch]
    return pa.concat_tables(parts) if parts else None


def _asked(activities: Sequence[Any], told: Told) -> Iterator[Fields]:
    """Fields of the activities, some at a time.

    Kernels of a collective have the arguments of the op that describes it, which comes before.
    """
    collectives: dict[int, str] = {}
    skipped = {"linked_correlation_id"} if told.on_host else set()
    wanted = {name: type_ for name, type_ in _ACTIVITY.items() if name not in skipped}
    for at in range(0, len(activities), _ROWS):
        found = fields(activities[at : at + _ROWS], wanted)
        if told.on_host:
            found |= {"linked_correlation_id": np.zeros_like(found["correlation_id"])}
        else:
            collectives |= _collectives(found)
        yield _with_collectives(found, collectives) if collectives else found


def _collectives(found: Fields) -> dict[int, str]:
    """Arguments of the ops that describe collectives, by the ops' numbers."""
    if _COLLECTIVE not in found["name"]:
        return {}
    rows = np.flatnonzero(np.array(found["name"], object) == _COLLECTIVE).tolist()
    return {int(found["correlation_id"][row]): found["metadata_json"][row] for row in rows}


def _with_collectives(found: Fields, collectives: Mapping[int, str]) -> Fields:
    linked = found["linked_correlation_id"]
    is_kernel = np.array(found["type"], object) == _KERNEL
    said = list(found["metadata_json"])
    for row in np.flatnonzero(is_kernel & np.isin(linked, list(collectives))).tolist():
        said[row] = ",".join(filter(None, (said[row], collectives[int(linked[row])])))
    return found | {"metadata_json": said}


def _part(connection: duckdb.DuckDBPyConnection, found: Fields) -> _Part:
    """Rows of some activities."""
    count = len(found["name"])
    categories = pa.array(found["type"], pa.string()).dictionary_encode()
    names = pa.array(found["name"], pa.string()).dictionary_encode()
    with connection.cursor() as cursor:
        members, mended = _parsed(cursor, _arguments(found, categories))
    if found[UNDECODABLE]:
        mended += Counter(invalid_utf8=found[UNDECODABLE])
    is_instant = _is(categories, (_INSTANT,))
    line = found["resource_id"]
    numbers = {
        "timestamp": found["timestamp"],
        "end": found["timestamp"] + found["duration"],
        "device": found["device_id"],
        "line": np.where(line == _NO_LINE, 0, np.abs(line)),
        "flow_id": found["flow_id"],
        "order": members["Ev Idx"].fill_null(_LAST).to_numpy(),
        "is_slice": ~is_instant,
        "is_host": _is(categories, _ON_HOST),
        "names_overload": pc.match_substring_regex(names.dictionary, _WITH_OVERLOAD).to_numpy(
            zero_copy_only=False
        ),
    }
    phase = pa.array(is_instant.astype(np.int8))
    members |= {
        "ph": _of_two("X", "i").take(phase),
        "s": _of_two(None, "t").take(phase),
        "cat": categories,
        "name": names,
        "pid": as_texts(numbers["device"]),
        "tid": as_texts(numbers["line"]),
        "time_ns": pa.array(found["timestamp"]),
        "dur_ns": pa.array(found["duration"], mask=is_instant),
        **dict.fromkeys(("id", "bp"), pa.nulls(count, pa.string())),
    }
    return _Part(batch_of(members), numbers, mended)


def _is(categories: pa.Array, texts: Sequence[str]) -> Flags:
    values = pa.array(texts, pa.string())
    found: Flags = pc.is_in(categories, values).to_numpy(zero_copy_only=False)
    return found


def _of_two(first: str | None, second: str | None) -> pa.Array:
    return pa.array([first, second], pa.string())


def _arguments(found: Fields, categories: pa.DictionaryArray) -> pa.Array:
    """Arguments as the exporter writes them, but for spaces."""
    linked = found["linked_correlation_id"]
    own = np.where(_is(categories, _WITH_CORRELATION), 0, found["correlation_id"])
    external = np.where(linked != 0, linked, own)
    texts = pc.binary_join_element_wise(_ID, pa.array(external).cast(pa.string()), _EMPTY)
    texts = pc.if_else(pa.array(external != 0), texts, _EMPTY)
    said = pa.array(found["metadata_json"], pa.string())
    both = pc.and_(pc.not_equal(texts, _EMPTY), pc.not_equal(said, _EMPTY))
    inside = pc.binary_join_element_wise(texts, pc.if_else(both, _COMMA, _EMPTY), said, _EMPTY)
    whole = pc.binary_join_element_wise(_OPEN, inside, _CLOSE, _EMPTY)
    return pc.if_else(pc.equal(inside, _EMPTY), pa.scalar(None, pa.string()), whole)


def _parsed(
    cursor: duckdb.DuckDBPyConnection, args: pa.Array
) -> tuple[dict[str, pa.Array], Counter[str]]:
    """The arguments and what is read of them; those that are no JSON are mended."""
    mended: Counter[str] = Counter()
    numbered = pa.table({"row": np.arange(len(args)), "args": args})
    cursor.register("arguments", numbered)
    try:
        suspicious = cursor.execute(_NON_FINITE).fetchall()[0][0]
        parsed = None if suspicious else cursor.sql(_PARSED).to_arrow_table()
    except duckdb.Error:
        parsed = None
    if parsed is None:
        rows, mended = _mended(cursor.execute(_BROKEN).fetchall())
        texts = [rows.get(i, text) for i, text in enumerate(args.to_pylist())]
        cursor.register("arguments", pa.table({"args": pa.array(texts, pa.string())}))
        parsed = cursor.sql(_PARSED).to_arrow_table()
    flat = parsed.flatten()
    return {
        name.removeprefix("given."): column.combine_chunks()
        for name, column in zip(flat.column_names, flat.columns, strict=True)
    }, mended


def _mended(broken: Iterable[tuple[int, str]]) -> tuple[dict[int, str], Counter[str]]:
    """Sound arguments by row; what cannot be mended is kept as text."""
    rows: dict[int, str] = {}
    found: Counter[str] = Counter()
    for row, text in broken:
        repaired = repair.repair(text + "]")
        is_whole = len(repaired.elements) == 1
        found += repaired.found if is_whole else Counter(unreadable_arguments=1)
        rows[row] = repaired.elements[0] if is_whole else json.dumps({"args": text})
    return rows, found


class _Recorded:
    """Torch's own events, and fields of them."""

    def __init__(self, events: Sequence[Any]) -> None:
        self.events = events
        self.found = fields(events, _EVENT)

    def ask(self, name: str, type_: npt.DTypeLike, rows: Ints) -> Any:
        """One more field of some events."""
        return fields(list(map(self.events.__getitem__, rows.tolist())), {name: type_})[name]


def _with_recorded(
    slices: pa.Table, numbers: Fields, recorded: _Recorded, told: Told, quality: Quality
) -> pa.Table:
    """Slices with what only the live object knows.

    Torch's events are the activities by time, those of one time in the profiler's own order.
    """
    place = np.lexsort((numbers["order"], numbers["timestamp"]))
    event_of = np.empty_like(place)
    event_of[place] = np.arange(place.size)
    row = event_of[numbers["is_slice"]]
    sample = np.arange(0, place.size, _SAMPLE)
    if place.size != len(recorded.events) or not np.array_equal(
        recorded.ask("start_ns", np.int64, sample), numbers["timestamp"][place[sample]]
    ):
        quality.note("unmatched_live_events", slices.num_rows)
        return slices
    found = recorded.found
    is_async = found["is_async"] | (found["start_thread_id"] != found["end_thread_id"])
    is_async = is_async[row]
    is_operation = _is(slices["category"].combine_chunks(), _OPERATIONS)
    columns = {
        "is_async": pa.array(is_async),
        "is_remote": pa.array(np.zeros(row.size, np.bool_)),
        "is_legacy": pa.array(np.zeros(row.size, np.bool_)),
        "scope": pa.array(found["scope"][row], mask=~is_operation),
        "dur_ns": _durations(slices, is_async, row, recorded),
    }
    if numbers["names_overload"].any():
        columns |= _names(recorded, row)
    if told.with_flops is not False:
        flops = recorded.ask("flops", np.uint64, row).astype(np.int64)
        if told.with_flops or flops.any():
            columns["torch_flops"] = pa.array(flops)
    if told.elapsed:
        elapsed = recorded.ask(told.elapsed, np.int64, row)
        is_legacy = is_operation & ~is_async & (elapsed > 0)
        columns["is_legacy"] = pa.array(is_legacy)
        columns["kernel_ns"] = pa.array(elapsed * 1000, mask=~is_legacy)
    for name, values in columns.items():
        known = name in slices.column_names
        slices = replaced(slices, name, values) if known else slices.append_column(name, values)
    return slices


def _names(recorded: _Recorded, row: Ints) -> dict[str, pa.Array]:
    """Names of operators and of their overloads, where the activity's name is of both."""
    overloads = pa.array(recorded.ask("overload_name", object, row), pa.string())
    names = pa.array(recorded.ask("name", object, row), pa.string())
    known = pc.if_else(pc.equal(overloads, _EMPTY), pa.scalar(None, pa.string()), overloads)
    return {"overload_name": known.dictionary_encode(), "name": names.dictionary_encode()}


def _durations(slices: pa.Table, is_async: Flags, row: Ints, recorded: _Recorded) -> pa.Array:
    """Durations; what was still open at the end has another end in torch's own view."""
    duration = slices["dur_ns"].to_numpy().copy()
    some = np.flatnonzero(is_async)
    duration[some] = recorded.ask("duration_ns", np.int64, row[some])
    return pa.array(duration)


def _with_span(slices: pa.Table | None, numbers: Fields, start_ns: int) -> pa.Table:
    """The slices, and that of the profiler itself: from its start to the last end of anything."""
    end_ns = int(np.max(numbers["end"], initial=start_ns))
    no = pa.array([False], pa.bool_())
    texts = {
        "phase": "X",
        "category": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "tid": "PyTorch Profiler",
        "args": '{"Op count":0}',
    }
    span = conform(
        Table.EVENTS,
        {
            "start_ns": pa.array([start_ns], pa.int64()),
            "dur_ns": pa.array([end_ns - start_ns], pa.int64()),
            **dict.fromkeys(("bad_time", "bad_dur", "rounded", "is_remote", "is_legacy"), no),
            **{name: pa.array([text], pa.string()) for name, text in texts.items()},
        },
    )
    if slices is None:
        return span
    return pa.concat_tables([slices, span], promote_options="default")


def _flows(activities: Sequence[Any], numbers: Fields) -> pa.Table:
    """Both ends of each arrow, at the activities that they join."""
    rows = np.flatnonzero(numbers["flow_id"] > 0)
    ends = fields(list(map(activities.__getitem__, rows.tolist())), _FLOW)
    is_forward = pa.array((ends["flow_type"] == _FORWARD).astype(np.int8))
    is_end = pa.array((~ends["flow_start"]).astype(np.int8))
    category = _of_two(*_FLOW_NAMES).take(is_forward)
    no = pa.array(np.zeros(rows.size, np.bool_))
    return conform(
        Table.FLOWS,
        {
            "flow_id": pa.array(numbers["flow_id"][rows]).cast(pa.string()),
            "category": category,
            "name": category,
            "phase": _of_two("s", "f").take(is_end),
            "binding_point": _of_two(None, "e").take(is_end),
            "time_ns": pa.array(numbers["timestamp"][rows]),
            "pid": as_texts(numbers["device"][rows]),
            "tid": as_texts(numbers["line"][rows]),
            "bad_time": no,
            "rounded": no,
        },
    )


def _labels(numbers: Fields) -> pa.Table:
    """What the exporter calls the lines of a viewer."""
    device, line = numbers["device"], numbers["line"]
    on_host = set(_distinct(device[numbers["is_host"]]))
    rows: list[tuple[str, str, str, dict[str, object]]] = []
    for number in _distinct(device):
        label, order, thread = f"GPU {number}", _GPU_ORDER + number, "stream {} "
        if number in on_host:
            label, order, thread = "CPU", number, "thread {}"
        elif number < 0:
            label, order, thread = "Overhead", _OVERHEAD_ORDER, "thread {}"
        pid = str(number)
        rows += [
            ("process_name", pid, "0", {"name": "python"}),
            ("process_labels", pid, "0", {"labels": label}),
            ("process_sort_index", pid, "0", {"sort_index": order}),
        ]
        for one in _distinct(line[device == number]):
            if number in on_host and not one:
                continue  # Python ran on a thread that torch knows nothing of
            rows += [
                ("thread_name", pid, str(one), {"name": thread.format(one)}),
                ("thread_sort_index", pid, str(one), {"sort_index": one}),
            ]
    rows.append(("process_sort_index", "Spans", "0", {"sort_index": _SPANS_ORDER}))
    names, pids, tids, args = zip(*rows, strict=True)
    return conform(
        Table.THREADS,
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
