"""Quantisation: numbers are scaled by a scale that is given (1 operation) or computed (3).

The 3 are the absolute value, the maximum of a group, and the product. Results and scales are
arguments of most of these ops, so every tensor is moved once; if they are returned, their sizes
follow.

Sources of the order of arguments: vLLM's ``csrc/torch_bindings.cpp`` and ``fp8_utils.py``, SGLang's
``common_extension.cc``, AITER's ``ops/quant.py`` and ``ops/triton/quant``, Primus-Turbo's
``bindings_pytorch.cpp``.
"""

from __future__ import annotations

import math
from typing import Final

from profframe.facts.formulas.dtypes import FP32, Dtype
from profframe.facts.formulas.formula import Formula, by_op, dense, elements, everything, read
from profframe.facts.formulas.ops import Op
from profframe.facts.formulas.unknowns import Unknown

_BLOCK: Final = 32
"""Numbers that share a scale in the formats of OCP (MX)."""


def _of(place: int, each: int) -> Formula:
    """``each`` operations for an element of that argument; results are arguments."""
    return Formula(elements(place, each), everything, lambda op: _floating(op, place))


def _floating(op: Op, place: int) -> Dtype | None:
    return op.tensor(place).dtype


def _blocks(shape: tuple[int, ...], group: int) -> int:
    """Groups along the last dimension."""
    if not shape or group <= 0:
        raise Unknown
    return math.prod(shape[:-1]) * -(-shape[-1] // group)


def _group_bytes(op: Op) -> int:
    """Quantisation by groups, whose results are new: bytes, and fp32 for each group."""
    source, group = op.tensor(0), op.ints(1, 1)[0]
    return source.bytes + source.count + _blocks(source.shape, group) * FP32.size


def _new_norm(each: int, *reads: int) -> Formula:
    """A norm of the first argument with groups of fp8, all new; the group is the last argument.

    A residual (one more to read) is returned as well.
    """

    def bytes_(op: Op) -> int:
        source, group = op.tensor(0), op.ints(len(op.dims) - 1, 1)[0]
        scales = _blocks(source.shape, group) * FP32.size
        residual = dense(source) if len(reads) > 1 else 0
        return source.bytes + read(op, *reads) + source.count + scales + residual

    return Formula(elements(0, each), bytes_, lambda op: _floating(op, 0))


def _four_bits(directions: int) -> Formula:
    """New results of four bits, and a scale of a byte for 32 numbers; in one direction or two."""

    def bytes_(op: Op) -> int:
        source = op.tensor(0)
        if len(source.shape) < 2:
            raise Unknown
        rows, width = source.shape[0], math.prod(source.shape[1:])
        written = directions * -(-source.count // 2) + _blocks((rows, width), _BLOCK)
        if directions == 2:
            written += _blocks((width, rows), _BLOCK)
        return source.bytes + written

    return Formula(elements(0, 3), bytes_, lambda op: _floating(op, 0))


def _eight_bits(each: int) -> Formula:
    """New results of a byte."""
    return Formula(
        elements(0, each), lambda op: op.tensor(0).bytes + op.tensor(0).count,
        lambda op: _floating(op, 0),
    )  # fmt: skip


def _residual_norm(op: Op) -> int:
    return (8 if op.optional(6) else 7) * op.tensor(1).count


QUANTISATION: Final = by_op(
    {
        "_C::static_scaled_fp8_quant _C::static_scaled_int8_quant aiter::static_per_tensor_quant":
            _of(1, 1),
        "_C::dynamic_scaled_fp8_quant _C::dynamic_per_token_scaled_fp8_quant"
        " _C::dynamic_scaled_int8_quant aiter::dynamic_per_tensor_quant"
        " aiter::dynamic_per_token_scaled_quant aiter::dynamic_per_group_scaled_quant"
        " aiter::dynamic_per_group_scaled_quant_fp4": _of(1, 3),
        "_C::per_token_group_fp8_quant _C::per_token_group_quant_int8 _C::scaled_fp4_quant"
        " sgl_kernel::sgl_per_token_group_quant_fp8 sgl_kernel::sgl_per_token_group_quant_8bit"
        " sgl_kernel::sgl_per_token_group_quant_int8 sgl_kernel::sgl_per_token_quant_fp8"
        " sgl_kernel::sgl_per_tensor_quant_fp8": Formula(
            lambda op: 3 * max(tensor.count for tensor in op.all_tensors()), everything,
            lambda op: next(
                (t.dtype for t in op.all_tensors() if t.dtype and t.dtype.floats and t.size == 2),
                None,
            ),
        ),
        "aiter::fused_dynamic_mxfp4_quant_moe_sort_hip aiter::fused_dynamic_mx_quant_moe_sort_hip":
            _of(2, 3),
        "vllm::triton_per_token_group_quant_fp8 vllm::rocm_aiter_group_fp8_quant": Formula(
            elements(0, 3), _group_bytes, lambda op: _floating(op, 0)
        ),
        "sglang_profiler::quant_dynamic_mxfp4_quant"
        " sglang_profiler::fused_mxfp4_quant_fused_flatten_mxfp4_quant": _four_bits(1),
        "primus_turbo_cpp_extension::quantize_mxfp4_dual primus_turbo::quantize_mxfp4_dual"
        " primus::quantize_mxfp4_dual": _four_bits(2),
        "primus_turbo_cpp_extension::quantize_fp8_tensorwise"
        " primus_turbo::quantize_fp8_tensorwise primus_turbo_cpp_extension::quantize_fp8_rowwise"
        " primus_turbo::quantize_fp8_rowwise": _eight_bits(3),
        # input, weight, group; with a residual before the weight
        "vllm::rocm_aiter_rmsnorm_fp8_group_quant": _new_norm(7, 1),
        "vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant": _new_norm(8, 1, 2),
        # A norm of RMS with a weight (4), perhaps a residual (1), then quantisation:
        # result, input, weight, scale
        "_C::rms_norm_static_fp8_quant": _of(1, 5),
        # result, input, residual, weight, scale
        "_C::fused_add_rms_norm_static_fp8_quant": _of(1, 6),
        # result, input, weight, scale, epsilon, bound, residual
        "_C::rms_norm_dynamic_per_token_quant _C::rms_norm_per_block_quant": Formula(
            _residual_norm, everything, lambda op: _floating(op, 1)
        ),
        # result, input, scale, weight
        "aiter::rmsnorm2d_fwd_with_dynamicquant_ck aiter::rmsnorm2d_fwd_with_dynamicquant"
        " aiter::rmsnorm_quant": _of(1, 7),
        # result, input, residual in and out, scale, weight
        "aiter::rmsnorm2d_fwd_with_add_dynamicquant_ck aiter::rmsnorm2d_fwd_with_add_dynamicquant"
        " aiter::add_rmsnorm_quant": _of(1, 8),
        # result, both halves of the input, scale
        "_C::silu_and_mul_quant": _of(0, 3),
        "_C::silu_and_mul_per_block_quant": _of(0, 5),
    },
    "{}",
)  # fmt: skip
"""Name of the op -> its formula."""
