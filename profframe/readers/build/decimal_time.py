"""Convert microseconds as 128-bit decimals to nanoseconds as int64, without doubles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SCALE: Final = 6
"""Decimals of a microsecond that are read: down to picoseconds."""

_PER_NS: Final = 1000
_WORD_NS, _WORD_REST = divmod(1 << 64, _PER_NS)
_MOST_WORDS: Final = (1 << 62) // _WORD_NS
"""Upper words, of either sign, up to which the result fits into int64 with room to add a base."""


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds, NULL where there was no value or it was beyond int64 (``bad``)."""

    ns: pa.Array
    bad: npt.NDArray[np.bool_]
    rounded: npt.NDArray[np.bool_]


def nanoseconds(microseconds: pa.Array) -> Times:
    """Round decimals of microseconds to the nearest nanosecond.

    Parameters
    ----------
    microseconds
        Type ``decimal128(_, 6)``.

    Examples
    --------
    >>> from decimal import Decimal
    >>> times = [Decimal("1712195495519689.047000"), None, Decimal("0.000500")]
    >>> nanoseconds(pa.array(times, pa.decimal128(28, SCALE))).ns.to_pylist()
    [1712195495519689047, None, 1]
    """
    words = np.frombuffer(microseconds.buffers()[1], np.int64)
    first = 2 * microseconds.offset
    words = words[first : first + 2 * len(microseconds)].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    valid = microseconds.is_valid().to_numpy(zero_copy_only=False)
    if np.array_equal(high[valid], low[valid] >> 63):
        ns, rest = np.divmod(low, _PER_NS)
        bad = np.zeros(len(low), np.bool_)
    else:
        quotient, rest = np.divmod(low.view(np.uint64), np.uint64(_PER_NS))
        bad = valid & (np.abs(high) >= _MOST_WORDS)
        upper = np.where(bad, 0, high)
        carry, rest = np.divmod(upper * _WORD_REST + rest.astype(np.int64), _PER_NS)
        ns = upper * _WORD_NS + quotient.astype(np.int64) + carry
    ns += rest * 2 >= _PER_NS
    return Times(pa.array(ns, mask=~valid | bad), bad, valid & ~bad & (rest != 0))
