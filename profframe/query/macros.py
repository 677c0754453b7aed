"""Macros of ``sql/lib``: what answers have in common, made on a connection when one calls them.

In a conversation, where many questions are asked, what several answers begin with is done once: the
macros of `KEPT` become tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

import duckdb

from profframe.query.header import COMMENT, sql_directory

Once = Callable[[object, Callable[[], None]], object]
"""Does what is not done yet: takes what it is called, and a function that does it."""

KEPT: Final = (
    "lanes", "launched_work", "queue_changes", "device_places", "work_by_name", "work_by_op",
)  # fmt: skip
"""Macros whose one parameter is ``events``, and that no parameter of an answer has a part in."""

_CALL: Final = re.compile(r"(\w+)\s*\(")
_CALL_WITH: Final = re.compile(r"(\w+)\(([^()]*)")
_READ: Final = re.compile(r"query_table\((\w+)\)")
_HEAD: Final = re.compile(r"CREATE OR REPLACE TEMP MACRO \w+\(([^)]*)\)")
_WORD: Final = re.compile(r"\w+")
_MACRO: Final = re.compile(r"^CREATE OR REPLACE TEMP MACRO (\w+)\(.*?;$", re.DOTALL | re.MULTILINE)


@dataclass(slots=True)
class _Made:
    """What a connection has: to make a macro takes up to two milliseconds, and answers use many."""

    macros: dict[str, str] = field(default_factory=dict)
    once: Once | None = None


_MADE: Final[WeakKeyDictionary[duckdb.DuckDBPyConnection, _Made]] = WeakKeyDictionary()


def keep(connection: duckdb.DuckDBPyConnection, once: Once) -> None:
    """Have the connection keep what macros of `KEPT` give, in tables.

    Parameters
    ----------
    connection
        Connection on which the views of tables stay as they are.
    once
        Does each thing once for all connections to the same database.

    Examples
    --------
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE events AS SELECT 'r' AS run, 0 AS rank")
    >>> keep(connection, lambda _, make: make())
    >>> load(connection, "FROM lanes(events)", kept=True)
    >>> connection.sql("FROM _kept_lanes").fetchall()
    [('r', 0, 1)]
    """
    _MADE.setdefault(connection, _Made()).once = once


def load(connection: duckdb.DuckDBPyConnection, sql: str, *, kept: bool = False) -> None:
    """Make the macros that SQL calls.

    Parameters
    ----------
    connection
        Connection that the SQL is going to run on.
    sql
        Any SQL.
    kept
        It means the views of tables by their names, so that what `keep` has kept will do.
    """
    made = _MADE.setdefault(connection, _Made())
    once = made.once if kept else None
    for name, macro in called(sql, KEPT if once else ()).items():
        if once and name in KEPT:
            once(("macro", name), partial(_keep, connection, name, macro))
            _make(connection, name, f"{_signature(macro)}\nFROM _kept_{name};")
        else:
            _make(connection, name, macro)


def called(sql: str, closed: Collection[str] = ()) -> Mapping[str, str]:
    """What makes the macros that SQL calls.

    Parameters
    ----------
    sql
        Any SQL.
    closed
        Macros of which it does not matter what they call themselves.

    Returns
    -------
    Mapping[str, str]
        A statement by name, each behind those of the macros that it calls itself.

    Examples
    --------
    >>> list(called("FROM collective_names(events)"))
    ['is_collective', 'collective_names']
    """
    macros, found = _macros(), dict[str, str]()
    seen = set[str]()

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name in macros and name not in seen:
                seen.add(name)
                if name not in closed:
                    add(_CALL.findall(macros[name]))
                found[name] = macros[name]

    add(_CALL.findall(COMMENT.sub("", sql)))
    return found


def names() -> Collection[str]:
    """Names of all macros.

    Examples
    --------
    >>> "lanes" in names()
    True
    """
    return _macros().keys()


@cache
def tables_of(name: str) -> frozenset[int]:
    """Positions of a macro's parameters that are names of tables.

    Examples
    --------
    >>> sorted(tables_of("kernel_limits"))
    [0, 1]
    """
    body = _HEAD.sub("", _macros()[name])
    read = set(_READ.findall(body))
    for called, given in _CALL_WITH.findall(body):
        if called in _macros() and called != name:
            words = [word.strip() for word in given.split(",")]
            read |= {words[place] for place in tables_of(called) if place < len(words)}
    return frozenset(n for n, word in enumerate(parameters(name)) if word in read)


def parameters(name: str) -> list[str]:
    """Names of a macro's parameters.

    Examples
    --------
    >>> parameters("kernel_limits")
    ['events', 'devices', 'dtype']
    """
    head = _HEAD.match(_macros()[name])
    return [] if head is None else _WORD.findall(head[1])


@cache
def _macros() -> Mapping[str, str]:
    """All macros by name."""
    paths = sorted((sql_directory() / "lib").glob("*.sql"))
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    return MappingProxyType({m[1]: m[0] for m in _MACRO.finditer(COMMENT.sub("", text))})


def _signature(macro: str) -> str:
    return macro[: macro.index("\n")]


def _make(connection: duckdb.DuckDBPyConnection, name: str, macro: str) -> None:
    made = _MADE[connection].macros
    if made.get(name) != macro:
        connection.execute(macro)
        made[name] = macro


def _keep(connection: duckdb.DuckDBPyConnection, name: str, macro: str) -> None:
    load(connection, macro.removeprefix(_signature(macro)), kept=True)
    _make(connection, name, macro)
    connection.execute(f"CREATE TABLE _kept_{name} AS FROM {name}(events)")
