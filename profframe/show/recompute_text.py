"""What ran again in backward, in a line above its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS: Final = 20
"""Rows that people see unless they ask for another number."""


def headline(totals: pl.DataFrame) -> str:
    """Times and shares of what ran again, for each run the mean of all of its ranks.

    Parameters
    ----------
    totals
        Rows of ``sql/inner/recompute_totals.sql``. A rank in which nothing ran again counts, with
        nothing of it; a run without any such rank has no line.

    Examples
    --------
    >>> import polars as pl
    >>> shares = {"share": [0.3, None], "share_without_communication": [0.3, None]}
    >>> rows = {"run": "a", "rank": [0, 1], "steps": [2, 0], "kernels": [2, 0]} | shares
    >>> times = {"device_ns": [3_000, 0], "host_ns": [8_000, 0]}
    >>> print(headline(pl.DataFrame(rows | times)).partition(": ")[2])
    1.500 us in 1 kernel (0.750 us per step, of 2 steps), 15.0 % of the device time of these steps; 4.000 us on the host (2.000 us per step), with Python and launches
    """  # noqa: E501
    runs = totals.partition_by("run", as_dict=True, maintain_order=True)
    with_any = {run: ranks for (run,), ranks in runs.items() if _of_any(ranks).height}
    lines = []
    for run, ranks in with_any.items():
        of = f" of {units.visible(str(run))}" if len(with_any) > 1 else ""
        mean = f", mean of {units.plural(ranks.height, 'rank')}" if ranks.height > 1 else ""
        lines.append(f"Recomputed in all{of}{mean}: {_parts(ranks)}")
    return "\n".join(lines)


def _of_any(ranks: pl.DataFrame) -> pl.DataFrame:
    """Ranks in which something ran again."""
    import polars as pl

    return ranks.filter((pl.col("device_ns") > 0) | (pl.col("host_ns") > 0))


def _parts(ranks: pl.DataFrame) -> str:
    """Times and shares of the ranks of a run, as means."""
    device, kernels, host = (
        float(ranks[name].sum()) / ranks.height for name in ("device_ns", "kernels", "host_ns")
    )
    share, own = (
        float(ranks[name].fill_null(0).sum()) / ranks.height
        for name in ("share", "share_without_communication")
    )
    steps = _of_any(ranks)["steps"].unique()
    whole = "kernels, copies and fills" if steps.null_count() else "these steps"
    number = int(steps[0]) if len(steps) == 1 and not steps.null_count() else 0
    of_device = of_host = ""
    if number > 1:
        of_device = f" ({units.duration(device / number)} per step, of {number:,} steps)"
        of_host = f" ({units.duration(host / number)} per step)"
    of_whole = ""
    if ranks["share"].count():
        of_whole = f", {units.share(share)} of the device time of {whole}"
        if own != share:
            of_whole += f" ({units.share(own)} without communication)"
    return (
        f"{units.duration(device)} in {units.plural(round(kernels), 'kernel')}{of_device}{of_whole}"
        f"; {units.duration(host)} on the host{of_host}, with Python and launches"
    )


def title(totals: pl.DataFrame, rows: int, top: int | None) -> str:
    """The line above rows of `recompute`, with how many of them are shown."""
    if top is None or rows <= top:
        return headline(totals)
    return f"{headline(totals)} (top {top:,} of {rows:,} rows; --top 0 for all)"
