"""Slices of a file by their process: who makes calls, and which work follows them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.intervals import Ints, Mask
from profframe.readers.build.row_tables import codes
from profframe.readers.chrome.columns import DEVICE_CATEGORIES

_CALLS: Final = re.compile(r"(?:\w*_)?(?:runtime|driver)", re.IGNORECASE)
"""Categories of calls."""
_LATE: Final = 0.01
"""Share of device slices that may begin before their call: clocks differ."""


class Slices:
    """Slices of a file."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._code, self._texts = _codes(rows, "pid")

    @property
    def count(self) -> int:
        """Number of slices."""
        return len(self._code)

    @cached_property
    def pids(self) -> list[str]:
        """Processes that have slices, by their ids."""
        count = np.bincount(self._code, minlength=len(self._texts))
        return [text for text, has in zip(self._texts, count > 0, strict=True) if has and text]

    @cached_property
    def _category(self) -> tuple[Ints, list[str | None]]:
        return _codes(self._rows, "category")

    def _has(self, is_match: Sequence[bool]) -> Mask:
        """Slices of some categories."""
        mask: Mask = np.array(is_match, np.bool_)[self._category[0]]
        return mask

    @cached_property
    def _is_call(self) -> Mask:
        texts = self._category[1]
        is_call = [text is not None and _CALLS.fullmatch(text) is not None for text in texts]
        mask: Mask = self._has(is_call) & (self._correlation != 0)
        return mask

    @cached_property
    def _is_work(self) -> Mask:
        return self._has([text in DEVICE_CATEGORIES for text in self._category[1]])

    @cached_property
    def _correlation(self) -> Ints:
        values: Ints = self._rows["correlation"].fill_null(0).to_numpy()
        return values

    def of_device(self, pid: str) -> int | None:
        """The device of a process, if all its slices are work of one."""
        own = self._code == self._texts.index(pid)
        devices = self._rows["device"].fill_null(-1).to_numpy()[own & self._is_work]
        is_one = devices.size and devices[0] >= 0 and (devices == devices[0]).all()
        return int(devices[0]) if is_one else None

    def callers(self, pids: Collection[str]) -> list[str]:
        """Those of the processes that make calls, and do not only have slices of a device."""
        counts = {
            name: np.bincount(self._code[mask], minlength=len(self._texts))
            for name, mask in {
                "calls": self._is_call,
                "work": self._is_work,
                "others": ~self._is_call & ~self._is_work,
            }.items()
        }
        is_caller = (counts["calls"] > 0) & ((counts["work"] == 0) | (counts["others"] > 0))
        return [pid for pid in pids if is_caller[self._texts.index(pid)]]

    @cached_property
    def linked(self) -> frozenset[str]:
        """Processes with calls or work, by their ids."""
        mask = self._is_call | self._is_work
        count = np.bincount(self._code[mask], minlength=len(self._texts))
        return frozenset(t for t, has in zip(self._texts, count > 0, strict=True) if has and t)

    def shared_correlation(self, pids: Collection[str]) -> int | None:
        """A correlation that calls of two of the processes have."""
        is_own = np.isin(self._code, [self._texts.index(pid) for pid in pids])
        rows = np.flatnonzero(is_own & self._is_call)
        distinct, number = np.unique(self._correlation[rows], return_inverse=True)
        pairs = np.unique(number * len(self._texts) + self._code[rows])
        several = np.flatnonzero(np.bincount(pairs // len(self._texts)) > 1)
        return int(distinct[several[0]]) if several.size else None

    def extent(self, pid: str) -> tuple[int, int]:
        """The first and the last slice of a process."""
        own = np.flatnonzero(self._code == self._texts.index(pid))
        return int(own[0]), int(own[-1])

    def follow_their_calls(self, ranks: Mapping[str, int]) -> bool:
        """Whether the work of each rank begins after its calls."""
        rank = np.array([ranks.get(text or "", -1) for text in self._texts])[self._code]
        start = self._rows["start_ns"].fill_null(0).to_numpy()
        distinct, number = np.unique(self._correlation, return_inverse=True)
        key = rank * distinct.size + number
        calls, work = (
            np.flatnonzero(mask & (rank >= 0) & (self._correlation != 0))
            for mask in (self._is_call, self._is_work)
        )
        calls = calls[np.lexsort((-start[calls], key[calls]))]
        place = np.searchsorted(key[calls], key[work], side="right") - 1
        has_call = (place >= 0) & (key[calls[place]] == key[work]) if calls.size else place >= 0
        late = start[calls[place[has_call]]] > start[work[has_call]]
        return not late.size or bool(late.mean() <= _LATE)


def _codes(rows: pa.Table, name: str) -> tuple[Ints, list[str | None]]:
    return codes(rows[name]) if rows.num_rows else (np.empty(0, np.int64), [None])
