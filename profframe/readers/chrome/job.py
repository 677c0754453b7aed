"""A file of several ranks, as `Trace.export_chrome_trace` writes it: the rows of each.

Every process has its own number in the file, and so has every id that is known outside its process;
the originals are among the members around the events. So rows return to their rank whatever their
order is, and as they were before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers import parsing_database
from profframe.readers.build.row_tables import Rows, RowTable, codes, conform, replaced
from profframe.readers.json.exact import dumps

Texts: TypeAlias = "pa.Array | pa.ChunkedArray"

JOB_KEY: Final = "profframe job"
"""Member before the events of such a file."""
ID_BITS: Final = 42
"""An id of fewer bits is written with the place of its trace in the bits above."""
ID_MARK: Final = "/"
"""Separates the place from any other id, as text."""
BIND_ID: Final = r'("bind_id"\s*:\s*)("(?:[^"\\]|\\.)*"|-?[0-9]+)'
"""The id of an arrow among the arguments of its slice."""
_SHARED_IDS: Final = {
    RowTable.EVENTS: ("async_id", "arrow_id"),
    RowTable.FLOWS: ("flow_id",),
    RowTable.INSTANTS: ("instant_id",),
}
_BIND_IDS: Final = f"""
    SELECT DISTINCT regexp_extract(args, '{BIND_ID}', 2) AS id
    FROM slices WHERE args IS NOT NULL"""  # noqa: S608 - of a constant
_ARGS_BEFORE: Final = f"""
    SELECT replace(args, concat(key, id), concat(key, before)) AS args
    FROM (
        SELECT args, regexp_extract(args, '{BIND_ID}', 1) AS key,
               regexp_extract(args, '{BIND_ID}', 2) AS id, row_number() OVER () AS row
        FROM slices)
    LEFT JOIN names USING (id)
    ORDER BY row"""  # noqa: S608 - of a constant
_OF_PROCESS: Final = "process_"
_LABELS: Final = ("process_name", "process_labels", "process_sort_index")


@dataclass(frozen=True, slots=True)
class Process:
    """What a process of the file was in its own trace."""

    trace: int
    """Number of its trace."""
    pid: str | None
    labels: Mapping[str, object]
    """Its labels by their names, each with the arguments that it had."""


@dataclass(frozen=True, slots=True)
class JobTrace:
    """What a file says about one of its traces."""

    run: str
    rank: int
    base_ns: int | None
    offset_ns: int | None
    """What was subtracted from its times."""
    header: Mapping[str, Any]
    """Members that were around its events."""
    own: Mapping[str, Any]
    """What an exported trace says about its source."""
    named: frozenset[tuple[str, str]]
    """Threads that got their name only in this file."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a file says about its traces."""

    traces: tuple[JobTrace, ...]
    processes: Mapping[str, Process]

    @property
    def pids(self) -> Mapping[str, str | None]:
        """The id of each process in its own trace."""
        return {pid: process.pid for pid, process in self.processes.items()}


