"""The Python frames around a slice, where the profiler recorded calls of Python functions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.facts.columns import is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, columns, fact, note, of_events
from profframe.intervals import Ints, Mask, nearest

_MOST_BYTES: Final = 1 << 28
"""Of all distinct texts together."""


@fact(
    inputs=columns(events="kind name parent_id preorder last_descendant_id"),
    outputs=columns(events="python_stack"),
)
def python_stacks(tables: Tables) -> Output:
    """Fill ``python_stack``: names of the Python slices around, innermost first, joined by ``;``.

    Not of the Python slices themselves, whose frames are their parents: there are too many. Slices
    with the same frames around them share one text, so that a loop costs no more than one round.
    Should all texts together be too long, as of a recursion ten thousand deep, the longest are left
    out, which ``quality`` says.
    """
    events = tables["events"]
    is_frame = is_kind(events, ("python",)) & present(events, "preorder")
    if not is_frame.any():
        return Output()
    parent = numbers(events, "parent_id", missing=-1)
    frame = np.append(nearest(parent, is_frame), -1)[parent]
    chain, chains = _chains(tables, frame, np.unique(frame[frame >= 0]))
    rows = np.flatnonzero((frame >= 0) & ~is_frame)
    needed, number = np.unique(chain[frame[rows]], return_inverse=True)
    kept = chains.shortest(needed, _MOST_BYTES)
    codes = np.full(events.num_rows, -1, np.int64)
    codes[rows] = np.where(kept, np.cumsum(kept) - 1, -1)[number]
    indices = pa.array(codes, pa.int32(), mask=codes < 0)
    return of_events(
        *note("long_python_stack", rows[~kept[number]]),
        python_stack=pa.DictionaryArray.from_arrays(indices, chains.texts(needed[kept])),
    )


@dataclass(frozen=True, slots=True)
class _Chains:
    """Distinct chains of frames, from short to long: the name of the innermost, and the others.

    Attributes
    ----------
    texts_of_names : pyarrow.StringArray
        Text of each name.
    name : Ints
        Number of the innermost frame's name.
    around : Ints
        Chain of the frames around it; -1 for none.
    bounds : list of int
        Where the chains of each length begin, and where the last ones end.
    """

    texts_of_names: pa.StringArray
    name: Ints
    around: Ints
    bounds: list[int]

    def shortest(self, needed: Ints, most: int) -> Mask:
        """Which of the chains, from the shortest on, have texts that fit into so many bytes."""
        size = pc.binary_length(self.texts_of_names).to_numpy().astype(np.int64)[self.name]
        for first, last in pairwise(self.bounds[1:]):
            size[first:last] += size[self.around[first:last]] + 1
        order = np.argsort(size[needed], kind="stable")
        kept = np.zeros(needed.size, np.bool_)
        kept[order] = np.cumsum(size[needed][order]) <= most
        return kept

    def texts(self, needed: Ints) -> pa.StringArray:
        """Text of some chains, in their order; at a time only those of two lengths are there."""
        wanted = np.zeros(self.name.size, np.bool_)
        wanted[needed] = True
        for first, last in reversed([*pairwise(self.bounds)][1:]):
            around = self.around[first:last]
            wanted[around[wanted[first:last]]] = True
        texts = pa.array([], pa.string())
        found, before = [texts], np.empty(0, np.int64)
        for first, last in pairwise(self.bounds):
            here = first + np.flatnonzero(wanted[first:last])
            around = np.searchsorted(before, self.around[here])
            names = self.texts_of_names.take(pa.array(self.name[here]))
            if first:
                names = pc.binary_join_element_wise(names, texts.take(pa.array(around)), ";")
            texts, before = names, here
            shown = needed[(needed >= first) & (needed < last)]
            found.append(texts.take(pa.array(np.searchsorted(here, shown))))
        return pa.concat_arrays(found)


def _chains(tables: Tables, frame: Ints, used: Ints) -> tuple[Ints, _Chains]:
    """For each used frame the number of its chain, and the chains.

    Frames that have the same name, and the same frames around them, have one chain.
    """
    events = tables["events"]
    codes, texts = words(events, "name")
    chain = np.full(events.num_rows + 1, -1, np.int64)
    names, arounds, bounds = [], [], [0]
    for rows in _levels(events, used):
        key = chain[frame[rows]] * (len(texts) + 1) + codes[rows] % (len(texts) + 1)
        distinct, number = np.unique(key, return_inverse=True)
        around, name = np.divmod(distinct, len(texts) + 1)
        names.append(name)
        arounds.append(around)
        chain[rows] = bounds[-1] + number
        bounds.append(bounds[-1] + distinct.size)
    none = [np.empty(0, np.int64)]
    return chain[:-1], _Chains(
        pa.array([*texts, ""], pa.string()),
        np.concatenate(names or none),
        np.concatenate(arounds or none),
        bounds,
    )


def _levels(events: pa.Table, rows: Ints) -> list[Ints]:
    """Rows by the number of others of them around each."""
    preorder = numbers(events, "preorder")
    rows = rows[np.argsort(preorder[rows])]
    last = np.sort(preorder[numbers(events, "last_descendant_id")[rows]])
    level = np.arange(rows.size) - np.searchsorted(last, preorder[rows])
    order = np.argsort(level, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(level[order])) + 1)
