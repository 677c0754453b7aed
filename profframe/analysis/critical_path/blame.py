"""Blame: what late ranks did before a collective that the others did not, and its cost.

A rank that comes later than the median one is compared with the rank that came before it. Their
critical paths since both were last together begin at one moment and end when each rank came, so the
differences of the two add up to the time between the arrivals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.analysis.critical_path import late_costs
from profframe.analysis.critical_path.graph import (
    LAUNCH,
    NONE,
    SLICE,
    SYNC,
    UNKNOWN,
    UNSET,
    WORK,
    Graph,
)
from profframe.analysis.critical_path.late_costs import CAUSES
from profframe.analysis.critical_path.path_across_ranks import Connect, JobWindow
from profframe.analysis.critical_path.segments import LEAP, Stretches, expand
from profframe.facts.arrays import last_equal, numbers
from profframe.intervals import Ints, Mask
from profframe.query.header import Answer
from profframe.query.run import Select, prepare, select, selected


def before(graph: Graph, event: Ints, moment: Ints, since: Ints) -> tuple[Stretches, Ints]:
    """The paths from the start of each event, at a moment, back to another moment.

    The segments of a path add up to the time between its two moments. Time before the window of the
    graph is an unknown segment, and so is the whole path of an event that is not in the graph. Each
    segment comes with the row of the event that its path leads to.
    """
    works, slices = graph.works, graph.slices
    work = last_equal(works.event, np.arange(works.event.size), event)
    row = last_equal(slices.event, np.arange(slices.event.size), event)
    at = np.full(event.size, NONE, np.int64)
    at[row >= 0] = graph.points.at(slices.thread[row[row >= 0]], slices.start[row[row >= 0]])
    steps = _Steps(graph)
    for path, places in enumerate(
        zip(work.tolist(), at.tolist(), moment.tolist(), since.tolist(), strict=True)
    ):
        steps.walk(path, *places)
    numbers = np.array(steps.taken, np.int64).reshape(-1, 5).T
    stretches, taken = expand(graph, *numbers[1:])
    path = numbers[0][taken]
    start = np.maximum(stretches.start, since[path])
    start = np.where(numbers[2][taken] == UNKNOWN, numbers[3][taken], start)
    lasting = stretches.end > start
    return Stretches(
        stretches.event[lasting], stretches.edge[lasting], start[lasting], stretches.end[lasting]
    ), path[lasting]


class _Steps:
    """The steps of walks through one graph, whose columns are read once for all of them."""

    def __init__(self, graph: Graph) -> None:
        works, points = graph.works, graph.points
        self.taken: list[tuple[int, int, int, int, int]] = []
        """(path, event, edge, start, end); for a leap, start and end are points."""
        # Views, not lists: walks look at a few places of long columns.
        self._event, self._call = works.event.data, works.call.data
        self._start, self._end = works.start.data, works.end.data
        self._call_start = works.call_start.data
        self._edge, self._before = graph.edge.data, graph.before.data
        self._time, self._point_edge = points.time.data, points.edge.data
        self._point_before = points.before.data
        self._via = np.append(graph.slices.event, NONE)[points.via].data
        stops = (points.edge >= 0) | (points.time == 0)
        self._stop = np.maximum.accumulate(np.where(stops, np.arange(stops.size), 0)).data

    def walk(self, path: int, work: int, point: int, moment: int, since: int) -> None:
        """Take the steps of one path, from the last to the first."""
        taken, limit = self.taken, max(since, 0)
        time = moment if work >= 0 or point >= 0 else limit
        if work < 0 and point < 0:
            taken.append((path, NONE, UNKNOWN, limit, moment))
        is_first = True
        while time > limit:
            if work >= 0:
                start, event = self._start[work], self._event[work]
                # The path ends where the event begins, so the event is not on it.
                if not is_first:
                    taken.append((path, event, WORK, max(start, limit), time))
                edge, came_from, time = self._edge[work], self._before[work], min(start, time)
                if edge == LAUNCH:
                    begun, waiting = self._call_start[work], self._call[work]
                    work, point = NONE, came_from
                elif edge == UNKNOWN:
                    begun, waiting = 0, NONE
                else:
                    begun, waiting, work = self._end[came_from], event, came_from
            else:
                stop = self._stop[point]
                stop = max(stop, bisect_right(self._time, limit, stop, point + 1) - 1)
                taken.append((path, NONE, LEAP, stop, point))
                time, edge = self._time[stop], self._point_edge[stop]
                waiting, came_from = self._via[stop], self._point_before[stop]
                if edge == SYNC:
                    begun, work = self._end[came_from], came_from
                else:
                    begun, point = self._time[came_from], came_from
            is_first = False
            if time > limit:
                taken.append((path, waiting, edge, max(begun, limit), time))
                time = min(begun, time)
        if since < 0:
            taken.append((path, NONE, UNKNOWN, since, 0))


PER: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("rank", "cause", "name", "op", "module", "waits_for_rank"),
    "op": ("rank", "cause", "op"),
    "module": ("rank", "cause", "module"),
    "cause": ("rank", "cause", "waits_for_rank"),
    "rank": ("rank",),
}
"""Groupings of the result, and the columns of each."""

_Columns = Mapping[str, Ints]
Steps = Sequence[int] | None
"""Steps that count; None for all."""


@dataclass(frozen=True, slots=True)
class LateCosts:
    """What late ranks did that others did not, and what collectives took once all were there.

    Attributes
    ----------
    parts : pa.Table
        ``run rank match part cause name op module waits_for_rank cost_ns held_up_ns
        is_corrected``: one row per late rank, collective and thing that it did.
    arrivals : pa.Table
        ``rank match kind step start_ns`` of each member of these collectives.
    steps : int
        Number of whole steps in them.
    """

    parts: pa.Table
    arrivals: pa.Table
    steps: int


def find(ask: Select, costs: LateCosts, per: str) -> pl.DataFrame:
    """Add up what late ranks cost, and the transfer time of collectives."""
    columns = ", ".join(
        f"{name if name in PER[per] else 'NULL'}::{type_} AS {name}"
        for name, type_ in _TYPES.items()
    )
    sql = _SUMS.format(columns=columns, steps=costs.steps)
    return pl.DataFrame(ask(sql, {}, {"_late_costs": costs.parts}))


def slices(ask: Select, costs: LateCosts) -> pl.DataFrame:
    """One slice per late arrival at a collective: since when the rank was late, and why.

    One row per rank and collective, by the clock of the rank. ``cost_ns`` is its length, and the
    sum of the causes; ``cause name op module`` describe what costs most there.
    """
    given = {"_late_costs": costs.parts, "_arrivals": costs.arrivals}
    return pl.DataFrame(ask(_SLICES, {}, given))


def compare(
    connect: Connect,
    matches: pa.Table,
    gathered: JobWindow,
    run: str | None,
    *,
    steps: Steps,
    corrected: bool,
) -> LateCosts:
    """Compare each late rank of a run with the rank that came before it.

    ``matches`` are rows of collective_matches; ``gathered`` is all activity of the ranks;
    ``corrected`` says whether their clocks were.
    """
    with connect(None) as connection:
        sql = f"{_WAITS} {_PAIRS} {late_costs.MACROS}"
        prepare(connection, Answer("blame", sql), {})
        connection.execute("SET VARIABLE blame_corrected = ?::BOOLEAN", [corrected])
        connection.execute("SET VARIABLE blame_steps = ?::BIGINT[]", [steps])
        connection.register("_matches", matches)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE _waits AS {_WAITS}")
        labels = late_costs.labelled(connection)
        pairs, walked, members = _walked(connection, gathered, labels)
        of_pairs = late_costs.differences(pairs, walked, members)
        del walked
        entries = late_costs.costs(of_pairs, late_costs.longer(connection, pairs, of_pairs))
        connection.register("_entries", _worded(entries, labels, run))
        connection.register("_members", _worded(members, labels, run))
        parts, arrivals = (selected(connection, sql) for sql in (_PARTS, _ARRIVALS))
        [(number,)] = select(connection, _STEPS).fetchall()
        for table in ("_entries", "_members", "_matches"):
            connection.unregister(table)
        for table in ("_waits", "_labels"):
            connection.execute(f"DROP TABLE {table}")
    return LateCosts(parts, arrivals, number)


def _walked(
    connection: duckdb.DuckDBPyConnection, gathered: JobWindow, labels: late_costs.SliceLabels
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The pairs with the numbers of their walks, what walks passed, and members of collectives."""
    pairs, waits = _columns(connection, _PAIRS), _columns(connection, _MEMBERS)
    sides = _sides(pairs, gathered)
    numbered, walks = _numbered(sides)
    is_placed = waits["is_placed"] > 0
    ranks = np.unique(np.append(walks[0], waits["rank"][is_placed])).tolist()
    walked, members = [late_costs.NOTHING_DONE], [late_costs.NOTHING_PLACED]
    for rank, slices in late_costs.slices_of(connection, ranks):
        own, number = walks[1][walks[0] == rank], np.flatnonzero(walks[0] == rank)
        if number.size:
            passed = _stretches(gathered, rank, own, waits)
            passed["walk"] = number[passed["walk"]]
            walked.append(late_costs.done(slices, labels, passed))
        events = waits["event_id"][is_placed & (waits["rank"] == rank)]
        members.append(late_costs.placed(slices, labels, rank, events))
    of_pairs = {name: pairs[name] for name in _OF_PAIRS}
    for name, side in (("since_ns", "walk"), ("before_since_ns", "before_walk")):
        ahead = _ahead(gathered, sides[side]["rank"])
        of_pairs[name] = sides[side]["since"] + ahead + gathered.start_ns
    # Most of a lateness may be counted at an earlier collective, which it was late to as well: 1 ms
    # in a forward pass was 1.5 to 2.8 ms before delays counted once.
    is_new = 2 * pairs["behind_ns"] >= pairs["came_ns"] - pairs["before_came_ns"]
    late_walks = sides["walk"] | {"behind": pairs["behind_ns"]}
    of_pairs |= numbered
    counts_later = pl.Series(_counts_later(late_walks, is_new))
    frame = pl.DataFrame(of_pairs).with_columns(counts_later=counts_later)
    return frame, pl.concat(walked), pl.concat(members)


