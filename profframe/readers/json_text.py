"""One long array of objects in a stream of JSON text, as pieces that parse in parallel.

The document is an array, or an object with the array as one of its members. Nothing here knows what
the objects mean. A cut falls only where text could go from one element to the next, and a wrong cut
does no harm: the piece before it does not parse, and what does not parse is read again, element by
element.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import numpy as np

from profframe.readers.json_repair import Repaired, read_document, repair

Rows = TypeVar("Rows")

PIECE: Final = 128 << 10
"""Bytes of a piece: it parses inside a processor's cache, and damage costs one piece."""
WAVE: Final = 8 << 20
"""Bytes of the pieces that are parsed as one table, which takes some milliseconds of its own."""

_CUT: Final = re.compile(rb"\}\s*(,)\s*(?=\{\s*\")")
_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"|[\[\]{}]')
_LONGEST: Final = 4 << 20
"""Bytes after which an element that does not end is given up."""
_PATIENCE: Final = 512 << 10
"""Bytes that may wait for what follows them."""


class NoArrayError(ValueError):
    """The text is no JSON, or holds no such array; str() says which."""


class Wave:
    """Consecutive pieces of the text, each written as an array of its own.

    Between each two there was a comma; the first began at byte ``start`` of the stream.

    Attributes
    ----------
    text
        The arrays, one behind the other; more bytes may follow.
    bounds
        Where each of them begins, and where the last one ends.
    behind
        What follows the last piece in the stream: a comma, but for the piece that ends it.
        There it is what is left of the text where the array seems to end.
    """

    def __init__(self, text: memoryview, start: int, behind: bytes = b",") -> None:
        self.text = text
        self.bounds = [0]
        self.start = start
        self.behind = behind
        self._written = 1

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def end(self) -> int:
        """Byte of the stream behind the last piece."""
        return self._begin(len(self)) - 1

    @property
    def open(self) -> int:
        """Bytes of the piece that has not ended."""
        return self._written - self.bounds[-1] - 1

    def write(self, part: bytes | memoryview) -> None:
        """Add to the piece that has not ended."""
        end = self._written + len(part)
        if end >= len(self.text):
            longer = blank(end + len(self.text))
            longer[: self._written] = self.text[: self._written]
            self.text = longer
        self.text[self._written : end] = part
        self._written = end

    def close(self) -> None:
        """End this piece; what is written now belongs to the next."""
        self.text[self.bounds[-1]] = ord("[")
        self.text[self._written] = ord("]")
        self.bounds.append(self._written + 1)
        self._written += 2

    def take_open(self) -> bytes:
        """What is written of the piece that has not ended; here it is no more."""
        begin = self.bounds[-1] + 1
        part = bytes(self.text[begin : self._written])
        self._written = begin
        return part

    def span(self, first: int, behind: int) -> tuple[bytes, int]:
        """Text of the pieces from `first` up to `behind`, commas and all, and its first byte."""
        bounds = self.bounds[first : behind + 1]
        pieces = (self.text[begin + 1 : end - 1] for begin, end in itertools.pairwise(bounds))
        last = self.behind if behind == len(self) else b","
        return b",".join(pieces) + last, self._begin(first)

    def _begin(self, piece: int) -> int:
        """Byte of the stream where a piece begins: each has two brackets for one comma."""
        return self.start + self.bounds[piece] - piece


def blank(size: int) -> memoryview:
    """So many bytes to write to, which take memory when they are written."""
    return np.empty(size, np.uint8).data


@dataclass(slots=True)
class Parsed(Generic[Rows]):
    """What the parser made of one wave: rows, or None for a piece that needs repair."""

    wave: Wave
    runs: list[tuple[int, int, Rows | None]]
    """(first piece, one behind the last, rows): in order, without gaps."""


@dataclass(slots=True)
class Document:
    """What is around the array, known when its elements are read."""

    header: dict[str, object] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    """Repairs: how many of each, and the byte of the first."""
    is_array: bool = False

    def note(self, found: Counter[str], first: dict[str, int], start: int) -> None:
        """Take over the repairs of one piece that began at byte `start`."""
        self.found.update(found)
        for check, position in first.items():
            self.first.setdefault(check, start + position)


Parser = Callable[[Wave], Parsed[Rows]]
ArrayParser = Callable[[bytes], "Rows | None"]


