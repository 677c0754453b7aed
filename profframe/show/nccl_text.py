"""Records of NCCL's profiler plugins in words, from rows of their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from profframe.show import units

_LEAST_SHARE: Final = 0.25
"""Share of collectives that a rank must be last in to be named."""
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
    """What matters most, one sentence per line: the most time, the slowest, the rank that is late.

    Parameters
    ----------
    sizes
        Rows of `sql/file_summaries/nccl_sizes.sql`.
    ranks
        Rows of `sql/file_summaries/nccl_ranks.sql`.
    """
    total = int(sizes["total_ns"].sum())
    for row in sizes.head(1).to_dicts():
        share = f" ({units.share(row['total_ns'] / total)} of all)" if total else ""
        yield (
            f"most time is in {_name(row)}: {units.duration(row['total_ns'])}{share} in "
            f"{units.plural(row['calls'], 'call')}{_rate(row)}"
        )
    uneven = sizes.filter(
        pl.col("min_gb_per_s") > 0, pl.col("max_gb_per_s") >= _LEAST_SLOWER * pl.col("min_gb_per_s")
    )
    for row in uneven.head(1).to_dicts():
        yield (
            f"bandwidth of {_name(row)} varies from {row['min_gb_per_s']:,.2f} to "
            f"{row['max_gb_per_s']:,.2f} GB/s, with equal sizes"
        )
    late = ranks.sort("times_shortest", descending=True, maintain_order=True).head(1)
    for row in late.filter(pl.col("shortest_share") >= _LEAST_SHARE).to_dicts():
        waited = int(ranks.filter(pl.col("run") == row["run"])["longer_ns"].sum())
        yield (
            f"rank {row['rank']} has the shortest duration in {row['times_shortest']:,} of "
            f"{units.plural(row['collectives'], 'collective')}: the others wait for it there; "
            f"all ranks together wait {units.duration(waited)}"
        )


def table(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of sizes or ranks, with the run only if there are several."""
    return rows.drop("run") if rows["run"].n_unique() <= 1 else rows


def _name(row: Mapping[str, Any]) -> str:
    size = "" if row["bytes"] is None else f" of {units.size(row['bytes'])}"
    ranks = "" if row["ranks"] is None else f" ({row['ranks']:,} ranks)"
    return f"{row['collective']}{size} in {row['process_group']}{ranks}"


def _rate(row: Mapping[str, Any]) -> str:
    if row["bus_gb_per_s"] is None:
        return ""
    return (
        f", bus bandwidth {row['bus_gb_per_s']:,.2f} GB/s in the median and at least "
        f"{row['min_gb_per_s']:,.2f} GB/s"
    )
