"""The header of an answer: its contract, read from the comment that its file starts with.

Name, sentence, grain, tables needed, parameters, and every output column.
`profframe.query.run` checks the result of each run against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Self, get_args

from profframe.errors import AnswerError

TYPES: Final = ("VARCHAR", "INTEGER", "BIGINT", "DOUBLE", "BOOLEAN")
"""Types that a column or parameter of an answer may have; a column may also be a BIGINT[]."""

PARAMETER_TYPES: Final = (*TYPES, "JSON")
"""Types that a parameter may have; JSON is a list of texts."""

COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)
"""A line that is a comment."""

_FIRST_LINE: Final = re.compile(
    r"(?P<name>\w+)(\((?P<parameter>\w+)=(?P<values>\w+(\|\w+)*)\))?: (?P<sentence>\S.*)"
)
_PARAMETER: Final = re.compile(
    rf"parameter (?P<name>\w+) +(?P<type>{'|'.join(PARAMETER_TYPES)})"
    r"(\((?P<choices>\w+(\|\w+)*)\))? += (?P<default>\S+)  +(?P<doc>\S.*)"
)
_COLUMN: Final = re.compile(
    rf"(?P<name>\w+) +(?P<type>BIGINT\[\]|{'|'.join(TYPES)})  +"
    r"(?:(?P<unit>\S+)  +)?(?P<doc>\S+( \S+)*)"
)
_COARSER: Final = re.compile(
    r"(?P<unit>rank|run|no) with (?P<given>\w+(=\w+(\|\w+)*)?(, *\w+(=\w+(\|\w+)*)?)*)"
)


_RECORDED: Final = "recorded:"
_WHEN_EMPTY: Final = "no rows:"
_DIVIDES: Final = "divides by:"
_OVER_RANKS: Final = "over ranks:"
_OVER: Final = re.compile(r"\b(\w+(?: and \w+)*) over\b")
_MAIN: Final = "main columns:"
_TABLES_BY: Final = "tables by:"
_SHARED: Final = re.compile(r"In a bare shell read from `sql/lib` first: ([\w, ]+)\.")


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """One output column, as the header declares it."""

    name: str
    type: str
    unit: str | None
    doc: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a DuckDB variable that the SQL reads, and the default that the SQL uses."""

    name: str
    type: str
    default: object
    doc: str
    choices: tuple[str, ...] = ()
    """Allowed texts; any text if empty."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Values of a parameter that choose a form of an answer, such as ``per=rank``."""

    parameter: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.parameter}={'|'.join(self.values)}"


Unit = Literal["rank", "run", "no"]
"""The parts whose rows together are the whole answer: each rank, each run, or none."""
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
"""The finest first."""


@dataclass(frozen=True, slots=True)
class Coarser:
    """Parameters with which an answer divides by a larger unit, or not at all."""

    unit: Unit
    parameters: tuple[tuple[str, tuple[str, ...]], ...]
    """Names, each with values; none stand for all but the default."""


@dataclass(frozen=True, slots=True)
class Division:
    """What an answer can be divided by.

    In a header it is ``divides by: rank``, with parameters that change it ``rank; run with
    per=size, top; no with x``, and where it does not divide ``no: what to ask instead``. The
    coarsest unit whose parameters are given counts.

    Attributes
    ----------
    unit
        With default parameters.
    coarser
        With others.
    instead
        What to ask instead where it does not divide.
    """

    unit: Unit
    coarser: tuple[Coarser, ...] = ()
    instead: str = ""

    def __str__(self) -> str:
        parts: list[str] = [self.unit]
        for other in self.coarser:
            given = (f"{n}={'|'.join(v)}" if v else n for n, v in other.parameters)
            parts.append(f"{other.unit} with {', '.join(given)}")
        return "; ".join(parts) + (f": {self.instead}" if self.instead else "")

    def by(self, given: Mapping[str, object]) -> Unit:
        """The unit with parameters that have other values than their defaults.

        Examples
        --------
        >>> division = Division("rank", (Coarser("run", (("per", ("size",)), ("top", ()))),))
        >>> str(division), division.by({"per": "name"}), division.by({"top": 3})
        ('rank; run with per=size, top', 'rank', 'run')
        """
        units = [
            other.unit
            for other in self.coarser
            if any(n in given and (not v or str(given[n]) in v) for n, v in other.parameters)
        ]
        return max([self.unit, *units], key=UNITS.index)


