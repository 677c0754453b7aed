"""Lines of the list that torch's ``EventList.export_chrome_trace`` writes: names and times."""

from __future__ import annotations

from typing import Final

import duckdb

from profframe.analysis.export_lines.batches import Lines, text_batches
from profframe.analysis.export_lines.json_macros import MACROS
from profframe.analysis.export_lines.single_trace import single_trace
from profframe.analysis.export_lines.torch_events import LISTED, ORDER

_LAUNCHED: Final = """
    CREATE TEMP VIEW launched AS
    SELECT coalesce(o.merged_into, o.event_id) AS event_id, count(*) AS kernels
    FROM events AS k
    JOIN events AS o ON k.op_id = o.event_id
    GROUP BY 1;"""
"""Device slices of each op; those of a removed duplicate belong to the survivor."""
_ORIGIN: Final = """
    SET VARIABLE origin_ns = coalesce(
        (SELECT min(start_ns) FROM events WHERE kind = 'profiler'),
        (SELECT CASE WHEN clock = 'relative' THEN coalesce(base_ns, 0) ELSE start_ns END
         FROM traces));
    SET VARIABLE device = (SELECT lower(coalesce(device_type, 'cuda')) FROM traces);"""
_LINES: Final = f"""
    SELECT concat(
        ',\n{{"name": ', title, ', "ph": "X", "ts": ', start_us, ', "dur": ', end_us - start_us,
        ', "tid": ', tid, ', "pid": "CPU functions", "args": {{}}}}',
        array_to_string(list_transform(range(arrows), lambda i: concat(
            ',\n{{"name": ', title, ', "ph": "s", "ts": ', start_us, ', "tid": ', tid,
            ', "pid": "CPU functions", "id": ', first_arrow + i,
            ', "cat": "cpu_to_', getvariable('device'), '", "args": {{}}}}')), ''))
    FROM (
        SELECT
            l.run, l.rank, l.start_ns, l.end_ns, l.preorder, l.event_id,
            coalesce(to_json(name), '""') AS title,
            (start_ns - getvariable('origin_ns')) / 1000 AS start_us,
            (end_ns - getvariable('origin_ns')) / 1000 AS end_us,
            coalesce(ident(
                CASE WHEN NOT coalesce(is_remote, false) THEN tid
                     WHEN contains(tid, 'node_id:') THEN concat(' ', trim(tid), ' ')
                     ELSE concat(' node_id:', node_id, ', thread_id:', tid, ' ') END),
                'null') AS tid,
            coalesce(kernels, 0) AS arrows,
            coalesce(sum(kernels) OVER (
                ORDER BY {ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT
                AS first_arrow
        FROM listed AS l
        LEFT JOIN launched USING (event_id))
    ORDER BY {ORDER}"""


def listed_lines(connection: duckdb.DuckDBPyConnection) -> Lines:
    """A line for each slice of one trace; times are microseconds since the profiler started."""
    single_trace(connection)
    connection.execute(MACROS + LISTED + _LAUNCHED + _ORIGIN)
    return text_batches(connection.sql(_LINES))
