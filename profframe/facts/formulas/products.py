"""Products of matrices in other libraries: quantised, packed, transposed, tuned by hand.

Two operations for each term of a sum, as for `aten::mm`. Scales are read, and not counted as
operations. The names of such ops change with their versions, so most are recognised by a pattern;
the sizes must fit each other, else the work is unknown.

Sources of the order of arguments: ``aiter/ops/gemm_op_*.py`` and ``aiter/ops/triton/gemm``, vLLM's
``csrc/torch_bindings.cpp``, ``csrc/rocm/torch_bindings.cpp`` and ``_aiter_ops.py``, SGLang's
``sgl-kernel/csrc/common_extension.cc``, Transformer Engine's ``ts_fp8_op.cpp`` and
``pytorch/module/*.py``, Primus-Turbo's ``csrc/pytorch/bindings_pytorch.cpp``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from profframe.facts.formulas.dtypes import BF16, FP4, FP8, UINT8, Dtype
from profframe.facts.formulas.formula import Formula, by_op, everything, read
from profframe.facts.formulas.ops import Op, Shape, Tensor
from profframe.facts.formulas.unknowns import Unknown

_PACKED: Final = frozenset({UINT8, FP4})
"""Types of tensors that hold two numbers of four bits in each element."""


class Product(NamedTuple):
    """Rows of all batches, columns of one, and the length of the sums."""

    rows: int
    columns: int
    inner: int

    @property
    def flops(self) -> int:
        """A product and a sum for each term."""
        return 2 * self.rows * self.columns * self.inner

    @property
    def elements(self) -> int:
        """Elements of the result."""
        return self.rows * self.columns


def product_of(first: Tensor, second: Tensor, *, four_bits: bool = False) -> Product:
    """Product of rows with a weight that has a row for each output, or a column.

    A four-bit weight has half as many columns, and so have four-bit rows.
    """
    if len(first.shape) < 2 or len(second.shape) not in {2, 3}:
        raise Unknown
    inner, (outputs, length) = first.shape[-1], second.shape[-2:]
    if len(second.shape) == 3 and second.shape[0] not in first.shape[:-1]:
        raise Unknown
    rows = math.prod(first.shape[:-1])
    dtypes = first.dtype, second.dtype
    packed = [dtype == FP4 or (four_bits and dtype == UINT8) for dtype in dtypes]
    if packed == [False, True] and 2 * length == inner:
        return Product(rows, outputs, inner)
    if length == inner:
        return Product(rows, outputs, inner * (2 if all(packed) else 1))
    if outputs == inner:
        return Product(rows, length, inner)
    raise Unknown


def _is_four_bit(op: Op) -> bool:
    return "fp4" in op.name or "a4w4" in op.name or op.name.endswith("with_dynamic_quant")


def _checked(op: Op, first: int, second: int) -> Product:
    return product_of(op.tensor(first), op.tensor(second), four_bits=_is_four_bit(op))


def _dtype(op: Op, first: int, second: int) -> Dtype | None:
    """Four bits if the weight has four, eight if the name says so, else as the rows."""
    rows, weight = op.tensor(first).dtype, op.tensor(second).dtype
    if FP4 in {rows, weight} or (_is_four_bit(op) and weight == UINT8):
        return FP4
    dtype = weight if "a8w8" in op.name or "w8a8" in op.name else rows
    return FP8 if dtype == UINT8 else dtype


def result_size(op: Op, count: int, first: Tensor, besides: Iterable[int]) -> int:
    """Bytes of an element of the result: of the tensor that receives it, else of the rows.

    Numbers of eight and four bits become 16-bit numbers.
    """
    for place in range(len(op.dims)):
        tensor = op.optional(place)
        if place in besides or tensor is None or len(tensor.shape) < 2:
            continue
        if tensor.count == count and tensor.dtype is not None and tensor.dtype.floats:
            return max(tensor.size, 2)
    return first.size if first.dtype and first.dtype.floats and first.size > 1 else BF16.size


def _beside(op: Op, places: Iterable[int], count: int) -> int:
    """Bytes of scales and bias: not the result, nor integers that workgroups count with."""
    tensors = [tensor for tensor in map(op.optional, places) if tensor is not None]
    fits = [t for t in tensors if t.dtype and (t.dtype.floats or t.size == 1)]
    return sum(tensor.bytes for tensor in fits if tensor.count != count)


def _with_weight(first: int, second: int, *scales: int) -> Formula:
    """Rows times a weight; scales and a bias at these places are read."""

    def bytes_(op: Op) -> int:
        product = _checked(op, first, second)
        total = product.elements * result_size(
            op, product.elements, op.tensor(first), (first, second)
        )
        return total + read(op, first, second) + _beside(op, scales, product.elements)

    return Formula(
        lambda op: _checked(op, first, second).flops, bytes_, lambda op: _dtype(op, first, second)
    )


def _sizes(op: Op, first: int) -> tuple[int, Product]:
    """Place of the rows, columns and terms that a call has as numbers, and the product.

    Versions differ in the number of arguments before them: these are the three numbers of which the
    first and the last are the sizes of the rows.
    """
    rows, inner = op.tensor(first).shape
    for place in range(len(op.values) - 2):
        try:
            numbers = [op.value(place + i) for i in range(3)]
        except Unknown:
            continue
        if all(type(number) is int for number in numbers) and numbers[::2] == [rows, inner]:
            return place, Product(rows, numbers[1], inner)
    raise Unknown


def _marlin_bytes(op: Op) -> int:
    product = _sizes(op, 0)[1]
    return read(op, 0, 2, 3, 4) + product.elements * op.tensor(0).size


def marlin_rows(op: Op) -> Product:
    """Product of marlin's experts: each row goes to as many experts as ``top_k`` says."""
    place, product = _sizes(op, 0)
    return product._replace(rows=product.rows * int(op.value(place - 4)))


