"""Times as torch adds them: floats of microseconds since the trace's start, in its own order.

The sums differ from the exact ones by less than a nanosecond. That changes a printed number only if
the exact one lies halfway between two that can be printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.intervals import Ints, Mask, nearest, rows_by_value
from profframe.query.selection import literal

Floats = npt.NDArray[np.float64]
Times = tuple[float, float, float, float]
"""Host time, own host time, device time, own device time, in microseconds."""

_TOLERANCE_US: Final = 0.0005
"""Half a nanosecond: the error of the floats."""
_COMPENSATES: Final = sys.version_info >= (3, 12)
"""Since Python 3.12 `sum()` adds floats more precisely than one by one."""
_SLICES: Final = """
    WITH keys AS (
        SELECT list(event_id) AS event_ids, row_number() OVER () - 1 AS key
        FROM kept_events(
            trace_events, $group_by_input_shape, $group_by_stack_n, $group_by_overload_name, true)
        GROUP BY
            name, kind_key, on_device, legacy_key, node_id, input_dims, stack, overload_name,
            $apart AND is_frame(kind, name)
    ),
    of_keys AS (SELECT unnest(event_ids) AS event_id, key FROM keys)
    SELECT
        event_id, key, start_ns, dur_ns, preorder, parent_id, depth,
        coalesce(op_id, launch_id) AS charged_id, is_on_device(kind) AS on_device,
        is_on_device(kind) AND self_ns IS NOT NULL AS is_busy,
        self_ns, device_ns, self_device_ns
    FROM trace_events
    LEFT JOIN of_keys USING (event_id)
    ORDER BY event_id"""
_START: Final = """
    SELECT coalesce(
        (SELECT min(start_ns) FROM trace_events WHERE kind = 'profiler'),
        CASE WHEN clock <> 'relative' THEN start_ns END,
        0)
    FROM traces
    WHERE run = $run AND rank = $rank"""
"""Origin of torch's times: the start of its own span, else of a clock that is not relative."""


def read(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    rank: int,
    grouping: Mapping[str, object],
    first_ids: Sequence[int | None],
    *,
    with_frames: bool,
) -> list[Times]:
    """Sums of the keys with these first events, in their order; None is no event.

    Without frames, a key does not include its Python functions.
    """
    connection.execute(
        "CREATE OR REPLACE TEMP VIEW trace_events AS "
        f"FROM with_own_times(events, true) WHERE run = {literal(run)} AND rank = {rank}"
    )
    origins = connection.execute(_START, {"run": run, "rank": rank}).fetchall()
    ((start_ns,),) = origins or [(0,)]
    parameters = {**grouping, "apart": not with_frames}
    slices = _slices(connection.sql(_SLICES, params=parameters).to_arrow_table(), start_ns)
    columns = (slices.elapsed_host, _self_host(slices), *_device(slices))
    keys = slices.key[slices.order]
    by_key = [_in_order(keys, column[slices.order], 0) for column in columns]
    sums = np.stack([np.append(sums_of_keys, 0.0) for sums_of_keys in by_key], axis=1)
    rows = _rows(slices.event_id, np.array([-1 if i is None else i for i in first_ids], np.int64))
    ordered: list[Times] = [
        tuple(times) for times in sums[np.append(slices.key, -1)[rows]].tolist()
    ]
    return ordered


@dataclass(frozen=True)
class _Slices:
    """The slices of one trace as arrays; a NULL is -1 in ids and 0 in times."""

    event_id: Ints
    key: Ints
    """Number of its key; -1 if torch removes it."""
    order: Ints
    """Rows that torch keeps, in its order."""
    owner: Ints
    """Row of the nearest slice around it that is kept."""
    depth: Ints
    """Number of kept slices around it."""
    charged: Ints
    """Kept row that a device slice is charged to."""
    elapsed: Floats
    nests: Mask
    on_device: Mask
    is_busy: Mask
    self_us: Floats
    device_us: Floats
    self_device_us: Floats

    @property
    def elapsed_host(self) -> Floats:
        return np.where(self.on_device, 0.0, self.elapsed)


def _rows(event_id: Ints, ids: Ints) -> Ints:
    """Row of each id; -1 if there is none."""
    if not event_id.size:
        return np.full(ids.size, -1, np.int64)
    at = np.minimum(np.searchsorted(event_id, ids), event_id.size - 1)
    return np.where(event_id[at] == ids, at, -1)


