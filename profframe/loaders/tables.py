"""The tables of traces with a run and a rank, in the form of the schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from profframe import schema
from profframe.errors import NotATraceError, SourceError
from profframe.facts import pipeline  # noqa: F401 - what the version is of
from profframe.loaders.run_names import NamedTrace, readable
from profframe.store.facts_version import facts_version
from profframe.system.disk_tables import SpooledTable

UNREADABLE_FILE: Final = "unreadable_file"
"""The check for an optional file that cannot be read."""
_VERSION: Final = facts_version()
"""Taken at import: files may be replaced while the process runs."""


def combine(traces: Sequence[NamedTrace], skipped: Sequence[SourceError]) -> dict[str, pa.Table]:
    """The tables of all traces; skipped files are in `quality` of the first."""
    parts: dict[str, list[pa.Table]] = {name: [] for name in schema.TABLES}
    for trace in sorted(traces, key=lambda t: (t.run, t.rank)):
        for name, rows in table_parts(trace).items():
            parts[name] += rows
    if skipped:
        notes = schema.quality_rows(*map(skipped_file, skipped))
        parts["quality"].append(schema.conform("quality", notes, traces[0].run, traces[0].rank))
    present = {name: tables for name, tables in parts.items() if tables}
    return schema.complete({name: _together(rows) for name, rows in present.items()})


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    """All rows, with one dictionary per column."""
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
    return rows.unify_dictionaries() if rows.num_rows else rows


def skipped_file(error: SourceError) -> tuple[str, int, str, None]:
    """The row of `quality` for a skipped file."""
    check = "skipped_file" if isinstance(error, NotATraceError) else UNREADABLE_FILE
    return check, 0, str(error), None


def table_parts(trace: NamedTrace) -> dict[str, Iterator[pa.Table]]:
    """Tables of a trace in the form of the schema; parts are computed one by one."""
    traces = trace.raw.tables["traces"]
    source = {
        "source": readable(str(trace.path)),
        "rank_source": trace.rank_source,
        "facts_version": _VERSION,
    }
    columns = dict(zip(traces.schema.names, traces.columns, strict=True))
    traces = pa.table(columns | {name: pa.array([value]) for name, value in source.items()})
    tables = {**trace.raw.tables, "traces": traces}
    tables.setdefault(schema.PROFILER_STEPS.name, schema.empty(schema.PROFILER_STEPS.name))
    names = (n for n in schema.TABLES if n in tables or n not in schema.OPTIONAL_TABLES)
    return {name: conformed(name, tables[name], trace.run, trace.rank) for name in names}


def conformed(name: str, rows: pa.Table | SpooledTable, run: str, rank: int) -> Iterator[pa.Table]:
    """A table of a trace in the form of the schema, part by part."""
    for part in rows.parts() if isinstance(rows, SpooledTable) else (rows,):
        yield schema.conform(name, part, run, rank)
