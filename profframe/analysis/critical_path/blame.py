"""Blame: what late ranks did before a collective that the others did not, and its cost.

A rank that comes later than the median one is compared with the rank that came before it. Their
critical paths since both were last together begin at one moment and end when each rank came, so the
differences of the two add up to the time between the arrivals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

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
from profframe.analysis.critical_path.path_across_ranks import Connect, JobWindow
from profframe.analysis.critical_path.segments import (
    BOUNDS_OF_EDGES,
    EDGES,
    LEAP,
    Stretches,
    expand,
)
from profframe.facts.arrays import last_equal, numbers
from profframe.intervals import Ints, Mask
from profframe.query.header import Answer
from profframe.query.run import prepare, select


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
        self._event, self._call = works.event.tolist(), works.call.tolist()
        self._start, self._end = works.start.tolist(), works.end.tolist()
        self._call_start = works.call_start.tolist()
        self._edge, self._before = graph.edge.tolist(), graph.before.tolist()
        self._time, self._point_edge = points.time.tolist(), points.edge.tolist()
        self._point_before = points.before.tolist()
        self._via = np.append(graph.slices.event, NONE)[points.via].tolist()
        stops = (points.edge >= 0) | (points.time == 0)
        last_stop = np.maximum.accumulate(np.where(stops, np.arange(stops.size), 0))
        self._stop = last_stop.tolist()

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


def find(
    connect: Connect,
    gathered: JobWindow,
    run: str | None,
    per: str,
    *,
    steps: Steps,
    corrected: bool,
) -> pl.DataFrame:
    """Find what late ranks of a run did that others did not, and the transfer time of collectives.

    ``gathered`` is all activity of the ranks; ``corrected`` says whether their clocks were.
    """
    columns = ", ".join(
        f"{name if name in PER[per] else 'NULL'}::{type_} AS {name}"
        for name, type_ in _TYPES.items()
    )
    with _compared(connect, gathered, run, steps=steps, corrected=corrected) as connection:
        return pl.DataFrame(select(connection, _SUMS.format(columns=columns)).to_arrow_table())


def slices(
    connect: Connect,
    gathered: JobWindow,
    run: str | None,
    *,
    steps: Steps,
    corrected: bool,
) -> pl.DataFrame:
    """One slice per late arrival at a collective: since when the rank was late, and why.

    One row per rank and collective, by the clock of the rank. ``cost_ns`` is its length, and the
    sum of the causes; ``cause name op module`` describe what costs most there.
    """
    with _compared(connect, gathered, run, steps=steps, corrected=corrected) as connection:
        return pl.DataFrame(select(connection, _SLICES).to_arrow_table())


@contextmanager
def _compared(
    connect: Connect,
    gathered: JobWindow,
    run: str | None,
    *,
    steps: Steps,
    corrected: bool,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Register the two paths of each pair on a connection, as `blamed` reads them."""
    with connect(None) as connection:
        prepare(connection, Answer("blame", f"{_WAITS} {_PAIRS} {_BLAMED}"), {})
        connection.execute("SET VARIABLE blame_corrected = ?::BOOLEAN", [corrected])
        connection.execute("SET VARIABLE blame_steps = ?::BIGINT[]", [steps])
        connection.register("_matches", gathered.matches)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE _waits AS {_WAITS}")
        pairs = _columns(connection, _PAIRS)
        late = np.unique(np.append(pairs["rank"], pairs["before_rank"])).tolist()
        waits = _columns(connection, _MEMBERS)
        walks, stretches = _walks(pairs, late, gathered, waits)
        connection.register("_pairs", _of_run(run, walks))
        connection.register("_stretches", _of_run(run, stretches))
        yield connection
        for table in ("_pairs", "_stretches", "_matches"):
            connection.unregister(table)
        connection.execute("DROP TABLE _waits")


