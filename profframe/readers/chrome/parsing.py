"""Parse text of events into arrays of their members, by DuckDB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.native.library import library
from profframe.readers import parsing_database
from profframe.readers.build.decimal_time import SCALE
from profframe.readers.build.row_tables import Batch
from profframe.readers.chrome import scanned
from profframe.readers.chrome.columns import (
    ARGS,
    OLD_ARGS,
    OWN_ARGS_KEY,
    OWN_CATEGORY,
    OWN_COLUMNS,
    OWN_KEY,
    batch_of,
)
from profframe.readers.chrome.device_args import with_device_args
from profframe.readers.chrome.session import Session, lent
from profframe.readers.json.numerals import has_unlike, marked, times, unmarked
from profframe.readers.json.stream import Parsed, Wave
from profframe.readers.json.strict import has_doubled

_TIMES: Final = ("ts", "dur")
_OF_EVENTS: Final = 2
"""Depth of the members of events."""
_KEYS: Final = ("ph", "cat", "name", "pid", "tid", *_TIMES, "id", "s", "bp", "args")
"""Keys of an event that have a column; others go to its arguments."""

_EVENT_TYPE: Final = json.dumps(
    [
        dict.fromkeys(_KEYS, "VARCHAR")
        | dict.fromkeys(_TIMES, f"DECIMAL(28, {SCALE})")
        | {"args": "JSON"}
    ]
)
"""The decimals make DuckDB 2.0.0 keep the text of every number; otherwise all become doubles."""
_TIME_TEXT_TYPE: Final = json.dumps([dict.fromkeys(_TIMES, "VARCHAR")])
ARGS_TYPE: Final = json.dumps(dict(ARGS))
_OLD_ARGS_TYPE: Final = json.dumps(dict(OLD_ARGS))
"""DuckDB folds case, so they need a structure of their own."""
_MEMBERS_TYPE: Final = json.dumps({"m": ["MAP(VARCHAR, JSON)"], "text": "DECIMAL(28, 6)"})
"""An unused decimal again, for the text of numbers."""
_OWN_TYPE: Final = json.dumps(
    {OWN_ARGS_KEY: {**OWN_COLUMNS, OWN_CATEGORY: "VARCHAR", "args": "JSON"}}
)

_OWN: Final = f'"{OWN_ARGS_KEY}"'
_SUSPECT: Final = rf"nan|NaN|NAN|inf|Inf|INF|external id|Input dims|\\u003[aA]|{_OWN}"
"""Words that a piece seldom has: without them, the other patterns need no search."""
_NON_FINITE: Final = r"[\[:,]\s*[+-]?(?i:nan|inf|infinity)\s*[,\]}]"
_TEXT: Final = r'(?s)"(?:[^"\\]|\\.)*"'
_OLD_SPELLING: Final = r"external id|Input dims"
_ESCAPED_COLON: Final = r"\\u003[aA]"
_CACHED: Final = 256 << 10
"""Bytes that stay in a processor's cache while they are read twice."""

_KEYS_OF_EVENTS: Final = "SELECT DISTINCT unnest(json_keys(t, '$[*]')) FROM pieces"
_KEYS_OF_ARGS: Final = "keys_of_args"
"""Column with a hash of each list of keys: there are few lists, and each is checked once."""
_ALL: Final = 256 << 10
"""Bytes up to which all arguments are checked, as in a single piece: more would cost too much."""
_MOST_KEYS: Final = 1 << 14
"""Lists of keys that are remembered as sound before all are forgotten."""
_SOME: Final = 64
"""Arguments sampled from more bytes: a writer that doubles a member does so throughout."""
_ANY_DOUBLED: Final = """
    SELECT bool_or(len(keys) > list_unique(keys))
    FROM (SELECT json_keys(args) AS keys FROM listed)"""
