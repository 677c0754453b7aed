"""A trace as Chrome trace JSON in Kineto's layout, which `readers.chrome` reads back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from profframe.export.lines.batches import Lines
from profframe.export.lines.chrome_events import ChromeEvents, ident
from profframe.export.lines.merged_ranks import PROCESS_LABELS, MergedFile, RankPart
from profframe.export.output_file import put_lines, written
from profframe.readers.chrome.columns import OWN_KEY
from profframe.readers.chrome.job import JOB_KEY
from profframe.readers.json import exact

_DECODER: Final = exact.decoder(constant=lambda _: None)
_OWN_HEADER: Final = (
    "format", "clock", "rank", "rank_source", "world_size", "backend", "device_type",
)  # fmt: skip
"""Columns of `traces` that the file does not have itself, or not in the same words."""
_THREAD_LABELS: Final = {"thread_name": "name", "thread_sort_index": "sort_index"}


def write(path: str | os.PathLike[str], events: ChromeEvents) -> None:
    """Write a trace: what its header says, its threads and its events."""
    header = header_of(events.trace)
    before = exact.dumps(header)[:-1] + ", " * bool(header)
    with written(path) as put:
        put(f'{before}"traceEvents": ['.encode())
        count = 0
        for label in _labels(events.threads):
            put(f"{',' * (count > 0)}\n{label}".encode())
            count += 1
        count += put_lines(put, events.lines, first=not count)
        own = "" if OWN_KEY in header else f', "{OWN_KEY}": {own_of(events, count)}'
        put(f"\n]{own}}}\n".encode())


def write_job(path: str | os.PathLike[str], job: MergedFile) -> None:
    """Write several traces: what the header of each says, then the events of one after another."""
    with written(path) as put:
        put(f'{exact.dumps(job_header(job))[:-1]}, "traceEvents": ['.encode())
        is_first = True
        counts = []
        for part in job.parts:
            with job.events(part) as events:
                for label in _labels(events.threads):
                    put(f"{',' * (not is_first)}\n{label}".encode())
                    is_first = False
                count = put_lines(put, events.lines, first=is_first)
                is_first = is_first and not count
                counts.append(counts_of(events, part, count))
        with job.between() as lines:
            put_lines(put, lines, first=is_first)
        put(f'\n], "{OWN_KEY}": {exact.dumps({"traces": counts})}}}\n'.encode())


def job_header(job: MergedFile) -> dict[str, Any]:
    """The members before the events of several traces."""
    around: dict[str, Any] = {} if job.base_ns is None else {"baseTimeNanoseconds": job.base_ns}
    around[JOB_KEY] = {"clocks": job.clocks, "traces": [_of_part(part) for part in job.parts]}
    return around


def _of_part(part: RankPart) -> dict[str, Any]:
    """Metadata of one trace in a file of several."""
    return {
        "run": part.trace["run"],
        "rank": part.trace["rank"],
        "base_ns": part.trace["base_ns"],
        "offset_ns": part.offset_ns,
        "header": {k: v for k, v in header_of(part.trace).items() if k != "baseTimeNanoseconds"},
        "source": _source(part.trace),
        "processes": [*part.processes],
        "named_threads": [*part.named_threads],
    }


def counts_of(events: ChromeEvents, part: RankPart, count: int) -> dict[str, Any]:
    """How many events of a trace the file has, with the labels that the trace had before."""
    if not events.is_whole:
        return {}
    written_threads = {row["thread"] for row in events.threads}
    labels = _labels(row for row in part.threads if row["thread"] in written_threads)
    accounted = _loaded(events.trace.get("accounted"))
    return {"events": count + sum(1 for _ in labels), "accounted": accounted}


def write_list(path: str | os.PathLike[str], lines: Lines) -> None:
    """Write only a list of events."""
    with written(path) as put:
        put(b"[")
        put_lines(put, lines)
        put(b"\n]\n")


def header_of(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The members around the events, as the source had them."""
    header: dict[str, Any] = {}
    for column in ("metadata", "profiler_flags"):
        value = _loaded(trace.get(column))
        header |= value if isinstance(value, dict) else {}
    devices = _loaded(trace.get("device_properties"))
    if devices or (trace.get("format") == "kineto" and "schemaVersion" not in header):
        header["deviceProperties"] = devices or []
    if trace.get("base_ns") is not None:
        header["baseTimeNanoseconds"] = trace["base_ns"]
    return header


def own_of(events: ChromeEvents, count: int) -> str:
    """Metadata without a place in Kineto's format, and the number of written events."""
    own = _source(events.trace)
    if events.is_whole:
        accounted = _loaded(events.trace.get("accounted"))
        own |= {"events": count} | ({} if accounted is None else {"accounted": accounted})
    return exact.dumps(own)


def _source(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of the source without a place in Kineto's format."""
    return {name: trace[name] for name in _OWN_HEADER if trace.get(name) is not None}


def _loaded(text: str | None) -> Any:
    """The value of JSON text; None for NaN, infinity and anything else that is not JSON."""
    try:
        return _DECODER.decode(text or "null")
    except (ValueError, RecursionError):
        return None


def _labels(threads: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Names and places of processes and threads as text of events."""
    for label in labels_of(threads):
        yield json.dumps({"ph": "M"} | label)


def labels_of(threads: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Names and places of processes and threads, in their order."""
    processes: set[str | None] = set()
    for row in threads:
        is_known = row["pid"] in processes
        processes.add(row["pid"])
        labels = _THREAD_LABELS if is_known else {**PROCESS_LABELS, **_THREAD_LABELS}
        for label, key in labels.items():
            if row[label] is None:
                continue
            event: dict[str, Any] = {"name": label}
            if row["pid"] is not None:
                event["pid"] = json.loads(ident(row["pid"]))
            if label in PROCESS_LABELS:
                event["tid"] = 0
            elif row["tid"] is not None:
                event["tid"] = json.loads(ident(row["tid"]))
            yield event | {"args": {key: row[label]}}
