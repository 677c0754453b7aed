"""Ops of other libraries whose arguments suffice for a formula."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from profframe.facts.formulas.formula import Formula, elements, like, moved, read
from profframe.facts.formulas.ops import Op

_GATED: Final = Formula(elements(0, 2), moved((1,), like(0)))
"""An activation of one half, times the other half, written to the first argument."""
_RMS_NORM: Final = Formula(elements(1, 4), moved((1, 2), like(0)))
"""As `aten::_fused_rms_norm` with a weight, written to the first argument."""


def _add_norm_bytes(op: Op) -> int:
    """Input and residual are read, and overwritten with their sum and its norm."""
    return 2 * read(op, 0, 1) + read(op, 2)


_ADD_RMS_NORM: Final = Formula(elements(0, 5), _add_norm_bytes)
_ADD_NEW_RMS_NORM: Final = Formula(
    elements(1, 5), lambda op: moved((1, 2, 4), like(0))(op) + like(3)(op)
)

LIBRARIES: Final = MappingProxyType(
    {
        **{
            f"{library}::{name}_and_mul": _GATED
            for library in ("_C", "sgl_kernel", "aiter")
            for name in ("silu", "gelu", "gelu_tanh")
        },
        **{f"{library}::rms_norm": _RMS_NORM for library in ("_C", "aiter")},
        **{f"{library}::rmsnorm": _RMS_NORM for library in ("sgl_kernel", "aiter")},
        "_C::fused_add_rms_norm": _ADD_RMS_NORM,
        "sgl_kernel::fused_add_rmsnorm": _ADD_RMS_NORM,
        "aiter::add_rmsnorm": _ADD_NEW_RMS_NORM,
    }
)
"""Name of the op -> its formula: norms and activations of vLLM, SGLang and AITER."""
