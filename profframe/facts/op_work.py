"""How much work ops and kernels did, and which op it is the work of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from profframe.facts.columns import (
    coded,
    column,
    encoded,
    ids,
    is_kind,
    numbers,
    present,
    words,
)
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.facts.formulas import FORMULAS, Formula, Op, count
from profframe.facts.formulas.dtypes import (
    BF16,
    BOOL,
    COMPLEX128,
    DTYPES,
    FP8,
    FP16,
    FP32,
    FP64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    Dtype,
)
from profframe.facts.formulas.ops import parsed
from profframe.intervals import Ints, Mask

_INPUTS: Final = ("input_dims", "input_types", "input_strides", "concrete_inputs")
_LISTS: Final = "TensorList"
_TF32: Final = re.compile("tf32|tensorop|s1688", re.IGNORECASE)
_NAMED: Final = tuple(
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
"""Data types by what kernels are called; the first that fits counts."""
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
"""Type of the elements that a kernel is made for: the first word of these in its name, but for that
of the numbers that come along with a list."""
_OF_PARAMETERS: Final = ("aten::_foreach_", "aten::_fused_", "aten::_amp_foreach_")
"""Ops on lists of parameters, gradients and states, by how they begin."""
_NO_FORMULA: Final = Formula()
NO_FORMULAS: Final[Mapping[str, Formula | None]] = MappingProxyType({})
_UNKNOWN: Final = -1
_LARGEST: Final = 1 << 62


@fact(
    inputs=columns(
        events="kind name input_dims input_types input_strides concrete_inputs given_flops"
        " given_bytes bytes dur_ns parent_id preorder last_descendant_id op_id"
    ),
    outputs=columns(events="flops bytes work_id work_dtype"),
    options=("formulas",),
)
def work(tables: Tables, formulas: Mapping[str, Formula | None] = NO_FORMULAS) -> Output:
    """Add ``flops work_id work_dtype``, and ``bytes`` where it is not what a copy has moved.

    The work of an op is what its formula gives for its inputs, or what the source says of it. The
    outermost op on its thread whose work is known owns it, and so what is launched inside it: its
    kernels share it in proportion to their durations, and add up to it exactly. A kernel of which
    the source itself says its work keeps that, and the others share the rest. A formula that is
    given counts before that of `FORMULAS`; None is for an op whose work is not known.
    """
    events = tables["events"]
    merged = {**FORMULAS, **formulas}
    counted = _counted(events, {op: of for op, of in merged.items() if of is not None})
    owner = _owners(events, counted.known)
    counted = _in_inner_types(events, counted, owner)
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    op = numbers(events, "op_id", missing=-1)[kernels]
    owner[kernels] = np.where(op >= 0, owner[op], -1)
    dur = numbers(events, "dur_ns")[kernels]
    shares = {
        "flops": _spread(counted.flops, _given(events, "given_flops"), kernels, owner, dur),
        "bytes": _spread(counted.bytes, _moved(events), kernels, owner, dur),
    }
    return of_events(
        **{name: column(name, values, values >= 0) for name, values in shares.items()},
        work_id=ids(owner),
        work_dtype=_dtypes(events, counted, kernels, owner, shares),
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """Work of each row that is an op with known work, else -1; ``dtype`` numbers ``dtypes``."""

    flops: Ints
    bytes: Ints
    dtype: Ints
    dtypes: list[str]

    @property
    def known(self) -> Mask:
        mask: Mask = (self.flops >= 0) | (self.bytes >= 0)
        return mask


def _counted(events: pa.Table, formulas: Mapping[str, Formula]) -> _Counted:
    """What the source says, else what formulas give, once for each set of inputs that there is."""
    flops, bytes_, dtype = np.full((3, events.num_rows), _UNKNOWN, np.int64)
    is_op = is_kind(events, ("host_op",))
    said = {name: _given(events, name) for name in ("given_flops", "given_bytes")}
    told = np.maximum(*said.values()) >= 0
    names, texts = words(events, "name")
    has_formula = np.array([*(t in formulas for t in texts), False], np.bool_)[names]
    rows = np.flatnonzero(is_op & (has_formula | told) & present(events, "input_dims"))
    dtypes: dict[str, int] = {}
    if rows.size:
        which, keys, inputs = _signatures(events, rows, names, texts)
        found = np.array([_count(key, inputs, formulas, dtypes) for key in keys], np.int64)
        flops[rows], bytes_[rows], dtype[rows] = found[which].T
    for values, of_source in zip((flops, bytes_), said.values(), strict=True):
        known = is_op & (of_source >= 0)
        values[known] = of_source[known]
    return _Counted(flops, bytes_, dtype, list(dtypes))


_Inputs = tuple[list[str], list[dict[int, Any]], list[Dtype]]


def _signatures(
    events: pa.Table, rows: Ints, names: Ints, texts: list[str]
) -> tuple[Ints, list[tuple[int, ...]], _Inputs]:
    """Number of the set of name and inputs of each row, these sets, and what is in them."""
    code_columns, parts = [names[rows]], []
    for name in _INPUTS:
        codes, dictionary = coded(events, name)
        code_columns.append(codes[rows])
        used = np.unique(codes[rows])
        used = used[used >= 0]
        taken = dictionary.take(pa.array(used)).to_pylist()
        parts.append({int(code): parsed(text) for code, text in zip(used, taken, strict=True)})
    has_list = np.zeros(1 + max((1 + code for code in parts[1]), default=0), np.bool_)
    has_list[[code for code, types in parts[1].items() if _LISTS in types]] = True
    listed = rows[has_list[code_columns[2]]]
    of_parameters = np.array(
        [text.startswith(_OF_PARAMETERS) for text in texts] + [False], np.bool_
    )
    of_lists, dtypes = _types_of_lists(events, listed, of_parameters[names[listed]])
    code_columns.append(of_lists[rows])
    key = np.zeros(rows.size, np.int64)
    for codes in code_columns:
        key = _numbered(key * (int(codes.max()) + 2) + codes + 1)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    keys = list(zip(*(codes[first].tolist() for codes in code_columns), strict=True))
    return which, keys, (texts, parts, dtypes)


def _numbered(keys: Ints) -> Ints:
    """Small numbers in place of large ones, so that more can be packed in."""
    codes: Ints = pa.array(keys).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _count(
    key: tuple[int, ...],
    inputs: _Inputs,
    formulas: Mapping[str, Formula],
    dtypes: dict[str, int],
) -> tuple[int, int, int]:
    """Operations, bytes, and number of the data type for one set of inputs; -1 is unknown."""
    texts, parts, of_lists = inputs
    name, *codes, list_code = key
    formula = formulas.get(texts[name], _NO_FORMULA)
    of_list = of_lists[list_code] if list_code >= 0 else None
    dims, types, strides, values = (
        part.get(code, []) for part, code in zip(parts, codes, strict=True)
    )
    op = Op(texts[name], dims, types, strides, values, of_list)
    flops, bytes_ = (count(of, op) for of in (formula.flops, formula.bytes))
    dtype = op.work_dtype
    return (
        _UNKNOWN if flops is None else flops,
        _UNKNOWN if bytes_ is None else bytes_,
        _UNKNOWN if dtype is None else dtypes.setdefault(dtype.word, len(dtypes)),
    )


def _types_of_lists(events: pa.Table, rows: Ints, of_parameters: Mask) -> tuple[Ints, list[Dtype]]:
    """Type of the tensors in the lists of these ops, which no profiler records.

    The kernels are called by it, else an op inside that does the same with one tensor has it. Where
    nothing tells, it is the only one in the trace; where there are several, parameters and states
    of optimisers are taken to be fp32.
    """
    dtypes = [FP32, *_ELEMENTS.values(), *DTYPES.values()]
    found = np.full(events.num_rows, _UNKNOWN, np.int64)
    if not rows.size:
        return found, dtypes
    only = _only_type(events)
    found[rows] = np.where(of_parameters, 0, _UNKNOWN) if only is None else dtypes.index(only)
    listed = np.zeros(events.num_rows + 1, np.bool_)
    listed[rows] = True
    parent = numbers(events, "parent_id", missing=-1)
    inside = np.flatnonzero(listed[parent] & present(events, "input_types"))
    typed = _of_texts(events, "input_types", inside, _first_type)
    found[parent[inside[typed >= 0]]] = 1 + len(_ELEMENTS) + typed[typed >= 0]
    kernels = np.flatnonzero(is_kind(events, ("kernel",)))
    op = numbers(events, "op_id", missing=-1)[kernels]
    named = 1 + _of_texts(events, "name", kernels[listed[op]], _element)
    found[op[listed[op]][named > 0]] = named[named > 0]
    return found, dtypes


def _only_type(events: pa.Table) -> Dtype | None:
    """The one type of floating-point numbers, fp64 aside, which every number of Python is.

    Without any it is torch's default; None where there are several.
    """
    texts = coded(events, "input_types")[1].to_pylist()
    found = {dtype for text in texts for _, dtype in _types(text)}
    floats = {dtype for dtype in found if dtype.floats and dtype != FP64} or {FP32}
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


def _named(name: str) -> int:
    return next((i for i, (word, _) in enumerate(_NAMED) if word.search(name)), _UNKNOWN)


def _of_texts(events: pa.Table, name: str, rows: Ints, find: Callable[[str], int]) -> Ints:
    """What a function finds in the text of each of the rows; once for each text, -1 for none."""
    codes, texts = coded(events, name)
    used, which = np.unique(codes[rows], return_inverse=True)
    taken = texts.take(pa.array(used, mask=used < 0)).to_pylist()
    return np.array([find(text) if text else _UNKNOWN for text in taken], np.int64)[which]


def _owners(events: pa.Table, known: Mask) -> Ints:
    """Row of the outermost op with known work around each host row, itself included, or -1.

    In preorder the slices inside an owner follow it without a gap.
    """
    owner = np.where(known, np.arange(known.size), _UNKNOWN)  # what does not nest owns its own
    nests = np.flatnonzero(present(events, "preorder"))
    if not nests.size or not known.any():
        return owner
    preorder = numbers(events, "preorder")
    rows = np.empty(nests.size, np.int64)
    rows[preorder[nests]] = nests
    places = np.flatnonzero(known[rows])
    end = preorder[numbers(events, "last_descendant_id")[rows[places]]]
    reached = np.maximum.accumulate(np.append(-1, end))[:-1]
    outermost = places > reached
    places, end = places[outermost], end[outermost]
    at = np.searchsorted(places, np.arange(rows.size), side="right") - 1
    inside = (at >= 0) & (np.arange(rows.size) <= np.append(end, -1)[at])
    owner[rows] = np.where(inside, np.append(rows[places], -1)[at], _UNKNOWN)
    return owner


def _in_inner_types(events: pa.Table, counted: _Counted, owner: Ints) -> _Counted:
    """The work with the types that owners really do it in.

    Under autocast an op is recorded with what it was given; inside, after the copies that convert,
    the same op is with what it computes in. So an owner has the type of the op in it that does most
    of its work, the innermost of equal ones, if that is half of it or more.
    """
    floats = {dtype.word for dtype in DTYPES.values() if dtype.floats}
    is_float = np.array([*(word in floats for word in counted.dtypes), False])[counted.dtype]
    around = np.where(owner == np.arange(owner.size), _UNKNOWN, owner)
    rows = np.flatnonzero((around >= 0) & (counted.flops > 0) & is_float & is_float[around])
    rows = rows[2 * counted.flops[rows] >= counted.flops[around[rows]]]
    place = numbers(events, "preorder")[rows]
    rows = rows[np.lexsort((place, counted.flops[rows]))]
    dtype = counted.dtype.copy()
    dtype[around[rows]] = counted.dtype[rows]  # the last one of an owner counts
    return replace(counted, dtype=dtype)


def _given(events: pa.Table, name: str) -> Ints:
    """What the source says of the work of each row, or -1."""
    if name not in events.column_names:
        return np.full(events.num_rows, _UNKNOWN, np.int64)
    return numbers(events, name, missing=_UNKNOWN)


def _moved(events: pa.Table) -> Ints:
    """Bytes by what the source says: of a copy what was moved, of a kernel its work."""
    moved = _given(events, "bytes")
    on_device = is_kind(events, ("kernel", "memcpy", "memset"))
    return np.where(on_device & (moved >= 0), moved, _given(events, "given_bytes"))


def _spread(known: Ints, given: Ints, kernels: Ints, owner: Ints, dur: Ints) -> Ints:
    """Work of each row: of ops their own, of kernels what is given, else their share."""
    shares = np.where(known >= 0, known, given)
    of = owner[kernels]
    own = given[kernels]
    owned = (of >= 0) & (known[of] >= 0)
    left = known.copy()
    told = owned & (own >= 0)
    np.subtract.at(left, of[told], own[told])
    sharing = owned & (own < 0)
    rows, of = kernels[sharing], of[sharing]
    if rows.size:
        shares[rows] = _apportioned(np.maximum(left, 0)[of], of, dur[sharing])
    return shares


def _apportioned(amount: Ints, group: Ints, weight: Ints) -> Ints:
    """Share of each row in the amount of its group, by weight; a group's add up to it exactly.

    The sum up to a row is rounded down, and a row has what it adds. Without weights all are alike.
    """
    order = np.argsort(group, kind="stable")
    amount, group = amount[order], group[order]
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    size = np.diff(np.append(first, group.size))
    weight = np.minimum(weight[order], _LARGEST // np.repeat(size, size))
    none = np.add.reduceat(weight, first) == 0
    weight = np.where(np.repeat(none, size), 1, weight)
    total = np.repeat(np.add.reduceat(weight, first), size)
    until = np.cumsum(weight)
    until -= np.repeat(until[first] - weight[first], size)
    fits = amount <= _LARGEST // total
    exact = np.where(fits, amount, 0) * until // total
    rough = (amount * (until / total)).astype(np.int64)  # too large a product for a whole number
    upto = np.where(until == total, amount, np.where(fits, exact, np.minimum(rough, amount)))
    before = np.append(0, upto[:-1])
    before[first] = 0
    shares = np.empty_like(amount)
    shares[order] = upto - before
    return shares


def _dtypes(
    events: pa.Table, counted: _Counted, kernels: Ints, owner: Ints, shares: Mapping[str, Ints]
) -> pa.DictionaryArray:
    """Type that the work of each row is done in: of a kernel its owner's, else what it is called.

    Products of fp32 may be done in tf32; the kernel's name says so. Then all kernels of its owner
    are tf32, as they share its work: one that adds up parts of a product has a part of its FLOP.
    """
    codes = counted.dtype.copy()
    texts = list(dict.fromkeys((*counted.dtypes, *(dtype.word for _, dtype in _NAMED), "tf32")))
    place = {text: i for i, text in enumerate(texts)}
    has_work = (shares["flops"][kernels] >= 0) | (shares["bytes"][kernels] >= 0)
    kernels = kernels[has_work]
    of = np.append(counted.dtype, _UNKNOWN)[owner[kernels]]
    without = np.flatnonzero(of < 0)
    named = np.array([*(place[dtype.word] for _, dtype in _NAMED), _UNKNOWN], np.int64)
    of[without] = named[_of_texts(events, "name", kernels[without], _named)]
    names, distinct = words(events, "name")
    is_tf32 = np.array([*(bool(_TF32.search(text)) for text in distinct), False], np.bool_)
    said = (of == place["fp32"]) & is_tf32[names[kernels]]
    in_tf32 = np.zeros(owner.size + 1, np.bool_)
    in_tf32[owner[kernels[said]]] = True
    in_tf32[-1] = False
    of[said | ((of == place["fp32"]) & in_tf32[owner[kernels]])] = place["tf32"]
    codes[kernels] = of
    return encoded(codes, texts)
