"""Questions of a whole job: dependencies, path across ranks and what-if, against loading it.

::

    python benchmarks/jobs.py           # about eight minutes, and 3 GB in the temporary folder
    python benchmarks/jobs.py --small   # does it all run? figures mean nothing

Eight ranks of a real job, each repeated until it has a million slices, with the same period on all.
Loading them, and then the questions, are timed in one process of their own, with its peak of memory
after each.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.tiling import bounds_us, document, tile  # noqa: E402
from tests.places import TRACES  # noqa: E402

FOLDER: Final = "facebookresearch__param/dlrm_kineto"
TIME_LIMIT: Final = 1.0
"""All questions together, over loading."""
MEMORY_LIMIT: Final = 1.5
"""Peak of all, over that of loading."""


def made(folder: Path, ranks: int, events: int) -> list[Path]:
    """The traces of the ranks; made the first time."""
    sources = sorted((TRACES / FOLDER).glob("*.json.gz"))[:ranks]
    bounds = [bounds_us(document(source)["traceEvents"]) for source in sources]
    period = max(end for _, end in bounds) - min(start for start, _ in bounds) + 1000
    paths = []
    for rank, source in enumerate(sources):
        paths.append(folder / f"rank-{rank}-{events}.json")
        if not paths[-1].exists():
            tile(source, events, paths[-1], float(int(period)))
    return paths


def measure(paths: list[Path]) -> dict[str, Any]:
    """Seconds of each part, and the peak of memory after it."""
    import profframe

    found: dict[str, Any] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        kept = work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        found[name] = {"seconds": time.perf_counter() - start, "peak": peak}
        return kept

    trace = timed("load", lambda: profframe.load(paths))
    found["events"] = trace.sql("SELECT count(*) AS slices FROM events")["slices"][0]
    rows = timed("dependencies", trace.dependencies)
    found["rows"] = rows.height
    del rows
    path = timed("critical_path", lambda: trace.critical_path(across_ranks=True))
    found["stretches"] = path.events.height
    changes = {"communication": 0.5, "stragglers": False, "host": 0.5}
    timed("what_if", lambda: trace.what_if(**changes))
    timed("blame", trace.blame)
    timed("stragglers", trace.stragglers)
    return found


def main() -> None:
    """Print each part over loading."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--measure", nargs="+", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    ranks, events = (2, 5_000) if arguments.small else (8, 1_000_000)
    if not (TRACES / FOLDER).is_dir():
        print(f"no traces in {TRACES}: nothing to measure")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("PROFFRAME_BENCH", temporary))
        paths = made(folder, ranks, events)
        command = [sys.executable, "-m", "benchmarks.jobs", "--measure", *map(str, paths)]
        printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = json.loads(printed.stdout.splitlines()[-1])
    load = found["load"]
    print(f"{ranks} ranks, {found['events']:,} slices, {found['rows']:,} dependencies, ", end="")
    print(f"{found['stretches']:,} stretches on the path")
    print(f"load           {load['seconds']:7.1f} s  {load['peak'] / 1e9:5.2f} GB")
    asked = ("dependencies", "critical_path", "what_if")
    for name in (*asked, "blame", "stragglers"):
        part = found[name]
        ratio = part["seconds"] / load["seconds"]
        print(f"{name:<14} {part['seconds']:7.1f} s  {part['peak'] / 1e9:5.2f} GB  {ratio:5.2f}x")
    total = sum(found[name]["seconds"] for name in asked) / load["seconds"]
    memory = found[asked[-1]]["peak"] / load["peak"]
    if not arguments.small:
        met = ["met" if value <= limit else "MISSED" for value, limit in
               ((total, TIME_LIMIT), (memory, MEMORY_LIMIT))]  # fmt: skip
        print(f"the first three together {total:.2f}x of loading: <= {TIME_LIMIT}x {met[0]}")
        print(f"memory {memory:.2f}x of loading: <= {MEMORY_LIMIT}x {met[1]}")


if __name__ == "__main__":
    main()
