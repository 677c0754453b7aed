"""Files that arrive: when they are finished, what they are called, and that each comes once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe import ParameterError
from profframe.conversion.arrivals import MOST_ATTEMPTS, Arrivals, is_unfinished
from profframe.store.maintenance import contents
from profframe.workers.inline import InlineExecutor
from tests.batch.sources import names, write
from tests.until import until

Act = Callable[[], object]


class Time:
    """A clock that only waiting moves on; what happens meanwhile is given."""

    def __init__(self, *acts: Act | None) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []
        self._acts = [*acts]

    def wait(self, pause_s: float) -> bool:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        if not self._acts:
            return True
        if act := self._acts.pop(0):
            act()
        return False

    def clock(self) -> float:
        return self.now_s


def watched(source: Path | str, store: Path, time: Time, **options: object) -> list[pl.DataFrame]:
    given = {"wait": time.wait, "clock": time.clock, "keep": None, **options}
    return [*profframe.watch(source, store, InlineExecutor(), **given)]  # type: ignore[arg-type]


def rows(batches: list[pl.DataFrame]) -> list[list[tuple[str, str, int]]]:
    return [batch.select("status", "run", "rank").rows() for batch in batches]


# -- when a file is finished


def test_a_file_is_finished_once_it_is_still() -> None:
    files = Arrivals(2.0, 60.0)
    assert files.look({"a": 1}, 0.0) == []
    assert files.look({"a": 2, "b": 1}, 2.0) == []
    assert files.look({"a": 2, "b": 1}, 3.9) == []
    assert files.look({"a": 2, "b": 1}, 4.0) == ["a", "b"]
    files.settle("a", 4.0, is_done=True)
    assert files.look({"a": 2, "b": 1}, 6.0) == ["b"]
    assert files.look({"a": 3, "b": 1}, 8.0) == ["b"]
    assert files.look({"a": 3, "b": 1}, 10.0) == ["a", "b"]


def test_a_file_that_fails_is_tried_after_growing_pauses() -> None:
    files = Arrivals(1.0, 10.0)
    files.look({"a": 1}, 0.0)
    tried, now_s = [], 1.0
    while files.look({"a": 1}, now_s) == ["a"]:
        tried.append(now_s)
        if files.settle("a", now_s, is_done=False):
            break
        assert files.look({"a": 1}, now_s + 0.5) == []
        now_s += files.pause_s(now_s)
        while not files.look({"a": 1}, now_s):
            now_s += files.pause_s(now_s)
    assert tried == [1.0, 3.0, 7.0, 15.0, 25.0]
    assert len(tried) == MOST_ATTEMPTS
    assert files.look({"a": 1}, 1000.0) == []
    assert files.look({"a": 2}, 1001.0) == []
    assert files.look({"a": 2}, 1002.0) == ["a"]


def test_pauses_grow_while_nothing_arrives() -> None:
    files, pauses, now_s = Arrivals(1.0, 8.0), [], 0.0
    for _ in range(7):
        files.look({}, now_s)
        pauses.append(files.pause_s(now_s))
        now_s += pauses[-1]
    assert pauses == [2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    files.look({"a": 1}, now_s)
    assert files.pause_s(now_s) == 1.0


def test_sources_that_vanish_for_a_moment_are_not_new() -> None:
    files = Arrivals(1.0, 8.0)
    files.look({"a": 1}, 0.0)
    assert files.look({"a": 1}, 1.0) == ["a"]
    files.settle("a", 1.0, is_done=True)
    assert files.look({}, 2.0) == []
    assert files.look({"a": 1}, 4.0) == []
    assert files.look({"b": 1}, 5.0) == []
    assert files.look({"a": 1, "b": 1}, 6.0) == ["b"]


@pytest.mark.parametrize("name", ["a.json.tmp", "a.PART", "/x/.a.json", "~a", "a.tmp.123"])
def test_unfinished_names(name: str) -> None:
    assert is_unfinished(name)
    assert Arrivals(1.0, 1.0).look({name: 1}, 0.0) == []


# -- a watch


def test_files_are_converted_as_they_come(tmp_path: Path) -> None:
    source, store = tmp_path / "night", tmp_path / "store"
    time = Time(
        None,
        lambda: write(source / "rank0.json", 0, "first"),
        None,
        lambda: write(source / "rank1.json", 0, "second"),
        None,
        None,
    )
    batches = watched(source, store, time)
    assert rows(batches) == [[("written", "night", 0)], [("written", "night", 1)]]
    assert names(store) == [("night", 0, "first"), ("night", 1, "second")]
    assert time.pauses[0] == 2.0


def test_a_file_in_pieces_waits(tmp_path: Path) -> None:
    source, store = tmp_path / "night", tmp_path / "store"
    whole = write(tmp_path / "rank0.json.gz", 0, "x", events=99).read_bytes()
    file = source / "rank0.json.gz"
    source.mkdir()
    pieces = [whole[:40], whole[:80], whole[:120], whole]
    time = Time(*(lambda piece=piece: file.write_bytes(piece) for piece in pieces), None, None)
    assert rows(watched(source, store, time)) == [[("written", "night", 0)]]
    assert contents(store)["events"].to_list() == [99]


def test_a_renamed_draft_is_converted_under_its_last_name(tmp_path: Path) -> None:
    source, store = tmp_path / "night", tmp_path / "store"
    draft = write(source / "rank0.json.tmp", 0, "x")
    time = Time(None, None, None, lambda: draft.rename(source / "rank0.json"), None, None)
    assert rows(watched(source, store, time)) == [[("written", "night", 0)]]


def test_a_stalled_part_is_replaced_by_the_whole(tmp_path: Path) -> None:
    """The writer paused for longer than two looks: what was read then is not what stays."""
    source, store = tmp_path / "night", tmp_path / "store"
    whole = write(source / "rank0.json.gz", 0, "x", events=99).read_bytes()
    (source / "rank0.json.gz").write_bytes(whole[: len(whole) // 2])
    time = Time(None, None, None, None, lambda: write(source / "rank0.json.gz", 0, "x", events=99))
    time._acts += [None, None, None]
    watched(source, store, time)
    assert contents(store)["run", "events"].rows() == [("night", 99)]


def test_a_bad_file_is_named_at_last(tmp_path: Path) -> None:
    source, store = tmp_path / "night", tmp_path / "store"
    write(source / "rank0.json", 0, "x")
    (source / "rank1.json").write_text("this is no trace")
    time = Time(*([None] * 30))
    batches = watched(source, store, time)
    assert [batch["status"].to_list() for batch in batches] == [["written"], ["failed"]]
    assert "rank1.json" in batches[1]["error"].item()
    fixed = Time(*([None] * 3), lambda: write(source / "rank1.json", 0, "y"), *([None] * 30))
    assert rows(watched(source, store, fixed)) == [
        [("unchanged", "night", 0)],
        [("written", "night", 1)],
    ]


def test_nothing_is_converted_twice(tmp_path: Path) -> None:
    """After a restart the store decides; a file that has changed is converted again."""
    source, store = tmp_path / "night", tmp_path / "store"
    write(source / "rank0.json", 0, "x")
    assert rows(watched(source, store, Time(*[None] * 9))) == [[("written", "night", 0)]]
    identity = (store / "run=night" / "rank=0" / "traces.parquet").stat().st_ino
    assert rows(watched(source, store, Time(*[None] * 9))) == [[("unchanged", "night", 0)]]
    assert (store / "run=night" / "rank=0" / "traces.parquet").stat().st_ino == identity
    again = Time(None, None, lambda: write(source / "rank0.json", 0, "y", events=5), None, None)
    assert rows(watched(source, store, again))[1:] == [[("written", "night", 0)]]
    assert names(store) == [("night", 0, "y")]


def test_kept_answers_follow(tmp_path: Path) -> None:
    source, store = tmp_path / "night", tmp_path / "store"
    write(source / "rank0.json", 0, "x")
    time = Time(None, None, lambda: write(source / "rank1.json", 0, "y"), None, None)
    watched(source, store, time, keep=())
    assert profframe.load(store).trend("events")["value"].to_list() == [6]


def test_buckets_are_watched() -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    text = '{"traceEvents": [{"ph": "X", "name": "mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]}'
    files.pipe("/arriving/night/rank0.json", text.encode())
    time = Time(
        None, None, lambda: files.pipe("/arriving/night/rank1.json", text.encode()), None, None
    )
    batches = watched("memory://arriving/night", "memory://arriving-store", time)  # type: ignore[arg-type]
    assert rows(batches) == [[("written", "night", 0)], [("written", "night", 1)]]
    files.rm("/arriving", recursive=True)
    files.rm("/arriving-store", recursive=True)


def test_parameters(tmp_path: Path) -> None:
    write(tmp_path / "night" / "rank0.json")
    profframe.convert(tmp_path / "night", tmp_path / "store", keep=None)
    with pytest.raises(ParameterError, match="a store is no source"):
        profframe.watch(tmp_path / "store", tmp_path / "other")
    with pytest.raises(ParameterError, match="pause_s"):
        profframe.watch(tmp_path / "night", tmp_path / "other", pause_s=0)


# -- names: as if all had come at once


def arriving(source: Path, store: Path, *groups: list[Act]) -> list[tuple[str, int, str]]:
    """Names after files have come group by group."""
    acts: list[Act | None] = []
    for group in groups:
        acts += [lambda group=group: [act() for act in group], None, None]  # type: ignore[misc]
    watched(source, store, Time(*acts, None, None))
    return names(store)


def trace(path: Path, name: str, start_us: int = 0, rank: int | None = None) -> Act:
    return lambda: write(path, start_us, name, rank)


def of_process(path: Path, name: str, pid: int) -> Act:
    """A trace of another process than others."""

    def act() -> None:
        text = write(path, 0, name).read_text().replace('"pid": 1', f'"pid": {pid}')
        path.write_text(text)

    return act


def test_late_ranks_join_their_run(tmp_path: Path) -> None:
    """Two workers of torch's handler with two cycles each, one file after the other."""
    source = tmp_path / "logs"
    files = [
        trace(source / f"host_{rank}.{stamp}000000000.pt.trace.json", f"r{rank}c{stamp}", s, rank)
        for stamp, s in ((1, 0), (2, 1000))
        for rank in (0, 1)
    ]
    expected = arriving(source, tmp_path / "at_once", files)
    assert expected == [
        ("logs", 0, "r0c1"),
        ("logs", 1, "r1c1"),
        ("logs.1", 0, "r0c2"),
        ("logs.1", 1, "r1c2"),
    ]
    for path in source.iterdir():
        path.unlink()
    assert arriving(source, tmp_path / "late", *([file] for file in files)) == expected
    for path in source.iterdir():
        path.unlink()
    other = [files[0], files[2], files[1], files[3]]
    assert arriving(source, tmp_path / "other", *([file] for file in other)) == expected


