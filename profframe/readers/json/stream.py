"""One long array of objects in a stream of JSON text, as pieces that parse in parallel.

The document is an array, or an object with the array as one of its members. Nothing here knows what
the objects mean. A cut falls only where text could go from one element to the next, and a wrong cut
does no harm: the piece before it does not parse, and what does not parse is read again, element by
element.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import numpy as np

from profframe.readers.json.opening import Behind, is_readable, opening
from profframe.readers.json.patience import Patience
from profframe.readers.json.repair import Repaired, read_document, repair
from profframe.readers.json.structure import Structure, element_ends

Rows = TypeVar("Rows")

PIECE: Final = 128 << 10
"""Bytes of a piece: it parses inside a processor's cache, and damage costs one piece."""
WAVE: Final = 8 << 20
"""Bytes of the pieces that are parsed as one table, which takes some milliseconds of its own."""

_CUT: Final = re.compile(rb"\}\s*(,)\s*(?=\{\s*\")")
_END: Final = re.compile(rb"\](?!(?:\s*[\]}])*\s*,?\s*\{)")
"""The bracket that ends the array: no more elements follow."""
_PLAIN_END: Final = re.compile(
    rb'\](?:\s*+,\s*+"[^"\\]*+"\s*+:\s*+(?:"[^"\\]*+"|[\w.+-]++))*+\s*+\}?\s*+'
)
"""The same, where only numbers and simple texts are behind it."""
_LONGEST: Final = 4 << 20
"""Bytes after which an element that does not end is given up."""
_PATIENCE: Final = 512 << 10
"""Bytes that may wait for what follows them."""
_LONG: Final = 1 << 20
"""Bytes without a cut after which brackets say where an element ends."""
MOST: Final = 32 << 20
"""Bytes of the longest element that is read: to parse it takes twenty times as much."""


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
    lost
        Bytes of an element that is too long to be read; a wave with one has no pieces.
    is_barren
        Whether it is found that there is no element in it that is worth to be read.
    """

    def __init__(self, text: memoryview, start: int, behind: bytes = b",", lost: int = 0) -> None:
        self.text = text
        self.bounds = [0]
        self.start = start
        self.behind = behind
        self.lost = lost
        self.is_barren = False
        self._written = 1

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def end(self) -> int:
        """Byte of the stream behind the last piece."""
        return self._begin(len(self)) - 1

    @property
    def is_long(self) -> bool:
        """Whether it has one long piece, and no other."""
        return len(self) == 1 and self.bounds[1] > _LONG

    @property
    def open(self) -> int:
        """Bytes of the piece that has not ended."""
        return self._written - self.bounds[-1] - 1

    def has(self, mark: bytes) -> bool:
        """Whether some text is in a piece."""
        parts = range(0, self.bounds[-1], PIECE)
        return any(mark in bytes(self.text[at : at + PIECE + len(mark)]) for at in parts)

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
    mark
        Text that each element has, but for some: long text without it is passed over.
    """

    def __init__(
        self,
        blocks: Iterator[bytes],
        key: str,
        parse: Parser[Rows],
        parse_array: ArrayParser[Rows],
        threads: int,
        *,
        mark: bytes = b"",
    ) -> None:
        self._blocks = blocks
        self._mark = mark
        self._key = key
        self._parse = parse
        self._parse_array = parse_array
        self._threads = threads
        self._patience = Patience(mark.decode().strip('"'))
        self._tried = 0
        """Bytes that waited when they were mended last; twice as many are worth another try."""
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
        found = opening(self._blocks, self._key)
        self.document.is_array = found.before == b"["
        tail = Behind()
        waves = self._readable(self._parsed(found.text, found.start), tail)
        yield from self._in_order(waves, tail)
        for block in self._blocks:
            tail.append(block)
        self._read_header(found.before, tail.text())

    def _parsed(self, text: bytes, start: int) -> Iterator[Parsed[Rows]]:
        """Parsed waves in order, one for each thread at a time; one thread alone does it all.

        A long element is parsed alone, for the memory that this takes.
        """
        if self._threads == 1:
            yield from map(self._parse_pieces, self._waves(text, start))
            return
        ahead: deque[Future[Parsed[Rows]]] = deque()
        with ThreadPoolExecutor(self._threads, "profframe-parse") as pool:
            for wave in self._waves(text, start):
                while ahead and (wave.is_long or len(ahead) == self._threads):
                    yield ahead.popleft().result()
                ahead.append(pool.submit(self._parse_pieces, wave))
                if wave.is_long:
                    yield ahead.popleft().result()
            for future in ahead:
                yield future.result()

    def _parse_pieces(self, wave: Wave) -> Parsed[Rows]:
        """Rows of a wave, if there are any."""
        if wave.lost:
            return Parsed(wave, [])
        if wave.bounds[-1] > _LONG and not wave.has(self._mark):
            wave.is_barren = True
            return Parsed(wave, [(0, len(wave), None)])
        return self._parse(wave)

    def _waves(self, text: bytes, start: int) -> Iterator[Wave]:
        """Pieces of each block, one behind the other; the last has a wave of its own."""
        wave = self._wave(start)
        for block in itertools.chain((text,), self._blocks):
            wave = yield from self._cut(wave, block, _commas(block, PIECE - wave.open))
            if wave.open > _LONG:
                wave, behind = yield from self._long(wave)
                if behind:
                    if len(wave):
                        yield wave
                    yield self._last(wave.end + 1, b"", behind)
                    return
        text, behind = _split_end(wave.take_open())
        if len(wave):
            yield wave
        yield self._last(wave.end + 1, text, behind)

    def _cut(self, wave: Wave, text: bytes, commas: Iterable[int]) -> Generator[Wave, None, Wave]:
        """Write text to a wave; gives the wave that has what is behind the last comma."""
        view, begin = memoryview(text), 0
        for comma in commas:
            wave.write(view[begin:comma])
            wave.close()
            begin = comma + 1
            if wave.bounds[-1] >= WAVE or wave.is_long:
                yield wave
                wave = self._wave(wave.end + 1)
        wave.write(view[begin:])
        return wave

    def _long(self, wave: Wave) -> Generator[Wave, None, tuple[Wave, bytes]]:
        """Read on behind text in which no element seems to end, up to where its brackets say.

        Gives the wave that goes on, and the text from the bracket on that ends the array.
        """
        start, text, structure = wave.end + 1, wave.take_open(), Structure()
        if len(wave):
            yield wave
        held: list[bytes] = []
        size = 0
        while True:
            commas, end = _ends(structure, text)
            if commas or end is not None:
                break
            if size or not text.isspace():
                held.append(text)
                size += len(text)
            else:
                start += len(text)
            if size > MOST:
                held.clear()
            text = next(self._blocks, b"")
            if not text:
                break
        ends = commas if end is None else [*commas, end]
        if size > MOST:
            lost = ends[0] if ends else len(text)
            yield Wave(blank(2), start, lost=size + lost)
            start, text = start + size + lost, text[lost:]
            ends = [place - lost for place in ends]
        else:
            text = b"".join([*held, text])
            ends = [place + size for place in ends]
        wave = yield from self._cut(self._wave(start), text, ends)
        return wave, b"" if end is None else b"]" + wave.take_open()

    def _last(self, start: int, text: bytes, behind: bytes) -> Wave:
        last = self._wave(start, behind)
        last.write(text)
        last.close()
        return last

    def _wave(self, start: int, behind: bytes = b",") -> Wave:
        size = WAVE + 2 * PIECE
        text = self._free.pop() if self._free else blank(size)
        return Wave(text if size <= len(text) <= 2 * size else blank(size), start, behind)

    def _readable(self, waves: Iterator[Parsed[Rows]], tail: Behind) -> Iterator[Parsed[Rows]]:
        """Waves but for elements of the array that are too long to be read, or to be mended."""
        for parsed in waves:
            wave = parsed.wave
            if tail.is_begun:
                tail.size += wave.lost
                yield parsed
            elif wave.lost:
                self._drop(wave, "long_event")
            elif wave.is_barren:
                self._drop(wave, "dropped_junk")
            elif wave.is_long and parsed.runs[0][2] is None and wave.end - wave.start > _LONGEST:
                self._drop(wave, "unreadable_event")
            else:
                yield parsed

    def _drop(self, wave: Wave, check: str) -> None:
        self.document.note(Counter({check: 1}), {check: 0}, wave.start)
        self._free.append(wave.text)

    def _in_order(self, waves: Iterator[Parsed[Rows]], tail: Behind) -> Iterator[Rows]:
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
        self, text: bytes, start: int, longest: int, tail: Behind
    ) -> Generator[Rows, None, tuple[bytes, int, bool]]:
        """Rows of the text; gives what is left of it, its first byte, and whether the array ended.

        What follows the array's end goes to `tail`.
        """
        if longest and len(text) < 2 * self._tried:
            return text, start, False
        fixed, used = self._repair(text, start, longest)
        yield from self._rows_of(fixed.elements, start)
        rest, begin = text[used:], start + used
        if fixed.closed:
            tail.append(rest)
            return b"", begin, True
        if longest and fixed.incomplete and len(rest) > longest:
            self.document.note(Counter(unreadable_event=1), {"unreadable_event": 0}, begin)
        if longest and (not fixed.incomplete or len(rest) > longest):
            rest = b""
        self._tried = len(rest)
        return rest, begin, False

    def _repair(self, text: bytes, start: int, longest: int) -> tuple[Repaired, int]:
        """The sound elements of the text, and how many of its bytes were used."""
        decoded = text.decode("utf-8", "surrogateescape")
        fixed = repair(decoded, longest, self._patience)
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

    def _read_header(self, head: bytes, tail: bytes | None) -> None:
        """What is before the array counts even where what is behind it cannot be read."""
        whole = head + b"null]"
        alone = whole + (b"" if self.document.is_array else b"}")
        if "truncated" in self.document.found:
            header, found = _read_around(alone)
        else:
            header, found = _read_around(None if tail is None else whole + tail)
            if "unreadable_header" in found:
                header, found = _read_around(alone)
                found["unreadable_trailer"] = 1
        if isinstance(header, dict):
            array = header.pop(self._key, None)
            if isinstance(array, list) and array not in ([], [None]):
                found["doubled_member"] -= 1  # the array: of these, the first counts
                found["second_array"] = len(array)
            self.document.header = header
        self.document.found.update(+found)


