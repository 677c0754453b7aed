"""Killed and interrupted at any moment: what is left goes with the next command.

A case is a verb that is killed, or interrupted as by Ctrl-C, and run again. An interrupted one ends
soon and by itself, with 130 and at most one line; after either there is nothing beside what it was
to write, nothing in the folder for temporary files, and a store is sound. Figures of many::

    python -m tests.fuzz.endings --cases 200
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from profframe import cli, load
from profframe.cli.messages import INTERRUPTED
from profframe.store import maintenance
from tests.batch.test_joining import job
from tests.places import ROOT
from tests.until import computed_s, until

LIMIT_S: Final = 60
"""Against a hang."""
MOST_S: Final = 2.0
"""CPU seconds of all its processes after an interrupt: two seconds are promised, of a machine that
does nothing else."""
BAD: Final = ("Traceback", "internal:", "panicked", "nanobind", "Exception")
_BEGINNING: Final = """
import os, pathlib, signal, sys
from profframe import cli, load
signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # as long as nothing has begun
begun = sys.argv.pop(1)
if sys.argv[1] == "cached":
    cli.verbs.main = lambda *_, **__: load(sys.argv[2], cache=sys.argv[3]).events.height * 0
pathlib.Path(begun).touch()
cli.main()
"""
_EXAMPLES: Final = ROOT / "examples"
_RANKS: Final = str(_EXAMPLES / "job")
_TRACE: Final = str(_EXAMPLES / "gpu_training.json.gz")

WORKS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "convert": ("convert", _RANKS, "{job}", "-o", "{place}/store", "--workers", "2"),
        "report": ("report", _TRACE, "-o", "{place}/page.html"),
        "what-if": ("what-if", _RANKS, "--no-stragglers", "-o", "{place}/rows.csv"),
        "blame": ("blame", _RANKS, "-o", "{place}/rows.parquet"),
        "ask": ("ask", _TRACE),
        "cache": ("cached", _TRACE, "{place}/cache"),
        "compact": ("store", "compact", "{place}/store"),
    }
)
"""What is killed and interrupted."""

_CALLS: Final = "".join(
    json.dumps({"jsonrpc": "2.0", **call}) + "\n"
    for call in (
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "advice", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "sql", "arguments": {
            "query": "SELECT count(*) FROM events a, events b, events c WHERE hash(a.start_ns "
            "+ b.event_id + c.dur_ns) % 7 = 0"}}},
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended, and after how many seconds since its signal; ``cpu_s`` it computed."""

    work: str
    by: signal.Signals
    code: int
    seconds: float
    cpu_s: float


def case(seed: int) -> None:
    """End a verb, look, and run it again."""
    ended(seed)


