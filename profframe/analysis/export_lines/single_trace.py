"""The trace of a file that holds one (run, rank)."""

from __future__ import annotations

from typing import Any

import duckdb

from profframe.analysis.selecting import some_traces
from profframe.errors import ParameterError


def single_trace(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """The row of `traces`; empty if there is none."""
    rows: list[dict[str, Any]] = (
        connection.sql("FROM traces ORDER BY run, rank").to_arrow_table().to_pylist()
    )
    if len(rows) > 1:
        some = some_traces([(row["run"], row["rank"]) for row in rows])
        raise ParameterError(
            f"a file holds one (run, rank), and there are {len(rows)} ({some}); "
            "choose a run and a rank"
        )
    return rows[0] if rows else {}
