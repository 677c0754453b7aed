"""What a store has, and what is wrong with it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from profframe import schema
from profframe.show import terminal, units
from profframe.store.facts_version import facts_version

if TYPE_CHECKING:
    from rich.console import RenderableType


def by_run(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per run: the number of its ranks, and sums over them.

    Examples
    --------
    >>> row = {"run": "a", "rank": 0, "events": 2, "bytes": 9, "start_ns": 5, "clock": "utc"}
    >>> rank = row | {"schema_version": "5", "facts_version": "1a", "folder": "run=a/rank=0"}
    >>> by_run(pl.DataFrame([rank, rank | {"rank": 1}])).rows()
    [('a', 2, 4, 18, 5, 'utc', '5', '1a')]
    """
    one = (
        pl.col("clock", "schema_version", "facts_version").drop_nulls().unique(maintain_order=True)
    )
    return (
        rows.group_by("run", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("ranks"),
            pl.col("events", "bytes").sum(),
            pl.col("start_ns").min(),
            one.cast(pl.String).str.join(", "),
        )
        .sort("run")
    )


def listing(found: pl.DataFrame, rows: pl.DataFrame, width: int | None) -> RenderableType:
    """A table of runs or ranks, with the sums above it."""
    starts = [
        units.moment(ns)[:19] if ns is not None and clock == "utc" else ""
        for ns, clock in rows.select("start_ns", "clock").rows()
    ]
    shown = rows.drop("start_ns", "clock").insert_column(1, pl.Series("start (UTC)", starts))
    runs = found["run"].n_unique()
    size, packs = int(found["bytes"].sum()), found["folder"].str.starts_with("pack-").sum()
    title = (
        f"{units.plural(runs, 'run')}, {units.plural(found.height, 'trace')}"
        f" ({packs:,} packed), {units.plural(int(found['events'].sum()), 'event')},"
        f" {units.size(size).strip()}"
    )
    others = found.filter(
        (pl.col("facts_version") != facts_version())
        | (pl.col("schema_version") != str(schema.SCHEMA_VERSION))
    ).height
    if others:
        title += (
            f"\n{units.plural(others, 'trace')} read by another version of profframe, so facts may"
            f" differ from those of {facts_version()}: `profframe convert` of the sources writes"
            " them anew"
        )
    return terminal.table(shown, width, title, {"start (UTC)": "start (UTC)"})


def counted(keys: Sequence[tuple[str, int]]) -> str:
    """How many runs and traces.

    Examples
    --------
    >>> counted([("a", 0), ("a", 1)])
    '2 traces of 1 run'
    """
    runs = len({run for run, _ in keys})
    return f"{units.plural(len(keys), 'trace')} of {units.plural(runs, 'run')}"


def packed(number: int) -> str:
    """What came of packing."""
    return f"{units.plural(number, 'trace')} packed" if number else "nothing to pack"


def problems(rows: pl.DataFrame) -> RenderableType:
    """A table of what is wrong."""
    return terminal.table(rows, None)


def lines(rows: pl.DataFrame) -> list[str]:
    """A line for each file that is not sound."""
    return [f"{file}: {why}" for file, why in rows.select("file", "problem").rows()]
