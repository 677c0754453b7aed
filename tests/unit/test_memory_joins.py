"""Memory snapshots beside a trace: op, step, category and module of each allocation."""

from __future__ import annotations

import gc
import json
import pickle
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe.cli import run as command_line
from profframe.errors import NotATraceError, ParameterError, SourceError
from profframe.facts.snapshots.op_matching import match
from profframe.loaders import memory_recording
from tests import needs

torch = needs.torch()

BASE_NS = 1_759_252_584_000_000_000
BASE_US = BASE_NS // 1000
OPTIMIZER = {"name": "step", "filename": "/venv/torch/optim/sgd.py", "line": 80}
MAKER = {"name": "_apply", "filename": "C:\\venv\\torch\\nn\\modules\\module.py", "line": 900}
CALL = {"name": "_call_impl", "filename": "/venv/torch/nn/modules/module.py", "line": 1500}
USER = {"name": "f", "filename": "/home/train.py", "line": 3}


def record(
    action: str, us: int, addr: int = 0, size: int = 8, frames: Any = (), **more: Any
) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": BASE_US + us,
            "frames": list(frames), **more}  # fmt: skip


def life(addr: int, size: int, since: int, until: int | None, frames: Any = ()) -> list[Any]:
    end = [] if until is None else [
        record("free_requested", until, addr, size), record("free_completed", until, addr, size)
    ]  # fmt: skip
    return [record("alloc", since, addr, size, frames), *end]


def written(path: Path, *devices: list[Any], **more: Any) -> Path:
    traces = [sorted(records, key=lambda r: r["time_us"]) for records in devices]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": traces, **more}))
    return path


def slice_(name: str, us: float, dur: float, tid: int = 1, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": us, "dur": dur, "pid": 1, "tid": tid,
            **more}  # fmt: skip


def trace_file(path: Path, events: list[Any], **header: Any) -> Path:
    document = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, "traceEvents": events}
    path.write_text(json.dumps(document | header))
    return path


STEPS = [
    slice_("ProfilerStep#7", 0, 100, cat="user_annotation"),
    slice_("ProfilerStep#8", 100, 900, cat="user_annotation"),
]


