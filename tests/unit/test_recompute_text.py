"""What ran again in backward: how much in all, and the largest rows."""

from __future__ import annotations

import polars as pl

from profframe.show.recompute_text import headline, title
from tests import needs
from tests.conftest import Run

ROWS = {
    "run": ["a", "a", "b"], "rank": [0, 1, 0], "device_ns": [4_000, 2_000, 5_000],
    "share": [0.2, 0.1, 0.5], "kernels": [4, 2, 1],
}  # fmt: skip


def test_means_are_of_ranks_of_one_run() -> None:
    first, second = headline(pl.DataFrame(ROWS)).splitlines()
    assert first.startswith(
        "Recomputed in all of a, mean of 2 ranks: 3.000 us in 3 kernels, 15.0 %"
    )
    assert second.startswith("Recomputed in all of b: 5.000 us in 1 kernel, 50.0 % of the time of")


def test_it_says_how_many_rows_are_shown() -> None:
    rows = pl.DataFrame(ROWS)
    assert title(rows, 2).endswith(" (top 2 of 3 rows; --top 0 for all)")
    assert title(rows, 3) == headline(rows)


def test_the_first_line_has_the_total(run: Run) -> None:
    source = needs.traces() / "AMD-AGI__TraceLens/mi300/resnet_act_checkpoint.json.gz"
    lines = run("answer", "recompute", source)[1].splitlines()
    assert lines[0].startswith("Recomputed in all: ")
    assert " of the time of all kernels, copies and fills (top 20 of " in lines[0]
    three = run("answer", "recompute", source, "--top", "3")[1].splitlines()
    assert three[0] == lines[0].partition(" (top")[0]
    assert [line.split()[2] for line in three[2:5]] == [line.split()[2] for line in lines[2:5]]
    assert three[5].startswith("%: ")
    assert len(run("answer", "recompute", source, "--top", "0")[1].splitlines()) > len(lines)
