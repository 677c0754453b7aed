"""Planted edits on steps of real traces: what each is, and that its cause is named first.

The models, what plays them and the edits are in `tests/planted`, apart from profframe.
"""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path
from typing import Final

import pytest

import profframe
from tests.members import few
from tests.planted import making, run
from tests.planted.drawing import KINDS, SOURCES, WITH_COLLECTIVES, Planted, plant, recorded
from tests.planted.edits import LEAST
from tests.planted.recorded import Model, Slice, Work, cut
from tests.planted.steps import length, play, simulate

NEAR: Final = 0.03
SMALL: Final = SOURCES[6]
EDITS: Final = 200


def drawn(traces: Path, kind: str) -> Planted:
    return plant(traces, kind, "a test")


@pytest.mark.parametrize("source", few(SOURCES, 3))
def test_a_step_without_noise_takes_as_long_as_recorded(traces: Path, source: str) -> None:
    model = cut(traces / source)
    assert abs(length([model], steps=1) / model.recorded - 1) < NEAR


def line(*, tail: int, works: list[Work], waits: str | None = None) -> Slice:
    event = {"ph": "X", "cat": "cuda_runtime", "name": "cudaCall", "args": {"correlation": 1}}
    call = Slice(event, (1, 1), 10, tail, works=works)
    call.waits = waits
    return call


def work(dur: int, stream: int = 7, name: str = "kernel") -> Work:
    event = {"cat": "kernel", "name": name, "args": {"correlation": 1}}
    return Work(event, (0, stream), lag=5, gap=2, dur=dur)


def model_of(*calls: Slice) -> Model:
    event = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "args": {}}
    return Model(Slice(event, (1, 1), 0, 100, list(calls)), {}, None, 0)


def spans(models: list[Model], steps: int = 1) -> list[list[tuple[int, int]]]:
    """Start and duration of the works of each rank, from the beginning of the first step."""
    ranks = play(models, steps=steps, noise=0.0).ranks
    begin = ranks[0].events[0]["start"]
    return [[(r.start - begin, (r.end or 0) - r.start) for r, _ in rank.works] for rank in ranks]


def test_a_work_starts_after_its_call_and_after_the_work_before_it() -> None:
    model = model_of(
        line(tail=20, works=[work(1_000)]),
        line(tail=20, works=[work(50)]),
        line(tail=20, works=[work(50, stream=8)]),
    )
    # Calls begin at 10, 40 and 70; the second work is in the queue, the third on another stream.
    assert spans([model]) == [[(15, 1_000), (1_017, 50), (75, 50)]]
    assert length([model]) == 190


def test_a_call_that_waits_ends_after_the_device() -> None:
    model = model_of(line(tail=20, works=[work(5_000)]), line(tail=30, works=[], waits="all"))
    # The work ends at 15 + 5,000; the call takes 30 more, the rest of the step 100.
    assert length([model]) == 5_015 + 30 + 100


def test_a_collective_ends_when_the_last_rank_has_come() -> None:
    first, last = (
        model_of(line(tail=20, works=[work(100, name="ncclDevKernel_AllReduce")])) for _ in "12"
    )
    last.root.children[0].lead += 700
    assert spans([first, last]) == [[(15, 800)], [(715, 100)]]


def test_another_thread_is_waited_for() -> None:
    model = model_of(*(line(tail=tail, works=[]) for tail in (20, 300, 20)))
    beside = Slice(None, (1, 2), 5, 0, [line(tail=400, works=[])])
    model.root.children.insert(1, beside)
    assert length([model]) == 10 + 20 + 5 + 410 + 10 + 300 + 10 + 20 + 100
    beside.waited = False
    # Both run, until the last call of the step.
    assert length([model]) == 10 + 20 + 5 + 410 + 10 + 20 + 100


def test_the_same_seed_writes_the_same_traces(traces: Path, tmp_path: Path) -> None:
    model = recorded(traces / SMALL)
    (first,), (again,), (other,) = (
        simulate([model], tmp_path / name, seed) for name, seed in (("1", 1), ("2", 1), ("3", 2))
    )
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


def test_profframe_reads_the_steps_that_were_played(traces: Path, tmp_path: Path) -> None:
    model = recorded(traces / SMALL)
    (path,) = simulate([model], tmp_path, "steps")
    trace = profframe.load(path)
    (rank,) = play([model], "steps").ranks
    assert trace.step_times()["host_ns"].to_list() == rank.lengths
    # Each duration is drawn: a step of many differs by less than 2 %.
    assert 0 < statistics.stdev(rank.lengths) / statistics.mean(rank.lengths) < 0.02
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == trace.events.height
    works = trace.events.filter(trace.events["stream"].is_not_null())
    assert works["launch_id"].null_count() == works["op_id"].null_count() == 0


@pytest.mark.parametrize("kind", few(KINDS, 2))
def test_an_edit_changes_the_step_by_what_it_says(traces: Path, kind: str) -> None:
    planted = drawn(traces, kind)
    assert len(planted.base) == len(planted.other) == KINDS[kind].ranks
    assert length(planted.base) == planted.step_ns
    assert length(planted.other) - length(planted.base) == planted.change_ns
    assert abs(planted.change_ns) >= LEAST * planted.step_ns
    noisy = [
        statistics.mean(play(side, "noise").ranks[0].lengths)
        for side in (planted.base, planted.other)
    ]
    # A fifth of the least edit: what ten steps with noise may be off.
    assert noisy[1] - noisy[0] == pytest.approx(
        planted.change_ns, abs=LEAST / 5 * planted.step_ns + abs(planted.change_ns) / 10
    )


def test_a_copy_of_a_model_is_its_own(traces: Path) -> None:
    model = recorded(traces / WITH_COLLECTIVES[0])
    copy = making.copied(model)
    assert length([copy]) == length([model])
    making.scale(copy.works(), 50)
    assert length([copy]) > 2 * length([model])
    assert not {*map(id, copy.works())} & {id(work.after) for work in model.works()}


@pytest.mark.parametrize("kind", few(KINDS, ["kernel of a name", "host code", "late rank"]))
def test_the_cause_of_an_edit_is_named_first(traces: Path, kind: str) -> None:
    (outcome,) = run.outcomes(traces, 1, 0, [kind])
    assert outcome.is_right, "\n".join(outcome.lines())


@pytest.mark.long
def test_what_launched_work_hides_is_due_to_the_call_that_it_hides(traces: Path) -> None:
    (outcome,) = run.outcomes(traces, 1, 100, ["recompile"])
    assert outcome.said == pytest.approx(1, abs=0.1), "\n".join(outcome.lines())


@pytest.mark.long
def test_the_causes_of_200_edits_are_named_first(traces: Path) -> None:
    wrong = [o for o in run.outcomes(traces, EDITS, 1) if not o.is_right]
    assert len(wrong) <= EDITS // 20, "\n".join(each for o in wrong for each in o.lines())


@pytest.mark.parametrize("count", [1, pytest.param(100, marks=pytest.mark.long)])
def test_where_nothing_changed_no_cause_is_named(traces: Path, count: int) -> None:
    named = [(source, run.named(rows)) for source, rows in run.unedited(traces, count, 1)]
    assert sum(bool(rows) for _, rows in named) <= count // 100, named
