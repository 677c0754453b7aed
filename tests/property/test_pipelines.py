"""Pipelines of drawn schedules against plain Python that knows what was drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from profframe import schema
from profframe.trace.trace import Trace
from tests.builders import table
from tests.oracles.intervals import merged

PHASES = {"F": "forward", "I": "backward", "B": "backward", "W": "weight_gradient"}
ROUNDS = 1_000
"""Time of a step, longer than what is drawn in one."""


@dataclass(frozen=True)
class Action:
    """What a rank does on the one clock of the job."""

    rank: int
    step: int
    stage: int
    word: str
    microbatch: int
    start: int
    end: int


@dataclass(frozen=True)
class Job:
    """A pipeline of ranks with clocks of their own."""

    ranks: int
    chunks: int
    microbatches: int
    offsets: tuple[int, ...]
    is_shown: bool
    """Collectives at the ends of steps show the offsets."""
    on_devices: bool
    actions: tuple[Action, ...]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Stages in chunks; each rank does its actions one after another, with any pauses."""
    ranks, chunks, microbatches = (draw(st.integers(1, 3)) for _ in range(3))
    is_shown = draw(st.booleans())
    offsets = (0, *(draw(st.integers(-50, 50)) if is_shown else 0 for _ in range(ranks - 1)))
    words = draw(st.sampled_from(["FB", "FIW", "F"]))
    actions = []
    for step in range(draw(st.integers(1, 2))):
        for rank in range(ranks):
            at = ROUNDS * step + draw(st.integers(0, 40))
            todo = [
                (stage, word, microbatch)
                for stage in range(rank, ranks * chunks, ranks)
                for word in words
                for microbatch in range(microbatches)
            ]
            for stage, word, microbatch in draw(st.permutations(todo)):
                length = draw(st.integers(1, 9))
                actions.append(Action(rank, step, stage, word, microbatch, at, at + length))
                at += length + draw(st.integers(0, 9)) * draw(st.integers(0, 1))
    on_devices = draw(st.booleans())
    return Job(ranks, chunks, microbatches, offsets, is_shown, on_devices, tuple(actions))


JOBS = st.lists(jobs(), min_size=1, max_size=25)
"""Many at once, each a run of its own."""


def rows_of(run: int, job: Job) -> Iterator[dict[str, Any]]:
    for rank in range(job.ranks):
        own = [action for action in job.actions if action.rank == rank]
        rows: list[dict[str, Any]] = []
        for turn, action in enumerate(sorted(own, key=lambda a: a.start)):
            name = f"PP:{action.stage}{action.word}{action.microbatch}"
            mark = {"kind": "annotation", "name": name, "thread": 1, "step": action.step}
            length = action.end - action.start
            if not job.on_devices:
                rows.append(mark | {"start_ns": action.start, "dur_ns": length})
                continue
            # The host is ahead, and waits for nothing.
            host = action.step * ROUNDS - 500 + 4 * turn
            work = {"kind": "kernel", "name": "mm", "stream": 7, "kernel_category": "gemm"}
            recv = {"name": "ncclDevKernel_SendRecv", "kernel_category": "point_to_point"}
            rows += [
                mark | {"start_ns": host, "dur_ns": 3},
                {"kind": "runtime", "name": "go", "thread": 2, "start_ns": host, "dur_ns": 1},
            ]
            call = len(rows) - 1
            rows += [
                work | {"launch_id": call, "start_ns": action.start, "dur_ns": 1},
                work | {"launch_id": call, "start_ns": action.end - 1, "dur_ns": 1},
                work | recv | {"launch_id": call, "start_ns": action.start - 60, "dur_ns": 60},
            ]
        if job.is_shown:
            rows += [
                {"kind": "kernel", "name": "ncclDevKernel_Barrier", "kernel_category": "collective"}
                | {"collective": "barrier", "process_group": "all", "collective_seq": number}
                | {"start_ns": ROUNDS * number + 900, "dur_ns": 50, "stream": 9}
                for number in range(2)
            ]
        for number, row in enumerate(rows):
            shifted = {"start_ns": row["start_ns"] + job.offsets[rank]}
            yield {"run": str(run), "rank": rank, "event_id": number} | row | shifted


def trace_of(jobs_of: list[Job]) -> Trace:
    tables = {name: t.arrow.empty_table() for name, t in schema.TABLES.items()}
    events = [row for run, job in enumerate(jobs_of) for row in rows_of(run, job)]
    traces = [
        {"run": str(run), "rank": rank, "clock": "utc"}
        for run, job in enumerate(jobs_of)
        for rank in range(job.ranks)
    ]
    return Trace.from_tables(
        tables | {"events": table("events", events), "traces": table("traces", traces)}
    )


