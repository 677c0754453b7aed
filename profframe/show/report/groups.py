"""Sections about several ranks and several runs."""

from __future__ import annotations

from typing import Final

import polars as pl

from profframe.errors import ParameterError
from profframe.show.report.parts import Part, Section
from profframe.show.report.replies import Asked, Reply, called

_STRAGGLERS: Final = (
    "collectives", "times_last", "last_share", "held_up_ns", "max_held_up_ns", "wait_ns",
    "mean_wait_ns", "before_op", "before_kernel",
)  # fmt: skip
_COLLECTIVES: Final = (
    "ranks", "process_group", "collective", "dtype", "bytes", "calls", "total_ns", "p50_ns",
    "max_ns", "skew_ns", "bus_gb_per_s", "mismatches",
)  # fmt: skip
_RUNS: Final = (
    "ranks", "span_ns", "steps", "step_p50_ns", "step_p90_ns", "op_self_ns", "kernel_ns",
    "busy_share", "exposed_communication_share", "peak_device_bytes",
)  # fmt: skip
_REGRESSIONS: Final = (
    "what", "name", "base_ns", "other_ns", "change_ns", "ratio", "pace", "p_value", "q_value",
)  # fmt: skip
_FEWEST: Final = 3
"""Runs from which on the latest is held against the ones before."""
_BASELINE: Final = 10


def ranks(asked: Asked) -> Section | None:
    """Who waits for whom, how even ranks are, and how fast collectives are."""
    several = "rank" not in asked.dull
    parts = _of_ranks(asked) if several else []
    if _communicates(asked) and (collectives := asked.answer("collective_summary")):
        parts.append(
            asked.table(collectives, "Collectives", _COLLECTIVES, "total_ns", title="Collectives")
        )
    if not parts:
        return None
    if several:
        about = "Who waits for whom, how even the ranks are, and how fast they communicate."
        return Section("Ranks and collectives", about, tuple(parts))
    about = "How fast collectives are, seen from one rank: its waits for others are in the times."
    return Section("Collectives", about, tuple(parts))


def _communicates(asked: Asked) -> bool:
    said = asked.known() & {"collective", "process_group"}
    if said or "rank" not in asked.dull or asked.trace.traces["backend"].count():
        return True
    return "communication" in asked.answer("kernels").frame["class"]


def _of_ranks(asked: Asked) -> list[Part]:
    parts: list[Part] = [*asked.chart("ranks", "Time of each rank")]
    if late := asked.answer("stragglers"):
        title = "Which rank the others wait for"
        parts.append(asked.table(late, "Stragglers", _STRAGGLERS, "held_up_ns", title=title))
    balance = asked.answer("rank_balance")
    whole = balance.frame.filter(pl.col("step").is_null())
    if whole.height:
        title, about = "How even the ranks are", "Of the whole trace; the answer has each step."
        reply = Reply(balance.name, balance.call, whole)
        parts.append(asked.table(reply, "Balance of ranks", title=title, about=about))
    if clocks := asked.answer("clock_skew"):
        title = "How far the clocks are apart"
        parts.append(asked.table(clocks, "Clocks", title=title))
    return parts


def runs(asked: Asked) -> Section | None:
    """Each run in one row, how they went, and what got slower."""
    if "run" in asked.dull:
        return None
    found = asked.answer("runs")
    metric = "step_p50_ns" if found.frame["step_p50_ns"].count() else "span_ns"
    parts: list[Part] = [
        *asked.chart("trend", "From run to run", metric),
        asked.table(found, "Runs", _RUNS),
    ]
    trend = Reply("trend", called("trend", metric=metric), asked.trace.trend(metric))
    changes = Reply(trend.name, trend.call, trend.frame.filter("is_change"))
    if changes:
        title = "From which run on it changed for good"
        parts.append(asked.table(changes, "Changes", title=title))
    if slower := _regressions(asked, found.frame.height):
        title = "What takes longer in the latest run than in those before it"
        parts.append(asked.table(slower, "Regressions", _REGRESSIONS, title=title))
    return Section(
        "Runs",
        "Each run in one row, from which run on a step took longer, and what got slower.",
        tuple(parts),
    )


def _regressions(asked: Asked, number: int) -> Reply | None:
    if number < _FEWEST:
        return None
    baseline = min(number - 1, _BASELINE)
    try:
        rows = asked.trace.regressions(baseline)
    except ParameterError:
        return None
    return Reply("regressions", called("regressions", baseline=baseline), rows)
