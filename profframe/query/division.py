"""Dividing an answer: by rank or by run, and putting the rows of its parts in their order again.

A part has its rows in the order of the answer. So the whole is sorted by what the answer sorts by
until it has named the part, and rows that are equal then stay as they are. What is sorted by may
be no column of the answer: then each part has it besides, as a column of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from profframe.errors import ParameterError
from profframe.query.header import CONVERT, UNITS, Answer, Division, Unit

KEYS_OF: Final[Mapping[Unit, tuple[str, ...]]] = {"rank": ("run", "rank"), "run": ("run",)}
"""Columns that name a part."""
_HIDDEN: Final = "_key_"
_ORDER: Final = "\nORDER BY "
_NAME: Final = re.compile(r"(\w+\.)?(?P<column>\w+)")
_RANKED_TEXTS: Final = {"severity_number": ("severity", ("high", "medium", "low"))}
"""Places of texts that an answer sorts by, its column of the texts, and these in order."""


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that rows are sorted by."""

    column: str
    largest_first: bool = False
    nulls_last: bool = True
    sql: str = ""
    """Its value in the SELECT, if it is no column of the answer."""
    texts: tuple[str, ...] = ()
    """Its values in their order, if it is not the one of letters."""

    @property
    def expression(self) -> pl.Expr:
        """What polars sorts by."""
        column = pl.col(self.column)
        if not self.texts:
            return column
        places = {text: place for place, text in enumerate(self.texts)}
        return column.replace_strict(places, return_dtype=pl.Int64)


def check_each(answer: Answer, parameters: Mapping[str, object], each: object) -> Unit:
    """The unit that an answer is asked for by itself.

    Parameters
    ----------
    answer
        The SELECT that the parameters choose.
    parameters
        Value by name, those of the SELECT.
    each
        ``"rank"`` or ``"run"``.

    Raises
    ------
    ParameterError
        It is neither, or the answer does not divide by it; the message says what to ask instead.

    Examples
    --------
    >>> from profframe.query.catalogue import find
    >>> check_each(find("self_times"), {}, "rank")
    'rank'
    >>> check_each(find("stragglers"), {}, "rank")
    Traceback (most recent call last):
    profframe.errors.ParameterError: answer 'stragglers': one rank alone does not have its rows, \
which need all ranks of the run; ask with each='run'
    """
    if answer.division is None:
        raise ParameterError(
            f"{answer.where}: its header does not say what it divides by: add a line such as "
            "'-- divides by: run' below 'needs', or give its SELECT to sql(), which is asked of "
            "each part as it stands"
        )
    changed = {
        p.name: parameters[p.name]
        for p in answer.parameters
        if _is_given(p.type, p.default, parameters, p.name)
    }
    return check_unit(answer.where, answer.division, changed, each)


def check_unit(where: str, division: Division, changed: Mapping[str, object], each: object) -> Unit:
    """The unit that a question is asked for by itself; errors are those of `check_each`.

    Parameters
    ----------
    where
        What messages call the question.
    division
        What it divides by.
    changed
        Parameters with other values than their defaults.
    each
        ``"rank"`` or ``"run"``.
    """
    unit, least = unit_of(each), division.by(changed)
    if least == "no":
        raise ParameterError(f"{where}: does not divide: {division.instead}")
    if UNITS.index(unit) < UNITS.index(least):
        raise ParameterError(
            f"{where}: one rank alone does not have its rows, which need all ranks of the run; ask "
            "with each='run'"
        )
    return unit


def unit_of(each: object) -> Unit:
    """A unit by its name; a ParameterError for any other value."""
    for unit in KEYS_OF:
        if each == unit:
            return unit
    raise ParameterError(f"each: 'rank' or 'run', not {each!r}")


