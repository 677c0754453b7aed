"""What few slices say among their arguments: bytes, collectives, waits, how much work it is."""

from __future__ import annotations

import json
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.rows import GIVEN, Batch, Table, replaced, typed

_RECORD: Final = "record_param_comms"
"""Host op that says which collective is called."""
_TYPES: Final = {
    "bytes": "BIGINT",
    "Collective name": "VARCHAR",
    "Process Group Name": "VARCHAR",
    "Process Group Description": "VARCHAR",
    "Process Group ID": "VARCHAR",
    "Process Group Ranks": "VARCHAR",
    "Global rank start": "BIGINT",
    "Global rank stride": "BIGINT",
    "Group size": "BIGINT",
    "Seq": "BIGINT",
    "Comms Id": "VARCHAR",
    "dtype": "VARCHAR",
    "In msg nelems": "BIGINT",
    "Out msg nelems": "BIGINT",
    "In split size": "VARCHAR",
    "Out split size": "VARCHAR",
    "Src Rank": "BIGINT",
    "Dst Rank": "BIGINT",
    "data_type": "VARCHAR",
    "count": "BIGINT",
    "wait_on_stream": "BIGINT",
    "wait_on_cuda_event_record_corr_id": "BIGINT",
}
_ASCEND: Final = r"hcom_([A-Za-z]+)__(\d+)_\d+_\d+"
"""Kernel of Ascend's library: collective, end of the group's name, and two numbers."""
_LIST: Final = """nullif(CASE WHEN regexp_full_match({0}, '\\[(-?\\d+(, *-?\\d+)*)?\\]')
                       THEN replace({0}, ' ', '') END, '[]')"""
"""A list as the schema has it; one that is cut short, or empty, says nothing."""
_COLUMNS: Final = f"""
    SELECT row, CASE WHEN said.bytes >= 0 THEN said.bytes END AS bytes,
           coalesce(nullif(said."Collective name", ''), nullif(ascend.collective, ''))
           AS collective,
           coalesce(nullif(said."Process Group Name", ''), said."Process Group ID",
                    nullif(said."Process Group Description", ''), nullif(ascend.process_group, ''))
           AS process_group,
           CASE WHEN size > 0 THEN size END AS group_size,
           coalesce({_LIST.format('said."Process Group Ranks"')},
                    CASE WHEN size BETWEEN 1 AND 65536 AND said."Global rank start" >= 0
                              AND (size = 1 OR said."Global rank stride" > 0)
                         THEN '[' || array_to_string(list_transform(range(size), lambda i:
                              said."Global rank start" + i * said."Global rank stride"), ',') || ']'
                    END) AS group_ranks,
           CASE WHEN said."Seq" >= 0 THEN said."Seq" END AS collective_seq,
           nullif(said."Comms Id", '') AS collective_id,
           coalesce(nullif(said."dtype", ''), nullif(said.data_type, '')) AS element_type,
           CASE WHEN sent >= 0 THEN sent END AS in_elements,
           CASE WHEN said."Out msg nelems" >= 0 THEN said."Out msg nelems" END AS out_elements,
           {_LIST.format('said."In split size"')} AS in_splits,
           {_LIST.format('said."Out split size"')} AS out_splits,
           coalesce(said."Dst Rank", said."Src Rank") AS peer_rank,
           said.wait_on_stream AS wait_on_stream,
           CASE WHEN said.wait_on_cuda_event_record_corr_id > 0
                THEN said.wait_on_cuda_event_record_corr_id END AS wait_on_correlation
    FROM (SELECT row, said, said."Group size" AS size,
                 coalesce(said."In msg nelems", said.count) AS sent,
                 regexp_extract(name, '^{_ASCEND}$', ['collective', 'process_group']) AS ascend
          FROM (SELECT row, name, from_json(args, '{json.dumps(_TYPES)}') AS said
                FROM device_args WHERE json_valid(args)))"""  # noqa: S608
_WORK: Final = """
    SELECT row,
           CASE WHEN flops > 0 AND flops < (1::HUGEINT << 62) THEN round(flops)::BIGINT END
           AS given_flops,
           CASE WHEN gb > 0 AND gb < 4e9 THEN round(gb * 1000000000)::BIGINT END AS given_bytes
    FROM (SELECT row, try_cast(args->>'$.kernel_flop' AS DECIMAL(38, 9)) AS flops,
                 try_cast(args->>'$.kernel_num_gb' AS DECIMAL(28, 9)) AS gb
          FROM device_args WHERE json_valid(args))"""
_WORK_MARKS: Final = '"kernel_(?:flop|num_gb)"'
"""Members that ops and kernels of compiled code have; 0 is what nobody has counted."""
_MARKS: Final = (
    "bytes", "Collective name", "Process Group Name", "Seq", "alg_type", "wait_on_stream",
)  # fmt: skip
"""Members that only such arguments have."""


def with_device_args(batch: Batch, connection: duckdb.DuckDBPyConnection) -> Batch:
    """Add what is found; few slices have any of it, so only their arguments are parsed again."""
    if Table.EVENTS not in batch:
        return batch
    events = batch[Table.EVENTS]
    wanted = pc.or_(pc.is_valid(events["device"]), _speaks(events["name"]))
    args = events["args"].filter(wanted)
    says = pc.match_substring_regex(args, f'"({"|".join(_MARKS)})"')
    rows = pa.chunked_array([pc.indices_nonzero(wanted)]).cast(pa.int64())
    events = _with_said(events, rows.filter(says), _COLUMNS, connection)
    of_work = pl.Series(events["args"]).str.contains(_WORK_MARKS).arg_true().cast(pl.Int64)
    events = _with_said(events, of_work.to_arrow(), _WORK, connection)
    return {**batch, Table.EVENTS: events}


def _with_said(
    events: pa.Table,
    rows: pa.Array | pa.ChunkedArray,
    query: str,
    connection: duckdb.DuckDBPyConnection,
) -> pa.Table:
    """Events with the columns that a query finds in the arguments of some of them."""
    if not len(rows):
        return events
    asked = pa.table({"row": rows, **{n: events[n].take(rows) for n in ("name", "args")}})
    connection.register("device_args", asked)
    found = connection.sql(query).to_arrow_table()
    connection.unregister("device_args")
    place = np.full(events.num_rows, -1, np.int64)
    place[found["row"].to_numpy()] = np.arange(found.num_rows)
    at = pa.array(place, mask=place < 0)
    for name in found.column_names[1:]:
        values = typed(found[name].combine_chunks(), GIVEN[name])
        if values.null_count < len(values):
            given = values.take(at)
            known = name in events.column_names
            events = replaced(events, name, given) if known else events.append_column(name, given)
    return events


def _speaks(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Rows that tell of a collective by their name; every distinct name is looked at once."""
    pattern = f"^({_RECORD}|{_ASCEND})$"
    chunks = [
        pc.take(pc.match_substring_regex(chunk.dictionary, pattern), chunk.indices)
        for chunk in names.chunks
    ]
    return pc.fill_null(pa.chunked_array(chunks, pa.bool_()), fill_value=False)
