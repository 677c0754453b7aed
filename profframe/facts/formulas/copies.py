"""Ops that move data: copies, fills, look-ups. They do floating-point work only if they add."""

from __future__ import annotations

from typing import Final

from profframe.facts.formulas.formula import (
    Formula,
    by_op,
    dense,
    elements,
    like,
    moved,
    none,
    product,
    read,
)
from profframe.facts.formulas.ops import Op, Tensor
from profframe.facts.formulas.unknowns import Unknown


def _copy_bytes(op: Op) -> int:
    """The source is read, the first argument written; the source may be expanded."""
    return op.tensor(1).bytes + op.tensor(0).bytes


def _cat_bytes(op: Op) -> int:
    return sum(tensor.bytes + dense(tensor) for tensor in op.tensors(0))


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


def _padded(op: Op) -> int:
    """Elements of the padded tensor: pairs of widths, of the last dimension first.

    A negative width cuts off.
    """
    shape, widths = list(op.tensor(0).shape), op.value(1)
    if not isinstance(widths, list) or len(widths) % 2 or len(widths) > 2 * len(shape):
        raise Unknown
    for i in range(len(widths) // 2):
        shape[-1 - i] += widths[2 * i] + widths[2 * i + 1]
    return product(shape)


def _pad_bytes(op: Op) -> int:
    return op.tensor(0).bytes + _padded(op) * op.tensor(0).size


def _constant_pad_bytes(op: Op) -> int:
    """A pad with negative widths does not read the elements that it cuts off."""
    source = op.tensor(0)
    return min(source.bytes, _padded(op) * source.size) + _padded(op) * source.size


COPIES: Final = by_op(
    {
        "copy_": Formula(none, _copy_bytes),
        "clone flip roll tril triu tril_ triu_": Formula(none, moved((0,), like(0))),
        "fill_ zero_": Formula(none, lambda op: op.tensor(0).bytes),
        "normal_ uniform_ bernoulli_ random_ exponential_": Formula(
            None, lambda op: op.tensor(0).bytes
        ),
        "cat _cat": Formula(none, _cat_bytes),
        "embedding": Formula(none, _embedding_bytes),
        "embedding_dense_backward": Formula(elements(0), _embedding_backward_bytes),
        "_embedding_bag _embedding_bag_forward_only": Formula(_bag_flops, _bag_bytes),
        "index_select": Formula(none, _index_select_bytes),
        "gather": Formula(none, _gather_bytes),
        "scatter scatter_": Formula(none, _scatter_bytes),
        "scatter_add scatter_add_": Formula(elements(2), _scatter_add_bytes),
        "index_add index_add_": Formula(elements(3), _index_add_bytes),
        "replication_pad1d replication_pad2d replication_pad3d reflection_pad1d reflection_pad2d"
        " reflection_pad3d": Formula(none, _pad_bytes),
        "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward"
        " reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward": Formula(
            elements(0), moved((0,), like(1))
        ),
        "constant_pad_nd": Formula(none, _constant_pad_bytes),
        "index": Formula(none),
        "index_put_ _index_put_impl_": Formula(_put_flops, _put_bytes),
    }
)
"""Name of the op -> its formula.

The operations of random number generators are unknown. No profiler records the indices of
``index``, so its bytes are unknown.
"""
