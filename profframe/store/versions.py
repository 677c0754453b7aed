"""Versions of what is stored: which schemas open, and what `quality` says of other versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from profframe import schema
from profframe.errors import StoreError, StoreVersionError
from profframe.query.selection import literal
from profframe.store.facts_version import facts_version
from profframe.store.parquet import VERSION_KEY
from profframe.store.schema_steps import OLDEST, lacks

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_CHECK: Final = schema.CHECKS["another_version"]
_OLDER: Final = schema.CHECKS["older_schema"]
_MOST_DIGITS: Final = 9


class Written(NamedTuple):
    """What is known of whoever wrote a folder."""

    schema: int
    """Version of the schema."""
    is_current: bool
    """Whether this version of profframe is known to have written all of it."""


def written(root: Path | str, traces: pq.FileMetaData, file: Path | str) -> Written:
    """Which version wrote a folder: the only check of it.

    Parameters
    ----------
    root
        The store, for messages.
    traces
        Metadata of the folder's ``traces.parquet``.
    file
        Path of that file, for messages.

    Raises
    ------
    StoreError
        Not profframe wrote it.
    StoreVersionError
        It is of a newer schema, or of one that is too old.
    """
    number = version_in(traces)
    if number is None:
        raise StoreError(
            f"{file}: Parquet, but not written by profframe: it has no {VERSION_KEY.decode()}"
        )
    if not is_readable(number):
        raise StoreVersionError(_refusal(root, number))
    return Written(int(number), int(number) == schema.SCHEMA_VERSION and _is_current(traces))


def version_in(metadata: pq.FileMetaData) -> str | None:
    """The schema version in the metadata of a file, as text; None in a file of somebody else."""
    version = (metadata.metadata or {}).get(VERSION_KEY)
    return None if version is None else version.decode(errors="replace")


def is_readable(version: str) -> bool:
    """Whether a store of this schema version opens.

    Examples
    --------
    >>> [is_readable(text) for text in ("12", "13", "15", "16", "x", "")]
    [False, True, True, False, False, False]
    """
    number = _number(version)
    return number is not None and OLDEST <= number <= schema.SCHEMA_VERSION


def _number(version: str) -> int | None:
    is_number = version.isascii() and version.isdecimal() and len(version) <= _MOST_DIGITS
    return int(version) if is_number else None


def _refusal(root: Path | str, version: str) -> str:
    number = _number(version)
    if number is not None and number < OLDEST:
        return (
            f"{root}: store of schema version {version}, this profframe reads versions {OLDEST} to "
            f"{schema.SCHEMA_VERSION}; convert its sources again (`source` in its traces.parquet "
            "has their paths), or install the profframe that wrote it"
        )
    return (
        f"{root}: store of schema version {version}, this profframe reads version "
        f"{schema.SCHEMA_VERSION}; convert the traces again, or install the profframe that wrote it"
    )


def others() -> str:
    """SQL: another version has written a row of `traces`."""
    return f"facts_version <> {literal(facts_version())}"


def note() -> Mapping[str, str]:
    """Columns of a row of `quality`, as SQL over such a row of `traces`."""
    finding = literal(f"{_CHECK.finds}: version ")
    detail = f"{finding} || facts_version || {literal(f', not {facts_version()}')}"
    return _row(_CHECK, detail)


def older_note() -> Mapping[str, str]:
    """Columns of a row of `quality`, as SQL over a row of `traces` in a file of an older schema."""
    words = {
        version: f"{_OLDER.finds}: schema {version}, not {schema.SCHEMA_VERSION}, without "
        f"{lacks(version)}"
        for version in range(OLDEST, schema.SCHEMA_VERSION)
    }
    cases = " ".join(f"WHEN {number} THEN {literal(text)}" for number, text in words.items())
    return _row(_OLDER, f"CASE schema_version {cases} ELSE {literal(_OLDER.finds)} END")


def _row(check: schema.Check, detail: str) -> Mapping[str, str]:
    return {
        "run": "run",
        "rank": "rank",
        "issue": literal(check.name),
        "events": "source_events",
        "example_event_id": "CAST(NULL AS BIGINT)",
        "action": literal(check.action),
        "detail": detail,
    }


def _is_current(traces: pq.FileMetaData) -> bool:
    """Whether a file's statistics prove that this version has written all its rows."""
    for number in range(traces.num_row_groups):
        group = traces.row_group(number)
        columns = map(group.column, range(group.num_columns))
        column = next((c for c in columns if c.path_in_schema == "facts_version"), None)
        bounds = None if column is None else column.statistics
        if bounds is None or not bounds.min == bounds.max == facts_version():
            return False
    return True
