"""Fields of many protobuf messages at once: arrays instead of objects."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.intervals import Ints, Mask

Bytes = npt.NDArray[np.uint8]

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5
_WIDTHS: Final = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT: Final = 10
PADDING: Final = 16
"""Bytes that must follow a buffer, so that the last numbers can be read."""
_PACKET: Final = 0x0A
"""Tag of a packet in a trace: field 1, with a length."""
_EMPTY: Final = b"\n\0" * 128
"""Maximum packets without a field: they say nothing, and gzip fits a million of them into 2 kB."""
_LONGEST_PACKET: Final = 256 << 20
"""Maximum bytes of a packet: it is in memory as a whole."""
_MOST_FIELDS: Final = 1 << 16
"""Maximum fields of a message."""
_FEW_FIELDS: Final = 64
_FEW_MESSAGES: Final = 256
"""A pass takes the next field of all messages. Where only so few have more fields than these, they
are read one by one: a pass takes as long as hundreds of fields do."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of messages, in the order of the messages and within each as they stand there.

    ``owner`` is the number of the message. ``value`` holds numbers as they are on the wire, and for
    fields with a length where they begin; ``size`` is that length.
    """

    owner: Ints
    number: Ints
    wire: Ints
    value: Ints
    size: Ints

    def of(self, number: int, *wires: int) -> Fields:
        """The fields with one number, of the given types."""
        rows = np.flatnonzero(self.number == number)
        wire = self.wire[rows]
        rows = rows[np.logical_or.reduce([wire == type_ for type_ in wires])]
        return self.where(rows)

    def where(self, chosen: Mask | Ints) -> Fields:
        """Select by a mask or by positions."""
        return Fields(
            *(a[chosen] for a in (self.owner, self.number, self.wire, self.value, self.size))
        )

    def numbers(self, number: int, count: int, missing: int = 0) -> Ints:
        """The number in a field of each of the messages; the last one if there are several."""
        chosen = self.of(number, VARINT, FIXED64, FIXED32)
        values = np.full(count, missing, np.int64)
        values[chosen.owner] = chosen.value
        return values

    def has(self, number: int, count: int) -> Mask:
        """Messages that have a field."""
        mask = np.zeros(count, np.bool_)
        mask[self.owner[self.number == number]] = True
        return mask


@dataclass(slots=True)
class Framing:
    """Cuts a stream into packets; ``damage`` says where and why it ended early."""

    packets: int = 0
    damage: str | None = None
    position: int = field(default=0)

    def chunks(self, blocks: Iterator[bytes], size: int) -> Iterator[tuple[Bytes, Ints, Ints]]:
        """Buffers of whole packets with the bounds of each."""
        pending = bytearray()  # grows in place: a block costs no copy of what waits
        for block in blocks:
            pending += block
            if len(pending) >= size:
                used = yield from self._cut(pending)
                del pending[:used]
                # A packet that is longer than what was read waits for as much again.
                size = max(size, 2 * len(pending))
                if self.damage is not None:
                    return
        used = yield from self._cut(pending)
        if used < len(pending) and self.damage is None:
            self.damage = f"the packet at byte {self.position:,} is cut off"

    def _cut(self, data: bytearray) -> Generator[tuple[Bytes, Ints, Ints], None, int]:
        starts: list[int] = []
        ends: list[int] = []
        at, total = 0, len(data)
        # Only the previous packet says where a packet begins.
        while at < total:
            if data[at] != _PACKET:
                self.damage = f"no packet begins at byte {self.position + at:,}"
                break
            # Most are shorter than 16 kB, and there are millions.
            if at + 2 < total and (byte := data[at + 1]) < 128:
                if not byte and data.startswith(_EMPTY, at):
                    self.packets += len(_EMPTY) // 2
                    at += len(_EMPTY)
                    continue
                size, begin = byte, at + 2
            elif at + 2 < total and data[at + 2] < 128:
                size, begin, byte = byte & 127 | data[at + 2] << 7, at + 3, 0
            elif at + 4 < total and data[at + 3] >= 128 > data[at + 4]:
                # Writers that fill in the length later reserve 4 bytes for it.
                size, begin = byte & 127 | (data[at + 2] & 127) << 7, at + 5
                size, byte = size | (data[at + 3] & 127) << 14 | data[at + 4] << 21, 0
            else:
                size, begin, byte = _length(data, at + 1)
                if begin > total:
                    break
            if byte >= 128:
                self.damage = f"a packet without a length at byte {self.position + at:,}"
                break
            if begin + size > total:
                if size > _LONGEST_PACKET:
                    self.damage = (
                        f"the packet at byte {self.position + at:,} claims to have {size:,} bytes"
                    )
                break
            starts.append(begin)
            at = begin + size
            ends.append(at)
        self.position += at
        self.packets += len(starts)
        if starts:
            buffer = np.zeros(at + PADDING, np.uint8)
            buffer[:at] = np.frombuffer(data, np.uint8, at)
            yield buffer, np.array(starts, np.int64), np.array(ends, np.int64)
        return at


def _length(data: bytearray, at: int) -> tuple[int, int, int]:
    """The number at a place, the place after it, and its last byte; past the end if it is cut."""
    size = 0
    for nth, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        size |= (byte & 127) << (7 * nth)
        if byte < 128 or nth == _LONGEST_VARINT - 1:
            return size, at + nth + 1, byte
    return 0, len(data) + 1, 0


def fields(buffer: Bytes, starts: Ints, ends: Ints) -> tuple[Fields, Mask]:
    """All fields of messages, and which of the messages are damaged: those have none.

    Examples
    --------
    >>> data = np.frombuffer(bytes([8, 150, 1, 18, 1, 65]) + bytes(PADDING), np.uint8)
    >>> found_fields, damaged = fields(data, np.array([0]), np.array([6]))
    >>> found_fields.number.tolist(), found_fields.value.tolist(), damaged.tolist()
    ([1, 2], [150, 5], [False])
    """
    cursor = starts.copy()
    damaged = np.zeros(starts.size, np.bool_)
    parts: list[tuple[Ints, ...]] = []
    active = np.flatnonzero(cursor < ends)
    for nth in range(_MOST_FIELDS):
        if not active.size or (nth >= _FEW_FIELDS and active.size <= _FEW_MESSAGES):
            break
        tag, place, is_bad = _varints(buffer, cursor[active], ends[active])
        number, wire = tag >> 3, tag & 7
        value, after, is_bad_value = _varints(buffer, place, ends[active], wire == VARINT)
        size = np.zeros(active.size, np.int64)
        is_long = wire == LENGTH
        if is_long.any():
            length, begin, is_bad_length = _varints(buffer, place, ends[active], is_long)
            size = np.where(is_long, length, 0)
            value = np.where(is_long, begin, value)
            is_bad_value |= is_bad_length | (size < 0) | (size > ends[active] - begin)
            after = np.where(is_long, begin + np.where(is_bad_value, 0, size), after)
        for type_, width in _WIDTHS.items():
            is_fixed = wire == type_
            if is_fixed.any():
                value = np.where(is_fixed, _fixed(buffer, place, is_fixed, width), value)
                after = np.where(is_fixed, place + width, after)
        is_bad |= is_bad_value | (after > ends[active]) | (number <= 0)
        is_bad |= (wire != VARINT) & (wire != LENGTH) & (wire != FIXED64) & (wire != FIXED32)
        damaged[active[is_bad]] = True
        parts.append((active, number, wire, value, size))
        cursor[active] = after
        active = active[~is_bad & (after < ends[active])]
    passes = len(parts)
    alone = {message: _alone(buffer, cursor, ends, message, passes) for message in active.tolist()}
    damaged[[message for message, rows in alone.items() if rows is None]] = True
    if not parts:
        nothing = np.empty(0, np.int64)
        return Fields(nothing, nothing, nothing, nothing, nothing), damaged
    # Each pass takes the next field of every message that has one: their places need no sorting.
    counts = np.zeros(starts.size, np.int64)
    for active, *_ in parts:
        counts[active] += 1
    for message, rest in alone.items():
        counts[message] += 0 if rest is None else len(rest)
    counts[damaged] = 0
    begins = np.cumsum(counts) - counts
    columns = [np.empty(int(counts.sum()), np.int64) for _ in range(5)]
    for nth, part in enumerate(parts):
        kept = ~damaged[part[0]]
        rows = begins[part[0][kept]] + nth
        for column, values in zip(columns, part, strict=True):
            column[rows] = values[kept]
    for message, rest in alone.items():
        at = begins[message] + passes
        for column, numbers in zip(columns, zip(*(rest or ()), strict=True), strict=False):
            column[at : at + len(numbers)] = numbers
    return Fields(*columns), damaged


def _alone(
    buffer: Bytes, cursor: Ints, ends: Ints, message: int, passes: int
) -> list[tuple[int, ...]] | None:
    """Remaining fields of one message, as rows of `Fields`; None if damaged."""
    begin = int(cursor[message])
    text = bytearray(buffer[begin : int(ends[message])])
    rows, at, end = list[tuple[int, ...]](), 0, len(text)
    while at < end:
        tag, at = _signed(text, at)
        number, wire, value, size = tag >> 3, tag & 7, 0, 0
        if wire == VARINT:
            value, at = _signed(text, at)
        elif wire == LENGTH:
            size, at = _signed(text, at)
            value, at = begin + at, at + size
        else:
            width = _WIDTHS.get(wire, end + 1)
            value = int.from_bytes(text[at : at + min(width, 8)], "little", signed=width == 8)
            at += width
        if number <= 0 or size < 0 or at > end or len(rows) == _MOST_FIELDS - passes:
            return None
        rows.append((message, number, wire, value, size))
    return rows


def _signed(text: bytearray, at: int) -> tuple[int, int]:
    """A number as `Fields` have it, and the place after it: past the end if it does not end."""
    value, after, last = _length(text, at)
    if last >= 128:
        return 0, len(text) + 1
    value &= (1 << 64) - 1
    return value - (value >> 63 << 64), after


def _varints(
    buffer: Bytes, at: Ints, ends: Ints, chosen: Mask | None = None
) -> tuple[Ints, Ints, Mask]:
    """Numbers that begin at these places, the places after them, and those that do not end."""
    value = np.zeros(at.size, np.uint64)
    after = at.copy()
    is_bad = np.zeros(at.size, np.bool_)
    active = np.arange(at.size) if chosen is None else np.flatnonzero(chosen)
    for place in range(_LONGEST_VARINT):
        if not active.size:
            break
        at_byte = at[active] + place
        is_past = at_byte >= ends[active]
        if is_past.any():
            is_bad[active[is_past]] = True
            active, at_byte = active[~is_past], at_byte[~is_past]
        byte = buffer[at_byte]
        value[active] |= (byte & 127).astype(np.uint64) << np.uint64(7 * place)
        after[active] = at_byte + 1
        active = active[byte >= 128]
    is_bad[active] = True
    return value.view(np.int64), after, is_bad


def _fixed(buffer: Bytes, at: Ints, chosen: Mask, width: int) -> Ints:
    places = np.minimum(np.where(chosen, at, 0), buffer.size - width)
    octets = buffer[places[:, None] + np.arange(width)]
    padded = np.zeros((at.size, 8), np.uint8)
    padded[:, :width] = octets
    return padded.view(np.int64).reshape(-1)


def packed(buffer: Bytes, lists: Fields, width: int = 0) -> Fields:
    """Repeated numbers: those that stand alone, and those that are packed into one field.

    Packed numbers are varints, or have a width of 8 bytes.
    """
    alone = lists.where(lists.wire != LENGTH)
    rows = lists.where(lists.wire == LENGTH)
    if not rows.owner.size:
        return alone
    cursor, ends = rows.value.copy(), rows.value + rows.size
    parts = [(alone.owner, alone.value)]
    active = np.flatnonzero(cursor < ends)
    for _ in range(_MOST_FIELDS):
        if not active.size:
            break
        at = cursor[active]
        if width:
            after, is_bad = at + width, at + width > ends[active]
            value = _fixed(buffer, at, ~is_bad, width)
        else:
            value, after, is_bad = _varints(buffer, at, ends[active])
        parts.append((rows.owner[active[~is_bad]], value[~is_bad]))
        cursor[active] = after
        active = active[~is_bad & (after < ends[active])]
    owner, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    same = np.zeros(owner.size, np.int64)
    return Fields(owner[order], same, same, value[order], same)


def distinct_rows(*columns: Ints) -> tuple[Ints, Ints]:
    """The distinct rows of some columns, by their first place, and for each row its number.

    Examples
    --------
    >>> rows, place = distinct_rows(np.array([7, 7, 3]), np.array([1, 1, 1]))
    >>> rows.tolist(), place.tolist()
    ([[7, 1], [3, 1]], [0, 0, 1])
    """
    code = np.zeros(columns[0].size, np.int64)
    for column in columns:
        encoded = pa.array(column).dictionary_encode()
        both = code * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        code = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.full(int(code.max(initial=-1)) + 1, -1, np.int64)
    first[code[::-1]] = np.arange(code.size)[::-1]
    return np.stack([column[first] for column in columns], axis=1), code


def texts(buffer: Bytes, at: Ints, size: Ints) -> pa.Array:
    """Texts at these places; what is not UTF-8 becomes U+FFFD."""
    bounds = np.zeros(at.size + 1, np.int64)
    np.cumsum(size, out=bounds[1:])
    places = np.arange(int(bounds[-1])) + np.repeat(at - bounds[:-1], size)
    letters = buffer[places]
    array = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), at.size, [None, pa.py_buffer(bounds), pa.py_buffer(letters)]
    )
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([t.decode("utf-8", "replace") for t in array.to_pylist()], pa.string())
