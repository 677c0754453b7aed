"""Clock offsets between ranks, which several analyses subtract."""

from __future__ import annotations

from typing import Final

from profframe.query.header import Answer

MATCHES: Final = "FROM collective_matches(events, traces)"
"""Collectives of all ranks."""


def offsets(matches: str = MATCHES) -> Answer:
    """One row per rank with a known clock: ``run rank offset_ns``, how far it is ahead of its job.

    ``matches`` are rows of collective_matches. Answers with ``corrected`` subtract the same,
    through the macro collective_waits.
    """
    sql = f"""
        WITH matches AS ({matches})
        SELECT run, rank, offset_ns
        FROM clock_offsets(matches)
        WHERE offset_ns IS NOT NULL
        ORDER BY run, rank"""  # noqa: S608 - of constants
    return Answer("clock offsets", sql)
