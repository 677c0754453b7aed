"""What ran again in backward, in a line above its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS: Final = 20
"""Rows that people see unless they ask for another number."""


def headline(rows: pl.DataFrame) -> str:
    """The time of all rows and its share, for each run the mean of its ranks.

    Parameters
    ----------
    rows
        All rows of `recompute`.

    Examples
    --------
    >>> import polars as pl
    >>> keys = {"run": "a", "rank": [0, 0], "device_ns": [3_000, 1_000], "share": [0.3, 0.1]}
    >>> headline(pl.DataFrame(keys | {"kernels": [2, 1]}))
    'Recomputed in all: 4.000 us in 3 kernels, 40.0 % of the time of all kernels, copies and fills'
    """
    import polars as pl

    sums = rows.group_by("run", "rank", maintain_order=True).agg(
        pl.col("device_ns", "share", "kernels").sum()
    )
    lines = []
    for (run,), ranks in sums.partition_by("run", as_dict=True, maintain_order=True).items():
        of = f" of {units.visible(str(run))}" if sums["run"].n_unique() > 1 else ""
        mean = f", mean of {units.plural(ranks.height, 'rank')}" if ranks.height > 1 else ""
        total, share, kernels = (
            float(ranks[name].sum()) / ranks.height for name in ("device_ns", "share", "kernels")
        )
        lines.append(
            f"Recomputed in all{of}{mean}: {units.duration(total)} in "
            f"{units.plural(round(kernels), 'kernel')}, {units.share(share)} of the time of all "
            "kernels, copies and fills"
        )
    return "\n".join(lines)


def title(rows: pl.DataFrame, top: int | None) -> str:
    """The line above the rows, with how many of them are shown."""
    if top is None or rows.height <= top:
        return headline(rows)
    return f"{headline(rows)} (top {top:,} of {rows.height:,} rows; --top 0 for all)"
