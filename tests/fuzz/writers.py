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
from collections.abc import Callable
from pathlib import Path
from typing import Final

from profframe import load, store
from profframe.errors import NoTraceFoundError, StoreError
from profframe.store import maintenance
from tests.fuzz.children import ROOT
from tests.unit.test_store import one
from tests.until import until

WRITES: Final = 200
"""Of each writer; the others work as long as they do."""
ROLES: Final = ("writer", "writer", "writer", "compacter", "reader", "lister")
DOCUMENTED: Final = re.compile(
    r": was written again in the meantime; try again$"
    r"|: (removed or packed|written again) since the store was opened; load it again$"
)
RUNS: Final = ("a", "b")
RANKS: Final = 3
DONE: Final = "done"
"""A file beside the store: all is written."""


def case(seed: int) -> None:
    """Let them work until all is written."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        root.mkdir()
        workers = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.writers", role, str(root), str(n)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for n, role in enumerate(ROLES, 10 * seed)
        ]
        for role, worker in zip(ROLES, workers, strict=True):
            if role == "writer":
                worker.wait()
        (root.parent / DONE).touch()
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
    """Pack when there is something again, else the writers would do little but try again."""
    enough = rng.randrange(1, len(RUNS) * RANKS)
    until(lambda: _is_done(root) or len([*root.glob("run=*/rank=*")]) >= enough)
    maintenance.compact(root)


def _is_done(root: Path) -> bool:
    return (root.parent / DONE).exists()


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


def main(role: str, path: str, seed: str) -> None:
    """Do the work of a role again and again."""
    root, rng = Path(path), random.Random(int(seed))  # noqa: S311 - work, no secret
    times = refused = 0
    if role == "writer":  # all of the runs are there in the end
        for run in RUNS:
            for rank in range(RANKS):
                store.write(one(run, rank, ("first",) * 3), root)
    while times + refused < WRITES if role == "writer" else not _is_done(root):
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
