"""Floating-point operations by torch's own formulas (``with_flops``).

Examples
--------
>>> FORMULAS["aten::mm"]([[8, 16], [16, 4]], [])
1024
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from profframe.facts.arrays import column, is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, any_of, columns, fact, of_events

Shape: TypeAlias = Sequence[int]
Formula: TypeAlias = Callable[[Sequence[Shape], Sequence[str]], int]
"""Takes the input shapes and the concrete values of the inputs of an op."""


@fact(
    inputs=columns(
        events="kind name input_dims concrete_inputs torch_flops", traces="profiler_flags"
    ),
    outputs=columns(events="torch_flops"),
    needs=any_of(events="torch_flops", traces="profiler_flags"),
)
def flops(tables: Tables) -> Output:
    """Add ``torch_flops``: torch's values in profiles recorded with ``with_flops``."""
    events = tables["events"]
    names, name_texts = words(events, "name")
    formula = np.array([text in FORMULAS for text in name_texts] + [False], np.bool_)
    has_formula = formula[names] & is_kind(events, ("host_op",))
    if "torch_flops" in events.column_names:  # the source has counted them
        recorded = numbers(events, "torch_flops")
        valid = present(events, "torch_flops") & (has_formula | (recorded > 0))
        return of_events(torch_flops=column("torch_flops", recorded, valid))
    torch_flops = np.full(events.num_rows, -1, np.int64)
    flags = tables["traces"]["profiler_flags"].to_pylist()
    if any(json.loads(text).get("with_flops") for text in flags if text):
        rows = np.flatnonzero(has_formula)
        dims, dim_texts = words(events, "input_dims")
        values, value_texts = words(events, "concrete_inputs")
        calls = np.stack([names[rows], dims[rows], values[rows]], axis=1)
        distinct, place = np.unique(calls, axis=0, return_inverse=True)
        counts = [
            _count(name_texts[name], _text(dim_texts, dim), _text(value_texts, value))
            for name, dim, value in distinct.tolist()
        ]
        torch_flops[rows] = np.array(counts, np.int64)[place] if rows.size else -1
    return of_events(torch_flops=column("torch_flops", torch_flops, torch_flops >= 0))


_MOST: Final = (1 << 63) - 1


def _text(texts: Sequence[str], code: int) -> str:
    return texts[code] if code >= 0 else "[]"


def _count(name: str, dims: str, values: str) -> int:
    """Torch's number: 0, as in torch, where the inputs do not fit the formula; -1 if negative."""
    try:
        count = FORMULAS[name](json.loads(dims), json.loads(values))
    except (ValueError, IndexError, TypeError, ZeroDivisionError, RecursionError):
        return 0
    return max(count, -1) if count <= _MOST else 0


def _matmul(first: Shape, second: Shape) -> int:
    return 2 * math.prod(first) // first[-1] * math.prod(second)


def _batched(first: Shape, second: Shape) -> int:
    return _matmul(first, second) // first[0]


def _conv2d(shapes: Sequence[Shape], values: Sequence[str]) -> int:
    (batch, channels, *image), (out_channels, _, *kernel) = shapes[0], shapes[1]
    stride, padding, dilation = (_pair(text) for text in values[3:6])
    groups = int(values[6])
    out = [
        (size + 2 * pad - spread * (width - 1) - 1) // step + 1
        for size, pad, spread, width, step in zip(
            image, padding, dilation, kernel, stride, strict=True
        )
    ]
    work = math.prod(out) * math.prod(kernel) * channels * out_channels
    return 2 * batch * work // groups


def _pair(text: str) -> Shape:
    """A list of two numbers; torch counts nothing for ``padding="same"``."""
    first, second = json.loads(text)
    return first, second


FORMULAS: Final[Mapping[str, Formula]] = MappingProxyType(
    {
        "aten::mm": lambda shapes, _: _matmul(shapes[0], shapes[1]),
        "aten::addmm": lambda shapes, _: _matmul(shapes[1], shapes[2]),
        "aten::bmm": lambda shapes, _: _batched(shapes[0], shapes[1]),
        "aten::baddbmm": lambda shapes, _: _batched(shapes[1], shapes[2]),
        "aten::conv2d": _conv2d,
        "aten::add": lambda shapes, _: math.prod(shapes[0]),
        "aten::mul": lambda shapes, _: math.prod(shapes[0]),
    }
)
"""Name of the op -> its formula."""
