"""The annotation and the Python frame around each slice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import ids, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, any_of, columns, fact, of_events
from profframe.intervals import Ints, Mask, nearest


@fact(
    inputs=columns(events="kind parent_id preorder launch_id op_id"),
    outputs=columns(events="annotation_id frame_id"),
    needs=any_of(kinds=("annotation", "python")),
)
def surroundings(tables: Tables) -> Output:
    """Add ``annotation_id`` and ``frame_id``.

    For a host slice, the innermost around it on its thread, not counting itself; for a device
    slice, those around its launch, or its op if the source has no launch.
    """
    events = tables["events"]
    nests = present(events, "preorder")
    parent = np.where(nests, numbers(events, "parent_id", missing=-1), -1)
    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    of_device = is_kind(events, (*schema.DEVICE_KINDS, "sync", "graph_node"))
    cause = np.where(of_device, np.where(launch >= 0, launch, op), -1)
    kinds = {"annotation_id": "annotation", "frame_id": "python"}
    return of_events(
        **{name: _around(events, kind, nests, parent, cause) for name, kind in kinds.items()}
    )


def _around(events: pa.Table, kind: str, nests: Mask, parent: Ints, cause: Ints) -> pa.Array:
    marked = is_kind(events, (kind,)) & nests
    if not marked.any():
        return pa.nulls(events.num_rows, pa.int64())
    inner = nearest(parent, marked)
    around = np.append(inner, -1)[parent]
    # What launched a slice may be such a slice itself, if the source has no ids of ops.
    return ids(np.where(cause >= 0, np.append(inner, -1)[cause], around))
