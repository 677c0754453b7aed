"""Folders with several traces: cycles of a process, ranks of a job, and separate programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import profframe
from profframe.workers.inline import InlineExecutor
from tests.batch.sources import assert_same, content, rows_of

NOW_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000

Planted = dict[str, tuple[int, int, int | None, int | None]]
"""File: pid, start in microseconds since `NOW_US`, rank and size of the job."""


def planted(folder: Path, files: Planted) -> Path:
    for name, (pid, start, rank, world) in files.items():
        event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": 1, "dur": 100}
        job = {"rank": rank, "world_size": world}
        given = {key: value for key, value in job.items() if value is not None}
        text = {"distributedInfo": given, "traceEvents": [event | {"ts": NOW_US + start}]}
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(text))
    return folder


def named(trace: profframe.Trace) -> dict[str, tuple[str, int]]:
    rows = trace.events.select("name", "run", "rank").rows()
    return {name: (run, rank) for name, run, rank in rows}


CASES: dict[str, tuple[Planted, dict[str, str]]] = {
    "programs whose traces all say rank 0": (
        {
            "train.json": (11, 0, 0, None),
            "eval.json": (12, DAY_US, 0, None),
            "again.json": (13, 2 * DAY_US, 0, None),
        },
        {"train.json": "train", "eval.json": "eval", "again.json": "again"},
    ),
    "two jobs of two ranks": (
        {
            "base_rank0.json": (11, 0, None, None),
            "base_rank1.json": (12, 0, None, None),
            "test_rank0.json": (21, DAY_US, None, None),
            "test_rank1.json": (22, DAY_US, None, None),
        },
        {
            "base_rank0.json": "base",
            "base_rank1.json": "base",
            "test_rank0.json": "test",
            "test_rank1.json": "test",
        },
    ),
    "ranks of jobs of different sizes": (
        {"small.json": (11, 0, 1, 2), "large.json": (12, DAY_US, 3, 8)},
        {"small.json": "small", "large.json": "large"},
    ),
    "one process number, at one time": (
        {"a.json": (1, 0, 0, None), "b.json": (1, 10, 0, None)},
        {"a.json": "a", "b.json": "b"},
    ),
    "one with a rank among others": (
        {"train.json": (11, 0, 0, 8), "other.json": (12, 0, None, None)},
        {"train.json": "train", "other.json": "other"},
    ),
    "one trace in two files": (
        {"a.json": (1, 0, None, None), "a.trace.json": (1, 0, None, None)},
        {"a.json": "a.json", "a.trace.json": "a.trace.json"},
    ),
    "workers of two programs, with cycles": (
        {
            "h_11_rank0.1700000001.pt.trace.json": (11, 0, None, None),
            "h_11_rank0.1700000002.pt.trace.json": (11, 500, None, None),
            "h_12_rank0.1700000001.pt.trace.json": (12, 900, None, None),
        },
        {
            "h_11_rank0.1700000001.pt.trace.json": "h_11",
            "h_11_rank0.1700000002.pt.trace.json": "h_11.1",
            "h_12_rank0.1700000001.pt.trace.json": "h_12",
        },
    ),
    "cycles of workers without ranks": (
        {
            "h_11.1700000003.pt.trace.json": (11, 900, None, None),
            "h_11.1700000001.pt.trace.json": (11, 0, None, None),
            "h_11.1700000002.pt.trace.json": (11, 500, None, None),
            "h_12.1700000001.pt.trace.json": (12, 0, None, None),
        },
        {
            "h_11.1700000001.pt.trace.json": "h_11",
            "h_11.1700000002.pt.trace.json": "h_11.1",
            "h_11.1700000003.pt.trace.json": "h_11.2",
            "h_12.1700000001.pt.trace.json": "h_12",
        },
    ),
    "cycles of one process": (
        {"b.json": (1, 0, 0, None), "a.json": (1, 500, 0, None), "c.json": (1, 900, 0, None)},
        {"b.json": "job", "a.json": "job.1", "c.json": "job.2"},
    ),
    "a worker that was started again": (
        {
            "worker0.1700000001.pt.trace.json": (11, 0, None, None),
            "worker0.1700000002.pt.trace.json": (12, DAY_US, None, None),
        },
        {
            "worker0.1700000001.pt.trace.json": "job",
            "worker0.1700000002.pt.trace.json": "job.1",
        },
    ),
    "ranks of a job, of which one has two cycles": (
        {
            "x.json": (11, 0, 0, 2),
            "y.json": (12, 0, 1, 2),
            "z.json": (12, 500, 1, 2),
        },
        {"x.json": "job", "y.json": "job", "z.json": "job.1"},
    ),
    "ranks of a job beside a file that says nothing": (
        {"x.json": (11, 0, 0, 2), "y.json": (12, 0, 1, 2), "note.json": (13, 0, None, None)},
        {"x.json": "job", "y.json": "job", "note.json": "note"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_a_program(case: str, tmp_path: Path) -> None:
    files, runs = CASES[case]
    trace = profframe.load(planted(tmp_path / "job", files))
    assert {name: run for name, (run, _) in named(trace).items()} == runs
    later = {run for run in runs.values() if run.rpartition(".")[2].isdecimal()}
    noted = trace.quality.filter(issue="same_run_and_rank")["run"].to_list()
    assert set(noted) == later


@pytest.mark.parametrize("case", CASES)
def test_a_store_has_the_same_runs(case: str, tmp_path: Path) -> None:
    folder = planted(tmp_path / "job", CASES[case][0])
    profframe.convert(folder, tmp_path / "store", InlineExecutor())
    assert_same(content(tmp_path / "store"), rows_of(profframe.load(folder)))
    again = profframe.convert(folder, tmp_path / "store", InlineExecutor())
    assert set(again["status"]) == {"unchanged"}
    assert not list((tmp_path / "store").glob(".[ts]*"))


def test_a_run_that_is_given_holds_them_all(tmp_path: Path) -> None:
    files, _ = CASES["programs whose traces all say rank 0"]
    trace = profframe.load(planted(tmp_path / "job", files), run="mine")
    assert named(trace) == {
        "train.json": ("mine", 0),
        "eval.json": ("mine.1", 0),
        "again.json": ("mine.2", 0),
    }


def test_what_a_store_has_keeps_its_name(tmp_path: Path) -> None:
    """A second batch finds another program beside it, and no file is there twice."""
    files, _ = CASES["programs whose traces all say rank 0"]
    folder, store = tmp_path / "job", tmp_path / "store"
    first = dict([next(iter(files.items()))])
    profframe.convert(planted(folder, first), store, InlineExecutor())
    assert named(profframe.load(store)) == {"train.json": ("job", 0)}
    planted(folder, {**files, "train.json": (11, 7, 0, None)})
    profframe.convert(folder, store, InlineExecutor())
    assert named(profframe.load(store)) == {
        "train.json": ("job", 0),
        "eval.json": ("eval", 0),
        "again.json": ("again", 0),
    }


def test_files_that_change_later_keep_their_names(tmp_path: Path) -> None:
    files, _ = CASES["two jobs of two ranks"]
    folder, store = tmp_path / "job", tmp_path / "store"
    profframe.convert(planted(folder, files), store, InlineExecutor())
    before = named(profframe.load(store))
    planted(folder, {"test_rank1.json": (22, DAY_US + 5, None, None)})
    changed = profframe.convert(folder, store, InlineExecutor())
    assert changed["status"].to_list().count("written") == 1
    assert named(profframe.load(store)) == before
