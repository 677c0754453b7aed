"""Counts of calls: FLOPs and bytes of each op by formula, once for each distinct call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import coded, is_kind, numbers, present, used, words
from profframe.facts.batch_lengths import batch_lengths
from profframe.facts.formulas import MISFITS, Formula, Op, counted, formula_of
from profframe.facts.formulas.dtypes import Dtype
from profframe.facts.formulas.ops import parsed
from profframe.facts.formulas.sequence_lengths import BatchLengths
from profframe.facts.list_types import types_of_lists
from profframe.intervals import Ints, Mask

_INPUTS: Final = ("input_dims", "input_types", "input_strides", "concrete_inputs")
_LISTS: Final = "TensorList"
_OF_PARAMETERS: Final = ("aten::_foreach_", "aten::_fused_", "aten::_amp_foreach_")
"""Prefixes of ops on lists of parameters, gradients and states."""
_NO_FORMULA: Final = Formula()
UNKNOWN: Final = -1
"""An amount, a type or a row that is not known."""


@dataclass(frozen=True, slots=True)
class ReplayWork:
    """Work of the replays of captured ops by the kernels in them; the same rows for all of it.

    ``batch`` numbers the lengths of the step of each.
    """

    kernels: Ints
    op: Ints
    batch: Ints
    flops: Ints
    bytes: Ints


@dataclass(frozen=True, slots=True)
class CountedWork:
    """Work of each row that is an op with known work, else -1; ``dtype`` numbers ``dtypes``.

    ``needs_lengths`` marks ops whose operations depend on lengths that were not recorded, ``batch``
    numbers the lengths of those that have them from their step.
    ``replays`` is the work of captured ops of which each replay has lengths of its own.
    """

    flops: Ints
    bytes: Ints
    dtype: Ints
    dtypes: list[str]
    needs_lengths: Mask
    batch: Ints
    replays: ReplayWork

    def knows(self, name: str) -> Mask:
        """Whether each row has this amount, itself or in a replay."""
        has_amount: Mask = getattr(self, name) >= 0
        has_amount[self.replays.op[getattr(self.replays, name) >= 0]] = True
        return has_amount


@dataclass(frozen=True, slots=True)
class _Calls:
    """Distinct calls with a formula or recorded work, and the number of that of each row, or -1."""

    number: Ints
    ops: list[Op]
    formulas: list[Formula]
    dtypes: dict[str, int]

    def counts(self, numbers_: Ints, batch: Ints, batches: list[BatchLengths]) -> Ints:
        """Operations, bytes, code of the type, and whether lengths are missing, in four lines.

        Formulas are Python: each runs once per distinct call and lengths, not per call.
        """
        key = numbers_ * (len(batches) + 1) + batch + 1
        distinct, inverse = np.unique(key, return_inverse=True)
        results = [
            _count(
                replace(self.ops[number], batch=batches[code - 1]) if code else self.ops[number],
                self.formulas[number],
                self.dtypes,
            )
            for number, code in (divmod(key, len(batches) + 1) for key in distinct.tolist())
        ]
        counts: Ints = np.array(results, np.int64).reshape(-1, 4)[inverse].T
        return counts


def counted_work(events: pa.Table, formulas: Mapping[str, Formula | None]) -> CountedWork:
    """Work from the source, else from formulas, computed once for each set of inputs."""
    counts = np.full((4, events.num_rows), UNKNOWN, np.int64)
    is_op = is_kind(events, ("host_op",))
    recorded = {name: recorded_work(events, name) for name in ("given_flops", "given_bytes")}
    calls = _calls(events, is_op, np.maximum(*recorded.values()) >= 0, formulas)
    rows = np.flatnonzero(calls.number >= 0)
    without = np.full(rows.size, UNKNOWN, np.int64)
    counts[:, rows] = calls.counts(calls.number[rows], without, [])
    rows = rows[counts[3, rows] > 0]
    batch, batches = batch_lengths(events) if rows.size else (without, [])
    replayed = np.zeros(events.num_rows, np.bool_)
    of_step = np.full(events.num_rows, UNKNOWN, np.int64)
    if batches:
        replayed[rows] = is_replayed(events)[rows]
        eager = rows[(batch[rows] >= 0) & ~replayed[rows]]
        counts[:, eager] = calls.counts(calls.number[eager], batch[eager], batches)
        of_step[eager] = batch[eager]
    replays = _replay_work(events, replayed, calls, batch, batches)
    flops, bytes_, dtype, lacks = counts
    for values, replay_values in ((flops, replays.flops), (bytes_, replays.bytes)):
        _fill_if_equal(values, replays.op, replay_values)
    for values, recorded_values in zip((flops, bytes_), recorded.values(), strict=True):
        is_recorded = is_op & (recorded_values >= 0)
        values[is_recorded] = recorded_values[is_recorded]
    work_ = CountedWork(flops, bytes_, dtype, list(calls.dtypes), lacks > 0, of_step, replays)
    return replace(work_, needs_lengths=work_.needs_lengths & ~work_.knows("flops"))


def _calls(
    events: pa.Table, is_op: Mask, has_record: Mask, formulas: Mapping[str, Formula | None]
) -> _Calls:
    number = np.full(events.num_rows, UNKNOWN, np.int64)
    names, texts = words(events, "name")
    has_inputs = is_op & present(events, "input_dims")
    by_name = _by_name(texts, used(names[has_inputs], len(texts)), formulas)
    has_formula = np.array([*(i in by_name for i in range(len(texts))), False], np.bool_)[names]
    rows = np.flatnonzero(has_inputs & (has_formula | has_record))
    if not rows.size:
        return _Calls(number, [], [], {})
    inner_rows, sizes = _inside(events, rows, names, by_name)
    code, keys, inputs = _distinct_inputs(events, np.append(rows, inner_rows), names, texts)
    sequence, sequences = _sequences(code[rows.size :], sizes)
    calls, number[rows] = np.unique(
        code[: rows.size] * len(sequences) + sequence, return_inverse=True
    )
    ops, formulas_ = [], []
    for place, inner in (divmod(call, len(sequences)) for call in calls.tolist()):
        inside = [_call(keys[other], inputs) for other in sequences[inner]]
        ops.append(_call(keys[place], inputs, inside))
        formulas_.append(by_name.get(keys[place][0], _NO_FORMULA))
    return _Calls(number, ops, formulas_, {})


def is_replayed(events: pa.Table) -> Mask:
    """Whether each row is a call in a captured graph."""
    if "replays" not in events.column_names:
        return np.zeros(events.num_rows, np.bool_)
    return present(events, "replays")


def _replay_work(
    events: pa.Table, replayed: Mask, calls: _Calls, batch: Ints, batches: list[BatchLengths]
) -> ReplayWork:
    """Work of captured ops in each replay, whose lengths are those of the step of its launch."""
    none = np.empty(0, np.int64)
    if not replayed.any():
        return ReplayWork(none, none, none, none, none)
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    inside = numbers(events, "op_id", missing=-1)[kernels]
    op = np.append(outermost(events, replayed), UNKNOWN)[inside]
    launch = numbers(events, "launch_id", missing=-1)[kernels]
    number = np.append(batch, UNKNOWN)[launch]
    has_lengths = (op >= 0) & (number >= 0)
    kernels, op, number = kernels[has_lengths], op[has_lengths], number[has_lengths]
    flops, bytes_, *_ = calls.counts(calls.number[op], number, batches)
    return ReplayWork(kernels, op, number, flops, bytes_)


def _fill_if_equal(values: Ints, op: Ints, replay_values: Ints) -> None:
    """Give captured ops the work of their replays, where all do as much."""
    order = np.argsort(op, kind="stable")
    op, replay_values = op[order], replay_values[order]
    first = np.flatnonzero(np.append(True, op[1:] != op[:-1])[: op.size])
    if first.size:
        least, most = (at.reduceat(replay_values, first) for at in (np.minimum, np.maximum))
        values[op[first]] = np.where(least == most, most, UNKNOWN)


def _by_name(
    texts: list[str], codes: Ints, formulas: Mapping[str, Formula | None]
) -> dict[int, Formula]:
    """Formulas by the codes of names: given ones take precedence, and None is for an unknown op."""
    chosen = {
        code: formulas[texts[code]] if texts[code] in formulas else formula_of(texts[code])
        for code in codes.tolist()
    }
    return {code: formula for code, formula in chosen.items() if formula is not None}


_Inputs = tuple[list[str], list[dict[int, Any]], list[Dtype]]


def _distinct_inputs(
    events: pa.Table, rows: Ints, names: Ints, texts: list[str]
) -> tuple[Ints, list[tuple[int, ...]], _Inputs]:
    """Number of the distinct name and inputs of each row, those distinct ones, and their values."""
    codes_by_column, parts = [names[rows]], []
    for name in _INPUTS:
        codes, dictionary = coded(events, name)
        codes_by_column.append(codes[rows])
        present_codes = used(codes_by_column[-1], len(dictionary))
        values = dictionary.take(pa.array(present_codes)).to_pylist()
        parts.append(
            {code: parsed(text) for code, text in zip(present_codes.tolist(), values, strict=True)}
        )
    has_list = np.zeros(1 + max((1 + code for code in parts[1]), default=0), np.bool_)
    has_list[[code for code, types in parts[1].items() if _LISTS in types]] = True
    list_rows = rows[has_list[codes_by_column[2]]]
    of_parameters = np.array(
        [text.startswith(_OF_PARAMETERS) for text in texts] + [False], np.bool_
    )
    list_dtypes, dtypes = types_of_lists(events, list_rows, of_parameters[names[list_rows]])
    codes_by_column.append(list_dtypes[rows])
    key = np.zeros(rows.size, np.int64)
    for codes in codes_by_column:
        # Packed into one integer: rows of five columns would have to be sorted as such.
        key = _compact(key * (int(codes.max()) + 2) + codes + 1)
    _, first, code = np.unique(key, return_index=True, return_inverse=True)
    keys = list(zip(*(codes[first].tolist() for codes in codes_by_column), strict=True))
    return code, keys, (texts, parts, dtypes)


def _compact(keys: Ints) -> Ints:
    """Renumber keys densely, so that further columns can be packed into them."""
    codes: Ints = pa.array(keys).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _inside(
    events: pa.Table, rows: Ints, names: Ints, by_name: Mapping[int, Formula]
) -> tuple[Ints, Ints]:
    """Ops inside each row that its formula looks at, in their order, and how many there are.

    In preorder the slices inside another one follow it without a gap.
    """
    sizes = np.zeros(rows.size, np.int64)
    wanted = {code: formula.inside for code, formula in by_name.items() if formula.inside}
    looks = np.isin(names[rows], list(wanted))
    if not looks.any():
        return rows[:0], sizes
    texts = words(events, "name")[1]
    seen = {name for formula_names in wanted.values() for name in formula_names}
    is_seen = np.array([*(text in seen for text in texts), False], np.bool_)[names]
    inner = np.flatnonzero(is_seen & is_kind(events, ("host_op",)) & present(events, "preorder"))
    preorder = numbers(events, "preorder", missing=-1)
    inner = inner[np.argsort(preorder[inner])]
    outer = rows[looks]
    last = numbers(events, "last_descendant_id", missing=-1)[outer]
    end = np.where(last >= 0, preorder[last], -1)
    first = np.searchsorted(preorder[inner], preorder[outer], side="right")
    count = np.maximum(np.searchsorted(preorder[inner], end, side="right") - first, 0)
    sizes[looks] = count
    start = np.cumsum(count) - count
    return inner[np.arange(count.sum()) + np.repeat(first - start, count)], sizes


def _sequences(codes: Ints, sizes: Ints) -> tuple[Ints, list[tuple[int, ...]]]:
    """Number of the distinct sequence of codes of each row, and those sequences."""
    offsets = np.append(0, np.cumsum(sizes)) * codes.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(codes))]
    texts = pa.Array.from_buffers(pa.large_binary(), sizes.size, buffers).dictionary_encode()
    sequences = [
        tuple(np.frombuffer(text, np.int64).tolist()) for text in texts.dictionary.to_pylist()
    ]
    return texts.indices.to_numpy().astype(np.int64), sequences


def _call(key: tuple[int, ...], inputs: _Inputs, inside: Sequence[Op] = ()) -> Op:
    """A call by the codes of its name and inputs."""
    texts, parts, list_dtypes = inputs
    name, *codes, list_code = key
    list_dtype = list_dtypes[list_code] if list_code >= 0 else None
    dims, types, strides, values = (
        part.get(code, []) for part, code in zip(parts, codes, strict=True)
    )
    return Op(texts[name], dims, types, strides, values, list_dtype, inside)


def _count(op: Op, formula: Formula, dtypes: dict[str, int]) -> tuple[int, int, int, bool]:
    """Operations, bytes, code of the data type, and whether lengths are missing; -1 is unknown."""
    (flops, lacks), (bytes_, _) = (counted(term, op) for term in (formula.flops, formula.bytes))
    dtype = op.work_dtype
    if formula.dtype is not None:
        with suppress(*MISFITS):
            dtype = formula.dtype(op)
    return (
        UNKNOWN if flops is None else flops,
        UNKNOWN if bytes_ is None else bytes_,
        UNKNOWN if dtype is None else dtypes.setdefault(dtype.word, len(dtypes)),
        lacks,
    )


def outermost(events: pa.Table, has_work: Mask) -> Ints:
    """Row of the outermost op with known work around each host row, or the row itself, or -1.

    In preorder the slices inside an owner follow it without a gap.
    """
    owner = np.where(has_work, np.arange(has_work.size), UNKNOWN)  # without nesting: its own
    nests = np.flatnonzero(present(events, "preorder"))
    if not nests.size or not has_work.any():
        return owner
    preorder = numbers(events, "preorder")
    rows = np.empty(nests.size, np.int64)
    rows[preorder[nests]] = nests
    places = np.flatnonzero(has_work[rows])
    end = preorder[numbers(events, "last_descendant_id")[rows[places]]]
    reached = np.maximum.accumulate(np.append(-1, end))[:-1]
    is_outermost = places > reached
    places, end = places[is_outermost], end[is_outermost]
    # Gaps and owners take turns.
    sizes = np.diff(np.stack((places, end + 1), axis=1).reshape(-1), prepend=0, append=rows.size)
    owners = np.full(sizes.size, UNKNOWN, np.int64)
    owners[1::2] = rows[places]
    owner[rows] = np.repeat(owners, sizes)
    return owner


def recorded_work(events: pa.Table, name: str) -> Ints:
    """Work of each row from the source, or -1."""
    if name not in events.column_names:
        return np.full(events.num_rows, UNKNOWN, np.int64)
    return numbers(events, name, missing=UNKNOWN)
