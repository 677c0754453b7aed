"""A side of a comparison: its steps, what they are made of, and texts of its slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.analysis.causes import rows
from profframe.analysis.causes.pieces import pieces, with_waits
from profframe.analysis.causes.rows import Slices, Windows
from profframe.analysis.causes.trees import Trees, trees
from profframe.analysis.causes.units import Units, units
from profframe.analysis.clocks import MATCHES
from profframe.facts.columns import last_equal, numbers
from profframe.intervals import Ints
from profframe.query.header import Answer
from profframe.query.run import prepare, select

Connect = Callable[[str, int | None], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""A connection to the rows of one (run, rank), or of all ranks of a run."""


@dataclass(frozen=True, slots=True)
class Side:
    """The steps of one side.

    Attributes
    ----------
    keys : list of (str, int)
        (run, rank) of each part.
    slices, windows : list
        What each part did, and when its steps ran.
    trees : Trees
        Call trees of all parts.
    units : list of Units
        Of each part.
    """

    keys: list[tuple[str, int]]
    slices: list[Slices]
    windows: list[Windows]
    trees: Trees
    units: list[Units]

    @property
    def length(self) -> int:
        """Time of all windows, in nanoseconds."""
        return sum(int((its.end_ns - its.start_ns).sum()) for its in self.windows)

    @property
    def count(self) -> int:
        """Number of windows."""
        return sum(its.step.size for its in self.windows)

    @property
    def samples(self) -> list[tuple[str, int]]:
        """(run, step) of each sample: ranks of a run have the steps of a number in common."""
        return sorted(
            {
                (run, step)
                for (run, _), its in zip(self.keys, self.windows, strict=True)
                for step in its.step.tolist()
            }
        )

    @property
    def has_devices(self) -> bool:
        """Whether any work of a device is in it."""
        return any(bool((of.work > 0).any()) for of in self.slices)


def side(connect: Connect, keys: Sequence[tuple[str, int]]) -> Side:
    """Read a side."""
    read = []
    for run, rank in keys:
        with connect(run, rank) as connection:
            prepare(connection, Answer("causes", rows.MACROS), {})
            of = rows.slices(connection)
            read.append((of, rows.windows(connection, of)))
    forest = trees(read)
    waits = _waits(connect, keys)
    sums = []
    for part, (key, (of, steps)) in enumerate(zip(keys, read, strict=True)):
        until = _waits_until(of, waits.get(key))
        made = with_waits(pieces(of, steps), until)
        sums.append(units(of, made, forest, part, steps.step))
    slices, windows = ([*column] for column in zip(*read, strict=True))
    return Side([*keys], slices, windows, forest, sums)


def _waits(
    connect: Connect, keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], tuple[Ints, Ints]]:
    """Of each rank of a run with several: collectives, and until when each waited for another."""
    waits: dict[tuple[str, int], tuple[Ints, Ints]] = {}
    for run in dict.fromkeys(run for run, _ in keys):
        ranks = [rank for other, rank in keys if other == run]
        if len(ranks) == 1:
            continue
        with connect(run, None) as connection:
            prepare(connection, Answer("causes", _WAITS), {})
            table = select(connection, _WAITS).to_arrow_table()
        of_rank, event, until = (numbers(table, name) for name in ("rank", "event_id", "until_ns"))
        waits |= {(run, rank): (event[of_rank == rank], until[of_rank == rank]) for rank in ranks}
    return waits


def _waits_until(of: Slices, waits: tuple[Ints, Ints] | None) -> Ints:
    until = np.zeros(of.event_id.size, np.int64)
    if waits is not None:
        row = last_equal(of.event_id, np.arange(of.event_id.size), waits[0])
        until[row[row >= 0]] = waits[1][row >= 0]
    return until


def texts(connect: Connect, of: Side, part: Ints, row: Ints) -> pl.DataFrame:
    """Names, shapes and work of some slices; one row each, in their order, NULL for row -1."""
    frames = []
    for number, (run, rank) in enumerate(of.keys):
        place = np.flatnonzero((part == number) & (row >= 0))
        wanted = pa.table({"place": place, "event_id": of.slices[number].event_id[row[place]]})
        with connect(run, rank) as connection:
            prepare(connection, Answer("causes", _TEXTS), {})
            connection.register("_wanted", wanted)
            try:
                table = select(connection, _TEXTS).to_arrow_table()
            finally:
                connection.unregister("_wanted")
        frame = pl.DataFrame(table).with_columns(run=pl.lit(run), rank=pl.lit(rank, pl.Int32))
        frames.append(frame.with_columns(pl.col(pl.Categorical).cast(pl.String)))
    places = pl.DataFrame({"place": np.arange(row.size)})
    return places.join(pl.concat(frames), on="place", how="left", maintain_order="left")


_WAITS: Final = f"""
    WITH matches AS ({MATCHES})
    SELECT rank, event_id, start_ns + least(wait_ns, dur_ns) AS until_ns
    FROM collective_waits(matches, traces, true)
    WHERE wait_ns > 0
"""  # noqa: S608 - of constants
_TEXTS: Final = """
    SELECT place, event_id, kind, name, short_name(kind, name) AS short_name, input_dims AS shapes,
        coalesce(input_types, work_dtype) AS types, kernel_category AS category, flops, dur_ns
    FROM _wanted JOIN events USING (event_id)
"""
