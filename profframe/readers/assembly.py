"""From the rows that a reader makes, batch by batch, to the tables of one trace.

No word of a source format is known here: what a row is, its reader says by its `Table`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.schema import DOUBLE, INT32, INT64, NAME, TEXT

Array = npt.NDArray[np.int64]
Batch = Mapping["Table", pa.Table]

LONGEST_NS: Final = 1 << 62
"""146 years: no time since the epoch and no duration is that long, but a writer's overflow is."""


class Table(enum.IntEnum):
    """Where a row goes."""

    EVENTS = 0
    MEMORY = 1
    FLOWS = 2
    COUNTERS = 3
    THREADS = 4
    INSTANTS = 5


_FROM: Final[Mapping[Table, Mapping[str, str]]] = {
    Table.EVENTS: {
        "phase": "phase", "category": "category", "name": "name", "start_ns": "time_ns",
        "dur_ns": "dur_ns", "pid": "pid", "tid": "tid", "device": "device", "stream": "stream",
        "bad_time": "bad_time", "bad_dur": "bad_dur", "rounded": "rounded",
    } | {
        name: name
        for name in (
            "correlation", "external_id", "sequence_nr", "fwd_thread", "is_async", "python_id",
            "python_parent_id", "python_module_id", "module_hierarchy", "input_dims", "input_types",
            "input_strides", "concrete_inputs", "stack", "args", "ev_idx",
        )
    },
    Table.MEMORY: {
        "time_ns": "time_ns", "address": "address", "bytes": "bytes", "device_type": "device_type",
        "device": "memory_device", "total_allocated_bytes": "total_allocated_bytes",
        "total_reserved_bytes": "total_reserved_bytes", "pid": "pid", "tid": "tid",
        "bad_time": "bad_time", "rounded": "rounded",
    },
    Table.FLOWS: {
        "flow_id": "id", "category": "category", "name": "name", "phase": "phase",
        "time_ns": "time_ns", "pid": "pid", "tid": "tid", "binding_point": "binding_point",
        "args": "args", "bad_time": "bad_time", "rounded": "rounded",
    },
    Table.COUNTERS: {
        "category": "category", "name": "name", "time_ns": "time_ns", "pid": "pid", "tid": "tid",
        "counter_id": "id", "args": "args", "bad_time": "bad_time", "rounded": "rounded",
    },
    Table.THREADS: {"name": "name", "pid": "pid", "tid": "tid", "args": "args"},
    Table.INSTANTS: {
        "phase": "phase", "category": "category", "name": "name", "scope": "mark_scope",
        "time_ns": "time_ns", "dur_ns": "dur_ns", "pid": "pid", "tid": "tid", "instant_id": "id",
        "args": "args", "bad_time": "bad_time", "rounded": "rounded",
    },
}  # fmt: skip
"""Columns of each table, by the name that a reader's rows have for them."""

_INTERNAL: Final = {
    "phase": NAME, "pid": NAME, "tid": NAME, "bad_time": pa.bool_(), "bad_dur": pa.bool_(),
    "rounded": pa.bool_(), "ev_idx": INT64,
}  # fmt: skip


def _type(table: Table, column: str) -> pa.DataType:
    columns = {c.name: c.type for c in schema.TABLES[table.name.lower()]}
    if table is Table.THREADS and column in ("name", "args"):
        return NAME if column == "name" else TEXT
    if table is Table.MEMORY and column == "device_type":
        return INT64
    return columns.get(column, _INTERNAL.get(column, TEXT))


def split(rows: pa.Table) -> Batch:
    """Rows by where they go, in the schema's types; repeated text is dictionary-encoded."""
    destination = rows["destination"].combine_chunks()
    batch: dict[Table, pa.Table] = {}
    for value in pc.unique(destination).to_pylist():
        table = Table(value)
        mine = rows.select(list(dict.fromkeys(_FROM[table].values())))
        chosen = mine.filter(pc.equal(destination, value)) if _mixed(destination) else mine
        batch[table] = pa.table(
            {
                to: _typed(chosen[name], _type(table, to))
                for to, name in _FROM[table].items()
            }
        )
    return batch


