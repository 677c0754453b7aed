"""Limits on a comparison, so that a build can fail if one is exceeded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import polars as pl

from profframe.errors import ParameterError

LEAST_SHARE: Final = Fraction(1, 100)
"""Rows with a smaller share of the time of their kind in the base do not count."""

_PERCENT: Final = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Growth:
    """A row that grew by more than the limit, or all rows of a kind if ``name`` is None.

    Attributes
    ----------
    what, name
        The row; a row without a name has the name ``""``.
    base_ns, other_ns
        Its time in both sides.
    """

    what: str
    name: str | None
    base_ns: int
    other_ns: int


def percent(text: str) -> Fraction:
    """Read a limit.

    Examples
    --------
    >>> percent("2.5%")
    Fraction(1, 40)
    """
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ParameterError(f"a limit is a number and %, as in 5%, not {text!r}")
    return Fraction(match[1]) / 100


def growths(rows: pl.DataFrame, limit: Fraction) -> list[Growth]:
    """Find what grew by more than a limit.

    These count: the self time of all ops; the time of all kernels; and each row, also of
    annotations, that differs significantly and took at least 1 % of the time of its kind in the
    base. Without repeated samples nothing is significant, so only the two totals count. A total
    that was zero and no longer is has grown by more than any limit.

    Examples
    --------
    >>> from profframe import diff
    >>> same = "examples/cpu_training.json.gz"
    >>> growths(diff(same, same), percent("0%"))
    []
    """
    sums = {
        what: (int(base), int(other))
        for what, base, other in totals(rows).select("what", "base_ns", "other_ns").iter_rows()
    }
    growths = [Growth(what, None, *sums[what]) for what in sums if what != "annotation"]
    significant = rows.filter(pl.col("significant")).select("what", "name", "base_ns", "other_ns")
    growths += [
        Growth(what, name or "", base, other)
        for what, name, base, other in significant.iter_rows()
        if base > 0 and base >= LEAST_SHARE * sums[what][0]
    ]
    return [
        growth
        for growth in growths
        if growth.other_ns - growth.base_ns > limit * abs(growth.base_ns)
    ]


def totals(rows: pl.DataFrame) -> pl.DataFrame:
    """Add up the rows of each kind; annotations nest, so their sum is no time."""
    times = ("base_ns", "other_ns", "change_ns")
    return rows.group_by("what", maintain_order=True).agg(
        *(pl.col(name).sum() for name in times),
        *((pl.col("status") == name).sum().alias(name) for name in ("added", "removed", "changed")),
        pl.col("significant").sum(),
    )
