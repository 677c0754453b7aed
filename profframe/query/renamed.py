"""Words of earlier releases and the words that replaced them; old ones still work, with a warning.

Each table maps an old word to its new one. Words of an answer, a method or a verb are listed under
its (new) name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import Any, Final

Words = Mapping[str, str]

ANSWERS: Final[Words] = MappingProxyType({})
"""Answers and analyses."""
COLUMNS: Final[Mapping[str, Words]] = MappingProxyType({})
"""Columns by table or answer."""
OPTIONS: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "convert": {"--rank": "--as-rank", "--run": "--as-run"},
        "diff": {"--by": "--per"},
        "hang": {"--rank": "--as-rank"},
        "report": {"--rows": "--top"},
        "roofline": {"--by": "--per"},
        "tree": {"--rows": "--top"},
    }
)
"""Options by verb."""
PARAMETERS: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "diff_memory": {"by": "per"},
        "diff_report": {"rows": "top"},
        "filter": {"phase": "phases"},
        "kernels": {"by": "per"},
        "memory_bandwidth": {"by": "per"},
        "memory_growth": {"by": "per"},
        "memory_stacks": {"by": "per"},
        "report": {"rows": "top"},
        "roofline": {"by": "per"},
        "snapshot_timeline": {"by": "per"},
        "tree": {"row_limit": "top"},
    }
)
"""Parameters by answer, method or function."""
_NONE: Final[Words] = MappingProxyType({})


def _future_warning(text: str) -> None:
    warnings.warn(text, FutureWarning, stacklevel=4)


def options(verb: str | None) -> Words:
    """New names of a verb's options, by the old ones."""
    return OPTIONS.get(verb or "", _NONE)


def parameters(owner: str) -> Words:
    """New names of the parameters of an answer, a method or a function, by the old ones."""
    return PARAMETERS.get(owner, _NONE)


def sentence(what: str, old: str, new: str) -> str:
    """What a warning says of an old word.

    Examples
    --------
    >>> sentence("kernels", "by", "per")
    'kernels: by is now called per'
    """
    return f"{what}: {old} is now called {new}"


def with_new_names(
    owner: str,
    given: Mapping[str, Any],
    known: Container[str] = (),
    warn: Callable[[str], None] = _future_warning,
) -> dict[str, Any]:
    """Parameters by their new names; a warning names each old one.

    A parameter that is given by both names keeps both, so that the old one is an error.

    Parameters
    ----------
    owner
        An answer, a method or a function.
    given
        Value by name.
    known
        Names that it has, which stay: your own file may have the name of an answer.
    warn
        Called with a sentence for each old name; by default it becomes a FutureWarning.
    """
    new_names = parameters(owner)
    result: dict[str, Any] = {}
    for name, value in given.items():
        new = new_names.get(name, name)
        if name in known or new in given:
            new = name
        if new != name:
            warn(sentence(owner, name, new))
        result[new] = value
    return result
