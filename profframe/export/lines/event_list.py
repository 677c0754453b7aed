"""Lines of the list that torch's ``EventList.export_chrome_trace`` writes: names and times.

torch writes kernels like host ops. Where there is device work, events also have the category and
the arguments that Kineto gives them, so that kernels are known as such and find their ops.
"""

from __future__ import annotations

from typing import Final

import duckdb

from profframe.export.lines.batches import Lines, single_trace, text_batches
from profframe.export.lines.json_macros import MACROS
from profframe.facts.torch_compat.overloads import DROPPED_NAMES
from profframe.schema import ON_DEVICE_KINDS

LISTED: Final = f"""
    CREATE TEMP VIEW listed AS
    SELECT *, start_ns + dur_ns AS end_ns
    FROM events
    WHERE kind != 'profiler' AND merged_into IS NULL AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
          AND coalesce(name NOT IN {DROPPED_NAMES!r}, true);"""
ORDER: Final = "run, rank, start_ns, end_ns DESC, preorder, event_id"
"""By start, the outer slice first."""


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
_CATEGORIES: Final = {
    "host_op": "cpu_op",
    "annotation": "user_annotation",
    "python": "python_function",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "sync": "cuda_sync",
    "device_annotation": "gpu_user_annotation",
}
"""Kineto's category of each kind."""
_WORK: Final = f"""
    SET VARIABLE has_work = EXISTS (FROM events WHERE kind IN {ON_DEVICE_KINDS!r});
    CREATE TEMP VIEW linked AS
    SELECT
        e.event_id,
        ', "cat": ' || to_json(map_extract_value(MAP {_CATEGORIES!r}, e.kind)) AS category,
        concat_ws(', ',
            '"device": ' || e.device,
            '"stream": ' || e.stream,
            '"correlation": ' || e.correlation,
            '"External id": ' || coalesce(
                CASE WHEN e.launch_id IS NULL THEN o.external_id END, e.external_id)) AS arguments
    FROM events AS e
    LEFT JOIN events AS i ON e.op_id = i.event_id
    LEFT JOIN events AS o ON coalesce(i.merged_into, i.event_id) = o.event_id
    WHERE getvariable('has_work');"""
"""What else an event is written with. An op in place of its duplicates has their kernels."""
_LINES: Final = f"""
    SELECT concat(
        ',\n{{"name": ', title, ', "ph": "X"', category, ', "ts": ', start_us,
        ', "dur": ', end_us - start_us, ', "tid": ', tid,
        ', "pid": "CPU functions", "args": {{', arguments, '}}}}',
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
            coalesce(kernels, 0) AS arrows, linked.category, arguments,
            coalesce(sum(kernels) OVER (
                ORDER BY {ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT
                AS first_arrow
        FROM listed AS l
        LEFT JOIN launched USING (event_id)
        LEFT JOIN linked USING (event_id))
    ORDER BY {ORDER}"""


def listed_lines(connection: duckdb.DuckDBPyConnection) -> Lines:
    """A line for each slice of one trace; times are microseconds since the profiler started."""
    single_trace(connection)
    connection.execute(MACROS + LISTED + _LAUNCHED + _ORIGIN + _WORK)
    return text_batches(connection.sql(_LINES))
