"""Words of earlier releases and the words that replaced them; old ones still work, with a warning.

Each table maps an old word to its new one. Words of an answer, a method or a verb are listed under
its (new) name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

Words = Mapping[str, str]

ANSWERS: Final[Mapping[str, tuple[str, Words]]] = MappingProxyType(
    {
        "collective_summary": ("collectives", {"per": "size"}),
        "communication_parts": ("step_communication", {}),
        "counter_summary": ("counter_series", {"per": "counter"}),
        "evaluation": ("op_idle_queue", {}),
        "hang_sides": ("hangs", {"per": "rank"}),
        "idle_owners": ("idle", {"by": "line", "per": "device"}),
        "kernel_shapes": ("kernels", {"per": "launch"}),
        "kernel_types": ("time_breakdown", {"per": "combination"}),
        "memory_growth": ("memory_stacks", {"at": "change"}),
        "op_counters": ("counters_by_op", {}),
        "queue_summary": ("queue_depth", {"per": "stream"}),
        "samples": ("run_samples", {}),
        "segment_map": ("fragmentation", {"per": "piece"}),
        "steps": ("step_times", {}),
        "total_average": ("key_averages", {"per": "all"}),
        "unfreed": ("memory_peak", {"per": "block"}),
    }
)
"""Answers, with parameters that the new one needs to give the same rows."""
COLUMNS: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "collective_progress": {"behind": "missing_calls"},
        "kernels": {"does_both": "is_mixed", "fuses": "fused_ops"},
        "memory_owners": {"op_name": "name"},
        "quality": {"check": "issue"},
    }
)
"""Columns by table or answer."""
METHODS: Final[Words] = MappingProxyType(
    {"asking": "session", "given": "with_tables", "limited": "with_limits"}
)
"""Methods of `Trace` that are no answers."""
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
        "memory_stacks": {"by": "per"},
        "report": {"rows": "top"},
        "roofline": {"by": "per"},
        "snapshot_timeline": {"by": "per"},
        "tree": {"row_limit": "top"},
    }
)
"""Parameters by answer, method or function."""
_NONE: Final[Words] = MappingProxyType({})
_PACKAGE: Final = str(Path(__file__).parent.parent)
Warn = Callable[[str], None]
"""Called with a sentence for each old word."""


def future_warning(text: str) -> None:
    """Warn of the line outside of profframe."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 -- as logging does; 3.12 has skip_file_prefixes
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FutureWarning, stacklevel=level)


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


def answer_sentence(old: str) -> str:
    """What a warning says of an old name of an answer.

    Examples
    --------
    >>> answer_sentence("steps"), answer_sentence("unfreed")
    ('steps is now called step_times', 'unfreed is now called memory_peak, with per=block')
    """
    new, chosen = ANSWERS[old]
    values = " and ".join(f"{name}={value}" for name, value in chosen.items())
    return f"{old} is now called {new}{f', with {values}' if values else ''}"


def with_new_names(
    owner: str,
    given: Mapping[str, Any],
    own: Container[str] = (),
    warn: Warn = future_warning,
) -> dict[str, Any]:
    """Parameters by their new names; a warning names each old one.

    A parameter that is given by both names keeps both, so that the old one is an error.

    Parameters
    ----------
    owner
        An answer, a method or a function.
    given
        Value by name.
    own
        Names that it has, which stay: your own file may have the name of an answer.
    warn
        Called with a sentence for each old name; by default it becomes a FutureWarning.
    """
    new_names = parameters(owner)
    result: dict[str, Any] = {}
    for name, value in given.items():
        new = new_names.get(name, name)
        if name in own or new in given:
            new = name
        if new != name:
            warn(sentence(owner, name, new))
        result[new] = value
    return result


def with_new_columns(owner: str, given: Any, warn: Warn = future_warning) -> Any:
    """Columns of an answer to show or to sort by, by their new names.

    Examples
    --------
    >>> with_new_columns("kernels", ["name", "-fuses"], print)
    kernels: fuses is now called fused_ops
    ['name', '-fused_ops']
    """
    new_names = COLUMNS.get(owner, _NONE)
    names = given.split(",") if isinstance(given, str) else given
    if not new_names or not isinstance(names, Sequence):
        return given

    def renamed(name: object) -> object:
        old = str(name).strip().lstrip("+-")
        if old not in new_names:
            return name
        warn(sentence(owner, old, new_names[old]))
        return str(name).replace(old, new_names[old])

    result = [renamed(name) for name in names]
    return ",".join(map(str, result)) if isinstance(given, str) else result


def new_column(tables: Container[str], old: str) -> str | None:
    """The new name of a column of some tables; None if it has no other.

    Examples
    --------
    >>> new_column(["quality"], "check"), new_column(["events"], "check")
    ('issue', None)
    """
    owned = (new_names for table, new_names in COLUMNS.items() if table in tables)
    return next((new_names[old] for new_names in owned if old in new_names), None)
