"""A long trace made of a real one, repeated: ``python -m benchmarks.tiling SOURCE EVENTS TARGET``.

Each copy comes after the one before it, with ids, steps and addresses of its own, so that nothing
in it belongs to another copy.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

Event = dict[str, Any]

_IDS: Final = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Addr",
    "Sequence number",
    "wait_on_cuda_event_record_corr_id",
)
_STEP: Final = "ProfilerStep#"
_END: Final = "Record Window End"
"""A second of these would make it a file of several traces."""


def document(path: Path) -> dict[str, Any]:
    """A trace in object form."""
    text = path.read_bytes()
    loaded = orjson.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
    return loaded if isinstance(loaded, dict) else {"traceEvents": loaded}


def moved(event: Event, number: int, by_us: float, apart: Mapping[str, int]) -> Event:
    """One event in copy ``number``."""
    if "ts" not in event or event.get("ph") == "M":
        return event
    changed = event | {"ts": round(float(event["ts"]) + number * by_us, 3)}
    name = str(event.get("name"))
    if name.startswith(_STEP) and name.removeprefix(_STEP).isdecimal():
        step = int(name.removeprefix(_STEP)) + number * apart[_STEP]
        changed["name"] = f"{_STEP}{step}"
    if event.get("ph") in ("s", "t", "f"):
        changed["id"] = f"{number}.{event.get('id')}"
    args = event.get("args")
    if isinstance(args, dict):
        ids = {
            key: args[key] + number * apart[key]
            for key in _IDS
            if isinstance(args.get(key), int) and args[key] > 0
        }
        if ids:
            changed["args"] = args | ids
    return changed


def _apart(events: list[Event]) -> dict[str, int]:
    """How far the ids of two copies are apart."""
    arguments = [a for event in events if isinstance(a := event.get("args"), dict)]
    apart = {
        key: 1 + max((a[key] for a in arguments if isinstance(a.get(key), int)), default=0)
        for key in _IDS
    }
    names = (str(event.get("name")) for event in events)
    steps = [n.removeprefix(_STEP) for n in names if n.startswith(_STEP)]
    return apart | {_STEP: 1 + max((int(n) for n in steps if n.isdecimal()), default=0)}


def bounds_us(events: list[Event]) -> tuple[float, float]:
    """First start and last end."""
    timed = [event for event in events if "ts" in event and event.get("ph") != "M"]
    first = min(float(event["ts"]) for event in timed)
    return first, max(float(event["ts"]) + float(event.get("dur", 0)) for event in timed)


def tiled(events: list[Event], count: int, by_us: float | None = None) -> Iterator[Event]:
    """Copies of the events until there are ``count``, ``by_us`` apart: by default with a gap."""
    timed = [event for event in events if "ts" in event and event.get("ph") != "M"]
    first, last = bounds_us(events)
    by_us = float(int(last - first) + 1000) if by_us is None else by_us
    apart = _apart(events)
    yield from events
    repeated = [event for event in timed if event.get("name") != _END]
    for number in range(1, -(-count // len(events))):
        yield from (moved(event, number, by_us, apart) for event in repeated)


def tile(source: Path, count: int, target: Path, by_us: float | None = None) -> None:
    """Write a trace of at least ``count`` events."""
    whole = document(source)
    events = tiled(whole.pop("traceEvents"), count, by_us)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(orjson.dumps(whole)[:-1] + (b"," if whole else b"") + b'"traceEvents":[')
        for number, event in enumerate(events):
            file.write(b",\n" * bool(number) + orjson.dumps(event))
        file.write(b"]}")


if __name__ == "__main__":
    tile(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
