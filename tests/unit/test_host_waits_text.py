"""How long the host waited in all, for each run, and whether it matters."""

from __future__ import annotations

import polars as pl

from profframe.show.host_waits_text import headline
from tests.conftest import Run

ROWS = {
    "run": ["a", "a", "b"], "rank": [0, 0, 0], "total_ns": [6_000, 2_000, 5_000],
    "host_share": [0.3, 0.1, 0.05], "device_idle_ns": [100, 50, 0], "idle_after_ns": [200, 0, 40],
}  # fmt: skip
TRACES = pl.DataFrame({"run": ["a", "a", "b"], "rank": [0, 1, 0]})


def test_means_are_of_all_ranks_and_large_waits_without_idle_devices_are_no_alarm() -> None:
    first, second = headline(pl.DataFrame(ROWS), TRACES).splitlines()
    assert first == (
        "The host of a waited for devices, mean of 2 ranks: 4.000 us in all, 20.0 % of the span of "
        "its waiting threads; devices were idle for 0.075 us of it, and for 0.100 us after it "
        "until the next work began; waits while devices work cost little: advice judges the idle "
        "time alone"
    )
    assert second == (
        "The host of b waited for devices: 5.000 us in all, 5.0 % of the span of its waiting "
        "threads; devices were idle for 0.000 us of it, and for 0.040 us after it until the next "
        "work began"
    )


def test_waits_with_idle_devices_are_not_said_to_cost_little() -> None:
    rows = pl.DataFrame(ROWS).with_columns(idle_after_ns=pl.lit(900)).filter(run="a")
    assert headline(rows, TRACES).endswith("0.900 us after it until the next work began")


def test_without_devices_nothing_is_said_of_them() -> None:
    idle = pl.lit(None, pl.Int64)
    rows = pl.DataFrame(ROWS).with_columns(device_idle_ns=idle, idle_after_ns=idle).filter(run="b")
    assert headline(rows, TRACES) == (
        "The host waited for devices: 5.000 us in all, 5.0 % of the span of its waiting threads"
    )


def test_the_command_line_has_the_total_above_the_rows_of_any_number(run: Run) -> None:
    source = "examples/serving.json.gz"
    every, one = (
        " ".join(run("answer", "host_waits", source, *top)[1].split())
        for top in ((), ("--top", "1"))
    )
    line = every.partition(" name ")[0]
    assert line.startswith("The host waited for devices: ")
    assert one.startswith(f"{line} name ")
    assert not run("answer", "host_waits", source, "--format", "csv")[1].startswith("The host")
