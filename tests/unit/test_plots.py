"""Charts: their numbers are those of the answers, and what they leave out is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.show.plots import Plots, palette, taken_apart
from profframe.trace import Trace


@pytest.fixture(scope="module")
def gpu(root: Path) -> Trace:
    """A made-up training run on one device, with a counter, memory, steps and collectives."""
    return profframe.load(root / "examples" / "gpu_training.json.gz")


@pytest.fixture(scope="module")
def cpu(example: Path) -> Trace:
    return profframe.load(example)


def texts(part: Any) -> list[str]:
    """Title and subtitle of a chart and of those inside it."""
    found = []
    if isinstance(part, dict):
        title = part.get("title")
        if isinstance(title, dict) and "text" in title:
            found += [title["text"], *title.get("subtitle", [])]
        for value in part.values():
            found += texts(value)
    elif isinstance(part, list):
        for value in part:
            found += texts(value)
    return found


class TestBreakdown:
    def test_parts_of_steps_are_those_of_the_answer(self, gpu: Trace) -> None:
        chart = Plots(gpu).breakdown()
        answer = gpu.time_breakdown().filter(pl.col("step").is_not_null())
        rows = chart.data
        assert rows[answer.columns].equals(answer)
        for name in ("compute", "exposed communication", "exposed copy", "idle"):
            in_ns = rows[name] * 1e6
            assert in_ns.to_list() == pytest.approx(rows[f"{name.replace(' ', '_')}_ns"].to_list())

    def test_without_devices_it_says_how_to_record_them(self, cpu: Trace) -> None:
        with pytest.raises(profframe.ParameterError, match=r"nothing ran on a device.*CUDA"):
            Plots(cpu).breakdown()

    def test_per_is_checked(self, gpu: Trace) -> None:
        with pytest.raises(profframe.UnknownNameError, match="did you mean 'step'"):
            Plots(gpu).breakdown(per="steps")


def test_a_chart_taken_apart_holds_no_rows(gpu: Trace) -> None:
    spec, frames = taken_apart(Plots(gpu).kernels())
    assert spec["data"] == {"name": "rows_0"}
    assert "datasets" not in spec
    assert {"label", "total", "of class"} <= set(frames["rows_0"].columns)
    assert "std_ns" not in frames["rows_0"].columns
    assert "elementwise" not in json.dumps(spec)


def test_each_light_colour_has_one_dark_one() -> None:
    assert len({*palette.DARK.values()}) == len(palette.DARK)
    assert set(palette.DARK).isdisjoint(palette.DARK.values())
