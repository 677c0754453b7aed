"""A recorded call of an op: its tensors and the values of its other arguments."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from profframe.facts.formulas.dtypes import DTYPES, SCALAR_TYPES, Dtype
from profframe.facts.formulas.sequence_lengths import BatchLengths
from profframe.facts.formulas.unknowns import Unknown

Shape = tuple[int, ...]

_LONGEST: Final = 100_000
"""Characters of the longest value that is parsed."""
_MOST_DIGITS: Final = 1000
"""Digits of a size; Python refuses more than some thousands."""
_BOOLEANS: Final = MappingProxyType({"True": True, "False": False})
_LIST: Final = "TensorList"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument.

    Attributes
    ----------
    shape : tuple of int
        Its sizes.
    dtype : Dtype, optional
        None if it was not recorded, or is unknown.
    strides : tuple of int, optional
        None if they were not recorded.

    Examples
    --------
    >>> expanded = Tensor((4, 3), DTYPES["float"], (0, 1))
    >>> expanded.count, expanded.bytes
    (12, 12)
    """

    shape: Shape
    dtype: Dtype | None = None
    strides: Shape | None = None

    @property
    def count(self) -> int:
        """Number of its elements."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes of one element."""
        if self.dtype is None:
            raise Unknown
        return self.dtype.size

    @property
    def bytes(self) -> int:
        """Bytes to read it once: expanded dimensions count once."""
        strides = self.strides
        if strides is None or 0 not in strides or len(strides) != len(self.shape):
            return self.count * self.size
        if not self.count:
            return 0
        stored = (n for n, stride in zip(self.shape, strides, strict=True) if stride)
        return math.prod(stored) * self.size


@dataclass(frozen=True, slots=True)
class Op:
    """A call of an op. Arguments are accessed by their places in the op's schema.

    Attributes
    ----------
    name : str
        Name of the op.
    dims, types, strides, values : list
        Recorded values, with one entry per argument; empty if not recorded.
    list_dtype : Dtype, optional
        Type of the tensors in lists, which no profiler records.
    inside : sequence of Op
        Calls inside this one that the formula asks for, in their order.
    batch : BatchLengths, optional
        Lengths of the sequences in the step of a server that the call is in, if it says them.

    Examples
    --------
    >>> op = Op("aten::mm", [[8, 16], [16, 4]], ["float", "float"])
    >>> op.tensor(1).shape, op.tensor(1).bytes, op.optional(2)
    ((16, 4), 256, None)
    """

    name: str
    dims: Sequence[Any]
    types: Sequence[Any] = field(default=())
    strides: Sequence[Any] = field(default=())
    values: Sequence[Any] = field(default=())
    list_dtype: Dtype | None = None
    inside: Sequence[Op] = field(default=())
    batch: BatchLengths | None = None
    _tensors: dict[int, Tensor | None] = field(default_factory=dict, repr=False, compare=False)

    def tensor(self, place: int) -> Tensor:
        """The tensor at a place; raises Unknown without one."""
        tensor = self.optional(place)
        if tensor is None:
            raise Unknown
        return tensor

    def optional(self, place: int) -> Tensor | None:
        """The tensor at a place, or None."""
        if place not in self._tensors:  # formulas use a tensor several times
            self._tensors[place] = self._tensor(place)
        return self._tensors[place]

    def all_tensors(self) -> Iterator[Tensor]:
        """Every tensor that is an argument by itself, in their order."""
        return (tensor for tensor in map(self.optional, range(len(self.dims))) if tensor)

    def _tensor(self, place: int) -> Tensor | None:
        dims, word = _at(self.dims, place), _at(self.types, place)
        if dims is None or word == _LIST or (not dims and str(word) not in DTYPES):
            return None  # numbers and 0-d tensors both have no dims: types tell
        return Tensor(_shape(dims), DTYPES.get(str(word)), _maybe_shape(_at(self.strides, place)))

    def tensors(self, place: int) -> tuple[Tensor, ...]:
        """The tensors of the list at a place; raises Unknown without one.

        Lists without shapes are unknown: until 2022 torch recorded no shapes of lists.
        """
        dims, strides = _at(self.dims, place), _at(self.strides, place)
        if not isinstance(dims, list) or not dims or _at(self.types, place) not in {_LIST, None}:
            raise Unknown
        if not isinstance(strides, list) or len(strides) != len(dims):
            strides = [None] * len(dims)
        return tuple(
            Tensor(_shape(shape), self.list_dtype, _maybe_shape(stride))
            for shape, stride in zip(dims, strides, strict=True)
        )

    def value(self, place: int) -> Any:
        """The number, boolean or list of them at a place; raises Unknown without one."""
        text = _at(self.values, place)
        if not isinstance(text, str):
            if text is None or text == []:
                raise Unknown
            return text
        if not text:
            raise Unknown
        return _parsed(text)

    def ints(self, place: int, count: int) -> Shape:
        """The list of ``count`` integers at a place; a single number stands for all."""
        value = self.value(place)
        numbers = tuple(value) if isinstance(value, list) else (value,)
        if not all(type(number) is int for number in numbers):
            raise Unknown
        if len(numbers) == 1:
            numbers *= count
        if len(numbers) != count:
            raise Unknown
        return numbers

    def dtype(self, place: int, default: Dtype | None) -> Dtype | None:
        """The ``dtype`` argument at a place, or the default if it is None."""
        try:
            return SCALAR_TYPES.get(self.value(place))
        except (Unknown, TypeError):
            return default

    @property
    def work_dtype(self) -> Dtype | None:
        """Type of the first floating-point tensor, else of the first tensor.

        0-d tensors count only if there is no other.
        """
        best, best_rank = None, -1
        for word, dims in zip(self.types, self.dims, strict=False):
            dtype = DTYPES.get(word) if isinstance(word, str) else None
            if dtype is not None and (rank := 2 * dtype.floats + bool(dims)) > best_rank:
                best, best_rank = dtype, rank
        if best is None and _LIST in self.types:
            return self.list_dtype
        return best


