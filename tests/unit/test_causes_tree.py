"""The aligned tree: sums by a loop, the steps, and the same with the sides exchanged."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from profframe import Explanation, explain
from profframe.analysis.causes.aligned_tree import SCHEMA, parents
from profframe.intervals import depths

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FP32, BF16 = (EXAMPLES / f"{name}.json.gz" for name in ("fp32", "bf16"))


@pytest.fixture(scope="module")
def why() -> Explanation:
    return explain(FP32, BF16)


def test_what_is_in_a_place_adds_up(why: Explanation) -> None:
    rows = {row["slot"]: row for row in why.tree.iter_rows(named=True)}
    for side in ("base", "other"):
        sums = dict.fromkeys(rows, 0)
        for row in rows.values():
            at = row["slot"]
            while at >= 0:
                sums[at] += row[f"{side}_self_ns"]
                at = rows[at]["parent"]
        assert sums == {slot: row[f"{side}_ns"] for slot, row in rows.items()}
    for row in rows.values():
        around, at = 0, row["parent"]
        while at >= 0:
            around, at = around + 1, rows[at]["parent"]
        assert row["depth"] == around
        assert row["change_ns"] == row["other_ns"] - row["base_ns"]


def test_the_largest_change_of_all_that_is_in_a_place(why: Explanation) -> None:
    rows = {row["slot"]: row for row in why.tree.iter_rows(named=True)}
    largest = dict.fromkeys(rows, 0)
    for row in rows.values():
        at = row["slot"]
        while at >= 0:
            largest[at] = max(largest[at], abs(row["change_ns"]))
            at = rows[at]["parent"]
    assert largest == {slot: row["largest_change_ns"] for slot, row in rows.items()}


def test_roots_are_the_steps(why: Explanation) -> None:
    roots = why.tree.filter(pl.col("parent") < 0)
    assert roots["base_ns"].sum() == why.base_ns
    assert roots["other_ns"].sum() == why.other_ns
    assert (*why.tree.columns,) == SCHEMA
    assert why.tree["base_self_ns"].min() == 0
    alone = why.tree.filter(pl.col("side") == "other")
    assert alone["base_name"].is_null().all()
    assert alone["base_ns"].sum() == 0
    assert alone.height > 0


def test_causes_of_own_time(why: Explanation) -> None:
    own = why.tree.filter((pl.col("other_self_ns") - pl.col("base_self_ns")).abs() > 1)
    assert own["cause"].is_not_null().all()
    mm = why.tree.filter((pl.col("base_name") == "aten::mm") & (pl.col("side") == "both"))
    assert set(mm["cause"]) == {"dtype_changed"}


def test_sides_exchanged(why: Explanation) -> None:
    back = explain(BF16, FP32).tree
    same = ("slot", "parent", "depth", "kind", "largest_change_ns")
    assert back.select(same).equals(why.tree.select(same))
    assert (back["change_ns"] == -why.tree["change_ns"]).all()
    assert (back["base_self_ns"] == why.tree["other_self_ns"]).all()


def test_a_trace_against_itself() -> None:
    same = explain(FP32, FP32).tree
    assert same.height > 100
    assert (same["change_ns"] == 0).all()
    assert (same["largest_change_ns"] == 0).all()
    assert same["cause"].is_null().all()


def test_no_circle_is_left() -> None:
    """Whatever the parents are, all lead to a root; those that did so stay."""
    for seed in range(200):
        rng = random.Random(seed)  # noqa: S311 -- not for secrets
        size = rng.randrange(1, 12)
        of = [-1, *(rng.randrange(-1, size) for _ in range(size - 1))]
        made = parents(np.array(of)).tolist()
        for start in range(size):
            before, at = [], start
            while at >= 0 and at not in before:
                before.append(at)
                at = of[at]
            assert made[start] == (of[start] if at < 0 else 0), (seed, start)
        around = depths(np.array(made))
        assert all(around[i] == (around[p] + 1 if p >= 0 else 0) for i, p in enumerate(made))
