"""FLOPs and bytes of ops and kernels, and the op that each kernel works for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import (
    coded,
    column,
    encoded,
    ids,
    is_kind,
    numbers,
    present,
    words,
)
from profframe.facts.batch_lengths import batch_lengths
from profframe.facts.fact import Note, Output, Tables, columns, fact, of_events
from profframe.facts.formulas import MISFITS, Formula, Op, counted, formula_of, is_product
from profframe.facts.formulas.dtypes import (
    BF16,
    DTYPES,
    FP8,
    FP16,
    FP32,
    FP64,
    INT8,
    Dtype,
)
from profframe.facts.formulas.ops import parsed
from profframe.facts.formulas.sequence_lengths import BatchLengths
from profframe.facts.list_types import text_codes, types_of_lists
from profframe.intervals import Ints, Mask

_INPUTS: Final = ("input_dims", "input_types", "input_strides", "concrete_inputs")
_LISTS: Final = "TensorList"
_TF32: Final = re.compile("tf32|tensorop|s1688", re.IGNORECASE)
_DTYPE_NAMES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), dtype)
    for pattern, dtype in (
        (r"fp8|float8|e4m3|e5m2", FP8),
        (r"bf16|bfloat16|nv_bfloat", BF16),
        (r"fp16|f16|half|hgemm|h16816", FP16),
        (r"double|fp64|f64|dgemm", FP64),
        (r"fp32|f32|float|sgemm", FP32),
        (r"int8|s8", INT8),
    )
)
"""Data types by patterns in the names of kernels; the first match counts."""
_OF_PARAMETERS: Final = ("aten::_foreach_", "aten::_fused_", "aten::_amp_foreach_")
"""Prefixes of ops on lists of parameters, gradients and states."""
_NO_FORMULA: Final = Formula()
NO_FORMULAS: Final[Mapping[str, Formula | None]] = MappingProxyType({})
_UNKNOWN: Final = -1
_MOST_NAMES: Final = 5
_LARGEST: Final = 1 << 62


@fact(
    inputs=columns(
        events="kind name input_dims input_types input_strides concrete_inputs given_flops"
        " given_bytes bytes dur_ns parent_id preorder last_descendant_id op_id"
        " launch_id replays phase_id"
    ),
    outputs=columns(events="flops bytes work_id work_dtype is_product"),
    options=("formulas",),
)
def work(tables: Tables, formulas: Mapping[str, Formula | None] = NO_FORMULAS) -> Output:
    """Add ``flops work_id work_dtype is_product``, and ``bytes`` except for copies.

    The work of an op is what its formula gives for its inputs, or what the source records. The
    outermost op on its thread with known work owns it, and everything launched inside: its kernels
    share the work in proportion to their durations, and add up to it exactly; so do those of each
    replay of a captured op. An op with known bytes only leaves to the ops inside it what they
    launch, or everything if they compute. A kernel whose work the source records keeps that, and
    the others share the rest. ``formulas`` take precedence over those of
    `profframe.facts.formulas`; None marks an op with unknown work. Attention of sequences whose
    lengths were not recorded has those of its step (`batch_lengths`), each replay of a captured one
    those of its own; what has no FLOPs without them is counted (``work_needs_lengths``).
    """
    events = tables["events"]
    op_work = _op_work(events, formulas)
    owner = _all_owners(events, op_work)
    op_work = _with_inner_types(events, op_work, owner)
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    op = numbers(events, "op_id", missing=-1)[kernels]
    owner[kernels] = np.where(op >= 0, owner[op], -1)
    calls = _kernel_calls(events, op_work, kernels, owner)
    recorded = {"flops": _recorded(events, "given_flops"), "bytes": _moved(events)}
    shares = {
        name: _spread(getattr(op_work, name), of_source, calls, getattr(calls, name))
        for name, of_source in recorded.items()
    }
    return of_events(
        *_needing_lengths(events, op_work, owner),
        **{name: column(name, values, values >= 0) for name, values in shares.items()},
        work_id=ids(owner),
        work_dtype=_dtypes(events, op_work, kernels, owner, shares),
        is_product=_products(events, kernels, owner, shares["flops"]),
    )


@dataclass(frozen=True, slots=True)
class _ReplayWork:
    """Work of the replays of captured ops by the kernels in them; the same rows for all of it."""

    kernels: Ints
    op: Ints
    flops: Ints
    bytes: Ints


@dataclass(frozen=True, slots=True)
class _Work:
    """Work of each row that is an op with known work, else -1; ``dtype`` numbers ``dtypes``.

    ``needs_lengths`` marks ops whose operations depend on lengths that were not recorded.
    ``replays`` is the work of captured ops of which each replay has lengths of its own.
    """

    flops: Ints
    bytes: Ints
    dtype: Ints
    dtypes: list[str]
    needs_lengths: Mask
    replays: _ReplayWork

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
                replace(self.ops[number], batch=batches[code - 1] if code else None),
                self.formulas[number],
                self.dtypes,
            )
            for number, code in (divmod(key, len(batches) + 1) for key in distinct.tolist())
        ]
        counts: Ints = np.array(results, np.int64).reshape(-1, 4)[inverse].T
        return counts


def _op_work(events: pa.Table, formulas: Mapping[str, Formula | None]) -> _Work:
    """Work from the source, else from formulas, computed once for each set of inputs."""
    counts = np.full((4, events.num_rows), _UNKNOWN, np.int64)
    is_op = is_kind(events, ("host_op",))
    recorded = {name: _recorded(events, name) for name in ("given_flops", "given_bytes")}
    calls = _calls(events, is_op, np.maximum(*recorded.values()) >= 0, formulas)
    rows = np.flatnonzero(calls.number >= 0)
    without = np.full(rows.size, _UNKNOWN, np.int64)
    counts[:, rows] = calls.counts(calls.number[rows], without, [])
    rows = rows[counts[3, rows] > 0]
    batch, batches = batch_lengths(events) if rows.size else (without, [])
    replayed = np.zeros(events.num_rows, np.bool_)
    if batches:
        replayed[rows] = _is_replayed(events)[rows]
        eager = rows[(batch[rows] >= 0) & ~replayed[rows]]
        counts[:, eager] = calls.counts(calls.number[eager], batch[eager], batches)
    replays = _replay_work(events, replayed, calls, batch, batches)
    flops, bytes_, dtype, lacks = counts
    for values, replay_values in ((flops, replays.flops), (bytes_, replays.bytes)):
        _fill_if_equal(values, replays.op, replay_values)
    for values, recorded_values in zip((flops, bytes_), recorded.values(), strict=True):
        is_recorded = is_op & (recorded_values >= 0)
        values[is_recorded] = recorded_values[is_recorded]
    work_ = _Work(flops, bytes_, dtype, list(calls.dtypes), lacks > 0, replays)
    return replace(work_, needs_lengths=work_.needs_lengths & ~work_.knows("flops"))


def _calls(
    events: pa.Table, is_op: Mask, has_record: Mask, formulas: Mapping[str, Formula | None]
) -> _Calls:
    number = np.full(events.num_rows, _UNKNOWN, np.int64)
    names, texts = words(events, "name")
    has_inputs = is_op & present(events, "input_dims")
    by_name = _by_name(texts, np.unique(names[has_inputs]), formulas)
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


def _is_replayed(events: pa.Table) -> Mask:
    """Whether each row is a call in a captured graph."""
    if "replays" not in events.column_names:
        return np.zeros(events.num_rows, np.bool_)
    return present(events, "replays")


def _replay_work(
    events: pa.Table, replayed: Mask, calls: _Calls, batch: Ints, batches: list[BatchLengths]
) -> _ReplayWork:
    """Work of captured ops in each replay, whose lengths are those of the step of its launch."""
    none = np.empty(0, np.int64)
    if not replayed.any():
        return _ReplayWork(none, none, none, none)
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    inside = numbers(events, "op_id", missing=-1)[kernels]
    op = np.append(_owners(events, replayed), _UNKNOWN)[inside]
    launch = numbers(events, "launch_id", missing=-1)[kernels]
    number = np.append(batch, _UNKNOWN)[launch]
    has_lengths = (op >= 0) & (number >= 0)
    kernels, op = kernels[has_lengths], op[has_lengths]
    flops, bytes_, *_ = calls.counts(calls.number[op], number[has_lengths], batches)
    return _ReplayWork(kernels, op, flops, bytes_)


def _fill_if_equal(values: Ints, op: Ints, replay_values: Ints) -> None:
    """Give captured ops the work of their replays, where all do as much."""
    order = np.argsort(op, kind="stable")
    op, replay_values = op[order], replay_values[order]
    first = np.flatnonzero(np.append(True, op[1:] != op[:-1])[: op.size])
    if first.size:
        least, most = (at.reduceat(replay_values, first) for at in (np.minimum, np.maximum))
        values[op[first]] = np.where(least == most, most, _UNKNOWN)


def _by_name(
    texts: list[str], used: Ints, formulas: Mapping[str, Formula | None]
) -> dict[int, Formula]:
    """Formulas by the codes of names: given ones take precedence, and None is for an unknown op."""
    codes = used[used >= 0].tolist()
    chosen = {
        code: formulas[texts[code]] if texts[code] in formulas else formula_of(texts[code])
        for code in codes
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
        used = np.unique(codes[rows])
        used = used[used >= 0]
        values = dictionary.take(pa.array(used)).to_pylist()
        parts.append({int(code): parsed(text) for code, text in zip(used, values, strict=True)})
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
        _UNKNOWN if flops is None else flops,
        _UNKNOWN if bytes_ is None else bytes_,
        _UNKNOWN if dtype is None else dtypes.setdefault(dtype.word, len(dtypes)),
        lacks,
    )


def _named_dtype(name: str) -> int:
    return next((i for i, (word, _) in enumerate(_DTYPE_NAMES) if word.search(name)), _UNKNOWN)


def _all_owners(events: pa.Table, op_work: _Work) -> Ints:
    """Owner of each row: the outermost op with known operations, else one with known bytes."""
    in_whole = op_work.knows("flops")
    # The outermost op with FLOPs, so that aten::linear and the aten::addmm inside it do not both
    # count.
    owner = _owners(events, in_whole)
    in_part = op_work.knows("bytes") & ~in_whole
    if not in_part.any():
        return owner
    # An op of which only bytes are known must not own kernels whose FLOPs an op inside it explains.
    in_part[np.flatnonzero(in_part)] = ~_computes_inside(events, op_work, np.flatnonzero(in_part))
    return np.where(owner >= 0, owner, _owners(events, in_part))


def _computes_inside(events: pa.Table, op_work: _Work, rows: Ints) -> Mask:
    """Whether ops inside each row are known to compute."""
    preorder = numbers(events, "preorder", missing=-1)
    computes = np.sort(preorder[(op_work.flops > 0) & (preorder >= 0)])
    last = numbers(events, "last_descendant_id", missing=-1)[rows]
    end = np.where(last >= 0, preorder[last], -1)
    first, after = (np.searchsorted(computes, at, side="right") for at in (preorder[rows], end))
    return after > first


def _needing_lengths(events: pa.Table, op_work: _Work, owner: Ints) -> Iterator[Note]:
    """A note on ops without operations that no other op accounts for, by their names."""
    lacking = op_work.needs_lengths & (owner < 0)
    if not lacking.any():
        return
    lacking[np.flatnonzero(lacking)] = ~_computes_inside(events, op_work, np.flatnonzero(lacking))
    rows = np.flatnonzero(lacking & (_owners(events, lacking) == np.arange(owner.size)))
    if not rows.size:
        return
    names, texts = words(events, "name")
    used, calls = np.unique(names[rows], return_counts=True)
    ordered = sorted(zip((-calls).tolist(), (texts[code] for code in used), strict=True))
    shown = ", ".join(f"{name} ({-calls_})" for calls_, name in ordered[:_MOST_NAMES])
    rest = f" and {len(ordered) - _MOST_NAMES} more" if len(ordered) > _MOST_NAMES else ""
    yield "work_needs_lengths", rows.size, f"calls of {shown}{rest}", int(rows[0])


def _owners(events: pa.Table, has_work: Mask) -> Ints:
    """Row of the outermost op with known work around each host row, or the row itself, or -1.

    In preorder the slices inside an owner follow it without a gap.
    """
    owner = np.where(has_work, np.arange(has_work.size), _UNKNOWN)  # without nesting: its own
    nests = np.flatnonzero(present(events, "preorder"))
    if not nests.size or not has_work.any():
        return owner
    preorder = numbers(events, "preorder")
    rows = np.empty(nests.size, np.int64)
    rows[preorder[nests]] = nests
    places = np.flatnonzero(has_work[rows])
    end = preorder[numbers(events, "last_descendant_id")[rows[places]]]
    reached = np.maximum.accumulate(np.append(-1, end))[:-1]
    outermost = places > reached
    places, end = places[outermost], end[outermost]
    at = np.searchsorted(places, np.arange(rows.size), side="right") - 1
    inside = (at >= 0) & (np.arange(rows.size) <= np.append(end, -1)[at])
    owner[rows] = np.where(inside, np.append(rows[places], -1)[at], _UNKNOWN)
    return owner


def _with_inner_types(events: pa.Table, op_work: _Work, owner: Ints) -> _Work:
    """The work with the types that owners compute in.

    Under autocast an op is recorded with its original inputs; inside, after the converting copies,
    the same op has the inputs that it computes with. So an owner gets the type of the inner op that
    does most of its work, the innermost of equal ones, if that is at least half.
    """
    floats = {dtype.word for dtype in DTYPES.values() if dtype.floats}
    is_float = np.array([*(word in floats for word in op_work.dtypes), False])[op_work.dtype]
    around = np.where(owner == np.arange(owner.size), _UNKNOWN, owner)
    rows = np.flatnonzero((around >= 0) & (op_work.flops > 0) & is_float & is_float[around])
    rows = rows[2 * op_work.flops[rows] >= op_work.flops[around[rows]]]
    place = numbers(events, "preorder")[rows]
    rows = rows[np.lexsort((place, op_work.flops[rows]))]
    dtype = op_work.dtype.copy()
    dtype[around[rows]] = op_work.dtype[rows]  # the last one of an owner counts
    return replace(op_work, dtype=dtype)


def _recorded(events: pa.Table, name: str) -> Ints:
    """Work of each row from the source, or -1."""
    if name not in events.column_names:
        return np.full(events.num_rows, _UNKNOWN, np.int64)
    return numbers(events, name, missing=_UNKNOWN)


def _moved(events: pa.Table) -> Ints:
    """Bytes from the source: those that a copy moved, or a kernel's work."""
    moved = _recorded(events, "bytes")
    on_device = is_kind(events, ("kernel", "memcpy", "memset"))
    return np.where(on_device & (moved >= 0), moved, _recorded(events, "given_bytes"))


