"""What Kineto recorded, out of the live object: its activities, and torch's own view of them.

An activity carries its arguments in the words of the Chrome trace that the exporter would write, so
they are read by the same code. Torch's events say what no file holds: where an operation ended, its
scope, its overload, its flops. Both can be asked for any number of times; the exporter works once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import json_repair
from profframe.readers.assembly import assemble
from profframe.readers.chrome import device_type_of
from profframe.readers.chrome.columns import batch_of
from profframe.readers.chrome.parsing import ARGS_TYPE
from profframe.readers.rows import Batch, Header, Quality, RawTrace, Table, conform, replaced
from profframe.readers.torch.getters import Fields, as_texts, fields

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
    "start_ns": np.int64,
    "start_thread_id": np.uint64,
    "end_thread_id": np.uint64,
    "is_async": np.bool_,
    "scope": np.int32,
    "flops": np.uint64,
    "overload_name": object,
}
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
    SELECT text AS args, from_json(text, '{ARGS_TYPE}') AS given
    FROM (SELECT row, json_extract(args, '$')::VARCHAR AS text FROM arguments)
    ORDER BY row"""
_BROKEN: Final = r"""
    SELECT row, args FROM arguments
    WHERE NOT json_valid(args)
       OR regexp_matches(args, '[\[:,]\s*[+-]?(?i:nan|inf|infinity)\s*[,\]}]')"""
_NON_FINITE: Final = """
    SELECT bool_or(contains(lower(args), 'nan') OR contains(lower(args), 'inf')) FROM arguments"""
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
    with_flops : bool
        Flops were asked for.
    """

    header: Header
    elapsed: str | None = None
    with_flops: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of some consecutive activities, the profiler's order of these, and what was mended."""

    batch: Batch
    order: Ints
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
    found = _with_collectives(fields(activities, _ACTIVITY))
    with duckdb.connect(config={"threads": 1}) as connection, ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(
                _part, connection, {name: all_[at : at + _ROWS] for name, all_ in found.items()}
            )
            for at in range(0, len(activities), _ROWS)
        ]
        events = results.events()  # while the pool parses
        recorded = fields(events, _EVENT)
        parts = [job.result() for job in jobs]
        batches = [part.batch for part in parts]
        slices = _rows(batches, Table.EVENTS)
        if slices is not None and events:
            order = np.concatenate([part.order for part in parts])
            slices = _with_recorded(
                slices, found, order, _Recorded(events, recorded), told=told, quality=quality
            )
        start_ns = results.trace_start_ns()
        batch = {
            Table.EVENTS: _with_span(slices, found, start_ns),
            Table.FLOWS: _flows(activities, found),
            Table.THREADS: _labels(found),
        }
        for table in (Table.MEMORY, Table.INSTANTS):
            if (rows := _rows(batches, table)) is not None:
                batch[table] = rows
        for check, count in sum((part.mended for part in parts), Counter[str]()).items():
            quality.note(check, count, "in the arguments of a live event")
        header = replace(told.header, device_type=device_type_of([batch]))
        return assemble([batch], header, quality, 0, connection)


def _rows(batches: Iterable[Batch], table: Table) -> pa.Table | None:
    parts = [batch[table] for batch in batches if table in batch]
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks() if parts else None


def _with_collectives(found: Fields) -> Fields:
    """Kernels of a collective have the arguments of the op that describes it."""
    if _COLLECTIVE not in found["name"]:
        return found
    own, linked = found["correlation_id"].tolist(), found["linked_correlation_id"].tolist()
    said = list(found["metadata_json"])
    ops = {own[i]: said[i] for i, name in enumerate(found["name"]) if name == _COLLECTIVE}
    for i, category in enumerate(found["type"]):
        if category == _KERNEL and (more := ops.get(linked[i])):
            said[i] = ",".join(filter(None, (said[i], more)))
    return found | {"metadata_json": said}


def _part(connection: duckdb.DuckDBPyConnection, found: Fields) -> _Part:
    """Rows of some activities."""
    count = len(found["name"])
    categories = pa.array(found["type"], pa.string()).dictionary_encode()
    args = _arguments(found, categories)
    with connection.cursor() as cursor:
        members, mended = _parsed(cursor, args)
    is_instant = _is(categories, (_INSTANT,))
    pid, tid = _lines(found)
    members |= {
        "ph": pa.array(["X", "i"]).take(pa.array(is_instant.astype(np.int8))),
        "s": pa.array([None, "t"]).take(pa.array(is_instant.astype(np.int8))),
        "cat": categories,
        "name": pa.array(found["name"], pa.string()),
        "pid": pid,
        "tid": tid,
        "time_ns": pa.array(found["timestamp"]),
        "dur_ns": pa.array(found["duration"], mask=is_instant),
        **dict.fromkeys(("id", "bp"), pa.nulls(count, pa.string())),
    }
    order = members["Ev Idx"].fill_null(_LAST).to_numpy()
    return _Part(batch_of(members), order, mended)


