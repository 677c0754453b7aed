"""All sections of the page in their order, and those about the trace as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from profframe.show import units
from profframe.show.columns import KEYS
from profframe.show.report import devices, groups, hosts
from profframe.show.report.parts import Fact, Facts, Finding, Findings, Part, Section
from profframe.show.report.replies import Context, Reply

_TOP: Final = 3
"""Findings on the first screen."""
_ADVICE: Final = (
    "severity", "finding", "estimated_gain_ns", "suggestion", "rule", "where", "gain_basis",
    "events",
)  # fmt: skip
_SOURCES: Final = (
    "source", "format", "clock", "start_ns", "source_events", "world_size", "backend",
    "device_type", "rank_source", "schema_version", "facts_version",
)  # fmt: skip
_MOST_FULL: Final = 6
"""Up to so many findings, texts start uncut."""
_MOST_HEADERS: Final = 8
"""Traces whose headers are in the page."""


def overview(context: Context) -> Section:
    """What was traced, and the findings that matter most."""
    reply = context.answer("overview")
    rows = context.answer("advice").frame
    findings = Findings(
        "Top findings",
        _top(context, rows),
        "No rule of advice found anything.",
        ("trace.advice()",),
    )
    parts: list[Part] = [Facts(_facts(context, reply.frame), (reply.call,)), findings]
    if reply.frame.height > 1:
        parts.append(context.table(reply, "Traces", title="Traces"))
    about = "What was traced, and the findings that matter most."
    return Section("Overview", about, tuple(parts))


def _top(context: Context, rows: pl.DataFrame) -> tuple[Finding, ...]:
    """The first finding of each of the first rules, with its run and rank if there are several."""
    first = rows.unique("rule", keep="first", maintain_order=True).head(_TOP)
    counts = dict(rows["rule"].value_counts().rows())
    findings = []
    for row in first.iter_rows(named=True):
        place = [f"{key} {row[key]}" for key in KEYS if key not in context.constant_keys]
        if counts[row["rule"]] > 1:
            place.append(f"{units.plural(counts[row['rule']] - 1, 'more finding')} of this rule")
        findings.append(_finding(row, f" ({'; '.join(place)})" if place else ""))
    return tuple(findings)


def _facts(context: Context, rows: pl.DataFrame) -> tuple[Fact, ...]:
    several = rows.height > 1
    facts = [*_time("Span", rows["span_ns"].max(), "the longest" if several else "")]
    if several:
        runs = units.plural(rows["run"].n_unique(), "run")
        facts.append(Fact("Traces", units.count(rows.height), note=runs))
    facts += [_count("Events", rows["events"]), *_steps(context)]
    if rows["devices"].sum():
        facts += [_count("Devices", rows["devices"]), *_busy(context)]
        facts.append(_count("Kernels", rows["kernels"]))
    else:
        facts.append(_count("Threads", rows["threads"]))
    return (*facts, *_peak(context))


def _time(label: str, ns: Any, note: str = "") -> tuple[Fact, ...]:
    if ns is None:
        return ()
    return (Fact(label, units.duration(ns).strip(), f"{ns:,} ns", note),)


def _count(label: str, column: pl.Series) -> Fact:
    return Fact(label, units.count(int(column.sum())))


def _steps(context: Context) -> tuple[Fact, ...]:
    durations = context.answer("steps").frame["dur_ns"].drop_nulls().sort()
    if not len(durations):
        return ()
    middle = durations[(len(durations) - 1) // 2]
    return _time("Median step", middle, f"of {len(durations):,}")


def _busy(context: Context) -> tuple[Fact, ...]:
    """The share of their span in which devices had work."""
    trace_rows = context.answer("time_breakdown").frame.filter(pl.col("step").is_null())
    span, idle = int(trace_rows["span_ns"].sum()), int(trace_rows["idle_ns"].sum())
    if not span:
        return ()
    busy = span - idle
    note = "of their span" if trace_rows.height == 1 else "of their spans"
    return (Fact("Devices busy", units.share(busy / span), f"{busy:,} of {span:,} ns", note),)


def _peak(context: Context) -> tuple[Fact, ...]:
    peaks = context.answer("memory_peak").frame.drop_nulls("allocated_bytes")
    if not peaks.height:
        return ()
    device_peaks = peaks.filter(pl.col("device").is_not_null())
    rows = device_peaks if device_peaks.height else peaks
    row = rows.sort("allocated_bytes", descending=True, maintain_order=True).row(0, named=True)
    peak = row["allocated_bytes"]
    where = (str(row[key]) for key in ("device_type", "device") if row[key] is not None)
    device = units.visible(" ".join(where))
    return (Fact("Peak memory", units.size(peak).strip(), f"{peak:,} bytes", device),)


def _finding(row: Mapping[str, Any], place: str) -> Finding:
    gain = row["estimated_gain_ns"]
    return Finding(
        severity=row["severity"],
        text=units.visible((row["finding"] or "") + place),
        suggestion=units.visible(row["suggestion"] or ""),
        gain="" if gain is None else units.duration(gain).strip(),
        exact="" if gain is None else f"{gain:,} ns",
        basis=units.visible(row["gain_basis"] or ""),
    )


def advice(context: Context) -> Section | None:
    """All findings of the rules of advice."""
    reply = context.answer("advice")
    if not reply:
        return None
    return Section(
        "Advice",
        "What rules found to be slow or wasteful, and what to do; gains do not add up.",
        (context.table(reply, "Advice", _ADVICE, full_text=reply.frame.height <= _MOST_FULL),),
    )


def quality(context: Context) -> Section | None:
    """What was repaired, dropped or doubtful."""
    reply = Reply("quality", "trace.quality", context.trace.quality)
    if not reply:
        return None
    return Section(
        "Quality notes",
        "What was repaired, dropped or doubtful when the trace was loaded.",
        (context.table(reply, "Quality notes", full_text=True),),
    )


def provenance(context: Context) -> Section:
    """Sources of the numbers, versions and options."""
    traces = context.trace.traces
    headers = Reply("headers", "trace.traces", _headers(traces))
    machines = Reply("devices", "trace.devices", context.trace.devices)
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
    about = "What these numbers were made of, and with: sources, versions, options."
    return Section("Provenance", about, tuple(parts))


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


SECTIONS: Final[Mapping[str, Callable[[Context], Section | None]]] = MappingProxyType(
    {
        "overview": overview,
        "advice": advice,
        "time": devices.time,
        "operators": hosts.operators,
        "kernels": devices.kernels,
        "idle": devices.idle,
        "queues": devices.queues,
        "memory": hosts.memory,
        "regions": hosts.regions,
        "flame": hosts.flame,
        "roofline": devices.roofline,
        "ranks": groups.ranks,
        "runs": groups.runs,
        "quality": quality,
        "provenance": provenance,
    }
)
"""Every section, in the order of the page; None where there is nothing to show."""