@dataclass(frozen=True, slots=True)
class _KernelCalls:
    """For each kernel the call that it works for, whether others do, too, and its duration.

    ``flops`` and ``bytes`` are those of the whole call, -1 if they are not known.
    """

    kernels: Ints
    number: Ints
    has_others: Mask
    dur: Ints
    flops: Ints
    bytes: Ints


def _kernel_calls(events: pa.Table, op_work: _Work, kernels: Ints, owner: Ints) -> _KernelCalls:
    call = _call_numbers(events, kernels, owner)
    has_others = np.bincount(call + 1)[call + 1] > 1
    amounts = []
    for name in ("flops", "bytes"):
        amount = np.append(getattr(op_work, name), _UNKNOWN)
        of_replay, replays = np.full(owner.size, _UNKNOWN, np.int64), op_work.replays
        is_owner = owner[replays.kernels] == replays.op
        of_replay[replays.kernels[is_owner]] = getattr(replays, name)[is_owner]
        varies = np.zeros(owner.size + 1, np.bool_)
        varies[replays.op] = True
        of_owner = amount[owner[kernels]]
        amounts.append(np.where(varies[owner[kernels]], of_replay[kernels], of_owner))
    return _KernelCalls(kernels, call, has_others, numbers(events, "dur_ns")[kernels], *amounts)


