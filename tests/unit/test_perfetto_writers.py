"""Perfetto's protobuf of other writers than torch: rocprofv3, Perfetto's SDK, Chrome, drivers."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe.trace.trace import Trace
from tests import needs

pb: Any = needs.module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
Event: Final = pb.TrackEvent
Track: Final = pb.TrackDescriptor
Clock: Final = pb.ClockSnapshot.Clock
SLICES: Final = ("name", "start_ns", "dur_ns", "pid", "tid")


def packet(sequence: int = 1, **members: Any) -> Any:
    return pb.TracePacket(trusted_packet_sequence_id=sequence, **members)


def event(time: int, kind: str, *, flags: int = 0, sequence: int = 1, **members: Any) -> Any:
    own = Event(type=getattr(Event, f"TYPE_{kind}"), **members)
    return packet(sequence, timestamp=time, track_event=own, sequence_flags=flags)


def track(uuid: int, **members: Any) -> Any:
    return packet(track_descriptor=Track(uuid=uuid, **members))


def notes(**members: int | str) -> list[Any]:
    return [
        pb.DebugAnnotation(
            name=name, **{"string_value" if isinstance(value, str) else "uint_value": value}
        )
        for name, value in members.items()
    ]


def snapshot(*clocks: Any, sequence: int = 1, **members: Any) -> Any:
    return packet(sequence, clock_snapshot=pb.ClockSnapshot(clocks=clocks), **members)


def loaded(folder: Path, *packets: Any) -> Trace:
    path = folder / "a.pftrace"
    path.write_bytes(pb.Trace(packet=packets).SerializeToString())
    return profframe.load(path)


def checks(trace: Trace) -> dict[str, int]:
    return dict(trace.quality.select("issue", "events").rows())


def test_calls_of_rocprof_launch_what_is_on_queues(tmp_path: Path) -> None:
    process = pb.ProcessDescriptor(pid=99, process_name="app")
    thread = pb.ThreadDescriptor(pid=99, tid=100)
    call: dict[str, Any] = {"categories": ["hip_api"]}
    work: dict[str, Any] = {"categories": ["kernel_dispatch"]}
    copy: dict[str, Any] = {"categories": ["memory_copy"]}
    trace = loaded(
        tmp_path,
        track(1, process=process),
        track(2, parent_uuid=1, name="THREAD 0 (100)", thread=thread),
        track(3, parent_uuid=1, name="COMPUTE AGENT [4] QUEUE [1] (GPU)"),
        track(4, parent_uuid=1, name="COPY to AGENT [0] THREAD [0] (CPU)"),
        track(
            5,
            parent_uuid=1,
            name="COPY BYTES to AGENT [4] (GPU)",
            counter=pb.CounterDescriptor(unit_name="bytes"),
        ),
        event(10, "SLICE_BEGIN", track_uuid=2, name="hipLaunchKernel", flow_ids=[7],
              debug_annotations=notes(begin_ns=10, kind=3, corr_id=7), **call),
        event(20, "SLICE_END", track_uuid=2),
        event(25, "SLICE_BEGIN", track_uuid=2, name="hipMemcpyAsync", flow_ids=[8],
              debug_annotations=notes(corr_id=8), **call),
        event(26, "SLICE_END", track_uuid=2),
        event(60, "SLICE_BEGIN", track_uuid=4, name="MEMORY_COPY_DEVICE_TO_HOST", flow_ids=[8],
              debug_annotations=notes(src_agent="GPU-4", dst_agent="CPU-0", copy_bytes=4096,
                                      corr_id=8), **copy),
        event(66, "SLICE_END", track_uuid=4),
        event(30, "SLICE_BEGIN", track_uuid=3, name="gemm", flow_ids=[7],
              debug_annotations=notes(agent=4, corr_id=7, queue=2**47, grid_size=64), **work),
        event(50, "SLICE_END", track_uuid=3),
        event(60, "COUNTER", track_uuid=5, counter_value=4096),
    )  # fmt: skip
    columns = ("kind", "name", "start_ns", "dur_ns", "tid", "device", "stream", "bytes")
    line = ("COMPUTE AGENT [4] QUEUE [1] (GPU)", "COPY to AGENT [0] THREAD [0] (CPU)")
    assert trace.events.select(columns).sort("start_ns").rows() == [
        ("runtime", "hipLaunchKernel", 10, 10, "100", None, None, None),
        ("runtime", "hipMemcpyAsync", 25, 1, "100", None, None, None),
        ("kernel", "gemm", 30, 20, line[0], 4, 1, None),
        ("memcpy", "MEMORY_COPY_DEVICE_TO_HOST", 60, 6, line[1], 4, None, 4096),
    ]
    launches = trace.sql("""
        SELECT work.name, call.name FROM events AS work JOIN events AS call
        ON work.launch_id = call.event_id ORDER BY 1""").rows()
    assert launches == [
        ("MEMORY_COPY_DEVICE_TO_HOST", "hipMemcpyAsync"),
        ("gemm", "hipLaunchKernel"),
    ]
    assert trace.flows.sort("flow_id", "time_ns").select("flow_id", "phase", "time_ns").rows() == [
        ("7", "s", 10), ("7", "f", 30), ("8", "s", 25), ("8", "f", 60),
    ]  # fmt: skip
    assert trace.counters.select("name", "value", "unit", "device").rows() == [
        ("COPY BYTES to AGENT [4] (GPU)", 4096, "bytes", 4)
    ]
    assert trace.threads["process_name"].unique().to_list() == ["app"]
    assert trace.quality.is_empty()


def test_clocks_of_sequences_through_other_clocks(tmp_path: Path) -> None:
    """The second sequence has its clock against the monotonic one alone, in units of 10 ns."""
    defaults = {"timestamp_clock_id": 64}
    trace = loaded(
        tmp_path,
        snapshot(Clock(clock_id=6, timestamp=1000), Clock(clock_id=3, timestamp=400),
                 Clock(clock_id=1, timestamp=9_000)),
        snapshot(Clock(clock_id=3, timestamp=500),
                 Clock(clock_id=64, timestamp=0, is_incremental=True),
                 Clock(clock_id=65, timestamp=7, unit_multiplier_ns=10),
                 sequence_flags=1, trace_packet_defaults=pb.TracePacketDefaults(**defaults)),
        event(5, "SLICE_BEGIN", name="incremental", flags=2),
        event(5, "SLICE_END", flags=2),
        packet(timestamp=9, timestamp_clock_id=65,
               track_event=Event(type=Event.TYPE_INSTANT, name="absolute")),
        packet(timestamp=450, timestamp_clock_id=3,
               track_event=Event(type=Event.TYPE_INSTANT, name="monotonic")),
        packet(timestamp=1, timestamp_clock_id=99,
               track_event=Event(type=Event.TYPE_INSTANT, name="of no snapshot")),
    )  # fmt: skip
    # 500 monotonic is 1,100 of the trace, which is 9,100 since the epoch.
    assert trace.events.select("name", "start_ns", "dur_ns").rows() == [("incremental", 9_105, 5)]
    assert trace.instants.select("name", "time_ns").rows() == [
        ("absolute", 9_120), ("monotonic", 9_050), ("of no snapshot", None),
    ]  # fmt: skip
    assert checks(trace) == {"missing_time": 1}


def test_events_before_the_clock_of_the_day_is_known(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        event(100, "INSTANT", name="before"),
        snapshot(Clock(clock_id=6, timestamp=150), Clock(clock_id=1, timestamp=10_150)),
        event(200, "INSTANT", name="after"),
    )
    assert trace.instants["time_ns"].to_list() == [10_100, 10_200]


def test_what_is_lost_with_packets_is_named(tmp_path: Path) -> None:
    names = pb.InternedData(event_names=[pb.EventName(iid=1, name="known")])
    trace = loaded(
        tmp_path,
        event(1, "INSTANT", name_iid=1, sequence=9, flags=2),  # of a sequence that began before
        snapshot(Clock(clock_id=6, timestamp=100), Clock(clock_id=64, is_incremental=True),
                 sequence_flags=1, interned_data=names, previous_packet_dropped=1,
                 trace_packet_defaults=pb.TracePacketDefaults(timestamp_clock_id=64)),
        event(5, "INSTANT", name_iid=1, flags=2),
        packet(timestamp=5, sequence_flags=2, previous_packet_dropped=1,
               track_event=Event(type=Event.TYPE_INSTANT, name_iid=1)),
        packet(sequence_flags=1, interned_data=names),
        event(300, "INSTANT", name_iid=1, flags=2),
    )  # fmt: skip
    assert trace.instants.select("name", "time_ns").rows() == [
        (None, None), ("known", 105), (None, None), ("known", 300),
    ]  # fmt: skip
    assert checks(trace) == {"lost_text": 2, "lost_packets": 1, "missing_time": 2}


def legacy(time: int, phase: str, **members: Any) -> Any:
    own = {
        key: members.pop(key)
        for key in ("name", "categories", "debug_annotations")
        if key in members
    }
    message = Event.LegacyEvent(phase=ord(phase), **members)
    return packet(timestamp=time, track_event=Event(legacy_event=message, track_uuid=1, **own))


def test_events_in_words_of_chrome(tmp_path: Path) -> None:
    thread = pb.ThreadDescriptor(pid=10, tid=11, thread_name="main")
    trace = loaded(
        tmp_path,
        track(1, thread=thread),
        legacy(1_000, "X", name="whole", categories=["a", "b"], duration_us=3),
        legacy(2_000, "B", name="begun"),
        legacy(2_500, "E"),
        legacy(3_000, "b", name="async", categories=["a"], local_id=5),
        legacy(3_900, "e", name="async", categories=["a"], local_id=5),
        legacy(4_000, "X", name="elsewhere", duration_us=1, pid_override=20, tid_override=21),
        legacy(1_500, "s", name="arrow", categories=["a"], unscoped_id=9),
        legacy(4_100, "f", name="arrow", categories=["a"], unscoped_id=9, bind_to_enclosing=True),
        legacy(5_000, "I", name="mark"),
        legacy(6_000, "C", name="heap", debug_annotations=notes(live=7, dead=2)),
    )
    columns = ("name", "category", "start_ns", "dur_ns", "pid", "tid", "is_async")
    assert trace.events.select(columns).rows() == [
        ("whole", "a,b", 1_000, 3_000, "10", "11", None),
        ("begun", None, 2_000, 500, "10", "11", None),
        ("async", "a", 3_000, 900, "10", "11", True),
        ("elsewhere", None, 4_000, 1_000, "20", "21", None),
    ]
    assert trace.flows.select("flow_id", "phase", "time_ns").rows() == [
        ("9", "s", 1_500), ("9", "f", 4_100),
    ]  # fmt: skip
    assert trace.instants.select("name", "time_ns").rows() == [("mark", 5_000)]
    assert trace.counters.select("name", "series", "value").rows() == [
        ("heap", "live", 7.0), ("heap", "dead", 2.0),
    ]  # fmt: skip
    assert trace.quality.is_empty()


def test_times_and_threads_of_the_first_writers(tmp_path: Path) -> None:
    thread = pb.ThreadDescriptor(pid=10, tid=11, thread_name="main", reference_timestamp_us=1)
    begin = {"type": Event.TYPE_SLICE_BEGIN}
    trace = loaded(
        tmp_path,
        packet(sequence_flags=1, thread_descriptor=thread),
        packet(process_descriptor=pb.ProcessDescriptor(pid=10, cmdline=["/bin/app", "-x"])),
        packet(track_event=Event(name="a", timestamp_delta_us=2, **begin)),
        packet(track_event=Event(type=Event.TYPE_SLICE_END, timestamp_delta_us=3)),
        packet(track_event=Event(name="b", timestamp_absolute_us=9, **begin)),
        packet(track_event=Event(type=Event.TYPE_SLICE_END, timestamp_absolute_us=10)),
    )
    assert trace.events.select(SLICES).rows() == [
        ("a", 3_000, 3_000, "10", "11"),
        ("b", 9_000, 1_000, "10", "11"),
    ]
    assert trace.threads.select("thread_name", "process_name").rows() == [("main", "/bin/app")]


def test_absolute_times_of_the_first_writers_are_on_the_monotonic_clock(tmp_path: Path) -> None:
    """That clock is 600 us behind the clock of the trace, as 1,000 - 400 us say."""
    instant = {"type": Event.TYPE_INSTANT}
    trace = loaded(
        tmp_path,
        snapshot(Clock(clock_id=6, timestamp=1_000_000), Clock(clock_id=3, timestamp=400_000)),
        packet(track_event=Event(name="a", timestamp_absolute_us=410, **instant)),
        packet(timestamp=1_020_000, track_event=Event(name="b", **instant)),
    )
    assert trace.instants.select("name", "time_ns").rows() == [("a", 1_010_000), ("b", 1_020_000)]


def test_delta_times_go_on_behind_a_snapshot_and_in_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profframe.readers.perfetto.packets._CHUNK", 16)
    thread = pb.ThreadDescriptor(pid=10, tid=11, reference_timestamp_us=1)
    instant = {"type": Event.TYPE_INSTANT}
    trace = loaded(
        tmp_path,
        packet(sequence_flags=1, thread_descriptor=thread),
        packet(track_event=Event(name="a", timestamp_delta_us=2, **instant)),
        packet(track_event=Event(name="b", timestamp_delta_us=3, **instant)),
        snapshot(Clock(clock_id=6, timestamp=9_000)),
        packet(track_event=Event(name="c", timestamp_delta_us=4, **instant)),
    )
    assert trace.instants.select("name", "time_ns").rows() == [
        ("a", 3_000), ("b", 6_000), ("c", 10_000),
    ]  # fmt: skip


def test_each_sequence_counts_delta_times_from_its_own_thread(tmp_path: Path) -> None:
    """On the monotonic clock, which is 600 us behind that of the trace."""

    def thread(sequence: int, reference_us: int) -> Any:
        own = pb.ThreadDescriptor(pid=10, tid=sequence, reference_timestamp_us=reference_us)
        return packet(sequence, sequence_flags=1, thread_descriptor=own)

    def instant(sequence: int, name: str, delta_us: int) -> Any:
        own = Event(type=Event.TYPE_INSTANT, name=name, timestamp_delta_us=delta_us)
        return packet(sequence, track_event=own)

    trace = loaded(
        tmp_path,
        snapshot(Clock(clock_id=6, timestamp=1_000_000), Clock(clock_id=3, timestamp=400_000)),
        thread(1, 1),
        thread(2, 100),
        instant(1, "a", 2),
        instant(2, "b", 5),
        instant(1, "c", 3),
        instant(2, "d", 1),
    )
    assert trace.instants.select("name", "time_ns", "tid").sort("name").rows() == [
        ("a", 603_000, "1"), ("b", 705_000, "2"), ("c", 606_000, "1"), ("d", 706_000, "2"),
    ]  # fmt: skip


def test_each_sequence_has_its_own_clock_and_track_by_default(tmp_path: Path) -> None:
    """Clock 64 counts in units of 1,000 ns for one, and of 10 ns for another; a third has none."""
    main = Clock(clock_id=6, timestamp=1_000)

    def own(sequence: int, unit: int) -> Any:
        return snapshot(
            main, Clock(clock_id=64, timestamp=0, unit_multiplier_ns=unit), sequence=sequence,
            sequence_flags=1, trace_packet_defaults=pb.TracePacketDefaults(
                timestamp_clock_id=64,
                track_event_defaults=pb.TrackEventDefaults(track_uuid=sequence),
            ),
        )  # fmt: skip

    trace = loaded(
        tmp_path,
        track(1, thread=pb.ThreadDescriptor(pid=10, tid=11)),
        track(2, thread=pb.ThreadDescriptor(pid=10, tid=12)),
        own(1, 1_000),
        own(2, 10),
        event(2, "INSTANT", name="a"),
        event(2, "INSTANT", name="b", sequence=2),
        event(1_500, "INSTANT", name="c", sequence=3),
    )
    assert trace.instants.select("name", "time_ns", "tid").sort("name").rows() == [
        ("a", 3_000, "11"), ("b", 1_020, "12"), ("c", 1_500, "sequence 3"),
    ]  # fmt: skip


def test_a_clock_that_counts_up_goes_on_behind_what_other_sequences_say(tmp_path: Path) -> None:
    """A snapshot of sequence 2 begins a new batch; what it loses is not lost for sequence 1."""
    main, counting = Clock(clock_id=6, timestamp=1_000), Clock(clock_id=64, is_incremental=True)

    def instant(sequence: int, name: str, time: int, clock: int, **members: Any) -> Any:
        own = Event(type=Event.TYPE_INSTANT, name=name)
        return packet(
            sequence, timestamp=time, timestamp_clock_id=clock, track_event=own, **members
        )

    trace = loaded(
        tmp_path,
        snapshot(main, counting),
        instant(1, "a", 5, 64),
        snapshot(main, counting, Clock(clock_id=65, timestamp=0), sequence=2),
        instant(1, "b", 5, 64),
        instant(2, "c", 7, 64),
        instant(2, "of a clock that is lost", 7, 64, previous_packet_dropped=1),
        instant(2, "of one that does not count up", 40, 65),
        instant(1, "d", 5, 64),
    )
    assert trace.instants.select("name", "time_ns").rows() == [
        ("a", 1_005), ("b", 1_010), ("c", 1_007), ("of a clock that is lost", None),
        ("of one that does not count up", 1_040), ("d", 1_015),
    ]  # fmt: skip


def test_counters_beside_events_and_those_that_count_up(tmp_path: Path) -> None:
    counter = pb.CounterDescriptor
    defaults = pb.TrackEventDefaults(
        extra_counter_track_uuids=[5, 6], extra_double_counter_track_uuids=[7]
    )
    trace = loaded(
        tmp_path,
        packet(
            sequence_flags=1,
            trace_packet_defaults=pb.TracePacketDefaults(track_event_defaults=defaults),
        ),
        track(5, name="up", counter=counter(is_incremental=True, unit_multiplier=10, unit=2)),
        track(6, name="time", counter=counter(unit=1)),
        track(7, name="share", counter=counter(unit_name="%")),
        event(
            1, "INSTANT", name="a", extra_counter_values=[1, 100], extra_double_counter_values=[0.5]
        ),
        event(2, "INSTANT", name="b", extra_counter_values=[2]),
        event(3, "INSTANT", name="c", extra_counter_values=[8], extra_counter_track_uuids=[6]),
        event(4, "INSTANT", name="d", extra_counter_values=[1, 2, 3]),
        event(5, "COUNTER", track_uuid=5, counter_value=4),
    )
    counters = trace.counters.sort("time_ns", "name")
    assert counters.select("time_ns", "name", "value", "unit").rows() == [
        (1, "share", 0.5, "%"), (1, "time", 100, "ns"), (1, "up", 10, "count"),
        (2, "up", 30, "count"), (3, "time", 8, "ns"),
        (4, "time", 2, "ns"), (4, "up", 40, "count"), (5, "up", 80, "count"),
    ]  # fmt: skip
    assert trace.quality.select("issue", "events", "detail").rows()[0][:2] == (
        "unreadable_arguments",
        1,
    )
    assert "1 extra_counter_values" in trace.quality["detail"][0]


def test_tracks_that_are_described_behind_their_events(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        event(1, "SLICE_BEGIN", track_uuid=2, name="a"),
        event(4, "SLICE_END", track_uuid=2),
        track(2, thread=pb.ThreadDescriptor(pid=10, tid=11, thread_name="main")),
        track(4, process=pb.ProcessDescriptor(pid=20, process_name="other")),
        track(3, process=pb.ProcessDescriptor(pid=10, process_name="app")),
    )
    assert trace.events.select(SLICES).rows() == [("a", 1, 3, "10", "11")]
    assert trace.threads.select("thread_name", "process_name").rows() == [
        ("main", "app"), (None, "other"),
    ]  # fmt: skip


def test_stages_that_are_numbered_in_an_event(tmp_path: Path) -> None:
    stage = pb.GpuRenderStageEvent
    names = [stage.Specifications.Description(name=n) for n in ("first", "second")]

    def work(time: int, **members: int) -> Any:
        return packet(timestamp=time, gpu_render_stage_event=stage(**members))

    specifications = stage.Specifications(hw_queue=names, stage=names[::-1])
    trace = loaded(
        tmp_path,
        packet(timestamp=1, gpu_render_stage_event=stage(specifications=specifications)),
        work(5, event_id=1, duration=3, hw_queue_id=1, stage_id=1),
        work(9, event_id=2, duration=2, hw_queue_id=0, stage_id=7),
    )
    assert trace.events.select("name", "start_ns", "dur_ns", "tid").rows() == [
        ("first", 5, 3, "second"), ("7", 9, 2, "first"),
    ]  # fmt: skip


def test_a_stage_whose_name_is_lost_has_none_beside_those_that_are_numbered(
    tmp_path: Path,
) -> None:
    stage = pb.GpuRenderStageEvent
    names = [stage.Specifications.Description(name=n) for n in ("first", "second")]

    def work(time: int, **members: Any) -> Any:
        return packet(timestamp=time, gpu_render_stage_event=stage(duration=2, **members))

    trace = loaded(
        tmp_path,
        work(1, specifications=stage.Specifications(hw_queue=names, stage=names[::-1])),
        work(5, event_id=1, hw_queue_iid=7, stage_iid=8),
        work(9, event_id=2, hw_queue_id=1, stage_id=1),
    )
    rows = trace.events.select("name", "start_ns", "tid").rows()
    assert rows == [(None, 5, None), ("first", 9, "second")]
    assert checks(trace) == {"lost_text": 2}


def test_each_sequence_numbers_its_own_stages(tmp_path: Path) -> None:
    """What a third one, which numbers none, means are those that were numbered last."""
    stage = pb.GpuRenderStageEvent

    def numbered(sequence: int, *names: str) -> Any:
        entries = [stage.Specifications.Description(name=name) for name in names]
        own = stage.Specifications(hw_queue=entries, stage=entries)
        return packet(sequence, timestamp=1, gpu_render_stage_event=stage(specifications=own))

    def work(sequence: int, time: int) -> Any:
        own = stage(event_id=time, duration=3, hw_queue_id=1, stage_id=1)
        return packet(sequence, timestamp=time, gpu_render_stage_event=own)

    trace = loaded(
        tmp_path, numbered(1, "a", "b"), numbered(2, "c", "d"), work(1, 5), work(2, 10), work(3, 15)
    )
    rows = trace.events.select("name", "start_ns", "tid").sort("start_ns").rows()
    assert rows == [("b", 5, "b"), ("d", 10, "d"), ("d", 15, "d")]


def test_an_event_that_numbers_stages_is_work_if_it_has_an_id(tmp_path: Path) -> None:
    stage = pb.GpuRenderStageEvent
    names = [stage.Specifications.Description(name=n) for n in ("first", "second")]
    own = {"specifications": stage.Specifications(hw_queue=names, stage=names), "duration": 3}
    trace = loaded(
        tmp_path,
        packet(timestamp=1, gpu_render_stage_event=stage(stage_id=1, **own)),
        packet(timestamp=5, gpu_render_stage_event=stage(event_id=1, stage_id=1, **own)),
    )
    assert trace.events.select("name", "start_ns", "dur_ns").rows() == [("second", 5, 3)]


def test_what_is_not_read_is_counted(tmp_path: Path) -> None:
    scheduled = pb.FtraceEventBundle(cpu=1)
    nested = pb.DebugAnnotation(
        name="old", nested_value=pb.DebugAnnotation.NestedValue(int_value=3)
    )
    inside = zlib.compress(pb.Trace(packet=[event(1, "INSTANT", name="in")]).SerializeToString())
    again = pb.Trace(packet=[pb.TracePacket(compressed_packets=inside)]).SerializeToString()
    trace = loaded(
        tmp_path,
        packet(ftrace_events=scheduled),
        event(1, "INSTANT", name="a", debug_annotations=[nested]),
        event(2, "INSTANT", name="b", source_location=pb.SourceLocation(file_name="f")),
        pb.TracePacket(compressed_packets=inside[:-6]),
        pb.TracePacket(compressed_packets=zlib.compress(again)),
    )
    found = {c: (n, d) for c, n, d in trace.quality.select("issue", "events", "detail").rows()}
    assert found["rows_not_loaded"][0] == 1
    assert "1 ftrace_events" in found["rows_not_loaded"][1]
    assert found["unreadable_arguments"][0] == 2
    assert "1 source_location" in found["unreadable_arguments"][1]
    assert found["unreadable_event"][0] >= 2


def test_texts_that_are_no_text(tmp_path: Path) -> None:
    whole = pb.Trace(packet=[
        track(1, process=pb.ProcessDescriptor(pid=10, process_name="p~p")),
        track(2, parent_uuid=1, name="t~t"),
        event(1, "INSTANT", track_uuid=2, name="n~n"),
    ]).SerializeToString()  # fmt: skip
    path = tmp_path / "a.pftrace"
    path.write_bytes(whole.replace(b"~", b"\xff"))
    trace = profframe.load(path)
    assert trace.instants["name"].to_list() == ["n�n"]
    assert trace.threads.select("tid", "process_name").rows() == [("t�t", "p�p")]


def test_many_sequences_with_large_numbers(tmp_path: Path) -> None:
    packets = [
        event(n, "INSTANT", name_iid=1, sequence=sequence, flags=0)
        for n, sequence in enumerate((1, 2**32 - 1, 2**31, 1))
    ]
    names = [
        packet(of, sequence_flags=1, interned_data=pb.InternedData(
            event_names=[pb.EventName(iid=1, name=str(of))]))
        for of in (1, 2**32 - 1, 2**31)
    ]  # fmt: skip
    trace = loaded(tmp_path, *names, *packets)
    assert trace.instants["name"].to_list() == ["1", str(2**32 - 1), str(2**31), "1"]
