"""What ran again in backward: how much in all, and the largest rows."""

from __future__ import annotations

from typing import Any

import polars as pl

from profframe import Trace
from profframe.query.header import sql_directory
from profframe.show.recompute_text import headline, title
from tests import needs
from tests.builders import stored
from tests.conftest import Run

TOTALS = sql_directory() / "inner/recompute_totals.sql"
ROWS = {
    "run": ["a", "a", "b", "c"], "rank": [0, 1, 0, 0], "steps": [3, 0, None, 0],
    "kernels": [4, 0, 1, 0], "device_ns": [6_000, 0, 5_000, 0], "host_ns": [90, 0, 7, 0],
    "share": [0.3, None, 0.5, None], "share_without_communication": [0.5, None, 0.5, None],
}  # fmt: skip


def again(**columns: Any) -> dict[str, Any]:
    return {"run": "r", "rank": 0, "is_recompute": True} | columns


def busy(start: int, dur: int, **columns: Any) -> dict[str, Any]:
    return {
        "run": "r", "rank": 0, "kind": "kernel", "kernel_category": "gemm", "start_ns": start,
        "dur_ns": dur, "is_recompute": False,
    } | columns  # fmt: skip


def trace() -> Trace:
    """Of step 1 nothing runs again, of steps 2 and 3 some does; of another rank nothing does."""
    events = [
        busy(0, 500, step=1),
        busy(500, 60, step=2, is_recompute=True),
        busy(600, 20, step=2, is_recompute=True, kernel_category="collective"),
        busy(700, 140, step=2),
        busy(900, 40, step=3, is_recompute=True),
        busy(1000, 40, step=3, kernel_category="collective"),
        busy(1100, 100, step=3),
        busy(0, 700, rank=1, step=2),
        again(kind="python", preorder=0, start_ns=0, dur_ns=30, step=2),
        again(kind="host_op", preorder=1, parent_id=8, start_ns=1, dur_ns=9, step=2),
        again(kind="host_op", preorder=2, start_ns=40, dur_ns=4, step=3),
    ]
    events = [{"event_id": number, **row} for number, row in enumerate(events)]
    return stored(events=events, traces=[{"run": "r", "rank": 0}, {"run": "r", "rank": 1}])


def test_shares_are_of_the_steps_in_which_something_ran_again() -> None:
    totals = trace().answer(TOTALS)
    assert totals.rows() == [
        ("r", 0, 2, 3, 120, 34, 120 / 400, 100 / 340),
        ("r", 1, 0, 0, 0, 0, None, None),
    ]
    assert trace().recompute()["share"].sum() == 120 / 400


def test_what_ran_again_in_no_step_is_a_share_of_the_rank() -> None:
    events = [
        {"event_id": 0, **busy(0, 30, is_recompute=True)}, {"event_id": 1, **busy(50, 70, step=1)},
    ]  # fmt: skip
    totals = stored(events=events, traces=[{"run": "r", "rank": 0}]).answer(TOTALS)
    assert totals.rows() == [("r", 0, None, 1, 30, 0, 0.3, 0.3)]


def test_a_rank_in_which_nothing_ran_again_counts_in_the_mean() -> None:
    first, second = headline(pl.DataFrame(ROWS)).splitlines()
    assert first == (
        "Recomputed in all of a, mean of 2 ranks: 3.000 us in 2 kernels (1.000 us per step, of 3 "
        "steps), 15.0 % of the device time of these steps (25.0 % without communication); "
        "0.045 us on the host (0.015 us per step), with Python and launches"
    )
    assert second == (
        "Recomputed in all of b: 5.000 us in 1 kernel, 50.0 % of the device time of kernels, "
        "copies and fills; 0.007 us on the host, with Python and launches"
    )


def test_it_says_how_many_rows_are_shown() -> None:
    totals = pl.DataFrame(ROWS)
    assert title(totals, 3, 2).endswith(" (top 2 of 3 rows; --top 0 for all)")
    assert title(totals, 3, 3) == title(totals, 3, None) == headline(totals)


def test_the_first_line_has_the_total(run: Run) -> None:
    source = needs.traces() / "AMD-AGI__TraceLens/mi300/resnet_act_checkpoint.json.gz"
    out = run("answer", "recompute", source)[1]
    first, _, table = " ".join(out.split()).partition(" for all) ")
    assert first == (
        "Recomputed in all: 4.210 ms in 591 kernels (1.403 ms per step, of 3 steps), 6.2 % of the "
        "device time of these steps (19.9 % without communication); 12.442 ms on the host (4.147 "
        "ms per step), with Python and launches (top 20 of 386 rows; --top 0"
    )
    three = " ".join(run("answer", "recompute", source, "--top", "3")[1].split())
    line = first.partition(" (top")[0]
    assert three.startswith(line)
    assert table.split()[:3] == three.removeprefix(line).split()[:3]
    every = run("answer", "recompute", source, "--top", "0")[1]
    assert len(out.splitlines()) < len(every.splitlines())
