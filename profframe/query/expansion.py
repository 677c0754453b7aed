"""SQL with the macros of ``sql/lib`` written out, for plans that are kept.

DuckDB 2.0.1 plans a prepared statement anew for each run if it calls a macro or reads a view. SQL
that does neither keeps its plan, so each call is replaced by the macro's body, as DuckDB replaces
it in its tree of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Final, TypeAlias

from profframe.query import macros

_PIECE: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|(?:\s|--[^\n]*)+|:=|::|.""")
_TABLE_OF: Final = "query_table"
"""DuckDB's function that reads a table by its name."""
_BLANKS: Final = " \n\t-"
"""What space and comments begin with."""
_OPENS: Final = "([{"
_CLOSES: Final = ")]}"
_ALIAS: Final = (["AS", " "], ["AS", "\n"])
"""What comes before a new name."""
_OWN_TABLE: Final = re.compile(r"(?:WITH|RECURSIVE|,)\s(\w+)\sAS\s(?:NOT\b|MATERIALIZED\b|\()")
"""A table that SQL makes itself, by WITH."""
_TABLE: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|((?<!DISTINCT\s)\b(?:FROM|JOIN)\s)(\w+)\b(\sAS\b)?"""
)
"""A string, or the name of a table that is read, and whether it gets another name."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A place in a macro's body where an argument goes."""

    name: str
    is_table: bool = False
    """Whether the argument is the name of a table, maybe in quotes."""
    has_field: bool = False
    """Whether the body reads a field of it: the name of a row may be put there, nothing else."""


_Piece: TypeAlias = "str | _Parameter"
_Pieces: TypeAlias = "Sequence[_Piece]"


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[str, ...]
    defaults: Mapping[str, _Pieces]
    body: tuple[_Piece, ...]


def expanded(
    sql: str, kept: tuple[str, ...] = (), tables: Mapping[str, str] = MappingProxyType({})
) -> str:
    """SQL without calls of macros.

    Parameters
    ----------
    sql
        One SELECT of profframe's own.
    kept
        Macros whose rows are in a table, which `profframe.query.macros.kept` names.
    tables
        What is read in place of tables: a name, or a SELECT in brackets.

    Returns
    -------
    str
        A SELECT of the same rows.

    Examples
    --------
    >>> print(expanded("SELECT is_op(kind) AS is_op FROM events", tables={"events": '"rows 1"'}))
    SELECT (kind = 'host_op' OR kind = 'annotation') AS is_op FROM "rows 1" AS events
    """
    text = _without_macros(sql, kept)
    own = tables.keys() & {*_OWN_TABLE.findall(text)}

    def read(match: re.Match[str]) -> str:
        before, name, alias = match.groups()
        if name not in tables or name in own:
            return match[0]
        return f"{before}{tables[name]}{alias or f' AS {name}'}"

    return _with_first(_TABLE.sub(read, text), {n: rows for n, rows in tables.items() if n in own})


@lru_cache(maxsize=256)
def _without_macros(sql: str, kept: tuple[str, ...]) -> str:
    return "".join(_text(_expanded(_pieces(sql), kept)))


def _with_first(sql: str, tables: Mapping[str, str]) -> str:
    """A SELECT that reads tables by names which it gives to tables of its own as well."""
    rows = ", ".join(f"{name} AS NOT MATERIALIZED (FROM {rows})" for name, rows in tables.items())
    words = sql.split(maxsplit=2)
    if not tables:
        return sql
    if words[0] != "WITH":
        return f"WITH {rows} {sql}"
    if words[1] == "RECURSIVE":
        return f"WITH RECURSIVE {rows}, {words[2]}"
    return f"WITH {rows}, {' '.join(words[1:])}"


def _pieces(sql: str) -> list[_Piece]:
    """Words, strings, signs, and one blank or end of line for any space and comments."""
    pieces = _PIECE.findall(sql)
    return [*_stripped([_blank(p) or p if p[0] in _BLANKS else p for p in pieces])]


def _blank(piece: _Piece) -> str:
    """What a space between words is kept as; an end of line may join two strings."""
    if not isinstance(piece, str) or not (piece[0].isspace() or piece.startswith("--")):
        return ""
    return "\n" if "\n" in piece else " "


def _text(pieces: _Pieces) -> Iterator[str]:
    for piece in pieces:
        if not isinstance(piece, str):
            raise TypeError(f"the argument for {piece.name} is missing")
        yield piece