class TestOps:
    def test_by_time_where_one_thread_is_in_an_op(self, tmp_path: Path) -> None:
        source = trace_file(
            tmp_path / "t.json",
            [
                *STEPS,
                slice_("aten::linear", 10, 40),
                slice_("aten::addmm", 20, 10),
                slice_("aten::relu", 20.4, 0.9, tid=2),
                slice_("aten::sum", 200, 50),
                slice_("aten::add", 220, 100, tid=2),
                slice_("aten::mul", 320, 5, tid=3),
            ],
        )
        moments = [12, 25, 20, 60, 210, 230, 300, 322, 5000]
        records = [record("alloc", us, addr=n, size=8) for n, us in enumerate(moments)]
        records.append(record("oom", 290, size=1 << 40, device_free=5))
        trace = profframe.load(source, memory=written(tmp_path / "s.pickle", records))
        name = dict(trace.events.select("event_id", "name").iter_rows())
        rows = trace.allocations.sort("address").select("op_id", "step").rows()
        assert [(name.get(op), step) for op, step in rows] == [
            ("aten::linear", 7),
            ("aten::addmm", 7),
            (None, 7),  # aten::relu of another thread begins within the microsecond
            (None, 7),
            ("aten::sum", 8),
            (None, 8),  # aten::add of another thread, too
            ("aten::add", 8),
            ("aten::mul", 8),
            (None, None),
        ]
        oom = trace.allocator_events.filter(pl.col("action") == "oom").row(0, named=True)
        assert (name[oom["op_id"]], oom["step"]) == ("aten::add", 8)
        several = trace.quality.filter(issue="record_in_several_ops")
        assert several["events"].to_list() == [2]

    def test_the_profilers_own_record_tells_the_thread(self, tmp_path: Path) -> None:
        def memory(us: float, addr: int, size: int, tid: int, device: int = 0) -> dict[str, Any]:
            return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1,
                    "tid": tid, "ts": us, "args": {"Addr": addr, "Bytes": size, "Device Id": device,
                    "Device Type": 1, "Total Allocated": 0, "Total Reserved": 0}}  # fmt: skip

        both = [slice_("aten::a", 10, 100), slice_("aten::b", 10, 100, tid=2)]
        failed = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[OutOfMemory]",
                  "pid": 1, "tid": 2, "ts": 90.5,
                  "args": {"Bytes": 9, "Device Id": 0, "Device Type": 1}}  # fmt: skip
        source = trace_file(
            tmp_path / "t.json",
            [
                *both,
                memory(20.2, 100, 512, 1),
                memory(25.7, 100, -512, 2),
                memory(30, 100, 512, 2),
                memory(40, 200, 512, 1),
                memory(50, 300, 512, 1, device=1),
                memory(300, 400, 512, 1),
                failed,
            ],
        )
        records = [
            record("alloc", 20, 100, 500),
            record("free_requested", 25, 100, 500),
            record("free_completed", 25, 100, 500),
            record("alloc", 30, 100, 500),
            record("alloc", 40, 200, 513),  # larger than the profiler's block: another one
            record("alloc", 50, 300, 512),  # that is on another device
            record("alloc", 60, 400, 512),  # that is much later
            record("oom", 90, size=9, device_free=1),
        ]
        trace = profframe.load(source, memory=written(tmp_path / "s.pickle", records))
        name = dict(trace.events.select("event_id", "name").iter_rows())
        events = trace.allocator_events.sort("allocator_event_id")
        assert [name.get(op) for op in events["op_id"]] == [
            "aten::a", "aten::b", None, "aten::b", None, None, None, "aten::b",
        ]  # fmt: skip
        assert trace.quality.filter(issue="record_in_several_ops")["events"].to_list() == [4]

    def test_no_time_is_shared(self, tmp_path: Path) -> None:
        source = trace_file(tmp_path / "t.json", [slice_("aten::a", 10, 100)])
        path = written(tmp_path / "s.pickle", life(1, 8, 10_000, None))
        trace = profframe.load(source, memory=path)
        assert trace.allocations["op_id"].to_list() == [None]
        assert trace.quality.filter(issue="snapshot_outside_trace")["events"].to_list() == [1]
        assert trace.quality.filter(issue="joined_file").height == 1
        old = [{k: v for k, v in r.items() if k != "time_us"} for r in life(1, 8, 0, None)]
        path.write_bytes(pickle.dumps({"segments": [], "device_traces": [old]}))
        trace = profframe.load(source, memory=path)
        assert "has no times" in trace.quality.filter(issue="snapshot_outside_trace")["detail"][0]

    @given(
        ops=st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 20)), max_size=12
        ),
        moments=st.lists(st.integers(-2, 70), min_size=1, max_size=12),
    )
    def test_as_a_loop(self, ops: list[tuple[int, int, int]], moments: list[int]) -> None:
        """Ops of microseconds, one behind the other on each thread."""
        taken: list[tuple[int, int, int]] = []
        for thread, start, length in ops:
            if all(t != thread or start > b or start + length < a for t, a, b in taken):
                taken.append((thread, start, start + length))
        none = pa.array([None] * len(taken), pa.int64())
        events = pa.table(
            {
                "kind": pa.array(["host_op"] * len(taken), pa.string()).dictionary_encode(),
                "name": pa.array(["op"] * len(taken), pa.string()).dictionary_encode(),
                "start_ns": pa.array([a * 1000 for _, a, _ in taken], pa.int64()),
                "dur_ns": pa.array([(b - a) * 1000 for _, a, b in taken], pa.int64()),
                "thread": pa.array([t for t, _, _ in taken], pa.int32()),
                "depth": pa.array([0] * len(taken), pa.int32()),
                "parent_id": none,
                "step": none,
            }
        )
        count = len(moments)
        records = pa.table(
            {
                "action": pa.array(["segment_alloc"] * count, pa.string()).dictionary_encode(),
                "time_ns": pa.array([m * 1000 for m in moments], pa.int64()),
                **{n: pa.array([1] * count, pa.int64()) for n in ("address", "bytes", "device")},
            }
        )
        memory = pa.table(
            {
                n: pa.array([], pa.int64())
                for n in ("time_ns", "address", "bytes", "device", "thread")
            }
        )
        instants = pa.table(
            {
                "name": pa.array([], pa.string()).dictionary_encode(),
                "time_ns": pa.array([], pa.int64()),
                "thread": pa.array([], pa.int32()),
            }
        )
        matches = match(events, memory, instants, records)
        for moment, op, several in zip(moments, matches.op, matches.several, strict=True):
            at = moment * 1000
            around = [
                {n for n, (_, a, b) in enumerate(taken) if a * 1000 <= t <= b * 1000}
                for t in (at, at + 999)
            ]
            threads = {taken[n][0] for n in around[0] | around[1]}
            assert several == (len(threads) > 1)
            if len(threads) > 1:
                assert op == -1
            else:
                assert {int(op)} <= (around[1] or around[0] or {-1})


