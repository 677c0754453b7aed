"""How long steps took, on drawn programs, against a loop over steps and pieces of work."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Row, event, facts, loaded
from tests.oracles import completions
from tests.property.test_busy_time import slices

PARTS = (
    *("compute_ns", "exposed_communication_ns", "exposed_copy_ns", "unrecorded_ns", "idle_ns"),
)
MOST_AHEAD = 20
US = 1000


class Program:
    """A program of several steps whose host runs up to many steps ahead of its devices.

    Its steps are uneven, it has several streams, some of which wait for others, and the host waits
    for a device now and then; a copy may take longer than a step; a profile may begin late or end
    early.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311 -- not a secret
        self.pace = self.draw.choice((0.0, 0.05, 0.3, 1.0, 3.0))
        self.streams = [7, 20, 21][: self.draw.randint(1, 3)]
        self.free = dict.fromkeys(self.streams, self.draw.choice((0, 0, 3_000)))
        self.now, self.correlation = self.draw.randint(0, 50), 0
        self.rows: list[Row] = []
        if self.free[7] and self.draw.random() < 0.7:
            self.rows.append(work("early", 0, self.free[7], 7))

    def run(self) -> list[Row]:
        draw, number = self.draw, self.draw.randint(0, 9)
        for step in range(draw.randint(1, 9)):
            self.step(number + step)
            number -= draw.random() < 0.1
        if draw.random() < 0.2:
            self.rows.append(event("aten::evaluate", self.now, self.now + 50))
        pieces = [place for place, row in enumerate(self.rows) if "stream" in row]
        if pieces and draw.random() < 0.3:
            lost = {*pieces[draw.choice((-1, -2, len(pieces) // 2)) :]}
            return [row for place, row in enumerate(self.rows) if place not in lost]
        return self.rows

    def step(self, number: int) -> None:
        draw = self.draw
        if draw.random() < 0.2:
            self.now += draw.randint(0, 2_000)
        began, mark = self.now, len(self.rows)
        self.rows.append({})
        for _ in range(draw.randint(0, 6)):
            if draw.random() < 0.15:
                self.wait_of_stream()
            else:
                self.launch()
        if draw.random() < 0.15:
            self.wait_of_host()
        self.now += draw.randint(0, 40)
        if draw.random() < 0.9:
            self.rows.append(event("aten::step", began, max(self.now - 1, began)))
        end = None if draw.random() < 0.02 else self.now
        self.rows[mark] = event(self.name(number), began, end, category="user_annotation")

    def name(self, number: int, /) -> str:
        return f"ProfilerStep#{number}"

    def call(self, name: str, until: int) -> int:
        self.correlation += 1
        self.rows.append(call_of(name, self.now, until, self.correlation))
        since, self.now = self.now, until
        return since

    def wait_of_stream(self) -> None:
        stream, waited = self.draw.choice(self.streams), self.draw.choice(self.streams)
        self.free[stream] = max(self.free[stream], self.free[waited])
        since = self.call("cudaStreamWaitEvent", self.now + self.draw.randint(1, 30))
        if self.draw.random() < 0.5:
            name, number = "Stream Wait Event", self.correlation
            self.rows.append(sync(name, since, stream, number, wait_on_stream=waited))

    def wait_of_host(self) -> None:
        stream = self.draw.choice((None, *self.streams))
        done = max(self.free.values()) if stream is None else self.free[stream]
        name = "cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize"
        since = self.call(name, max(self.now, done) + 1)
        if self.draw.random() < 0.7:
            kind = "Context Sync" if stream is None else "Stream Sync"
            self.rows.append(sync(kind, since, stream, self.correlation))

    def launch(self) -> None:
        draw, stream = self.draw, self.draw.choice(self.streams)
        since = self.call("cudaLaunchKernel", self.now + draw.randint(1, 30))
        usual = int(draw.expovariate(1 / (200 * self.pace + 1)))
        start = max(self.free[stream], self.now - draw.randint(-3, 3), since + 1)
        self.free[stream] = end = start + usual * draw.choice((1, 1, 1, 12))
        name = draw.choice(("mm", "ncclDevKernel_AllReduce", "copy"))
        self.rows.append(work(name, start, end, stream, self.correlation))


def program(seed: int) -> list[Row]:
    return Program(seed).run()


def call_of(name: str, start: int, end: int, correlation: int) -> Row:
    return event(name, start, end, category="cuda_runtime", correlation=correlation)


def work(name: str, start: int, end: int, stream: int, correlation: int | None = None) -> Row:
    category = "gpu_memcpy" if name == "copy" else "kernel"
    return event(
        name, start, end, category=category, pid="0", thread=stream, device=0, stream=stream,
        correlation=correlation,
    )  # fmt: skip


def sync(name: str, start: int, stream: int | None, correlation: int, **columns: Any) -> Row:
    return event(
        name, start, start + 1, category="cuda_sync", pid="0", thread=99, device=0, stream=stream,
        correlation=correlation, **columns,
    )  # fmt: skip


def check(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The steps of rows whose times are in microseconds, as are those of the result."""
    made = loaded_steps(rows)
    return [
        {n: v // US if n.endswith("_ns") and v is not None else v for n, v in row.items()}
        for row in made
    ]


def loaded_steps(rows: Sequence[Row]) -> list[dict[str, Any]]:
    tables = facts(*scaled(rows))
    known = [name for name in completions.COLUMNS if name in tables["events"].column_names]
    events = [
        dict.fromkeys(completions.COLUMNS) | row
        for row in tables["events"].select(known).to_pylist()
    ]
    made: list[dict[str, Any]] = tables["profiler_steps"].to_pylist()
    assert made == completions.steps(events)
    return made


def scaled(rows: Sequence[Row]) -> list[Row]:
    times = ("start_ns", "dur_ns")
    return [
        row | {name: row[name] and row[name] * US for name in times}  # type: ignore[operator]
        for row in rows
    ]


@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in range(0, 200, 25)])
def test_drawn_programs(seeds: range) -> None:
    for seed in seeds:
        made = check(program(seed))
        whole = [row for row in made if row["step_ns"] is not None]
        for row in whole:
            assert row["step_ns"] >= 0
            if row["compute_ns"] is not None:
                assert sum(row[name] for name in PARTS) == row["step_ns"]
                assert 0 <= row["other_steps_ns"] <= row["step_ns"] - row["idle_ns"]
        for one, then in pairwise(whole):
            assert then["began_ns"] >= one["completed_ns"]


def test_the_drawn_programs_show_what_is_asked_of_them() -> None:
    made = [row for seed in range(200) for row in loaded_steps(program(seed))]
    ahead = [row["lag_ns"] / row["host_ns"] for row in made if row["lag_ns"] and row["host_ns"]]
    assert max(ahead) > MOST_AHEAD
    assert sum(bool(row["unawaited"]) for row in made) > 50
    assert {row["lack"] for row in made} == {None, "open", "cut", "records", "before"}


@given(st.lists(slices(), max_size=30))
def test_any_slices(rows: list[Row]) -> None:
    check(rows)


def test_steps_that_follow_each_other_add_up_to_the_whole() -> None:
    """Four steps of the host, each 100; the device takes 250 for each, and 90 before them."""
    rows = [work("early", -90, 30, 7)]
    done = 30
    for step in range(4):
        start = 100 * step
        rows += [
            event(f"ProfilerStep#{step}", start, start + 100, category="user_annotation"),
            call_of("cudaLaunchKernel", start + 5, start + 8, step + 1),
            work("mm", done, done + 250, 7, step + 1),
        ]
        done += 250
    made = check(rows)
    assert [row["step_ns"] for row in made] == [250, 250, 250, 250]
    assert [row["lag_ns"] for row in made] == [180, 330, 480, 630]
    assert made[0]["began_ns"] == 30
    assert made[-1]["completed_ns"] == 1030
    assert [row["idle_ns"] for row in made] == [0, 0, 0, 0]


def of_two_steps(*rows: Row) -> list[dict[str, Any]]:
    """Steps of 100 on the host; work of 20 on stream 7 in each."""
    return check(
        [
            event("ProfilerStep#0", 0, 100, category="user_annotation"),
            call_of("cudaLaunchKernel", 10, 12, 1),
            work("mm", 15, 35, 7, 1),
            event("ProfilerStep#1", 100, 200, category="user_annotation"),
            call_of("cudaLaunchKernel", 110, 112, 2),
            work("mm", 115, 135, 7, 2),
            *rows,
        ]
    )


CHECKPOINT = (call_of("cudaMemcpyAsync", 20, 22, 3), work("copy", 40, 180, 20, 3))
"""A copy of the first step that runs beside the second one."""


def completed(made: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["completed_ns"], row["unawaited"]) for row in made]


def test_a_copy_that_nothing_waits_for_holds_nothing_back() -> None:
    assert completed(of_two_steps(*CHECKPOINT)) == [(100, 1), (200, 0)]


def test_a_copy_with_work_of_the_next_step_behind_it_holds_its_step_back() -> None:
    behind = (call_of("cudaMemcpyAsync", 179, 180, 4), work("copy", 180, 190, 20, 4))
    assert completed(of_two_steps(*CHECKPOINT, *behind)) == [(180, 0), (200, 0)]
    after = (call_of("cudaMemcpyAsync", 180, 181, 4), work("copy", 181, 190, 20, 4))
    assert completed(of_two_steps(*CHECKPOINT, *after)) == [(100, 1), (200, 0)]


def test_a_copy_that_the_next_step_synchronises_with_holds_its_step_back() -> None:
    call = call_of("cudaStreamSynchronize", 150, 181, 4)
    for stream, expected_ns in ((20, 180), (None, 180), (7, 100)):
        made = of_two_steps(*CHECKPOINT, call, sync("Stream Sync", 150, stream, 4))
        assert made[0]["completed_ns"] == expected_ns
    wait = call_of("cudaStreamWaitEvent", 150, 151, 4)
    for stream, expected_ns in ((20, 180), (7, 100)):
        event_wait = sync("Stream Wait Event", 150, 7, 4, wait_on_stream=stream)
        assert of_two_steps(*CHECKPOINT, wait, event_wait)[0]["completed_ns"] == expected_ns


def test_a_copy_that_a_later_step_waits_for_holds_back_the_one_before_that() -> None:
    third = (
        event("ProfilerStep#2", 200, 300, category="user_annotation"),
        call_of("cudaMemcpyAsync", 210, 211, 5),
        work("copy", 260, 265, 20, 5),
    )
    slow = (call_of("cudaMemcpyAsync", 20, 22, 3), work("copy", 40, 260, 20, 3))
    assert completed(of_two_steps(*slow, *third)) == [(100, 1), (260, 0), (300, 0)]


def test_the_first_step_is_not_known_if_its_work_waited_for_what_was_not_recorded() -> None:
    def first(queue: int, *rows: Row, length: int = 9_000) -> dict[str, Any]:
        start = 12 + queue
        made = check(
            [
                event("ProfilerStep#0", 0, 100, category="user_annotation"),
                call_of("cudaLaunchKernel", 10, 12, 1),
                work("mm", start, start + length, 7, 1),
                *rows,
            ]
        )
        return made[0]

    # The queue counts from the start of the launch; 475 of 9,487 us are a twentieth.
    assert (first(470)["step_ns"], first(470)["lack"]) == (9_482, None)
    assert (first(480)["step_ns"], first(480)["lack"]) == (None, "before")
    assert first(480)["completed_ns"] == 9_492
    assert first(480, work("early", -50, 480, 8))["began_ns"] == 480
    # Up to 200 us may be the launch itself, however short the step is.
    assert [first(queue, length=300)["lack"] for queue in (198, 199)] == [None, "before"]


def cut(*names: str, length: int = 100, others: int = 2, after: Sequence[Row] = ()) -> str:
    """What the last step lacks; the others have a forward and an optimizer step."""
    rows = []
    for step in range(others):
        at = 100 * step
        rows += [
            event(f"ProfilerStep#{step}", at, at + 100, category="user_annotation"),
            event("forward", at + 10, at + 20),
            event("optimizer", at + 30, at + 40),
        ]
    at = 100 * others
    rows.append(event(f"ProfilerStep#{others}", at, at + length, category="user_annotation"))
    rows += [event(name, at + 1 + place, at + 2 + place) for place, name in enumerate(names)]
    made = check([*rows, *after])
    assert all(row["lack"] is None for row in made[:-1])
    return str(made[-1]["lack"])


def test_the_end_of_the_profile_cuts_a_step() -> None:
    assert cut() == "cut"
    assert cut("forward") == "cut"
    assert cut("optimizer", "forward", "more") == "None"
    assert cut("forward", after=[event("evaluate", 300, 310)]) == "None"
    assert cut("forward", after=[event("evaluate", 299, 310)]) == "cut"
    assert cut(others=0) == "None"


def test_beside_a_single_step_it_takes_more_to_call_one_cut() -> None:
    assert cut(others=1, length=49) == "cut"
    assert cut(others=1, length=50) == "None"
    assert cut("forward", others=1, length=9) == "None"


def test_a_step_without_the_last_of_its_records_is_not_complete() -> None:
    rows: list[Row] = []
    for number in range(20):
        rows.append(call_of("cudaLaunchKernel", 10 * number, 10 * number + 2, number + 1))
        if number < 19:
            rows.append(work("mm", 10 * number + 3, 10 * number + 9, 7, number + 1))
    marks = [
        event(f"ProfilerStep#{n}", 100 * n, 100 * n + 100, category="user_annotation")
        for n in (0, 1)
    ]
    first, second = check([*marks, *rows])
    assert (first["lack"], first["step_ns"]) == (None, 100)
    assert (second["lack"], second["step_ns"], second["completed_ns"]) == ("records", None, None)
    assert second["host_ns"] == 100


@pytest.mark.parametrize(("pace", "lack"), [(1_000, "before"), (100_000, None)])
def test_a_step_behind_lost_work_of_an_earlier_one(pace: int, lack: str | None) -> None:
    """The device takes 100 us for each launch; where the host is ahead, lost work is not idle."""
    rows, free = [], 0
    for n in range(20):
        at = n * pace
        start, free = max(at + 20, free), max(at + 20, free) + 90_000
        rows.append(call_of("cudaLaunchKernel", at, at + 10, n + 1))
        if not 5 <= n < 10:
            rows.append(work("mm", start, free, 7, n + 1))
    marks = [
        event(f"ProfilerStep#{n}", 5 * pace * n, 5 * pace * (n + 1), category="user_annotation")
        for n in range(4)
    ]
    made = check([*marks, *rows])
    assert [row["lack"] for row in made] == [None, "records", lack, None]
    assert [row["idle_ns"] for row in (made[0], made[3])] == ([20, 0] if lack else [50_000, 50_000])


def test_processes_have_steps_of_their_own() -> None:
    rows = [
        event("ProfilerStep#0", 0, 100, category="user_annotation", pid="1"),
        event("ProfilerStep#0", 50, 150, category="user_annotation", pid="2", thread=1),
        event("ProfilerStep#1", 100, 210, category="user_annotation", pid="1"),
        event(
            "cudaLaunchKernel", 60, 61, category="cuda_runtime", correlation=1, pid="2", thread=1
        ),
        work("mm", 70, 180, 7, 1),
    ]
    made = check(rows)
    assert [(row["pid"], row["began_ns"], row["completed_ns"]) for row in made] == [
        ("1", 0, 100), ("2", 50, 180), ("1", 100, 210),
    ]  # fmt: skip


def test_a_step_by_itself_is_as_long_and_as_busy_as_among_others() -> None:
    """In 100 to 180 of step 1 a copy of step 0 runs to 130, and its own kernel from 115 to 180."""
    trace = loaded(
        event("ProfilerStep#0", 0, 100, category="user_annotation"),
        call_of("cudaMemcpyAsync", 20, 22, 1),
        work("copy", 40, 130, 20, 1),
        event("ProfilerStep#1", 100, 150, category="user_annotation"),
        call_of("cudaLaunchKernel", 110, 112, 2),
        work("mm", 115, 180, 7, 2),
    )
    alone = trace.filter(steps=1)
    assert alone.profiler_steps["step"].to_list() == [1]
    names = ("step_ns", "compute_ns", "exposed_copy_ns", "idle_ns", "other_steps_ns")
    assert trace.step_times().select(names).row(1) == (80, 65, 15, 0, 15)
    assert alone.step_times().select(names).rows() == [(80, 65, 15, 0, 15)]
    (breakdown,) = alone.time_breakdown().drop_nulls("step").to_dicts()
    assert [breakdown[name] for name in names[1:]] == [65, 15, 0, 15]
