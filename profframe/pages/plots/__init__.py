"""Answers as charts: the functions take rows. `profframe.trace.plots` gets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from profframe.errors import MissingExtraError
from profframe.pages.plots import notebook_charts, palette

if TYPE_CHECKING:
    import polars as pl

__all__ = ["drawing", "palette", "split_chart"]


def split_chart(chart: Any) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """Split a chart into its specification and its frames."""
    with drawing():
        from profframe.pages.plots import spec

        return spec.split(chart)


@contextmanager
def drawing() -> Iterator[None]:
    """Altair without the check of every object against its schema, which takes most of the time."""
    try:
        from altair.utils.schemapi import debug_mode
    except ImportError as error:
        raise MissingExtraError("charts need altair: pip install 'profframe[plot]'") from error
    with debug_mode(False):
        yield
    notebook_charts.enable()