def _mixed(destination: pa.Array) -> bool:
    bounds = pc.min_max(destination)
    return bool(bounds["min"].as_py() != bounds["max"].as_py())


def _typed(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(type_):
        return array.dictionary_encode()
    return _narrow(array) if type_ == INT32 else array.cast(type_)


def _narrow(array: pa.Array) -> pa.Array:
    """Indices: what is negative or too large for one is unknown."""
    usable = pc.and_(pc.greater_equal(array, 0), pc.less(array, 1 << 31))
    return pc.if_else(usable, array, None).cast(INT32)


@dataclass(frozen=True, slots=True)
class Header:
    """What a source says about itself; the columns of `traces` that a reader knows."""

    format: str
    clock: str
    base_ns: int | None = None
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    device_type: str | None = None
    device_properties: str | None = None
    profiler_flags: str | None = None
    metadata: str | None = None


@dataclass(slots=True)
class Quality:
    """Rows of the quality table, as they are found."""

    rows: list[dict[str, object]] = field(default_factory=list)

    def note(
        self, check: str, events: int, action: str, detail: str | None = None, example: int | None = None
    ) -> None:
        self.rows.append(
            {"check": check, "events": events, "example_event_id": example, "action": action, "detail": detail}
        )

    def table(self) -> pa.Table:
        names = schema.QUALITY.names[2:]
        types = {c.name: c.type for c in schema.QUALITY}
        return pa.table(
            {n: pa.array([r[n] for r in self.rows], types[n].value_type if types[n] == NAME else types[n]) for n in names}
        )


@dataclass(frozen=True, slots=True)
class RawTrace:
    """The tables of one trace, without run and rank and without facts; `header` has what names it."""

    tables: dict[str, pa.Table]
    header: Header


def gather(batches: Sequence[Batch]) -> dict[Table, pa.Table]:
    """All rows of each table, in order, with one dictionary for each column."""
    gathered: dict[Table, pa.Table] = {}
    for table in Table:
        empty = pa.table({to: pa.array([], _type(table, to)) for to in _FROM[table]})
        parts = [batch[table] for batch in batches if table in batch]
        gathered[table] = pa.concat_tables([empty, *parts]).unify_dictionaries()
    return gathered


def earliest(batches: Sequence[Batch]) -> int | None:
    """The smallest time of all rows, as the source has it, in nanoseconds."""
    times = [
        pc.min(rows["start_ns" if table is Table.EVENTS else "time_ns"]).as_py()
        for batch in batches
        for table, rows in batch.items()
        if table is not Table.THREADS
    ]
    return min((t for t in times if t is not None), default=None)


def assemble(
    batches: Sequence[Batch],
    header: Header,
    quality: Quality,
    dropped: int,
    connection: duckdb.DuckDBPyConnection,
) -> RawTrace:
    """The tables of the trace, with every source event accounted for.

    Parameters
    ----------
    batches
        All rows, in the source's order; times are in nanoseconds on the source's own clock.
    dropped
        Events of the source that are in no batch; `quality` says why.
    connection
        A DuckDB connection for what is best said in SQL.
    """
    gathered = gather(batches)
    counts = {table: rows.num_rows for table, rows in gathered.items()}
    rounded = sum(_true(rows["rounded"]) for rows in gathered.values() if "rounded" in rows.column_names)
    if rounded:
        quality.note("sub_nanosecond_time", rounded, "rounded to the nearest nanosecond")
    for table in Table:
        if table is not Table.THREADS:
            gathered[table] = _on_clock(gathered[table], table, header.base_ns or 0, quality)
    threads, gathered = _number_threads(gathered)
    events, marks, ends = _pair(gathered[Table.EVENTS], quality, connection)
    tables = {
        "events": _events(events, quality),
        "memory": _memory(gathered[Table.MEMORY]),
        "flows": gathered[Table.FLOWS],
        "counters": _counters(gathered[Table.COUNTERS], connection),
        "instants": _instants(gathered[Table.INSTANTS], marks),
        "threads": threads,
    }
    accounted = {
        "events": counts[Table.EVENTS] - ends,
        "memory": counts[Table.MEMORY],
        "flows": counts[Table.FLOWS],
        "counters": counts[Table.COUNTERS],
        "instants": counts[Table.INSTANTS] + ends,
        "metadata": counts[Table.THREADS],
        "dropped": dropped,
    }
    tables["traces"] = _traces(tables, header, accounted)
    if not sum(accounted.values()):
        quality.note("no_events", 0, "loaded as an empty trace")
    tables["quality"] = quality.table()
    return RawTrace(tables, header)


def _true(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def _on_clock(rows: pa.Table, table: Table, base_ns: int, quality: Quality) -> pa.Table:
    """Times since the epoch where the base is known; one that cannot be is unknown, and said to be."""
    name = "start_ns" if table is Table.EVENTS else "time_ns"
    times = rows[name]
    bounds = pc.min_max(times).as_py()
    if bounds["min"] is not None and (
        bounds["min"] <= -LONGEST_NS or bounds["max"] >= LONGEST_NS - base_ns
    ):
        usable = pc.and_(pc.greater(times, -LONGEST_NS), pc.less(times, LONGEST_NS - base_ns))
        rows = rows.set_column(
            rows.column_names.index("bad_time"),
            "bad_time",
            pc.or_(rows["bad_time"], pc.fill_null(pc.invert(usable), False)),  # noqa: FBT003
        )
        times = pc.if_else(usable, times, None)
    bad = _true(rows["bad_time"])
    if bad:
        quality.note(
            "impossible_time", bad, "the time became NULL", f"in table {table.name.lower()}",
            _first(rows["bad_time"]) if table is Table.EVENTS else None,
        )  # fmt: skip
    if missing := times.null_count - bad:
        unset = pc.and_(pc.is_null(times), pc.invert(rows["bad_time"]))
        quality.note(
            "missing_time", missing, "kept, the time is NULL", f"in table {table.name.lower()}",
            _first(unset) if table is Table.EVENTS else None,
        )  # fmt: skip
    rows = rows.drop_columns([c for c in ("bad_time", "rounded") if c in rows.column_names])
    return rows.set_column(rows.column_names.index(name), name, pc.add(times, base_ns))


def _first(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, value=True).as_py())


def _codes(column: pa.ChunkedArray) -> tuple[Array, list[str | None]]:
    """Dictionary codes of a unified column, 0 for NULL, and the text of each code."""
    values: list[str | None] = [None]
    if column.num_chunks:
        values += column.chunk(0).dictionary.to_pylist()
    codes = [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(codes).astype(np.int64) + 1, values


def _number_threads(gathered: dict[Table, pa.Table]) -> tuple[pa.Table, dict[Table, pa.Table]]:
    """Give every (pid, tid) a number, in order of appearance, and every row its thread."""
    numbers: dict[tuple[str | None, str | None], int] = {}
    numbered = dict(gathered)
    for table, rows in gathered.items():
        if table is Table.THREADS:
            continue
        pid, pids = _codes(rows["pid"])
        tid, tids = _codes(rows["tid"])
        pairs = pa.array(pid * len(tids) + tid).dictionary_encode()
        numbers_here = np.array(
            [
                numbers.setdefault((pids[pair // len(tids)], tids[pair % len(tids)]), len(numbers))
                for pair in pairs.dictionary.to_pylist()
            ],
            dtype=np.int32,
        )
        thread = numbers_here[pairs.indices.to_numpy()]
        numbered[table] = rows.append_column("thread", pa.array(thread, INT32))
    return _threads(gathered[Table.THREADS], numbers), numbered


_LABELS: Final = {
    "process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index",
    "thread_name": "name", "thread_sort_index": "sort_index",
}  # fmt: skip


def _threads(labels: pa.Table, numbers: dict[tuple[str | None, str | None], int]) -> pa.Table:
    """The threads table: each (pid, tid) with what the source calls it; a later label replaces an earlier."""
    process: dict[str | None, dict[str, object]] = {}
    thread: dict[tuple[str | None, str | None], dict[str, object]] = {}
    for row in labels.to_pylist():
        args = json.loads(row["args"]) if row["args"] else {}
        value = args.get(_LABELS[row["name"]]) if isinstance(args, dict) else None
        if value is None:
            continue
        if row["name"].startswith("process"):
            process.setdefault(row["pid"], {})[row["name"]] = value
        else:
            thread.setdefault((row["pid"], row["tid"]), {})[row["name"]] = value
    for key in thread:
        numbers.setdefault(key, len(numbers))
    for pid in process.keys() - {pid for pid, _ in numbers}:
        numbers.setdefault((pid, None), len(numbers))
    columns = schema.THREADS.columns[2:]
    rows = [
        {"thread": number, "pid": pid, "tid": tid} | process.get(pid, {}) | thread.get((pid, tid), {})
        for (pid, tid), number in numbers.items()
    ]
    return pa.table({c.name: _labels([r.get(c.name) for r in rows], c.type) for c in columns})


def _labels(values: list[Any], type_: pa.DataType) -> pa.Array:
    if type_ in (INT32, INT64):
        return pa.array([v if isinstance(v, int) and abs(v) < 1 << 63 else None for v in values], type_)
    texts = [v if isinstance(v, str) or v is None else json.dumps(v) for v in values]
    return pa.array(texts, TEXT).cast(type_) if type_ == TEXT else pa.array(texts, TEXT).dictionary_encode()


def _pair(
    rows: pa.Table, quality: Quality, connection: duckdb.DuckDBPyConnection
) -> tuple[pa.Table, pa.Table, int]:
    """Begin and end events become slices: slices, ends without a beginning, and the number of those."""
    phase = rows["phase"]
    texts = phase.chunk(0).dictionary.to_pylist()
    none = rows.slice(0, 0)
    if not {"B", "E"} & set(texts):
        return rows.drop_columns(["phase"]), none, 0
    is_begin = pc.equal(phase, "B").to_numpy()
    is_end = pc.equal(phase, "E").to_numpy()
    begin, end = match_begin_end(
        rows["thread"].to_numpy(), _zeroed(rows["start_ns"]), is_begin, is_end
    )
    duration = _zeroed(rows["dur_ns"])
    known = pc.is_valid(rows["dur_ns"]).to_numpy() & ~is_begin
    duration[begin] = _zeroed(rows["start_ns"])[end] - _zeroed(rows["start_ns"])[begin]
    known[begin] = True
    args = _joined_args(rows["args"], begin, end, connection)
    matched = np.zeros(len(rows), bool)
    matched[begin] = matched[end] = True
    if lone := int((is_begin & ~matched).sum()):
        quality.note("unmatched_begin", lone, "kept as a slice without a duration")
    lone_ends = is_end & ~matched
    if count := int(lone_ends.sum()):
        quality.note("unmatched_end", count, "kept in instants")
    rows = rows.set_column(rows.column_names.index("dur_ns"), "dur_ns", pa.array(duration, mask=~known))
    rows = rows.set_column(rows.column_names.index("args"), "args", args)
    slices = rows.filter(pa.array(~is_end)).drop_columns(["phase"])
    return slices, rows.filter(pa.array(lone_ends)), int(lone_ends.sum())


def _zeroed(column: pa.ChunkedArray) -> Array:
    return np.array(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)


def match_begin_end(
    thread: npt.NDArray[np.int32], time: Array, is_begin: npt.NDArray[np.bool_], is_end: npt.NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Row numbers of the begin and end events that belong together: an end closes the last open begin of its thread.

    Examples
    --------
    >>> thread = np.zeros(4, np.int32)
    >>> begin = np.array([True, True, False, False])
    >>> match_begin_end(thread, np.array([0, 5, 8, 9]), begin, ~begin)
    (array([1, 0]), array([2, 3]))
    """
    rows = np.flatnonzero(is_begin | is_end)
    order = rows[np.lexsort((rows, time[rows], thread[rows]))]
    step = np.where(is_begin[order], 1, -1)
    first = np.flatnonzero(np.diff(thread[order], prepend=-1))
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
    level = np.cumsum(step)
    level -= (level[first] - step[first])[group]
    floor = _running_minimum(np.minimum(level, 0), first)
    lone_end = (step < 0) & (level == floor) & (level < np.where(_starts(first, len(order)), 0, np.roll(floor, 1)))
    depth = level - floor + (step < 0)
    keep = ~lone_end
    order, step, group, depth = order[keep], step[keep], group[keep], depth[keep]
    sequence = np.lexsort((np.arange(len(order)), depth, group))
    order, step = order[sequence], step[sequence]
    same = (group[sequence][:-1] == group[sequence][1:]) & (depth[sequence][:-1] == depth[sequence][1:])
    pair = np.flatnonzero((step[:-1] > 0) & (step[1:] < 0) & same)
    begin, end = order[pair], order[pair + 1]
    by_end = np.argsort(end, kind="stable")
    return begin[by_end], end[by_end]


def _starts(first: Array, length: int) -> npt.NDArray[np.bool_]:
    flags = np.zeros(length, bool)
    flags[first] = True
    return flags


def _running_minimum(values: Array, first: Array) -> Array:
    """Running minimum of each group; groups are consecutive and begin at `first`."""
    out = np.empty_like(values)
    for begin, end in zip(first, [*first[1:], len(values)], strict=True):
        np.minimum.accumulate(values[begin:end], out=out[begin:end])
    return out


def _joined_args(
    args: pa.ChunkedArray, begin: Array, end: Array, connection: duckdb.DuckDBPyConnection
) -> pa.Array:
    """Arguments of all rows, those of an end event put behind those of its begin."""
    both = pa.table({"b": args.take(pa.array(begin)), "e": args.take(pa.array(end))})
    connection.register("both_args", both)
    joined = connection.sql("""
        SELECT CASE WHEN coalesce(e, '{}') = '{}' THEN b
                    WHEN coalesce(b, '{}') = '{}' THEN e
                    WHEN b[1] = '{' AND e[1] = '{' THEN b[:-2] || ',' || e[2:]
                    ELSE '[' || b || ',' || e || ']' END AS args
        FROM both_args""").to_arrow_table()["args"]
    connection.unregister("both_args")
    row = np.full(len(args), -1)
    row[begin] = np.arange(len(begin))
    taken = joined.take(pa.array(row, mask=row < 0))
    return pc.if_else(pa.array(row >= 0), taken, args)


def _events(rows: pa.Table, quality: Quality) -> pa.Table:
    """Slices with every column of the schema that a reader fills; impossible durations are unknown."""
    duration = rows["dur_ns"]
    example = lambda mask: _first(pc.fill_null(mask, False))  # noqa: E731, FBT003
    bad = rows["bad_dur"]
    too_long = pc.greater_equal(duration, LONGEST_NS)
    impossible = pc.or_(bad, pc.fill_null(too_long, False))  # noqa: FBT003
    negative = pc.fill_null(pc.less(duration, 0), False)  # noqa: FBT003
    if count := _true(impossible):
        quality.note("impossible_duration", count, "dur_ns became NULL", "146 years or more", example(impossible))
    if count := _true(negative):
        least = pc.min(duration).as_py()
        quality.note("negative_duration", count, "dur_ns became NULL", f"down to {least} ns", example(negative))
    missing = pc.and_(pc.is_null(duration), pc.invert(bad))
    if count := _true(missing) - sum(
        int(str(r["events"])) for r in quality.rows if r["check"] == "unmatched_begin"
    ):
        quality.note("missing_duration", count, "kept, dur_ns is NULL", None, example(missing))
    if count_all := _true(impossible) + _true(negative):
        del count_all
        duration = pc.if_else(pc.or_(impossible, negative), None, duration)
    rows = rows.set_column(rows.column_names.index("dur_ns"), "dur_ns", duration)
    return _filled(rows.drop_columns(["bad_dur"]), "events")


def _filled(rows: pa.Table, name: str) -> pa.Table:
    """With the columns of the schema that the source does not have, as NULL."""
    for column in schema.TABLES[name]:
        if column.name in schema.READER_COLUMNS[name] and column.name not in rows.column_names:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.type))
    return rows


def _memory(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["pid", "tid"])


def _instants(rows: pa.Table, marks: pa.Table) -> pa.Table:
    """Marks, and the end events that no begin event belongs to."""
    if not marks.num_rows:
        return rows
    lone = marks.rename_columns({"start_ns": "time_ns"})
    columns = {
        name: lone[name].cast(rows[name].type) if name in lone.column_names else pa.nulls(lone.num_rows, rows[name].type)
        for name in rows.column_names
    }
    columns["dur_ns"] = pa.nulls(lone.num_rows, INT64)
    return pa.concat_tables([rows, pa.table(columns)]).unify_dictionaries()


def _counters(rows: pa.Table, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per value; an event without values keeps a row."""
    wide = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    connection.register("counter_events", wide)
    values = connection.sql("""
        SELECT row, s.key AS series, TRY_CAST(s.value AS DOUBLE) AS value
        FROM (SELECT row, unnest(map_entries(from_json(args, '"MAP(VARCHAR, VARCHAR)"'))) AS s FROM counter_events)
        UNION ALL
        SELECT row, NULL, NULL FROM counter_events
        WHERE len(coalesce(map_entries(from_json(args, '"MAP(VARCHAR, VARCHAR)"')), [])) = 0
        ORDER BY row""").to_arrow_table()
    connection.unregister("counter_events")
    series = pc.dictionary_encode(values["series"].combine_chunks().cast(TEXT))
    taken = rows.take(values["row"])
    return taken.append_column("series", series).append_column("value", values["value"].cast(DOUBLE))


def _traces(tables: Mapping[str, pa.Table], header: Header, accounted: Mapping[str, int]) -> pa.Table:
    first, last = _span(tables)
    row: dict[str, object] = {
        "format": header.format, "clock": header.clock, "base_ns": header.base_ns,
        "start_ns": first, "end_ns": last, "schema_version": schema.SCHEMA_VERSION,
        "world_size": header.world_size, "backend": header.backend, "device_type": header.device_type,
        "device_properties": header.device_properties, "profiler_flags": header.profiler_flags,
        "metadata": header.metadata, "source_events": sum(accounted.values()),
        "accounted": json.dumps({k: v for k, v in accounted.items() if v}),
    }  # fmt: skip
    types = {c.name: c.type for c in schema.TRACES}
    return pa.table({n: pa.array([v], TEXT if types[n] == NAME else types[n]).cast(types[n]) for n, v in row.items()})


def _span(tables: Mapping[str, pa.Table]) -> tuple[int | None, int | None]:
    """Earliest and latest time of anything in the trace."""
    events = tables["events"]
    ends = pc.add(events["start_ns"], pc.fill_null(events["dur_ns"], 0))
    timed: Iterable[pa.ChunkedArray] = [
        tables[name]["time_ns"] for name in ("memory", "flows", "counters", "instants")
    ]
    first = [pc.min(c).as_py() for c in (events["start_ns"], *timed)]
    last = [pc.max(c).as_py() for c in (ends, *timed)]
    return (
        min((t for t in first if t is not None), default=None),
        max((t for t in last if t is not None), default=None),
    )
