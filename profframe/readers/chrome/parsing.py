"""Text of events to arrays of their members, by DuckDB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.decimal_time import SCALE
from profframe.readers.build.rows import Batch
from profframe.readers.chrome.columns import OWN_ARGS_KEY, OWN_COLUMNS, OWN_KEY, batch_of
from profframe.readers.chrome.device_args import with_device_args
from profframe.readers.chrome.session import Session
from profframe.readers.json.stream import Parsed, Wave
from profframe.readers.json.strict import has_doubled

_KEYS: Final = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "s", "bp", "args")
"""Keys of an event that have a column; any other is put among its arguments."""
_INTEGER_ARGS: Final = (
    "External id", "correlation", "device", "stream", "Stream Id", "Sequence number",
    "Fwd thread id", "Ev Idx", "Python id", "Python parent id", "Python module id", "Addr",
    "Bytes", "Device Type", "Device Id", "Total Allocated", "Total Reserved",
)  # fmt: skip
_TEXT_ARGS: Final = (
    "Module Hierarchy", "Input Dims", "Input type", "Input Strides", "Concrete Inputs",
    "Call stack",
)  # fmt: skip

_EVENT_TYPE: Final = json.dumps(
    [
        dict.fromkeys(_KEYS, "VARCHAR")
        | dict.fromkeys(("ts", "dur"), f"DECIMAL(28, {SCALE})")
        | {"args": "JSON"}
    ]
)
"""The decimals make DuckDB keep the text of every number; else all would go through a double."""
_TIME_TEXT_TYPE: Final = json.dumps([dict.fromkeys(("ts", "dur"), "VARCHAR")])
ARGS_TYPE: Final = json.dumps(
    dict.fromkeys(_INTEGER_ARGS, "BIGINT")
    | dict.fromkeys(_TEXT_ARGS, "VARCHAR")
    | {"finished": "BOOLEAN"}
)
"""What is read of an event's arguments."""
_OLD_ARGS_TYPE: Final = json.dumps({"external id": "BIGINT", "Input dims": "VARCHAR"})
"""Spellings until 2021; DuckDB folds case: one structure cannot hold them beside the new ones."""
_MEMBERS_TYPE: Final = json.dumps({"m": ["MAP(VARCHAR, JSON)"], "text": "DECIMAL(28, 6)"})
"""Again a decimal, which nothing has, for the text of numbers."""
_OWN_TYPE: Final = json.dumps({OWN_ARGS_KEY: {**OWN_COLUMNS, "args": "JSON"}})

_OWN: Final = f'"{OWN_ARGS_KEY}"'
_SUSPECT: Final = rf"nan|NaN|NAN|inf|Inf|INF|external id|Input dims|\\u003[aA]|{_OWN}"
"""Words that a piece seldom holds: what has none of them needs no closer look."""
_NON_FINITE: Final = r"[\[:,]\s*[+-]?(?i:nan|inf|infinity)\s*[,\]}]"
_TEXT: Final = r'(?s)"(?:[^"\\]|\\.)*"'
_OLD_SPELLING: Final = r"external id|Input dims"
_ESCAPED_COLON: Final = r"\\u003[aA]"
_CACHED: Final = 256 << 10
"""Bytes that stay in a processor's cache while they are looked at twice."""

_KEYS_OF_EVENTS: Final = "SELECT DISTINCT unnest(json_keys(t, '$[*]')) FROM pieces"
_KEYS_OF_ARGS: Final = "keys_of_args"
"""Column with a number for each list of keys: there are few lists, and each is looked at once."""
_ALL: Final = 256 << 10
"""Bytes of which all arguments are looked at, as of a piece alone: of more it costs too much."""
_SOME: Final = 64
"""Arguments that are looked at of more: a writer that doubles a member does so all along."""
_ANY_DOUBLED: Final = """
    SELECT bool_or(len(keys) > list_unique(keys))
    FROM (SELECT json_keys(args) AS keys FROM listed)"""
_NO_OBJECTS: Final = "SELECT bool_or(list_contains(json_keys(t, '$[*]'), [])) FROM pieces"
_TIME_TEXTS: Final = f"SELECT unnest(from_json(t, '{_TIME_TEXT_TYPE}')) AS time_text FROM pieces"
_EVENTS: Final = f"SELECT unnest(from_json(t, '{_EVENT_TYPE}')) AS event FROM pieces"
_ROWS_WITH_OTHER_KEYS: Final = f"""
    SELECT event,
           CASE WHEN other = '' THEN given
                WHEN coalesce(given, '{{}}') = '{{}}' THEN '{{' || other || '}}'
                WHEN given[1] = '{{' THEN given[:-2] || ',' || other || '}}'
                ELSE '{{"args":' || given || ',' || other || '}}' END AS args
    FROM (SELECT event, event.args::VARCHAR AS given,
                 array_to_string(list_transform(
                     list_filter(map_entries(members), lambda m: m.key NOT IN {_KEYS!r}),
                     lambda m: to_json(m.key)::VARCHAR || ':' || coalesce(m.value, 'null')
                 ), ',') AS other
          FROM (SELECT unnest(from_json(t, '{_EVENT_TYPE}')) AS event,
                       unnest(from_json('{{"m":' || t || '}}', '{_MEMBERS_TYPE}').m) AS members
                FROM pieces))"""