@dataclass(frozen=True, slots=True)
class RankKeys:
    """What rows of different ranks have in common if they are about one thing.

    In a header ``over ranks: name, kind; device; span_ns``: the name and the kind, and the device
    if a rank has several rows of a name and kind; its span is there in a rank without the row, too.
    """

    keys: tuple[str, ...]
    finer: tuple[str, ...] = ()
    of_rank: tuple[str, ...] = ()
    """Numbers about the rank, not about what the row is of."""
    wholes: tuple[tuple[str, ...], ...] = ()
    """Shares and rates, each with amounts that it divides: in a header ``total_ns over ...``."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One SELECT and its contract. A user's file without a header has only a name and SQL.

    An answer may have forms: other SELECTs, with rows and columns of their own, that a value of a
    parameter chooses. The file of a form is ``ANSWER.FORM.sql``, and its header begins with
    ``ANSWER(PARAMETER=VALUE):``.
    """

    name: str
    sql: str
    sentence: str = ""
    grain: str = ""
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    columns: tuple[AnswerColumn, ...] = ()
    recorded: tuple[tuple[str, ...], ...] = ()
    """Features that it needs, by the names of `profframe.query.reasons`: one of each group."""
    when_empty: str = ""
    """The reason for no rows if all of these are there."""
    division: Division | None = None
    """What it can be divided by; None if its header does not say."""
    rank_keys: RankKeys | None = None
    """What makes rows of several ranks one; None if each rank is a subject of its own."""
    main: tuple[str, ...] = ()
    """Columns that answer the question, the most important first: narrow tables have these."""
    tables_by: tuple[str, ...] = ()
    """What tables for people are sorted by, if not in the order of the answer."""
    choice: Choice | None = None
    """Of a form, what chooses it."""
    forms: tuple[Answer, ...] = ()

    @property
    def where(self) -> str:
        """What a message about it begins with; a form is the answer that people asked.

        Examples
        --------
        >>> Answer("hangs.rank", "SELECT 1", choice=Choice("per", ("rank",))).where
        "answer 'hangs'"
        """
        name = self.name.partition(".")[0] if self.choice else self.name
        return f"answer {name!r}"

    @property
    def selects(self) -> tuple[Answer, ...]:
        """The answer and its forms."""
        return (self, *self.forms)

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Its parameters, then those that only forms of it have."""
        by_name: dict[str, Parameter] = {}
        for select in self.selects:
            for parameter in select.parameters:
                by_name.setdefault(parameter.name, parameter)
        return (*by_name.values(),)

    @property
    def shared(self) -> tuple[str, ...]:
        """Files of ``sql/lib`` that a bare shell reads first, in this order, without ``.sql``."""
        matches = (_SHARED.fullmatch(note) for note in self.notes)
        return tuple(name for match in matches if match for name in match[1].split(", "))


def sql_directory() -> Path:
    """Folder of all SQL: inside the package in a wheel, beside it in a checkout.

    ``answers`` has a file for each answer, ``rules`` one for each rule of `advice`, ``report`` one
    for what a report asks besides them, and ``lib`` the macros that they share, by subject.

    Examples
    --------
    >>> (sql_directory() / "answers" / "self_times.sql").is_file()
    True
    """
    package = Path(__file__).parent.parent
    installed = package / "sql"
    return installed if installed.is_dir() else package.parent / "sql"


def parse(sql: str, name: str, *, has_columns: bool = True) -> Answer:
    """Read the header of an answer.

    Parameters
    ----------
    sql
        Text of the file.
    name
        Name of the file without ``.sql``. There is a header if the first line starts with it, or
        for a form with what stands before its dot.
    has_columns
        The header declares the output columns.

    Returns
    -------
    Answer
        The SQL and what its header declares.

    Raises
    ------
    AnswerError
        A line of the header does not have the form that its place needs.

    Examples
    --------
    >>> parse("SELECT 1", "one").columns
    ()
    """
    lines = comment_lines(sql)
    first = _FIRST_LINE.fullmatch(lines[0]) if lines else None
    if first is None or first["name"] != name.partition(".")[0]:
        return Answer(name, sql)
    needs_at = next((i for i, line in enumerate(lines) if line.startswith("needs:")), None)
    if needs_at is None:
        raise AnswerError(f"{name}.sql: the header has no line '-- needs: TABLE, ...'")
    if needs_at < 2 or not lines[1].startswith("One row per "):
        raise AnswerError(f"{name}.sql, line 2: the header needs the grain, '-- One row per ...'")
    fields = list(enumerate(lines[needs_at + 1 :], start=needs_at + 2))
    recorded, when_empty = "", ""
    if fields and fields[0][1].startswith(_RECORDED):
        recorded = fields.pop(0)[1].removeprefix(_RECORDED)
    if fields and fields[0][1].startswith(_WHEN_EMPTY):
        when_empty = fields.pop(0)[1].removeprefix(_WHEN_EMPTY).strip()
    division = None
    if fields and fields[0][1].startswith(_DIVIDES):
        number, line = fields.pop(0)
        division = _division(name, number, line.removeprefix(_DIVIDES).strip())
    rank_keys = None
    if fields and fields[0][1].startswith(_OVER_RANKS):
        parts = fields.pop(0)[1].removeprefix(_OVER_RANKS).split(";")
        rank_keys = RankKeys(*((*re.findall(r"\w+", part),) for part in parts))
    main, tables_by = _ListedColumns.of(fields, _MAIN), _ListedColumns.of(fields, _TABLES_BY)
    parameters = tuple(
        _parameter(name, number, line) for number, line in fields if line.startswith("parameter ")
    )
    columns = tuple(
        _column(name, number, line) for number, line in fields if not line.startswith("parameter ")
    )
    if has_columns and not columns:
        raise AnswerError(f"{name}.sql: the header declares no output column")
    if rank_keys:
        rank_keys = replace(rank_keys, wholes=_wholes(columns))
    if has_columns:
        for listed in (main, tables_by):
            listed.check(name, {column.name for column in columns})
    return Answer(
        name=name,
        sql=sql,
        sentence=first["sentence"],
        grain=lines[1],
        notes=tuple(lines[2:needs_at]),
        needs=tuple(re.findall(r"\w+", lines[needs_at].removeprefix("needs:"))),
        parameters=parameters,
        columns=columns,
        recorded=tuple(tuple(re.findall(r"\w+", names)) for names in recorded.split(",") if names),
        when_empty=when_empty,
        division=division,
        rank_keys=rank_keys,
        main=main.names,
        tables_by=tables_by.names,
        choice=Choice(first["parameter"], (*first["values"].split("|"),))
        if first["parameter"]
        else None,
    )


@dataclass(frozen=True, slots=True)
class _ListedColumns:
    """Columns that a line of a header names, or several with one label."""

    label: str
    number: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: list[tuple[int, str]], label: str) -> Self:
        """Those of the first lines, which are taken off, if they have this label."""
        number, names = 0, tuple[str, ...]()
        while fields and fields[0][1].startswith(label):
            number, line = fields.pop(0)
            names = (*names, *re.findall(r"\w+", line.removeprefix(label)))
        return cls(label, number, names)

    def check(self, file: str, columns: Container[str]) -> None:
        """Refuse names of no column."""
        if missing := [name for name in self.names if name not in columns]:
            raise AnswerError(
                f"{file}.sql, line {self.number}: {', '.join(missing)} in '-- {self.label}' is no "
                "column; name columns that the header declares"
            )


def _division(file: str, number: int, text: str) -> Division:
    """What a header says after ``divides by:``."""
    units, _, instead = text.partition(":")
    first, *others = (part.strip() for part in units.split(";"))
    coarser = []
    for match in map(_COARSER.fullmatch, others):
        if match is None:
            break
        given = (one.partition("=") for one in re.split(r", *", match["given"]))
        values = ((name, (*value.split("|"),) if value else ()) for name, _, value in given)
        coarser.append(Coarser(_unit(match["unit"]), (*values,)))
    is_no = "no" in {first, *(other.unit for other in coarser)}
    if first not in UNITS or len(coarser) < len(others) or is_no != bool(instead.strip()):
        raise AnswerError(
            f"{file}.sql, line {number}: expected '-- divides by: rank|run|no', then maybe "
            "'; UNIT with NAME=VALUE|VALUE, NAME', and after 'no' a colon and what to ask instead, "
            f"found {text!r}"
        )
    return Division(_unit(first), (*coarser,), instead.strip())


def _wholes(columns: Sequence[AnswerColumn]) -> tuple[tuple[str, ...], ...]:
    """Shares and rates, each with the amounts that it divides, by their meanings."""
    units = {column.name: column.unit or "" for column in columns}
    wholes = []
    for name, unit, over in ((c.name, c.unit or "", _OVER.search(c.doc)) for c in columns):
        amounts = over[1].split(" and ") if over and (unit == "0..1" or unit.endswith("/s")) else []
        # A rate over its peak is no part of a whole.
        if amounts and all(one in units and not units[one].endswith("/s") for one in amounts):
            wholes.append((name, *amounts))
    return (*wholes,)


def _unit(word: str) -> Unit:
    return next(unit for unit in UNITS if unit == word)


def read_sql(path: Path, what: str) -> str:
    """Text of a file of SQL."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise AnswerError(f"{path}: cannot read the {what}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AnswerError(f"{path}: the {what} is not UTF-8 text") from error


