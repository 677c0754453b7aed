"""Cut one long array of objects in a stream of JSON text into pieces that parse in parallel.

The document is an array, or an object with the array as one of its members. Nothing here knows what
the objects mean. A cut falls only where one element could end and the next begin, and a wrong cut
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
from typing import Any, Final, Generic, TypeVar

import numpy as np

from profframe.readers.json.budget import RepairBudget
from profframe.readers.json.opening import Tail, is_readable, opening
from profframe.readers.json.repair import Repaired, read_document, repair
from profframe.readers.json.structure import Structure, element_ends

Rows = TypeVar("Rows")

PIECE: Final = 128 << 10
"""Bytes of a piece: it parses in a processor's cache, and damage costs one piece."""
WAVE: Final = 8 << 20
"""Bytes of the pieces that are parsed as one table: each table costs a few milliseconds."""

PADDING: Final = 32
"""Bytes of a wave's buffer that stay free after its text."""

_CUT: Final = re.compile(rb"\}\s*(,)\s*(?=\{\s*\")")
_END: Final = re.compile(rb"\](?!(?:\s*[\]}])*\s*,?\s*\{)")
"""The bracket that ends the array: no element follows."""
_PLAIN_END: Final = re.compile(
    rb'\](?:\s*+,\s*+"[^"\\]*+"\s*+:\s*+(?:"[^"\\]*+"|[\w.+-]++))*+\s*+\}?\s*+'
)
"""The same, where only numbers and simple strings follow."""
_INNER_END: Final = re.compile(rb'\}\s*+\]\s*+,\s*+"[^"\\]*+"\s*+:')
"""A bracket that ends a list of objects, where another member follows."""
_LONGEST: Final = 4 << 20
"""Bytes after which an element that does not end is given up."""
_PATIENCE: Final = 512 << 10
"""Bytes that may wait for the next wave."""
_LONG: Final = 1 << 20
"""Bytes without a cut after which brackets are counted to find where an element ends."""
MOST: Final = 32 << 20
"""Bytes of the longest element that is read: parsing takes twenty times the memory."""


class Wave:
    """Consecutive pieces of the text, each written as an array of its own.

    A comma separated any two; the first began at byte ``start`` of the stream.

    Attributes
    ----------
    text
        The arrays, one after another; more bytes may follow.
    bounds
        Where each of them begins, and where the last one ends.
    tail
        What follows the last piece in the stream: a comma, or after the very last piece, the text
        from where the array seems to end.
    lost
        Bytes of an element that is too long to read; its wave has no pieces.
    is_barren
        Whether it has no element with the mark.
    """

    def __init__(self, text: memoryview, start: int, tail: bytes = b",", lost: int = 0) -> None:
        self.text = text
        self.bounds = [0]
        self.start = start
        self.tail = tail
        self.lost = lost
        self.is_barren = False
        self._written = 1

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def end(self) -> int:
        """Offset in the stream after the last piece."""
        return self._begin(len(self)) - 1

    @property
    def is_long(self) -> bool:
        """Whether it has one long piece, and no other."""
        return len(self) == 1 and self.bounds[1] > _LONG

    @property
    def is_last(self) -> bool:
        """Whether the array seems to end with it."""
        return self.tail != b","

    @property
    def open(self) -> int:
        """Bytes of the unfinished piece."""
        return self._written - self.bounds[-1] - 1

    def has(self, mark: bytes) -> bool:
        """Whether some text is in a piece."""
        starts = range(0, self.bounds[-1], PIECE)
        return any(mark in bytes(self.text[start : start + PIECE + len(mark)]) for start in starts)

    def write(self, part: bytes | memoryview) -> None:
        """Add to the unfinished piece."""
        end = self._written + len(part)
        if end + PADDING > len(self.text):
            longer = blank(end + len(self.text))
            longer[: self._written] = self.text[: self._written]
            self.text = longer
        self.text[self._written : end] = part
        self._written = end

    def close(self) -> None:
        """Finish this piece; later text belongs to the next."""
        self.text[self.bounds[-1]] = ord("[")
        self.text[self._written] = ord("]")
        self.bounds.append(self._written + 1)
        self._written += 2

    def take_open(self) -> bytes:
        """Remove the text of the unfinished piece, and return it."""
        begin = self.bounds[-1] + 1
        part = bytes(self.text[begin : self._written])
        self._written = begin
        return part

    def span(self, first: int, stop: int) -> tuple[bytes, int]:
        """Text of the pieces from `first` to before `stop`, with commas, and its offset."""
        bounds = self.bounds[first : stop + 1]
        pieces = (self.text[begin + 1 : end - 1] for begin, end in itertools.pairwise(bounds))
        separator = self.tail if stop == len(self) else b","
        return b",".join(pieces) + separator, self._begin(first)

    def _begin(self, piece: int) -> int:
        """Offset in the stream where a piece begins: each has two brackets for one comma."""
        return self.start + self.bounds[piece] - piece


