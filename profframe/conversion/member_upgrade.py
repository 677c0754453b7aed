"""One stored trace of an older schema or of other facts: how it becomes current.

Its stored columns are enough for most; `Way` says what is done, and why.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema, store
from profframe.conversion.staging import Folder, Record, folder_of, staging_key
from profframe.errors import ProfframeError, StoreError
from profframe.facts.fact import Note
from profframe.facts.stored_facts import as_read, derived_anew, why_not
from profframe.loaders.options import FactOptions
from profframe.loaders.tables import conformed, table_parts
from profframe.loaders.trace_files import read_together, read_trace
from profframe.store import layout
from profframe.store.facts_version import facts_version
from profframe.store.schema_steps import OLDEST, steps_since
from profframe.system.disk_tables import Spool

Status = Literal["current", "derived", "read", "kept", "failed"]
Parts = Mapping[str, Iterable[pa.Table]]

_KEY: Final = ("run", "rank")
_NAMES: Final = frozenset({"run", "rank"})
_OF_NAMES: Final = "same_run_and_rank"
"""The row of `quality` about the name, which is given beside other files."""
_OF_UPGRADES: Final = ("another_version", "older_schema", "derived_anew", "lost_columns")
"""Rows of `quality` about versions, which are written anew."""


@dataclass(frozen=True, slots=True)
class Member:
    """A (run, rank) of a store in a folder, as it was when it was listed.

    ``default_options`` says that a trace without a record of its options was loaded without any,
    ``sources`` that its source may be read.
    """

    store: str
    run: str
    rank: int
    folder: str
    identity: str
    default_options: bool = False
    sources: bool = True


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Result for one (run, rank): a row of the frame that `upgrade` returns."""

    run: str
    rank: int
    status: Status
    schema_version: int | None = None
    facts_version: str | None = None
    source: str | None = None
    reason: str | None = None
    seconds: float = 0.0


class Way(NamedTuple):
    """What to do with a trace, and why.

    Attributes
    ----------
    status : str
        What is done.
    reason : str, optional
        What stored columns are not enough for.
    files : tuple of Path
        Its sources, if they are read.
    unread : str, optional
        Why they are not, if they would be needed.
    """

    status: Status
    reason: str | None = None
    files: tuple[Path, ...] = ()
    unread: str | None = None

    @property
    def words(self) -> str | None:
        """The reasons as one text."""
        return "; ".join(filter(None, (self.reason, self.unread))) or None


def upgraded(member: Member) -> Upgrade:
    """Upgrade one (run, rank); an error is in the result.

    It is published by the same rename as any other conversion, unless it was written again
    meanwhile.
    """
    start = time.perf_counter()
    result = Upgrade(member.run, member.rank, "failed")
    try:
        result = _upgraded(member)
    except ProfframeError as error:
        result = replace(result, reason=str(error))
    except (OSError, pa.ArrowException, MemoryError) as error:
        where = f"{member.store}: run {member.run!r}, rank {member.rank}"
        result = replace(result, reason=f"{where}: {error or type(error).__name__}")
    return replace(result, seconds=time.perf_counter() - start)


def _upgraded(member: Member) -> Upgrade:
    folder = Folder(Path(member.store))
    records = folder.read(member.folder)
    key = member.run, member.rank
    record = next((one for one in records if (one.run, one.rank) == key), None)
    if record is None:
        raise StoreError(f"{folder.root / member.folder}: removed or damaged meanwhile")
    way = way_of(folder, record, default_options=member.default_options, sources=member.sources)
    result = Upgrade(*key, way.status, record.schema, record.facts, record.source, reason=way.words)
    is_old = record.schema != schema.SCHEMA_VERSION
    if way.status == "current" or (way.status == "kept" and not is_old):
        return result
    staged_key = staging_key(member.folder, f"{key} {member.identity} {way.status}", "upgrade")
    staged = folder.find(staged_key) or folder.stage(
        staged_key, lambda draft: _write(folder, record, way, draft)
    )
    with folder.locked():
        if not _is_unchanged(folder, member):
            folder.discard(staged)
            reason = "it was written again meanwhile: run it again"
            return replace(result, status="failed", reason=f"{member.folder}: {reason}")
        folder.publish(staged, replace=True)
    return result


def _is_unchanged(store_: Folder, member: Member) -> bool:
    """Whether it is still what was read."""
    if layout.identity(store_.root / member.folder) != member.identity:
        return False
    own = folder_of(member.run, member.rank)
    return member.folder == own or not store_.has(f"{own}/traces.parquet")


