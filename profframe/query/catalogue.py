"""Answers: one SELECT in a file of ``sql/``, with a header that says what comes out.

The header is the contract (`profframe.query.header`); `profframe.query.run` checks each result
against it. A user's own file works the same, with or without a header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType

from profframe import schema
from profframe.errors import UnknownNameError
from profframe.query import macros
from profframe.query.header import Answer, parse, read_sql, sql_directory
from profframe.query.rules import ANSWER, SHARED_NAMES, Advice, Paths, assemble
from profframe.query.rules import rules as all_rules
from profframe.query.sources import tables_for


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
        return _read(Path(name_or_path))
    files = _files()
    if name_or_path not in files:
        raise UnknownNameError.among("answer", name_or_path, files)
    return _shipped(name_or_path)


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
    >>> sorted(reads(find("steps"))["events"])[:3]
    ['dur_ns', 'event_id', 'idle_ns']
    """
    if is_shipped(answer):
        return _columns_read(answer.name)
    tables = [table for table in schema.TABLES if table in answer.needs]
    if tables:
        return dict.fromkeys(tables)
    return tables_for("".join([answer.sql, *macros.definitions(answer.sql).values()]))


def is_shipped(answer: Answer) -> bool:
    """Whether it came with profframe: then its SQL is known to be one SELECT over the tables."""
    return answer.name in _files() and answer == _shipped(answer.name)


@cache
def _shipped(name: str) -> Answer:
    """An answer that comes with profframe, cached: a report looks up a hundred."""
    return _read(_files()[name])


@cache
def _columns_read(name: str) -> Mapping[str, frozenset[str]]:
    """Columns whose names occur in the SQL of an answer that came with profframe."""
    answer = _shipped(name)
    sql = answer.sql
    if isinstance(answer, Advice):
        sql += f"{SHARED_NAMES}(events) {answer.conditions}"
    words = set(re.findall(r"\w+", "".join([sql, *macros.definitions(sql).values()])))
    return MappingProxyType(
        {
            table: frozenset(column.name for column in schema.TABLES[table]) & words
            for table in schema.TABLES
            if table in answer.needs
        }
    )


@cache
def _files() -> Mapping[str, Path]:
    paths = (sql_directory() / "answers").glob("*.sql")
    return MappingProxyType({path.stem: path for path in paths})


def _read(path: Path) -> Answer:
    if path == _files()[ANSWER]:
        return advice()
    return parse(read_sql(path, "answer"), path.stem)
