"""FLOPs and bytes of real traces: nothing is lost or counted twice."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from tests import needs
from tests.conftest import real_trace

LARGEST: Final = 400_000
"""Bytes of the compressed files that are looked at."""


def test_kernels_have_together_what_their_owners_have(chrome_trace: Path) -> None:
    if chrome_trace.stat().st_size >= LARGEST:
        needs.another_trace("it is large")
    events = real_trace(chrome_trace).events
    kernels = events.filter(pl.col("kind") == "kernel", pl.col("work_id").is_not_null())
    owners = events.filter(pl.col("event_id") == pl.col("work_id"))
    assert set(owners["kind"]) <= {"host_op"}
    assert owners.select(pl.any_horizontal(pl.col("flops", "bytes").is_not_null()).all()).item()
    busy = owners.filter(pl.col("event_id").is_in(kernels["work_id"].implode()))
    for name in ("flops", "bytes"):
        assert kernels[name].sum() == busy[name].sum()
        assert (
            kernels[name].null_count()
            == kernels.join(
                busy.filter(pl.col(name).is_null()), left_on="work_id", right_on="event_id"
            ).height
        )
    assert (
        events.filter(pl.col("flops") < 0).height,
        events.filter(pl.col("bytes") < 0).height,
    ) == (0, 0)
    others = events.filter(~pl.col("kind").is_in(["host_op", "kernel"]))
    assert others["flops"].null_count() == others.height