TRAINING = [
    slice_("warm up", 0, 2, cat="user_annotation"),
    slice_("aten::linear", 100, 50, args={"Sequence number": 5, "Fwd thread id": 0}),
    slice_("aten::mul", 160, 10),
    slice_(
        "autograd::engine::evaluate_function: AddmmBackward0",
        200,
        50,
        tid=2,
        args={"Sequence number": 5, "Fwd thread id": 1},
    ),
    slice_("AddmmBackward0", 205, 40, tid=2,
           args={"Sequence number": 5, "Fwd thread id": 1}),
    slice_("Optimizer.step#SGD.step", 300, 100, cat="user_annotation"),
    slice_("aten::add_", 310, 20),
]  # fmt: skip


class TestCategories:
    """A training step, by hand: forward, backward, optimizer."""

    @pytest.mark.parametrize(
        ("since", "until", "size", "frames", "category"),
        [
            (110, 220, 8, (), "activation"),
            (110, None, 8, (), "activation"),
            (110, 120, 8, (), "temporary"),
            (162, 170, 8, (), None),  # an op without a gradient
            (162, 250, 8, (CALL, USER), "activation"),
            (162, 170, 8, (CALL, USER), "temporary"),
            (210, 600, 8, (), "gradient"),
            (210, None, 8, (), "gradient"),
            (210, 240, 8, (), "temporary"),
            (315, None, 8, (), "optimizer_state"),
            (315, 900, 8, (), "optimizer_state"),
            (315, 330, 8, (), "temporary"),
            (500, None, 8, (OPTIMIZER,), "optimizer_state"),
            (500, 510, 8, (OPTIMIZER,), None),
            (50, None, 64, (), "parameter"),  # as large as a gradient
            (50, None, 8, (), None),
            (50, 600, 64, (), None),
            (-50, None, 64, (), None),  # before the trace
            (-50, None, 8, (USER, MAKER), "parameter"),
            (-50, 20, 8, (USER, MAKER), None),
            (-50, None, 8, (USER, MAKER, CALL), None),
        ],
    )
    def test_rules(  # noqa: PLR0917
        self,
        tmp_path: Path,
        since: int,
        until: int | None,
        size: int,
        frames: Any,
        category: str | None,
    ) -> None:
        source = trace_file(tmp_path / "t.json", TRAINING)
        records = [*life(1, size, since, until, frames), *life(2, 64, 211, None)]
        trace = profframe.load(source, memory=written(tmp_path / "s.pickle", records))
        of = dict(trace.allocations.select("address", "category").iter_rows())
        assert of == {1: category, 2: "gradient"}

    def test_what_comes_in(self, tmp_path: Path) -> None:
        copy = {"correlation": 9, "stream": 7, "device": 0}
        source = trace_file(
            tmp_path / "t.json",
            [
                slice_("aten::to", 10, 50),
                slice_("aten::_to_copy", 11, 45),
                slice_("aten::empty_strided", 12, 5),
                slice_("aten::copy_", 20, 30),
                slice_("cudaMemcpyAsync", 25, 3, cat="cuda_runtime", args=copy),
                slice_("Memcpy HtoD (Pageable -> Device)", 40, 5, pid=0, tid=7,
                       cat="gpu_memcpy", args=copy),
                slice_("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 70, 20,
                       cat="user_annotation"),
                slice_("aten::stack", 75, 5),
                slice_("aten::to", 100, 10),
                slice_("aten::empty_strided", 102, 5),
            ],
        )  # fmt: skip
        records = [*life(1, 8, 13, None), *life(2, 8, 76, 90), *life(3, 8, 103, None)]
        records += life(4, 8, 14, None, (CALL,))
        trace = profframe.load(source, memory=written(tmp_path / "s.pickle", records))
        of = dict(trace.allocations.select("address", "category").iter_rows())
        assert of == {1: "input", 2: "input", 3: None, 4: None}


