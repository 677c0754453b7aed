"""Scaled dot-product attention: a product for the scores and one for the values.

Softmax, mask and dropout are not counted, and a causal mask does not halve the work, as in
``torch.utils.flop_counter``. Only outputs of the size of the inputs count as written, not the sums
of rows and the state of dropout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from profframe.facts.formulas.formula import Count, Formula, broadcast, by_op, dense, read
from profframe.facts.formulas.ops import Op, Shape
from profframe.facts.formulas.unknowns import Unknown


class Sizes(NamedTuple):
    """Sizes of one attention: batch times heads of the queries, lengths, and widths of a head."""

    heads: int
    queries: int
    keys: int
    width: int
    value_width: int

    @property
    def forward(self) -> int:
        """Scores, then the sum of values."""
        return 2 * self.heads * self.queries * self.keys * (self.width + self.value_width)

    @property
    def backward(self) -> int:
        """Scores again, then the gradients of scores and values, of queries and of keys."""
        per_pair = 3 * self.width + 2 * self.value_width
        return 2 * self.heads * self.queries * self.keys * per_pair


Layout: TypeAlias = Callable[[Op, Iterable[int]], Sizes]
"""Reads the sizes of the queries, keys and values at three places."""


def _shapes(op: Op, places: Iterable[int]) -> tuple[Shape, Shape, Shape]:
    query, key, value = (op.tensor(place).shape for place in places)
    return query, key, value


def heads_first(op: Op, places: Iterable[int]) -> Sizes:
    """``(batch, heads, length, width)``; a key's head may serve several heads of queries."""
    query, key, value = _shapes(op, places)
    if min(map(len, (query, key, value))) < 2 or query[-1] != key[-1] or key[-2] != value[-2]:
        raise Unknown
    return Sizes(_heads(query[:-2], key[:-2], value[:-2]), query[-2], key[-2], key[-1], value[-1])


def lengths_first(op: Op, places: Iterable[int]) -> Sizes:
    """``(batch, length, heads, width)``, as in the package flash-attn."""
    query, key, value = _shapes(op, places)
    if {len(query), len(key), len(value)} != {4} or query[-1] != key[-1] or key[1] != value[1]:
        raise Unknown
    of_query, of_key, of_value = ((shape[0], shape[2]) for shape in (query, key, value))
    return Sizes(_heads(of_query, of_key, of_value), query[1], key[1], key[-1], value[-1])


def _heads(query: Shape, key: Shape, value: Shape) -> int:
    """Number of attentions: heads of keys and values are repeated for those of queries."""
    if not (query and key and value):
        return math.prod(broadcast((query, key, value)))
    heads = max(query[-1], key[-1], value[-1])
    if any(not shape[-1] or heads % shape[-1] for shape in (query, key, value)):
        raise Unknown
    return math.prod(broadcast((query[:-1], key[:-1], value[:-1]))) * heads


def packed(cumulative: int, longest: int, inner: Layout) -> Layout:
    """Concatenated sequences of several lengths, if there are cumulative lengths.

    Only their number and the longest length are recorded, so all count as the longest, as in
    ``torch.utils.flop_counter`` without lengths.
    """

    def sizes(op: Op, places: Iterable[int]) -> Sizes:
        ends = op.optional(cumulative)
        if ends is None:
            return inner(op, places)
        query, key, value = _shapes(op, places)
        if min(map(len, (query, key, value))) < 3 or ends.count < 1:
            raise Unknown
        if query[-1] != key[-1] or key[-3] != value[-3]:
            raise Unknown
        (queries,), (keys,) = op.ints(longest, 1), op.ints(longest + 1, 1)
        if min(queries, keys) < 0:  # -1 means not known
            raise Unknown
        heads = _heads((query[-2],), (key[-2],), (value[-2],))
        return Sizes((ends.count - 1) * heads, queries, keys, key[-1], value[-1])

    return sizes


def _forward(*others: int, layout: Layout = heads_first, first: int = 0) -> Formula:
    """The output has the shape of the queries, with the width of the values."""
    inputs = tuple(range(first, first + 3))

    def bytes_(op: Op) -> int:
        query, _, value = map(op.tensor, inputs)
        output_bytes = math.prod(query.shape[:-1]) * value.shape[-1] * query.size
        return read(op, *inputs, *others) + output_bytes

    return Formula(lambda op: layout(op, inputs).forward, bytes_)


def _backward(*others: int, layout: Layout = heads_first, first: int = 1) -> Formula:
    """The gradients have the shapes of queries, keys and values."""
    inputs = tuple(range(first, first + 3))

    def bytes_(op: Op) -> int:
        return read(op, *inputs, *others) + dense(*map(op.tensor, inputs))

    return Formula(lambda op: layout(op, inputs).backward, bytes_)


def _flops_only(layout: Layout, count: str) -> Count:
    return lambda op: int(getattr(layout(op, (0, 1, 2)), count))


_FLASH: Final = packed(3, 5, lengths_first)
_EFFICIENT: Final = packed(4, 6, heads_first)
_FLASH_BACKWARD: Final = packed(6, 8, lengths_first)
_EFFICIENT_BACKWARD: Final = packed(6, 8, heads_first)

_ATEN: Final = by_op(
    {
        "scaled_dot_product_attention _scaled_dot_product_attention_math"
        " _scaled_dot_product_attention_math_for_mps _scaled_dot_product_efficient_attention"
        " _scaled_dot_product_cudnn_attention"
        " _scaled_dot_product_fused_attention_overrideable": _forward(3),
        "_scaled_dot_product_flash_attention": _forward(),
        "_scaled_dot_product_flash_attention_for_cpu": _forward(5),
        "_scaled_dot_product_flash_attention_backward": _backward(0, 4, 5),
        "_scaled_dot_product_efficient_attention_backward": _backward(0, 4, 5, 6),
        "_scaled_dot_product_cudnn_attention_backward"
        " _scaled_dot_product_flash_attention_for_cpu_backward": _backward(0, 4, 5, 8),
        "_scaled_dot_product_fused_attention_overrideable_backward": _backward(0, 4, 6, 7),
        "_flash_attention_forward": _forward(layout=_FLASH),
        "_efficient_attention_forward": _forward(3, layout=_EFFICIENT),
        "_flash_attention_backward": _backward(0, 4, 5, layout=_FLASH_BACKWARD),
        "_efficient_attention_backward": _backward(0, 4, 5, 10, layout=_EFFICIENT_BACKWARD),
    }
)
_OTHERS: Final = by_op(
    {
        "flex_attention": Formula(_flops_only(heads_first, "forward")),
        "flex_attention_backward": Formula(_flops_only(heads_first, "backward")),
        "flash_attn::_flash_attn_forward FlashAttnFunc aiter::mha_fwd aiter::fmha_v3_fwd"
        " aiter::_flash_attn_forward": _forward(layout=lengths_first),
        "aiter::wrapper_fmha_v3_fwd": _forward(layout=lengths_first, first=1),
        "flash_attn::_flash_attn_backward aiter::mha_bwd aiter::fmha_v3_bwd"
        " aiter::_flash_attn_backward aiter::wrapper_fmha_v3_bwd": _backward(
            0, 4, 5, layout=lengths_first
        ),
    },
    "{}",
)
ATTENTION: Final = MappingProxyType(_ATEN | _OTHERS)
"""Name of the op -> its formula."""
