"""The Python frames around a slice, where the profiler recorded calls of Python functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.facts.columns import Tables, is_kind, numbers, present, with_columns, words
from profframe.intervals import Ints, nearest


def python_stacks(tables: Tables) -> Tables:
    """Fill ``python_stack``: names of the Python slices around, innermost first, joined by ``;``.

    Not of the Python slices themselves, whose frames are their parents: there are too many. Slices
    with the same frames around them share one text, so that a loop costs no more than one round.
    """
    events = tables["events"]
    is_frame = is_kind(events, ("python",)) & present(events, "preorder")
    if not is_frame.any():
        return tables
    parent = numbers(events, "parent_id", missing=-1)
    frame = np.append(nearest(parent, is_frame), -1)[parent]
    chain, levels = _chains(tables, frame, np.unique(frame[frame >= 0]))
    shown = np.flatnonzero((frame >= 0) & ~is_frame)
    needed, number = np.unique(chain[frame[shown]], return_inverse=True)
    codes = np.full(events.num_rows, -1, np.int64)
    codes[shown] = number
    indices = pa.array(codes, pa.int32(), mask=codes < 0)
    column = pa.DictionaryArray.from_arrays(indices, _texts(levels, needed))
    return with_columns(tables, "events", python_stack=column)


@dataclass(frozen=True, slots=True)
class _Level:
    """Chains of frames that are equally long: each a name, and the chain of the level before."""

    names: pa.StringArray
    around: Ints


def _chains(tables: Tables, frame: Ints, used: Ints) -> tuple[Ints, list[_Level]]:
    """For each used frame the number of its chain, and the chains: of the first level first.

    Frames that have the same name, and the same frames around them, have one chain.
    """
    events = tables["events"]
    names, name_texts = words(events, "name")
    text_of = pa.array([*name_texts, ""], pa.string())
    chain = np.full(events.num_rows + 1, -1, np.int64)
    levels: list[_Level] = []
    first = last = 0
    for rows in _levels(events, used):
        key = chain[frame[rows]] * len(text_of) + names[rows] % len(text_of)
        distinct, number = np.unique(key, return_inverse=True)
        outer, name = np.divmod(distinct, len(text_of))
        levels.append(_Level(text_of.take(pa.array(name)), outer - first))
        chain[rows] = last + number
        first, last = last, last + distinct.size
    return chain[:-1], levels


def _texts(levels: list[_Level], needed: Ints) -> pa.StringArray:
    """Text of the chains that are needed; only those of two levels are there besides."""
    texts, last = pa.array([], pa.string()), 0
    found = [texts]
    for number, level in enumerate(levels):
        around = texts
        texts = level.names
        if number:
            texts = pc.binary_join_element_wise(texts, around.take(pa.array(level.around)), ";")
        here = needed[(needed >= last) & (needed < last + len(texts))]
        found.append(texts.take(pa.array(here - last)))
        last += len(texts)
    return pa.concat_arrays(found)


def _levels(events: pa.Table, rows: Ints) -> list[Ints]:
    """Rows by the number of others of them around each."""
    preorder = numbers(events, "preorder")
    rows = rows[np.argsort(preorder[rows])]
    last = np.sort(preorder[numbers(events, "last_descendant_id")[rows]])
    level = np.arange(rows.size) - np.searchsorted(last, preorder[rows])
    order = np.argsort(level, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(level[order])) + 1)
