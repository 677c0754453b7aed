"""Fill in op, step and category of a snapshot's rows from a trace."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.facts.arrays import encoded, ids, numbers, present, words
from profframe.facts.fact import Note, Tables
from profframe.facts.snapshots.memory_categories import CATEGORIES, categories
from profframe.facts.snapshots.op_matching import Matches, match
from profframe.intervals import Ints


def join_snapshot(tables: Tables) -> Tables:
    """Tables of a trace and of its snapshot, with op, step and category.

    Parameters
    ----------
    tables
        A trace with its facts, and the tables of a snapshot.
    """
    records = tables["allocator_events"]
    allocations = tables.get("allocations", schema.empty("allocations"))
    matches = match(tables["events"], tables["memory"], tables["instants"], records)
    alloc = numbers(allocations, "alloc_event_id", missing=-1)
    op, step, memory = (
        np.append(of, -1)[alloc] for of in (matches.op, matches.step, matches.memory)
    )
    allocations = _with(allocations, op_id=ids(op), step=ids(step))
    category = categories(
        tables["events"], tables.get("stacks", schema.empty("stacks")), allocations
    )
    allocations = _with(allocations, category=_category(tables["memory"], memory, category))
    quality = schema.quality_rows(*_notes(tables["events"], records, matches))
    return {
        **tables,
        "allocator_events": _with(records, op_id=ids(matches.op), step=ids(matches.step)),
        "allocations": allocations,
        "quality": pa.concat_tables([tables["quality"], quality]),
    }


def _with(table: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = (
            table.append_column(name, values)
            if place < 0
            else table.set_column(place, name, values)
        )
    return table


def _category(memory: pa.Table, row: Ints, code: Ints) -> pa.Array:
    """The profiler's own word if it has one."""
    rules = encoded(code, CATEGORIES)
    if "category" not in memory.column_names or memory["category"].null_count == memory.num_rows:
        return rules
    own, texts = words(memory, "category")
    profiled = encoded(np.append(own, -1)[row], texts).cast(pa.string())
    return pc.coalesce(profiled, rules.cast(pa.string())).dictionary_encode()


def _notes(events: pa.Table, records: pa.Table, matches: Matches) -> Iterator[Note]:
    if several := int(np.count_nonzero(matches.several)):
        yield "record_in_several_ops", several, f"of {records.num_rows}", None
    timed = present(events, "start_ns", "dur_ns")
    start = numbers(events, "start_ns")[timed]
    end = start + numbers(events, "dur_ns")[timed]
    at = numbers(records, "time_ns")[present(records, "time_ns")]
    shares = start.size and at.size and at.max() >= start.min() and at.min() <= end.max()
    if not shares:
        detail = (
            "it has no times"
            if not at.size
            else f"records from {at.min()} to {at.max()} ns"
            + (f", the trace from {start.min()} to {end.max()} ns" if start.size else "")
        )
        yield "snapshot_outside_trace", records.num_rows, detail, None
