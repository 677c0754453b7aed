"""What the report of a million events costs, against loading them in the same process.

::

    python benchmarks/report.py           # about three minutes
    python benchmarks/report.py --small   # does it run? figures mean nothing

Traces are tiled to a million events, as in `benchmarks/answers.py`. Loading and reporting take
turns; figures are medians. Where there is Chromium, the time until the page is ready is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.answers import FULL, SMALL, SOURCES, tiled  # noqa: E402
from tests.places import TRACES  # noqa: E402

TIME_LIMIT: Final = 1.0
"""Of the time that loading takes."""
SIZE_LIMIT: Final = 12_000_000
OPEN_LIMIT: Final = 3.0
EXAMPLE: Final = ROOT / "examples" / "cpu_training.json.gz"


def measure(path: Path, rounds: int) -> dict[str, float]:
    """Median seconds of loading and of the report, the ratio, and bytes of the page."""
    import profframe

    loads, reports = [], []
    page = path.with_suffix(".html")
    for _ in range(rounds):
        start = time.perf_counter()
        trace = profframe.load(path)
        loads.append(time.perf_counter() - start)
        start = time.perf_counter()
        trace.report(page)
        reports.append(time.perf_counter() - start)
    load, report = statistics.median(loads), statistics.median(reports)
    return {"load": load, "report": report, "bytes": page.stat().st_size}


def opening(page: Path) -> float | None:
    """Seconds from asking a browser for the page until it is ready; None without a browser."""
    browser = shutil.which("chromium")
    if browser is None:
        return None
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        opened = chromium.new_page()
        start = time.perf_counter()
        opened.goto(page.resolve().as_uri())
        opened.wait_for_function("document.documentElement.dataset.ready")
        return time.perf_counter() - start


def in_own_process(path: Path, rounds: int) -> dict[str, float]:
    """What `measure` finds, in a process that nothing else has warmed."""
    module = [sys.executable, "-m", "benchmarks.report", "--measure", str(path), "-n", str(rounds)]
    printed = subprocess.run(module, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(printed.stdout.splitlines()[-1])
    return found


def lines(name: str, path: Path, rounds: int, *, judged: bool) -> Iterator[str]:
    """The result as text."""
    found = in_own_process(path, rounds)
    ratio = found["report"] / found["load"]
    seconds = opening(path.with_suffix(".html"))

    def verdict(value: float, limit: float, said: str) -> str:
        return f"  <= {said} {'met' if value <= limit else 'MISSED'}" if judged else ""

    yield f"\n{name}: {path.stat().st_size / 1e6:.0f} MB, load {found['load']:.2f} s"
    yield f"{found['report']:8.2f} s   report: {ratio:.2f}x{verdict(ratio, TIME_LIMIT, '1x')}"
    yield f"{found['bytes'] / 1e6:8.2f} MB{verdict(found['bytes'], SIZE_LIMIT, '12 MB')}"
    if seconds is not None:
        yield f"{seconds:8.2f} s   until it is ready{verdict(seconds, OPEN_LIMIT, '3 s')}"


def main() -> None:
    """Print the result of each trace as soon as it is there."""
    parser = argparse.ArgumentParser(description="Benchmark of the report.")
    parser.add_argument("--small", action="store_true", help="tiny traces, no targets")
    parser.add_argument("-n", type=int, help="repetitions of each measurement (default 3)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    default = Path(tempfile.gettempdir()) / "profframe-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="folder of tiled traces")
    arguments = parser.parse_args()
    sizes = SMALL if arguments.small else FULL
    rounds = arguments.n or min(sizes.rounds, 3)
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, rounds)))
        return
    print(f"medians of {rounds} on {os.cpu_count()} cores")
    sources = {"training on a CPU": str(EXAMPLE), **SOURCES}
    for name, source in islice(sources.items(), sizes.sources):
        if not (TRACES / source).is_file():
            print(f"no {name}: PROFFRAME_TRACES has no {source} ({TRACES})")
            continue
        path = tiled(source, sizes.events, arguments.cache)
        for line in lines(name, path, rounds, judged=not arguments.small):
            print(line, flush=True)


if __name__ == "__main__":
    main()
