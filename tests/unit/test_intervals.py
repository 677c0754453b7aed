from __future__ import annotations

import numpy as np
import pytest

from profframe import intervals
from profframe.intervals import (
    Forest,
    Ints,
    child_sums,
    covered,
    last_until,
    nearest,
    nest,
    open_at,
    stab,
    subtree_sums,
    window_sums,
)


def of(*values: int) -> Ints:
    return np.array(values, np.int64)


def nested(*slices: tuple[int, int]) -> Forest:
    start, end = (of(*ends) for ends in zip(*slices, strict=True))
    return nest(np.zeros_like(start), start, end)


def test_a_forest_of_two_trees() -> None:
    forest = nested((0, 100), (10, 50), (20, 30), (60, 90), (100, 120), (105, 110))
    assert forest.parent.tolist() == [-1, 0, 1, 0, -1, 4]
    assert forest.depth.tolist() == [0, 1, 2, 1, 0, 1]
    assert forest.root.tolist() == [0, 0, 0, 0, 4, 4]
    assert forest.last.tolist() == [3, 2, 2, 3, 5, 5]
    assert forest.preorder.tolist() == [0, 1, 2, 3, 4, 5]
    assert not forest.crossing.any()


def test_rows_may_come_in_any_order() -> None:
    forest = nested((20, 30), (100, 120), (0, 100), (10, 50))
    assert forest.parent.tolist() == [3, -1, -1, 2]
    assert forest.preorder.tolist() == [2, 3, 0, 1]
    assert forest.last.tolist() == [0, 1, 0, 0]


def test_partly_overlapping_slices_are_siblings_that_cross() -> None:
    forest = nested((0, 100), (10, 50), (40, 80), (45, 50))
    assert forest.parent.tolist() == [-1, 0, 0, 2]
    assert forest.crossing.tolist() == [False, False, True, False]


def test_what_is_inside_the_first_of_crossing_slices_does_not_hide_it() -> None:
    assert nested((0, 10), (5, 15)).crossing.tolist() == [False, True]
    assert nested((0, 10), (1, 2), (5, 15)).crossing.tolist() == [False, False, True]
    assert nested((0, 10), (1, 2), (10, 15)).crossing.tolist() == [False] * 3


def test_the_later_of_crossing_slices_takes_what_follows() -> None:
    forest = nested((0, 2), (1, 3), (1, 2))  # torch's own example
    assert forest.parent.tolist() == [-1, -1, 1]


def test_equal_slices_nest_in_their_order() -> None:
    assert nested((0, 9), (0, 9), (0, 9)).parent.tolist() == [-1, 0, 1]


def test_a_tie_is_decided_by_the_given_order() -> None:
    forest = nest(of(0, 0, 0), of(0, 0, 0), of(9, 9, 9), of(3, 1, 2))
    assert forest.parent.tolist() == [2, -1, 1]
    longer = nest(of(0, 0, 0), of(0, 0, 0), of(9, 8, 9), of(3, 1, 2))
    assert longer.parent.tolist() == [2, 0, -1]


def test_a_slice_that_starts_where_another_ends_is_not_inside() -> None:
    assert nested((0, 10), (10, 20), (10, 10), (20, 20)).parent.tolist() == [-1, -1, 1, -1]


def test_a_slice_without_length_is_never_a_parent() -> None:
    assert nested((5, 5), (5, 5), (0, 9)).parent.tolist() == [2, 2, -1]


def test_slices_that_end_together_nest() -> None:
    assert nested((0, 10), (1, 2), (3, 10), (4, 5), (6, 10)).parent.tolist() == [-1, 0, 0, 2, 2]


def test_slices_that_start_together_nest_by_length_wherever_their_rows_are() -> None:
    forest = nested((10, 12), (0, 5), (10, 19), (0, 9), (10, 15), (0, 7))
    assert forest.parent.tolist() == [4, 5, -1, -1, 2, 3]
    assert forest.preorder.tolist() == [5, 2, 3, 0, 4, 1]


def test_groups_never_meet() -> None:
    assert not nest(of(0, 1, 2), of(0, 5, 6), of(10, 20, 15)).crossing.any()
    late = nest(of(1, 1, 1, 0), of(5, 6, 7, 5), of(9, 9, 9, 9))
    assert late.parent.tolist() == [-1, 0, 1, -1]
    assert late.preorder.tolist() == [1, 2, 3, 0]
    forest = nest(of(1, 0, 1), of(0, 0, 5), of(10, 10, 6))
    assert forest.parent.tolist() == [-1, -1, 0]
    assert forest.preorder.tolist() == [1, 0, 2]


