"""Pair begin and end events into slices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import parsing_database
from profframe.readers.build.row_tables import Quality, codes, replaced
from profframe.readers.json.numerals import marked, unmarked

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LOCAL_ID: Final = "local:"
"""Beginning of the id of an operation that is known only in its process."""
_PAIRED: Final = frozenset("BEbeSF")

_JOINED_ARGS: Final = r"""
    SELECT CASE WHEN coalesce(first, '{}') = '{}' OR first = last THEN last
                WHEN first[1] = '{' AND last = '{}' THEN first
                WHEN first[1] = '{' AND last[1] = '{' THEN first[:-2] || ',' || last[2:]
                ELSE '[' || first || ',' || last || ']' END AS args
    FROM (
        SELECT first, CASE WHEN NOT repeats THEN last
            ELSE '{' || array_to_string(list_transform(
                list_filter(json_keys(last), lambda k: NOT (
                    regexp_full_match(k, '\w+')
                    AND coalesce(
                        json_extract(first, '$.' || k) = json_extract(last, '$.' || k), false))),
                lambda k:
                    to_json(k)::VARCHAR || ':' || json_extract(last, '$."' || k || '"')::VARCHAR
            ), ',') || '}' END AS last
        FROM (
            SELECT first, last, coalesce(
                first[1] = '{' AND last[1] = '{' AND json_valid(first) AND json_valid(last)
                AND list_has_any(
                    list_filter(json_keys(first), lambda k: regexp_full_match(k, '\w+')),
                    json_keys(last))
                AND NOT list_contains(
                    list_transform(json_keys(last), lambda k: contains(k, '"')), true),
                false) AS repeats
            FROM both_args))"""
"""Members of the end come after those of the begin; one that says the same is not repeated."""
_UNMARKED_ARGS: Final = f"SELECT {unmarked('args')} AS args FROM ({_JOINED_ARGS})"  # noqa: S608


def pair(
    rows: pa.Table,
    quality: Quality,
    *,
    in_order: bool = False,
) -> tuple[pa.Table, pa.Table]:
    """Slices, and the end events without a begin event.

    A begin event gets the duration up to its end event, and that event's arguments after its own.
    One without an end stays, without a duration. An end closes the last open begin of its name on
    its thread, or in its asynchronous operation; an end without a name, or with one that nothing
    before it there has, closes the last open begin of any name. Where ends may have the order of
    their begins, runs of both are matched first (`match_runs`).
    """
    phase = rows["phase"]
    if not _PAIRED & set(phase.chunk(0).dictionary.to_pylist()):
        return rows, rows.slice(0, 0) if isinstance(rows, pa.Table) else rows.schema.empty_table()
    on_stack = _pairs_of_stacks(rows, in_order=in_order)
    apart = _pairs_of_operations(rows)
    begins, ends = on_stack.is_begin | apart.is_begin, on_stack.is_end | apart.is_end
    event_id = np.cumsum(~ends) - 1
    lone_end = _note_lone(on_stack, event_id, quality) | _note_lone(
        apart, event_id, quality, "asynchronous"
    )
    _note_other_names(rows, on_stack, event_id, quality)
    begin = np.concatenate([on_stack.begin, apart.begin])
    end = np.concatenate([on_stack.end, apart.end])
    time, duration = _ints(rows["start_ns"]), _ints(rows["dur_ns"])
    has_duration = pc.is_valid(rows["dur_ns"]).to_numpy() & ~begins
    duration[begin] = time[end] - time[begin]
    has_duration[begin] = True
    lone = rows.take(np.flatnonzero(lone_end))
    last = rows.select(["args"]).take(end)["args"]
    says = pc.fill_null(pc.not_equal(last, "{}"), fill_value=False)
    if pc.any(says).as_py():  # few have one, so the arguments of all rows are seldom looked at
        args = _with_end_args(rows["args"], begin[says.to_numpy()], last.filter(says))
        rows = replaced(rows, "args", args)
    rows = replaced(rows, "dur_ns", pa.array(duration, mask=~has_duration))
    return rows.filter(pa.array(~ends)), lone


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Begin and end events that are paired in one way, and which belong together."""

    is_begin: Flags
    is_end: Flags
    begin: Ints
    end: Ints


