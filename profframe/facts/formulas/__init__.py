"""Work of an op: floating-point operations and bytes, by formula over its inputs.

`FORMULAS` is the table: name of the op -> `Formula`. Ops can be added when a trace is loaded::

    >>> from profframe import load
    >>> from profframe.facts.formulas import Formula, Op, like, moved
    >>> mine = {"my::rope": Formula(lambda op: 6 * op.tensor(0).count, moved((0, 1, 2), like(0)))}
    >>> trace = load("examples/cpu_training.json.gz", formulas=mine)

The same name replaces the entry of the table; ``None`` removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from profframe.errors import ParameterError
from profframe.facts.formulas.attention import ATTENTION
from profframe.facts.formulas.convolutions import CONVOLUTIONS
from profframe.facts.formulas.copies import COPIES
from profframe.facts.formulas.dtypes import DTYPES, Dtype
from profframe.facts.formulas.elements import ELEMENTS
from profframe.facts.formulas.formula import Count, Formula, like, moved, none
from profframe.facts.formulas.libraries import LIBRARIES
from profframe.facts.formulas.matrices import MATRICES
from profframe.facts.formulas.ops import Op, Tensor, Unknown
from profframe.facts.formulas.reductions import REDUCTIONS

__all__ = [
    "DTYPES",
    "FORMULAS",
    "Dtype",
    "Formula",
    "Op",
    "Tensor",
    "Unknown",
    "check_formulas",
    "count",
    "like",
    "moved",
    "none",
]

FORMULAS: Final[Mapping[str, Formula]] = MappingProxyType(
    {**LIBRARIES, **COPIES, **ELEMENTS, **REDUCTIONS, **ATTENTION, **CONVOLUTIONS, **MATRICES}
)
"""Formulas by op.

Ops that return a view of the same memory are missing, so that they own no work, and so are ops that
do more than a formula would cover.
"""

_MOST: Final = 1 << 62


def check_formulas(formulas: object) -> None:
    """Raise `ParameterError` unless it is None, or maps names of ops to formulas."""
    if formulas is None:
        return
    if not isinstance(formulas, Mapping):
        raise ParameterError(f"formulas map names of ops to Formula, not {formulas!r}")
    for name, formula in formulas.items():
        if not isinstance(name, str) or not isinstance(formula, Formula | None):
            raise ParameterError(
                f"formulas map names of ops to Formula or None, not {name!r} to {formula!r}"
            )


def count(formula: Count | None, op: Op) -> int | None:
    """Result of a formula for a call; None if it cannot tell.

    Examples
    --------
    >>> count(FORMULAS["aten::mm"].flops, Op("aten::mm", [[8, 16], [16, 4]]))
    1024
    >>> count(FORMULAS["aten::mm"].bytes, Op("aten::mm", [[8, 16], [16, 4]])) is None
    True
    """
    if formula is None:
        return None
    try:
        number = int(formula(op))
    except (Unknown, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return None  # the recorded inputs do not fit the formula
    return number if 0 <= number < _MOST else None
