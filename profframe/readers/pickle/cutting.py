"""Runs of dicts out of the bytes of a pickle, as columns.

All dicts that may begin in a block are walked side by side (`walking`), first those that lie in
lists of other ones. Dicts that directly follow each other are a run; all others are left to the
decoder of single opcodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.readers.pickle.walking import (
    EMPTY,
    ITEMS,
    VALUE,
    Adjacent,
    Block,
    Bools,
    Ints,
    Kind,
    ListPieces,
    Shape,
    Values,
    Walk,
    may_begin,
    spread,
)

__all__ = ["Cut", "Cutter", "Dicts", "Items", "KeyColumn", "joined"]


@dataclass(slots=True)
class KeyColumn:
    """Values of one key, one for each row."""

    state: npt.NDArray[np.int8]
    numbers: Ints
    """The number; for GET the place in the memo; for a text or list where it was put (-1: not)."""
    bodies: pa.Array
    """For each VALUE of a text or list its bytes, or the opcodes of its items; for each other one
    that the memo has, its opcodes."""
    items: Items | None = None
    """For the rows that are ITEMS."""


@dataclass(slots=True)
class Dicts:
    """Dicts as columns."""

    count: int
    places: Ints
    """Where each one is in the memo; -1: not."""
    columns: dict[tuple[str, Kind], KeyColumn]
    """By key and kind, which may differ among shapes."""

    def every(self) -> Iterator[tuple[Kind, KeyColumn]]:
        """All columns, including those of dicts in lists."""
        for (_, kind), column in self.columns.items():
            if column.items is not None:
                yield from column.items.dicts.every()
            yield kind, column


@dataclass(slots=True)
class Items:
    """Items of lists, list by list."""

    counts: Ints
    """Items of each list."""
    gets: Ints
    """For each item its place in the memo; -1 for the next one of the dicts."""
    dicts: Dicts


@dataclass(slots=True)
class Cut:
    """A run of dicts."""

    end: int
    """Place after the last one."""
    memoised: int
    """Number of values put into the memo."""
    dicts: Dicts


class Cutter:
    """Cuts runs of dicts out of one block of bytes.

    Parameters
    ----------
    data
        The bytes.
    shapes
        The shapes of dicts that are in lists of other dicts.
    places
        Number of places that the memo may have: a dict that names one beyond it is not cut.
    """

    def __init__(self, data: bytes, shapes: Sequence[Shape], places: int) -> None:
        self.data = data
        self.shapes = shapes
        self._block = Block.of(data, places)
        starts = may_begin(self._block.codes)
        self._starts = starts[starts <= self._block.last]
        self._inner: _Walked | None = None
        if shapes and len(self._starts):
            walked = _Walked(self._block, self._starts, shapes, None)
            if len(walked.starts):
                self._inner = walked
                self._starts = np.delete(self._starts, walked.rows)

    def cut(self, position: int, most: int, memoised: int, shapes: Sequence[Shape]) -> Cut | None:
        """The dicts that directly follow each other from a place on, and have one of these shapes.

        Parameters
        ----------
        position
            Where the first one begins.
        most
            Maximum places to look at where a dict may begin.
        memoised
            Number of values in the memo before it.
        shapes
            The shapes of the dicts.
        """
        row = int(np.searchsorted(self._starts, position))
        starts = self._starts[row : row + most]
        if not len(starts) or starts[0] != position:
            return None
        walked = _Walked(self._block, starts, shapes, self._inner)
        rows = walked.run(position)
        if not len(rows):
            return None
        own = walked.memoised[rows]
        before = memoised + np.cumsum(own) - own
        return Cut(int(walked.ends[rows[-1]]), int(own.sum()), walked.dicts(rows, before))


class _Walked:
    """Dicts of some shapes, wherever they begin in a block."""

    def __init__(
        self, block: Block, starts: Ints, shapes: Sequence[Shape], inner: _Walked | None
    ) -> None:
        self._block = block
        self._inner = inner
        walks: list[tuple[Ints, Ints, Walk]] = []
        """Rows of the starts, rows of the walk, and the walk."""
        rest = np.arange(len(starts))
        for shape in shapes:
            walk = Walk(block, starts[rest], None if inner is None else inner.lying)
            walk.dicts(shape)
            right = np.flatnonzero(walk.is_right)
            passed = walk.rows[right]
            if len(passed):
                walks.append((rest[passed], right, walk))
                rest = np.delete(rest, passed)
            if not len(rest):
                break
        none = np.empty(0, np.int64)
        rows = np.concatenate([none, *(of for of, *_ in walks)])
        order = np.argsort(rows, kind="stable") if len(walks) > 1 else slice(None)

        def merged(columns: Iterable[Ints | Bools]) -> Ints:
            together: Ints = np.concatenate([none, *columns])[order]
            return together

        self.rows: Ints = rows[order]
        """The starts where one of them begins."""
        self.starts: Ints = starts[self.rows]
        self.ends = merged(walk.at[right] for _, right, walk in walks)
        self.memoised = merged(walk.memoised[right] for _, right, walk in walks)
        self._places = merged(walk.places[right] for _, right, walk in walks)
        self._is_own = merged(walk.is_own[right] for _, right, walk in walks) > 0
        keys = {of: None for *_, walk in walks for of in walk.values}
        self._values = {
            of: _merged([(right, walk.values.get(of)) for _, right, walk in walks], order)
            for of in keys
        }
        self.lying: Adjacent = Adjacent.of(self.starts, self.ends, self.memoised)

    def run(self, position: int) -> Ints:
        """Rows that each begin where the previous one ends, from a place on.

        A place that only looks like a beginning is within a row, and is skipped.
        """
        kept: list[Ints] = []
        while True:
            row = int(np.searchsorted(self.starts, position))
            if row >= len(self.starts) or self.starts[row] != position:
                return np.concatenate(kept) if kept else np.empty(0, np.int64)
            stop = int(self.lying.breaks[np.searchsorted(self.lying.breaks, row)]) + 1
            kept.append(np.arange(row, stop))
            position = int(self.ends[stop - 1])

    def dicts(self, rows: Ints, before: Ints) -> Dicts:
        """Some of them.

        Parameters
        ----------
        rows
            Which ones.
        before
            Values in the memo before each.
        """
        places = self._places[rows] + np.where(self._is_own[rows], before, 0)
        columns = {
            of: self._column(of[1], values.of(rows), before) for of, values in self._values.items()
        }
        return Dicts(len(rows), places, columns)

    def _column(self, kind: Kind, values: Values, before: Ints) -> KeyColumn:
        numbers = values.numbers + np.where(values.is_own, before, 0)
        state = values.state.astype(np.int8)
        has_body = (state == VALUE) & (kind != "number")
        if kind == "other":
            has_body &= numbers >= 0
        bodies = _bodies(self._block.data, values.begins[has_body], values.ends[has_body])
        rows = np.flatnonzero(state == ITEMS)
        items = self._items(values, rows, before[rows]) if len(rows) else None
        return KeyColumn(state, numbers, bodies, items)

    def _items(self, values: Values, rows: Ints, before: Ints) -> Items:
        inner, pieces = self._inner, values.pieces
        assert inner is not None  # noqa: S101 - no other walk finds items
        begins, counts = values.begins[rows], values.ends[rows] - values.begins[rows]
        at = spread(begins, counts)
        firsts, lengths, numbers = pieces.firsts[at], pieces.counts[at], pieces.numbers[at]
        is_dict = firsts >= 0
        gets = np.repeat(np.where(is_dict, -1, numbers), lengths)
        counts_of_lists = np.add.reduceat(lengths, np.cumsum(counts) - counts)
        firsts, lengths = firsts[is_dict], lengths[is_dict]
        of_inner = spread(firsts, lengths)
        passed = inner.lying.passed
        first_before = (np.repeat(before, counts) + numbers)[is_dict]
        before_inner = np.repeat(first_before - passed[firsts], lengths) + passed[of_inner]
        return Items(counts_of_lists, gets, inner.dicts(of_inner, before_inner))


def _merged(parts: Sequence[tuple[Ints, Values | None]], order: Ints | slice) -> Values:
    """Values of several walks; EMPTY where a shape has no such key."""
    columns: list[tuple[Ints | Bools, ...]] = []
    pieces: list[ListPieces] = []
    count = 0
    for right, values in parts:
        if values is None:
            none = np.zeros(len(right), np.int64)
            columns.append((none, none, none.astype(np.bool_), none, none))
            continue
        shift = np.where(values.state[right] == ITEMS, count, 0)
        columns.append((
            values.state[right], values.numbers[right], values.is_own[right],
            values.begins[right] + shift, values.ends[right] + shift,
        ))  # fmt: skip
        pieces.append(values.pieces)
        count += len(values.pieces.counts)
    state, numbers, is_own, begins, ends = (
        np.concatenate(column)[order] for column in zip(*columns, strict=True)
    )
    return Values(state, numbers, is_own, begins, ends, ListPieces.of(pieces))


def _bodies(data: bytes, begins: Ints, ends: Ints) -> pa.Array:
    """Pieces of the block, one after the other."""
    if not len(begins):
        return pa.nulls(0, pa.binary())
    offsets = np.empty(2 * len(begins) + 1, np.int32)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = begins, ends, ends[-1]
    both = pa.Array.from_buffers(
        pa.binary(), 2 * len(begins), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, 2 * len(begins), 2)))


def joined(parts: Sequence[Dicts], rows: Sequence[Ints] | None = None, count: int = 0) -> Dicts:
    """Several dicts as one, one after the other.

    Parameters
    ----------
    parts
        The dicts.
    rows
        Where the rows of each are; None: one after the other. Everything else is EMPTY.
    count
        How many rows there are.
    """
    if rows is None:
        counts = [part.count for part in parts]
        ends = np.cumsum(counts)
        rows = [np.arange(end - size, end) for size, end in zip(counts, ends, strict=True)]
        count = sum(counts)
    places = np.full(count, -1, np.int64)
    of_keys: dict[tuple[str, Kind], list[tuple[Ints, KeyColumn]]] = {}
    for at, part in zip(rows, parts, strict=True):
        places[at] = part.places
        for of, column in part.columns.items():
            of_keys.setdefault(of, []).append((at, column))
    return Dicts(count, places, {of: _joined(cols, count) for of, cols in of_keys.items()})


def _joined(columns: Sequence[tuple[Ints, KeyColumn]], count: int) -> KeyColumn:
    state, numbers = np.full(count, EMPTY, np.int8), np.zeros(count, np.int64)
    for rows, column in columns:
        state[rows], numbers[rows] = column.state, column.numbers
    bodies: Any = pa.concat_arrays([pa.nulls(0, pa.binary()), *(c.bodies for _, c in columns)])
    items = [column.items for _, column in columns if column.items is not None]
    if not items:
        return KeyColumn(state, numbers, bodies)
    return KeyColumn(state, numbers, bodies, Items(
        np.concatenate([of.counts for of in items]),
        np.concatenate([of.gets for of in items]),
        joined([of.dicts for of in items]),
    ))  # fmt: skip
