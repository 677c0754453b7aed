"""A trace of 2 GB into a store: the most memory that it takes, and whether the answers are right.

::

    python benchmarks/large.py                       # five minutes, 3 GB of disk
    python benchmarks/large.py --source GPU.json.gz  # copies of another trace
    python benchmarks/large.py --small               # does it run? 2 MB; figures mean nothing

Copies of a trace behind one another make one file of the size, which ``profframe convert`` writes
into a store with one worker of one thread, then of two. What is measured is what GNU time says: the
largest resident set of any of its processes. Counts and sums of the answers must be those of one
copy, as often as there are copies. For comparison the same is done in memory, by ``load`` and
``to_parquet``, unless ``--alone`` is given.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import profframe
from benchmarks.tiling import document, tile

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = 2_000_000_000
MB: Final = 1_000_000
ANSWERS: Final = ("self_times", "key_averages", "kernels")
_SUMS: Final = re.compile(r"calls|(?!mean_|std_|min_|max_|p\d\d_).+_(?:ns|bytes|flops)|torch_flops")
"""Columns that add up."""
_TEXTS: Final = {"name", "kind", "class", "device_type", "input_dims", "overload_name"}
"""Columns that say what is added up."""
_STEP: Final = r"ProfilerStep#\d+"
_IN_MEMORY: Final = ("import sys, profframe; profframe.load(sys.argv[1]).to_parquet(sys.argv[2])",)


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds, and bytes of the largest of it and its children."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def measured(*arguments: object) -> Cost:
    """Run Python in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *map(str, arguments)], cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments}: exit code {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    seconds = time.perf_counter() - start
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)


def made(source: Path, size: int, folder: Path) -> tuple[Path, Path, int]:
    """One copy, many copies of at least so many bytes, and how many."""
    count = len(document(source)["traceEvents"])
    part, whole = folder / "part.json", folder / "whole.json"
    tile(source, 1, part)
    copies = -(-size // part.stat().st_size)
    while True:
        tile(source, copies * count, whole)
        written = whole.stat().st_size
        if written >= size:
            return part, whole, copies
        copies = -(-copies * size // written) + 1


def sums(trace: profframe.Trace, answer: str) -> pl.DataFrame:
    """What adds up in an answer, by what it is about; all steps of the profiler have one name."""
    found: pl.DataFrame = getattr(trace, answer)()
    texts = [name for name in found.columns if name in _TEXTS]
    found = found.with_columns(pl.col(texts).str.replace(_STEP, "ProfilerStep"))
    columns = [name for name in found.columns if _SUMS.fullmatch(name)]
    return found.group_by(texts).agg(pl.col(columns).sum()).sort(texts)


def differs(whole: profframe.Trace, part: profframe.Trace, copies: int) -> list[str]:
    """Answers that are not those of the parts."""
    wrong = []
    for answer in ANSWERS:
        one, all_ = sums(part, answer), sums(whole, answer)
        numbers = [name for name, type_ in one.schema.items() if type_.is_numeric()]
        expected = one.with_columns(pl.col(numbers) * copies)
        if not expected.equals(all_):
            wrong.append(answer)
    return wrong


def main() -> None:
    """Measure, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=Path, default=ROOT / "examples" / "cpu_training.json.gz")
    parser.add_argument("--folder", type=Path, help="where there is room; else a temporary one")
    parser.add_argument("--alone", action="store_true", help="without load and to_parquet")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    size = 2 * MB if given.small else TARGET
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        part, whole, copies = made(given.source, size, folder)
        events = copies * len(document(given.source)["traceEvents"])
        print(f"{whole.stat().st_size / MB:,.0f} MB, {events:,} events, {copies:,} copies")
        print("    peak    seconds    of CPU")
        missed = False
        for threads in (1, 2):
            store = folder / f"store-{threads}"
            options = ("--workers", 1, "--threads", threads, "-o", store)
            cost = measured("-m", "profframe", "convert", whole, *options)
            verdict = "met" if cost.peak_bytes < TARGET else "MISSED"
            missed |= cost.peak_bytes >= TARGET
            show(
                cost,
                f"convert, threads: {threads}" + ("" if given.small else f"; < 2 GB {verdict}"),
            )
        if not given.alone:
            show(measured("-c", *_IN_MEMORY, whole, folder / "loaded"), "load, to_parquet")
        wrong = differs(profframe.load(folder / "store-1"), profframe.load(part), copies)
    print(f"answers: {', '.join(wrong) + ' DIFFER' if wrong else 'those of the parts'}")
    sys.exit(bool(missed or wrong))


def show(cost: Cost, what: str, verdict: str = "") -> None:
    """One line."""
    figures = f"{cost.peak_bytes / MB:6,.0f} MB {cost.seconds:8.1f} s {cost.cpu_seconds:7.1f} s"
    print(f"{figures}  {verdict:10}  {what}", flush=True)


if __name__ == "__main__":
    main()
