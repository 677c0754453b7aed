"""Predictions as tables: how long, and bound by what."""

from __future__ import annotations

from typing import Final

import polars as pl

from profframe.show import units

_BOUND: Final = ("host", "launch", "compute", "communication", "copy", "sync", "idle")


def title(rows: pl.DataFrame) -> str:
    """What the tables are of, and how well what was recorded is replayed."""
    error = rows["replay_error"].first()
    if error is None:
        return "What if: nothing takes time"
    return f"What if: {units.duration(rows['now_ns'][0])} now, replayed with {error:+.2%}"


def lengths(rows: pl.DataFrame) -> pl.DataFrame:
    """Predicted lengths with what they save, and from where to where they may lie."""
    return rows.select("change", "predicted_ns", "saved_ns", "saved_share", "low_ns", "high_ns")


def bounds(rows: pl.DataFrame) -> pl.DataFrame:
    """What each prediction is bound by, without bounds that none has."""
    names = [f"{bound}_ns" for bound in _BOUND]
    return rows.select("change", *(name for name in names if rows[name].sum()))
