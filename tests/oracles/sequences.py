"""Sums over sequences, as servers write them."""

from __future__ import annotations

from profframe.facts.formulas.sequence_lengths import SequenceSums

Sequences = list[tuple[int, int]]
"""New tokens, and tokens in the cache before them."""


def sums(sequences: Sequences) -> SequenceSums:
    """The sums of some sequences."""
    lengths = [(new, new + cached) for new, cached in sequences]
    return SequenceSums(
        len(lengths),
        sum(new for new, _ in lengths),
        sum(keys for _, keys in lengths),
        sum(new * new for new, _ in lengths),
        sum(new * keys for new, keys in lengths),
    )
