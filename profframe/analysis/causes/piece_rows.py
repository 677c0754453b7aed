"""Pieces of the steps of both sides as rows: what they belong to, and their cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from profframe.analysis.causes import cause_kinds
from profframe.analysis.causes.delays import Delays, delays
from profframe.analysis.causes.sides import Connect, StepSide, texts
from profframe.analysis.causes.step_pieces import (
    BUSY,
    HOST,
    LAUNCH,
    NOTHING,
    UNRECORDED,
    WAIT,
    StepPieces,
)
from profframe.analysis.causes.step_trees import (
    COMPILE,
    FRAME,
    LOAD,
    OP,
    RESUME,
    SYNC,
    StepSlices,
    Trees,
)
from profframe.intervals import Ints, Mask, nearest

KINDS: Final = (
    "work",
    "wait",
    "launch",
    "op",
    "code",
    "synchronization",
    "data_loading",
    "recompile",
    "graph_break",
    "nothing",
    "unrecorded",
)
"""What happens in a piece; a collective waits for another rank, code is everything but ops."""
_WORK, _WAIT, _LAUNCH, _OP, _CODE, _SYNC, _LOAD, _COMPILE, _RESUME, _NOTHING, _UNRECORDED = range(
    len(KINDS)
)
LATE: Final = [KINDS.index(kind) for kind in ("launch", "op", "code", "nothing")]
"""Kinds of pieces in which a device may wait because the host was late before."""
_OF_PIECE: Final = {
    BUSY: _WORK,
    WAIT: _WAIT,
    LAUNCH: _LAUNCH,
    HOST: _CODE,  # or what `_kinds` says
    NOTHING: _NOTHING,
    UNRECORDED: _UNRECORDED,
}
_OF_SORT: Final = {SYNC: _SYNC, LOAD: _LOAD, COMPILE: _COMPILE, RESUME: _RESUME}
_DELAY_KINDS: Final = np.array([_OF_SORT.get(sort, _OP) for sort in range(max(_OF_SORT) + 1)])


@dataclass(frozen=True, slots=True)
class Units:
    """Window, node and kind of each piece, in the order of pieces.

    Attributes
    ----------
    window, node, kind : Ints
        Number of the window, node of the trees, and index of ``KINDS``.
    line : Ints
        For code the row of the innermost Python frame, for loading and compiling that of the
        outermost slice that does so, else -1.
    delay, delay_kind : Ints
        While devices are idle, the earlier call that may have made the host late: its node, and the
        kind of its purpose; else -1.
    ns : Ints
        Its time.
    """

    window: Ints
    node: Ints
    kind: Ints
    line: Ints
    delay: Ints
    delay_kind: Ints
    ns: Ints


def units(slices: StepSlices, made: StepPieces, tree: Trees, steps: Ints, late: Delays) -> Units:
    """Find the unit of each piece of a rank.

    ``steps`` has the step of each window; ``late`` are the calls that only this side has.
    """
    own = np.flatnonzero(tree.part == late.part)
    node_of = tree.node_of(late.part, slices.event_id.size)
    row = made.row
    slice_of = np.where(made.what == HOST, np.append(slices.call, -1)[row], row)
    node = node_of[slice_of]
    roots = own[tree.row[own] < 0]
    root_of = dict(zip(tree.step[tree.tree[roots]].tolist(), roots.tolist(), strict=True))
    fallback = np.array([root_of.get(step, roots[0]) for step in steps.tolist()] or [0], np.int64)
    # What is in no call belongs to the step itself.
    node = np.where(node >= 0, node, fallback[made.window])
    kind = np.array([_OF_PIECE[what] for what in range(len(_OF_PIECE))])[made.what]
    host = np.flatnonzero(made.what == HOST)
    kind[host] = _kinds(slices)[row[host]]
    kind[(kind == _SYNC) & (late.around[node] >= 0) & (late.sort[node] != SYNC)] = _OP
    line = np.full(row.size, -1, np.int64)
    for number, lines in _lines(slices):
        has_line = np.flatnonzero(kind == number)
        line[has_line] = lines[row[has_line]]
    delay = np.where(np.isin(kind, LATE), late.before(made.window, made.start_ns), -1)
    delay_kind = np.where(delay >= 0, _DELAY_KINDS[late.sort[delay]], -1)
    return Units(made.window, node, kind, line, delay, delay_kind, made.ns)


def _lines(slices: StepSlices) -> Iterator[tuple[int, Ints]]:
    """Kinds of host time that have a line, and the row of the slice that names it."""
    host = slices.work == 0
    yield _CODE, nearest(slices.parent, host & (slices.sort == FRAME))
    for sort, kind in ((LOAD, _LOAD), (COMPILE, _COMPILE)):
        marked = host & (slices.sort == sort)
        above = np.append(nearest(slices.parent, marked), -1)[slices.parent]
        yield kind, nearest(slices.parent, marked & (above < 0))


def _kinds(slices: StepSlices) -> Ints:
    """The kind of host time in which each slice is the innermost."""
    host = slices.work == 0
    kind = np.full(slices.sort.size, _CODE, np.int64)
    inside_op = nearest(slices.parent, host & (slices.sort == OP)) >= 0
    # Python frames inside an op are the op's: code is only what runs outside of ops.
    kind[inside_op | ((slices.sort > FRAME) & host)] = _OP
    marked = host & np.isin(slices.sort, [*_OF_SORT])
    mark = nearest(slices.parent, marked)
    for sort, number in _OF_SORT.items():
        kind[(mark >= 0) & (slices.sort[mark] == sort)] = number
    return kind


_DIRECT: Final = {
    "wait": cause_kinds.WAIT,
    "code": cause_kinds.CODE,
    "synchronization": cause_kinds.SYNC,
    "data_loading": cause_kinds.LOADING,
    "recompile": cause_kinds.RECOMPILE,
    "graph_break": cause_kinds.BREAK,
    "nothing": cause_kinds.CODE,
    "unrecorded": cause_kinds.UNRECORDED,
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
    side: StepSide,
    pieces: Sequence[StepPieces],
    own: Ints,
    is_alone: Mask,
    connect: Connect,
) -> PieceRows:
    """The pieces of a side; their nodes have slots, and may be in calls that only this side has."""
    frames, lost_ns = [], 0
    samples = side.samples_of_windows
    for part, (its, made, steps) in enumerate(zip(side.slices, pieces, side.windows, strict=True)):
        late = delays(its, side.trees, part, steps, is_alone)
        lost_ns += int(late.ns.sum())
        sums = units(its, made, side.trees, steps.step, late)
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
        connect, side, lines["part"].to_numpy().astype(np.int64), lines["line_row"].to_numpy()
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
        pl.when(launching & pl.col("in_both")).then(pl.lit(cause_kinds.LAUNCH)).otherwise("cause"),
    )
    rows = rows.with_columns(cause=cause)
    at_place = (
        pl.col("cause").is_in(
            [cause_kinds.FUSED, cause_kinds.UNFUSED, cause_kinds.SWAPPED, cause_kinds.BREAK]
        )
        & ~pl.col("in_both")
        & ~pl.col("op_has_both")
    )
    # The same work taking longer is no one else's cause: each place has its own row.
    alone = pl.col("cause").is_in([cause_kinds.SAME, cause_kinds.TRANSFER, cause_kinds.WAIT])
    bundle = (
        pl.when(at_place)
        .then(_bundle(0, "place"))
        .when(alone)
        .then(_bundle(1, "slot"))
        .when((pl.col("cause") == cause_kinds.LAUNCH) & pl.col("op_name").is_not_null())
        .then(_bundle(OF_OP, "op_name"))
        .when(
            (pl.col("cause") == cause_kinds.LAUNCH) | (pl.col("kind") == KINDS.index("unrecorded"))
        )
        .then(_bundle(OF_ALL, pl.lit(0, pl.Int64)))
        .when(pl.col("line_name").is_not_null())
        .then(_bundle(3, "line"))
        .otherwise(_bundle(1, "group"))
    )
    columns = ("side", "sample", "slot", "cause", "line_name", "ns")
    return rows.select(*columns, bundle.struct.unnest())


def _bundle(kind: int, number: str | pl.Expr) -> pl.Expr:
    bundle = pl.col(number) if isinstance(number, str) else number
    return pl.struct(
        pl.lit(kind, pl.Int64).alias("bundle_kind"), bundle.cast(pl.Int64).alias("bundle")
    )
