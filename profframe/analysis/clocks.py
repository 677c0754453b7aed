"""By how much the clocks of ranks differ: the one question that others ask."""

from __future__ import annotations

from typing import Final

from profframe.query.header import Answer

MATCHES: Final = "FROM collective_matches(events, traces)"
"""Collectives of all ranks."""


def offsets(matches: str = MATCHES) -> Answer:
    """One row per rank whose clock is known: ``run rank offset_ns``, what it is ahead of its job.

    ``matches`` are rows of collective_matches. Answers that have ``corrected`` take the same off,
    by the macro collective_waits.
    """
    sql = f"""
        WITH matches AS ({matches})
        SELECT run, rank, offset_ns
        FROM clock_offsets(matches)
        WHERE offset_ns IS NOT NULL
        ORDER BY run, rank"""  # noqa: S608 - of constants
    return Answer("clock offsets", sql)
