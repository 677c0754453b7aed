"""A real Dask cluster on this machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe import cli
from tests import needs
from tests.batch.sources import assert_same, content, loaded, names, write
from tests.until import until

dask = needs.module("dask")
distributed = needs.module("distributed")
OPTIONS = {"dashboard_address": None, "threads_per_worker": 1}

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=2, processes=True, **OPTIONS) as cluster:
        yield cluster


def sources(folder: Path, runs: int = 4, events: int = 100) -> list[Path]:
    return [
        write(folder / f"{run}" / f"rank{rank}.json.gz", run, f"{run} {rank}", events=events)
        for run in range(runs)
        for rank in range(2)
    ]


def test_a_cluster_in_this_process(tmp_path: Path) -> None:
    paths = sources(tmp_path, runs=2)
    with distributed.Client(n_workers=2, processes=False, **OPTIONS) as client:
        executor = client.get_executor()
        first = profframe.convert(paths, tmp_path / "store", executor)
        again = profframe.convert(paths, tmp_path / "store", executor)

    assert set(first["status"]) == {"written"}
    assert set(again["status"]) == {"unchanged"}
    assert_same(content(tmp_path / "store"), loaded(paths))


def threads_of_polars() -> int:
    size: int = sys.modules["polars"].thread_pool_size()
    return size


@pytest.mark.long
def test_two_workers_by_the_command_line(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = sources(tmp_path)
    (tmp_path / "0" / "rank9.json").write_text("bad")
    arguments = ["convert", str(tmp_path / "*"), "-o", str(tmp_path / "store")]
    code = cli.run([*arguments, "--dask", cluster.scheduler_address, "--threads", "1"])

    assert code == 1
    assert "8 written, 1 failed" in capsys.readouterr().err
    assert_same(content(tmp_path / "store"), loaded(paths))
    with distributed.Client(cluster) as client:
        sizes = client.run(threads_of_polars)
    assert set(sizes.values()) == {1}


@pytest.mark.long
def test_a_killed_worker_costs_nothing_but_time(cluster: Any, tmp_path: Path) -> None:
    paths = sources(tmp_path, runs=10, events=20_000)
    store = tmp_path / "store"
    with distributed.Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Event()

        def kill() -> None:
            until(lambda: any(store.glob(".tmp-*")))
            os.kill(victim, signal.SIGKILL)
            killed.set()

        killer = threading.Thread(target=kill)
        killer.start()
        files = profframe.convert(paths, store, client.get_executor(), threads=1)
        killer.join()

    assert killed.is_set()
    assert set(files["status"]) == {"written"}
    assert_same(content(store), loaded(paths))
    assert not list(store.glob(".staged-*"))


def test_no_scheduler_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.json")
    arguments = ["convert", str(path), "-o", str(tmp_path / "store"), "--dask", "127.0.0.1:9"]
    with dask.config.set({"distributed.comm.timeouts.connect": "500ms"}):
        assert cli.run(arguments) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: 127.0.0.1:9: no Dask scheduler there")
    assert err.count("\n") == 1


def test_without_dask_the_error_has_the_pip_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    path = write(tmp_path / "a.json")
    code = cli.run(["convert", str(path), "-o", str(tmp_path / "store"), "--dask", "tcp://x:1"])
    assert code == 1
    assert "pip install 'profframe[dask]'" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_worker_shares_nothing_but_paths(tmp_path: Path) -> None:
    """What is sent and what comes back is small, however large the trace is."""
    import pickle
    from concurrent.futures import Executor, Future

    sizes = []

    class Measured(Executor):
        def submit(self, fn: Any, /, *args: Any, **_: Any) -> Future[Any]:
            future: Future[Any] = Future()
            result = fn(*args)
            sizes.append(len(pickle.dumps((fn, args))) + len(pickle.dumps(result)))
            future.set_result(result)
            return future

    path = write(tmp_path / "job" / "rank0.json", events=5000)
    profframe.convert(path, tmp_path / "store", Measured())
    assert names(tmp_path / "store") == [("job", 0, "mm")]
    assert max(sizes) < 3000
