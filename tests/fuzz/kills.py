"""Killed and interrupted at any change to a file: a store is whole, and a rerun completes it.

The work is done in a process of its own, which gets the signal before its n-th rename, removal,
opening of a file or making of a folder in the store.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import profframe
from profframe import store
from profframe.store import maintenance
from tests.batch import sources
from tests.batch.sources import Content, assert_same, content
from tests.unit.test_store import one

AT_WORK: Final = """
import os, signal, sys
sys.path[:0] = {path!r}
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import profframe
from profframe import cli, load, store
from profframe.store import maintenance
import profframe.store.layout, polars, pyarrow.parquet
import profframe.conversion.worker, profframe.loaders.load
from tests.unit.test_store import one

STORE = {store!r}
events = iter(range(10**9))
def hook(event, arguments):
    if event in ("os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "open", "os.mkdir"):
        if any(STORE in str(a) for a in arguments) and next(events) == {moment}:
            os.kill(os.getpid(), {signal})

sys.addaudithook(hook)
{work}
print(next(events))
"""


def at_work(
    path: Path, work: str, moment: int = -1, by: signal.Signals = signal.SIGKILL
) -> tuple[int, str]:
    """Exit code of some work on a store in another process, signalled at a change; what it said."""
    code = AT_WORK.format(path=sys.path, store=str(path), moment=moment, work=work, signal=int(by))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    allowed = {0, -by} if by == signal.SIGKILL else {0, -by, 130}
    assert done.returncode in allowed, done.stderr
    return done.returncode, done.stdout


@dataclass(frozen=True, slots=True)
class Work:
    """What is done to a store, as code of another process, and how it is done again."""

    code: str
    again: Callable[[Path], object]


def _write(root: Path) -> None:
    for rank in range(2):
        store.write(one("a", rank, ("new",)), root)


def _convert(root: Path) -> None:
    with ThreadPoolExecutor(2) as executor:
        files = profframe.convert(str(_sources()), root, executor)
    assert set(files["status"]) <= {"written", "unchanged"}
    assert not list(root.glob(".staged-*"))


WORKS: Final = {
    "compact": Work("sys.exit(cli.run(['store', 'compact', STORE]))", maintenance.compact),
    "remove": Work(
        "sys.exit(cli.run(['store', 'rm', STORE, 'b']))",
        lambda root: maintenance.remove(root, "b") if "b" in _runs(root) else None,
    ),
    "write": Work(
        "for rank in range(2): store.write(one('a', rank, ('new',)), STORE)",
        _write,
    ),
    "convert": Work(
        "with ThreadPoolExecutor(2) as threads: profframe.convert({sources!r}, STORE, threads)",
        _convert,
    ),
}


def case(seed: int) -> None:
    """Disturb some work, look, and do it again."""
    rng = random.Random(seed)  # noqa: S311 - cases, no secret
    name = sorted(WORKS)[seed % len(WORKS)]
    work = WORKS[name]
    by = signal.SIGINT if rng.random() < 0.4 else signal.SIGKILL
    changes, whole = _undisturbed(name)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        before = _made(root)
        at_work(root, _code(work), rng.randrange(changes), by)
        _check_part(content(root), before, whole)
        assert maintenance.verify(root).height == 0
        work.again(root)
        assert_same(content(root), whole)


def _check_part(found: Content, before: Content, whole: Content) -> None:
    """Every trace is as it was, or as it is to be, in all tables; none is lost on the way."""
    for run, rank in _keys(before) | _keys(whole):
        states = [_of(content, run, rank) for content in (before, whole)]
        now = _of(found, run, rank)
        assert any(all(now[name].equals(state[name]) for name in now) for state in states), (
            run,
            rank,
        )


def _keys(state: Content) -> set[tuple[str, int]]:
    return set(state["traces"].select("run", "rank").rows())


def _of(state: Content, run: str, rank: int) -> Content:
    return {name: rows.filter(run=run, rank=rank) for name, rows in state.items()}


def _runs(root: Path) -> set[str]:
    return set(profframe.load(root).traces["run"])


def _made(root: Path) -> Content:
    """A store with a pack, a part of which has been written again, and folders."""
    for run in "ab":
        for rank in range(2):
            store.write(one(run, rank, ("mm", f"{run} {rank}")), root)
    maintenance.compact(root)
    for run in "bc":
        for rank in range(2):
            store.write(one(run, rank, ("new", f"{run} {rank}")), root)
    return content(root)


@cache
def _sources() -> Path:
    """Two runs, and one of two cycles: a glob."""
    folder = Path(tempfile.mkdtemp(prefix="profframe-fuzz-"))
    for run in ("x", "y"):
        sources.write(folder / run / "rank0.json.gz", 0, run)
    for start in (2, 1):
        sources.write(folder / "cycles" / f"{10 - start}.json", start, f"cycle {start}", 0)
    return folder / "**" / "*.json*"


def _code(work: Work) -> str:
    return work.code.replace("{sources!r}", repr(str(_sources())))


@cache
def _undisturbed(name: str) -> tuple[int, Content]:
    """Changes that some work makes, and what is there in the end."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        _made(root)
        code, said = at_work(root, _code(WORKS[name]).replace("sys.exit", ""))
        assert code == 0, said
        return int(said.split()[-1]), content(root)
