"""Dumps of the flight recorder: of real groups of gloo, and typed by hand as NCCL has them."""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import profframe
import profframe.cli  # its verbs
from profframe.cli.verbs import verbs
from profframe.errors import NotATraceError, SourceError
from profframe.show import hang_text as words
from tests import needs
from tests.unit.gloo_ranks import CASES, RANKS

ROOT = Path(__file__).parents[2]


def entry(number: int, name: str = "nccl:all_reduce", **members: Any) -> dict[str, Any]:
    """An entry as NCCL has it."""
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": name,
        "time_created_ns": 1_700_000_000_000_000_000 + number,
        "duration_ms": 1.5,
        "input_sizes": [[2, 3]],
        "input_dtypes": ["Float"],
        "output_sizes": [[2, 3]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": 1_700_000_000_000_001_000,
        "time_discovered_completed_ns": 1_700_000_000_000_002_000,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": [
            {"name": "step", "filename": "train.py", "line": 7},
            {"name": "<module>", "filename": "train.py", "line": 1},
        ],
    } | members


def dump(*entries: dict[str, Any], ranks: str = "[0, 1]", **members: Any) -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {},
        "entries": [*entries],
    } | members


def written(path: Path, value: object) -> Path:
    path.write_bytes(pickle.dumps(value, protocol=2))
    return path