def _numbered(sides: Mapping[str, _Columns]) -> tuple[dict[str, Ints], tuple[Ints, Ints]]:
    """The walk of each side of each pair, and the rank, event, moment and since of each walk.

    Several pairs may share a side: each path is walked once.
    """
    names = ("rank", "event_id", "moment", "since")
    keys = np.concatenate([np.stack([side[name] for name in names], 1) for side in sides.values()])
    walks, number = np.unique(keys, axis=0, return_inverse=True)
    numbers_of = np.split(number.reshape(-1), len(sides))
    return dict(zip(sides, numbers_of, strict=True)), (walks[:, 0], walks[:, 1:])


def _counts_later(late: Mapping[str, Ints], is_new: Mask) -> Mask:
    """Whether a later time that the rank is blamed for contains this one, and is as long.

    A delay that mostly counts elsewhere is not compared, and contains none.
    """
    counts = ~is_new
    covered = dict[int, tuple[int, int]]()
    order = np.argsort(late["moment"], kind="stable")[::-1]
    order = order[is_new[order]]
    columns = (late[name][order].tolist() for name in ("rank", "moment", "since", "behind"))
    for row, rank, moment, since, behind in zip(order.tolist(), *columns, strict=True):
        begun, length = covered.get(rank, (moment, 0))
        counts[row] = begun < moment and behind <= length
        if not counts[row]:
            covered[rank] = since, behind  # it came no later than the one before began
    return counts