def _read_around(text: bytes | None) -> tuple[object, Counter[str]]:
    """The document without its array; None for what is too much."""
    if text is None or not is_readable(text):
        return {}, Counter(unreadable_header=1)
    return read_document(text.decode("utf-8", "surrogateescape"))


def _commas(text: bytes, searched: int) -> Iterator[int]:
    """Offsets of commas between elements, about `PIECE` apart, from a place on."""
    searched, end = max(0, searched), text.rfind(b'"') + 1
    while match := _CUT.search(text, searched, end):
        yield match.start(1)
        searched = match.end(1) + PIECE


def _split_end(text: bytes) -> tuple[bytes, bytes]:
    """The last elements, and what is left where the array seems to end; if it does, they parse."""
    last = text.rfind(b"]")
    seems_so = text[: max(0, last)].rstrip().endswith(b"}")
    if seems_so and _PLAIN_END.fullmatch(text, last):
        return text[:last], text[last:]
    _, end = _ends(Structure(), text)
    end = (last if seems_so else len(text)) if end is None else end
    return text[:end], text[end:]


def _ends(structure: Structure, text: bytes) -> tuple[list[int], int | None]:
    """Commas between elements, some `PIECE` apart, and the bracket that ends the array."""
    likely = [match.start(1) for match in _CUT.finditer(text)] if b'"' in text else []
    commas, end = element_ends(structure, text, likely)
    if end is not None and not _END.match(text, end):
        end = None
    some: list[int] = []
    at = 0
    while at < commas.size:
        some.append(int(commas[at]))
        at = int(np.searchsorted(commas, some[-1] + PIECE))
    return some, end


def _bytes(text: str) -> int:
    """Bytes that decoded text took."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
