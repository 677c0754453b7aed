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
from profframe.show.report.replies import Asked, Reply

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
_FEW: Final = 6
"""Findings whose texts are all there at first."""
_MOST_HEADERS: Final = 8
"""Traces whose headers are in the page."""


def overview(asked: Asked) -> Section:
    """What was traced, and the findings that matter most."""
    found = asked.answer("overview")
    rows = asked.answer("advice").frame
    findings = Findings(
        "Top findings",
        _top(asked, rows),
        "No rule of advice found anything.",
        ("trace.advice()",),
    )
    parts: list[Part] = [Facts(_facts(asked, found.frame), (found.call,)), findings]
    if found.frame.height > 1:
        parts.append(asked.table(found, "Traces", title="Traces"))
    about = "What was traced, and the findings that matter most."
    return Section("Overview", about, tuple(parts))


def _top(asked: Asked, rows: pl.DataFrame) -> tuple[Finding, ...]:
    """The first finding of each of the first rules, with whose it is where there are several."""
    first = rows.unique("rule", keep="first", maintain_order=True).head(_TOP)
    number = dict(rows["rule"].value_counts().rows())
    found = []
    for row in first.iter_rows(named=True):
        place = [f"{key} {row[key]}" for key in KEYS if key not in asked.dull]
        if number[row["rule"]] > 1:
            place.append(f"{units.plural(number[row['rule']] - 1, 'more finding')} of this rule")
        found.append(_finding(row, f" ({'; '.join(place)})" if place else ""))
    return tuple(found)


def _facts(asked: Asked, rows: pl.DataFrame) -> tuple[Fact, ...]:
    several = rows.height > 1
    facts = [*_time("Span", rows["span_ns"].max(), "the longest" if several else "")]
    if several:
        runs = units.plural(rows["run"].n_unique(), "run")
        facts.append(Fact("Traces", units.count(rows.height), note=runs))
    facts += [_count("Events", rows["events"]), *_steps(asked)]
    if rows["devices"].sum():
        facts += [_count("Devices", rows["devices"]), *_busy(asked)]
        facts.append(_count("Kernels", rows["kernels"]))
    else:
        facts.append(_count("Threads", rows["threads"]))
    return (*facts, *_peak(asked))


def _time(label: str, ns: Any, note: str = "") -> tuple[Fact, ...]:
    if ns is None:
        return ()
    return (Fact(label, units.duration(ns).strip(), f"{ns:,} ns", note),)


def _count(label: str, column: pl.Series) -> Fact:
    return Fact(label, units.count(int(column.sum())))


def _steps(asked: Asked) -> tuple[Fact, ...]:
    durations = asked.answer("steps").frame["dur_ns"].drop_nulls().sort()
    if not len(durations):
        return ()
    middle = durations[(len(durations) - 1) // 2]
    return _time("Median step", middle, f"of {len(durations):,}")


def _busy(asked: Asked) -> tuple[Fact, ...]:
    """The share of their span in which devices had work."""
    whole = asked.answer("time_breakdown").frame.filter(pl.col("step").is_null())
    span, idle = int(whole["span_ns"].sum()), int(whole["idle_ns"].sum())
    if not span:
        return ()
    busy = span - idle
    note = "of their span" if whole.height == 1 else "of their spans"
    return (Fact("Devices busy", units.share(busy / span), f"{busy:,} of {span:,} ns", note),)


def _peak(asked: Asked) -> tuple[Fact, ...]:
    peaks = asked.answer("memory_peak").frame.drop_nulls("allocated_bytes")
    if not peaks.height:
        return ()
    of_devices = peaks.filter(pl.col("device").is_not_null())
    rows = of_devices if of_devices.height else peaks
    row = rows.sort("allocated_bytes", descending=True, maintain_order=True).row(0, named=True)
    most = row["allocated_bytes"]
    where = (str(row[key]) for key in ("device_type", "device") if row[key] is not None)
    said = units.visible(" ".join(where))
    return (Fact("Peak memory", units.size(most).strip(), f"{most:,} bytes", said),)


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


def advice(asked: Asked) -> Section | None:
    """Everything that rules of advice found."""
    found = asked.answer("advice")
    if not found:
        return None
    return Section(
        "Advice",
        "What rules found to be slow or wasteful, and what to do; gains do not add up.",
        (asked.table(found, "Advice", _ADVICE, whole=found.frame.height <= _FEW),),
    )


def quality(asked: Asked) -> Section | None:
    """What was repaired, dropped or doubtful."""
    notes = Reply("quality", "trace.quality", asked.trace.quality)
    if not notes:
        return None
    return Section(
        "Quality notes",
        "What was repaired, dropped or doubtful when the trace was loaded.",
        (asked.table(notes, "Quality notes", whole=True),),
    )


def provenance(asked: Asked) -> Section:
    """Where the numbers are from."""
    traces = asked.trace.traces
    headers = Reply("headers", "trace.traces", _headers(traces))
    machines = Reply("devices", "trace.devices", asked.trace.devices)
    options = pl.DataFrame({"name": [*asked.made_with], "value": [*asked.made_with.values()]})
    made = Reply("made_with", "profframe.__version__", options)
    parts: list[Part] = [
        asked.table(made, "Versions and options"),
        asked.table(Reply("traces", "trace.traces", traces), "Sources", _SOURCES, title="Sources"),
    ]
    if headers:
        cut = traces.height > _MOST_HEADERS
        about = f"Of the first {_MOST_HEADERS} of {traces.height:,} traces." if cut else ""
        title = "What the headers say"
        parts.append(asked.table(headers, "Headers", title=title, about=about))
    if machines:
        parts.append(asked.table(machines, "Devices", title="Devices"))
    about = "What these numbers were made of, and with: sources, versions, options."
    return Section("Provenance", about, tuple(parts))


def _headers(traces: pl.DataFrame) -> pl.DataFrame:
    """What each header says, a row for each key."""
    rows = [
        (row["run"], row["rank"], key, value if isinstance(value, str) else json.dumps(value))
        for row in traces.head(_MOST_HEADERS).iter_rows(named=True)
        for said in ("profiler_flags", "metadata")
        if row[said] is not None
        for key, value in _items(json.loads(row[said]))
    ]
    names = {"run": pl.String, "rank": pl.Int32, "name": pl.String, "value": pl.String}
    return pl.DataFrame(rows, schema=names, orient="row")


def _items(said: object) -> list[tuple[str, object]]:
    return [*said.items()] if isinstance(said, dict) else [("", said)]


SECTIONS: Final[Mapping[str, Callable[[Asked], Section | None]]] = MappingProxyType(
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
"""Every section, in the order of the page; one that has nothing to show gives None."""