@pytest.fixture(scope="session")
def gloo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps of all ranks of a job: pickles, and JSON in a folder."""
    folder = tmp_path_factory.mktemp("gloo")
    (folder / "json").mkdir()
    run_ranks("gloo_ranks.py", RANKS, folder)
    return folder


def run_ranks(script: str, ranks: int, folder: Path) -> None:
    """Run a script of this folder as each rank of a job."""
    needs.torch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    path = ROOT / "tests" / "unit" / script
    children = [
        subprocess.Popen([sys.executable, path, str(rank), folder], env=environment)
        for rank in range(ranks)
    ]
    try:
        codes = [child.wait(timeout=120) for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert codes == [0] * ranks


@pytest.fixture(scope="session")
def trace(gloo: Path) -> profframe.Trace:
    return profframe.load(str(gloo / "nccl_trace_rank_*"))


class TestGloo:
    def test_records_are_those_of_the_pickles(self, gloo: Path, trace: profframe.Trace) -> None:
        rows = trace.recorded_collectives
        for rank in range(RANKS):
            own = rows.filter(rank=rank).to_dicts()
            entries = pickle.loads((gloo / f"nccl_trace_rank_{rank}").read_bytes())["entries"]  # noqa: S301 - our own
            assert len(own) == len(entries)
            for row, there in zip(own, entries, strict=True):
                assert row["record_id"] == there["record_id"]
                assert (row["process_group"], row["process_group_description"]) == tuple(
                    there["process_group"]
                )
                assert row["collective_seq"] == there["collective_seq_id"]
                assert f"{row['backend']}:{row['kind']}" == there["profiling_name"]
                assert json.loads(row["input_sizes"]) == there["input_sizes"]
                assert row["is_retired"] == there["retired"]
                assert row["created_ns"] == there["time_created_ns"]
                frames = trace.stacks.filter(rank=rank, stack_id=row["stack_id"]).sort("depth")
                assert frames.select("name", "file", "line").rows() == [
                    (f["name"], f["filename"], f["line"]) for f in there["frames"]
                ]

    def test_json_has_the_same_but_for_stacks(self, gloo: Path, trace: profframe.Trace) -> None:
        other = profframe.load(gloo / "json")
        changing = ["run", "stack_id", "is_retired"]
        assert other.recorded_collectives.drop(changing).equals(
            trace.recorded_collectives.drop(changing)
        )
        assert other.stacks.is_empty()

    def test_each_case_has_its_finding(self, trace: profframe.Trace) -> None:
        rows = trace.hangs().select(
            "process_group_description", "collective_seq", "finding", "late_ranks", "waiting_ranks",
            "other_ranks",
        )  # fmt: skip
        rows = rows.filter(pl.col("finding") != "not_ended")
        assert sorted(rows.rows()) == [
            ("kinds", 2, "kind", None, "1,2", "0"),
            ("orders", 2, "kind order", None, "0,1", "2"),
            ("orders", 3, "kind order", None, "0,1", "2"),
            ("sizes", 2, "size", None, "0,1", "2"),
            ("skips", 2, "missing_rank", "1", "0,2", None),
            ("types", 2, "dtype", None, "1,2", "0"),
        ] or _without_retired(rows) == [
            ("kinds", 2, "kind", None, "0"),
            ("orders", 2, "kind order", None, "2"),
            ("orders", 3, "kind order", None, "2"),
            ("sizes", 2, "size", None, "2"),
            ("skips", 2, "missing_rank", "1", None),
            ("types", 2, "dtype", None, "0"),
        ]

    def test_stacks_of_each_side(self, trace: profframe.Trace) -> None:
        sides = trace.hangs(per="rank").filter(process_group_description="sizes")
        assert sides.sort("rank")["input_sizes"].to_list() == ["[[4]]", "[[4]]", "[[8]]"]
        for stack in sides["stack"]:
            assert re.match(r"[^;]*gloo_ranks\.py\(\d+\): reduce;", stack)
            assert "distributed_c10d" not in stack

    def test_who_is_behind(self, trace: profframe.Trace) -> None:
        rows = trace.collective_progress().filter(process_group_description="skips")
        assert rows.select("rank", "last_seq", "missing_calls").rows() == [
            (0, 2, 0),
            (1, 1, 1),
            (2, 2, 0),
        ]

    def test_torchs_own_analyzer_agrees(self, gloo: Path, trace: profframe.Trace) -> None:
        """Of gloo's dumps it can read none: groups have no name there, so they get theirs."""
        builder = needs.module("torch.distributed.flight_recorder.components.builder")
        rows = trace.hangs().filter(pl.col("finding") != "not_ended")
        for number, case in enumerate(CASES, 1):
            details = {}
            for rank in range(RANKS):
                there = pickle.loads((gloo / f"nccl_trace_rank_{rank}").read_bytes())  # noqa: S301 - our own
                own = [e for e in there["entries"] if e["process_group"][1] == case]
                name = own[0]["process_group"][0]
                assert name == str(number)
                config = {name: {"name": name, "desc": case, "ranks": str([*range(RANKS)])}}
                # A state that differs is a mismatch to it, and gloo's say nothing.
                own = [e | {"state": "scheduled"} for e in own]
                details[str(rank)] = {
                    "rank": rank, "entries": own, "version": "2.10", "pg_config": config,
                }  # fmt: skip
            arguments = argparse.Namespace(
                verbose=False, just_print_entries=False, allow_incomplete_ranks=False,
                mismatch_cap=10,
            )  # fmt: skip
            database = builder.build_db(copy.deepcopy(details), arguments, "2.10")
            bad = [c for c in database.collectives if not c.pass_check or c.missing_ranks]
            ours = rows.filter(process_group_description=case).sort("collective_seq").to_dicts()
            if case == "fits":
                assert not bad
                assert not ours
                continue
            assert min(c.collective_seq_id for c in bad) == ours[0]["collective_seq"] == 2
            first = next(c for c in bad if c.collective_seq_id == 2)
            if case == "skips":
                assert first.missing_ranks == {int(ours[0]["late_ranks"])}
                continue
            word = {
                "kinds": "COLLECTIVE_TYPE_MISMATCH",
                "orders": "COLLECTIVE_TYPE_MISMATCH",
                "sizes": "SIZE_OR_SYNTAX_MISMATCH",
                "types": "COLLECTIVE_DTYPE_MISMATCH",
            }[case]
            culprits = first.mismatch_collectives or {}
            assert {c.type_of_mismatch.state.name for c in culprits.values()} == {word}
            # It takes the lowest rank for right; profframe the most of them.
            other = int(ours[0]["other_ranks"])
            expected = {other} if other else {1, 2}
            assert set(culprits) == expected

    def test_verb_prints_the_finding_first(self, gloo: Path, tmp_path: Path) -> None:
        for rank in range(RANKS):
            there = pickle.loads((gloo / f"nccl_trace_rank_{rank}").read_bytes())  # noqa: S301 - our own
            groups = {"default_pg", "skips"}
            own = [e for e in there["entries"] if e["process_group"][1] in groups]
            written(tmp_path / f"nccl_trace_rank_{rank}", there | {"entries": own})
        out = CliRunner().invoke(verbs, ["hang", str(tmp_path)]).output
        assert out.startswith(
            "Rank 1 did not arrive at all_reduce 2 of group skips: it is after barrier 2 of "
        )
        assert "; ranks 0, 2 wait since 20" in out.splitlines()[0]
        assert "gloo_ranks.py" in out

    def test_verb_prints_each_cause(self, gloo: Path) -> None:
        out = CliRunner().invoke(verbs, ["hang", str(gloo / "nccl_trace_rank_*")]).output
        for line in (
            "Rank 2 has a different size at all_reduce 2 of group sizes: [[8]], where ranks 0, 1",
            "Rank 0 calls a different collective at all_reduce 2 of group kinds: broadcast, where",
            "Rank 2 calls in a different order at all_reduce 2 of group orders: broadcast, where",
            "Rank 0 has a different data type at all_reduce 2 of group types",
        ):
            assert line in out

    def test_verb_gives_rows(self, gloo: Path) -> None:
        result = CliRunner().invoke(
            verbs, ["hang", str(gloo / "nccl_trace_rank_*"), "-o", str(gloo / "rows.csv")]
        )
        assert result.exit_code == 0
        rows = pl.read_csv(gloo / "rows.csv")
        assert set(rows["process_group_description"]) >= {"skips", "sizes", "kinds"}

    def test_store_has_what_was_loaded(self, trace: profframe.Trace, tmp_path: Path) -> None:
        trace.to_parquet(tmp_path / "store")
        stored = profframe.load(tmp_path / "store")
        assert stored.hangs().equals(trace.hangs())
        assert stored.recorded_collectives.equals(trace.recorded_collectives)


