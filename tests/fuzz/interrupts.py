"""Ctrl-C at any moment of any verb: it ends soon, with 130 or as it would have, and tells nothing.

Its worker processes end with it, and what it was writing is whole or not there.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from profframe import cli, load
from profframe.cli.messages import INTERRUPTED
from tests.until import computed_s, until

EVENTS: Final = 60_000
MOST_DELAY_S: Final = 2.5
LIMIT_S: Final = 15
"""Seconds until the end: two are promised, of a machine that does nothing else."""

ENDLESS: Final = (
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
)
HEAVY: Final = "SELECT count(*) FROM events a, events b WHERE hash(a.start_ns + b.event_id) % 7 = 0"
BAD: Final = ("Traceback", "internal:", "panicked", "nanobind")
BEGINNING: Final = "from profframe import cli; print('begun', flush=True); cli.main()"

VERBS: Final = (
    ("show", "{trace}"),
    ("info", "{trace}"),
    ("show", "{store}"),
    ("sql", "{store}", ENDLESS),
    ("sql", "{trace}", HEAVY, "-o", "{out}.csv"),
    ("sql", "{store}", "FROM events", "-o", "{out}.parquet"),
    ("answer", "kernels", "{store}"),
    ("advice", "{trace}"),
    ("report", "{store}", "-o", "{out}.html"),
    ("convert", "{trace}", "{trace}", "-o", "{out}", "--workers", "2"),
    ("diff", "{trace}", "{store}"),
    ("store", "compact", "{copy}"),
)


@cache
def _ground() -> Path:
    """A folder with a trace that takes a while to load, and a store of it."""
    folder = Path(tempfile.mkdtemp(prefix="profframe-fuzz-"))
    names = ("aten::mm", "aten::add", "Optimizer.step#Adam.step", "ProfilerStep#1")
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": names[n % 4],
            "pid": 1,
            "tid": n % 3,
            "ts": n,
            "dur": 1,
        }
        for n in range(EVENTS)
    ]
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}))
    assert cli.run(["convert", str(folder / "trace.json"), "-o", str(folder / "store")]) == 0
    return folder


def _words(verb: tuple[str, ...], folder: Path, out: Path) -> list[str]:
    copy = out.with_name("copy")
    if "{copy}" in verb:
        load(folder / "store").to_parquet(copy)
    places = {"trace": folder / "trace.json", "store": folder / "store", "out": out, "copy": copy}
    return [word.format(**places) if word.startswith("{") else word for word in verb]


def case(seed: int) -> None:
    """Interrupt a verb."""
    chance = random.Random(seed)  # noqa: S311
    folder, verb = _ground(), chance.choice(VERBS)
    delay_s = chance.uniform(0, MOST_DELAY_S)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        out = Path(place, "out")
        words = _words(verb, folder, out)
        child = subprocess.Popen(
            [sys.executable, "-c", BEGINNING, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        moment = computed_s(child.pid) + delay_s
        until(lambda: child.poll() is not None or computed_s(child.pid) > moment)
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(child.pid, signal.SIGINT)
        try:
            _, error = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
        what = f"{' '.join(words)}, after {delay_s:.2f} s of computing"
        told = f"{what}: ended with {child.returncode}: {error}"
        assert child.returncode in {0, INTERRUPTED}, told
        assert not any(word in error for word in BAD), told
        assert _has_ended(child.pid), f"{what}: left processes behind"
        _check_written(Path(place), what)


def _has_ended(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        until(lambda: not _is_there(group), LIMIT_S)
    except AssertionError:
        return False
    return True


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _check_written(place: Path, what: str) -> None:
    """Raise an error where half of a file or store is found."""
    for path in place.iterdir():
        if path.suffix == ".html":
            assert path.read_text().rstrip().endswith("</html>"), f"{what}: half a page"
        elif path.suffix == ".parquet":
            assert cli.run(["sql", str(place.parent / "store"), f"FROM '{path}' LIMIT 1",
                            "--files", str(place)]) == 0, f"{what}: half a file"  # fmt: skip
        elif path.is_dir() and any(path.glob("run=*")):
            assert load(path).events.height % EVENTS == 0, f"{what}: half a store"
