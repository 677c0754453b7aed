"""What memory snapshots have since torch 2.14, by hand; `tests/property` compares with a loop."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import cli
from profframe.analysis.fail_on import limit
from profframe.cli import comparisons
from profframe.comparisons import memory_diff
from profframe.comparisons.fail_on_metrics import check_peak_limits
from profframe.query.catalogue import find
from profframe.show import snapshot_text
from profframe.trace.trace import Trace
from tests.fuzz.pickles import odd

MIB = 1 << 20
BASE_US = 1_759_252_584_000_000
USER = {"name": "f", "filename": "train.py", "line": 3}
NODE = {"name": "forward", "filename": "/t/fx_ab.py", "line": 8, "fx_node_op": "call_function",
        "fx_node_name": "addmm", "fx_node_target": "aten.addmm.default",
        "fx_original_trace": "File model.py, line 14"}  # fmt: skip
KEYS = ("device_type", "device")


def record(action: str, us: int, addr: int, size: int = MIB, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": BASE_US + us,
            "frames": [USER], "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0),
            **more}  # fmt: skip


def segment(addr: int, size: int, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    block = {"address": addr, "size": size, "requested_size": size, "state": state,
             "frames": [USER]}  # fmt: skip
    return {"device": 0, "address": addr, "total_size": size, "stream": 0, "allocated_size": size,
            "active_size": size, "requested_size": size, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block],
            **more}  # fmt: skip


def written(path: Path, *devices: list[Any], **more: Any) -> Path:
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [*devices], **more}))
    return path


def loaded(path: Path, *devices: list[Any], **more: Any) -> Trace:
    return profframe.load(written(path / "snapshot.pickle", *devices, **more))


HOST = {
    "host_segments": [segment(1 << 40, 8 * MIB, device=-1)],
    "host_traces": [
        record("segment_alloc", 5, 1 << 40, 8 * MIB),
        record("alloc", 5, 1 << 40, 8 * MIB),
    ],
}
"""8 MiB of pinned memory, allocated while the second of the records below is alone."""


class TestMetadata:
    def test_is_that_of_the_allocation_not_of_its_free(self, tmp_path: Path) -> None:
        trace = loaded(tmp_path, [
            record("alloc", 1, 512, user_metadata="forward"),
            record("free_requested", 2, 512, user_metadata="optimizer"),
            record("free_completed", 2, 512, user_metadata="optimizer"),
            record("free_completed", 3, 1024, user_metadata="optimizer"),
        ])  # fmt: skip
        assert trace.allocations["metadata"].to_list() == ["forward", None]
        records = trace.sql("FROM allocator_events ORDER BY allocator_event_id")
        assert records["metadata"].to_list() == ["forward", "optimizer", "optimizer", "optimizer"]

    def test_an_empty_text_is_none(self, tmp_path: Path) -> None:
        trace = loaded(tmp_path, [record("alloc", 1, 512)])
        assert trace.allocations["metadata"].to_list() == [None]

    def test_notes_are_about_what_lives_then(self, tmp_path: Path) -> None:
        trace = loaded(
            tmp_path,
            [
                record("annotate", 1, 512, user_metadata="before"),
                record("free_completed", 2, 512),
                record("annotate", 3, 512, user_metadata="of nothing"),
                record("alloc", 4, 512, user_metadata="own"),
                record("annotate", 5, 512, user_metadata="first"),
                record("annotate", 6, 512, user_metadata="last"),
                record("free_requested", 7, 512),
                record("annotate", 8, 1024, user_metadata="packed"),
                record("annotate", 9, 2048, user_metadata="packed"),
            ],
            segments=[segment(1024, MIB), segment(2048, MIB, "inactive")],
        )
        events = trace.sql("FROM allocator_events ORDER BY allocator_event_id")
        assert events["allocation_id"].to_list() == [1, 1, None, 0, 0, 0, 0, 2, None]
        assert trace.allocations["annotation"].to_list() == ["last", "before", "packed"]
        held = trace.memory_stacks(per="metadata")
        assert {*held["name"]} == {"own", "before", "packed"}


class TestPools:
    def test_that_of_the_record_before_that_of_the_segment(self, tmp_path: Path) -> None:
        old = record("alloc", 2, 1024)
        del old["pool_id"]
        trace = loaded(
            tmp_path,
            [record("alloc", 1, 512, pool_id=(3, 4)), old],
            segments=[
                segment(512, 512, segment_pool_id=(0, 1)),
                segment(1024, 512, segment_pool_id=(0, 2)),
                segment(4096, 512, segment_pool_id=(0, 3)),
            ],
        )
        assert trace.allocations["pool"].to_list() == ["[3,4]", "[0,2]", "[0,3]"]
        held = trace.memory_stacks(per="pool")
        assert held.select("name", "end_bytes").rows() == [
            ("[0,2]", MIB), ("[3,4]", MIB), ("[0,3]", 512),
        ]  # fmt: skip

    @pytest.mark.parametrize("pool", [(), (1, "a"), (1 << 63, 0), (1, 2, 3, 4), "x", 7, {"a": 1}])
    def test_odd_ones_are_counted(self, tmp_path: Path, pool: Any) -> None:
        records = [record("alloc", i, 512 * i, pool_id=pool) for i in range(1, 40)]
        trace = loaded(tmp_path, records)
        assert trace.allocations["pool"].null_count() == 39
        (row,) = trace.quality.rows(named=True)
        assert (row["issue"], row["events"]) == ("odd_value", 39)


class TestNodes:
    def test_the_innermost_one(self, tmp_path: Path) -> None:
        outer = {**NODE, "line": 9, "fx_node_name": "output", "filename": "fx_cd.py"}
        trace = loaded(tmp_path, [
            record("alloc", 1, 512, frames=[USER, NODE, outer]),
            record("alloc", 2, 1024, frames=[outer]),
            record("alloc", 3, 2048),
        ])  # fmt: skip
        held = trace.memory_stacks(per="fx_node")
        assert [*held["name"]] == ["fx_ab.py: addmm", "fx_cd.py: output", None]
        (frame,) = trace.sql("FROM stacks WHERE fx_node = 'addmm'").rows(named=True)
        assert (frame["fx_op"], frame["fx_target"], frame["fx_trace"], frame["depth"]) == (
            "call_function", "aten.addmm.default", "File model.py, line 14", 1,
        )  # fmt: skip

    def test_frames_that_differ_by_a_node_alone(self, tmp_path: Path) -> None:
        relu = {**NODE, "fx_node_name": "relu"}
        trace = loaded(tmp_path, [
            record("alloc", i, 512 * i, frames=[dict(NODE if i % 2 else relu)])
            for i in range(1, 101)
        ])  # fmt: skip
        held = trace.memory_stacks(per="fx_node")
        assert held.select("name", "end_blocks").rows() == [
            ("fx_ab.py: addmm", 50), ("fx_ab.py: relu", 50),
        ]  # fmt: skip

    def test_a_node_that_is_no_text_is_counted(self, tmp_path: Path) -> None:
        trace = loaded(tmp_path, [record("alloc", 1, 512, frames=[{**NODE, "fx_node_name": 3}])])
        (row,) = trace.quality.rows(named=True)
        assert (row["issue"], row["events"]) == ("odd_value", 1)


class TestAnnotations:
    def test_the_innermost_one_that_is_open(self, tmp_path: Path) -> None:
        marks = [("step", "START", 10), ("forward", "START", 20), ("forward", "END", 30),
                 ("step", "END", 40)]  # fmt: skip
        trace = loaded(
            tmp_path,
            [record("alloc", us, 512 * us) for us in (9, 10, 19, 20, 30, 31, 40, 41)],
            external_annotations=[
                {"name": name, "device": 0, "stage": stage, "time_us": BASE_US + us}
                for name, stage, us in marks
            ],
        )
        held = trace.memory_stacks(per="annotation")
        assert dict(held.select("name", "end_blocks").iter_rows()) == {
            "step": 4, "forward": 2, None: 2,
        }  # fmt: skip


class TestPinned:
    RECORDS = (record("alloc", 1, 512, 2 * MIB), record("alloc", 9, 1 << 40, 4 * MIB))

    def test_is_in_no_sum_of_a_device(self, tmp_path: Path) -> None:
        """The same address on a device is other memory."""
        trace = loaded(tmp_path, [*self.RECORDS], **HOST)
        held = trace.memory_stacks().select(*KEYS, "peak_bytes", "end_bytes", "unfreed_bytes")
        assert held.rows() == [
            ("CUDA", 0, 6 * MIB, 6 * MIB, 6 * MIB),
            ("PINNED_HOST", None, 8 * MIB, 8 * MIB, 8 * MIB),
        ]
        peaks = trace.memory_peak().select(*KEYS, "allocated_bytes", "source")
        assert peaks.rows() == [
            ("CUDA", 0, 6 * MIB, "snapshot"), ("PINNED_HOST", None, 8 * MIB, "snapshot"),
        ]  # fmt: skip
        last = trace.snapshot_timeline().group_by(KEYS, maintain_order=True).last()
        assert last.select(*KEYS, "allocated_bytes", "reserved_bytes").rows() == [
            ("CUDA", 0, 6 * MIB, None), ("PINNED_HOST", None, 8 * MIB, 8 * MIB),
        ]  # fmt: skip
        segments = trace.fragmentation().select(*KEYS, "bytes").rows()
        assert segments == [("PINNED_HOST", None, 8 * MIB)]

    def test_alone(self, tmp_path: Path) -> None:
        """What `record_cuda=False` writes."""
        trace = loaded(tmp_path, **HOST)
        assert trace.memory_stacks().select(*KEYS, "end_bytes").rows() == [
            ("PINNED_HOST", None, 8 * MIB)
        ]
        path = tmp_path / "alone.pickle"
        path.write_bytes(pickle.dumps(HOST))
        assert profframe.load(path).allocations["bytes"].to_list() == [8 * MIB]

    def test_words(self, tmp_path: Path) -> None:
        trace = loaded(tmp_path, [*self.RECORDS], **HOST)
        text = str(trace.summary())
        at = "peak at 2025-09-30 17:16:24.000 UTC"
        assert f"Device 0: {at}: 6.00 MiB (6,291,456 bytes) in " in text
        assert f"Pinned host memory: {at}: 8.00 MiB (8,388,608 bytes) in " in text

    def test_two_snapshots(self, tmp_path: Path) -> None:
        base = written(tmp_path / "a.pickle", [self.RECORDS[0]])
        other = written(tmp_path / "b.pickle", [self.RECORDS[0]], **HOST)
        rows = profframe.diff_memory(base, other, per="frame")
        assert rows.select("memory", "name", "change_peak_bytes", "status").rows() == [
            ("pinned host", "train.py(3): f", 8 * MIB, "added"),
            ("device", "train.py(3): f", 0, "equal"),
        ]
        text, _ = snapshot_text.changes(rows)
        assert "2.00 MiB and 2.00 MiB (+0 B)" in text
        assert "of pinned host memory at the peak 0 B and 8.00 MiB (+8.00 MiB)" in text
        (verdict,) = check_peak_limits([limit("memory=1MB")], rows)
        assert verdict.other == 2 * MIB
        assert not verdict.is_broken

    def test_on_the_command_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        base = written(tmp_path / "a.pickle", [self.RECORDS[0]])
        other = written(tmp_path / "b.pickle", [*self.RECORDS], **HOST)
        sides = ["diff", str(base), str(other)]
        assert cli.run([*sides, "--per", "pool", "--fail-on", "memory=5MB"]) == 0
        assert "pinned host" in capsys.readouterr().out
        assert cli.run([*sides, "--fail-on", "memory=3MB"]) == 3
        answer = find("memory_stacks")
        (per,) = (one for one in answer.parameters if one.name == "per")
        assert per.choices == comparisons._PER_OF_MEMORY == memory_diff.PER

    def test_where_it_runs_out_its_own_memory_counts(self, tmp_path: Path) -> None:
        failed = record("oom", 9, 0, MIB, device_free=2048)
        host = [*HOST["host_traces"], failed, {**failed, "time_us": BASE_US + 10}]
        trace = loaded(tmp_path, [*self.RECORDS, failed], **{**HOST, "host_traces": host})
        columns = ("device_type", "device", "held_bytes", "reserved_bytes", "holder_bytes")
        rows = trace.out_of_memory().select(columns).rows()
        assert rows == [
            ("CUDA", 0, 6 * MIB, None, 6 * MIB),
            ("PINNED_HOST", None, 8 * MIB, 8 * MIB, 8 * MIB),
            ("PINNED_HOST", None, 8 * MIB, 8 * MIB, 8 * MIB),
        ]
        at_failure = trace.memory_stacks(at="oom").select(*KEYS, "peak_bytes").rows()
        assert at_failure == [("CUDA", 0, 6 * MIB), ("PINNED_HOST", None, 8 * MIB)]
        (segment_,) = trace.fragmentation().select(*KEYS, "request_bytes", "fits_block").rows()
        assert segment_ == ("PINNED_HOST", None, MIB, False)
        said = str(trace)
        assert "Pinned host memory: 8.00 MiB were allocated in 1 block" in said
        assert "the host had 2.00 KiB free" in said
        assert "It is the last of 2 times that memory ran out" in said

    def test_lists_of_another_kind_are_refused(self, tmp_path: Path) -> None:
        for more, place in (
            ({"host_traces": {}}, "host_traces"),
            ({"host_segments": 3}, "host_segments"),
            ({"host_traces": [[record("alloc", 1, 2)]]}, "host_traces"),
        ):
            with pytest.raises(profframe.SourceError, match=place):
                loaded(tmp_path, **more)


class TestXpu:
    @pytest.mark.parametrize(
        ("settings", "frame", "device_type"),
        [
            ({"PYTORCH_ALLOC_CONF": ""}, USER, "XPU"),
            ({"PYTORCH_CUDA_ALLOC_CONF": ""}, USER, "CUDA"),
            ({"PYTORCH_ALLOC_CONF": "", "release_lock_on_cudamalloc": False}, USER, "CUDA"),
            (None, {"name": "f", "filename": "/v/torch/xpu/memory.py", "line": 1}, "XPU"),
            (
                None,
                {"name": "c10::xpu::XPUCachingAllocator::f", "filename": "??", "line": 0},
                "XPU",
            ),
            (None, {"name": "f", "filename": "/torch_xpu/a.py", "line": 1}, "CUDA"),
        ],
    )
    def test_by_settings_and_frames(
        self, tmp_path: Path, settings: Any, frame: Any, device_type: str
    ) -> None:
        more = {} if settings is None else {"allocator_settings": settings}
        trace = loaded(tmp_path, [record("alloc", 1, 512, frames=[frame])], **more)
        assert trace.allocations["device_type"].to_list() == [device_type]
        assert trace.memory_peak()["device_type"].to_list() == [device_type]
        assert trace.sql("FROM traces")["device_type"].to_list() == [device_type]


def slice_(name: str, us: int, dur: int, tid: int = 1, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": BASE_US + us, "dur": dur, "pid": 1,
            "tid": tid, **more}  # fmt: skip


class TestBesideATrace:
    """An op on each of two threads; the profiler recorded memory of devices."""

    @staticmethod
    def joined(path: Path, *events: dict[str, Any], **more: Any) -> Trace:
        source = path / "t.json"
        source.write_text(json.dumps({"traceEvents": [
            slice_("aten::linear", 100, 50), slice_("aten::pin_memory", 300, 50), *events,
        ]}))  # fmt: skip
        return profframe.load(source, memory=written(path / "s.pickle", **more))

    @staticmethod
    def profiled(us: int, addr: int, size: int, tid: int) -> Any:
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1,
                "tid": tid, "ts": BASE_US + us,
                "args": {"Device Type": 1, "Device Id": 0, "Addr": addr, "Bytes": size,
                         "Total Allocated": size}}  # fmt: skip

    def test_pinned_memory_has_the_op_that_made_it(self, tmp_path: Path) -> None:
        host = [record("alloc", 310, 1 << 40), record("alloc", 500, 2 << 40)]
        trace = self.joined(tmp_path, host_traces=host)
        ops = trace.sql(
            "SELECT a.device_type, e.name FROM allocations AS a LEFT JOIN events AS e "
            "ON a.op_id = e.event_id ORDER BY allocation_id"
        )
        assert ops.rows() == [("PINNED_HOST", "aten::pin_memory"), ("PINNED_HOST", None)]
        owners = trace.memory_owners().select(*KEYS, "origin", "name", "bytes")
        assert owners.rows() == [
            ("PINNED_HOST", None, "no_op", None, MIB),
            ("PINNED_HOST", None, "op", "aten::pin_memory", MIB),
        ]

    def test_pinned_memory_is_not_what_the_profiler_recorded_there(self, tmp_path: Path) -> None:
        """A record of the profiler of the same address is of another device, on another thread."""
        trace = self.joined(
            tmp_path,
            slice_("aten::other", 300, 50, tid=2),
            self.profiled(310, 1 << 40, 2 * MIB, 2),
            device_traces=[],
            host_traces=[record("alloc", 310, 1 << 40)],
        )
        (row,) = trace.allocations.rows(named=True)
        assert row["op_id"] is None  # two threads are in ops
        (issue,) = trace.quality.filter(issue="record_in_several_ops").rows(named=True)
        assert issue["events"] == 1

    def test_what_the_profiler_lacks_is_that_of_the_host(self, tmp_path: Path) -> None:
        """Its own records of a device take precedence; pinned memory it has none of."""
        trace = self.joined(
            tmp_path,
            self.profiled(110, 512, 2 * MIB, 1),
            device_traces=[[record("alloc", 110, 512)]],
            host_traces=[record("alloc", 310, 1 << 40, 3 * MIB)],
        )
        peaks = trace.memory_peak().select(*KEYS, "allocated_bytes", "source", "op_name")
        assert peaks.rows() == [
            ("CUDA", 0, 2 * MIB, "profile", "aten::linear"),
            ("PINNED_HOST", None, 3 * MIB, "snapshot", "aten::pin_memory"),
        ]

    def test_xpu(self, tmp_path: Path) -> None:
        trace = self.joined(
            tmp_path,
            device_traces=[[], [record("alloc", 110, 512)]],
            allocator_settings={"PYTORCH_ALLOC_CONF": ""},
        )
        peaks = trace.memory_peak().select(*KEYS, "allocated_bytes", "source", "op_name")
        assert peaks.rows() == [("XPU", 1, MIB, "snapshot", "aten::linear")]

    def test_a_parameter_is_as_large_as_a_gradient_of_its_own_memory(self, tmp_path: Path) -> None:
        backward = {"args": {"Sequence number": 5, "Fwd thread id": 1}}
        trace = self.joined(
            tmp_path,
            slice_("warm up", 0, 2, cat="user_annotation"),
            slice_("aten::addmm", 410, 10, args={"Sequence number": 5, "Fwd thread id": 0}),
            slice_("autograd::engine::evaluate_function: AddmmBackward0", 500, 50, 2, **backward),
            slice_("AddmmBackward0", 505, 40, 2, **backward),
            device_traces=[[record("alloc", 50, 512), record("alloc", 510, 1024)]],
            host_traces=[record("alloc", 60, 1 << 40)],
        )
        assert trace.allocations.select("device_type", "category").rows() == [
            ("CUDA", "parameter"), ("CUDA", "gradient"), ("PINNED_HOST", None),
        ]  # fmt: skip


def test_a_store_has_the_same_rows(tmp_path: Path) -> None:
    """Its records go through a file."""
    source = Path("examples/snapshot.pickle")
    profframe.convert(source, tmp_path / "store")
    made, kept = profframe.load(source), profframe.load(tmp_path / "store")
    for name in ("segments", "blocks", "allocations", "allocator_events", "stacks"):
        one, other = (pl.DataFrame(t.sql(f"FROM {name}")).drop("run") for t in (made, kept))
        assert one.height
        assert one.equals(other)


def test_nothing_is_lost_without_a_row(tmp_path: Path) -> None:
    """Odd values of records, and keys that nobody knows."""
    kept = {"addr": "address", "size": "bytes", "stream": "stream", "time_us": "time_ns",
            "user_metadata": "metadata", "pool_id": "pool", "action": "action",
            "compile_context": "compile_context"}  # fmt: skip
    for seed in range(12):
        random = Random(seed)  # noqa: S311 - an example
        records = [
            {**odd(record("alloc", i, 512 * i), random), "frames": [USER]} for i in range(1, 9)
        ]
        trace = loaded(tmp_path, records)
        rows = trace.sql("FROM allocator_events ORDER BY allocator_event_id").rows(named=True)
        lost = sum(
            row[column] is None and one.get(key) not in (None, "", [])
            for row, one in zip(rows, records, strict=True)
            for key, column in kept.items()
        )
        strange = sum(
            key not in {*kept, "frames"} and value is not None
            for one in records
            for key, value in one.items()
        )
        counts = dict(trace.quality.select("issue", "events").iter_rows())
        noted = counts.get("odd_value", 0) + counts.get("impossible_time", 0)
        assert noted >= lost, (seed, lost, counts)
        assert counts.get("unread_key", 0) == strange, (seed, strange, counts)


def test_long_lists_are_those_of_a_loop(tmp_path: Path) -> None:
    """Most records are cut out of the bytes: with tuples, texts and nodes as elsewhere."""
    random = Random(7)  # noqa: S311 - an example
    shared = [(0, 0), (0, 3)]
    frames = [[USER], [dict(NODE), USER], [{**NODE, "fx_node_name": "relu"}]]
    records = [
        record(
            random.choice(["alloc", "annotate", "free_requested"]),
            i,
            512 * i,
            user_metadata=random.choice(["", "a", "b"]),
            pool_id=random.choice([*shared, tuple([i % 3, 1]), None]),  # noqa: C409 - its own
            frames=random.choice([*frames, [dict(NODE)], []]),
        )
        for i in range(9000)
    ]
    for protocol in (2, 5):
        path = tmp_path / f"{protocol}.pickle"
        path.write_bytes(pickle.dumps({"device_traces": [records]}, protocol))
        trace = profframe.load(path)
        events = pl.DataFrame(trace.sql("FROM allocator_events ORDER BY allocator_event_id"))
        assert events["metadata"].to_list() == [r["user_metadata"] or None for r in records]
        assert events["pool"].to_list() == [
            None if r["pool_id"] is None else "[{},{}]".format(*r["pool_id"]) for r in records
        ]
        nodes = dict(
            trace.sql("SELECT stack_id, min_by(fx_node, depth) FROM stacks GROUP BY ALL").rows()
        )
        got = [None if i is None else nodes[i] for i in events["stack_id"]]
        assert got == [next((f.get("fx_node_name") for f in r["frames"]), None) for r in records]
        assert not trace.quality.height