def _sides(pairs: _Columns, gathered: JobWindow) -> dict[str, dict[str, Ints]]:
    """Both sides of each pair: rank, event, its start and since when, from the start of the job.

    Ranks that were never together are compared from the first record of the rank before, at the
    same time on the collective's clock: what the late rank did before that is not a reason.
    """
    ranks = {"walk": pairs["rank"], "before_walk": pairs["before_rank"]}
    ahead = {name: _ahead(gathered, of_side) for name, of_side in ranks.items()}
    late_ns = pairs["came_ns"] - pairs["before_came_ns"]
    behind = pairs["before_start_ns"] - pairs["start_ns"] + late_ns
    begun = np.array(
        [gathered.start_ns if own is None else own.start_ns for own in gathered.windows], np.int64
    )
    first = begun[np.searchsorted(gathered.ranks, pairs["before_rank"])] + ahead["walk"]
    since = np.where(pairs["since_ns"] == UNSET, first, pairs["since_ns"])
    other = np.where(pairs["since_ns"] == UNSET, first + behind, pairs["before_since_ns"])
    return {
        name: {
            "rank": ranks[name],
            "event_id": event,
            "moment": start - ahead[name] - gathered.start_ns,
            "since": from_ns - ahead[name] - gathered.start_ns,
        }
        for name, event, start, from_ns in (
            ("walk", pairs["event_id"], pairs["start_ns"], since),
            ("before_walk", pairs["before_event_id"], pairs["before_start_ns"], other),
        )
    }


