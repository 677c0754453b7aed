"""Execution traces in words, from rows of their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from profframe.show import units

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN: Final = (
    "run", "rank", "name", "collective", "process_group_description", "calls", "read_bytes",
    "written_bytes", "allocated_bytes", "largest_bytes", "largest_dtype", "largest_shape",
)  # fmt: skip
_MOVED: Final = pl.sum_horizontal("read_bytes", "written_bytes")


def contents(row: Mapping[str, Any]) -> str:
    """What an execution trace contains, in numbers.

    Parameters
    ----------
    row
        A row of `sql/file_summaries/execution_traces.sql`.
    """
    parts = [
        units.plural(row["nodes"], "node"),
        units.plural(row["operators"], "operator call"),
        *([units.plural(row["collectives"], "collective")] if row["collectives"] else []),
        units.plural(row["tensors"], "tensor"),
        f"{row['dependencies']:,} data dependencies",
        units.plural(row["threads"], "thread"),
    ]
    schema = "" if row["schema"] is None else f"; schema {row['schema']}"
    recorded = "" if row["recorded"] is None else f", recorded {row['recorded']}"
    return ", ".join(parts) + schema + recorded


def headline(sizes: pl.DataFrame, traffic: pl.DataFrame) -> Iterator[str]:
    """What matters most, one sentence per line: ops with most bytes, collectives, tensors, links.

    Parameters
    ----------
    sizes
        Rows of `sql/file_summaries/execution_traces.sql`.
    traffic
        Rows of `tensor_traffic`.
    """
    ops = _sums(traffic.filter(pl.col("collective").is_null()), ["name"])
    total = int(traffic.select(_MOVED.sum()).item())
    if ops and total:
        first = ops[0]
        share = units.share((first["read"] + first["written"]) / total)
        yield (
            f"of all ops {first['name'] or 'an op without a name'} moves the most bytes: it reads "
            f"{units.size(first['read'])} and writes {units.size(first['written'])} in "
            f"{units.plural(first['calls'], 'call')} ({share})"
        )
    groups = ["collective", "process_group_description", "process_group"]
    if rows := _sums(traffic.filter(pl.col("collective").is_not_null()), groups):
        calls = units.plural(sum(row["calls"] for row in rows), "call")
        first = rows[0]
        group = first["process_group_description"]
        group = first["process_group"] if group in {None, "", "undefined"} else group
        of = "" if group is None else f" of group {group}"
        sent = max(first["read"], first["written"])
        size = f": {units.size(sent)} in {units.plural(first['calls'], 'call')}" if sent else ""
        most = f", the most by {first['collective']}{of}{size}" if len(rows) > 1 else ""
        only = f": {first['collective']}{of}, {units.size(sent)}" if len(rows) == 1 else ""
        yield f"ranks communicate in {calls}{most}{only}"
    largest = sizes.drop_nulls("tensor_bytes").sort("tensor_bytes", maintain_order=True).tail(1)
    for row in largest.to_dicts():
        where = "" if row["tensor_device"] in {None, ""} else f" on {row['tensor_device']}"
        shape = " ".join(part for part in (row["tensor_dtype"], row["tensor_shape"]) if part)
        yield f"the largest tensor has {units.size(row['tensor_bytes'])}: {shape}{where}"
    operators, linked = (int(sizes[name].sum()) for name in ("operators", "linked"))
    if linked:
        share = units.share(linked / operators)
        yield f"{share} of its {units.plural(operators, 'operator call')} match an event"
    if not traffic.height:
        yield "no call in it writes a tensor"


def table(traffic: pl.DataFrame) -> pl.DataFrame:
    """Rows of `tensor_traffic` with the columns that people look at first."""
    rows = traffic.select(_SHOWN)
    constant = [name for name in ("run", "rank") if rows[name].n_unique() < 2]
    return rows.drop(constant, [c.name for c in rows if c.is_null().all()], strict=False)


def hint(sizes: pl.DataFrame) -> str:
    """How to add times; empty if it has them."""
    if sizes["linked"].sum():
        return ""
    return (
        "An execution trace has no times: profframe TRACE --execution-trace FILE joins it with a "
        "trace of the same process"
    )


def _sums(rows: pl.DataFrame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Sums over runs and ranks, the most bytes first."""
    sums = rows.group_by(keys, maintain_order=True).agg(
        pl.col("calls").sum(),
        read=pl.col("read_bytes").sum(),
        written=pl.col("written_bytes").sum(),
    )
    by = pl.col("read") + pl.col("written")
    return sums.sort(by, descending=True, maintain_order=True).to_dicts()
