"""Ops of other libraries whose arguments suffice for a formula."""

from __future__ import annotations

from typing import Final

from profframe.facts.formulas.formula import Formula, by_op, elements, like, moved, read
from profframe.facts.formulas.ops import Op


def _add_norm_bytes(op: Op) -> int:
    """Input and residual are read, and overwritten with their sum and its norm."""
    return 2 * read(op, 0, 1) + read(op, 2)


LIBRARIES: Final = by_op(
    {
        # An activation of one half, times the other half, written to the first argument.
        "_C::silu_and_mul _C::gelu_and_mul _C::gelu_tanh_and_mul sgl_kernel::silu_and_mul"
        " sgl_kernel::gelu_and_mul sgl_kernel::gelu_tanh_and_mul aiter::silu_and_mul"
        " aiter::gelu_and_mul aiter::gelu_tanh_and_mul": Formula(
            elements(0, 2), moved((1,), like(0))
        ),
        # As `aten::_fused_rms_norm` with a weight, written to the first argument.
        "_C::rms_norm aiter::rms_norm sgl_kernel::rmsnorm aiter::rmsnorm": Formula(
            elements(1, 4), moved((1, 2), like(0))
        ),
        "_C::fused_add_rms_norm sgl_kernel::fused_add_rmsnorm": Formula(
            elements(0, 5), _add_norm_bytes
        ),
        "aiter::add_rmsnorm": Formula(
            elements(1, 5), lambda op: moved((1, 2, 4), like(0))(op) + like(3)(op)
        ),
    },
    "{}",
)
"""Name of the op -> its formula: norms and activations of vLLM, SGLang and AITER."""
