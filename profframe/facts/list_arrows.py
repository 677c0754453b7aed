"""Arrows from ops to device slices in the lists that torch's ``EventList`` writes.

Until 2021 an arrow led from the beginning of an op to that of a slice; since then torch writes only
where it starts. That is no loss if the slice it led to is known by its ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.facts.arrays import is_kind, is_text, last_equal, numbers, present, words
from profframe.facts.fact import Note, Tables, columns
from profframe.facts.flow_ends import ARROW_COLUMNS, arrows, starting_at
from profframe.facts.kinds import LIST_ARROWS
from profframe.intervals import Ints, pairs

LIST_ARROW_COLUMNS: Final = ARROW_COLUMNS | columns(events="kind name preorder", flows="name")
"""Columns for `list_arrows`."""
_HOST: Final = ("host_op", "annotation", "python", *schema.LAUNCH_KINDS)
_BROKEN: Final = "broken_launch_arrow"


def list_arrows(tables: Tables, linked: int) -> tuple[Ints, Iterable[Note]]:
    """For each device slice the host slice that an arrow to it starts at, or -1; with notes.

    ``linked`` device slices are known to belong to an op or a call.
    """
    events, flows = tables["events"], tables["flows"]
    source = np.full(events.num_rows, -1, np.int64)
    notes: list[Note] = []
    if not flows.num_rows:
        return source, notes
    texts = pc.unique(flows["category"].cast(pa.string())).to_pylist()
    for category in sorted(text for text in texts if text and text.startswith(LIST_ARROWS)):
        tails, heads = arrows(flows, category)
        drawn = flows.filter(pa.array(is_text(flows["category"], category)))
        for phase, missing in (("s", "an end"), ("f", "a start")):
            alone = int(is_text(drawn["phase"], phase).sum()) - tails.num_rows
            if phase == "s":
                alone = max(0, alone - linked)
            if alone:
                notes.append((_BROKEN, alone, f"{category}, without {missing}", None))
        device = np.flatnonzero(is_kind(events, schema.DEVICE_KINDS))
        host = np.flatnonzero(is_kind(events, _HOST) & present(events, "preorder"))
        to, at = _slices(events, device, heads), _ops(events, host, tails)
        is_whole = (to >= 0) & (at >= 0)
        source[to[is_whole]] = at[is_whole]
        if lost := int((~is_whole).sum()):
            notes.append((_BROKEN, lost, f"{category}, no slice begins where it does", None))
    return source, notes


def _slices(events: pa.Table, rows: Ints, marks: pa.Table) -> Ints:
    """For each mark, a slice that begins there: the first of its name for the first such mark."""
    mark_key, row_key = _names_and_times(events, rows, marks)
    begins = np.full(marks.num_rows, -1, np.int64)
    at_mark, at_row = pairs(mark_key, row_key)
    begins[at_mark] = rows[at_row]
    return np.where(np.isin(mark_key, row_key), begins, starting_at(events, rows, marks))


def _ops(events: pa.Table, rows: Ints, marks: pa.Table) -> Ints:
    """For each mark the outermost slice of its name that begins there, else any that does."""
    rows = rows[np.argsort(-numbers(events, "preorder")[rows], kind="stable")]
    mark_key, row_key = _names_and_times(events, rows, marks)
    op = last_equal(row_key, rows, mark_key)
    return np.where(op < 0, starting_at(events, rows, marks), op)


def _names_and_times(events: pa.Table, rows: Ints, marks: pa.Table) -> tuple[Ints, Ints]:
    """A number for each thread, time and name: of marks, and of rows of events."""
    names, texts = words(events, "name")
    mark_names, mark_texts = words(marks, "name")
    number = {text: code for code, text in enumerate(texts)}
    code_of = np.array([*(number.get(text, -2) for text in mark_texts), -1], np.int64)
    left = (numbers(marks, "thread"), numbers(marks, "time_ns"), code_of[mark_names])
    right = (numbers(events, "thread")[rows], numbers(events, "start_ns")[rows], names[rows])
    both = np.concatenate([np.stack(left, axis=1), np.stack(right, axis=1)])
    _, key = np.unique(both, axis=0, return_inverse=True)
    mark_key, row_key = np.split(key.reshape(-1), [marks.num_rows])
    return mark_key, row_key
