"""Data dependencies: a node that reads bytes depends on the last one that wrote them.

A node reads when it begins and writes when it ends, after everything that ran in it. So it reads
from nodes that had ended by then, and dependencies have no cycles. If nested nodes wrote the same,
the outermost counts, because it ended last.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe.intervals import Ints
from profframe.readers import parsing_database

_MOST: Final = 1 << 48
_EXTENTS: Final = f"""
    WITH sized AS (
        SELECT *, TRY_CAST(from_json(shape, '["BIGINT"]') AS DOUBLE[]) AS sizes,
               TRY_CAST(from_json(strides, '["BIGINT"]') AS DOUBLE[]) AS steps
        FROM tensors WHERE storage_id IS NOT NULL AND node_id IS NOT NULL AND elements > 0),
    spanned AS (
        SELECT *, CASE WHEN len(sizes) = len(steps)
                       THEN greatest(elements, 1 + coalesce(list_sum(list_transform(
                           list_zip(sizes, steps), lambda p: (p[1] - 1) * p[2])), 0))
                       ELSE elements END AS span
        FROM sized)
    SELECT node_id, storage_id, is_read, is_written,
           offset_elements * element_bytes AS low,
           (offset_elements + span::BIGINT) * element_bytes AS high
    FROM (FROM spanned WHERE span BETWEEN 1 AND {_MOST} AND element_bytes BETWEEN 1 AND 4096
                         AND offset_elements BETWEEN 0 AND {_MOST})"""  # noqa: S608 - of constants
_DEPENDENCIES: Final = """
    WITH places AS (
        SELECT storage_id, place,
               row_number() OVER (PARTITION BY storage_id ORDER BY place) AS number
        FROM (SELECT DISTINCT storage_id, unnest([low, high]) AS place FROM extents)),
    parts AS (
        SELECT DISTINCT e.node_id, e.storage_id, e.is_read, e.is_written,
               unnest(range(first.number, last.number)) AS part
        FROM extents e
        JOIN places first ON first.storage_id = e.storage_id AND first.place = e.low
        JOIN places last ON last.storage_id = e.storage_id AND last.place = e.high),
    reads AS (
        SELECT node, started, storage_id, part FROM parts JOIN ordered USING (node_id)
        WHERE is_read),
    writes AS (
        SELECT node AS source, written, storage_id, part FROM parts JOIN ordered USING (node_id)
        WHERE is_written)
    SELECT source, node AS target, min(reads.storage_id) AS storage_id
    FROM reads ASOF JOIN writes
      ON reads.storage_id = writes.storage_id AND reads.part = writes.part
     AND reads.started > writes.written
    GROUP BY source, target ORDER BY target, source"""
"""Extents are cut at all of their ends, so that each part was written as a whole."""


def dependencies(nodes: pa.Table, tensors: pa.Table) -> tuple[Ints, Ints, Ints]:
    """Rows of the writing and the reading node, and the storage; ordered by reader.

    Parameters
    ----------
    nodes, tensors
        As a reader returns them; if several nodes have one id, the first counts.
    """
    ids = nodes["node_id"].fill_null(-1).to_numpy()
    distinct, first = np.unique(ids, return_index=True)
    depth, end = _ends(distinct, nodes["parent_id"].fill_null(-1).to_numpy()[first])
    # An op writes when it ends, after those inside it: the outermost write of a place is the last
    # one.
    order = np.lexsort((-depth, end))
    written = np.empty(order.size, np.int64)
    written[order] = np.arange(order.size)
    started = np.searchsorted(end[order], distinct)
    ordered = pa.table({"node_id": distinct, "node": first, "started": started, "written": written})
    with parsing_database.connect() as connection:
        connection.register("tensors", tensors)
        connection.register("extents", connection.sql(_EXTENTS).to_arrow_table())
        connection.register("ordered", ordered)
        rows = connection.sql(_DEPENDENCIES).to_arrow_table()
    source, target, storage = (
        rows[name].to_numpy().astype(np.int64) for name in ("source", "target", "storage_id")
    )
    return source, target, storage


def _ends(ids: Ints, parents: Ints) -> tuple[Ints, Ints]:
    """Depth of each node, and the greatest id inside it; ids are sorted and distinct.

    A node in a cycle of parents is a root.
    """
    place = np.searchsorted(ids, parents).clip(max=max(0, ids.size - 1))
    has_parent = (ids[place] == parents) & (parents != ids) if ids.size else parents == ids
    parent = np.where(has_parent, place, -1)
    depth = np.zeros(ids.size, np.int64)
    children = np.argsort(parent, kind="stable")
    begins = np.searchsorted(parent[children], np.arange(ids.size))
    counts = np.bincount(parent[parent >= 0], minlength=ids.size)
    levels = [np.flatnonzero(parent < 0)]
    while levels[-1].size:
        level = levels[-1][counts[levels[-1]] > 0]
        sizes = counts[level]
        steps = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        below = children[np.repeat(begins[level], sizes) + steps]
        depth[below] = len(levels)
        levels.append(below)
    end = ids.copy()
    for level in reversed(levels[1:]):
        np.maximum.at(end, parent[level], end[level])
    return depth, end
