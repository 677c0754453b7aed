"""Perfetto's protobuf: the same windows as Chrome JSON are the oracle, and packets made by hand."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import polars as pl
import pytest

import profframe
from profframe.errors import MissingExtraError, NotATraceError, SourceError
from profframe.intervals import Ints
from profframe.readers import perfetto
from profframe.readers.perfetto import wire
from profframe.readers.perfetto.events import Events
from profframe.readers.perfetto.packets import Packets
from profframe.trace.trace import Trace
from tests import needs
from tests.members import few

pb: Any = needs.module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
DATA: Final = Path(__file__).parent.parent / "data" / "cuspy"
HOST: Final = ["annotation", "host_op", "runtime", "driver", "sync", "overhead"]
SEQUENCE: Final = 7

BY_TIME: Final = ("start_ns", "category", "name", "thread_of", "dur_ns")
SAME: Final = (
    "kind", "category", "name", "dur_ns", "device", "stream", "sequence_nr", "fwd_thread", "step",
    "input_dims", "input_types", "input_strides", "concrete_inputs", "graph_id", "graph_node_id",
    "grid", "block", "registers", "bytes", "collective", "process_group", "group_size",
    "group_ranks", "collective_seq", "element_type", "in_elements", "out_elements",
    "wait_on_stream", "wait_on_correlation", "sync_kind", "external_id", "self_ns",
    "device_ns", "depth", "flops",
)  # fmt: skip
"""Columns that both exporters of torch can say. Only JSON has spans of the profiler, labels and
sort indices, flows of the CPU and of calls that launch nothing, `copy kind` and its like, static
shared memory (so `shared_memory_bytes`), correlations and bytes of 0, which op a device annotation
is of, and the header (rank, devices, flags); only the protobuf has the name of the process in
work on devices. A process below 0 and a stream of -1 have other ids in the protobuf."""


def both(folder: Path, name: str) -> tuple[Trace, Trace]:
    return tuple(profframe.load(folder / f"{name}.{end}") for end in ("json", "pftrace"))  # type: ignore[return-value]


def aligned(trace: Trace, columns: tuple[str, ...]) -> pl.DataFrame:
    """Rows of the events that both have, in an order of their own, with their causes by name."""
    events = trace.events.filter(pl.col("kind") != "profiler")
    named = events.select("event_id", cause="name", at=pl.col("start_ns") // 1000)
    for link in ("launch_id", "op_id", "parent_id"):
        own = named.rename({"cause": f"{link}_name", "at": f"{link}_at"})
        events = events.join(own, left_on=link, right_on="event_id", how="left")
    links = [c for c in events.columns if c.endswith("_name") and c != "overload_name"]
    chosen = events.select(
        *columns, *[c for c in links if c[:-5] in ("launch_id", "op_id", "parent_id")], "start_ns"
    )
    return chosen.sort("start_ns", "category", "name", "dur_ns", "stream", nulls_last=True)


@pytest.mark.parametrize("name", few(["rich", "rich_deps"], 1))
def test_both_exporters_of_torch_give_equal_tables(name: str) -> None:
    left, right = both(DATA, name)
    one, other = aligned(left, SAME), aligned(right, SAME)
    assert one.height == other.height == 31
    is_shown = pl.col("kind") == "device_annotation"  # its External id is in JSON only
    for column in one.columns:
        frames = (one, other)
        if column in {"external_id", "op_id_name"}:
            frames = tuple(f.filter(~is_shown) for f in frames)  # type: ignore[assignment]
        assert frames[0][column].to_list() == frames[1][column].to_list(), column
    columns = ("name", "series", "value", "unit", "device", "time_ns", "pid")
    assert (
        left.counters.select(columns)
        .sort(columns)
        .equals(right.counters.select(columns).sort(columns))
    )


@pytest.mark.parametrize("name", few(["rich", "rich_deps"], 1))
def test_arrows_of_both_exporters_lead_from_and_to_the_same(name: str) -> None:
    query = """
        SELECT flows.category, phase, flows.time_ns, flows.name, events.name AS at
        FROM flows JOIN events USING (run, rank, event_id)
        WHERE flow_id IN (SELECT flow_id FROM flows WHERE phase = 'f')
        ORDER BY ALL"""
    left, right = (trace.sql(query) for trace in both(DATA, name))
    # Four launches, one of five pieces of work; with dependencies, of their root alone.
    assert left.height == (4 + 3 + 1 + 4 if name == "rich" else 4 + 4 + 2 * 5)
    assert left.rows() == right.rows()


def test_arguments_of_both_exporters_are_the_same() -> None:
    left, right = both(DATA, "rich_deps")
    args = [
        {
            (row["category"], row["name"], row["start_ns"]): json.loads(row["args"])
            for row in trace.events.filter(pl.col("args").is_not_null()).iter_rows(named=True)
        }
        for trace in (left, right)
    ]
    only_left = {
        "copy kind",
        "src kind",
        "dst kind",
        "flags",
        "shared memory",
        "cuda event",
        "host process",
        "host thread",
    }
    for key, other in args[1].items():
        if key[0] in {"gpu_user_annotation", "overhead"}:
            continue
        own = args[0][key]
        zeros = {name for name, value in own.items() if value == 0 and name not in other}
        assert own.keys() - other.keys() <= only_left | zeros
        assert other.keys() - own.keys() <= {
            "process_id",
            "process_name",
            "arch",
            "shared_mem_dynamic",
            "thread_count",
        }
        for name in own.keys() & other.keys():
            same = own[name] == other[name]
            assert same or str(own[name]) == other[name], (key, name)


@pytest.mark.parametrize("name", ["plain", "deps"])
def test_samples_of_torch_find_the_op_of_every_launch(name: str) -> None:
    samples = needs.traces("torch215_cuspy")
    truth = json.loads((samples / "truth.json").read_text())
    left, right = both(samples, name)
    for trace in (left, right):
        rows = trace.sql("""
            SELECT work.correlation, op.external_id
            FROM events AS work LEFT JOIN events AS op ON work.op_id = op.event_id
            WHERE work.kind = 'kernel'""").rows()
        assert len(rows) == truth["kernels"]
        assert {str(c): op for c, op in rows} == truth["launches"]
    columns = ("kind", "category", "name", "stream", "correlation", "external_id", "dur_ns")
    tables = [
        trace.events.filter(pl.col("kind") != "profiler")
        .select(*columns, "graph_node_id", "start_ns")
        .sort(pl.col("start_ns") // 4, *columns)
        for trace in (left, right)
    ]
    moved = (
        tables[0]
        .with_columns(by=tables[1]["start_ns"] - tables[0]["start_ns"])
        .filter(pl.col("by") != 0)
    )
    # Times of ops go through a double there: 73 of 416 rows begin a nanosecond earlier or later.
    assert tables[0].height == 416
    assert moved.group_by("category", "by").len().sort("category", "by").rows() == [
        ("cpu_op", -1, 39), ("cpu_op", 1, 33), ("user_annotation", -1, 1),
    ]  # fmt: skip
    assert tables[0].drop("start_ns").equals(tables[1].drop("start_ns"))


def test_work_that_overlaps_on_a_lane_is_cut_by_the_exporter() -> None:
    """Torch ends there what has not ended when the next begins, and nothing else differs."""
    columns = ("name", "start_ns", "stream", "tid", "correlation", "dur_ns")
    left, right = (
        trace.events.filter(pl.col("kind") == "kernel").select(columns).sort("correlation")
        for trace in both(DATA, "overlaps")
    )
    assert left.drop("dur_ns").equals(right.drop("dur_ns"))
    both_ = left.select("name", "dur_ns", cut=right["dur_ns"])
    assert both_.height == 11
    assert both_.filter(pl.col("dur_ns") != pl.col("cut")).rows() == [
        ("first", 10_000, 5_000), ("outer", 20_000, 5_000), ("same", 10_000, 0),
        ("long", 30_000, 10_000), ("across a", 25_000, 10_000),
    ]  # fmt: skip


def test_annotations_of_nodes_do_not_hide_the_stream_that_they_ran_on() -> None:
    """`mark_stream` of torch records a member ``stream``, of the capture, in 2 of these."""
    for trace in both(DATA, "marks"):
        kernels = trace.events.filter(kind="kernel").sort("graph_node_id")
        assert kernels.select("name", "tid", "stream").rows() == [
            ("plain", "30", 30), ("marked", "31", 31), ("marked and moved", "100001", 32),
            ("moved", "100001", 33), ("touches", "100001", 34), ("last", "100001", 34),
        ]  # fmt: skip
        own = [json.loads(args).get("original_stream") for args in kernels["args"]]
        assert own == [None, None, 32, 33, 34, 34]


def test_dependencies_of_nodes_that_end_and_begin_at_once() -> None:
    """One node has no length, and is where the one before it ends and the next begins."""
    query = """
        SELECT source.name AS source, target.name AS target
        FROM flows JOIN flows AS ends USING (run, rank, flow_id, category)
        JOIN events AS source ON flows.event_id = source.event_id
        JOIN events AS target ON ends.event_id = target.event_id
        WHERE category = 'graph_dependency' AND flows.phase = 's' AND ends.phase = 'f'
        ORDER BY ALL"""
    edges = [("moved", "last"), ("moved", "touches"), ("touches", "last")]
    for trace in both(DATA, "marks"):
        assert trace.sql(query).rows() == edges


def test_calls_without_correlation_launch_nothing() -> None:
    """The protobuf names for them whatever has none either: a function of the host."""
    for trace in both(DATA, "marks"):
        assert trace.events.filter(name='HostNode: load<"x">\\')["launch_id"].to_list() == [None]
        assert trace.flows.filter(flow_id="0").height == 0


def test_empty_shapes_and_values_that_are_no_number_are_the_same_in_both() -> None:
    for trace in both(DATA, "marks"):
        assert trace.events.filter(name="replay")["input_dims"].to_list() == ["[[4,4],[],[[2],[]]]"]
        assert trace.counters.select("name", "value").rows() == [("smsp__inst_executed.sum", None)]
        assert trace.quality.filter(issue="non_finite_number")["events"].to_list() == [1]


def test_an_op_with_the_name_of_the_profiler_is_no_second_trace() -> None:
    for trace in both(DATA, "marks"):
        assert "mixed_traces" not in trace.quality["issue"].to_list()
        assert trace.events.filter(name="PyTorch Profiler (0)", kind="host_op").height == 1


def packet(**members: Any) -> Any:
    return pb.TracePacket(trusted_packet_sequence_id=SEQUENCE, **members)


def track_event(time: int, kind: str, **members: Any) -> Any:
    event = pb.TrackEvent(type=getattr(pb.TrackEvent, f"TYPE_{kind}"), **members)
    return packet(timestamp=time, track_event=event)


def thread(uuid: int, pid: int, tid: int, name: str) -> Any:
    own = pb.ThreadDescriptor(pid=pid, tid=tid, thread_name=name)
    return packet(track_descriptor=pb.TrackDescriptor(uuid=uuid, thread=own))


def written(path: Path, *packets: Any) -> Trace:
    path.write_bytes(pb.Trace(packet=packets).SerializeToString())
    return profframe.load(path)


def test_slices_of_a_stack_with_names_and_arguments(tmp_path: Path) -> None:
    note = pb.DebugAnnotation
    annotations = [
        note(name="text", string_value='a "b"\n'),
        note(name="number", int_value=-3),
        note(name="large", uint_value=2**64 - 1),
        note(name="half", double_value=0.5),
        note(name="none", double_value=float("nan")),
        note(name="yes", bool_value=True),
        note(name="list", array_values=[note(int_value=1), note(string_value="x")]),
        note(name="object", dict_entries=[note(name="k", int_value=2)]),
    ]
    trace = written(
        tmp_path / "a.pftrace",
        thread(1, 10, 11, "main"),
        track_event(
            100,
            "SLICE_BEGIN",
            track_uuid=1,
            name="outer",
            categories=["cat"],
            debug_annotations=annotations,
        ),
        track_event(120, "SLICE_BEGIN", track_uuid=1, name="inner"),
        track_event(150, "SLICE_END", track_uuid=1),
        track_event(160, "INSTANT", track_uuid=1, name="mark"),
        track_event(200, "SLICE_END", track_uuid=1),
        track_event(210, "SLICE_BEGIN", track_uuid=1, name="open"),
    )
    columns = ("name", "category", "start_ns", "dur_ns", "pid", "tid", "depth")
    assert trace.events.select(columns).rows() == [
        ("outer", "cat", 100, 100, "10", "11", 0),
        ("inner", None, 120, 30, "10", "11", 1),
        ("open", None, 210, None, "10", "11", None),
    ]
    assert json.loads(trace.events["args"][0]) == {
        "text": 'a "b"\n', "number": -3, "large": 2**64 - 1, "half": 0.5, "none": None,
        "yes": True, "list": [1, "x"], "object": {"k": 2},
    }  # fmt: skip
    assert trace.instants.select("name", "time_ns").rows() == [("mark", 160)]
    assert trace.threads["thread_name"].to_list() == ["main"]
    assert trace.quality["issue"].to_list() == ["non_finite_number", "unmatched_begin"]
    assert trace.traces.select("format", "clock").row(0) == ("perfetto", "relative")


def test_texts_and_clocks_that_packets_before_set(tmp_path: Path) -> None:
    clocks = pb.ClockSnapshot
    snapshot = clocks(
        clocks=[
            clocks.Clock(clock_id=6, timestamp=1_000),
            clocks.Clock(clock_id=1, timestamp=5_000_000),
            clocks.Clock(clock_id=64, timestamp=0, is_incremental=True, unit_multiplier_ns=1000),
        ]
    )
    interned = pb.InternedData(
        event_names=[pb.EventName(iid=1, name="first")],
        event_categories=[pb.EventCategory(iid=4, name="op")],
        debug_annotation_names=[pb.DebugAnnotationName(iid=2, name="External id")],
    )
    again = pb.InternedData(event_names=[pb.EventName(iid=1, name="second")])
    defaults = pb.TracePacketDefaults(
        timestamp_clock_id=64, track_event_defaults=pb.TrackEventDefaults(track_uuid=1)
    )
    begin, end = "SLICE_BEGIN", "SLICE_END"
    trace = written(
        tmp_path / "a.pftrace",
        packet(
            sequence_flags=1,
            clock_snapshot=snapshot,
            trace_packet_defaults=defaults,
            interned_data=interned,
        ),
        thread(1, 10, 11, "main"),
        track_event(
            2,
            begin,
            name_iid=1,
            category_iids=[4],
            debug_annotations=[pb.DebugAnnotation(name_iid=2, int_value=9)],
        ),
        track_event(3, end),
        packet(sequence_flags=1, interned_data=again, trace_packet_defaults=defaults),
        track_event(5, begin, name_iid=1),
        track_event(1, end),
        track_event(1, begin, name_iid=77),
        track_event(1, end),
    )
    columns = ("name", "category", "external_id", "start_ns", "dur_ns")
    assert trace.events.select(columns).rows() == [
        ("first", "op", 9, 5_002_000, 3_000),
        ("second", None, None, 5_010_000, 1_000),
        (None, None, None, 5_012_000, 1_000),
    ]
    assert trace.quality.select("issue", "events").rows() == [("lost_text", 1)]
    assert trace.traces["clock"][0] == "utc"


def test_counters_and_arrows_of_tracks(tmp_path: Path) -> None:
    counter = pb.CounterDescriptor(unit_name="MB", unit_multiplier=2)
    described = pb.TrackDescriptor(uuid=5, name="memory", counter=counter)
    begin, end = "SLICE_BEGIN", "SLICE_END"
    trace = written(
        tmp_path / "a.pftrace",
        thread(1, 10, 11, "main"),
        thread(2, 10, 12, "other"),
        packet(track_descriptor=described),
        track_event(1, "COUNTER", track_uuid=5, counter_value=3),
        track_event(2, "COUNTER", track_uuid=5, double_counter_value=1.5),
        track_event(10, begin, track_uuid=1, name="a", flow_ids=[2**63 + 1]),
        track_event(11, end, track_uuid=1),
        track_event(20, begin, track_uuid=2, name="b", terminating_flow_ids=[2**63 + 1]),
        track_event(21, end, track_uuid=2),
    )
    columns = ("name", "value", "unit", "time_ns")
    assert trace.counters.select(columns).rows() == [
        ("memory", 6.0, "MB", 1),
        ("memory", 3.0, "MB", 2),
    ]
    assert trace.flows.select("flow_id", "phase", "event_id").rows() == [
        (str(2**63 + 1), "s", 0),
        (str(2**63 + 1), "f", 1),
    ]


def test_ends_in_the_order_of_their_begins(tmp_path: Path) -> None:
    """Torch writes all begins of a group before all of its ends; touching neighbours stay two."""
    slices = [(0, 100), (10, 30), (30, 50), (50, 50)]
    trace = written(
        tmp_path / "a.pftrace",
        thread(1, 10, 11, "main"),
        *(
            track_event(b, "SLICE_BEGIN", track_uuid=1, name=str(n))
            for n, (b, _) in enumerate(slices)
        ),
        *(track_event(e, "SLICE_END", track_uuid=1) for _, e in slices),
    )
    assert trace.events.select("name", "start_ns", "dur_ns").rows() == [
        ("0", 0, 100), ("1", 10, 20), ("2", 30, 20), ("3", 50, 0),
    ]  # fmt: skip


def test_threads_that_take_turns_are_stacks_though_their_times_have_no_common_order(
    tmp_path: Path,
) -> None:
    trace = written(
        tmp_path / "a.pftrace",
        *(thread(n, 10, 10 + n, str(n)) for n in (1, 2, 3)),
        track_event(50, "SLICE_BEGIN", track_uuid=2, name="b"),
        track_event(40, "SLICE_BEGIN", track_uuid=3, name="c"),
        track_event(60, "SLICE_END", track_uuid=2),
        track_event(45, "SLICE_END", track_uuid=3),
        track_event(70, "SLICE_BEGIN", track_uuid=1, name="outer"),
        track_event(71, "SLICE_BEGIN", track_uuid=1, name="inner"),
        track_event(75, "SLICE_END", track_uuid=1),
        track_event(79, "SLICE_END", track_uuid=1),
    )
    assert trace.events.select("name", "start_ns", "dur_ns").sort("name").rows() == [
        ("b", 50, 10), ("c", 40, 5), ("inner", 71, 4), ("outer", 70, 9),
    ]  # fmt: skip


def test_compressed_packets_and_files(tmp_path: Path) -> None:
    inside = pb.Trace(packet=[
        thread(1, 10, 11, "main"),
        track_event(1, "SLICE_BEGIN", track_uuid=1, name="a"),
        track_event(4, "SLICE_END", track_uuid=1),
    ]).SerializeToString()  # fmt: skip
    outer = pb.Trace(packet=[pb.TracePacket(compressed_packets=zlib.compress(inside))])
    path = tmp_path / "a.pftrace.gz"
    path.write_bytes(gzip.compress(outer.SerializeToString()))
    trace = profframe.load(path)
    assert trace.events.select("run", "name", "dur_ns").rows() == [("a", "a", 3)]


def test_compressed_packets_are_taken_a_chunk_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kilobytes of gzip may hold millions of packets, whose bounds alone would fill the memory."""
    sizes: list[int] = []

    def watched(buffer: wire.Bytes, starts: Ints, ends: Ints) -> Any:
        sizes.append(starts.size)
        return fields(buffer, starts, ends)

    fields = wire.fields
    monkeypatch.setattr("profframe.readers.perfetto.packets.fields", watched)
    monkeypatch.setattr("profframe.readers.perfetto.packets._CHUNK", 1 << 14)
    inside = b"\n\x02\x08\x01" * (1 << 16)
    outer = pb.Trace(packet=[
        thread(1, 10, 11, "main"),
        pb.TracePacket(compressed_packets=zlib.compress(inside)),
    ])  # fmt: skip
    path = tmp_path / "a.pftrace"
    path.write_bytes(outer.SerializeToString())
    assert profframe.load(path).events.height == 0
    assert sum(sizes) >= 1 << 16
    assert max(sizes) <= 1 << 13