def _ahead(gathered: JobWindow, ranks: Ints) -> Ints:
    """How far the clock of each of some ranks is ahead."""
    return np.array(gathered.meetings.ahead, np.int64)[np.searchsorted(gathered.ranks, ranks)]


def _stretches(gathered: JobWindow, rank: int, walks: Ints, waits: _Columns) -> dict[str, Ints]:
    """Critical paths of a rank before each of some events, back to a moment; see `late_costs.done`.

    ``walk`` is the row of the event.
    """
    place = gathered.ranks.index(rank)
    ahead = gathered.meetings.ahead[place]
    is_own = waits["rank"] == rank
    events = waits["event_id"][is_own]
    path, walk = before(gathered.graphs[place], *walks.T)
    member = last_equal(events, np.flatnonzero(is_own), path.event)
    member[(path.edge != WORK) & (path.edge != SLICE)] = NONE
    until = np.append(waits["until_ns"] - gathered.start_ns - ahead, UNSET)[member]
    cut = np.clip(until, path.start, path.end)
    waited, goes_on = cut > path.start, path.end > cut
    columns = {
        "walk": walk,
        "event": path.event,
        "edge": path.edge,
        "waits_for_rank": np.append(waits["last_rank"], NONE)[member],
        "is_member": (member >= 0).astype(np.int64),
    }
    both = {name: np.append(values[waited], values[goes_on]) for name, values in columns.items()}
    is_wait = np.arange(both["walk"].size) < np.count_nonzero(waited)
    both["waits_for_rank"] = np.where(is_wait, both["waits_for_rank"], NONE)
    both["is_wait"] = is_wait.astype(np.int64)
    both["dur_ns"] = np.append((cut - path.start)[waited], (path.end - cut)[goes_on])
    return both


def _columns(connection: duckdb.DuckDBPyConnection, sql: str) -> _Columns:
    table: pa.Table = select(connection, sql).to_arrow_table()
    return {name: numbers(table, name, missing=UNSET) for name in table.column_names}


def _worded(rows: pl.DataFrame, labels: late_costs.SliceLabels, run: str | None) -> pa.Table:
    """Rows with texts in place of codes, and the run."""
    columns: dict[str, pa.Array] = {"run": pa.array([run] * rows.height, pa.string())}
    for name in rows.columns:
        if name in late_costs.PLACE:
            columns[name] = labels.words(rows[name])
        elif name == "cause":
            codes = rows[name].to_numpy()
            columns[name] = pa.array(late_costs.CAUSES).take(pa.array(codes, mask=codes == NONE))
        elif name == "waits_for_rank":
            ranks = rows[name].to_numpy()
            columns[name] = pa.array(ranks, pa.int32(), mask=ranks == NONE)
        else:
            columns[name] = rows[name].to_arrow()
    return pa.table(columns)


