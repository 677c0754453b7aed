"""Attention pairs and keys of many sequences from sums over them, against loops over queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.formulas.sequence_lengths import (
    BatchLengths,
    SequenceSums,
    alike,
    seen,
)
from profframe.facts.formulas.unknowns import UnknownLengths
from tests.oracles.sequences import Sequences, sums

SEQUENCES = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1, max_size=5)
WINDOW = st.none() | st.integers(1, 20)


def visible(sequences: Sequences, causal: bool, window: int | None) -> list[set[tuple[int, int]]]:
    """Of each sequence the pairs of a query and a key that it sees, at places in the sequence."""
    result = []
    for queries, cached in sequences:
        places = range(cached, cached + queries)
        pairs = {(query, key) for query in places for key in range(cached + queries)}
        if causal:
            pairs = {(query, key) for query, key in pairs if key <= query}
        if window is not None:
            pairs = {(query, key) for query, key in pairs if key > query - window}
        result.append(pairs)
    return result


@given(SEQUENCES, st.booleans())
def test_pairs_under_a_mask(sequences: Sequences, causal: bool) -> None:
    expected = sum(map(len, visible(sequences, causal, None)))
    assert sums(sequences).pairs(causal=causal, window=None) == expected


@given(SEQUENCES, WINDOW)
def test_a_window_is_counted_or_not_known(sequences: Sequences, window: int | None) -> None:
    """It is known for one sequence, for equal ones without a cache, and where it cuts nothing."""
    pairs = visible(sequences, True, window)
    whole = sums(sequences)
    longest = max(queries + cached for queries, cached in sequences)
    must_know = len(sequences) == 1 or set(sequences) == {(sequences[0][0], 0)}
    try:
        counted = whole.pairs(causal=True, window=window)
        read = whole.keys_read(window)
    except UnknownLengths:
        assert not must_know
        assert window is not None
        return
    assert counted == sum(map(len, pairs))
    assert read == sum(len({key for _, key in of_one}) for of_one in pairs)
    assert must_know or window is None or longest <= window


@given(SEQUENCES)
def test_sums_of_sequences_are_possible(sequences: Sequences) -> None:
    assert sums(sequences).is_possible


@pytest.mark.parametrize(
    "impossible",
    [
        (0, 4, 4, 8, 8),  # queries of no sequence
        (5, 4, 4, 8, 8),  # more sequences than queries
        (1, 4, 3, 16, 12),  # fewer keys than queries
        (2, 4, 4, 7, 8),  # squares of two numbers whose sum is 4 are at least 8
        (2, 4, 8, 8, 7),  # each has at least as many keys as queries
        (2, 4, 8, 8, 33),  # no query has more than all keys
        (0, 0, 3, 0, 0),
    ],
)
def test_impossible_sums(impossible: tuple[int, ...]) -> None:
    assert not SequenceSums(*impossible).is_possible


@given(SEQUENCES, SEQUENCES, st.booleans())
def test_a_call_of_a_part_of_a_batch(
    prompts: Sequences, generating: Sequences, generates: bool
) -> None:
    """It has the sums of the only part with its rows, or of the whole."""
    context, generation = sums(prompts), sums(generating)
    batch = BatchLengths(context, generation)
    whole = sums(prompts + generating)
    assert batch.of_rows(whole.queries, generates=generates) == whole
    if context.queries != generation.queries:
        assert batch.of_rows(context.queries) == context
        assert batch.of_rows(generation.queries) == generation
    else:
        assert batch.of_rows(context.queries, generates=True) == generation
        with pytest.raises(UnknownLengths):
            batch.of_rows(context.queries)
    with pytest.raises(UnknownLengths):
        batch.of_rows(2 * whole.queries)


def test_rows_of_a_graph_may_be_padded() -> None:
    batch = BatchLengths(alike(0, 0, 0), alike(3, 1, 50))
    assert batch.of_rows(4).keys == batch.of_rows(5, generates=True).keys == 150
    for rows in (1, 2, 6):
        with pytest.raises(UnknownLengths):
            batch.of_rows(rows, generates=True)


def test_queries_before_the_first_key_see_none() -> None:
    assert seen(4, 2) == 1 + 2
    assert seen(4, 2, window=1) == 2