def train(steps: int = 2) -> Any:
    """A model that is made and trained while the profiler runs."""
    torch.manual_seed(0)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        record_shapes=True,
        with_stack=True,
    ) as prof:
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10)
        )
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(steps):
            with torch.profiler.record_function(f"ProfilerStep#{step}"):
                x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    return prof, model, optimizer


def snapshot_of(trace: Any, path: Path, *, is_failing: bool = True) -> Path:
    """A snapshot of the same run: what the profiler recorded, as the allocator would."""
    records = []
    for row in trace.memory.sort("time_ns", maintain_order=True).iter_rows(named=True):
        plain = {"addr": row["address"], "size": abs(row["bytes"]), "stream": 0,
                 "time_us": row["time_ns"] // 1000, "frames": [USER]}  # fmt: skip
        actions = ("alloc",) if row["bytes"] > 0 else ("free_requested", "free_completed")
        records += [{"action": action, **plain} for action in actions]
    if is_failing:
        op = trace.events.filter(pl.col("name") == "aten::addmm").row(-1, named=True)
        failing = {"action": "oom", "device_free": 77, "size": 1 << 44, "stream": 0,
                   "time_us": (op["start_ns"] + op["dur_ns"] - 1000) // 1000,
                   "frames": [USER]}  # fmt: skip
        records.append(failing)
        records.sort(key=lambda r: r["time_us"])
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [records]}))
    return path


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A profile, its model and optimizer, and its file."""
    path = tmp_path_factory.mktemp("profiled") / "t.json"
    gc.collect()  # nothing of other tests is freed in the profile
    prof, model, optimizer = train()
    prof.export_chrome_trace(str(path))
    return prof, model, optimizer, path


class TestLive:
    def test_categories_are_torchs(self, profiled: Any) -> None:
        from torch.profiler._memory_profiler import Action

        profile = profiled[0]._memory_profile()
        theirs: Counter[Any] = Counter()
        for time, action, (key, version), size in profile.timeline:
            if action is Action.CREATE and hasattr(key, "id"):
                category = profile._categories.get(key, version)
                theirs[time, size, category and category.name.lower()] += 1
        memory = profframe.load(profiled[0]).memory
        made = memory.filter(pl.col("bytes") > 0).select("time_ns", "bytes", "category")
        ours = Counter(made.iter_rows())
        assert Counter({k: n for k, n in theirs.items() if k[2]}) == Counter(
            {k: n for k, n in ours.items() if k[2]}
        )
        assert {"parameter", "gradient", "optimizer_state", "activation", "temporary", "input"} <= {
            category for _, _, category in ours
        }

    def test_categories_of_what_lives_at_the_end(self, profiled: Any) -> None:
        _, model, optimizer, _ = profiled
        memory = profframe.load(profiled[0]).memory
        of = {
            address: category
            for address, size, category in memory.select("address", "bytes", "category").iter_rows()
            if size > 0
        }
        for parameter in model.parameters():
            assert of[parameter.data_ptr()] == "parameter"
            assert of[parameter.grad.data_ptr()] == "gradient"
            for name in ("exp_avg", "exp_avg_sq"):
                assert of[optimizer.state[parameter][name].data_ptr()] == "optimizer_state"

    def test_rules_agree_with_torch(self, profiled: Any, tmp_path: Path) -> None:
        """The rules find what torch finds, of what is larger than a number."""
        live = profframe.load(profiled[0])
        path = snapshot_of(live, tmp_path / "s.pickle")
        joined = profframe.load(profiled[0], memory=path)
        torchs = dict(joined.allocations.select("allocation_id", "category").iter_rows())
        records = joined.memory.filter(pl.col("bytes") > 0)
        of_torch = Counter(records["category"].drop_nulls())
        by_rules = Counter(torchs.values()) - of_torch  # what torch does not know
        assert by_rules.total() == records["category"].null_count()
        trace = profframe.load(profiled[3], memory=path)
        assert trace.memory["category"].null_count() == trace.memory.height
        pairs = Counter(
            (torchs[row["allocation_id"]], row["category"])
            for row in trace.allocations.iter_rows(named=True)
            if row["bytes"] > 64
        )
        same = {("parameter",) * 2, ("gradient",) * 2, ("optimizer_state",) * 2,
                ("activation",) * 2, ("temporary",) * 2}  # fmt: skip
        assert same <= pairs.keys()
        alike = {*same, ("autograd_detail", "temporary"), ("activation", "temporary"),
                 ("input", None)}  # fmt: skip
        others = {pair: n for pair, n in pairs.items() if pair not in alike}
        assert sum(others.values()) <= 0.1 * pairs.total(), others

    def test_ops_are_those_of_the_profiler(self, profiled: Any, tmp_path: Path) -> None:
        live = profframe.load(profiled[0])
        path = snapshot_of(live, tmp_path / "s.pickle")
        trace = profframe.load(profiled[0], memory=path)
        made = trace.memory.sort("time_ns", maintain_order=True).filter(pl.col("bytes") > 0)
        ops = set(trace.events.filter(pl.col("kind") == "host_op")["event_id"])
        wanted = [op if op in ops else None for op in made["op_id"]]
        ordered = trace.allocations.sort("alloc_event_id")
        assert ordered["address"].to_list() == made["address"].to_list()
        agreeing = sum(a == b for a, b in zip(ordered["op_id"], wanted, strict=True))
        # Small blocks are freed and made again within a microsecond.
        assert agreeing >= 0.95 * len(wanted)
        assert trace.allocations["step"].drop_nulls().unique().sort().to_list() == [0, 1]

    def test_without_torchs_analysis(self, profiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch.profiler._memory_profiler", None)
        trace = profframe.load(profiled[0])
        assert trace.memory["category"].null_count() == trace.memory.height
        (row,) = trace.quality.filter(issue="unknown_categories").to_dicts()
        assert row["events"] == trace.memory.height
        assert "ModuleNotFoundError" in row["detail"]

    def test_a_long_analysis_is_not_waited_for(
        self, profiled: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        from profframe.readers.torch import live_categories

        path = snapshot_of(profframe.load(profiled[0]), tmp_path / "s.pickle")
        monkeypatch.setattr(live_categories, "_MOST_EVENTS", 10)
        trace = profframe.load(profiled[0])
        assert trace.quality.filter(issue="unknown_categories").height == 1
        joined = profframe.load(profiled[0], memory=path)
        assert joined.memory["category"].null_count() < joined.memory.height

    MODULE_OF_FAILURE = """
        SELECT failure.device_free_bytes, op.name AS op, failure.step, module.module_name AS module
        FROM allocator_events AS failure
        JOIN events AS op
            ON failure.run = op.run AND failure.rank = op.rank AND failure.op_id = op.event_id
        JOIN modules_around(allocator_events, events) AS module
            ON failure.run = module.run AND failure.rank = module.rank
            AND failure.op_id = module.op_id
        WHERE failure.action = 'oom'
    """

    def test_from_the_failure_to_its_module(self, profiled: Any, tmp_path: Path) -> None:
        """One statement, on the profile, its file, and a store."""
        live = profframe.load(profiled[0])
        path = snapshot_of(live, tmp_path / "s.pickle")
        source = profiled[3]
        profframe.convert(source, tmp_path / "store", run="job", rank=3, memory=path)
        joined = profframe.load([source, path], run="job", rank=3)
        joined.to_parquet(tmp_path / "own")
        files = profframe.convert([source, path], tmp_path / "both", run="job", rank=3)
        assert files["status"].to_list() == ["written", "joined"]
        given = profframe.load(source, memory=path)
        for trace in (
            profframe.load(profiled[0], memory=path),
            given,
            joined,
            profframe.load(tmp_path / "store"),
            profframe.load(tmp_path / "own"),
            profframe.load(tmp_path / "both"),
        ):
            assert trace.sql(self.MODULE_OF_FAILURE).rows() == [
                (77, "aten::addmm", 1, "nn.Module: Linear_1")
            ]
            assert trace.traces.height == 1
        for name in ("allocations", "allocator_events", "stacks"):
            assert (
                getattr(joined, name)
                .drop("run", "rank")
                .equals(getattr(given, name).drop("run", "rank"))
            )


def test_stacks_keep_dense_numbers_beside_a_dump(tmp_path: Path) -> None:
    entry = {"record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"),
             "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1,
             "profiling_name": "nccl:all_reduce", "time_created_ns": 1, "input_sizes": [[2]],
             "input_dtypes": ["Float"], "output_sizes": [[2]], "output_dtypes": ["Float"],
             "state": "completed", "time_discovered_started_ns": None,
             "time_discovered_completed_ns": None, "retired": True, "timeout_ms": 1,
             "is_p2p": False, "frames": [{"name": "g", "filename": "g.py", "line": 1}]}  # fmt: skip
    dump = {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "d", "ranks": "[0]"}},
            "pg_status": {}, "entries": [entry]}  # fmt: skip
    (tmp_path / "dump_rank_0").write_bytes(pickle.dumps(dump))
    source = trace_file(tmp_path / "rank0.json", [slice_("aten::a", 0, 100)])
    records = [*life(1, 8, 10, 20, [USER]), *life(2, 8, 30, None, [MAKER, USER])]
    snapshot = written(tmp_path / "memory_rank0.pickle", records)
    trace = profframe.load([source, tmp_path / "dump_rank_0", snapshot])
    assert trace.traces.height == 1
    assert trace.stacks["stack_id"].unique().sort().to_list() == [0, 1, 2]
    frames = {
        stack: trace.stacks.filter(pl.col("stack_id") == stack)["name"].to_list()
        for stack in range(3)
    }
    assert frames[trace.recorded_collectives["stack_id"][0]] == ["g"]
    made = [frames[stack] for stack in trace.allocations.sort("address")["stack_id"]]
    assert made == [["f"], ["_apply", "f"]]
    assert trace.quality.filter(issue="joined_file").height == 2


def test_which_trace_gets_which_snapshot(tmp_path: Path) -> None:
    paths = [
        trace_file(
            tmp_path / f"r{rank}.json",
            [slice_("aten::a", 0, 100)],
            distributedInfo={"rank": rank, "world_size": 2},
        )
        for rank in (0, 1)
    ]
    snapshots = [
        written(tmp_path / f"memory_rank{rank}.pickle", life(5 + rank, 8, 10, None))
        for rank in (0, 1)
    ]
    trace = profframe.load(paths, memory=snapshots)
    assert trace.allocations.select("rank", "address").rows() == [(0, 5), (1, 6)]
    assert trace.allocations["op_id"].to_list() == [0, 0]
    store = tmp_path / "store"
    assert profframe.convert(paths, store, memory=snapshots)["error"].to_list() == [None, None]
    assert profframe.load(store).allocations.rows() == trace.allocations.rows()
    again = profframe.convert(paths, store, memory=snapshots)
    assert again["status"].to_list() == ["unchanged"] * 2
    both = profframe.load([*paths, *snapshots], run="job")
    assert both.traces.height == 2
    assert both.allocations.select("rank", "op_id").rows() == [(0, 0), (1, 0)]
    nobodys = snapshots[0].rename(tmp_path / "held.pickle")
    with pytest.raises(ParameterError, match="belongs to none of the ranks"):
        profframe.load(paths, memory=nobodys)
    with pytest.raises(NotATraceError, match="not a memory snapshot"):
        profframe.load(paths[0], memory=paths[1])
    with pytest.raises(ParameterError, match="is joined when a trace is loaded"):
        profframe.load(store, memory=nobodys)
    for _ in range(2):
        cached = profframe.load(paths[0], memory=nobodys, cache=tmp_path / "cache")
        assert cached.allocations.height == 1
    assert profframe.load(paths[0], cache=tmp_path / "cache").allocations.height == 0


def test_header_and_annotations(tmp_path: Path) -> None:
    source = trace_file(tmp_path / "t.json", [slice_("aten::a", 0, 100)], host_name="h")
    marks = [
        {"name": "step", "device": 0, "stage": stage, "time_us": BASE_US + us}
        for stage, us in (("START", 5), ("END", 9))
    ]
    path = written(
        tmp_path / "s.pickle",
        life(1, 8, 10, None),
        external_annotations=marks,
        allocator_settings={"expandable_segments": True},
    )
    trace = profframe.load(source, memory=path)
    metadata = json.loads(trace.traces["metadata"][0])
    assert metadata["host_name"] == "h"
    assert metadata["memory_snapshot"]["allocator_settings"] == {"expandable_segments": True}
    assert trace.quality.filter(issue="annotation_of_snapshot")["events"].to_list() == [1]
    assert trace.events["name"].to_list() == ["aten::a"]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = trace_file(tmp_path / "t.json", [slice_("aten::a", 0, 100)])
    path = written(tmp_path / "s.pickle", life(1, 8, 10, None))
    sql = "SELECT name FROM allocations a JOIN events e ON a.op_id = e.event_id"
    words = ["sql", str(source), sql, "--memory-snapshot", str(path), "--format", "csv"]
    assert command_line(words) == 0
    assert capsys.readouterr().out.split() == ["name", "aten::a"]
    out = tmp_path / "store"
    words = ["convert", str(source), "-o", str(out), "--memory-snapshot", str(path)]
    assert command_line(words) == 0
    assert profframe.load(out).allocations["op_id"].to_list() == [0]


class StandIn(SimpleNamespace):
    """Torch's module of CUDA memory, that writes what it is given."""

    def __init__(self) -> None:
        super().__init__(calls=[])

    def _record_memory_history(self, enabled: str | None = "all", **arguments: Any) -> None:
        if "nonsense" in arguments:
            raise TypeError("unexpected keyword argument 'nonsense'")
        self.calls.append((enabled, arguments))

    def _dump_snapshot(self, path: str) -> None:
        self.calls.append("dump")
        written(Path(path), life(1, 8, 10, None))