def _call_numbers(events: pa.Table, kernels: Ints, owner: Ints) -> Ints:
    """Number of the call of its owner that each kernel is of; a captured op has one per replay."""
    call = owner[kernels].copy()
    launch = numbers(events, "launch_id", missing=_UNKNOWN)[kernels]
    of_replay = np.append(_is_replayed(events), False)[call] & (launch >= 0)
    if not of_replay.any():
        return call
    key = launch[of_replay] * owner.size + call[of_replay]
    if (key[1:] >= key[:-1]).all():  # as if launches do not overlap
        number = np.cumsum(np.append(True, key[1:] != key[:-1])[: key.size])
    else:
        number = np.unique(key, return_inverse=True)[1]
    call[of_replay] = owner.size + number
    return call


def _spread(op_work: Ints, recorded: Ints, calls: _KernelCalls, amount: Ints) -> Ints:
    """Work of each row: of ops their own, of kernels what the source records, else their share.

    ``amount`` is the work of the call that each kernel is of.
    """
    shares = np.where(op_work >= 0, op_work, recorded)
    kernel_work = recorded[calls.kernels]
    owned, rest = amount >= 0, amount
    has_record = owned & (kernel_work >= 0)
    if has_record.any():
        given = np.zeros(int(calls.number.max()) + 1, np.int64)
        np.add.at(given, calls.number[has_record], kernel_work[has_record])
        rest = rest - given[calls.number]
    sharing = owned & (kernel_work < 0)
    shares[calls.kernels[sharing]] = np.maximum(rest[sharing], 0)
    several = sharing & calls.has_others
    if several.any():
        amount = shares[calls.kernels[several]]
        shares[calls.kernels[several]] = _apportioned(
            amount, calls.number[several], calls.dur[several]
        )
    return shares


