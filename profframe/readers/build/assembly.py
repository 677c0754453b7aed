"""Assembly of the tables of a trace from a source's rows; every source event is accounted for."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.readers.build.begin_end import pair
from profframe.readers.build.counters import with_values
from profframe.readers.build.header_devices import UNNAMED, devices, private_device
from profframe.readers.build.row_tables import (
    DEVICE_ARGS,
    SOURCE_VALUES,
    Header,
    Quality,
    RawTrace,
    Rows,
    RowTable,
    codes,
    gather,
    nulls,
    replaced,
    time_column,
)
from profframe.readers.demangle import readable
from profframe.readers.json import exact
from profframe.schema import INT32, INT64, NAME
from profframe.system.disk_tables import SpooledTable

LONGEST_NS: Final = 1 << 62
"""146 years: only overflows make a time since the epoch or a duration that long."""
_DAY_NS: Final = 86_400 * 10**9
_APART_NS: Final = 30 * _DAY_NS
"""A month: nothing is recorded for that long without an event in between."""

_LABELS: Final = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}
"""Columns of `threads`, and the argument of the label of that name that has the value."""

BOUND_BY_ID: Final = "bind_id"
"""Binding point of an arrow end that is named by its slice."""
_OF_OTHER_TABLES: Final = ("arrow_id", "arrow_phase", "counts")
"""Columns of slices from which rows of other tables are made."""
_OF_ENDS: Final = (
    "arrow_id", "arrow_phase", "category", "name", "start_ns", "pid", "tid", "thread",
)  # fmt: skip
_OF_COUNTS: Final = ("category", "name", "start_ns", "pid", "tid", "thread", "device")
_DEVICES_OF_TORCH: Final = (None, "CUDA", "HIP", "XPU", "MTIA", "HPU")
"""Types of devices that torch knows, or NULL."""

_Thread = tuple[str | None, str | None]


def assemble(
    source: Rows,
    header: Header,
    quality: Quality,
    dropped: int,
    *,
    unread: Mapping[str, int] = MappingProxyType({}),
    in_order: bool = False,
) -> RawTrace:
    """The tables of the trace.

    Parameters
    ----------
    source
        All rows, in the source's order; times are in nanoseconds on the source's own clock.
    header
        What the source says about itself; its base is added to the times.
    quality
        Notes of the reader; more are added.
    dropped
        Events of the source that are in no row; `quality` has the reasons.
    unread
        Other source events that are in no row, by their names in the event counts.
    in_order
        Whether some writers of the source write many begin events, and then all their ends in the
        same order.
    """
    rows = dict(source)
    accounted = {table.name.lower(): part.num_rows for table, part in rows.items()}
    _note_rounded(rows, quality)
    labels = rows.pop(RowTable.THREADS)
    base = header.base_ns or 0
    span = _plausible(rows[RowTable.EVENTS][time_column(RowTable.EVENTS)], base)
    for table, part in rows.items():
        rows[table] = _on_clock(part, table, base, span, quality)
    for table in (RowTable.EVENTS, RowTable.FLOWS):
        rows[table] = _readable(rows[table])
    rows, numbers = _number_threads(rows)
    slices, lone_ends = pair(rows[RowTable.EVENTS], quality, in_order=in_order)
    accounted |= {
        "events": accounted["events"] - lone_ends.num_rows,
        "instants": accounted["instants"] + lone_ends.num_rows,
        "metadata": accounted.pop("threads"),
        "dropped": dropped,
    }
    for name, count in unread.items():
        accounted[name] = accounted.get(name, 0) + count
    events = _events(slices, quality)
    tables = {
        "events": events.drop_columns(list(_OF_OTHER_TABLES)),
        "memory": _memory(rows[RowTable.MEMORY], header.device_type, quality),
        "flows": _flows(rows[RowTable.FLOWS], events),
        "counters": _counters(rows[RowTable.COUNTERS], events),
        "instants": _instants(rows[RowTable.INSTANTS], lone_ends),
        "threads": _threads(labels, numbers),
        "devices": devices(
            header.device_properties, used=slices["device"].unique().drop_null().to_pylist()
        ),
    }
    if not sum(accounted.values()):
        quality.note("no_events", 0)
    tables |= {"traces": _traces(tables, header, accounted), "quality": quality.table()}
    return RawTrace(tables, header)


def assemble_without_events(
    tables: Mapping[str, pa.Table],
    header: Header,
    quality: Quality,
    accounted: Mapping[str, int],
    *,
    span_ns: tuple[int | None, int | None] = (None, None),
) -> RawTrace:
    """A trace of a source that has no events, with the tables that it has.

    Parameters
    ----------
    tables
        Optional tables, and ``threads`` if it knows any, in the schema's types, without run and
        rank.
    header
        What the source says about itself.
    quality
        Notes of the reader.
    accounted
        Rows of the source by where they went: a table, ``metadata``, ``dropped``.
    span_ns
        Earliest and latest time in the tables.
    """
    empty = assemble(gather(()), header, quality, 0, unread=accounted).tables
    traces = empty["traces"]
    for name, value in zip(("start_ns", "end_ns"), span_ns, strict=True):
        traces = replaced(traces, name, pa.array([value], INT64))
    return RawTrace({**empty, **tables, "traces": traces}, header)


def _readable(rows: pa.Table) -> pa.Table:
    """Rows with demangled names."""
    names = rows["name"]
    plain = readable(names)
    return rows if plain is names else replaced(rows, "name", plain)


def _memory(rows: pa.Table, device_type: str | None, quality: Quality) -> pa.Table:
    """Memory records, with the name of a device type that torch does not know."""
    if odd := _count(rows["is_odd"]):
        quality.note("odd_value", odd, "in table memory")
    rows = rows.drop_columns(["pid", "tid", "is_odd"])
    name = private_device() if device_type in _DEVICES_OF_TORCH else device_type
    if name == UNNAMED:
        return rows
    types = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pc.replace_substring(chunk.dictionary, UNNAMED, name)
        )
        for chunk in rows["device_type"].chunks
    ]
    return replaced(rows, "device_type", pa.chunked_array(types, rows["device_type"].type))


def _count(flags: pa.ChunkedArray) -> int:
    if flags.null_count == len(flags):
        return 0
    return int(pc.sum(flags).as_py() or 0)


def _is_between(values: pa.ChunkedArray, least: int, beyond: int) -> bool:
    """Whether none is missing, and all are at least one number and below another."""
    if values.null_count or not len(values):
        return False
    lowest, highest = pc.min_max(values).as_py().values()
    return bool(least <= lowest and highest < beyond)


def _first(flags: pa.ChunkedArray) -> int:
    return int(pc.index(flags, value=True).as_py())


def _note_rounded(rows: Mapping[RowTable, pa.Table], quality: Quality) -> None:
    count = sum(
        _count(p["rounded"]) for p in rows.values() if p.num_rows and "rounded" in p.schema.names
    )
    if count:
        quality.note("sub_nanosecond_time", count)


def _plausible(times: pa.ChunkedArray, base_ns: int) -> tuple[int, int]:
    """The earliest and the latest time that an event may have, on the source's own clock.

    Timestamps that were never set lie far from all others, with a month or more without an event
    between. Zero is one of these if all other times are later than a day.
    """
    earliest, latest = 1 - LONGEST_NS, LONGEST_NS - base_ns - 1
    limits = pc.min_max(times).as_py()
    if limits["min"] is None:
        return earliest, latest
    if limits["max"] - limits["min"] <= _DAY_NS:  # what other tables may have
        return (1 if _DAY_NS < limits["min"] <= latest else earliest), latest
    at = np.sort(times.drop_null().to_numpy())
    at = at[(at >= earliest) & (at <= latest)]
    if at.size < 2 or at[-1] - at[0] <= _DAY_NS:
        return earliest, latest
    cuts = np.flatnonzero(np.diff(at) > _APART_NS) + 1
    parts = np.split(at, cuts)
    most = max(parts, key=lambda part: part.size)
    set_ = most[most != 0]
    if set_.size and set_[0] > _DAY_NS:
        most = set_
    is_cut = cuts.size > 0 or most.size < at.size
    if not is_cut:
        return earliest, latest
    low = max(int(most[0]) - _APART_NS, 1 if most[0] > _DAY_NS else earliest)
    return low, min(int(most[-1]) + _APART_NS, latest)


def _on_clock(
    rows: pa.Table, table: RowTable, base_ns: int, span: tuple[int, int], quality: Quality
) -> pa.Table:
    """Times since the base; impossible ones become NULL and are noted."""
    name = time_column(table)
    if not rows.num_rows:  # most traces have no rows of most tables
        return rows.drop_columns(["bad_time", "rounded"])
    times = rows[name]
    if _is_between(times, span[0], span[1] + 1) and not _count(rows["bad_time"]):
        rows = replaced(rows, name, pc.add(times, base_ns)) if base_ns else rows
        return rows.drop_columns(["bad_time", "rounded"])
    earliest, latest = (pa.scalar(ns, INT64) for ns in span)
    sane = pc.and_(pc.greater_equal(times, earliest), pc.less_equal(times, latest))
    bad = pc.fill_null(pc.or_kleene(rows["bad_time"], pc.invert(sane)), fill_value=False)
    missing = pc.and_(pc.is_null(times), pc.invert(bad))
    for check, mask in (("impossible_time", bad), ("missing_time", missing)):
        if count := _count(mask):
            example = _first(mask) if table is RowTable.EVENTS else None
            quality.note(check, count, f"in table {table.name.lower()}", example)
    if _count(bad):
        times = pc.if_else(sane, times, None)
    rows = replaced(rows, name, pc.add(times, base_ns) if base_ns else times)
    return rows.drop_columns(["bad_time", "rounded"])


def _number_threads(
    rows: Mapping[RowTable, pa.Table],
) -> tuple[dict[RowTable, pa.Table], dict[_Thread, int]]:
    """Rows with the number of their (pid, tid), and these numbers, in order of appearance."""
    numbers: dict[_Thread, int] = {}
    numbered: dict[RowTable, pa.Table] = {}
    for table, part in rows.items():
        if not part.num_rows:
            numbered[table] = part.append_column("thread", nulls(0)(INT32))
            continue
        pid, pids = codes(part["pid"])
        tid, tids = codes(part["tid"])
        threads = pa.array(pid * len(tids) + tid).dictionary_encode()
        number = np.array(
            [
                numbers.setdefault((pids[code // len(tids)], tids[code % len(tids)]), len(numbers))
                for code in threads.dictionary.to_pylist()
            ],
            dtype=np.int32,
        )
        numbered[table] = part.append_column("thread", pa.array(number[threads.indices], INT32))
    return numbered, numbers


def _threads(labels: pa.Table, numbers: Mapping[_Thread, int]) -> pa.Table:
    """Each (pid, tid) with its labels from the source; the later of two labels counts."""
    processes: dict[str | None, dict[str, object]] = {}
    threads: dict[_Thread, dict[str, object]] = {}
    columns = (labels[column].to_pylist() for column in ("name", "pid", "tid", "args"))
    for name, pid, tid, args in zip(*columns, strict=True):
        values = _loads(args) if args else None
        value = values.get(_LABELS[name]) if isinstance(values, dict) else None
        if value is not None:
            thread_labels = (
                processes.setdefault(pid, {})
                if name.startswith("process")
                else threads.setdefault((pid, tid), {})
            )
            thread_labels[name] = value
    all_threads = list(dict.fromkeys((*numbers, *threads)))
    pids = {pid for pid, _ in all_threads}
    all_threads += [(pid, None) for pid in processes if pid not in pids]
    rows = [
        {"thread": number, "pid": pid, "tid": tid}
        | processes.get(pid, {})
        | threads.get((pid, tid), {})
        for number, (pid, tid) in enumerate(all_threads)
    ]
    return pa.table(
        {
            c.name: _label_column([row.get(c.name) for row in rows], c)
            for c in schema.THREADS.columns[2:]
        }
    )


def _loads(args: str) -> Any:
    """The arguments of a label; None if they are nested too deep."""
    try:
        return exact.loads(args)
    except RecursionError:
        return None


def _label_column(values: list[object], column: schema.Column) -> pa.Array:
    if column.type in {INT32, INT64}:
        return pa.array(
            [v if isinstance(v, int) and -1 << 63 <= v < 1 << 63 else None for v in values],
            column.type,
        )
    return pa.array(map(_label, values), pa.string()).cast(column.type)


def _label(value: object) -> str | None:
    """A label as text; None if it is nested too deep."""
    try:
        return value if value is None or isinstance(value, str) else exact.dumps(value)
    except RecursionError:
        return None


def _events(rows: pa.Table, quality: Quality) -> pa.Table:
    """Slices with event ids; impossible durations become NULL."""
    rows = _with_durations(rows, quality)
    event_id = np.arange(rows.num_rows, dtype=np.int64)
    nulls_of = nulls(rows.num_rows)
    given = frozenset(rows.schema.names)
    new = {name: nulls_of(SOURCE_VALUES[name]) for name in DEVICE_ARGS if name not in given}
    rows = rows.drop_columns(["phase", "bad_dur"])
    return _with_columns(rows, new | {"event_id": pa.array(event_id)})


def _with_durations(rows: pa.Table, quality: Quality) -> pa.Table:
    """Slices without impossible durations; these and missing ones are noted."""
    duration = rows["dur_ns"]
    if _is_between(duration, 0, _APART_NS) and not _count(rows["bad_dur"]):
        return rows
    start = rows["start_ns"]
    # Not beyond 146 years, so that none overflows; nor a month after all that begins.
    end = pc.add(start, pc.min_element_wise(duration, LONGEST_NS, skip_nulls=False))
    latest = pc.add(pc.max(start), _APART_NS)
    is_apart = pc.or_kleene(pc.greater_equal(duration, LONGEST_NS), pc.greater(end, latest))
    too_long = pc.or_kleene(rows["bad_dur"], is_apart)
    impossible = pc.fill_null(too_long, fill_value=False)
    negative = pc.fill_null(pc.less(duration, 0), fill_value=False)
    is_absent = pc.and_not(pc.is_null(duration), impossible)
    missing = pc.and_(is_absent, pc.equal(rows["phase"], "X"))
    for check, mask in (
        ("impossible_duration", impossible),
        ("negative_duration", negative),
        ("missing_duration", missing),
    ):
        if count := _count(mask):
            row = _first(mask)
            value = duration[row].as_py()
            detail = f"event {row}" + (f": {value} ns" if value is not None else "")
            quality.note(check, count, detail, row)
    if _count(impossible) + _count(negative):
        rows = replaced(rows, "dur_ns", pc.if_else(pc.or_(impossible, negative), None, duration))
    return rows


def _with_columns(rows: pa.Table, new: Mapping[str, pa.Array]) -> pa.Table:
    """Rows, which may be on disk, with more columns."""
    if not isinstance(rows, SpooledTable):  # it would copy its list of columns for each
        return pa.table({**dict(zip(rows.schema.names, rows.columns, strict=True)), **new})
    for name, values in new.items():
        rows = rows.append_column(name, values)
    return rows


def _instants(marks: pa.Table, lone_ends: pa.Table) -> pa.Table:
    """Instants, and the end events without a begin event."""
    if not lone_ends.num_rows:
        return marks
    ends = lone_ends.rename_columns({"start_ns": "time_ns", "async_id": "instant_id"})
    shared = ("phase", "category", "name", "time_ns", "pid", "tid", "thread", "instant_id", "args")
    return _concatenated(marks, ends.select(shared))


def _flows(rows: pa.Table, events: pa.Table) -> pa.Table:
    """Ends of arrows: those of the source, and those that slices name themselves."""
    rows = rows.append_column("event_id", pa.nulls(rows.num_rows, INT64))
    named = _rows_with(events, "arrow_id")
    if not len(named):
        return rows
    ends = events.select([*_OF_ENDS, "event_id"]).take(named)
    ends = ends.rename_columns(
        {"arrow_id": "flow_id", "arrow_phase": "phase", "start_ns": "time_ns"}
    ).append_column("binding_point", pa.array([BOUND_BY_ID] * len(named), pa.string()).cast(NAME))
    return _concatenated(rows, ends)


def _concatenated(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Rows of a table, which may be on disk, and some more rows."""
    if isinstance(rows, SpooledTable):
        return rows.spool.table(itertools.chain(rows.parts(), [others]))
    return pa.concat_tables([rows, others], promote_options="default").unify_dictionaries()