_NO_OBJECTS: Final = "SELECT bool_or(list_contains(json_keys(t, '$[*]'), [])) FROM pieces"
_TIME_TEXTS: Final = f"SELECT unnest(from_json(t, '{_TIME_TEXT_TYPE}')) AS time_text FROM pieces"
_EVENT: Final = f"unnest(from_json(t, '{_EVENT_TYPE}')) AS event"
_MEMBERS: Final = f"""unnest(from_json('{{"m":' || t || '}}', '{_MEMBERS_TYPE}').m) AS members"""
_EVENTS: Final = f"SELECT {_EVENT} FROM pieces"
_EVENTS_AND_MEMBERS: Final = f"SELECT {_EVENT}, {_MEMBERS} FROM pieces"
_UNMARKED: Final = ", ".join(
    f"{key} := event.{key}" if key in _TIMES else f"{key} := {unmarked(f'event.{key}::VARCHAR')}"
    for key in _KEYS
)
_UNMARKED_EVENT: Final = f"CASE WHEN event IS NOT NULL THEN struct_pack({_UNMARKED}) END AS event"
_UNMARKED_MEMBERS: Final = f"""
    map_from_entries(list_transform(
        map_entries(members), lambda m: {{'key': m.key, 'value': {unmarked("m.value::VARCHAR")}}}
    )) AS members"""
_NUMBERS: Final = "[1.10,1e5,-0,123456789.123456789123456789]"
_KEPT: Final = f"""
    SELECT [args::VARCHAR, members['args']::VARCHAR] = ['{_NUMBERS}', '{_NUMBERS}']
    FROM (SELECT event.args, members FROM (
        SELECT {_EVENT}, {_MEMBERS} FROM (SELECT '[{{"args":{_NUMBERS}}}]' AS t)))"""
_LINKS: Final = ("id2", "scope", "bind_id", "flow_in", "flow_out")
"""Keys that few events have: they are in the arguments, too, so that nothing is lost."""
_PATH: Final = f"'$.' || CASE WHEN m.key IN {_LINKS!r} THEN m.key ELSE 'id2' END"
"""SQL: a path that is sound for any key: the database looks for those of all."""
_LINK_MARKS: Final = r'"(?:id2|scope|bind_id)"|\\u00'
"""Text without which there are no such keys; one may be escaped."""
_IDS_OF_LINKS: Final = (
    ("local_id", "members['id2']->>'$.local'"),
    ("wide_id", "members['id2']->>'$.global'"),
    ("own_scope", "members['scope']->>'$'"),
    ("bind_id", "members['bind_id']->>'$'"),
)
_LINK_COLUMNS: Final = """
    coalesce(wide_id, event.id) AS global_id,
    coalesce(own_scope || ':', '') AS id_scope,
    coalesce('local:' || id_scope || local_id, id_scope || global_id) AS full_id,
    coalesce(TRY_CAST((members['flow_in']->>'$') AS BOOLEAN), false) AS flow_in,
    coalesce(TRY_CAST((members['flow_out']->>'$') AS BOOLEAN), false) AS flow_out"""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Which patterns occur in the text of a wave's pieces."""

    numerals: bool = False
    """Numbers, other than times, whose text DuckDB would not keep."""
    non_finite: bool = False
    old_args: bool = False
    escaped_colon: bool = False
    own_args: bool = False


def _patterns(pieces: pa.LargeStringArray) -> _Patterns:
    texts = pl.Series(pieces)
    is_suspect = texts.str.contains(_SUSPECT)
    may_rewrite = not keeps_numerals() or texts.str.contains(_LINK_MARKS).any()
    numerals = bool(may_rewrite) and has_unlike(pieces)
    if not is_suspect.any():
        return _Patterns(numerals)
    suspects = texts.filter(is_suspect)
    regexes = (_OLD_SPELLING, _ESCAPED_COLON, _OWN)
    non_finite = suspects.filter(suspects.str.contains(_NON_FINITE)).str.replace_all(_TEXT, '""')
    return _Patterns(
        numerals,
        non_finite.str.contains(_NON_FINITE).any(),
        *(suspects.str.contains(regex).any() for regex in regexes),
    )