def _without_retired(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Who waits beside a mismatch depends on whether gloo has given up already."""
    return sorted(rows.drop("waiting_ranks").rows())


class TestByHand:
    def test_columns(self, tmp_path: Path) -> None:
        both = [entry(0), entry(1, "nccl:send 0->1", is_p2p=True, p2p_seq_id=3, state="started")]
        path = written(tmp_path / "nccl_trace_rank_0", dump(*both, pg_status={
            "0": {"last_enqueued_collective": 9, "last_started_collective": -1,
                  "last_completed_collective": "8"}
        }))  # fmt: skip
        trace = profframe.load(path)
        first, second = trace.recorded_collectives.to_dicts()
        assert first["group_ranks"] == "[0,1]"
        assert first["group_size"] == 2
        assert first["backend"] == "nccl"
        assert (first["started_ns"], first["completed_ns"]) == (
            1_700_000_000_000_001_000,
            1_700_000_000_000_002_000,
        )
        assert first["dur_ns"] == 1_500_000
        assert first["timeout_ns"] == 600_000_000_000
        assert (second["kind"], second["peer_rank"], second["p2p_seq"]) == ("send", 1, 3)
        assert first["stack_id"] == second["stack_id"] == 0
        assert trace.stacks.select("depth", "name", "line").rows() == [
            (0, "step", 7), (1, "<module>", 1),
        ]  # fmt: skip
        groups = trace.process_groups.select(pl.col("^last_.*$")).row(0)
        assert groups == (9, None, 8)
        row = trace.traces.row(0, named=True)
        assert (row["format"], row["rank_source"], row["world_size"]) == (
            "flight_recorder", "path", 2,
        )  # fmt: skip
        assert json.loads(row["accounted"]) == {"recorded_collectives": 2}
        assert trace.events.is_empty()

    @pytest.mark.parametrize(
        ("name", "rank", "source"),
        [
            ("nccl_trace_rank_3", 3, "path"),
            ("comm_lib_trace_rank_12", 12, "path"),
            ("fr_7", 7, "path"),
            ("prefix5.pkl.gz", 5, "path"),
            ("dump.json", 0, "assumed"),
            ("dump_of_2026-11-24", 0, "assumed"),
        ],
    )
    def test_rank_by_name(self, tmp_path: Path, name: str, rank: int, source: str) -> None:
        data = pickle.dumps(dump(entry(0), ranks=str([*range(16)])), protocol=2)
        if name.endswith(".json"):
            data = json.dumps(dump(entry(0), ranks=str([*range(16)]))).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        row = profframe.load(tmp_path / name).traces.row(0, named=True)
        assert (row["rank"], row["rank_source"]) == (rank, source)

    def test_rank_by_groups_or_argument(self, tmp_path: Path) -> None:
        value = dump(entry(0), ranks="[0, 1, 2, 3]")
        value["pg_config"]["1"] = {"name": "1", "desc": "tp", "ranks": "[2, 3]"}
        value["pg_config"]["2"] = {"name": "2", "desc": "dp", "ranks": "[0, 2]"}
        path = written(tmp_path / "dump", value)
        row = profframe.load(path).traces.row(0, named=True)
        assert (row["rank"], row["rank_source"]) == (2, "groups")
        assert profframe.load(path, rank=1).traces["rank"].item() == 1
        sends = dump(entry(0, "nccl:recv 3<-1", is_p2p=True), ranks="[4, 5, 6, 7]")
        trace = profframe.load(written(tmp_path / "other", sends))
        assert trace.traces["rank"].item() == 7
        assert trace.recorded_collectives["peer_rank"].item() == 5

    @pytest.mark.parametrize(
        "change",
        [
            {"version": "2.3", "nccl_version": "2.20.5"},
            {"version": "2.4", "nccl_version": "2.21.5"},
            {"version": "2.9", "nccl_comm_state": {}},
            {"version": "2.11", "what_comes_later": [1]},
        ],
    )
    def test_versions(self, tmp_path: Path, change: dict[str, Any]) -> None:
        old = {
            k: v for k, v in entry(0).items() if k not in {"is_p2p", "timeout_ms", "duration_ms"}
        }
        value = dump(old) | change
        trace = profframe.load(written(tmp_path / "d_0", value))
        assert trace.recorded_collectives["is_p2p"].to_list() == [False]
        assert json.loads(trace.traces["metadata"].item())["version"] == change["version"]

    def test_what_is_odd_is_counted(self, tmp_path: Path) -> None:
        odd = [entry(5, state=7, retired="yes", frames=3, record_id=5), entry(6), "no entry"]
        trace = profframe.load(written(tmp_path / "d_0", dump(*odd)))  # type: ignore[arg-type]
        found = dict(trace.quality.select("issue", "events").rows())
        assert found == {"not_an_event": 1, "overwritten_records": 5, "odd_record": 2}
        assert trace.recorded_collectives["is_retired"].to_list() == [None, True]

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (pickle.dumps(dump(entry(0)), protocol=2)[:-40], "d_0"),
            (json.dumps(dump(entry(0)))[:-40].encode(), "ends early or is damaged"),
            (json.dumps({"version": "2.10", "pg_config": {}, "entries": 3}).encode(), "not a list"),
        ],
    )
    def test_damage_is_one_error(self, tmp_path: Path, data: bytes, reason: str) -> None:
        (tmp_path / "d_0").write_bytes(data)
        with pytest.raises(SourceError, match=reason):
            profframe.load(tmp_path / "d_0")

    def test_nothing_in_a_pickle_is_run(self, tmp_path: Path) -> None:
        class Evil:
            def __reduce__(self) -> tuple[Any, ...]:
                return (os.mkdir, (str(tmp_path / "ran"),))

        value = dump(entry(0)) | {"pg_status": Evil()}
        with pytest.raises(NotATraceError, match="GLOBAL"):
            profframe.load(written(tmp_path / "d_0", value))
        assert not (tmp_path / "ran").exists()

    def test_beside_the_traces_of_the_ranks(self, tmp_path: Path) -> None:
        """From the hung collective to the op, and to the rank that is late, in one statement."""
        for rank in (0, 1):
            records = [entry(0)] + [entry(1, state="started", retired=False)] * (rank == 0)
            written(tmp_path / f"nccl_trace_rank_{rank}", dump(*records))
            op = {
                "ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 10, "dur": 5,
                "pid": 1, "tid": 1,
                "args": {"Process Group Name": "0", "Seq": 2, "Collective name": "allreduce",
                         "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
                         "Group size": 2, "dtype": "Float", "In msg nelems": 6,
                         "Out msg nelems": 6},
            }  # fmt: skip
            document = {
                "schemaVersion": 1,
                "distributedInfo": {"rank": rank, "world_size": 2},
                "traceEvents": [op],
            }
            (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))
        profframe.convert(tmp_path, tmp_path / "store")
        statement = """
            SELECT hung.rank, hung.collective_seq, op.name, late.rank AS late_rank
            FROM recorded_slices(recorded_collectives, events) AS hung
            JOIN hang_ranks(recorded_collectives, process_groups, traces) AS waiting
                ON hung.run = waiting.run AND hung.rank = waiting.rank
                AND hung.record_id = waiting.record_id AND waiting.role = 'waits'
            JOIN hang_ranks(recorded_collectives, process_groups, traces) AS late
                ON late.run = waiting.run AND late.process_group = waiting.process_group
                AND late.seq = waiting.seq AND late.role = 'late'
            JOIN events AS op
                ON op.run = hung.run AND op.rank = hung.rank AND op.event_id = hung.op_id
            """
        for trace in (profframe.load(tmp_path / "store"), profframe.load(tmp_path)):
            assert trace.traces.height == 2
            assert trace.quality.filter(issue="joined_file").height == 2
            assert trace.sql(statement).rows() == [(0, 2, "record_param_comms", 1)]

    def test_records_without_a_number_in_the_trace(self, tmp_path: Path) -> None:
        """The op of a process group that started last around the moment of the record."""
        base = entry(0)["time_created_ns"]
        ops = [("c10d::allreduce_", -9, 20), ("c10d::allreduce_", -4, 9), ("aten::add", -1, 3),
               ("c10d::send", -7, 6)]  # fmt: skip
        events = [
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": us, "dur": dur}
            for name, us, dur in ops
        ]
        document = {"schemaVersion": 1, "baseTimeNanoseconds": base, "traceEvents": events,
                    "distributedInfo": {"rank": 0, "world_size": 2}}  # fmt: skip
        (tmp_path / "rank0.json").write_text(json.dumps(document))
        late = entry(1, time_created_ns=base + 10**9)
        sent = entry(2, is_p2p=True, time_created_ns=base - 5000)
        written(tmp_path / "nccl_trace_rank_0", dump(entry(0), late, sent))
        rows = profframe.load(tmp_path).sql(
            f"""
            SELECT record_id, name, start_ns - {base} AS start_ns
            FROM recorded_slices(recorded_collectives, events) JOIN events USING (event_id)
            """
        )
        assert sorted(rows.rows()) == [(0, "c10d::allreduce_", -4000), (2, "c10d::send", -7000)]

    def test_store_of_converted_dumps(self, tmp_path: Path) -> None:
        (tmp_path / "job").mkdir()
        written(tmp_path / "job" / "nccl_trace_rank_1", dump(entry(0)))
        open_one = entry(1, state="started", retired=False)
        written(tmp_path / "job" / "nccl_trace_rank_0", dump(entry(0), open_one))
        profframe.convert(tmp_path / "job", tmp_path / "store")
        stored = profframe.load(tmp_path / "store")
        assert stored.hangs()["late_ranks"].to_list() == ["1"]
        assert stored.hangs().equals(profframe.load(tmp_path / "job").hangs())
        assert stored.filter(ranks=0).recorded_collectives.height == 2
        names = {f.name for f in (tmp_path / "store").rglob("*.parquet")}
        assert {"recorded_collectives.parquet", "stacks.parquet"} <= names

    def test_nothing_hangs(self, tmp_path: Path) -> None:
        for rank in (0, 1):
            written(tmp_path / f"nccl_trace_rank_{rank}", dump(entry(0)))
        result = CliRunner().invoke(verbs, ["hang", str(tmp_path)])
        assert result.output.startswith("These dumps show no hang: 2 ranks got equally far in 1")

    @pytest.mark.parametrize("is_retired", [True, False])
    def test_a_rank_that_skips_the_only_collective_of_a_group(
        self, tmp_path: Path, is_retired: bool
    ) -> None:
        """gloo's dumps list no ranks of groups: whether it belongs to the group is not in them."""
        all_of = entry(0, "gloo:all_reduce", state="scheduled")
        only = entry(1, "gloo:all_reduce", state="scheduled", retired=is_retired)
        only |= {"process_group": ("1", "sub"), "collective_seq_id": 1}
        for rank in range(3):
            entries = [all_of] if rank == 2 else [all_of, only]
            written(tmp_path / f"nccl_trace_rank_{rank}", dump(*entries, pg_config={}))
        result = CliRunner().invoke(verbs, ["hang", str(tmp_path)])
        untold = (
            "it cannot be told whether rank 2 is late in group sub: rank 2 called nothing there, "
            "and the dumps do not say which ranks it has"
        )
        words = " ".join(result.output.split())
        assert "equally far" not in words
        if is_retired:
            first = "These dumps show no hang: the calls of 3 ranks in 2 process groups match, but "
            assert words.startswith(first + untold)
        else:
            assert words.startswith("Ranks 0, 1 wait in all_reduce 1 of group sub since ")
            assert f" and it has not ended {untold[0].upper()}{untold[1:]}" in words

    def test_groups_that_divide_the_ranks(self, tmp_path: Path) -> None:
        for rank in range(4):
            own = entry(1, "gloo:all_reduce", state="scheduled")
            own |= {"process_group": (str(1 + rank // 2), f"part {rank // 2}")}
            written(tmp_path / f"nccl_trace_rank_{rank}", dump(own, pg_config={}))
        result = CliRunner().invoke(verbs, ["hang", str(tmp_path)])
        assert " ".join(result.output.split()).startswith(
            "These dumps show no hang: the calls of 4 ranks in 2 process groups match, but it "
            "cannot be told whether ranks 2, 3 are late in group part 0: ranks 2, 3 called nothing "
            "there, and the dumps do not say which ranks it has (and so it is with 1 other group)"
        )

    @pytest.mark.parametrize(
        ("one", "other", "first"),
        [
            (  # gloo notes the end of a call a moment after it
                [entry(0, "gloo:all_reduce", state="scheduled", retired=False)],
                [entry(0, "gloo:all_reduce", state="scheduled", retired=True)],
                (
                    "These dumps show no hang: 2 ranks got equally far in 1 process group, "
                    "and their calls match"
                ),
            ),
            (
                [entry(0), entry(1), entry(2)],
                [entry(0)],
                (
                    "These dumps show no hang: the calls of 2 ranks in 1 process group match and "
                    "have ended, but rank 1 is 2 collectives behind in group default_pg"
                ),
            ),
            (
                [entry(0)],
                None,
                (
                    "This dump alone shows no hang: the last call is all_reduce 1 of group "
                    "default_pg"
                ),
            ),
            (
                [entry(0, state="started", retired=False)],
                [],
                (
                    "Rank 1 did not arrive at all_reduce 1 of group default_pg: it has no record; "
                    "rank 0 waits since 2023-11-14 22:13:20.000 UTC"
                ),
            ),
            (
                [entry(0, state="started", retired=False)],
                [entry(0, state="scheduled", retired=False)],
                (
                    "Ranks 0, 1 wait in all_reduce 1 of group default_pg since 2023-11-14 "
                    "22:13:20.000 UTC, and it has not ended; rank 1 has not started it"
                ),
            ),
            (
                [entry(0, state="started", retired=False)],
                [entry(0)],
                (
                    "Rank 0 waits in all_reduce 1 of group default_pg since 2023-11-14 "
                    "22:13:20.000 UTC, and it has not ended; rank 1 has ended it"
                ),
            ),
            (
                [entry(0, "nccl:all_to_all", state="started", input_sizes=[[3]])],
                [entry(0, "nccl:all_to_all", state="started", input_sizes=[[2]])],
                (
                    "What ranks send at all_to_all 1 of group default_pg does not match what "
                    "they receive; ranks 0, 1 wait since 2023-11-14 22:13:20.000 UTC"
                ),
            ),
            (
                [entry(0, "nccl:all\nred\x1b[1m", state="started", retired=False)],
                [],
                (
                    "Rank 1 did not arrive at all\\nred\\x1b[1m 1 of group default_pg: it has no "
                    "record; rank 0 waits since 2023-11-14 22:13:20.000 UTC"
                ),
            ),
        ],
    )
    def test_first_line(
        self,
        one: list[dict[str, Any]],
        other: list[dict[str, Any]] | None,
        first: str,
        tmp_path: Path,
    ) -> None:
        for rank, entries in enumerate((one, other)):
            if entries is not None:
                written(tmp_path / f"nccl_trace_rank_{rank}", dump(*entries))
        lines = CliRunner().invoke(verbs, ["hang", str(tmp_path)]).output.splitlines()
        assert lines[0] == first
        assert other is None or lines[1] == ""

    def test_ranks_without_a_dump_are_named(self, tmp_path: Path) -> None:
        for rank in (0, 2):
            written(tmp_path / f"nccl_trace_rank_{rank}", dump(entry(0), ranks="[0, 1, 2]"))
        lines = CliRunner().invoke(verbs, ["hang", str(tmp_path)]).output.splitlines()
        assert lines[0].endswith("their calls match; rank 1 has no dump")
        assert lines[1].startswith("2 ranks of 3 have a dump here")

    def test_ranks_that_wait_in_a_circle(self, tmp_path: Path) -> None:
        pairs = {"a": [0, 1], "b": [1, 2], "c": [0, 2]}
        for rank, (name, members) in enumerate(pairs.items()):
            own: dict[str, Any] = {"pg_id": 7, "process_group": (name, name), "state": "started"}
            config = {
                key: {"name": key, "desc": key, "ranks": str(ranks)}
                for key, ranks in pairs.items()
                if rank in ranks
            }
            value = dump(entry(0, **own)) | {"pg_config": config}
            written(tmp_path / f"nccl_trace_rank_{rank}", value)
            assert rank in members
        lines = CliRunner().invoke(verbs, ["hang", str(tmp_path)]).output.splitlines()
        assert lines[0] == "Ranks wait for one another, in a circle:"
        assert [line.partition(";")[0] for line in lines[1:4]] == [
            "Rank 1 did not arrive at all_reduce 1 of group a: it is in all_reduce 1 of b",
            "Rank 2 did not arrive at all_reduce 1 of group b: it is in all_reduce 1 of c",
            "Rank 0 did not arrive at all_reduce 1 of group c: it is in all_reduce 1 of a",
        ]

    def test_a_send_that_its_receiver_has_ended(self, tmp_path: Path) -> None:
        """Dumps of two moments: the receiver's is later, and is at the next one already."""

        def calls(name: str, states: list[str]) -> list[dict[str, Any]]:
            size = [[[4]], [[4]], [[8]]]
            return [
                entry(
                    n, name, is_p2p=True, p2p_seq_id=n + 1, state=state, input_sizes=size[n],
                    output_sizes=size[n], retired=state == "completed",
                )
                for n, state in enumerate(states)
            ]  # fmt: skip

        states = {
            "nccl:send 0->1": ["completed", "started", "scheduled"],
            "nccl:recv 1<-0": ["completed", "completed", "started"],
        }
        for rank, (name, of) in enumerate(states.items()):
            written(tmp_path / f"nccl_trace_rank_{rank}", dump(*calls(name, of)))
        trace = profframe.load(tmp_path)
        assert trace.hangs()["finding"].to_list() == ["not_ended", "not_ended"]
        lines = CliRunner().invoke(verbs, ["hang", str(tmp_path)]).output.splitlines()
        assert lines[0] == (
            "Rank 0 waits in send and recv 0 to 1 of group default_pg since 2023-11-14 "
            "22:13:20.000 UTC, and it has not ended; rank 1 has ended it"
        )

    def test_dump_is_shown_with_what_hangs(self, tmp_path: Path) -> None:
        written(tmp_path / "nccl_trace_rank_1", dump(entry(0)))
        open_one = entry(1, state="started", retired=False)
        written(tmp_path / "nccl_trace_rank_0", dump(entry(0), open_one))
        result = CliRunner().invoke(verbs, ["show", str(tmp_path)])
        assert "Rank 1 did not arrive at all_reduce 2 of group default_pg" in result.output
        assert result.exit_code == 0


def test_sentence() -> None:
    row = {
        "late_ranks": "2", "late_at": "2: in all_gather 4 of tp", "kind": "all_reduce",
        "line": None,
        "collective_seq": 17, "process_group": "0", "process_group_description": "default_pg",
        "finding": "missing_rank", "waiting_ranks": "0,1,3", "other_ranks": None,
        "not_loaded_ranks": "4", "since_ns": 1_700_000_000_123_000_000,
    }  # fmt: skip
    assert words.finding(row, pl.DataFrame()) == (
        "rank 2 did not arrive at all_reduce 17 of group default_pg: it is in all_gather 4 of tp; "
        "ranks 0, 1, 3 wait since 2023-11-14 22:13:20.123 UTC (no dump of rank 4)"
    )


def test_what_has_not_ended_is_told_of_an_unknown_backend_too(tmp_path: Path) -> None:
    entries = [entry(0, "all_reduce", state="started", time_discovered_completed_ns=None)]
    files = [written(tmp_path / f"dump_{rank}", dump(*entries)) for rank in range(2)]
    assert profframe.load(files).hangs()["finding"].to_list() == ["not_ended"]
