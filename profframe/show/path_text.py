"""A critical path as text and as HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cached_property
from typing import Final

import polars as pl

from profframe.analysis.critical_path import CriticalPath
from profframe.query.reasons import sentence
from profframe.show import notebook, units
from profframe.show.empty_frames import why_empty
from profframe.show.frame import Frame, frame
from profframe.show.kernel_names import shortened
from profframe.show.summary import short

_MOST_PARTS: Final = 5
_UNRECORDED: Final = "(nothing recorded)"
_NO_NAME: Final = "(no name)"


class ShownPath(CriticalPath):
    """A critical path with a text and an HTML form; its frames show human units."""

    @classmethod
    def of(cls, path: CriticalPath, why: Callable[[], str | None] | None = None) -> ShownPath:
        """Wrap a path; ``why`` says why it is empty, if it is."""
        values = {field.name: getattr(path, field.name) for field in fields(path)}
        return cls(**values | {"events": frame(path.events, path.starts.lazy(), why=why)})

    @cached_property
    def waits(self) -> pl.DataFrame:
        """As `CriticalPath` has them."""
        return frame(super().waits, why=self._why_no_waits)

    def _why_no_waits(self) -> str | None:
        if not self.events.height:
            return why_empty(self.events)
        if self.rank is not None:
            return "this path is of one rank; critical_path(across_ranks=True) is of all ranks"
        if self.starts.height == 1:
            return sentence("several_ranks")
        return "no rank waits for another one on this path"

    @cached_property
    def bounds(self) -> pl.DataFrame:
        """As `CriticalPath` has them."""
        return Frame(super().bounds)

    @property
    def headline(self) -> str:
        """A title with the subject of the path, and its length."""
        if self.run is None:
            return f"nothing: {why_empty(self.events) or 'there is no event'}"
        what = "the whole of"
        if self.step is not None:
            what = f"step {self.step} of"
        elif self.annotation is not None:
            what = f"{self.annotation!r} in"
        parts = units.plural(self.events.height, "part")
        length = units.duration(self.length_ns)
        clock = " on one clock" if self.is_corrected else ""
        ranks = f"all ranks{clock}" if self.rank is None else f"rank {self.rank}"
        return f"{what} {self.run}, {ranks}: {length}, {parts}"

    @property
    def _positive_bounds(self) -> pl.DataFrame:
        bounds = self.bounds.filter(pl.col("total_ns") > 0)
        return bounds.sort("total_ns", descending=True)

    def __repr__(self) -> str:
        lines = [f"CriticalPath of {units.visible(self.headline)}"]
        for bound, total, share in self._positive_bounds.iter_rows():
            time = units.lined_up(units.duration(total))
            lines.append(f"  {bound:<13}  {time:>12}  {units.share(share):>7}")
        parts = longest(self.events).head(_MOST_PARTS).select("edge", "total_ns", "name")
        for edge, total, name in parts.iter_rows():
            label = name if name in {_UNRECORDED, _NO_NAME} else short(name)
            time = units.lined_up(units.duration(total))
            lines.append(f"  {edge:<13}  {time:>12}  {label}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = longest(self.events).head(_MOST_PARTS).select("edge", "name", "total_ns", "share")
        return notebook.titled_html("Critical path", self.headline, self._positive_bounds, parts)


def shortened_waits(path: CriticalPath, *, full_names: bool = False) -> pl.DataFrame:
    """Waits for other ranks with short names, and words for what has none or was not recorded."""
    labelled = pl.DataFrame(path.events).with_columns(pl.col("name").fill_null(_unnamed()))
    named = replace(path, events=labelled).waits
    return named if full_names else shortened(named, "name", kernels=pl.col("bound") != "host")


def _unnamed() -> pl.Expr:
    """The words for a segment without a name."""
    is_unrecorded = pl.col("event_id").is_null()
    return pl.when(is_unrecorded).then(pl.lit(_UNRECORDED)).otherwise(pl.lit(_NO_NAME))


def longest(events: pl.DataFrame, *, full_names: bool = False) -> pl.DataFrame:
    """Time on the path by name, bound and edge, the longest first."""
    if not full_names:
        events = shortened(events, "name", kernels=pl.col("kind") == "kernel")
    total = pl.col("total_ns")
    return (
        events.group_by(pl.col("name").fill_null(_unnamed()), "bound", "edge", maintain_order=True)
        .agg(parts=pl.len(), total_ns=pl.col("dur_ns").sum())
        .sort("total_ns", descending=True, maintain_order=True)
        .with_columns(share=total / total.sum())
    )
