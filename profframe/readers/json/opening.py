"""Find where an array opens in a document while its text arrives, or why there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.readers.json.structure import Structure

MOST_AROUND: Final = 32 << 20
"""Bytes within which the array must open, and maximum bytes around it that are read."""
MOST_VALUES: Final = 2 << 20
"""Maximum values around the array: each takes some hundred bytes when it is read."""
MOST_DEPTH: Final = 256
"""Maximum nested brackets around the array; Python refuses a thousand."""

_SPACE: Final = b" \t\r\n"
_PART: Final = 1 << 20
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""Magic numbers of gzip and zstd, with which no JSON begins."""


class NoArrayError(ValueError):
    """The text is not JSON, or holds no such array; str() says which."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The text up to the bracket that opens the array, the text after it, and its first byte."""

    before: bytes
    text: bytes
    start: int


def opening(blocks: Iterator[bytes], key: str) -> Opening:
    """Read up to the bracket that opens the document, or the array that is its member ``key``.

    Blocks of white space before the document are not kept.

    Raises
    ------
    NoArrayError
        When there is none in the text, or in the first `MOST_AROUND` bytes of the document.

    Examples
    --------
    >>> opening(iter([b' {"a": {"rows": []}, ', b'"rows": [1, ', b"2]}"]), "rows")
    Opening(before=b' {"a": {"rows": []}, "rows": [', text=b'1, ', start=30)
    """
    before, spaces = bytearray(), 0
    structure, member = Structure(), _Member(key)
    for block in blocks:
        if not before:
            first = block.lstrip(_SPACE)
            if first.startswith(b"["):
                return Opening(b"[", first[1:], spaces + len(block) - len(first) + 1)
            if not first:
                spaces += len(block)
                continue
        array_start = member.array_start(block, structure)
        before += block
        if array_start is not None:
            return _split(before, len(before) - len(block) + array_start, spaces)
        if len(before) > MOST_AROUND:
            break
    else:
        if _is_json(before, structure):
            raise NoArrayError(_why_no_array(before, key))
    misplaced = _member(key).search(before)  # its quotes or brackets do not add up
    if misplaced is None:
        raise NoArrayError(_why_no_array(before, key))
    return _split(before, misplaced.end(), spaces)


class Tail:
    """Text after the array, kept unless it is too much to read."""

    def __init__(self) -> None:
        self.is_started = False
        self.size = 0
        self._blocks: list[bytes] = []

    def append(self, text: bytes) -> None:
        """Add some text."""
        self.is_started = True
        self.size += len(text)
        if self.size <= MOST_AROUND:
            self._blocks.append(text)
        else:
            self._blocks.clear()

    def text(self) -> bytes | None:
        """All of it, or None if it is too much."""
        return b"".join(self._blocks) if self.size <= MOST_AROUND else None


def _split(before: bytearray, end: int, spaces: int) -> Opening:
    return Opening(bytes(before[:end]), bytes(before[end:]), spaces + end)


class _Member:
    """A search for one member of the document in blocks of its text."""

    def __init__(self, key: str) -> None:
        self._name = f'"{key}"'.encode()
        self._pattern = _member(key)
        self._partial = re.compile(rb"(?<!\\)" + re.escape(self._name) + rb"\s*(:?)\s*\Z")
        self._carry = b""
        """Beginning of the member at the end of the blocks before."""

    def array_start(self, text: bytes, structure: Structure) -> int | None:
        """Offset after the bracket that opens its array, or None if it is not in this block."""
        window, offset = self._carry + text, len(self._carry)
        ends = np.fromiter(self._ends(window), np.intp) - offset
        read = int(ends[-1]) if ends.size else 0
        at_top = ends[structure.depths(text[:read])[ends - 1] == 1]
        if at_top.size:
            return int(at_top[0])
        structure.skip(text[read:])
        self._carry = self._beginning(window)
        return None

    def _ends(self, text: bytes) -> Iterator[int]:
        """Offsets after what could be the bracket; searching for the name first is fast."""
        name = text.find(self._name)
        while name >= 0:
            if match := self._pattern.match(text, name):
                yield match.end()
            name = text.find(self._name, name + len(self._name))

    def _beginning(self, text: bytes) -> bytes:
        match = self._partial.match(text, max(0, text.rfind(self._name)))
        return self._name + match[1] if match else text[-len(self._name) :]


def _member(key: str) -> re.Pattern[bytes]:
    return re.compile(rb'(?<!\\)"' + re.escape(key.encode()) + rb'"\s*:\s*\[')


def is_readable(text: bytes | bytearray) -> bool:
    """Whether JSON text can be read with little memory and shallow recursion."""
    if not _is_small(text):
        return False
    structure, starts = Structure(), range(0, len(text), _PART)
    return all(
        structure.depths(text[start : start + _PART]).max() <= MOST_DEPTH for start in starts
    )


def _is_small(text: bytes | bytearray) -> bool:
    return len(text) <= MOST_AROUND + 2 and sum(map(text.count, b",[{")) <= MOST_VALUES


def _is_json(text: bytearray, structure: Structure) -> bool:
    """Whether it is valid; if it is too long, whether its brackets add up."""
    if structure.depth or structure.in_string:
        return False
    if not _is_small(text):
        return True
    try:
        _loaded(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _loaded(text: bytearray) -> object:
    """The value, with lengths for integers: Python refuses some long ones."""
    return json.loads(text.decode(), parse_int=len)


def _why_no_array(text: bytearray, key: str) -> str:
    if not text:
        return "the file is empty"
    if text.startswith(_COMPRESSED):
        return "it is compressed twice: unpack it once"
    if not _is_small(text):
        return f"no array {key!r} in its first {len(text) >> 20:,} MB"
    try:
        value = _loaded(text)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {_fault(error)}"
    if isinstance(value, dict):
        return f"its {key!r} is not an array" if key in value else f"it has no {key!r}"
    return f"the JSON is of type {type(value).__name__}, not an object or an array of events"


def _fault(error: Exception) -> str:
    """What is wrong, and where."""
    if isinstance(error, UnicodeDecodeError):
        return f"{error.reason} at byte {error.start:,} (not UTF-8)"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno:,} column {error.colno:,}"
    return "it is nested too deep"
