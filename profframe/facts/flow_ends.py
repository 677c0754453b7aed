"""The slice that each end of an arrow is bound to."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.facts.arrays import (
    flags,
    ids,
    is_text,
    last_equal,
    numbers,
    present,
    source_order,
)
from profframe.facts.fact import Output, Tables, any_of, columns, fact
from profframe.facts.kinds import FORWARD_ARROWS, GRAPH_DEPENDENCIES
from profframe.intervals import Ints, stab

ARROW_COLUMNS: Final = columns(
    flows="category flow_id name phase thread time_ns", events="thread start_ns dur_ns ev_idx"
)
"""Columns for following arrows."""


def arrows(flows: pa.Table, category: str) -> tuple[pa.Table, pa.Table]:
    """Rows of ``flows`` where the arrows of a category start, and those where they end, in pairs.

    Arrows without a start or an end are left out; of several with one id, only one counts.
    """
    flows = flows.select(["category", "flow_id", "name", "time_ns", "thread", "phase"])
    flows = flows.take(np.flatnonzero(is_text(flows["category"], category)))
    identity = pc.fill_null(flows["flow_id"].combine_chunks().dictionary_encode().indices, -1)
    number: Ints = identity.to_numpy().astype(np.int64)
    valid = present(flows, "time_ns") & (number >= 0)
    tails = np.flatnonzero(valid & is_text(flows["phase"], "s"))
    heads = np.flatnonzero(valid & is_text(flows["phase"], "f"))
    _, at_tail, at_head = np.intersect1d(number[tails], number[heads], return_indices=True)
    return flows.take(tails[at_tail]), flows.take(heads[at_head])


def starting_at(events: pa.Table, rows: Ints, marks: pa.Table) -> Ints:
    """For each mark the one of these rows that starts there, or -1.

    If there are several, it is the outermost, as sources bind their arrows.
    """
    if not rows.size or not marks.num_rows:
        return np.full(marks.num_rows, -1, np.int64)
    thread, start = numbers(events, "thread"), numbers(events, "start_ns")
    # Few slices start where a mark is: only these are sorted.
    moments, mark_moment = np.unique(numbers(marks, "time_ns"), return_inverse=True)
    moment = np.minimum(np.searchsorted(moments, start[rows]), moments.size - 1)
    starts = moments[moment] == start[rows]
    rows, moment = rows[starts], moment[starts]
    # `last_equal` takes the last of equal keys: the longest slice, or of equal ones the first in
    # the source.
    order = np.lexsort((-source_order(events)[rows], numbers(events, "dur_ns")[rows]))
    rows, moment = rows[order], moment[order]
    mark_key = numbers(marks, "thread") * moments.size + mark_moment
    return last_equal(thread[rows] * moments.size + moment, rows, mark_key)


_MARKS: Final = ["thread", "time_ns"]
_MOST_DIGITS: Final = 18
_PIECE: Final = 1 << 17
"""Arrows that are looked at together."""
_FACTORS: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


@fact(
    inputs=ARROW_COLUMNS
    | columns(
        flows="event_id binding_point",
        events="is_async correlation sequence_nr graph_id graph_node_id",
    ),
    outputs=columns(flows="event_id"),
    needs=any_of(flows="time_ns"),
)
def flow_ends(tables: Tables) -> Output:
    """Fill ``event_id`` of flows, unless a slice names the arrow itself.

    The format binds a start and a step to the innermost slice around it, both ends included, and an
    end to the next slice of its thread, or to the one around it if the arrow says so. With times in
    whole microseconds, several slices start at once: then an arrow whose id is the correlation of a
    slice is bound to that slice, and one to a backward op to the outermost op with a sequence
    number. An arrow between graph nodes leads from the end of one to the start of the other.
    """
    flows, events = tables["flows"], tables["events"]
    bound = numbers(flows, "event_id", missing=-1).copy()
    timed = present(flows, "time_ns") & (bound < 0)
    if not timed.any():
        return Output({"flows.event_id": ids(bound)})
    on_stack = present(events, "start_ns", "dur_ns") & ~flags(events, "is_async")
    slices = np.flatnonzero(on_stack)

    forward = np.flatnonzero(timed & is_text(flows["category"], FORWARD_ARROWS))
    if forward.size:
        ops = np.flatnonzero(on_stack & present(events, "sequence_nr"))
        # The innermost slice may be a Python frame or a nested op; autograd's arrows are of
        # numbered ops.
        bound[forward] = starting_at(events, ops, flows.select(_MARKS).take(forward))
    between_nodes = np.flatnonzero(timed & is_text(flows["category"], GRAPH_DEPENDENCIES))
    nodes = np.flatnonzero(on_stack & present(events, "graph_node_id"))
    if between_nodes.size:
        bound[between_nodes] = _graph_node_ends(events, nodes, flows, between_nodes)
    others = np.flatnonzero(timed & (bound < 0))
    bound[others] = _of_correlation(events, slices, flows, others)

    rest = timed & (bound < 0)
    goes_on = is_text(flows["phase"], "f") & ~is_text(flows["binding_point"], "e")
    for rows, bind in ((rest & ~goes_on, _around), (rest & goes_on, _next)):
        chosen = np.flatnonzero(rows)
        if chosen.size and slices.size:
            thread, at = (numbers(flows, name)[chosen] for name in _MARKS)
            bound[chosen] = bind(events, slices, thread, at)
    return Output({"flows.event_id": ids(bound)})


def _graph_node_ends(events: pa.Table, nodes: Ints, flows: pa.Table, rows: Ints) -> Ints:
    """The graph node that ends where an arrow between nodes starts, or starts where it ends.

    Times in microseconds are rounded separately, so the end of a node may be a nanosecond off that
    of its arrow. If several nodes of a line end or start at once, the other end of the arrow
    decides: both ends are in one replay.
    """
    bound = np.full(rows.size, -1, np.int64)
    place_of_mark = np.full(rows.size, -1, np.int64)
    thread, at = (numbers(flows, name)[rows] for name in _MARKS)
    line, start = numbers(events, "thread")[nodes], numbers(events, "start_ns")[nodes]
    leaves = is_text(flows["phase"], "s")[rows]
    places = []
    for is_end, moments in ((leaves, start + numbers(events, "dur_ns")[nodes]), (~leaves, start)):
        distinct = np.unique(moments)
        keys = line * distinct.size + np.searchsorted(distinct, moments)
        places.append(keys)
        for beside in (0, 1, -1):
            pending = np.flatnonzero(is_end & (bound < 0))
            moment = at[pending] + beside
            place = np.searchsorted(distinct, moment)
            is_there = np.append(distinct, -1)[place] == moment
            searched = np.where(is_there, thread[pending] * distinct.size + place, -1)
            bound[pending] = last_equal(keys, nodes, searched)
            place_of_mark[pending] = searched
    marks = pl.DataFrame(
        {"row": np.arange(rows.size), "place": place_of_mark, "id": _codes(flows, rows)}
    ).filter(bound >= 0)
    both = marks.filter(leaves[bound >= 0]).join(
        marks.filter(~leaves[bound >= 0]), on="id", suffix="_to"
    )
    chosen = _pairs(events, nodes, places, both)
    for end in ("", "_to"):
        bound[chosen[f"row{end}"].to_numpy()] = chosen[f"node{end}"].to_numpy()
    return bound


def _codes(flows: pa.Table, rows: Ints) -> Ints:
    """A number for the id of each arrow; -1 for none."""
    encoded = flows["flow_id"].take(rows).combine_chunks().dictionary_encode()
    codes: Ints = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    return codes


def _pairs(events: pa.Table, nodes: Ints, places: list[Ints], arrows: pl.DataFrame) -> pl.DataFrame:
    """The nodes of arrows with an end at several nodes.

    Arrows between the same places have as many pairs of nodes, or fewer: one pair each, in the
    order of the nodes in their graph.
    """
    of_graph = ("correlation", "graph_id", "graph_node_id")
    own = pl.DataFrame({"node": nodes, **{n: numbers(events, n)[nodes] for n in of_graph}})
    tails, heads = (own.with_columns(place=pl.Series(keys)) for keys in places)
    several = [t.filter(pl.col("place").is_duplicated()).select("place") for t in (tails, heads)]
    doubtful = arrows.filter(
        pl.col("place").is_in(several[0]["place"].unique().implode())
        | pl.col("place_to").is_in(several[1]["place"].unique().implode())
    )
    if not doubtful.height:
        return doubtful.with_columns(node=pl.lit(0), node_to=pl.lit(0))
    between = ["place", "place_to"]
    doubtful = doubtful.sort("row").with_columns(nth=pl.int_range(pl.len()).over(between))
    wanted = doubtful.select(between).unique()
    is_backward = pl.col("graph_node_id") > pl.col("graph_node_id_to")
    pairs = (
        wanted.join(tails, on="place")
        .join(heads, left_on="place_to", right_on="place", suffix="_to")
        .filter(
            pl.col("node") != pl.col("node_to"),
            *(pl.col(name) == pl.col(f"{name}_to") for name in ("correlation", "graph_id")),
        )
        .sort(is_backward, "correlation", "graph_node_id_to", "graph_node_id")
        .with_columns(nth=pl.int_range(pl.len()).over(between))
    )
    return doubtful.join(pairs, on=[*between, "nth"])


def _around(events: pa.Table, slices: Ints, thread: Ints, at: Ints) -> Ints:
    """The innermost slice around each moment."""
    start = numbers(events, "start_ns")[slices]
    end = start + numbers(events, "dur_ns")[slices]
    place = stab(numbers(events, "thread")[slices], start, end, thread, at)
    return np.where(place >= 0, slices[place], -1)


def _next(events: pa.Table, slices: Ints, thread: Ints, at: Ints) -> Ints:
    """The slice of a thread that starts at a moment or next; the outermost of several."""
    start, dur = (numbers(events, name)[slices] for name in ("start_ns", "dur_ns"))
    line = numbers(events, "thread")[slices]
    order = np.lexsort((source_order(events)[slices], -dur, start, line))
    slices, line, start = slices[order], line[order], start[order]
    moments = np.unique(np.concatenate([start, at]))
    keys = line * moments.size + np.searchsorted(moments, start)
    place = np.searchsorted(keys, thread * moments.size + np.searchsorted(moments, at))
    row = np.minimum(place, slices.size - 1)
    return np.where((place < slices.size) & (line[row] == thread), slices[row], -1)


def _of_correlation(events: pa.Table, slices: Ints, flows: pa.Table, rows: Ints) -> Ints:
    """The slice that starts where an arrow starts or ends, and has its id as correlation."""
    slices = slices[numbers(events, "correlation")[slices] != 0]
    if not slices.size:
        return np.full(rows.size, -1, np.int64)
    key = ("correlation", "thread", "start_ns")
    own = [numbers(events, name) for name in key]
    thread, at = (numbers(flows, name) for name in _MARKS)
    number, searched = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
    # Of a million arrows all texts and numbers at once would be a tenth of the trace.
    pieces = [slice(first, first + _PIECE) for first in range(0, rows.size, _PIECE)]
    for piece in pieces:
        number[piece] = _numbers_of(flows["flow_id"].take(rows[piece]))
        searched[piece] = _mixed([number[piece], thread[rows[piece]], at[rows[piece]]])
    bound = last_equal(_mixed([values[slices] for values in own]), slices, searched)
    for piece in pieces:
        # Equal hashes are not equal keys.
        row = bound[piece]
        agrees = (row >= 0) & (number[piece] != 0)
        theirs = (number[piece], thread[rows[piece]], at[rows[piece]])
        for mine, sought in zip(own, theirs, strict=True):
            agrees &= mine[row] == sought
        bound[piece] = np.where(agrees, row, -1)
    return bound


def _numbers_of(texts: pa.ChunkedArray) -> Ints:
    """Ids that are numbers; 0 for others."""
    is_short = pc.less_equal(pc.binary_length(texts), _MOST_DIGITS)
    is_number = pc.fill_null(pc.and_(pc.ascii_is_decimal(texts), is_short), False)
    numbers_: Ints = pc.if_else(is_number, texts, "0").cast(pa.int64()).to_numpy()
    return numbers_


def _mixed(parts: list[Ints]) -> Ints:
    """Hash the parts of each row."""
    unsigned = (
        part.astype(np.uint64) * factor for part, factor in zip(parts, _FACTORS, strict=True)
    )
    total = np.zeros(parts[0].size, np.uint64)
    for values in unsigned:
        total ^= values ^ (values >> np.uint64(29))
    return total.view(np.int64)