def zipped(*packets: Any) -> Any:
    inside = pb.Trace(packet=packets).SerializeToString()
    return pb.TracePacket(compressed_packets=zlib.compress(inside))


def moment(own: int, monotonic: int) -> Any:
    clock = pb.ClockSnapshot.Clock
    clocks = [clock(clock_id=6, timestamp=own), clock(clock_id=3, timestamp=monotonic)]
    return packet(clock_snapshot=pb.ClockSnapshot(clocks=clocks))


def test_parts_between_snapshots_and_compressed_packets_are_read_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part has the clocks that are set before it, and its texts from its own buffer."""
    passes: list[int] = []

    def watched(self: Events, packets: Packets) -> Any:
        passes.append(packets.count)
        return batches(self, packets)

    batches = Events.batches
    monkeypatch.setattr(Events, "batches", watched)
    packets: list[Any] = [thread(1, 10, 11, "main")]
    for part in range(40):
        begin = track_event(100 * part, "SLICE_BEGIN", track_uuid=1, name=f"op{part}")
        end = track_event(100 * part + 7, "SLICE_END", track_uuid=1)
        for event in (begin, end):
            event.timestamp_clock_id = 3
        own = [begin, end] if part % 3 else [zipped(begin), zipped(end)]
        packets += [moment(1_000 * part, 100 * part), *own]
    trace = written(tmp_path / "a.pftrace", *packets)
    assert trace.events.select("name", "start_ns", "dur_ns").rows() == [
        (f"op{part}", 1_000 * part, 7) for part in range(40)
    ]
    assert len(passes) == 1


@pytest.mark.parametrize("form", ["clock snapshots", "compressed packets"])
def test_more_parts_than_a_trace_has_are_refused(tmp_path: Path, form: str) -> None:
    one = moment(5, 5) if form == "clock snapshots" else zipped(track_event(1, "INSTANT"))
    few_parts = [*[one] * 500, track_event(9, "INSTANT", name="last")]
    assert written(tmp_path / "few.pftrace", *few_parts).instants["name"][-1] == "last"
    with pytest.raises(
        SourceError, match=r"more than 2,\d+ clock snapshots, losses and compressed"
    ):
        written(tmp_path / "many.pftrace", *[one] * 4_000)


def test_runs_of_empty_packets_are_passed_over() -> None:
    for count in (1, 127, 128, 129, 1000, 1_000_000):
        framing = wire.Framing()
        data = b"\n\x02\x08\x01" + b"\n\0" * count + b"\n\x02\x08\x02"
        found = [*framing.chunks(iter((data,)), 1 << 22)]
        assert (framing.packets, framing.damage) == (count + 2, None)
        assert len(found) == 1
        (buffer, starts, ends) = found[0]
        assert starts.size < 258
        assert buffer[starts[-1] : ends[-1]].tolist() == [8, 2]
    framing = wire.Framing()
    assert [*framing.chunks(iter((b"\n\0" * 256,)), 1 << 22)] == []
    assert (framing.packets, framing.damage) == (256, None)


def test_a_packet_that_no_memory_holds_ends_the_reading() -> None:
    framing = wire.Framing()
    data = b"\n\x02\x08\x01" + b"\n" + b"\xff" * 4 + b"\x7f" + b"\x08" * 100
    blocks = iter([data, *[b"\x08" * (1 << 20)] * 64])
    found = [*framing.chunks(blocks, 64)]
    assert [starts.tolist() for _, starts, _ in found] == [[2]]
    assert framing.damage == "the packet at byte 4 claims to have 34,359,738,367 bytes"
    assert next(blocks, None) is not None  # the rest is not waited for


def both_ways(data: bytes, starts: Ints, ends: Ints, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = np.frombuffer(data + bytes(wire.PADDING), np.uint8)
    results = []
    for most in (-1, 1 << 30):  # never one by one, and after the first field
        with monkeypatch.context() as patch:
            patch.setattr(wire, "_FEW_FIELDS", 1)
            patch.setattr(wire, "_FEW_MESSAGES", most)
            results.append(wire.fields(buffer, starts, ends))
    (passes, damaged), (alone, damaged_alone) = results
    assert damaged.tolist() == damaged_alone.tolist()
    for name in ("owner", "number", "wire", "value", "size"):
        assert getattr(passes, name).tolist() == getattr(alone, name).tolist(), name


@pytest.mark.parametrize("seed", range(40))
def test_fields_are_the_same_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole messages, damaged ones, and bytes at random."""
    random = Random(seed)  # noqa: S311
    texts = []
    for _ in range(12):
        text = bytearray()
        for _ in range(random.randrange(9)):
            number, kind = random.randrange(1, 40), random.choice((0, 0, 1, 2, 5))
            value = random.getrandbits(random.choice((1, 7, 14, 35, 63, 64)))
            text += varint(number << 3 | kind)
            if kind == wire.VARINT:
                text += varint(value)
            elif kind == wire.LENGTH:
                text += varint(len(inside := random.randbytes(random.randrange(5)))) + inside
            else:
                text += random.randbytes({wire.FIXED64: 8, wire.FIXED32: 4}[kind])
        if text and random.random() < 0.4:
            text[random.randrange(len(text))] = random.choice(
                (0, 127, 128, 255, random.randrange(256))
            )
        texts.append(
            bytes(text) if random.random() < 0.8 else random.randbytes(random.randrange(30))
        )
    bounds = np.cumsum([0, *map(len, texts)])
    both_ways(b"".join(texts), bounds[:-1], bounds[1:], monkeypatch)


