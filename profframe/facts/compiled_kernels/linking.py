"""Which call of a kernel in generated code a slice is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.facts.arrays import coded, encoded, ids, is_kind, numbers, present
from profframe.facts.compiled_kernels.kernel_table import KernelTable, fingerprints, kernels_in
from profframe.facts.compiled_kernels.kernel_words import (
    NO_KEY,
    key_of_call,
    marked_kernel,
    word_of,
)
from profframe.facts.fact import Output, Tables, columns, fact, note
from profframe.intervals import Ints, Mask, nearest
from profframe.readers.provenance import CompiledGraph

_WAYS: Final = ("key", "kernels", "name")
_BY_KEY, _BY_KERNELS, _BY_NAME = range(len(_WAYS))
_SOURCE: Final = "provenance"
_LATEST: Final = np.iinfo(np.int64).max


@fact(
    inputs=columns(
        events="kind name start_ns preorder parent_id launch_id op_id stack python_stack"
    ),
    outputs=columns(
        events="compiled_kernel_id compiled_by stack stack_from",
        compiled_kernels="compiled_kernel_id graph graph_key name handle post_grad_nodes"
        " pre_grad_nodes stacks source",
    ),
    options=("provenance",),
)
def compiled_kernels(tables: Tables, provenance: Sequence[CompiledGraph] = ()) -> Output:
    """Fill ``compiled_kernels``, and ``compiled_kernel_id compiled_by stack stack_from``.

    A graph is called in an annotation with its key. Where the files do not have the key, it is the
    only graph with all the generated kernels that run in the annotation, if no other key has
    the same ones. In a call, kernels of one name are those of the code, in its order, if there are
    as many as in the code: else nothing is linked. Outside of such annotations, as in
    packages of AOTInductor, a generated kernel is the only one with its name; not if its launch
    is unknown and the trace has annotations, in any of which it may have been. What could be
    several is NULL and counted in ``quality``.

    Parameters
    ----------
    tables : Tables
        With the columns of ``launches``.
    provenance : Sequence of CompiledGraph
        What the files say.
    """
    table = kernels_in(provenance)
    if not table.graph.size:
        return Output()
    slices = _Slices.of(tables, table)
    calls = _graphs_of_calls(slices, table)
    units = _units(slices, table, calls)
    kernel, way, is_ambiguous = _kernels(units, slices, table, calls)
    rows = units.rows[kernel >= 0]
    linked = np.full(slices.size, -1, np.int64)
    ways = np.full(slices.size, -1, np.int64)
    linked[rows], ways[rows] = kernel[kernel >= 0], way[kernel >= 0]
    caused = np.flatnonzero((slices.cause >= 0) & (linked < 0))
    unit_around = nearest(slices.parent, (linked >= 0) & slices.is_host)
    cause = np.append(unit_around, -1)[slices.cause[caused]]
    linked[caused], ways[caused] = np.append(linked, -1)[cause], np.append(ways, -1)[cause]
    unknown = calls.rows[(calls.graph < 0) & ~calls.is_ambiguous]
    several = np.concatenate([units.rows[is_ambiguous], calls.rows[calls.is_ambiguous]])
    notes = [
        *note("ambiguous_compiled_kernel", np.sort(several)),
        *note("unknown_compiled_graph", unknown),
    ]
    arrays = {
        "events.compiled_kernel_id": ids(linked),
        "events.compiled_by": encoded(ways, _WAYS),
        **_stacks(tables["events"], slices, table, linked),
        **{f"compiled_kernels.{name}": values for name, values in table.columns().items()},
    }
    return Output(arrays, notes)


@dataclass(frozen=True, slots=True)
class _Slices:
    """What of the slices says which kernels they are.

    Attributes
    ----------
    word : Ints
        Number of the word of a kernel that the slice may be, or -1.
    handle : Ints
        Handle that a marker has, or -1.
    key : Ints
        Number of the key in ``keys`` of a graph that is called, or -1.
    keys : tuple of str
        The keys.
    parent, cause, start, place : Ints
        Slice around it; that which launched it, or its op; start; order of slices that start at
        once.
    call : Ints
        The call of a graph around it, or around what launched it; -1 if there is none.
    is_host, is_device, is_op : Mask
        Where it is, and whether it is an op.
    """

    word: Ints
    handle: Ints
    key: Ints
    keys: tuple[str, ...]
    parent: Ints
    cause: Ints
    start: Ints
    place: Ints
    call: Ints
    is_host: Mask
    is_device: Mask
    is_op: Mask

    @property
    def size(self) -> int:
        """Number of slices."""
        return self.word.size

    @classmethod
    def of(cls, tables: Tables, table: KernelTable) -> _Slices:
        """Those of a trace."""
        events = tables["events"]
        codes, texts = coded(events, "name")
        meaning, keys = _meanings(texts, table)
        word, handle, key = meaning[codes].T
        parent, launch, op, place = (
            numbers(events, name, missing=missing)
            for name, missing in (
                ("parent_id", -1),
                ("launch_id", -1),
                ("op_id", -1),
                ("preorder", _LATEST),
            )
        )
        is_op, is_device = is_kind(events, ("host_op",)), is_kind(events, schema.DEVICE_KINDS)
        is_span = is_op | is_kind(events, ("annotation",))
        is_timed = present(events, "start_ns")
        key = np.where(is_span & is_timed, key, -1)
        own_call = nearest(parent, key >= 0)
        cause = np.where(launch >= 0, launch, op)
        call = np.where(is_device, np.append(own_call, -1)[cause], own_call)
        is_call = (is_op & is_timed) | (is_span & (handle >= 0))
        word = np.where(is_call | (is_device & is_timed), word, -1)
        return cls(
            np.where(key >= 0, -1, word),
            handle,
            key,
            keys,
            parent,
            np.where(is_device, cause, -1),
            numbers(events, "start_ns"),
            place,
            call,
            is_kind(events, schema.HOST_KINDS),
            is_device,
            is_op,
        )


def _meanings(texts: pa.StringArray, table: KernelTable) -> tuple[Ints, tuple[str, ...]]:
    """For each text its word, handle and key, as numbers or -1; and the keys."""
    meaning = np.full((len(texts) + 1, 3), -1, np.int64)  # the last row is for NULL
    keys: dict[str, int] = {}
    for place, text in enumerate(texts.to_pylist()):
        if marked := marked_kernel(text):
            meaning[place, 0] = table.words.get(word_of(marked[0]), -1)
            meaning[place, 1] = marked[1]
        elif (key := key_of_call(text)) is not None:
            meaning[place, 2] = keys.setdefault(key, len(keys))
        else:
            meaning[place, 0] = table.words.get(word_of(text), -1)
    return meaning, (*keys,)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of graphs.

    Attributes
    ----------
    rows, graph : Ints
        Their slices, and the graph of each or -1.
    way : Ints
        How it was found.
    is_ambiguous : Mask
        Whether several fit.
    of_row : Ints
        Place of each slice among the calls, or -1.
    """

    rows: Ints
    graph: Ints
    way: Ints
    is_ambiguous: Mask
    of_row: Ints


