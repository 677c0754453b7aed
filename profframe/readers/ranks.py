"""The rank in a text: the name of a file or of a process, or its id in a merged file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

Place: TypeAlias = Mapping[str, int]
"""Places in the kinds of parallelism, such as ``{"TP": 1, "PP": 0}``."""

PLAIN: Final = r"(?<![a-z])rank(?:[-_ ]?(\d+)|\[(\d+)\]|\((\d+)\))"
"""A rank in the name of a file."""
_OF_PROCESS: Final = re.compile(r"(?<![a-z])rank[-_ :=#]*[\[(]?(\d+)", re.IGNORECASE)
PLACES: Final = re.compile(r"(?<![A-Za-z0-9])(?:TP|DP|PP|EP|CP)-\d+(?:-[A-Z]+-\d+)*")
"""Places in the names of SGLang's files."""
_LABEL: Final = re.compile(r"[A-Z]{2,3}\d+(?:-[A-Z]{2,3}\d+)*")
"""A rank in the ids of processes of a merged file."""
_AXIS: Final = re.compile(r"([A-Z]+)-?(\d+)")
_AXES: Final = ("DP", "PP", "EP", "TP")
"""From the slowest to the fastest."""
_ENOUGH: Final = (("PP", "TP"), ("DP", "PP", "TP"), _AXES)
"""Axes that may number all ranks; the first that do count."""
_LARGEST: Final = (1 << 31) - 1


def rank_in(text: str) -> int | None:
    """The rank in the name or a label of a process.

    Examples
    --------
    >>> [rank_in(text) for text in ("rank[12] of 16", "python_rank1", "Rank: 3", "frank 3")]
    [12, 1, 3, None]
    """
    return rank_of(_OF_PROCESS.search(text))


def rank_of(match: re.Match[str] | None) -> int | None:
    """The number in a match; None if it is none that a rank can have."""
    if match is None:
        return None
    rank = int(next(filter(None, match.groups())))
    return rank if rank <= _LARGEST else None


def place_of(text: str) -> Place | None:
    """The places in the name of a file, or in the label of a process.

    Examples
    --------
    >>> place_of("17.5-TP-1-EP-1-PP-0-DECODE.trace.json.gz")
    {'TP': 1, 'EP': 1, 'PP': 0}
    >>> place_of("TP01-DP00")
    {'TP': 1, 'DP': 0}
    """
    match = PLACES.search(text) or _LABEL.fullmatch(text)
    return {axis: int(digits) for axis, digits in _AXIS.findall(match[0])} if match else None


def rank_at(place: Place, places: Iterable[Place]) -> int:
    """The rank at a place, among the places of all ranks.

    Consecutive ranks belong to one stage of the pipeline. Axes that follow from others do not
    count: the place in expert parallelism usually follows from that in tensor parallelism.

    Examples
    --------
    >>> job = [{"TP": tensor, "PP": stage} for tensor in (0, 1) for stage in (0, 1)]
    >>> [rank_at(place, job) for place in job]
    [0, 2, 1, 3]
    """
    every = [*places, place]
    others = sorted({axis for one in every for axis in one} - {*_AXES})
    for axes in (*_ENOUGH, *((*others, *enough) for enough in _ENOUGH)):
        if _count(every, axes) == _count(every, (*others, *_AXES)):
            break
    rank = 0
    for axis in axes:
        rank = rank * (1 + max(one.get(axis, 0) for one in every)) + place.get(axis, 0)
    return rank


def _count(places: Iterable[Place], axes: Sequence[str]) -> int:
    return len({tuple(place.get(axis, 0) for axis in axes) for place in places})
