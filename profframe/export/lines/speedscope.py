"""Host threads as profiles of speedscope: slices that open and close."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from profframe import __version__
from profframe.errors import ParameterError, UnknownNameError
from profframe.export.lines.batches import Lines, text_batches
from profframe.export.output_file import Write, put_lines, written
from profframe.intervals import Forest, Ints, Mask, nest, subtree_sums

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def write(path: str | os.PathLike[str], profiles: Profiles, metric: str) -> None:
    """Write the profiles of a metric."""
    head = {
        "$schema": SCHEMA,
        "exporter": f"profframe {__version__}",
        "name": f"{Path(path).name}: {METRICS[metric]}",
        "activeProfileIndex": profiles.longest,
    }
    with written(path) as put:
        put(f'{json.dumps(head)[:-1]}, "shared": {{"frames": ['.encode())
        put(",\n".join(map(json.dumps, profiles.frames)).encode())
        put(b']},\n"profiles": [')
        for number, profile in enumerate(profiles.profiles):
            put(b",\n" * (number > 0))
            _put(put, profile)
        put(b"\n]}\n")


def _put(put: Write, profile: ThreadProfile) -> None:
    head = {
        "type": "evented",
        "name": profile.title,
        "unit": "nanoseconds",
        "startValue": profile.first_ns,
        "endValue": profile.last_ns,
    }
    put(f'{json.dumps(head)[:-1]}, "events": ['.encode())
    put_lines(put, profile.lines)
    put(b"\n]}")


METRICS: Final[Mapping[str, str]] = MappingProxyType(
    {"self_ns": "host time", "self_device_ns": "device time"}
)
"""The metrics that may be the width of a profile."""

_FUNCTION: Final = re.compile(r"(?P<file>.{1,1000})\((?P<line>\d{1,9})\): (?P<name>.+)", re.DOTALL)
"""How the profiler names a Python function."""
_PROFILES: Final = """
    CREATE TEMP TABLE _profiles AS
    SELECT
        row_number() OVER (ORDER BY run, rank, thread, node_id NULLS FIRST) - 1 AS profile,
        run, rank, thread, node_id,
        min(min(start_ns)) OVER (PARTITION BY run, rank) AS first_ns
    FROM events
    WHERE preorder IS NOT NULL AND start_ns IS NOT NULL
    GROUP BY run, rank, thread, node_id"""
_SLICES: Final = """
    SELECT
        profile, name, kind = 'python' AS is_python, preorder,
        coalesce(self_device_ns, 0) AS device_ns, start_ns - first_ns AS start_ns,
        start_ns - first_ns + dur_ns AS end_ns
    FROM events
    JOIN _profiles
        ON events.run = _profiles.run AND events.rank = _profiles.rank
        AND events.thread = _profiles.thread
        AND events.node_id IS NOT DISTINCT FROM _profiles.node_id
    WHERE preorder IS NOT NULL"""
_THREADS: Final = """
    SELECT run, rank, thread_name, process_name, pid, tid
    FROM _profiles LEFT JOIN threads USING (run, rank, thread)
    ORDER BY profile"""
_LINES: Final = r"""
    SELECT concat(E',\n{"type":"', CASE WHEN opens THEN 'O' ELSE 'C' END,
                  '","frame":', frame, ',"at":', moment_ns, '}')
    FROM _moments"""


@dataclass(frozen=True, slots=True)
class _Moments:
    """Opening and closing moments of one thread's slices, in order; ``cut`` of them close early."""

    opens: Mask
    frame: Ints
    at: Ints
    cut: int


@dataclass(frozen=True, slots=True)
class ThreadProfile:
    """One thread: a line for each moment at which a slice opens or closes."""

    title: str
    first_ns: int
    last_ns: int
    lines: Lines


@dataclass(frozen=True, slots=True)
class Profiles:
    """Threads with slices, and the frames that their lines name by number."""

    frames: Sequence[Mapping[str, Any]]
    profiles: Sequence[ThreadProfile]
    longest: int
    """Number of the profile with the most moments."""


def thread_profiles(connection: duckdb.DuckDBPyConnection, metric: str) -> Profiles:
    """Make a profile for each host thread.

    By ``self_ns`` a profile is the thread over time, so the own time of a frame is its self time.
    By ``self_device_ns`` it is as long as the devices worked for the thread: a slice first has its
    own device time, then that of the slices inside it.

    The format has no slices that overlap without nesting: the first ends where the second begins.
    The title of a profile says how many end early.
    """
    if metric not in METRICS:
        raise UnknownNameError.among("metric", metric, METRICS)
    connection.execute("SET preserve_insertion_order = true")
    connection.execute(_PROFILES)
    slices = connection.sql(_SLICES).to_arrow_table()
    threads, frames = _threads(slices, by_time=metric == "self_ns")
    if not threads:
        what = "host slices" if metric == "self_ns" else "device time of host slices"
        raise ParameterError(f"there are no {what} in this trace")
    titles = _titles(connection)
    sizes = [moments.at.size for moments in threads.values()]
    profiles = [
        _profile(connection, titles[number], moments) for number, moments in threads.items()
    ]
    return Profiles(frames, profiles, sizes.index(max(sizes)))


