"""Questions of each rank and run by itself: equal to the whole, and how fast.

::

    python benchmarks/dividing.py equal STORE            # every answer, by rank and by run
    python benchmarks/dividing.py equal STORE --on 2     # on two processes
    python benchmarks/dividing.py speed STORE            # one process, one worker, two workers
    python benchmarks/dividing.py --small                # does it all run? figures mean nothing

Answers are asked with their default parameters, in all their forms. Advice replays at most four
runs at once, so it is compared in fours of runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import profframe  # noqa: E402
from profframe.query.catalogue import selects  # noqa: E402
from profframe.query.division import KEYS_OF  # noqa: E402
from profframe.query.header import UNITS, Answer, Unit  # noqa: E402

MEMORY_LIMIT: Final = "2GB"
EXAMPLE: Final = ROOT / "examples" / "job"
FOUR: Final = 4
ONE_THREAD: Final = {"PROFFRAME_THREADS": "1", "POLARS_MAX_THREADS": "1"}
TWO_THREADS: Final = {"PROFFRAME_THREADS": "2", "POLARS_MAX_THREADS": "2"}
SLOW: Final = (
    "modules", "python_lines", "op_kernels", "sequences", "idle", "gaps", "flame", "key_averages",
    "annotations", "stragglers",
)  # fmt: skip
"""Answers that take long."""


def units(answer: Answer) -> Iterator[Unit]:
    """By what an answer divides with its default parameters."""
    division = answer.division
    if division is not None:
        yield from (unit for unit in KEYS_OF if UNITS.index(unit) >= UNITS.index(division.unit))


def parameters(answer: Answer) -> dict[str, str]:
    """The parameter that chooses a form."""
    choice = answer.choice
    return {} if choice is None else {choice.parameter: choice.values[0]}


def compared(
    trace: Any, answer: Answer, on: int | None
) -> Iterator[tuple[Unit, int, bool, float, float]]:
    """Unit, rows, whether they are equal, seconds of the whole and of the parts."""
    name, given = answer.name.partition(".")[0], parameters(answer)
    start = time.perf_counter()
    whole = trace.answer(name, **given)
    middle = time.perf_counter()
    for unit in units(answer):
        begin = time.perf_counter()
        parts = trace.answer(name, each=unit, on=on, **given)
        seconds = time.perf_counter() - begin
        yield (
            unit,
            whole.height,
            pl.DataFrame(whole).equals(pl.DataFrame(parts)),
            middle - start,
            seconds,
        )


def traces_for(trace: Any, answer: Answer) -> Iterable[Any]:
    """The trace, or fours of its runs."""
    if answer.name != "advice":
        return [trace]
    runs = trace.traces["run"].unique().sort().to_list()
    return [trace.filter(runs=runs[place : place + FOUR]) for place in range(0, len(runs), FOUR)]


def equal(store: Path, on: int | None, names: list[str]) -> int:
    """Compare every answer; the number of those that differ."""
    trace = profframe.load(store, memory_limit=MEMORY_LIMIT)
    wrong = checks = rows = 0
    for answer in selects():
        if names and answer.name not in names:
            continue
        for part in traces_for(trace, answer):
            for unit, height, is_equal, whole, parts in compared(part, answer, on):
                checks, wrong, rows = checks + 1, wrong + (not is_equal), rows + height
                word = "equal" if is_equal else "DIFFERENT"
                seconds = f"{whole:8.2f} {parts:8.2f} s"
                print(f"{answer.name:28} {unit:5} {height:9,} rows {seconds}  {word}", flush=True)
    print(f"{checks} comparisons of {rows:,} rows in all, {wrong} different")
    return wrong


def timed(store: Path, name: str, on: str | None, threads: dict[str, str]) -> float:
    """Seconds of one answer in a process of its own, which has opened the store."""
    call = "" if on is None else f", each='run', on={on}"
    code = (
        "import time, profframe\n"
        "from profframe.workers.pool import LocalPool\n"
        "if __name__ == '__main__':\n"
        f"    trace = profframe.load({str(store)!r}, memory_limit={MEMORY_LIMIT!r})\n"
        "    start = time.perf_counter()\n"
        f"    rows = trace.answer({name!r}{call})\n"
        "    print(time.perf_counter() - start)\n"
    )
    environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def speed(store: Path, names: list[str]) -> None:
    """Seconds with one thread, with two, by one worker and by two."""
    print(f"{'answer':20} {'1 thread':>9} {'2 threads':>9} {'1 worker':>9} {'2 workers':>9}  gain")
    for name in names or SLOW:
        one = timed(store, name, None, ONE_THREAD)
        two = timed(store, name, None, TWO_THREADS)
        lone = timed(store, name, "LocalPool(1, 1)", {})
        pair = timed(store, name, "2", {})
        print(
            f"{name:20} {one:9.2f} {two:9.2f} {lone:9.2f} {pair:9.2f}  {lone / pair:.2f}",
            flush=True,
        )


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["equal", "speed"], default="equal")
    parser.add_argument("store", nargs="?", type=Path)
    parser.add_argument("--on", type=int, help="processes; default: this one")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--answer", action="append", default=[], help="only this answer")
    given = parser.parse_args()
    if not given.small:
        if given.store is None:
            parser.error("name a store")
        if given.what == "equal":
            return 1 if equal(given.store, given.on, given.answer) else 0
        speed(given.store, given.answer)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store")
        profframe.convert(EXAMPLE, store)
        wrong = equal(store, None, ["overview", "stragglers"])
        speed(store, ["overview"])
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
