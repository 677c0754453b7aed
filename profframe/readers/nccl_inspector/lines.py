"""Lines of a file as columns, a few megabytes at a time; no line becomes a Python object.

DuckDB parses the lines. A value of a wrong type becomes NULL and is counted.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import parsing_database
from profframe.readers.build.row_tables import Quality
from profframe.schema import BOOL, DOUBLE, INT32, INT64, NAME, TEXT
from profframe.system import memory_limit

_BATCH: Final = 8 << 20
"""Bytes of lines that are parsed at once."""
_LONGEST: Final = 4 << 20
"""Bytes of a line; 64 channels take some 20 kB."""
_NEWLINE: Final = 10
_REPLACED: Final = "\ufffd".encode()
_MOST_US: Final = (1 << 62) // 1000
_MOST_THREADS: Final = 8
_DIGITS: Final = r"^[0-9]{1,18}$"
_DECIMALS: Final = r"^[0-9]{1,18}\.[0-9]+$"
_NUMBER: Final = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"
_NAN: Final = '"nan"'
"""What Inspector writes for a number that is none: no damage."""
_OPS: Final = ("coll", "p2p")

_TEXT, _INT, _SMALL, _US, _RATE = "text", "int", "small", "us", "rate"
_FIELDS: Final = {
    "communicator": (_TEXT, "header.id"),
    "comm_name": (_TEXT, "header.comm_name"),
    "group_rank": (_SMALL, "header.rank"),
    "group_size": (_SMALL, "header.n_ranks"),
    "nodes": (_SMALL, "header.nnodes"),
    "version": (_TEXT, "metadata.inspector_output_format_version"),
    "git_rev": (_TEXT, "metadata.git_rev"),
    "written_ns": (_US, "metadata.dump_timestamp_us"),
    "hostname": (_TEXT, "metadata.hostname"),
    "pid": (_INT, "metadata.pid"),
    "coll_records": (_INT, "dump_stats.coll_records"),
    "p2p_records": (_INT, "dump_stats.p2p_records"),
    "proxy_records": (_INT, "dump_stats.proxy_records"),
    "coll_dropped": (_INT, "dump_stats.coll_dropped_total"),
    "p2p_dropped": (_INT, "dump_stats.p2p_dropped_total"),
    "word": (_TEXT, "coll_perf.coll", "p2p_perf.p2p"),
    "algorithm": (_TEXT, "coll_perf.coll_algo"),
    "protocol": (_TEXT, "coll_perf.coll_proto"),
    "collective_seq": (_INT, "coll_perf.coll_sn"),
    "p2p_seq": (_INT, "p2p_perf.p2p_sn"),
    "group_peer": (_SMALL, "p2p_perf.p2p_peer"),
    "message_bytes": (_INT, "coll_perf.coll_msg_size_bytes", "p2p_perf.p2p_msg_size_bytes"),
    "dur_ns": (_US, "coll_perf.coll_exec_time_us", "p2p_perf.p2p_exec_time_us"),
    "timing_source": (_TEXT, "coll_perf.coll_timing_source", "p2p_perf.p2p_timing_source"),
    "algorithm_gb_per_s": (_RATE, "coll_perf.coll_algobw_gbs", "p2p_perf.p2p_algobw_gbs"),
    "bus_gb_per_s": (_RATE, "coll_perf.coll_busbw_gbs", "p2p_perf.p2p_busbw_gbs"),
    "created_ns": (
        _US,
        *(f"{op}_perf.event_trace_ts.{op}_start_ts" for op in _OPS),
    ),
    "enqueued_ns": (
        _US,
        *(f"{op}_perf.event_trace_ts.{op}_stop_ts" for op in _OPS),
    ),
}
"""Columns by the members of a line that they are from; of several, a line has one."""
_TYPES: Final = {_TEXT: NAME, _INT: INT64, _SMALL: INT32, _US: INT64, _RATE: DOUBLE}
_OTHERS: Final = {
    "line": INT64,
    "is_readable": BOOL,
    "is_marker": BOOL,
    "has_header": BOOL,
    "op": INT32,
    "odd": INT32,
    "started_ns": INT64,
    "completed_ns": INT64,
    "channels": INT32,
    "channel_events": TEXT,
}
COLUMNS: Final = pa.schema({**_OTHERS, **{n: _TYPES[f[0]] for n, f in _FIELDS.items()}})
"""Columns of `parsed`: a row for each line that is not empty.