def test_nothing_nests_in_nothing() -> None:
    assert nest(of(), of(), of()).parent.size == 0


def test_times_too_far_apart_for_one_key() -> None:
    far = 2**62
    forest = nest(of(0, 5, 5, 5), of(-far, 0, 1, far), of(far, far + 9, 2, far + 5))
    assert forest.parent.tolist() == [-1, -1, 1, 1]


@pytest.mark.parametrize("bits", [*range(57, 63)])
@pytest.mark.parametrize("groups", [1, 2, 3, 4, 7, 8, 15, 16, 100])
def test_far_times_of_many_groups_keep_their_order(bits: int, groups: int) -> None:
    """A group and a time fit into one number, or else the time's place among all times does."""
    far, group = 1 << bits, np.arange(groups)
    early, late = np.zeros_like(group), np.full_like(group, far)
    everywhere, start = np.concatenate([group, group]), np.concatenate([late, early])
    forest = nest(everywhere, start, np.concatenate([late + 1, late + 9]))
    assert forest.preorder.tolist() == [*(2 * group + 1), *(2 * group)]
    assert forest.parent.tolist() == [*(group + groups), *[-1] * groups]
    before, inside, behind = group - group, late + 1, late + 10
    for at, found in ((before, groups), (late, 0), (inside, 0), (behind - 1, groups)):
        places = stab(everywhere, start, np.concatenate([late + 1, late + 9]), group, at)
        assert places.tolist() == [*(group + found)]
    assert last_until(everywhere, start, group, late).tolist() == [*group]
    assert last_until(everywhere, start, group, late - 1).tolist() == [*(group + groups)]
    assert last_until(everywhere, start, group, early - 1).tolist() == [-1] * groups


def test_stab_with_times_too_far_apart_for_one_key() -> None:
    """The last of all times in a group comes before the first of all in the next group."""
    far = 2**62
    group, start, end = of(0, 0, 1, 1, 2), of(-far, 5, -far, far, 6), of(far + 9, 7, 4, far + 9, 9)
    at_group = of(0, 0, 0, 0, 1, 1, 1, 1, 2, 3)
    at = of(-far, 7, 8, far + 9, 4, 5, far, far + 9, 5, 7)
    found = stab(group, start, end, at_group, at)
    assert found.tolist() == [0, 1, 0, 0, 2, -1, 3, 3, -1, -1]


def test_the_last_point_until_a_moment() -> None:
    group, at = of(1, 0, 0, 1, 0), of(5, 20, 10, 7, 20)
    in_group, until = of(0, 0, 0, 0, 0, 1, 1, 1, 1, 2), of(9, 10, 19, 20, 99, 4, 5, 6, 99, 99)
    found = last_until(group, at, in_group, until)
    assert found.tolist() == [-1, 2, 2, 4, 4, -1, 0, 0, 3, -1]
    assert last_until(of(0, 0), of(5, 9), of(0, 0), of(4, 5)).tolist() == [-1, 0]


def test_the_last_point_with_times_too_far_apart_for_one_key() -> None:
    far = 2**62
    group, at = of(1, 0, 0, 1, 0, 2), of(5, far, -far, far, far, -far - 1)
    in_group, until = of(0, 0, 0, 0, 1, 1, 1, 2, 3), of(-far - 1, -far, 0, far, 4, 5, far, far, far)
    found = last_until(group, at, in_group, until)
    assert found.tolist() == [-1, 2, 2, 4, -1, 0, 3, 5, -1]


def test_the_last_of_no_points_and_no_moments() -> None:
    assert last_until(of(), of(), of(0, 1), of(5, 5)).tolist() == [-1, -1]
    assert last_until(of(0), of(5), of(), of()).tolist() == []


