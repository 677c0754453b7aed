"""The data of a timeline page: metadata as JSON, and columns as bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from profframe.intervals import Mask
from profframe.pages.timeline.encoding import packed
from profframe.pages.timeline.extra_columns import NO_OTHERS, others
from profframe.pages.timeline.lanes import Placed, placed
from profframe.pages.timeline.metadata import head
from profframe.pages.timeline.page_slices import Content, columns
from profframe.pages.timeline.timeline_data import TimelineRows

BUDGET_BYTES: Final = 6_600_000
"""Maximum bytes of columns in a page: 8.8 MB as text, of 12 MB for the whole page."""
_CLOSE: Final = 0.96
"""The share that is tried of what would fit on average."""


@dataclass(frozen=True, slots=True, eq=False)
class TimelineDocument:
    """Data of one page."""

    head: Mapping[str, Any]
    body: bytes

    @property
    def text(self) -> str:
        """The columns as text that needs no escaping in HTML."""
        return base64.b64encode(self.body).decode()


def document(rows: TimelineRows, most_bytes: int | None = BUDGET_BYTES) -> TimelineDocument:
    """Pack everything; if there are too many slices, the shortest of each lane are left out.

    Parameters
    ----------
    rows
        What is drawn.
    most_bytes
        Maximum bytes of the columns; None for all slices.
    """
    whole = placed(rows)
    share = 1.0
    while True:
        content = Content(rows, whole if share == 1 else whole.kept(longest(whole, share)))
        heads, body = packed(columns(content))
        if most_bytes is None or len(body) <= most_bytes or share * whole.begin.size < 1:
            room = None if most_bytes is None else most_bytes - len(body)
            # What leaves no room for all slices leaves none for their other columns.
            more = _others(content, room) if share == 1 else ([], b"", NO_OTHERS)
            heads, body, others_head = [*heads, *more[0]], body + more[1], more[2]
            return TimelineDocument(
                head(content, whole) | {"columns": heads, "others": others_head}, body
            )
        fixed = sum(one["bytes"] for one in heads if one["name"].startswith("path"))
        share *= _CLOSE * max(most_bytes - fixed, 0) / (len(body) - fixed)


def _others(
    content: Content, room: int | None
) -> tuple[list[dict[str, Any]], bytes, dict[str, Any]]:
    """Further columns, if there is room: metadata, bytes, and how to read them."""
    if content.rows.others is None:
        return [], b"", NO_OTHERS
    made, how = others(content)
    heads, body = packed(made)
    if room is not None and len(body) + sum(map(len, chain(*how["texts"].values()))) > room:
        return [], b"", NO_OTHERS
    return heads, body, how


def longest(slices: Placed, share: float) -> Mask:
    """The longest slices of each lane, at least one; of equally long ones, the outer ones."""
    order = np.lexsort((slices.row, -slices.dur, slices.lane))
    counts = np.bincount(slices.lane, minlength=len(slices.lanes))
    first = np.cumsum(counts) - counts
    place = np.arange(order.size) - first[slices.lane[order]]
    mask = np.zeros(order.size, np.bool_)
    mask[order] = place < np.ceil(counts * share)[slices.lane[order]]
    return mask
