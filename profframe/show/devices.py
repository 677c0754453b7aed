"""What the devices did, as a person wants to see it first: fewer columns, and a share for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_BUSY: Final = ("compute_ns", "exposed_communication_ns", "exposed_copy_ns")
_HIDDEN: Final = ("hidden_communication_ns", "hidden_copy_ns")
_HOST: Final = ("call_name", "op_name", "frame_name", "annotation_name")


def breakdown(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `time_breakdown` with the share that was idle, without parts that are zero in all.

    One row per trace; of one alone also per step, beside ``all``.
    """
    import polars as pl

    if rows.select("run", "rank").n_unique() > 1 or rows.height == 1:
        rows = rows.filter(pl.col("step").is_null()).drop("step")
    else:
        rows = rows.with_columns(pl.col("step").cast(pl.String).fill_null("all"))
    busy, hidden = (
        [part for part in parts if (rows[part] > 0).any()] for parts in (_BUSY, _HIDDEN)
    )
    idle_share = (pl.col("idle_ns") / pl.col("span_ns")).fill_nan(None).alias("idle_share")
    return rows.select(
        "run", "rank", pl.col("^step$"), "span_ns", *busy, "idle_ns", idle_share, *hidden
    )


def causes(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `idle` of whole devices, the share of the span beside the time."""
    import polars as pl

    share = pl.col("span_share").alias("idle_share")
    columns = ("run", "rank", "device", "cause", "idle_ns", share, "gaps", "mean_ns", "max_ns")
    return rows.select(columns).sort("idle_ns", descending=True, maintain_order=True)


def gaps(rows: pl.DataFrame, top: int) -> pl.DataFrame:
    """Rows of `gaps` with one column for what the host did: what is nearest to the hardware."""
    import polars as pl

    host = pl.coalesce(_HOST).alias("host was in")
    columns = ("run", "rank", "device", "start_ns", "dur_ns", "share", "cause")
    shown = rows.select(*columns, host, pl.col("after_name").alias("then came"))
    return shown.sort("dur_ns", descending=True, maintain_order=True).head(top)
