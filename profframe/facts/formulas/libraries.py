"""Norms and activations of other libraries.

Sources of the order of arguments: vLLM's ``csrc/torch_bindings.cpp``, SGLang's
``common_extension.cc``, AITER's ``ops/rmsnorm.py``, ``ops/activation.py`` and ``ops/groupnorm.py``,
FlashInfer's ``norm.py`` and ``activation.py``, Liger's ``ops/*.py``.
"""

from __future__ import annotations

from typing import Final

from profframe.facts.formulas.formula import (
    Formula,
    by_op,
    dense,
    elements,
    everything,
    like,
    moved,
    read,
)
from profframe.facts.formulas.ops import Op
from profframe.facts.formulas.unknowns import Unknown


def _add_norm_bytes(op: Op) -> int:
    """Input and residual are read, and overwritten with their sum and its norm."""
    return 2 * read(op, 0, 1) + read(op, 2)


def _group_norm_flops(op: Op) -> int:
    """Like `aten::native_group_norm`: weight and bias add one each."""
    affine = sum(op.optional(place) is not None for place in (2, 3))
    return (5 + affine) * op.tensor(0).count


def _mixed_flops(op: Op) -> int:
    """Each stream is a sum of all, with weights, and of the row."""
    streams = op.tensor(2)
    if len(streams.shape) != 3:
        raise Unknown
    return 2 * streams.count * (streams.shape[1] + 1)


def _pair_flops(op: Op) -> int:
    return 4 * (op.tensor(0).count + op.tensor(3).count)


def _pair_bytes(op: Op) -> int:
    """Two norms in one: both inputs and weights are read, both results written."""
    return 2 * dense(op.tensor(0), op.tensor(3)) + read(op, 1, 4)


def _rms_places(op: Op) -> tuple[int, int]:
    """Places of the input and of its weight, which has one dimension."""
    return (0, 1) if len(op.tensor(1).shape) == 1 else (1, 2)


def _rms_flops(op: Op) -> int:
    return 4 * op.tensor(_rms_places(op)[0]).count


def _rms_bytes(op: Op) -> int:
    source, weight = _rms_places(op)
    return read(op, source, weight) + like(source)(op)


def _cross_entropy_bytes(op: Op) -> int:
    """The gradient takes the place of the logits."""
    return 2 * op.tensor(0).bytes + read(op, 1)


LIBRARIES: Final = by_op(
    {
        # An activation of one half, times the other half, written to the first argument.
        "_C::silu_and_mul _C::mul_and_silu _C::gelu_and_mul _C::gelu_tanh_and_mul"
        " _C::fatrelu_and_mul sgl_kernel::silu_and_mul sgl_kernel::gelu_and_mul"
        " sgl_kernel::gelu_tanh_and_mul aiter::silu_and_mul aiter::gelu_and_mul"
        " aiter::gelu_tanh_and_mul flashinfer::silu_and_mul flashinfer::gelu_and_mul"
        " flashinfer::gelu_tanh_and_mul": Formula(elements(0, 2), moved((1,), like(0))),
        # Also clamped, and one is added.
        "_C::swigluoai_and_mul": Formula(elements(0, 5), moved((1,), like(0))),
        "_C::gelu_new _C::gelu_fast _C::gelu_quick": Formula(elements(0), moved((1,), like(0))),
        "LigerSiLUMulFunction": Formula(elements(0, 2), moved((0, 1), like(0))),
        "LigerGELUMulFunction": Formula(elements(0, 2), moved((0, 1), like(0))),
        # As `aten::_fused_rms_norm` with a weight, written to the first argument.
        "_C::rms_norm sgl_kernel::rmsnorm sgl_kernel::gemma_rmsnorm aiter::rmsnorm"
        " flashinfer::rmsnorm flashinfer::gemma_rmsnorm": Formula(
            elements(1, 4), moved((1, 2), like(0))
        ),
        # The same, with a new result; in older versions the first argument is the result.
        "aiter::rms_norm aiter::rmsnorm2d_fwd aiter::rmsnorm2d_fwd_ck LigerRMSNormFunction": (
            Formula(_rms_flops, _rms_bytes)
        ),
        "_C::fused_add_rms_norm sgl_kernel::fused_add_rmsnorm sgl_kernel::gemma_fused_add_rmsnorm"
        " flashinfer::fused_add_rmsnorm flashinfer::gemma_fused_add_rmsnorm": Formula(
            elements(0, 5), _add_norm_bytes
        ),
        # result, input, residual in and out, weight
        "aiter::add_rmsnorm aiter::rmsnorm2d_fwd_with_add aiter::rmsnorm2d_fwd_with_add_ck": (
            Formula(elements(1, 5), lambda op: moved((1, 2, 4), like(0))(op) + like(3)(op))
        ),
        # input, weight, epsilon, residual: both results are new
        "vllm::rocm_aiter_rmsnorm2d_fwd_with_add": Formula(
            elements(0, 5), lambda op: read(op, 0, 1, 2) + 2 * like(0)(op)
        ),
        "vllm::rocm_aiter_rms_norm": Formula(elements(0, 4), moved((0, 1), like(0))),
        # input, scale, shift: a layer norm (5), scaled and shifted
        "primus::fused_ln_modulate": Formula(elements(0, 7), moved((0, 1, 2), like(0))),
        # result, row, rows of several streams, weights of the streams
        "aiter::mhc_post": Formula(_mixed_flops, everything),
        # chosen ids, logits, noise: a quotient, and its maximum
        "aiter::mixed_sample_outer_exponential": Formula(elements(1, 2), everything),
        "aiter::_fused_qk_rmsnorm_kernel": Formula(_pair_flops, _pair_bytes),
        # input, groups, weight, bias
        "aiter::_groupnorm_run": Formula(_group_norm_flops, moved((0, 2, 3), like(0))),
        # logits, targets; softmax (5), as `aten::_log_softmax`, and the difference
        "LigerCrossEntropyFunction": Formula(elements(0, 6), _cross_entropy_bytes),
        "CrossEntropyFunction": Formula(elements(0, 6), _cross_entropy_bytes),
    },
    "{}",
)
"""Name of the op -> its formula: norms and activations of vLLM, SGLang, AITER and Liger."""
