"""Brackets and commas outside strings, in JSON text that comes block by block.

A block is scanned as a whole, as in "Parsing Gigabytes of JSON per Second" (Langdale and Lemire,
2019): one bit for each byte, all bits of a block in one long integer. So the time does not depend
on the content of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

IN_STRING: Final = -1
"""Depth inside a string."""

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_COMMA: Final = ord(",")
_END: Final = ord("]")
_CASE: Final = 0x20
"""The bit in which ``[`` and ``{`` differ, and ``]`` and ``}``."""
_OPENING: Final = ord("{")
_CLOSING: Final = ord("}")


class Structure:
    """Brackets and quotes that are open at the end of the text so far.

    Examples
    --------
    >>> structure = Structure()
    >>> structure.depths(b'{"[":[1')
    array([ 0,  1, -1, -1,  1,  1,  2], dtype=int32)
    >>> structure.skip(b"]")
    >>> structure.depth, structure.in_string
    (1, False)
    """

    def __init__(self) -> None:
        self.depth = 0
        """Brackets that are open."""
        self.in_string = False
        self._is_escaped = False
        """Whether a backslash at the end escapes the next byte."""

    def skip(self, text: bytes) -> None:
        """Read a block."""
        opening, closing, _ = self._brackets(text)
        self.depth += opening.bit_count() - closing.bit_count()

    def depths(self, text: bytes | bytearray) -> NDArray[np.int32]:
        """Read a block; returns the number of open brackets before each byte.

        From after the quote that opens a string to the one that ends it, it is `IN_STRING`.
        """
        before, was_in_string = self.depth, self.in_string
        opening, closing, inside = self._brackets(text)
        size = len(text)
        steps = _bytes(opening, size).view(np.int8) - _bytes(closing, size).view(np.int8)
        behind = np.cumsum(steps, dtype=np.int32)
        depths = behind - steps + np.int32(before)
        self.depth = before + int(behind[-1]) if size else before
        is_inside = _bytes((inside << 1) | was_in_string, size).view(np.bool_)
        depths[is_inside] = IN_STRING
        return depths

    def _brackets(self, text: bytes | bytearray) -> tuple[int, int, int]:
        """Bits of the opening and closing brackets, and of strings (without the closing quote)."""
        size = len(text)
        letters = np.frombuffer(text, np.uint8)
        quotes = _bits(letters == _QUOTE) & ~self._escaped(letters, text)
        inside = _parity(quotes, size)
        if self.in_string:
            inside ^= (1 << size) - 1
        self.in_string = bool(inside >> (size - 1)) if size else self.in_string
        folded = letters | _CASE
        return _bits(folded == _OPENING) & ~inside, _bits(folded == _CLOSING) & ~inside, inside

    def _escaped(self, letters: NDArray[np.uint8], text: bytes | bytearray) -> int:
        """Bits of the bytes after an odd number of backslashes."""
        was_escaped, size = self._is_escaped, len(text)
        if not size or (b"\\" not in text):
            self._is_escaped &= not size
            return int(was_escaped)
        backslashes = _bits(letters == _BACKSLASH)
        if was_escaped:
            backslashes &= ~1
        even = int.from_bytes(b"\x55" * (size // 8 + 1), "little")
        starts = backslashes & ~(backslashes << 1)
        # A carry runs through a row of backslashes to the byte after them.
        behind_even = (backslashes + (starts & even)) & ~backslashes
        behind_odd = (backslashes + (starts & ~even)) & ~backslashes
        escaped = (behind_even & ~even) | (behind_odd & even)
        self._is_escaped = bool(escaped >> size)
        return (escaped & ((1 << size) - 1)) | was_escaped


def element_ends(
    structure: Structure, text: bytes, likely: Sequence[int] = ()
) -> tuple[NDArray[np.intp], int | None]:
    """Where elements of an array end in a block of its text.

    Parameters
    ----------
    structure
        State before the block.
    text
        The block.
    likely
        Offsets of commas that look like those between elements; one inside a string means that a
        quote is missing.

    Returns
    -------
    tuple
        Offsets of the commas after elements, and that of the bracket that ends the array, or None.

    Examples
    --------
    >>> element_ends(Structure(), b'1, [2, 3], "],"], 4')
    (array([1, 9]), 15)
    """
    letters, depths = np.frombuffer(text, np.uint8), structure.depths(text)
    commas = np.flatnonzero((depths == 0) & (letters == _COMMA))
    if likely:
        offsets = np.asarray(likely, np.intp)
        commas = np.union1d(commas, offsets[depths[offsets] == IN_STRING])
    ends = np.flatnonzero((depths == 0) & (letters == _END))
    if not ends.size:
        return commas, None
    return commas[commas < ends[0]], int(ends[0])


def _bits(mask: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _bytes(bits: int, size: int) -> NDArray[np.uint8]:
    """One byte, 0 or 1, for each of the first bits."""
    packed = (bits & ((1 << size) - 1)).to_bytes(size // 8 + 1, "little")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=size, bitorder="little")


def _parity(bits: int, size: int) -> int:
    """For each bit, whether the number of ones up to it is odd."""
    step = 1
    while bits and step < size:
        bits ^= bits << step
        step <<= 1
    return bits & ((1 << size) - 1)
