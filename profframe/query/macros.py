"""Macros of ``sql/lib``: steps that answers share, created on a connection that calls them.

A session with many answers computes the steps that several of them start with once: the macros of
`SHARED_STEPS` become tables.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

import duckdb

from profframe.query.header import COMMENT, sql_directory

Once = Callable[[object, Callable[[], None]], object]
"""Calls the function unless it has called one for the same key before."""

SHARED_STEPS: Final = (
    "lanes", "launched_work", "queue_changes", "device_places", "work_by_name", "work_by_op",
    "collective_slices", "pipeline_actions",
)  # fmt: skip
"""Macros of one parameter, ``events``, that no parameter of an answer changes."""

_LAST_WORD_BACKWARDS: Final = re.compile(r"\s*(\w+)")
_CALL_WITH: Final = re.compile(r"(\w+)\(([^()]*)")
_TABLE: Final = re.compile(r"query_table\((\w+)\)")
_HEAD: Final = re.compile(r"CREATE OR REPLACE TEMP MACRO \w+\(([^)]*)\)")
_PARAMETER: Final = re.compile(r"(\w+)(?: := '\w*')?(?:, |\Z)")
_WORD: Final = re.compile(r"\w+", re.ASCII)
_MACRO: Final = re.compile(r"^CREATE OR REPLACE TEMP MACRO (\w+)\(.*?;$", re.DOTALL | re.MULTILINE)


@dataclass(slots=True)
class _State:
    """Macros of a connection: to create one takes up to two milliseconds, and answers use many."""

    macros: dict[str, str] = field(default_factory=dict)
    once: Once | None = None
    shared: Shared | None = None


@dataclass(slots=True)
class Shared:
    """Macros of a database, which each of its connections may call; created once."""

    names: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


_STATES: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, _State]] = WeakKeyDictionary()


def share(connection: duckdb.DuckDBPyConnection, shared: Shared) -> None:
    """Have the macros that a connection needs created for all connections to its database."""
    _STATES.setdefault(connection, _State()).shared = shared


def keep(connection: duckdb.DuckDBPyConnection, once: Once) -> None:
    """Have the connection keep the rows of `SHARED_STEPS` in tables.

    Parameters
    ----------
    connection
        Connection on which the views of tables stay as they are.
    once
        Calls a function once per key for all connections to the same database.

    Examples
    --------
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE events AS SELECT 'r' AS run, 0 AS rank")
    >>> keep(connection, lambda _, create: create())
    >>> load(connection, "FROM lanes(events)", reuse=True)
    >>> connection.sql("FROM _kept_lanes").fetchall()
    [('r', 0, 1)]
    """
    _STATES.setdefault(connection, _State()).once = once


def load(connection: duckdb.DuckDBPyConnection, sql: str, *, reuse: bool = False) -> None:
    """Create the macros that SQL calls.

    Parameters
    ----------
    connection
        Connection that the SQL will run on.
    sql
        Any SQL.
    reuse
        The SQL means views of tables by their names: it may read the tables of `keep`.
    """
    state = _STATES.setdefault(connection, _State())
    if state.shared is not None:
        _load_shared(connection, sql, state.shared)
        return
    once = state.once if reuse else None
    for name, macro in definitions(sql, SHARED_STEPS if once else ()).items():
        if once and name in SHARED_STEPS:
            once(("macro", name), partial(_keep, connection, name, macro))
            _create(connection, name, f"{_signature(macro)}\nFROM {kept(name)};")
        else:
            _create(connection, name, macro)


def kept(step: str) -> str:
    """Name of the table with the rows of a shared step."""
    return f"_kept_{step}"


@lru_cache(maxsize=256)
def steps_of(sql: str) -> tuple[str, ...]:
    """Shared steps that SQL calls, itself or through other macros.

    Examples
    --------
    >>> steps_of("FROM work_by_op(events)")
    ('work_by_op',)
    """
    return tuple(name for name in definitions(sql, SHARED_STEPS) if name in SHARED_STEPS)


def steps_within(name: str) -> tuple[str, ...]:
    """Shared steps that a macro calls."""
    macro = _macros()[name]
    return steps_of(macro.removeprefix(_signature(macro)))


def definitions(sql: str, opaque: Collection[str] = ()) -> Mapping[str, str]:
    """Statements that create the macros that SQL calls.

    Parameters
    ----------
    sql
        Any SQL.
    opaque
        Macros without those that they call themselves.

    Returns
    -------
    Mapping[str, str]
        Statement by name, each after those of the macros that it calls itself.

    Examples
    --------
    >>> list(definitions("SELECT device_class('kernel', 'gemm')"))
    ['is_communication', 'is_busy', 'device_class']
    """
    return _definitions(sql, frozenset(opaque))


@lru_cache(maxsize=256)  # several ask this of the same SQL, which takes a quarter of a millisecond
def _definitions(sql: str, opaque: frozenset[str]) -> Mapping[str, str]:
    macros, ordered = _macros(), dict[str, str]()
    visited = set[str]()

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name in macros and name not in visited:
                visited.add(name)
                if name not in opaque:
                    add(_called(name))
                ordered[name] = macros[name]

    add(_calls(COMMENT.sub("", sql)))
    return MappingProxyType(ordered)


def _calls(sql: str) -> list[str]:
    """Words before an opening parenthesis: names that SQL calls, and keywords."""
    before = (text[::-1] for text in sql.split("(")[:-1])
    return [match[1][::-1] for match in map(_LAST_WORD_BACKWARDS.match, before) if match]


def names() -> Collection[str]:
    """Names of all macros.

    Examples
    --------
    >>> "lanes" in names()
    True
    """
    return _macros().keys()


def definition(name: str) -> str:
    """The statement that creates a macro.

    Examples
    --------
    >>> definition("lanes").split("(")[0]
    'CREATE OR REPLACE TEMP MACRO lanes'
    """
    return _macros()[name]


@cache
def _called(name: str) -> tuple[str, ...]:
    """Macros that a macro calls itself, and its own name."""
    macros = _macros()
    return tuple(word for word in _calls(macros[name]) if word in macros)


@cache
def words_of(name: str) -> frozenset[str]:
    """Words of a macro's statement, which may be names of tables and columns.

    Examples
    --------
    >>> "kind" in words_of("shared_names")
    True
    """
    return frozenset(_WORD.findall(_macros()[name]))


@cache
def tables_of(name: str) -> frozenset[int]:
    """Positions of a macro's parameters that are names of tables.

    Examples
    --------
    >>> sorted(tables_of("kernel_limits"))
    [0, 1]
    """
    body = _HEAD.sub("", _macros()[name])
    tables = set(_TABLE.findall(body))
    for callee, arguments in _CALL_WITH.findall(body):
        if callee in _macros() and callee != name:
            words = [word.strip() for word in arguments.split(",")]
            tables |= {words[place] for place in tables_of(callee) if place < len(words)}
    return frozenset(n for n, word in enumerate(parameters(name)) if word in tables)


def parameters(name: str) -> list[str]:
    """Names of a macro's parameters.

    Examples
    --------
    >>> parameters("kernel_limits")
    ['events', 'devices', 'dtype']
    """
    head = _HEAD.match(_macros()[name])
    return [] if head is None else _PARAMETER.findall(head[1])


@cache
def _macros() -> Mapping[str, str]:
    """All macros by name."""
    paths = sorted((sql_directory() / "lib").glob("*.sql"))
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    return MappingProxyType({m[1]: m[0] for m in _MACRO.finditer(COMMENT.sub("", text))})


def _signature(macro: str) -> str:
    return macro[: macro.index("\n")]


def _load_shared(connection: duckdb.DuckDBPyConnection, sql: str, shared: Shared) -> None:
    """Create macros for all connections to a database, which have them from then on."""
    with shared.lock:
        for name, macro in definitions(sql).items():
            if name not in shared.names:
                connection.execute(macro.replace(" TEMP MACRO ", " MACRO ", 1))
                shared.names.add(name)


def _create(connection: duckdb.DuckDBPyConnection, name: str, macro: str) -> None:
    macros = _STATES[connection].macros
    if macros.get(name) != macro:
        connection.execute(macro)
        macros[name] = macro


def _keep(connection: duckdb.DuckDBPyConnection, name: str, macro: str) -> None:
    load(connection, macro.removeprefix(_signature(macro)), reuse=True)
    _create(connection, name, macro)
    connection.execute(f"CREATE TABLE {kept(name)} AS FROM {name}(events)")
