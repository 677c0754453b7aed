"""The arrays of records in rocprofv3's JSON, each as blocks of its own, and the rest of the text.

The document is an object with a list of processes; in each of them, ``buffer_records`` and
``callback_records`` are objects with one array for each kind of record. Only these arrays are long.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profframe.readers.json.opening import MOST_AROUND
from profframe.readers.json.structure import Structure

NAMED: Final = (
    "kernel_dispatch", "hip_api", "hsa_api", "marker_api", "rccl_api", "memory_copy",
    "memory_allocation", "scratch_memory", "rocdecode_api", "rocjpeg_api", "pc_sample_host_trap",
    "pc_sample_stochastic", "counter_collection",
)  # fmt: skip
"""Names of arrays; others beside them are arrays of records, too."""
_OF_PROCESSES: Final = 2
"""Brackets that are open between processes; one more is open inside a process."""
_OF_RECORDS: Final = 4
"""Brackets that are open between the arrays of a process."""
_OPENING: Final = re.compile(
    rb'"(?P<group>buffer_records|callback_records)"\s*+:\s*+\{|"(?P<array>[^"\\]*+)"\s*+:\s*+\['
)
_NEXT: Final = re.compile(rb'\](?=\s*+,\s*+"(?:' + "|".join(NAMED).encode() + rb')"\s*+:\s*+\[)')
"""The end of an array before a known one; text has no such quotes inside."""
_MAY_END: Final = re.compile(rb'\](?=\s*+(?:\}|,\s*+"[^"\\]*+"\s*+:\s*+\[))')
_CLOSING: Final = b"}}]}"
"""What ends a document behind its last array."""
_KEPT: Final = 1 << 10
"""Bytes at the end of a block in which what opens or ends an array may be cut."""


@dataclass(frozen=True, slots=True)
class RecordArray:
    """An array: number of its process, its name, the text inside its brackets, and its offset."""

    process: int
    name: str
    blocks: Iterator[bytes]
    start: int


class RecordArrays:
    """Finds the arrays in a document that comes block by block.

    Each array's blocks have to be read before the next array is found.

    Examples
    --------
    >>> text = b'{"x": [{"pid": 1, "buffer_records": {"hip_api": [{"a": []}, {}], "b": []}}]}'
    >>> arrays = RecordArrays(iter([text]))
    >>> [(array.process, array.name, b"".join(array.blocks)) for array in arrays]
    [(0, 'hip_api', b'{"a": []}, {}'), (0, 'b', b'')]
    >>> arrays.around
    b'{"x": [{"pid": 1, "buffer_records": {"hip_api": [], "b": []}}]}'
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._text = b""
        self._start = 0
        """Offset of the text in the document."""
        self._structure = Structure()
        self.is_cut = False
        """Whether the text ends inside an array."""
        self._is_inside = False
        """Whether arrays of records may follow."""
        self._processes = 0
        self._around: list[bytes] = []
        self._size = 0

    @property
    def ends_early(self) -> bool:
        """Whether the text ends inside an array, or between two."""
        return self.is_cut or self._is_inside

    @property
    def around(self) -> bytes | None:
        """The document with empty arrays, closed where it ends early; None if it is too long."""
        if self._size > MOST_AROUND:
            return None
        text = b"".join(self._around)
        if self.is_cut:
            return text + b"]" + _CLOSING
        return text[: text.rfind(b"]") + 1] + _CLOSING if self._is_inside else text

    def __iter__(self) -> Iterator[RecordArray]:
        while (name := self._next()) is not None:
            blocks = self._elements()
            yield RecordArray(max(0, self._processes - 1), name, blocks, self._start)
            for _ in blocks:
                pass

    def _next(self) -> str | None:
        """Read up to the first element of the next array; returns its name."""
        is_last = False
        while True:
            depths = copy.copy(self._structure).depths(self._text)
            end, name = self._opening(depths)
            if name is None and end is None:
                end = len(self._text) if is_last else max(0, len(self._text) - _KEPT)
            self._leave(depths[:end])
            self._keep(depths[:end])
            if name is not None:
                return name
            if is_last and not self._text:
                return None
            is_last = not self._read()

    def _opening(self, depths: NDArray[np.int32]) -> tuple[int | None, str | None]:
        """The end of what opens an array, or the arrays of a process, and the array's name."""
        for match in _OPENING.finditer(self._text):
            depth = depths[match.start()]
            if match["group"] is not None and depth == _OF_PROCESSES + 1:
                self._leave(depths[: match.start()])
                self._is_inside = True
                self._keep(depths[: match.end()])
                return 0, None
            if match["array"] is not None and depth == _OF_RECORDS and self._is_inside:
                self._leave(depths[: match.start()])
                if self._is_inside:
                    return match.end(), match["array"].decode("utf-8", "replace")
        return None, None

    def _leave(self, depths: NDArray[np.int32]) -> None:
        """Note whether the arrays of a process end within some text."""
        if self._is_inside and ((depths >= 0) & (depths < _OF_RECORDS)).any():
            self._is_inside = False

    def _keep(self, depths: NDArray[np.int32]) -> None:
        """Move text to what is around the arrays."""
        letters = np.frombuffer(self._text, np.uint8, depths.size)
        is_process = (letters == ord("{")) & (depths == _OF_PROCESSES)
        self._processes += int(np.count_nonzero(is_process))
        text = self._take(depths.size)
        self._size += len(text)
        if self._size <= MOST_AROUND:
            self._around.append(text)
        else:
            self._around.clear()

    def _take(self, size: int) -> bytes:
        text, self._text = self._text[:size], self._text[size:]
        self._structure.skip(text)
        self._start += size
        return text

    def _read(self) -> bool:
        block = next(self._blocks, b"")
        self._text += block
        return bool(block)

    def _elements(self) -> Iterator[bytes]:
        """Text inside the brackets; what comes next is the one that closes."""
        is_last = False
        while True:
            end = self._end(is_last=is_last)
            if end is not None:
                yield self._take(end)
                # A quote may be missing in the elements.
                self._structure.depth, self._structure.in_string = _OF_RECORDS + 1, False
                return
            size = len(self._text) if is_last else max(0, len(self._text) - _KEPT)
            yield self._take(size)
            if is_last:
                self.is_cut = True
                return
            is_last = not self._read()

    def _end(self, *, is_last: bool) -> int | None:
        """Where the array ends in the text, if it does: by the next one, or by its depth."""
        following = _NEXT.search(self._text)
        stop = len(self._text) if following is None else following.start()
        if is_last or _MAY_END.search(self._text) is not None:
            letters = np.frombuffer(self._text, np.uint8, stop)
            depths = copy.copy(self._structure).depths(self._text[:stop])
            ends = np.flatnonzero((letters == ord("]")) & (depths == _OF_RECORDS + 1))
            if ends.size:
                return int(ends[0])
        return None if following is None else stop
