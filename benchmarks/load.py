"""What loading and asking costs, against other ways to the same numbers.

::

    python benchmarks/load.py           # about ten minutes; captures 1.4 GB of traces once
    python benchmarks/load.py --small   # does it all run? 1 MB, figures mean nothing

Every measurement is a process of its own. The measurements of a section take turns, so that
a busy moment of the machine hits all of them; figures are medians.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.places import TRACES  # noqa: E402

GPU_TRACE: Final = "facebookresearch__HolisticTraceAnalysis/df_index_resolver.json.gz"
MB: Final = 1_000_000


@dataclass(frozen=True)
class Sizes:
    """Megabytes of the traces, steps of the live profile, slices to nest, repetitions.

    ``gpu`` is whether the GPU trace is there, which has one size.
    """

    cpu: int
    gpu: bool
    growth: tuple[int, ...]
    live_steps: int
    slices: int
    rounds: int


FULL: Final = Sizes(
    cpu=300, gpu=True, growth=(50, 300, 1000), live_steps=80, slices=1_000_000, rounds=5
)
SMALL: Final = Sizes(cpu=1, gpu=False, growth=(1, 2), live_steps=2, slices=20_000, rounds=1)


@dataclass(frozen=True)
class Row:
    """One line of the result; ``target`` is an upper bound, of a speed-up a lower one."""

    what: str
    ours: str
    against: str
    figure: float
    target: float
    speed_up: bool = False

    @property
    def met(self) -> bool:
        """The figure keeps to its target."""
        return self.figure >= self.target if self.speed_up else self.figure <= self.target


def python(module: str, *arguments: object) -> str:
    """What a module prints, run from the repository's root."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(
        command, check=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def measure(name: str, path: Path) -> dict[str, float]:
    """One measurement in a process of its own."""
    result: dict[str, float] = json.loads(python("benchmarks.measure", name, path).splitlines()[-1])
    return result


def in_turns(jobs: Mapping[str, tuple[str, Path]], rounds: int) -> dict[str, dict[str, float]]:
    """Medians of measurements that take turns."""
    found: dict[str, list[dict[str, float]]] = {job: [] for job in jobs}
    for _ in range(rounds):
        for job, (name, path) in jobs.items():
            found[job].append(measure(name, path))
    return {
        job: {key: statistics.median(one[key] for one in all_of_it) for key in all_of_it[0]}
        for job, all_of_it in found.items()
    }


def made(path: Path, make: Callable[[Path], None]) -> Path:
    """The path of a cached file, made the first time."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    return path


def training_trace(cache: Path, megabytes: int) -> Path:
    """A real CPU training trace of about this size."""
    return made(
        cache / f"training-{megabytes}.json",
        lambda path: print(end=python("benchmarks.capture", megabytes, path)),
    )


def gpu_trace(cache: Path) -> Path | None:
    """The GPU trace, decompressed, or None where there is no folder of real traces."""

    def decompress(path: Path) -> None:
        with gzip.open(TRACES / GPU_TRACE) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)

    there = (TRACES / GPU_TRACE).is_file()
    return made(cache / "gpu.json", decompress) if there else None


def label(kind: str, path: Path) -> str:
    """What trace it is: kind, size, slices."""
    events = measure("count", path)["events"]
    return f"{kind} trace, {path.stat().st_size / MB:.0f} MB, {events / 1000:.0f}k slices"


def parsers(kind: str, path: Path, rounds: int, targets: tuple[float, float]) -> Iterator[Row]:
    """Loading and self times against parsing the same text into Python objects."""
    names = ("self_times", "orjson_loads", "json_load")
    found = in_turns({name: (name, path) for name in names}, rounds)
    ours = found["self_times"]["seconds"]
    for name, target in zip(names[1:], targets, strict=True):
        theirs = found[name]["seconds"]
        what = f"{label(kind, path)}: load + self_times / {name.replace('_', '.')}"
        yield Row(what, f"{ours:.2f} s", f"{theirs:.2f} s", ours / theirs, target)


def live(cache: Path, steps: int, rounds: int) -> Iterator[Row]:
    """Torch's events and key averages against loading the same profile from its file."""
    path = cache / f"live-{steps}.json"
    turns = {"theirs": ("torch_key_averages", path), "ours": ("key_averages", path)}
    found = in_turns(turns, rounds)
    events = found["theirs"]["events"]
    ours, theirs = (1e6 * found[side]["seconds"] / events for side in ("ours", "theirs"))
    yield Row(
        f"live profile, {events / 1000:.0f}k events: torch events() + key_averages() / load + "
        "key_averages, per event",
        f"{ours:.2f} us",
        f"{theirs:.2f} us",
        theirs / ours,
        target=20,
        speed_up=True,
    )


