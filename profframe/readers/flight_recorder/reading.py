"""Dumps of torch's flight recorder: the last collectives, sends and receives of each rank.

A dump is a pickle of plain data (a file per rank, written on a time-out) or JSON.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import NotATraceError, SourceError
from profframe.readers import flight_recorder
from profframe.readers.build.assembly import assemble
from profframe.readers.build.row_tables import Header, Quality, RawTrace, gather
from profframe.readers.bytes import ByteSource
from profframe.readers.flight_recorder.dump_entries import DumpEntries
from profframe.readers.flight_recorder.process_groups import (
    Groups,
    own_rank,
    rank_in_name,
    short_name,
)
from profframe.readers.json import exact
from profframe.readers.pickle import limits, plain_values
from profframe.readers.pickle.machine import whole_text
from profframe.readers.pickle.unfolding import Unfolding
from profframe.system.disk_tables import Spool

_MEMBERS: Final = frozenset(("entries", "pg_config", "pg_status"))
"""Members of a dump that become rows; the others are its metadata."""
_HALF_PAIR: Final = re.compile(rb"\\ud[89a-f]", re.IGNORECASE)


def read(
    source: ByteSource,
    spool: Spool | None = None,  # noqa: ARG001 - a recorder holds some thousand records
    threads: int | None = None,  # noqa: ARG001 - the same
) -> RawTrace:
    """Read a dump into the tables of a trace without events.

    Raises
    ------
    SourceError
        It cannot be read, or is damaged.
    NotATraceError
        It is not a dump; the message says why.
    """
    dump = _value(source)
    entries = dump.get("entries", [])
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise _not_a_dump(source, '"entries" is not a list')
    if len(entries) > limits.MOST_ENTRIES:
        raise SourceError(
            f"{source.path}: a dump with {len(entries):,} records, of which "
            f"{limits.MOST_ENTRIES:,} can be read: record fewer (TORCH_FR_BUFFER_SIZE)"
        )
    quality = Quality()
    kept = [entry for entry in entries if isinstance(entry, Mapping)]
    if len(kept) < len(entries):
        quality.note("not_an_event", len(entries) - len(kept), "in the dump's entries")
    groups = Groups.of(dump, kept)
    unfolding = Unfolding(source.path)
    records = DumpEntries(kept, groups, unfolding)
    tables = {
        "recorded_collectives": records.table(),
        "process_groups": groups.table(),
        "stacks": records.stacks(),
    }
    _note(tables["recorded_collectives"], records, quality)
    header = _header(source, dump, kept, groups, unfolding)
    if unfolding.odd_values:
        quality.note("odd_value", unfolding.odd_values, "in metadata and lists of sizes")
    raw = _assembled(header, quality, kept, len(entries) - len(kept))
    first_ns, last_ns = _span(tables["recorded_collectives"])
    traces = raw.tables["traces"]
    for name, value in (("start_ns", first_ns), ("end_ns", last_ns)):
        place = traces.column_names.index(name)
        traces = traces.set_column(place, name, pa.array([value], schema.INT64))
    present = {name: rows for name, rows in tables.items() if rows.num_rows}
    return replace(raw, tables={**raw.tables, **present, "traces": traces})


def _value(source: ByteSource) -> Mapping[str, Any]:
    blocks = source.blocks()
    first = next(blocks, b"")
    try:
        if first.startswith(b"\x80"):
            value = plain_values(chain((first,), blocks), source.path)
        else:
            value = _json(source, chain((first,), blocks))
    except SourceError as error:
        if source.damage is None:
            raise
        raise SourceError(f"{error} ({source.damage})") from error
    if source.damage is not None:
        raise SourceError(f"{source.path}: {source.damage}")
    if not isinstance(value, Mapping):
        raise _not_a_dump(source, "it holds no object with entries")
    return value


def _json(source: ByteSource, blocks: Iterator[bytes]) -> object:
    """The value of a dump in JSON, which is refused before it would take much memory."""
    size = 0
    parts: list[bytes] = []
    for block in blocks:
        # At most a value behind each comma and bracket; text takes its own bytes.
        containers = block.count(b"[") + block.count(b"{")
        values = containers + block.count(b",")
        size += len(block) + limits.VALUE * values + limits.CONTAINER // 2 * containers
        if size > limits.MOST_BYTES:
            raise SourceError(
                f"{source.path}: byte {sum(map(len, parts)):,}: a flight recorder dump whose JSON "
                f"takes more than {limits.MOST_BYTES >> 20} MB of memory"
            )
        parts.append(block)
    data = b"".join(parts)
    try:
        value: object = json.loads(data, parse_constant=exact.refuse)
        return _whole_texts(value) if _HALF_PAIR.search(data) else value
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{source.path}: a flight recorder dump whose JSON ends early or is damaged: "
            f"{error.msg} at byte {error.pos:,} (dump it again, or load the others)"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{source.path}: a flight recorder dump that is not valid JSON: {error}"
        ) from None


def _whole_texts(value: Any) -> Any:
    """The value without lone halves of surrogate pairs, which no column can hold."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, dict):
        return {whole_text(key): _whole_texts(item) for key, item in value.items()}
    return [_whole_texts(item) for item in value] if isinstance(value, list) else value


def _not_a_dump(source: ByteSource, reason: str) -> NotATraceError:
    return NotATraceError(
        f"{source.path}: not a trace: it looks like a dump of torch's flight recorder, but {reason}"
    )


def _header(
    source: ByteSource,
    dump: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    groups: Groups,
    unfolding: Unfolding,
) -> Header:
    rank, rank_source = rank_in_name(source.path, groups), "path"
    if rank is None:
        rank, rank_source = own_rank(groups, entries), "groups"
    backends = Counter(
        name.partition(":")[0]
        for entry in entries
        if (name := short_name(entry.get("profiling_name"))) is not None and ":" in name
    )
    others = {name: value for name, value in dump.items() if name not in _MEMBERS}
    if groups.unnamed:
        others["pg_config"] = dict(groups.unnamed)
    return Header(
        format=flight_recorder.FORMAT,
        clock="utc",
        rank=rank,
        rank_source=rank_source,
        world_size=groups.world_size,
        backend=backends.most_common(1)[0][0] if backends else None,
        metadata=unfolding.json(others) if others else None,
    )


def _assembled(
    header: Header, quality: Quality, entries: Sequence[object], dropped: int
) -> RawTrace:
    unread = {"recorded_collectives": len(entries)} if entries else {}
    return assemble(gather(()), header, quality, dropped, unread=unread)


def _note(rows: pa.Table, records: DumpEntries, quality: Quality) -> None:
    first = pc.min(rows["record_id"]).as_py()
    if first:
        quality.note("overwritten_records", first, f"the first one kept has number {first}")
    if records.odd_values:
        detail = ", ".join(sorted(records.odd_values))
        quality.note("odd_record", records.odd_rows, detail)


def _span(rows: pa.Table) -> tuple[int | None, int | None]:
    columns = [rows[name] for name in ("created_ns", "started_ns", "completed_ns")]
    firsts = [t for t in (pc.min(column).as_py() for column in columns) if t is not None]
    lasts = [t for t in (pc.max(column).as_py() for column in columns) if t is not None]
    return min(firsts, default=None), max(lasts, default=None)
