"""Kernels that Inductor has generated for Triton, by what it records with each launch.

Their arguments are tensors that are written and read (``in_out_ptr``), then those that are read,
then those that are written, then the numbers of elements along each axis, the last of a reduction.
Which tensor is which is not recorded, so each counts once; no more of it than a kernel has
elements, for it reads no more of a table. Where the last tensor has fewer elements than a result
has, none is only written: then the first is read and written, and counts twice. Without numbers of
elements, as several kernels in one have none, no more of each counts than of the last.

Templates (``triton_tem``) say in their names that they multiply matrices, convolve or attend. What
others compute their names do not tell: how often, and on how many elements.

Sources: PyTorch's ``torch/_inductor/codegen/triton.py``, ``codegen/simd.py``,
``runtime/triton_heuristics.py`` and ``kernel/*.py``; SageAttention in AITER's
``ops/triton/_triton_kernels/attention``.
"""

from __future__ import annotations

import math
import re
from typing import Final

from profframe.facts.formulas.attention import Sizes, heads_first, lengths_first
from profframe.facts.formulas.formula import Formula, everything
from profframe.facts.formulas.ops import Op, Tensor, Unknown

_KINDS: Final = re.compile(r"triton_(poi|red|per|spl)_")


def _elements(op: Op) -> list[int]:
    """Numbers of elements along each axis: the integers at the end of the arguments."""
    numbers: list[int] = []
    for place in range(len(op.dims) - 1, -1, -1):
        try:
            value = op.value(place)
        except Unknown:
            break
        if type(value) is not int or value < 0:
            break
        numbers.append(value)
    return numbers[::-1]


def _generated_bytes(op: Op) -> int:
    tensors, sizes = list(op.all_tensors()), _elements(op)
    if not tensors:
        raise Unknown
    if not sizes:  # they are in the code, as those of several kernels in one: no more than a result
        most = tensors[-1].count
        return sum(min(tensor.bytes, most * tensor.size) for tensor in tensors)
    total = math.prod(sizes)
    moved = [min(tensor.bytes, total * tensor.size) for tensor in tensors]
    is_reduction = _KINDS.match(op.name)[1] in {"red", "per"}  # type: ignore[index]
    results = sizes[-2] if is_reduction and len(sizes) > 1 else sizes[-1]
    in_place = len(tensors) > 1 and tensors[-1].count < results
    return sum(moved) + (moved[0] if in_place else 0)


def _factors(op: Op) -> tuple[Tensor, Tensor, Tensor]:
    first, second, *others = op.all_tensors()
    if not others:
        raise Unknown
    return first, second, others[-1]


def _product_flops(op: Op) -> int:
    """The first two are the factors, in batches or not, and the last is the product."""
    first, second, result = _factors(op)
    if len(first.shape) not in {2, 3} or len(first.shape) != len(second.shape):
        raise Unknown
    (rows, inner), (length, columns) = first.shape[-2:], second.shape[-2:]
    batch = math.prod(first.shape[:-2])
    if first.shape[:-2] != second.shape[:-2] or inner != length:
        raise Unknown
    if result.count != batch * rows * columns:
        raise Unknown
    return 2 * batch * rows * columns * inner


def _convolution_flops(op: Op) -> int:
    """Image, weight, and the image that comes out."""
    image, weight, result = _factors(op)
    fits = len(image.shape) == len(weight.shape) == len(result.shape) > 2
    if not fits or result.shape[:2] != (image.shape[0], weight.shape[0]):
        raise Unknown
    return 2 * result.count * math.prod(weight.shape[1:])


def _attention_flops(op: Op) -> int:
    """Queries, keys and values by heads; a mask of blocks leaves out nothing here."""
    if "backward" in op.name:
        raise Unknown
    return heads_first(op, (0, 1, 2)).forward


def _template_flops(op: Op) -> int:
    if "flex_attention" in op.name or "flex_decoding" in op.name:
        return _attention_flops(op)
    if "convolution" in op.name:
        return _convolution_flops(op)
    if "mm" in op.name:
        return _product_flops(op)
    raise Unknown


def _sage_sizes(op: Op) -> Sizes:
    """SageAttention: the scales of queries say which dimension is the heads."""
    query, scales = op.tensor(0), op.tensor(4)
    if len(query.shape) != 4 or len(scales.shape) != 3:
        raise Unknown
    by_heads = query.shape[1] == scales.shape[1]
    return (heads_first if by_heads else lengths_first)(op, (0, 1, 2))


TRITON_NAMES: Final = (
    (re.compile(r"triton_(?:poi|red|per|spl)_\w+"), Formula(None, _generated_bytes)),
    (re.compile(r"triton_for_\w+"), Formula(None, everything)),
    (re.compile(r"triton_(?:tem_|mm|bmm)\w*"), Formula(_template_flops, everything)),
    (re.compile(r"sage_(?:fwd|attn_fwd)\w*"), Formula(lambda op: _sage_sizes(op).forward,
                                                      everything)),
    (re.compile(r"sage_quant\w*"), Formula(None, everything)),
)  # fmt: skip
"""Patterns of names, with their formulas."""
