"""The answers about launches, from rows of ``events`` one by one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import floor
from typing import Any, Final

import duckdb

from profframe.query import macros

Row = Mapping[str, Any]
Key = tuple[Any, ...]

COLUMNS: Final = [
    *("run", "rank", "event_id", "kind", "name", "start_ns", "dur_ns"),
    *("parent_id", "preorder", "launch_id", "op_id", "input_dims"),
    *("annotation_id", "python_stack", "inference_phase"),
]
"""Columns of ``events`` that are looked at."""
WORK: Final = ("kernel", "memcpy", "memset")
SHOWN: Final = 64


def percentile(values: Iterable[int], percent: int) -> int | None:
    """The least value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else None


def mean(values: Sequence[int]) -> int | None:
    return floor(Fraction(sum(values), len(values)) + Fraction(1, 2)) if values else None


def total(values: Sequence[int]) -> int | None:
    return sum(values) if values else None


def known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def difference(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left - right


def last(value: Any) -> Key:
    """Sorts None behind everything."""
    return (value is None, value)


def largest(value: int | None) -> Key:
    """Sorts the largest first, None last."""
    return (value is None, -(value or 0))


def by_id(events: Sequence[Row]) -> dict[Key, Row]:
    return {(row["run"], row["rank"], row["event_id"]): row for row in events}


def launches(
    events: Sequence[Row], outlier_call_ns: int = 50_000, outlier_delay_ns: int = 100_000
) -> list[Key]:
    rows = by_id(events)
    work: dict[Key, list[Row]] = defaultdict(list)
    for row in events:
        if row["kind"] in WORK:
            work[row["run"], row["rank"], row["launch_id"]].append(row)
    names: dict[Key, list[tuple[Row | None, list[Row]]]] = defaultdict(list)
    for key, launched in work.items():
        call = rows.get(key)
        names[*key[:2], None if call is None else call["name"]].append((call, launched))
    without: dict[Key, int] = defaultdict(int)
    for key, row in rows.items():
        if row["kind"] in {"runtime", "driver"} and key not in work:
            without[*key[:2], row["name"]] += 1
    found = []
    for (run, rank, name), pairs in names.items():
        calls = [(call, launched) for call, launched in pairs if call is not None]
        durations = known(call["dur_ns"] for call, _ in calls)
        delays = [max(0, delay) for delay in known(delay_of(*pair) for pair in calls)]
        all_work = [row for _, launched in pairs for row in launched]
        found.append(
            (
                run,
                rank,
                name,
                len(calls),
                without[run, rank, name],
                *(sum(row["kind"] == kind for row in all_work) for kind in WORK),
                total(known(row["dur_ns"] for row in all_work)),
                total(durations),
                mean(durations),
                *(percentile(durations, percent) for percent in (50, 90, 99, 100)),
                mean(delays),
                *(percentile(delays, percent) for percent in (50, 90, 99, 100)),
                sum(is_short(call, launched, outlier_call_ns) for call, launched in calls),
                sum(duration > outlier_call_ns for duration in durations),
                sum(delay > outlier_delay_ns for delay in delays),
            )
        )
    return sorted(found, key=lambda row: (largest(row[9]), *row[:2], last(row[2])))


def delay_of(call: Row, launched: Sequence[Row]) -> int | None:
    starts = known(row["start_ns"] for row in launched)
    end = None if None in {call["start_ns"], call["dur_ns"]} else call["start_ns"] + call["dur_ns"]
    return difference(min(starts, default=None), end)


def is_short(call: Row, launched: Sequence[Row], outlier_call_ns: int) -> bool:
    worked = total(known(row["dur_ns"] for row in launched))
    if worked is None or call["dur_ns"] is None:
        return False
    return bool(worked < call["dur_ns"] <= outlier_call_ns)


def in_order(kernels: Iterable[Row]) -> list[Row]:
    return sorted(kernels, key=lambda row: (last(row["start_ns"]), row["event_id"]))


def names_of(kernels: Iterable[Row]) -> tuple[str | None, ...]:
    return tuple("?" if row["name"] is None else row["name"] for row in kernels)


def text(names: Sequence[str | None]) -> str:
    shown = [str(name) for name in names[:SHOWN]]
    left = len(names) - len(shown)
    return " -> ".join([*shown, *([f"... {left} more"] if left else [])])


def is_kernel(row: Row, copies: bool) -> bool:
    return row["kind"] == "kernel" or (copies and row["kind"] in WORK)


@cache
def is_own(frame: str) -> bool:
    with duckdb.connect() as connection:
        macros.load(connection, "SELECT is_own_frame('')")
        ((answer,),) = connection.execute("SELECT is_own_frame(?)", [frame]).fetchall()
    return bool(answer)


def site_of(kernel: Row, rows: Mapping[Key, Row]) -> str | None:
    """Innermost of own frames and the annotation around a launch, else the innermost frame."""
    run, rank = kernel["run"], kernel["rank"]
    call = rows.get((run, rank, kernel["launch_id"]))
    annotation = rows.get((run, rank, kernel["annotation_id"]))
    frames = (call["python_stack"] or "").split(";") if call is not None else [""]
    outer = 0
    if annotation is not None:
        around = annotation["python_stack"]
        outer = len(around.split(";")) if around else 0
        if around and frames[-outer:] != around.split(";"):
            outer = len(frames)
    inside = frames[: len(frames) - outer]
    name = None if annotation is None else annotation["name"]
    if name is not None and re.fullmatch(r"ProfilerStep#\d+", name):
        name = None
    if name is not None and annotation is not None and annotation["inference_phase"]:
        numbered = re.search(r"_context_\d+.*_generation_\d+|_new_\d+|[ \[]bs=\d+", name)
        name = f"{annotation['inference_phase']} phase" if numbered else name
    own = [frame for frame in inside if is_own(frame)]
    others = [frame for frame in frames if is_own(frame)]
    return next((x for x in (*own[:1], name, *others[:1], frames[0]) if x), None)


def op_kernels(
    events: Sequence[Row], group_by_input_shape: bool = False, copies: bool = False
) -> list[Key]:
    rows = by_id(events)
    owners: dict[Key, list[Row]] = defaultdict(list)
    for row in events:
        if is_kernel(row, copies):
            owner = row["launch_id"] if row["op_id"] is None else row["op_id"]
            event_id = row["event_id"] if owner is None else owner
            owners[row["run"], row["rank"], event_id, owner is None].append(row)
    groups: dict[Key, list[tuple[int, Row, list[Row], Row]]] = defaultdict(list)
    unknown = dict.fromkeys(COLUMNS)
    for (run, rank, event_id, alone), unordered in owners.items():
        kernels = in_order(unordered)
        op = unknown if alone else rows.get((run, rank, event_id), unknown)
        call = rows.get((run, rank, kernels[0]["launch_id"]), unknown)
        dims = op["input_dims"] if group_by_input_shape else None
        is_known = any(kernel["op_id"] is not None for kernel in kernels)
        site = None if is_known or alone else site_of(kernels[0], rows)
        group = (run, rank, op["name"], op["kind"], site, dims, names_of(kernels))
        groups[group].append((event_id, op, kernels, call))
    found = []
    for (*key, names), ops in groups.items():
        op_delays = known(difference(call["start_ns"], op["start_ns"]) for _, op, _, call in ops)
        runtime_delays = known(
            difference(kernels[0]["start_ns"], call["start_ns"]) for _, _, kernels, call in ops
        )
        found.append(
            (
                *key,
                text(names),
                len(names),
                len(ops),
                total(known(row["dur_ns"] for _, _, kernels, _ in ops for row in kernels)),
                total(known(op["dur_ns"] for _, op, _, _ in ops)),
                *statistics(op_delays),
                *statistics(runtime_delays),
                min((last(op["start_ns"]), event_id) for event_id, op, _, _ in ops)[1],
            )
        )
    return sorted(found, key=lambda row: (largest(row[9]), *row[:2], row[-1]))


def statistics(values: Sequence[int]) -> Key:
    return (mean(values), *(percentile(values, percent) for percent in (50, 90, 100)))


def sequences(
    events: Sequence[Row], name: str = "", min_kernels: int = 3, top: int = 10, copies: bool = False
) -> list[Key]:
    rows = by_id(events)

    def outermost(row: Row | None) -> Row | None:
        """The outermost of the slice and those around it that has the text in its name."""
        found = None
        while row is not None:
            if row["preorder"] is not None and row["name"] is not None and name in row["name"]:
                found = row
            row = rows.get((row["run"], row["rank"], row["parent_id"]))
        return found

    launched: dict[Key, list[Row]] = defaultdict(list)
    for row in events:
        slice_ = outermost(rows.get((row["run"], row["rank"], row["launch_id"])))
        if is_kernel(row, copies) and slice_ is not None:
            launched[row["run"], row["rank"], slice_["event_id"]].append(row)
    groups: dict[Key, list[tuple[Row, list[Row]]]] = defaultdict(list)
    for key, unordered in launched.items():
        kernels = in_order(unordered)
        if len(kernels) >= min_kernels:
            slice_ = rows[key]
            is_step = slice_["name"].startswith("ProfilerStep#")
            common = "ProfilerStep*" if is_step else slice_["name"]
            groups[*key[:2], common, slice_["kind"], names_of(kernels)].append((slice_, kernels))
    found = [
        (
            *key,
            text(names),
            len(names),
            len(slices),
            total(known(row["dur_ns"] for _, kernels in slices for row in kernels)),
            total(known(row["dur_ns"] for row, _ in slices)),
            min((last(row["start_ns"]), row["event_id"]) for row, _ in slices)[1],
        )
        for (*key, names), slices in groups.items()
    ]
    ordered = sorted(found, key=lambda row: (-row[6], largest(row[7]), *row[:2], row[-1]))
    places: dict[Key, int] = defaultdict(int)
    kept = []
    for line in ordered:
        places[line[:2]] += 1
        if top <= 0 or places[line[:2]] <= top:
            kept.append(line)
    return kept