def way_of(
    folder: Folder, record: Record, *, default_options: bool = False, sources: bool = True
) -> Way:
    """What to do with a trace.

    Parameters
    ----------
    folder
        The store.
    record
        The trace in it.
    default_options
        Whether one without a record of its options was loaded without any.
    sources
        Whether its source may be read.
    """
    version = record.schema or OLDEST
    if version == schema.SCHEMA_VERSION and record.facts == facts_version():
        return Way("current")
    traces = _traces(folder, record)
    options = _options(traces)
    if options is None and default_options:
        options = {}
    reason = _why_not(folder, record, options)
    lacking = "; ".join(_unread(folder, record, version)) or None
    if reason is None and lacking is None:
        return Way("derived")
    files, unread = _sources(record, traces, options, may_read=sources)
    if files:
        return Way("read", reason or lacking, files)
    return Way("kept" if reason else "derived", reason or lacking, unread=unread)


def _traces(folder: Folder, record: Record) -> dict[str, Any]:
    """Its row of `traces`."""
    row: dict[str, Any] = _whole(folder, record, "traces").to_pylist()[0]
    return row


def _whole(folder: Folder, record: Record, name: str) -> pa.Table:
    """A table in memory."""
    parts = folder.parts(record, name, record.run)
    return pa.concat_tables([schema.empty(name), *parts]).unify_dictionaries()


def _why_not(folder: Folder, record: Record, options: Mapping[str, Any] | None) -> str | None:
    """Why its facts cannot be derived from stored columns."""
    if options is None:
        return "its options are not recorded, as by to_parquet (--default-options: it had none)"
    if given := sorted(options.keys() - _NAMES - {"release"}):
        return f"it was converted with {', '.join(given)}"
    parts = folder.parts(record, "events", record.run)
    has_captured = any(part["replays"].null_count < len(part) for part in parts)
    return why_not(record.format, has_captured=has_captured)