def _graphs_of_calls(slices: _Slices, table: KernelTable) -> _Calls:
    """The graph that each call is of: by its key, else by the generated kernels in it."""
    rows = np.flatnonzero(slices.key >= 0)
    of_row = np.full(slices.size, -1, np.int64)
    of_row[rows] = np.arange(rows.size)
    by_key, several = table.by_key()
    graph_of_key = np.array([by_key.get(key, -1) for key in slices.keys], np.int64)
    is_doubtful = np.array([key in several for key in slices.keys], np.bool_)
    key = slices.key[rows]
    graph, ambiguous = graph_of_key[key], is_doubtful[key].copy()
    way = np.where(graph >= 0, _BY_KEY, _BY_KERNELS)
    open_calls = np.flatnonzero((graph < 0) & ~ambiguous)
    if open_calls.size:
        graph[open_calls], ambiguous[open_calls] = _by_kernels(
            slices, table, rows, of_row, open_calls
        )
    return _Calls(rows, graph, way, ambiguous, of_row)


def _by_kernels(
    slices: _Slices, table: KernelTable, rows: Ints, of_row: Ints, open_calls: Ints
) -> tuple[Ints, Mask]:
    """For calls without a table key, the only graph without a key that has just their kernels.

    A graph that several keys could belong to belongs to none, and a key has one graph.
    """
    marks = fingerprints(len(table.words))
    is_generated_word = np.zeros(len(table.words) + 1, np.bool_)
    is_generated_word[table.generated_words] = True
    units = _outermost(slices, is_generated_word[slices.word])
    call = np.append(of_row, -1)[slices.call[units]]
    inside = call >= 0
    sums = np.zeros(rows.size, np.int64)
    np.add.at(sums, call[inside], marks[slices.word[units[inside]]])
    keyless = np.array([graph.key is None for graph in table.graphs], np.bool_)
    graph_sums = np.zeros(len(table.graphs), np.int64)
    np.add.at(graph_sums, table.graph[table.generated], marks[table.word[table.generated]])
    graphs_by_sum: dict[int, list[int]] = {}
    for number in np.flatnonzero(keyless & (graph_sums != 0)).tolist():
        graphs_by_sum.setdefault(int(graph_sums[number]), []).append(number)
    wanted, code = np.unique(sums[open_calls], return_inverse=True)
    candidates = [graphs_by_sum.get(int(value), []) if value else [] for value in wanted]
    graph = np.array([c[0] if len(c) == 1 else -1 for c in candidates], np.int64)[code]
    doubtful = np.array([len(c) > 1 for c in candidates], np.bool_)[code]
    key = slices.key[rows[open_calls]]
    has_key = np.array([text != NO_KEY for text in slices.keys], np.bool_)[key]
    pairs = np.unique(np.stack([key, graph], axis=1)[graph >= 0], axis=0)
    graphs_of_key, keys_of_graph = (_repeated(pairs[:, column]) for column in (0, 1))
    doubtful |= (graph >= 0) & np.isin(graph, keys_of_graph)
    doubtful |= (graph >= 0) & np.isin(key, graphs_of_key) & has_key
    return np.where(doubtful, -1, graph), doubtful


