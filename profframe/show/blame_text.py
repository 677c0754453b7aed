"""`blame` as text: a sentence and a table per part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from profframe.show import units
from profframe.show.compact_tables import clock_note
from profframe.show.kernel_names import shortened

_IS_WAIT: Final = pl.col("cause").eq("wait").fill_null(False)
_TITLES: Final = {
    "Late on entering collectives": pl.col("part").eq("entry") & ~_IS_WAIT,
    "Late because they waited, were late elsewhere, or before anything was recorded": _IS_WAIT,
    "Transfer, once all ranks are there": pl.col("part").eq("transfer"),
}
_UNRECORDED: Final = "(nothing recorded)"
_ELSEWHERE: Final = "(elsewhere)"
"""Instead of its own number, which a rank waits for where the reason counts at another one."""
_CAUSES: Final = {"input": "data loading", "compute": "computation", "copy": "copies"}
_MOST_RANKS: Final = 5
_LEAST_SHARE: Final = 0.01
"""Of what a rank costs, for data loading that is not its main cause."""


def headline(rows: pl.DataFrame) -> str:
    """How long collectives wait for late ranks, and how long they take after that."""
    steps = int(rows["steps"][0])
    totals = dict(rows.group_by("part").agg(pl.col("cost_ns").sum()).iter_rows())
    times = {
        part: units.duration(totals.get(part, 0) / max(steps, 1)) for part in ("entry", "transfer")
    }
    note = clock_note(rows)
    each = f" (means of {units.plural(steps, 'step')})" if steps else ""
    return (
        f"Collectives wait {times['entry']} for late ranks, and take {times['transfer']} "
        f"once all ranks are there{each}{note and f', {note}'}."
    )


def sentences(rows: pl.DataFrame) -> list[str]:
    """For each late rank what it costs per step, and the main cause; the costliest ranks first.

    Ranks that are late because they waited for others come last. The sums of all ranks add up to
    that of the headline.
    """
    late = rows.filter(part="entry").with_columns(own=pl.when(~_IS_WAIT).then("cost_ns"))
    steps = max(int(rows["steps"][0]), 1)
    sums = late.group_by("rank").agg(pl.col("own", "cost_ns").sum())
    order = sums.sort("own", "cost_ns", "rank", descending=[True, True, False])
    first = order.head(_MOST_RANKS)
    lines = [
        _sentence(late.filter(rank=rank), rank, cost, steps)
        for rank, cost in first.select("rank", "cost_ns").iter_rows()
    ]
    if rest := order.height - first.height:
        cost = int(order["cost_ns"][first.height :].sum())
        lines.append(f"{units.plural(rest, 'other rank')}: {_each(cost, steps, rows)}.")
    return lines


def _sentence(rows: pl.DataFrame, rank: int, cost: int, steps: int) -> str:
    """The sentence about a rank: its cost, and why it is late."""
    reasons = (
        rows.filter(pl.col("cause").is_not_null())
        .group_by("cause", "waits_for_rank")
        .agg(pl.col("cost_ns").sum())
        .filter(pl.col("cost_ns") > 0)
        .sort("cost_ns", "cause", "waits_for_rank", descending=[True, False, False])
    )
    text = f"Rank {rank}: {_each(cost, steps, rows)}"
    if reasons.is_empty():
        return f"{text}."
    every = int(reasons["cost_ns"].sum())
    cause, other, most = reasons.row(0)
    text += f", {100 * most / every:.0f} % {_reason(cause, other, rank)}"
    if cause == "wait":
        return f"{text}."
    loading = int(reasons.filter(cause="input")["cost_ns"].sum())
    if cause != "input" and loading >= _LEAST_SHARE * every:
        return f"{text}; data loading adds {_each(loading, steps, rows)}."
    return f"{text}."


def _reason(cause: str, other: int | None, rank: int) -> str:
    if cause != "wait":
        return _CAUSES.get(cause, cause)
    if other is None:
        return "before anything was recorded"
    return "as at another collective" if other == rank else f"waiting for rank {other}"


def _each(cost: int, steps: int, rows: pl.DataFrame) -> str:
    each = " per step" if rows["steps"][0] else ""
    return f"{units.duration(cost / steps)}{each}"


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
        other = pl.col("waits_for_rank")
        waits = pl.when(other == pl.col("rank")).then(pl.lit(_ELSEWHERE)).otherwise(other)
        part = part.with_columns(waits_for_rank=waits)
        kept = [
            name
            for name in ("rank", "cause", "name", "op", "module", "waits_for_rank")
            if part[name].null_count() < part.height
        ]
        yield title, part.select(*kept, "cost_per_step_ns", "part_share")