def ended(seed: int) -> Ending:
    """How it ended; raises an error where it left something, or said too much."""
    chance = random.Random(seed)  # noqa: S311 - moments, no secret
    name = [*WORKS][seed // 2 % len(WORKS)]
    by = (signal.SIGKILL, signal.SIGINT)[seed % 2]
    with tempfile.TemporaryDirectory(dir=_ground()) as folder:
        place = Path(folder)
        _prepare(name, place)
        with _running(name, place) as child:
            if name == "ask":
                assert child.stdin is not None
                child.stdin.write(_CALLS.encode())
                child.stdin.flush()
            moment = chance.uniform(0, _duration_s(name))
            until(lambda: child.poll() is not None or computed_s(child.pid) > moment)
            begun, computed = time.monotonic(), computed_s(child.pid)
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(child.pid, by) if by == signal.SIGINT else child.kill()
            ended_with = partial(
                os.waitid, os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG
            )
            until(lambda: child.returncode is not None or ended_with() is not None, LIMIT_S)
            seconds, cpu_s = time.monotonic() - begun, computed_s(child.pid) - computed
            ending = Ending(name, by, child.wait(), seconds, cpu_s)
        what = f"{ending}, after {moment:.2f} s of computing"
        told = (place / "log").read_text()
        _check_end(ending, told, f"{what}: {told}")
        until(lambda: not _is_there(child.pid), LIMIT_S)
        with _running(name, place) as again:
            again.communicate(timeout=LIMIT_S)
            told = (place / "log").read_text()
            assert again.returncode == 0, f"{what}, then {again.returncode}: {told}"
        _check_left(place, what)
    return ending


def _check_end(ending: Ending, told: str, what: str) -> None:
    if ending.by == signal.SIGKILL:
        assert ending.code in {0, -signal.SIGKILL}, what
        return
    assert ending.code in {0, INTERRUPTED}, what
    assert ending.code == 0 or ending.cpu_s <= MOST_S, what
    assert not any(word in told for word in BAD), what
    assert len(told.splitlines()) <= 1, what


def _check_left(place: Path, what: str) -> None:
    """Raise an error for what is there but is no result, and for a store that is not sound."""
    results = {"store", "page.html", "rows.csv", "rows.parquet", "cache", "tmp", "log", "begun"}
    assert {path.name for path in place.iterdir()} <= results, (what, [*place.iterdir()])
    left = [
        path.relative_to(place)
        for folder in ("store", "cache", "tmp")
        for path in (place / folder).glob("*")
        if folder == "tmp" or (path.name.startswith(".") and path.name != ".lock")
    ]
    assert left == [], what
    for store in (place / "store", *place.glob("cache/store-*")):
        if store.exists():
            assert maintenance.verify(store).rows() == [], what


def _prepare(name: str, place: Path) -> None:
    (place / "tmp").mkdir()
    if name == "compact":
        load(_ground() / "store").to_parquet(place / "store")


@contextmanager
def _running(name: str, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The verb in a process, from the moment on at which it has imported what it is written in."""
    (place / "begun").unlink(missing_ok=True)
    words = [word.format(place=place, job=_ground() / "job") for word in WORKS[name]]
    command = [sys.executable, "-c", _BEGINNING, str(place / "begun"), *words]
    environment = {**os.environ, "TMPDIR": str(place / "tmp")}
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log,
            env=environment, start_new_session=True,
        ) as child,
    ):  # fmt: skip
        try:
            until(lambda: (place / "begun").exists() or child.poll() is not None)
            yield child
        finally:
            child.kill()


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@cache
def _ground() -> Path:
    """A folder with the files of a job, and a store of ranks."""
    folder = Path(tempfile.mkdtemp(prefix="profframe-fuzz-"))
    job(folder / "job")
    assert cli.run(["convert", _RANKS, "-o", str(folder / "store")]) == 0
    return folder


@cache
def _duration_s(name: str) -> float:
    """CPU seconds that it takes where nobody disturbs it; a server has enough to do."""
    if name == "ask":
        return 4.0
    with tempfile.TemporaryDirectory(dir=_ground()) as folder:
        _prepare(name, Path(folder))
        with _running(name, Path(folder)) as child:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # its times can still be read
            return computed_s(child.pid)


def _ending_or_failure(seed: int) -> Ending | str:
    try:
        return ended(seed)
    except AssertionError as error:
        return f"seed {seed}: {error}"


def _figures(cases: range, workers: int) -> Iterator[str]:
    """A line for each verb and signal: how it ended, and the longest time."""
    for name in WORKS:
        _duration_s(name)
    with ThreadPoolExecutor(workers) as pool:
        results = [*pool.map(_ending_or_failure, cases)]
    endings = [result for result in results if isinstance(result, Ending)]
    yield from (result for result in results if isinstance(result, str))
    for name in WORKS:
        for by in (signal.SIGKILL, signal.SIGINT):
            own = [ending for ending in endings if (ending.work, ending.by) == (name, by)]
            codes = sorted({e.code for e in own})
            counts = ", ".join(f"{code}: {sum(e.code == code for e in own)}" for code in codes)
            longest = max((e.seconds for e in own), default=0)
            yield f"{name:8} {by.name}: {len(own)} cases ({counts}), longest {longest:.2f} s"


def main() -> None:
    """End verbs, and print figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=28)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    for line in _figures(range(given.seed, given.seed + given.cases), given.workers):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