def _packed_columns(packing: int) -> Formula:
    """A weight of ``(inner, columns)``, with this many columns per element; GPTQ packs rows."""

    def product(op: Op) -> Product:
        rows, weight = op.tensor(0), op.tensor(1)
        if len(weight.shape) != 2 or rows.shape[-1] % weight.shape[0]:
            raise Unknown
        rows_count = math.prod(rows.shape[:-1])
        return Product(rows_count, weight.shape[1] * packing, rows.shape[-1])

    def bytes_(op: Op) -> int:
        return read(op, 0, 1, 2, 3) + product(op).elements * op.tensor(0).size

    return Formula(lambda op: product(op).flops, bytes_, lambda op: op.tensor(0).dtype)


def _transposable(first: int, second: int, flags: int, *scales: int) -> Formula:
    """Two matrices with a flag each for transposition, and one that swaps them."""

    def product(op: Op) -> Product:
        shapes = op.tensor(first).shape, op.tensor(second).shape
        (rows, inner), (others, columns) = shapes
        transposed = [bool(op.value(flags + i)) for i in range(2)]
        if op.value(flags + 2) if len(op.values) > flags + 2 else False:
            (rows, inner), (others, columns) = shapes[::-1]
            transposed = [not flag for flag in transposed[::-1]]
        if transposed[0]:
            rows, inner = inner, rows
        if transposed[1]:
            others, columns = columns, others
        if inner != others:
            raise Unknown
        packing = 2 if op.tensor(first).dtype in _PACKED else 1
        return Product(rows, columns, inner * packing)

    def bytes_(op: Op) -> int:
        written = product(op).elements * max(op.tensor(first).size, BF16.size)
        return read(op, first, second, *scales) + written

    return Formula(lambda op: product(op).flops, bytes_, lambda op: _dtype(op, first, second))


def _streams_flops(op: Op) -> int:
    """The product of a row of all streams, and its sum of squares."""
    rows, weight = op.tensor(2), op.tensor(3)
    if len(weight.shape) != 2 or math.prod(rows.shape[1:]) != weight.shape[1]:
        raise Unknown
    return 2 * rows.count * (weight.shape[0] + 1)


def _te_product(op: Op) -> Product:
    """`te_gemm_ts`: ``A`` at 0 and ``B`` at 5 as cuBLAS has them, by columns, and their flags."""
    (first, length), (second, other) = op.tensor(0).shape, op.tensor(5).shape
    columns, inner = (first, length) if op.value(4) else (length, first)
    rows, others = (other, second) if op.value(9) else (second, other)
    if inner != others:
        raise Unknown
    return Product(rows, columns, inner)


def _te_bytes(op: Op) -> int:
    product = _te_product(op)
    return read(op, 0, 5) + product.elements * op.tensor(10).size


def _weights(op: Op, start: int) -> list[Tensor]:
    return [tensor for tensor in list(op.all_tensors())[start:] if len(tensor.shape) == 2]


def _linear(rows: int | None) -> Formula:
    """A layer's rows, and its first weight that fits; ``rows`` is their place, or after it."""

    def factors(op: Op) -> tuple[Tensor, Tensor]:
        if rows is None:  # the weight comes first
            weight, *others = op.all_tensors()
            inputs = [tensor for tensor in others if len(tensor.shape) > 1]
            return inputs[0], weight
        source = op.tensor(rows)
        fits = [weight for weight in _weights(op, 1) if weight.shape[1] == source.shape[-1]]
        return source, fits[0]

    def product(op: Op) -> Product:
        source, weight = factors(op)
        if len(weight.shape) != 2 or weight.shape[1] != source.shape[-1]:
            raise Unknown
        return Product(math.prod(source.shape[:-1]), weight.shape[0], weight.shape[1])

    def bytes_(op: Op) -> int:
        source, weight = factors(op)
        return source.bytes + weight.bytes + product(op).elements * source.size

    return Formula(lambda op: product(op).flops, bytes_)