def _options(traces: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options that it was converted with; None if that is not recorded."""
    try:
        options = json.loads(traces["convert_options"] or "null")
    except (ValueError, RecursionError):
        return None
    return options if isinstance(options, dict) else None


def _unread(folder: Folder, record: Record, version: int) -> Iterator[str]:
    """What only its source has."""
    present = folder.tables(record)
    for step in steps_since(version):
        if text := step.reread.get(record.format or ""):
            yield f"schema {step.version} has {text}, which were not read"
        names = sorted(step.from_source.intersection(present))
        if tables := [name for name in names if _count(folder, record, name)]:
            yield f"schema {step.version} has new columns of {', '.join(tables)}"


def _count(folder: Folder, record: Record, name: str) -> int:
    return sum(part.num_rows for part in folder.parts(record, name, record.run))


def _sources(
    record: Record,
    traces: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    *,
    may_read: bool,
) -> tuple[tuple[Path, ...], str | None]:
    """Its source files, if they are as they were and would be read in the same way; or why not."""
    if not may_read:
        return (), "its source is not to be read"
    if options is None or not _is_reproducible(options):
        return (), "its source cannot be read in the same way again: run profframe convert"
    hashes = [(record.source, traces["content_hash"])]
    hashes += [(file.source, file.content_hash) for file in record.joined]
    for source, content in hashes:
        if why := _why_unread(source, content):
            return (), why
    return tuple(Path(source) for source, _ in hashes if source), None


def _why_unread(source: str | None, content: str | None) -> str | None:
    """Why a file that a store names is not read; None if it is there with this checksum."""
    if source is None or not Path(source).is_absolute():
        return f"{source or 'its source'} is gone"
    path = Path(source)
    try:
        # Files that the system makes up have no size, and reading one of these may wait.
        if not (path.is_file() and path.stat().st_size):
            return f"{source} is gone"
        is_same = content is not None and layout.checksum(path) == content
    except OSError as error:
        return f"{source} cannot be read: {error.strerror or error}"
    return None if is_same else f"{source} has changed"


def _is_reproducible(options: Mapping[str, Any]) -> bool:
    """Whether the options of a conversion, but for names, have their values in its record."""
    facts = {name: value for name, value in options.items() if name not in _NAMES}
    again = FactOptions(compat=facts.get("compat")).contents()
    return bool(facts == json.loads(json.dumps(again)))


def _write(folder: Folder, record: Record, way: Way, draft: Path) -> None:
    tables = (
        _read(folder, record, way, draft) if way.files else _derived(folder, record, way, draft)
    )
    store.put(tables, draft, record.run, record.rank)


def _read(folder: Folder, record: Record, way: Way, draft: Path) -> Parts:
    """Tables of its sources, with the record of the conversion as it is."""
    before = _traces(folder, record)
    compat = (_options(before) or {}).get("compat")
    options = FactOptions(compat=compat)
    if len(way.files) == 1:
        trace = read_trace(
            way.files[0], record.run, record.rank, options, spool_folder=draft.parent
        )
        tables: dict[str, Any] = dict(table_parts(trace))
        traces = pa.concat_tables([schema.empty("traces"), *tables["traces"]])
    else:
        whole = read_together(way.files, record.run, record.rank, options)
        tables = {name: [table] for name, table in whole.items()}
        traces = whole["traces"]
    names = ("source", "content_hash", "convert_options", "joined_files", "rank_source")
    row = traces.to_pylist()[0] | {name: before[name] for name in names}
    if row["run"] != record.run or traces.num_rows != 1:
        raise StoreError(f"{way.files[0]}: is not one trace, as it was")
    quality = _whole(folder, record, "quality")
    of_names = quality.filter(pc.equal(quality["issue"].cast(schema.TEXT), _OF_NAMES))
    return {
        **tables,
        "traces": [pa.Table.from_pylist([row], schema.TRACES.arrow)],
        "quality": chain(tables["quality"], [of_names]),
    }


def _derived(folder: Folder, record: Record, way: Way, draft: Path) -> Parts:
    """Its stored tables, with new columns, and with all facts anew if that is the way."""
    version = record.schema or OLDEST
    names = folder.tables(record)
    is_derived = way.status == "derived"
    tables: dict[str, Any] = {}
    if is_derived:
        stored = {name: folder.parts(record, name, record.run) for name in names}
        tables = derived_anew(as_read(stored, Spool(draft.parent)))
    else:
        tables = {
            name: _whole(folder, record, name).drop_columns(_KEY) for name in ("traces", "quality")
        }
    notes = [*_lost(folder, record, version, way)]
    row = tables["traces"].to_pylist()[0] | {"schema_version": schema.SCHEMA_VERSION}
    if is_derived:
        detail = f"facts were of version {record.facts}, tables of schema {version}"
        words = filter(None, (detail, way.words))
        notes.insert(0, ("derived_anew", row["source_events"], "; ".join(words), None))
        row["facts_version"] = facts_version()
    types = [schema.TRACES.arrow.field(name) for name in row]
    tables["traces"] = pa.Table.from_pylist([row], pa.schema(types))
    tables["quality"] = _with_notes(tables["quality"], notes)
    parts: dict[str, Iterable[pa.Table]] = {}
    for name in schema.TABLES:
        if name in tables:
            parts[name] = conformed(name, tables[name], record.run, record.rank)
        elif name in names:
            rows = folder.parts(record, name, record.run)
            parts[name] = rows if is_derived else _with_new_columns(name, rows, version)
    return parts


def _with_new_columns(name: str, parts: Iterable[pa.Table], version: int) -> Iterator[pa.Table]:
    """Rows with the columns that steps derive from others of the same table."""
    new = {
        column.partition(".")[2]: function
        for step in steps_since(version)
        for column, function in step.derived.items()
        if column.partition(".")[0] == name
    }
    if not new:
        yield from parts
        return
    rows = pa.concat_tables([schema.empty(name), *parts]).unify_dictionaries()
    for column, function in new.items():
        module, _, attribute = function.partition(":")
        values = attrgetter(attribute)(import_module(f"profframe.{module}"))(rows)
        rows = rows.set_column(rows.column_names.index(column), rows.field(column), values)
    yield rows


def _lost(folder: Folder, record: Record, version: int, way: Way) -> Iterator[Note]:
    """Notes on columns that only the source has."""
    present = folder.tables(record)
    for step in steps_since(version):
        for name in sorted(step.from_source.intersection(present)):
            if count := _count(folder, record, name):
                detail = f"{', '.join(step.added[name])} of {name}: {way.unread}"
                yield "lost_columns", count, detail, None


def _with_notes(quality: pa.Table, notes: Sequence[Note]) -> pa.Table:
    """Rows of `quality`, with these in place of those of earlier upgrades."""
    is_own = pc.is_in(quality["issue"].cast(schema.TEXT), pa.array(_OF_UPGRADES))
    rows = quality.filter(pc.invert(is_own))
    return pa.concat_tables([rows, schema.quality_rows(*notes).cast(rows.schema)])