def _pairs_of_stacks(rows: pa.Table, *, in_order: bool = False) -> _Pairs:
    """Events of threads: an end closes the last open begin of its thread, or of its name there."""
    is_begin, is_end = _is_phase(rows, "B"), _is_phase(rows, "E")
    has_time = pc.is_valid(rows["start_ns"]).to_numpy()
    thread, time = rows["thread"].to_numpy(), _ints(rows["start_ns"])
    first = last = np.empty(0, np.int64)
    begins, ends = is_begin & has_time, is_end & has_time
    if in_order:
        first, last = match_runs(thread, time, begins, ends)
        begins[first] = ends[last] = False
    begin, end = match_begin_end(thread, time, begins, ends)
    name = _own_names(_names(rows)[0], thread, time, begins, ends)
    crossed = (name[end] > 0) & (name[begin] != name[end])
    if crossed.any():
        again = np.isin(thread, thread[end[crossed]])
        is_whole = ~again[end]
        named = match_named(thread, time, begins & again, ends & again, name)
        begin = np.concatenate([begin[is_whole], named[0]])
        end = np.concatenate([end[is_whole], named[1]])
    return _Pairs(is_begin, is_end, np.concatenate([first, begin]), np.concatenate([last, end]))


def _pairs_of_operations(rows: pa.Table) -> _Pairs:
    """Events of asynchronous operations, whatever threads they are on."""
    is_old_begin = _is_phase(rows, "S")
    is_begin = _is_phase(rows, "b") | is_old_begin
    is_end = _is_phase(rows, "e", "F")
    has_time = pc.is_valid(rows["start_ns"]).to_numpy()
    chosen = np.flatnonzero((is_begin | is_end) & has_time)
    if not chosen.size:
        return _Pairs(is_begin, is_end, chosen, chosen)
    time = _ints(rows["start_ns"])[chosen]
    is_old = (is_old_begin | _is_phase(rows, "F"))[chosen]
    operation = _operations(rows, chosen, is_old)
    names, texts = _names(rows)
    name = names[chosen]
    begins, ends = is_begin[chosen], is_end[chosen]
    named = np.unique(operation * len(texts) + name, return_inverse=True)[1]
    begin, end = match_begin_end(named.astype(np.int64), time, begins, ends & (name > 0))
    open_ = begins.copy()
    open_[begin] = False
    rest = match_begin_end(operation, time, open_, ends & (name == 0))
    begin, end = np.concatenate([begin, rest[0]]), np.concatenate([end, rest[1]])
    return _Pairs(is_begin, is_end, chosen[begin], chosen[end])


def _operations(rows: pa.Table, chosen: Ints, is_old: Flags) -> Ints:
    """Numbers of the operations of these rows: by category and id, local ids by process, too."""
    columns = rows.select(["async_id", "category", "pid"]).take(chosen)
    id_ = columns["async_id"].combine_chunks().dictionary_encode()
    category, categories = codes(columns["category"].unify_dictionaries())
    process, processes = codes(columns["pid"].unify_dictionaries())
    is_local = np.array(
        [*(text.startswith(LOCAL_ID) for text in id_.dictionary.to_pylist()), False], np.bool_
    )
    number = pc.fill_null(id_.indices, -1).to_numpy().astype(np.int64)
    key = (number + 1) * len(categories) + category
    key = key * len(processes) + np.where(is_local[number], process, 0)
    return np.unique(key * 2 + is_old, return_inverse=True)[1].astype(np.int64)


def _names(rows: pa.Table) -> tuple[Ints, list[str | None]]:
    """Codes of names and their texts; 0 means no name, which may be an empty text."""
    names, texts = codes(rows["name"])
    return np.where(np.array([not text for text in texts], np.bool_)[names], 0, names), texts


