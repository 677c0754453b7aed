"""Calls of device work by their correlation, on any slices, against a loop over them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Row, column, event, facts
from tests.oracles import correlation
from tests.property.test_lost_work import Queues

MS = 1_000_000
COLUMNS = (
    *("event_id", "kind", "pid", "device", "start_ns", "dur_ns", "correlation", "preorder"),
    *("thread", "launch_id"),
)
TIMES = st.integers(0, 20)
NUMBERS = st.sampled_from([None, 0, 1, 2, 3])
PROCESSES = st.sampled_from(["1", "2"])


@st.composite
def calls(draw: st.DrawFn) -> Row:
    start, pid = draw(TIMES), draw(PROCESSES)
    return event(
        "cudaFunction", start * MS, (start + draw(st.integers(0, 5))) * MS,
        category="cuda_runtime", thread=int(pid), pid=pid, correlation=draw(NUMBERS),
    )  # fmt: skip


@st.composite
def pieces(draw: st.DrawFn) -> Row:
    start = draw(TIMES) * MS - draw(st.sampled_from([0, 1, MS // 2]))
    return event(
        "k", start, start + draw(st.integers(0, 5)) * MS, thread=9,
        category=draw(st.sampled_from(["kernel", "gpu_memcpy", "cuda_sync"])),
        pid=draw(st.sampled_from(["0", "1", "2", "7", None])),
        device=draw(st.sampled_from([0, 1, None])), correlation=draw(NUMBERS),
    )  # fmt: skip


@given(st.lists(st.one_of(calls(), pieces()), max_size=12))
def test_any_slices(rows: list[Row]) -> None:
    made = facts(*rows)
    table = made["events"]
    missing = dict.fromkeys(COLUMNS)
    read: list[dict[str, Any]] = [
        missing | row
        for row in table.select([n for n in COLUMNS if n in table.column_names]).to_pylist()
    ]
    of_slices = correlation.launches(read)
    assert {row["event_id"]: row["launch_id"] for row in read if row["event_id"] in of_slices} == (
        of_slices
    )
    counts = dict(zip(*(made["quality"][n].to_pylist() for n in ("issue", "events")), strict=True))
    assert counts.get("ambiguous_launch", 0) == correlation.ambiguous(read)


@pytest.mark.parametrize("pid", ["0", "7", None])
@pytest.mark.parametrize("second", [(40, 50), (10, 20), (0, 30)], ids=["after", "inside", "equal"])
def test_a_correlation_of_two_processes_in_slices_that_name_neither(
    second: tuple[int, int], pid: str | None
) -> None:
    """The nearest call before the slice may be that of the other process, and is counted."""
    rows = [
        event(
            "cudaLaunchKernel", at + start, at + end, category="cuda_runtime", thread=int(of),
            pid=of, correlation=5 + at,
        )
        for at in (0, 60) for of, (start, end) in (("1", (0, 30)), ("2", second))
    ]  # fmt: skip
    rows += [
        event(
            "k", 100 + at, 109 + at, category="kernel", thread=9, pid=pid, device=0, stream=7,
            correlation=5 + at,
        )
        for at in (0, 60)
    ]  # fmt: skip
    made = facts(*rows)
    assert column(made, "launch_id")[4:] == [1, 3]
    counts = dict(zip(*(made["quality"][n].to_pylist() for n in ("issue", "events")), strict=True))
    assert counts == {"ambiguous_launch": 2, "launch_without_work": 2}


@pytest.mark.parametrize("pid", ["1", "2"])
def test_a_correlation_of_two_processes_in_slices_that_name_theirs(pid: str) -> None:
    calls = (
        event("cudaLaunchKernel", 0, 30, category="cuda_runtime", thread=int(of), pid=of,
              correlation=5)
        for of in ("1", "2")
    )  # fmt: skip
    work = event("k", 100, 109, category="kernel", thread=9, pid=pid, device=0, correlation=5)
    made = facts(*calls, work)
    assert column(made, "launch_id")[2] == int(pid) - 1
    assert "ambiguous_launch" not in made["quality"]["issue"].to_pylist()


@pytest.mark.parametrize("seeds", [range(n, n + 25) for n in range(0, 50, 25)], ids=str)
def test_work_without_a_correlation_has_its_own_call_or_none(seeds: range) -> None:
    """A program whose kernels lost their numbers, and in some draws some of the kernels, too."""
    matched = 0
    for seed in seeds:
        draw = random.Random(seed)  # noqa: S311
        queues = Queues(seed, draw.choice((0.0, 0.0, 0.1)))
        rows = [
            {**row, "correlation": draw.choice((0, None))}
            if row.get("category") == "kernel"
            else row
            for row in queues.rows
        ]
        truth = [row.get("correlation") for row in queues.rows]
        made = facts(*rows)
        read = made["events"].select(["correlation", "launch_id", "kind"]).to_pylist()
        for row, number in zip(read, truth, strict=True):
            if row["launch_id"] is not None:
                assert read[row["launch_id"]]["correlation"] == number
                matched += 1
        one_stream = len({row["stream"] for row in rows if "stream" in row}) == 1
        has_links = any(row["launch_id"] is not None for row in read)
        assert has_links == (one_stream and not queues.lost)
    assert matched


def launch_ids(*rows: Row) -> list[int | None]:
    ids: list[int | None] = facts(*rows)["events"]["launch_id"].to_pylist()
    return ids


def made_call(start: int, number: int) -> Row:
    return event(
        "cudaFunction", start, start + 2, category="cuda_runtime", pid="1", correlation=number
    )


def piece(start: int, number: int) -> Row:
    return event(
        "k", start, start + 5, category="kernel", thread=9, pid="0", device=0, stream=7,
        correlation=number,
    )  # fmt: skip


def test_of_several_calls_the_last_before_a_slice_launched_it() -> None:
    rows = [made_call(0, 7), piece(10, 7), made_call(20, 7), piece(30, 7), made_call(40, 7)]
    assert launch_ids(*rows) == [None, 0, None, 2, None]
    assert launch_ids(piece(10, 7), made_call(20, 7), made_call(40, 7)) == [None] * 3


def test_the_only_call_may_have_begun_later_by_the_clocks() -> None:
    """By a millisecond among others that did not, and by more if most did."""
    late, right = [made_call(2 * MS, 7), piece(MS, 7)], [made_call(0, 8), piece(9, 8)]
    assert launch_ids(*late, *right, *right[1:]) == [None, 0, None, 2, 2]
    very_late = [made_call(2 * MS, 7), piece(MS - 1, 7)]
    assert launch_ids(*very_late, *right, *right[1:]) == [None, None, None, 2, 2]
    assert launch_ids(*very_late) == [None, 0]