_OF_PAIRS: Final = (
    "match", "rank", "event_id", "held_up_ns", "behind_ns", "came_ns", "before_came_ns",
    "before_rank", "start_ns", "before_start_ns",
)  # fmt: skip
_TYPES: Final = {
    "rank": "INTEGER",
    "cause": "VARCHAR",
    "name": "VARCHAR",
    "op": "VARCHAR",
    "module": "VARCHAR",
    "waits_for_rank": "INTEGER",
}
_WAITS: Final = """
    WITH waits AS MATERIALIZED (
        FROM collective_waits(_matches, traces, getvariable('blame_corrected'))
        WHERE came_ns IS NOT NULL
    )
    FROM counted_delays(events, waits)
"""
_MEMBERS: Final = """
    SELECT
        rank, event_id, start_ns + wait_ns AS until_ns, last_rank,
        (rank = last_rank OR behind_ns > 0)::BIGINT AS is_placed
    FROM _waits
    ORDER BY rank, event_id
"""
_PAIRS: Final = """
    SELECT * EXCLUDE (run) FROM late_pairs(_waits)
    WHERE getvariable('blame_steps') IS NULL OR list_contains(getvariable('blame_steps'), step)
    ORDER BY match, rank
"""
_WANTED: Final = """
    FROM _waits
    WHERE getvariable('blame_steps') IS NULL OR list_contains(getvariable('blame_steps'), step)
"""
_PARTS: Final = f"""
    WITH wanted AS ({_WANTED})
    SELECT parts.*, clocks.is_corrected
    FROM (
        SELECT
            run, rank::INTEGER AS rank, match, 'entry' AS part, cause, name, op, module,
            waits_for_rank, cost_ns, CASE WHEN is_last THEN cost_ns ELSE 0 END::BIGINT AS held_up_ns
        FROM _entries
        UNION ALL
        SELECT
            waits.run, NULL, waits.match, 'transfer', 'communication', member.name, member.op,
            member.module, NULL, waits.latency_ns::BIGINT, NULL
        FROM wanted AS waits
        LEFT JOIN _members AS member
            ON waits.rank = member.rank AND waits.event_id = member.event_id
        WHERE waits.rank = waits.last_rank
    ) AS parts
    JOIN (SELECT DISTINCT match, is_corrected FROM wanted) AS clocks ON parts.match = clocks.match
"""  # noqa: S608 - of constants
_ARRIVALS: Final = f"SELECT rank, match, kind, step, start_ns FROM ({_WANTED})"  # noqa: S608 - of constants
_STEPS: Final = """
    SELECT count(DISTINCT step)
    FROM profiler_steps
    WHERE lack IS NULL AND step_ns > 0
        AND (
            getvariable('blame_steps') IS NULL OR list_contains(getvariable('blame_steps'), step)
        )
"""
_SUMS: Final = """
    WITH sums AS (
        SELECT run, part, {columns}, sum(cost_ns)::BIGINT AS cost_ns,
            sum(held_up_ns)::BIGINT AS held_up_ns, bool_and(is_corrected) AS is_corrected
        FROM _late_costs
        GROUP BY ALL
        HAVING sum(cost_ns) <> 0 OR sum(held_up_ns) <> 0
    )
    SELECT
        run, rank, part, cause, name, op, module, waits_for_rank, cost_ns, held_up_ns,
        {steps}::BIGINT AS steps, cost_ns / greatest({steps}, 1) AS cost_per_step_ns,
        cost_ns / sum(cost_ns) OVER (PARTITION BY part) AS part_share, is_corrected
    FROM sums
    ORDER BY part, cause IS NOT DISTINCT FROM 'wait', cost_ns DESC, rank, cause, name, op, module,
        waits_for_rank
"""
_SLICES: Final = f"""
    WITH costs AS (
        FROM _late_costs WHERE part = 'entry'
    ),
    sums AS (
        SELECT
            run, rank, match, sum(cost_ns)::BIGINT AS cost_ns,
            sum(held_up_ns)::BIGINT AS held_up_ns,
            arg_max(costs, (cost_ns, cause, name, op, module, waits_for_rank)) AS most,
            {", ".join(f"sum(cost_ns) FILTER (cause = '{c}')::BIGINT AS {c}_ns" for c in CAUSES)}
        FROM costs
        GROUP BY run, rank, match
    )
    SELECT
        sums.run, sums.rank, arrival.kind, arrival.step,
        arrival.start_ns - sums.cost_ns AS start_ns,
        sums.cost_ns AS dur_ns, sums.cost_ns, sums.held_up_ns, most.cause AS cause,
        most.name AS name, most.op AS op, most.module AS module,
        most.waits_for_rank AS waits_for_rank, most.cost_ns AS largest_cost_ns,
        {", ".join(f"sums.{cause}_ns" for cause in CAUSES)}
    FROM sums
    JOIN _arrivals AS arrival ON sums.rank = arrival.rank AND sums.match = arrival.match
    ORDER BY sums.rank, start_ns, sums.match
"""  # noqa: S608 - of constants