@dataclass(frozen=True, slots=True)
class _Look:
    """What a first look at the text of a wave's pieces found."""

    non_finite: bool
    old_args: bool
    escaped_colon: bool
    own_args: bool


_NOTHING: Final = _Look(non_finite=False, old_args=False, escaped_colon=False, own_args=False)


def _look(pieces: pa.LargeStringArray) -> _Look:
    texts = pl.Series(pieces)
    is_suspect = texts.str.contains(_SUSPECT)
    if not is_suspect.any():
        return _NOTHING
    suspects = texts.filter(is_suspect)
    patterns = (_OLD_SPELLING, _ESCAPED_COLON, _OWN)
    non_finite = suspects.filter(suspects.str.contains(_NON_FINITE)).str.replace_all(_TEXT, '""')
    return _Look(
        non_finite.str.contains(_NON_FINITE).any(),
        *(suspects.str.contains(pattern).any() for pattern in patterns),
    )


def _query(look: _Look, *, other_keys: bool, all_args: bool) -> str:
    """One row per event: its members, those of its arguments, and its arguments with others."""
    rows, args, kept = _EVENTS, "event.args", "event"
    if other_keys:
        rows, args, kept = _ROWS_WITH_OTHER_KEYS, "args", "event, args"
    old = f", from_json({args}, '{_OLD_ARGS_TYPE}') AS old" if look.old_args else ""
    own = ""
    if look.own_args:
        kept, own = "event", _own(args)
    keys = f", hash(json_keys(event.args)) AS {_KEYS_OF_ARGS}" if all_args else ""
    given = f"from_json({args}, '{ARGS_TYPE}') AS given"
    return f"SELECT {kept}, {given}{old}{own}{keys} FROM ({rows})"


def _own(args: str) -> str:
    """SQL: what an exported trace says itself, and the arguments without it and what follows it."""
    mark = f"""strpos({args}, '"{OWN_ARGS_KEY}":{{')"""
    return f""",
        from_json({args}, '{_OWN_TYPE}')."{OWN_ARGS_KEY}" AS {OWN_KEY},
        CASE WHEN {OWN_KEY} IS NULL OR {mark} = 0 THEN {args}::VARCHAR
             WHEN {mark} = 2 THEN struct_extract({OWN_KEY}, 'args')::VARCHAR
             WHEN json_valid(left({args}, {mark} - 2) || '}}')
             THEN left({args}, {mark} - 2) || '}}'
             ELSE {args}::VARCHAR END AS args"""


class _DoubledError(Exception):
    """An object has a member twice, of which DuckDB takes the first or none."""


