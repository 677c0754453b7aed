"""Cases by seed, in child processes with a time limit each.

A fuzzer is a module with a function ``case(seed)`` that raises where something is wrong. Tests ask
`fuzz` for some cases of each, and for thousands with ``-m long``; by hand::

    python -m tests.fuzz.children tests.fuzz.NAME --seed 7 --cases 5000

A child works through many seeds, of several fuzzers if they are given. One that dies, or that
takes too long for a case, is replaced, and the seed is a failure like one that raised.
"""

from __future__ import annotations

import argparse
import importlib
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parent.parent.parent
LIMIT_S: Final = 60
_WRONG: Final = "wrong "
Cases = Iterable[tuple[str, int]]
"""Dotted names of modules with a function ``case(seed)``, and seeds."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case, and what went wrong with it: the last lines of a traceback, or how its child died."""

    module: str
    seed: int
    why: str


def fuzz(cases: Cases, limit_s: float = LIMIT_S) -> None:
    """Run cases, and raise an error that names those that failed.

    Parameters
    ----------
    cases
        Modules and seeds.
    limit_s
        Seconds that a case may take.
    """
    failures = list(failed(cases, limit_s))
    told = "\n".join(f"{one.module} --seed {one.seed}: {one.why}" for one in failures[:5])
    again = "python -m tests.fuzz.children MODULE --cases 1 --seed SEED"
    assert not failures, f"{len(failures)} failed ({again})\n{told}"


def failed(cases: Cases, limit_s: float, workers: int = 1) -> Iterator[Failure]:
    """Run the cases on some children at once; yields those that failed."""
    left: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    for case in cases:
        left.put(case)
    with ThreadPoolExecutor(workers) as pool:
        for part in pool.map(lambda _: [*_worked_off(left, limit_s)], range(workers)):
            yield from part


def _worked_off(left: queue.SimpleQueue[tuple[str, int]], limit_s: float) -> Iterator[Failure]:
    """Children one after the other, until no case is left."""
    while (case := _next(left)) is not None:
        with _child() as child:
            assert child.stdin is not None
            assert child.stdout is not None
            said = _lines(child.stdout)
            while case is not None:
                module, seed = case
                child.stdin.write(f"{module} {seed}\n")
                child.stdin.flush()
                why = _wait(said, child, limit_s)
                if why is not None:
                    yield Failure(module, seed, why)
                if child.poll() is not None:
                    break
                case = _next(left)
            else:
                child.stdin.close()


def _next(left: queue.SimpleQueue[tuple[str, int]]) -> tuple[str, int] | None:
    try:
        return left.get_nowait()
    except queue.Empty:
        return None


def _child() -> subprocess.Popen[str]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.children", "--child"]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _lines(stream: IO[str]) -> queue.SimpleQueue[str | None]:
    """Lines of a stream as they come, and None at its end."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def follow() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=follow, daemon=True).start()
    return lines


def _wait(
    said: queue.SimpleQueue[str | None], child: subprocess.Popen[str], limit_s: float
) -> str | None:
    """What is wrong with the case that the child is at; None where nothing is."""
    try:
        line = said.get(timeout=limit_s)
    except queue.Empty:
        child.kill()
        child.wait()
        return f"took more than {limit_s:g} s"
    if line is None:
        return f"the process ended with {child.wait()}"
    return line.removeprefix(_WRONG).strip().replace("\x1f", "\n") if _WRONG in line else None


def _serve() -> None:
    """Be a child: run each case that comes in."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a case prints is no answer
    for line in sys.stdin:
        module, seed = line.split()
        try:
            importlib.import_module(module).case(int(seed))
        except BaseException:  # noqa: BLE001 - a panic of polars is no Exception
            told = traceback.format_exc(limit=-6).strip().replace("\n", "\x1f")
            answers.write(f"{_WRONG}{told}\n")
        else:
            answers.write("right\n")
        answers.flush()


def main() -> None:
    """Run cases by hand, and print what failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module", nargs="?")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for one case")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _serve()
        return
    if given.module is None:
        parser.error("which module? tests.fuzz.NAME")
    cases = ((given.module, given.seed + number) for number in range(given.cases))
    wrong = 0
    for failure in failed(cases, given.limit, given.workers):
        wrong += 1
        sys.stdout.write(f"seed {failure.seed}: {failure.why}\n")
    sys.stdout.write(f"{given.module}: {given.cases:,} cases, {wrong:,} failed\n")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
