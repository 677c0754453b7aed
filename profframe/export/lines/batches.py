"""The rows of a query, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import duckdb

from profframe.analysis.run_selection import some_traces
from profframe.errors import ParameterError
from profframe.export.lines.forms import LINE


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


Lines: TypeAlias = Iterator[Any]
"""Batches of events: arrays of text, or record batches of columns.

Lines of text that are elements of an array begin with a comma each.
"""

_BATCH: Final = 65_536
"""Number of events in memory at once."""


def batches(relation: duckdb.DuckDBPyRelation) -> Lines:
    """The rows of a query, which runs while they are read; of a column of lines, its array."""
    for batch in relation.to_arrow_reader(_BATCH):
        yield batch.column(0) if batch.schema.names == [LINE] else batch


def text_batches(relation: duckdb.DuckDBPyRelation) -> Lines:
    """The one column of a query, which runs while its lines are read."""
    for batch in relation.to_arrow_reader(_BATCH):
        yield batch.column(0)
