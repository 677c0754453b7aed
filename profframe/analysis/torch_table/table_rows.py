"""Rows of torch's table: the sums of each key of ``key_averages()``, and its first event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any, Final

import duckdb

from profframe.analysis.torch_table import float_times
from profframe.facts.torch_compat.releases import averages_frames, installed
from profframe.query.catalogue import find
from profframe.query.run import run
from profframe.readers.demangle import demangled

Amount = float | Fraction
"""Microseconds: exact, or as torch adds them."""

_FAILED: Final = "[OutOfMemory]"
"""Failed allocations of an operator, which have no event in `events`."""
_FIRST: Final = """
    WITH RECURSIVE up AS (
        SELECT run, rank, event_id, parent_id
        FROM events
        SEMI JOIN first_ids USING (run, rank, event_id)
        UNION ALL
        SELECT up.* REPLACE (parent.parent_id AS parent_id)
        FROM up
        JOIN events AS parent
            ON up.run = parent.run AND up.rank = parent.rank AND up.parent_id = parent.event_id
        WHERE is_internal(parent.name)
    ),
    nested AS (
        SELECT run, rank, event_id, bool_and(parent_id IS NOT NULL) AS has_parent
        FROM up
        GROUP BY run, rank, event_id
    )
    SELECT
        run, rank, event_id, has_parent,
        coalesce(is_async, false), coalesce(is_remote, false), coalesce(is_legacy, false),
        coalesce(scope, 0)
    FROM nested
    JOIN events USING (run, rank, event_id)"""
"""Values that torch takes from the first event of a key; internal ops do not count as parents."""


@dataclass(frozen=True, slots=True)
class Row:
    """One key with its sums, named as torch's attributes."""

    key: str
    overload_name: str
    input_shapes: str
    stack: tuple[str, ...]
    count: int
    node_id: int
    is_device: bool
    is_user_annotation: bool
    has_parent: bool
    is_async: bool
    is_remote: bool
    is_legacy: bool
    scope: int
    cpu_time_total: Amount
    self_cpu_time_total: Amount
    device_time_total: Amount
    self_device_time_total: Amount
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    device_memory_usage: int
    self_device_memory_usage: int
    flops: int

    @property
    def cpu_time(self) -> Amount:
        """Host time of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> Amount:
        """Device time of a call."""
        return self.device_time_total / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class TraceRows:
    """The rows of one trace, and properties of all of them."""

    run: str
    rank: int
    rows: Sequence[Row]
    device: str
    """Type of the devices, empty if there is none."""
    has_memory: bool

    @property
    def has_device_time(self) -> bool:
        """Whether there are columns of device time."""
        return any(row.self_device_time_total > 0 for row in self.rows)


def read(
    connection: duckdb.DuckDBPyConnection,
    grouping: Mapping[str, object],
    with_frames: bool | None,
    as_torch: bool,
) -> list[TraceRows]:
    """Rows of each trace, in the order of run and rank.

    ``with_frames`` says whether Python functions have rows. With ``as_torch`` times are floats,
    added as torch adds them; else they are exact.
    """
    if with_frames is None:
        with_frames = averages_frames(installed()) if as_torch else True
    parameters = {**grouping, "include_python_functions": with_frames, "compat": "torch"}
    relation = run(connection, find("key_averages"), parameters)
    keys = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    demangled_names = demangled([key["name"] for key in keys])
    first_ids = relation.project("run, rank, first_event_id AS event_id")
    connection.register("first_ids", first_ids.to_arrow_table())
    first_events = {row[:3]: row[3:] for row in connection.execute(_FIRST).fetchall()}
    traces = connection.execute("SELECT run, rank, device_type, profiler_flags FROM traces")
    headers = {row[:2]: row[2:] for row in traces.fetchall()}
    for key in keys:
        key["name"] = demangled_names.get(key["name"], key["name"])
    pages = []
    for (run_name, rank), trace_keys in groupby(keys, lambda key: (key["run"], key["rank"])):
        group = list(trace_keys)
        ids = [key["first_event_id"] for key in group]
        sums: Sequence[Sequence[Amount]] = (
            float_times.read(connection, run_name, rank, grouping, ids, with_frames=with_frames)
            if as_torch
            else [[Fraction(key[name] or 0, 1000) for name in _TIMES] for key in group]
        )
        firsts = [first_events.get((run_name, rank, i), _NO_EVENT) for i in ids]
        rows = [
            _row(key, event, key_sums, bool(grouping["group_by_input_shape"]))
            for key, event, key_sums in zip(group, firsts, sums, strict=True)
        ]
        device, flags = headers.get((run_name, rank), (None, None))
        profiles_memory = bool(flags) and bool(json.loads(flags).get("profile_memory"))
        pages.append(
            TraceRows(
                run_name,
                rank,
                rows,
                device or ("CUDA" if any(key["self_device_ns"] for key in group) else ""),
                profiles_memory or any(key["cpu_bytes"] is not None for key in group),
            )
        )
    return pages


_NO_EVENT: Final = (False, False, False, False, 0)
_TIMES: Final = ("cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns")
_BYTES: Final = ("cpu_bytes", "self_cpu_bytes", "device_bytes", "self_device_bytes")


def _row(
    key: Mapping[str, Any],
    first: tuple[bool, bool, bool, bool, int],
    sums: Sequence[Amount],
    with_shapes: bool,
) -> Row:
    has_parent, is_async, is_remote, is_legacy, scope = first
    cpu, self_cpu, device, self_device = sums
    cpu_bytes, self_cpu_bytes, device_bytes, self_device_bytes = (key[n] or 0 for n in _BYTES)
    dims = key["input_dims"] or "[]"
    return Row(
        key=key["name"] or "",
        overload_name=key["overload_name"] or "",
        input_shapes=dims.replace(",", ", ") if with_shapes else "",
        stack=tuple(key["stack"].split(";")) if key["stack"] else (),
        count=key["calls"],
        node_id=-1 if key["node_id"] is None else key["node_id"],
        is_device=key["device_type"] != "CPU",
        is_user_annotation=key["kind"] in {"annotation", "device_annotation"},
        has_parent=has_parent or key["name"] == _FAILED,
        is_async=is_async,
        is_remote=is_remote,
        is_legacy=is_legacy,
        scope=scope,
        cpu_time_total=cpu,
        self_cpu_time_total=self_cpu,
        device_time_total=device,
        self_device_time_total=self_device,
        cpu_memory_usage=cpu_bytes,
        self_cpu_memory_usage=self_cpu_bytes,
        device_memory_usage=device_bytes,
        self_device_memory_usage=self_device_bytes,
        flops=key["torch_flops"] or 0,
    )
