"""What the timeline of a million slices costs: writing it, opening it, and zooming in it.

::

    python benchmarks/timeline.py           # about four minutes
    python benchmarks/timeline.py --small   # does it run? figures mean nothing

A real trace is repeated until it has a million slices, each copy with another length, so that no
two have the same times: repeated times would take no room in the page. The report is written
without a timeline and with one. Then Chromium opens it several times, and W and S are held down
while its frames are counted. Figures are medians.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import orjson

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.answers import SOURCES  # noqa: E402
from benchmarks.tiling import Event, bounds_us, document, tiled  # noqa: E402
from tests.places import TRACES  # noqa: E402

OPEN_LIMIT: Final = 1.5
FRAME_LIMIT: Final = 30
SIZE_LIMIT: Final = 12_000_000
SLICES: Final = 1_000_000
HELD_S: Final = 3
QUIET: Final = ("--no-sandbox", "--disable-gpu")
COUNTED: Final = """
(() => {
  window.frames_ = [];
  const put = CanvasRenderingContext2D.prototype.putImageData;
  CanvasRenderingContext2D.prototype.putImageData = function (...given) {
    window.frames_.push(performance.now());
    return put.apply(this, given);
  };
})();
"""
"""Each frame of a timeline is one picture that is put on its canvas."""


def stretched(events: list[Event], count: int) -> Iterator[Event]:
    """Copies of the events, each with its own length."""
    first, last = bounds_us(events)
    by_us = float(int(last - first) + 1000)
    generator = random.Random(1)  # noqa: S311 -- lengths
    lengths = [generator.uniform(0.8, 1) for _ in range(count // len(events) + 2)]

    def moment(us: float) -> int:
        """Nanoseconds since the first copy began; the order of moments stays as it is."""
        copy = min(int((us - first) // by_us), len(lengths) - 1)
        return round(1000 * (copy * by_us + (us - first - copy * by_us) * lengths[copy]))

    for event in tiled(events, count, by_us):
        if "ts" not in event or event.get("ph") == "M":
            yield event
            continue
        begin = float(event["ts"])
        moved: dict[str, Any] = event | {"ts": moment(begin) / 1000}
        if "dur" in event:
            moved["dur"] = (moment(begin + float(event["dur"])) - moment(begin)) / 1000
        yield moved


def written(source: Path, slices: int, target: Path) -> Path:
    """The trace, made the first time."""
    if target.exists():
        return target
    events = document(source)["traceEvents"]
    share = sum(event.get("ph") == "X" for event in events) / len(events)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(b'{"traceEvents":[')
        for number, event in enumerate(stretched(events, int(slices / share))):
            file.write(b",\n" * bool(number) + orjson.dumps(event))
        file.write(b"]}")
    return target


def reports(path: Path, rounds: int) -> Iterator[str]:
    """Seconds of loading and of both reports, and their sizes; the one with a timeline stays."""
    import profframe

    start = time.perf_counter()
    trace = profframe.load(path)
    yield f"{trace.events.height:,} slices; load {time.perf_counter() - start:.2f} s"
    page = path.with_suffix(".html")
    for form in ("none", "budget"):
        seconds = []
        for _ in range(rounds):
            start = time.perf_counter()
            trace.report(page, timeline=form)
            seconds.append(time.perf_counter() - start)
        size = page.stat().st_size
        yield (
            f"{statistics.median(seconds):8.2f} s   report, timeline {form}: {size / 1e6:.2f} MB"
            f"{verdict(size <= SIZE_LIMIT, '<= 12 MB')}"
        )


def verdict(is_met: bool, said: str) -> str:
    """Whether a target is met."""
    return f"  {said} {'met' if is_met else 'MISSED'}"


def in_chromium(page: Path, rounds: int, held_s: float) -> Iterator[str]:
    """Seconds until the page is drawn, and frames a second while keys are held."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*QUIET]
        )
        opened: dict[str, list[float]] = {"drawn": [], "ready": []}
        rates: dict[str, list[float]] = {}
        longest = []
        for _ in range(rounds):
            context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
            tab = context.new_page()
            tab.add_init_script(COUNTED)
            start = time.perf_counter()
            tab.goto(page.resolve().as_uri())
            tab.wait_for_function("window.frames_.length > 0", polling=10)
            tab.wait_for_function("document.documentElement.dataset.ready", polling=10)
            opened["ready"].append(time.perf_counter() - start)
            opened["drawn"].append(tab.evaluate("window.frames_[0] / 1000"))
            for key, times in held(tab, held_s):
                rates.setdefault(key, []).append((len(times) - 1) / (times[-1] - times[0]) * 1000)
                longest += [after - before for before, after in pairwise(times)]
            context.close()
        drawn, ready = (statistics.median(opened[what]) for what in ("drawn", "ready"))
        yield f"{drawn:8.2f} s   until it is drawn{verdict(drawn <= OPEN_LIMIT, '<= 1.5 s')}"
        yield f"{ready:8.2f} s   until the whole page is ready"
        for key, values in rates.items():
            rate = statistics.median(values)
            yield f"{rate:8.1f}     frames a second, {key}{verdict(rate >= FRAME_LIMIT, '>= 30')}"
        yield f"{sorted(longest)[int(len(longest) * 0.99)]:8.1f} ms  99 % of frames are no longer"
        browser.close()


def held(tab: Any, held_s: float) -> Iterator[tuple[str, list[float]]]:
    """Frames while each key is held: in from all of it, out again, and along."""
    canvas = tab.locator(".timeline-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.5)
    canvas.focus()
    tab.wait_for_timeout(1000)
    keys = (("w", "zooming in"), ("s", "zooming out"), ("w", "in again"), ("d", "moving"))
    for key, what in keys:
        tab.evaluate("window.frames_ = []")
        tab.keyboard.down(key)
        tab.wait_for_timeout(held_s * 1000 / (2 if what == "in again" else 1))
        tab.keyboard.up(key)
        times = tab.evaluate("window.frames_")
        if what != "in again":
            yield what, times


def main() -> None:
    """Print the results as soon as they are there."""
    parser = argparse.ArgumentParser(description="Benchmark of the timeline.")
    parser.add_argument("--small", action="store_true", help="a tiny trace")
    parser.add_argument("-n", type=int, help="repetitions of each measurement (default 3)")
    default = Path(tempfile.gettempdir()) / "profframe-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="folder of the trace")
    arguments = parser.parse_args()
    slices = 3_000 if arguments.small else SLICES
    rounds = arguments.n or (1 if arguments.small else 3)
    source = TRACES / SOURCES["training with collectives"]
    if not source.is_file():
        source = ROOT / "examples" / "gpu_training.json.gz"
    name = source.name.removesuffix(".json.gz")
    path = written(source, slices, arguments.cache / f"{name}-stretched-{slices}.json")
    print(f"medians of {rounds} on {os.cpu_count()} cores; {name}", flush=True)
    for line in reports(path, rounds):
        print(line, flush=True)
    if shutil.which("chromium") is None:
        print("no chromium: how it opens is not measured")
        return
    held_s = 0.5 if arguments.small else HELD_S
    for line in in_chromium(path.with_suffix(".html"), rounds, held_s):
        print(line, flush=True)


if __name__ == "__main__":
    main()
