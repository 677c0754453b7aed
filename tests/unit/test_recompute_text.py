"""What ran again in backward: how much in all, and the largest rows."""

from __future__ import annotations

import polars as pl

from profframe.show.recompute_text import headline, title
from tests import needs
from tests.conftest import Run

ROWS = {
    "run": ["a", "a", "b"], "rank": [0, 1, 0], "device_ns": [4_000, 2_000, 5_000],
    "share": [0.2, 0.1, 0.5], "kernels": [4, 2, 1], "self_host_ns": [30, 10, 7],
}  # fmt: skip


def test_means_are_of_ranks_of_one_run() -> None:
    first, second = headline(pl.DataFrame(ROWS)).splitlines()
    assert first.startswith(
        "Recomputed in all of a, mean of 2 ranks: 3.000 us in 3 kernels, 15.0 %"
    )
    assert second.startswith("Recomputed in all of b: 5.000 us in 1 kernel, 50.0 % of the time of")


def test_times_of_a_step_and_shares_without_communication() -> None:
    within = pl.DataFrame(
        {"run": ["a", "a", "b"], "rank": [0, 1, 0], "steps": [3, 3, None],
         "communication_share": [0.5, 0.5, None]}
    )  # fmt: skip
    first, second = headline(pl.DataFrame(ROWS), within).splitlines()
    assert first == (
        "Recomputed in all of a, mean of 2 ranks: 3.000 us in 3 kernels (1.000 us per step, the "
        "mean of 3), 15.0 % of the time of all kernels, copies and fills (30.0 % without "
        "communication); ops on the host took 0.020 us"
    )
    assert second == (
        "Recomputed in all of b: 5.000 us in 1 kernel, 50.0 % of the time of all kernels, copies "
        "and fills; ops on the host took 0.007 us"
    )


def test_it_says_how_many_rows_are_shown() -> None:
    rows = pl.DataFrame(ROWS)
    assert title(rows, 2).endswith(" (top 2 of 3 rows; --top 0 for all)")
    assert title(rows, 3) == headline(rows)


def test_the_first_line_has_the_total(run: Run) -> None:
    source = needs.traces() / "AMD-AGI__TraceLens/mi300/resnet_act_checkpoint.json.gz"
    out = run("answer", "recompute", source)[1]
    first, _, table = " ".join(out.split()).partition(" for all) ")
    assert first == (
        "Recomputed in all: 4.210 ms in 591 kernels (1.403 ms per step, the mean of 3), 4.2 % of "
        "the time of all kernels, copies and fills (14.7 % without communication); ops on the host "
        "took 5.578 ms (top 20 of 386 rows; --top 0"
    )
    three = run("answer", "recompute", source, "--top", "3")[1]
    assert " ".join(three.split()).startswith(first.partition(" (top")[0])
    assert table.split()[:3] == " ".join(three.split()).partition("5.578 ms ")[2].split()[:3]
    every = run("answer", "recompute", source, "--top", "0")[1]
    assert len(three.splitlines()) < len(out.splitlines()) < len(every.splitlines())