``op`` is 0 for a collective, 1 for a send or receive, 2 for the work of a proxy; ``odd`` is the
number of its values that are of another type.
"""
_CONTAINERS: Final = ("header", "metadata", "dump_stats", "coll_perf", "p2p_perf", "proxy_trace")
_TRACES: Final = tuple(f"{op}_perf.event_trace_ts" for op in _OPS)


def _structure() -> dict[str, Any]:
    """The members that are read; values stay JSON, which shows their types."""
    tree: dict[str, Any] = {}
    events = [f"{path}.kernel_events" for path in _TRACES]
    for path in (*events, *(path for _, *paths in _FIELDS.values() for path in paths)):
        *parents, leaf = path.split(".")
        node = tree
        for name in parents:
            node = node.setdefault(name, {})
        node[leaf] = "JSON"
    return tree


def _doubled(names: Iterable[str]) -> str:
    """SQL: number of members that are twice in these objects."""
    paths = ", ".join(f"'{path}'" for path in names)
    return f"""coalesce(list_sum(list_transform(
        json_keys(text, [{paths}]), lambda keys: len(keys) - len(list_distinct(keys))
    )), 0)"""


def _query() -> str:
    paths = [path for _, *paths in _FIELDS.values() for path in paths]
    values = ", ".join(f"held.{path}::VARCHAR AS v{at}" for at, path in enumerate(paths))
    objects = (*_CONTAINERS, *_TRACES)
    typed = ", ".join(f"'$.{name}'" for name in objects)
    kinds = {name: f"types[{at}]" for at, name in enumerate(objects, 1)}
    events = """'[{"kernel_start_ts": "UBIGINT", "kernel_stop_ts": "UBIGINT"}]'"""
    return f"""
        WITH objects AS (
            SELECT
                line,
                CASE WHEN json_valid(text) AND json_type(text) = 'OBJECT' THEN text END AS text
            FROM batch
        ),
        parsed AS (
            SELECT
                line, text,
                json_type(text, [{typed}]) AS types,
                from_json(text, '{json.dumps(_structure())}') AS held
            FROM objects
        ),
        traced AS (
            SELECT
                *,
                coalesce({", ".join(f"held.{path}.kernel_events" for path in _TRACES)})
                    AS channel_events,
                CASE
                    WHEN json_type(channel_events) = 'ARRAY'
                        THEN from_json(channel_events, {events})
                END AS channel
            FROM parsed
        )
        SELECT
            line,
            text IS NOT NULL AS is_readable,
            {_doubled(("$", *(f"$.{name}" for name in _CONTAINERS)))}::INTEGER AS doubled,
            coalesce({kinds["dump_stats"]} = 'OBJECT', false) AS is_marker,
            coalesce({kinds["header"]} = 'OBJECT', false) AS has_header,
            CASE
                WHEN {kinds["coll_perf"]} = 'OBJECT' THEN 0
                WHEN {kinds["p2p_perf"]} = 'OBJECT' THEN 1
                WHEN {kinds["proxy_trace"]} = 'OBJECT' THEN 2
            END::INTEGER AS op,
            (
                (channel_events IS NOT NULL AND channel IS NULL)::INTEGER
                + coalesce(list_sum(list_transform(
                    types, lambda of: (of NOT IN ('OBJECT', 'NULL'))::INTEGER
                )), 0)
            )::INTEGER AS odd,
            list_min(list_filter(
                list_transform(channel, lambda c: c.kernel_start_ts),
                lambda t: t BETWEEN 1 AND {_MOST_US}
            ))::BIGINT * 1000 AS started_ns,
            list_max(list_filter(
                list_transform(channel, lambda c: c.kernel_stop_ts),
                lambda t: t BETWEEN 1 AND {_MOST_US}
            ))::BIGINT * 1000 AS completed_ns,
            len(channel)::INTEGER AS channels,
            channel_events::VARCHAR AS channel_events,
            {values}
        FROM traced
        ORDER BY line"""  # noqa: S608 - of constants


_QUERY: Final = _query()


@dataclass(slots=True)
class Lines:
    """The lines of a file: `parsed` has their columns, and the others count what was lost."""

    quality: Quality
    count: int = 0
    """Lines that are not empty."""
    long_lines: int = 0
    is_cut: bool = False
    """Whether the last line has no end."""
    _replaced: int = 0
    _doubled: int = 0
    _before: int = 0
    """Lines in the batches before."""

    def parsed(self, blocks: Iterable[bytes], threads: int | None = None) -> pa.Table:
        """A row for each line that is not empty, in order; parsed on so many threads, or on all."""
        count = min(threads or os.cpu_count() or 1, _MOST_THREADS)
        parts = [COLUMNS.empty_table()]
        waiting: deque[Future[tuple[pa.Table, int]]] = deque()

        def take() -> None:
            rows, doubled = waiting.popleft().result()
            parts.append(rows)
            self._doubled += doubled

        with ThreadPoolExecutor(count) as pool:
            for text in self._batches(blocks):
                if len(waiting) > count:
                    take()
                waiting.append(pool.submit(_rows, self._texts(text)))
                memory_limit.check(sum(part.nbytes for part in parts))
            while waiting:
                take()
        if self._replaced:
            self.quality.note("invalid_utf8", self._replaced)
        if self._doubled:
            self.quality.note("doubled_member", self._doubled)
        return pa.concat_tables(parts).unify_dictionaries().combine_chunks()

    def _batches(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Whole lines, with their ends."""
        pending: list[bytes] = []
        size, is_long = 0, False
        for block in blocks:
            head, end, tail = block.rpartition(b"\n")
            if is_long and end:
                head = head.partition(b"\n")[2]
                is_long, self.long_lines = False, self.long_lines + 1
                self._before += 1
            elif is_long:
                continue
            if not end:
                pending.append(block)
                size += len(block)
                if size > _BATCH + _LONGEST:  # one line of most of it
                    whole, end, _ = b"".join(pending).rpartition(b"\n")
                    if end:
                        yield whole + end
                    pending, size, is_long = [], 0, True
                continue
            pending.append(head + end)
            size += len(head)
            if size >= _BATCH:
                yield b"".join(pending)
                pending, size = [], 0
            pending.append(tail)
            size += len(tail)
        self.long_lines += is_long
        if rest := b"".join(pending):
            self.is_cut = not rest.endswith(b"\n")
            yield rest

    def _texts(self, data: bytes) -> pa.Table:
        """Number and text of lines that are neither empty nor too long."""
        try:
            data.decode()
        except UnicodeDecodeError:
            text = data.decode(errors="replace").encode()
            self._replaced += text.count(_REPLACED) - data.count(_REPLACED)
            data = text
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
        offsets = np.concatenate(([0], ends, [len(data)])).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        texts = pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)
        texts = pc.utf8_trim_whitespace(texts)
        number = np.arange(self._before + 1, self._before + 1 + len(texts))
        self._before += len(ends)
        length = pc.binary_length(texts).to_numpy()
        is_long = length > _LONGEST
        self.long_lines += int(is_long.sum())
        kept = pa.array((length > 0) & ~is_long)
        self.count += int((length > 0).sum())
        return pa.table({"line": pa.array(number, INT64), "text": texts}).filter(kept)