def _walks(
    pairs: _Columns, late: Sequence[int], gathered: JobWindow, waits: _Columns
) -> tuple[dict[str, Ints | Mask], dict[str, pa.Array]]:
    """The pairs with the numbers of their walks, and the segments of all walks."""
    sides = _sides(pairs, gathered)
    numbered = {name: np.zeros(pairs["rank"].size, np.int64) for name in sides}
    parts: list[dict[str, pa.Array]] = []
    count = 0
    for rank in late:
        of_rank = [(name, side, side["rank"] == rank) for name, side in sides.items()]
        keys = np.concatenate(
            [
                np.stack([side[column][is_own] for column in ("event_id", "moment", "since")], 1)
                for _, side, is_own in of_rank
            ]
        )
        # Several pairs may share a side: each path is walked once.
        walks, number = np.unique(keys, axis=0, return_inverse=True)
        bounds = np.cumsum([is_own.sum() for _, _, is_own in of_rank])[:-1]
        for (name, _, is_own), own in zip(of_rank, np.split(number, bounds), strict=True):
            numbered[name][is_own] = count + own
        parts.append(_stretches(gathered, rank, walks, waits, count))
        count += walks.shape[0]
    together = {
        name: pa.chunked_array([part[name] for part in parts], type_)
        for name, type_ in _STRETCHES.items()
    }
    of_pairs = {name: pairs[name] for name in _OF_PAIRS}
    for name, side in (("since_ns", "walk"), ("before_since_ns", "before_walk")):
        ahead = _ahead(gathered, sides[side]["rank"])
        of_pairs[name] = sides[side]["since"] + ahead + gathered.start_ns
    # Most of a lateness may be counted at an earlier collective, which it was late to as well: 1 ms
    # in a forward pass was 1.5 to 2.8 ms before delays counted once.
    is_new = 2 * pairs["behind_ns"] >= pairs["came_ns"] - pairs["before_came_ns"]
    late_walks = sides["walk"] | {"behind": pairs["behind_ns"]}
    return of_pairs | numbered | {"counts_later": _counts_later(late_walks, is_new)}, together


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


def _stretches(
    gathered: JobWindow, rank: int, walks: Ints, waits: _Columns, first: int
) -> dict[str, pa.Array]:
    """Critical paths of a rank before each of some events, back to a moment."""
    place = gathered.ranks.index(rank)
    ahead = gathered.meetings.ahead[place]
    is_own = waits["rank"] == rank
    events = waits["event_id"][is_own]
    path, walk = before(gathered.graphs[place], *walks.T)
    member = last_equal(events, np.flatnonzero(is_own), path.event)
    member[(path.edge != WORK) & (path.edge != SLICE)] = NONE
    until = np.append(waits["until_ns"] - gathered.start_ns - ahead, UNSET)[member]
    cut = np.clip(until, path.start, path.end)
    is_member = member >= 0
    waited, done = cut > path.start, path.end > cut
    last_rank = np.append(waits["last_rank"], NONE)[member]
    bounds = np.array([*BOUNDS_OF_EDGES.values()], np.object_)[path.edge]
    bounds[is_member] = "communication"
    columns = {
        "walk": walk + first,
        "rank": np.full(walk.size, rank),
        "event_id": path.event,
        "edge": np.array(EDGES, np.object_)[path.edge],
        "bound": bounds,
    }
    both = {name: np.append(values[waited], values[done]) for name, values in columns.items()}
    is_wait = np.arange(waited.sum() + done.sum()) < waited.sum()
    both["waits_for_rank"] = np.where(is_wait, np.append(last_rank[waited], last_rank[done]), NONE)
    both["is_wait"] = is_wait
    both["dur_ns"] = np.append((cut - path.start)[waited], (path.end - cut)[done])
    return {
        name: pa.array(both[name], type_, mask=both[name] == NONE if name in _OPTIONAL else None)
        for name, type_ in _STRETCHES.items()
    }


def _columns(connection: duckdb.DuckDBPyConnection, sql: str) -> _Columns:
    table: pa.Table = select(connection, sql).to_arrow_table()
    return {name: numbers(table, name, missing=UNSET) for name in table.column_names}


