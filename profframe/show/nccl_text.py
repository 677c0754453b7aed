"""Records of NCCL's profiler plugins in words, from rows of their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from profframe.show import units

_LEAST_SHARE: Final = 0.1
"""Share of a rank's time in collectives by which it must hold up the others to be named."""
_LEAST_SLOWER: Final = 2
"""How much slower than the fastest the slowest collective of a size must be to be named."""


WITHOUT_STARTS: Final = (
    "NCCL_INSPECTOR_DUMP_VERBOSE=1 makes Inspector write when kernels start, which stragglers needs"
)


def contents(row: Mapping[str, Any]) -> str:
    """What records contain, in numbers.

    Parameters
    ----------
    row
        A row of `sql/file_summaries/nccl_records.sql`.
    """
    parts = [f"records of {units.plural(row['collectives'], 'collective')}"]
    if row["p2p"]:
        parts.append(f"of {row['p2p']:,} sends and receives")
    of = "" if row["largest"] is None else f", the largest of {row['largest']:,} ranks"
    parts.append(f"{units.plural(row['communicators'], 'communicator')}{of}")
    if row["first_ns"] is not None and row["last_ns"] is not None:
        parts.append(units.duration(row["last_ns"] - row["first_ns"]))
    return ", ".join(parts)


def headline(sizes: pl.DataFrame, ranks: pl.DataFrame) -> Iterator[str]:
    """What matters most, one sentence per line: most time, uneven bandwidth, a late rank.

    Parameters
    ----------
    sizes
        Rows of `sql/file_summaries/nccl_sizes.sql`.
    ranks
        Rows of `sql/file_summaries/nccl_ranks.sql`.
    """
    several = sizes["run"].n_unique() > 1
    total = int(sizes["total_ns"].sum())
    whole = sizes.filter(pl.col("complete") > 0)
    for row in (whole if whole.height else sizes).head(1).to_dicts():
        share = f" ({units.share(row['total_ns'] / total)} of all)" if total else ""
        yield (
            f"most time is in {_name(row, several)}: {units.duration(row['total_ns'])}{share} in "
            f"{units.plural(row['complete'] or row['calls'], 'call')}{_rate(row)}{_waits(row)}"
        )
    uneven = whole.filter(
        pl.col("min_gb_per_s") > 0, pl.col("max_gb_per_s") >= _LEAST_SLOWER * pl.col("min_gb_per_s")
    )
    for row in uneven.head(1).to_dicts():
        yield (
            f"bandwidth of {_name(row, several)} varies from {row['min_gb_per_s']:,.2f} to "
            f"{row['max_gb_per_s']:,.2f} GB/s, with equal sizes"
        )
    late = ranks.filter(pl.col("held_up_ns") >= _LEAST_SHARE * pl.col("communication_ns"))
    for row in late.sort("held_up_ns", descending=True, maintain_order=True).head(1).to_dicts():
        of = f" of {row['run']}" if several else ""
        yield (
            f"rank {row['rank']}{of} comes last in {row['times_last']:,} of "
            f"{units.plural(row['collectives'], 'collective')} and holds up the others by "
            f"{units.duration(row['held_up_ns'])}: its durations there are the shortest"
        )
    incomplete = int((sizes["calls"] - sizes["complete"]).sum())
    if incomplete:
        yield (
            f"records of some ranks are missing for {units.plural(incomplete, 'collective')}: "
            "their durations may be waits for these ranks"
        )


def table(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of sizes or ranks, with the run only if there are several."""
    if "complete" in rows.columns and (rows["complete"] == rows["calls"]).all():
        rows = rows.drop("complete")
    return rows.drop("run") if rows["run"].n_unique() <= 1 else rows


def _name(row: Mapping[str, Any], several: bool) -> str:
    size = "" if row["bytes"] is None else f" of {units.size(row['bytes'])}"
    ranks = "" if row["ranks"] is None else f" ({row['ranks']:,} ranks)"
    of = f" of {row['run']}" if several else ""
    return f"{row['collective']}{size} in {row['process_group']}{ranks}{of}"


def _rate(row: Mapping[str, Any]) -> str:
    if row["bus_gb_per_s"] is None:
        return ""
    if (row["complete"] or row["calls"]) == 1:
        return f", bus bandwidth {row['bus_gb_per_s']:,.2f} GB/s"
    return (
        f", bus bandwidth {row['bus_gb_per_s']:,.2f} GB/s in the median and at least "
        f"{row['min_gb_per_s']:,.2f} GB/s"
    )


def _waits(row: Mapping[str, Any]) -> str:
    """What to know if all collectives of a row lack ranks."""
    return "" if row["complete"] else ", waits for ranks without records included"
