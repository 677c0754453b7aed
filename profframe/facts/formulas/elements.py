"""Elementwise ops: one operation for a function of one or two numbers.

A function counts as one whatever it costs a device, as in roofline tools; a composition
(``addcmul``: a product and a sum) counts each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from profframe.facts.formulas.dtypes import BOOL, FP32, INT64, Dtype
from profframe.facts.formulas.formula import Count, Formula, broadcast, elements, meet, read, size
from profframe.facts.formulas.ops import Op, Tensor, Unknown


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
    return (
        _pointwise(each, *places, result=result),
        _pointwise(each, *places, in_place=True),
    )


def _list_of(each: int, lists: int) -> Formula:
    """The same for lists of tensors, the first of which has the number of elements.

    New results and results in place write the same number of bytes.
    """

    def flops(op: Op) -> int:
        return each * sum(tensor.count for tensor in op.tensors(0))

    def bytes_(op: Op) -> int:
        total = sum(tensor.count * tensor.size for tensor in op.tensors(0))
        for place in range(lists):
            total += read(op, place) if place and op.optional(place) else _list_bytes(op, place)
        return total

    return Formula(flops, bytes_)


def _list_bytes(op: Op, place: int) -> int:
    """Bytes of a list of tensors; none for a number, or a list of numbers."""
    try:
        return sum(tensor.bytes for tensor in op.tensors(place))
    except Unknown:
        if place == 0:
            raise
        return 0


_FLOATS: Final = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "erfinv", "sigmoid",
    "reciprocal", "digamma", "lgamma",
)  # fmt: skip
_SAME: Final = (
    "neg", "abs", "sign", "sgn", "ceil", "floor", "round", "trunc", "frac", "relu", "relu6",
    "square", "silu", "gelu", "mish", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "elu",
    "celu", "selu", "softplus", "softshrink", "hardshrink", "log_sigmoid", "bitwise_not",
    "nan_to_num", "threshold", "positive",
)  # fmt: skip
_PREDICATES: Final = (
    "isnan", "isinf", "isfinite", "logical_not", "isneginf", "isposinf", "signbit",
)  # fmt: skip
_PAIRS: Final = (
    "sub", "rsub", "mul", "floor_divide", "remainder", "fmod", "pow", "maximum", "minimum",
    "fmax", "fmin", "bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__",
    "bitwise_left_shift", "bitwise_right_shift", "prelu", "_prelu_kernel",
)  # fmt: skip
_FLOAT_PAIRS: Final = (
    "div", "true_divide", "divide", "atan2", "hypot",
)  # fmt: skip
_COMPARISONS: Final = (
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
_GRADIENTS: Final = (
    "threshold", "gelu", "sigmoid", "tanh", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh",
    "leaky_relu", "softplus", "log_sigmoid", "softshrink", "hardshrink", "logit", "native_dropout",
)  # fmt: skip

_BY_NAME: Final[Mapping[str, tuple[Formula, Formula]]] = MappingProxyType(
    {
        **dict.fromkeys(_FLOATS, _new_and_in_place(1, 0, result="float")),
        **dict.fromkeys(_SAME, _new_and_in_place(1, 0)),
        **dict.fromkeys(_PREDICATES, _new_and_in_place(1, 0, result=BOOL)),
        **dict.fromkeys((*_PAIRS, "add"), _new_and_in_place(1, 0, 1)),
        **dict.fromkeys(_FLOAT_PAIRS, _new_and_in_place(1, 0, 1, result="float")),
        **dict.fromkeys(_COMPARISONS, _new_and_in_place(1, 0, 1, result=BOOL)),
        "clamp": _new_and_in_place(2, 0, 1, 2),
        **dict.fromkeys(("clamp_min", "clamp_max"), _new_and_in_place(1, 0, 1)),
        **dict.fromkeys(("addcmul", "addcdiv"), _new_and_in_place(2, 0, 1, 2)),
        "lerp": _new_and_in_place(3, 0, 1, 2),
        "masked_fill": (_pointwise(0, 0, 1), _pointwise(0, 0, 1, in_place=True)),
    }
)
"""Names without namespace; the op in place has an underscore at its end."""

_UNARY_LISTS: Final = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor",
    "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_PAIRED_LISTS: Final = (
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max",
)  # fmt: skip
_LISTS: Final[Mapping[str, Formula]] = MappingProxyType(
    {
        **dict.fromkeys(_UNARY_LISTS, _list_of(1, 1)),
        **dict.fromkeys(_PAIRED_LISTS, _list_of(1, 2)),
        **dict.fromkeys(("addcmul", "addcdiv"), _list_of(2, 3)),
        "lerp": _list_of(3, 3),
    }
)


def _list_copy(op: Op) -> int:
    """The first list is written, the second read."""
    output_bytes = sum(tensor.count * tensor.size for tensor in op.tensors(0))
    return output_bytes + sum(tensor.bytes for tensor in op.tensors(1))


def _list_write(op: Op) -> int:
    return sum(tensor.count * tensor.size for tensor in op.tensors(0))


def _list_norm(op: Op) -> int:
    return sum(tensor.bytes + tensor.size for tensor in op.tensors(0))


def _list_counts(place: int, each: int) -> Count:
    return lambda op: each * sum(tensor.count for tensor in op.tensors(place))


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
        state_bytes = sum(t.count * t.size for place in required for t in op.tensors(place))
        state_bytes += sum(t.count * t.size for place in optional for t in _maybe(op, place))
        return 2 * state_bytes + sum(tensor.bytes for tensor in op.tensors(1))

    return Formula(flops, bytes_)


def _sgd_flops(op: Op) -> int:
    """The step, the buffer with momentum, and the addition to the gradient with weight decay."""
    each = 2 + 2 * bool(_maybe(op, 2)) + 2 * bool(op.value(3))
    return each * sum(tensor.count for tensor in op.tensors(0))


def _sgd_bytes(op: Op) -> int:
    state_bytes = sum(t.count * t.size for t in (*op.tensors(0), *_maybe(op, 2)))
    return 2 * state_bytes + sum(tensor.bytes for tensor in op.tensors(1))


_OPTIMIZERS: Final = {
    "aten::_fused_adam_": _optimizer(13, (2, 3, 4), decay=9),
    "aten::_fused_adamw_": _optimizer(14, (2, 3, 4)),
    "aten::_fused_adagrad_": _optimizer(7, (2,), decay=6),
    "aten::_fused_sgd_": Formula(_sgd_flops, _sgd_bytes),
}
"""Adam: 3 for the mean, 4 for the mean of squares, 3 for the root, 3 for the step; AdamW decays."""


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


_CUMULATIVE: Final = Formula(elements(0), _cumulative_bytes)

ELEMENTS: Final = MappingProxyType(
    {
        **{f"aten::{name}": new for name, (new, _) in _BY_NAME.items()},
        **{f"aten::{name}_": in_place for name, (_, in_place) in _BY_NAME.items()},
        **{f"aten::_foreach_{name}": formula for name, formula in _LISTS.items()},
        **{f"aten::_foreach_{name}_": formula for name, formula in _LISTS.items()},
        **dict.fromkeys((f"aten::{name}_backward" for name in _GRADIENTS), _pointwise(1, 0, 1)),
        "aten::elu_backward": _pointwise(1, 0, 5),
        "aten::where": _pointwise(0, 0, 1, 2, result="values"),
        **dict.fromkeys(
            ("aten::native_dropout", "aten::_fused_dropout"),
            Formula(elements(0, 2), _dropout_bytes),
        ),
        "aten::_masked_scale": _pointwise(2, 0, 1),
        **dict.fromkeys(("aten::mse_loss", "aten::l1_loss"), Formula(_loss_flops, _loss_bytes)),
        "aten::mse_loss_backward": _pointwise(3, 0, 1, 2),
        **dict.fromkeys(("aten::cumsum", "aten::cumprod"), _CUMULATIVE),
        "aten::_foreach_copy_": Formula(lambda _: 0, _list_copy),
        "aten::_foreach_zero_": Formula(lambda _: 0, _list_write),
        "aten::_foreach_norm": Formula(_list_counts(0, 2), _list_norm),
        "aten::_amp_foreach_non_finite_check_and_unscale_": Formula(
            _list_counts(0, 1), lambda op: 2 * _list_write(op)
        ),
        **_OPTIMIZERS,
    }
)
"""Name of the op -> its formula."""
