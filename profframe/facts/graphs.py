"""The position of device slices in the replay of a graph, and their layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profframe import schema
from profframe.facts.arrays import column, is_kind, nulls, numbers, words
from profframe.facts.fact import Note, Output, Tables, any_of, columns, fact, of_events
from profframe.facts.graph_captures.recorded_captures import REPLAY, is_call
from profframe.facts.repeats import repeated_blocks
from profframe.intervals import Ints, Mask

_POSITIONS: Final = ("graph_position", "graph_block", "graph_layer")


@fact(
    inputs=columns(events="kind name start_ns stream launch_id graph_id"),
    outputs=columns(events=" ".join(_POSITIONS)),
    needs=any_of(kinds=schema.LAUNCH_KINDS),
)
def graphs(tables: Tables) -> Output:
    """Add ``graph_position``, ``graph_block`` and ``graph_layer``.

    A replay is what one call launched whose name has ``GraphLaunch`` in it. Its position is its
    place by start. Layers are the blocks of names that repeat on the stream of the replay with the
    most slices; what runs on another stream is in the layer whose slice started last before it.
    Replays with less work than most others of their graph are noted.
    """
    events = tables["events"]
    codes, _ = words(events, "name")
    is_launch = is_call(events, REPLAY)
    if not is_launch.any():
        return of_events(**{name: nulls(events, name) for name in _POSITIONS})
    launch = numbers(events, "launch_id", missing=-1)
    is_member = is_kind(events, schema.DEVICE_KINDS) & (launch >= 0)
    rows = np.flatnonzero(is_member)
    rows = rows[is_launch[launch[rows]]]
    position, block, layer = (np.full(events.num_rows, -1, np.int64) for _ in range(3))
    if rows.size:
        start = numbers(events, "start_ns")
        rows = rows[_order(launch[rows], start[rows])]
        is_first = np.append(True, np.diff(launch[rows]) > 0)
        first, replay = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        position[rows] = np.arange(rows.size) - first[replay]
        stream = numbers(events, "stream", missing=-1)[rows]
        block[rows], layer[rows] = _layers(replay, codes[rows], stream)
    arrays = dict(zip(_POSITIONS, (position, block, layer), strict=True))
    made = {name: column(name, values, values >= 0) for name, values in arrays.items()}
    graph = numbers(events, "graph_id", missing=-1)[rows]
    return of_events(*_in_part(launch[rows[graph >= 0]], graph[graph >= 0]), **made)


def _in_part(launch: Ints, graph: Ints) -> Iterator[Note]:
    """Launches with less work than at least half of those of their graph."""
    pairs, counts = np.unique(np.stack([graph, launch]), axis=1, return_counts=True)
    _, first, launches = np.unique(pairs[0], return_index=True, return_counts=True)
    by_count = counts[np.lexsort((counts, pairs[0]))]
    # The upper median: of two launches the smaller one has lost work.
    usual = np.repeat(by_count[first + launches // 2], launches)
    less = np.flatnonzero(counts < usual)
    if less.size:
        missing = int((usual - counts)[less].sum())
        detail = f"{less.size:,} of {counts.size:,}, {missing:,} missing in all"
        yield "graph_launch_in_part", less.size, detail, int(pairs[1][less[0]])


def _order(launch: Ints, start: Ints) -> Ints:
    """Order by launch, then start; most traces have it already."""
    step = np.diff(launch)
    if ((step > 0) | ((step == 0) & (np.diff(start) >= 0))).all():
        return np.arange(launch.size)
    return np.lexsort((start, launch))


def _layers(replay: Ints, codes: Ints, stream: Ints) -> tuple[Ints, Ints]:
    """Block and layer of each member of the replays, which are in their order."""
    block, layer = (np.full(replay.size, -1, np.int64) for _ in range(2))
    # Work of other streams may fall anywhere between that of the main one, which would hide what
    # repeats.
    is_main = _is_on_main_stream(replay, stream)
    main = np.flatnonzero(is_main)
    same = _like(replay[main], codes[main] + 1)
    is_first = same == replay[main]
    # A server replays few graphs thousands of times: blocks are searched once per sequence of
    # names.
    blocks = repeated_blocks(replay[main][is_first], codes[main][is_first] + 1)
    # A replay with the same names is like the first of them, member by member.
    begin = np.flatnonzero(np.append(True, np.diff(replay[main]) > 0))
    in_first = begin[same] + np.arange(main.size) - begin[replay[main]]
    model = (np.cumsum(is_first) - 1)[in_first]
    block[main], layer[main] = blocks.block[model], blocks.layer[model]
    last = np.maximum.accumulate(np.where(is_main, np.arange(replay.size), -1))
    before = np.where((last >= 0) & (replay[last] == replay), last, -1)
    block, layer = np.append(block, -1), np.append(layer, -1)
    return block[before], layer[before]


def _is_on_main_stream(replay: Ints, stream: Ints) -> Mask:
    """Members on the stream of their replay that has the most of them; the first on a tie."""
    streams, which = np.unique(stream, return_inverse=True)
    if streams.size == 1:
        return np.ones(replay.size, np.bool_)
    pairs, of, counts = np.unique(
        replay * streams.size + which.reshape(-1), return_inverse=True, return_counts=True
    )
    of_pair = pairs // streams.size
    order = np.lexsort((pairs, -counts, of_pair))
    is_main = np.zeros(pairs.size, np.bool_)
    is_main[order[np.append(True, np.diff(of_pair[order]) > 0)]] = True
    mask: Mask = is_main[of.reshape(-1)]
    return mask


def _like(replay: Ints, codes: Ints) -> Ints:
    """For each member, the first replay with the same names in the same order."""
    first = np.flatnonzero(np.append(True, np.diff(replay) > 0))
    lengths = np.diff([*first, replay.size])
    place = (np.arange(replay.size) - np.repeat(first, lengths)).astype(np.uint64)
    # Sums of well mixed numbers differ, but are compared below all the same.
    mixed = (codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ (place << np.uint64(32))
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9) + (place << np.uint64(1))
    mixed ^= mixed >> np.uint64(32)
    sums = np.add.reduceat(mixed, first)
    keys = np.stack((sums, lengths.astype(np.uint64)))
    _, earliest, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    model = earliest[which.reshape(-1)]
    twin = np.repeat(first[model], lengths) + place.astype(np.int64)
    is_equal = np.logical_and.reduceat(codes == codes[twin], first)
    model = np.where(is_equal, model, np.arange(first.size))
    return np.repeat(replay[first][model], lengths)