def _repeated(values: Ints) -> Ints:
    """Values that occur more than once."""
    different, counts = np.unique(values, return_counts=True)
    return different[counts > 1]


def _outermost(slices: _Slices, is_marked: Mask) -> Ints:
    """Marked host slices in no other of their call, and marked device slices launched by none."""
    host = is_marked & slices.is_host
    around = np.append(nearest(slices.parent, host), -1)
    above = around[slices.parent]
    is_inside = (above >= 0) & (np.append(slices.call, -1)[above] == slices.call)
    around_cause = around[slices.cause]
    device = is_marked & slices.is_device
    is_launched = (around_cause >= 0) & (np.append(slices.call, -1)[around_cause] == slices.call)
    return np.flatnonzero((host & ~is_inside) | (device & ~is_launched))


@dataclass(frozen=True, slots=True)
class _Units:
    """Slices that are calls of kernels, and the place of the call of a graph around each, or -1."""

    rows: Ints
    call: Ints


def _units(slices: _Slices, table: KernelTable, calls: _Calls) -> _Units:
    """The outermost slices with a word of the graph of their call; outside, generated kernels."""
    count = len(table.words)
    pairs = np.unique(table.graph * count + table.word)
    place = np.append(calls.of_row, -1)[slices.call]
    graph = np.append(calls.graph, -1)[place]
    own = np.isin(graph * count + slices.word, pairs) & (graph >= 0) & (slices.word >= 0)
    outside = np.isin(slices.word, table.generated_words) & (place < 0)
    rows = _outermost(slices, own | outside)
    return _Units(rows, place[rows])


