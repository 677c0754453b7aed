"""Attributes of activities that changes select by: classes, names, categories, device limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profframe.analysis.critical_path.graph import Graph
from profframe.analysis.simulation.changes import Details
from profframe.analysis.simulation.job_network import CLASSES
from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.arrays import last_equal, numbers
from profframe.intervals import Ints, Mask
from profframe.query.run import select, selected

MACROS: Final = "device_class() is_busy() is_call() is_data_load() kernel_limits() needs_flops()"
"""The macros that the queries of this module call."""


def details(connection: duckdb.DuckDBPyConnection, graph: Graph) -> Details:
    """Read the attributes of a rank's activities."""
    classes, work_name = _of(connection, graph.works.event, _WORKS, "class", "name")
    name, kind, load = _of(connection, graph.slices.event, _SLICES, "name", "kind", "is_load")
    return Details(classes, work_name, name, kind == _CALL, kind == _OP, load == 1)


def chosen(
    connections: Sequence[duckdb.DuckDBPyConnection],
    events: Sequence[Ints],
    column: str,
    pattern: str,
) -> list[Mask]:
    """The events of each rank with a name, or a category, that matches a pattern.

    ``column`` is one of ``COLUMNS``.

    Raises
    ------
    UnknownNameError
        None matches; the message lists those that exist.
    """
    expression, condition = _COLUMNS[column]
    sql = f"SELECT DISTINCT {expression} AS name FROM events WHERE {condition}"
    texts = {
        name for of in connections for (name,) in select(of, sql).fetchall() if name is not None
    }
    fitting = [text for text in texts if text == pattern or fnmatchcase(text, pattern)]
    if not fitting:
        raise UnknownNameError.among(column, pattern, sorted(texts))
    return [
        _having(
            of,
            ids,
            f"{condition} AND {expression} IN (SELECT unnest(getvariable('chosen_names')))",
            fitting,
        )
        for of, ids in zip(connections, events, strict=True)
    ]


def _having(
    connection: duckdb.DuckDBPyConnection, events: Ints, condition: str, names: Collection[str]
) -> Mask:
    connection.execute("SET VARIABLE chosen_names = ?::VARCHAR[]", [list(names)])
    table = select(connection, f"SELECT event_id FROM events WHERE {condition}").to_arrow_table()
    return np.isin(events, numbers(table, "event_id"))


def device_factors(
    connection: duckdb.DuckDBPyConnection, works: Ints, classes: Ints, others: pa.Table
) -> Factors:
    """The time of each work on other devices, divided by its time on its own device.

    Work with known operations and bytes changes like the minimum time that it can take; other work
    that moves more than it computes changes with the bandwidth. The rest stays.

    Raises
    ------
    ParameterError
        The peaks of the recorded devices are not known.
    """
    connection.register("_others", others)
    try:
        table = select(connection, _FACTORS).to_arrow_table()
    finally:
        connection.unregister("_others")
    factors = np.ones(works.size)
    row = last_equal(numbers(table, "event_id"), np.arange(table.num_rows), works)
    scales = (row >= 0) & (classes == CLASSES.index("compute"))
    factors[scales] = table["factor"].to_numpy()[row[scales]]
    if works.size and not table.num_rows:
        raise ParameterError(
            "device: the peaks of the recorded devices are not known; "
            "give them with devices=, as load takes them"
        )
    return factors


def _of(connection: duckdb.DuckDBPyConnection, events: Ints, sql: str, *names: str) -> list[Ints]:
    table = selected(connection, sql)
    row = last_equal(numbers(table, "event_id"), np.arange(table.num_rows), events)
    return [numbers(table, name, missing=-1)[row] for name in names]


Factors: TypeAlias = NDArray[np.float64]
_CALL: Final = 1
_OP: Final = 2
_WORKS: Final = f"""
    SELECT event_id, (hash(name) >> 1)::BIGINT AS name,
        list_position({list(CLASSES)!r}, device_class(kind, kernel_category)) - 1 AS class
    FROM events WHERE is_busy(kind)
"""
_SLICES: Final = f"""
    SELECT event_id, (hash(name) >> 1)::BIGINT AS name,
        CASE WHEN is_call(kind) THEN {_CALL} WHEN kind = 'host_op' THEN {_OP} ELSE 0 END AS kind,
        is_data_load(name)::BIGINT AS is_load
    FROM events WHERE NOT is_busy(kind) AND dur_ns > 0
"""
_FACTORS: Final = """
    WITH bandwidths AS (
        SELECT own.device, other.bandwidth_bytes_per_s / own.bandwidth_bytes_per_s AS ratio
        FROM devices AS own
        JOIN _others AS other ON own.device = other.device
        WHERE own.bandwidth_bytes_per_s IS NOT NULL AND other.bandwidth_bytes_per_s IS NOT NULL
    )
    SELECT event_id, coalesce(limits.factor, 1 / ratio) AS factor
    FROM events
    LEFT JOIN (
        SELECT own.event_id, other.limit_ps / own.limit_ps AS factor
        FROM kernel_limits('events', 'devices', '') AS own
        JOIN kernel_limits('events', '_others', '') AS other ON own.event_id = other.event_id
        WHERE own.limit_ps > 0
    ) AS limits USING (event_id)
    LEFT JOIN bandwidths ON events.device = bandwidths.device AND NOT needs_flops(kernel_category)
    WHERE is_busy(kind) AND kind <> 'memcpy' AND coalesce(limits.factor, ratio) IS NOT NULL
"""
_COLUMNS: Final[dict[str, tuple[str, str]]] = {
    "kernel": ("name", "is_busy(kind)"),
    "category": ("kernel_category", "is_busy(kind)"),
    "op": ("name", "kind IN ('host_op', 'annotation', 'python')"),
}
COLUMNS: Final = (*_COLUMNS,)
"""Columns to choose by a pattern: kernels by name or category, and host slices by name."""
