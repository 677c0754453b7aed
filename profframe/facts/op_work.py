"""FLOPs and bytes of ops and kernels, and the op that each kernel works for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    column,
    combined,
    encoded,
    ids,
    is_kind,
    numbers,
    words,
)
from profframe.facts.counted_calls import (
    UNKNOWN,
    CountedWork,
    counted_work,
    is_replayed,
    outermost,
    recorded_work,
)
from profframe.facts.fact import Note, Output, Tables, any_of, columns, fact, of_events
from profframe.facts.formulas import Formula, is_product
from profframe.facts.formulas.dtypes import (
    BF16,
    DTYPES,
    FP8,
    FP16,
    FP32,
    FP64,
    INT8,
)
from profframe.facts.list_types import text_codes
from profframe.intervals import Ints, Mask

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
NO_FORMULAS: Final[Mapping[str, Formula | None]] = MappingProxyType({})
_MOST_NAMES: Final = 5
_FEWEST_CALLS: Final = 8
"""Calls of equal work in a step that are enough to compare their times."""
_LARGEST: Final = 1 << 62


@fact(
    inputs=columns(
        events="kind name input_dims input_types input_strides concrete_inputs given_flops"
        " given_bytes bytes dur_ns parent_id preorder last_descendant_id op_id"
        " launch_id replays phase_id"
    ),
    outputs=columns(events="flops bytes work_id work_dtype is_product"),
    options=("formulas",),
    needs=any_of(events="input_dims given_flops given_bytes bytes"),
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
    those of its own; what has no FLOPs without them is counted (``work_needs_lengths``), and what
    takes very different times for the same (``uneven_attention``).
    """
    events = tables["events"]
    op_work = counted_work(events, formulas)
    owner = _all_owners(events, op_work)
    op_work = _with_inner_types(events, op_work, owner)
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    op = numbers(events, "op_id", missing=-1)[kernels]
    owner[kernels] = np.where(op >= 0, owner[op], -1)
    calls = _kernel_calls(events, op_work, kernels, owner)
    recorded = {"flops": recorded_work(events, "given_flops"), "bytes": _moved(events)}
    shares = {
        name: _spread(getattr(op_work, name), of_source, calls, getattr(calls, name))
        for name, of_source in recorded.items()
    }
    return of_events(
        *_needing_lengths(events, op_work, owner),
        *_uneven_attention(events, op_work, owner, calls),
        **{name: column(name, values, values >= 0) for name, values in shares.items()},
        work_id=ids(owner),
        work_dtype=_dtypes(events, op_work, kernels, owner, shares),
        is_product=_products(events, kernels, owner, shares["flops"]),
    )


def _named_dtype(name: str) -> int:
    return next((i for i, (word, _) in enumerate(_DTYPE_NAMES) if word.search(name)), UNKNOWN)


def _all_owners(events: pa.Table, op_work: CountedWork) -> Ints:
    """Owner of each row: the outermost op with known operations, else one with known bytes."""
    in_whole = op_work.knows("flops")
    # The outermost op with FLOPs, so that aten::linear and the aten::addmm inside it do not both
    # count.
    owner = outermost(events, in_whole)
    in_part = op_work.knows("bytes") & ~in_whole
    if not in_part.any():
        return owner
    # An op of which only bytes are known must not own kernels whose FLOPs an op inside it explains.
    in_part[np.flatnonzero(in_part)] = ~_computes_inside(events, op_work, np.flatnonzero(in_part))
    return np.where(owner >= 0, owner, outermost(events, in_part))


def _computes_inside(events: pa.Table, op_work: CountedWork, rows: Ints) -> Mask:
    """Whether ops inside each row are known to compute."""
    preorder = numbers(events, "preorder", missing=-1)
    computes = np.sort(preorder[(op_work.flops > 0) & (preorder >= 0)])
    last = numbers(events, "last_descendant_id", missing=-1)[rows]
    end = np.where(last >= 0, preorder[last], -1)
    first, after = (np.searchsorted(computes, at, side="right") for at in (preorder[rows], end))
    return after > first


def _needing_lengths(events: pa.Table, op_work: CountedWork, owner: Ints) -> Iterator[Note]:
    """A note on ops without operations that no other op accounts for, by their names."""
    lacking = op_work.needs_lengths & (owner < 0)
    if not lacking.any():
        return
    lacking[np.flatnonzero(lacking)] = ~_computes_inside(events, op_work, np.flatnonzero(lacking))
    rows = np.flatnonzero(lacking & (outermost(events, lacking) == np.arange(owner.size)))
    if not rows.size:
        return
    names, texts = words(events, "name")
    used, calls = np.unique(names[rows], return_counts=True)
    ordered = sorted(zip((-calls).tolist(), (texts[code] for code in used), strict=True))
    shown = ", ".join(f"{name} ({-calls_})" for calls_, name in ordered[:_MOST_NAMES])
    rest = f" and {len(ordered) - _MOST_NAMES} more" if len(ordered) > _MOST_NAMES else ""
    yield "work_needs_lengths", rows.size, f"calls of {shown}{rest}", int(rows[0])


