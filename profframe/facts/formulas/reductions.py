"""Sums, extremes and norms over dimensions, normalisation, softmax, pooling and losses.

A reduction counts one operation for each input element, or as many as its terms need
(a norm 2: square and add; a variance 4: mean, difference, square, add).
"""

from __future__ import annotations

import math
from typing import Any, Final

from profframe.facts.formulas.dtypes import BOOL, INT64, Dtype
from profframe.facts.formulas.elements import ELEMENTS
from profframe.facts.formulas.formula import (
    Formula,
    by_op,
    elements,
    like,
    moved,
    product,
    read,
    size,
)
from profframe.facts.formulas.ops import Op, Shape
from profframe.facts.formulas.unknowns import Unknown


def _remaining(shape: Shape, dims: Any) -> int:
    """Elements that remain after these dimensions are reduced; without any, all are reduced."""
    if dims is None or dims == []:
        return 1
    reduced = dims if isinstance(dims, (list, tuple)) else [dims]
    if not all(type(dim) is int and -len(shape) <= dim < len(shape) for dim in reduced):
        raise Unknown
    places = {dim % len(shape) for dim in reduced}
    return math.prod(n for i, n in enumerate(shape) if i not in places)


def _dims(op: Op, place: int) -> object:
    """Dimensions to reduce, as recorded; None is all of them.

    An overload may have no dimensions at that place; then it reduces everything.
    """
    if place >= len(op.dims):
        return None
    if place < len(op.types) and op.types[place] in {"", "None"}:
        return None
    return op.value(place)


def _reduction(
    each: int,
    *,
    dims: int = 1,
    dtype: int | None = None,
    result: Dtype | str = "sum",
    outputs: int = 1,
) -> Formula:
    """One result for each remaining place; ``result`` is its type.

    ``"sum"``: integers add up to int64; ``"same"``: the type of the input.
    """

    def bytes_(op: Op) -> int:
        source = op.tensor(0)
        output_type = source.dtype if isinstance(result, str) else result
        if result == "sum" and output_type is not None and not output_type.floats:
            output_type = INT64
        dims_, dtype_place = _dims(op, dims), dtype
        if result == "sum" and len(op.dims) == dims + 1:  # a sum over everything, in another type
            dims_, dtype_place = None, dims
        if dtype_place is not None:
            output_type = op.dtype(dtype_place, output_type)
        return source.bytes + _remaining(source.shape, dims_) * size(output_type) * outputs

    return Formula(elements(0, each), bytes_)


def _extreme(larger: str) -> Formula:
    """``max`` and ``min``: of everything, along a dimension with indices, or of two tensors."""
    reduction, pair = _reduction(1, result="same"), ELEMENTS[f"aten::{larger}imum"]

    def flops(op: Op) -> int:
        return (pair if op.optional(1) else reduction).flops(op)  # type: ignore[misc]

    def bytes_(op: Op) -> int:
        if op.optional(1):
            return pair.bytes(op)  # type: ignore[misc]
        dim = _dims(op, 1)
        places = 0 if dim is None else _remaining(op.tensor(0).shape, dim) * INT64.size
        return reduction.bytes(op) + places  # type: ignore[misc]

    return Formula(flops, bytes_)


def _norm(each: int, per_channel: tuple[int, ...], *others: int) -> Formula:
    """``each`` operations per element, and one more for weight and bias each."""

    def flops(op: Op) -> int:
        affine = sum(op.optional(place) is not None for place in per_channel)
        return (each + affine) * op.tensor(0).count

    return Formula(flops, moved((0, *per_channel, *others), like(0)))


def _batch_norm(training: int | bool, *running: int) -> Formula:
    """Statistics in training (3 operations), normalisation (2), weight and bias (1 each)."""

    def flops(op: Op) -> int:
        trains = training if isinstance(training, bool) else op.value(training)
        affine = sum(op.optional(place) is not None for place in (1, 2))
        return ((5 if trains else 2) + affine) * op.tensor(0).count

    return Formula(flops, moved((0, 1, 2, *running), like(0)))


def _norm_backward(each: int, image: int, weight: int, mask: int | None, *reads: int) -> Formula:
    """``each`` for the gradient of the input, 2 for that of the weight, 1 for that of the bias."""

    def gradients(op: Op) -> list[bool]:
        mask_value = op.value(mask) if mask is not None else [True] * 3
        if not isinstance(mask_value, list) or len(mask_value) not in {2, 3}:
            raise Unknown
        return [*map(bool, mask_value), False][:3]

    def flops(op: Op) -> int:
        of_input, of_weight, of_bias = gradients(op)
        return (each * of_input + 2 * of_weight + of_bias) * op.tensor(image).count

    def bytes_(op: Op) -> int:
        of_input, of_weight, of_bias = gradients(op)
        output_bytes = of_input * like(image)(op)
        if op.optional(weight) is not None:
            output_bytes += (of_weight + of_bias) * like(weight)(op)
        return read(op, *reads) + output_bytes

    return Formula(flops, bytes_)


def _softmax_bytes(op: Op) -> int:
    """The result is fp32 where a half is asked to become it."""
    source = op.tensor(0)
    try:
        wider = op.value(2) is True
    except Unknown:
        wider = False
    return source.bytes + source.count * (4 if wider else source.size)


def _softmax_backward_bytes(op: Op) -> int:
    output = op.tensor(1)
    return read(op, 0, 1) + output.count * size(op.dtype(3, output.dtype))