class TestRecording:
    @pytest.fixture
    def memory(self, monkeypatch: pytest.MonkeyPatch) -> StandIn:
        stand_in = StandIn()
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "memory", stand_in)
        return stand_in

    def test_a_call(self, memory: StandIn, tmp_path: Path) -> None:
        trace = profframe.memory_snapshot()
        assert trace.allocations.select("run", "rank", "address").rows() == [("live", 0, 1)]
        assert trace.traces.select("source", "format").rows() == [
            ("live memory snapshot", "memory_snapshot")
        ]
        path = tmp_path / "s.pickle"
        assert profframe.memory_snapshot(path, run="a", rank=4).traces["rank"].to_list() == [4]
        assert profframe.load(path).allocations.height == 1
        assert memory.calls == ["dump", "dump"]
        with pytest.raises(SourceError, match="could not write"):
            profframe.memory_snapshot(tmp_path / "none" / "s.pickle")

    def test_a_block(self, memory: StandIn, tmp_path: Path) -> None:
        recording = profframe.record_memory(tmp_path / "s.pickle", max_entries=5, stacks="python")
        with pytest.raises(SourceError, match="no snapshot yet"):
            _ = recording.trace
        with pytest.raises(MemoryError), recording:
            raise MemoryError
        assert recording.trace.allocations.height == 1
        assert memory.calls == [("all", {"max_entries": 5, "stacks": "python"}), "dump", (None, {})]
        with pytest.raises(ParameterError, match="nonsense"), profframe.record_memory(nonsense=1):
            pass
        with pytest.raises(ParameterError, match="max_entries"):
            profframe.record_memory(max_entries=0)

    def test_without_a_device(self) -> None:
        needs.no_device()
        with pytest.raises(SourceError, match="needs a CUDA device"):
            profframe.memory_snapshot()
        with pytest.raises(SourceError, match="needs a CUDA device"), profframe.record_memory():
            pass

    def test_without_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(profframe.MissingExtraError, match="pip install"):
            memory_recording.memory_snapshot()


