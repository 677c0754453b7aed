"""Cases by seed, in child processes with a time limit each.

A fuzzer is a module with a function ``case(seed)`` that raises where something is wrong. Its test
asks `fuzz` for a few hundred cases, and for thousands with ``-m long``; by hand::

    python -m tests.fuzz.children tests.fuzz.NAME --seed 7 --cases 5000

A child works through many seeds. One that dies, or that takes too long
for a case, is replaced, and the seed is a failure like one that raised.
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


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed, and what went wrong with it: the last lines of a traceback, or how its child died."""

    seed: int
    why: str


def fuzz(module: str, seeds: Iterable[int], limit_s: float = LIMIT_S) -> None:
    """Run cases of a module, and raise an error that names the seeds that failed.

    Parameters
    ----------
    module
        Dotted name of a module with a function ``case(seed)``.
    seeds
        One for each case.
    limit_s
        Seconds that a case may take.
    """
    failures = list(failed(module, seeds, limit_s))
    told = "\n".join(f"seed {failure.seed}: {failure.why}" for failure in failures[:5])
    again = f"python -m tests.fuzz.children {module} --cases 1 --seed SEED"
    assert not failures, f"{len(failures)} failed ({again})\n{told}"


def failed(
    module: str, seeds: Iterable[int], limit_s: float, workers: int = 1
) -> Iterator[Failure]:
    """Run the cases on some children at once; yields those that failed."""
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for seed in seeds:
        left.put(seed)
    with ThreadPoolExecutor(workers) as pool:
        for part in pool.map(lambda _: [*_worked_off(module, left, limit_s)], range(workers)):
            yield from part


def _worked_off(module: str, left: queue.SimpleQueue[int], limit_s: float) -> Iterator[Failure]:
    """Children one after the other, until no seed is left."""
    while (seed := _next(left)) is not None:
        with _child(module) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            said = _lines(child.stdout)
            while seed is not None:
                child.stdin.write(f"{seed}\n")
                child.stdin.flush()
                why = _wait(said, child, limit_s)
                if why is not None:
                    yield Failure(seed, why)
                if child.poll() is not None:
                    break
                seed = _next(left)
            else:
                child.stdin.close()


def _next(left: queue.SimpleQueue[int]) -> int | None:
    try:
        return left.get_nowait()
    except queue.Empty:
        return None


def _child(module: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.children", module, "--child"]
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


def _serve(module: str) -> None:
    """Be a child: run the case of each seed that comes in."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a case prints is no answer
    case = importlib.import_module(module).case
    for line in sys.stdin:
        try:
            case(int(line))
        except BaseException:  # noqa: BLE001 - a panic of polars is no Exception
            told = traceback.format_exc(limit=-6).strip().replace("\n", "\x1f")
            answers.write(f"{_WRONG}{told}\n")
        else:
            answers.write("right\n")
        answers.flush()


def main() -> None:
    """Run cases by hand, and print what failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for one case")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _serve(given.module)
        return
    seeds = range(given.seed, given.seed + given.cases)
    wrong = 0
    for failure in failed(given.module, seeds, given.limit, given.workers):
        wrong += 1
        sys.stdout.write(f"seed {failure.seed}: {failure.why}\n")
    sys.stdout.write(f"{given.module}: {given.cases:,} cases, {wrong:,} failed\n")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
