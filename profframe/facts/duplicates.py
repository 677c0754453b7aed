"""Which slices only repeat the one around them."""

from __future__ import annotations

import numpy as np

from profframe.facts.columns import Tables, ids, numbers, with_columns, words
from profframe.intervals import Ints


def duplicates(tables: Tables) -> Tables:
    """Add ``merged_into``: the survivor of a run of slices of one name, each the only child.

    torch drops a slice whose parent has its name and no other child, and repeats that until
    nothing changes. What is dropped never changes the test for what is inside, so it is one pass
    over the whole forest; the survivor is the nearest ancestor that stays.
    """
    events = tables["events"]
    parent = numbers(events, "parent_id", missing=-1)
    name = _names(tables)
    children = np.bincount(parent[parent >= 0], minlength=parent.size)
    dropped = (parent >= 0) & (name >= 0)
    dropped &= (name[parent] == name) & (children[parent] == 1)
    rows = np.flatnonzero(dropped)
    survivor = np.where(dropped, parent, np.arange(parent.size))
    while rows.size:
        survivor[rows] = survivor[survivor[rows]]
        rows = rows[dropped[survivor[rows]]]
    return with_columns(tables, "events", merged_into=ids(np.where(dropped, survivor, -1)))


def _names(tables: Tables) -> Ints:
    """Numbers of the names as torch compares them: all profiler steps have one name."""
    codes, texts = words(tables["events"], "name")
    number: dict[str, int] = {}
    same = [number.setdefault(_rewritten(text), len(number)) for text in texts]
    return np.array([*same, -1], np.int64)[codes]


def _rewritten(name: str) -> str:
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name
