"""The slices of a timeline, with derived arrays computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from profframe.intervals import Ints
from profframe.pages.timeline.encoding import numbered
from profframe.pages.timeline.lanes import Placed
from profframe.pages.timeline.rows import TimelineRows


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
            codes = _codes(texts[name])
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


def _codes(column: pl.Series) -> Ints:
    """Small numbers for texts; 0 where there is none."""
    categories = column.cast(pl.Categorical).to_physical()
    codes: Ints = categories.cast(pl.Int64).fill_null(-1).to_numpy() + 1
    return codes
