"""Busy and idle time of every answer that shows some, against a plain union of the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import mean
from typing import Any, Final

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe import Trace, schema
from profframe.query.catalogue import advice, selects
from profframe.query.rules import shipped_rules
from tests.builders import Row, event, loaded_ranks
from tests.oracles.intervals import Span, merged, shared, when
from tests.oracles.kernels import class_of

Rows = list[dict[str, Any]]
Key = tuple[str, int]

WORK: Final = {
    "kernel": "mm",
    "gpu_memset": "Memset (Device)",
    "gpu_memcpy": "Memcpy HtoD (Pinned)",
}
MARKS: Final = ("f", "g", "decode", "prefill")
COMMUNICATION: Final = "ncclDevKernel_AllReduce"
COLUMNS: Final = (
    *("run", "rank", "event_id", "kind", "name", "start_ns", "dur_ns", "device", "stream", "step"),
    *("preorder", "idle_ns", "phase_id", "kernel_category"),
)


PLACE: Final = st.integers(0, 1)


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, length = draw(st.integers(0, 40)), draw(st.integers(0, 20))
    what = draw(st.sampled_from(["work", "work", "work", "call", "mark", "step"]))
    if what == "work":
        category = draw(st.sampled_from([*WORK]))
        name = WORK[category]
        if category == "kernel":
            name = draw(st.sampled_from([name, COMMUNICATION]))
        return event(
            name,
            start,
            start + length,
            category=category,
            pid="0",
            thread=8,
            device=draw(st.integers(0, 2)),
            stream=draw(st.integers(7, 8)),
            correlation=draw(st.none() | st.integers(1, 5)),
        )
    thread, end = draw(st.integers(0, 1)), start + length
    if what == "call":
        link = draw(st.integers(1, 5))
        return event("go", start, end, category="cuda_runtime", thread=thread, correlation=link)
    name = f"ProfilerStep#{draw(PLACE)}" if what == "step" else draw(st.sampled_from(MARKS))
    return event(name, start, end, category="user_annotation", thread=thread)


RANKS: Final = st.lists(
    st.lists(slices(), max_size=4) | st.lists(slices(), min_size=12, max_size=30),
    min_size=1,
    max_size=4,
)
"""Several ranks at once, in two runs; some are empty or nearly so."""


def busy(rows: Iterable[Row], since: int = -1, until: int = 99) -> int:
    """Time in a window in which at least one of the rows ran."""
    return shared([(since, until)], merged(map(when, rows)))


def number(row: Row) -> int:
    """N of `ProfilerStep#N`."""
    return int(str(row["name"]).partition("#")[2])


def span(rows: Sequence[Row]) -> Span:
    return min(when(row)[0] for row in rows), max(when(row)[1] for row in rows)


def idle(rows: Sequence[Row], since: int, until: int) -> int:
    """The rest of a window."""
    return until - since - busy(rows, since, until)


# What each answer says by that.


class Rank:
    """Rows of one (run, rank), and the work of its devices."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.work = [row for row in rows if row["kind"] in schema.DEVICE_KINDS]
        self.compute = [row for row in self.work if class_of(row) == "compute"]
        steps = (row for row in rows if (row["name"] or "").startswith("ProfilerStep#"))
        self.steps = sorted(steps, key=lambda row: (row["start_ns"], row["event_id"]))

    def exposed(self, since: int = -1, until: int = 99) -> int:
        """Time in which some work communicated, and nothing on the rank computed."""
        some = [row for row in self.work if class_of(row) != "copy"]
        return busy(some, since, until) - busy(self.compute, since, until)

    def by_device(self) -> list[Rows]:
        return [
            [row for row in self.work if row["device"] == device]
            for device in {row["device"] for row in self.work}
        ]


Ranks = dict[Key, Rank]
Said = Iterator[tuple[Any, ...]]


def overview(ranks: Ranks) -> Said:
    for key, rank in ranks.items():
        yield *key, sum(map(busy, rank.by_device()))


