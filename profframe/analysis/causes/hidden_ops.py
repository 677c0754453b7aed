"""Idle time of devices that slower ops cause later, while the host runs other ops.

While devices still have work, a slower op shows nowhere; but all that the host launches after it
comes later, and then devices wait in other ops. So each slower op gets as much of the additional
idle time without a name as it takes longer.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from profframe.analysis.causes import cause_kinds
from profframe.analysis.causes.call_times import CallTimes
from profframe.analysis.causes.piece_rows import OF_ALL, OF_OP
from profframe.analysis.causes.sides import StepSide
from profframe.analysis.causes.slots import SIDES


def with_hidden_ops(
    rows: pl.DataFrame, slower: pl.DataFrame, times: CallTimes, sides: tuple[StepSide, StepSide]
) -> pl.DataFrame:
    """Move such idle time to rows named after the ops; each step keeps its sum.

    Parameters
    ----------
    rows
        What `named` returns.
    slower
        ``slot`` and ``name`` of the ops that take more or less time.
    times
        Calls of ops.
    """
    waits = rows.filter(pl.col("cause") == cause_kinds.LAUNCH)
    of_all = waits.filter(pl.col("bundle_kind") == OF_ALL)
    if slower.is_empty() or of_all.is_empty():
        return rows
    moved = [rows]
    longer = _longer(waits, slower, times, sides)
    change = _change(of_all, sides)
    for number, name in enumerate(SIDES):
        sign = 2 * number - 1
        ops = longer.filter(pl.col("ns") * sign > 0).sort(pl.col("ns").abs(), descending=True)
        # Only the side on which devices wait longer has time to give to slower ops.
        if change * sign > 0 and ops.height:
            own = of_all.filter(pl.col("side") == name)
            moved.append(_moved(own, ops, abs(change), rows.columns))
    return pl.concat(moved)


def _longer(
    waits: pl.DataFrame, slower: pl.DataFrame, times: CallTimes, sides: tuple[StepSide, StepSide]
) -> pl.DataFrame:
    """By how much longer each op takes in the mean step than its waits: ``name slot ns``."""
    taken = times.by_name.select("name", "change", took="ns")
    ops = slower.group_by("name").agg(pl.col("slot").min()).join(taken, on="name").sort("name")
    shown = [
        _change(waits.filter(pl.col("bundle_kind") == OF_OP, pl.col("bundle") == name), sides)
        for name in ops["name"]
    ]
    extra = pl.col("change").sign() * pl.col("took") * (1 - (-pl.col("change").abs()).exp())
    # What devices waited in the op itself is in its own row already.
    hidden = extra - pl.Series(shown, dtype=pl.Float64)
    return ops.select(
        "name", "slot", ns=pl.when(hidden * extra > 0).then(hidden).otherwise(0.0)
    ).filter(pl.col("ns") != 0)


def _change(rows: pl.DataFrame, sides: tuple[StepSide, StepSide]) -> float:
    """By how much longer they take in the mean step of the other side."""
    base, other = (
        int(rows.filter(pl.col("side") == name)["ns"].sum()) / max(of.count, 1)
        for name, of in zip(SIDES, sides, strict=True)
    )
    return other - base


def _moved(own: pl.DataFrame, ops: pl.DataFrame, most: float, columns: list[str]) -> pl.DataFrame:
    """Subtract what belongs to these ops from the idle time without a name, in each step."""
    shares = np.diff(np.minimum(np.cumsum(ops["ns"].abs().to_numpy()), most), prepend=0.0)
    steps = own.group_by("sample").agg(pl.col("ns").sum(), pl.col("slot").min()).sort("sample")
    whole = steps["ns"].to_numpy().astype(np.float64)
    until = np.minimum(np.cumsum(shares)[:, None], whole[None, :]).astype(np.int64)
    parts = np.diff(until, axis=0, prepend=0)
    # Negative pieces are added rather than pieces changed: sums per step and per cause stay exact.
    alike = own.head(1).drop("sample", "slot", "ns", "bundle_kind", "bundle")
    frames = [
        steps.select("sample", "slot").with_columns(
            ns=pl.Series(-until[-1]), bundle_kind=pl.lit(OF_ALL), bundle=pl.lit(0)
        )
    ]
    for part, (slot, name) in zip(parts, ops.select("slot", "name").iter_rows(), strict=True):
        frames.append(
            steps.select("sample").with_columns(
                slot=pl.lit(slot),
                ns=pl.Series(part),
                bundle_kind=pl.lit(OF_OP),
                bundle=pl.lit(name),
            )
        )
    made = pl.concat(frame.with_columns(pl.exclude("sample").cast(pl.Int64)) for frame in frames)
    return made.filter(pl.col("ns") != 0).join(alike, how="cross").select(columns)