def job_of(header: Mapping[str, object]) -> Job | None:
    """The traces of a file by the members around its events; None if these do not describe any."""
    member = header.get(JOB_KEY)
    rows = member.get("traces") if isinstance(member, dict) else None
    if not isinstance(rows, list) or not rows:
        return None
    try:
        traces = tuple(map(_trace, rows))
        processes = {
            str(process["pid"]): Process(
                number,
                _text(process["was"]),
                {name: process["labels"][name] for name in _LABELS if name in process["labels"]},
            )
            for number, row in enumerate(rows)
            for process in row["processes"]
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    if len({(trace.run, trace.rank) for trace in traces}) < len(traces):
        return None
    return Job(traces, MappingProxyType(processes))


def _trace(row: Mapping[str, Any]) -> JobTrace:
    return JobTrace(
        run=_required(row["run"], str),
        rank=_number(row["rank"], 31),
        base_ns=None if row.get("base_ns") is None else _number(row["base_ns"], 62),
        offset_ns=None if row.get("offset_ns") is None else _number(row["offset_ns"], 62, -1),
        header=_required(row.get("header", {}), dict),
        own=_required(row.get("source", {}), dict),
        named=frozenset((str(pid), str(tid)) for pid, tid in row.get("named_threads", [])),
    )


def _required(value: Any, type_: type) -> Any:
    if type(value) is not type_:
        raise TypeError
    return value


def _number(value: Any, bits: int, sign: int = 0) -> int:
    number: int = _required(value, int)
    if not sign << bits <= number < 1 << bits:
        raise ValueError
    return number


def _text(value: Any) -> str | None:
    return None if value is None else _required(value, str)


def rows_of_traces(rows: Rows, job: Job) -> list[Rows]:
    """The rows of each trace, with processes, ids and labels as they were.

    Rows of a process that the file does not describe belong to the first trace.
    """
    parts: list[dict[RowTable, pa.Table]] = [{} for _ in job.traces]
    for table, part in rows.items():
        for number, own in enumerate(split(part, _traces(part, job), len(job.traces))):
            parts[number][table] = _as_before(table, own, job)
    return list(parts)


def _traces(rows: pa.Table, job: Job) -> Ints:
    """Number of the trace of each row."""
    code, pids = codes(rows["pid"])
    processes = [None if pid is None else job.processes.get(pid) for pid in pids]
    trace_of = [0 if process is None else process.trace for process in processes]
    return np.array(trace_of, np.int64)[code]


def split(rows: pa.Table, traces: Ints, count: int) -> list[pa.Table]:
    """Rows by the number of their trace, in their order."""
    if np.any(np.diff(traces) < 0):
        order = np.argsort(traces, kind="stable")
        rows, traces = rows.take(pa.array(order)), traces[order]
    bounds = np.searchsorted(traces, np.arange(count + 1))
    return [
        _compact(rows.slice(begin, end - begin))
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]


def _compact(rows: pa.Table) -> pa.Table:
    """The rows with dictionaries of only their own values."""
    for name in rows.column_names:
        column = rows[name]
        if not pa.types.is_dictionary(column.type):
            if not column.num_chunks:
                rows = replaced(rows, name, pa.chunked_array([pa.array([], column.type)]))
            continue
        code, texts = codes(column) if column.num_chunks else (np.empty(0, np.int64), [None])
        used, code = np.unique(np.append(code, 0), return_inverse=True)  # 0 is NULL
        indices = pa.array(code[:-1] - 1, pa.int32(), mask=code[:-1] == 0)
        values = pa.array([texts[number] for number in used[1:].tolist()], pa.string())
        encoded = pa.DictionaryArray.from_arrays(indices, values)
        rows = replaced(rows, name, pa.chunked_array([encoded]))
    return rows


def _as_before(table: RowTable, rows: pa.Table, job: Job) -> pa.Table:
    if table is RowTable.THREADS:
        return _labels(rows, job)
    if table is RowTable.EVENTS:
        rows = _with_bind_ids(rows)
    for column in _SHARED_IDS.get(table, ()):
        rows = replaced(rows, column, ids_before(rows[column]))
    return replaced(rows, "pid", _pids(rows["pid"], job))


def _pids(column: pa.ChunkedArray, job: Job) -> pa.ChunkedArray:
    code, texts = codes(column)
    pids = [text if text is None else job.pids.get(text, text) for text in texts]
    names = pa.array(pids, pa.string()).take(pa.array(code))
    return pa.chunked_array([names.dictionary_encode()])


def ids_before(ids: Texts) -> Texts:
    """Ids of a file as their traces had them, whichever traces these are.

    Examples
    --------
    >>> ids_before(pa.array([str((3 << 42) + 17), "3/0x11", None])).to_pylist()
    ['17', '0x11', None]
    """
    if ids.null_count == len(ids):
        return ids
    is_number = pc.match_substring_regex(ids, r"^[0-9]{1,18}$")
    numbers = pc.if_else(is_number, ids, "0").cast(pa.int64())
    low = pc.bit_wise_and(numbers, pa.scalar((1 << ID_BITS) - 1, pa.int64()))
    others = pc.replace_substring_regex(ids, f"^[0-9]+{ID_MARK}", "", max_replacements=1)
    return pc.if_else(is_number, low.cast(pa.string()), others)


def _with_bind_ids(rows: pa.Table) -> pa.Table:
    """Slices that name their arrows, with the original names among their arguments."""
    named = pc.is_valid(rows["arrow_id"])
    if not pc.any(named).as_py():
        return rows
    args = pc.if_else(named, rows["args"], None)
    with parsing_database.connect() as connection:
        connection.register("slices", pa.table({"args": args}))
        ids = connection.sql(_BIND_IDS).to_arrow_table()
        texts = ids["id"].cast(pa.string())
        is_text = pc.starts_with(texts, '"')
        inside = pc.if_else(is_text, pc.utf8_slice_codeunits(texts, 1, -1), texts)
        before = ids_before(inside)
        quoted = pc.binary_join_element_wise('"', before, '"', "")
        names = pa.table({"id": texts, "before": pc.if_else(is_text, quoted, before)})
        connection.register("names", names)
        changed = connection.sql(_ARGS_BEFORE).to_arrow_table()["args"]
    return replaced(rows, "args", pc.coalesce(changed.cast(pa.string()), rows["args"]))


def _labels(rows: pa.Table, job: Job) -> pa.Table:
    """Labels as the trace had them: the first label of a process stands for all of them."""
    columns = ("name", "pid", "tid", "args")
    labels: dict[str, list[object]] = {name: [] for name in columns}
    seen: set[str | None] = set()
    for name, pid, tid, args in zip(*(rows[c].to_pylist() for c in columns), strict=True):
        process = job.processes.get(pid)
        trace = None if process is None else job.traces[process.trace]
        if process is None or trace is None:
            kept = [(name, pid, tid, args)]
        elif not name.startswith(_OF_PROCESS):
            is_own = name == "thread_name" and (pid, tid) in trace.named
            kept = [] if is_own else [(name, process.pid, tid, args)]
        elif pid in seen:
            kept = []
        else:
            kept = [(n, process.pid, "0", dumps(value)) for n, value in process.labels.items()]
        seen.add(pid)
        for label in kept:
            for column, value in zip(columns, label, strict=True):
                labels[column].append(value)
    arrays = {column: pa.array(values, pa.string()) for column, values in labels.items()}
    return conform(RowTable.THREADS, arrays)
