"""Sections about dumps of the flight recorder and execution traces."""

from __future__ import annotations

from typing import Final

from profframe.pages.report.page_parts import PageSection, Part
from profframe.trace.sections.replies import Context

_HANGS: Final = (
    "process_group_description", "process_group", "kind", "collective_seq", "line", "finding",
    "late_ranks", "waiting_ranks", "other_ranks", "not_loaded_ranks", "late_at", "since_ns",
)  # fmt: skip
_SIDES: Final = (
    "process_group_description", "process_group", "kind", "collective_seq", "line", "rank", "role",
    "state", "input_sizes", "output_sizes", "input_dtypes", "created_ns", "stack",
)  # fmt: skip
_PROGRESS: Final = (
    "process_group_description", "process_group", "is_loaded", "first_seq", "last_seq",
    "completed_seq", "missing_calls", "kind", "state", "created_ns", "stack",
)  # fmt: skip
_TRAFFIC: Final = (
    "name", "collective", "process_group_description", "calls", "read_bytes", "written_bytes",
    "allocated_bytes", "largest_bytes", "largest_dtype", "largest_shape",
)  # fmt: skip


def hangs(context: Context) -> PageSection | None:
    """What hangs by dumps of the flight recorder, each rank's side, how far each rank came."""
    progress = context.answer("collective_progress")
    if not progress:
        return None
    parts: list[Part] = []
    if rows := context.answer("hangs"):
        parts.append(context.table(rows, "What hangs", _HANGS, title="What hangs"))
    if sides := context.answer("hangs", per="rank"):
        title = "The side of each rank"
        parts.append(context.table(sides, title, _SIDES, title=title))
    title = "How far each rank got"
    parts.append(context.table(progress, title, _PROGRESS, title=title))
    about = "What ranks did not reach, or disagree about, according to their flight recorders."
    return PageSection("Hangs", about, tuple(parts))


def execution(context: Context) -> PageSection | None:
    """What the ops of an execution trace read and write."""
    traffic = context.answer("tensor_traffic")
    if not traffic:
        return None
    title = "Bytes that ops read and write"
    about = "Calls with their input and output tensors, from an execution trace."
    parts = (context.table(traffic, title, _TRAFFIC, title=title),)
    return PageSection("Execution trace", about, parts)
