"""Methods that suggest the right call when they are called with a wrong argument."""

from __future__ import annotations

from functools import partial
from inspect import isfunction
from typing import Any, Final, TypeVar

from profframe.errors import ArgumentError, explain_unknown_arguments
from profframe.query import analyses
from profframe.query.renamed import with_new_names
from profframe.query.selection import filter_of

Class = TypeVar("Class", bound=type)
_FILTER: Final = "filter"
_DIVIDING: Final = ("each", "on")
_LONGEST: Final = 40
"""Characters of an argument that is shown."""


def suggest_filter_calls(owner: Class, behind: str = "") -> Class:
    """The class, with public methods that raise an ArgumentError for an unknown argument.

    What chooses a part of a trace is an argument of ``filter``: for ``trace.gaps(step=2)`` the
    error says ``trace.filter(steps=2).gaps()``. ``behind`` is the text between trace and method.
    """
    for name, method in list(vars(owner).items()):
        if not name.startswith("_") and isfunction(method):
            names = method.__code__.co_varnames[: method.__code__.co_argcount]
            names += method.__code__.co_varnames[len(names) :][: method.__code__.co_kwonlyargcount]
            elsewhere = partial(_through_filter, f"{behind}{name}", frozenset(names))
            renaming = partial(with_new_names, name)
            setattr(owner, name, explain_unknown_arguments(method, elsewhere, name, renaming))
    return owner


def _through_filter(
    method: str, names: frozenset[str], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """The call that filters the trace by an argument; None if the method has a similar one."""
    if name in _DIVIDING and (analysis := analyses.find(method)) is not None:
        raise ArgumentError(f"{method}() does not divide: {analysis.division.instead}")
    part = filter_of(name, () if method == _FILTER else names)
    if part is None:
        return None
    chosen = f"trace.filter({part}={_shown(kwargs[name])}"
    others = {key: value for key, value in kwargs.items() if key != name and key in names}
    rest = ", ".join(
        [*map(_shown, args[1:]), *(f"{key}={_shown(value)}" for key, value in others.items())]
    )
    if method == _FILTER:
        return f"{chosen}{', ' if rest else ''}{rest})"
    return f"{chosen}).{method}({rest})"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST and "\n" not in text else "..."
