"""What ran again in backward, in a line above its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS: Final = 20
"""Rows that people see unless they ask for another number."""


def headline(rows: pl.DataFrame, within: pl.DataFrame | None = None) -> str:
    """The time of all rows and its shares, for each run the mean of its ranks.

    Parameters
    ----------
    rows
        All rows of `recompute`.
    within
        Of each ``run`` and ``rank`` the number of ``steps`` that have all of it, NULL if there are
        none, and ``communication_share``, the part of the time of its devices in communication.

    Examples
    --------
    >>> import polars as pl
    >>> keys = {"run": "a", "rank": [0, 0], "device_ns": [3_000, 1_000], "share": [0.3, 0.1]}
    >>> headline(pl.DataFrame(keys | {"kernels": [2, 1], "self_host_ns": [500, 1_500]})).split(
    ...     "; "
    ... )[1]
    'ops on the host took 2.000 us'
    """
    import polars as pl

    sums = rows.group_by("run", "rank", maintain_order=True).agg(
        pl.col("device_ns", "share", "kernels", "self_host_ns").sum()
    )
    nothing = pl.lit(None, pl.Float64)
    if within is None:
        sums = sums.with_columns(steps=nothing, communication_share=nothing)
    else:
        sums = sums.join(within, on=["run", "rank"], how="left", maintain_order="left")
    lines = []
    for (run,), ranks in sums.partition_by("run", as_dict=True, maintain_order=True).items():
        of = f" of {units.visible(str(run))}" if sums["run"].n_unique() > 1 else ""
        mean = f", mean of {units.plural(ranks.height, 'rank')}" if ranks.height > 1 else ""
        lines.append(f"Recomputed in all{of}{mean}: {_parts(ranks)}")
    return "\n".join(lines)


def _parts(ranks: pl.DataFrame) -> str:
    """Times and shares of the ranks of a run, as means."""
    total, share, kernels, host = (
        float(ranks[name].sum()) / ranks.height
        for name in ("device_ns", "share", "kernels", "self_host_ns")
    )
    steps = ranks["steps"].unique()
    per_step = ""
    if steps.null_count() == 0 and len(steps) == 1 and (number := int(steps[0])) > 1:
        per_step = f" ({units.duration(total / number)} per step, the mean of {number:,})"
    without = 1 - ranks["communication_share"].fill_null(0)
    own = (ranks["share"] / without).mean()
    apart = ""
    if isinstance(own, float) and (without < 1).any():
        apart = f" ({units.share(own)} without communication)"
    return (
        f"{units.duration(total)} in {units.plural(round(kernels), 'kernel')}{per_step}, "
        f"{units.share(share)} of the time of all kernels, copies and fills{apart}; "
        f"ops on the host took {units.duration(host)}"
    )


def title(rows: pl.DataFrame, top: int | None, within: pl.DataFrame | None = None) -> str:
    """The line above the rows, with how many of them are shown."""
    if top is None or rows.height <= top:
        return headline(rows, within)
    return f"{headline(rows, within)} (top {top:,} of {rows.height:,} rows; --top 0 for all)"
