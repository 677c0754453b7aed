"""Memory snapshots: every row and every sum as a plain loop over the unpickled dicts has them."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.errors import NotATraceError, SourceError
from profframe.readers import memory_snapshot
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.bytes import ByteSource
from profframe.readers.memory_snapshot import reading
from profframe.system.disk_tables import Spool
from tests import needs

SAMPLE = "facebookresearch__mosaic/output.pickle"
"""Among the real traces."""
BASE_US = 1_759_252_584_000_000
PLACES = (0x7F00_0000_0000, 512, 0, 1 << 40, (1 << 62) + 1)
FRAMES = [{"name": f"f{i}", "filename": f"/a/{i % 3}.py", "line": 300 * i} for i in range(5)]


def read(data: bytes, folder: Path, *, spool: bool = False) -> RawTrace:
    path = folder / "snapshot.pickle"
    path.write_bytes(data)
    return reading.read(ByteSource(path), Spool(folder) if spool else None)


def rows(raw: RawTrace, name: str) -> list[dict[str, Any]]:
    table = raw.tables[name]
    listed: list[dict[str, Any]] = (
        table if isinstance(table, pa.Table) else table.read()
    ).to_pylist()
    return listed


def stacks_of(raw: RawTrace) -> dict[int | None, list[tuple[Any, ...]]]:
    stacks: dict[int | None, list[tuple[Any, ...]]] = {}
    for row in rows(raw, "stacks"):
        stack = stacks.setdefault(row["stack_id"], [])
        assert row["depth"] == len(stack)
        stack.append((row["name"], row["file"], row["line"]))
    return stacks


def plain_stack(frames: list[dict[str, Any]] | None) -> list[tuple[Any, ...]]:
    return [(f["name"], f["filename"], f["line"]) for f in frames or []]


def compare(snapshot: dict[str, Any], raw: RawTrace) -> None:
    """All rows against loops over the dicts."""
    stacks: dict[int | None, list[tuple[Any, ...]]] = {None: [], **stacks_of(raw)}
    assert len({tuple(stack) for stack in stacks.values()}) == len(stacks)
    events = [(d, e) for d, es in enumerate(snapshot["device_traces"]) for e in es]
    read_events = rows(raw, "allocator_events")
    assert len(events) == len(read_events)
    for number, ((device, event), row) in enumerate(zip(events, read_events, strict=True)):
        assert row["allocator_event_id"] == number
        assert row["device"] == device
        time = event.get("time_us")
        assert row["time_ns"] == (None if time is None else time * 1000)
        for column, key in (("action", "action"), ("address", "addr"), ("bytes", "size"),
                            ("stream", "stream"), ("device_free_bytes", "device_free"),
                            ("compile_context", "compile_context")):  # fmt: skip
            assert row[column] == event.get(key)
        assert stacks[row["stack_id"]] == plain_stack(event.get("frames"))
    blocks = [(i, s, b) for i, s in enumerate(snapshot["segments"]) for b in s["blocks"]]
    read_blocks = rows(raw, "blocks")
    assert len(blocks) == len(read_blocks)
    for (i, segment, block), row in zip(blocks, read_blocks, strict=True):
        assert (row["segment_id"], row["device"]) == (i, segment["device"])
        assert (row["address"], row["bytes"]) == (block["address"], block["size"])
        assert (row["requested_bytes"], row["state"]) == (block["requested_size"], block["state"])
        assert stacks[row["stack_id"]] == plain_stack(block["frames"])
    for segment, row in zip(snapshot["segments"], rows(raw, "segments"), strict=True):
        assert (row["bytes"], row["pool"]) == (segment["total_size"], "[0,0]")
        assert row["active_bytes"] == segment["active_size"]
    compare_allocations(snapshot, raw, events, read_events)


def compare_allocations(
    snapshot: dict[str, Any],
    raw: RawTrace,
    events: list[tuple[int, dict[str, Any]]],
    read_events: list[dict[str, Any]],
) -> None:
    """Pairs by a loop that keeps what lives, and the peak by a replay."""
    lives: dict[tuple[int, int], dict[str, Any]] = {}
    expected = []
    for number, (device, event) in enumerate(events):
        action = event["action"]
        if action not in {"alloc", "free_requested", "free_completed"}:
            continue
        key = device, event["addr"]
        if action == "alloc" or key not in lives:
            lives[key] = {"device": device, "address": event["addr"], "bytes": event["size"],
                          "alloc": None, "free_requested": None, "free": None}  # fmt: skip
            expected.append(lives[key])
        lives[key]["free" if action == "free_completed" else action] = number
        if action == "free_completed":
            del lives[key]
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            key = segment["device"], block["address"]
            if block["state"].startswith("active") and key not in lives:
                expected.append({"device": key[0], "address": key[1],
                                 "bytes": block["requested_size"], "alloc": None,
                                 "free_requested": None, "free": None})  # fmt: skip
    allocations = rows(raw, "allocations")
    assert [row["allocation_id"] for row in allocations] == list(range(len(allocations)))
    got = [
        (r["device"], r["address"], r["bytes"], r["alloc_event_id"], r["free_requested_event_id"],
         r["free_event_id"])
        for r in allocations
    ]  # fmt: skip
    assert sorted(map(repr, got)) == sorted(repr(tuple(e.values())) for e in expected)
    for row in allocations:
        for name in ("alloc", "free_requested", "free"):
            event = row[f"{name}_event_id"]
            time = None if event is None else read_events[event]["time_ns"]
            assert row[f"{name}_ns"] == time
            if event is not None:
                assert read_events[event]["allocation_id"] == row["allocation_id"]


@st.composite
def snapshots(draw: st.DrawFn) -> dict[str, Any]:
    stacks = draw(st.lists(st.lists(st.sampled_from(FRAMES), max_size=4), min_size=1, max_size=4))
    with_time, with_context = draw(st.booleans()), draw(st.booleans())
    lives: set[tuple[int, int]] = set()
    traces: list[list[dict[str, Any]]] = [[] for _ in range(draw(st.integers(0, 2)))]
    for device, trace in enumerate(traces):
        before = set(draw(st.sets(st.sampled_from(PLACES))))
        lives |= {(device, address) for address in before}
        requested: set[int] = set()
        for i in range(draw(st.integers(0, 30))):
            address = draw(st.sampled_from(PLACES))
            key = device, address
            if key not in lives:
                action = "alloc"
                lives.add(key)
            elif address in requested or draw(st.booleans()):
                action = "free_completed"
                lives.discard(key)
                requested.discard(address)
            else:
                action = "free_requested"
                requested.add(address)
            if draw(st.integers(0, 9)) == 0:
                trace.append({"action": "oom", "device_free": 1 << 33, "size": 5 << 30, "stream": 0,
                              "frames": draw(st.sampled_from(stacks))})  # fmt: skip
                if with_time:
                    trace[-1]["time_us"] = BASE_US + i
            frames = draw(st.sampled_from(stacks))
            event = {"action": action, "addr": address, "size": 100 + (address & 1023),
                     "stream": draw(st.sampled_from([0, 7, 0x5555_5555_0000])),
                     "frames": list(frames) if draw(st.booleans()) else frames}  # fmt: skip
            if with_time:
                event["time_us"] = BASE_US + i
            if with_context:  # a text of its own each time, as torch makes it
                event["compile_context"] = "".join(["N", draw(st.sampled_from(["/A", "0/1", ""]))])
            trace.append(event)
    if traces:
        traces = draw(st.sampled_from([traces, traces * 1]))
    segments = []
    for device in range(len(traces)):
        blocks = [
            {"address": a, "size": 2048, "requested_size": 100 + (a & 1023),
             "state": "active_allocated" if (device, a) in lives else "inactive",
             "frames": stacks[0]}
            for a in PLACES
        ]  # fmt: skip
        segments.append({"device": device, "address": 0, "total_size": 10_240, "stream": 0,
                         "allocated_size": 1, "active_size": 2, "requested_size": 3,
                         "segment_type": "large", "segment_pool_id": (0, 0), "frames": [],
                         "is_expandable": False, "blocks": blocks})  # fmt: skip
    return {"segments": segments, "device_traces": traces}


def with_own_frames(snapshot: dict[str, Any]) -> dict[str, Any]:
    """One whose records and blocks share no frame."""

    def own(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "frames": [{**frame} for frame in row["frames"]]}

    return {
        "segments": [
            {**segment, "blocks": [own(block) for block in segment["blocks"]]}
            for segment in snapshot["segments"]
        ],
        "device_traces": [[own(record) for record in trace] for trace in snapshot["device_traces"]],
    }


@given(snapshots(), st.sampled_from([2, 3, 4, 5]))
def test_rows_are_those_of_a_loop(snapshot: dict[str, Any], protocol: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for one in (snapshot, with_own_frames(snapshot)):
            compare(one, read(pickle.dumps(one, protocol), Path(folder)))


def test_the_public_sample(tmp_path: Path) -> None:
    data = needs.traces(SAMPLE).read_bytes()
    snapshot = pickle.loads(data)  # noqa: S301
    compare(snapshot, read(data, tmp_path))
    compare(snapshot, read(data, tmp_path, spool=True))


def test_free_memory_that_is_freed_again_was_another_allocation(tmp_path: Path) -> None:
    """Records were lost between the two frees: the second is of memory that nothing allocates."""
    actions = ("alloc", "free_requested", "free_completed", "free_requested", "free_completed")
    records = [{"action": action, "addr": 512, "size": 100} for action in actions]
    raw = read(pickle.dumps({"segments": [], "device_traces": [records]}), tmp_path)
    columns = ("alloc_event_id", "free_requested_event_id", "free_event_id")
    assert [tuple(map(row.get, columns)) for row in rows(raw, "allocations")] == [
        (0, 1, 2), (None, 3, 4),
    ]  # fmt: skip


def test_blocks_of_old_releases_have_a_history(tmp_path: Path) -> None:
    block = {"size": 512, "state": "active_allocated",
             "history": [{"addr": 4096, "real_size": 500, "frames": FRAMES[:2]}]}  # fmt: skip
    segment = {"device": 1, "address": 4096, "total_size": 1024, "segment_type": "small",
               "blocks": [block, {"size": 512, "state": "inactive"}]}  # fmt: skip
    raw = read(pickle.dumps({"segments": [segment], "device_traces": []}, 4), tmp_path)
    first, second = rows(raw, "blocks")
    assert (first["address"], first["requested_bytes"], first["stack_id"]) == (4096, 500, 0)
    assert (second["address"], second["requested_bytes"], second["state"]) == (
        4608,
        None,
        "inactive",
    )
    (allocation,) = rows(raw, "allocations")
    assert (allocation["device"], allocation["bytes"], allocation["alloc_ns"]) == (1, 500, None)
    assert raw.header.clock == "unknown"


def test_annotations_are_slices(tmp_path: Path) -> None:
    marks = [
        {"name": "epoch", "device": 0, "stage": "START", "time_us": BASE_US},
        {"name": "epoch", "device": 0, "stage": "END", "time_us": BASE_US + 5},
    ]
    snapshot = {"segments": [], "device_traces": [], "external_annotations": marks, "n": 1}
    raw = read(pickle.dumps(snapshot), tmp_path)
    (event,) = rows(raw, "events")
    assert (event["name"], event["start_ns"], event["dur_ns"]) == ("epoch", BASE_US * 1000, 5000)
    assert raw.header.metadata == '{"n": 1}'


def test_what_is_no_snapshot_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="a pickle of a dict without segments"):
        read(pickle.dumps({"a": 1}), tmp_path)
    cases: tuple[dict[str, Any], ...] = (
        {"segments": 3}, {"device_traces": {}}, {"device_traces": [[1, 2]]}
    )  # fmt: skip
    for wrong in cases:
        with pytest.raises(SourceError):
            read(pickle.dumps(wrong), tmp_path)


def test_a_file_that_ends_early_names_the_place(tmp_path: Path) -> None:
    event = {"action": "alloc", "addr": 1, "size": 2, "stream": 0, "time_us": 3, "frames": []}
    data = pickle.dumps({"device_traces": [[dict(event) for _ in range(5000)]]}, 4)
    with pytest.raises(SourceError, match="ends early, after 50,000 bytes"):
        read(data[:50_000], tmp_path)


def test_records_without_any_text(tmp_path: Path) -> None:
    raw = read(pickle.dumps({"device_traces": [[{}] * 3 + [{"addr": 1}]]}, 4), tmp_path)
    assert [row["action"] for row in rows(raw, "allocator_events")] == [None] * 4


def test_values_that_are_none_are_counted(tmp_path: Path) -> None:
    segment = {"device": 1 << 40, "address": "x", "total_size": 5, "blocks": []}
    event = {"action": "alloc", "addr": 1 << 64, "size": float("nan"), "frames": 7, "time_us": None}
    snapshot = {"segments": [segment], "device_traces": [[event]]}
    raw = read(pickle.dumps(snapshot, 4), tmp_path)
    (row,) = rows(raw, "segments")
    assert (row["device"], row["address"], row["bytes"]) == (None, None, 5)
    (found,) = (row for row in rows(raw, "quality") if row["issue"] == "odd_value")
    assert found["events"] == 5


def test_keys_of_frames_that_are_not_kept_are_counted(tmp_path: Path) -> None:
    frame = {**FRAMES[0], "fx_node_info": "output"}
    event = {"action": "alloc", "addr": 1, "size": 2, "frames": [frame], "forward_frames": ["f"]}
    raw = read(pickle.dumps({"device_traces": [[event]]}, 4), tmp_path)
    metadata = '{"keys_not_loaded": {"forward_frames": 1, "fx_node_info": 1}}'
    assert raw.header.metadata == metadata
    (row,) = rows(raw, "quality")
    assert (row["issue"], row["events"]) == ("unread_key", 2)


def test_a_protocol_to_come_and_too_many_devices_are_refused(tmp_path: Path) -> None:
    data = pickle.dumps({"device_traces": [[]] * 3}, 4)
    later = data.replace(b"\x80\x04", b"\x80\x09", 1)
    assert memory_snapshot.knows(later)
    with pytest.raises(SourceError, match="it has protocol 9, but 5 is the latest one known"):
        read(later, tmp_path)
    with pytest.raises(SourceError, match="device_traces names 40,000 devices"):
        read(pickle.dumps({"device_traces": [[] for _ in range(40_000)]}, 4), tmp_path)
