"""The answer `flame` against a plain loop: paths, times, directions, cuts, filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import Row, event, loaded
from tests.oracles.flames import ENGINE, nodes

TIMES = ("calls", "self_ns", "total_ns", "self_device_ns", "device_ns")
NAMES = ("f", "g", "h", f"{ENGINE}f", "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#", None)
CATEGORIES = ("cpu_op", "cpu_op", "python_function", "user_annotation", "cuda_runtime")


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, length = draw(st.integers(0, 20)), draw(st.integers(0, 12))
    name = draw(st.sampled_from(NAMES))
    if draw(st.integers(0, 4)) == 0:
        numbers = {"correlation": draw(st.integers(0, 3)), "device": 0, "stream": 7}
        return event("k", start, start + length, category="kernel", thread=5, **numbers)
    return event(
        name,
        start,
        start + length,
        category=draw(st.sampled_from(CATEGORIES)),
        thread=draw(st.integers(0, 1)),
        correlation=draw(st.none() | st.integers(0, 3)),
        fwd_thread=draw(st.sampled_from([None, None, None, 0, 1])),
        is_async=draw(st.sampled_from([None, None, None, True])),
    )


def found(frame: pl.DataFrame) -> dict[Any, dict[str, int]]:
    """Nodes by their paths and directions, as the oracle has them; others and outside are none."""
    rows = {row["node_id"]: row for row in frame.iter_rows(named=True)}
    made = {}
    for row in rows.values():
        if row["kind"] in {"others", "outside"}:
            continue
        path: list[tuple[str | None, str]] = []
        around: Any = row
        while around is not None:
            path.insert(0, (around["name"], around["kind"]))
            around = rows.get(around["parent_id"])
        assert len(path) == row["depth"] + 1
        made[tuple(path), row["direction"]] = {name: row[name] for name in TIMES}
    return made


def check_widths(frame: pl.DataFrame) -> None:
    """What is inside a node, and its own time, are all of it."""
    inside = frame.group_by("run", "rank", pl.col("parent_id").alias("node_id")).agg(
        host=pl.col("total_ns").sum(), device=pl.col("device_ns").sum()
    )
    both = frame.join(inside, on=["run", "rank", "node_id"], how="left").fill_null(0)
    assert (both["self_ns"] + both["host"] == both["total_ns"]).all()
    assert (both["self_device_ns"] + both["device"] == both["device_ns"]).all()
    assert (frame["parent_id"].fill_null(-1) < frame["node_id"]).all()


def check_sums(trace: Trace, frame: pl.DataFrame) -> None:
    """All nodes together are all slices, and all work of the devices."""
    host = trace.events.filter(pl.col("preorder").is_not_null())
    work = trace.events.filter(
        pl.col("kind").is_in(["kernel", "memcpy", "memset"]) & pl.col("dur_ns").is_not_null()
    )
    of_host = frame.filter(pl.col("kind") != "outside")
    assert frame["self_ns"].sum() == host["self_ns"].sum()
    assert of_host["calls"].sum() == host.height
    assert frame["self_device_ns"].sum() == work["dur_ns"].sum()


@given(st.lists(slices(), max_size=25))
def test_nodes_are_those_of_a_loop(source: list[Row]) -> None:
    trace = loaded(*source)
    rows = trace.events.to_dicts()
    frame = trace.flame(top=0)
    assert found(frame) == nodes(rows, range(len(rows)))
    assert "others" not in frame["kind"]
    check_widths(frame)
    check_sums(trace, frame)


@given(st.lists(slices(), max_size=25), st.integers(1, 6), st.sampled_from([0.0, 0.2]))
def test_what_is_cut_is_in_others(source: list[Row], top: int, share: float) -> None:
    trace = loaded(*source)
    frame = trace.flame(top=top, min_share=share)
    check_widths(frame)
    check_sums(trace, frame)
    whole, kept = found(trace.flame(top=0)), found(frame)
    assert all(kept[path] == whole[path] for path in kept)
    if share == 0:
        assert len(kept) >= min(top, len(whole))


@st.composite
def nested(draw: st.DrawFn) -> list[Row]:
    """Slices that overlap only where one is inside the other."""
    made: list[Row] = []

    def put(start: int, end: int, depth: int, thread: int) -> None:
        name, category = draw(st.sampled_from("fgh")), draw(st.sampled_from(CATEGORIES))
        made.append(event(name, start, end, category=category, thread=thread))
        at = start
        while depth < 4 and at < end and draw(st.booleans()):
            first = draw(st.integers(at, end - 1))
            last = draw(st.integers(first + 1, end))
            put(first, last, depth + 1, thread)
            at = last

    for thread in range(draw(st.integers(1, 2))):
        for root in range(draw(st.integers(1, 3))):
            put(100 * root, 100 * root + draw(st.integers(1, 60)), 0, thread)
    return made


@given(
    nested(),
    st.sets(st.sampled_from(["host_op", "python", "annotation", "runtime"]), min_size=1),
    st.none() | st.integers(0, 120),
)
def test_of_filtered_traces_what_is_left_nests(
    source: list[Row], kinds: set[str], start: int | None
) -> None:
    whole = loaded(*source)
    by_kind = whole.filter(kinds=[*kinds])
    trace = by_kind if start is None else whole.filter(start_ns=start, end_ns=start + 70)
    frame = trace.flame(top=0)
    assert found(frame) == nodes(whole.events.to_dicts(), trace.events["event_id"].to_list())
    check_widths(frame)


@given(st.lists(slices(), max_size=25), st.sampled_from(["host_op", "python", "annotation"]))
def test_of_filtered_traces_widths_add_up_whatever_overlaps(source: list[Row], kind: str) -> None:
    trace = loaded(*source).filter(kinds=kind)
    frame = trace.flame(top=0)
    assert frame["self_ns"].sum() == trace.events["self_ns"].sum()


def test_ranks_of_a_store(tmp_path: Path) -> None:
    parts = [
        loaded(event("f", 0, 9 + rank), event("g", 1, 3), run=run, rank=rank)
        for run in ("a", "b")
        for rank in (0, 1)
    ]
    for part in parts:
        part.to_parquet(tmp_path / "store")
    whole = profframe.load(tmp_path / "store").flame()
    assert whole.equals(pl.concat(part.flame() for part in parts))


def test_a_real_trace() -> None:
    path = needs.traces("AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz")
    trace = profframe.load(path)
    frame = trace.flame(top=0)
    check_widths(frame)
    check_sums(trace, frame)
    cut = trace.flame(top=200)
    check_widths(cut)
    check_sums(trace, cut)
    assert cut.height < 500
    rows = trace.events.select(
        "event_id", "preorder", "parent_id", "name", "kind", "self_ns", "self_device_ns", "scope",
        "fwd_thread",
    ).to_dicts()  # fmt: skip
    assert found(frame) == nodes(rows, range(len(rows)))