def _two_layers(op: Op) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and both weights of an MLP: the gate doubles the outputs of the first."""
    source, weights = op.tensor(0), _weights(op, 1)
    width = source.shape[-1]
    first = next(weight for weight in weights if weight.shape[1] == width)
    inner = (first.shape[0], first.shape[0] // 2)
    second = [w for w in weights if w is not first and w.shape[0] == width and w.shape[1] in inner]
    return source, first, second[0]


def _mlp_flops(op: Op) -> int:
    source, first, second = _two_layers(op)
    return 2 * math.prod(source.shape[:-1]) * (first.count + second.count)


def _mlp_bytes(op: Op) -> int:
    source, first, second = _two_layers(op)
    return 2 * source.bytes + first.bytes + second.bytes


def _groups(op: Op) -> tuple[Tensor, list[Tensor]]:
    """Rows, and the weights of all groups, of one shape."""
    source, *others = op.all_tensors()
    weights = [w for w in others if len(w.shape) == 2 and w.shape[1] == source.shape[-1]]
    if len({weight.shape for weight in weights}) != 1:
        raise Unknown
    return source, weights


def _groups_flops(op: Op) -> int:
    """Each row belongs to one group."""
    source, weights = _groups(op)
    return 2 * source.count * weights[0].shape[0]


def _groups_bytes(op: Op) -> int:
    source, weights = _groups(op)
    rows = math.prod(source.shape[:-1])
    total = sum(weight.bytes for weight in weights)
    return source.bytes + total + rows * weights[0].shape[0] * source.size


def _grouped(flag: int | None, first: int = 0, second: int = 1) -> Formula:
    """Rows of all groups one after the other, and a matrix for each group, perhaps transposed.

    Four-bit ones hold two numbers in an element.
    """

    def columns(op: Op) -> int:
        inner, shape = op.tensor(first).shape[-1], op.tensor(second).shape
        if len(op.tensor(first).shape) != 2 or len(shape) != 3:
            raise Unknown
        by_row, by_column = shape[2] == inner, shape[1] == inner
        transposed = bool(op.value(flag)) if flag is not None and by_row and by_column else by_row
        if not (by_row if transposed else by_column):
            raise Unknown
        return shape[1] if transposed else shape[2]

    def bytes_(op: Op) -> int:
        written = op.tensor(first).shape[0] * columns(op) * max(op.tensor(first).size, BF16.size)
        return read(op, first, second) + written

    def flops(op: Op) -> int:
        is_packed = _is_four_bit(op) and op.tensor(first).dtype in {UINT8, FP4}
        return 2 * op.tensor(first).count * columns(op) * (2 if is_packed else 1)

    return Formula(flops, bytes_, lambda op: _dtype(op, first, second))


def _variable_shape(op: Op, groups_at: int) -> Shape:
    """Both factors have a row for each term of the sums of some group."""
    first, second = op.tensor(0).shape, op.tensor(1).shape
    if len(first) != 2 or len(second) != 2 or first[0] != second[0]:
        raise Unknown
    return op.tensor(groups_at).count, first[1], second[1]


def _variable(groups_at: int) -> Formula:
    """Products of groups, one for each element of the argument at ``groups_at``: its length."""

    def flops(op: Op) -> int:
        _, rows, columns = _variable_shape(op, groups_at)
        return 2 * op.tensor(0).shape[0] * rows * columns

    def bytes_(op: Op) -> int:
        written = math.prod(_variable_shape(op, groups_at)) * max(op.tensor(0).size, BF16.size)
        return read(op, 0, 1) + written

    return Formula(flops, bytes_)


PRODUCTS: Final = by_op(
    {
        # rows, weight, their scales, bias
        "aiter::flatmm_a8w8_blockscale_asm aiter::gfx950_a8w8_blockscale_asm"
        " aiter::mi350_a8w8_blockscale_asm vllm::rocm_unquantized_gemm"
        " vllm::gemm_with_dynamic_quant vllm::w8a8_triton_block_scaled_mm_func"
        " vllm::rocm_per_tensor_float_w8a8_scaled_mm_impl"
        " vllm::_rocm_aiter_preshuffled_per_token_w8a8_gemm"
        " sglang_profiler::gemm_kernels_flydsl_hgemm sgl_kernel::fp8_scaled_mm"
        " sgl_kernel::int8_scaled_mm sgl_kernel::fp8_blockwise_scaled_mm"
        " trtllm::cublas_scaled_mm trtllm::fp8_block_scaling_gemm trtllm::fp4_gemm"
        " trtllm::nvfp4_gemm bitsandbytes::int8_linear_matmul": _with_weight(0, 1, 2, 3, 4),
        # rows, weight
        "aiter::hipb_mm aiter::rocb_mm aiter::wvSpltK trtllm::cublas_mm": _with_weight(0, 1),
        # result, rows, weight, their scales, bias
        "_C::cutlass_scaled_mm _C::cutlass_scaled_mm_azp _C::cutlass_scaled_fp4_mm"
        " _C::dsv3_fused_a_gemm sgl_kernel::cutlass_scaled_fp4_mm sgl_kernel::dsv3_fused_a_gemm"
        " sgl_kernel::dsv3_router_gemm": _with_weight(1, 2, 3, 4, 5),
        # rows, weight, result, their scales
        "sgl_kernel::bmm_fp8 flashinfer::bmm_fp8": _with_weight(0, 1, 3, 4),
        # rows, their scale, weight, its scale, result
        "vllm::fp8_gemm_nt_op sglang::deep_gemm_fp8_fp8_bf16_nt": _with_weight(0, 2, 1, 3),
        # weight, rows
        "_rocm_C::wvSplitK _rocm_C::wvSplitKQ _rocm_C::LLMM1": _with_weight(1, 0),
        "_C::marlin_gemm _C::gptq_marlin_gemm sgl_kernel::gptq_marlin_gemm": Formula(
            lambda op: _sizes(op, 0)[1].flops, _marlin_bytes, lambda op: op.tensor(0).dtype
        ),
        "_C::awq_gemm": _packed_columns(8),
        "_C::gptq_gemm sgl_kernel::gptq_gemm": _packed_columns(1),
        # result, sums of squares, rows of several streams, weight
        "aiter::mhc_pre_gemm_sqrsum": Formula(_streams_flops, everything),
        "tex_ts::te_gemm_ts": Formula(lambda op: _te_product(op).flops, _te_bytes),
        "_Linear": _linear(None),
        "_LayerNormLinear": _linear(0),
        "_LayerNormMLP": Formula(_mlp_flops, _mlp_bytes),
        "_GroupedLinear": Formula(_groups_flops, _groups_bytes),
        "primus_turbo_cpp_extension::hipblaslt_gemm primus_turbo::hipblaslt_gemm": _transposable(
            0, 1, 3
        ),
        "primus_turbo_cpp_extension::hipblaslt_gemm_fp8 primus_turbo::hipblaslt_gemm_fp8"
        " primus_turbo_cpp_extension::hipblaslt_gemm_fp4 primus_turbo::hipblaslt_gemm_fp4": (
            _transposable(0, 2, 5, 1, 3)
        ),
        "primus_turbo::grouped_gemm primus_turbo::grouped_gemm_impl"
        " primus_turbo_cpp_extension::grouped_gemm primus_turbo_cpp_extension::ck_grouped_gemm": (
            _grouped(5)
        ),
        "primus_turbo::grouped_gemm_fp8 primus_turbo::grouped_gemm_fp8_impl"
        " primus_turbo_cpp_extension::grouped_gemm_fp8"
        " primus_turbo_cpp_extension::ck_grouped_gemm_fp8": _grouped(7),
        "GroupedGemm": _grouped(3),
        # result, rows, weights
        "_C::cutlass_moe_mm _C::cutlass_fp4_group_mm sgl_kernel::cutlass_fp4_group_mm": _grouped(
            None, 1, 2
        ),
        "sgl_kernel::fp8_blockwise_scaled_grouped_mm": _grouped(None, 6, 7),
        "primus_turbo::grouped_gemm_variable_k primus_turbo::grouped_gemm_variable_k_impl"
        " primus_turbo_cpp_extension::grouped_gemm_variable_k"
        " primus_turbo_cpp_extension::ck_grouped_gemm_variable_k": _variable(2),
        "primus_turbo::grouped_gemm_fp8_variable_k primus_turbo::grouped_gemm_fp8_variable_k_impl"
        " primus_turbo_cpp_extension::grouped_gemm_fp8_variable_k"
        " primus_turbo_cpp_extension::ck_grouped_gemm_fp8_variable_k": _variable(4),
    },
    "{}",
)
"""Name of the op -> its formula."""

PRODUCT_NAMES: Final = (
    (
        re.compile(
            r"(aiter|vllm|sglang|sglang_profiler)::(?!\w*(moe|grouped|mhc))\w*gemm_?"
            r"(bf16|a16w16|a16wfp4|a16w8|a8w8|w8a8|a8wfp4|a4w4|afp4wfp4)\w*"
        ),
        _with_weight(0, 1, 2, 3, 4),
    ),
)
"""AITER's products by the bits of rows and weights, and what vLLM and SGLang call around them."""
