"""The slices of a timeline, with derived arrays computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from profframe.intervals import Ints, Mask
from profframe.pages.timeline.encoding import (
    Line,
    PackedColumn,
    beyond_children,
    differences,
    numbered,
)
from profframe.pages.timeline.lanes import Placed, trace_numbers
from profframe.pages.timeline.timeline_data import TimelineRows

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


def columns(content: Content) -> list[PackedColumn]:
    """The columns of the slices, with those that are drawn first."""
    slices, trace = content.slices, content.trace
    frame = content.rows.slices.select(_READ)[content.order]
    is_host = np.array([lane.sort == "host" for lane in slices.lanes], np.bool_)
    nests = is_host[slices.lane] & (slices.row > 0)  # the parent is on the line above
    line = Line(content.line, nests, slices.begin, slices.dur)
    parent = content.places(trace, frame["parent_id"])
    launch, op, forward = (
        content.places(trace, frame[name]) for name in ("launch_id", "op_id", "fwd_id")
    )
    of_launch = np.where(launch < 0, 0, parent[launch]) if parent.size else parent
    self_ns = frame["self_ns"].fill_null(0).to_numpy()
    step, dims = frame["step"], content.dims[0]
    no_step = _is_null(step)
    return [
        PackedColumn("gap", line.gaps()),
        PackedColumn("dur", slices.dur, _is_null(frame["dur_ns"])),
        PackedColumn("what", content.whats[0]),
        PackedColumn("parent", parent - line.likely_parents()),
        PackedColumn(
            "self", beyond_children(self_ns, parent, slices.dur), _is_null(frame["self_ns"])
        ),
        PackedColumn("event", differences(frame["event_id"].to_numpy())),
        PackedColumn("launch", differences(launch, launch < 0), launch < 0),
        PackedColumn("op", op - of_launch, op < 0),
        PackedColumn("forward", differences(forward, forward < 0), forward < 0),
        PackedColumn("step", differences(step.fill_null(0).to_numpy(), no_step), no_step),
        PackedColumn("dims", dims, dims < 0),
        *_path(content),
    ]


def bounds(path: pl.DataFrame) -> list[str]:
    """Bounds of path segments, in the order of their numbers."""
    return path["bound"].unique().sort().to_list() if path.height else []


def _is_null(column: pl.Series) -> Mask:
    mask: Mask = column.is_null().to_numpy()
    return mask


def _path(content: Content) -> list[PackedColumn]:
    """The segments of the critical path: when, in which slice, and what bounds them."""
    path = content.rows.path
    if not 0 < path.height <= MOST_STRETCHES:
        return []
    trace = trace_numbers(content.rows.traces, path).cast(pl.Int64).to_numpy()
    begin = path["start_ns"].to_numpy() - content.slices.zeros[_clock(content, trace)]
    place = content.places(trace, path["event_id"])
    bound = path["bound"].cast(pl.Enum(bounds(path))).to_physical().cast(pl.Int64).to_numpy()
    return [
        PackedColumn("path_begin", differences(begin)),
        PackedColumn("path_dur", path["dur_ns"].to_numpy()),
        PackedColumn("path_slice", differences(place, place < 0), place < 0),
        PackedColumn("path_trace", trace),
        PackedColumn("path_bound", bound),
    ]


def _clock(content: Content, trace: Ints) -> Ints:
    """The trace whose clock a path uses: across ranks, the lowest rank of its run."""
    if content.rows.traces.height == 1:
        return trace
    runs = content.rows.traces["run"]
    run = runs.rle_id().cast(pl.Int64).to_numpy()
    first: Ints = np.searchsorted(run, run)[trace]
    return first


@dataclass(frozen=True, eq=False)
class Content:
    """Some slices in the order of the page, computed once for everything about them."""

    rows: TimelineRows
    slices: Placed

    @cached_property
    def order(self) -> pl.Series:
        """The rows of `TimelineRows.slices`."""
        return pl.Series(self.slices.source, dtype=pl.UInt32)

    @cached_property
    def trace(self) -> Ints:
        """The trace of each slice."""
        return np.array([lane.trace for lane in self.slices.lanes], np.int64)[self.slices.lane]

    @cached_property
    def line_counts(self) -> Ints:
        """Number of lines of each lane: its rows, empty ones too."""
        counts = np.zeros(len(self.slices.lanes), np.int64)
        np.maximum.at(counts, self.slices.lane, self.slices.row + 1)
        return counts

    @cached_property
    def line(self) -> Ints:
        """Number of the line that each slice is on, over all lanes."""
        first = np.cumsum(self.line_counts) - self.line_counts
        return first[self.slices.lane] + self.slices.row

    @cached_property
    def whats(self) -> tuple[Ints, dict[str, list[Any]]]:
        """For each slice the number of its name, kind and category, the most frequent first."""
        names = ("name", "kind", "category")
        texts = self.rows.slices.select(names)[self.order]
        keys = np.zeros(texts.height, np.int64)
        for name in names:
            categories = texts[name].cast(pl.Categorical).to_physical()
            codes = categories.cast(pl.Int64).fill_null(-1).to_numpy() + 1
            keys = keys * (codes.max(initial=0) + 1) + codes
        _, first, number, count = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        by_count = np.argsort(-count, kind="stable")
        place = np.empty_like(by_count)
        place[by_count] = np.arange(by_count.size)
        some = texts[pl.Series(first[by_count], dtype=pl.UInt32)]
        return place[number], {name: some[name].to_list() for name in names}

    @cached_property
    def dims(self) -> tuple[Ints, list[str]]:
        """For each slice the number of its input shapes, or -1."""
        texts = self.rows.slices["input_dims"][self.order]
        unique = texts.drop_nulls().unique(maintain_order=True)
        return numbered(texts, unique), unique.to_list()

    @cached_property
    def _bases(self) -> Ints:
        size = np.zeros(self.rows.traces.height + 1, np.int64)
        np.maximum.at(size, self.trace + 1, self._numbers + 1)
        return np.cumsum(size)

    @cached_property
    def _numbers(self) -> Ints:
        numbers: Ints = self.rows.slices["event_id"].to_numpy()[self.slices.source]
        return numbers

    @cached_property
    def _places(self) -> Ints:
        place = np.full(int(self._bases[-1]) + 1, -1, np.int64)
        place[self._bases[self.trace] + self._numbers] = np.arange(self._numbers.size)
        return place

    def places(self, trace: Ints, event_id: pl.Series) -> Ints:
        """Where slices of traces are in the order of the page; -1 where they are not."""
        number = event_id.fill_null(-1).cast(pl.Int64).to_numpy()
        at = self._bases[trace] + number
        is_there = (number >= 0) & (at < self._bases[trace + 1])
        return np.where(is_there, self._places[np.where(is_there, at, 0)], -1)
