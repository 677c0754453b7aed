"""Who waits for whom, as a person wants to see it first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def stragglers(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `stragglers` with fewer columns; one column for what a rank did before.

    There are none where there are no two ranks.
    """
    import polars as pl

    before = pl.coalesce("before_op", "before_kernel").alias("longest op before")
    return rows.select(
        "run", "rank", "collectives", "times_last", "last_share", "held_up_ns", "max_held_up_ns",
        "mean_wait_ns", before,
    ).sort("held_up_ns", descending=True, maintain_order=True)  # fmt: skip


def title(skew: pl.DataFrame) -> str:
    """What stands above them; a warning where the clocks differ, by the answer `clock_skew`."""
    import polars as pl

    doubtful = skew.filter(pl.col("note").str.contains("skewed|other_clock"))
    return "Ranks that others wait for" + (
        " (their clocks differ: see clock_skew)" if doubtful.height else ""
    )
