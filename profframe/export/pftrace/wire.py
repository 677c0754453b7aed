"""Fields of many protobuf messages at once: arrays in, arrays of bytes out.

A field that a message lacks is an empty element, so all arrays have one element per message and
nothing is NULL. Perfetto's own library makes an object for each packet, which takes ten times as
long as JSON text.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints, Mask

Parts: TypeAlias = pa.LargeBinaryArray
"""One element per message: encoded fields, or the content of a field."""
Message: TypeAlias = list[Parts]
"""Fields of messages, which are put together once they are written."""

VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_MOST_BYTES: Final = 10
_NOTHING: Final = pa.scalar(b"", pa.large_binary())
_LIMITS: Final = [np.uint64(1) << np.uint64(7 * n) for n in range(1, _MOST_BYTES)]


def varint(number: int) -> bytes:
    """A number as it is on the wire; a negative one has 64 bits.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    number &= (1 << 64) - 1
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def message(*fields: tuple[int, int | str | bytes | None]) -> bytes:
    """One message of numbered fields; those that are None are left out.

    Examples
    --------
    >>> message((1, 150), (2, "A"), (3, None)).hex()
    '089601120141'
    """
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3 | VARINT) + varint(value))
        elif value is not None:
            data = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | _LENGTH) + varint(len(data)) + data)
    return b"".join(parts)


def numbers(field: int, values: Ints, present: Mask | None = None) -> Message:
    """Fields of numbers."""
    return [_tagged(field << 3 | VARINT, values, present)]


def doubles(field: int, values: npt.NDArray[np.float64]) -> Message:
    """Fields of floating-point numbers."""
    tag = np.frombuffer(varint(field << 3 | _FIXED64), np.uint8)
    octets = np.empty((values.size, tag.size + 8), np.uint8)
    octets[:, : tag.size] = tag
    octets[:, tag.size :] = values.astype("<f8").view(np.uint8).reshape(-1, 8)
    return [_parts(octets.reshape(-1), np.arange(values.size + 1) * octets.shape[1])]


def constant(fields: bytes, count: int) -> Message:
    """Fields that are the same in all messages."""
    data = np.tile(np.frombuffer(fields, np.uint8), count)
    return [_parts(data, np.arange(count + 1) * len(fields))]


def lengths(field: int, contents: Message, present: Mask | None = None) -> Message:
    """Fields that hold bytes: texts and messages. Those that are not present are empty."""
    size = np.diff(bounds(contents[0]))
    for part in contents[1:]:
        size = size + np.diff(bounds(part))
    return [_tagged(field << 3 | _LENGTH, size, present), *contents]


def tags(field: Ints, size: Ints, present: Mask) -> Message:
    """Beginnings of fields that hold bytes, with numbers below 16, one or the other."""
    data = (field << 3 | _LENGTH).astype(np.uint8)[present]
    head = [_parts(data, np.append(0, np.cumsum(present)))]
    return [*head, _tagged(None, size, present)]


def joined(message: Message) -> Parts:
    """The fields of each message, one after the other."""
    return pc.binary_join_element_wise(*message, _NOTHING) if len(message) > 1 else message[0]


def grouped(parts: Parts, first: Ints) -> Parts:
    """Elements that belong together as one, without a copy; ``first`` ends with their number."""
    return _parts(parts.buffers()[2], bounds(parts)[first])


def spread(parts: Parts, owner: Ints, count: int) -> Parts:
    """An element for each of some messages, of which ``owner`` have one."""
    place = np.full(count, -1, np.int64)
    place[owner] = np.arange(owner.size)
    return pc.fill_null(parts.take(pa.array(place, mask=place < 0)), b"")


def texts(values: pa.Array) -> Parts:
    """Texts as bytes; NULL is an empty one."""
    letters = values.cast(pa.large_string()).cast(pa.large_binary())
    return pc.fill_null(letters, b"") if letters.null_count else letters


def contents(parts: Parts) -> memoryview:
    """The bytes of all elements together."""
    ends = bounds(parts)
    data = parts.buffers()[2]
    return memoryview(data or b"")[int(ends[0]) : int(ends[-1])]


def between(data: pa.Buffer, starts: Ints, ends: Ints) -> Parts:
    """Consecutive ranges of bytes, with gaps between them."""
    edges = np.empty(2 * starts.size + 1, np.int64)
    edges[:-1:2], edges[1::2] = starts, ends
    edges[-1] = ends[-1] if ends.size else 0
    return _parts(data, edges).take(pa.array(np.arange(0, 2 * starts.size, 2)))


def bounds(parts: pa.Array) -> Ints:
    """Where the elements begin, and where the last one ends."""
    if not len(parts):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(parts.buffers()[1], np.int64)
    return offsets[parts.offset : parts.offset + len(parts) + 1]


def _tagged(tag: int | None, values: Ints, present: Mask | None) -> Parts:
    head = np.frombuffer(b"" if tag is None else varint(tag), np.uint8)
    number = values.astype(np.int64).view(np.uint64)
    size = np.ones(number.size, np.int64)
    highest = number.max(initial=np.uint64(0))
    for limit in _LIMITS:
        if limit > highest:
            break
        size += number >= limit
    width = int(size.max(initial=1))
    octets = np.empty((number.size, head.size + width), np.uint8)
    octets[:, : head.size] = head
    for place in range(width):
        rest = number >> np.uint64(7 * place)
        octets[:, head.size + place] = (rest & np.uint64(127)).astype(np.uint8)
        octets[:, head.size + place] |= np.where(size > place + 1, 128, 0).astype(np.uint8)
    size += head.size
    if present is not None:
        size[~present] = 0
    elif (size == head.size + width).all():
        return _parts(octets.reshape(-1), np.arange(number.size + 1) * octets.shape[1])
    kept = octets[np.arange(head.size + width) < size[:, None]]
    return _parts(kept, np.concatenate([[0], np.cumsum(size)]))


def _parts(data: pa.Buffer | npt.NDArray[np.uint8], edges: Ints) -> Parts:
    octets = pa.py_buffer(data) if isinstance(data, np.ndarray) else data
    offsets = pa.py_buffer(np.ascontiguousarray(edges, np.int64))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), edges.size - 1, [None, offsets, octets]
    )
