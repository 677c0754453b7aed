"""Answers: one SELECT in a file of ``sql/``, with a header that says what comes out.

The header is the contract (`profframe.query.header`); `profframe.query.run` checks each result
against it. A user's own file works the same, with or without a header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Final

from profframe import schema
from profframe.errors import ParameterError, UnknownNameError
from profframe.query import analyses, macros, renamed
from profframe.query.arrangement import shared
from profframe.query.header import CONVERT, Answer, Parameter, parse, read_sql, sql_directory
from profframe.query.parameters import ONLY_WITH
from profframe.query.rules import ANSWER, SHARED_FIRST, Advice, Paths, assemble
from profframe.query.rules import rules as all_rules
from profframe.query.sources import tables_for

_WORD: Final = re.compile(r"\w+", re.ASCII)


def catalogue() -> tuple[Answer, ...]:
    """All answers that come with profframe, by name.

    Examples
    --------
    >>> [answer.name for answer in catalogue()][:2]
    ['advice', 'annotations']
    """
    return tuple(_shipped(name) for name in sorted(_files()) if "." not in name)


def selects() -> tuple[Answer, ...]:
    """All answers and forms of them, each with its SQL, by name.

    Examples
    --------
    >>> [select.name for select in selects() if select.choice][:2]
    ['annotations.call', 'collectives.size']
    """
    return tuple(select for answer in catalogue() for select in answer.selects)


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
    name = name_or_path
    if name not in files:
        if (analysis := analyses.find(name)) is not None:
            raise UnknownNameError(f"no answer named {name!r}: {analysis.call}")
        if name in schema.TABLES:
            raise UnknownNameError(f"no answer named {name!r}: it is a table, FROM {name} in SQL")
        raise UnknownNameError.among("answer", name, [one for one in files if "." not in one])
    return _shipped(name)


def resolve(
    name_or_path: str | PathLike[str] | Answer,
    parameters: Mapping[str, object],
    warn: renamed.Warn = renamed.future_warning,
) -> tuple[Answer, dict[str, object]]:
    """The SELECT that parameters choose, and those of them that it takes.

    Parameters
    ----------
    name_or_path
        As for `find`.
    parameters
        Value by name; None is the default. Old names of answers, parameters and columns become new
        ones.
    warn
        Called with a sentence for each old name; by default it becomes a FutureWarning.

    Raises
    ------
    UnknownNameError, AnswerError
        As of `find`.
    ParameterError
        A parameter is of another form of the answer.

    Examples
    --------
    >>> select, own = resolve("hangs", {"per": "rank", "top": 5})
    >>> select.name, own
    ('hangs.rank', {'top': 5})
    """
    if isinstance(name_or_path, str) and name_or_path in renamed.ANSWERS:
        new, chosen = renamed.ANSWERS[name_or_path]
        warn(renamed.answer_sentence(name_or_path))
        name_or_path, parameters = new, {**chosen, **parameters}
    answer = find(name_or_path)
    own = {parameter.name for parameter in answer.all_parameters}
    given = renamed.with_new_names(answer.name, parameters, own, warn)
    for name in given.keys() & {"sort", "columns"} - own:
        given[name] = renamed.with_new_columns(answer.name, given[name], warn)
    chosen_form = next((form for form in answer.forms if _is_chosen(form, given)), answer)
    return chosen_form, _own(answer, chosen_form, given)


def _is_chosen(form: Answer, given: Mapping[str, object]) -> bool:
    return form.choice is not None and given.get(form.choice.parameter) in form.choice.values


def _own(answer: Answer, chosen: Answer, given: dict[str, object]) -> dict[str, object]:
    """Parameters that a SELECT takes; others must have their defaults."""
    own = {parameter.name for parameter in (*chosen.parameters, *shared(chosen))}
    foreign = {p.name: p for p in answer.all_parameters if p.name not in own}
    for name, value in given.items():
        if name in foreign and _is_given(foreign[name], value, chosen):
            taking = [one.choice for one in answer.selects if foreign[name] in one.parameters]
            taken = ONLY_WITH.get(name, taking[0])
            where = f"with {taken}" if taken else f"without {chosen.choice}"
            raise ParameterError(f"{answer.where}: {name} can be given only {where}")
    return {name: value for name, value in given.items() if name not in foreign}


def _is_given(parameter: Parameter, value: object, chosen: Answer) -> bool:
    """Whether a parameter that a SELECT does not take has another value than its default."""
    if value is None or (chosen.choice is not None and chosen.choice.parameter == parameter.name):
        return False
    try:
        return CONVERT[parameter.type](value) != parameter.default
    except (TypeError, ValueError):
        return True


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
    if answer.name in _files():
        return answer == _shipped(answer.name)
    path = _inner().get(answer.name)
    return path is not None and answer == _read_once(path)


@cache
def _shipped(name: str) -> Answer:
    """An answer that comes with profframe, with its forms, or a form."""
    answer = _read_once(_files()[name])
    forms = [_shipped(other) for other in sorted(_files()) if other.startswith(f"{name}.")]
    return replace(answer, forms=(*forms,)) if forms else answer


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
        for folder in ("file_summaries", "inner", "report")
        for path in (sql_directory() / folder).glob("*.sql")
    )
    return MappingProxyType({path.stem: path for path in paths})


def _read(path: Path) -> Answer:
    if path == _files()[ANSWER]:
        return advice()
    return parse(read_sql(path, "answer"), path.stem)
