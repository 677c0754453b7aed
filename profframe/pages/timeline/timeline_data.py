"""The rows that a timeline draws: slices, and what accompanies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from profframe import schema

SLICE_COLUMNS: Final = (
    "run", "rank", "event_id", "kind", "category", "name", "start_ns", "dur_ns", "thread", "device",
    "stream", "step", "parent_id", "depth", "self_ns", "launch_id", "op_id", "fwd_id",
    "input_dims",
)  # fmt: skip
OTHER_COLUMNS: Final = tuple(
    column.name for column in schema.EVENTS if column.name not in SLICE_COLUMNS
)
KEY: Final = ("run", "rank")


@dataclass(frozen=True, slots=True, eq=False)
class TimelineRows:
    """Rows of a trace that a timeline draws; times are on the clocks of their ranks.

    Attributes
    ----------
    traces
        ``run rank clock``, in the order of the page.
    slices
        `SLICE_COLUMNS` of every slice.
    threads
        Rows of the table ``threads``.
    offsets
        ``run rank offset_ns``: by how much a clock is ahead of that of the run.
    steps, findings
        Rows of the answers ``step_times`` and ``advice``.
    counters
        ``run rank device stream name unit time_ns value``: queues, memory, and what was sampled.
    path
        Rows of the critical path of the slowest step, or of the whole trace.
    path_of
        What the path of each run covers, in words.
    path_lacks
        Why a run has no path, in words; empty if all have one.
    others
        Reads some of `OTHER_COLUMNS` of every slice; None if a page has no room for them.
    unread, unread_ns
        Number of slices that were not read, and their maximum duration.
    """

    traces: pl.DataFrame
    slices: pl.DataFrame
    threads: pl.DataFrame
    offsets: pl.DataFrame
    steps: pl.DataFrame
    findings: pl.DataFrame
    counters: pl.DataFrame
    path: pl.DataFrame
    path_of: Mapping[str | None, str]
    path_lacks: str = ""
    others: Callable[[Sequence[str]], pl.DataFrame] | None = None
    unread: int = 0
    unread_ns: int = 0
