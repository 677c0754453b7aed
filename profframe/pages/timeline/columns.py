"""The columns of a page's slices, and of the critical path."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from profframe.intervals import Ints, Mask
from profframe.pages.timeline.content import Content
from profframe.pages.timeline.encoding import Column, Line, beyond_children, differences
from profframe.pages.timeline.lanes import trace_numbers

MOST_STRETCHES: Final = 100_000
"""A critical path with more segments is left out, which the page says."""
_READ: Final = (
    "event_id",
    "dur_ns",
    "parent_id",
    "self_ns",
    "launch_id",
    "op_id",
    "fwd_id",
    "step",
)


def columns(content: Content) -> list[Column]:
    """The columns of the slices, with those that are drawn first."""
    slices, trace = content.slices, content.trace
    frame = content.rows.slices.select(_READ)[content.order]
    line = Line(content.line, _nests(content), slices.begin, slices.dur)
    parent = content.places(trace, frame["parent_id"])
    launch, op, forward = (
        content.places(trace, frame[name]) for name in ("launch_id", "op_id", "fwd_id")
    )
    of_launch = np.where(launch < 0, 0, parent[launch]) if parent.size else parent
    self_ns = frame["self_ns"].fill_null(0).to_numpy()
    step, dims = frame["step"], content.dims[0]
    no_step = _is_null(step)
    return [
        Column("gap", line.gaps()),
        Column("dur", slices.dur, _is_null(frame["dur_ns"])),
        Column("what", content.whats[0]),
        Column("parent", parent - line.likely_parents()),
        Column("self", beyond_children(self_ns, parent, slices.dur), _is_null(frame["self_ns"])),
        Column("event", differences(frame["event_id"].to_numpy())),
        Column("launch", differences(launch, launch < 0), launch < 0),
        Column("op", op - of_launch, op < 0),
        Column("forward", differences(forward, forward < 0), forward < 0),
        Column("step", differences(step.fill_null(0).to_numpy(), no_step), no_step),
        Column("dims", dims, dims < 0),
        *_path(content),
    ]


def bounds(path: pl.DataFrame) -> list[str]:
    """Bounds of path segments, in the order of their numbers."""
    return path["bound"].unique().sort().to_list() if path.height else []


def _is_null(column: pl.Series) -> Mask:
    mask: Mask = column.is_null().to_numpy()
    return mask


def _nests(content: Content) -> Mask:
    """Whether the parent of a slice is on the line above."""
    is_host = np.array([lane.sort == "host" for lane in content.slices.lanes], np.bool_)
    nests: Mask = is_host[content.slices.lane] & (content.slices.row > 0)
    return nests


def _path(content: Content) -> list[Column]:
    """The segments of the critical path: when, in which slice, and what bounds them."""
    path = content.rows.path
    if not 0 < path.height <= MOST_STRETCHES:
        return []
    trace = trace_numbers(content.rows.traces, path).cast(pl.Int64).to_numpy()
    begin = path["start_ns"].to_numpy() - content.slices.zeros[_clock(content, trace)]
    place = content.places(trace, path["event_id"])
    bound = path["bound"].cast(pl.Enum(bounds(path))).to_physical().cast(pl.Int64).to_numpy()
    return [
        Column("path_begin", differences(begin)),
        Column("path_dur", path["dur_ns"].to_numpy()),
        Column("path_slice", differences(place, place < 0), place < 0),
        Column("path_trace", trace),
        Column("path_bound", bound),
    ]


def _clock(content: Content, trace: Ints) -> Ints:
    """The trace whose clock a path uses: across ranks, the lowest rank of its run."""
    if content.rows.traces.height == 1:
        return trace
    runs = content.rows.traces["run"]
    run = runs.rle_id().cast(pl.Int64).to_numpy()
    first: Ints = np.searchsorted(run, run)[trace]
    return first
