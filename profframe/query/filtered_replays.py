"""Captured ops in a filtered trace: how many of their replays remain."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.intervals import subtree_sums

_TRACE: Final = ["run", "rank"]
_COLUMNS: Final = (
    *_TRACE, "event_id", "kind", "thread", "preorder", "last_descendant_id", "replays", "launch_id",
    "op_id", "dur_ns",
)  # fmt: skip


def with_remaining_replays(events: pa.Table) -> pa.Table:
    """Rows of ``events`` whose captured ops count the replays that are among the rows.

    ``replays self_device_ns device_ns`` of captured slices count only the work among the rows;
    captured slices without a replay among them are dropped.
    """
    rows = pl.DataFrame(events.select(list(_COLUMNS))).with_row_index("row")
    captured = rows.filter(pl.col("replays").is_not_null())
    work = rows.filter(pl.col("kind").cast(pl.String).is_in(schema.DEVICE_KINDS)).join(
        captured.select(*_TRACE, op_id="event_id", captured_thread="thread"), on=[*_TRACE, "op_id"]
    )
    launches = work.group_by(*_TRACE, thread="captured_thread").agg(
        replays_left=pl.col("launch_id").n_unique().cast(pl.Int64)
    )
    own = work.group_by(*_TRACE, event_id="op_id").agg(self_ns=pl.col("dur_ns").sum())
    left = (
        captured.join(launches, on=[*_TRACE, "thread"])
        .join(own, on=[*_TRACE, "event_id"], how="left")
        .with_columns(pl.col("self_ns").fill_null(0))
        .sort(*_TRACE, "preorder")
    )
    inclusive = [
        subtree_sums(
            np.arange(part.height),
            _last(part),
            part["self_ns"].to_numpy(),
        )
        for part in left.partition_by(*_TRACE, maintain_order=True)
    ]
    left = left.with_columns(
        total_ns=pl.Series(np.concatenate([np.empty(0, np.int64), *inclusive]), dtype=pl.Int64)
    )
    for name, source in {
        "replays": "replays_left", "self_device_ns": "self_ns", "device_ns": "total_ns",
    }.items():  # fmt: skip
        events = _with_values(events, name, left["row"].to_numpy(), left[source])
    gone = captured.join(left.select("row"), on="row", how="anti")["row"].to_numpy()
    mask = np.ones(events.num_rows, np.bool_)
    mask[gone] = False
    return events.filter(pa.array(mask))


def _last(part: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Place of the last descendant of each row, in rows by preorder."""
    place = pl.DataFrame({"last_descendant_id": part["event_id"]}).with_row_index("place")
    return part.join(place, on="last_descendant_id", how="left", maintain_order="left")[
        "place"
    ].to_numpy()


def _with_values(
    events: pa.Table, name: str, rows: npt.NDArray[np.int64], values: pl.Series
) -> pa.Table:
    column = pl.Series(events[name]).scatter(rows, values)
    place = events.column_names.index(name)
    type_ = events.schema.field(name).type
    return events.set_column(place, name, column.to_arrow().cast(type_))
