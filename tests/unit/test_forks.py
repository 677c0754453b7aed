"""A child of a fork works, or says at once that it was to be spawned; each case in a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

pytestmark = needs.fork

SCRIPT = """
import os, sys, traceback, warnings
warnings.simplefilter("ignore")
import profframe
import polars as pl

path = {path!r}
trace = None
if {is_used}:
    trace = profframe.load(path)
    assert pl.DataFrame({{"a": range(9)}}).lazy().select(pl.col("a").sum()).collect().item() == 36
sys.stdout.flush()
child = os.fork()
if child == 0:
    try:
        {child}
    except profframe.ProfframeError as error:
        print(error)
    except BaseException:
        traceback.print_exc()
    else:
        print("works")
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
"""


def told(child: str, *, is_used: bool = True) -> str:
    """What a child says that runs this after the fork."""
    path = str(Path("examples/gpu_training.json.gz").absolute())
    code = SCRIPT.format(path=path, is_used=is_used, child=child)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "child",
    [
        pytest.param("profframe.load(path)", id="load"),
        pytest.param("trace.self_times()", id="question"),
        pytest.param("trace.events", id="rows"),
        pytest.param("trace.sql('SELECT 1')", id="sql"),
        pytest.param("profframe.trace_handler('store')(None)", id="handler"),
    ],
)
def test_a_child_of_a_process_that_has_loaded_says_to_spawn(child: str) -> None:
    assert "multiprocessing.get_context('spawn')" in told(child)


def test_a_child_of_a_process_that_has_only_imported_works() -> None:
    assert told("assert profframe.load(path).self_times().height > 5", is_used=False) == "works\n"