def _is(categories: pa.DictionaryArray, texts: Sequence[str]) -> Flags:
    found: Flags = pc.is_in(categories, pa.array(texts)).to_numpy(zero_copy_only=False)
    return found


def _lines(found: Fields) -> tuple[pa.DictionaryArray, pa.DictionaryArray]:
    """Process and thread, or device and stream, as the exporter writes them."""
    line = found["resource_id"]
    return as_texts(found["device_id"]), as_texts(np.where(line == _NO_LINE, 0, np.abs(line)))


def _arguments(found: Fields, categories: pa.DictionaryArray) -> pa.Array:
    """Arguments as the exporter writes them, but for spaces."""
    linked = found["linked_correlation_id"]
    own = np.where(_is(categories, _WITH_CORRELATION), 0, found["correlation_id"])
    external = np.where(linked != 0, linked, own)
    texts = pc.binary_join_element_wise('"External id":', pa.array(external).cast(pa.string()), "")
    texts = pc.if_else(pa.array(external != 0), texts, "")
    said = pa.array(found["metadata_json"], pa.string())
    both = pc.and_(pc.not_equal(texts, ""), pc.not_equal(said, ""))
    inside = pc.binary_join_element_wise(texts, pc.if_else(both, ",", ""), said, "")
    return pc.if_else(pc.equal(inside, ""), None, pc.binary_join_element_wise("{", inside, "}", ""))


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
        texts = pa.array(
            [rows.get(i, text) for i, text in enumerate(args.to_pylist())], pa.string()
        )
        cursor.register("arguments", numbered.set_column(1, "args", texts))
        parsed = cursor.sql(_PARSED).to_arrow_table()
    flat = parsed.flatten()
    return {
        name.removeprefix("given."): column.combine_chunks()
        for name, column in zip(flat.column_names, flat.columns, strict=True)
    }, mended


def _mended(broken: Iterable[tuple[int, str]]) -> tuple[dict[int, str], Counter[str]]:
    rows: dict[int, str] = {}
    found: Counter[str] = Counter()
    for row, text in broken:
        repaired = json_repair.repair(text + "]")
        found += repaired.found
        rows[row] = repaired.elements[0] if repaired.elements else "{}"
    return rows, found


class _Recorded:
    """Torch's own events, and fields of them."""

    def __init__(self, events: Sequence[Any], found: Fields) -> None:
        self.events = events
        self.found = found

    def ask(self, name: str, type_: npt.DTypeLike, rows: Ints | None = None) -> Any:
        """One more field, of all events or of some."""
        of = self.events
        if rows is not None:
            of = list(map(self.events.__getitem__, rows.tolist()))
        return fields(of, {name: type_})[name]


def _with_recorded(
    slices: pa.Table,
    found: Fields,
    order: Ints,
    recorded: _Recorded,
    *,
    told: Told,
    quality: Quality,
) -> pa.Table:
    """Slices with what only the live object knows.

    Torch's events are the activities by time, those of one time in the profiler's own order.
    """
    place = np.lexsort((order, found["timestamp"]))
    if not np.array_equal(found["timestamp"][place], recorded.found["start_ns"]):
        quality.note("unmatched_live_events", slices.num_rows)
        return slices
    event_of = np.empty_like(place)
    event_of[place] = np.arange(place.size)
    categories = pa.array(found["type"], pa.string()).dictionary_encode()
    row = event_of[~_is(categories, (_INSTANT,))]
    given = {
        name: values[row] for name, values in recorded.found.items() if name != "overload_name"
    }
    is_async = given["is_async"] | (given["start_thread_id"] != given["end_thread_id"])
    is_operation = pc.is_in(slices["category"], pa.array(_OPERATIONS)).to_numpy()
    columns = {
        "is_async": pa.array(is_async),
        "is_remote": pa.array(np.zeros(row.size, np.bool_)),
        "is_legacy": pa.array(np.zeros(row.size, np.bool_)),
        "scope": pa.array(given["scope"], mask=~is_operation),
        "dur_ns": _durations(slices, is_async, row, recorded),
    }
    if any(recorded.found["overload_name"]):
        overloads = pa.array(recorded.found["overload_name"], pa.string()).take(pa.array(row))
        names = pa.array(recorded.ask("name", object), pa.string()).take(pa.array(row))
        columns["overload_name"] = pc.if_else(pc.equal(overloads, ""), None, overloads)
        columns["name"] = names
    if told.with_flops or given["flops"].any():
        columns["torch_flops"] = pa.array(given["flops"].astype(np.int64))
    if told.elapsed:
        elapsed = recorded.ask(told.elapsed, np.int64)[row]
        is_legacy = is_operation & ~is_async & (elapsed > 0)
        columns["is_legacy"] = pa.array(is_legacy)
        columns["kernel_ns"] = pa.array(elapsed * 1000, mask=~is_legacy)
    for name, values in columns.items():
        if name not in slices.column_names:
            slices = slices.append_column(name, values)
        else:
            type_ = slices.schema.field(name).type
            fits = values.dictionary_encode() if pa.types.is_dictionary(type_) else values
            slices = replaced(slices, name, fits)
    return slices


