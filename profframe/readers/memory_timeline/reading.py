"""Read memory timelines of torch's profiler: `export_memory_timeline` to a ``.raw.json.gz``.

A list of ``[time, action, bytes, category]`` of one device, without addresses and stacks. Sums by
category over time are those of the file; the file does not say which allocation a free belongs to.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from profframe import schema
from profframe.errors import NotATraceError, SourceError
from profframe.readers import memory_timeline
from profframe.readers.build.assembly import assemble_without_events
from profframe.readers.build.row_tables import Header, Quality, RawTrace
from profframe.readers.bytes import ByteSource
from profframe.system import memory_limit
from profframe.system.disk_tables import Spool

_COLUMNS: Final = ("time", "action", "bytes", "category")
_PREEXISTING: Final = 1
_ACTIONS: Final = (1, 4)
_CATEGORIES: Final = (
    "parameter", "optimizer_state", "input", "temporary", "activation", "gradient",
    "autograd_detail", None,
)  # fmt: skip
"""Of each number that torch writes."""
_BLANKS: Final = b" \t\r\n"
Ints = npt.NDArray[np.int64]


def read(
    source: ByteSource,
    spool: Spool | None = None,  # noqa: ARG001 - one step of training has some thousand records
    threads: int | None = None,  # noqa: ARG001
) -> RawTrace:
    """Read one memory timeline into ``allocations`` and ``allocator_events``.

    Raises
    ------
    NotATraceError
        It has sums by category only, or an action or category that is not known.
    SourceError
        It is damaged or ends early.
    """
    if memory_timeline.opened(source) is None:
        raise NotATraceError(
            f"{source.path}: not a trace: a memory timeline with sums by category only, or not a "
            "timeline "
            "(export one with each record: prof.export_memory_timeline('FILE.raw.json.gz', "
            "device='cuda:0'), and load that)"
        )
    time, action, size, category = _columns(source)
    for name, values, (low, high) in (
        ("action", action, _ACTIONS),
        ("category", category, (0, len(_CATEGORIES) - 1)),
    ):
        wrong = np.flatnonzero((values < low) | (values > high))
        if len(wrong):
            raise NotATraceError(
                f"{source.path}: not a trace: record {wrong[0]:,} of a memory timeline has the "
                f"{name} {values[wrong[0]]} (known: {low} to {high})"
            )
    quality = Quality()
    is_before = action == _PREEXISTING
    event = np.where(is_before, -1, np.cumsum(~is_before) - 1)
    first, last, is_unmatched = _pairs(size, category, event)
    if unmatched := int(is_unmatched.sum()):
        quality.note("free_without_allocation", unmatched, "in table allocator_events")
    if paired := int((last >= 0).sum()):
        quality.note("paired_by_size", paired, "in table allocations")
    has_time = time >= 0
    names = pa.array(_CATEGORIES[:-1], pa.string())
    of_category = pa.DictionaryArray.from_arrays(
        pa.array(category[first].astype(np.int32), mask=category[first] == len(names)), names
    )
    freed = np.maximum(last, 0)
    allocations = {
        "allocation_id": pa.array(np.arange(len(first))),
        "bytes": pa.array(size[first]),
        "alloc_ns": pa.array(time[first], mask=~has_time[first]),
        "free_ns": pa.array(time[freed], mask=(last < 0) | ~has_time[freed]),
        "alloc_event_id": pa.array(event[first], mask=event[first] < 0),
        "free_event_id": pa.array(event[freed], mask=last < 0),
        "category": of_category,
    }
    number = np.full(len(time), -1)
    number[first] = np.arange(len(first))
    number[last[last >= 0]] = np.flatnonzero(last >= 0)
    events = np.flatnonzero(~is_before)
    is_free = size[events] < 0
    rows = {
        "allocator_event_id": pa.array(np.arange(len(events))),
        "action": pa.DictionaryArray.from_arrays(
            pa.array(is_free.astype(np.int32)), pa.array(["alloc", "free_completed"])
        ),
        "bytes": pa.array(np.abs(size[events])),
        "time_ns": pa.array(time[events], mask=~has_time[events]),
        "allocation_id": pa.array(number[events], mask=number[events] < 0),
    }
    times = time[has_time]
    span = (int(times.min()), int(times.max())) if len(times) else (None, None)
    clock = "unknown" if span[0] is None else "utc" if span[0] >= schema.UTC_NS else "relative"
    return assemble_without_events(
        {
            "allocations": _table(schema.ALLOCATIONS, allocations, len(first)),
            "allocator_events": _table(schema.ALLOCATOR_EVENTS, rows, len(events)),
        },
        Header(format=memory_timeline.FORMAT, clock=clock, rank_source="assumed"),
        quality,
        {"allocations": int(is_before.sum()), "allocator_events": len(events)},
        span_ns=span,
    )


def _columns(source: ByteSource) -> tuple[Ints, ...]:
    """The four numbers of each record."""
    parts: list[bytes] = []
    size = 0
    for block in source.blocks():
        parts.append(block.translate(None, _BLANKS))
        size += len(parts[-1])
        memory_limit.check(size * 3)
    text = b"".join(parts).removeprefix(b"\xef\xbb\xbf")
    if not text.endswith(b"]]"):
        damage = f" ({source.damage})" if source.damage else ""
        raise SourceError(
            f"{source.path}: a memory timeline that ends early, after {len(text):,} bytes{damage}: "
            "the program was stopped while it wrote; export it again"
        )
    lines = text[2:-2].replace(b"],[", b"\n")
    try:
        rows = csv.read_csv(
            pa.BufferReader(lines),
            read_options=csv.ReadOptions(column_names=_COLUMNS),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(_COLUMNS, pa.int64()), null_values=[]
            ),
        )
    except pa.ArrowInvalid as error:
        reason = str(error).partition("\n")[0][:200]
        raise SourceError(
            f"{source.path}: a memory timeline with a record that is not four integers "
            f"([time, action, bytes, category]): {reason}"
        ) from error
    return tuple(rows[name].to_numpy() for name in _COLUMNS)


def _pairs(size: Ints, category: Ints, event: Ints) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Records that make allocations, those that free them (-1: none), and all other frees.

    Equal sizes of a category are freed in the order in which they were made.
    """
    count = len(size)
    order = np.lexsort((np.arange(count), category, np.abs(size)))
    order = order[size[order] != 0]
    keys = np.abs(size[order]), category[order]
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (keys[0][1:] != keys[0][:-1]) | (keys[1][1:] != keys[1][:-1])
    group = np.cumsum(starts) - 1
    sign = np.sign(size[order])
    total = np.cumsum(sign)
    base = (total - sign)[starts]
    balance = total - base[group] if len(order) else total
    # Groups are shifted far apart, so that the lowest balance so far is that of the own group.
    depth = group * (2 * count + 1)
    lowest = np.minimum.accumulate(np.minimum(balance, 0) - depth) if len(order) else balance
    before = np.concatenate([lowest[:1], lowest[:-1]])
    before = np.where(starts, -depth, before)
    is_lost = (sign < 0) & (balance - depth < before)
    made, freed = np.flatnonzero(sign > 0), np.flatnonzero((sign < 0) & ~is_lost)
    place_made, place_freed = _places(group[made]), _places(group[freed])
    width = count + 1
    codes = group[made] * width + place_made
    at = np.searchsorted(codes, group[freed] * width + place_freed)
    last = np.full(len(made), -1)
    last[at] = order[freed]
    first = order[made]
    by_event = np.lexsort((first, event[first] < 0))  # those before the first record come last
    is_unmatched = np.zeros(count, np.bool_)
    is_unmatched[order[is_lost]] = True
    return first[by_event], last[by_event], is_unmatched


def _places(groups: Ints) -> Ints:
    """Position of each in its group, where equal ones are neighbours."""
    numbers = np.arange(len(groups))
    starts = np.ones(len(groups), np.bool_)
    starts[1:] = groups[1:] != groups[:-1]
    return numbers - np.maximum.accumulate(np.where(starts, numbers, 0))


def _table(table: schema.Table, columns: dict[str, pa.Array], count: int) -> pa.Table:
    """A table of the schema without run and rank; columns that are not given are NULL."""
    return pa.table(
        {
            field.name: columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in table.arrow
            if field.name not in {"run", "rank"}
        }
    )