class ArrayReader(Generic[Rows]):
    """Reads the elements of one array in a stream of blocks, in order, parsing on several threads.

    Parameters
    ----------
    blocks
        The text.
    key
        Member that holds the array, where the document is an object.
    parse
        Makes rows of a wave's sound pieces; runs on the pool's threads, if there are several.
    parse_array
        Makes rows of one array's text, or None where it does not parse.
    threads
        Size of the pool.
    """

    def __init__(
        self,
        blocks: Iterator[bytes],
        key: str,
        parse: Parser[Rows],
        parse_array: ArrayParser[Rows],
        threads: int,
    ) -> None:
        self._blocks = blocks
        self._key = key
        self._parse = parse
        self._parse_array = parse_array
        self._threads = threads
        self._free: list[memoryview] = []
        """Texts of waves that are done with: to fill them again costs less than fresh memory."""
        self.document = Document()

    def rows(self) -> Iterator[Rows]:
        """The elements, wave by wave; `document` is complete behind the last.

        Raises
        ------
        NoArrayError
            When the text holds no such array.
        """
        head, text, start = self._find_array()
        tail: list[bytes] = []
        yield from self._in_order(self._parsed(text, start), tail)
        tail += self._blocks
        self._read_header(head, b"".join(tail))

    def _find_array(self) -> tuple[bytes, bytes, int]:
        """What is before the array, the first text inside it, and the first byte of that."""
        text, seen, member = bytearray(), 0, f'"{self._key}"'.encode()
        for block in self._blocks:
            text += block
            inside = _array_start(text, self._key, seen)
            if inside is not None:
                break
            last = text.rfind(member, seen)
            if last < 0:
                seen = max(0, len(text) - len(member) + 1)
            else:  # it was another's member, or the text ends amid it
                seen = last + (len(member) if _member(self._key).match(text, last) else 0)
        else:
            inside = None if _is_json(text) else _misplaced_array_start(text, self._key)
        if inside is None:
            raise NoArrayError(_why_no_array(bytes(text), self._key))
        self.document.is_array = text[:inside].strip() == b"["
        return bytes(text[:inside]), bytes(text[inside:]), inside

    def _parsed(self, text: bytes, start: int) -> Iterator[Parsed[Rows]]:
        """Parsed waves in order, one for each thread at a time; one thread alone does it all."""
        if self._threads == 1:
            yield from map(self._parse, self._waves(text, start))
            return
        ahead: deque[Future[Parsed[Rows]]] = deque()
        with ThreadPoolExecutor(self._threads, "profframe-parse") as pool:
            for wave in self._waves(text, start):
                ahead.append(pool.submit(self._parse, wave))
                if len(ahead) == self._threads:
                    yield ahead.popleft().result()
            for future in ahead:
                yield future.result()

    def _waves(self, text: bytes, start: int) -> Iterator[Wave]:
        """Pieces of each block, one behind the other; the last has a wave of its own."""
        wave = self._wave(start)
        for block in itertools.chain((text,), self._blocks):
            view, begin = memoryview(block), 0
            for comma in _commas(block, PIECE - wave.open):
                wave.write(view[begin:comma])
                wave.close()
                begin = comma + 1
                if wave.bounds[-1] >= WAVE:
                    yield wave
                    wave = self._wave(wave.end + 1)
            wave.write(view[begin:])
        text, behind = _split_end(wave.take_open())
        last = self._wave(wave.end + 1, behind)
        last.write(text)
        last.close()
        if len(wave):
            yield wave
        yield last

    def _wave(self, start: int, behind: bytes = b",") -> Wave:
        text = self._free.pop() if self._free else blank(WAVE + 2 * PIECE)
        return Wave(text, start, behind)

    def _in_order(self, waves: Iterator[Parsed[Rows]], tail: list[bytes]) -> Iterator[Rows]:
        """Rows in the order of the text; what did not parse is repaired first.

        What did not parse at the end of a wave waits for the next: if that begins with text that
        did not parse either, the cut between them was no cut between elements.
        """
        held, start, closed, end, waits = b"", 0, False, 0, False
        for parsed in waves:
            wave = parsed.wave
            end = wave.end
            for first, behind, rows in parsed.runs:
                if waits and rows is not None:
                    held, start, closed = yield from self._mended(held, start, _LONGEST, tail)
                waits = False
                if rows is not None and not held and not closed:
                    yield rows
                    if behind == len(wave) and wave.behind.startswith(b"]"):
                        closed = True
                        tail.append(wave.behind[1:])
                    continue
                text, begin = wave.span(first, behind)
                if closed:
                    tail.append(text)
                    continue
                held, start = held + text, start if held else begin
                goes_on = behind == len(wave) and wave.behind == b","
                waits = rows is None and goes_on and len(held) <= _PATIENCE
                if not waits:
                    held, start, closed = yield from self._mended(held, start, _LONGEST, tail)
            self._free.append(wave.text)
        if held and not closed:
            held, start, closed = yield from self._mended(held, start, 0, tail)
        if not closed:
            self.document.found["truncated"] = 1 if held.strip() else 0
            self.document.first["truncated"] = start if held.strip() else end

    def _mended(
        self, text: bytes, start: int, longest: int, tail: list[bytes]
    ) -> Generator[Rows, None, tuple[bytes, int, bool]]:
        """Rows of the text; gives what is left of it, its first byte, and whether the array ended.

        What follows the array's end goes to `tail`.
        """
        fixed, used = self._repair(text, start, longest)
        yield from self._rows_of(fixed.elements, start)
        rest, begin = text[used:], start + used
        if fixed.closed:
            tail.append(rest)
            return b"", begin, True
        return (rest if fixed.incomplete or not longest else b""), begin, False

    def _repair(self, text: bytes, start: int, longest: int) -> tuple[Repaired, int]:
        """The sound elements of the text, and how many of its bytes were used."""
        decoded = text.decode("utf-8", "surrogateescape")
        fixed = repair(decoded, longest)
        first = {check: _bytes(decoded[:place]) for check, place in fixed.first.items()}
        self.document.note(fixed.found, first, start)
        return fixed, _bytes(decoded[: fixed.end])

    def _rows_of(self, elements: list[str], start: int) -> Iterator[Rows]:
        """Rows of mended elements; one that does not parse even so is found by halving."""
        if not elements:
            return
        rows = self._parse_array(("[" + ",".join(elements) + "]").encode())
        if rows is not None:
            yield rows
        elif len(elements) == 1:
            self.document.note(Counter(unreadable_event=1), {"unreadable_event": 0}, start)
        else:
            middle = len(elements) // 2
            yield from self._rows_of(elements[:middle], start)
            yield from self._rows_of(elements[middle:], start)

    def _read_header(self, head: bytes, tail: bytes) -> None:
        """What is before the array counts even where what is behind it cannot be read."""
        before = head.decode("utf-8", "surrogateescape") + "null"
        end = "]" if self.document.is_array else "]}"
        behind = "]" + tail.decode("utf-8", "surrogateescape")
        truncated = "truncated" in self.document.found
        header, found = read_document(before + (end if truncated else behind))
        if "unreadable_header" in found and not truncated:
            header, found = read_document(before + end)
            found["unreadable_trailer"] = 1
        if isinstance(header, dict):
            array = header.pop(self._key, None)
            if isinstance(array, list) and array not in ([], [None]):
                found["doubled_member"] -= 1  # the array: of these, the first counts
                found["second_array"] = len(array)
            self.document.header = header
        self.document.found.update(+found)