def _uneven_attention(
    events: pa.Table, op_work: CountedWork, owner: Ints, calls: _KernelCalls
) -> Iterator[Note]:
    """A note on attention of one step whose calls take very different times for equal work.

    Some layers may see only a window, which a server does not record: the quartiles of their times
    are then far apart.
    """
    batch = np.append(op_work.batch, UNKNOWN)[owner]
    replays = op_work.replays
    is_owner = owner[replays.kernels] == replays.op
    batch[replays.kernels[is_owner]] = replays.batch[is_owner]
    batch = np.where(calls.flops >= 0, batch[calls.kernels], UNKNOWN)
    rows = np.flatnonzero(batch >= 0)
    if not rows.size:
        return
    _, first, call = np.unique(calls.number[rows], return_index=True, return_inverse=True)
    dur = np.bincount(call, calls.dur[rows]).astype(np.int64)
    names, texts = words(events, "name")
    rows = rows[first]
    op = owner[calls.kernels[rows]]
    group = combined(names[op], batch[rows], calls.flops[rows])
    order = np.lexsort((dur, group))
    bounds = np.flatnonzero(np.append(True, group[order][1:] != group[order][:-1]))
    size = np.diff(np.append(bounds, group.size))
    low, high = (dur[order][bounds + size * part // 4] for part in (1, 3))
    uneven = np.flatnonzero((size >= _FEWEST_CALLS) & (2 * high > 3 * low))
    for code in np.unique(names[op[order[bounds[uneven]]]]).tolist():
        of_name = uneven[names[op[order[bounds[uneven]]]] == code]
        detail = (
            f"calls of {texts[code]}: a quarter in at most {low[of_name[0]]} ns, a quarter in at"
            f" least {high[of_name[0]]} ns"
        )
        example = int(op[order[bounds[of_name[0]]]])
        yield "uneven_attention", int(size[of_name].sum()), detail, example


def _with_inner_types(events: pa.Table, op_work: CountedWork, owner: Ints) -> CountedWork:
    """The work with the types that owners compute in.

    Under autocast an op is recorded with its original inputs; inside, after the converting copies,
    the same op has the inputs that it computes with. So an owner gets the type of the inner op that
    does most of its work, the innermost of equal ones, if that is at least half.
    """
    floats = {dtype.word for dtype in DTYPES.values() if dtype.floats}
    is_float = np.array([*(word in floats for word in op_work.dtypes), False])[op_work.dtype]
    around = np.where(owner == np.arange(owner.size), UNKNOWN, owner)
    rows = np.flatnonzero((around >= 0) & (op_work.flops > 0) & is_float & is_float[around])
    rows = rows[2 * op_work.flops[rows] >= op_work.flops[around[rows]]]
    place = numbers(events, "preorder")[rows]
    rows = rows[np.lexsort((place, op_work.flops[rows]))]
    dtype = op_work.dtype.copy()
    dtype[around[rows]] = op_work.dtype[rows]  # the last one of an owner counts
    return replace(op_work, dtype=dtype)


def _moved(events: pa.Table) -> Ints:
    """Bytes from the source: those that a copy moved, or a kernel's work."""
    moved = recorded_work(events, "bytes")
    on_device = is_kind(events, schema.DEVICE_KINDS)
    return np.where(on_device & (moved >= 0), moved, recorded_work(events, "given_bytes"))


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


def _kernel_calls(
    events: pa.Table, op_work: CountedWork, kernels: Ints, owner: Ints
) -> _KernelCalls:
    call = _call_numbers(events, kernels, owner)
    has_others = np.bincount(call + 1)[call + 1] > 1
    replays = op_work.replays
    varies = np.zeros(owner.size + 1, np.bool_)
    varies[replays.op] = True
    is_owner = owner[replays.kernels] == replays.op
    amounts = []
    for name in ("flops", "bytes"):
        of_owner = np.append(getattr(op_work, name), UNKNOWN)[owner[kernels]]
        of_replay = np.full(owner.size, UNKNOWN, np.int64)
        of_replay[replays.kernels[is_owner]] = getattr(replays, name)[is_owner]
        amounts.append(np.where(varies[owner[kernels]], of_replay[kernels], of_owner))
    return _KernelCalls(kernels, call, has_others, numbers(events, "dur_ns")[kernels], *amounts)


def _call_numbers(events: pa.Table, kernels: Ints, owner: Ints) -> Ints:
    """Number of the call of its owner that each kernel is of; a captured op has one per replay."""
    call = owner[kernels].copy()
    launch = numbers(events, "launch_id", missing=UNKNOWN)[kernels]
    of_replay = np.append(is_replayed(events), False)[call] & (launch >= 0)
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


def product_column(events: pa.Table) -> pa.BooleanArray:
    """``is_product`` of stored events, from their other columns."""
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    return _products(
        events, kernels, numbers(events, "work_id", missing=-1), recorded_work(events, "flops")
    )


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
    events: pa.Table, op_work: CountedWork, kernels: Ints, owner: Ints, shares: Mapping[str, Ints]
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
    code = np.append(op_work.dtype, UNKNOWN)[owner[kernels]]
    unowned = np.flatnonzero(code < 0)
    dtype_codes = np.array([*(place[dtype.word] for _, dtype in _DTYPE_NAMES), UNKNOWN], np.int64)
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