@pytest.mark.parametrize("rounds", [0, 1, 20])
def test_the_walk_and_the_doubling_find_the_same(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "_ROUNDS", rounds)
    monkeypatch.setattr(intervals, "_FEW", 0)
    chain, siblings = np.arange(300), np.arange(300) * 4 + 2000
    start = np.concatenate([chain, siblings])
    for last_end in (1000 - chain, np.full_like(chain, 1000)):
        end = np.concatenate([last_end, siblings + 3])
        forest = nest(np.zeros(600, np.int64), start, end)
        assert forest.parent.tolist() == [*range(-1, 299), *[-1] * 300]
        assert forest.depth.tolist() == [*range(300), *[0] * 300]
    pairs = np.concatenate([[0], siblings, siblings + 1])
    end = np.concatenate([[9000], siblings + 3, siblings + 3])
    forest = nest(np.zeros(601, np.int64), pairs, end)
    assert forest.parent.tolist() == [-1, *[0] * 300, *range(1, 301)]


def test_stab_takes_the_innermost_ends_included() -> None:
    start, end = of(0, 10, 40), of(50, 20, 60)
    at = of(-1, 0, 9, 10, 20, 21, 45, 55, 60, 61)
    found = stab(of(0, 0, 0), start, end, np.zeros_like(at), at)
    assert found.tolist() == [-1, 0, 0, 1, 1, 0, 2, 2, 2, -1]


def test_stab_looks_in_one_group() -> None:
    assert stab(of(0, 2), of(0, 0), of(9, 9), of(0, 1, 2), of(5, 5, 5)).tolist() == [0, -1, 1]


def test_stab_with_nothing_to_find_or_to_look_for() -> None:
    assert stab(of(), of(), of(), of(0), of(5)).tolist() == [-1]
    assert stab(of(0), of(0), of(9), of(), of()).tolist() == []


def test_the_nearest_marked_one_is_itself_or_an_ancestor() -> None:
    parent = of(-1, 0, 1, 2, 3, -1, 5, 6, 4)
    marked = np.array([True, False, False, True, False, False, False, True, False])
    assert nearest(parent, marked).tolist() == [0, 0, 0, 3, 3, -1, -1, 7, 3]
    assert nearest(parent, ~marked).tolist() == [-1, 1, 2, 2, 4, 5, 6, 6, 8]
    assert nearest(parent, np.zeros_like(marked)).tolist() == [-1] * 9


def test_window_sums_include_both_ends() -> None:
    at, first, second = of(5, 1, 9), of(50, 10, 90), of(-1, -2, -3)
    sums = window_sums(at, [first, second], of(1, 2, 5, 10), of(5, 8, 9, 20))
    assert [s.tolist() for s in sums] == [[60, 50, 140, 0], [-3, -1, -4, 0]]


def test_sums_stay_exact_beyond_doubles() -> None:
    big = 2**60 + 1
    assert child_sums(of(-1, 0, 0), of(0, big, 1)).tolist() == [big + 1, 0, 0]
    assert subtree_sums(of(0, 1, 2), of(2, 1, 2), of(1, big, 1)).tolist() == [big + 2, big, 1]
    assert window_sums(of(0, 1), [of(big, 1)], of(0), of(1))[0].tolist() == [big + 1]


def test_intervals_are_open_from_their_start_until_before_their_end() -> None:
    assert open_at(of(0, 5, 7), of(10, 7, 7), of(-1, 0, 4, 5, 7, 10)).tolist() == [0, 1, 1, 2, 1, 0]
    assert open_at(of(), of(), of(1, 1)).tolist() == [0, 0]
    assert open_at(of(1), of(2), of()).tolist() == []


def test_what_overlaps_or_touches_is_covered_once() -> None:
    start, end = of(8, 0, 1, 4, 20), of(9, 5, 2, 8, 20)
    since = of(-9, 0, 1, 5, 8, 9, 15, -5, 3)
    until = of(99, 9, 2, 8, 9, 20, 25, 0, 3)
    assert covered(start, end, since, until).tolist() == [9, 9, 1, 3, 1, 0, 0, 0, 0]
    assert covered(of(0, 10), of(9, 20), of(8, 19), of(11, 30)).tolist() == [2, 1]
    assert covered(of(), of(), of(3), of(5)).tolist() == [0]
    assert covered(of(1), of(2), of(), of()).tolist() == []


def test_times_may_be_far_apart() -> None:
    far = 1 << 61
    start, end = of(-far, far - 5), of(-far + 1, far)
    assert covered(start, end, of(-far, -far, 0), of(0, far, far)).tolist() == [1, 6, 5]
