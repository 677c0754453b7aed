"""Files without events, joined with the one trace of their run and rank, as by `load`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from profframe import schema, store
from profframe.conversion.staging import Destination, JoinedFile, Record, staging_key
from profframe.loaders.companion_files import fit_together, with_recorders, with_rows_of
from profframe.loaders.recorded_kernels import with_kernels
from profframe.loaders.tables import conformed
from profframe.readers.build.row_tables import Header, RawTrace
from profframe.readers.formats import JOINED_FORMATS
from profframe.system.disk_tables import Builder, Spool, SpooledTable

_KEY: Final = ("run", "rank")
_RECORDS: Final = "recorded_collectives"
_LARGE: Final = frozenset({"events", "flows", "instants", "memory"})
"""Tables that may be too large for memory, and that show what is joined with the trace."""


@dataclass(frozen=True, slots=True)
class Join:
    """A trace, and what is joined with it.

    ``stored`` is what the store has under their name: it is replaced by all of them.
    """

    trace: Record
    beside: tuple[Record, ...]
    stored: Record | None = None

    @property
    def parts(self) -> tuple[Record, ...]:
        """All of them."""
        return (self.trace, *self.beside)


def join_of(store: Destination, staged: Sequence[Record], stored: Record | None) -> Join | None:
    """Choose what to join among the files of one run and rank; None for nothing.

    Parameters
    ----------
    store
        Where they are.
    staged
        The files of a batch, in its order.
    stored
        What the store has under their name.
    """
    traces = [record for record in staged if record.format not in JOINED_FORMATS]
    beside = [record for record in staged if record.format in JOINED_FORMATS]
    is_other = (
        stored is not None
        and stored.content is not None
        and stored.sources.isdisjoint(source for record in staged for source in record.sources)
    )
    choices = []
    if stored is not None and is_other:
        if beside and not traces and stored.format not in JOINED_FORMATS:
            choices.append(Join(stored, tuple(beside), stored))
        elif len(traces) == 1 and stored.format in JOINED_FORMATS:
            choices.append(Join(traces[0], (stored, *beside), stored))
    if len(traces) == 1 and beside:
        choices.append(Join(traces[0], tuple(beside)))
    for choice in choices:
        if fit_together(_own_tables(store, record) for record in choice.parts):
            return choice
    return None


def _own_tables(store: Destination, record: Record) -> list[str]:
    """Tables of files to join that have rows of a record, as `own_parts` names them."""
    names = [name for name in store.tables(record) if name in schema.JOINED_TABLES]
    if record.is_packed:
        names = [name for name in names if any(map(len, store.parts(record, name, record.run)))]
    records = _RECORDS in names
    return with_recorders(names, store.parts(record, _RECORDS, record.run) if records else ())


def stage_joined(destination: Destination, join: Join) -> Record:
    """Stage the tables of a trace with those of the joined files."""
    key = staging_key("joined", repr(join), "")
    return destination.find(key) or destination.stage(
        key, lambda draft: _write(destination, join, draft)
    )


def _write(destination: Destination, join: Join, draft: Path) -> None:
    trace = join.trace
    names = destination.tables(trace)
    spool = Spool(draft.parent)
    before: Mapping[str, pa.Table | SpooledTable] = {
        name: _spooled(destination, trace, name, spool)
        if name in _LARGE
        else _rows(destination, trace, name)
        for name in names
        if name in {"traces", "quality", "threads", *schema.OPTIONAL_TABLES, *_LARGE}
    }
    tables: Mapping[str, pa.Table | SpooledTable] = before
    for record in join.beside:
        tables = dict(with_rows_of(tables, _raw(destination, record), record.source or ""))
    tables = with_kernels(tables, trace.rank)
    tables = {**tables, "traces": _with_joined_files(tables["traces"], join)}
    parts = {
        name: conformed(name, tables[name], trace.run, trace.rank)
        if name in tables and tables[name] is not before.get(name)
        else destination.parts(trace, name, trace.run)
        for name in schema.TABLES
        if name in tables or name in names
    }
    store.put(parts, draft, trace.run, trace.rank)


def _rows(destination: Destination, record: Record, name: str) -> pa.Table:
    """A table as a reader returns it: without run and rank."""
    parts = [part.drop_columns(_KEY) for part in destination.parts(record, name, record.run)]
    return pa.concat_tables([_empty(name), *parts]).unify_dictionaries().combine_chunks()


def _spooled(destination: Destination, record: Record, name: str, spool: Spool) -> SpooledTable:
    """Rows on disk."""
    builder = Builder(spool, {field.name: field.type for field in _empty(name).schema})
    for part in destination.parts(record, name, record.run):
        builder.add(part.drop_columns(_KEY))
    return builder.table()


def _empty(name: str) -> pa.Table:
    return schema.TABLES[name].arrow.empty_table().drop_columns(_KEY)


def _raw(destination: Destination, record: Record) -> RawTrace:
    """A file without events as it was read."""
    names = {"traces", "quality", "events", *schema.JOINED_TABLES}
    tables = {
        name: _rows(destination, record, name)
        for name in destination.tables(record)
        if name in names
    }
    (row,) = tables["traces"].to_pylist()
    return RawTrace(tables, Header(row["format"], row["clock"], metadata=row["metadata"]))


def _with_joined_files(traces: pa.Table, join: Join) -> pa.Table:
    """The row of `traces`, with the joined files."""
    own = tuple(
        JoinedFile(record.source or "", record.content, record.options) for record in join.beside
    )
    text = json.dumps([asdict(file) for file in join.trace.joined + own], separators=(",", ":"))
    place = traces.schema.get_field_index("joined_files")
    return traces.set_column(place, "joined_files", pa.array([text], pa.string()))