def _own_names(name: Ints, thread: Ints, time: Ints, begins: Flags, ends: Flags) -> Ints:
    """Names of rows; an end whose name no begin before it on its thread has is without one."""
    code = np.unique(thread, return_inverse=True)[1].astype(np.int64)
    _, key = np.unique(code * (int(name.max(initial=0)) + 1) + name, return_inverse=True)
    first = np.full(int(key.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, key[begins], time[begins])
    return np.where(ends & (first[key] > time), 0, name)


def _is_phase(rows: pa.Table, *phases: str) -> Flags:
    flags: Flags = pc.is_in(rows["phase"], value_set=pa.array(phases, pa.string())).to_numpy()
    return flags


def _note_lone(pairs: _Pairs, event_id: Ints, quality: Quality, detail: str | None = None) -> Flags:
    """Mask of ends without a begin event; these, and begins without an end, are noted."""
    lone_begin, lone_end = pairs.is_begin.copy(), pairs.is_end.copy()
    lone_begin[pairs.begin] = lone_end[pairs.end] = False
    if count := int(lone_begin.sum()):
        quality.note("unmatched_begin", count, detail, int(event_id[np.argmax(lone_begin)]))
    if count := int(lone_end.sum()):
        quality.note("unmatched_end", count, detail)
    return lone_end


def _note_other_names(rows: pa.Table, pairs: _Pairs, event_id: Ints, quality: Quality) -> None:
    """Count ends that name a different slice than the one that they close."""
    names, texts = _names(rows)
    first, last = names[pairs.begin], names[pairs.end]
    differ = np.flatnonzero((first != last) & (last > 0))
    if differ.size:
        place = differ[np.argmin(pairs.begin[differ])]
        detail = f"first {texts[first[place]]!r}, which {texts[last[place]]!r} closes"
        example = int(event_id[pairs.begin[place]])
        quality.note("end_of_another_name", differ.size, detail, example)


def match_begin_end(
    thread: npt.NDArray[np.integer], time: Ints, is_begin: Flags, is_end: Flags
) -> tuple[Ints, Ints]:
    """Row numbers of matching begin and end events, in the order of the ends.

    An end closes the last open begin of its thread; events at one time keep their order.

    Examples
    --------
    >>> begins = np.array([True, True, False, False])
    >>> match_begin_end(np.zeros(4, np.int32), np.array([0, 5, 8, 9]), begins, ~begins)
    (array([1, 0]), array([2, 3]))
    """
    rows = np.flatnonzero(is_begin | is_end)
    order = rows[np.lexsort((rows, time[rows], thread[rows]))]
    step = np.where(is_begin[order], 1, -1)
    group = np.cumsum(np.diff(thread[order], prepend=thread[order[:1]]) != 0)
    # An end with nothing open takes the level below all before it: those set the floor.
    level = _within_groups(np.cumsum(step), step, group)
    floor = np.minimum(_running_minimum(level, group), 0)
    before = np.where(_is_first(group), 0, np.roll(floor, 1))
    is_lone = (step < 0) & (level < before)
    depth = level - floor + (step < 0)
    paired = np.flatnonzero(~is_lone)
    paired = paired[np.lexsort((paired, depth[paired], group[paired]))]
    first, second = paired[:-1], paired[1:]
    matches = (
        (step[first] > 0)
        & (step[second] < 0)
        & (group[first] == group[second])
        & (depth[first] == depth[second])
    )
    begin, end = first[matches], second[matches]
    by_end = np.argsort(end)
    return order[begin[by_end]], order[end[by_end]]


def match_named(
    thread: npt.NDArray[np.integer], time: Ints, is_begin: Flags, is_end: Flags, name: Ints
) -> tuple[Ints, Ints]:
    """Row numbers of matching begin and end events of threads whose slices cross.

    An end with a name closes the last open begin of that name on its thread. An end without one
    (its name is 0) closes the last open begin of any name. Where a thread has both kinds, its
    events are matched one by one.

    Examples
    --------
    >>> begins, name = np.array([True, True, False, False]), np.array([1, 2, 1, 2])
    >>> match_named(np.zeros(4, np.int32), np.arange(4), begins, ~begins, name)
    (array([0, 1]), array([2, 3]))
    """
    mixed = np.isin(thread, thread[is_end & (name == 0)])
    code = np.unique(thread, return_inverse=True)[1].astype(np.int64)
    of_name = code * (int(name.max(initial=0)) + 1) + name
    begin, end = match_begin_end(of_name, time, is_begin & ~mixed, is_end & ~mixed)
    rows = np.flatnonzero((is_begin | is_end) & mixed)
    rows = rows[np.lexsort((rows, time[rows], thread[rows]))]
    parts = zip(*(of[rows].tolist() for of in (thread, is_begin, name)), strict=True)
    pairs = _one_by_one(rows.tolist(), parts)
    return np.append(begin, pairs[0]), np.append(end, pairs[1])


def _one_by_one(rows: list[int], parts: Iterable[tuple[int, bool, int]]) -> Ints:
    """Pairs of rows in the order of time, of which each is (thread, whether it begins, name)."""
    open_rows: dict[tuple[int, int], list[int]] = {}
    closed: set[int] = set()
    pairs = []
    for row, (thread, begins, name) in zip(rows, parts, strict=True):
        stacks = [open_rows.setdefault((thread, key), []) for key in {0, name}]
        if begins:
            for stack in stacks:
                stack.append(row)
            continue
        stack = open_rows[thread, name]
        while stack and stack[-1] in closed:
            stack.pop()
        if stack:
            closed.add(stack[-1])
            pairs.append((stack.pop(), row))
    return np.array(pairs, np.int64).reshape(-1, 2).T


def match_runs(
    thread: npt.NDArray[np.integer], time: Ints, is_begin: Flags, is_end: Flags
) -> tuple[Ints, Ints]:
    """Row numbers of begin and end events of runs in which the ends have the order of the begins.

    A run of begins matches the run of equally many ends after it, if the threads of both are equal
    one by one and no end is before its begin. Nothing is matched if the rows of each thread are in
    the order of time: then the events may just as well be those of a stack. Rows of different
    threads need no common order, because several writers take turns.

    Examples
    --------
    >>> begins = np.array([True, True, False, False])
    >>> match_runs(np.zeros(4, np.int32), np.array([0, 5, 9, 8]), begins, ~begins)
    (array([0, 1]), array([2, 3]))
    """
    rows = np.flatnonzero(is_begin | is_end)
    nothing = np.empty(0, np.int64)
    by_thread = rows[np.argsort(thread[rows], kind="stable")]
    is_back = np.zeros(time.size, np.bool_)
    is_back[by_thread[1:]] = (np.diff(time[by_thread]) < 0) & (np.diff(thread[by_thread]) == 0)
    if not is_back.any():
        return nothing, nothing
    kind = is_begin[rows]
    bounds = np.append(np.flatnonzero(np.diff(kind, prepend=~kind[:1])), rows.size)
    size = np.diff(bounds)
    opening = np.flatnonzero(kind[bounds[:-1]])
    opening = opening[opening + 1 < size.size]
    opening = opening[size[opening] == size[opening + 1]]
    length = size[opening]
    of_run = np.repeat(np.arange(opening.size), length)
    within = np.arange(of_run.size) - np.repeat(np.cumsum(length) - length, length)
    first = rows[bounds[opening][of_run] + within]
    last = rows[bounds[opening + 1][of_run] + within]
    agrees = (thread[first] == thread[last]) & (time[first] <= time[last])
    is_whole = np.bincount(of_run, agrees, opening.size) == length
    # A run of one is also a pair of a stack; so are runs whose ends are all in the order of time.
    chosen = is_whole[of_run]
    if not is_back[last[chosen]].any():
        return nothing, nothing
    return first[chosen], last[chosen]


def _is_first(group: Ints) -> Flags:
    first: Flags = np.diff(group, prepend=-1) != 0
    return first


def _within_groups(total: Ints, step: Ints, group: Ints) -> Ints:
    """A running total that restarts with each group."""
    first = np.flatnonzero(_is_first(group))
    return total - (total[first] - step[first])[group]


def _running_minimum(values: Ints, group: Ints) -> Ints:
    """Least value so far in the group: values of later groups are shifted below all before."""
    if not len(values):
        return values
    shift = group * (int(values.max()) - int(values.min()) + 1)
    return np.minimum.accumulate(values - shift) + shift


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.array(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)


def _with_end_args(args: pa.ChunkedArray, begin: Ints, last: pa.ChunkedArray) -> pa.Array:
    both = pa.table({"first": marked(args.take(pa.array(begin))), "last": marked(last)})
    with parsing_database.connect() as connection:
        connection.register("both_args", both)
        joined = connection.sql(_UNMARKED_ARGS).to_arrow_table()["args"]
    source = np.full(len(args), -1)
    source[begin] = np.arange(len(begin))
    joined_args = joined.take(pa.array(source, mask=source < 0))
    return pc.if_else(pa.array(source >= 0), joined_args, args)
