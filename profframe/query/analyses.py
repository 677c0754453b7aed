"""Analyses: what can be asked besides the answers in SQL. Each is a method, and is read from it.

The source of a method says its name, its sentence and its parameters. It is read as text, so that a
shell can complete them without the libraries that the method needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from profframe.errors import ParameterError, UnknownNameError
from profframe.query.header import Coarser, Division, Parameter

_PACKAGE: Final = Path(__file__).parent.parent
_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "blame": "trace/jobs.py",
        "critical_path": "trace/jobs.py",
        "dependencies": "trace/jobs.py",
        "diff": "comparisons/diff.py",
        "explain": "comparisons/explain.py",
        "outliers": "trace/run_statistics.py",
        "regressions": "trace/run_statistics.py",
        "tree": "trace/text_views.py",
        "trend": "trace/run_statistics.py",
        "what_if": "trace/jobs.py",
    }
)
"""Where each is defined, below the package."""
_VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "diff": "diff BASE OTHER",
        "explain": "explain BASE OTHER",
        "tree": "tree TRACE",
    }
)
"""Those that give no single table of one trace, and the verbs that show them."""
_RECORDED: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        "blame": (("communication", "collective_calls"),),
        "critical_path": (("slices",),),
        "dependencies": (("slices",),),
        "diff": (("slices", "snapshots"),),
        "explain": (("slices",),),
        "outliers": (("traces",),),
        "regressions": (("host_ops", "kernels"),),
        "tree": (("host_slices",),),
        "trend": (("traces",),),
        "what_if": (("slices",),),
    }
)
"""What each needs to have rows, by the names of `profframe.query.reasons`: one of each group."""
_COMPARES: Final = "it compares runs with each other"
_DIVISIONS: Final[Mapping[str, Division]] = MappingProxyType(
    {
        "blame": Division("run"),
        "critical_path": Division("rank", (Coarser("run", (("across_ranks", ("True",)),)),)),
        "dependencies": Division("run"),
        "diff": Division("no", instead="it compares two sides, and is asked of two traces"),
        "explain": Division("no", instead="it compares two sides, and is asked of two traces"),
        "outliers": Division(
            "no", instead=f"{_COMPARES}; ask `runs` or `step_times`, and `run_samples`, of each"
        ),
        "regressions": Division("no", instead=f"{_COMPARES}; ask `run_samples` of each"),
        "tree": Division(
            "no", instead="it shows one rank; choose it with filter(runs=..., ranks=...)"
        ),
        "trend": Division("no", instead=f"{_COMPARES}; ask `runs` or `step_times` of each"),
        "what_if": Division("no", instead="it replays one run; choose it with filter(runs=...)"),
    }
)
"""What each divides by."""
_MAIN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "blame": ("name", "cost_ns", "cost_per_step_ns", "rank", "cause", "op", "waits_for_rank"),
        "critical_path": ("name", "dur_ns", "bound", "kind", "start_ns", "edge", "event_id"),
        "dependencies": ("kind", "lag_ns", "source_rank", "target_rank", "source_id", "target_id"),
        "outliers": ("run", "metric", "value", "typical", "name", "excess_ns", "rank", "step"),
        "trend": ("run", "metric", "value", "level", "is_change", "start_ns"),
        "what_if": (
            "change",
            "now_ns",
            "predicted_ns",
            "saved_ns",
            "saved_share",
            "low_ns",
            "high_ns",
        ),
    }
)
"""Columns that answer the question, of each the most important first."""
_TYPES: Final[Mapping[str, tuple[str, type]]] = MappingProxyType(
    {
        "bool": ("BOOLEAN", bool),
        "int": ("BIGINT", int),
        "float": ("DOUBLE", float),
        "str": ("VARCHAR", str),
        "Numbers": ("BIGINT[]", int),
        "Text": ("VARCHAR", str),
        "run_selection.Runs": ("VARCHAR", str),
    }
)
"""Annotations of parameters that a text can give."""
_WORDS: Final[Mapping[str, bool]] = MappingProxyType({"true": True, "false": False})
_DOCUMENTED: Final = re.compile(
    r"^(?P<names>[a-z_]\w*(?:, \w+)*)\n(?P<text>(?: {4}.*\n)+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A question without a file of SQL.

    Attributes
    ----------
    name, sentence
        As of an answer.
    parameters
        Those that a text can give, with types as in the headers of answers.
    recorded
        What it needs to have rows, as of an answer.
    required
        Names of parameters without a default.
    verb
        The verb that shows it, where it gives no single table of one trace; else empty.
    division
        What it divides by.
    main
        As of an answer.
    """

    name: str
    sentence: str
    parameters: tuple[Parameter, ...]
    recorded: tuple[tuple[str, ...], ...]
    required: tuple[str, ...] = ()
    verb: str = ""
    division: Division = field(default_factory=lambda: Division("no"))
    main: tuple[str, ...] = ()

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """As of an answer."""
        return self.parameters

    @property
    def call(self) -> str:
        """The call that has it, for messages."""
        is_method = _FILES[self.name].startswith("trace/")
        return f"it is {'Trace' if is_method else 'profframe'}.{self.name}(), which has no SQL"

    def arguments(self, values: Mapping[str, object]) -> dict[str, Any]:
        """Arguments of the method: values of their types, or texts of them.

        Raises
        ------
        UnknownNameError
            It has no such parameter; the message suggests the nearest.
        ParameterError
            A value is of another type, or a required one is missing.

        Examples
        --------
        >>> find("critical_path").arguments({"step": "3", "across_ranks": True})
        {'step': (3,), 'across_ranks': True}
        """
        types = {parameter.name: parameter.type for parameter in self.parameters}
        for name in values:
            if name not in types:
                raise UnknownNameError.among("parameter", name, types)
        for name in self.required:
            if name not in values:
                meaning = next(one.doc for one in self.parameters if one.name == name)
                raise ParameterError(f"{self.name}: give {name}: {meaning}")
        return {name: _value(name, types[name], value) for name, value in values.items()}


