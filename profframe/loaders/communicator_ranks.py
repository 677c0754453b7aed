"""Ranks of processes of which only their numbers in communicators are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.loaders.run_names import NamedTrace

BY_COMMUNICATOR: Final = "communicator"
"""Where such a rank is from: its number in the largest communicator of its file."""


def with_own_ranks(traces: Sequence[NamedTrace]) -> list[NamedTrace]:
    """Traces with other ranks where processes that ran at once have the same.

    The largest communicator of a process may have only some ranks of its job, as where no
    collective of all ranks was recorded. Then processes are numbered by host and process id.
    """
    named = [*traces]
    runs: dict[str, list[int]] = {}
    for place, trace in enumerate(traces):
        if trace.rank_source == BY_COMMUNICATOR:
            runs.setdefault(trace.run, []).append(place)
    for places in runs.values():
        if not _share_ranks([traces[place] for place in places]):
            continue
        ordered = sorted(places, key=lambda place: _process(traces[place]))
        for rank, place in enumerate(ordered):
            named[place] = _with_rank(traces[place], rank)
    return named


def _share_ranks(traces: Sequence[NamedTrace]) -> bool:
    """Whether two of them have one rank at the same time; one after the other, a job began anew."""
    ends: dict[int, int] = {}
    spans = sorted((_span(trace), trace.rank) for trace in traces)
    for (first, last), rank in spans:
        if first < ends.get(rank, first):
            return True
        ends[rank] = max(last, ends.get(rank, last))
    return False


def _span(trace: NamedTrace) -> tuple[int, int]:
    row = trace.raw.tables["traces"].select(["start_ns", "end_ns"]).to_pylist()[0]
    return row["start_ns"] or 0, row["end_ns"] or 0


def _process(trace: NamedTrace) -> tuple[str, int, int, str]:
    """What processes are ordered by; of one with several ranks, also their numbers."""
    metadata = json.loads(trace.raw.header.metadata or "{}")
    host, pid = metadata.get("hostname"), metadata.get("pid")
    return str(host or ""), pid if isinstance(pid, int) else -1, trace.rank, str(trace.path)


def _with_rank(trace: NamedTrace, rank: int) -> NamedTrace:
    tables = trace.raw.tables
    records = tables.get("recorded_collectives")
    count = 0 if records is None else pc.count(records["record_id"]).as_py()
    detail = f"rank {rank} for number {trace.rank} in its largest communicator"
    note = schema.quality_rows(("assumed_ranks", count, detail, None))
    quality = pa.concat_tables([tables["quality"], note])
    raw = replace(trace.raw, tables={**tables, "quality": quality})
    return replace(trace, raw=raw, rank=rank, rank_source="assumed")