def _pool_sizes(op: Op, ndim: int) -> tuple[int, int]:
    """Output elements, and elements of a window."""
    source = op.tensor(0).shape
    window = op.ints(1, ndim)
    try:
        stride = op.ints(2, ndim)
    except Unknown:  # no stride: adjacent windows
        stride = window
    padding = op.ints(3, ndim)
    max_pool = "max" in op.name
    dilation = op.ints(4, ndim) if max_pool else (1,) * ndim
    ceil = op.value(5 if max_pool else 4) is True
    sizes = []
    for n, k, s, p, d in zip(source[-ndim:], window, stride, padding, dilation, strict=True):
        positions = n + 2 * p - d * (k - 1) - 1
        count = (positions + (s - 1 if ceil else 0)) // s + 1
        sizes.append(count - (ceil and (count - 1) * s >= n + p))
    if len(source) < ndim + 1 or min(sizes) < 0:
        raise Unknown
    return math.prod(source[:-ndim]) * math.prod(sizes), math.prod(window)


def _pool(ndim: int, place_bytes: int) -> Formula:
    """Each window is read once; indices of maxima are written as well."""

    def flops(op: Op) -> int:
        count, window = _pool_sizes(op, ndim)
        return count * window

    def bytes_(op: Op) -> int:
        source = op.tensor(0)
        return source.bytes + _pool_sizes(op, ndim)[0] * (source.size + place_bytes)

    return Formula(flops, bytes_)


def _pool_backward_flops(op: Op) -> int:
    """Each element of the gradient is added to each place of its window."""
    return op.tensor(0).count * product(op.ints(2, len(op.tensor(1).shape[-2:])))


def _average_bytes(op: Op) -> int:
    source = op.tensor(0)
    out = product(op.ints(1, 2)) * math.prod(source.shape[:-2])
    return source.bytes + out * source.size


def _resize(each: int) -> Formula:
    """``each`` operations per element of the resized image."""

    def count(op: Op) -> int:
        source = op.tensor(0).shape
        return math.prod(source[:2]) * product(op.ints(1, len(source) - 2))

    return Formula(
        lambda op: each * count(op),
        lambda op: op.tensor(0).bytes + count(op) * op.tensor(0).size,
    )


def _nll_bytes(op: Op) -> int:
    """One number of each row is read; the result is their mean, or one per row."""
    rows = op.tensor(1).count
    results = 1 if op.value(3) else rows
    return read(op, 1, 2) + (rows + results) * op.tensor(0).size


def _nll_backward_bytes(op: Op) -> int:
    """The whole gradient is written, though only one number of each row is not zero."""
    return read(op, 0, 2, 3) + like(1)(op)


REDUCTIONS: Final = by_op(
    {
        "sum nansum mean prod": _reduction(1, dtype=3),
        "amax amin": _reduction(1, result="same"),
        "logsumexp": _reduction(3, result="same"),
        "any all": _reduction(1, result=BOOL),
        "argmax argmin": _reduction(1, result=INT64),
        "max": _extreme("max"),
        "min": _extreme("min"),
        "std var": _reduction(4, result="same"),
        "std_mean var_mean": _reduction(4, result="same", outputs=2),
        "linalg_vector_norm norm": _reduction(2, dims=2, dtype=4, result="same"),
        "_softmax _log_softmax": Formula(elements(0, 5), _softmax_bytes),
        "_softmax_backward_data _log_softmax_backward_data": Formula(
            elements(1, 4), _softmax_backward_bytes
        ),
        "native_layer_norm": _norm(5, (2, 3)),
        "_fused_rms_norm": _norm(3, (2,)),
        "native_group_norm": _norm(5, (1, 2)),
        "native_batch_norm _native_batch_norm_legit cudnn_batch_norm miopen_batch_norm": (
            _batch_norm(5, 3, 4)
        ),
        "_native_batch_norm_legit_no_training": _batch_norm(False, 3, 4),
        "native_layer_norm_backward": _norm_backward(9, 1, 5, 7, 0, 1, 3, 4, 5, 6),
        "_fused_rms_norm_backward": _norm_backward(7, 1, 4, 5, 0, 1, 3, 4),
        "native_group_norm_backward": _norm_backward(9, 1, 4, 9, 0, 1, 2, 3, 4),
        "native_batch_norm_backward": _norm_backward(9, 1, 2, 9, 0, 1, 2, 3, 4, 5, 6),
        "cudnn_batch_norm_backward miopen_batch_norm_backward": _norm_backward(
            9, 0, 2, None, 0, 1, 2, 3, 4, 5, 6
        ),
        "max_pool2d_with_indices": _pool(2, INT64.size),
        "max_pool3d_with_indices": _pool(3, INT64.size),
        "avg_pool2d": _pool(2, 0),
        "avg_pool3d": _pool(3, 0),
        "avg_pool2d_backward": Formula(_pool_backward_flops, moved((0,), like(1))),
        "_adaptive_avg_pool2d": Formula(elements(0), _average_bytes),
        "_adaptive_avg_pool2d_backward": Formula(elements(1), moved((0,), like(1))),
        "max_pool2d_with_indices_backward max_pool3d_with_indices_backward": Formula(
            elements(0), moved((0, 7), like(1))
        ),
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d": _resize(0),
        "upsample_bilinear2d": _resize(7),
        "nll_loss_forward nll_loss2d_forward": Formula(elements(1), _nll_bytes),
        "nll_loss_backward nll_loss2d_backward": Formula(elements(2), _nll_backward_bytes),
    }
)
"""Name of the op -> its formula.

Softmax: maximum, difference, exponential, sum, quotient. Layer norm: mean, difference, square,
sum, product, and one each for weight and bias. RMS norm: square, sum, product. Bilinear: four
products, three sums. Bytes written for statistics of rows are not counted.
"""
