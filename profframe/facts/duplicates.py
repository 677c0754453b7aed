"""Which slices only repeat the one around them."""

from __future__ import annotations

import numpy as np

from profframe.facts.columns import ids, numbers, words
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.facts.torch_compat.torch_names import is_dropped, rewritten
from profframe.intervals import Ints, nearest


@fact(inputs=columns(events="name parent_id"), outputs=columns(events="merged_into"))
def duplicates(tables: Tables) -> Output:
    """Add ``merged_into``: the survivor of a run of slices of one name, each the only child.

    torch drops a slice whose parent has its name and no other child, and repeats that until
    nothing changes. What is dropped never changes the test for what is inside, so it is one pass
    over the whole forest; the survivor is the nearest ancestor that stays. Slices that torch does
    not have at all (``DROPPED_NAMES``) are nobody's child there: what is in them is their parent's.
    """
    events = tables["events"]
    parent = numbers(events, "parent_id", missing=-1)
    name, ignored = _names(tables), is_dropped(events)
    if ignored.any():
        kept = np.append(nearest(parent, ~ignored), -1)
        parent = np.where(ignored, -1, kept[parent])
    children = np.bincount(parent[parent >= 0], minlength=parent.size)
    dropped = (parent >= 0) & (name >= 0)
    dropped &= (name[parent] == name) & (children[parent] == 1)
    survivor = np.full(parent.size, -1, np.int64)
    if dropped.any():
        survivor = np.where(dropped, nearest(parent, ~dropped), -1)
    return of_events(merged_into=ids(survivor))


def _names(tables: Tables) -> Ints:
    """Numbers of the names as torch compares them."""
    codes, texts = words(tables["events"], "name")
    number: dict[str, int] = {}
    same = [number.setdefault(rewritten(text), len(number)) for text in texts]
    return np.array([*same, -1], np.int64)[codes]
