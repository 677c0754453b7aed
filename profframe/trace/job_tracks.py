"""Tracks of a whole job besides its ranks: the path across them, and what makes ranks late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from profframe.analysis.critical_path.blame import CAUSES
from profframe.trace.jobs import critical_path, late_slices
from profframe.trace.query import own_rows

if TYPE_CHECKING:
    from profframe.analysis.critical_path import CriticalPath
    from profframe.trace.trace import Trace

Steps = Sequence[int | None]
"""Profiler steps; a single None means everything."""
_STEPS: Final = "SELECT DISTINCT step FROM events WHERE step IS NOT NULL ORDER BY step"


def steps_of(part: Trace, whole: Trace) -> Steps:
    """Steps in a part of some traces; all if it has as many as the whole."""
    if part._session.selection.is_of_traces:  # noqa: SLF001 - a method of it
        return [None]
    steps: list[int | None] = own_rows(part, _STEPS)["step"].to_list()
    return [None] if steps == own_rows(whole, _STEPS)["step"].to_list() else steps


def path_across_ranks(whole: Trace, steps: Steps) -> CriticalPath:
    """The path across the ranks of a run, through some steps of it."""
    paths = [critical_path(whole, step, across_ranks=True) for step in steps]
    if len(paths) < 2:
        return paths[0] if paths else critical_path(whole, across_ranks=True)
    return replace(paths[0], events=pl.concat(path.events for path in paths))


def blame(
    whole: Trace, steps: Steps, ahead_ns: Mapping[tuple[str, int], int], *, corrected: bool
) -> pl.DataFrame:
    """Slices of the time by which ranks were late to collectives, on the clock of a file.

    One row per late rank and collective, from when the rank before it came until it came itself.
    ``cost_ns`` and ``held_up_ns`` are those of `Trace.blame`: they have the same sums for each
    rank, and the costs of the causes (``host_ns`` ...) add up to them. A slice is named after what
    costs most.
    """
    runs = sorted({run for run, _ in ahead_ns})
    rows = pl.concat(
        late_slices(whole, run, step, corrected=corrected) for run in runs for step in steps
    )
    ahead = pl.DataFrame(
        [(*key, ns) for key, ns in ahead_ns.items()],
        schema={"run": rows.schema["run"], "rank": rows.schema["rank"], "_ahead": pl.Int64},
        orient="row",
    )
    rank = pl.format("rank {}", "rank")
    waits = pl.format("wait for rank {}", "waits_for_rank")
    blamed = pl.coalesce("op", "name", pl.lit("nothing recorded"))
    return rows.join(ahead, on=["run", "rank"], maintain_order="left").select(
        pl.format("{} {}", "run", rank).alias("series") if len(runs) > 1 else rank.alias("series"),
        pl.when(pl.col("waits_for_rank").is_not_null())
        .then(waits)
        .otherwise(pl.format("{}: {}", "cause", blamed))
        .alias("name"),
        pl.col("start_ns") - pl.col("_ahead"),
        "dur_ns",
        pl.col("rank").alias("late_rank"),
        pl.col("kind").alias("collective"),
        "step",
        "cost_ns",
        "held_up_ns",
        "cause",
        pl.col("name").alias("slice"),
        "op",
        "module",
        "waits_for_rank",
        "largest_cost_ns",
        *(f"{cause}_ns" for cause in CAUSES),
    )
