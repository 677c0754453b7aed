"""Write ``profframe/trace/generated_questions.py``: a function for each answer, out of its header.

::

    python scripts/questions.py > profframe/trace/generated_questions.py
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from profframe.query.arrangement import shared
from profframe.query.catalogue import catalogue
from profframe.query.header import Answer, Parameter

BY_HAND: Final = ("advice", "key_averages", "roofline")
"""Answers whose methods take more than the header has; they are in ``profframe/trace/query.py``."""

_WIDTH: Final = 100
_TYPES: Final = {
    "VARCHAR": "str",
    "INTEGER": "int",
    "BIGINT": "int",
    "DOUBLE": "float",
    "BOOLEAN": "bool",
    "JSON": "Sequence[str]",
}
_SHARED: Final = {"sort": "Text", "top": "int", "columns": "Text"}
_HEAD: Final = '''\
"""A function for each answer of ``sql/answers``, bound to `Trace` by its name.

Made by ``python scripts/questions.py`` out of the headers; do not edit. ``profframe answer NAME``
says what each column is.
"""

from collections.abc import Sequence

import polars as pl

from profframe.query.selection import Text
from profframe.trace.base_trace import BaseTrace
from profframe.trace.parts import Each
from profframe.trace.query import answer
from profframe.workers.crew import On
'''


def module() -> str:
    """The text of the module."""
    answers = [answer for answer in catalogue() if answer.name not in BY_HAND]
    return "\n\n".join([_HEAD, *("\n".join(_function(answer)) + "\n" for answer in answers)])


_POSITIONAL: Final = 5
"""Arguments that need no name; later ones do."""


def _function(answer: Answer) -> Iterator[str]:
    declared = [_declared(answer, parameter) for parameter in answer.all_parameters]
    further = [p for p in shared(answer) if p.name not in {one.name for one in declared}]
    arguments = ["self: BaseTrace", *map(_argument, declared)]
    arguments.insert(min(len(arguments), _POSITIONAL), "*")
    arguments += [f"{p.name}: {_SHARED[p.name]} | None = None" for p in further]
    arguments += ["each: Each | None = None", "on: On = None"]
    signature = f"def {answer.name}({', '.join(arguments)}) -> pl.DataFrame:"
    if len(signature) <= _WIDTH:
        yield signature
    else:
        inside = f"    {', '.join(arguments)}"
        yield f"def {answer.name}("
        yield from [inside] if len(inside) <= _WIDTH else [f"    {one}," for one in arguments]
        yield ") -> pl.DataFrame:"
    yield f'    """{_sentence(answer.sentence)}'
    yield from ("", "    Parameters", "    ----------")
    for parameter in declared:
        yield f"    {parameter.name}"
        yield from _paragraph(_meaning(answer, parameter), 8)
    yield f"    {', '.join(p.name for p in further)}"
    yield "        Order, number and columns of the rows, as for `answer`."
    yield "    each, on"
    yield "        Ask each rank or run by itself, and where, as for `answer`."
    yield from ("", "    Returns", "    -------", "    polars.DataFrame")
    for select in answer.selects:
        columns = " ".join(column.name for column in select.columns)
        rows = f"{_sentence(select.grain)} Columns: ``{columns}``."
        if select.choice is not None:
            yield ""
            rows = f"With ``{select.choice}``: {select.sentence} {rows}"
        yield from _paragraph(rows, 8)
    yield '    """'
    names = [*(p.name for p in (*declared, *further)), "each", "on"]
    given = ["self", _text(answer.name), *(f"{name}={name}" for name in names)]
    call = f"    return answer({', '.join(given)})"
    if len(call) <= _WIDTH:
        yield call
        return
    yield "    return answer("
    inside = f"        {', '.join(given)}"
    yield from [inside] if len(inside) <= _WIDTH else [f"        {one}," for one in given]
    yield "    )"


def _declared(answer: Answer, parameter: Parameter) -> Parameter:
    """A parameter; without a default if not all SELECTs that take it have the same one."""
    if parameter.name in {form.choice.parameter for form in answer.forms if form.choice}:
        return parameter
    taking = [
        next((own for own in (*one.parameters, *shared(one)) if own.name == parameter.name), None)
        for one in answer.selects
    ]
    is_one = {own.default for own in taking if own is not None} == {parameter.default}
    return parameter if is_one else replace(parameter, default=None)


def _argument(parameter: Parameter) -> str:
    default = parameter.default
    if parameter.type == "JSON":
        text = repr(tuple(json.loads(str(default))))
    elif isinstance(default, str):
        text = _text(default)
    elif isinstance(default, int) and not isinstance(default, bool):
        text = f"{default:_}" if default >= 10_000 else str(default)
    else:
        text = repr(default)
    kind = _TYPES[parameter.type] + (" | None" if default is None else "")
    return f"{parameter.name}: {kind} = {text}"


def _meaning(answer: Answer, parameter: Parameter) -> str:
    choices = ", ".join(f"``{_text(choice)}``" for choice in parameter.choices)
    text = f"{_sentence(parameter.doc)} One of {choices}." if choices else _sentence(parameter.doc)
    if not _takes(answer, parameter.name):
        only = [str(form.choice) for form in answer.forms if _takes(form, parameter.name)]
        text += f" Only with ``{'`` or ``'.join(only)}``."
    return text


def _takes(select: Answer, name: str) -> bool:
    return any(parameter.name == name for parameter in select.parameters)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _text(value: str) -> str:
    return f'"{value}"'


def _paragraph(text: str, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    print(module(), end="")