def _of_run(run: str | None, columns: Mapping[str, Ints | Mask | pa.Array]) -> pa.Table:
    size = len(next(iter(columns.values())))
    return pa.table({"run": pa.array([run] * size, pa.string()), **columns})


_OF_PAIRS: Final = (
    "match", "rank", "event_id", "held_up_ns", "behind_ns", "came_ns", "before_came_ns",
    "before_rank", "start_ns", "before_start_ns",
)  # fmt: skip
_OPTIONAL: Final = ("event_id", "waits_for_rank")
_STRETCHES: Final = {
    "walk": pa.int64(),
    "rank": pa.int32(),
    "event_id": pa.int64(),
    "edge": pa.string(),
    "bound": pa.string(),
    "waits_for_rank": pa.int32(),
    "is_wait": pa.bool_(),
    "dur_ns": pa.int64(),
}
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
    SELECT rank, event_id, start_ns + wait_ns AS until_ns, last_rank FROM _waits
    ORDER BY rank, event_id
"""
_PAIRS: Final = """
    SELECT * EXCLUDE (run) FROM late_pairs(_waits)
    WHERE getvariable('blame_steps') IS NULL OR list_contains(getvariable('blame_steps'), step)
    ORDER BY match, rank
"""
_BLAMED: Final = "blamed()"
_SUMS: Final = """
    WITH wanted AS (
        FROM _waits
        WHERE getvariable('blame_steps') IS NULL OR list_contains(getvariable('blame_steps'), step)
    ),
    steps AS (
        SELECT count(DISTINCT step) AS steps
        FROM profiler_steps
        WHERE lack IS NULL AND step_ns > 0
            AND (
                getvariable('blame_steps') IS NULL
                OR list_contains(getvariable('blame_steps'), step)
            )
    ),
    sums AS (
        SELECT run, part, {columns}, sum(cost_ns)::BIGINT AS cost_ns,
            sum(held_up_ns)::BIGINT AS held_up_ns, bool_and(is_corrected) AS is_corrected
        FROM blamed(events, 'wanted', '_pairs', '_stretches') AS blamed
        JOIN (SELECT DISTINCT match, is_corrected FROM wanted) AS clocks USING (match)
        GROUP BY ALL
        HAVING sum(cost_ns) <> 0 OR sum(held_up_ns) <> 0
    )
    SELECT
        run, rank, part, cause, name, op, module, waits_for_rank, cost_ns, held_up_ns, steps,
        cost_ns / greatest(steps, 1) AS cost_per_step_ns,
        cost_ns / sum(cost_ns) OVER (PARTITION BY part) AS part_share, is_corrected
    FROM sums, steps
    ORDER BY part, cause IS NOT DISTINCT FROM 'wait', cost_ns DESC, rank, cause, name, op, module,
        waits_for_rank
"""
CAUSES: Final = ("host", "input", "launch", "compute", "copy", "communication", "wait")
_SLICES: Final = f"""
    WITH wanted AS (
        FROM _waits
        WHERE getvariable('blame_steps') IS NULL OR list_contains(getvariable('blame_steps'), step)
    ),
    costs AS (
        FROM blamed(events, 'wanted', '_pairs', '_stretches') WHERE part = 'entry'
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
        sums.run, sums.rank, wanted.kind, wanted.step, wanted.start_ns - sums.cost_ns AS start_ns,
        sums.cost_ns AS dur_ns, sums.cost_ns, sums.held_up_ns, most.cause AS cause,
        most.name AS name, most.op AS op, most.module AS module,
        most.waits_for_rank AS waits_for_rank, most.cost_ns AS largest_cost_ns,
        {", ".join(f"sums.{cause}_ns" for cause in CAUSES)}
    FROM sums
    JOIN wanted ON sums.run = wanted.run AND sums.rank = wanted.rank AND sums.match = wanted.match
    ORDER BY sums.rank, start_ns, sums.match
"""  # noqa: S608 - of constants
