"""A critical path as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from typing import Final

import polars as pl

from profframe.analysis.critical_path import CriticalPath
from profframe.show import notebook, units
from profframe.show.frame import Frame, frame
from profframe.show.summary import short

_LONGEST_PARTS: Final = 5
_UNRECORDED: Final = "(nothing recorded)"
_NO_NAME: Final = "(no name)"


class ShownPath(CriticalPath):
    """A critical path with a text and an HTML form; its frames show human units."""

    @classmethod
    def of(cls, path: CriticalPath) -> ShownPath:
        """The same path."""
        values = {field.name: getattr(path, field.name) for field in fields(path)}
        return cls(**values | {"events": frame(path.events, path.starts.lazy())})

    @cached_property
    def bounds(self) -> pl.DataFrame:
        """As `CriticalPath` has them."""
        return Frame(super().bounds)

    @property
    def headline(self) -> str:
        """What the path is of, and its length."""
        if self.run is None:
            return "nothing: the trace is empty"
        what = "the whole of"
        if self.step is not None:
            what = f"step {self.step} of"
        elif self.annotation is not None:
            what = f"{self.annotation!r} in"
        parts = units.plural(self.events.height, "part")
        length = units.duration(self.length_ns).strip()
        return f"{what} {self.run}, rank {self.rank}: {length}, {parts}"

    def __repr__(self) -> str:
        return text(self.headline, self.events, self.bounds)

    def _repr_html_(self) -> str:
        return html(self.headline, self.events, self.bounds)


def longest(events: pl.DataFrame) -> pl.DataFrame:
    """Time on the path by name, bound and edge, the longest first."""
    total = pl.col("total_ns")
    unnamed = (
        pl.when(pl.col("event_id").is_null()).then(pl.lit(_UNRECORDED)).otherwise(pl.lit(_NO_NAME))
    )
    return (
        events.group_by(pl.col("name").fill_null(unnamed), "bound", "edge", maintain_order=True)
        .agg(parts=pl.len(), total_ns=pl.col("dur_ns").sum())
        .sort("total_ns", descending=True, maintain_order=True)
        .with_columns(share=total / total.sum())
    )


def text(headline: str, events: pl.DataFrame, bounds: pl.DataFrame) -> str:
    """A few lines: time by bound, and the longest parts."""
    lines = [f"CriticalPath of {units.visible(headline)}"]
    lines += [f"  {bound:<13}  {total:>12}  {share:>7}" for bound, total, share in _bounds(bounds)]
    lines += [f"  {edge:<13}  {total:>12}  {name}" for edge, total, name in _longest(events)]
    return "\n".join(lines)


def html(headline: str, events: pl.DataFrame, bounds: pl.DataFrame) -> str:
    """Time by bound and the longest parts, for a notebook."""
    totals = bounds.filter(pl.col("total_ns") > 0).sort("total_ns", descending=True)
    longest_parts = longest(events).head(_LONGEST_PARTS).select("edge", "name", "total_ns", "share")
    return notebook.titled_html("Critical path", headline, totals, longest_parts)


def _bounds(bounds: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    positive = bounds.filter(pl.col("total_ns") > 0)
    for bound, total, share in positive.sort("total_ns", descending=True).iter_rows():
        yield bound, units.duration(total), units.share(share)


def _longest(events: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    parts = longest(events).head(_LONGEST_PARTS).select("edge", "total_ns", "name")
    for edge, total, name in parts.iter_rows():
        yield edge, units.duration(total), name if name in {_UNRECORDED, _NO_NAME} else short(name)