def _with_other_keys(parsed: str) -> str:
    """SQL: the rows of events, with their other keys among their arguments."""
    return f"""
        SELECT event, full_id, bind_id, flow_in, flow_out,
               CASE WHEN other = '' THEN given
                    WHEN coalesce(given, '{{}}') = '{{}}' THEN '{{' || other || '}}'
                    WHEN given[1] = '{{' THEN given[:-2] || ',' || other || '}}'
                    ELSE '{{"args":' || given || ',' || other || '}}' END AS args
        FROM (SELECT event, event.args::VARCHAR AS given, bind_id, {_LINK_COLUMNS},
                     array_to_string(list_transform(
                         list_filter(
                             map_entries(members),
                             lambda m: m.key NOT IN {_KEYS!r}
                             AND NOT (m.key IN {_LINKS!r}
                                      AND coalesce(
                                          json_extract(event.args, {_PATH}) = m.value, false))
                         ),
                         lambda m: to_json(m.key)::VARCHAR || ':' || coalesce(m.value, 'null')
                     ), ',') AS other
              FROM ({parsed}))"""


def _query(patterns: _Patterns, *, other_keys: bool, all_args: bool) -> str:
    """SQL: one row per event with its members, those of its arguments, and all arguments."""
    rows, args, columns = _EVENTS_AND_MEMBERS if other_keys else _EVENTS, "event.args", "event"
    if other_keys:
        rows = f"SELECT event, members, {_ids_of_links(patterns)} FROM ({rows})"
    if patterns.numerals:
        ids = ", ".join(name for name, _ in _IDS_OF_LINKS)
        members = f", {_UNMARKED_MEMBERS}, {ids}" if other_keys else ""
        rows = f"SELECT {_UNMARKED_EVENT}{members} FROM ({rows})"
    if other_keys:
        links = "full_id, bind_id, flow_in, flow_out"
        rows, args, columns = _with_other_keys(rows), "args", f"event, args, {links}"
    old = f", from_json({args}, '{_OLD_ARGS_TYPE}') AS old" if patterns.old_args else ""
    exported = ""
    if patterns.own_args:
        columns = columns.replace(" args,", "")
        exported = _exported_columns(args)
    keys = f", hash(json_keys(event.args)) AS {_KEYS_OF_ARGS}" if all_args else ""
    members = f"from_json({args}, '{ARGS_TYPE}') AS members"
    return f"SELECT {columns}, {members}{old}{exported}{keys} FROM ({rows})"


def _ids_of_links(patterns: _Patterns) -> str:
    """SQL: the ids in the links of an event, with the text of numbers."""
    return ", ".join(
        f"{unmarked(f'({text})') if patterns.numerals else text} AS {name}"
        for name, text in _IDS_OF_LINKS
    )


def _exported_columns(args: str) -> str:
    """SQL: the columns in an exported trace, and the arguments without them and what follows."""
    mark = f"""strpos({args}, '"{OWN_ARGS_KEY}":{{')"""
    return f""",
        from_json({args}, '{_OWN_TYPE}')."{OWN_ARGS_KEY}" AS {OWN_KEY},
        CASE WHEN {OWN_KEY} IS NULL OR {mark} = 0 THEN {args}::VARCHAR
             WHEN {mark} = 2 THEN struct_extract({OWN_KEY}, 'args')::VARCHAR
             WHEN json_valid(left({args}, {mark} - 2) || '}}')
             THEN left({args}, {mark} - 2) || '}}'
             ELSE {args}::VARCHAR END AS args"""


class _DoubledError(Exception):
    """An object has a member twice; DuckDB would take the first or none."""


