"""Profiles for speedscope and folded paths: forms, nesting, and what they add up to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import cli
from profframe.errors import ParameterError, UnknownNameError
from profframe.trace.trace import Trace
from tests import hostile, needs
from tests.builders import event, loaded, together
from tests.conftest import Run

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
SCHEMA = json.loads((HERE.parent / "data/speedscope/file-format-schema.json").read_text())
VALID = needs.module("jsonschema").Draft7Validator(SCHEMA)


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    assert [error.message for error in VALID.iter_errors(document)] == []
    return document


def own_times(document: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, int]:
    """Own time of each frame, as speedscope counts it; fails where events do not nest."""
    names = [frame["name"] for frame in document["shared"]["frames"]]
    found: dict[str, int] = {}
    stack: list[int] = []
    now = profile["startValue"]
    for one in profile["events"]:
        assert one["at"] >= now
        if stack:
            found[names[stack[-1]]] = found.get(names[stack[-1]], 0) + one["at"] - now
        now = one["at"]
        if one["type"] == "O":
            stack.append(one["frame"])
        else:
            assert stack.pop() == one["frame"]
    assert not stack
    assert now == profile["endValue"]
    return found


def of(trace: Trace, path: Path, metric: str = "self_ns") -> dict[str, Any]:
    trace.export_speedscope(path, metric)
    return read(path)


class TestSpeedscope:
    def test_threads_over_time(self, tmp_path: Path) -> None:
        trace = loaded(
            event("f", 100, 200),
            event("a.py(3): g", 110, 150, category="python_function"),
            event("h", 110, 150),
            event("f", 160, 170),
            event("i", 130, 140, thread=1),
            threads=[{"thread": 0, "thread_name": "main"}],
        )
        found = of(trace, tmp_path / "o.speedscope.json")
        main, other = found["profiles"]
        assert (main["name"], other["name"]) == ("main", "process 1, thread 1")
        assert found["shared"]["frames"] == [
            {"name": "f"},
            {"name": "g", "file": "a.py", "line": 3},
            {"name": "h"},
            {"name": "i"},
        ]
        assert [(e["type"], e["frame"], e["at"]) for e in main["events"]] == [
            *(("O", 0, 0), ("O", 1, 10), ("O", 2, 10), ("C", 2, 50), ("C", 1, 50)),
            *(("O", 0, 60), ("C", 0, 70), ("C", 0, 100)),
        ]
        assert [(e["type"], e["at"]) for e in other["events"]] == [("O", 30), ("C", 40)]
        assert found["activeProfileIndex"] == 0

    def test_each_rank_begins_with_its_own_first_slice(self, tmp_path: Path) -> None:
        ranks = (loaded(event("a", 100, 150), rank=0), loaded(event("b", 900, 920), rank=1))
        first, second = of(together(*ranks), tmp_path / "o.json")["profiles"]
        assert [e["at"] for e in first["events"]] == [0, 50]
        assert [e["at"] for e in second["events"]] == [0, 20]

    def test_device_time_first_a_slices_own_then_that_inside(self, tmp_path: Path) -> None:
        trace = loaded(
            event("outer", 0, 100),
            event("cudaLaunchKernel", 10, 20, category="cuda_runtime", correlation=1),
            event("inner", 30, 60),
            event("cudaLaunchKernel", 40, 50, category="cuda_runtime", correlation=2),
            event("idle", 70, 80),
            event("k", 50, 250, category="kernel", thread=1, correlation=1, device=0, stream=7),
            event("k", 250, 280, category="kernel", thread=1, correlation=2, device=0, stream=7),
        )
        found = of(trace, tmp_path / "o.json", "self_device_ns")
        assert own_times(found, found["profiles"][0]) == {"outer": 200, "inner": 30}
        assert found["profiles"][0]["endValue"] == 230

    def test_what_overlaps_is_cut_and_counted(self, tmp_path: Path) -> None:
        trace = loaded(event("a", 0, 50), event("b", 10, 45), event("c", 40, 90))
        found = of(trace, tmp_path / "o.json")
        (profile,) = found["profiles"]
        assert profile["name"] == "process 1, thread 0 (2 slices cut where others overlap them)"
        assert own_times(found, profile) == {"a": 10, "b": 30, "c": 50}

    def test_ranks_and_names(self, tmp_path: Path, hostile_file: Path) -> None:
        for rank in (0, 1):
            profframe.load(hostile_file, run=hostile.RUN, rank=rank).to_parquet(tmp_path / "store")
        trace = profframe.load(tmp_path / "store")
        found = of(trace, tmp_path / "o.json.gz")
        assert all(p["name"].startswith(("rank 0, ", "rank 1, ")) for p in found["profiles"])
        names = {frame["name"] for frame in found["shared"]["frames"]}
        host = trace.events.filter(pl.col("preorder").is_not_null() & (pl.col("kind") != "python"))
        assert set(host["name"].drop_nulls()) <= names
        for profile in found["profiles"]:
            own_times(found, profile)

    def test_examples_add_up(self, tmp_path: Path) -> None:
        trace = profframe.load(EXAMPLES / "gpu_training.json.gz")
        for metric in ("self_ns", "self_device_ns"):
            found = of(trace, tmp_path / "o.json", metric)
            own = sum(sum(own_times(found, one).values()) for one in found["profiles"])
            host = trace.events.filter(pl.col("preorder").is_not_null())
            assert own == host[metric].sum()

    def test_a_filtered_trace_nests_anew(self, tmp_path: Path) -> None:
        trace = profframe.load(EXAMPLES / "gpu_training.json.gz").filter(steps=2, kinds="host_op")
        found = of(trace, tmp_path / "o.json")
        for profile in found["profiles"]:
            own_times(found, profile)
        opened = sum(e["type"] == "O" for p in found["profiles"] for e in p["events"])
        assert opened == trace.events.height

    @given(
        st.lists(
            st.tuples(
                st.sampled_from("fgh"), st.integers(0, 12), st.integers(0, 9), st.integers(0, 1)
            ),
            min_size=1,
            max_size=14,
        )
    )
    def test_always_nests(self, slices: list[tuple[str, int, int, int]]) -> None:
        import tempfile

        trace = loaded(*(event(n, at, at + length, thread=t) for n, at, length, t in slices))
        with tempfile.TemporaryDirectory() as folder:
            found = of(trace, Path(folder) / "o.json")
        busy = 0
        for thread in {t for *_, t in slices}:
            busy += len({at + i for _, at, n, t in slices for i in range(n) if t == thread})
        assert sum(sum(own_times(found, p).values()) for p in found["profiles"]) == busy

    def test_nothing_to_write(self, tmp_path: Path) -> None:
        trace = loaded(event("f", 0, 9))
        with pytest.raises(ParameterError, match="no device time of host slices"):
            trace.export_speedscope(tmp_path / "o.json", "self_device_ns")
        with pytest.raises(UnknownNameError, match="no metric named 'self'"):
            trace.export_speedscope(tmp_path / "o.json", "self")
        with pytest.raises(ParameterError, match="no host slices"):
            trace.filter(kinds="kernel").export_speedscope(tmp_path / "o.json")
        assert not (tmp_path / "o.json").exists()


class TestFoldedPaths:
    def lines(self, trace: Trace, path: Path, metric: str = "self_ns") -> list[str]:
        trace.export_stacks(path, metric, by="path")
        return path.read_text().splitlines()

    def test_nodes_of_the_call_tree(self, tmp_path: Path) -> None:
        trace = loaded(
            event("f", 0, 100),
            event("g;h", 10, 30),
            event("f", 200, 250),
            event("g;h", 210, 220),
            event("two\nlines", 10, 12),
            event("all of it", 300, 310),
            event("all of it inside", 300, 310),
        )
        assert self.lines(trace, tmp_path / "o.txt") == [
            "all of it;all of it inside 10",
            "f 120",
            "f;g,h 28",
            "f;g,h;two_lines 2",
        ]

    def test_lines_add_up(self, tmp_path: Path) -> None:
        trace = profframe.load(EXAMPLES / "gpu_training.json.gz")
        kernels = trace.events.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
        host = trace.events.filter(pl.col("preorder").is_not_null())
        for metric, total in (
            ("self_cpu_time_total", host["self_ns"].sum()),
            ("self_cuda_time_total", kernels["dur_ns"].sum()),
        ):
            lines = self.lines(trace, tmp_path / "o.txt", metric)
            assert sum(int(line.rpartition(" ")[2]) for line in lines) == total

    def test_several_traces_have_a_frame_each(self, tmp_path: Path) -> None:
        for run in ("a", "b;c"):
            for rank in (0, 1):
                part = loaded(event("f", 0, 5), event("g", 1, 3), run=run, rank=rank)
                part.to_parquet(tmp_path / "store")
        lines = self.lines(profframe.load(tmp_path / "store"), tmp_path / "o.txt")
        assert lines[:3] == ["a rank 0;f 3", "a rank 0;f;g 2", "a rank 1;f 3"]
        assert lines[-1] == "b_c rank 1;f;g 2"

    def test_what_cannot_be_written(self, tmp_path: Path) -> None:
        trace = loaded(event("f", 0, 9))
        with pytest.raises(ParameterError, match="no host slice has self_device_ns"):
            trace.export_stacks(tmp_path / "o.txt", "self_device_ns", by="path")
        with pytest.raises(UnknownNameError, match=r"by is one of .*, not 'name'"):
            trace.export_stacks(tmp_path / "o.txt", by="name")


class TestCommandLine:
    SOURCE = str(EXAMPLES / "gpu_training.json.gz")

    def test_forms_by_their_endings(self, tmp_path: Path, run: Run) -> None:
        for name in ("a.speedscope.json.gz", "b.folded", "c.json"):
            code, _, err = run("export", self.SOURCE, "-o", tmp_path / name, "--step", 2)
            assert code == 0
            assert err.splitlines()[0].endswith(f"{name}: written")
        assert read(tmp_path / "a.speedscope.json.gz")["profiles"]
        assert " " in (tmp_path / "b.folded").read_text()
        assert profframe.load(tmp_path / "c.json").events["step"].unique().to_list() == [2]

    def test_tracks_and_what_is_wrong(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        output = str(tmp_path / "o.json")
        command = ["export", self.SOURCE, "-o", output, "--track", "memory", "--track", "gaps"]
        assert cli.run(command) == 0
        assert profframe.load(output).counters.height > 0
        assert cli.run([*command, "--as", "stacks"]) == 2
        assert "--track works only with chrome, not with stacks" in capsys.readouterr().err
        assert cli.run(["export", self.SOURCE, "-o", output, "--track", "memroy"]) == 2
        assert "no track named 'memroy'; did you mean 'memory'?" in capsys.readouterr().err
        assert cli.run(["export", self.SOURCE, "-o", output, "--rank", "7"]) == 1
        assert "no rank 7 (known: 0)" in capsys.readouterr().err
