"""Rows of `quality` for traces in a store that another version of profframe loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow.parquet as pq

from profframe import schema
from profframe.query.selection import literal
from profframe.store.facts_version import facts_version

_CHECK: Final = schema.CHECKS["another_version"]
_COLUMN: Final = schema.TRACES.names.index("facts_version")


def others() -> str:
    """SQL: another version has written a row of `traces`."""
    return f"facts_version <> {literal(facts_version())}"


def note() -> Mapping[str, str]:
    """Columns of a row of `quality`, as SQL over such a row of `traces`."""
    finding = literal(f"{_CHECK.finds}: version ")
    return {
        "run": "run",
        "rank": "rank",
        "issue": literal(_CHECK.name),
        "events": "source_events",
        "example_event_id": "CAST(NULL AS BIGINT)",
        "action": literal(_CHECK.action),
        "detail": f"{finding} || facts_version || {literal(f', not {facts_version()}')}",
    }


def is_current(traces: pq.FileMetaData) -> bool:
    """Whether a file's statistics prove that this version has written all its rows."""
    for number in range(traces.num_row_groups):
        column = traces.row_group(number).column(_COLUMN)
        bounds = column.statistics
        if bounds is None or not bounds.min == bounds.max == facts_version():
            return False
    return True
