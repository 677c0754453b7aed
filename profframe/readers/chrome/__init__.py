"""Chrome trace JSON, from Kineto and other writers.

The words of the format (``ph``, ``cat``, ``args`` and its members) occur only in this folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Final

from profframe.readers.bytes import ByteSource

EVENTS_KEY: Final = "traceEvents"
"""Member of a document that has its events."""

_BEGINNING: Final = re.compile(rb'\A\s*(?:\{.*"traceEvents"\s*:|\[\s*\{.*"ph"\s*:)', re.DOTALL)
_KINETO_MEMBER: Final = re.compile(rb'\A\s*\{.*"(?:schemaVersion|deviceProperties)"\s*:', re.DOTALL)
_BESIDE_IT: Final = re.compile(
    rb'"(?:traceEvents|traceName|trace_id|displayTimeUnit|baseTimeNanoseconds|distributedInfo'
    rb'|deviceProperties|record_shapes|with_stack|profile_memory)"\s*:'
)
"""Members of its header that other documents with a ``schemaVersion`` lack."""
_LONGEST: Final = 32
"""Bytes of a phase's beginning that two blocks may share."""
_PHASE: Final = re.compile(rb'[{,]\s*"ph"\s*:')


def knows(head: bytes) -> bool:
    """Whether a file begins like a Chrome trace, whose events come soon."""
    return _BEGINNING.search(head) is not None


def knows_kineto(head: bytes) -> bool:
    """Whether a file begins with the header of Kineto."""
    return _KINETO_MEMBER.search(head) is not None and _BESIDE_IT.search(head) is not None


def is_of_kineto(members: Mapping[str, object]) -> bool:
    """Whether a document with these members is one of Kineto."""
    return "schemaVersion" in members or members.get("deviceProperties") is not None


def opened(source: ByteSource) -> str | None:
    """The format of a file by all that stands before its events; None if it has no events.

    As far as `opening` reads for the loader too, but only what begins like JSON.
    """
    from profframe.readers.json.opening import MOST_AROUND, NoArrayError, opening
    from profframe.readers.json.stream import members_in

    blocks = source.blocks()
    first = next((block for block in blocks if block.strip()), b"")
    if not first.lstrip().startswith((b"{", b"[")):
        return None
    try:
        start = opening(chain((first,), blocks), EVENTS_KEY)
    except NoArrayError:
        return None
    if start.before != b"[":
        return "kineto" if is_of_kineto(members_in(start.before)) else "chrome"
    size, end = 0, b""
    for block in chain((b"[" + start.text,), blocks):
        if _PHASE.search(end + block):
            return "chrome"
        size, end = size + len(block), block[-_LONGEST:]
        if size > MOST_AROUND:
            break
    return None