def varint(value: int) -> bytes:
    head = bytearray()
    while value >= 128:
        head.append(value & 127 | 128)
        value >>= 7
    return bytes([*head, value])


@pytest.mark.parametrize(
    ("count", "is_whole"), [(5000, True), (1 << 16, True), ((1 << 16) + 1, False)]
)
def test_many_fields_of_one_message_take_no_pass_each(
    count: int, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    numbers = wire._varints

    def watched(*of: Any) -> Any:
        passes.append(1)
        return numbers(*of)

    monkeypatch.setattr(wire, "_varints", watched)
    data = b"\x40\x01" * count
    buffer = np.frombuffer(data + bytes(wire.PADDING), np.uint8)
    parts, damaged = wire.fields(buffer, np.array([0]), np.array([len(data)]))
    assert damaged.tolist() == [not is_whole]
    assert parts.number.size == (count if is_whole else 0)
    assert set(parts.number.tolist()) <= {8}
    assert len(passes) < 200


class Read(bytes):
    """A block that counts the bytes which adding it to what waits copies with it."""

    __slots__ = ()
    copied = 0

    def __radd__(self, waiting: bytes) -> bytes:
        if type(waiting) is bytes:
            Read.copied += len(waiting)
        return NotImplemented  # bytes add themselves then


@pytest.mark.parametrize("count", [1, 7, 512])
def test_a_packet_that_does_not_end_is_not_copied_for_each_block(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Read, "copied", 0)
    framing = wire.Framing()
    looked_at: list[int] = []
    cut = wire.Framing._cut

    def watched(self: wire.Framing, data: bytearray) -> Any:
        looked_at.append(len(data))
        return cut(self, data)

    monkeypatch.setattr(wire.Framing, "_cut", watched)
    head = Read(b"\n\x02\x08\x01\n" + b"\xff\xff\xff\x7f")
    chunks = [*framing.chunks(iter([head, *[Read(b"\x08" * 4096)] * count]), 1 << 14)]
    assert [starts.tolist() for _, starts, _ in chunks] == [[2]]
    assert framing.damage == "the packet at byte 4 is cut off"
    assert Read.copied == 0
    assert sum(looked_at) <= 4 * (len(head) + 4096 * count)  # looked at again after twice as much


def test_a_store_has_the_rows_of_the_file(tmp_path: Path) -> None:
    """Whatever the file is: gzip of one member as torch writes it, of several, or plain."""
    plain = gzip.decompress((DATA / "rich.pftrace").read_bytes())
    half = len(plain) // 2
    contents = {
        "plain.pftrace": plain,
        "members.pftrace.gz": gzip.compress(plain[:half]) + gzip.compress(plain[half:]),
        "unnamed": plain,
    }
    loaded = profframe.load(DATA / "rich.pftrace")
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        profframe.convert(path, tmp_path / f"store of {name}", run="rich")
        stored = profframe.load(tmp_path / f"store of {name}")
        for table in ("events", "counters", "flows", "instants", "threads"):
            assert getattr(stored, table).equals(getattr(loaded, table)), (name, table)


def test_damage_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    whole = pb.Trace(packet=[
        thread(1, 10, 11, "main"),
        track_event(1, "SLICE_BEGIN", track_uuid=1, name="a"),
        track_event(4, "SLICE_END", track_uuid=1),
    ]).SerializeToString()  # fmt: skip
    path = tmp_path / "a.pftrace"
    path.write_bytes(whole[:-3])
    trace = profframe.load(path)
    assert trace.events.select("name", "dur_ns").rows() == [("a", None)]
    assert trace.quality["issue"].to_list() == ["truncated", "unmatched_begin"]
    path.write_bytes(whole + b"\xff\xff")
    assert "no packet begins at byte" in profframe.load(path).quality["detail"][0]
    path.write_bytes(whole + b"\x0a\x03\x5a\x7f\x08")  # an event that is longer than its packet
    assert profframe.load(path).quality.select("issue", "events").rows() == [
        ("unreadable_event", 1)
    ]
    path.write_bytes(b"\n\x05\x08")
    with pytest.raises(NotATraceError, match="not a trace"):
        profframe.load(path)


@pytest.mark.parametrize("kind", [b"\x49" + b"\xff" * 8, b"\x48" + b"\xff" * 9 + b"\x01"])
def test_a_kind_of_event_that_is_none_is_an_instant(tmp_path: Path, kind: bytes) -> None:
    """A number of another type than it should have, and one below zero."""
    event = kind + b"\xba\x01\x01x"
    whole = pb.Trace(packet=[thread(1, 10, 11, "main")]).SerializeToString()
    path = tmp_path / "a.pftrace"
    path.write_bytes(whole + bytes([10, len(event) + 2, 0x5A, len(event)]) + event)
    trace = profframe.load(path)
    assert trace.instants.select("name", "phase").rows() == [("x", None)]


@pytest.mark.parametrize("clock", [1, 6])
def test_clocks_beyond_all_times_are_damage(tmp_path: Path, clock: int) -> None:
    clocks = pb.ClockSnapshot
    others = [clocks.Clock(clock_id=7 - clock, timestamp=5)]
    snapshot = clocks(clocks=[*others, clocks.Clock(clock_id=clock, timestamp=2**64 - 1)])
    trace = written(
        tmp_path / "a.pftrace",
        packet(clock_snapshot=snapshot),
        thread(1, 10, 11, "main"),
        track_event(7, "INSTANT", track_uuid=1, name="x"),
    )
    assert trace.instants["time_ns"].to_list() == [7]
    assert trace.quality.select("issue", "events").rows() == [("unreadable_event", 1)]


def test_without_the_package_one_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pftrace"
    path.write_bytes(pb.Trace(packet=[thread(1, 10, 11, "main")]).SerializeToString())
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'profframe\[perfetto\]'"):
        profframe.load(path)


def test_beginnings_of_other_protobufs_are_not_taken_for_a_trace() -> None:
    assert perfetto.knows(pb.Trace(packet=[packet(timestamp=5)]).SerializeToString())
    assert not perfetto.knows(b"\n\x20\x08\x01\x12\x1a/host:CPU and the name of a plane")
    assert not perfetto.knows(b'\n{"traceEvents": []}')
    assert not perfetto.knows(b"")
