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
    "wait_on_stream": "BIGINT",
    "wait_on_cuda_event_record_corr_id": "BIGINT",
}
_COLUMNS: Final = f"""
    SELECT row, CASE WHEN said.bytes >= 0 THEN said.bytes END AS bytes,
           nullif(said."Collective name", '') AS collective,
           coalesce(nullif(said."Process Group Name", ''), said."Process Group ID",
                    nullif(said."Process Group Description", '')) AS process_group,
           said.wait_on_stream AS wait_on_stream,
           CASE WHEN said.wait_on_cuda_event_record_corr_id > 0
                THEN said.wait_on_cuda_event_record_corr_id END AS wait_on_correlation
    FROM (SELECT row, from_json(args, '{json.dumps(_TYPES)}') AS said FROM device_args
          WHERE json_valid(args))"""  # noqa: S608
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
_MARKS: Final = ("bytes", "Collective name", "wait_on_stream")
"""Members that only such arguments have."""


def with_device_args(batch: Batch, connection: duckdb.DuckDBPyConnection) -> Batch:
    """Add what is found; few slices have any of it, so only their arguments are parsed again."""
    if Table.EVENTS not in batch:
        return batch
    events = batch[Table.EVENTS]
    wanted = pc.or_(pc.is_valid(events["device"]), _is_record(events["name"]))
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
    asked = pa.table({"row": rows, "args": events["args"].take(rows)})
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


def _is_record(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Rows with that name; every distinct name is looked at once."""
    chunks = [pc.take(pc.equal(chunk.dictionary, _RECORD), chunk.indices) for chunk in names.chunks]
    return pc.fill_null(pa.chunked_array(chunks, pa.bool_()), fill_value=False)
