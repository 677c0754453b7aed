"""One measurement in a process of its own: ``python -m benchmarks.measure NAME FILE``.

Prints a JSON object with ``seconds``, ``cpu_seconds`` of all threads, ``peak_bytes`` of the whole
process, the part of them that it had before the work, ``before_bytes``, and ``events`` where the
measurement counts them. Only the work is timed; imports come before it.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

Measured = dict[str, float]


def _peak_bytes() -> int:
    """The most memory that the process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _timed(work: Callable[[], object]) -> Measured:
    before = _peak_bytes()
    start, cpu_start = time.perf_counter(), time.process_time()
    kept = work()  # as a user keeps it: freeing it is no part of the work
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    del kept
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "before_bytes": before}


def importing(_: Path) -> Measured:
    """`import profframe` alone."""
    return _timed(lambda: importlib.import_module("profframe"))


def load(path: Path) -> Measured:
    """`profframe.load` alone."""
    from profframe import load

    return _timed(lambda: load(path))


def self_times(path: Path) -> Measured:
    """Load a trace, or open a store, and ask for the self times."""
    from profframe import load

    return _timed(lambda: load(path).self_times())


def key_averages(path: Path) -> Measured:
    """Load a trace and ask for what torch's own table shows."""
    from profframe import load

    return _timed(lambda: load(path).key_averages())


def count(path: Path) -> Measured:
    """Slices in a trace."""
    from profframe import load

    return {"events": load(path).sql("SELECT count(*) FROM events").item()}


def json_load(path: Path) -> Measured:
    """Python's own parser."""

    def work() -> object:
        with path.open(encoding="utf-8") as file:
            return json.load(file)

    return _timed(work)


def orjson_loads(path: Path) -> Measured:
    """The fastest parser into Python objects, of bytes that are in memory already."""
    import orjson

    text = path.read_bytes()
    return _timed(lambda: orjson.loads(text))


def torch_key_averages(path: Path) -> Measured:
    """Torch's own events and key averages of a live profile, which is then written to ``path``."""
    from benchmarks.capture import record

    prof = record(steps=int(path.stem.rpartition("-")[2]))
    start = time.perf_counter()
    events = prof.events()
    prof.key_averages()
    seconds = time.perf_counter() - start
    prof.export_chrome_trace(str(path))
    return {"seconds": seconds, "events": len(events or ())}


MEASUREMENTS: Final[Mapping[str, Callable[[Path], Measured]]] = MappingProxyType(
    {
        work.__name__: work
        for work in (
            importing,
            load,
            self_times,
            key_averages,
            count,
            json_load,
            orjson_loads,
            torch_key_averages,
        )
    }
)


def main() -> None:
    """Run the measurement and print what it found."""
    measured = MEASUREMENTS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps({"peak_bytes": _peak_bytes()} | measured))


if __name__ == "__main__":
    main()
