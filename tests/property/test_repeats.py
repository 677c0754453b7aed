"""Blocks that repeat, against a loop that tries every place and length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.repeats import repeated_blocks
from tests.oracles import repeats

Codes = list[int]


@st.composite
def sequences(draw: st.DrawFn) -> Codes:
    """A few blocks, each some times in a row, with other members between them."""
    members = st.integers(0, draw(st.sampled_from([1, 2, 5])))
    parts = draw(
        st.lists(
            st.tuples(st.lists(members, min_size=1, max_size=6), st.integers(1, 5)), max_size=6
        )
    )
    return [code for block, times in parts for code in block * times]


@given(st.lists(sequences(), max_size=4))
def test_a_plain_loop_says_the_same(drawn: list[Codes]) -> None:
    sequence = np.repeat(np.arange(len(drawn)), [len(codes) for codes in drawn])
    codes = np.array([code for codes in drawn for code in codes], np.int64)
    result = repeated_blocks(sequence, codes)
    expected = [repeats.blocks(codes) for codes in drawn]
    assert result.block.tolist() == [n for block, _ in expected for n in block]
    assert result.layer.tolist() == [n for _, layer in expected for n in layer]


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        ("", []),
        ("ab", [-1, -1]),
        ("ababab", [0, 0, 1, 1, 2, 2]),
        ("abab", [-1] * 4),
        ("aaaa", [-1] * 4),
        ("xabcabcabcaby", [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, -1, -1, -1]),
        ("abababxab", [0, 0, 1, 1, 2, 2, -1, 3, 3]),
        ("abababcdecdecde", [0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]),
    ],
)
def test_layers(names: str, layers: Codes) -> None:
    codes = np.array([ord(name) for name in names], np.int64)
    assert repeated_blocks(np.zeros(len(names), np.int64), codes).layer.tolist() == layers


def test_dense_layers_before_those_with_experts_are_a_block_of_their_own() -> None:
    codes = np.array([9, *[1, 2, 3] * 3, *[1, 4, 5, 6] * 58, 8])
    result = repeated_blocks(np.zeros(codes.size, np.int64), codes)
    assert result.block.tolist() == [-1, *[0] * 9, *[1] * 232, -1]
    assert result.layer.max() == 60


def test_equal_members_of_two_sequences_are_no_repetition() -> None:
    codes = np.array([1, 2] * 6)
    result = repeated_blocks(np.repeat(np.arange(6), 2), codes)
    assert set(result.layer.tolist()) == {-1}
