"""Products of matrices: two operations, a multiplication and an addition, for each term."""

from __future__ import annotations

import math
from typing import Final

from profframe.facts.formulas.dtypes import INT32, Dtype
from profframe.facts.formulas.formula import (
    Count,
    Formula,
    broadcast,
    by_op,
    like,
    meet,
    read,
    size,
)
from profframe.facts.formulas.ops import Op, Shape, Tensor
from profframe.facts.formulas.unknowns import Unknown


def _product(first: Shape, second: Shape) -> tuple[Shape, int]:
    """Shape of the product of two tensors as in `torch.matmul`, and the length of its sums."""
    if not first or not second:
        raise Unknown
    rows, columns = first[-2:-1], second[-1:] if len(second) > 1 else ()
    inner = second[-2] if len(second) > 1 else second[0]
    if first[-1] != inner:
        raise Unknown
    return (*broadcast((first[:-2], second[:-2])), *rows, *columns), inner


def _flops(first: int, second: int, *, ndim: int | None = None) -> Count:
    def count(op: Op) -> int:
        shapes = op.tensor(first).shape, op.tensor(second).shape
        if ndim is not None and {len(shape) for shape in shapes} != {ndim}:
            raise Unknown
        result, inner = _product(*shapes)
        return 2 * math.prod(result) * inner

    return count


def _bytes(
    first: int, second: int, *added: int, dtype: int | None = None, result: Dtype | None = None
) -> Count:
    """Factors and added tensors are read; the product has their promoted type or the given one."""

    def count(op: Op) -> int:
        factors = op.tensor(first), op.tensor(second)
        shape, _ = _product(factors[0].shape, factors[1].shape)
        result_type = result or meet(factors)
        if dtype is not None:
            result_type = op.dtype(dtype, result_type)
        return read(op, first, second, *added) + math.prod(shape) * size(result_type)

    return count


def _matmul(first: int = 0, second: int = 1, *added: int, ndim: int | None = None) -> Formula:
    return Formula(_flops(first, second, ndim=ndim), _bytes(first, second, *added))


def _transposed(weight: Tensor) -> Tensor:
    """The transposed weight of a linear layer, which has a row for each output."""
    if len(weight.shape) not in {1, 2}:
        raise Unknown
    return Tensor(weight.shape[::-1], weight.dtype)


def _linear_flops(op: Op) -> int:
    shape, inner = _product(op.tensor(0).shape, _transposed(op.tensor(1)).shape)
    return 2 * math.prod(shape) * inner


def _linear_bytes(op: Op) -> int:
    shape, _ = _product(op.tensor(0).shape, _transposed(op.tensor(1)).shape)
    return read(op, 0, 1, 2) + math.prod(shape) * op.tensor(0).size


def _linear_backward_flops(op: Op) -> int:
    """One product for the gradient of the input, one for that of the weight, by the mask."""
    gradient, weight = op.tensor(1), op.tensor(2)
    mask = op.value(3)
    return 2 * gradient.count * weight.shape[-1] * sum(map(bool, mask[:2]))


def _linear_backward_bytes(op: Op) -> int:
    of_input, of_weight, of_bias = op.value(3)
    bias = op.tensor(2).shape[0] * op.tensor(2).size
    output_bytes = of_input * like(0)(op) + of_weight * like(2)(op) + of_bias * bias
    return read(op, 0, 1, 2) + int(output_bytes)


def _addbmm_bytes(op: Op) -> int:
    shape, _ = _product(op.tensor(1).shape, op.tensor(2).shape)
    return read(op, 0, 1, 2) + math.prod(shape[1:]) * op.tensor(1).size


def _grouped_shape(op: Op, offsets: int) -> tuple[Shape, int]:
    """Shape of the result, and the number of terms in all its sums, by groups."""
    first, second = op.tensor(0).shape, op.tensor(1).shape
    groups = op.optional(offsets)
    if len(first) == 2 and len(second) == 3:  # each row belongs to one group
        return (first[0], second[2]), first[0] * first[1] * second[2]
    if len(first) == 3 and len(second) == 2:  # each column does
        return (first[1], second[1]), first[1] * first[2] * second[1]
    if len(first) == len(second) == 2 and groups is not None:  # each term of the sums does
        return (groups.count, first[0], second[1]), first[0] * first[1] * second[1]
    if len(first) == len(second) == 3:
        shape, inner = _product(first, second)
        return shape, math.prod(shape) * inner
    raise Unknown


def _grouped(offsets: int, dtype: int, *others: int) -> Formula:
    def bytes_(op: Op) -> int:
        shape, _ = _grouped_shape(op, offsets)
        result_type: Dtype | None = op.dtype(dtype, op.tensor(0).dtype)
        return read(op, 0, 1, offsets, *others) + math.prod(shape) * size(result_type)

    return Formula(lambda op: 2 * _grouped_shape(op, offsets)[1], bytes_)


def _int4_flops(op: Op) -> int:
    """The weight is packed: each row of its first dimension holds eight outputs."""
    rows, inner = op.tensor(0).shape
    return 2 * rows * inner * op.tensor(1).shape[0] * 8


def _int4_bytes(op: Op) -> int:
    rows = op.tensor(0).shape[0]
    return read(op, 0, 1, 3) + rows * op.tensor(1).shape[0] * 8 * op.tensor(0).size


MATRICES: Final = by_op(
    {
        "mm": _matmul(ndim=2),
        "_int_mm": Formula(_flops(0, 1, ndim=2), _bytes(0, 1, result=INT32)),
        "addmm addmm_ _addmm_activation": _matmul(1, 2, 0, ndim=2),
        "bmm": _matmul(ndim=3),
        "baddbmm baddbmm_": _matmul(1, 2, 0, ndim=3),
        "addbmm": Formula(_flops(1, 2, ndim=3), _addbmm_bytes),
        "matmul mv dot vdot": _matmul(),
        "addmv addmv_": _matmul(1, 2, 0),
        "linear _linear mkldnn_linear _weight_int8pack_mm": Formula(_linear_flops, _linear_bytes),
        "linear_backward": Formula(_linear_backward_flops, _linear_backward_bytes),
        "_scaled_mm": Formula(_flops(0, 1, ndim=2), _bytes(0, 1, 2, 3, 4, 5, dtype=6)),
        "_scaled_mm_v2": Formula(_flops(0, 1, ndim=2)),
        "_grouped_mm": _grouped(2, 4, 3),
        "_scaled_grouped_mm": _grouped(4, 7, 2, 3, 5, 6),
        "_weight_int4pack_mm": Formula(_int4_flops, _int4_bytes),
    }
)
"""Name of the op -> its formula; ``torch.utils.flop_counter`` has the same numbers."""
