"""Ranks of process groups, from the node that lists them or from a first rank and a stride."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.execution_trace.parsing import GROUP_COLUMNS
from profframe.schema import INT32, NAME

_INIT = "## process_group:init ##"
_MOST = 1 << 20
"""More ranks than any job has; a group with which all listed ones have more is left out."""


def with_groups(nodes: pa.Table) -> pa.Table:
    """Nodes with the ranks of their process group, without the columns needed only for that."""
    listed = _listed(nodes)
    keys = ("process_group", "group_size", *GROUP_COLUMNS)
    columns = [nodes[key].combine_chunks() for key in keys]
    rows = pa.table(
        [
            c.dictionary_decode() if i == 0 and pa.types.is_dictionary(c.type) else c
            for i, c in enumerate(columns)
        ],
        list(keys),
    )
    distinct = rows.group_by(list(keys), use_threads=False).aggregate([]).to_pylist()
    texts = [*_texts(distinct, listed)]
    if not any(texts):
        ranks = pa.nulls(nodes.num_rows, NAME)
    else:  # few nodes have a group, and its text may be long: each is there once
        numbers = {tuple(row.values()): number for number, row in enumerate(distinct)}
        codes: list[int | None] = [None] * nodes.num_rows
        for place in pc.indices_nonzero(pc.is_valid(rows["group_size"])).to_pylist():
            codes[place] = numbers[tuple(rows[key][place].as_py() for key in keys)]
        ranks = pa.array(texts, pa.string()).cast(NAME).take(pa.array(codes, INT32))
    return nodes.drop_columns([*GROUP_COLUMNS]).append_column("group_ranks", ranks)


def _texts(
    groups: Iterable[dict[str, object]], listed: Mapping[str, Sequence[int]]
) -> Iterator[str | None]:
    """The ranks of each group as text, if it is known."""
    left = _MOST
    for group in groups:
        ranks = _ranks(group, listed)
        left -= len(ranks or ())
        yield json.dumps([*ranks], separators=(",", ":")) if ranks and left >= 0 else None


def _listed(nodes: pa.Table) -> dict[str, Sequence[int]]:
    """Ranks by group name, for groups that the source lists."""
    is_list = pc.fill_null(pc.equal(nodes["name"].cast(pa.string()), _INIT), fill_value=False)
    groups: dict[str, Sequence[int]] = {}
    for text in nodes.filter(is_list)["inputs"].to_pylist():
        try:
            (value, *_) = json.loads(text)
            for group in json.loads(value):
                ranks, size = group.get("ranks"), group.get("group_size") or 0
                groups[str(group["pg_name"])] = (
                    [int(rank) for rank in ranks] if ranks else range(min(size, _MOST))
                )
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
            continue
    return groups


def _ranks(row: dict[str, object], listed: Mapping[str, Sequence[int]]) -> Sequence[int] | None:
    name, size, start, stride = row.values()
    if size is None:
        return None
    ranks = listed.get(str(name)) if name is not None else None
    if ranks is None and isinstance(start, int) and isinstance(size, int) and 0 < size < _MOST:
        step = stride if isinstance(stride, int) else 1
        ranks = range(start, start + size * step, step) if step else [start] * size
    return ranks