class Parser:
    """Makes rows of text; calls may run in parallel."""

    def __init__(self) -> None:
        self._expects_other_keys = False
        self._sound_keys: set[int] = set()
        """Lists of keys of arguments of which none is twice."""
        self._session = Session()

    def wave(self, wave: Wave) -> Parsed[Batch]:
        """Rows of each run of sound pieces; None for a run that needs repair."""
        pieces = _pieces(wave.text, wave.bounds)
        count = len(wave)
        rows = self._rows(pieces, strict=True)
        if rows is not None:
            return Parsed(wave, [(0, count, rows)])
        return Parsed(
            wave, _runs([self._rows(pieces.slice(i, 1), strict=True) for i in range(count)])
        )

    def array(self, text: bytes) -> Batch | None:
        """Rows of one array of mended events, or None where it does not parse."""
        return self._rows(_pieces(text, [0, len(text)]), strict=False)

    def _rows(self, pieces: pa.LargeStringArray, *, strict: bool) -> Batch | None:
        session = self._session
        with session.about("pieces", pa.table({"t": _one_by_one(pieces)})):
            try:
                pieces.validate(full=True)
                look = _look(pieces)
                if strict and look.non_finite:
                    return None
                members = self._parse(session, pieces, look)
                if strict and members["ph"].null_count and _no_objects(session.cursor):
                    return None
                if _lacks_times(members):
                    members |= _members(session.ask(_TIME_TEXTS))
            except duckdb.OutOfMemoryException:
                raise
            except (duckdb.Error, pa.ArrowInvalid, _DoubledError):
                return None
            except UnicodeDecodeError:  # DuckDB's message quotes half a letter of the text
                return None
            return with_device_args(batch_of(members), session)

    def _parse(
        self, session: Session, pieces: pa.LargeStringArray, look: _Look
    ) -> dict[str, pa.Array]:
        """Members of the events. Keys without a column are rare, and looked for afterwards."""
        query = partial(_query, look, all_args=_bytes(pieces) <= _ALL)
        if not (self._expects_other_keys or look.escaped_colon):
            rows = session.ask(query(other_keys=False))
            self._check_args(session, rows)
            if _all_colons_known(pieces, _whole(rows["event"])):
                return _members(rows)
        keys = [keys for (keys,) in session.cursor.execute(_KEYS_OF_EVENTS).fetchall()]
        if any(len(set(each)) < len(each) for each in keys):
            raise _DoubledError
        self._expects_other_keys |= not {key for each in keys for key in each}.issubset(_KEYS)
        rows = session.ask(query(other_keys=self._expects_other_keys))
        self._check_args(session, rows)
        return _members(rows)

    def _check_args(self, session: Session, rows: pa.Table) -> None:
        """Refuse arguments that have a member twice."""
        args = pc.struct_field(rows["event"], "args")
        if _KEYS_OF_ARGS not in rows.column_names:
            chosen = np.linspace(0, len(args) - 1, min(_SOME, len(args)), dtype=np.int64)
            if any(map(has_doubled, args.take(pa.array(chosen)).drop_null().to_pylist())):
                raise _DoubledError
        elif set(pc.unique(rows[_KEYS_OF_ARGS]).to_pylist()) - self._sound_keys:
            numbers, first = np.unique(rows[_KEYS_OF_ARGS].to_numpy(), return_index=True)
            with session.about("listed", pa.table({"args": args.take(pa.array(first))})):
                ((is_doubled,),) = session.cursor.execute(_ANY_DOUBLED).fetchall()
            if is_doubled:
                raise _DoubledError
            self._sound_keys.update(numbers.tolist())


def _all_colons_known(pieces: pa.LargeStringArray, events: pa.StructArray) -> bool:
    """Whether the events have no other keys than those with a column.

    Each key has a colon, and any other colon is inside of a text. So the colons of the text are
    those of the keys that were found and of their values, or there are more keys (or one twice).
    """
    members = events.flatten()
    keys = sum(len(values) - values.null_count for values in members)
    inside = sum(_colons(values) for values in members if pa.types.is_string(values.type))
    return _colons(pieces) == int(keys) + inside


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


def _bytes(texts: pa.LargeStringArray) -> int:
    """Bytes of all texts together."""
    first, last = np.frombuffer(texts.buffers()[1], np.int64)[
        [texts.offset, texts.offset + len(texts)]
    ]
    return int(last - first)


def _members(rows: pa.Table) -> dict[str, pa.Array]:
    """The members of the structures in the rows, each as one array; a later one replaces one."""
    flat = rows.flatten()
    return {
        name.removeprefix("event.").removeprefix("given."): _whole(column)
        for name, column in zip(flat.column_names, flat.columns, strict=True)
    }


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _no_objects(cursor: duckdb.DuckDBPyConnection) -> bool:
    ((found,),) = cursor.execute(_NO_OBJECTS).fetchall()  # fetchone leaves the cursor in use
    return bool(found)


_METADATA: Final = pa.scalar("M", pa.string())
_SLICE: Final = pa.scalar("X", pa.string())


def _lacks_times(members: Mapping[str, pa.Array]) -> bool:
    """Whether a time is missing that should be there: it was missing, or was no number."""
    marks = pc.fill_null(pc.not_equal(members["ph"], _METADATA), fill_value=True)
    slices = pc.fill_null(pc.equal(members["ph"], _SLICE), fill_value=False)
    return bool(
        pc.any(pc.and_(marks, pc.is_null(members["ts"]))).as_py()
        or pc.any(pc.and_(slices, pc.is_null(members["dur"]))).as_py()
    )


def _pieces(text: bytes | memoryview, offsets: list[int]) -> pa.LargeStringArray:
    bounds = pa.py_buffer(np.asarray(offsets, dtype=np.int64))
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, bounds, pa.py_buffer(text))


def _one_by_one(pieces: pa.LargeStringArray) -> pa.ChunkedArray:
    """The same in chunks of one.

    DuckDB takes a chunk at once, and what it makes of a piece stays in a processor's cache.
    """
    return pa.chunked_array([pieces.slice(i, 1) for i in range(len(pieces))], pieces.type)


def _runs(pieces: list[Batch | None]) -> list[tuple[int, int, Batch | None]]:
    """Neighbouring pieces that need repair become one run; sound ones stay apart."""
    runs: list[tuple[int, int, Batch | None]] = []
    for i, rows in enumerate(pieces):
        if rows is None and runs and runs[-1][2] is None:
            runs[-1] = (runs[-1][0], i + 1, None)
        else:
            runs.append((i, i + 1, rows))
    return runs
