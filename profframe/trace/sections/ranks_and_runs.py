"""Sections about several ranks and several runs."""

from __future__ import annotations

from typing import Final

from profframe.errors import ParameterError
from profframe.pages.report.page_parts import PageSection, Part
from profframe.show.compact_tables import clock_note
from profframe.trace import run_statistics
from profframe.trace.sections.replies import Context, Reply, call_text, whole

_STRAGGLERS: Final = (
    "collectives", "times_last", "last_share", "held_up_ns", "max_held_up_ns", "excess", "wait_ns",
    "mean_wait_ns", "before_op", "before_kernel",
)  # fmt: skip
_COLLECTIVES: Final = (
    "ranks", "process_group", "collective", "dtype", "bytes", "calls", "total_ns", "p50_ns",
    "max_ns", "skew_ns", "bus_gb_per_s", "mismatches",
)  # fmt: skip
_OF_RANKS: Final = (
    (
        "step_communication",
        "How much communication is hidden, and how much of the rest is waiting",
        (
            "step", "compute_ns", "communication_ns", "hidden_share", "exposed_ns", "wait_ns",
            "transfer_ns", "wait_over_mean",
        ),
    ),
    (
        "pipeline_bubbles",
        "How long each pipeline rank waits for others",
        (
            "step", "pass", "stages", "microbatches", "window_ns", "busy_ns", "bubble_share",
            "ideal_share", "warmup_ns", "steady_ns", "cooldown_ns",
        ),
    ),
    (
        "pipeline_actions",
        "What each pipeline rank did when",
        ("step", "pass", "stage", "microbatch", "phase", "start_ns", "dur_ns", "idle_ns", "name"),
    ),
    (
        "expert_balance",
        "How evenly tokens of experts are spread",
        (
            "step", "collective", "process_group", "calls", "received_bytes", "received_over_mean",
            "transfer_ns", "transfer_over_mean", "wait_ns",
        ),
    ),
    (
        "input_balance",
        "How long each rank waits for its input",
        ("step", "calls", "load_ns", "wait_ns", "over_median_ns", "wait_over_mean"),
    ),
    (
        "collective_traffic",
        "Bytes that ranks send to each other",
        ("peer_rank", "process_group", "calls", "bytes"),
    ),
)  # fmt: skip
"""Further answers about several ranks: name, title, columns that are visible at first."""
_RUNS: Final = (
    "ranks", "span_ns", "steps", "step_p50_ns", "step_p90_ns", "op_self_ns", "kernel_ns",
    "busy_share", "exposed_communication_share", "peak_device_bytes",
)  # fmt: skip
_REGRESSIONS: Final = (
    "what", "name", "base_ns", "other_ns", "change_ns", "ratio", "pace", "p_value", "q_value",
)  # fmt: skip
_FEWEST: Final = 3
"""Minimum runs to compare the latest one with those before."""
_BASELINE: Final = 10


def ranks(context: Context) -> PageSection | None:
    """Who waits for whom, how even ranks are, and how fast collectives are."""
    several = "rank" not in context.constant_keys
    parts = _rank_parts(context) if several else []
    if _communicates(context) and (collectives := context.answer("collectives", per="size")):
        parts.append(
            context.table(collectives, "Collectives", _COLLECTIVES, "total_ns", title="Collectives")
        )
    if not parts:
        return None
    if several:
        about = (
            "Which ranks wait for which, how balanced the ranks are, and how fast they communicate."
        )
        return PageSection("Ranks and collectives", about, tuple(parts))
    about = "How fast collectives are, seen from one rank: times include its waits for others."
    return PageSection("Collectives", about, tuple(parts))


def _communicates(context: Context) -> bool:
    columns = context.filled_columns() & {"collective", "process_group"}
    if columns or "rank" not in context.constant_keys or context.traces["backend"].count():
        return True
    return "communication" in context.answer("kernels").frame["class"]


def _rank_parts(context: Context) -> list[Part]:
    parts: list[Part] = [*context.chart("ranks", "Time of each rank")]
    if stragglers := context.answer("stragglers"):
        note = clock_note(stragglers.frame)
        title = f"Which rank the others wait for{note and f', {note}'}"
        parts.append(
            context.table(stragglers, "Stragglers", _STRAGGLERS, "held_up_ns", title=title)
        )
    if balance := whole(context.answer("rank_balance")):
        title, about = (
            "How balanced the ranks are",
            "For the whole trace; the answer has each step.",
        )
        parts.append(context.table(balance, "Balance of ranks", title=title, about=about))
    skew = context.answer("clock_skew")
    if skew and (parts or {*skew.frame["note"]} != {"no_common_collective"}):
        title = "How far apart the clocks are"
        parts.append(context.table(skew, "Clocks", title=title))
    for name, title, columns in _OF_RANKS:
        if reply := whole(context.answer(name)):
            parts.append(context.table(reply, title, columns, title=title))
    return parts


def runs(context: Context) -> PageSection | None:
    """Each run in one row, the trend, and what got slower."""
    if "run" in context.constant_keys:
        return None
    reply = context.answer("runs")
    metric = "step_p50_ns" if reply.frame["step_p50_ns"].count() else "span_ns"
    parts: list[Part] = [
        *context.chart("trend", "From run to run", metric),
        context.table(reply, "Runs", _RUNS),
    ]
    trend = Reply(
        "trend", call_text("trend", metric=metric), run_statistics.trend(context.trace, metric)
    )
    changes = Reply(trend.name, trend.call, trend.frame.filter("is_change"))
    if changes:
        title = "Runs from which it changed for good"
        parts.append(context.table(changes, "Changes", title=title))
    if regressions := _regressions(context, reply.frame.height):
        title = "What takes longer in the latest run than before"
        parts.append(context.table(regressions, "Regressions", _REGRESSIONS, title=title))
    return PageSection(
        "Runs",
        "Each run in one row, when steps began to take longer, and what got slower.",
        tuple(parts),
    )


def _regressions(context: Context, number: int) -> Reply | None:
    if number < _FEWEST:
        return None
    baseline = min(number - 1, _BASELINE)
    try:
        rows = run_statistics.regressions(context.trace, baseline)
    except ParameterError:
        return None
    return Reply("regressions", call_text("regressions", baseline=baseline), rows)