def keys(answer: Answer, unit: Unit) -> tuple[Key, ...]:
    """What rows of parts are sorted by, at most until run, or run and rank, are named.

    The SQL must have come with profframe: it ends in ORDER BY.

    Examples
    --------
    >>> from profframe.query.catalogue import find
    >>> [(key.column, key.sql) for key in keys(find("self_times"), "run")]
    [('_key_0', 'sums.self_ns'), ('run', '')]
    """
    columns = [column.name for column in answer.columns]
    missing = [*KEYS_OF[unit]]
    result = []
    for place, item in enumerate(_items(answer.sql)):
        if not missing:
            break
        words = item.removesuffix(" NULLS FIRST").removesuffix(" NULLS LAST")
        key = replace(
            _key(words.removesuffix(" DESC"), place, columns),
            largest_first=words.endswith(" DESC"),
            nulls_last=not item.endswith(" NULLS FIRST"),
        )
        result.append(key)
        if key.column in missing:
            missing.remove(key.column)
    return (*result,)


def ranked_by(answer: Answer) -> list[str]:
    """Columns of an answer whose largest values come first.

    SQL that does not end in ORDER BY has none.

    Examples
    --------
    >>> from profframe.query.catalogue import find
    >>> ranked_by(find("self_times")), ranked_by(find("step_times"))
    (['self_ns'], [])
    """
    if _ORDER not in answer.sql:
        return []
    columns = {column.name for column in answer.columns}
    ranks = [item.partition(" DESC") for item in _items(answer.sql)]
    names = [name.rpartition(".")[2] for name, is_largest_first, _ in ranks if is_largest_first]
    return [name for name in names if name in columns]


def tables_by(answer: Answer) -> list[str]:
    """Columns whose largest values come first in tables for people.

    Examples
    --------
    >>> from profframe.query.catalogue import find
    >>> tables_by(find("self_times")), tables_by(find("key_averages"))
    (['self_ns'], ['self_device_ns', 'self_cpu_ns'])
    """
    return [*answer.tables_by] or ranked_by(answer)


def with_keys(answer: Answer, of: Sequence[Key]) -> str:
    """The SQL of an answer with a column for each key that it has no column of."""
    hidden = [f"    ({key.sql}) AS {key.column}" for key in of if key.sql]
    if not hidden:
        return answer.sql
    begin = answer.sql.rindex("\nSELECT\n")
    end = answer.sql.index("\nFROM ", begin)
    return ",\n".join([answer.sql[:end], *hidden]) + answer.sql[end:]


def in_order(parts: Sequence[pl.DataFrame], of: Sequence[Key]) -> pl.DataFrame:
    """The rows of parts, by run and rank, in the order of the answer; without hidden keys."""
    rows = pl.concat(parts, rechunk=False)
    is_sorted = [key.column for key in of] in [[*columns] for columns in KEYS_OF.values()]
    if of and not is_sorted:
        rows = rows.sort(
            [key.expression for key in of],
            descending=[key.largest_first for key in of],
            nulls_last=[key.nulls_last for key in of],
            maintain_order=True,
        )
    return rows.drop(key.column for key in of if key.sql)


def _key(sql: str, place: int, columns: Sequence[str]) -> Key:
    if sql.isdecimal():
        return Key(columns[int(sql) - 1])
    name = _NAME.fullmatch(sql)
    if name and name["column"] in {"run", "rank"}:
        return Key(name["column"])
    if sql in columns:  # a name that stands alone is that of a column of the result
        return Key(sql)
    if sql in _RANKED_TEXTS:
        column, texts = _RANKED_TEXTS[sql]
        return Key(column, texts=texts)
    return Key(f"{_HIDDEN}{place}", sql=sql)


def _items(sql: str) -> list[str]:
    """What a SELECT sorts by."""
    items, depth = [""], 0
    for character in sql[sql.rindex(_ORDER) + len(_ORDER) :].strip().removesuffix(";"):
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            items.append("")
        else:
            items[-1] += character
    return [" ".join(item.split()) for item in items]


def _is_given(type_: str, default: object, parameters: Mapping[str, object], name: str) -> bool:
    """Whether a parameter has another value than its default."""
    value = parameters.get(name)
    if value is None:
        return False
    try:
        return CONVERT[type_](value) != default
    except (TypeError, ValueError):
        return True