def comment_lines(sql: str) -> list[str]:
    """Lines of the comment that the SQL starts with, without their dashes."""
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return lines


def _parameter(file: str, number: int, line: str) -> Parameter:
    match = _PARAMETER.fullmatch(line)
    if match is None:
        raise AnswerError(
            f"{file}.sql, line {number}: expected '-- parameter NAME TYPE = DEFAULT  meaning' "
            f"(TYPE one of {', '.join(PARAMETER_TYPES)}), found {line!r}"
        )
    try:
        default = CONVERT[match["type"]](match["default"].strip("'"))
    except ValueError:
        raise AnswerError(
            f"{file}.sql, line {number}: the default {match['default']} is not a {match['type']}"
        ) from None
    choices = tuple(match["choices"].split("|")) if match["choices"] else ()
    return Parameter(match["name"], match["type"], default, match["doc"], choices)


def _column(file: str, number: int, line: str) -> AnswerColumn:
    match = _COLUMN.fullmatch(line)
    if match is None:
        raise AnswerError(
            f"{file}.sql, line {number}: expected '-- COLUMN  TYPE  [unit]  meaning', two spaces "
            f"between them (TYPE one of {', '.join(TYPES)}), found {line!r}"
        )
    return AnswerColumn(match["name"], match["type"], match["unit"], match["doc"])


def _boolean(value: object) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError(value)
    return word == "true"


def _integer(bits: int) -> Callable[[object], int]:
    def convert(value: object) -> int:
        if isinstance(value, (bool, float)):
            raise TypeError(value)
        number = int(str(value))
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(value)
        return number

    return convert


def _double(value: object) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(str(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _texts(value: object) -> str:
    """A JSON list of texts, from its text or from a list."""
    texts = json.loads(value or "[]") if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise TypeError(value)
    return json.dumps(texts)


CONVERT: Final[Mapping[str, Callable[[object], object]]] = MappingProxyType(
    {
        "VARCHAR": _text,
        "INTEGER": _integer(32),
        "BIGINT": _integer(64),
        "DOUBLE": _double,
        "BOOLEAN": _boolean,
        "JSON": _texts,
    }
)

WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "VARCHAR": "a text",
        "INTEGER": "a whole number of at most 32 bits",
        "BIGINT": "a whole number of at most 64 bits",
        "DOUBLE": "a number",
        "BOOLEAN": "true or false",
        "JSON": """a list of texts such as ["a", "b"]""",
    }
)
"""Names of types, for messages."""
