"""Elementwise ops: one operation for a function of one or two numbers.

A function counts as one operation, whatever it costs on a device, as in roofline tools; a
composition (``addcmul``: a product and a sum) counts each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from profframe.facts.formulas.dtypes import BOOL, FP32, INT64, Dtype
from profframe.facts.formulas.formula import (
    Count,
    Formula,
    broadcast,
    by_op,
    dense,
    elements,
    meet,
    none,
    read,
    size,
)
from profframe.facts.formulas.ops import Op, Tensor
from profframe.facts.formulas.unknowns import Unknown


def _operands(op: Op, places: Iterable[int]) -> list[Tensor]:
    tensors = [tensor for tensor in map(op.optional, places) if tensor is not None]
    if not tensors:
        raise Unknown
    return tensors


def _is_fraction(op: Op, place: int) -> bool:
    try:
        return type(op.value(place)) is float
    except Unknown:
        return False


def _pointwise(
    each: int, *places: int, result: Dtype | str = "meet", in_place: bool = False
) -> Formula:
    """``each`` operations per element of the broadcast shape of the arguments at these places.

    ``result`` is the type of the result: a type, ``"meet"`` for the promoted type, ``"float"`` if
    integers become floats, ``"values"`` if the first argument is a condition.
    """

    def count(op: Op) -> int:
        if in_place:
            return op.tensor(places[0]).count
        return math.prod(broadcast(t.shape for t in _operands(op, places)))

    def result_size(op: Op) -> int:
        if in_place:
            return op.tensor(places[0]).size
        if isinstance(result, Dtype):
            return result.size
        operands = _operands(op, places[1:] if result == "values" else places)
        dtype = meet(operands)
        is_float = result == "float" or any(_is_fraction(op, place) for place in places)
        return size(FP32 if is_float and dtype is not None and not dtype.floats else dtype)

    return Formula(
        lambda op: each * count(op), lambda op: read(op, *places) + count(op) * result_size(op)
    )


def _new_and_in_place(
    each: int, *places: int, result: Dtype | str = "meet"
) -> tuple[Formula, Formula]:
    """The op that returns a new tensor, and the one in place."""
    return _pointwise(each, *places, result=result), _pointwise(each, *places, in_place=True)


def _list_counts(each: int) -> Count:
    return lambda op: each * sum(tensor.count for tensor in op.tensors(0))


def _list_of(each: int, lists: int) -> Formula:
    """A ``foreach`` op: elementwise over lists of tensors, the first of which has the size.

    New results and results in place write the same number of bytes.
    """

    def bytes_(op: Op) -> int:
        total = dense(*op.tensors(0))
        for place in range(lists):
            total += read(op, place) if place and op.optional(place) else _list_bytes(op, place)
        return total

    return Formula(_list_counts(each), bytes_)


def _list_bytes(op: Op, place: int) -> int:
    """Bytes of a list of tensors; none for a number, or a list of numbers."""
    try:
        return sum(tensor.bytes for tensor in op.tensors(place))
    except Unknown:
        if place == 0:
            raise
        return 0


_FLOATS: Final = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh erf "
    "erfc erfinv sigmoid reciprocal digamma lgamma"
)
_SAME: Final = (
    "neg abs sign sgn ceil floor round trunc frac relu relu6 square silu gelu mish hardswish "
    "hardsigmoid hardtanh leaky_relu elu celu selu softplus softshrink hardshrink log_sigmoid "
    "bitwise_not nan_to_num threshold positive"
)
_PAIRS: Final = (
    "sub rsub mul floor_divide remainder fmod pow maximum minimum fmax fmin bitwise_and "
    "bitwise_or bitwise_xor __and__ __or__ __xor__ bitwise_left_shift bitwise_right_shift prelu "
    "_prelu_kernel add"
)
_GRADIENTS: Final = (
    "threshold gelu sigmoid tanh silu mish hardswish hardsigmoid hardtanh leaky_relu softplus "
    "log_sigmoid softshrink hardshrink logit native_dropout"
)

_BY_NAME: Final[Mapping[str, tuple[Formula, Formula]]] = MappingProxyType(
    {
        _FLOATS: _new_and_in_place(1, 0, result="float"),
        _SAME: _new_and_in_place(1, 0),
        "isnan isinf isfinite logical_not isneginf isposinf signbit": _new_and_in_place(
            1, 0, result=BOOL
        ),
        _PAIRS: _new_and_in_place(1, 0, 1),
        "div true_divide divide atan2 hypot": _new_and_in_place(1, 0, 1, result="float"),
        "eq ne lt le gt ge logical_and logical_or logical_xor": _new_and_in_place(
            1, 0, 1, result=BOOL
        ),
        "clamp": _new_and_in_place(2, 0, 1, 2),
        "clamp_min clamp_max": _new_and_in_place(1, 0, 1),
        "addcmul addcdiv": _new_and_in_place(2, 0, 1, 2),
        "lerp": _new_and_in_place(3, 0, 1, 2),
        "masked_fill": _new_and_in_place(0, 0, 1),
    }
)
"""Names without namespace; the op in place has an underscore at its end."""

_UNARY_LISTS: Final = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
_LISTS: Final[Mapping[str, Formula]] = MappingProxyType(
    {
        _UNARY_LISTS: _list_of(1, 1),
        "add sub mul div pow maximum minimum clamp_min clamp_max": _list_of(1, 2),
        "addcmul addcdiv": _list_of(2, 3),
        "lerp": _list_of(3, 3),
    }
)


def _list_copy(op: Op) -> int:
    """The first list is written, the second read."""
    return dense(*op.tensors(0)) + sum(tensor.bytes for tensor in op.tensors(1))


def _list_write(op: Op) -> int:
    return dense(*op.tensors(0))


def _list_norm(op: Op) -> int:
    return sum(tensor.bytes + tensor.size for tensor in op.tensors(0))


def _maybe(op: Op, place: int) -> tuple[Tensor, ...]:
    """A list that may be empty, or has no recorded shapes."""
    return op.tensors(place) if len(op.dims) > place and op.dims[place] else ()


def _optimizer(each: int, states: Iterable[int], *, decay: int | None = None) -> Formula:
    """Parameters and states are read and written, gradients are read.

    ``decay`` is the place of a weight decay that is added to the gradient, unless it is zero.
    """
    places = tuple(states)

    def flops(op: Op) -> int:
        decay_flops = 2 if decay is not None and op.value(decay) else 0
        maxima = sum(bool(_maybe(op, place)) for place in places[2:])  # amsgrad: a maximum
        return (each + decay_flops + maxima) * sum(tensor.count for tensor in op.tensors(0))

    def bytes_(op: Op) -> int:
        required, optional = (0, *places[:2]), places[2:]
        state_bytes = sum(dense(*op.tensors(place)) for place in required)
        state_bytes += sum(dense(*_maybe(op, place)) for place in optional)
        return 2 * state_bytes + sum(tensor.bytes for tensor in op.tensors(1))

    return Formula(flops, bytes_)


def _sgd_flops(op: Op) -> int:
    """The step, the buffer with momentum, and the addition to the gradient with weight decay."""
    each = 2 + 2 * bool(_maybe(op, 2)) + 2 * bool(op.value(3))
    return each * sum(tensor.count for tensor in op.tensors(0))


def _sgd_bytes(op: Op) -> int:
    state_bytes = dense(*op.tensors(0), *_maybe(op, 2))
    return 2 * state_bytes + sum(tensor.bytes for tensor in op.tensors(1))


def _dropout_bytes(op: Op) -> int:
    """Input, result, and a mask of one byte for each element."""
    source = op.tensor(0)
    return source.bytes + source.count * (source.size + BOOL.size)


def _loss_flops(op: Op) -> int:
    """Difference, square or absolute value, and their sum unless the reduction is none."""
    count = math.prod(broadcast((op.tensor(0).shape, op.tensor(1).shape)))
    return count * (3 if op.value(2) else 2)


def _loss_bytes(op: Op) -> int:
    count = math.prod(broadcast((op.tensor(0).shape, op.tensor(1).shape)))
    return read(op, 0, 1) + (1 if op.value(2) else count) * op.tensor(0).size


def _cumulative_bytes(op: Op) -> int:
    """Integers add up to int64."""
    source = op.tensor(0)
    dtype = source.dtype if source.dtype and source.dtype.floats else INT64
    return source.bytes + source.count * size(op.dtype(2, dtype))


ELEMENTS: Final = MappingProxyType(
    {
        **by_op({names: new for names, (new, _) in _BY_NAME.items()}),
        **by_op({names: in_place for names, (_, in_place) in _BY_NAME.items()}, "aten::{}_"),
        **by_op(_LISTS, "aten::_foreach_{}"),
        **by_op(_LISTS, "aten::_foreach_{}_"),
        **by_op({_GRADIENTS: _pointwise(1, 0, 1)}, "aten::{}_backward"),
        **by_op(
            {
                "elu_backward": _pointwise(1, 0, 5),
                "where": _pointwise(0, 0, 1, 2, result="values"),
                "native_dropout _fused_dropout": Formula(elements(0, 2), _dropout_bytes),
                "_masked_scale": _pointwise(2, 0, 1),
                "mse_loss l1_loss": Formula(_loss_flops, _loss_bytes),
                "mse_loss_backward": _pointwise(3, 0, 1, 2),
                "cumsum cumprod": Formula(elements(0), _cumulative_bytes),
                "_foreach_copy_": Formula(none, _list_copy),
                "_foreach_zero_": Formula(none, _list_write),
                "_foreach_norm": Formula(_list_counts(2), _list_norm),
                "_amp_foreach_non_finite_check_and_unscale_": Formula(
                    _list_counts(1), lambda op: 2 * _list_write(op)
                ),
                "_fused_adam_": _optimizer(13, (2, 3, 4), decay=9),
                "_fused_adamw_": _optimizer(14, (2, 3, 4)),
                "_fused_adagrad_": _optimizer(7, (2,), decay=6),
                "_fused_sgd_": Formula(_sgd_flops, _sgd_bytes),
            }
        ),
    }
)
"""Name of the op -> its formula.

Adam: 3 for the mean, 4 for the mean of squares, 3 for the root, 3 for the step; AdamW decays.
"""