def _rows(batch: pa.Table) -> tuple[pa.Table, int]:
    """Columns of some lines, and the number of members that are twice in their object."""
    with parsing_database.connect() as connection:
        table = _parse(connection, batch)
        doubled = table["doubled"].to_numpy()
        if doubled.any():
            texts = batch["text"].to_pylist()
            for place in np.flatnonzero(doubled):
                texts[place] = _with_last_members(texts[place])
            table = _parse(connection, pa.table({"line": batch["line"], "text": texts}))
        return _typed(table), int(doubled.sum())


def _parse(connection: duckdb.DuckDBPyConnection, batch: pa.Table) -> pa.Table:
    connection.register("batch", batch)
    table = connection.sql(_QUERY).to_arrow_table()
    connection.unregister("batch")
    return table


def _with_last_members(text: str) -> str:
    """A line with the last of members that occur twice; as it is if that takes too deep a stack."""
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _typed(table: pa.Table) -> pa.Table:
    """The columns, from their values in JSON; what is of another type is NULL, and odd."""
    columns: dict[str, pa.Array] = {name: table[name].combine_chunks() for name in _OTHERS}
    odd, at = columns["odd"], 0
    for name, (kind, *paths) in _FIELDS.items():
        values = []
        for _ in paths:
            texts = table[f"v{at}"].combine_chunks()
            own = _READ[kind](texts)
            values.append(own)
            if texts.null_count < len(texts):
                given = texts if kind != _RATE else pc.if_else(pc.equal(texts, _NAN), None, texts)
                is_odd = pc.and_(given.is_valid(), own.is_null())
                odd = pc.add(odd, is_odd.cast(pa.int32()))
            at += 1
        columns[name] = pc.coalesce(*values) if len(values) > 1 else values[0]
    columns["odd"] = odd
    typed = []
    for of in COLUMNS:
        column = columns[of.name]
        if pa.types.is_dictionary(of.type):
            column = pc.dictionary_encode(column)
        typed.append(column.cast(of.type))
    return pa.table(typed, COLUMNS)


