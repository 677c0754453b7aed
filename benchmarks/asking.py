"""What a call of a tool costs a program, against the same call in Python.

::

    python benchmarks/asking.py           # about two minutes
    python benchmarks/asking.py --small   # does it all run? figures mean nothing

A real GPU trace is tiled to a million events and loaded once. Each question is asked in turn by a
client of the Model Context Protocol, whose server is in the same process, and in Python; figures
are medians. Then a thousand calls, and what the process has grown by.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mcp.client import Client  # noqa: E402

from benchmarks.answers import FULL, SMALL, SOURCES, Sizes, tiled  # noqa: E402
from profframe import Trace, load  # noqa: E402
from profframe.server.mcp import server  # noqa: E402
from profframe.server.service import Service  # noqa: E402
from tests.places import TRACES  # noqa: E402

LIMIT: Final = 1.3
"""Of the time in Python."""
NAME: Final = "training with collectives"
SHORT_S: Final = 1.0
"""Questions that take less in all are asked more often: medians of a few such calls are noise."""
CALLS: Final = 1000
SQL: Final = (
    "SELECT name, count(*) AS calls, sum(dur_ns) AS ns FROM events GROUP BY name ORDER BY 3 DESC"
)
EVENT: Final = "FROM events WHERE event_id = 1000"

Question = tuple[str, Mapping[str, Any], Callable[[Trace], object]]
QUESTIONS: Final[tuple[Question, ...]] = (
    ("sql", {"query": SQL}, lambda trace: trace.sql(SQL)),
    ("sql", {"query": EVENT}, lambda trace: trace.sql(EVENT)),
    ("answer", {"name": "self_times"}, lambda trace: trace.self_times()),
    ("answer", {"name": "kernels"}, lambda trace: trace.kernels()),
    ("answer", {"name": "step_times"}, lambda trace: trace.step_times()),
    ("answer", {"name": "gaps"}, lambda trace: trace.gaps()),
    ("answer", {"name": "queue_depth"}, lambda trace: trace.queue_depth()),
    ("advice", {}, lambda trace: trace.advice()),
    ("what_if", {"host": 0.5}, lambda trace: trace.what_if(host=0.5)),
)
"""A tool, its arguments, and the same in Python."""
MANY: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("sql", MappingProxyType({"query": SQL})),
    ("sql", MappingProxyType({"query": EVENT})),
    ("sql", MappingProxyType({"query": "no SQL"})),
    ("catalogue", MappingProxyType({})),
)


def resident_bytes() -> int:
    """Memory of this process."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def call(client: Client, tool: str, arguments: Mapping[str, Any]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    await client.call_tool(tool, {**arguments})
    return time.perf_counter() - start


async def compared(trace: Trace, rounds: int, *, judged: bool) -> list[str]:
    """A line for each question, and one for many calls."""
    lines = []
    async with Client(server(Service(trace))) as client:
        for tool, arguments, ask in QUESTIONS:
            tools: list[float] = []
            calls: list[float] = []
            while len(calls) <= rounds * (1 if sum(calls) > SHORT_S or not judged else 8):
                tools.append(await call(client, tool, arguments))
                start = time.perf_counter()
                kept = ask(trace)
                calls.append(time.perf_counter() - start)
                del kept
            by_tool, in_python = (statistics.median(times[1:]) for times in (tools, calls))
            ratio = by_tool / in_python
            verdict = f"<= {LIMIT}x {'met' if ratio <= LIMIT else 'MISSED'}" if judged else ""
            what = next(iter(arguments.values()), "")
            lines.append(
                f"{ratio:6.2f}x  {1000 * by_tool:7.0f} ms  {1000 * in_python:7.0f} ms  {verdict:15}"
                f" {tool} {str(what)[:40]}"
            )
        number = CALLS if judged else 40
        for _ in range(number // 5 // len(MANY)):
            for tool, arguments in MANY:
                await call(client, tool, arguments)
        before = resident_bytes()
        for _ in range(number // len(MANY)):
            for tool, arguments in MANY:
                await call(client, tool, arguments)
        grown = resident_bytes() - before
        lines.append(f"{number:,} calls: {grown / 2**20:+.1f} MiB of {before / 2**20:,.0f} MiB")
    return lines


def report(sizes: Sizes, cache: Path, *, judged: bool) -> Iterator[str]:
    """The result as text."""
    source = SOURCES[NAME]
    if not (TRACES / source).is_file():
        yield f"no {NAME}: PROFFRAME_TRACES has no {source} ({TRACES})"
        return
    trace = load(tiled(source, sizes.events, cache))
    events = trace.overview()["events"].sum()
    yield f"{NAME}, {events:,} events: a tool, and the same in Python"
    yield from asyncio.run(compared(trace, sizes.rounds, judged=judged))


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description="Benchmark of tools for programs.")
    parser.add_argument("--small", action="store_true", help="a tiny trace, no targets")
    parser.add_argument("-n", type=int, help="repetitions of each measurement (default 5)")
    default = Path(tempfile.gettempdir()) / "profframe-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="folder of tiled traces")
    arguments = parser.parse_args()
    sizes = SMALL if arguments.small else FULL
    sizes = replace(sizes, rounds=arguments.n or sizes.rounds)
    arguments.cache.mkdir(exist_ok=True)
    for line in report(sizes, arguments.cache, judged=not arguments.small):
        print(line, flush=True)


if __name__ == "__main__":
    main()