def time_breakdown(ranks: Ranks) -> Said:
    for key, rank in ranks.items():
        if rank.work:
            windows = [(None, *span(rank.work)), *((number(row), *when(row)) for row in rank.steps)]
            for step, since, until in windows:
                yield (
                    *key,
                    step,
                    rank.exposed(since, until),
                    idle(rank.work, since, until),
                )


def utilization(ranks: Ranks) -> Said:
    """Of each device, over all steps and in each; without any, from the first slice to the last."""
    for key, rank in ranks.items():
        timed = rank.steps or rank.rows
        windows: list[tuple[int | None, int, int]] = [(None, *span(timed))] if timed else []
        windows += [(number(row), *when(row)) for row in rank.steps]
        for work in rank.by_device():
            kernels = [row for row in work if row["kind"] == "kernel"]
            for step, since, until in windows:
                yield (
                    *key,
                    work[0]["device"],
                    step,
                    busy(kernels, since, until),
                    busy(work, since, until),
                )


def step_times(ranks: Ranks) -> Said:
    for key, rank in ranks.items():
        for row in rank.steps:
            parts = (busy(rank.work, *when(row)), idle(rank.work, *when(row)))
            yield *key, number(row), *(parts if rank.work else (None, None))


def runs(ranks: Ranks) -> Said:
    for run in sorted({run for run, _ in ranks}):
        used = [rank.work for (of, _), rank in ranks.items() if of == run and rank.work]
        yield (
            run,
            sum(map(busy, used)) if used else None,
            sum(idle(work, *span(work)) for work in used) if used else None,
        )


def rank_balance(ranks: Ranks) -> Said:
    """Of the whole traces."""
    for run in sorted({run for run, _ in ranks}):
        used = [rank.work for (of, _), rank in ranks.items() if of == run and rank.work]
        if used:
            idles = [idle(work, *span(work)) for work in used]
            yield run, min(idles), max(idles)


def kernel_types(ranks: Ranks) -> Said:
    for key, rank in ranks.items():
        if busy(rank.work):
            yield *key, busy(rank.work)


def exposed_communication(ranks: Ranks) -> Said:
    for key, rank in ranks.items():
        if rank.exposed():
            yield *key, rank.exposed()


def evaluation(ranks: Ranks) -> Said:
    for key, rank in ranks.items():
        for row in rank.rows:
            if row["preorder"] is not None:
                idle_ns = idle(rank.work, *when(row)) if rank.work else None
                yield *key, row["event_id"], idle_ns


def phases(ranks: Ranks) -> Said:
    """Of each occurrence, from the start of its mark to the end of that or of its last work."""
    for key, rank in ranks.items():
        for row in rank.rows:
            if row["phase_id"] == row["event_id"]:
                work = [other for other in rank.work if other["phase_id"] == row["event_id"]]
                until = max(when(other)[1] for other in (row, *work))
                talks = [other for other in work if class_of(other) == "communication"]
                yield (
                    *key,
                    row["event_id"],
                    busy(work),
                    idle(rank.work, when(row)[0], until) if rank.work else None,
                    busy([*talks, *rank.compute]) - busy(rank.compute),
                )


def low_gpu_use(ranks: Ranks) -> Said:
    """Traces that were idle for more than half of their steps; without steps, their devices."""
    for key, rank in ranks.items():
        windows = [when(row) for row in rank.steps if row["dur_ns"]]
        parts: list[float] = [idle(rank.work, *window) for window in windows]
        if rank.work and not windows:
            windows = [span(rank.work)]
            parts = [mean(idle(work, *span(work)) for work in rank.by_device())]
        if rank.work and sum(parts) > sum(until - since for since, until in windows) / 2:
            yield key


