"""Read Perfetto's protobuf (``.pftrace``), as torch, rocprofv3 and Perfetto itself write it.

Packets are cut from the stream a few megabytes at a time. Those that set state for later ones are
decoded by the classes of Perfetto's own package; events, of which there are many, as arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from profframe.errors import NotATraceError
from profframe.readers import perfetto
from profframe.readers.build.assembly import assemble
from profframe.readers.build.row_tables import Batch, Header, Quality, RawTrace, gather
from profframe.readers.bytes import ByteSource
from profframe.readers.chrome.job import JOB_KEY
from profframe.readers.chrome.reading import SeveralTracesError, device_type_of, trace_of
from profframe.readers.chrome.session import Session
from profframe.readers.perfetto.arrows import Arrows
from profframe.readers.perfetto.events import Events
from profframe.readers.perfetto.gpu import GpuCounters, Stages
from profframe.readers.perfetto.packets import Reading, messages
from profframe.readers.perfetto.tracks import TrackLines
from profframe.system.disk_tables import Spool


def read(source: ByteSource, spool: Spool | None = None, threads: int | None = None) -> RawTrace:
    """Read one trace of Perfetto.

    Parameters
    ----------
    source
        Its bytes, compressed or not.
    spool
        Where its tables go; None for memory.
    threads
        Not used: packets depend on those before them.

    Raises
    ------
    MissingExtraError
        The package with Perfetto's messages is not installed.
    NotATraceError
        There is no packet in it.
    SeveralTracesError
        It has several traces.
    SourceError
        The file cannot be read.
    """
    del threads
    messages()
    reading = Reading()
    lines = TrackLines(reading.state)
    trace = _Trace(reading, lines)
    rows = gather(trace.batches(source, is_spooled=spool is not None), spool)
    if not reading.framing.packets:
        reason = reading.framing.damage or "it has no packets"
        damage = f"; {source.damage}" if source.damage else ""
        raise NotATraceError(
            f"{source.path}: not a trace: {reason}{damage} (expected packets of Perfetto)"
        )
    quality = _quality(trace, source)
    if (own := reading.state.exported) is not None:
        return trace_of(
            source.path,
            rows,
            own.header,
            quality,
            trace.events.damaged,
            job=own.job,
            as_one=True,
        )
    header = Header(
        format=perfetto.FORMAT,
        clock="utc" if reading.state.base else "relative",
        base_ns=reading.state.base_ns(),
        device_type=device_type_of([rows]),
    )
    return assemble(
        rows,
        header,
        quality,
        trace.events.damaged,
        unread={"packets": sum(reading.passed.values())},
        in_order=True,
    )


@dataclass(slots=True)
class _Trace:
    """The rows of a trace, as its packets come."""

    reading: Reading
    lines: TrackLines
    events: Events = field(init=False)
    stages: Stages = field(init=False)
    counters: GpuCounters = field(init=False)

    def __post_init__(self) -> None:
        session, arrows = Session(), Arrows()
        state = self.reading.state
        self.events = Events(state, self.lines, arrows, session)
        self.stages = Stages(state, self.lines, arrows, session)
        self.counters = GpuCounters(state)

    def batches(self, source: ByteSource, *, is_spooled: bool) -> Iterator[Batch]:
        for packets in self.reading.packets(source.blocks()):
            own = self.reading.state.exported
            if is_spooled and own and own.job and (count := len(own.job.traces)) > 1:
                raise SeveralTracesError(source.path, count, {JOB_KEY: None})
            yield from self.events.batches(packets)
            yield from self.stages.batches(packets)
            yield from self.counters.batches(packets)
            self.reading.state.forget()
        yield from self.events.arrows.batches()
        yield self.lines.batch()


def _quality(trace: _Trace, source: ByteSource) -> Quality:
    quality = Quality()
    reading, events = trace.reading, trace.events
    damage = [text for text in (reading.framing.damage, source.damage) if text]
    if damage:
        quality.note("truncated", 1, "; ".join(damage))
    unreadable = reading.damaged + events.damaged + trace.stages.damaged + trace.counters.damaged
    if unreadable:
        quality.note("unreadable_event", unreadable, "packets, or messages in them")
    if unread := sum(events.unread.values()):
        quality.note("unreadable_arguments", unread, _counted(events.unread))
    if reading.state.lost_texts:
        quality.note("lost_text", reading.state.lost_texts)
    if reading.state.non_finite:
        quality.note("non_finite_number", reading.state.non_finite)
    if reading.lost:
        quality.note("lost_packets", reading.lost)
    if passed := sum(reading.passed.values()):
        quality.note("rows_not_loaded", passed, _counted(reading.passed))
    return quality


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in names.most_common(8) if count)
