"""Perfetto's protobuf (``.pftrace``); `reading` reads it."""

from __future__ import annotations

from typing import Final

from profframe.readers.perfetto.wire import FIXED32, FIXED64, LENGTH, VARINT

FORMAT: Final = "perfetto"


def knows(head: bytes) -> bool:
    """Whether a file begins like a Perfetto trace: with a packet that has fields of one."""
    if not head.startswith(b"\n"):
        return False
    size, at = _number(head, 1)
    if size < 2:
        return False
    tag, _ = _number(head, at)
    return tag >> 3 in _FIRST_FIELDS or _is_packet(head[at : at + size], size)


def _is_packet(inside: bytes, size: int) -> bool:
    """Whether a complete message has what only packets have: a sequence or a time.

    Other formats begin with text in fields 1 to 3, such as names of planes; few packets do.
    """
    if len(inside) < size:
        return False
    at, numbers = 0, set()
    while at < size:
        tag, at = _number(inside, at)
        length = 0
        if tag & 7 == LENGTH:
            length, at = _number(inside, at)
        elif tag & 7 == VARINT:
            at = _number(inside, at)[1]
        else:
            length = {FIXED64: 8, FIXED32: 4}.get(tag & 7, size)
        at += length
        numbers.add(tag >> 3)
    return at == size and bool(numbers & _OF_PACKETS)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a position, and the position after it; 0 if it does not end."""
    value = 0
    for nth, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * nth
        if byte < 128:
            return value, at + nth + 1
    return 0, len(data) + 1


_OF_PACKETS: Final = frozenset({8, 10, 13, 58, 79})
_FIRST_FIELDS: Final = frozenset(
    (
        *(3, 6, 8, 10, 11, 12, 13, 33, 34, 35, 36, 41, 42, 45, 50, 52, 53, 58, 59, 60, 69, 72, 79),
        *(87, 89, 124, 126, 133),
    )
)
"""Fields that the first packet of a trace may begin with."""
