"""Kernels that the events of a list name as their own: which of them are slices of the list.

torch gives an op a copy of the name, the device and the duration of each slice that it launched.
The list may or may not hold these slices, too: each counts once. Before 2.13, nothing else in a
list says which op a slice belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from profframe.errors import ParameterError
from profframe.intervals import pairs
from profframe.readers.build.row_tables import Quality
from profframe.readers.torch.getters import Fields, Flags, Ints

Kernels: TypeAlias = Sequence[Sequence[Any]]
"""The kernels that each event names."""
_LONGEST_US: Final = 2.0**62 / 1000


def kernel_columns(fields: Fields, is_operation: Flags, quality: Quality) -> dict[str, pa.Array]:
    """Columns ``kernel_ns``, the time of kernels that are not slices, and ``named_by`` of slices.

    A runtime call repeats the kernels of its op, so its kernels count only if no op names them and
    no slice is like them.
    """
    lists = [kernels or () for kernels in fields["kernels"]]
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    if not counts.any():
        return {}
    row = np.repeat(np.arange(counts.size), counts)
    ns, is_valid = _durations(lists)
    if not is_valid.all():
        bad = row[~is_valid]
        quality.note("impossible_duration", bad.size, "of kernels that events name", int(bad[0]))
    is_legacy = fields["is_legacy"][row]
    named_by = np.full(counts.size, -1, np.int64)
    slices = np.flatnonzero(
        ~fields["on_host"]
        & ~np.array([bool(flag) for flag in fields["is_user_annotation"]], np.bool_)
        & (fields["elapsed_ns"] >= 0)
    )
    key, slice_key = _keys(lists, ns, fields, slices)
    is_free, is_op = is_valid & ~is_legacy, is_operation[row]
    is_slice = np.zeros(row.size, np.bool_)
    number = fields["id"][row]
    linked = np.array([value or 0 for value in fields["linked_correlation_id"]], np.int64)[slices]
    order = np.lexsort((np.arange(row.size), fields["start"][row], ~is_op))
    slice_order = np.argsort(fields["start"][slices], kind="stable")
    # First those whose numbers agree, then the rest, by time.
    for may_name, may_be_named in ((number > 0, linked > 0), (is_free, slice_key >= 0)):
        left = order[(is_free & ~is_slice & may_name)[order]]
        right = slice_order[((named_by[slices] < 0) & may_be_named)[slice_order]]
        keys: Sequence[Ints] = (key[left], slice_key[right])
        if may_name is not is_free:
            keys = _codes((keys[0], number[left]), (keys[1], linked[right]))
        at, at_slice = pairs(*keys)
        is_slice[left[at]] = True
        named_by[slices[right[at_slice]]] = row[left[at]]
    counted = np.concatenate([slice_key, key[is_free & is_op]])
    counts_alone = is_free & ~is_slice & (is_op | ~np.isin(key, counted))
    alone = counts_alone | (is_valid & is_legacy)
    kernel_ns = np.zeros(counts.size, np.int64)
    np.add.at(kernel_ns, row[alone], ns[alone])
    has_kernels = np.zeros(counts.size, np.bool_)
    has_kernels[row[alone]] = True
    is_named = (named_by >= 0) & is_operation[named_by]
    columns = {"kernel_ns": pa.array(kernel_ns, mask=~has_kernels)} if alone.any() else {}
    if is_named.any():
        columns["named_by"] = pa.array(named_by, mask=~is_named)
    return columns


def _durations(lists: Kernels) -> tuple[Ints, Flags]:
    """Nanoseconds of all kernels, and which are possible."""
    try:
        us = np.array([kernel.duration for kernel in chain.from_iterable(lists)], np.float64)
    except (AttributeError, TypeError, ValueError) as error:
        raise ParameterError(
            f"a FunctionEvent has kernels without times, which torch's own never have: {error}"
        ) from error
    is_valid = (us >= 0) & (us < _LONGEST_US)
    return np.rint(np.where(is_valid, us, 0) * 1000).astype(np.int64), is_valid


def _keys(lists: Kernels, ns: Ints, fields: Fields, slices: Ints) -> tuple[Ints, Ints]:
    """A number for each name, device and duration: of kernels, and of slices."""
    kernels = list(chain.from_iterable(lists))
    devices = [fields["device_index"][row] for row in slices.tolist()]
    names = [fields["name"][row] for row in slices.tolist()]
    texts = [
        [f"{kernel.device} {kernel.name}" for kernel in kernels],
        [f"{device or 0} {name}" for device, name in zip(devices, names, strict=True)],
    ]
    encoded = pa.array(texts[0] + texts[1], pa.string()).dictionary_encode().indices.to_numpy()
    name, slice_name = np.split(encoded.astype(np.int64), [ns.size])
    return _codes((name, ns), (slice_name, fields["elapsed_ns"][slices]))


def _codes(left: tuple[Ints, Ints], right: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """One number for each pair of numbers, the same on both sides."""
    both = np.concatenate([np.stack(left, axis=1), np.stack(right, axis=1)])
    _, code = np.unique(both, axis=0, return_inverse=True)
    on_left, on_right = np.split(code.reshape(-1).astype(np.int64), [left[0].size])
    return on_left, on_right
