"""An exported profile against torch's own events of it, field by field, to the nanosecond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.parity.comparing import (
    READABLE,
    Ours,
    demangled,
    ns,
    of_ours,
    of_torch,
    slices_of,
)
from tests.parity.profiles import Library

NOT_IN_THE_FILE: Final[Mapping[str, Mapping[str, str]]] = {
    # Section 2.4 of the parity rules: what the file of a profile does not hold.
    "async_regions": {
        "is_async": "that a region ended on another thread",
        "own_ns": "and so takes no part in the nesting",
        "own_memory": "the same",
        "parent": "the same",
    },
    "unfinished_region": {"end_ns": "an unfinished region lasts to the end of the window"},
    "torchscript": {"scope": "RecordScope other than 0, 1, 7"},
    "hostile_names": {"name": "the exporter changes names"},
    "python_export": {"flops": "that flops were asked for"},
}


def permitted(name: str) -> set[str]:
    return {*NOT_IN_THE_FILE.get(name, ())}


def differing(mine: Mapping[str, Any], its: Mapping[str, Any]) -> set[str]:
    return {field for field in its if mine[field] != its[field]}


@READABLE
@pytest.mark.parametrize("compat", [None, "torch"])
def test_every_field_is_as_in_torchs_events(
    name: str, compat: str | None, profiles: Library
) -> None:
    taken = profiles[name]
    ours = Ours(taken.loaded("path", compat or taken.compat))
    theirs = slices_of(taken.events)
    names = demangled(ours.kept)
    start_ns = taken.results.trace_start_ns()
    assert len(ours.kept) == len(theirs)
    found: set[str] = set()
    for mine, event in zip(of_ours(ours), theirs, strict=True):
        its = of_torch(event, start_ns)
        known = {"name": names[mine["name"]], "is_async": mine["is_async"] is True}
        found |= differing(mine | known, its)
    assert found == permitted(name) - {"parent"}


@READABLE
def test_parents_are_torchs(name: str, profiles: Library) -> None:
    taken = profiles[name]
    ours = Ours(taken.loaded("path", taken.compat))
    theirs = slices_of(taken.events)
    place = {row["event_id"]: i for i, row in enumerate(ours.kept)}
    where = {id(event): i for i, event in enumerate(theirs)}
    parents = [ours.survivor(row["parent_id"]) for row in ours.kept]
    mine = [None if p is None else place[p] for p in parents]
    its = [None if e.cpu_parent is None else where[id(e.cpu_parent)] for e in theirs]
    assert (mine == its) is ("parent" not in permitted(name))


@READABLE
def test_memory_outside_every_event_is_torchs(name: str, profiles: Library) -> None:
    taken = profiles[name]
    memory = taken.loaded("path").memory
    outside = [row for row in memory.rows(named=True) if row["op_id"] is None]
    start_ns = taken.results.trace_start_ns()
    assert sorted((row["time_ns"], row["bytes"]) for row in outside) == sorted(
        (ns(event.time_range.start) + start_ns, event.cpu_memory_usage)
        for event in taken.events
        if event.name == "[memory]"
    )


@READABLE
def test_a_backward_op_has_the_forward_op_of_its_number(name: str, profiles: Library) -> None:
    taken = profiles[name]
    rows = taken.loaded("path").events.rows(named=True)
    live = taken.loaded("profiler").events
    assert live["fwd_id"].to_list() == [row["fwd_id"] for row in rows]
    for row in rows:
        if row["fwd_id"] is not None:
            forward = rows[row["fwd_id"]]
            assert forward["sequence_nr"] == row["sequence_nr"]
            assert forward["start_ns"] + forward["dur_ns"] <= row["start_ns"]
    numbered = [row for row in rows if row["sequence_nr"] is not None]
    forward_numbers = {row["sequence_nr"] for row in numbered if not row["fwd_thread"]}
    without = [row for row in numbered if row["fwd_thread"] and row["fwd_id"] is None]
    assert not forward_numbers & {row["sequence_nr"] for row in without}
