"""Killed while answers are kept, folded or stay without events: questions never tell anything else.

As in `tests.fuzz.kills`, the process gets the signal before its n-th change to a file of the store.
Whatever is there afterwards, `trend` says what the events say, or said before they were removed.
"""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import profframe
from profframe import store
from profframe.conversion.keep import keep
from profframe.store import maintenance
from tests.fuzz.kills import at_work
from tests.unit.test_store import one

RUNS: Final = "abcd"
WORKS: Final[Mapping[str, str]] = {
    "keep": "cli.run(['store', 'keep', STORE])",
    "free": "cli.run(['store', 'rm', STORE, 'b', 'c', '--keep-answers'])",
    "compact": "cli.run(['store', 'compact', STORE])",
    "remove": "cli.run(['store', 'rm', STORE, 'b'])",
    "fold": "import profframe.conversion.keep as k; k.fold(Path(STORE))",
    "write": "store.write(one('b', 0, ('new', 'newer', 'newest')), STORE)",
}


def case(seed: int) -> None:
    """Disturb some work, look, do other work, and look again."""
    rng = random.Random(seed)  # noqa: S311 - cases, no secret
    name = sorted(WORKS)[seed % len(WORKS)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        made(root, is_packed=rng.random() < 0.5)
        at_work(root, WORKS[name], rng.randrange(changes(name)), signal.SIGKILL)
        check(root, may_lack={"b"} if name == "remove" else set())
        again = rng.choice([name, "compact", "keep", "fold"])
        at_work(root, WORKS[again])
        check(root, may_lack={"b"} if "remove" in {name, again} else set())


def made(root: Path, *, is_packed: bool) -> None:
    """Runs of two ranks: three with kept answers in two folders, one of them stale; one without."""
    for number, run in enumerate(RUNS):
        for rank in range(2):
            store.write(one(run, rank, ("mm",) * (number + 2)), root)
    keep(root, runs=["a", "b"])
    keep(root, runs="c")
    if is_packed:
        maintenance.compact(root)
    store.write(one("a", 1, ("mm", "new")), root)


def check(root: Path, may_lack: set[str]) -> None:
    """Numbers of events are those of the events, or of all ranks that a run without them had."""
    trace = profframe.load(root)
    counts = dict(trace.sql("SELECT run, count(*) FROM events GROUP BY run").rows())
    rows = trace.trend("events")
    shown = {run: int(value) for run, value in rows["run", "value"].rows()}
    assert {*RUNS} - may_lack <= shown.keys() <= {*RUNS}
    listed = set(maintenance.contents(root)["run"])
    assert listed == shown.keys(), (listed, shown)
    expected = {run: 2 * (number + 2) for number, run in enumerate(RUNS)} | {"a": 4}
    for run, value in shown.items():
        allowed = {counts.get(run, expected[run])}
        if run in {"b", "c"} and counts.get(run, expected[run]) < expected[run]:
            allowed.add(expected[run])  # some ranks are removed already
        assert value in allowed, (run, value, allowed)
    assert maintenance.verify(root).height == 0


@cache
def changes(name: str) -> int:
    """Changes that some work makes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        made(root, is_packed=False)
        code, text = at_work(root, WORKS[name])
        assert code == 0, text
        return int(text.split()[-1])
