"""A critical path as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from profframe.show import notebook, units
from profframe.show.summary import short

_MOST: Final = 5
_NOTHING: Final = "(nothing recorded)"
_NO_NAME: Final = "(no name)"


def longest(events: pl.DataFrame) -> pl.DataFrame:
    """What takes most of a path."""
    total = pl.col("total_ns")
    unnamed = (
        pl.when(pl.col("event_id").is_null()).then(pl.lit(_NOTHING)).otherwise(pl.lit(_NO_NAME))
    )
    return (
        events.group_by(pl.col("name").fill_null(unnamed), "bound", "edge", maintain_order=True)
        .agg(parts=pl.len(), total_ns=pl.col("dur_ns").sum())
        .sort("total_ns", descending=True, maintain_order=True)
        .with_columns(share=total / total.sum())
    )


def text(headline: str, events: pl.DataFrame, bounds: pl.DataFrame) -> str:
    """What a path is bound by, and what is longest on it, in a few lines."""
    lines = [f"CriticalPath of {units.visible(headline)}"]
    lines += [f"  {bound:<13}  {total:>12}  {share:>7}" for bound, total, share in _bounds(bounds)]
    lines += [f"  {edge:<13}  {total:>12}  {name}" for edge, total, name in _longest(events)]
    return "\n".join(lines)


def html_(headline: str, events: pl.DataFrame, bounds: pl.DataFrame) -> str:
    """The same for a notebook."""
    found = bounds.filter(pl.col("total_ns") > 0).sort("total_ns", descending=True)
    first = longest(events).head(_MOST).select("edge", "name", "total_ns", "share")
    return notebook.titled_html("Critical path", headline, found, first)


def _bounds(bounds: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    found = bounds.filter(pl.col("total_ns") > 0)
    for bound, total, share in found.sort("total_ns", descending=True).iter_rows():
        yield bound, units.duration(total), units.share(share)


def _longest(events: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    first = longest(events).head(_MOST).select("edge", "total_ns", "name")
    for edge, total, name in first.iter_rows():
        yield edge, units.duration(total), name if name in {_NOTHING, _NO_NAME} else short(name)
