"""Explaining what changed between two traces, against loading both, as they grow.

::

    python benchmarks/explain.py           # about six minutes, and 2 GB in the temporary folder
    python benchmarks/explain.py --small   # does it all run? figures mean nothing

A control run and a test run of one model, on other devices and one of them compiled, each repeated
until it has so many events. Each size has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.tiling import bounds_us, document, tile  # noqa: E402
from tests.places import TRACES  # noqa: E402

PAIR: Final = tuple(
    f"facebookresearch__HolisticTraceAnalysis/trace_diff/{name}.json.gz"
    for name in ("control", "test")
)
SIZES: Final = (100_000, 500_000, 1_000_000, 2_000_000)


def made(folder: Path, events: int) -> list[Path]:
    """Both traces; made the first time."""
    paths = []
    for name in PAIR:
        source = TRACES / name
        start, end = bounds_us(document(source)["traceEvents"])
        paths.append(folder / f"{source.name.split('.')[0]}-{events}.json")
        if not paths[-1].exists():
            tile(source, events, paths[-1], float(int(end - start + 1000)))
    return paths


def measure(paths: list[Path]) -> dict[str, Any]:
    """Seconds of loading and of explaining, and the peak of memory after each."""
    import profframe

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    start = time.perf_counter()
    sides = [profframe.load(path) for path in paths]
    loading, loaded = time.perf_counter() - start, peak()
    start = time.perf_counter()
    why = profframe.explain(*sides)
    explaining, explained = time.perf_counter() - start, peak()
    return {
        "events": sum(len(side.events) for side in sides),
        "load": loading,
        "explain": explaining,
        "load_peak": loaded,
        "peak": explained,
        "causes": why.causes.height,
        "exact": int(why.causes["change_ns"].sum()) == why.other_ns - why.base_ns,
    }


def main() -> None:
    """Print both for each size, and what they are over loading."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--measure", nargs="+", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    if not (TRACES / PAIR[0]).is_file():
        print(f"no traces in {TRACES}: nothing to measure")
        return
    folder = Path(os.environ.get("PROFFRAME_BENCH", tempfile.gettempdir()))
    folder.mkdir(parents=True, exist_ok=True)
    print("  slices    load  explain  ratio (limit 0.5)  memory of loading, of both")
    for events in (5_000,) if arguments.small else SIZES:
        command = [sys.executable, __file__, "--measure", *map(str, made(folder, events))]
        result = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        load, explain = result["load"], result["explain"]
        peaks = result["load_peak"] / 1e9, result["peak"] / 1e9
        print(
            f"{result['events']:8,} {load:6.1f} s {explain:6.1f} s {explain / load:6.2f}",
            f"{peaks[0]:12.2f} GB {peaks[1]:6.2f} GB",
            flush=True,
        )


if __name__ == "__main__":
    main()
