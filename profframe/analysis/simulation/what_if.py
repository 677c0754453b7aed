"""What-if predictions: a job replayed with changes, and the range of each result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import Any, Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.analysis.critical_path import path_across_ranks as whole
from profframe.analysis.critical_path.segments import BOUNDS
from profframe.analysis.simulation import changes, details
from profframe.analysis.simulation.changes import Change
from profframe.analysis.simulation.exposed import savings
from profframe.analysis.simulation.job_network import JobNetwork, RankActivity, job, outcome, totals
from profframe.analysis.simulation.rank import Lengths
from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.device_catalogue import Devices, models
from profframe.facts.device_models import match_models
from profframe.intervals import Ints
from profframe.query.header import Answer
from profframe.query.run import prepare

UNCHANGED: Final = "nothing"
TOGETHER: Final = "all of these"
_MOST: Final = 1e6
"""Maximum factor, rate and latency; far beyond anything meaningful."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The requested changes; see `Trace.what_if`."""

    communication: float | None = None
    latency_us: float | None = None
    bandwidth_gb_per_s: float | None = None
    stragglers: bool = True
    kernels: Mapping[str, float] = field(default_factory=dict)
    categories: Mapping[str, float] = field(default_factory=dict)
    launches: bool = True
    host: float | None = None
    copies: bool = True
    fused: Sequence[str] = ()
    device: str | None = None

    def __post_init__(self) -> None:
        factors = {"communication": self.communication, "host": self.host}
        factors |= {f"kernels[{name!r}]": factor for name, factor in self.kernels.items()}
        factors |= {f"categories[{name!r}]": factor for name, factor in self.categories.items()}
        for name, factor in factors.items():
            _check(name, factor)
        _check("latency_us", self.latency_us)
        _check("bandwidth_gb_per_s", self.bandwidth_gb_per_s)
        if self.bandwidth_gb_per_s == 0:
            raise ParameterError("bandwidth_gb_per_s: expected more than 0")
        if self.communication is not None and self.bandwidth_gb_per_s is not None:
            raise ParameterError("communication and bandwidth_gb_per_s: give one of them")
        if self.latency_us is not None and self.bandwidth_gb_per_s is None:
            raise ParameterError("latency_us: give bandwidth_gb_per_s, too")


