"""The rows of a query, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import duckdb

from profframe.analysis.export_lines.forms import LINE

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