def analyses() -> tuple[Analysis, ...]:
    """All analyses, by name.

    Examples
    --------
    >>> [analysis.name for analysis in analyses()][:3]
    ['blame', 'critical_path', 'dependencies']
    """
    return tuple(map(_read, sorted(_FILES)))


def names() -> tuple[str, ...]:
    """Names of analyses that give a table of one trace, as an answer does."""
    return tuple(sorted(_FILES.keys() - _VERBS.keys()))


def recorded(name: str) -> tuple[tuple[str, ...], ...]:
    """What an analysis needs to have rows, by the names of `profframe.query.reasons`."""
    return _RECORDED[name]


def find(name: object) -> Analysis | None:
    """The analysis of this name; None if there is none.

    Examples
    --------
    >>> find("trend").sentence
    'Follow metrics from run to run, and find where they change for good.'
    """
    return _read(name) if isinstance(name, str) and name in _FILES else None


@cache
def _read(name: str) -> Analysis:
    tree = ast.parse((_PACKAGE / _FILES[name]).read_text("utf-8"))
    *_, function = (  # after what a type checker reads
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    )
    text = ast.get_docstring(function) or ""
    sentence = " ".join(text.partition("\n\n")[0].split())
    arguments = function.args.args
    with_default = len(function.args.defaults)
    required = [one.arg for one in arguments[1 : len(arguments) - with_default]]
    parameters = (*_parameters(function, text),)
    needs, verb, division = recorded(name), _VERBS.get(name, ""), _DIVISIONS[name]
    main = _MAIN.get(name, ())
    return Analysis(name, sentence, parameters, needs, (*required,), verb, division, main)


def _parameters(function: ast.FunctionDef, text: str) -> Iterator[Parameter]:
    meanings = _meanings(text)
    taken = function.args
    defaults = [None] * (len(taken.args) - len(taken.defaults)) + [*taken.defaults]
    for argument, default in (
        *zip(taken.args, defaults, strict=True),
        *zip(taken.kwonlyargs, taken.kw_defaults, strict=True),
    ):
        kind = "" if argument.annotation is None else ast.unparse(argument.annotation)
        kind = kind.removesuffix(" | None")
        if kind in _TYPES:
            value = None if default is None else ast.literal_eval(default)
            doc = meanings.get(argument.arg, "")
            yield Parameter(argument.arg, _TYPES[kind][0], value, doc)


def _meanings(text: str) -> dict[str, str]:
    """Descriptions by name as answers have them, from the parameters of a docstring."""
    section = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0] + "\n"
    return {
        name: " ".join(match["text"].replace("``", "`").split())
        for match in _DOCUMENTED.finditer(section)
        for name in match["names"].split(", ")
    }


def _value(name: str, kind: str, value: object) -> object:
    """A value of this type, or what a text says."""
    if kind == "BIGINT[]":
        from profframe.query.selection import integers

        return integers(name, value)  # type: ignore[arg-type]  # which checks it
    (type_,) = {own for word, own in _TYPES.values() if word == kind}
    if type(value) is type_ or (type_ is float and type(value) is int):
        return value
    if isinstance(value, str):
        if type_ is bool and value.lower() in _WORDS:
            return _WORDS[value.lower()]
        if type_ is int and value.removeprefix("-").isdecimal():
            return int(value)
        if type_ is float:
            try:
                return float(value)
            except ValueError:
                pass
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    raise ParameterError(f"parameter {name!r} is {words[type_]}, not {value!r}")
