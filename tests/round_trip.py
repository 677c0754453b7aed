"""What a written trace is held against: the trace that it was written from, and the format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import polars as pl

from profframe.schema import TABLES
from profframe.trace.trace import Trace

APART: Final = {"traces": {"source"}, "events": set[str]()}
"""Columns that tell of the file itself."""
LONGEST_US: Final = Decimal(1 << 62) / 1000


def differences(one: Trace, other: Trace, apart: Collection[str] = ()) -> list[str]:
    """How the tables differ, but for `run`, `quality` and columns that are `apart`."""
    found: list[str] = []
    for name in TABLES:
        if name == "quality":
            continue
        left, right = getattr(one, name), getattr(other, name)
        if left.height != right.height:
            found.append(f"{name}: {left.height} rows, then {right.height}")
            continue
        for column in left.columns:
            if column in {"run", *apart, *APART.get(name, ())}:
                continue
            if not left[column].equals(right[column], null_equal=True):
                found.append(f"{name}.{column}: {_first(left[column], right[column])}")
    return found


def _first(left: pl.Series, right: pl.Series) -> str:
    rows = left.ne_missing(right).arg_true()
    return f"{len(rows)} rows, first {rows[0]}: {left[rows[0]]!r}, then {right[rows[0]]!r}"


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def document(path: Path) -> dict[str, Any]:
    """The JSON of a file, with a parser that is not ours; no NaN, no infinity, no key twice."""
    return json.loads(  # type: ignore[no-any-return]
        content(path).decode(), parse_float=Decimal, parse_constant=_refuse
    )


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def faults(path: Path) -> list[str]:
    """What a viewer would not take: one line for each event at fault."""
    found: list[str] = []
    value = document(path)
    for number, event in enumerate(value["traceEvents"]):
        times = [event[key] for key in ("ts", "dur") if key in event]
        for time in times:
            if not isinstance(time, Decimal) or time.as_tuple().exponent != -3:
                found.append(f"{number}: time {time!r}")
            elif abs(time) > LONGEST_US:
                found.append(f"{number}: absurd time {time!r}")
        if event.get("dur", Decimal(0)) < 0 and event.get("ph") == "X":
            found.append(f"{number}: negative duration")
        for key, types in (("name", str), ("cat", str), ("pid", (int, str)), ("tid", (int, str))):
            if key in event and not isinstance(event[key], types):
                found.append(f"{number}: {key} {event[key]!r}")
    return found


def unbound_flows(path: Path) -> list[dict[str, Any]]:
    """Starts of arrows that no slice of their thread is around."""
    events = document(path)["traceEvents"]
    slices: dict[tuple[object, object], list[tuple[Decimal, Decimal]]] = {}
    for event in events:
        if event["ph"] == "X":
            spans = slices.setdefault((event["pid"], event["tid"]), [])
            spans.append((event["ts"], event["ts"] + event["dur"]))
    return [
        event
        for event in events
        if event["ph"] == "s"
        and not any(
            start <= event["ts"] <= end
            for start, end in slices.get((event["pid"], event["tid"]), ())
        )
    ]
