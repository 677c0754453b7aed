"""Sequences and trees: what they have in common, by plain Python and by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.analysis import alignment
from profframe.analysis.alignment import CallForest, align, common, forest

VALUES = st.lists(st.integers(0, 6), max_size=30)


@given(VALUES, VALUES)
def test_common_values_are_equal_and_in_order(left: list[int], right: list[int]) -> None:
    pairs = common(left, right)
    assert all(left[i] == right[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


def test_what_comes_twice_on_a_side_is_no_mark() -> None:
    assert alignment._once_in_both([7, 5, 7], [7, 5]) == [(1, 1)]
    assert alignment._once_in_both([7, 5], [7, 5, 7]) == [(1, 1)]


def test_marks_divide_the_rest_in_their_order() -> None:
    """1 and 2 are the marks; nothing between them is in both."""
    assert common([9, 1, 8, 2, 7], [5, 1, 6, 2, 4]) == [(1, 1), (3, 3)]


@given(VALUES, VALUES, VALUES)
def test_what_is_inserted_hides_nothing(start: list[int], end: list[int], new: list[int]) -> None:
    whole = [*start, *(value + 10 for value in new), *end]
    assert len(common(start + end, whole)) == len(start + end)
    assert len(common(whole, start + end)) == len(start + end)


def test_a_part_of_just_as_many_cells_is_aligned_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alignment, "_MOST_CELLS", 4)
    assert alignment._repeated([1, 2], [2, 1]) == [(0, 1)]
    monkeypatch.setattr(alignment, "_MOST_CELLS", 3)
    assert alignment._repeated([1, 2], [2, 1]) == [(1, 0)]


def test_long_repetitive_parts_are_aligned_by_turns() -> None:
    """Not as well as they could be: one of the two values keeps its places."""
    size = alignment._MOST_CELLS // 400
    left, right = [1, 2] * size, [3, *([2, 1] * size)]
    assert len(common(left, right)) >= size


@dataclass
class Node:
    label: int
    detail: int = 0
    work: bool = False
    children: list[Node] = field(default_factory=list)


def walk(node: Node, depth: int = 0) -> list[tuple[Node, int]]:
    below = [pair for child in node.children for pair in walk(child, depth + 1)]
    return [(node, depth), *below]


def made(*roots: Node) -> tuple[CallForest, list[Node]]:
    pairs = [pair for root in roots for pair in walk(root)]
    nodes = [node for node, _ in pairs]
    columns = ([depth for _, depth in pairs], [n.label for n in nodes], [n.detail for n in nodes])
    depth, label, detail = (np.array(column, np.int64) for column in columns)
    return forest(depth, label, detail, np.array([n.work for n in nodes], np.bool_)), nodes


def key(node: Node) -> tuple[object, ...]:
    return (node.label, node.detail, *map(key, node.children))


def nodes(max_leaves: int = 20) -> st.SearchStrategy[Node]:
    leaf = st.builds(Node, st.integers(0, 3), st.integers(0, 2))
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            Node, st.integers(0, 3), st.integers(0, 2), st.just(False), st.lists(inner, max_size=4)
        ),
        max_leaves=max_leaves,
    )


@given(st.lists(nodes(), min_size=1, max_size=3))
def test_hashes_are_equal_where_subtrees_are(roots: list[Node]) -> None:
    of, all_nodes = made(*roots)
    by_hash: dict[int, object] = {}
    by_key: dict[object, int] = {}
    for row, node in enumerate(all_nodes):
        value = int(of.equal[row])
        assert by_hash.setdefault(value, key(node)) == key(node)
        assert by_key.setdefault(key(node), value) == value
        assert of.size[row] == len(walk(node))
        assert [all_nodes[child] for child in of.children(row)] == node.children
        assert all(of.parent[child] == row for child in of.children(row))


@given(nodes(), st.data())
def test_a_wrapper_hides_nothing(root: Node, data: st.DataObject) -> None:
    """Some calls are put into another call: all others are paired as they were."""
    root = Node(99, children=[root, Node(98)])

    def numbered(node: Node) -> Node:
        return Node(
            node.label * 1000 + next(numbers), node.detail, False, [*map(numbered, node.children)]
        )

    def wrapped(node: Node) -> Node:
        children = [*map(wrapped, node.children)]
        if len(children) > 1 and data.draw(st.booleans()):
            children = [children[0], Node(-1, children=children[1:])]
        return Node(node.label, node.detail, node.work, children)

    numbers = iter(range(1000))
    before = numbered(root)
    left, left_nodes = made(before)
    right, right_nodes = made(wrapped(before))
    pairs = align(left, right, [(0, 0)])
    assert [right_nodes[other].label for other in pairs] == [node.label for node in left_nodes]
    back = align(right, left, [(0, 0)])
    assert all((node.label < 0) == (back[row] < 0) for row, node in enumerate(right_nodes))


def test_an_inserted_call_does_not_shift_those_behind_it() -> None:
    """Three products of other shapes, then four: the new one is the second."""
    shapes = [Node(1, 7), Node(1, 8), Node(1, 9)]
    left, _ = made(Node(0, children=shapes))
    right, _ = made(Node(0, children=[shapes[0], Node(1, 5), *shapes[1:]]))
    assert align(left, right, [(0, 0)]).tolist() == [0, 1, 3, 4]


def test_an_op_of_another_name_that_does_the_same_work() -> None:
    left, _ = made(Node(0, children=[Node(1, children=[Node(5, 3, work=True)])]))
    right, _ = made(Node(0, children=[Node(2, children=[Node(5, 3, work=True)])]))
    assert align(left, right, [(0, 0)]).tolist() == [0, 1, 2]


def test_what_has_a_counterpart_in_the_first_way_has_no_other() -> None:
    """By labels the call is the first one, which does no work; the second way is not tried."""
    work = Node(5, 3, work=True)
    left, _ = made(Node(0, children=[Node(1, children=[Node(2), work])]))
    right, _ = made(Node(0, children=[Node(1, 7), Node(1, 8, children=[Node(3), work])]))
    assert align(left, right, [(0, 0)]).tolist() == [0, 1, -1, -1]


def test_repeated_small_calls_do_not_keep_large_ones_apart() -> None:
    """Of two ways, what pairs more counts: equal leaves between calls whose details changed."""
    small = Node(9)

    def sides(detail: int, more: int) -> Node:
        steps = [
            [Node(n, detail, children=[Node(20), Node(21)]), *[small] * more] for n in range(1, 6)
        ]
        return Node(0, children=[child for step in steps for child in step])

    left, left_nodes = made(sides(1, 1))
    right, right_nodes = made(sides(2, 2))
    pairs = align(left, right, [(0, 0)])
    assert [right_nodes[other].label for other in pairs] == [node.label for node in left_nodes]
