"""FLOPs, bytes and achieved shares of the peak, written into the arguments of events.

The names are those of ``torch._inductor.analysis``. Arguments without them keep their text; from
others they are removed first, so that a trace can be augmented again.
"""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.export.lines.json_macros import MACROS
from profframe.query.header import Answer
from profframe.query.parameters import reset_variables
from profframe.query.run import prepare
from profframe.readers.json.numerals import marked, unmarked

_FLOP: Final = "kernel_flop"
_GB: Final = "kernel_num_gb"
_FLOP_SHARE: Final = "achieved_flops_pct"
_BANDWIDTH_SHARE: Final = "achieved_bandwidth_pct"
_SHARES: Final = f'{{"{_FLOP_SHARE}":null,"{_BANDWIDTH_SHARE}":null}}'

_MEMBERS: Final = f"""
    SELECT events.event_id, concat(
        ',"{_FLOP}":' || events.flops,
        ',"{_GB}":' || (events.bytes * 0.000000001::DECIMAL(10, 9))::VARCHAR,
        ',"{_FLOP_SHARE}":' || percent(events.flops, limits.peak_flop_per_s, limits.dur_ns),
        ',"{_BANDWIDTH_SHARE}":' || percent(events.bytes, limits.peak_bytes_per_s, limits.dur_ns)
    )[2:] AS members
    FROM events
    LEFT JOIN kernel_limits('_typed_kernels', 'devices', getvariable('dtype')) AS limits
        ON events.event_id = limits.event_id
    WHERE events.kind IN ('host_op', 'kernel') AND coalesce(events.flops, events.bytes) IS NOT NULL
    ORDER BY events.event_id"""
_TYPED: Final = """
    CREATE TEMP VIEW _typed_kernels AS
    SELECT * REPLACE (CASE WHEN NOT getvariable('override') THEN work_dtype END AS work_dtype)
    FROM events WHERE kind = 'kernel'"""
_OWN_MACROS: Final = f"""
    CREATE TEMP MACRO finite(number) AS CASE WHEN isfinite(number) THEN round(number, 4) END;
    CREATE TEMP MACRO percent(work, peak, ns) AS finite(work * 1e11 / peak / nullif(ns, 0));
    CREATE TEMP MACRO has_any(args) AS
        regexp_matches(args, '"({_FLOP}|{_GB}|{_FLOP_SHARE}|{_BANDWIDTH_SHARE})"');
    CREATE TEMP MACRO merged(args, members) AS
        json_merge_patch(json_merge_patch(args, '{_SHARES}'), concat('{{', members, '}}'))::VARCHAR;
    CREATE TEMP MACRO with_members(args, members) AS
        CASE WHEN members IS NULL THEN args ELSE with_added(args, members) END;"""
_AUGMENTED: Final = """
    SELECT CASE WHEN has_any(args) AND json_valid(args) THEN args END AS args
    FROM events"""
_MERGED: Final = f"""
    SELECT CASE WHEN args IS NOT NULL THEN {unmarked("merged(args, members)")} END AS args
    FROM _augmented"""
_VIEW: Final = """
    ALTER VIEW events RENAME TO events_as_loaded;
    CREATE TEMP VIEW events AS
    SELECT events_as_loaded.* REPLACE (coalesce(merged, with_members(args, members)) AS args)
    FROM events_as_loaded POSITIONAL JOIN _members"""


def augment(
    connection: duckdb.DuckDBPyConnection, dtype: str = "", *, override: bool = False
) -> None:
    """Put the work of ops and kernels among their arguments.

    Host ops and kernels with known work get ``kernel_flop`` and ``kernel_num_gb`` (of 1e9 bytes),
    kernels on known devices ``achieved_flops_pct`` and ``achieved_bandwidth_pct``. Work of unknown
    type counts as ``dtype``, or all work with ``override``.

    The view ``events`` of the connection is replaced.
    """
    prepare(connection, Answer("augment", _MEMBERS), {})
    connection.execute(MACROS + _OWN_MACROS)
    for name, value in {"dtype": dtype, "override": override}.items():
        connection.execute(f"SET VARIABLE {name} = ?", [value])
    connection.execute(_TYPED)
    rows = connection.sql(_MEMBERS).to_arrow_table()
    reset_variables(connection, ("dtype", "override"))
    with_work = rows["event_id"].to_numpy()
    events = connection.sql("SELECT event_id FROM events").to_arrow_table()["event_id"].to_numpy()
    place = np.searchsorted(with_work, events)
    has_work = np.append(with_work, -1)[place] == events
    members = rows["members"].take(pa.array(place, pa.int64(), mask=~has_work))
    old = connection.sql(_AUGMENTED).to_arrow_table()["args"]
    added = marked(pc.if_else(old.is_valid(), members, pa.scalar(None, pa.string())))
    connection.register("_augmented", pa.table({"args": marked(old), "members": added}))
    merged = connection.sql(_MERGED).to_arrow_table()["args"]
    connection.register("_members", pa.table({"members": members, "merged": merged}))
    connection.execute(_VIEW)
