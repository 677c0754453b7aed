"""Lengths of the sequences that attention works on, as sums over them.

FLOPs and bytes of attention need four sums and no single length: of the queries (new tokens), of
the keys (new and cached tokens), of the squares of the queries, and of queries times keys.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from profframe.facts.formulas.unknowns import UnknownLengths


class SequenceSums(NamedTuple):
    """Sums over sequences, each of which has at least as many keys as queries.

    ``squares`` are the sum of the squared queries, ``products`` that of queries times keys.
    """

    sequences: int
    queries: int
    keys: int
    squares: int
    products: int

    @property
    def is_possible(self) -> bool:
        """Whether sequences can have these sums."""
        count, queries, keys, squares, products = self
        if not queries:
            return not (keys or squares or products)
        fits = 0 < count <= queries <= keys and queries * queries <= count * squares
        return fits and queries <= squares <= products <= queries * keys

    def joined(self, other: SequenceSums) -> SequenceSums:
        """The sums over both groups of sequences."""
        return SequenceSums(*(one + two for one, two in zip(self, other, strict=True)))

    @property
    def alike(self) -> int | None:
        """Length of all sequences, if none has keys before its queries and all are as long."""
        is_new = self.queries == self.keys and self.squares == self.products
        are_alike = self.queries * self.queries == self.sequences * self.squares
        return self.queries // self.sequences if self.queries and is_new and are_alike else None

    def pairs(self, *, causal: bool, window: int | None) -> int:
        """Pairs of a query and a key that it sees.

        A causal mask leaves the last query of a sequence all keys, the one before it one key less.
        ``window`` is the most keys that a query sees.

        Raises
        ------
        UnknownLengths
            A window cuts some sequences, and the sums do not tell how much.
        """
        if self._is_within(window):
            return self.products - (self.squares - self.queries) // 2 if causal else self.products
        if not causal:
            raise UnknownLengths
        if self.alike is not None:
            return self.sequences * seen(self.alike, self.alike, window)
        if self.sequences != 1:
            raise UnknownLengths
        return seen(self.queries, self.keys, window)

    def keys_read(self, window: int | None) -> int:
        """Keys that at least one query sees; raises `UnknownLengths` as `pairs` does."""
        if self._is_within(window) or window is None:
            return self.keys
        if self.alike is not None:
            return self.keys
        if self.sequences != 1:
            raise UnknownLengths
        return min(self.keys, self.queries + window - 1)

    def _is_within(self, window: int | None) -> bool:
        """Whether no sequence is longer than the window, however the keys are distributed."""
        return window is None or self.keys - (self.sequences - 1) <= window or not self.queries


NO_SEQUENCES: Final = SequenceSums(0, 0, 0, 0, 0)


class BatchLengths(NamedTuple):
    """Lengths of the sequences of a step: of those in their prompts, and of those that generate."""

    context: SequenceSums
    generation: SequenceSums

    def of_rows(self, rows: int, *, generates: bool = False) -> SequenceSums:
        """The sums of the part of the batch with this number of queries.

        A step may be one call, or one for each part. Rows of a captured graph may be more than the
        queries, by less than their number.

        Parameters
        ----------
        rows : int
            Queries of a call.
        generates : bool
            The call is of a kernel that only generates: it is preferred if both parts fit.

        Raises
        ------
        UnknownLengths
            No part fits, or both do.

        Examples
        --------
        >>> batch = BatchLengths(SequenceSums(1, 8, 8, 64, 64), SequenceSums(2, 2, 90, 2, 90))
        >>> batch.of_rows(2).keys, batch.of_rows(10).keys, batch.of_rows(16).keys
        (90, 98, 98)
        """
        whole = self.context.joined(self.generation)
        if rows == whole.queries:
            return whole
        parts = [part for part in (self.generation, self.context) if part.queries == rows]
        if len(parts) == 1 or (parts and generates):
            return parts[0]
        padded = self.generation if generates else whole
        if not padded.queries < rows < 2 * padded.queries:
            raise UnknownLengths
        return padded


def alike(count: int, queries: int, keys: int) -> SequenceSums:
    """The sums of sequences that all have these lengths."""
    return SequenceSums(
        count, count * queries, count * keys, count * queries**2, count * queries * keys
    )


def seen(queries: int, keys: int, window: int | None = None) -> int:
    """Pairs of a query and a key in one sequence under a causal mask, with at most ``window`` keys.

    Examples
    --------
    >>> seen(3, 3), seen(1, 100), seen(1, 100, window=16), seen(4, 2)
    (6, 100, 16, 3)
    """
    return _seen_until(keys, window) - _seen_until(keys - queries, window)


def _seen_until(place: int, window: int | None) -> int:
    """Keys that the queries up to a place of a sequence see."""
    place = max(place, 0)
    rising = place if window is None else min(place, max(window, 0))
    return rising * (rising + 1) // 2 + rising * (place - rising)
