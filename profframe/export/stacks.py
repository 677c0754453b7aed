"""Stacks in the folded form of torch's ``export_stacks``, which flame graphs are drawn from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import duckdb

from profframe.errors import ParameterError, UnknownNameError
from profframe.export.files import put_lines, written
from profframe.export.torch_events import LISTED, ORDER

METRICS: Final[Mapping[str, str]] = MappingProxyType(
    {"self_cpu_time_total": "self_ns"}
    | dict.fromkeys(
        ("self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"),
        "self_device_ns",
    )
)
"""Names of torch, and the column that each is made of."""

_LINES: Final = """
    WITH merged AS (
        SELECT run, rank, merged_into AS event_id, sum({column}) AS ns
        FROM events
        WHERE merged_into IS NOT NULL
        GROUP BY ALL)
    SELECT concat(
        array_to_string(
            list_reverse(string_split(translate({stack}, E' \\t\\n', '___'), ';')), ';'),
        ' ', (coalesce({column}, 0) + coalesce(ns, 0))::BIGINT // 1000, E'\\n')
    FROM listed
    LEFT JOIN merged USING (run, rank, event_id)
    WHERE {stack} != '' AND coalesce({column}, 0) + coalesce(ns, 0) >= 1000
    ORDER BY {order}"""


def write(connection: duckdb.DuckDBPyConnection, path: str | os.PathLike[str], metric: str) -> None:
    """Write a line for each slice: its frames from the outermost on, and whole microseconds.

    Parameters
    ----------
    connection
        Has the tables of the schema as views.
    path
        File to write; ``.gz`` or ``.zst`` compresses it.
    metric
        One of `METRICS`.

    Raises
    ------
    UnknownNameError
        There is no such metric.
    ParameterError
        No slice has a stack.
    ExportError
        The file cannot be written.
    """
    if metric not in METRICS:
        raise UnknownNameError.among("metric", metric, METRICS)
    connection.execute(LISTED)
    query = _LINES.format(column=METRICS[metric], stack=_stack(connection), order=ORDER)
    with written(path) as put:
        put_lines(put, connection.sql(query), first=False)


def _stack(connection: duckdb.DuckDBPyConnection) -> str:
    """The column that has stacks: those that were recorded, else the Python frames around."""
    found = connection.sql("SELECT count(stack), count(python_stack) FROM events").fetchall()
    for column, count in zip(("stack", "python_stack"), found[0], strict=True):
        if count:
            return column
    raise ParameterError(
        "no event has a stack; profile with with_stack=True, and for the sources of operators with "
        "experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True)"
    )
