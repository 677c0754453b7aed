"""Work of an op: floating-point operations and bytes, by formula over its inputs.

`FORMULAS` is the table: name of the op -> `Formula`. Ops can be added when a trace is loaded::

    >>> from profframe import load
    >>> from profframe.facts.formulas import Formula, Op, like, moved
    >>> mine = {"my::rope": Formula(lambda op: 6 * op.tensor(0).count, moved((0, 1, 2), like(0)))}
    >>> trace = load("examples/cpu_training.json.gz", formulas=mine)

The same name replaces the entry of the table; ``None`` removes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from profframe.errors import ParameterError
from profframe.facts.formulas.attention import ATTENTION
from profframe.facts.formulas.caches import CACHES
from profframe.facts.formulas.convolutions import CONVOLUTIONS
from profframe.facts.formulas.copies import COPIES
from profframe.facts.formulas.dtypes import DTYPES, Dtype
from profframe.facts.formulas.elements import ELEMENTS
from profframe.facts.formulas.experts import EXPERTS
from profframe.facts.formulas.formula import Count, Formula, like, moved, none
from profframe.facts.formulas.libraries import LIBRARIES
from profframe.facts.formulas.matrices import MATRICES
from profframe.facts.formulas.ops import Op, Tensor
from profframe.facts.formulas.products import PRODUCT_NAMES, PRODUCTS
from profframe.facts.formulas.quantisation import QUANTISATION
from profframe.facts.formulas.ragged_attention import SEQUENCE_NAMES, SEQUENCES
from profframe.facts.formulas.reductions import REDUCTIONS
from profframe.facts.formulas.states import STATES
from profframe.facts.formulas.triton import TRITON_NAMES
from profframe.facts.formulas.unknowns import Unknown, UnknownLengths

__all__ = [
    "DTYPES",
    "FORMULAS",
    "MISFITS",
    "Dtype",
    "Formula",
    "Op",
    "Tensor",
    "Unknown",
    "UnknownLengths",
    "checked_formulas",
    "count",
    "formula_of",
    "is_product",
    "like",
    "moved",
    "none",
]

FORMULAS: Final[Mapping[str, Formula]] = MappingProxyType(
    {
        **LIBRARIES,
        **QUANTISATION,
        **CACHES,
        **COPIES,
        **ELEMENTS,
        **REDUCTIONS,
        **ATTENTION,
        **SEQUENCES,
        **STATES,
        **CONVOLUTIONS,
        **MATRICES,
        **PRODUCTS,
        **EXPERTS,
    }
)
"""Formulas by op.

Ops that return a view of the same memory are missing, so that they own no work, and so are ops that
do more than a formula would cover.
"""

_SIDE_WORK: Final = frozenset(
    name
    for table in (LIBRARIES, QUANTISATION, CACHES, COPIES, ELEMENTS, REDUCTIONS, STATES)
    for name in table
) - {"MambaChunkScanCombinedFn", "MambaSplitConv1dScanCombinedFn"}
"""Ops that compute element by element, sum, or move data: not the work that a model is made of."""
_GENERATED: Final = re.compile(r"triton_(?:poi|red|per|spl|for)_")
"""Inductor's kernels that are no template of a product."""

PATTERNS: Final = (*PRODUCT_NAMES, *SEQUENCE_NAMES, *TRITON_NAMES)
"""Patterns of names and formulas: versions of one kernel, and kernels named by a compiler.

`FORMULAS` takes precedence.
"""

MISFITS: Final = (
    Unknown,
    ArithmeticError,
    AttributeError,
    LookupError,
    StopIteration,
    TypeError,
    ValueError,
)
"""Errors of a formula whose recorded inputs do not fit it."""

_MOST: Final = 1 << 62
_WRAPPED: Final = re.compile(r"(sglang_profiler::\w+?)(?:_\d+)?")
"""SGLang's profiler names a function by its module, itself, and the line that it is on."""


def _unwrapped(name: str) -> str:
    wrapped = _WRAPPED.fullmatch(name)
    return wrapped[1] if wrapped else name


def formula_of(name: str) -> Formula | None:
    """The formula of an op, by its name or the first pattern that fits it.

    Examples
    --------
    >>> formula_of("aten::mm") is FORMULAS["aten::mm"], formula_of("my::op")
    (True, None)
    """
    name = _unwrapped(name)
    matches = (formula for pattern, formula in PATTERNS if pattern.fullmatch(name))
    return FORMULAS.get(name) or next(matches, None)


def is_product(name: str) -> bool:
    """Whether the FLOPs of an op are of products of matrices, convolutions, attention or experts.

    An op without a formula here, whose FLOPs are recorded or given, counts as one.

    Examples
    --------
    >>> is_product("aten::mm"), is_product("aten::add"), is_product("my::op")
    (True, False, True)
    """
    name = _unwrapped(name)
    return name not in _SIDE_WORK and _GENERATED.match(name) is None


def checked_formulas(formulas: object) -> Mapping[str, Formula | None]:
    """Formulas by names of ops, checked; raises `ParameterError` for anything else."""
    if not isinstance(formulas, Mapping):
        raise ParameterError(f"formulas map names of ops to Formula, not {formulas!r}")
    for name, formula in formulas.items():
        if not isinstance(name, str) or not isinstance(formula, Formula | None):
            raise ParameterError(
                f"formulas map names of ops to Formula or None, not {name!r} to {formula!r}"
            )
    return formulas


def count(formula: Count | None, op: Op) -> int | None:
    """Result of a formula for a call; None if it cannot tell.

    Examples
    --------
    >>> count(FORMULAS["aten::mm"].flops, Op("aten::mm", [[8, 16], [16, 4]]))
    1024
    >>> count(FORMULAS["aten::mm"].bytes, Op("aten::mm", [[8, 16], [16, 4]])) is None
    True
    """
    return counted(formula, op)[0]


def counted(formula: Count | None, op: Op) -> tuple[int | None, bool]:
    """The count, and whether it is NULL because no profiler records sequence lengths."""
    if formula is None:
        return None, False
    try:
        number = int(formula(op))
    except UnknownLengths:
        return None, True
    except MISFITS:
        return None, False
    return number if 0 <= number < _MOST else None, False