def _slices(table: pa.Table, origin_ns: int) -> _Slices:
    def ints(name: str, missing: int) -> Ints:
        values: Ints = table[name].fill_null(missing).to_numpy().astype(np.int64, copy=False)
        return values

    event_id, key = ints("event_id", -1), ints("key", -1)
    parent = _rows(event_id, ints("parent_id", -1))
    is_kept = key >= 0
    up = np.append(nearest(parent, is_kept), -1)
    owner = up[parent]
    charged = up[_rows(event_id, ints("charged_id", -1))]
    start, dur, preorder = ints("start_ns", 0), ints("dur_ns", 0), ints("preorder", -1)
    end_us = (start + dur - origin_ns) / 1000
    last = np.iinfo(np.int64).max
    order = np.lexsort((event_id, ints("preorder", last), -dur, ints("start_ns", last)))
    self_times = {name: ints(name, 0).copy() for name in ("self_ns", "self_device_ns")}
    removed = np.flatnonzero(~is_kept & (owner >= 0))
    for values in self_times.values():
        np.add.at(values, owner[removed], values[removed])
    is_timed = table["start_ns"].is_valid().to_numpy() & table["dur_ns"].is_valid().to_numpy()
    return _Slices(
        event_id=event_id,
        key=key,
        order=order[is_kept[order]],
        owner=np.where(is_kept, owner, -1),
        depth=_depth(owner, ints("depth", -1)),
        charged=charged,
        elapsed=np.where(is_timed, end_us - (start - origin_ns) / 1000, 0.0),
        nests=is_kept & (preorder >= 0),
        on_device=table["on_device"].to_numpy(),
        is_busy=table["is_busy"].to_numpy(),
        self_us=self_times["self_ns"] / 1000,
        device_us=ints("device_ns", 0) / 1000,
        self_device_us=self_times["self_device_ns"] / 1000,
    )


def _depth(owner: Ints, depth: Ints) -> Ints:
    """Number of owners above each row."""
    depths = np.zeros(owner.size, np.int64)
    for rows in _levels(depth):
        nested = rows[owner[rows] >= 0]
        depths[nested] = depths[owner[nested]] + 1
    return depths


def _levels(depth: Ints) -> Iterator[Ints]:
    """Rows of each depth, the outermost first; each in the order of the rows."""
    nested = np.flatnonzero(depth >= 0)
    return (nested[rows] for rows in rows_by_value(depth[nested]))


def _self_host(slices: _Slices) -> Floats:
    """Host time without that of the children."""
    rows = slices.order[slices.nests[slices.order] & (slices.owner[slices.order] >= 0)]
    child_sums = _sums(slices.owner[rows], slices.elapsed[rows], slices.key.size)
    own = np.where(slices.nests, slices.elapsed - child_sums, 0.0)
    return np.where(slices.on_device, 0.0, _or_exact(own, slices.self_us))


def _device(slices: _Slices) -> tuple[Floats, Floats]:
    """Device time with that of the children, and without."""
    if not (slices.device_us.any() or slices.self_device_us.any() or slices.on_device.any()):
        nothing = np.zeros(slices.key.size)
        return nothing, nothing
    charged = slices.order[slices.is_busy[slices.order] & (slices.charged[slices.order] >= 0)]
    launched = _sums(slices.charged[charged], slices.elapsed[charged], slices.key.size)
    launched = _or_exact(launched, slices.self_device_us)
    total, child_sums = launched.copy(), np.zeros(slices.key.size)
    place = slices.order[slices.nests[slices.order]]
    levels = [place[rows] for rows in _levels(slices.depth[place])]
    for rows in reversed(levels):
        total[rows] = _or_exact(launched[rows] + child_sums[rows], slices.device_us[rows])
        children = rows[slices.owner[rows] >= 0]
        owners, which = np.unique(slices.owner[children], return_inverse=True)
        child_sums[owners] = _sums(which, total[children], owners.size)
    own = _or_exact(total - child_sums, slices.self_device_us)
    return (
        np.where(slices.on_device, slices.elapsed, total),
        np.where(slices.on_device, slices.elapsed, own),
    )


def _or_exact(values: Floats, exact: Floats) -> Floats:
    """The values, or the exact ones if the trace lacks some of what torch would add up."""
    return np.where(np.abs(values - exact) <= _TOLERANCE_US, values, exact)


def _sums(group: Ints, values: Floats, groups: int) -> Floats:
    """Sums of groups as ``sum()`` adds them."""
    sums = _in_order(group, values, groups)
    if _COMPENSATES:
        for part in rows_by_value(group):
            if part.size > 2:
                sums[group[part[0]]] = sum(values[part].tolist())
    return sums


def _in_order(group: Ints, values: Floats, groups: int) -> Floats:
    """Sums of groups, one value after the other."""
    return np.bincount(group, values, minlength=groups).astype(np.float64, copy=False)
