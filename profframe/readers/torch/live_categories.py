"""Categories of memory in a live profile, from torch's own analysis.

The analysis is private to torch (``torch.profiler._memory_profiler``): if it is missing or fails,
nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.row_tables import Quality, RawTrace, replaced
from profframe.schema import NAME

NEEDED: Final = ("record_shapes", "profile_memory", "with_stack")
"""Flags of the profiler without which torch cannot tell."""
_MOST_EVENTS: Final = 20_000
"""Torch's analysis takes 55 us for each event, several times as long as all of loading."""
_KEYS: Final = ("time_ns", "address", "bytes")


def with_categories(raw: RawTrace, results: Sequence[Any], *, is_wanted: bool) -> RawTrace:
    """A trace with the categories of its memory records.

    Parameters
    ----------
    raw
        The trace.
    results
        A ``_ProfilerResult`` of each cycle.
    is_wanted
        Whether they are worth a longer wait.
    """
    memory, quality = raw.tables["memory"], Quality()
    if not memory.num_rows:
        return raw
    if raw.tables["events"].num_rows > _MOST_EVENTS and not is_wanted:
        detail = (
            f"more than {_MOST_EVENTS:,} events, for which torch needs long; load(memory=) waits"
        )
        quality.note("unknown_categories", memory.num_rows, detail)
    else:
        try:
            memory = replaced(memory, "category", _of_rows(memory, results))
        except Exception as error:  # noqa: BLE001 - private code of any release of torch
            detail = f"{type(error).__name__}: {error}"
            quality.note("unknown_categories", memory.num_rows, detail)
    notes = pa.concat_tables([raw.tables["quality"], quality.table()])
    return RawTrace({**raw.tables, "memory": memory, "quality": notes}, raw.header)


def _of_rows(memory: pa.Table, results: Sequence[Any]) -> pa.Array:
    rows = [row for each in results for row in _records(each)]
    types = {"category": pa.string(), **dict.fromkeys(_KEYS, pa.int64())}
    records = pa.table(
        {
            name: pa.array([row[place] for row in rows], type_)
            for place, (name, type_) in enumerate(types.items())
        }
    )
    # Records that share all of these have no known difference.
    distinct = records.group_by([*_KEYS]).aggregate([("category", "min")])
    numbered = memory.select([*_KEYS]).append_column("row", pa.array(range(memory.num_rows)))
    joined = numbered.join(distinct, [*_KEYS], join_type="left outer").sort_by("row")
    return pc.dictionary_encode(joined["category_min"].combine_chunks()).cast(NAME)


def _records(results: Any) -> Iterator[tuple[str | None, int, int, int]]:
    """Category of each record, and its time, address and bytes."""
    from torch._C._profiler import _EventType
    from torch.profiler._memory_profiler import MemoryProfile, TensorKey

    profile = MemoryProfile(results)
    for event in profile._op_tree.dfs():  # noqa: SLF001 - has no public name
        kind, fields = event.typed
        if kind == _EventType.Allocation:
            key = TensorKey.from_allocation(fields)
            category = None if key is None else profile._categories.get(key, 0)  # noqa: SLF001
            name = None if category is None else category.name.lower()
            yield name, event.start_time_ns, fields.ptr, fields.alloc_size
