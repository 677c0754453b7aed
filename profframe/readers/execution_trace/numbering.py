"""Nodes of several processes in one file: each node gets its own number.

Processes that were forked while an observer ran, such as DataLoader workers, write into the file of
their parent and continue its numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe.intervals import Ints


def numbered_apart(
    nodes: pa.Table, tensors: pa.Table, owners: Ints
) -> tuple[pa.Table, pa.Table, int]:
    """Nodes and tensors with new numbers if a number occurred before, and how many were renumbered.

    A node is written when it has ended, after everything that ran in it: its parent is the next
    node with that number, or if none follows, the last one before.

    Parameters
    ----------
    nodes, tensors
        Rows in the order of the file.
    owners
        Row of each tensor's node.
    """
    is_known = nodes["node_id"].is_valid().to_numpy()
    ids = nodes["node_id"].fill_null(0).to_numpy()
    rows = np.flatnonzero(is_known)
    order = rows[np.lexsort((rows, ids[rows]))]
    again = order[1:][ids[order[1:]] == ids[order[:-1]]]
    if not again.size:
        return nodes, tensors, 0
    own = ids.copy()
    own[np.sort(again)] = ids[rows].max() + 1 + np.arange(again.size)
    distinct, code = np.unique(ids[order], return_inverse=True)
    keys = code * ids.size + order
    has_parent = nodes["parent_id"].is_valid().to_numpy()
    parents = nodes["parent_id"].fill_null(0).to_numpy()
    child = np.flatnonzero(has_parent & np.isin(parents, distinct))
    wanted = np.searchsorted(distinct, parents[child])
    place = np.searchsorted(keys, wanted * ids.size + child, side="right")
    follows = code[np.minimum(place, order.size - 1)] == wanted
    follows &= place < order.size
    parent = parents.copy()
    parent[child] = own[order[np.where(follows, place, place - 1)]]
    own_id = pa.array(own, mask=~is_known)
    nodes = _with(nodes, "node_id", own_id)
    nodes = _with(nodes, "parent_id", pa.array(parent, mask=~has_parent))
    return nodes, _with(tensors, "node_id", own_id.take(pa.array(owners))), int(again.size)


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
