"""Files of NCCL's example profiler plugin: Chrome trace JSON with categories of its own.

All events are slices in ``events``, as of any Chrome trace. Collectives, sends and receives are
records, too: the plugin writes the kernel of each channel behind the collective that it is of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import nccl_profiler, parsing_database
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.bytes import ByteSource
from profframe.readers.chrome import reading as chrome
from profframe.readers.nccl_inspector.reading import KINDS
from profframe.schema import RECORDED_COLLECTIVES
from profframe.system.disk_tables import Spool, SpooledTable

_TYPES: Final = (
    "ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64", "ncclFloat16",
    "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2",
)  # fmt: skip
"""Data types by the numbers that the first release of the plugin wrote."""
_SIZES: Final = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
_EPOCH_NS: Final = 1_000_000_000_000_000_000
"""A clock of a GPU beyond this is nanoseconds since 1970."""
_COLUMNS: Final = ("event_id", "category", "name", "start_ns", "dur_ns", "args")
_NUMBERS: Final = (
    "SeqNum", "Rank", "Peer", "Count", "Channel", "StartGpuClk", "StopGpuClk", "nChannels",
    "nMaxChannels",
)  # fmt: skip


def _listed(values: tuple[object, ...]) -> str:
    return "[" + ", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in values) + "]"


def _query() -> str:
    numbers = ", ".join(
        f"CASE WHEN regexp_full_match(args ->> '$.{name}', '\\d+') "
        f"THEN TRY_CAST(args ->> '$.{name}' AS BIGINT) END AS {name}"
        for name in _NUMBERS
    )
    types, sizes = _listed(_TYPES), _listed(_SIZES)
    kinds = ", ".join(f"'{word}': '{kind}'" for word, kind in KINDS.items())
    return f"""
        WITH rows AS (
            SELECT
                * EXCLUDE (args), CASE WHEN json_valid(args) THEN args END AS args
            FROM events
            WHERE category IN ('COLL', 'P2P', 'GPU')
        ),
        typed AS (
            SELECT
                event_id, category, name, {numbers},
                CASE WHEN regexp_full_match(args ->> '$.CommHash', '\\d+')
                    THEN TRY_CAST(args ->> '$.CommHash' AS UBIGINT) END AS hash,
                CASE
                    WHEN regexp_full_match(args ->> '$.Datatype', '\\d+')
                        THEN {types}[TRY_CAST(args ->> '$.Datatype' AS INTEGER) + 1]
                    ELSE args ->> '$.Datatype'
                END AS datatype,
                nullif(args ->> '$.Algorithm', '') AS algorithm,
                nullif(args ->> '$.Protocol', '') AS protocol,
                max(CASE WHEN category <> 'GPU' THEN event_id END)
                    OVER (ORDER BY event_id ROWS UNBOUNDED PRECEDING) AS owner
            FROM rows
        ),
        kernels AS (
            SELECT
                owner,
                count(DISTINCT Channel) AS channels,
                min(StartGpuClk) FILTER (StartGpuClk > {_EPOCH_NS}) AS started_ns,
                max(StopGpuClk) FILTER (StopGpuClk > {_EPOCH_NS}) AS completed_ns,
                max(StopGpuClk - StartGpuClk)
                    FILTER (StartGpuClk > 0 AND StopGpuClk > StartGpuClk) AS dur_ns
            FROM typed
            WHERE category = 'GPU' AND owner IS NOT NULL
            GROUP BY owner
        )
        SELECT
            row_number() OVER (ORDER BY calls.event_id) - 1 AS record_id,
            calls.category = 'P2P' AS is_p2p,
            CASE WHEN calls.category = 'COLL' THEN calls.SeqNum END AS collective_seq,
            CASE WHEN calls.category = 'P2P' THEN row_number() OVER (
                PARTITION BY calls.category, calls.hash, calls.Rank ORDER BY calls.event_id
            ) END AS p2p_seq,
            coalesce(MAP {{{kinds}}}[calls.name], calls.name) AS kind,
            'nccl' AS backend,
            '{nccl_profiler.FORMAT}' AS recorder,
            '0x' || lower(to_hex(calls.hash)) AS communicator,
            TRY_CAST(calls.Rank AS INTEGER) AS group_rank,
            TRY_CAST(calls.Peer AS INTEGER) AS group_peer,
            TRY_CAST(
                calls.Count::HUGEINT * {sizes}[list_position({types}, calls.datatype)] AS BIGINT
            ) AS message_bytes,
            CASE WHEN regexp_full_match(calls.datatype, 'nccl\\w+')
                THEN '["' || calls.datatype[5:] || '"]' END AS input_dtypes,
            calls.algorithm, calls.protocol,
            TRY_CAST(
                coalesce(calls.nChannels, calls.nMaxChannels, kernels.channels) AS INTEGER
            ) AS channels,
            kernels.started_ns, kernels.completed_ns, kernels.dur_ns,
            CASE WHEN kernels.dur_ns IS NOT NULL THEN 'kernel_gpu' END AS timing_source
        FROM typed AS calls
        LEFT JOIN kernels ON calls.event_id = kernels.owner
        WHERE calls.category <> 'GPU'
        ORDER BY record_id"""  # noqa: S608 - of constants


_QUERY: Final = _query()


def read(source: ByteSource, spool: Spool | None = None, threads: int | None = None) -> RawTrace:
    """Read a file into the tables of a trace, with records of its collectives.

    Raises
    ------
    SourceError
        It cannot be read.
    NotATraceError
        It is not a trace.
    """
    raw = chrome.read(source, spool, threads)
    events: pa.Table | SpooledTable = raw.tables["events"]
    events = events.select(list(_COLUMNS))
    if isinstance(events, SpooledTable):
        events = events.read()
    with parsing_database.connect() as connection:
        connection.register("events", events)
        rows = connection.sql(_QUERY).to_arrow_table()
    records = _typed(rows)
    ranks = records["group_rank"].unique().drop_null().to_pylist()
    rank = ranks[0] if len(ranks) == 1 else None
    header = replace(raw.header, format=nccl_profiler.FORMAT, backend="nccl")
    if rank is not None and header.rank is None:
        header = replace(header, rank=rank, rank_source="communicator")
    tables = {**raw.tables, "traces": _of_plugin(raw.tables["traces"])}
    if records.num_rows:
        tables["recorded_collectives"] = records
    return RawTrace(tables, header)


def _typed(rows: pa.Table) -> pa.Table:
    columns = {}
    for column in RECORDED_COLLECTIVES:
        if column.name not in rows.column_names:
            continue
        values = rows[column.name]
        if pa.types.is_dictionary(column.type):
            values = pc.dictionary_encode(values.cast(pa.string())).unify_dictionaries()
        columns[column.name] = values.cast(column.type)
    return pa.table(columns).combine_chunks()


def _of_plugin(traces: pa.Table) -> pa.Table:
    """The row of ``traces``, with what recorded it."""
    for name, value in (("format", nccl_profiler.FORMAT), ("backend", "nccl")):
        place = traces.schema.get_field_index(name)
        if place >= 0:
            type_ = traces.schema.field(place).type
            text = pa.array([value], pa.string())
            column = pc.dictionary_encode(text) if pa.types.is_dictionary(type_) else text
            traces = traces.set_column(place, name, column)
    return traces
