"""What slices on a device say of their work among their arguments: bytes, collectives, waits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.rows import GIVEN, RawTrace, replaced, typed

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
_MARKS: Final = ("bytes", "Collective name", "wait_on_stream")
"""Members that only such arguments have."""


def with_device_args(raw: RawTrace, connection: duckdb.DuckDBPyConnection) -> RawTrace:
    """Add what is found; few slices have any of it, so only their arguments are parsed again."""
    events = raw.tables["events"]
    wanted = pc.or_(pc.is_valid(events["device"]), _is_record(events["name"]))
    args = events["args"].filter(wanted)
    says = pc.match_substring_regex(args, f'"({"|".join(_MARKS)})"')
    if not pc.any(says).as_py():
        return raw
    rows = pa.chunked_array([pc.indices_nonzero(wanted)]).cast(pa.int64())
    asked = pa.table({"row": rows, "args": args}).filter(says)
    connection.register("device_args", asked)
    found = connection.sql(_COLUMNS).to_arrow_table()
    connection.unregister("device_args")
    place = np.full(events.num_rows, -1, np.int64)
    place[found["row"].to_numpy()] = np.arange(found.num_rows)
    at = pa.array(place, mask=place < 0)
    for name in found.column_names[1:]:
        values = typed(found[name].combine_chunks(), GIVEN[name])
        if values.null_count < len(values):
            events = replaced(events, name, values.take(at))
    return replace(raw, tables={**raw.tables, "events": events})


def _is_record(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Rows with that name; every distinct name is looked at once."""
    chunks = [pc.take(pc.equal(chunk.dictionary, _RECORD), chunk.indices) for chunk in names.chunks]
    return pc.fill_null(pa.chunked_array(chunks, pa.bool_()), fill_value=False)
