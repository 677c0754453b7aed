"""Quality notes for people: what was noticed, what was done about it, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from profframe.query.selection import spans
from profframe.schema import CHECKS
from profframe.show.columns import KEYS
from profframe.show.units import count, plural

if TYPE_CHECKING:
    import polars as pl

HEADING: Final = "Quality: what is odd in the trace, how many times, what was done, and what to do"
_OF_FILES: Final = MappingProxyType(
    {"skipped_file": "are no traces", "unreadable_file": "cannot be read"}
)
"""Checks with a row for each file, and what is so of several: one note counts them."""
_MOST_FILES: Final = 3
_REASON: Final = re.compile(r": byte [\d,]+: |: not a trace: ")
"""Matches what mostly follows a path in a detail: a name of a file may have a colon itself."""
_DURATION: Final = re.compile(r"(?P<most>up to )?\b(?P<ms>\d+\.\d{3}) ms\b")
"""Matches how long events take, or at most one of them."""


@dataclass(slots=True)
class QualityNote:
    """A note that several ranks of a run may share."""

    run: str
    issue: str
    text: str
    events: int = 0
    ranks: set[int] = field(default_factory=set)
    files: list[str] = field(default_factory=list)

    @property
    def number(self) -> str:
        """How many times it occurs."""
        return count(len(self.files) or self.events)


def notes(quality: pl.DataFrame) -> list[QualityNote]:
    """Notes in the order of the rows; what several ranks or files share is one note."""
    merged: dict[tuple[str, ...], QualityNote] = {}
    for row in quality.iter_rows(named=True):
        is_file = row["issue"] in _OF_FILES
        text = "" if is_file else sentence(row)
        what = _DURATION.sub("", text)
        key = (row["issue"],) if is_file else (row["run"], row["issue"], what)
        note = merged.setdefault(key, QualityNote(row["run"], row["issue"], text))
        note.text = _of_both(note.text, text) if note.ranks else text
        note.events += row["events"]
        note.ranks.add(row["rank"])
        if is_file:
            note.files.append(_file(row))
    for note in merged.values():
        if note.files:
            note.text = _of_files(note, quality)
    return [*merged.values()]


def sentence(row: Mapping[str, Any]) -> str:
    """What was noticed, then what was done, then what to do.

    Examples
    --------
    >>> sentence({"issue": "missing_time", "detail": "events without a time", "action": "kept"})
    'Events without a time. Kept'
    """
    check = CHECKS.get(row["issue"])
    parts = (row["detail"], row["action"], check and check.remedy)
    return ". ".join(_begun(str(part).removesuffix(".")) for part in parts if part)


def _of_both(one: str, other: str) -> str:
    """A text about two ranks, from one of each that differ in durations alone.

    Examples
    --------
    >>> _of_both("2 late: 1.500 ms, up to 0.900 ms", "2 late: 0.700 ms, up to 0.600 ms")
    '2 late: 2.200 ms, up to 0.900 ms'
    """
    others = iter([Decimal(match["ms"]) for match in _DURATION.finditer(other)])

    def together(match: re.Match[str]) -> str:
        both = Decimal(match["ms"]), next(others)
        return f"up to {max(both)} ms" if match["most"] else f"{sum(both)} ms"

    return _DURATION.sub(together, one)


def _begun(text: str) -> str:
    """A sentence with a capital letter, unless it begins with the name of a column."""
    return text if "_" in text.partition(" ")[0] else text[:1].upper() + text[1:]


def places(note: QualityNote, quality: pl.DataFrame) -> str:
    """The run and ranks of a note; empty if there is only one, or if it is about files."""
    if note.files or quality.select(KEYS).n_unique() == 1:
        return ""
    return (
        f" [{note.run}, {'rank' if len(note.ranks) == 1 else 'ranks'} {spans(sorted(note.ranks))}]"
    )


def _of_files(note: QualityNote, quality: pl.DataFrame) -> str:
    """One sentence about all files, with the names of some."""
    row = next(quality.filter(issue=note.issue).head(1).iter_rows(named=True))
    if len(note.files) == 1:
        return sentence(row)
    check = CHECKS[note.issue]
    rest = len(note.files) - _MOST_FILES
    names = ", ".join([*note.files[:_MOST_FILES], *([f"{rest:,} more"] if rest > 0 else [])])
    what = f"{plural(len(note.files), 'file')} of the directory or pattern {_OF_FILES[note.issue]}"
    return f"{what}. {_begun(check.action)}: {names}. {check.remedy.removesuffix('.')}"


def _file(row: Mapping[str, Any]) -> str:
    """The name of the file that a row is about: its detail begins with the path."""
    detail = str(row["detail"] or "").removeprefix(f"{CHECKS[row['issue']].finds}: ")
    path = _REASON.split(detail, maxsplit=1)[0]
    return PurePath(detail.partition(": ")[0] if path == detail else path).name


def lines(quality: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Issue, number and text of each note."""
    for note in notes(quality):
        yield note.issue, note.number, note.text + places(note, quality)
