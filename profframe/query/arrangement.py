"""Arrangement of an answer's rows and columns: ``sort``, ``top``, ``columns``.

Every answer takes these three, unless it declares a parameter of that name itself.
They are applied where rows are computed, before a row limit cuts any off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import polars as pl

from profframe.errors import ParameterError, UnknownNameError
from profframe.query.analyses import Analysis
from profframe.query.header import Answer, Parameter
from profframe.query.selection import integer

PARAMETERS: Final = (
    Parameter(
        "sort",
        "VARCHAR",
        None,
        "columns to sort by, such as dur_ns or rank,-dur_ns: the largest number first, text from "
        "A to Z; +NAME puts the smallest first, -NAME the largest; NULL comes last, and rows that "
        "are equal keep the order of the answer",
    ),
    Parameter("top", "BIGINT", 0, "at most this many rows, the first in that order; 0 for all"),
    Parameter("columns", "VARCHAR", None, "only these columns, in this order, such as name,dur_ns"),
)
"""Parameters that every answer takes besides its own."""
_NAMES: Final = tuple(parameter.name for parameter in PARAMETERS)
_SIGNS: Final[Mapping[str, bool]] = {"-": True, "+": False}
_PLACE: Final = "_place"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The wanted rows and columns of a result, and their order.

    Attributes
    ----------
    sort
        Columns, the most important first, each with whether its largest value comes first; None:
        yes for numbers, no for text.
    top
        Maximum number of rows; None for all.
    columns
        Names in the wanted order; empty for all.
    """

    sort: tuple[tuple[str, bool | None], ...] = ()
    top: int | None = None
    columns: tuple[str, ...] = ()

    def check(self, where: str, names: Sequence[str]) -> None:
        """Raise a ParameterError for a column that is not there; it suggests the nearest."""
        for parameter, wanted in (
            ("sort", [name for name, _ in self.sort]),
            ("columns", self.columns),
        ):
            for name in wanted:
                if name not in names:
                    missing = UnknownNameError.among("column", name, names)
                    error = ParameterError(f"{where}: {parameter}: {missing}")
                    raise error.with_suggestion(missing.instead)

    def sql(self, types: Mapping[str, Any], place: str, most_rows: int | None = None) -> str:
        """ORDER BY and LIMIT for rows.

        Parameters
        ----------
        types
            DuckDB's type by column.
        place
            A column with the number of each row in the answer's own order.
        most_rows
            Most rows, if any.
        """
        keys = [
            f"{quoted(name)} {'DESC' if self._largest_first(types, name, largest) else 'ASC'} "
            "NULLS LAST"
            for name, largest in self.sort
        ]
        limits = [limit for limit in (self.top, most_rows) if limit is not None]
        order = f" ORDER BY {', '.join([*keys, place])}"
        return order + (f" LIMIT {min(limits)}" if limits else "")

    def chosen(self, relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        """The columns that are wanted."""
        if not self.columns:
            return relation
        return relation.project(", ".join(map(quoted, self.columns)))

    def of_frame(self, where: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of an analysis, which are in memory."""
        self.check(where, rows.columns)
        if self.sort:
            keys = rows.select(name for name, _ in self.sort).with_row_index(_PLACE)
            with duckdb.connect() as connection:
                connection.register("rows", keys.to_arrow())
                relation = connection.table("rows")
                types = dict(zip(relation.columns, relation.types, strict=True))
                ordered = connection.sql(f"FROM rows{self.sql(types, _PLACE)}")
                places = ordered.to_arrow_table()[_PLACE]
            rows = rows[pl.Series(places)]
        elif self.top is not None:
            rows = rows.head(self.top)
        return rows.select(self.columns) if self.columns else rows

    @staticmethod
    def _largest_first(types: Mapping[str, Any], name: str, largest: bool | None) -> bool:
        return str(types.get(name)) != "VARCHAR" if largest is None else largest


AS_IT_IS: Final = Arrangement()
"""All rows and columns in the order of the answer."""


def shared(answer: Answer | Analysis) -> tuple[Parameter, ...]:
    """The `PARAMETERS` that an answer or an analysis does not have itself.

    Examples
    --------
    >>> from profframe.query.header import Parameter
    >>> own = Answer("mine", "SELECT 1", parameters=(Parameter("top", "BIGINT", 5, ""),))
    >>> [parameter.name for parameter in shared(own)]
    ['sort', 'columns']
    """
    own = {parameter.name for parameter in answer.parameters}
    return tuple(parameter for parameter in PARAMETERS if parameter.name not in own)


def divided(
    answer: Answer, parameters: Mapping[str, object]
) -> tuple[Arrangement, dict[str, object]]:
    """Split parameters into ``sort``, ``top``, ``columns`` and the answer's own.

    Parameters
    ----------
    answer
        The answer.
    parameters
        Value by name; None is the default.

    Raises
    ------
    ParameterError
        A value is of the wrong type, or names a column that the answer does not declare.

    Examples
    --------
    >>> arrangement, own = divided(Answer("mine", "SELECT 1"), {"sort": "a,-b", "per": "rank"})
    >>> arrangement.sort, own
    ((('a', None), ('b', True)), {'per': 'rank'})
    """
    names = {parameter.name for parameter in shared(answer)}
    own = {name: value for name, value in parameters.items() if name not in names}
    wanted = {name: value for name, value in parameters.items() if name in names}
    arrangement = arranged(answer.where, **wanted)
    if answer.columns:
        columns = [column.name for column in answer.columns]
        arrangement.check(answer.where, columns)
    return arrangement, own


def arranged(
    where: str, sort: object = None, top: object = None, columns: object = None
) -> Arrangement:
    """The arrangement that values of the three parameters mean.

    Raises
    ------
    ParameterError
        A value is of the wrong type, or a column is named twice.
    """
    keys = [
        (name[1:], _SIGNS[name[0]]) if name[0] in _SIGNS else (name, None)
        for name in _words(where, "sort", sort)
    ]
    names = _words(where, "columns", columns)
    for parameter, wanted in (("sort", [name for name, _ in keys]), ("columns", names)):
        for name in wanted:
            if wanted.count(name) > 1:
                raise ParameterError(f"{where}: {parameter}: {name!r} is named twice")
    return Arrangement((*keys,), _most(where, top), (*names,))


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _words(where: str, parameter: str, value: object) -> list[str]:
    """Names from a text with commas between them, or from several texts."""
    if value is None:
        return []
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, Iterable):
        raise ParameterError(f"{where}: {parameter}: needs column names, got {value!r}")
    words = list(texts)
    if not all(isinstance(word, str) for word in words):
        raise ParameterError(f"{where}: {parameter}: needs column names, got {value!r}")
    return [word.strip() for word in words if word.strip()]


def _most(where: str, value: object) -> int | None:
    """Maximum number of rows; None for all."""
    if value is None:
        return None
    try:
        number = int(value) if isinstance(value, str) else integer("top", value)
    except (ValueError, ParameterError):
        number = -1
    if number < 0:
        raise ParameterError(f"{where}: top: needs a number of rows, got {value!r}") from None
    return number or None
