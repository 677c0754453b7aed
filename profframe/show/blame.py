"""What each rank costs a job, as text: a sentence and a table per part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from profframe.show import units
from profframe.show.excerpts import own_clocks
from profframe.show.kernel_names import shortened

_IS_WAIT: Final = pl.col("cause").eq("wait").fill_null(False)
_TITLES: Final = {
    "Late on entering collectives": pl.col("part").eq("entry") & ~_IS_WAIT,
    "Late because they waited themselves, or before anything was recorded": _IS_WAIT,
    "Transfer, once all ranks are there": pl.col("part").eq("transfer"),
}
_UNRECORDED: Final = "(nothing recorded)"


def headline(rows: pl.DataFrame) -> str:
    """How long collectives wait for late ranks, and how long they take after that."""
    steps = int(rows["steps"][0])
    totals = dict(rows.group_by("part").agg(pl.col("cost_ns").sum()).iter_rows())
    times = {
        part: units.duration(totals.get(part, 0) / max(steps, 1)).strip()
        for part in ("entry", "transfer")
    }
    note = own_clocks(rows)
    each = f" (means of {units.plural(steps, 'step')})" if steps else ""
    return (
        f"Collectives wait {times['entry']} for late ranks, and take {times['transfer']} "
        f"once all ranks are there{each}{note and f', {note}'}."
    )


def parts(rows: pl.DataFrame, *, full_names: bool = False) -> Iterator[tuple[str, pl.DataFrame]]:
    """A title and the rows of each part, without columns that it does not use."""
    for title, is_part in _TITLES.items():
        part = rows.filter(is_part)
        if not part.height:
            continue
        if part["name"].null_count() < part.height:
            is_slice = pl.col("cause").is_in(["host", "input"])
            part = part if full_names else shortened(part, "name", kernels=~is_slice)
            part = part.with_columns(pl.col("name").fill_null(_UNRECORDED))
        kept = [
            name
            for name in ("rank", "cause", "name", "op", "module", "waits_for_rank")
            if part[name].null_count() < part.height
        ]
        yield title, part.select(*kept, "cost_per_step_ns", "part_share")
