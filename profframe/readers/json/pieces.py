"""Pieces of a wave of text as an array, and rows of those that parse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa

from profframe.readers.json.stream import Parsed, Wave

Rows = TypeVar("Rows")


def pieces_of(text: bytes | memoryview, bounds: list[int]) -> pa.LargeStringArray:
    """Text between bounds, as an array without a copy."""
    offsets = pa.py_buffer(np.asarray(bounds, dtype=np.int64))
    return pa.LargeStringArray.from_buffers(len(bounds) - 1, offsets, pa.py_buffer(text))


def parsed(wave: Wave, rows_of: Callable[[pa.LargeStringArray], Rows | None]) -> Parsed[Rows]:
    """Rows of each run of valid pieces; neighbours that need repair become one run."""
    pieces = pieces_of(wave.text, wave.bounds)
    rows = rows_of(pieces)
    if rows is not None:
        return Parsed(wave, [(0, len(wave), rows)])
    runs: list[tuple[int, int, Rows | None]] = []
    for place in range(len(wave)):
        part = rows_of(pieces.slice(place, 1))
        if part is None and runs and runs[-1][2] is None:
            runs[-1] = (runs[-1][0], place + 1, None)
        else:
            runs.append((place, place + 1, part))
    return Parsed(wave, runs)
