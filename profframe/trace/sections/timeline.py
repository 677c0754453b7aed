"""The section about the timeline."""

from __future__ import annotations

from typing import Final

from profframe.pages.report.page_parts import PageSection, TimelinePart
from profframe.show import units
from profframe.trace.sections.replies import Context

FORMS: Final = ("budget", "full", "none")
"""All slices that there is room for, all slices, or no timeline."""


def timeline(context: Context) -> PageSection | None:
    """All slices over time."""
    from profframe.pages.timeline.page_budget import BUDGET_BYTES, document
    from profframe.trace.timeline_selection import MOST_READ, timeline_rows

    if context.timeline == "none":
        return None
    is_full = context.timeline == "full"
    rows = timeline_rows(context.trace, None if is_full else MOST_READ)
    packed = document(rows, None if is_full else BUDGET_BYTES)
    if not packed.head["slices"]:
        return None
    left = rows.unread + sum(lane["left_out"] for lane in packed.head["lanes"])
    number = rows.slices.height + rows.unread
    cut = f"{left:,} of {number:,} slices, the shortest, are left out; --timeline full has all."
    part = TimelinePart(
        key="timeline",
        head=units.script_json(packed.head),
        packed=packed.text,
        calls=("trace.plot.timeline()",),
        cut=cut if left else "",
    )
    about = (
        "Everything over time: W and S zoom, A and D move, drag to select a span, click for all "
        "columns of a slice."
    )
    return PageSection("Timeline", about, (part,))