def _apportioned(amount: Ints, group: Ints, weight: Ints) -> Ints:
    """Share of each row in the amount of its group, by weight; they add up to it exactly.

    ``amount`` has the whole amount of the group in each row. Cumulative sums are rounded down, and
    a row gets their difference. Zero weights share equally.
    """
    order = np.argsort(group, kind="stable")
    amount, group = amount[order], group[order]
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    size = np.diff(np.append(first, group.size))
    weight = np.minimum(weight[order], _LARGEST // np.repeat(size, size))
    no_weight = np.add.reduceat(weight, first) == 0
    weight = np.where(np.repeat(no_weight, size), 1, weight)
    total = np.repeat(np.add.reduceat(weight, first), size)
    until = np.cumsum(weight)
    until -= np.repeat(until[first] - weight[first], size)
    fits = amount <= _LARGEST // total
    exact = np.where(fits, amount, 0) * until // total
    rough = (amount * (until / total)).astype(np.int64)  # the product overflows an integer
    upto = np.where(until == total, amount, np.where(fits, exact, np.minimum(rough, amount)))
    before = np.append(0, upto[:-1])
    before[first] = 0
    shares = np.empty_like(amount)
    shares[order] = upto - before
    return shares


def _products(events: pa.Table, kernels: Ints, owner: Ints, flops: Ints) -> pa.BooleanArray:
    """Whether each row's operations are products: of a kernel those of its owner."""
    op = np.arange(owner.size)
    op[kernels] = np.where(owner[kernels] >= 0, owner[kernels], kernels)
    names, texts = words(events, "name")
    rows = np.flatnonzero(flops >= 0)
    used = np.unique(names[op[rows]])
    table = np.zeros(len(texts) + 1, np.bool_)
    for code in used[used >= 0].tolist():
        table[code] = is_product(texts[code])
    return pa.array(table[names[op]], mask=flops < 0)


def _dtypes(
    events: pa.Table, op_work: _Work, kernels: Ints, owner: Ints, shares: Mapping[str, Ints]
) -> pa.DictionaryArray:
    """Data type of each row's work: for a kernel that of its owner, else by its name.

    fp32 products may be computed in tf32, which the kernel's name says. Then all kernels of its
    owner are tf32, because they share its work: one that adds up parts of a product has a part of
    its FLOPs.
    """
    codes = op_work.dtype.copy()
    texts = list(
        dict.fromkeys((*op_work.dtypes, *(dtype.word for _, dtype in _DTYPE_NAMES), "tf32"))
    )
    place = {text: i for i, text in enumerate(texts)}
    has_work = (shares["flops"][kernels] >= 0) | (shares["bytes"][kernels] >= 0)
    kernels = kernels[has_work]
    code = np.append(op_work.dtype, _UNKNOWN)[owner[kernels]]
    unowned = np.flatnonzero(code < 0)
    dtype_codes = np.array([*(place[dtype.word] for _, dtype in _DTYPE_NAMES), _UNKNOWN], np.int64)
    code[unowned] = dtype_codes[text_codes(events, "name", kernels[unowned], _named_dtype)]
    # torch allows tf32 for fp32 products by a flag that no profiler records; the kernel's name
    # tells.
    is_fp32 = code == place["fp32"]
    if is_fp32.any():
        names, distinct = words(events, "name")
        is_tf32 = np.array([*(bool(_TF32.search(text)) for text in distinct), False], np.bool_)
        named_tf32 = is_fp32 & is_tf32[names[kernels]]
        in_tf32 = np.zeros(owner.size + 1, np.bool_)
        in_tf32[owner[kernels[named_tf32]]] = True
        in_tf32[-1] = False
        code[named_tf32 | (is_fp32 & in_tf32[owner[kernels]])] = place["tf32"]
    codes[kernels] = code
    return encoded(codes, texts)
