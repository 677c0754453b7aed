"""Duplicate slices: only children with their parent's name."""

from __future__ import annotations

import numpy as np

from profframe.facts.arrays import ids, numbers, words
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.facts.torch_compat.overloads import grouping_name, is_dropped
from profframe.intervals import Ints, nearest


@fact(inputs=columns(events="name parent_id"), outputs=columns(events="merged_into"))
def duplicates(tables: Tables) -> Output:
    """Add ``merged_into``: the survivor of a run of slices of one name, each the only child.

    torch drops a slice whose parent has its name and no other child, and repeats that until nothing
    changes. Dropping a slice never changes the test for those inside, so one pass over the forest
    is enough; the survivor is the nearest ancestor that stays. Slices that torch drops
    (``DROPPED_NAMES``) are skipped: their children count as their parent's.
    """
    events = tables["events"]
    parent = numbers(events, "parent_id", missing=-1)
    name, ignored = _names(tables), is_dropped(events)
    # torch removes them before it looks for duplicates; left in, aten::is_leaf would keep its
    # parent.
    if ignored.any():
        ancestor = np.append(nearest(parent, ~ignored), -1)
        parent = np.where(ignored, -1, ancestor[parent])
    children = np.bincount(parent[parent >= 0], minlength=parent.size)
    dropped = (parent >= 0) & (name >= 0)
    dropped &= (name[parent] == name) & (children[parent] == 1)
    survivor = np.full(parent.size, -1, np.int64)
    if dropped.any():
        survivor = np.where(dropped, nearest(parent, ~dropped), -1)
    return of_events(merged_into=ids(survivor))


def _names(tables: Tables) -> Ints:
    """Codes of the names as torch compares them."""
    codes, texts = words(tables["events"], "name")
    number: dict[str, int] = {}
    codes_by_text = [number.setdefault(grouping_name(text), len(number)) for text in texts]
    return np.array([*codes_by_text, -1], np.int64)[codes]
