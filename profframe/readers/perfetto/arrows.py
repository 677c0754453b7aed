"""Arrows: from calls to what they launched, between nodes of graphs, and those that events name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from profframe.intervals import Ints
from profframe.readers.build.row_tables import Batch, RowTable, conform
from profframe.readers.chrome.columns import FIRST_DEPENDENCY, GRAPH_DEPENDENCY, LAUNCH_ARROWS

_MARK: Final = ("pid", "tid", "time_ns")


@dataclass(slots=True)
class Arrows:
    """Ends of arrows; those to device work are known once everything is read."""

    ends: list[pl.DataFrame] = field(default_factory=list)
    calls: list[pl.DataFrame] = field(default_factory=list)
    stages: list[pl.DataFrame] = field(default_factory=list)
    waits: list[pl.DataFrame] = field(default_factory=list)

    def launches(self, members: dict[str, pa.Array], rows: Ints, targets: Ints) -> None:
        """Events that launched device work, and the ids of the work.

        Correlation 0 means none; such an event would name all other work without one.
        """
        chosen = pa.array(rows)
        frame = pl.DataFrame({name: members[name].take(chosen) for name in (*_MARK, "args")})
        correlation = pl.col("args").str.extract(r'"correlation":(\d{1,18})')
        self.calls.append(
            frame.select(*_MARK, correlation.alias("flow_id"))
            .with_columns(pl.Series("target", targets))
            .filter(pl.col("flow_id").ne_missing("0"))
        )

    def work(self, members: dict[str, pa.Array], ids: Ints, durations: Ints) -> None:
        """Device work, by the ids of its events."""
        frame = pl.DataFrame({name: members[name] for name in _MARK})
        self.stages.append(
            frame.with_columns(pl.Series("event", ids), pl.Series("dur_ns", durations))
        )

    def dependencies(self, ids: Ints, waits_for: Ints) -> None:
        """Work that had to wait for other work."""
        self.waits.append(pl.DataFrame({"event": ids, "target": waits_for}))

    def steps(self, members: dict[str, pa.Array], rows: Ints, ids: Ints, *, ends: bool) -> None:
        """Events on arrows that have their own ids, and whether the arrows end there."""
        chosen = pa.array(rows)
        frame = pl.DataFrame({name: members[name].take(chosen) for name in (*_MARK, "cat")})
        self.ends.append(
            frame.rename({"cat": "category"}).with_columns(
                pl.Series("flow_id", ids.view(np.uint64)).cast(pl.String),
                pl.lit(ends).alias("is_end"),
            )
        )

    def batches(self) -> Iterator[Batch]:
        """Rows of all arrows."""
        frames = [_steps(pl.concat(self.ends))] if self.ends else []
        if self.stages:
            stages = pl.concat(self.stages).unique("event", keep="first", maintain_order=True)
            if self.calls:
                frames += _launches(pl.concat(self.calls), stages)
            if self.waits:
                frames += _dependencies(pl.concat(self.waits), stages)
        for frame in frames:
            columns = {name: frame[name].to_arrow() for name in frame.columns}
            for name in ("flow_id", "category", "name", "phase", "binding_point", "pid", "tid"):
                columns[name] = columns[name].cast(pa.string())
            if frame.height:
                yield {RowTable.FLOWS: conform(RowTable.FLOWS, columns)}


def _steps(ends: pl.DataFrame) -> pl.DataFrame:
    """Arrows start at the earliest of their events, and end where one says so, or at the last."""
    order = ends.select("flow_id", "time_ns").with_row_index("row")
    order = order.sort("flow_id", "time_ns", "row", nulls_last=True)
    ends = ends[order["row"]]
    is_same_before = pl.col("flow_id") == pl.col("flow_id").shift(1)
    is_same_behind = pl.col("flow_id") == pl.col("flow_id").shift(-1)
    is_first = ~(is_same_before & ~pl.col("is_end").shift(1)).fill_null(value=False)
    is_last = ~is_same_behind.fill_null(value=False)
    is_start = is_first & ~pl.col("is_end")
    phase = (
        pl.when(is_start)
        .then(pl.lit("s"))
        .when(pl.col("is_end") | is_last)
        .then(pl.lit("f"))
        .otherwise(pl.lit("t"))
    )
    marked = ends.with_columns(phase=phase, row=order["row"]).sort("row")
    return marked.select(
        *_MARK, "category", "flow_id", "phase",
        name=pl.lit(None, pl.String),
        binding_point=pl.when(pl.col("phase") != "s").then(pl.lit("e")),
    )  # fmt: skip


def _launches(calls: pl.DataFrame, stages: pl.DataFrame) -> list[pl.DataFrame]:
    both = calls.join(
        stages, left_on="target", right_on="event", how="inner", maintain_order="left", suffix="_to"
    )
    both = both.with_columns(pl.coalesce("flow_id", pl.col("target").cast(pl.String)))
    starts = both.select(*_MARK, "flow_id").unique(maintain_order=True)
    ends = both.select(*(pl.col(f"{name}_to").alias(name) for name in _MARK), "flow_id")
    return [_named(starts, "s", LAUNCH_ARROWS), _named(ends, "f", LAUNCH_ARROWS)]


def _dependencies(waits: pl.DataFrame, stages: pl.DataFrame) -> list[pl.DataFrame]:
    both = (
        waits.join(stages, on="event", how="inner", maintain_order="left")
        .join(
            stages,
            left_on="target",
            right_on="event",
            how="inner",
            maintain_order="left",
            suffix="_of",
        )
        .with_row_index("number")
        .with_columns(
            (pl.col("number").cast(pl.Int64) + FIRST_DEPENDENCY).cast(pl.String).alias("flow_id")
        )
    )
    starts = both.select(
        pl.col("pid_of").alias("pid"),
        pl.col("tid_of").alias("tid"),
        (pl.col("time_ns_of") + pl.col("dur_ns_of")).alias("time_ns"),
        "flow_id",
    )
    ends = both.select(*_MARK, "flow_id")
    return [_named(starts, "s", GRAPH_DEPENDENCY), _named(ends, "f", GRAPH_DEPENDENCY)]


def _named(ends: pl.DataFrame, phase: str, category: str) -> pl.DataFrame:
    return ends.with_columns(
        pl.lit(category).alias("category"),
        pl.lit(LAUNCH_ARROWS).alias("name"),
        pl.lit(phase).alias("phase"),
        pl.lit("e" if phase == "f" else None, pl.String).alias("binding_point"),
    )