def test_peaks_of_either_source(profiled: Any, tmp_path: Path) -> None:
    """The same records give the same peak and owners, from the profile and from a snapshot."""
    live = profframe.load(profiled[0])
    path = snapshot_of(live, tmp_path / "s.pickle", is_failing=False)
    trace = profframe.load(profiled[0], memory=path)
    peaks = {row["source"]: row for row in trace.memory_peak().to_dicts()}
    assert peaks.keys() == {"profile", "snapshot"}  # the profile has no memory of a device
    # Torch's totals have what other tests left in memory before this profile, too.
    first = live.memory.sort("time_ns", maintain_order=True).row(0, named=True)
    before = first["total_allocated_bytes"] - first["bytes"]
    allocated = {source: row["allocated_bytes"] for source, row in peaks.items()}
    assert allocated["profile"] - before == allocated["snapshot"]
    for name in ("unfreed_blocks", "unfreed_bytes"):
        assert peaks["profile"][name] == peaks["snapshot"][name]
    assert peaks["snapshot"]["time_ns"] == peaks["profile"]["time_ns"] // 1000 * 1000
    sums = trace.memory_owners().group_by("source").agg(pl.col("bytes", "blocks").sum())
    assert dict(sums.select("source", "bytes").iter_rows()) == allocated
    alone = profframe.load(path)
    assert alone.memory_peak()["source"].to_list() == ["snapshot"]
    assert np.array_equal(
        alone.memory_peak()["allocated_bytes"].to_numpy(), [allocated["snapshot"]]
    )