def _commas(text: bytes, searched: int) -> Iterator[int]:
    """Offsets of commas between elements, about `PIECE` apart, from a place on."""
    searched = max(0, searched)
    while match := _CUT.search(text, searched):
        yield match.start(1)
        searched = match.end(1) + PIECE


def _split_end(text: bytes) -> tuple[bytes, bytes]:
    """The last elements, and what is left where the array seems to end; if it does, they parse."""
    end = text.rfind(b"]")
    return (text[:end], text[end:]) if text[: max(0, end)].rstrip().endswith(b"}") else (text, b"")


def _array_start(text: bytearray, key: str, seen: int) -> int | None:
    """Offset behind the bracket that opens the array, or None: it is not in the text yet."""
    opening = re.match(rb"[ \t\r\n]*\[", text)
    if opening is not None:
        return opening.end()
    ends = (m.end() for m in _member(key).finditer(text, seen))
    return next((end for end in ends if _depth(text, end - 1) == 1), None)


def _is_json(text: bytearray) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _bytes(text: str) -> int:
    """Bytes that decoded text took."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _misplaced_array_start(text: bytearray, key: str) -> int | None:
    """Where the array seems to open in a document whose quotes and brackets do not add up."""
    found = _member(key).search(text)
    return found.end() if found else None


def _member(key: str) -> re.Pattern[bytes]:
    return re.compile(rb'(?<!\\)"' + re.escape(key.encode()) + rb'"\s*:\s*\[')


def _depth(text: bytearray, position: int) -> int:
    """Brackets open at a place of sound text."""
    depth = 0
    for token in _TOKEN.finditer(text, 0, position):
        if token.group() in (b"{", b"["):
            depth += 1
        elif token.group() in (b"}", b"]"):
            depth -= 1
    return depth


def _why_no_array(text: bytes, key: str) -> str:
    if not text.strip():
        return "the file is empty"
    try:
        value = json.loads(text.decode())
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