def blank(size: int) -> memoryview:
    """A buffer, which takes memory only as it is written."""
    return np.empty(size, np.uint8).data


@dataclass(slots=True)
class Parsed(Generic[Rows]):
    """Parsed pieces of one wave: rows, or None for pieces that need repair."""

    wave: Wave
    runs: list[tuple[int, int, Rows | None]]
    """(first piece, stop, rows): in order, without gaps."""


@dataclass(slots=True)
class Document:
    """What is around the array, complete after its elements are read."""

    header: dict[str, object] = field(default_factory=dict)
    repairs: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    """Offset of the first of each repair."""
    is_array: bool = False

    def note(self, repairs: Counter[str], first: dict[str, int], start: int) -> None:
        """Add the repairs of one piece that began at offset `start`."""
        self.repairs.update(repairs)
        for check, position in first.items():
            self.first.setdefault(check, start + position)

    def notes(self, elements: str, damage: str | None) -> Iterator[tuple[str, int, str]]:
        """Rows of `quality`: the repairs, with the first place of each, and damage of the source.

        Parameters
        ----------
        elements
            What the array holds, in one word.
        damage
            What was wrong with the bytes themselves.
        """
        for check, count in self.repairs.items():
            place = self.first.get(check)
            detail = f"outside the {elements}" if place is None else f"first at byte {place:,}"
            if check == "truncated" and damage:
                detail += f"; {damage}"
            yield check, count, detail
        if damage and "truncated" not in self.repairs:
            yield "damaged_stream", 0, damage


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
        Makes rows from a wave's valid pieces; runs on the pool's threads, if there are several.
    parse_array
        Makes rows from one array's text, or None where it does not parse.
    threads
        Size of the pool.
    mark
        Text that useful elements have: long text without it is skipped.
    cut
        Finds where an element ends and another begins: its group is the comma between them. Each
        look-alike inside an element costs a repair.
    begun
        Called with the text before the array, before any of the array is parsed.
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
        cut: re.Pattern[bytes] = _CUT,
        begun: Callable[[bytes], None] | None = None,
    ) -> None:
        self._begun = begun
        self._blocks = blocks
        self._mark = mark
        self._between = cut
        self._key = key
        self._parse = parse
        self._parse_array = parse_array
        self._threads = threads
        self._budget = RepairBudget(mark.decode().strip('"'))
        self._unrepaired = 0
        """Bytes left over by the last repair; another try comes at twice as many."""
        self._free: list[memoryview] = []
        """Buffers for reuse, which costs less than fresh memory."""
        self.document = Document()

    def rows(self) -> Iterator[Rows]:
        """The elements, wave by wave; `document` is complete after the last.

        Raises
        ------
        NoArrayError
            The text holds no such array.
        """
        array = opening(self._blocks, self._key)
        self.document.is_array = array.before == b"["
        if self._begun is not None:
            self._begun(array.before)
        tail = Tail()
        waves = self._readable(self._parsed(array.text, array.start), tail)
        yield from self._in_order(waves, tail)
        for block in self._blocks:
            tail.append(block)
        self._read_header(array.before, tail.text())

    def _parsed(self, text: bytes, start: int) -> Iterator[Parsed[Rows]]:
        """Parsed waves in order, one for each thread at a time; a single thread needs no pool.

        A long element is parsed alone, because it takes much memory.
        """
        if self._threads == 1:
            yield from map(self._parse_pieces, self._waves(text, start))
            return
        ahead: deque[Future[Parsed[Rows]]] = deque()
        with ThreadPoolExecutor(self._threads, "profframe-parse") as pool:
            for wave in self._waves(text, start):
                if wave.is_last and not ahead:  # there is nothing to parse beside it
                    yield self._parse_pieces(wave)
                    return
                while ahead and (wave.is_long or len(ahead) == self._threads):
                    yield ahead.popleft().result()
                ahead.append(pool.submit(self._parse_pieces, wave))
                if wave.is_long:
                    yield ahead.popleft().result()
            for future in ahead:
                yield future.result()

    def _parse_pieces(self, wave: Wave) -> Parsed[Rows]:
        """Rows of a wave, if any."""
        if wave.lost:
            return Parsed(wave, [])
        if wave.bounds[-1] > _LONG and not wave.has(self._mark):
            wave.is_barren = True
            return Parsed(wave, [(0, len(wave), None)])
        return self._parse(wave)

    def _waves(self, text: bytes, start: int) -> Iterator[Wave]:
        """Pieces of all blocks; the last piece has a wave of its own."""
        wave = self._wave(start)
        for block in itertools.chain((text,), self._blocks):
            wave = yield from self._cut(wave, block, self._commas(block, PIECE - wave.open))
            if wave.open > _LONG:
                wave, tail = yield from self._long(wave)
                if tail:
                    if len(wave):
                        yield wave
                    yield self._last(wave.end + 1, b"", tail)
                    return
        text, tail = _split_end(wave.take_open())
        if len(wave):
            yield wave
        yield self._last(wave.end + 1, text, tail)

    def _commas(self, text: bytes, start: int) -> Iterator[int]:
        """Offsets of commas between elements, about `PIECE` apart, from an offset on."""
        start, end = max(0, start), text.rfind(b'"') + 1
        while match := self._between.search(text, start, end):
            yield match.start(1)
            start = match.end(1) + PIECE

    def _cut(self, wave: Wave, text: bytes, commas: Iterable[int]) -> Generator[Wave, None, Wave]:
        """Write text to a wave; returns the wave with the text after the last comma."""
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
        """Read on if no element seems to end, to where the brackets say that it does.

        Returns the wave to continue with, and the text from the bracket that ends the array.
        """
        start, text, structure = wave.end + 1, wave.take_open(), Structure()
        if len(wave):
            yield wave
        parts: list[bytes] = []
        size = 0
        while True:
            commas, end = _ends(structure, text)
            if commas or end is not None:
                break
            if size or not text.isspace():
                parts.append(text)
                size += len(text)
            else:
                start += len(text)
            if size > MOST:
                parts.clear()
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
            text = b"".join([*parts, text])
            ends = [place + size for place in ends]
        wave = yield from self._cut(self._wave(start), text, ends)
        return wave, b"" if end is None else b"]" + wave.take_open()

    def _last(self, start: int, text: bytes, tail: bytes) -> Wave:
        last = self._wave(start, tail)
        last.write(text)
        last.close()
        return last

    def _wave(self, start: int, tail: bytes = b",") -> Wave:
        size = WAVE + 2 * PIECE
        text = self._free.pop() if self._free else blank(size)
        return Wave(text if size <= len(text) <= 2 * size else blank(size), start, tail)

    def _readable(self, waves: Iterator[Parsed[Rows]], tail: Tail) -> Iterator[Parsed[Rows]]:
        """Waves without elements that are too long to read or to repair."""
        for parsed in waves:
            wave = parsed.wave
            if tail.is_started:
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

    def _in_order(self, waves: Iterator[Parsed[Rows]], tail: Tail) -> Iterator[Rows]:
        """Rows in the order of the text; what did not parse is repaired.

        What did not parse at the end of a wave waits for the next: if that begins with text that
        did not parse either, the cut between them was inside an element.
        """
        pending, start, closed, end, waits = b"", 0, False, 0, False
        for parsed in waves:
            wave = parsed.wave
            end = wave.end
            for first, stop, rows in parsed.runs:
                if waits and rows is not None:
                    pending, start, closed = yield from self._repaired(
                        pending, start, _LONGEST, tail
                    )
                waits = False
                if rows is not None and not pending and not closed:
                    yield rows
                    if stop == len(wave) and wave.tail.startswith(b"]"):
                        closed = True
                        tail.append(wave.tail[1:])
                    continue
                text, begin = wave.span(first, stop)
                if closed:
                    tail.append(text)
                    continue
                pending, start = pending + text, start if pending else begin
                continues = stop == len(wave) and wave.tail == b","
                waits = rows is None and continues and len(pending) <= _PATIENCE
                if not waits:
                    is_last = stop == len(wave) and wave.tail != b","
                    pending, start, closed = yield from self._repaired(
                        pending, start, 0 if is_last else _LONGEST, tail
                    )
            self._free.append(wave.text)
        if pending and not closed:
            pending, start, closed = yield from self._repaired(pending, start, 0, tail)
        if not closed:
            self.document.repairs["truncated"] = 1 if pending.strip() else 0
            self.document.first["truncated"] = start if pending.strip() else end

    def _repaired(
        self, text: bytes, start: int, longest: int, tail: Tail
    ) -> Generator[Rows, None, tuple[bytes, int, bool]]:
        """Rows of the text; returns its rest, the offset of the rest, and whether the array ended.

        What follows the array's end goes to `tail`.
        """
        if longest and len(text) < 2 * self._unrepaired:
            return text, start, False
        repaired, used = self._repair(text, start, longest)
        yield from self._rows_of(repaired.elements, start)
        rest, begin = text[used:], start + used
        if repaired.closed:
            tail.append(rest)
            return b"", begin, True
        if longest and repaired.incomplete and len(rest) > longest:
            self.document.note(Counter(unreadable_event=1), {"unreadable_event": 0}, begin)
        if longest and (not repaired.incomplete or len(rest) > longest):
            rest = b""
        self._unrepaired = len(rest)
        return rest, begin, False

    def _repair(self, text: bytes, start: int, longest: int) -> tuple[Repaired, int]:
        """Valid elements of the text, and the number of bytes used."""
        decoded = text.decode("utf-8", "surrogateescape")
        repaired = repair(decoded, longest, self._budget)
        first = {check: _bytes(decoded[:place]) for check, place in repaired.first.items()}
        self.document.note(repaired.repairs, first, start)
        return repaired, _bytes(decoded[: repaired.end])

    def _rows_of(self, elements: list[str], start: int) -> Iterator[Rows]:
        """Rows of repaired elements; one that still does not parse is found by bisection."""
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
        """Read the header; what is before the array counts even if the rest is unreadable."""
        before = head + b"null]"
        without_tail = before + (b"" if self.document.is_array else b"}")
        if "truncated" in self.document.repairs:
            header, repairs = _read_around(without_tail)
        else:
            header, repairs = _read_around(None if tail is None else before + tail)
            if "unreadable_header" in repairs:
                header, repairs = _read_around(without_tail)
                repairs["unreadable_trailer"] = 1
        if isinstance(header, dict):
            array = header.pop(self._key, None)
            if isinstance(array, list) and array not in ([], [None]):
                repairs["doubled_member"] -= 1  # if there are several arrays, the first one counts
                marks = (tail or b"").count(self._mark) if self._mark else 0
                repairs["second_array"] = max(len(array), marks)
            self.document.header = header
        self.document.repairs.update(+repairs)


