"""Results of tools: tables with titles in profframe's own words, and maybe a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table of a result.

    Attributes
    ----------
    title
        What its rows are, without any text from a trace.
    rows
        Its rows; units are in the names of columns.
    first
        Maximum rows on the first page; None for as many as fit.
    is_cut
        There are more rows than were computed.
    """

    title: str
    rows: pl.DataFrame
    first: int | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The tables of a tool's reply, and maybe a picture.

    Attributes
    ----------
    title
        What it is, without any text from a trace.
    sections
        Its tables, the most important first.
    notes
        Sentences of profframe's own, on the first page.
    picture
        A chart as PNG.
    is_of_trace
        The rows come from a trace, not from the documentation.
    """

    title: str
    sections: tuple[ResultTable, ...] = ()
    notes: tuple[str, ...] = ()
    picture: bytes | None = None
    is_of_trace: bool = True
