"""Three writers, a compacter and two readers at one store, each in a process of its own.

Whatever one of them says but what is documented is wrong, and in the end every run is there, each
as one of them has written it.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from profframe import load, store
from profframe.errors import NoTraceFoundError, StoreError
from profframe.store import maintenance
from tests.fuzz.children import ROOT
from tests.unit.test_store import one

SHORT_S: Final = 4
LONG_S: Final = 60
ROLES: Final = ("writer", "writer", "writer", "compacter", "reader", "lister")
DOCUMENTED: Final = re.compile(
    r": was written again in the meantime; try again$"
    r"|: (removed or packed|written again) since the store was opened; load it again$"
)
RUNS: Final = ("a", "b")
RANKS: Final = 3


def case(seed: int) -> None:
    """Let them work for a while; longer for each seed but the first."""
    seconds = SHORT_S if seed == 0 else LONG_S
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        root.mkdir()
        workers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.writers", role, str(root), str(seconds), str(n)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for n, role in enumerate(ROLES, 10 * seed)
        ]
        said = [worker.communicate()[0].strip().splitlines() for worker in workers]
        for role, worker, lines in zip(ROLES, workers, said, strict=True):
            assert worker.returncode == 0, (role, lines)
            assert lines[-1].startswith("done "), (role, lines)
        _check_whole(root)
        assert maintenance.verify(root).height == 0
        assert [path.name for path in root.rglob(".*") if path.name != ".lock"] == []


def _check_whole(root: Path) -> None:
    query = "SELECT run, rank, count(*), count(DISTINCT name) FROM events GROUP BY ALL ORDER BY ALL"
    assert load(root).sql(query).rows() == [(r, n, 3, 1) for r in RUNS for n in range(RANKS)]


def _write(root: Path, rng: random.Random) -> None:
    name = f"{rng.random()}"
    store.write(one(rng.choice(RUNS), rng.randrange(RANKS), (name,) * 3), root)


def _pack(root: Path, rng: random.Random) -> None:
    time.sleep(rng.random() / 20)
    maintenance.compact(root)


def _read(root: Path, _: random.Random) -> None:
    trace = load(root)
    keys = set(trace.traces.select("run", "rank").rows())
    names = trace.events.select("run", "rank", "name").unique()
    assert names.select("run", "rank").is_unique().all(), names
    asked = trace.sql("SELECT DISTINCT run, rank FROM events").rows()
    assert keys == set(names.select("run", "rank").rows()) == set(asked)
    assert trace.tables["traces"].num_rows == len(keys)


def _list(root: Path, _: random.Random) -> None:
    found = maintenance.contents(root)
    assert found.select("run", "rank").is_unique().all(), found
    assert set(found["events"]) == {3}
    problems = maintenance.verify(root)
    assert problems.height == 0, problems.rows()


WORKS: Final[dict[str, Callable[[Path, random.Random], None]]] = {
    "writer": _write,
    "compacter": _pack,
    "reader": _read,
    "lister": _list,
}


def main(role: str, path: str, seconds: str, seed: str) -> None:
    """Do the work of a role again and again."""
    root, rng = Path(path), random.Random(int(seed))  # noqa: S311 - work, no secret
    until = time.monotonic() + float(seconds)
    times = refused = 0
    if role == "writer":  # all of the runs are there in the end
        for run in RUNS:
            for rank in range(RANKS):
                store.write(one(run, rank, ("first",) * 3), root)
    while time.monotonic() < until:
        was_there = store.is_store(root)
        try:
            WORKS[role](root, rng)
        except (NoTraceFoundError, StoreError) as error:
            if was_there and not DOCUMENTED.search(str(error)):
                raise
            refused += 1
        else:
            times += 1
    sys.stdout.write(f"done {times} times, refused {refused} times\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
