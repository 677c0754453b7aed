"""Predictions as tables: lengths, and what bounds them."""

from __future__ import annotations

from typing import Final

import polars as pl

from profframe.show import units

_BOUND: Final = ("host", "launch", "compute", "communication", "copy", "sync", "idle")


def title(rows: pl.DataFrame) -> str:
    """A title for the tables, with how well the replay matches the recording."""
    now, error = rows.select("now_ns", "replay_error").row(0)
    if error is None:
        return "What if: nothing takes time"
    return f"What if: {units.duration(now)} now, replayed with {error:+.2%}"


def lengths(rows: pl.DataFrame) -> pl.DataFrame:
    """Predicted lengths with what they save, and their range."""
    return rows.select("change", "predicted_ns", "saved_ns", "saved_share", "low_ns", "high_ns")


def bounds(rows: pl.DataFrame) -> pl.DataFrame:
    """What bounds each prediction, without bounds that none has."""
    names = [f"{bound}_ns" for bound in _BOUND]
    return rows.select("change", *(name for name in names if rows[name].sum()))
