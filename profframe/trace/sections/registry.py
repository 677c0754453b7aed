"""All sections of the page in their order, and those about advice, quality and provenance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from profframe.pages.report.page_parts import PageSection, Part
from profframe.trace import trace_tables
from profframe.trace.sections import devices, dumps, hosts, ranks_and_runs
from profframe.trace.sections.job_steps import job
from profframe.trace.sections.overview import overview
from profframe.trace.sections.replies import Context, Reply
from profframe.trace.sections.timeline import timeline

_ADVICE: Final = (
    "severity", "finding", "ranks", "estimated_gain_ns", "steps", "suggestion", "rule", "where",
    "gain_basis", "events",
)  # fmt: skip
_SOURCES: Final = (
    "source", "format", "clock", "start_ns", "source_events", "world_size", "backend",
    "device_type", "rank_source", "schema_version", "facts_version",
)  # fmt: skip
_MOST_FULL: Final = 6
"""Up to this many findings, texts start uncut."""
_MOST_HEADERS: Final = 8
"""Traces whose headers are in the page."""


def advice(context: Context) -> PageSection | None:
    """All findings of the rules of advice."""
    reply = context.answer("advice")
    if not reply:
        return None
    useful = {
        "ranks": (reply.frame["ranks"].list.len() > 1).any(),
        "steps": (reply.frame["steps"] > 0).any(),
    }
    columns = tuple(name for name in _ADVICE if useful.get(name, True))
    return PageSection(
        "Advice",
        "What rules found slow or wasteful, and what to do; gains do not add up.",
        (context.table(reply, "Advice", columns, full_text=reply.frame.height <= _MOST_FULL),),
    )


def quality(context: Context) -> PageSection | None:
    """What was repaired, dropped or doubtful."""
    reply = Reply("quality", "trace.quality", trace_tables.table(context.trace, "quality"))
    if not reply:
        return None
    return PageSection(
        "Quality notes",
        "What was repaired, dropped or doubtful when the trace was loaded.",
        (context.table(reply, "Quality notes", full_text=True),),
    )


def provenance(context: Context) -> PageSection:
    """Sources of the numbers, versions and options."""
    traces = context.traces
    headers = Reply("headers", "trace.traces", _headers(traces))
    machines = Reply("devices", "trace.devices", trace_tables.table(context.trace, "devices"))
    options = pl.DataFrame({"name": [*context.made_with], "value": [*context.made_with.values()]})
    versions = Reply("made_with", "profframe.__version__", options)
    parts: list[Part] = [
        context.table(versions, "Versions and options"),
        context.table(
            Reply("traces", "trace.traces", traces), "Sources", _SOURCES, title="Sources"
        ),
    ]
    if headers:
        cut = traces.height > _MOST_HEADERS
        about = f"Of the first {_MOST_HEADERS} of {traces.height:,} traces." if cut else ""
        title = "What the headers say"
        parts.append(context.table(headers, "Headers", title=title, about=about))
    if machines:
        parts.append(context.table(machines, "Devices", title="Devices"))
    about = "Where these numbers come from: sources, versions, options."
    return PageSection("Provenance", about, tuple(parts))


def _headers(traces: pl.DataFrame) -> pl.DataFrame:
    """The headers of the traces, a row for each key."""
    rows = [
        (row["run"], row["rank"], key, value if isinstance(value, str) else json.dumps(value))
        for row in traces.head(_MOST_HEADERS).iter_rows(named=True)
        for column in ("profiler_flags", "metadata")
        if row[column] is not None
        for key, value in _items(json.loads(row[column]))
    ]
    names = {"run": pl.String, "rank": pl.Int32, "name": pl.String, "value": pl.String}
    return pl.DataFrame(rows, schema=names, orient="row")


def _items(header: object) -> list[tuple[str, object]]:
    return [*header.items()] if isinstance(header, dict) else [("", header)]


SECTIONS: Final[Mapping[str, Callable[[Context], PageSection | None]]] = MappingProxyType(
    {
        "overview": overview,
        "advice": advice,
        "timeline": timeline,
        "time": devices.time,
        "inference": devices.inference,
        "operators": hosts.operators,
        "kernels": devices.kernels,
        "idle": devices.idle,
        "queues": devices.queues,
        "counters": devices.counters,
        "memory": hosts.memory,
        "snapshot": hosts.snapshot,
        "hangs": dumps.hangs,
        "execution": dumps.execution,
        "regions": hosts.regions,
        "flame": hosts.flame,
        "roofline": devices.roofline,
        "ranks": ranks_and_runs.ranks,
        "job": job,
        "runs": ranks_and_runs.runs,
        "quality": quality,
        "provenance": provenance,
    }
)
"""Every section, in the order of the page; None where there is nothing to show."""
