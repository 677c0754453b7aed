"""Ops that move data: copies, fills, look-ups. They do floating-point work only if they add."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from profframe.facts.formulas.formula import Formula, elements, like, moved, none, read
from profframe.facts.formulas.ops import Op, Tensor, Unknown


def _dense_bytes(tensor: Tensor) -> int:
    return tensor.count * tensor.size


def _copy_bytes(op: Op) -> int:
    """The source is read, the first argument written; the source may be expanded."""
    return op.tensor(1).bytes + op.tensor(0).bytes


def _cat_bytes(op: Op) -> int:
    parts = op.tensors(0)
    return sum(tensor.bytes + _dense_bytes(tensor) for tensor in parts)


def _embedding_bytes(op: Op) -> int:
    """A row of the table for each index, read and written."""
    table, index = op.tensor(0), op.tensor(1)
    if len(table.shape) != 2:
        raise Unknown
    return index.bytes + 2 * index.count * table.shape[1] * table.size


def _embedding_backward_bytes(op: Op) -> int:
    """The whole gradient of the table is written."""
    gradient = op.tensor(0)
    return read(op, 0, 1) + int(op.value(2)) * gradient.shape[-1] * gradient.size


def _bag_flops(op: Op) -> int:
    return op.tensor(1).count * op.tensor(0).shape[1]


def _bag_bytes(op: Op) -> int:
    """A row for each index is read, one for each bag written."""
    table = op.tensor(0)
    rows = op.tensor(1).count + op.tensor(2).count
    return read(op, 1, 2) + rows * table.shape[1] * table.size


def _index_select_bytes(op: Op) -> int:
    """One slice along the dimension for each index."""
    source, index, dim = op.tensor(0), op.tensor(2), op.value(1)
    if not source.shape or not source.shape[dim]:
        raise Unknown
    slice_ = source.count // int(source.shape[dim])
    return index.bytes + 2 * slice_ * index.count * source.size


def _gather_bytes(op: Op) -> int:
    index = op.tensor(2)
    return index.bytes + 2 * index.count * op.tensor(0).size


def _scatter_bytes(op: Op) -> int:
    """For each index one number is written, and one read unless a single number is for all."""
    index = op.tensor(2)
    return read(op, 2) + index.count * op.tensor(0).size * (2 if op.optional(3) else 1)


def _scatter_add_bytes(op: Op) -> int:
    """The target is read, too."""
    index = op.tensor(2)
    return read(op, 2) + 3 * index.count * op.tensor(0).size


def _index_add_bytes(op: Op) -> int:
    source = op.tensor(3)
    return read(op, 2, 3) + 2 * source.count * op.tensor(0).size


def _put_values(op: Op) -> Tensor:
    """The values, unless they are a single number, whose target size is unknown."""
    values = op.tensor(2)
    if not values.shape:
        raise Unknown
    return values


def _put_flops(op: Op) -> int:
    return _put_values(op).count if op.value(3) else 0


def _put_bytes(op: Op) -> int:
    values = _put_values(op)
    return values.bytes + (2 if op.value(3) else 1) * values.count * op.tensor(0).size


_COPY: Final = Formula(none, _copy_bytes)
_NEW: Final = Formula(none, moved((0,), like(0)))
_FILL: Final = Formula(none, lambda op: op.tensor(0).bytes)
_RANDOM: Final = Formula(None, lambda op: op.tensor(0).bytes)
_BAG: Final = Formula(_bag_flops, _bag_bytes)
_SCATTER_ADD: Final = Formula(elements(2), _scatter_add_bytes)
_INDEX_ADD: Final = Formula(elements(3), _index_add_bytes)
_PUT: Final = Formula(_put_flops, _put_bytes)

COPIES: Final = MappingProxyType(
    {
        "aten::copy_": _COPY,
        "aten::clone": _NEW,
        **{f"aten::{name}": _NEW for name in ("flip", "roll", "tril", "triu")},
        **{f"aten::{name}_": _NEW for name in ("tril", "triu")},
        **dict.fromkeys(("aten::fill_", "aten::zero_"), _FILL),
        **{f"aten::{name}_": _RANDOM
           for name in ("normal", "uniform", "bernoulli", "random", "exponential")},
        **dict.fromkeys(("aten::cat", "aten::_cat"), Formula(none, _cat_bytes)),
        "aten::embedding": Formula(none, _embedding_bytes),
        "aten::embedding_dense_backward": Formula(elements(0), _embedding_backward_bytes),
        **dict.fromkeys(("aten::_embedding_bag", "aten::_embedding_bag_forward_only"), _BAG),
        "aten::index_select": Formula(none, _index_select_bytes),
        "aten::gather": Formula(none, _gather_bytes),
        **dict.fromkeys(("aten::scatter", "aten::scatter_"), Formula(none, _scatter_bytes)),
        **{f"aten::scatter_add{_}": _SCATTER_ADD for _ in ("", "_")},
        **{f"aten::index_add{_}": _INDEX_ADD for _ in ("", "_")},
        "aten::index": Formula(none),
        **dict.fromkeys(("aten::index_put_", "aten::_index_put_impl_"), _PUT),
    }
)  # fmt: skip
"""Name of the op -> its formula.

The operations of random number generators are unknown. No profiler records the indices of
``index``, so its bytes are unknown.
"""