def _check(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf:
        raise ParameterError(f"{name}: expected a number from 0, got {value!r}")
    if value > _MOST:
        raise ParameterError(f"{name}: expected at most {_MOST:,.0f}, got {value!r}")


@dataclass(frozen=True)
class JobModel:
    """A job that can be replayed.

    Attributes
    ----------
    length_ns : int
        What was recorded.
    ranks : list of int
        Numbers of the ranks.
    job : JobNetwork
        What waits for what, and how long everything took.
    details : list of Details
        What changes need to know about each rank.
    bus_bytes : Ints
        Of each collective, the bytes that pass the slowest link; -1 where not known.
    """

    length_ns: int
    ranks: list[int]
    job: JobNetwork
    details: list[changes.Details]
    bus_bytes: Ints

    @property
    def recorded(self) -> list[Lengths]:
        """Recorded durations."""
        return [own.recorded for own in self.job.ranks]

    @cached_property
    def usual(self) -> list[Lengths]:
        """Durations of the median rank, which several changes need."""
        return changes.stragglers(self.job, self.details)(self.recorded)

    @cached_property
    def without_devices(self) -> int:
        """When the job is done if all work of devices takes no time."""
        every = [np.ones(own.recorded.work.size, np.bool_) for own in self.job.ranks]
        nothing = changes.works(self.job, every, [0.0] * len(every))
        return outcome(self.job, nothing(self.recorded)).end


def model(connect: whole.Connect, gathered: whole.JobWindow) -> JobModel:
    """Build the simulation of what ranks did."""
    start, parts = gathered.start_ns, []
    for place, graph in enumerate(gathered.graphs):
        window = gathered.windows[place]
        until, host = -1, (0, 0)
        if window is not None:
            until = window.end_ns - start
            host = window.host_thread, window.host_end_ns - start
        waits = gathered.graph_waits[place]
        parts.append(RankActivity(gathered.activities[place], graph, waits, until, host))

    def read(place: int) -> changes.Details:
        with connect(gathered.ranks[place]) as connection:
            return details.details(_prepared(connection), gathered.graphs[place])

    network_of = job(parts, gathered.meetings, start)
    sizes = gathered.meetings.bus_bytes[network_of.meetings]
    details_of = whole.of_each(len(parts), read)
    return JobModel(gathered.end_ns - start, gathered.ranks, network_of, details_of, sizes)


def _prepared(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    prepare(connection, Answer("what_if", details.MACROS), {})
    return connection


def predictions(
    model: JobModel,
    wishes: Wishes,
    connect: whole.Connect,
    devices: pa.Table,
    user_models: Devices | None = None,
) -> pl.DataFrame:
    """One row for no change, one for each change, and one for several changes together."""
    with ExitStack() as stack:
        asks = wishes.kernels or wishes.categories or wishes.fused or wishes.device is not None
        connections = [
            _prepared(stack.enter_context(connect(rank))) for rank in model.ranks if asks
        ]
        parts = _changes(model, wishes, connections, devices, user_models)
    wanted: dict[str, Sequence[Change]] = {UNCHANGED: ()}
    wanted |= {label: (change,) for label, change in parts.items()}
    if len(parts) > 1:
        wanted[TOGETHER] = (*parts.values(),)
    rows = [_prediction(model, label, some) for label, some in wanted.items()]
    replayed, now = rows[0]["predicted_ns"], model.length_ns
    error = (replayed - now) / now if now else None
    return pl.DataFrame([row | {"replay_error": error} for row in rows], schema=SCHEMA)


def grid(model: JobModel, communication: Sequence[float], host: Sequence[float]) -> pl.DataFrame:
    """One row for each pair of a factor of communication and one of the host, in their order."""
    for name, factors in (("communication", communication), ("host", host)):
        for factor in factors:
            _check(name, factor)
    now, rows = model.length_ns, []
    for transfer in communication:
        scaled = changes.communication(model.job, model.details, transfer)(model.recorded)
        for own in host:
            end = outcome(model.job, changes.host(model.job, own)(scaled)).end
            rows.append((transfer, own, now, end, now - end, (now - end) / now if now else None))
    return pl.DataFrame(rows, schema=GRID_SCHEMA, orient="row")


def _changes(
    model: JobModel,
    wishes: Wishes,
    connections: Sequence[duckdb.DuckDBPyConnection],
    devices: pa.Table,
    user_models: Devices | None,
) -> dict[str, Change]:
    """A change for each wish, by its words for the reader."""
    job_of, details_of = model.job, model.details
    parts: dict[str, Change] = {}
    works = [own.graph.works.event for own in job_of.ranks]
    choose = partial(details.chosen, connections, works)
    if wishes.communication is not None:
        label = f"communication x {wishes.communication:g}"
        parts[label] = changes.communication(job_of, details_of, wishes.communication)
    if wishes.bandwidth_gb_per_s is not None:
        if not (model.bus_bytes >= 0).any():
            raise ParameterError(
                "bandwidth_gb_per_s: no collective of two or more ranks has a known size; "
                "use communication=FACTOR"
            )
        latency = wishes.latency_us or 0.0
        label = f"communication at {wishes.bandwidth_gb_per_s:g} GB/s and {latency:g} us"
        rate = wishes.bandwidth_gb_per_s  # bytes per nanosecond
        parts[label] = changes.transfers(job_of, model.bus_bytes, latency * 1000, rate)
    if not wishes.stragglers:
        parts["no stragglers"] = without_stragglers(model)
    for column, factors in (("kernel", wishes.kernels), ("category", wishes.categories)):
        for pattern, factor in factors.items():
            rows = choose(column, pattern)
            parts[f"{column} {pattern} x {factor:g}"] = changes.works(
                job_of, rows, [factor] * len(rows)
            )
    if not wishes.launches:
        parts["launches free"] = changes.launches(job_of, details_of)
    if wishes.host is not None:
        parts[f"host x {wishes.host:g}"] = changes.host(job_of, wishes.host)
    if not wishes.copies:
        parts["copies hidden"] = changes.copies(job_of, details_of)
    slices = [own.graph.slices.event for own in job_of.ranks]
    for pattern in wishes.fused:
        rows = details.chosen(connections, slices, "op", pattern)
        parts[f"fused: {pattern}"] = changes.fused(job_of, rows)
    if wishes.device is not None:
        others = _others(devices, wishes.device, user_models)
        factors_of = [
            details.device_factors(connection, work, its.classes, others)
            for connection, work, its in zip(connections, works, details_of, strict=True)
        ]
        every = [np.ones(work.size, np.bool_) for work in works]
        parts[f"on {wishes.device}"] = changes.works(job_of, every, factors_of)
    return parts


def without_stragglers(model: JobModel) -> Change:
    """Every rank does what the median rank does; nothing changes if the job would take longer.

    Ranks that share cores are late in turns: like the median rank, all of them take longer.
    """
    is_longer = outcome(model.job, model.usual).end > model.length_ns
    return changes.nothing if is_longer else changes.stragglers(model.job, model.details)


def saved(model: JobModel, change: Change) -> tuple[int, int, int]:
    """Nanoseconds that a change saves, as predicted, at least and at most, never less than 0."""
    row = _prediction(model, "", [change])
    ends = row["predicted_ns"], row["high_ns"], row["low_ns"]
    now, least, most = (max(model.length_ns - end, 0) for end in ends)
    return now, least, most


def _others(devices: pa.Table, name: str, user_models: Devices | None) -> pa.Table:
    """The devices with the peaks of another model."""
    choices = models(user_models)
    if name not in choices:
        raise UnknownNameError.among("device", name, choices)
    rows = match_models(devices, choices).to_pylist()
    columns = {**choices[name].columns, "model": name}
    cleared = {key: None for key in devices.column_names if key.endswith("_per_s")}
    return pa.Table.from_pylist([row | cleared | columns for row in rows], devices.schema)


def _prediction(model: JobModel, label: str, wanted: Sequence[Change]) -> dict[str, Any]:
    """Simulate a job with changes, and its range by other assumptions about unrecorded waits."""
    lengths: Sequence[Lengths] = model.recorded
    for change in wanted:
        lengths = change(lengths)
    result = outcome(model.job, lengths)
    now = model.length_ns
    saved = now - result.end
    low, high = _range(model, lengths, result.end) if wanted else (result.end, result.end)
    bounds = totals(model.job, lengths, result, [its.classes for its in model.details])
    return {
        "change": label,
        "now_ns": now,
        "predicted_ns": result.end,
        "saved_ns": saved,
        "saved_share": saved / now if now else None,
        "low_ns": low,
        "high_ns": high,
    } | {f"{bound}_ns": total for bound, total in bounds.items()}


def _range(model: JobModel, lengths: Sequence[Lengths], end: int) -> tuple[int, int]:
    """The earliest and the latest end, by other assumptions about what is not recorded.

    A wait while only shortened work ran may have been for that work, recorded or not. Still, a
    change of device work gains no more than devices that take no time at all.
    """
    variants = (changes.held, changes.without_guesses, changes.whole)
    ends = [end, *(outcome(model.job, variant(model.job, lengths)).end for variant in variants)]
    # A wait that is not recorded may have been for the shortened work: then it saves all the time
    # in which only that ran and something waited.
    low = min(*ends, model.length_ns - savings(model.job, lengths))
    # However much is unrecorded: a change of device work cannot save more than devices of no time.
    if low < end and changes.shortens_works_only(model.job, lengths):
        low = min(end, max(low, model.without_devices))
    return low, max(ends)


SCHEMA: Final = {
    "change": pl.String,
    "now_ns": pl.Int64,
    "predicted_ns": pl.Int64,
    "saved_ns": pl.Int64,
    "saved_share": pl.Float64,
    "low_ns": pl.Int64,
    "high_ns": pl.Int64,
    "replay_error": pl.Float64,
} | {f"{bound}_ns": pl.Int64 for bound in BOUNDS}
GRID_SCHEMA: Final = {"communication": pl.Float64, "host": pl.Float64} | {
    name: SCHEMA[name] for name in ("now_ns", "predicted_ns", "saved_ns", "saved_share")
}
