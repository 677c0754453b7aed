"""Python frames in any order and of any length, against a search of all."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import column, event, facts
from tests.oracles import frames as oracle
from tests.oracles import intervals


@st.composite
def slices(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Frames that call each other, some of which end where they should not, and ops and regions."""
    place = st.integers(0, draw(st.sampled_from([6, 40])))
    ids = st.none() | st.integers(1, 8)
    kinds = st.sampled_from(["python_function"] * 3 + ["cpu_op", "user_annotation"])
    one = st.tuples(kinds, st.tuples(place, place).map(sorted), st.integers(0, 1), ids, ids)
    return [
        event(
            "a", start, end, category=kind, thread=thread,
            **dict.fromkeys(("python_id", "python_parent_id"))
            | ({"python_id": own, "python_parent_id": of} if kind == "python_function" else {}),
        )
        for kind, (start, end), thread, own, of in draw(st.lists(one, max_size=14))
    ]  # fmt: skip


@given(slices())
def test_frames_are_in_their_callers_and_no_time_is_below_zero(rows: list[dict[str, Any]]) -> None:
    got = facts(*rows)
    ends = oracle.ends(rows)
    spans = [(row["start_ns"], end) for row, end in zip(rows, ends, strict=True)]
    parents: list[Any] = column(got, "parent_id")
    assert column(got, "dur_ns") == [end - start for start, end in spans]
    by_time = intervals.nest(
        [intervals.Interval(row["thread"], *span) for row, span in zip(rows, spans, strict=True)]
    ).parents
    cut = [{**row, "dur_ns": end - start} for row, (start, end) in zip(rows, spans, strict=True)]
    for place, (row, around) in enumerate(zip(cut, parents, strict=True)):
        assert column(got, "self_ns")[place] == oracle.own_time(place, rows, spans, parents)
        if around is not None:
            assert spans[around][0] <= spans[place][0]
            assert spans[place][1] <= spans[around][1]
            assert rows[around]["thread"] == row["thread"]
        calling = oracle.caller(row, cut)
        if calling is None or spans[place][1] > spans[calling][1]:
            assert around == (None if by_time[place] < 0 else by_time[place])
        elif spans[calling] != spans[place]:
            assert frame_around(place, rows, parents) == calling
    assert_ordered(got)


def frame_around(place: int, rows: list[dict[str, Any]], parents: list[Any]) -> Any:
    around = parents[place]
    while around is not None and not oracle.is_frame(rows[around]):
        around = parents[around]
    return around


def assert_ordered(got: Any) -> None:
    """Depth, root, order and last descendant follow from the parents."""
    parents: list[Any] = column(got, "parent_id")
    above = [
        intervals.ancestors([-1 if p is None else p for p in parents], i)
        for i in range(len(parents))
    ]
    preorder: list[Any] = column(got, "preorder")
    assert column(got, "depth") == [len(some) for some in above]
    assert column(got, "root_id") == [[i, *some][-1] for i, some in enumerate(above)]
    lasts: list[Any] = column(got, "last_descendant_id")
    for place, last in enumerate(lasts):
        inside = [place, *(i for i, some in enumerate(above) if place in some)]
        span = range(preorder[place], preorder[last] + 1)
        assert sorted(preorder[i] for i in inside) == [*span]


@given(slices())
def test_with_torchs_rules_numbers_of_frames_are_nothing(rows: list[dict[str, Any]]) -> None:
    without = [row | dict.fromkeys(("python_id", "python_parent_id")) for row in rows]
    got, plain = (facts(*some, compat="torch") for some in (rows, without))
    for name in ("dur_ns", "parent_id", "self_ns", "depth", "preorder"):
        assert column(got, name) == column(plain, name)
