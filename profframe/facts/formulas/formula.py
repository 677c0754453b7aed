"""Formulas, and their building blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import TypeAlias

from profframe.facts.formulas.dtypes import BF16, FP16, FP32, Dtype
from profframe.facts.formulas.ops import Op, Shape, Tensor
from profframe.facts.formulas.unknowns import Unknown

Count: TypeAlias = Callable[[Op], int]
"""Takes a call of an op and returns a number, or raises `Unknown`."""


@dataclass(frozen=True, slots=True)
class Formula:
    """How much work an op does.

    Attributes
    ----------
    flops : callable, optional
        Floating-point operations of a call; None if unknown.
    bytes : callable, optional
        Minimum bytes that a call reads and writes: each input and each output once.
    dtype : callable, optional
        Data type that it computes in; that of its first floating-point tensor if None.
    inside : tuple of str
        Names of the ops inside a call that the formula looks at, as ``op.inside``.

    Examples
    --------
    >>> twice = Formula(
    ...     flops=lambda op: 2 * op.tensor(0).count, bytes=moved(reads=(0,), writes=like(0))
    ... )
    >>> op = Op("my::op", [[3, 4]], ["c10::Half"])
    >>> twice.flops(op), twice.bytes(op)
    (24, 48)
    """

    flops: Count | None = None
    bytes: Count | None = None
    dtype: Callable[[Op], Dtype | None] | None = None
    inside: tuple[str, ...] = ()


def by_op(
    formulas: Mapping[str, Formula], form: str = "aten::{}"
) -> MappingProxyType[str, Formula]:
    """Formulas by the full names of ops, in this form, from short names separated by spaces."""
    return MappingProxyType(
        {
            form.format(name): formula
            for names, formula in formulas.items()
            for name in names.split()
        }
    )


def none(_: Op) -> int:
    """No floating-point operations: the op only moves data."""
    return 0


def read(op: Op, *places: int) -> int:
    """Bytes of the tensors at these places; missing optional ones have none."""
    return sum(tensor.bytes for tensor in map(op.optional, places) if tensor is not None)


def moved(reads: Iterable[int], writes: Count) -> Count:
    """Bytes of the arguments that are read, the first of which is required, and of writes."""
    first, *others = reads
    return lambda op: op.tensor(first).bytes + read(op, *others) + writes(op)


def once(*places: int) -> Count:
    """Bytes of the tensors at these places, of which the first is required, each moved once."""
    return lambda op: op.tensor(places[0]).bytes + read(op, *places[1:])


def everything(op: Op) -> int:
    """Bytes of all tensors, at least one, each moved once."""
    sizes = [tensor.bytes for tensor in op.all_tensors()]
    if not sizes:
        raise Unknown
    return sum(sizes)


def like(place: int) -> Count:
    """Bytes of a new dense tensor with the shape and type of that argument."""
    return lambda op: dense(op.tensor(place))


def dense(*tensors: Tensor) -> int:
    """Bytes of these tensors without expanded dimensions."""
    return sum(tensor.count * tensor.size for tensor in tensors)


def elements(place: int, each: int = 1) -> Count:
    """A number of operations for each element of that argument."""
    return lambda op: each * op.tensor(place).count


def size(dtype: Dtype | None) -> int:
    """Bytes of an element; raises Unknown without a type."""
    if dtype is None:
        raise Unknown
    return dtype.size


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """The common broadcast shape; raises Unknown if shapes do not fit."""
    result = []
    for sizes in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        lengths = {n for n in sizes if n != 1}
        if len(lengths) > 1:
            raise Unknown
        result.append(lengths.pop() if lengths else 1)
    return tuple(result[::-1])


def meet(tensors: Iterable[Tensor]) -> Dtype | None:
    """The promoted type: a single number counts only if its kind is higher."""
    candidates = [(tensor.dtype, bool(tensor.shape)) for tensor in tensors]
    dtypes = [(dtype, shaped) for dtype, shaped in candidates if dtype is not None]
    if not dtypes or len(dtypes) < len(candidates):
        return None
    best, shaped = max(dtypes, key=lambda pair: (pair[0].rank, pair[1], pair[0].size))
    equals = {dtype for dtype, other in dtypes if other == shaped and dtype.rank == best.rank}
    return FP32 if equals >= {FP16, BF16} and best.size == FP16.size else best


def product(numbers: Iterable[int]) -> int:
    """Product of sizes; raises Unknown if one is negative."""
    numbers = tuple(numbers)
    if any(n < 0 for n in numbers):
        raise Unknown
    return math.prod(numbers)
