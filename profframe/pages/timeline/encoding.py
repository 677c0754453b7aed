"""Columns of integers as bytes: a prediction is subtracted from each value, the rest is deflated.

Each column consists of planes: first the lowest bytes of all values, then the next ones. Columns
with a sign have it in the lowest bit. Missing values are marked in a plane of ones.
``static/data.js`` reads all this.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from profframe.intervals import Ints, Mask, child_sums, last_until

_LEVEL: Final = 5
"""Level of zlib: with higher ones the same slices are 1 % smaller, but take twice as long."""
_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class PackedColumn:
    """Integers as they are stored; ``is_missing`` where there is none."""

    name: str
    values: Ints
    is_missing: Mask | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Slices in the order in which they are drawn, with the lines that they are on.

    A line is a row of a lane; ``nests`` says for each slice whether it has its parent, if any, on
    the line above.
    """

    line: Ints
    nests: Mask
    begin: Ints
    dur: Ints

    @property
    def is_first(self) -> Mask:
        """Whether a slice is the first one of its line."""
        return np.concatenate(([True], self.line[1:] != self.line[:-1]))[: self.line.size]

    def gaps(self) -> Ints:
        """Time from the end of the previous slice on its line, or from the beginning."""
        end = np.concatenate(([0], (self.begin + self.dur)[:-1]))[: self.begin.size]
        return self.begin - np.where(self.is_first, 0, end)

    def likely_parents(self) -> Ints:
        """The last slice on the line above that has begun, or -1."""
        around = last_until(self.line, self.begin, self.line - 1, self.begin)
        return np.where(self.nests, around, -1)


def differences(values: Ints, is_missing: Mask | None = None) -> Ints:
    """Differences from the previous value that is there.

    Examples
    --------
    >>> differences(np.array([5, -1, 7]), np.array([False, True, False])).tolist()
    [5, 0, 2]
    """
    if is_missing is None:
        return np.diff(values, prepend=0)
    out = np.zeros_like(values)
    out[~is_missing] = np.diff(values[~is_missing], prepend=0)
    return out


def numbered(texts: pl.Series, distinct: pl.Series) -> Ints:
    """The place of each text among the distinct ones; -1 where there is none.

    Examples
    --------
    >>> numbered(pl.Series(["b", None, "a"]), pl.Series(["a", "b"])).tolist()
    [1, -1, 0]
    """
    if distinct.is_empty():
        return np.full(texts.len(), -1, np.int64)
    codes = texts.cast(pl.Enum(distinct)).to_physical()
    places: Ints = codes.cast(pl.Int64).fill_null(-1).to_numpy()
    return places


def beyond_children(self_ns: Ints, parent: Ints, dur: Ints) -> Ints:
    """Own time, minus what is left of the duration without the slices directly inside."""
    return self_ns - (dur - child_sums(parent, dur))


def packed(columns: Sequence[PackedColumn]) -> tuple[list[dict[str, Any]], bytes]:
    r"""The parts of each column, and the bytes of all of them.

    Examples
    --------
    >>> heads, body = packed([PackedColumn("a", np.array([0, 300]))])
    >>> heads[0]["width"], zlib.decompress(body)
    (2, b'\x00,\x00\x01')
    """
    planes = [_planes(column) for column in columns]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        bodies = [*pool.map(lambda one: zlib.compress(one[1], _LEVEL), planes)]
    heads = [
        {"name": column.name, "values": int(column.values.size), "bytes": len(body), **head}
        for column, (head, _), body in zip(columns, planes, bodies, strict=True)
    ]
    return heads, b"".join(bodies)


def _planes(column: PackedColumn) -> tuple[Mapping[str, Any], bytes]:
    values = column.values.astype(np.int64)
    missing = (
        None if column.is_missing is None or not column.is_missing.any() else column.is_missing
    )
    if missing is not None:
        values = np.where(missing, 0, values)
    is_signed = bool((values < 0).any())
    if is_signed:
        values = (values << 1) ^ (values >> 63)
    width = max((int(values.max(initial=0)).bit_length() + 7) // 8, 1)
    digits = np.ascontiguousarray(values, "<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    body = np.ascontiguousarray(digits.T).tobytes()
    if missing is not None:
        body += missing.astype(np.uint8).tobytes()
    return {"width": width, "signed": is_signed, "missing": missing is not None}, body
