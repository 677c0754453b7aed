"""Lines above tables: what their rows are part of."""

from __future__ import annotations

import polars as pl

from profframe.show.answer_totals import idle_total, kernel_total, step_means
from tests.conftest import ROOT, Run

GPU = str(ROOT / "examples" / "gpu_training.json.gz")


def rows(*causes: tuple[int, str, int, int | None, int]) -> pl.DataFrame:
    """Rows of `idle`: device, cause, idle time, span, gaps."""
    names = ["device", "cause", "idle_ns", "span_ns", "gaps"]
    made = pl.DataFrame(causes, dict.fromkeys(names), orient="row")
    return made.with_columns(run=pl.lit("r"), rank=pl.lit(0))


def test_idle_time_of_several_devices_is_a_mean_without_what_may_be_missing() -> None:
    several = rows(
        (0, "host_wait", 2_000, 10_000, 2),
        (0, "unrecorded", 3_000, 10_000, 1),
        (1, "sync", 6_000, 30_000, 4),
    )
    assert idle_total(several) == (
        "Idle in all, mean of 2 devices: 4.000 us of 20.000 us from the first to the last work "
        "(20.0 %), in 3 gaps"
    )


def test_nothing_is_said_where_it_is_not_known() -> None:
    assert not idle_total(rows((0, "sync", 6_000, None, 4)))
    assert not idle_total(rows())
    assert not kernel_total(pl.DataFrame({"name": ["cudaMemcpy"], "calls": [1], "kernels": [0]}))


def test_a_call_without_a_name_is_no_lost_launch() -> None:
    launches = pl.DataFrame({"name": [None, None], "calls": [4, None], "kernels": [4, 1]})
    assert kernel_total(launches) == "5 kernels in all; the launch of 1 of them is not in the trace"


def test_steps_of_each_run_on_the_host_and_whole_ones_from_completion_to_completion() -> None:
    steps = pl.DataFrame(
        {
            "run": ["a", "a", "a", "b"],
            "rank": [0, 0, 1, 0],
            "lack": [None, "cut", None, "open"],
            "host_ns": [10_000, 20_000, None, None],
            "step_ns": [30_000, 1_000, 50_000, None],
        }
    )
    assert step_means(steps) == (
        "On average a step of a took 15.000 us on the host (2 steps of 2 ranks), "
        "40.000 us step time (2 steps of 2 ranks)"
    )


def test_rows_of_each_rank_are_what_step_times_has(run: Run) -> None:
    job = str(ROOT / "examples" / "job")
    own, each = (run("answer", "step_times", job, *more) for more in ((), ("--per", "rank")))
    assert own[0] == each[0] == 0
    assert own[1] == each[1]
    assert own[1].startswith("On average a step took ")


def test_they_stand_above_the_rows(run: Run) -> None:
    code, out, _ = run("answer", "gaps", GPU, "--top", "2")
    first = "Idle in all: 6.823 ms of 28.358 ms from the first to the last work (24.1 %), in 545 "
    assert (code, out.startswith(first)) == (0, True)
    out = run("answer", "launches", GPU)[1]
    assert out.startswith("537 kernels in all; the launch of each is in the trace\n")
    for form in ("json", "csv", "jsonl"):
        assert "in all" not in run("answer", "launches", GPU, "--format", form)[1]
