"""Questions of parts on processes and clusters, some of which are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.errors import PartsError, WorkerDiedError
from profframe.trace.base_trace import BaseTrace
from profframe.trace.parts import Division, Part, gathered
from tests import needs
from tests.batch.sources import write
from tests.batch.test_kill import workers_of
from tests.members import few
from tests.processes import line, python
from tests.until import computed_s, until

LONG: str = "SELECT sum(a.range * b.range) AS n FROM range(30000) AS a, range(30000) AS b"
"""Takes seconds in each part."""
LONGER: str = LONG.replace("30000", "30000000")
ASKING = """
import sys
import profframe

if __name__ == "__main__":
    trace = profframe.load(sys.argv[1])
    print("ready", flush=True)
    print(trace.sql(sys.argv[2], each="rank", on=2).height, flush=True)
"""
ENDLESS = """
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
import profframe

if __name__ == "__main__":
    query = "SELECT count(*) AS n FROM (SELECT 1 FROM events, range(1000000) a, range(1000000) b)"
    executor = eval(sys.argv[2])
    profframe.load(sys.argv[1]).sql(query, each="run", on=executor)
"""
FORKED = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import profframe

if __name__ == "__main__":
    trace = profframe.load(sys.argv[1])
    whole = trace.self_times()
    with ProcessPoolExecutor(2, get_context("fork")) as on:
        print(trace.self_times(each="run", on=on).equals(whole))
"""
RANKS = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs")
    for run in ("a", "b", "c"):
        for rank in range(2):
            write(folder / run / f"rank{rank}.json.gz", rank, f"{run}{rank}", events=9 + rank)
    profframe.convert(folder / "*" / "*.json.gz", folder / "store")
    return folder / "store"


@contextmanager
def number(workers: int) -> Iterator[int]:
    yield workers


@contextmanager
def loky() -> Iterator[Any]:
    module = needs.module("loky")
    executor = module.get_reusable_executor(2)
    yield executor
    executor.shutdown(wait=True)


@contextmanager
def dask() -> Iterator[Any]:
    distributed = needs.module("distributed")
    options = {"dashboard_address": None, "threads_per_worker": 1}
    with (
        distributed.LocalCluster(n_workers=2, processes=True, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def pool(method: str) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: ProcessPoolExecutor(2, multiprocessing.get_context(method))


EXECUTORS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "processes": lambda: number(2),
    "spawn": pool("spawn"),
    "loky": loky,
    "dask": dask,
}


@pytest.mark.parametrize("name", few(EXECUTORS, ["processes", "dask"]))
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_any_executor(name: str, store: Path) -> None:
    trace = profframe.load(store, memory_limit="500MB")
    whole = trace.self_times()
    with EXECUTORS[name]() as on:
        for each in ("rank", "run"):
            assert trace.answer("self_times", each=each, on=on).rows() == whole.rows()
        in_memory = Trace.from_tables(trace.tables)
        assert in_memory.self_times(each="run", on=on).rows() == whole.rows()
        assert trace.overview(each="rank", on=on).rows() == trace.overview().rows()


def test_forked_workers(store: Path) -> None:
    """In a process of its own: this one has threads that a fork would lack."""
    asked = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(store)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (asked.stdout, asked.returncode) == ("True\n", 0), asked.stderr


@dataclass(frozen=True)
class Poison:
    """A question that the process dies of if it is about a run."""

    run: str
    is_whole: bool = True

    def rows(self, trace: BaseTrace, part: Part | None) -> pl.DataFrame:
        del part
        runs = trace._session.rows("traces").select("run", "rank")
        if self.run in runs["run"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return runs

    def together(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat(parts)


@pytest.mark.parametrize("name", few(["processes", "spawn", "loky"], ["processes"]))
def test_the_part_that_a_worker_dies_of_is_named(name: str, store: Path) -> None:
    trace = profframe.load(store)
    with EXECUTORS[name]() as on, pytest.raises(PartsError) as raised:
        gathered(Division(trace, Poison("b"), "run", on), "poison")
    [(run, rank, error)] = raised.value.failed
    assert (run, rank, type(error)) == ("b", None, WorkerDiedError)
    assert raised.value.rows.rows() == [(run, rank) for run in "ac" for rank in range(2)]


@contextmanager
def asking(store: Path, temporary: Path, query: str = LONG) -> Iterator[subprocess.Popen[str]]:
    """A process that asks two workers, and has begun."""
    temporary.mkdir(exist_ok=True)
    with python("-c", ASKING, store, query, env={"TMPDIR": str(temporary)}) as process:
        assert line(process) == "ready\n"
        until(lambda: len([*workers_of(process.pid)]) == 2)
        yield process


@pytest.mark.parametrize(
    ("executor", "workers", "number"),
    [
        ("2", 2, signal.SIGINT),
        ("ThreadPoolExecutor(2)", 0, signal.SIGINT),
        ("ProcessPoolExecutor(2, get_context('spawn'))", 2, signal.SIGKILL),
    ],
)
def test_an_endless_question_ends_with_the_one_that_asks(
    store: Path, executor: str, workers: int, number: int
) -> None:
    with python("-c", ENDLESS, store, executor) as process:
        begun = until_computing(process.pid, workers)
        os.kill(process.pid, number)
        process.wait(timeout=20)
        until(lambda: not any(map(is_running, begun)), 20)


def until_computing(process: int, workers: int) -> list[int]:
    """The workers, once they are in the middle of their statement."""
    until(lambda: len([*workers_of(process)]) == workers)
    before = computed_s(process)
    until(lambda: computed_s(process) > before + 5)
    return [*workers_of(process)]


def is_running(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


@pytest.mark.long
def test_a_killed_workers_part_is_asked_again(store: Path, tmp_path: Path) -> None:
    with asking(store, tmp_path / "t") as process:
        before = computed_s(process.pid)
        until(lambda: computed_s(process.pid) > before + 2)
        for worker in [*workers_of(process.pid)]:
            os.kill(worker, signal.SIGKILL)
        assert line(process) == f"{RANKS}\n"
        process.wait(timeout=20)
    assert [*(tmp_path / "t").iterdir()] == []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_killed_question(number: int, store: Path, tmp_path: Path) -> None:
    with asking(store, tmp_path / "t", LONGER) as process:
        workers = [*workers_of(process.pid)]
        process.send_signal(number)
        assert line(process) == ""
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    code = "import profframe.system.drafts as drafts; drafts.clean_up()"
    environment = os.environ | {"TMPDIR": str(tmp_path / "t")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert [*(tmp_path / "t").iterdir()] == []


@pytest.mark.long
def test_a_batch_of_files_that_is_killed_leaves_whole_parts(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [
        "-m",
        "profframe",
        "answer",
        "self_times",
        str(store),
        "--each",
        "rank",
        "--workers",
        "2",
        "-o",
        str(out),
    ]
    whole = profframe.load(store).self_times()
    for seconds in (0.5, 1.0, 1.5, 2.0, 2.5):
        with python(*words) as process:
            until(lambda: process.poll() is not None or computed_s(process.pid) > seconds)  # noqa: B023
            process.kill()
            process.wait()
        for file in out.glob("part-*.parquet"):
            rows = pl.read_parquet(file)
            own = rows.select("run", "rank").unique()
            expected = whole.join(own, ["run", "rank"], how="semi", maintain_order="left")
            assert rows.rows() == expected.rows()
    subprocess.run([sys.executable, *words], check=True, stderr=subprocess.DEVNULL)
    assert sorted(file.name for file in out.iterdir()) == [
        f"part-{place:05}.parquet" for place in range(RANKS)
    ]
