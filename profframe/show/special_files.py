"""Summaries of files that no profiler wrote, which a terminal, a notebook and a report show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What one kind of file holds, in words."""

    label: str
    what: tuple[str, ...]
    """What it is, one line per run or rank."""
    facts: tuple[tuple[str, str], ...]
    """The same as labels and values."""
    sentences: tuple[str, ...]
    """Sentences, with what matters most first."""
    excerpts: tuple[str, ...] = ()
    """Texts of several lines, such as stacks."""
    tables: tuple[tuple[str, pl.DataFrame], ...] = ()
    questions: tuple[tuple[str, ...], ...] = ()
    """For each table the words of a command that says more."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of columns there, of those that have another one in tables."""
    hint: str = ""
    """What to do next; may be empty."""

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """A label and a text for each line of `what`."""
        return tuple(("" if n else self.label, text) for n, text in enumerate(self.what))


@dataclass(frozen=True, slots=True)
class FileSummaries:
    """Summaries of all kinds of files that a trace was made from."""

    parts: tuple[FileSummary, ...] = ()
    is_all: bool = False
    """Whether no part was recorded by a profiler: then there are no times of ops and devices."""
