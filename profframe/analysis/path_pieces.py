"""A critical path in few pieces, as a picture shows it."""

from __future__ import annotations

from typing import Final

import polars as pl

MOST: Final = 400
"""Pieces, unless the path is on more ranks."""
_PIECE: Final = ("slot", "rank", "run_of")


def pieces(events: pl.DataFrame, most: int = MOST) -> pl.DataFrame:
    """Merge the segments of a path until there are few of them.

    Consecutive segments with one rank and bound are one piece. If there are too many, short ones
    that begin in the same part of the window, on the same rank, are also one; its bound is the one
    with most of its time.

    Parameters
    ----------
    events
        Rows of a `CriticalPath`.
    most
        Maximum pieces; at least one for each rank of the path remains.

    Returns
    -------
    polars.DataFrame
        One row per piece, by start: ``rank bound``; ``start_ns end_ns`` since the path begins;
        ``total_ns`` on the path, ``bound_ns`` of that by its bound, ``waited_ns`` while another
        rank waited; ``stretches``, their number; ``edge name name_ns`` of the name that has most
        of its time.

    Examples
    --------
    >>> columns = ("rank", "bound", "edge", "name", "start_ns", "dur_ns", "waiting_rank")
    >>> path = [(0, "host", "slice", "a", 0, 9, None), (0, "host", "slice", "b", 9, 1, 1),
    ...         (1, "compute", "work", "c", 10, 5, None)]  # fmt: skip
    >>> few = pieces(pl.DataFrame(path, columns, orient="row"))
    >>> few.select("rank", "bound", "start_ns", "end_ns", "name", "waited_ns").rows()
    [(0, 'host', 0, 10, 'a', 1), (1, 'compute', 10, 15, 'c', 0)]
    """
    rows = events.filter(pl.col("dur_ns") > 0).with_columns(
        pl.col("start_ns") - pl.col("start_ns").min(),
        run_of=pl.struct("rank", "bound").rle_id(),
    )
    length = int(rows["dur_ns"].sum())
    slots = most
    few = _merged(_in_slots(rows, length, None))
    # Halving needs few tries, and the finest division that fits is not needed.
    while few.height > most and slots:
        slots //= 2
        few = _merged(_in_slots(rows, length, slots))
    return few


def _in_slots(rows: pl.DataFrame, length: int, slots: int | None) -> pl.DataFrame:
    """Assign segments to pieces: to their run, or if that is short, to a part of the window."""
    if slots is None:
        return rows.with_columns(slot=pl.lit(-1))
    run_ns = pl.col("dur_ns").sum().over("run_of")
    begin = pl.col("start_ns").min().over("run_of")
    is_short = run_ns * slots < length
    return rows.with_columns(
        slot=pl.when(is_short).then(begin * max(slots, 1) // max(length, 1)).otherwise(-1),
        run_of=pl.when(is_short).then(0).otherwise("run_of"),
    )


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    total = pl.col("dur_ns").sum()
    waited = pl.col("dur_ns").filter(pl.col("waiting_rank").is_not_null()).sum()
    whole = rows.group_by(_PIECE, maintain_order=True).agg(
        pl.col("start_ns").min(),
        end_ns=(pl.col("start_ns") + pl.col("dur_ns")).max(),
        total_ns=total,
        waited_ns=waited,
        stretches=pl.len(),
    )
    for keys, measure in ((("bound",), "bound_ns"), (("edge", "name"), "name_ns")):
        parts = rows.group_by(*_PIECE, *keys, maintain_order=True).agg(total.alias(measure))
        most = parts.sort(measure, descending=True, maintain_order=True).unique(
            _PIECE, keep="first", maintain_order=True
        )
        whole = whole.join(most, on=_PIECE, how="left", maintain_order="left")
    return whole.drop("slot", "run_of").sort("start_ns", "end_ns", maintain_order=True)
