"""What a late rank did before a collective that the rank before it did not, in numbers.

What both did for the same time is no reason, even if it is on the path of one of them only. Names
of slices, ops and modules are numbers, in the order of their texts, until all is added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.analysis.critical_path.graph import NONE, UNKNOWN, WORK
from profframe.analysis.critical_path.segments import BOUNDS_OF_EDGES
from profframe.analysis.critical_path.source import EVENT_BITS, MOST_EVENTS
from profframe.facts.arrays import last_equal, numbers
from profframe.intervals import Ints, Mask, last_until
from profframe.query.run import selected

CAUSES: Final = ("host", "input", "launch", "compute", "copy", "communication", "wait")
HOST, INPUT, LAUNCH, COMPUTE, COPY, COMMUNICATION, WAIT = range(len(CAUSES))
_OF_BOUNDS: Final = {
    "host": HOST, "sync": HOST, "launch": LAUNCH, "idle": LAUNCH, "communication": COMMUNICATION,
    "": NONE,
}  # fmt: skip
_OF_EDGES: Final = np.array([_OF_BOUNDS[bound] for bound in BOUNDS_OF_EDGES.values()])
_SHARED: Final = (HOST, INPUT, COMPUTE, COPY)
"""Causes that the other rank may have had beside its path."""
PLACE: Final = ("name", "op", "module")
"""Columns of codes of `SliceLabels`."""
_OF_WALK: Final = ("cause", *PLACE, "waits_for_rank")
_PAIR: Final = ("rank", "match")
_MOST_OUTER: Final = 10_000
"""Slices around one that are looked at: damaged numbers may lead in a circle."""
_GONE: Final = -2
"""In place of a row: a slice that is named and not among these."""
_LAST: Final = 1 << 62

Columns = Mapping[str, Ints]


@dataclass(frozen=True, slots=True)
class SliceLabels:
    """Texts that are numbered: names of slices, and module hierarchies."""

    texts: pa.ChunkedArray
    is_load: Mask
    """Whether a text is the name of a data loader call."""

    def words(self, codes: pl.Series) -> pa.Array:
        """The texts of codes; `NONE` is NULL."""
        rows = pa.array(codes.to_numpy(), mask=codes.to_numpy() == NONE)
        return self.texts.combine_chunks().take(rows)


@dataclass(frozen=True, slots=True)
class RankSlices:
    """All slices of a rank in the order of their ids; codes are those of `SliceLabels`.

    Attributes
    ----------
    event, name, hierarchy : Ints
        Columns of events.
    outer, forward : Ints
        Rows of the slice around each, for device work around its launch, and of its forward op:
        `NONE` without one, `_GONE` if it is not among the slices.
    is_op, is_module : Mask
        What the slice is.
    cause : Ints
        Cause of device work by its class; `NONE` for other slices.
    """

    event: Ints
    name: Ints
    hierarchy: Ints
    outer: Ints
    forward: Ints
    is_op: Mask
    is_module: Mask
    cause: Ints

    def rows(self, event: Ints) -> Ints:
        """Rows of slices by their ids; `NONE` where there is none."""
        return last_equal(self.event, np.arange(self.event.size), event)


NOTHING_DONE: Final = pl.DataFrame(schema=dict.fromkeys(("walk", *_OF_WALK, "done_ns"), pl.Int64))
"""Rows of `done` without any walk."""
NOTHING_PLACED: Final = pl.DataFrame(schema=dict.fromkeys(("rank", "event_id", *PLACE), pl.Int64))
"""Rows of `placed` without any slice."""


def labelled(connection: duckdb.DuckDBPyConnection) -> SliceLabels:
    """Number all names, for `slices_of`."""
    connection.execute(_LABELS)
    table = selected(connection, "SELECT name, is_load FROM _labels ORDER BY code")
    return SliceLabels(table["name"], numbers(table, "is_load") > 0)


def slices_of(
    connection: duckdb.DuckDBPyConnection, ranks: Sequence[int]
) -> Iterator[tuple[int, RankSlices]]:
    """Yield ranks with their slices, of few at a time."""
    for columns in _columns(connection, ranks, _SLICES):
        for rank, begin, end in _runs(columns["rank"]):
            yield rank, _slices({name: values[begin:end] for name, values in columns.items()})


def _columns(
    connection: duckdb.DuckDBPyConnection, ranks: Sequence[int], sql: str
) -> Iterator[Columns]:
    """Columns of the slices of ranks, in the order of ranks and ids, of few ranks at a time."""
    counted = selected(connection, "SELECT rank, count(*) AS slices FROM events GROUP BY rank")
    slices = dict(zip(*(counted[name].to_pylist() for name in ("rank", "slices")), strict=True))
    wanted = [rank for rank in sorted(ranks) if rank in slices]
    group: list[int] = []
    for place, rank in enumerate(wanted):
        group.append(rank)
        after = slices[wanted[place + 1]] if place + 1 < len(wanted) else MOST_EVENTS
        if sum(slices[one] for one in group) + after > MOST_EVENTS:
            connection.execute("SET VARIABLE cost_ranks = ?::INTEGER[]", [group])
            table = selected(connection, sql)
            columns = {name: numbers(table, name, missing=NONE) for name in table.column_names}
            key = (columns["rank"] << EVENT_BITS) + columns["event_id"]
            if not bool((np.diff(key) > 0).all()):
                order = np.argsort(key, kind="stable")
                columns = {name: values[order] for name, values in columns.items()}
            yield columns
            group = []


def _runs(values: Ints) -> Iterator[tuple[int, int, int]]:
    """Each run of equal values, with its begin and end."""
    begin = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: values.size])
    end = np.append(begin[1:], values.size)
    yield from zip(values[begin].tolist(), begin.tolist(), end.tolist(), strict=True)


def _slices(columns: Columns) -> RankSlices:
    event = columns["event_id"]

    def rows(other: Ints) -> Ints:
        row = last_equal(event, np.arange(event.size), other)
        return np.where((row == NONE) & (other != NONE), _GONE, row)

    return RankSlices(
        event,
        columns["name"],
        columns["hierarchy"],
        rows(columns["outer_id"]),
        rows(columns["fwd_id"]),
        columns["is_op"] > 0,
        columns["is_module"] > 0,
        columns["cause"],
    )


def places(slices: RankSlices, labels: SliceLabels, rows: Ints) -> dict[str, Ints]:
    """What is around slices: for device work around its launch; for a backward op its forward op.

    Parameters
    ----------
    slices
        All slices of a rank.
    labels
        Their names.
    rows
        Rows of the slices.

    Returns
    -------
    dict of str to Ints
        Codes of the innermost ``op`` (the slice itself counts) and ``module``, named as in
        `modules`, or `NONE`; ``is_input``: 1 inside a data loader call.
    """
    is_load = np.append(labels.is_load, False)[slices.name]
    op, module, hierarchy = np.full((3, rows.size), NONE, np.int64)
    is_input = np.zeros(rows.size, np.bool_)
    walker, at, forward = np.arange(rows.size), rows, np.full(rows.size, NONE, np.int64)
    for _ in range(_MOST_OUTER):
        if not at.size:
            break
        for out, is_one, code in (
            (op, slices.is_op, slices.name),
            (module, slices.is_module, slices.name),
            (hierarchy, slices.hierarchy >= 0, slices.hierarchy),
        ):
            is_first = is_one[at] & (out[walker] == NONE)
            out[walker[is_first]] = code[at[is_first]]
        is_input[walker[is_load[at]]] = True
        forward = np.where(forward == NONE, slices.forward[at], forward)
        outer = slices.outer[at]
        is_outermost = outer == NONE
        at, forward = np.where(is_outermost, forward, outer), np.where(is_outermost, NONE, forward)
        goes_on = at >= 0
        walker, at, forward = walker[goes_on], at[goes_on], forward[goes_on]
    return {
        "op": op,
        "module": np.where(module >= 0, module, hierarchy),
        "is_input": is_input.astype(np.int64),
    }


def done(slices: RankSlices, labels: SliceLabels, walked: Columns) -> pl.DataFrame:
    """What walks along the path of a rank passed: ``walk``, cause, place and ``done_ns``.

    ``walked`` has a row per stretch: ``walk event edge waits_for_rank is_member is_wait dur_ns``.
    """
    row = slices.rows(walked["event"])
    unique, number = np.unique(row, return_inverse=True)
    around = places(slices, labels, unique[unique >= 0])
    missing = int((unique < 0).sum())  # without an event, all in the first place
    around = {name: np.append(np.full(missing, NONE), of)[number] for name, of in around.items()}
    edge, is_wait = walked["edge"], walked["is_wait"] > 0
    cause = np.where(walked["is_member"] > 0, COMMUNICATION, _OF_EDGES[edge])
    cause = np.where(edge == WORK, np.append(slices.cause, NONE)[row], cause)
    cause = np.where((cause == HOST) & (around["is_input"] > 0), INPUT, cause)
    cause = np.where(is_wait | (edge == UNKNOWN), WAIT, cause)
    frame = pl.DataFrame(
        {
            "walk": walked["walk"],
            "cause": cause,
            "name": np.append(slices.name, NONE)[row],
            "op": around["op"],
            "module": around["module"],
            "waits_for_rank": walked["waits_for_rank"],
            "done_ns": walked["dur_ns"],
        }
    )
    return frame.group_by("walk", *_OF_WALK).agg(pl.col("done_ns").sum())


def placed(slices: RankSlices, labels: SliceLabels, rank: int, events: Ints) -> pl.DataFrame:
    """Name, op and module of some slices of a rank, by ``rank`` and ``event_id``."""
    row = slices.rows(events)
    events, row = events[row >= 0], row[row >= 0]
    around = places(slices, labels, row)
    return pl.DataFrame(
        {
            "rank": np.full(row.size, rank),
            "event_id": events,
            "name": slices.name[row],
            "op": around["op"],
            "module": around["module"],
        }
    )


def differences(pairs: pl.DataFrame, walked: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """What each late rank did for longer than the rank before it, or for less: ``cost_ns``.

    Parameters
    ----------
    pairs
        Rows of late_pairs with ``walk``, ``before_walk`` and ``counts_later``.
    walked
        Rows of `done`, of all walks.
    members
        Rows of `placed`, of all late ranks.
    """
    compared = pairs.filter(~pl.col("counts_later"))
    own, other = (
        compared.select(*_PAIR, is_last=pl.col("held_up_ns") > 0, walk=walk).join(walked, on="walk")
        for walk in ("walk", "before_walk")
    )
    came = pl.when("counts_later").then(0).otherwise(pl.col("came_ns") - pl.col("before_came_ns"))
    # What of a delay counts at another collective is a wait of the rank for itself.
    elsewhere = pairs.join(members, on=["rank", "event_id"], how="left").select(
        *_PAIR,
        is_last=pl.col("held_up_ns") > 0,
        cause=pl.lit(WAIT, pl.Int64),
        name=pl.col("name").fill_null(NONE),
        op=pl.col("op").fill_null(NONE),
        module=pl.col("module").fill_null(NONE),
        waits_for_rank="rank",
        done_ns=pl.col("behind_ns") - came,
    )
    parts = (own.drop("walk"), other.drop("walk").with_columns(-pl.col("done_ns")), elsewhere)
    return (
        pl.concat(parts)
        .group_by(*_PAIR, "is_last", *_OF_WALK)
        .agg(cost_ns=pl.col("done_ns").sum())
        .filter(pl.col("cost_ns") != 0)
    )


def longer(
    connection: duckdb.DuckDBPyConnection, pairs: pl.DataFrame, of_pairs: pl.DataFrame
) -> pl.DataFrame:
    """For how much longer the late rank was in slices of a name than the other: ``longer_ns``.

    ``of_pairs`` are rows of `differences`. Both are looked at from when they were last together
    until they came, beside their paths, too; by self time.
    """
    is_wanted = (pl.col("cost_ns") > 0) & pl.col("cause").is_in(_SHARED) & (pl.col("name") != NONE)
    wanted = of_pairs.filter(is_wanted).select(*_PAIR, "name").unique()
    wanted = wanted.join(pairs, on=_PAIR)
    bounds = pl.concat(
        wanted.select(*_PAIR, "name", of_rank=rank, at_ns=at, sign=pl.lit(sign, pl.Int64))
        for rank, at, sign in (
            ("rank", "start_ns", 1),
            ("rank", "since_ns", -1),
            ("before_rank", "before_start_ns", -1),
            ("before_rank", "before_since_ns", 1),
        )
    )
    connection.register("_wanted", pl.DataFrame({"code": wanted["name"].unique()}).to_arrow())
    parts = [bounds.clear().with_columns(spent_ns=pl.lit(0, pl.Int64))]
    for columns in _columns(connection, bounds["of_rank"].unique().to_list(), _SPENT):
        for rank, begin, end in _runs(columns["rank"]):
            own = bounds.filter(of_rank=rank)
            of_rank = {name: values[begin:end] for name, values in columns.items()}
            spent, is_known = _spent(of_rank, own["name"].to_numpy(), own["at_ns"].to_numpy())
            parts.append(own.with_columns(spent_ns=pl.Series(spent)).filter(pl.Series(is_known)))
    connection.unregister("_wanted")
    spent_ns = pl.col("spent_ns") * pl.col("sign")
    return pl.concat(parts).group_by(*_PAIR, "name").agg(longer_ns=spent_ns.sum())


def _spent(slices: Columns, name: Ints, at: Ints) -> tuple[Ints, Mask]:
    """Self time in slices of names until moments, and whether any began before."""
    order = np.lexsort((slices["start_ns"], slices["name"]))
    of_name, start, self_ns = (slices[column][order] for column in ("name", "start_ns", "self_ns"))
    until = np.cumsum(self_ns)
    row = last_until(of_name, start, name, at - 1)
    is_known = row >= 0
    row = np.maximum(row, 0)
    first = np.searchsorted(of_name, of_name[row])
    before = until[row] - until[first] + self_ns[first]
    return before - np.maximum(self_ns[row] - (at - start[row]), 0), is_known


def costs(of_pairs: pl.DataFrame, owns: pl.DataFrame) -> pl.DataFrame:
    """Rows of `differences` without what both ranks did, one of them beside its path.

    That is taken from what only the late rank seems to have done, and from what only the other one
    does. ``owns`` are rows of `longer`.
    """
    cost, every = pl.col("cost_ns"), [*_PAIR]
    more = (cost > 0) & pl.col("cause").is_in(_SHARED) & pl.col("longer_ns").is_not_null()
    own = pl.min_horizontal(cost, pl.max_horizontal("longer_ns", 0))
    less = (cost < 0) & (pl.col("cause") != WAIT) & (pl.col("cause") != NONE)
    in_order = [
        pl.when(pl.col(column) == NONE).then(_LAST).otherwise(column)
        for column in (*PLACE, "waits_for_rank")
    ]
    cause = pl.col("cause").replace_strict(_CAUSE_ORDER, default=_LAST, return_dtype=pl.Int64)
    shared = (
        of_pairs.join(owns, on=[*_PAIR, "name"], how="left")
        .with_columns(
            more=pl.when(more).then(cost - own).otherwise(0),
            less=pl.when(less).then(-cost).otherwise(0),
        )
        .sort(*_PAIR, cause, *in_order)
        .with_columns(
            all_more=pl.col("more").sum().over(every),
            all_less=pl.col("less").sum().over(every),
            more_so_far=pl.col("more").cum_sum().over(every),
            less_so_far=pl.col("less").cum_sum().over(every),
        )
    )
    both = pl.min_horizontal("all_more", "all_less")
    return shared.select(
        *_PAIR,
        "is_last",
        *_OF_WALK,
        cost_ns=cost
        - _part(both, "more_so_far", "more", "all_more")
        + _part(both, "less_so_far", "less", "all_less"),
    ).filter(pl.col("cost_ns") != 0)


def _part(whole: pl.Expr, so_far: str, own: str, every: str) -> pl.Expr:
    """What a row gets of a number that is divided by sizes, in whole numbers that add up to it."""
    until, size, total = (pl.col(column).cast(pl.Int128) for column in (so_far, own, every))
    total = pl.max_horizontal(total, pl.lit(1, pl.Int128))
    parts = [whole.cast(pl.Int128) * to // total for to in (until, until - size)]
    return (parts[0] - parts[1]).cast(pl.Int64)


_CAUSE_ORDER: Final = {CAUSES.index(cause): place for place, cause in enumerate(sorted(CAUSES))}
_LABELS: Final = """
    CREATE OR REPLACE TEMP TABLE _labels AS
    SELECT
        name, row_number() OVER (ORDER BY name) - 1 AS code, is_data_load(name)::BIGINT AS is_load
    FROM (
        SELECT name FROM events WHERE name IS NOT NULL
        UNION
        SELECT module_hierarchy FROM events WHERE module_hierarchy <> ''
    )
