"""Why a frame has no rows, and where its rows are from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

NO_DOCS: Final[Mapping[str, str]] = MappingProxyType({})


class ExplainedFrame(pl.DataFrame):
    """A polars DataFrame that can say why it has no rows."""

    _why: Callable[[], str | None] | None = None
    _note: str | None = None
    _docs: Mapping[str, str] = NO_DOCS

    @property
    def note(self) -> str | None:
        """Where the rows are from, in a sentence without a full stop; None if that is the events.

        It is shown below the rows; files of the rows do not have it.
        """
        return self._note

    @property
    def why_empty(self) -> str | None:
        """Why there are no rows, as ``no stacks in this trace; record with with_stack=True``.

        None if there are rows, or if the reason is not known, as for rows that you have filtered.
        The reason is determined when this is read, when the frame is shown, or when it is sent to
        another process.
        """
        return None if self.height or self._why is None else self._why()


def why_empty(rows: pl.DataFrame) -> str | None:
    """Say why there are no rows.

    The same as `Frame.why_empty`, for code whose types say that rows are a DataFrame.

    Parameters
    ----------
    rows
        What a method of a trace returns, or any DataFrame.

    Returns
    -------
    str or None
        One sentence without a full stop; None where there are rows, or where it is not known.

    Examples
    --------
    >>> from profframe import load, why_empty
    >>> why_empty(load("examples/cpu_training.json.gz").recompute())
    'no ops recomputed in backward (activation checkpointing) in this trace'
    """
    return rows.why_empty if isinstance(rows, ExplainedFrame) else None


def note_of(rows: pl.DataFrame) -> str | None:
    """Where rows are from, if they are not from events.

    Examples
    --------
    >>> note_of(pl.DataFrame())
    """
    return rows.note if isinstance(rows, ExplainedFrame) else None


def docs_of(rows: pl.DataFrame) -> Mapping[str, str]:
    """The meaning of columns, by name, where it is known.

    Examples
    --------
    >>> dict(docs_of(pl.DataFrame()))
    {}
    """
    return rows._docs if isinstance(rows, ExplainedFrame) else NO_DOCS  # noqa: SLF001 - its own kind
