"""Values of an answer's parameters, which its SQL reads as variables of the connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import duckdb

from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.formulas.dtypes import peak_name
from profframe.facts.torch_compat.releases import averages_frames, installed
from profframe.query.arrangement import divided, shared
from profframe.query.header import CONVERT, WORDS, Answer, Choice, Parameter
from profframe.query.selection import filter_of, literal

AS_TORCH: Final[Mapping[str, Callable[[], object]]] = MappingProxyType(
    {"include_python_functions": lambda: averages_frames(installed())}
)
"""Defaults with ``compat="torch"``, by parameter: those of the installed release of torch."""
ONLY_WITH: Final[Mapping[str, Choice]] = MappingProxyType({"into": Choice("by", ("line",))})
"""Parameters that need another one where a form of an answer takes both."""
_VARIABLE: Final = re.compile(r"getvariable\('(\w+)'\)")


def set_variables(
    connection: duckdb.DuckDBPyConnection, answer: Answer, parameters: Mapping[str, object]
) -> None:
    """Set the variables that an answer reads; without a value, one is reset to its default."""
    converted = values(answer, parameters)
    for parameter in answer.parameters:
        value = converted.get(parameter.name)
        if value is None:
            connection.execute(f'RESET VARIABLE "{parameter.name}"')
        else:
            connection.execute(
                f'SET VARIABLE "{parameter.name}" = CAST(? AS {parameter.type})', [value]
            )


def with_values(sql: str, answer: Answer, given: Mapping[str, object]) -> str:
    """SQL of an answer with values in place of its variables: a plan with variables is not kept.

    Parameters
    ----------
    sql
        SQL that came with profframe.
    answer
        The answer that declares the parameters; other variables stay.
    given
        Value by name, from `values`; without one it is NULL, which is the default.

    Examples
    --------
    >>> answer = Answer("mine", "", parameters=(Parameter("least", "BIGINT", 5, ""),))
    >>> with_values("SELECT coalesce(getvariable('least'), 5)", answer, {"least": 7})
    "SELECT coalesce(CAST('7' AS BIGINT), 5)"
    """
    types = {parameter.name: parameter.type for parameter in answer.parameters}

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in types:
            return match[0]
        one = given.get(name)
        return "NULL" if one is None else typed(one, types[name])

    return _VARIABLE.sub(value, sql)


def typed(value: object, type_: str) -> str:
    """SQL: a value of a parameter in its type.

    Examples
    --------
    >>> typed(7, "BIGINT")
    "CAST('7' AS BIGINT)"
    """
    return f"CAST({literal(str(value))} AS {type_})"


def reset_variables(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Hide the parameters of one answer from the next on the connection."""
    for name in names:
        connection.execute(f'RESET VARIABLE "{name}"')


def values(answer: Answer, parameters: Mapping[str, object]) -> dict[str, object]:
    """Values in the types that the header declares; None for the default.

    The parameters of `profframe.query.arrangement` are checked and left out.
    """
    declared = {parameter.name: parameter for parameter in answer.parameters}
    _, parameters = divided(answer, parameters)
    unknown = next((name for name in parameters if name not in declared), None)
    if unknown is not None:
        names = [*declared, *(parameter.name for parameter in shared(answer))]
        if part := filter_of(unknown, names):
            raise ParameterError(
                f"{answer.where}: no parameter named {unknown!r}; did you mean "
                f"trace.filter({part}={parameters[unknown]!r}).answer({answer.name!r})?"
            )
        missing = UnknownNameError.among("parameter", unknown, names)
        raise ParameterError(f"{answer.where}: {missing}").with_suggestion(missing.instead)
    converted = {
        name: None if value is None else _value(answer, declared[name], value)
        for name, value in parameters.items()
    }
    if converted.get("compat") == "torch":
        for name in declared.keys() & AS_TORCH.keys():
            if converted.get(name) is None:
                converted[name] = AS_TORCH[name]()
    for name in ONLY_WITH.keys() & converted.keys():
        choice, other = ONLY_WITH[name], converted.get(ONLY_WITH[name].parameter)
        is_default = converted[name] in {None, declared[name].default}
        if not is_default and other not in {None, *choice.values}:
            raise ParameterError(
                f"{answer.where}: {name} can be given only with {choice}, not "
                f"{choice.parameter}={other}"
            )
    if "dtype" in declared:
        check_override(converted.get("dtype"), converted.get("override"))
    return converted


def check_override(dtype: object, override: object) -> None:
    """Raise an error if `override` is true, and no data type is given."""
    if not (override is None or isinstance(override, bool)):
        raise ParameterError(f"override: needs True or False, got {override!r}")
    if override and not dtype:
        raise ParameterError(
            "override needs a dtype: it compares all work with the peak of that type"
        )


def _value(answer: Answer, parameter: Parameter, value: object) -> object:
    if parameter.choices and isinstance(value, str) and value == parameter.default:
        return value
    if parameter.name == "dtype" and parameter.choices:
        return peak_name(value, parameter.choices)
    try:
        converted = CONVERT[parameter.type](value)
    except (TypeError, ValueError):
        raise ParameterError(
            f"{answer.where}: parameter {parameter.name!r} is {WORDS[parameter.type]}, "
            f"not {value!r}"
        ) from None
    if parameter.choices and converted not in parameter.choices:
        missing = UnknownNameError.one_of(parameter.name, value, parameter.choices)
        raise ParameterError(f"{answer.where}: {missing}").with_suggestion(missing.instead)
    return converted
