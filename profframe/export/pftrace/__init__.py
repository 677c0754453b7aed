"""A trace as Perfetto's protobuf, which Perfetto opens and `readers.perfetto` reads back.

Events are those of `export.chrome`, and so is the content of the header, which is in the metadata.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from profframe.export.chrome import counts_of, header_of, job_header, labels_of, own_of
from profframe.export.lines.batches import Lines
from profframe.export.lines.chrome_events import ChromeEvents
from profframe.export.lines.merged_ranks import MergedFile
from profframe.export.lines.overlap_lanes import NO_LANES, Lanes
from profframe.export.output_file import Write, written
from profframe.export.pftrace.packets import PacketWriter
from profframe.readers.chrome.columns import OWN_KEY
from profframe.readers.json import exact
from profframe.readers.perfetto.exported import ZERO_KEY

__all__ = ["write", "write_job"]

_UTC: Final = "utc"


def write(path: str | os.PathLike[str], events: ChromeEvents, first_ns: int) -> None:
    """Write a trace: what its header says, its threads and its events.

    No event is before ``first_ns``.
    """
    packets = PacketWriter(first_ns)
    with written(path, protobuf=True) as put:
        put(packets.opening(is_utc=events.trace.get("clock") == _UTC and first_ns > 0))
        header = header_of(events.trace)
        put(packets.metadata(_members({ZERO_KEY: first_ns} | header)))
        count = sum(_put(put, packets, events))
        if OWN_KEY not in header:
            put(packets.metadata({OWN_KEY: own_of(events, count)}))


def write_job(path: str | os.PathLike[str], job: MergedFile) -> None:
    """Write several traces: what the header of each says, then the events of one after another."""
    first_ns = job.first_ns
    packets = PacketWriter(first_ns)
    is_utc = {part.trace["clock"] for part in job.parts} == {_UTC} and first_ns > 0
    with written(path, protobuf=True) as put:
        put(packets.opening(is_utc=is_utc))
        put(packets.metadata(_members({ZERO_KEY: first_ns} | job_header(job))))
        counts = []
        for part in job.parts:
            with job.events(part) as events:
                _, count = _put(put, packets, events)
                counts.append(counts_of(events, part, count))
        with job.between() as rows:
            _put_rows(put, packets, rows, NO_LANES)
        put(packets.metadata({OWN_KEY: exact.dumps({"traces": counts})}))


def _put(put: Write, packets: PacketWriter, events: ChromeEvents) -> tuple[int, int]:
    """Write the events of a trace after its labels; returns how many there are of each."""
    labels = [*labels_of(events.threads)]
    put(packets.labels(labels))
    for batch in events.ends.batches:
        for part in packets.ends(batch):
            put(part)
    return len(labels), _put_rows(put, packets, events.lines, events.ends.lanes)


def _put_rows(put: Write, packets: PacketWriter, rows: Lines, lanes: Lanes) -> int:
    count = 0
    for batch in rows:
        for part in packets.events(batch, lanes):
            put(part)
        count += len(batch)
    return count


def _members(header: Mapping[str, Any]) -> dict[str, str]:
    return {name: exact.dumps(value) for name, value in header.items()}
