"""Batches at the same time, and workers that are killed; `tests.fuzz.kills` kills batches."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe import schema
from tests.batch.sources import Content, assert_same, content, write
from tests.until import computed_s, until

BATCH: Final = """
import sys
from concurrent.futures import ThreadPoolExecutor
import profframe
import profframe.conversion.worker, profframe.loaders.load  # what would be imported late

source, store, processes = sys.argv[1:]
engine = None if int(processes) else ThreadPoolExecutor(2)
print("ready", flush=True)
files = profframe.convert(source, store, engine, workers=int(processes) or None)
failed = files["error"].drop_nulls().to_list()
print(f"failed: {failed}" if failed else "done", flush=True)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two runs of two ranks, and one of three cycles: a glob."""
    folder = tmp_path_factory.mktemp("jobs")
    for run in ("a", "b"):
        for rank in range(2):
            write(folder / run / f"rank{rank}.json.gz", rank, f"{run}{rank}", events=300)
    for start in (3, 1, 2):
        write(folder / "cycles" / f"{10 - start}.json", start, f"cycle {start}", 0, events=300)
    return str(folder / "**" / "*.json*")


@pytest.fixture(scope="module")
def undisturbed(source: str, tmp_path_factory: pytest.TempPathFactory) -> Content:
    store = tmp_path_factory.mktemp("undisturbed")
    with ThreadPoolExecutor(2) as executor:
        profframe.convert(source, store, executor)
    return content(store)


def start(source: str, store: Path, processes: int = 0) -> subprocess.Popen[str]:
    """A batch in a process of its own, that has imported what it needs."""
    command = [sys.executable, "-c", BATCH, source, str(store), str(processes)]
    batch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert batch.stdout is not None
    assert batch.stdout.readline() == "ready\n"
    return batch


def finish(batch: subprocess.Popen[str]) -> str:
    with batch:
        assert batch.stdout is not None
        return batch.stdout.read().strip()


def killed(batch: subprocess.Popen[str], after_s: float) -> bool:
    """Whether it was killed, after so many seconds of computing, before it was done."""
    begun = computed_s(batch.pid)
    until(lambda: batch.poll() is not None or computed_s(batch.pid) - begun >= after_s)
    batch.send_signal(signal.SIGKILL)
    return finish(batch) == ""


def workers_of(parent: int) -> Iterator[int]:
    """Processes that were started by another one, and do the work."""
    for process in Path("/proc").iterdir():
        try:
            said = (process / "stat").read_text()
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if int(said.rpartition(")")[2].split()[1]) == parent and b"spawn_main" in command:
            yield int(process.name)


def assert_part(store: Path, whole: Content) -> None:
    """All that can be read of a store is as in the whole one."""
    if not any(store.glob("run=*/rank=*")):
        return
    found = content(store)
    there = found["traces"].select("run", "rank")
    for name in schema.TABLES:
        expected = whole[name].join(there, ["run", "rank"], how="semi", maintain_order="left")
        assert found[name].equals(expected), name


@pytest.fixture(scope="module")
def duration_s(source: str, tmp_path_factory: pytest.TempPathFactory) -> float:
    """What a batch that is not disturbed computes, in CPU seconds."""
    batch = start(source, tmp_path_factory.mktemp("timed"))
    begun = computed_s(batch.pid)
    os.waitid(os.P_PID, batch.pid, os.WEXITED | os.WNOWAIT)  # its times can still be read
    needed = computed_s(batch.pid) - begun
    assert finish(batch) == "done"
    return needed


@pytest.mark.long
def test_one_batch_killed_again_and_again_gets_done(
    source: str, undisturbed: Content, duration_s: float, tmp_path: Path
) -> None:
    moments = random.Random(7)  # noqa: S311 - moments, no secret
    while killed(start(source, tmp_path), moments.uniform(duration_s / 4, duration_s)):
        assert_part(tmp_path, undisturbed)
    assert_same(content(tmp_path), undisturbed)


def test_two_batches_at_once_lose_nothing(
    source: str, undisturbed: Content, tmp_path: Path
) -> None:
    both = [start(source, tmp_path) for _ in range(2)]
    assert [finish(batch) for batch in both] == ["done", "done"]
    assert_same(content(tmp_path), undisturbed)
    assert not list(tmp_path.glob(".staged-*"))


@pytest.mark.long
def test_a_killed_worker_costs_nothing_but_time(
    source: str, undisturbed: Content, tmp_path: Path
) -> None:
    batch = start(source, tmp_path, processes=2)
    kills: list[int] = []

    def next_workers() -> list[int]:
        """Those that came after one that was killed, while there is work; none at the end."""
        return [worker for worker in workers_of(batch.pid) if worker not in kills]

    while batch.poll() is None and len(kills) < 2:
        until(lambda: batch.poll() is not None or any(tmp_path.glob(".tmp-*")))
        for worker in next_workers()[:1]:
            os.kill(worker, signal.SIGKILL)
            kills.append(worker)
            others = len(next_workers())
            until(lambda others=others: batch.poll() is not None or len(next_workers()) > others)  # type: ignore[misc]
    assert finish(batch) == "done"
    assert kills
    assert_same(content(tmp_path), undisturbed)


@pytest.mark.long
def test_workers_end_with_their_parent(source: str, tmp_path: Path) -> None:
    batch = start(source, tmp_path, processes=2)
    until(lambda: len([*workers_of(batch.pid)]) == 2)
    workers = [*workers_of(batch.pid)]
    assert killed(batch, 0)
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