def _at(items: Sequence[Any], place: int) -> Any:
    return items[place] if 0 <= place < len(items) else None


def _shape(dims: object) -> Shape:
    if not isinstance(dims, list) or not {*map(type, dims)} <= {int} or min(dims, default=0) < 0:
        raise Unknown
    return tuple(dims)


def _maybe_shape(strides: object) -> Shape | None:
    if not isinstance(strides, list) or not {*map(type, strides)} <= {int}:
        return None
    return tuple(strides)


def _parsed(text: str) -> Any:
    """A Python value as a profiler writes it: ``[1, 1]``, ``True``, ``0.``, ``same``."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if len(text) > _LONGEST:
        raise Unknown
    try:
        return json.loads(text)  # most are numbers and lists of them, as in JSON
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def parsed(text: str | None) -> list[Any]:
    """Entries of a column of inputs; none if nothing was recorded.

    Examples
    --------
    >>> parsed('[[8,16],[],""]'), parsed("8,16;;4,2"), parsed(None)
    ([[8, 16], [], ''], [[8, 16], [], [4, 2]], [])
    """
    if not text:
        return []
    try:
        value = json.loads(text) if text[0] in '["' else text
    except (ValueError, RecursionError):
        return []
    if isinstance(value, str):  # one text for all arguments
        return [_numbers(part.strip()) for part in value.split(";")]
    return value if isinstance(value, list) else []


def _numbers(part: str) -> Any:
    """Sizes between commas as a list; other text stays as it is."""
    if not part:
        return []
    sizes = part.split(",")
    are_numbers = all(size.isdecimal() and len(size) <= _MOST_DIGITS for size in sizes)
    return [int(size) for size in sizes] if are_numbers else part
