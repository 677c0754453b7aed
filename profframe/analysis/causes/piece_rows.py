"""Pieces of the steps of both sides as rows: what they belong to, and their cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes import kinds
from profframe.analysis.causes.delays import delays
from profframe.analysis.causes.pieces import Pieces
from profframe.analysis.causes.sides import Connect, Side, texts
from profframe.analysis.causes.units import KINDS, units
from profframe.intervals import Ints, Mask

_DIRECT: Final = {
    "wait": kinds.WAIT,
    "code": kinds.CODE,
    "synchronization": kinds.SYNC,
    "data_loading": kinds.LOADING,
    "recompile": kinds.RECOMPILE,
    "graph_break": kinds.BREAK,
    "nothing": kinds.CODE,
    "unrecorded": kinds.UNRECORDED,
}
"""Kinds of pieces that have one cause, whatever slot they are in."""
OF_ALL, OF_OP = 2, 4
"""Numbers of bundles: all that makes devices wait for the host, or all that is not recorded; and
those of ops."""
_COLUMNS: Final = (
    "sample",
    "slot",
    "kind",
    "line",
    "line_row",
    "delay",
    "delay_kind",
    "part",
    "ns",
)


@dataclass(frozen=True, slots=True, eq=False)
class PieceRows:
    """Pieces of a side.

    Attributes
    ----------
    rows : polars.DataFrame
        ``side``, ``sample`` (run and step), ``slot kind line line_name``, ``delay`` (slot of the
        call that may have made the host late, or -1), ``delay_kind`` and ``ns``.
    lost_ns : int
        How long calls take that only this side has.
    """

    rows: pl.DataFrame
    lost_ns: int


def piece_rows(  # noqa: PLR0917 -- a side, and what is known of it by now
    name: str,
    of: Side,
    pieces: Sequence[Pieces],
    own: Ints,
    is_alone: Mask,
    connect: Connect,
) -> PieceRows:
    """The pieces of a side; their nodes have slots, and may be in calls that only this side has."""
    frames, lost_ns = [], 0
    samples = of.samples_of_windows
    for part, (its, made, steps) in enumerate(zip(of.slices, pieces, of.windows, strict=True)):
        late = delays(its, of.trees, part, steps, is_alone)
        lost_ns += int(late.ns.sum())
        sums = units(its, made, of.trees, steps.step, late)
        line = np.where(sums.line >= 0, np.append(its.label, 0)[sums.line], 0)
        frames.append(
            pl.DataFrame(
                {
                    "sample": samples[part][sums.window],
                    "slot": own[sums.node],
                    "kind": sums.kind,
                    "line": line,
                    "line_row": sums.line,
                    "delay": np.where(sums.delay >= 0, own[sums.delay], -1),
                    "delay_kind": sums.delay_kind,
                    "part": part,
                    "ns": sums.ns,
                },
                schema_overrides=dict.fromkeys(_COLUMNS, pl.Int64),
            )
        )
    rows = pl.concat(frames)
    lines = (
        rows.filter(pl.col("line_row") >= 0)
        .select("line", "part", "line_row")
        .unique()
        .sort("line", "part", "line_row")
        .unique("line", keep="first", maintain_order=True)
    )
    names = texts(
        connect, of, lines["part"].to_numpy().astype(np.int64), lines["line_row"].to_numpy()
    )
    lines = lines.select("line").with_columns(line_name=names["name"])
    rows = (
        rows.drop("part", "line_row")
        .join(lines, on="line", how="left")
        .with_columns(side=pl.lit(name))
    )
    return PieceRows(rows, lost_ns)


def named(
    rows: pl.DataFrame, about: pl.DataFrame, ops: pl.DataFrame, *, has_devices: bool
) -> pl.DataFrame:
    """Pieces with their final cause, and the names by which they are added up.

    Calls and ops for which devices wait add up to ``launch_bound`` if both sides have them; but
    each of ``ops`` (``slot name``), which take more or less time than on the other side, has its
    own.
    """
    of_slots = about.select("slot", "in_both", "op_has_both", "place", "group", "cause").join(
        ops.select("slot", op_name="name"), on="slot", how="left"
    )
    rows = rows.drop("in_both", "delay", "delay_kind").join(of_slots, on="slot", how="left")
    launching = pl.col("kind").is_in(
        [KINDS.index(kind) for kind in (["launch", "op"] if has_devices else ["launch"])]
    )
    direct = {KINDS.index(kind): cause for kind, cause in _DIRECT.items()}
    cause = pl.coalesce(
        pl.col("kind").replace_strict(direct, default=None, return_dtype=pl.String),
        # With devices, the host's time counts only where they wait for it: then it is one cause,
        # whatever op they wait in. Without devices the ops are what takes the time.
        pl.when(launching & pl.col("in_both")).then(pl.lit(kinds.LAUNCH)).otherwise("cause"),
    )
    rows = rows.with_columns(cause=cause)
    at_place = (
        pl.col("cause").is_in([kinds.FUSED, kinds.UNFUSED, kinds.SWAPPED, kinds.BREAK])
        & ~pl.col("in_both")
        & ~pl.col("op_has_both")
    )
    # The same work taking longer is no one else's cause: each place has its own row.
    alone = pl.col("cause").is_in([kinds.SAME, kinds.TRANSFER, kinds.WAIT])
    bundle = (
        pl.when(at_place)
        .then(_bundle(0, "place"))
        .when(alone)
        .then(_bundle(1, "slot"))
        .when((pl.col("cause") == kinds.LAUNCH) & pl.col("op_name").is_not_null())
        .then(_bundle(OF_OP, "op_name"))
        .when((pl.col("cause") == kinds.LAUNCH) | (pl.col("kind") == KINDS.index("unrecorded")))
        .then(_bundle(OF_ALL, pl.lit(0, pl.Int64)))
        .when(pl.col("line_name").is_not_null())
        .then(_bundle(3, "line"))
        .otherwise(_bundle(1, "group"))
    )
    columns = ("side", "sample", "slot", "cause", "line_name", "ns")
    return rows.select(*columns, bundle.struct.unnest())


def _bundle(kind: int, number: str | pl.Expr) -> pl.Expr:
    return pl.struct(pl.lit(kind, pl.Int64).alias("bundle_kind"), _number(number).alias("bundle"))


def _number(of: str | pl.Expr) -> pl.Expr:
    return (pl.col(of) if isinstance(of, str) else of).cast(pl.Int64)
