"""Damaged records and odd values of public reports: right, or refused, or counted."""

from __future__ import annotations

from typing import Any

import profframe
from profframe import Trace
from tests import needs


def case(name: str, **options: Any) -> Trace:
    """One of the inputs of public reports, loaded."""
    return profframe.load(needs.case(name), **options)


def checks(trace: Trace) -> dict[str, int]:
    """Numbers of events by what `quality` says of them."""
    return dict(trace.quality.select("check", "events").rows())


class TestPythonFrames:
    def test_one_without_its_return_ends_with_its_caller(self) -> None:
        trace = case("16_python_overrun.json")
        frames = trace.events.filter(name="model.py(5): boxed_call")
        assert sorted(frames["dur_ns"].to_list()) == [*4 * [300_000], 900_000]
        assert sorted(frames["self_ns"].to_list()) == [*4 * [200_000], 800_000]
        assert min(trace.events["self_ns"].drop_nulls()) >= 0
        assert checks(trace)["cut_frame"] == 1
        rows = trace.events.rows(named=True)
        numbers = {row["event_id"]: row["python_id"] for row in rows}
        for row in rows:
            if row["python_parent_id"] is not None:
                assert numbers[row["parent_id"]] == row["python_parent_id"]

    def test_as_torch_it_is_as_long_as_recorded(self) -> None:
        trace = case("16_python_overrun.json", compat="torch")
        assert trace.events["dur_ns"].max() == 10_000_000_000
        assert trace.events["self_ns"].min() == -800_000

    def test_annotations_that_cross(self) -> None:
        trace = case("17_crossing_annotations.json")
        own = dict(trace.events.select("event_id", "self_ns").rows())
        assert own == {
            0: 100_000,
            1: 550_000,
            2: 320_000,
            3: 300_000,
            4: 80_000,
            5: 100_000,
            6: 920_000,
            7: 80_000,
        }
        assert checks(trace)["crossing_slices"] == 4
