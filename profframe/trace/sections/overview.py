"""The first section of the page: tiles of what was traced, and the top findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from profframe.pages.report.page_parts import (
    Facts,
    FactTile,
    Finding,
    FindingsPart,
    PageSection,
    Part,
    Sentences,
)
from profframe.show import units
from profframe.show.columns import KEYS
from profframe.show.device_time import TimeParts
from profframe.show.findings import gain_of, ranks_of
from profframe.trace.file_summaries import file_summaries
from profframe.trace.sections.replies import Context

_TOP: Final = 3
"""Maximum findings on the first screen."""


def overview(context: Context) -> PageSection:
    """What was traced, and the findings that matter most."""
    words = file_summaries(context.trace, context.traces["format"])
    sentences = tuple(
        Sentences(
            f"What matters most: {part.label}", part.sentences, part.excerpts, part.hint,
            ("trace.summary()",),
        )
        for part in words.parts
    )  # fmt: skip
    if words.is_all:
        facts = tuple(FactTile(*fact) for part in words.parts for fact in part.facts)
        own: tuple[Part, ...] = (Facts(facts, ("trace.summary()",)), *sentences)
        return PageSection("Overview", "What the file contains, and what matters most in it.", own)
    reply = context.answer("overview")
    rows = context.answer("advice").frame
    findings = FindingsPart(
        "Top findings",
        _top(context, rows),
        "No rule of advice found anything.",
        ("trace.advice()",),
    )
    parts: list[Part] = [Facts(_facts(context, reply.frame), (reply.call,)), findings, *sentences]
    if reply.frame.height > 1:
        parts.append(context.table(reply, "Traces", title="Traces"))
    about = "What was traced, and the findings that matter most."
    return PageSection("Overview", about, tuple(parts))


def _top(context: Context, rows: pl.DataFrame) -> tuple[Finding, ...]:
    """The first finding of each of the first rules, with its run and rank if there are several."""
    first = rows.unique("rule", keep="first", maintain_order=True).head(_TOP)
    counts = dict(rows["rule"].value_counts().rows())
    findings = []
    for row in first.iter_rows(named=True):
        texts = {key: f"{key} {row[key]}" for key in KEYS} | {"rank": ranks_of(row)}
        place = [texts[key] for key in KEYS if key not in context.constant_keys]
        if counts[row["rule"]] > 1:
            place.append(f"{units.plural(counts[row['rule']] - 1, 'more finding')} of this rule")
        findings.append(_finding(row, f" ({'; '.join(place)})" if place else ""))
    return tuple(findings)


def _facts(context: Context, rows: pl.DataFrame) -> tuple[FactTile, ...]:
    several = rows.height > 1
    facts = [*_time("Span", rows["span_ns"].max(), "the longest" if several else "")]
    if several:
        runs = units.plural(rows["run"].n_unique(), "run")
        facts.append(FactTile("Traces", units.count(rows.height), note=runs))
    facts += [_count("Events", rows["events"]), *_steps(context)]
    if rows["devices"].sum():
        facts += [_count("Devices", rows["devices"]), *_busy(context)]
        facts.append(_count("Kernels", rows["kernels"]))
    else:
        facts.append(_count("Threads", rows["threads"]))
    return (*facts, *_peak(context))


def _time(label: str, ns: Any, note: str = "") -> tuple[FactTile, ...]:
    if ns is None:
        return ()
    return (FactTile(label, units.duration(ns), f"{ns:,} ns", note),)


def _count(label: str, column: pl.Series) -> FactTile:
    return FactTile(label, units.count(int(column.sum())))


def _steps(context: Context) -> tuple[FactTile, ...]:
    steps = context.answer("step_times").frame.filter(pl.col("lack").is_null())
    durations = steps["step_ns"].drop_nulls().sort()
    if not len(durations):
        return ()
    middle = durations[(len(durations) - 1) // 2]
    return _time("Median step", middle, f"of {len(durations):,}")


def _busy(context: Context) -> tuple[FactTile, ...]:
    """The share of the time in which devices had work, of the same time as the first lines.

    Runs may be unrelated programs, so several have none together.
    """
    rows = context.answer("time_breakdown").frame
    parts = TimeParts.of(rows)
    if parts is None or rows["run"].n_unique() > 1:
        return ()
    busy = parts.span_ns - parts.idle_ns - parts.unrecorded_ns
    of = units.plural(parts.rows, "step") if parts.has_steps else "their span"
    exact = f"{busy:,} of {parts.span_ns:,} ns"
    return (FactTile("Devices busy", units.share(parts.share(busy)), exact, f"of {of}"),)


def _peak(context: Context) -> tuple[FactTile, ...]:
    peaks = context.answer("memory_peak").frame.drop_nulls("allocated_bytes")
    if not peaks.height:
        return ()
    device_peaks = peaks.filter(pl.col("device").is_not_null())
    rows = device_peaks if device_peaks.height else peaks
    row = rows.sort("allocated_bytes", descending=True, maintain_order=True).row(0, named=True)
    peak = row["allocated_bytes"]
    where = (str(row[key]) for key in ("device_type", "device") if row[key] is not None)
    device = units.visible(" ".join(where))
    return (FactTile("Peak memory", units.size(peak), f"{peak:,} bytes", device),)


def _finding(row: Mapping[str, Any], place: str) -> Finding:
    gain, steps = row["estimated_gain_ns"], row["steps"]
    of = f" in {units.plural(steps, 'step')}" if steps else ""
    return Finding(
        severity=row["severity"],
        text=units.visible((row["finding"] or "") + place),
        suggestion=units.visible(row["suggestion"] or ""),
        gain=gain_of(row),
        exact="" if gain is None else f"{gain:,} ns{of}",
        basis=units.visible(row["gain_basis"] or ""),
    )
