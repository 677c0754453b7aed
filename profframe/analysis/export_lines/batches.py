"""The lines of a query, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import duckdb
import pyarrow as pa

Lines: TypeAlias = Iterator[pa.Array]
"""Batches of text; where the lines are elements of an array, each begins with a comma."""

_BATCH: Final = 65_536
"""Lines that are in memory at once."""


def text_batches(relation: duckdb.DuckDBPyRelation) -> Lines:
    """The one column of a query, which runs while its lines are read."""
    for batch in relation.to_arrow_reader(_BATCH):
        yield batch.column(0)
