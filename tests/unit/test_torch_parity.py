"""The facts against torch's own code, on the same intervals."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from profframe.facts.pipeline import add_facts
from profframe.intervals import nest
from tests import needs
from tests.builders import Row, event, tables
from tests.members import few


@pytest.fixture(scope="module")
def profiler() -> Any:
    needs.torch()
    return needs.module("torch.autograd.profiler_util")


def drawn(seed: int) -> list[tuple[int, int, int, str]]:
    random_ = random.Random(seed)  # noqa: S311
    places = random_.choice([6, 20, 1000])
    ends = [sorted((random_.randint(0, places), random_.randint(0, places))) for _ in range(40)]
    return [(random_.randint(0, 1), a, b, random_.choice("fg")) for a, b in ends]


@pytest.mark.parametrize("seed", few(range(40), 20))
def test_parents_self_times_and_duplicates(seed: int, profiler: Any) -> None:
    rows = drawn(seed)
    events = profiler.EventList(
        profiler.FunctionEvent(i, name, thread, start, end)
        for i, (thread, start, end, name) in sorted(
            enumerate(rows), key=lambda row: (row[1][1], -row[1][2], row[0])
        )
    )
    events._populate_cpu_children()
    parents = [-1] * len(rows)
    for one in events:
        parents[one.id] = one.cpu_parent.id if one.cpu_parent else -1
    own = {one.id: one.self_cpu_time_total for one in events}
    events._remove_dup_nodes()
    kept = {one.id for one in events}

    source: list[Row] = [event(name, start, end, thread=on) for on, start, end, name in rows]
    got = add_facts(tables(*source), compat="torch")["events"]
    group, start, end = np.array([row[:3] for row in rows], np.int64).T
    assert nest(group, start, end).parent.tolist() == parents
    assert got["self_ns"].to_pylist() == [own[i] for i in range(len(rows))]
    merged = got["merged_into"].to_pylist()
    assert {i for i, into in enumerate(merged) if into is None} == kept