def _texts_of(values: pa.Array) -> pa.Array:
    """Texts; few of them differ."""
    distinct = values.dictionary_encode()
    plain = [_text_of(value) for value in distinct.dictionary.to_pylist()]
    return pa.array(plain, pa.string()).take(distinct.indices)


def _text_of(value: str) -> str | None:
    return str(json.loads(value)).encode("utf-8", "replace").decode() if value[0] == '"' else None


def _whole(values: pa.Array) -> pa.Array:
    """Whole numbers that are not negative."""
    return _matching(values, _DIGITS).cast(INT64)


def _small(values: pa.Array) -> pa.Array:
    numbers = _whole(values)
    return pc.if_else(pc.less(numbers, 1 << 31), numbers, None).cast(INT32)


def _nanoseconds(values: pa.Array) -> pa.Array:
    """Microseconds as nanoseconds."""
    whole = _whole(values)
    whole = pc.multiply(pc.if_else(pc.less_equal(whole, _MOST_US), whole, None), 1000)
    if whole.null_count == values.null_count:
        return whole
    parts = _matching(values, _DECIMALS).cast(DOUBLE)
    parts = pc.if_else(pc.less_equal(parts, float(_MOST_US)), parts, None)
    return pc.coalesce(whole, pc.round(pc.multiply(parts, 1000.0)).cast(INT64))


def _rates(values: pa.Array) -> pa.Array:
    numbers = _matching(values, _NUMBER).cast(DOUBLE)
    return pc.if_else(pc.is_finite(numbers), numbers, None)


def _matching(values: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(values, pattern), values, None)


_READ: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {_TEXT: _texts_of, _INT: _whole, _SMALL: _small, _US: _nanoseconds, _RATE: _rates}
)
