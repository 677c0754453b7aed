"""Pipelines that torch ran, against what their schedules are known to do."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.trace.trace import Trace
from tests import needs
from tests.unit.pipeline_ranks import MICROBATCHES, SCHEDULES, record

RECORDED = Path(__file__).parent.parent / "data" / "pipelines"
LETTERS = {"forward": "F", "backward": "B"}

Event = dict[str, Any]

Action = tuple[int, str, int]
"""Stage, F or B, and microbatch."""


def forwards(rank: int, ranks: int, own: int) -> list[Action]:
    """As many microbatches as there are ranks go through each stage of the rank in turn."""
    return [
        (rank + ranks * turn, "F", number)
        for first in range(0, MICROBATCHES, ranks if own > 1 else MICROBATCHES)
        for turn in range(own)
        for number in range(first, min(first + (ranks if own > 1 else MICROBATCHES), MICROBATCHES))
    ]


def backwards(rank: int, ranks: int, own: int) -> list[Action]:
    """The same, the last stage first."""
    last = 2 * rank + ranks * (own - 1)
    return [(last - stage, "B", number) for stage, _, number in forwards(rank, ranks, own)]


def ahead(schedule: str, rank: int, ranks: int, own: int) -> int:
    """How many forwards a rank does before its first backward."""
    if schedule == "GPipe":
        return MICROBATCHES
    if schedule == "1F1B":
        return ranks - rank
    return (own - 1) * ranks + 2 * (ranks - rank - 1) + 1


def expected(schedule: str, rank: int) -> Iterator[Action]:
    """Some forwards, then one backward and one forward by turns, then what is left."""
    ranks, own = SCHEDULES[schedule]
    first = forwards(rank, ranks, own)
    second = backwards(rank, ranks, own)
    lead = ahead(schedule, rank, ranks, own)
    yield from first[:lead]
    for number, action in enumerate(second):
        yield action
        yield from first[lead + number : lead + number + 1]


def check(schedule: str, trace: Trace) -> None:
    ranks, own = SCHEDULES[schedule]
    rows = trace.pipeline_actions()
    working = rows.filter(pl.col("phase").is_in([*LETTERS]))
    assert {*rows["phase"]} <= {*LETTERS, "communication"}
    for rank in range(ranks):
        found = working.filter(rank=rank).select("stage", "phase", "microbatch").rows()
        assert [(s, LETTERS[p], m) for s, p, m in found] == [*expected(schedule, rank)]
    said = {"1F1B": "messages"}.get(schedule, "annotations")
    assert {*rows["source"]} == {said}
    bubbles = trace.pipeline_bubbles()
    assert bubbles["rank"].to_list() == [*range(ranks)]
    assert bubbles["actions"].to_list() == [2 * own * MICROBATCHES] * ranks
    ideal = Fraction(ranks - 1, own * MICROBATCHES + ranks - 1)
    assert bubbles["ideal_share"].to_list() == [pytest.approx(float(ideal))] * ranks
    assert (bubbles["busy_ns"] + bubbles["bubble_ns"]).to_list() == bubbles["window_ns"].to_list()
    assert bubbles["warmup_ns"].is_sorted(), (
        "each rank waits for the first forward of the one before"
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_torch_did_is_what_its_schedule_says(schedule: str) -> None:
    check(schedule, profframe.load(RECORDED / schedule))


@needs.linux
@pytest.mark.long
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_live(schedule: str, tmp_path: Path) -> None:
    needs.module("torch.distributed.pipelining")
    record(schedule, tmp_path / schedule)
    check(schedule, profframe.load(tmp_path / schedule))


def written(schedule: str, folder: Path, change: Callable[[Event], Event | None]) -> Trace:
    """A recorded pipeline with some of its events changed or left out."""
    for path in (RECORDED / schedule).iterdir():
        found = json.loads(gzip.decompress(path.read_bytes()))
        kept = [changed for event in found["traceEvents"] if (changed := change(event))]
        text = json.dumps(found | {"traceEvents": kept})
        (folder / path.stem).write_text(text, encoding="utf-8")
    return profframe.load(folder)


def test_without_names_messages_say_what_the_names_said(tmp_path: Path) -> None:
    names = re.compile(r"(Forward|Backward) \d+")
    trace = written("GPipe", tmp_path, lambda e: None if names.fullmatch(e["name"]) else e)
    columns = ("rank", "stage", "phase", "microbatch")
    found = trace.pipeline_actions()
    assert {*found["source"]} == {"messages"}
    named = profframe.load(RECORDED / "GPipe").pipeline_actions()
    assert found.select(columns).rows() == named.select(columns).rows()


def test_without_peers_autograd_says_what_is_what(tmp_path: Path) -> None:
    def change(event: Event) -> Event:
        args = event.get("args", {})
        return event | {"args": {k: v for k, v in args.items() if k != "Concrete Inputs"}}

    found = written("1F1B", tmp_path, change).pipeline_actions()
    said = profframe.load(RECORDED / "1F1B").pipeline_actions()
    columns = ("rank", "phase", "microbatch")
    assert found.select(columns).rows() == said.select(columns).rows()
    assert found["stage"].null_count() == found.height
