"""A side of a comparison: its steps, what they consist of, and texts of its slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from profframe.analysis.causes import step_trees
from profframe.analysis.causes.step_pieces import StepPieces, pieces, with_waits
from profframe.analysis.causes.step_trees import Lost, StepSlices, Trees, Windows, trees
from profframe.analysis.clocks import MATCHES
from profframe.facts.arrays import last_equal, numbers
from profframe.intervals import Ints
from profframe.query.header import Answer
from profframe.query.run import prepare, select

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


def conditions(connection: duckdb.DuckDBPyConnection, slices: StepSlices) -> Conditions:
    """Read the conditions of the slices of a connection that has one (run, rank)."""
    table = select(connection, CLOCKS).to_arrow_table()
    device, time = numbers(table, "device"), numbers(table, "time_ns")
    mhz = table["mhz"].to_numpy()
    beside = np.zeros(slices.event_id.size, np.int64)
    clock = np.full(slices.event_id.size, np.nan)
    works = np.flatnonzero(slices.work > 0)
    for number in np.unique(slices.device[works]).tolist():
        rows = works[slices.device[works] == number]
        beside[rows] = _beside(slices.start_ns[rows], slices.end_ns[rows])
        own = device == number
        last = np.searchsorted(time[own], slices.start_ns[rows], side="right") - 1
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


Connect = Callable[[str | None, int | None], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""A connection to the rows of one (run, rank), of all ranks of a run, or to all."""


@dataclass(frozen=True, slots=True)
class StepSide:
    """The steps of one side.

    Attributes
    ----------
    keys : list of (str, int)
        (run, rank) of each part.
    slices, windows : list
        What each part did, and when its steps ran.
    lost : list of Lost
        Work of each part that is not in the trace.
    trees : Trees
        Call trees of all parts.
    waits_until : list of Ints
        Until when each slice of each part waited for another rank.
    conditions : list of Conditions
        The conditions under which the work of each part ran.
    """

    keys: list[tuple[str, int]]
    slices: list[StepSlices]
    windows: list[Windows]
    lost: list[Lost]
    trees: Trees
    waits_until: list[Ints]
    conditions: list[Conditions]

    @property
    def length(self) -> int:
        """Time of all windows, in nanoseconds."""
        return sum(int((its.end_ns - its.start_ns).sum()) for its in self.windows)

    @property
    def count(self) -> int:
        """Number of windows."""
        return sum(its.step.size for its in self.windows)

    @property
    def lost_calls(self) -> int:
        """Number of launches whose work may have run in its windows, and is not in the trace."""
        parts = zip(self.lost, self.slices, self.windows, strict=True)
        return sum(lost.in_windows(of, steps) for lost, of, steps in parts)

    @property
    def is_whole(self) -> bool:
        """Whether its windows are whole traces, because none of their steps has a known length."""
        return any(bool((its.step < 0).any()) for its in self.windows)

    @property
    def samples(self) -> list[tuple[str, int]]:
        """(run, step) of each sample: the ranks of a run share steps with the same number."""
        return sorted(
            {
                (run, step)
                for (run, _), its in zip(self.keys, self.windows, strict=True)
                for step in its.step.tolist()
            }
        )

    @property
    def samples_of_windows(self) -> list[Ints]:
        """Number of the sample of each window, of each part."""
        number = {key: place for place, key in enumerate(self.samples)}
        return [
            np.array([number[run, step] for step in its.step.tolist()], np.int64)
            for (run, _), its in zip(self.keys, self.windows, strict=True)
        ]

    @property
    def sample_runs(self) -> Ints:
        """Number of the run of each sample, ascending."""
        runs = pl.Series([run for run, _ in self.samples], dtype=pl.String)
        return runs.rle_id().cast(pl.Int64).to_numpy()

    @property
    def windows_per_sample(self) -> Ints:
        """Number of windows of each sample."""
        samples = np.concatenate(self.samples_of_windows) if self.windows else np.zeros(0, np.int64)
        return np.bincount(samples, minlength=len(self.samples))

    @property
    def mean_ns(self) -> int:
        """Mean length of a window, rounded half up."""
        return (2 * self.length + self.count) // (2 * self.count) if self.count else 0

    @property
    def has_devices(self) -> bool:
        """Whether it has any device work."""
        return any(bool((of.work > 0).any()) for of in self.slices)


