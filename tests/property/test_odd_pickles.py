"""Odd keys and values in snapshots and dumps are counted, and become NULL or text."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import profframe
from tests.fuzz import dumps, snapshots

COUNT = 200


def loaded(path: Path, content: bytes) -> profframe.Trace:
    path.write_bytes(content)
    return profframe.load(path)


def checks(trace: profframe.Trace) -> dict[str, int]:
    return dict(trace.quality.select("issue", "events").iter_rows())


@pytest.mark.parametrize("seed", [0, 2])  # in others a list has what is no dict
def test_odd_dicts_of_snapshots(seed: int, tmp_path: Path) -> None:
    value = snapshots.odd_snapshot(Random(seed), COUNT)  # noqa: S311 - no secret
    trace = loaded(tmp_path / "snapshot.pickle", pickle.dumps(value, 4))
    assert checks(trace)["odd_value"] > COUNT
    records = sum(map(len, [*value["device_traces"], value["host_traces"]]))
    assert trace.sql("SELECT count(*) n FROM allocator_events")["n"].item() == records
    assert trace.sql("SELECT count(*) n FROM segments")["n"].item() == 2 * COUNT
    assert checks(trace)["unread_key"] > COUNT // 10
    assert json.loads(trace.traces["metadata"].item())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_json", [False, True])
def test_odd_dicts_of_dumps(seed: int, is_json: bool, tmp_path: Path) -> None:
    value = dumps.odd_dump(Random(seed), COUNT)  # noqa: S311 - no secret
    content = dumps.in_json(value) if is_json else pickle.dumps(value, 4)
    trace = loaded(tmp_path / dumps.NAME, content)
    assert checks(trace)["odd_record"] > COUNT
    rows = trace.sql("SELECT count(*) n FROM recorded_collectives")["n"].item()
    assert rows == len(value["entries"])
    assert json.loads(trace.traces["metadata"].item())


ODD = [b"bytes", {1, 2}, [], [[1]], {}, 2**62, 2**63, -1, 1.5, "\ud800", True]


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key in ("stage", "name", "time_us", "device") for value in ODD],
)
def test_odd_values_of_annotations(key: str, value: object, tmp_path: Path) -> None:
    odd: Any = snapshots.annotation("START") | {key: value}
    rows = [snapshots.annotation("START"), snapshots.annotation("END"), odd]
    trace = loaded(
        tmp_path / "s.pickle", pickle.dumps({"segments": [], "external_annotations": rows})
    )
    steps = trace.events.filter(pl.col("dur_ns") == 1000)
    assert steps.height == 1
