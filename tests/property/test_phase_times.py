"""How long occurrences of phases took, on drawn programs, against the loop over steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe import Trace
from tests.builders import Row, event, facts, loaded
from tests.oracles import completions
from tests.property import test_phases
from tests.property.test_step_times import MOST_AHEAD, PARTS, Program, call_of, scaled, work


class Server(Program):
    """Prefills and decodes, some of them with drafts inside."""

    def name(self, _number: int, /) -> str:
        return self.draw.choice(("step[DECODE bs=4]", "step[DECODE bs=4]", "step[EXTEND bs=1]"))

    def launch(self) -> None:
        if self.draw.random() > 0.1:
            return super().launch()
        began, mark = self.now, len(self.rows)
        self.rows.append({})
        super().launch()
        self.rows[mark] = event("draft", began, self.now, category="user_annotation")
        return None


def check(rows: Sequence[Row]) -> list[dict[str, Any]]:
    tables = facts(*rows)
    known = [name for name in completions.OF_PHASES if name in tables["events"].column_names]
    events = [
        dict.fromkeys(completions.OF_PHASES) | row
        for row in tables["events"].select(known).to_pylist()
    ]
    made = tables["phase_steps"].to_pylist() if "phase_steps" in tables else []
    assert made == completions.phases(events)
    return made


@pytest.mark.parametrize("seeds", [range(at, at + 25) for at in range(0, 200, 25)])
def test_drawn_servers(seeds: range) -> None:
    for seed in seeds:
        whole = [row for row in check(scaled(Server(seed).run())) if row["step_ns"] is not None]
        for row in whole:
            if row["compute_ns"] is not None:
                assert sum(row[name] for name in PARTS) == row["step_ns"]
        for one, then in pairwise(whole):
            assert then["began_ns"] >= one["completed_ns"]


def test_the_drawn_servers_show_what_is_asked_of_them() -> None:
    tables = [facts(*scaled(Server(seed).run())) for seed in range(60)]
    made = [row for of in tables if "phase_steps" in of for row in of["phase_steps"].to_pylist()]
    ahead = [row["lag_ns"] / row["host_ns"] for row in made if row["lag_ns"] and row["host_ns"]]
    assert max(ahead) > MOST_AHEAD
    assert {row["lack"] for row in made} == {None, "records", "before"}
    assert {row["phase"] for row in made} >= {"decode", "prefill"}
    drafts = [row for of in tables for row in of["events"].to_pylist() if row["name"] == "draft"]
    assert 0 < sum(row["phase"] == "draft" for row in made) < len(drafts) / 2


@given(st.lists(test_phases.slices(), max_size=20))
def test_any_slices(rows: list[Row]) -> None:
    check(rows)


@st.composite
def slices_of_devices(draw: st.DrawFn) -> Row:
    start, dur = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    stream = draw(st.sampled_from([7, 8]))
    on_device: dict[str, Any] = {"thread": stream, "device": 0, "stream": stream, "pid": "0"}
    if draw(st.booleans()):
        link = draw(st.sampled_from([None, 1]))
        return event("k", start, start + dur, category="kernel", correlation=link, **on_device)
    name = draw(st.sampled_from(["step[DECODE bs=1]", "step[EXTEND bs=1]"]))
    return event(name, start, start + dur, category="gpu_user_annotation", **on_device)


@given(st.lists(slices_of_devices(), max_size=12), st.booleans())
def test_marks_of_devices(rows: list[Row], is_launched: bool) -> None:
    calls = [call_of("cudaLaunchKernel", 2, 3, 1)] if is_launched else []
    assert all(row["host_ns"] is row["lag_ns"] is None for row in check([*calls, *rows]))


def ahead(*more: Row, names: Sequence[str] = ("step[DECODE bs=2]",) * 5) -> Trace:
    """Steps of 100 on the host; the device takes 250 for each."""
    rows = []
    for step, name in enumerate(names):
        start, done = 100 * step, 15 + 250 * step
        rows += [
            event(name, start, start + 100, category="user_annotation"),
            call_of("cudaLaunchKernel", start + 5, start + 8, step + 1),
            work("mm", done, done + 250, 7, step + 1),
        ]
    return loaded(*rows, *more)


def test_a_step_is_as_long_as_the_device_takes_for_it() -> None:
    trace = ahead()
    assert trace.phase_steps["step_ns"].to_list() == [265, 250, 250, 250, 250]
    assert trace.phase_steps["lag_ns"].to_list() == [165, 315, 465, 615, 765]
    (row,) = trace.phases().to_dicts()
    assert (row["p50_span_ns"], row["max_span_ns"]) == (565, 865)
    assert (row["p50_step_ns"], row["max_step_ns"], row["step_ns"]) == (250, 265, 1265)
    assert (row["device_start_ns"], row["device_window_ns"], row["lag_ns"]) == (15, 1250, 765)
    last = trace.phases(per="occurrence").to_dicts()[-1]
    assert (last["span_ns"], last["step_ns"], last["lag_ns"]) == (865, 250, 765)
    assert (last["device_start_ns"], last["device_window_ns"]) == (1015, 250)
    assert trace.quality.filter(issue="host_ahead")["events"].to_list() == [5]


def test_a_draft_inside_a_step_is_a_part_of_it() -> None:
    inner = (
        event("draft", 50, 60, category="user_annotation"),
        call_of("cudaLaunchKernel", 52, 54, 9),
        work("draft", 265, 365, 8, 9),
    )
    trace = ahead(*inner, names=["step[DECODE bs=2]"])
    assert trace.phase_steps["phase"].to_list() == ["decode"]
    assert trace.phase_steps["step_ns"].to_list() == [365]
    assert trace.phase_steps["device_window_ns"].to_list() == [350]
    assert trace.phases().select("phase", "step_ns").rows() == [("decode", 365), ("draft", None)]


def test_steps_of_the_profiler_stay_the_steps_of_a_trace() -> None:
    whole = event("ProfilerStep#0", 0, 500, category="user_annotation")
    trace = ahead(whole)
    assert trace.step_times().select("step", "step_ns").rows() == [(0, 1265)]
    assert trace.phase_steps.height == 5
    assert trace.quality.filter(issue="host_ahead")["events"].to_list() == [1]


def test_a_part_of_a_trace_keeps_how_long_its_steps_took() -> None:
    trace = ahead(names=["step[EXTEND bs=1]", "step[DECODE bs=1]", "step[DECODE bs=1]"])
    part = trace.filter(phases="decode")
    assert part.phase_steps["step_ns"].to_list() == [250, 250]
    assert part.phases()["step_ns"].to_list() == [500]