class Parser:
    """Turns text into rows; calls may run in parallel."""

    def __init__(self, source_pids: Mapping[str, str | None] = MappingProxyType({})) -> None:
        self._expects_other_keys = False
        self.source_pids = source_pids
        """The ids of processes in the traces that a file was made from."""

    def wave(self, wave: Wave) -> Parsed[Batch]:
        """Rows of each run of valid pieces; None for a run that needs repair."""
        if library() is None or not scanned.is_readable(wave):
            return Parsed(wave, self._runs(wave, 0, len(wave)))
        runs = scanned.runs_of(wave, self.source_pids)
        return Parsed(
            wave,
            [
                run
                for first, stop, rows in runs
                for run in (
                    self._runs(wave, first, stop) if rows is None else [(first, stop, rows)]
                )
            ],
        )

    def _runs(self, wave: Wave, first: int, stop: int) -> list[tuple[int, int, Batch | None]]:
        """Rows of each run of some pieces."""
        pieces = _pieces(wave.text, wave.bounds).slice(first, stop - first)
        rows = self._rows(pieces, strict=True)
        if rows is not None:
            return [(first, stop, rows)]
        parts = [self._rows(pieces.slice(i, 1), strict=True) for i in range(len(pieces))]
        return _runs(parts, first)

    def array(self, text: bytes) -> Batch | None:
        """Rows of one array of repaired events, or None if it does not parse."""
        return self._rows(_pieces(text, [0, len(text)]), strict=False)

    def _rows(self, pieces: pa.LargeStringArray, *, strict: bool) -> Batch | None:
        with lent() as session:
            try:
                pieces.validate(full=True)
                patterns = _patterns(pieces)
                if strict and patterns.non_finite:
                    return None
                members = self._read(pieces, patterns, session)
                if _may_have_inner_times(pieces, members, patterns):
                    members = self._read(pieces, replace(patterns, numerals=True), session)
                if strict and members["ph"].null_count and _has_no_objects(pieces, session):
                    return None
            except duckdb.OutOfMemoryException:
                raise
            except (duckdb.Error, pa.ArrowInvalid, _DoubledError):
                return None
            except UnicodeDecodeError:  # DuckDB's message quotes half a character of the text
                return None
            return with_device_args(batch_of(members, self.source_pids), session)

    def _read(
        self, pieces: pa.LargeStringArray, patterns: _Patterns, session: Session
    ) -> dict[str, pa.Array]:
        """Members of the events, and the text of their times if some could not be read."""
        texts = marked(pieces, _OF_EVENTS) if patterns.numerals else pieces
        with _registered(texts, session):
            members = self._parse(pieces, patterns, session)
            if _lacks_times(members):
                members |= _members(session.rows_of(_TIME_TEXTS))
        return members

    def _parse(
        self, pieces: pa.LargeStringArray, patterns: _Patterns, session: Session
    ) -> dict[str, pa.Array]:
        """Members of the events. Keys without a column are rare, and searched afterwards."""
        size = pc.sum(pc.binary_length(pieces)).as_py()
        query = partial(_query, patterns, all_args=size <= _ALL)
        if not (self._expects_other_keys or patterns.escaped_colon):
            rows = session.rows_of(query(other_keys=False))
            _check_args(rows, session)
            if _has_all_keys(pieces, _combined(rows["event"])):
                return _members(rows)
        keys = [names for (names,) in session.cursor.execute(_KEYS_OF_EVENTS).fetchall()]
        if any(len(set(names)) < len(names) for names in keys):
            raise _DoubledError
        self._expects_other_keys |= not {key for names in keys for key in names}.issubset(_KEYS)
        rows = session.rows_of(query(other_keys=self._expects_other_keys))
        _check_args(rows, session)
        return _members(rows)


def _check_args(rows: pa.Table, session: Session) -> None:
    """Raise an error for arguments that have a member twice."""
    args = pc.struct_field(rows["event"], "args")
    if _KEYS_OF_ARGS not in rows.column_names:
        sample = np.linspace(0, len(args) - 1, min(_SOME, len(args)), dtype=np.int64)
        if any(map(has_doubled, args.take(pa.array(sample)).drop_null().to_pylist())):
            raise _DoubledError
    elif set(pc.unique(rows[_KEYS_OF_ARGS]).to_pylist()) - session.sound_keys:
        numbers, first = np.unique(rows[_KEYS_OF_ARGS].to_numpy(), return_index=True)
        with session.registered("listed", pa.table({"args": args.take(pa.array(first))})):
            ((is_doubled,),) = session.cursor.execute(_ANY_DOUBLED).fetchall()
        if is_doubled:
            raise _DoubledError
        if len(session.sound_keys) > _MOST_KEYS:
            session.sound_keys.clear()
        session.sound_keys.update(numbers.tolist())


def _has_all_keys(pieces: pa.LargeStringArray, events: pa.StructArray) -> bool:
    """Whether the events have no other keys than those with a column.

    Each key has a colon, and any other colon is inside a string. So the text has as many colons as
    the parsed keys and their values, or there are more keys (or one twice).
    """
    members = events.flatten()
    keys = sum(len(values) - values.null_count for values in members)
    in_strings = sum(_colons(values) for values in members if pa.types.is_string(values.type))
    return _colons(pieces) == int(keys) + in_strings


