"""Data types of tensor lists, which no profiler records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import coded, is_kind, numbers, present
from profframe.facts.formulas.dtypes import (
    BF16,
    BOOL,
    COMPLEX128,
    DTYPES,
    FP8,
    FP16,
    FP32,
    FP64,
    INT16,
    INT32,
    INT64,
    UINT8,
    Dtype,
)
from profframe.facts.formulas.ops import parsed
from profframe.intervals import Ints, Mask

_ELEMENT: Final = re.compile(
    r"OpaqueType<(?:1|2|4|8|16)u?>|BFloat16|Half|Float8"
    r"|(?<!ScalarListMetadata<)\b(?:double|float|long|int|short|bool|char)\b"
)
_ELEMENTS: Final[Mapping[str, Dtype]] = MappingProxyType(
    {
        "OpaqueType<1": UINT8, "OpaqueType<2": BF16, "OpaqueType<4": FP32, "OpaqueType<8": FP64,
        "OpaqueType<16": COMPLEX128, "BFloat16": BF16, "Half": FP16, "Float8": FP8, "double": FP64,
        "float": FP32, "long": INT64, "int": INT32, "short": INT16, "bool": BOOL, "char": UINT8,
    }
)  # fmt: skip
"""Element types by words in the names of kernels, the first of which counts; scalars that accompany
a list do not."""
_UNKNOWN: Final = -1


def types_of_lists(events: pa.Table, rows: Ints, of_parameters: Mask) -> tuple[Ints, list[Dtype]]:
    """Infer the data type of the tensor lists of these ops.

    It comes from the names of the kernels, else from the inputs of an op inside that does the same
    with one tensor. Otherwise it is the only type in the trace; if there are several, parameters
    and states of optimizers are assumed to be fp32.
    """
    dtypes = [FP32, *_ELEMENTS.values(), *DTYPES.values()]
    codes = np.full(events.num_rows, _UNKNOWN, np.int64)
    if not rows.size:
        return codes, dtypes
    only = _only_type(events)
    codes[rows] = np.where(of_parameters, 0, _UNKNOWN) if only is None else dtypes.index(only)
    has_list = np.zeros(events.num_rows + 1, np.bool_)
    has_list[rows] = True
    parent = numbers(events, "parent_id", missing=-1)
    inside = np.flatnonzero(has_list[parent] & present(events, "input_types"))
    typed = text_codes(events, "input_types", inside, _first_type)
    codes[parent[inside[typed >= 0]]] = 1 + len(_ELEMENTS) + typed[typed >= 0]
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    op = numbers(events, "op_id", missing=-1)[kernels]
    element_code = 1 + text_codes(events, "name", kernels[has_list[op]], _element)
    # Last, so it wins: the kernel's template says what it really works on.
    codes[op[has_list[op]][element_code > 0]] = element_code[element_code > 0]
    return codes, dtypes


def _only_type(events: pa.Table) -> Dtype | None:
    """The only floating-point type, apart from fp64, which is the type of every Python number.

    Torch's default if there is no other; None if there are several.
    """
    texts = coded(events, "input_types")[1].to_pylist()
    dtypes = {dtype for text in texts for _, dtype in _types(text)}
    floats = {dtype for dtype in dtypes if dtype.floats and dtype != FP64} or {FP32}
    return floats.pop() if len(floats) == 1 else None


def _types(text: str) -> Iterator[tuple[int, Dtype]]:
    """Types of tensors, with their places in `DTYPES`."""
    for word in parsed(text):
        if isinstance(word, str) and word in DTYPES:
            yield list(DTYPES).index(word), DTYPES[word]


def _first_type(types: str) -> int:
    return next((place for place, _ in _types(types)), _UNKNOWN)


def _element(name: str) -> int:
    word = _ELEMENT.search(name)
    return list(_ELEMENTS).index(word[0].rstrip("u>")) if word else _UNKNOWN


def text_codes(events: pa.Table, name: str, rows: Ints, code_of: Callable[[str], int]) -> Ints:
    """Code of the text of each row by a function, called once per text; -1 for NULL."""
    codes, texts = coded(events, name)
    used, place = np.unique(codes[rows], return_inverse=True)
    values = texts.take(pa.array(used, mask=used < 0)).to_pylist()
    return np.array([code_of(text) if text else _UNKNOWN for text in values], np.int64)[place]
