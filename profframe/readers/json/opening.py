"""Where an array opens in a document, found while its text comes, and why none does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.readers.json.structure import Structure

MOST_AROUND: Final = 32 << 20
"""Bytes before the array in which it is looked for, and bytes around it that are read at most."""
MOST_VALUES: Final = 2 << 20
"""Values that text around the array may have: each takes some hundred bytes when it is read."""
MOST_DEPTH: Final = 256
"""Brackets in each other that text around the array may have; Python refuses a thousand."""

_SPACE: Final = b" \t\r\n"
_PART: Final = 1 << 20
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""What gzip and zstd begin with, which no JSON does."""


class NoArrayError(ValueError):
    """The text is no JSON, or holds no such array; str() says which."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The text up to the bracket that opens the array, what came behind it, and its first byte."""

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
        inside = member.inside(block, structure)
        before += block
        if inside is not None:
            return _split(before, len(before) - len(block) + inside, spaces)
        if len(before) > MOST_AROUND:
            break
    else:
        if _is_json(before, structure):
            raise NoArrayError(_why_no_array(before, key))
    misplaced = _member(key).search(before)  # its quotes or brackets do not add up
    if misplaced is None:
        raise NoArrayError(_why_no_array(before, key))
    return _split(before, misplaced.end(), spaces)


class Behind:
    """Text behind the array, kept if there is no more of it than can be read."""

    def __init__(self) -> None:
        self.is_begun = False
        self.size = 0
        self._parts: list[bytes] = []

    def append(self, text: bytes) -> None:
        """Go on with some text."""
        self.is_begun = True
        self.size += len(text)
        if self.size <= MOST_AROUND:
            self._parts.append(text)
        else:
            self._parts.clear()

    def text(self) -> bytes | None:
        """All of it, or None if that is too much."""
        return b"".join(self._parts) if self.size <= MOST_AROUND else None


def _split(before: bytearray, inside: int, spaces: int) -> Opening:
    return Opening(bytes(before[:inside]), bytes(before[inside:]), spaces + inside)


class _Member:
    """A search for one member of the document in blocks of its text."""

    def __init__(self, key: str) -> None:
        self._name = f'"{key}"'.encode()
        self._pattern = _member(key)
        self._begun = re.compile(rb"(?<!\\)" + re.escape(self._name) + rb"\s*(:?)\s*\Z")
        self._held = b""
        """What the member may have begun with in the blocks before."""

    def inside(self, text: bytes, structure: Structure) -> int | None:
        """Offset behind the bracket that opens its array, or None: that is not in this block."""
        whole, offset = self._held + text, len(self._held)
        ends = np.fromiter(self._ends(whole), np.intp) - offset
        read = int(ends[-1]) if ends.size else 0
        at_top = ends[structure.depths(text[:read])[ends - 1] == 1]
        if at_top.size:
            return int(at_top[0])
        structure.skip(text[read:])
        self._held = self._beginning(whole)
        return None

    def _ends(self, text: bytes) -> Iterator[int]:
        """Offsets behind what could be the bracket; to find the name first is fast."""
        name = text.find(self._name)
        while name >= 0:
            if match := self._pattern.match(text, name):
                yield match.end()
            name = text.find(self._name, name + len(self._name))

    def _beginning(self, text: bytes) -> bytes:
        begun = self._begun.match(text, max(0, text.rfind(self._name)))
        return self._name + begun[1] if begun else text[-len(self._name) :]


def _member(key: str) -> re.Pattern[bytes]:
    return re.compile(rb'(?<!\\)"' + re.escape(key.encode()) + rb'"\s*:\s*\[')


def is_readable(text: bytes | bytearray) -> bool:
    """Whether JSON text can be read with little memory, and without many calls in each other."""
    if not _is_small(text):
        return False
    structure, parts = Structure(), range(0, len(text), _PART)
    return all(structure.depths(text[at : at + _PART]).max() <= MOST_DEPTH for at in parts)


def _is_small(text: bytes | bytearray) -> bool:
    return len(text) <= MOST_AROUND + 2 and sum(map(text.count, b",[{")) <= MOST_VALUES


def _is_json(text: bytearray, structure: Structure) -> bool:
    """Whether it is sound; of text that is too much to be read, whether its brackets add up."""
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
    """The value, but for that of integers: Python refuses some that are long."""
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
    """What the parser did not like, and where."""
    if isinstance(error, UnicodeDecodeError):
        return f"{error.reason} at byte {error.start:,} (not UTF-8)"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno:,} column {error.colno:,}"
    return "it is nested too deep"