def _expanded(pieces: _Pieces, kept: tuple[str, ...]) -> list[_Piece]:
    """Pieces with the bodies of macros in place of their calls."""
    names = {_TABLE_OF, *macros.names()}
    written, done = list[_Piece](), 0
    for place, (piece, following) in enumerate(pairwise(pieces)):
        if following == "(" and piece in names and place >= done:
            arguments, end = _arguments(pieces, place + 1)
            written += [*pieces[done:place], *_called(str(piece), arguments, kept)]
            done = end
    return [*written, *pieces[done:]]


def _called(name: str, arguments: Iterable[_Pieces], kept: tuple[str, ...]) -> list[_Piece]:
    """What stands for a call; its rows have no other alias than the call's."""
    if name == _TABLE_OF:
        [table] = arguments
        return [*_put(_Parameter(name, is_table=True), table)]
    if name in kept:
        return [macros.kept(name)]
    macro = _macro(name, kept)
    given = dict(macro.defaults)
    for parameter, argument in zip(macro.parameters, map(_stripped, arguments), strict=False):
        if ":=" in argument:
            name, value = _defined(argument)
            given[name] = _expanded(value, kept)
        else:
            given[parameter] = _expanded(argument, kept)
    body: list[_Piece] = ["("]
    for piece in macro.body:
        body += [piece] if isinstance(piece, str) else _put(piece, given[piece.name])
    return [*body, ")"]


def _defined(pieces: _Pieces) -> tuple[str, _Pieces]:
    """The name and the value of ``name := value``."""
    return str(pieces[0]), _stripped(pieces[[*pieces].index(":=") + 1 :])


def _put(place: _Parameter, argument: _Pieces) -> _Pieces:
    """What replaces a parameter: a column, a row or a table by its name, the rest in brackets."""
    match argument:
        case [_Parameter() as outer]:
            return [replace(outer, is_table=place.is_table, has_field=place.has_field)]
        case [str() as word] if place.is_table:
            return [word.strip("'")]
        case [str() as word] if word.isidentifier() or not place.has_field:
            return [word]
        case _ if place.has_field:
            return [place.name]
        case [_, ".", _]:
            return argument
        case _:
            return ["(", *argument, ")"]


def _stripped(pieces: _Pieces) -> _Pieces:
    """Pieces without the blanks around them."""
    start, end = 0, len(pieces)
    while start < end and _blank(pieces[start]):
        start += 1
    while start < end and _blank(pieces[end - 1]):
        end -= 1
    return pieces[start:end]


def _arguments(pieces: _Pieces, start: int) -> tuple[list[_Pieces], int]:
    """The arguments of a call whose bracket is at a place, and the place after it."""
    depth, begun, arguments = 0, start + 1, list[_Pieces]()
    for place in range(start, len(pieces)):
        piece = pieces[place]
        if not isinstance(piece, str):
            continue
        depth += (piece in _OPENS) - (piece in _CLOSES)
        if (depth == 1 and piece == ",") or depth == 0:
            if place > begun:
                arguments.append(pieces[begun:place])
            begun = place + 1
        if depth == 0:
            return arguments, begun
    raise ValueError(f"a bracket is not closed: {''.join(map(str, pieces[start : start + 20]))}")


@cache
def _macro(name: str, kept: tuple[str, ...]) -> _Macro:
    """A macro, with calls in its body written out."""
    pieces = _pieces(macros.definition(name).rstrip(";"))
    head, end = _arguments(pieces, pieces.index("("))
    parameters = tuple(str(_stripped(words)[0]) for words in head)
    defaults = dict(_defined(_stripped(words)) for words in head if ":=" in words)
    rest = _stripped(pieces[end:])
    is_table = rest[2:3] == ["TABLE"]
    body = _stripped(rest[3 if is_table else 1 :])
    places = [
        _place(body, place, is_table=is_table) if piece in parameters else piece
        for place, piece in enumerate(body)
    ]
    return _Macro(parameters, defaults, (*_joined(_expanded(places, kept)),))


def _joined(pieces: _Pieces) -> Iterator[_Piece]:
    """Pieces with all text between two parameters as one."""
    for is_text, run in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_text:
            yield "".join(map(str, run))
        else:
            yield from run


def _place(body: _Pieces, place: int, *, is_table: bool) -> _Piece:
    """The parameter that a name in a body means, or the name: of a field, alias or function."""
    piece = str(body[place])
    before, after = [*body[max(place - 2, 0) : place]], body[place + 1 : place + 2]
    if before[-1:] == ["."] or before in _ALIAS or after == ["("]:
        return piece
    has_field = after == ["."]
    return piece if has_field and is_table else _Parameter(piece, has_field=has_field)
