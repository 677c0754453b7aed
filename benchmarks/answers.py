"""What every answer costs, against loading the trace that it is asked of.

::

    python benchmarks/answers.py           # about five minutes
    python benchmarks/answers.py --small   # does it all run? figures mean nothing

Real GPU traces are tiled to a million events. Each is loaded in a process of its own, and every
answer is asked there several times, with its defaults; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.places import TRACES  # noqa: E402

SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "training with collectives": "facebookresearch__HolisticTraceAnalysis/nccl_data.json.gz",
        "training with memory": "facebookresearch__HolisticTraceAnalysis/df_index_resolver.json.gz",
        "inference with graphs": "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    }
)
ANSWER_LIMIT: Final = 0.15
"""Of the time that loading takes."""
LIMITS: Final[Mapping[str, float]] = MappingProxyType({"critical_path": 1.0, "advice": 0.3})
"""Of what is more than one answer: `advice` asks all rules."""


@dataclass(frozen=True)
class Sizes:
    """Events of a tiled trace, repetitions, how many of the sources."""

    events: int
    rounds: int
    sources: int


FULL: Final = Sizes(events=1_000_000, rounds=5, sources=len(SOURCES))
SMALL: Final = Sizes(events=3_000, rounds=1, sources=1)


def median_seconds(work: Callable[[], object], rounds: int) -> float:
    """Median time of the work; what it gives is kept while the clock runs."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        kept = work()
        found.append(time.perf_counter() - start)
        del kept
    return statistics.median(found)


def measure(path: Path, rounds: int) -> dict[str, float]:
    """Seconds of loading, of every answer, and of the critical path of a step."""
    import profframe
    from profframe.query.catalogue import selects

    seconds = {"load": median_seconds(lambda: profframe.load(path), min(rounds, 3))}
    trace = profframe.load(path)
    for answer in selects():
        seconds[answer.name] = median_seconds(lambda: trace.answer(answer.name), rounds)  # noqa: B023
    steps = trace.step_times()["step"].drop_nulls()
    step = steps[len(steps) // 2] if len(steps) else None
    seconds["critical_path"] = median_seconds(lambda: trace.critical_path(step=step), rounds)
    return seconds


def in_own_process(path: Path, rounds: int) -> dict[str, float]:
    """The same, in a process that nothing else has warmed."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.answers",
        "--measure",
        str(path),
        "-n",
        str(rounds),
    ]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(printed.stdout.splitlines()[-1])
    return found


def tiled(source: str, events: int, cache: Path) -> Path:
    """The trace, repeated; made the first time."""
    path = cache / f"{Path(source).name.removesuffix('.json.gz')}-{events}.json"
    if not path.exists():
        module = [sys.executable, "-m", "benchmarks.tiling"]
        subprocess.run([*module, TRACES / source, str(events), path], check=True, cwd=ROOT)
    return path


def lines(name: str, path: Path, sizes: Sizes, *, judged: bool) -> Iterator[str]:
    """The result as text."""
    seconds = in_own_process(path, sizes.rounds)
    load = seconds.pop("load")
    yield f"\n{name}: {path.stat().st_size / 1e6:.0f} MB, load {load:.2f} s"
    for answer, taken in sorted(seconds.items(), key=lambda item: -item[1]):
        limit = LIMITS.get(answer, ANSWER_LIMIT)
        verdict = f"<= {limit}x {'met' if taken <= limit * load else 'MISSED'}" if judged else ""
        yield f"{taken / load:8.3f}x  {1000 * taken:7.0f} ms  {verdict:15}  {answer}"


def main() -> None:
    """Print the result of each trace as soon as it is there."""
    parser = argparse.ArgumentParser(description="Benchmark of the answers.")
    parser.add_argument("--small", action="store_true", help="tiny traces, no targets")
    parser.add_argument("-n", type=int, help="repetitions of each measurement (default 5)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    default = Path(tempfile.gettempdir()) / "profframe-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="folder of tiled traces")
    arguments = parser.parse_args()
    sizes = SMALL if arguments.small else FULL
    sizes = replace(sizes, rounds=arguments.n or sizes.rounds)
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, sizes.rounds)))
        return
    print(f"medians of {sizes.rounds} on {os.cpu_count()} cores, as a part of loading the trace")
    for name, source in islice(SOURCES.items(), sizes.sources):
        if not (TRACES / source).is_file():
            print(f"no {name}: PROFFRAME_TRACES has no {source} ({TRACES})")
            continue
        path = tiled(source, sizes.events, arguments.cache)
        for line in lines(name, path, sizes, judged=not arguments.small):
            print(line, flush=True)


if __name__ == "__main__":
    main()
