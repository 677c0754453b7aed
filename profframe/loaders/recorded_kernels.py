"""Records of NCCL's profiler plugins and the kernels of their rank's trace that they are about."""

from __future__ import annotations

from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.facts.fact import Tables
from profframe.query import macros
from profframe.query.catalogue import find
from profframe.query.header import sql_directory
from profframe.readers import flight_recorder
from profframe.system.disk_tables import SpooledTable

_RECORDS: Final = "recorded_collectives"
_QUESTION: Final = "recorded_kernels"
SQL_VERSION: Final = "f63880299b5abf15"
"""Hash of that SQL and its macros: the version of the facts changes with it. A test computes it."""
_COLUMNS: Final = (
    "event_id", "kind", "name", "start_ns", "dur_ns", "step", "thread", "launch_id", "op_id",
    "parent_id", "collective", "process_group", "group_size", "group_ranks", "collective_seq",
    "collective_id", "element_type", "in_elements", "out_elements", "in_splits", "peer_rank",
    "input_dims", "input_types", "kernel_category",
)  # fmt: skip
"""Columns of events that collectives are found by."""


def with_kernels(tables: Tables, rank: int | None) -> Tables:
    """Tables of a trace whose records have the `event_id` of their kernels, where it is certain.

    Parameters
    ----------
    tables
        A trace with its facts, and records that were joined to it.
    rank
        Its rank, by which its place in process groups is known; None if it is not known.
    """
    records = tables.get(_RECORDS)
    if records is None or not records.num_rows:
        return tables
    own = records["recorder"].cast(pa.string())
    if not pc.any(pc.not_equal(own, flight_recorder.FORMAT)).as_py():
        return tables
    events = tables["events"]
    events = events.select([name for name in _COLUMNS if name in events.column_names])
    if isinstance(events, SpooledTable):
        events = events.read()
    number = -1 if rank is None else rank
    question = find(sql_directory() / "inner" / f"{_QUESTION}.sql")
    with duckdb.connect() as connection:
        connection.register("events", schema.conform("events", events, "", number))
        connection.register(_RECORDS, schema.conform(_RECORDS, records, "", number))
        macros.load(connection, question.sql)
        rows = connection.sql(question.sql).to_arrow_table()
    pairs = rows.filter(rows["record_id"].is_valid())
    at = pc.index_in(records["record_id"], pairs["record_id"].combine_chunks())
    event_ids = pairs["event_id"].combine_chunks().take(at)
    place = records.schema.get_field_index("event_id")
    field = pa.field("event_id", pa.int64())
    if place < 0:
        records = records.append_column(field, event_ids)
    else:
        records = records.set_column(place, field, event_ids)
    quality = tables["quality"]
    unsure = int(pc.sum(rows["kernels"]).as_py() or 0)
    if unsure:
        note = schema.quality_rows(("ambiguous_kernels", unsure, None, None))
        quality = pa.concat_tables([quality, note])
    return {**tables, _RECORDS: records, "quality": quality}
