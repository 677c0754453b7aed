"""``python_pauses`` against a loop over every nanosecond."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Row, event, loaded_ranks
from tests.oracles.pauses import of_pauses

PLACE = st.integers(0, 30) | st.none()


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, dur = draw(PLACE), draw(st.integers(0, 12) | st.none())
    end = None if start is None or dur is None else start + dur
    thread = draw(st.integers(0, 3))
    more: dict[str, Any] = {"thread": thread, "pid": str(thread % 2), "tid": str(thread)}
    what = draw(st.sampled_from(["wait", "wait", "hold", "hold", "collect", "step", "range"]))
    if what == "collect":
        return event("Python GC", start, end, category="python_function", **more)
    names = {
        "wait": "Waiting for GIL",
        "hold": "Holding GIL",
        "step": f"ProfilerStep#{draw(st.integers(1, 2))}",
        "range": draw(st.sampled_from(["Waiting for GIL ", "holding GIL", "Python GC"])),
    }
    return event(names[what], start, end, category="NVTX", **more)


RANK = st.lists(slices(), max_size=4) | st.lists(slices(), min_size=8, max_size=20)


@pytest.mark.parametrize("per", ["thread", "step"])
@given(ranks=st.lists(RANK, min_size=1, max_size=2))
def test_a_loop_over_time_says_the_same(per: str, ranks: list[list[Row]]) -> None:
    with loaded_ranks(ranks).session() as trace:
        expected = of_pauses(trace.events.to_dicts(), per)
        rows = trace.python_pauses(per=per).rows()
        assert [rounded(row) for row in rows] == [rounded(row) for row in expected]


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(cell, 9) if isinstance(cell, float) else cell for cell in row)
