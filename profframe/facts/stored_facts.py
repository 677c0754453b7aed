"""Facts of a stored trace, derived anew from its stored columns, without its source.

A store keeps what a reader gave, so facts can run again on it, with the rest of what they read:

- `REPLACED` are facts that wrote over what they had read. Their columns stay as they are: nothing
  else of these facts is read by others.
- Bytes are the source's for copies and fills alone; those of ops and kernels are computed again.
- `devices` are read again from ``traces.device_properties``, and units and devices of counters
  from their names.
- The profiler's own order and the source's own counts of work are in ``args``.

`why_not` says of which traces this is not enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.facts.fact import Fact, Tables
from profframe.facts.overruns import overruns
from profframe.facts.pipeline import add_facts
from profframe.facts.python_frames import python_frames
from profframe.facts.torch_compat.overloads import overloads
from profframe.readers.build.counters import with_named_columns
from profframe.readers.build.header_devices import devices
from profframe.readers.chrome.stored_args import stored_values
from profframe.readers.torch import FORMAT as TORCH
from profframe.system.disk_tables import Builder, Spool, SpooledTable

REPLACED: Final[Mapping[Fact, str]] = MappingProxyType(
    {
        overruns: "durations of work that ended after what was behind it are NULL",
        overloads: "names of operators have lost the overload, which has its own column",
        python_frames: "frames that lasted too long are cut",
    }
)
"""Facts that do not run again, and what they have left."""
NOTES: Final = frozenset(
    {
        "unknown_category", "crossing_slices", "kernel_without_launch",
        "kernel_without_correlation", "ambiguous_launch", "launch_by_order", "launch_without_work",
        "fill_without_work", "graph_launch_in_part", "external_id_mismatch",
        "kernel_before_launch", "kernel_during_sync", "wait_for_unknown_event",
        "collective_without_metadata", "repeated_sequence_number", "counted_slice_without_launch",
        "broken_launch_arrow", "outside_steps", "cut_step", "incomplete_step",
        "unknown_start_of_step", "unawaited_work", "host_ahead", "unreadable_graph_marker",
        "crossing_graph_markers", "node_outside_graph", "unknown_graph_node", "unknown_graph_file",
        "long_python_stack", "unknown_communication", "unnamed_device", "several_models",
        "unknown_device", "work_needs_lengths", "uneven_attention", "faster_than_peak",
        "faster_than_memory", "other_capture", "ambiguous_capture", "lost_replay_work",
    }
)  # fmt: skip
"""Rows of `quality` that these facts write again."""
_OF_CHROME: Final = ("kineto", "chrome")
"""Formats whose counters have unit and device by their names alone."""
_MOVED: Final = ("memcpy", "memset")
_KEY: Final = ("run", "rank")
_LARGE: Final = ("events", "memory", "flows", "instants", "counters")
"""Tables that may be too large for memory."""


def why_not(format_: str | None, *, has_captured: bool) -> str | None:
    """Why the stored columns of a trace are not enough; None if they are.

    Parameters
    ----------
    format_
        Its ``traces.format``.
    has_captured
        Whether it has rows of captured graphs (``events.replays``).

    Examples
    --------
    >>> why_not("kineto", has_captured=False) is None
    True
    """
    if format_ == TORCH:
        return "a live profile gives values that no column keeps, such as time of lost kernels"
    if has_captured:
        return "work in graphs has ops of a capture, whose trace is another one"
    return None


def as_read(
    parts: Mapping[str, Iterable[pa.Table]], spool: Spool | None = None
) -> dict[str, pa.Table | SpooledTable]:
    """The tables of a stored trace as its reader gave them.

    Parameters
    ----------
    parts
        Its stored tables, part by part, with run and rank.
    spool
        Where large tables go; None to keep all in memory.
    """
    traces = pa.concat_tables(parts["traces"])
    is_of_chrome = traces["format"][0].as_py() in _OF_CHROME
    tables: dict[str, pa.Table | SpooledTable] = {"traces": _of_reader("traces", traces)}
    for name, rows in ((n, rows) for n, rows in parts.items() if n != "traces"):
        if name in schema.FACT_TABLES:
            continue
        none = _of_reader(name, schema.empty(name))
        own: Iterable[pa.Table] = (_of_reader(name, part) for part in rows)
        if name == "counters" and is_of_chrome:
            own = map(with_named_columns, own)
        if spool is None or name not in _LARGE:
            tables[name] = pa.concat_tables([none, *own]).unify_dictionaries()
            continue
        builder = Builder(spool, {field.name: field.type for field in none.schema})
        for part in own:
            builder.add(part)
        tables[name] = builder.rows()
    properties = traces["device_properties"][0].as_py()
    used = pc.unique(tables["events"]["device"]).drop_null().to_pylist()
    tables["devices"] = devices(properties, used)
    return tables


def _of_reader(name: str, rows: pa.Table) -> pa.Table:
    """Columns of some rows that a reader fills."""
    if name == "quality":
        return rows.drop_columns(_KEY)
    if name != "events":
        return rows.select([n for n in schema.READER_COLUMNS[name] if n in rows.column_names])
    is_moved = pc.is_in(rows["kind"].cast(schema.TEXT), pa.array(_MOVED))
    moved = pc.if_else(is_moved, rows["bytes"], pa.scalar(None, schema.INT64))
    values = stored_values(rows["args"])
    rows = rows.select(schema.READER_COLUMNS[name])
    rows = rows.set_column(rows.column_names.index("bytes"), "bytes", moved)
    for column, given in values.items():
        rows = rows.append_column(column, given)
    return rows


def derived_anew(tables: Tables) -> dict[str, pa.Table | SpooledTable]:
    """The tables of a stored trace with all its facts derived anew.

    Parameters
    ----------
    tables
        As `as_read` gives them.

    Returns
    -------
    dict
        All tables; ``quality`` has the new notes in place of the old ones.
    """
    quality = tables["quality"]
    is_new = pc.is_in(quality["issue"].cast(schema.TEXT), pa.array(sorted(NOTES)))
    first = pc.index(is_new, value=True).as_py()
    kept = pc.indices_nonzero(pc.invert(is_new)).to_pylist()
    before = sum(row < first for row in kept) if first >= 0 else len(kept)
    own = quality.take(pa.array(kept, schema.INT64))
    derived = dict(add_facts({**tables, "quality": own.slice(0, 0)}, without=frozenset(REPLACED)))
    derived["quality"] = pa.concat_tables(
        [own.slice(0, before), derived["quality"].cast(own.schema), own.slice(before)]
    )
    return derived
