"""Ranks of process groups, from the node that lists them or from a first rank and a stride."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from profframe.schema import NAME

_INIT = "## process_group:init ##"
_MOST = 1 << 20
"""More ranks than any job has."""


def with_groups(nodes: pa.Table) -> pa.Table:
    """Nodes with the ranks of their process group, without the columns needed only for that."""
    listed = _listed(nodes)
    keys = ("process_group", "group_size", "group_start", "group_stride")
    columns = [nodes[key].combine_chunks() for key in keys]
    rows = pa.table(
        [
            c.dictionary_decode() if i == 0 and pa.types.is_dictionary(c.type) else c
            for i, c in enumerate(columns)
        ],
        list(keys),
    )
    distinct = rows.group_by(list(keys), use_threads=False).aggregate([]).to_pylist()
    texts = {tuple(row.values()): _ranks(row, listed) for row in distinct}
    if not any(texts.values()):
        ranks = pa.nulls(nodes.num_rows, NAME)
    else:  # few nodes have a group
        has_group = pc.is_valid(rows["group_size"])
        values: list[str | None] = [None] * nodes.num_rows
        for place in pc.indices_nonzero(has_group).to_pylist():
            values[place] = texts[tuple(rows[key][place].as_py() for key in keys)]
        ranks = pa.array(values, pa.string()).cast(NAME)
    return nodes.drop_columns(["group_start", "group_stride"]).append_column("group_ranks", ranks)


def _listed(nodes: pa.Table) -> dict[str, list[int]]:
    """Ranks by group name, for groups that the source lists."""
    is_list = pc.fill_null(pc.equal(nodes["name"].cast(pa.string()), _INIT), fill_value=False)
    groups: dict[str, list[int]] = {}
    for text in nodes.filter(is_list)["inputs"].to_pylist():
        try:
            (value, *_) = json.loads(text)
            for group in json.loads(value):
                ranks = group.get("ranks") or range(group.get("group_size") or 0)
                groups[str(group["pg_name"])] = [int(rank) for rank in ranks][:_MOST]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
    return groups


def _ranks(row: dict[str, object], listed: dict[str, list[int]]) -> str | None:
    name, size, start, stride = row.values()
    if size is None:
        return None
    ranks = listed.get(str(name)) if name is not None else None
    if ranks is None and isinstance(start, int) and isinstance(size, int) and 0 < size < _MOST:
        step = stride if isinstance(stride, int) else 1
        ranks = [start + step * place for place in range(size)]
    return json.dumps(ranks, separators=(",", ":")) if ranks else None