def _rows_with(events: pa.Table, column: str) -> npt.NDArray[np.int64]:
    """Rows of events that have a value; most traces have none."""
    values = events[column]
    if values.null_count == len(values):
        return np.empty(0, np.int64)
    return np.flatnonzero(values.is_valid().to_numpy())


def _counters(rows: pa.Table, events: pa.Table) -> pa.Table:
    """One row per value, or one for an event without values; then what slices counted."""
    rows = rows.rename_columns({"of_event": "event_id"})
    counters = with_values(rows)
    counting = _rows_with(events, "counts")
    if not len(counting):
        return counters
    slices = events.select([*_OF_COUNTS, "args", "event_id"]).take(counting)
    counts = with_values(slices.rename_columns({"start_ns": "time_ns"}))
    counts = counts.filter(pc.is_valid(counts["value"])).drop_columns(["args"])
    return pa.concat_tables([counters, counts], promote_options="default").unify_dictionaries()


def _traces(
    tables: Mapping[str, pa.Table], header: Header, accounted: Mapping[str, int]
) -> pa.Table:
    """The row of `traces`, without the name of the trace."""
    start_ns, end_ns = _span(tables)
    row = {field.name: getattr(header, field.name) for field in fields(header)} | {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "schema_version": schema.SCHEMA_VERSION,
        "source_events": sum(accounted.values()),
        "accounted": json.dumps({name: count for name, count in accounted.items() if count}),
    }
    names = row.keys() - {"run", "rank", "rank_source"}
    return pa.table(
        {
            column.name: pa.array([row.get(column.name)], column.type)
            for column in schema.TRACES
            if column.name in names
        }
    )


def _span(tables: Mapping[str, pa.Table]) -> tuple[int | None, int | None]:
    """Earliest and latest time in the trace."""
    events = tables["events"]
    ends = pc.add(events["start_ns"], pc.fill_null(events["dur_ns"], 0))
    others = [tables[name] for name in ("memory", "flows", "counters", "instants")]
    marks = [rows["time_ns"] for rows in others if rows.num_rows]
    firsts = [pc.min(column).as_py() for column in (events["start_ns"], *marks)]
    lasts = [pc.max(column).as_py() for column in (ends, *marks)]
    return (
        min((t for t in firsts if t is not None), default=None),
        max((t for t in lasts if t is not None), default=None),
    )