def _profile(connection: duckdb.DuckDBPyConnection, title: str, moments: _Moments) -> ThreadProfile:
    if moments.cut:
        title += f" ({moments.cut:,} slices cut where others overlap them)"
    return ThreadProfile(
        title, int(moments.at[0]), int(moments.at[-1]), _moment_lines(connection, moments)
    )


def _moment_lines(connection: duckdb.DuckDBPyConnection, moments: _Moments) -> Lines:
    columns = {"opens": moments.opens, "frame": moments.frame, "moment_ns": moments.at}
    connection.register("_moments", pa.table(columns))
    yield from text_batches(connection.sql(_LINES))
    connection.unregister("_moments")


def _threads(
    slices: pa.Table, *, by_time: bool
) -> tuple[dict[int, _Moments], list[dict[str, Any]]]:
    """Moments by the numbers of profiles, and the frames that they name."""
    names = slices["name"].combine_chunks()
    names = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    texts = [*names.dictionary.to_pylist(), None]
    code = names.indices.fill_null(len(texts) - 1).to_numpy().astype(np.int64)
    code = 2 * code + slices["is_python"].to_numpy()
    group, start, end, tie, device = (
        slices[name].to_numpy().astype(np.int64)
        for name in ("profile", "start_ns", "end_ns", "preorder", "device_ns")
    )
    forest = nest(group, start, end, tie)
    if by_time:
        kept = np.ones(group.size, np.bool_)
        opens_at, closes_at = start, _closes(forest, group, start, end)
    else:
        kept = subtree_sums(forest.preorder, forest.last, device) > 0
        opens_at, closes_at = _device_clock(forest, device)
    rows = np.argsort(forest.preorder)
    rows = rows[kept[rows]]
    used, frame = _numbered(code[rows])
    place = np.concatenate([forest.preorder[rows], forest.preorder[forest.last[rows]]])
    opens = np.repeat([True, False], rows.size)
    turn = np.concatenate(
        [np.zeros(rows.size, np.int64), 1 + forest.depth.max(initial=0) - forest.depth[rows]]
    )
    order = np.lexsort((turn, place))
    at = np.concatenate([opens_at[rows], closes_at[rows]])[order]
    of, which = np.concatenate([rows, rows])[order], np.concatenate([frame, frame])[order]
    is_cut = (closes_at < end) if by_time else np.zeros(group.size, np.bool_)
    threads = {}
    bounds = np.flatnonzero(np.diff(group[of], prepend=-1, append=-1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        here = slice(first, last)
        cut = int(np.count_nonzero(is_cut[of[here]] & opens[order][here]))
        threads[int(group[of[first]])] = _Moments(opens[order][here], which[here], at[here], cut)
    return threads, [_frame(texts[one // 2], is_python=bool(one % 2)) for one in used.tolist()]


def _numbered(codes: Ints) -> tuple[Ints, Ints]:
    """Distinct values in the order of their first places, and for each place its number."""
    used, first, number = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return used[order], place[number]


def _closes(forest: Forest, group: Ints, start: Ints, end: Ints) -> Ints:
    """When slices close: at their end, or where the next one begins that is not inside them."""
    rows = np.argsort(forest.preorder)
    behind = forest.preorder[forest.last] + 1
    following = np.append(rows, -1)[behind]
    has_next = (following >= 0) & (group[following] == group)
    return np.where(has_next, np.minimum(end, start[following]), end)


def _device_clock(forest: Forest, device: Ints) -> tuple[Ints, Ints]:
    """When slices open and close on a clock that runs while devices work for them."""
    rows = np.argsort(forest.preorder)
    until = np.empty(rows.size, np.int64)
    until[rows] = np.cumsum(device[rows])
    return until - device, until[forest.last]


def _frame(name: str | None, *, is_python: bool) -> dict[str, Any]:
    function = _FUNCTION.fullmatch(name) if is_python and name is not None else None
    if function is None:
        return {"name": "(no name)" if name is None else name}
    return {"name": function["name"], "file": function["file"], "line": int(function["line"])}


def _titles(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The title of each profile: its run and rank, if there are several, and its thread."""
    rows = connection.sql(_THREADS).fetchall()
    runs, ranks = (len({row[n] for row in rows}) for n in (0, 1))
    return [
        ", ".join(
            [
                *([run] if runs > 1 else []),
                *([f"rank {rank}"] if ranks > 1 else []),
                thread or f"{process or 'process'} {pid or '?'}, thread {tid or '?'}",
            ]
        )
        for run, rank, thread, process, pid, tid in rows
    ]