@settings(max_examples=max(settings().max_examples // 8, 2))
@given(drawn=JOBS)
def test_bubbles_are_what_was_drawn(drawn: list[Job]) -> None:
    with trace_of(drawn).session() as trace:
        found = trace.pipeline_bubbles().to_dicts()
        actions = trace.pipeline_actions().to_dicts()
    expected = []
    for run, job in enumerate(drawn):
        stages = job.ranks * job.chunks
        for step in sorted({action.step for action in job.actions}):
            in_step = [action for action in job.actions if action.step == step]
            first, last = min(a.start for a in in_step), max(a.end for a in in_step)
            for rank in range(job.ranks):
                own = [action for action in in_step if action.rank == rank]
                start, end = min(a.start for a in own), max(a.end for a in own)
                busy = sum(e - s for s, e in merged((a.start, a.end) for a in own))
                ideal = (job.ranks - 1) / (job.chunks * job.microbatches + job.ranks - 1)
                expected.append(
                    {
                        "run": str(run),
                        "rank": rank,
                        "step": step,
                        "pass": 1,
                        "stages": ",".join(map(str, range(rank, stages, job.ranks))),
                        "microbatches": job.microbatches,
                        "actions": len(own),
                        "start_ns": start + job.offsets[rank],
                        "window_ns": last - first,
                        "busy_ns": busy,
                        "bubble_ns": last - first - busy,
                        "bubble_share": (last - first - busy) / (last - first),
                        "warmup_ns": start - first,
                        "steady_ns": end - start - busy,
                        "cooldown_ns": last - end,
                        "pipeline_ranks": job.ranks,
                        "ideal_share": ideal,
                        "is_corrected": job.is_shown and job.ranks > 1,
                    }
                )
    key = lambda row: (row["run"], row["step"], row["rank"])  # noqa: E731
    assert sorted(found, key=key) == sorted(expected, key=key)
    assert found == sorted(found, key=key)
    said = [
        (a["run"], a["rank"], a["step"], a["stage"], a["microbatch"], a["phase"], a["start_ns"])
        for a in actions
    ]
    known = [
        (
            *(str(run), a.rank, a.step, a.stage, a.microbatch, PHASES[a.word]),
            a.start + job.offsets[a.rank],
        )
        for run, job in enumerate(drawn)
        for a in job.actions
    ]
    assert sorted(said) == sorted(known)
    for row in found:
        same = [a for a in actions if all(a[k] == row[k] for k in ("run", "rank", "step", "pass"))]
        assert sum(a["idle_ns"] or 0 for a in same) == row["steady_ns"]
        assert [a["idle_ns"] is None for a in same] == [True] + [False] * (len(same) - 1)


@st.composite
def one_forward_one_backward(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, ...]]]:
    """Ranks, microbatches, and of each rank the lengths of its actions and pauses."""
    ranks, microbatches = draw(st.integers(2, 4)), draw(st.integers(1, 5))
    lengths = [
        tuple(draw(st.integers(1, 9)) for _ in range(4 * microbatches)) for _ in range(ranks)
    ]
    return ranks, microbatches, lengths


@settings(max_examples=max(settings().max_examples // 8, 2))
@given(drawn=st.lists(one_forward_one_backward(), min_size=1, max_size=15))
def test_the_order_of_messages_says_the_same(
    drawn: list[tuple[int, int, list[tuple[int, ...]]]],
) -> None:
    """1F1B as torch does it without a name: each rank alone, for order is all that counts."""
    events: list[dict[str, Any]] = []
    expected = []
    for run, (ranks, microbatches, lengths) in enumerate(drawn):
        for rank in range(ranks):
            warmup = min(microbatches, ranks - rank)
            order = [("F", n) for n in range(warmup)]
            for n in range(microbatches):
                order += [("B", n)] + [("F", n + warmup)] * (n + warmup < microbatches)
            rows: list[dict[str, Any]] = []
            pieces: list[list[Any]] = []
            at, parts = 0, iter(lengths[rank])
            is_open = False
            for word, number in order:
                source = rank - 1 if word == "F" else rank + 1
                target = rank + 1 if word == "F" else rank - 1
                message = {"kind": "host_op", "name": "record_param_comms", "dur_ns": 1}
                if 0 <= source < ranks:
                    rows.append(
                        message | {"collective": "recv", "peer_rank": source, "start_ns": at}
                    )
                    at, is_open = at + 1, False
                length = next(parts)
                op = {"kind": "host_op", "name": "aten::mm", "start_ns": at, "dur_ns": length}
                rows.append(op)
                if is_open:
                    pieces[-1][0] += word
                    pieces[-1][2] = at + length
                else:
                    pieces.append([word, at, at + length, number])
                at, is_open = at + length, True
                if 0 <= target < ranks:
                    rows.append(
                        message | {"collective": "send", "peer_rank": target, "start_ns": at}
                    )
                    at, is_open = at + 1, False
                at += next(parts)
            events += [
                {"run": str(run), "rank": rank, "event_id": n, "thread": 1} | row
                for n, row in enumerate(rows)
            ]
            for words, start, end, _ in pieces:
                phase = {"F": "forward", "B": "backward"}.get(words, "forward_backward")
                expected.append((str(run), rank, rank, phase, start, end - start))
    tables = {name: t.arrow.empty_table() for name, t in schema.TABLES.items()}
    places = sorted({(row["run"], row["rank"]) for row in events})
    traces = [{"run": run, "rank": rank, "clock": "utc"} for run, rank in places]
    given_tables = {"events": table("events", events), "traces": table("traces", traces)}
    with Trace.from_tables(tables | given_tables).session() as trace:
        rows = trace.pipeline_actions().to_dicts()
        bubbles = trace.pipeline_bubbles().to_dicts()
    found = [
        (r["run"], r["rank"], r["stage"], r["phase"], r["start_ns"], r["dur_ns"]) for r in rows
    ]
    assert sorted(found) == sorted(expected)
    for row in bubbles:
        ranks, microbatches, _ = drawn[int(row["run"])]
        assert (row["pipeline_ranks"], row["microbatches"]) == (ranks, microbatches)
        assert row["ideal_share"] == (ranks - 1) / (microbatches + ranks - 1)
