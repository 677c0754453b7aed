"""Processes of this machine: what they may do, and what one of them can break."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe.errors import SourceError
from profframe.workers.pool import LocalPool
from tests.batch.sources import names, write
from tests.members import few
from tests.until import until

SCRIPT = """
import sys
import profframe

files = profframe.convert(sys.argv[1], sys.argv[2], workers=2, threads=1)
print(files["status"].to_list())
"""


def test_the_libraries_of_a_worker_have_its_threads() -> None:
    with LocalPool(1, 1) as pool:
        assert pool.submit(eval, "__import__('polars').thread_pool_size()").result() == 1
        assert pool.submit(eval, "__import__('pyarrow').cpu_count()").result() == 1


def test_a_worker_that_dies_twice_with_a_task_fails_it_and_no_other() -> None:
    with LocalPool(2, 1) as pool:
        dying = pool.submit(os._exit, 7)
        sound = [pool.submit(divmod, number, 3) for number in range(9)]
        assert [future.result() for future in sound] == [divmod(n, 3) for n in range(9)]
        with pytest.raises(SourceError, match="died"):
            dying.result()


def test_an_error_comes_back_and_the_worker_lives_on() -> None:
    with LocalPool(1, 1) as pool:
        process = pool.submit(os.getpid).result()
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
        assert pool.submit(os.getpid).result() == process != os.getpid()


def test_a_pool_that_is_stopped_ends_at_once() -> None:
    pool = LocalPool(1, 1)
    pool.submit(os.getpid).result()
    hanging = pool.submit(eval, "__import__('threading').Event().wait()")
    waiting = pool.submit(os.getpid)
    until(hanging.running)
    pool.shutdown(cancel_futures=True)
    assert waiting.cancelled() or waiting.exception() is not None
    assert isinstance(hanging.exception(), SourceError)


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.json")
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", "*.json", "store"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("['written', 'written']\n", "")


@pytest.mark.parametrize("method", few(["fork", "spawn"], 1))
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_pool_of_processes_of_the_user(method: str, tmp_path: Path) -> None:
    """Also one of forked processes, from one in which polars has threads already."""
    assert pl.DataFrame({"a": range(9)}).lazy().select(pl.col("a").sum()).collect().item() == 36
    paths = [write(tmp_path / folder / "a.json", name=folder) for folder in ("x", "y")]
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, context) as executor:
        files = profframe.convert(paths, tmp_path / "store", executor)
    assert files["status"].to_list() == ["written", "written"]
    assert names(tmp_path / "store") == [("a", 0, "x"), ("a.1", 0, "y")]