def members_in(head: bytes) -> dict[str, Any]:
    """Members before an array that opens at the end of the text; none if they are not valid."""
    members, _ = _read_around(head + b"null]}")
    return members if isinstance(members, dict) else {}


def _read_around(text: bytes | None) -> tuple[object, Counter[str]]:
    """The document without its array; None if it is too much text."""
    if text is None or not is_readable(text):
        return {}, Counter(unreadable_header=1)
    return read_document(text.decode("utf-8", "surrogateescape"))


def _split_end(text: bytes) -> tuple[bytes, bytes]:
    """The last elements, and the text from where the array seems to end."""
    last = text.rfind(b"]")
    seems_closed = text[: max(0, last)].rstrip().endswith(b"}")
    is_plain = seems_closed and _PLAIN_END.fullmatch(text, last)
    if is_plain and not _INNER_END.search(text, 0, last):
        return text[:last], text[last:]
    _, end = _ends(Structure(), text)
    end = (last if seems_closed else len(text)) if end is None else end
    return text[:end], text[end:]


def _ends(structure: Structure, text: bytes) -> tuple[list[int], int | None]:
    """Commas between elements, about `PIECE` apart, and the bracket that ends the array."""
    likely = [match.start(1) for match in _CUT.finditer(text)] if b'"' in text else []
    commas, end = element_ends(structure, text, likely)
    if end is not None and not _END.match(text, end):
        end = None
    chosen: list[int] = []
    place = 0
    while place < commas.size:
        chosen.append(int(commas[place]))
        place = int(np.searchsorted(commas, chosen[-1] + PIECE))
    return chosen, end


def _bytes(text: str) -> int:
    """Bytes of decoded text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
