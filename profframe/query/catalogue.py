"""Answers: one SELECT in a file of ``sql/``, with a header that says what comes out.

The header is the contract (`profframe.query.header`); `profframe.query.run` checks each result
against it. A user's own file works the same, with or without a header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Final

from profframe import schema
from profframe.errors import UnknownNameError
from profframe.query import analyses, macros
from profframe.query.header import Answer, parse, read_sql, sql_directory
from profframe.query.rules import ANSWER, SHARED_FIRST, Advice, Paths, assemble
from profframe.query.rules import rules as all_rules
from profframe.query.sources import tables_for

_WORD: Final = re.compile(r"\w+")
ALIASES: Final[Mapping[str, str]] = MappingProxyType({"steps": "step_times"})
"""Other names of answers."""


def catalogue() -> tuple[Answer, ...]:
    """All answers that come with profframe, by name.

    Examples
    --------
    >>> [answer.name for answer in catalogue()][:2]
    ['advice', 'annotations']
    """
    return tuple(_shipped(name) for name in sorted(_files()))


def find(name_or_path: str | PathLike[str] | Answer) -> Answer:
    """Look up an answer by its name, or read one from a file of the user's.

    Parameters
    ----------
    name_or_path
        Name of an answer of the catalogue, or a path that ends in ``.sql``; an `Answer` is
        returned as it is.

    Returns
    -------
    Answer
        The SQL and what its header declares.

    Raises
    ------
    UnknownNameError
        No answer has that name; the message suggests the nearest.
    AnswerError
        The file cannot be read, or its header cannot be understood.

    Examples
    --------
    >>> find("self_times").needs
    ('events',)
    """
    if isinstance(name_or_path, Answer):
        return name_or_path
    if not isinstance(name_or_path, str) or name_or_path.endswith(".sql"):
        path = Path(name_or_path)
        return _read_once(path) if path == _inner().get(path.stem) else _read(path)
    files = _files()
    name = ALIASES.get(name_or_path, name_or_path)
    if name not in files:
        if (analysis := analyses.find(name)) is not None:
            raise UnknownNameError(f"no answer named {name!r}: {analysis.call}")
        raise UnknownNameError.among("answer", name, files)
    return _shipped(name)


def advice(rules: Paths = ()) -> Advice:
    """The answer ``advice`` with the user's rules besides those that come with profframe.

    Parameters
    ----------
    rules
        Files that end in ``.sql``, or folders of them; `profframe.query.rules` has their form.

    Returns
    -------
    Advice
        One SELECT with all rules in it, and all of their parameters.

    Raises
    ------
    AnswerError
        A file or folder cannot be read, holds no rule, or its header cannot be understood.

    Examples
    --------
    >>> advice() == find("advice")
    True
    """
    path = _files()[ANSWER]
    return assemble(parse(path.read_text(encoding="utf-8"), path.stem), all_rules(rules))


def reads(answer: Answer) -> Mapping[str, frozenset[str] | None]:
    """Tables that an answer reads.

    Parameters
    ----------
    answer
        The answer.

    Returns
    -------
    Mapping[str, frozenset[str] | None]
        Columns by table, maybe more than it reads; None stands for all columns.

    Examples
    --------
    >>> sorted(reads(find("self_times"))["events"])[:3]
    ['device', 'dur_ns', 'kind']
    """
    if is_shipped(answer):
        return _columns_read(answer.name)
    tables = [table for table in schema.TABLES if table in answer.needs]
    if tables:
        return dict.fromkeys(tables)
    return tables_for("".join([answer.sql, *macros.definitions(answer.sql).values()]))


def is_shipped(answer: Answer) -> bool:
    """Whether it came with profframe: then its SQL is known to be one SELECT over the tables."""
    path = _files().get(answer.name) or _inner().get(answer.name)
    return path is not None and answer == _read_once(path)


def _shipped(name: str) -> Answer:
    """An answer that comes with profframe."""
    return _read_once(_files()[name])


@cache
def _read_once(path: Path) -> Answer:
    """An answer in a file that comes with profframe, cached: a report looks up a hundred."""
    return _read(path)


@cache
def _columns_read(name: str) -> Mapping[str, frozenset[str]]:
    """Columns whose names occur in the SQL of an answer that came with profframe."""
    path = _files().get(name) or _inner()[name]
    answer = _read_once(path)
    sql = answer.sql
    if isinstance(answer, Advice):
        sql += "".join(f" {name}({inputs})" for name, inputs in SHARED_FIRST.items())
        sql += answer.conditions
    named = columns_named(sql)
    return MappingProxyType(
        {table: named[table] for table in schema.TABLES if table in answer.needs}
    )


def words_of(sql: str) -> frozenset[str]:
    """Words of SQL, which may be names of tables and columns."""
    return frozenset(_WORD.findall(sql))


@lru_cache(maxsize=256)
def columns_named(sql: str) -> Mapping[str, frozenset[str]]:
    """Tables that SQL of profframe's own names, and columns of them that it may read.

    Examples
    --------
    >>> columns_named("SELECT kind FROM events")
    mappingproxy({'events': frozenset({'kind'})})
    """
    words = words_of(sql).union(*map(macros.words_of, macros.definitions(sql)))
    return MappingProxyType(
        {
            table: frozenset(column.name for column in schema.TABLES[table]) & words
            for table in schema.TABLES
            if table in words
        }
    )


@cache
def _files() -> Mapping[str, Path]:
    paths = (sql_directory() / "answers").glob("*.sql")
    return MappingProxyType({path.stem: path for path in paths})


@cache
def _inner() -> Mapping[str, Path]:
    """Questions of pages and tools, which are no answers of the catalogue."""
    paths = (
        path
        for folder in ("asking", "first_words", "report")
        for path in (sql_directory() / folder).glob("*.sql")
    )
    return MappingProxyType({path.stem: path for path in paths})


def _read(path: Path) -> Answer:
    if path == _files()[ANSWER]:
        return advice()
    return parse(read_sql(path, "answer"), path.stem)
