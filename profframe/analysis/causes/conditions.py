"""Conditions under which device work ran: the clock of the device, and overlapping work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from profframe.analysis.causes.rows import Slices
from profframe.facts.columns import numbers
from profframe.intervals import Ints
from profframe.query.run import select

Floats = NDArray[np.float64]
CLOCKS: Final = """
    SELECT device, time_ns, value * CASE unit
        WHEN 'Hz' THEN 1e-6 WHEN 'kHz' THEN 1e-3 WHEN 'GHz' THEN 1e3 ELSE 1 END AS mhz
    FROM counters
    WHERE unit IN ('Hz', 'kHz', 'MHz', 'GHz') AND device IS NOT NULL AND time_ns IS NOT NULL
        AND value > 0 AND name NOT ILIKE '%mem%'
    ORDER BY device, time_ns, mhz
"""
"""Samples of the clocks of devices, except those of their memory."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of each slice of a rank.

    Attributes
    ----------
    beside_ns : Ints
        For device work, how long other work ran on the device at the same time; else 0.
    clock_mhz : Floats
        For device work, the last sample of the device's clock before it began; NaN if there is
        none.
    """

    beside_ns: Ints
    clock_mhz: Floats


def conditions(connection: duckdb.DuckDBPyConnection, of: Slices) -> Conditions:
    """Read the conditions of the slices of a connection that has one (run, rank)."""
    table = select(connection, CLOCKS).to_arrow_table()
    device, time = numbers(table, "device"), numbers(table, "time_ns")
    mhz = table["mhz"].to_numpy()
    beside = np.zeros(of.event_id.size, np.int64)
    clock = np.full(of.event_id.size, np.nan)
    works = np.flatnonzero(of.work > 0)
    for number in np.unique(of.device[works]).tolist():
        rows = works[of.device[works] == number]
        beside[rows] = _beside(of.start_ns[rows], of.end_ns[rows])
        own = device == number
        last = np.searchsorted(time[own], of.start_ns[rows], side="right") - 1
        clock[rows] = np.append(mhz[own], np.nan)[last]
    return Conditions(beside, clock)


def _beside(start: Ints, end: Ints) -> Ints:
    """For each interval the time in which at least one other runs."""
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    times, change = times[order], np.repeat([1, -1], start.size)[order]
    is_shared = np.cumsum(change) > 1
    shared = np.append(0, np.cumsum(np.where(is_shared[:-1], np.diff(times), 0)))
    # No time passes between events of one moment, so any of them can represent the others.
    both: Ints = shared[np.searchsorted(times, end)] - shared[np.searchsorted(times, start)]
    return both