def _colons(texts: pa.Array) -> int:
    """Colons in all texts together."""
    _, bounds, text = texts.buffers()
    if text is None:
        return 0
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    first, last = np.frombuffer(bounds, width)[[texts.offset, texts.offset + len(texts)]]
    letters = np.frombuffer(text, np.uint8)[first:last]
    parts = (letters[i : i + _CACHED] for i in range(0, letters.size, _CACHED))
    return sum(int(np.count_nonzero(part == ord(":"))) for part in parts)


def members_of_args(args: pa.Array, session: Session) -> dict[str, pa.Array]:
    """The arguments by name, and their text; arguments that are not JSON become one text.

    The text is without the columns that an exported trace has among its arguments.
    """
    texts = pl.Series(args)
    old, own = (texts.str.contains(regex).any() for regex in (_OLD_SPELLING, _OWN))
    query = f"""
        SELECT {_exported_columns("args")[1:] if own else "args"},
               from_json(args, '{ARGS_TYPE}') AS members
               {f", from_json(args, '{_OLD_ARGS_TYPE}') AS old" if old else ""}
        FROM (SELECT CASE WHEN json_valid(args) THEN args ELSE to_json(args) END AS args
              FROM arguments)"""
    with session.registered("arguments", pa.table({"args": args})):
        return _members(session.rows_of(query))


def _members(rows: pa.Table) -> dict[str, pa.Array]:
    """Members of the structures in the rows, each as one array; later ones win."""
    flat = rows.flatten()
    return {
        name.removeprefix("event.").removeprefix("members."): _combined(column)
        for name, column in zip(flat.column_names, flat.columns, strict=True)
    }


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _registered(pieces: pa.LargeStringArray, session: Session) -> AbstractContextManager[None]:
    # DuckDB works by chunks, and the result of one piece stays in a processor's cache.
    single = pa.chunked_array([pieces.slice(i, 1) for i in range(len(pieces))], pieces.type)
    return session.registered("pieces", pa.table({"t": single}))


def _has_no_objects(pieces: pa.LargeStringArray, session: Session) -> bool:
    with _registered(pieces, session):  # fetchone would leave the cursor in use
        ((has_none,),) = session.cursor.execute(_NO_OBJECTS).fetchall()
    return bool(has_none)


@cache
def keeps_numerals() -> bool:
    """Whether the database keeps the text of numbers next to a decimal, as 2.0.0 does."""
    ((keeps,),) = parsing_database.connect().execute(_KEPT).fetchall()
    return bool(keeps)


def _may_have_inner_times(
    pieces: pa.LargeStringArray, members: Mapping[str, pa.Array], patterns: _Patterns
) -> bool:
    """Whether a number that was taken for the time of an event may be one of its arguments."""
    if patterns.numerals or keeps_numerals():
        return False
    read = sum(len(members[key]) - members[key].null_count for key in _TIMES)
    return bool(times(pieces) != read)


_METADATA: Final = pa.scalar("M", pa.string())
_SLICE: Final = pa.scalar("X", pa.string())


def _lacks_times(members: Mapping[str, pa.Array]) -> bool:
    """Whether a required time is NULL: it was missing, or not a number."""
    start, duration = members["ts"], members["dur"]
    if start.null_count:
        marks = pc.fill_null(pc.not_equal(members["ph"], _METADATA), fill_value=True)
        if pc.any(pc.and_(marks, pc.is_null(start))).as_py():
            return True
    if not duration.null_count:
        return False
    slices = pc.fill_null(pc.equal(members["ph"], _SLICE), fill_value=False)
    return bool(pc.any(pc.and_(slices, pc.is_null(duration))).as_py())


def _pieces(text: bytes | memoryview, offsets: list[int]) -> pa.LargeStringArray:
    bounds = pa.py_buffer(np.asarray(offsets, dtype=np.int64))
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, bounds, pa.py_buffer(text))


def _runs(pieces: list[Batch | None], first: int) -> list[tuple[int, int, Batch | None]]:
    """Runs of pieces: neighbours that need repair become one run, sound ones are separate."""
    runs: list[tuple[int, int, Batch | None]] = []
    for i, rows in enumerate(pieces, first):
        if rows is None and runs and runs[-1][2] is None:
            runs[-1] = (runs[-1][0], i + 1, None)
        else:
            runs.append((i, i + 1, rows))
    return runs