def columns(*names: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.select(names)


def sums(*keys: str, of: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.group_by(keys).agg(pl.col(of).sum())


TRACE: Final = ("run", "rank")
TIMES: Final = ("busy_ns", "idle_ns")
Spec = tuple[Callable[[pl.DataFrame], pl.DataFrame], Callable[[Ranks], Said]]
SPECS: Final[dict[str, Spec]] = {
    "overview": (columns(*TRACE, "device_busy_ns"), overview),
    "time_breakdown": (
        columns(*TRACE, "step", "exposed_communication_ns", "idle_ns"),
        time_breakdown,
    ),
    "utilization": (
        columns(*TRACE, "device", "step", "kernel_ns", "busy_ns"),
        utilization,
    ),
    "step_times": (columns(*TRACE, "step", *TIMES), step_times),
    "runs": (columns("run", *TIMES), runs),
    "rank_balance": (
        lambda frame: frame.filter(pl.col("step").is_null(), pl.col("class") == "idle").select(
            "run", "min_ns", "max_ns"
        ),
        rank_balance,
    ),
    "time_breakdown.combination": (sums(*TRACE, of="total_ns"), kernel_types),
    "exposed_communication": (sums(*TRACE, of="dur_ns"), exposed_communication),
    "op_idle_queue": (columns(*TRACE, "event_id", "idle_ns"), evaluation),
    "advice": (
        lambda frame: frame.filter(pl.col("rule") == "low_gpu_use").select(TRACE),
        low_gpu_use,
    ),
}
"""By an answer: what is compared of it, and what that has to be."""
ALONE: Final = {
    "advice": advice().only(rule for rule in shipped_rules() if rule.name == "low_gpu_use")
}
"""Questions without what else would have some of the time."""
ELSEWHERE: Final = {
    *(
        "annotations",
        "annotations.call",
        "kernel_categories",
        "kernel_overlap",
        "modules",
    ),  # tests/parity/test_kernel_answers.py
    *("gaps", "idle"),  # tests/parity/test_idle_answers.py
    "host_waits",  # tests/traces/test_host_waits.py: idle time is a part of the fact `idle_ns`
    "idle.owner",  # tests/traces/test_sums.py: what idle has, and not a nanosecond else
    "memory_bandwidth",  # tests/parity/test_memory_answers.py
    *("optimizable_events", "phases"),  # below
    *("pipeline_actions", "pipeline_bubbles"),  # tests/property/test_pipelines.py
    "python_lines",  # tests/traces/test_sums.py: idle time is a part of the fact `idle_ns`
}
"""Answers of which every column is compared with loops of their own."""


def ranks_of(trace: Trace) -> Ranks:
    rows: dict[Key, Rows] = {key: [] for key in sorted(trace.traces.select(TRACE).rows())}
    for row in trace.events.select(COLUMNS).to_dicts():
        rows[row["run"], row["rank"]].append(row)
    return {key: Rank(of_rank) for key, of_rank in rows.items()}


@settings(max_examples=max(1, settings().max_examples // 3))
@given(ranks=RANKS)
def test_time_is_that_of_a_plain_union(ranks: list[list[Row]]) -> None:
    trace = loaded_ranks(ranks)
    of = ranks_of(trace)
    with trace.session() as asked:
        for name, (shown, expected) in SPECS.items():
            found = shown(asked.answer(ALONE.get(name, name))).rows()
            assert sorted(found, key=repr) == sorted(expected(of), key=repr), name
        occurrences = asked.answer("phases", per="occurrence").select(
            *TRACE, "event_id", *TIMES, "exposed_communication_ns"
        )
        assert sorted(occurrences.rows(), key=repr) == sorted(phases(of), key=repr)
        for row in asked.answer("optimizable_events", n=99).to_dicts():
            assert row["idle_ns"] == idle(of[row["run"], row["rank"]].work, *when(row))


def test_no_answer_is_left_out() -> None:
    shows = re.compile(r"(.*_)?(busy|idle)(_ns|_share)")
    found = {a.name for a in selects() if any(shows.fullmatch(c.name) for c in a.columns)}
    assert found <= SPECS.keys() | ELSEWHERE
