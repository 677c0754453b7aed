"""What changed from one version of the schema to the next: the only list of it.

A store of an older schema opens as it is: a column that it lacks is NULL, a table that it lacks is
empty. `profframe store upgrade` derives the rest anew, as the steps say. A change of the schema
gets a step here; `tests/unit/test_old_stores.py` compares them with stores that were written before
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Step:
    """One version of the schema, compared with the version before it.

    Attributes
    ----------
    version : int
        Version of the schema.
    added : mapping of str to tuple of str
        New columns by table; all can be NULL. A table of which all columns are new is in `tables`.
    tables : frozenset of str
        New tables; all are optional.
    renamed : mapping of str to mapping
        By table, the name before of columns that have another name now.
    derived : mapping of str to str
        By new column (``events.is_product``), the function that computes it from stored columns
        alone, as ``module:name``: it takes the stored table and gives the column.
    from_source : frozenset of str
        Tables whose new columns only the source has.
    reread : mapping of str to str
        By format, what its reader gives since then that no stored column has.
    """

    version: int
    added: Mapping[str, tuple[str, ...]]
    tables: frozenset[str] = frozenset()
    renamed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    from_source: frozenset[str] = frozenset()
    reread: Mapping[str, str] = field(default_factory=dict)


STEPS: Final[tuple[Step, ...]] = (
    Step(
        14,
        added={
            # Those of compiled kernels are of load(provenance=), which is new, too: without it they
            # are NULL in a fresh conversion.
            "events": ("is_product", "compiled_kernel_id", "compiled_by", "stack_from"),
        },
        tables=frozenset({"compiled_kernels"}),
        derived={"events.is_product": "facts.op_work:product_column"},
        reread={"nsys": "waits for Python's lock, holds of it, and garbage collections"},
    ),
    Step(
        15,
        added={
            "segments": ("device_type",),
            "blocks": ("device_type", "metadata"),
            "allocations": ("device_type", "pool", "metadata", "annotation", "compile_context"),
            "allocator_events": ("device_type", "pool", "metadata"),
            "stacks": ("fx_node", "fx_op", "fx_target", "fx_trace"),
            # Of records of NCCL's plugins, which are new, too; a flight recorder has none of them.
            "recorded_collectives": (
                "recorder", "communicator", "group_rank", "group_peer", "nodes", "message_bytes",
                "algorithm", "protocol", "channels", "timing_source", "algorithm_gb_per_s",
                "bus_gb_per_s", "enqueued_ns", "written_ns", "channel_events", "event_id",
            ),
        },
        from_source=frozenset({"segments", "blocks", "allocations", "allocator_events", "stacks"}),
        reread={
            "perfetto": "names of rocprofv3's kernels, counters and lines without what it adds",
        },
    ),
)  # fmt: skip
"""The steps since the oldest schema that is read, in order."""
OLDEST: Final = STEPS[0].version - 1
"""The oldest schema that is read."""


def steps_since(version: int) -> tuple[Step, ...]:
    """The steps from a version of the schema to the current one.

    Examples
    --------
    >>> from profframe.schema import SCHEMA_VERSION
    >>> [step.version for step in steps_since(SCHEMA_VERSION - 1)]
    [15]
    """
    return tuple(step for step in STEPS if step.version > version)


@cache
def may_lack(table: str) -> frozenset[str]:
    """Columns of a table that a store of an older schema may lack.

    A version of the schema grew while it was the newest: which of its columns a store has is known
    only from its files.
    """
    return frozenset(column for step in STEPS for column in step.added.get(table, ()))


def old_names(table: str, version: int) -> Mapping[str, str]:
    """For each column of a table with another name in a version of the schema, that name.

    Examples
    --------
    >>> dict(old_names("events", OLDEST))
    {}
    """
    names: dict[str, str] = {}
    for step in steps_since(version):
        # A column that was renamed before has its first name in the file.
        renamed = step.renamed.get(table, {}).items()
        names |= {new: names.pop(old, old) for new, old in renamed}
    return names


def lacks(version: int) -> str:
    """What a store of an older schema may lack, in words.

    Examples
    --------
    >>> from profframe.schema import SCHEMA_VERSION
    >>> lacks(SCHEMA_VERSION)
    ''
    >>> lacks(SCHEMA_VERSION - 1)
    'columns of segments, blocks, allocations, allocator_events, stacks, recorded_collectives'
    """
    steps = steps_since(version)
    tables = dict.fromkeys(table for step in steps for table in step.added)
    new = [f"the table {table}" for step in steps for table in sorted(step.tables)]
    return "; ".join([*([f"columns of {', '.join(tables)}"] if tables else []), *new])