def store(cache: Path, trace: Path, rounds: int) -> Iterator[Row]:
    """Asking a store against asking the file."""
    path = cache / f"store-{trace.stem}"
    shutil.rmtree(path, ignore_errors=True)
    python("profframe", "convert", trace, "-o", path)
    turns = {"store": ("self_times", path), "file": ("self_times", trace)}
    found = in_turns(turns, rounds)
    ours, theirs = found["store"]["seconds"], found["file"]["seconds"]
    yield Row(
        "load(file).self_times() / load(store).self_times()",
        f"{1000 * ours:.0f} ms",
        f"{1000 * theirs:.0f} ms",
        theirs / ours,
        target=20,
        speed_up=True,
    )


def growth(cache: Path, sizes: Sequence[int], rounds: int) -> Iterator[Row]:
    """Peak memory as a multiple of the file, and how it and time grow.

    It is that of the whole process, and then without what the imported libraries take.
    """
    paths = [training_trace(cache, size) for size in sizes]
    found = in_turns({path.name: ("load", path) for path in paths}, rounds)
    size = {path.name: path.stat().st_size for path in paths}
    for name, measured in found.items():
        peak, file = measured["peak_bytes"], size[name]
        speed = f"{measured['seconds'] / file * 1e9:.1f} s per GB"
        for taken, what in (
            (peak, f"peak memory of load / file, at {speed}"),
            (peak - measured["before_bytes"], "the same without the libraries that were imported"),
        ):
            ours, against = f"{taken / MB:.0f} MB", f"{file / MB:.0f} MB"
            yield Row(what, ours, against, taken / file, target=3.5)
    first, *_, last = found
    for key, what in (("seconds", "time"), ("peak_bytes", "memory")):
        grown, by = found[last][key] / found[first][key], size[last] / size[first]
        yield Row(
            f"{what} of load grows as size to the power of",
            f"{grown:.1f}x",
            f"{by:.1f}x",
            math.log(grown) / math.log(by),
            target=1.1,
        )


def importing(rounds: int) -> Iterator[Row]:
    """The import, of which the heavy part is left for the first call."""
    found = in_turns({"import": ("importing", ROOT)}, rounds)
    ours, limit = found["import"]["seconds"], 0.5
    what = "import profframe / the half second that it may take"
    yield Row(what, f"{1000 * ours:.0f} ms", f"{1000 * limit:.0f} ms", ours / limit, target=1)


def nesting(slices: int, rounds: int) -> Iterator[Row]:
    """Finding parents against a stack in plain Python, for traces of several shapes."""
    printed = python("benchmarks.nesting", "--events", slices, "--runs", rounds)
    for shape, ours, theirs, *_ in map(str.split, printed.splitlines()[1:]):
        what = f"nesting of {slices / 1000:.0f}k slices / plain stack, {shape.replace('_', ' ')}"
        figure = float(ours) / float(theirs)
        yield Row(what, f"{float(ours):.2f} s", f"{float(theirs):.2f} s", figure, target=0.6)


def rows(sizes: Sizes, cache: Path) -> Iterator[Row]:
    """All sections, one after the other."""
    yield from importing(sizes.rounds)
    cpu = training_trace(cache, sizes.cpu)
    yield from parsers("CPU", cpu, sizes.rounds, (0.6, 0.2))
    if sizes.gpu and (gpu := gpu_trace(cache)):
        yield from parsers("GPU", gpu, sizes.rounds, (0.8, 0.3))
    elif sizes.gpu:
        print(f"no GPU trace: PROFFRAME_TRACES has no {GPU_TRACE} ({TRACES})")
    yield from nesting(sizes.slices, sizes.rounds)
    yield from live(cache, sizes.live_steps, sizes.rounds)
    yield from store(cache, cpu, sizes.rounds)
    yield from growth(cache, sizes.growth, sizes.rounds)


def line(row: Row, judged: bool) -> str:
    """A row as text."""
    bound = f"{'>=' if row.speed_up else '<='} {row.target:g}x {'met' if row.met else 'MISSED'}"
    sides = f"{row.ours:>9} | {row.against:>9}"
    return f"{row.figure:8.2f}x  {bound if judged else '':15}  {sides}  {row.what}"


def main() -> None:
    """Print a line as soon as its section is measured."""
    parser = argparse.ArgumentParser(description="Benchmark of loading and asking.")
    parser.add_argument("--small", action="store_true", help="tiny traces, no targets")
    parser.add_argument("-n", type=int, help="repetitions of each measurement (default 5)")
    default = Path(tempfile.gettempdir()) / "profframe-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="folder of captured traces")
    arguments = parser.parse_args()

    sizes = SMALL if arguments.small else FULL
    sizes = replace(sizes, rounds=arguments.n or sizes.rounds)
    print(
        f"medians of {sizes.rounds} on {os.cpu_count()} cores; each measurement in its own process"
    )
    print(f"{'figure':>9}  {'target':15}  {'ours':>9} | {'against':>9}  what")
    for row in rows(sizes, arguments.cache):
        print(line(row, judged=not arguments.small), flush=True)


if __name__ == "__main__":
    main()
