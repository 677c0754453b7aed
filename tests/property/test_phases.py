"""Which occurrence of a phase each slice is in, against a walk up its parents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.phases import FORWARD, GUESS, WHOLE, mark_of
from tests.builders import Row, column, event, facts

NAMES = (
    *("step[DECODE bs=1]", "step[EXTEND bs=1]", "step[TARGET_VERIFY bs=1]", "draft", "f"),
    *("execute_context_0(0)_generation_1(1)", "capture_1_DECODE", "gpu_model_runner: forward"),
)
FRAMES = (
    "sglang/srt/model_executor/model_runner.py(1): forward_decode",
    "vllm/v1/worker/gpu_model_runner.py(1): _dummy_run",
    "train.py(1): f",
)


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, dur = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    what = draw(st.sampled_from(["mark", "mark", "mark", "frame", "call", "work"]))
    if what == "work":
        link = draw(st.integers(1, 4))
        on_device = {"thread": 9, "device": 0, "stream": 7, "correlation": link}
        return event("k", start, start + dur, category="kernel") | on_device
    if what == "call":
        link = draw(st.integers(1, 4))
        return event("go", start, start + dur, category="cuda_runtime", correlation=link)
    names, category = (NAMES, "user_annotation") if what == "mark" else (FRAMES, "python_function")
    return event(draw(st.sampled_from(names)), start, start + dur, category=category)


@given(st.lists(slices(), max_size=20))
def test_a_walk_up_the_parents_says_the_same(rows: list[Row]) -> None:
    tables = facts(*rows)
    kinds, names, parents, launches = (
        column(tables, name) for name in ("kind", "name", "parent_id", "launch_id")
    )
    marks = {
        i: mark
        for i, (kind, name) in enumerate(zip(kinds, names, strict=True))
        if kind in {"annotation", "python"}
        and (mark := mark_of(str(name), is_frame=kind == "python")) is not None
    }
    if any(mark.worth == FORWARD for mark in marks.values()):
        marks = {i: mark for i, mark in marks.items() if mark.worth != GUESS}

    def owner(at: object) -> int | None:
        if not isinstance(at, int):
            return None
        around = owner(parents[at])
        if at not in marks:
            return around
        if around is not None:
            outer = marks[around]
            if outer.worth == WHOLE or outer.phase == marks[at].phase:
                return around
        return at

    expected = [
        owner(launches[i]) if kind == "kernel" else owner(i) for i, kind in enumerate(kinds)
    ]
    assert column(tables, "phase_id") == expected
    assert column(tables, "inference_phase") == [
        None if at is None else marks[at].phase for at in expected
    ]