def test_a_file_alone_is_named_like_one_among_others(tmp_path: Path) -> None:
    source = tmp_path / "jobs"
    files = [trace(source / f"{name}.json", name) for name in ("one", "two", "three")]
    expected = [("one", 0, "one"), ("three", 0, "three"), ("two", 0, "two")]
    assert arriving(source, tmp_path / "late", *([file] for file in files)) == expected


def test_another_program_in_the_folder_has_its_own_run(tmp_path: Path) -> None:
    """Two jobs of two ranks: the first rank came when there was nothing else, its name stays."""
    source = tmp_path / "jobs"
    a0 = of_process(source / "alpha_rank0.json", "a0", 10)
    a1 = of_process(source / "alpha_rank1.json", "a1", 11)
    b0 = of_process(source / "beta_rank0.json", "b0", 20)
    b1 = of_process(source / "beta_rank1.json", "b1", 21)
    at_once = arriving(source, tmp_path / "at_once", [a0, a1, b0, b1])
    assert at_once == [("alpha", 0, "a0"), ("alpha", 1, "a1"), ("beta", 0, "b0"), ("beta", 1, "b1")]
    for path in source.iterdir():
        path.unlink()
    late = arriving(source, tmp_path / "late", [a0], [b0], [b1], [a1])
    assert late == [("beta", 0, "b0"), ("beta", 1, "b1"), ("jobs", 0, "a0"), ("jobs", 1, "a1")]
    for path in source.iterdir():
        path.unlink()
    together = arriving(source, tmp_path / "together", [a0, b0], [b1], [a1])
    assert together == at_once


# -- in a process of its own


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "profframe", "convert", "--watch", str(tmp_path / "night")]
    watch = subprocess.Popen(
        [*command, "-o", str(tmp_path / "store"), "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield watch
    watch.kill()
    watch.wait()
    for stream in (watch.stdout, watch.stderr):
        if stream is not None:
            stream.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it(
    process: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    write(tmp_path / "night" / "rank0.json")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.endswith("rank0.json: run night, rank 0, 3 events\n")
    os.kill(process.pid, number)
    until(lambda: process.poll() is not None)
    assert process.returncode == (0 if number == signal.SIGTERM else 130)
    assert process.stderr is not None
    assert process.stderr.read().rstrip().endswith("1 file converted")
    assert not [*(tmp_path / "store").glob(".tmp-*")]
