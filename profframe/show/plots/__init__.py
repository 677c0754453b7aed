"""Answers as charts: what draws takes rows. `profframe.trace.plots` asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from profframe.errors import MissingExtraError
from profframe.show.plots import palette

if TYPE_CHECKING:
    import polars as pl

__all__ = ["drawing", "palette", "taken_apart"]


def taken_apart(chart: Any) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """Separate what a chart draws from its rows; see `profframe.show.plots.apart`."""
    with drawing():
        from profframe.show.plots import apart

        return apart.taken_apart(chart)


@contextmanager
def drawing() -> Iterator[None]:
    """Altair without the check of every object against its schema, which takes most of the time."""
    try:
        from altair.utils.schemapi import debug_mode
    except ImportError as error:
        raise MissingExtraError("charts need altair: pip install 'profframe[plot]'") from error
    with debug_mode(False):
        yield
