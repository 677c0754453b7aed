"""A child of a fork works, or says at once that it was to be spawned."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

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
for does in {children!r}:
    print("child:")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            exec(does)
        except profframe.ProfframeError as error:
            print(error)
        except BaseException:
            traceback.print_exc()
        else:
            print("works")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


def told(*children: str, is_used: bool = True) -> list[str]:
    """What each child says that runs one of these after a fork of the same process."""
    path = str(Path("examples/gpu_training.json.gz").absolute())
    code = SCRIPT.format(path=path, is_used=is_used, children=children)
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.split("child:\n")[1:]


def test_a_child_of_a_process_that_has_loaded_says_to_spawn() -> None:
    children = (
        "profframe.load(path)",
        "trace.self_times()",
        "trace.events",
        "trace.sql('SELECT 1')",
        *["profframe.trace_handler('store')(None)"] * (find_spec("torch") is not None),
    )
    said = dict(zip(children, told(*children), strict=True))
    spawn = "multiprocessing.get_context('spawn')"
    assert {child: words for child, words in said.items() if spawn not in words} == {}


def test_a_child_of_a_process_that_has_only_imported_works() -> None:
    assert told("assert profframe.load(path).self_times().height > 5", is_used=False) == ["works\n"]
