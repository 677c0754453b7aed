"""The Python frames around a slice, if the profiler recorded Python calls."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.facts.arrays import coded, encoded, is_kind, is_text, numbers, present, words
from profframe.facts.fact import Output, Tables, any_of, columns, fact, note, of_events
from profframe.facts.graph_captures.captured_rows import STACK
from profframe.intervals import Ints, Mask, nearest, rows_by_value

_MOST_BYTES: Final = 1 << 28
"""Bytes of all distinct texts together."""


@fact(
    inputs=columns(
        events="kind name parent_id preorder last_descendant_id stack_around_capture op_id"
        " attributed_by"
    ),
    outputs=columns(events="python_stack"),
    needs=any_of(kinds=("python",), events="stack_around_capture"),
)
def python_stacks(tables: Tables) -> Output:
    """Fill ``python_stack``: names of the Python slices around, innermost first, joined by ``;``.

    Python slices themselves have none, as there are too many: their frames are their parents.
    Captured slices have the frames around the capture, too. Work in graphs of which only the stack
    of the captured call is known has that.
    Slices with the same frames around them share one text, so that a loop costs no more than one
    iteration. If all texts together are too long, as for a recursion ten thousand deep, the longest
    are left out and counted in ``quality``.
    """
    events = tables["events"]
    is_frame = is_kind(events, ("python",)) & present(events, "preorder")
    if not is_frame.any():
        return _around_captures(events, encoded(np.full(events.num_rows, -1), []))
    parent = numbers(events, "parent_id", missing=-1)
    own = np.append(nearest(parent, is_frame), -1)
    frame = own[parent]
    if "attributed_by" in events.column_names:
        rows = np.flatnonzero(is_text(events["attributed_by"], STACK))
        frame[rows] = own[numbers(events, "op_id", missing=-1)[rows]]
    chain, chains = _chains(tables, frame, np.unique(frame[frame >= 0]))
    rows = np.flatnonzero((frame >= 0) & ~is_frame)
    needed, number = np.unique(chain[frame[rows]], return_inverse=True)
    fits = chains.shortest(needed, _MOST_BYTES)
    codes = np.full(events.num_rows, -1, np.int64)
    codes[rows] = np.where(fits, np.cumsum(fits) - 1, -1)[number]
    indices = pa.array(codes, pa.int32(), mask=codes < 0)
    stacks = pa.DictionaryArray.from_arrays(indices, chains.texts(needed[fits]))
    output = _around_captures(events, stacks)
    notes = note("long_python_stack", rows[~fits[number]])
    return of_events(*notes, python_stack=output.columns.get("events.python_stack", stacks))


def _around_captures(events: pa.Table, stacks: pa.DictionaryArray) -> Output:
    """The stacks of captured slices, followed by the frames around their captures."""
    if "stack_around_capture" not in events.column_names:
        return Output()
    around, texts_around = coded(events, "stack_around_capture")
    captured = np.flatnonzero(around >= 0)
    codes = stacks.indices.fill_null(-1).to_numpy().astype(np.int64)
    pairs, place = np.unique(
        np.stack((codes[captured], around[captured])), axis=1, return_inverse=True
    )
    own, outer = (
        texts.take(pa.array(part, mask=part < 0))
        for texts, part in zip((stacks.dictionary, texts_around), pairs, strict=True)
    )
    joined = pc.coalesce(pc.binary_join_element_wise(own, outer, ";"), outer)
    codes[captured] = len(stacks.dictionary) + place.reshape(-1)
    return of_events(python_stack=encoded(codes, pa.concat_arrays([stacks.dictionary, joined])))


@dataclass(frozen=True, slots=True)
class _Chains:
    """Distinct chains of frames, from short to long: the innermost frame, and the chain around it.

    Attributes
    ----------
    texts_of_names : pyarrow.StringArray
        Distinct names.
    name : Ints
        Code of the innermost frame's name.
    around : Ints
        Chain of the frames around it; -1 for none.
    bounds : list of int
        Where the chains of each length start, and the end of the last.
    """

    texts_of_names: pa.StringArray
    name: Ints
    around: Ints
    bounds: list[int]

    def shortest(self, needed: Ints, most: int) -> Mask:
        """Mask of the shortest chains whose texts fit into this many bytes."""
        size = pc.binary_length(self.texts_of_names).to_numpy().astype(np.int64)[self.name]
        for first, last in pairwise(self.bounds[1:]):
            size[first:last] += size[self.around[first:last]] + 1
        order = np.argsort(size[needed], kind="stable")
        fits = np.zeros(needed.size, np.bool_)
        fits[order] = np.cumsum(size[needed][order]) <= most
        return fits

    def texts(self, needed: Ints) -> pa.StringArray:
        """Texts of some chains, in their order; only those of two lengths are in memory at once."""
        is_used = np.zeros(self.name.size, np.bool_)
        is_used[needed] = True
        for first, last in reversed([*pairwise(self.bounds)][1:]):
            around = self.around[first:last]
            is_used[around[is_used[first:last]]] = True
        texts = pa.array([], pa.string())
        parts, previous = [texts], np.empty(0, np.int64)
        for first, last in pairwise(self.bounds):
            current = first + np.flatnonzero(is_used[first:last])
            around = np.searchsorted(previous, self.around[current])
            names = self.texts_of_names.take(pa.array(self.name[current]))
            if first:
                names = pc.binary_join_element_wise(names, texts.take(pa.array(around)), ";")
            texts, previous = names, current
            chosen = needed[(needed >= first) & (needed < last)]
            parts.append(texts.take(pa.array(np.searchsorted(current, chosen))))
        return pa.concat_arrays(parts)


def _chains(tables: Tables, frame: Ints, used: Ints) -> tuple[Ints, _Chains]:
    """For each used frame the number of its chain, and the chains.

    Frames with the same name and the same frames around them share a chain.
    """
    events = tables["events"]
    codes, texts = words(events, "name")
    chain = np.full(events.num_rows + 1, -1, np.int64)
    names, arounds, bounds = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [0]
    for rows in _levels(events, used):
        key = chain[frame[rows]] * (len(texts) + 1) + codes[rows] % (len(texts) + 1)
        distinct, number = np.unique(key, return_inverse=True)
        around, name = np.divmod(distinct, len(texts) + 1)
        names.append(name)
        arounds.append(around)
        chain[rows] = bounds[-1] + number
        bounds.append(bounds[-1] + distinct.size)
    texts_of_names = pa.array([*texts, ""], pa.string())
    chains = _Chains(texts_of_names, np.concatenate(names), np.concatenate(arounds), bounds)
    return chain[:-1], chains


def _levels(events: pa.Table, rows: Ints) -> list[Ints]:
    """Rows grouped by nesting level among themselves."""
    preorder = numbers(events, "preorder")
    rows = rows[np.argsort(preorder[rows])]
    last = np.sort(preorder[numbers(events, "last_descendant_id")[rows]])
    level = np.arange(rows.size) - np.searchsorted(last, preorder[rows])
    return [rows[places] for places in rows_by_value(level)]