def _durations(slices: pa.Table, is_async: Flags, row: Ints, recorded: _Recorded) -> pa.Array:
    """Durations; what was still open at the end has another end in torch's own view."""
    duration = slices["dur_ns"].to_numpy().copy()
    some = np.flatnonzero(is_async)
    duration[some] = recorded.ask("duration_ns", np.int64, row[some])
    return pa.array(duration)


def _with_span(slices: pa.Table | None, found: Fields, start_ns: int) -> pa.Table:
    """The slices, and that of the profiler itself: from its start to the last end of anything."""
    end_ns = max([start_ns, *(found["timestamp"] + found["duration"]).tolist()])
    no = pa.array([False])
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
            "start_ns": pa.array([start_ns]),
            "dur_ns": pa.array([end_ns - start_ns]),
            **dict.fromkeys(("bad_time", "bad_dur", "rounded"), no),
            **{name: pa.array([text]) for name, text in texts.items()},
        },
    )
    if slices is None:
        return span
    return pa.concat_tables([slices, span], promote_options="default").unify_dictionaries()


def _flows(activities: Sequence[Any], found: Fields) -> pa.Table:
    """Both ends of each arrow, at the activities that they join."""
    rows = np.flatnonzero(found["flow_id"] > 0)
    ends = fields(list(map(activities.__getitem__, rows.tolist())), _FLOW)
    pid, tid = _lines({name: found[name][rows] for name in ("device_id", "resource_id")})
    is_forward = pa.array((ends["flow_type"] == _FORWARD).astype(np.int8))
    is_end = pa.array((~ends["flow_start"]).astype(np.int8))
    category = pa.array(_FLOW_NAMES).take(is_forward)
    no = pa.array(np.zeros(rows.size, np.bool_))
    return conform(
        Table.FLOWS,
        {
            "flow_id": pa.array(found["flow_id"][rows]).cast(pa.string()),
            "category": category,
            "name": category,
            "phase": pa.array(["s", "f"]).take(is_end),
            "binding_point": pa.array([None, "e"]).take(is_end),
            "time_ns": pa.array(found["timestamp"][rows]),
            "pid": pid,
            "tid": tid,
            "bad_time": no,
            "rounded": no,
        },
    )


def _labels(found: Fields) -> pa.Table:
    """What the exporter calls the lines of a viewer."""
    categories = pa.array(found["type"], pa.string()).dictionary_encode()
    on_host = set(np.unique(found["device_id"][_is(categories, _ON_HOST)]).tolist())
    line = found["resource_id"]
    numbers = np.where(line == _NO_LINE, 0, np.abs(line))
    rows: list[tuple[str, str, str, dict[str, object]]] = []
    for device in np.unique(found["device_id"]).tolist():
        label, order = f"GPU {device}", _GPU_ORDER + device
        if device in on_host:
            label, order = "CPU", device
        elif device < 0:
            label, order = "Overhead", _OVERHEAD_ORDER
        pid = str(device)
        rows += [
            ("process_name", pid, "0", {"name": "python"}),
            ("process_labels", pid, "0", {"labels": label}),
            ("process_sort_index", pid, "0", {"sort_index": order}),
        ]
        what = "thread {} " if device in on_host or device < 0 else "stream {} "
        for number in np.unique(numbers[found["device_id"] == device]).tolist():
            name = what.format(number).strip() if device in on_host else what.format(number)
            rows += [
                ("thread_name", pid, str(number), {"name": name}),
                ("thread_sort_index", pid, str(number), {"sort_index": number}),
            ]
    rows.append(("process_sort_index", "Spans", "0", {"sort_index": _SPANS_ORDER}))
    names, pids, tids, args = zip(*rows, strict=True)
    return conform(
        Table.THREADS,
        {
            "name": pa.array(names),
            "pid": pa.array(pids),
            "tid": pa.array(tids),
            "args": pa.array(map(json.dumps, args)),
        },
    )
