"""From what fails to its op in one statement: files that one run of two ranks has made together."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import profframe
from tests.unit.test_flight_recorder import ROOT, run_ranks

KINDS = ("trace", "snapshot", "nccl_trace", "et")
OUT_OF_MEMORY, HANGS = ("docs/memory_snapshots.md", "oom"), ("docs/hangs.md", "late")


def statement(page: str, word: str) -> str:
    """The statement of a page of the docs, word for word."""
    blocks = re.findall(r"```sql\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    text: str
    (text,) = [block for block in blocks if f"'{word}'" in block]
    return text


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces, snapshots, dumps and execution traces of both ranks."""
    folder = tmp_path_factory.mktemp("failing") / "job"
    folder.mkdir()
    run_ranks("failing_job.py", 2, folder)
    for path in folder.glob(".*"):
        path.unlink()
    return folder


@pytest.fixture(scope="session")
def store(job: Path) -> Path:
    path = job.parent / "store"
    files = profframe.convert(job, path)
    assert files.group_by("status", "run").len().sort("len").rows() == [
        ("written", "job", 2),
        ("joined", "job", 6),
    ]
    return path


def check(failed: pl.DataFrame, hung: pl.DataFrame) -> None:
    """Rank 1 asked for too much in its second block; rank 0 waits for it."""
    (row,) = failed.select("rank", "bytes", "device_free_bytes", "step", "module_name").rows()
    assert row == (1, 1 << 42, 0, 2, "nn.Module: Block_1")
    # The innermost op, where the profiler saw the failure at the same time; else the mode's slice.
    assert failed["op"].item() in {"aten::empty", "PythonDispatchMode"}
    assert hung.rows() == [(0, "all_reduce", 2, "c10d::allreduce_", "average gradients", 2, 1)]


def test_one_store_of_all_kinds(store: Path) -> None:
    trace = profframe.load(store)
    assert trace.traces.select("run", "rank").rows() == [("job", 0), ("job", 1)]
    assert trace.quality.filter(issue="joined_file").height == 6
    check(trace.sql(statement(*OUT_OF_MEMORY)), trace.sql(statement(*HANGS)))
    repeats = trace.sql(
        """
        SELECT around.name FROM allocator_events AS failure
        JOIN events AS op
            ON op.run = failure.run AND op.rank = failure.rank AND op.event_id = failure.op_id
        JOIN events AS last
            ON last.run = op.run AND last.rank = op.rank
        JOIN events AS around
            ON around.run = op.run AND around.rank = op.rank
            AND around.last_descendant_id = last.event_id
            AND op.preorder BETWEEN around.preorder AND last.preorder
        WHERE failure.action = 'oom' AND around.kind = 'host_op'
        """
    )
    assert "aten::repeat" in repeats["name"].to_list()


def test_a_bare_shell_says_the_same(store: Path) -> None:
    """DuckDB alone, with the views and files of `sql/lib` that the docs name."""
    import duckdb

    page = (ROOT / "examples" / "duckdb_shell.md").read_text()
    with duckdb.connect() as shell:
        for view in re.findall(r"CREATE VIEW \w+ AS FROM .*?;", page):
            table = view.split()[2]
            if next(store.rglob(f"{table}.parquet"), None):
                shell.sql(view.replace("'store/", f"'{store}/"))
        for pair in (OUT_OF_MEMORY, HANGS):
            text = (ROOT / pair[0]).read_text()
            names = re.findall(r"^\.read (sql/lib/\w+\.sql)$", text, re.MULTILINE)
            assert names
            for name in names:
                shell.sql((ROOT / name).read_text())
        check(*(shell.sql(statement(*pair)).pl() for pair in (OUT_OF_MEMORY, HANGS)))


@pytest.mark.long  # tests/batch/test_joining.py has orders of files made by hand
@pytest.mark.parametrize("last", KINDS)
def test_what_comes_last_makes_no_difference(
    last: str, job: Path, store: Path, tmp_path: Path
) -> None:
    later = sorted(job.glob(f"{last}_rank*"))
    first = sorted(set(job.iterdir()) - {*later})
    own = tmp_path / "store"
    if last == "trace":  # without it nothing is joined, and each has a number
        first = [path for path in first if path.name.startswith("et_")]
    profframe.convert(first, own)
    profframe.convert(later, own)
    if last == "trace":
        rest = [p for p in job.iterdir() if not p.name.startswith(("et_", "trace_"))]
        profframe.convert(rest, own)
    a, b = profframe.load(own), profframe.load(store)
    for name in ("allocations", "allocator_events", "recorded_collectives", "nodes", "tensors"):
        keys = [c for c in getattr(a, name).columns if c != "stack_id"]
        assert getattr(a, name).select(keys).equals(getattr(b, name).select(keys)), name
    check(a.sql(statement(*OUT_OF_MEMORY)), a.sql(statement(*HANGS)))
    assert a.tensor_traffic().equals(b.tensor_traffic())
    again = profframe.convert(job, own)
    assert set(again["status"]) == {"unchanged"}


def test_loading_gives_what_the_store_has(job: Path, store: Path) -> None:
    loaded, stored = profframe.load(job), profframe.load(store)
    for name in ("events", "flows", "allocations", "nodes", "tensors", "stacks", "quality"):
        a, b = (getattr(trace, name).sort(pl.all()) if name == "quality" else getattr(trace, name)
                for trace in (loaded, stored))  # fmt: skip
        assert a.equals(b), name


def test_an_execution_trace_of_no_rank_beside_others(job: Path, tmp_path: Path) -> None:
    """By its name it is a run of its own; named, it joins."""
    shutil.copy(job / "trace_rank0.json", tmp_path / "t.json")
    shutil.copy(job / "et_rank0.json", tmp_path / "et.json")
    assert profframe.load(tmp_path).traces.height == 2
    both = profframe.load(tmp_path, run="r", rank=0)
    assert both.traces.height == 1
    given = profframe.load(tmp_path / "t.json", execution_trace=tmp_path / "et.json")
    assert both.nodes.drop("run").equals(given.nodes.drop("run"))
    assert both.flows.drop("run").equals(given.flows.drop("run"))