"""
_CLASSES: Final = ", ".join(f"'{cause}'" for cause in CAUSES)
_SLICES: Final = f"""
    SELECT
        slice.rank, event_id, names.code AS name, hierarchies.code AS hierarchy,
        CASE WHEN is_busy(kind) THEN coalesce(op_id, launch_id) ELSE parent_id END AS outer_id,
        fwd_id, (kind = 'host_op')::BIGINT AS is_op,
        (python_module_id IS NOT NULL)::BIGINT AS is_module,
        list_position([{_CLASSES}], device_class(kind, kernel_category))::BIGINT - 1 AS cause
    FROM events AS slice
    LEFT JOIN few(_labels) AS names ON slice.name = names.name
    LEFT JOIN few(_labels) AS hierarchies ON slice.module_hierarchy = hierarchies.name
    WHERE list_contains(getvariable('cost_ranks'), slice.rank)
"""  # noqa: S608 - of constants
_SPENT: Final = """
    SELECT slice.rank, event_id, names.code AS name, start_ns, self_ns
    FROM events AS slice
    JOIN few(_labels) AS names ON slice.name = names.name
    SEMI JOIN _wanted ON names.code = _wanted.code
    WHERE self_ns > 0 AND start_ns IS NOT NULL
        AND list_contains(getvariable('cost_ranks'), slice.rank)
"""
MACROS: Final = f"{_LABELS} {_SLICES}"
"""SQL whose macros the functions of this file need."""