def _kernels(
    units: _Units, slices: _Slices, table: KernelTable, calls: _Calls
) -> tuple[Ints, Ints, Mask]:
    """The kernel of each unit or -1, how it was found, and whether several fit."""
    graph = np.append(calls.graph, -1)[units.call]
    way = np.where(graph >= 0, np.append(calls.way, -1)[units.call], _BY_NAME)
    word = slices.word[units.rows]
    handle = slices.handle[units.rows]
    inside = graph >= 0
    kernel = np.full(units.rows.size, -1, np.int64)
    marked = np.flatnonzero(inside & (handle >= 0))
    kernel[marked] = _by_handle(table, graph[marked], word[marked], handle[marked])
    plain = np.flatnonzero(inside & (handle < 0))
    groups = _Groups(units.rows[plain], units.call[plain], graph[plain], word[plain])
    kernel[plain] = _in_order(table, slices, groups)
    # Work whose launch is not in the trace may be of any graph that is called in it.
    is_lost = slices.is_device[units.rows] & (slices.cause[units.rows] < 0)
    outside = np.flatnonzero(~inside & ~(is_lost & bool(calls.rows.size)))
    kernel[outside] = _by_name(table, word[outside])
    return kernel, way, kernel < 0


def _by_handle(table: KernelTable, graph: Ints, word: Ints, handle: Ints) -> Ints:
    wanted = np.stack([graph, word, handle], axis=1)
    own = np.stack([table.graph, table.word, table.handle], axis=1)
    distinct, code = np.unique(np.concatenate([own, wanted]), axis=0, return_inverse=True)
    code = code.reshape(-1)
    place = np.full(len(distinct), -1, np.int64)
    counts = np.bincount(code[: len(own)], minlength=len(distinct))
    place[code[: len(own)]] = np.arange(len(own))
    place[counts > 1] = -1
    return place[code[len(own) :]]


@dataclass(frozen=True, slots=True)
class _Groups:
    """Units in calls: their rows, calls, graphs and words."""

    rows: Ints
    call: Ints
    graph: Ints
    word: Ints


def _in_order(table: KernelTable, slices: _Slices, units: _Groups) -> Ints:
    """The kernels of one name in a call in the order of the code, if there are as many as there.

    Those without a handle stand for any number of calls.
    """
    count = max(len(table.words), 1)
    own = table.graph * count + table.word
    order = np.argsort(own, kind="stable")
    names, first, size = np.unique(own[order], return_index=True, return_counts=True)
    at = np.searchsorted(names, units.graph * count + units.word)
    sorting = np.lexsort(
        (slices.place[units.rows], slices.start[units.rows], units.word, units.call)
    )
    _, code, counts = np.unique(
        units.call * count + units.word, return_inverse=True, return_counts=True
    )
    code = code.reshape(-1)
    occurrence = np.empty(units.rows.size, np.int64)
    occurrence[sorting] = np.arange(units.rows.size) - (np.cumsum(counts) - counts)[code[sorting]]
    has_none = (table.handle[order[first[at]]] < 0) & (size[at] == 1)
    fits = has_none | (counts[code] == size[at])
    place = first[at] + np.where(has_none, 0, occurrence)
    return np.where(fits, order[np.minimum(place, order.size - 1)], -1)


def _by_name(table: KernelTable, word: Ints) -> Ints:
    """The only kernel with a word, over all graphs."""
    counts = np.bincount(table.word, minlength=len(table.words))
    only = np.full(len(table.words) + 1, -1, np.int64)
    only[table.word] = np.arange(table.word.size)
    only[:-1][counts > 1] = -1
    kernels: Ints = only[word]
    return kernels


def _stacks(
    events: pa.Table, slices: _Slices, table: KernelTable, linked: Ints
) -> dict[str, pa.Array]:
    """``stack`` and ``stack_from`` of the calls on the host that the trace has no stack of."""
    type_ = schema.EVENTS.arrow.field("stack").type
    own = events["stack"] if "stack" in events.column_names else pa.nulls(slices.size, type_)
    has_own = present(events, *(n for n in ("stack",) if n in events.column_names))
    if "python_stack" in events.column_names:
        has_own = has_own | present(events, "python_stack")
    stacks = table.stacks()
    kernel = np.where(slices.is_op & ~has_own, linked, -1)
    given = stacks.take(pa.array(kernel, mask=kernel < 0))
    is_given = given.is_valid().to_numpy(zero_copy_only=False)
    values = pc.coalesce(own.cast(pa.string()), given.cast(pa.string())) if is_given.any() else own
    return {
        "events.stack": _one(values).cast(type_),
        "events.stack_from": encoded(np.where(is_given, 0, -1), [_SOURCE]),
    }


def _one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