def side(connect: Connect, keys: Sequence[tuple[str, int]]) -> StepSide:
    """Read a side."""
    read, lost, under = [], [], []
    for run, rank in keys:
        with connect(run, rank) as connection:
            prepare(connection, Answer("causes", step_trees.MACROS), {})
            of = step_trees.slices(connection)
            read.append((of, step_trees.windows(connection, of)))
            lost.append(step_trees.lost(connection, of))
            under.append(conditions(connection, of))
    forest = trees(read)
    waits = _waits(connect, keys)
    until = [_waits_until(of, waits.get(key)) for key, (of, _) in zip(keys, read, strict=True)]
    slices, windows = ([*column] for column in zip(*read, strict=True))
    return StepSide([*keys], slices, windows, lost, forest, until, under)


def divided(side: StepSide, *, has_devices: bool) -> list[StepPieces]:
    """The partition of each part's time; see `pieces`.

    Without device work on either side all time is the host's, whatever was lost.
    """
    none = Lost(*np.zeros((3, 0), np.int64))
    parts = zip(side.slices, side.windows, side.lost, side.waits_until, strict=True)
    return [
        with_waits(pieces(its, steps, lost if has_devices else none), until)
        for its, steps, lost, until in parts
    ]


def _waits(
    connect: Connect, keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], tuple[Ints, Ints]]:
    """Collectives of each rank of a run, and until when each waited for another rank."""
    waits: dict[tuple[str, int], tuple[Ints, Ints]] = {}
    for run in dict.fromkeys(run for run, _ in keys):
        ranks = [rank for other, rank in keys if other == run]
        # One rank alone cannot tell waiting for others from a slow transfer.
        if len(ranks) == 1:
            continue
        with connect(run, None) as connection:
            prepare(connection, Answer("causes", _WAITS), {})
            table = select(connection, _WAITS).to_arrow_table()
        of_rank, event, until = (numbers(table, name) for name in ("rank", "event_id", "until_ns"))
        waits |= {(run, rank): (event[of_rank == rank], until[of_rank == rank]) for rank in ranks}
    return waits


def _waits_until(slices: StepSlices, waits: tuple[Ints, Ints] | None) -> Ints:
    until = np.zeros(slices.event_id.size, np.int64)
    if waits is not None:
        row = last_equal(slices.event_id, np.arange(slices.event_id.size), waits[0])
        until[row[row >= 0]] = waits[1][row >= 0]
    return until


def texts(connect: Connect, side: StepSide, part: Ints, row: Ints) -> pl.DataFrame:
    """Names, shapes and work of some slices; one row each, in their order, NULL for row -1.

    ``part`` is the number of a slice's (run, rank) in the keys of the side.
    """
    event_id = np.zeros(row.size, np.int64)
    for number, its in enumerate(side.slices):
        here = np.flatnonzero((part == number) & (row >= 0))
        event_id[here] = its.event_id[row[here]]
    place = np.flatnonzero(row >= 0)
    runs, ranks = zip(*side.keys, strict=True)
    part_of = part[place]
    wanted = pa.table(
        {
            "place": place,
            "run": pa.DictionaryArray.from_arrays(part_of, pa.array(runs)).cast(pa.string()),
            "rank": np.array(ranks, np.int64)[part_of],
            "event_id": event_id[place],
        }
    )
    with connect(None, None) as connection:
        prepare(connection, Answer("causes", _TEXTS), {})
        connection.register("_wanted", wanted)
        try:
            table = select(connection, _TEXTS).to_arrow_table()
        finally:
            connection.unregister("_wanted")
    frame = pl.DataFrame(table).with_columns(pl.col(pl.Categorical).cast(pl.String))
    places = pl.DataFrame({"place": np.arange(row.size)})
    return places.join(frame, on="place", how="left", maintain_order="left")


_WAITS: Final = f"""
    WITH matches AS ({MATCHES})
    SELECT rank, event_id, start_ns + least(wait_ns, dur_ns) AS until_ns
    FROM collective_waits(matches, traces, true)
    WHERE wait_ns > 0
"""  # noqa: S608 - of constants
_TEXTS: Final = """
    WITH wanted AS MATERIALIZED (
        SELECT place, run, rank, event_id, kind, name, input_dims AS shapes,
            coalesce(input_types, work_dtype) AS types, kernel_category AS category, flops, dur_ns,
            concat_ws(' ', grid, block, registers, shared_memory_bytes) AS launch
        FROM _wanted JOIN events USING (run, rank, event_id)
    ),
    names AS (
        SELECT kind, name, short_name(kind, name) AS short_name
        FROM (SELECT DISTINCT kind, name FROM wanted)
    )
    SELECT wanted.*, short_name
    FROM wanted JOIN names
        ON wanted.kind = names.kind AND wanted.name IS NOT DISTINCT FROM names.name
"""
