from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe import intervals
from profframe.intervals import Forest, child_sums, nest, stab, subtree_sums, window_sums
from tests.oracles import intervals as oracle
from tests.oracles.intervals import Interval


@pytest.fixture(autouse=True, scope="module", params=[0, 256], ids=["doubling", "walk"])
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """Few rows are finished one by one, many all at once; here either way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_FEW", request.param)
        yield


@st.composite
def overlapping(draw: st.DrawFn) -> list[Interval]:
    """Any intervals: few places, so that ties, crossings and zero lengths are common."""
    place = st.integers(0, draw(st.sampled_from([4, 12, 10**12])))
    ends = st.tuples(place, place).map(sorted)
    one = st.tuples(st.integers(0, 2), ends, st.integers(0, 2))
    drawn = draw(st.lists(one, max_size=60))
    return [Interval(group, start, end, tie) for group, (start, end), tie in drawn]


@st.composite
def forests(draw: st.DrawFn) -> list[Interval]:
    """Properly nested intervals, by opening and closing; shuffled."""
    rows: list[Interval] = []
    for group in range(draw(st.integers(1, 3))):
        time, opened = 0, list[int]()
        for is_open in draw(st.lists(st.booleans(), max_size=40)):
            time += draw(st.integers(0, 3))
            if is_open:
                opened.append(time)
            elif opened:
                rows.append(Interval(group, opened.pop(), time))
        time += 1
        rows += [Interval(group, start, time) for start in opened]
    return draw(st.permutations(rows))


def nested(rows: Sequence[Interval]) -> Forest:
    group, start, end, tie = np.array(rows, np.int64).reshape(-1, 4).T
    return nest(group, start, end, tie)


@given(overlapping() | forests())
def test_parents_are_those_of_a_stack(rows: list[Interval]) -> None:
    forest, expected = nested(rows), oracle.nest(rows)
    assert forest.parent.tolist() == expected.parents
    assert forest.crossing.tolist() == expected.crossing
    assert np.argsort(forest.preorder).tolist() == expected.order


@given(overlapping())
def test_depth_root_and_last_follow_from_the_parents(rows: list[Interval]) -> None:
    forest = nested(rows)
    around = [oracle.ancestors(forest.parent.tolist(), i) for i in range(len(rows))]
    assert forest.depth.tolist() == [len(rows_around) for rows_around in around]
    assert forest.root.tolist() == [[i, *rows_around][-1] for i, rows_around in enumerate(around)]
    inside = [{i} | {j for j, of in enumerate(around) if i in of} for i in range(len(rows))]
    for i, subtree in enumerate(inside):
        places = sorted(forest.preorder[list(subtree)].tolist())
        assert places == list(range(forest.preorder[i], forest.preorder[forest.last[i]] + 1))


@given(overlapping())
def test_own_lengths_add_up_to_the_roots(rows: list[Interval]) -> None:
    forest = nested(rows)
    length = np.array([row.end - row.start for row in rows], np.int64)
    own = length - child_sums(forest.parent, length)
    assert own.sum() == length[forest.parent < 0].sum()
    assert subtree_sums(forest.preorder, forest.last, own).tolist() == length.tolist()


@given(forests())
def test_a_proper_forest_has_no_crossings_and_no_negative_rest(rows: list[Interval]) -> None:
    forest = nested(rows)
    length = np.array([row.end - row.start for row in rows], np.int64)
    assert not forest.crossing.any()
    assert (length >= child_sums(forest.parent, length)).all()


@given(overlapping().map(lambda rows: list({row[:3]: row for row in rows}.values())), st.data())
def test_the_order_of_rows_is_nothing_where_no_two_are_equal(
    rows: list[Interval], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(range(len(rows))))
    straight, mixed = nested(rows), nested([rows[i] for i in shuffled])
    back = np.array([*shuffled, -1], np.int64)
    order = np.array(shuffled, np.int64)
    assert back[mixed.parent].tolist() == straight.parent[order].tolist()
    assert mixed.preorder.tolist() == straight.preorder[order].tolist()
    assert back[mixed.last].tolist() == straight.last[order].tolist()


@given(overlapping(), st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 13)), max_size=20))
def test_stab_finds_what_a_search_of_all_finds(
    rows: list[Interval], points: list[tuple[int, int]]
) -> None:
    group, start, end, _ = np.array(rows, np.int64).reshape(-1, 4).T
    at_group, at = np.array(points, np.int64).reshape(-1, 2).T
    found = stab(group, start, end, at_group, at)
    assert found.tolist() == [oracle.stab(rows, *point) for point in points]


@given(overlapping(), st.lists(st.tuples(st.integers(0, 12), st.integers(-9, 9)), max_size=20))
def test_window_sums_are_those_of_a_search_of_all(
    rows: list[Interval], points: list[tuple[int, int]]
) -> None:
    _, start, end, _ = np.array(rows, np.int64).reshape(-1, 4).T
    at, value = np.array(points, np.int64).reshape(-1, 2).T
    (sums,) = window_sums(at, [value], start, end)
    assert sums.tolist() == [oracle.window_sum(points, row.start, row.end) for row in rows]
