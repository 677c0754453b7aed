"""A few steps whose calls are evidence: what is planted is named, and nothing where nothing is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from tests.builders import loaded
from tests.members import few
from tests.planted.calls import CLOSING, Call, Noise, Program, draw, events, noise, plant

STEPS: Final = (3, 3, 3, 4, 5, 8)
QUIET: Final = replace(Noise(), outliers=0.0)
SPLIT: Final = (
    "luatil__torch-profile/trace_04.json.gz",
    "AMD-AGI__TraceLens/mi300/resnet_act_checkpoint.json.gz",
    "facebookresearch__HolisticTraceAnalysis/nccl_data.json.gz",
    "facebookresearch__HolisticTraceAnalysis/ns_resolution_rank-0.Apr_03.pt.trace.json.gz",
    "facebookresearch__HolisticTraceAnalysis/trace_diff/control.json.gz",
    "facebookresearch__HolisticTraceAnalysis/trace_diff/test.json.gz",
    "facebookresearch__HolisticTraceAnalysis/df_index_resolver.json.gz",
    "pytorch__kineto/samples/resnet50_num_workers_0.2020-12.worker0.pt.trace.json.gz",
    "pytorch__kineto/samples/resnet50_num_workers_0.2021-01.worker0.pt.trace.json.gz",
    "pytorch__kineto/samples/resnet50_num_workers_0/worker0.1623143566756.pt.trace.json.gz",
    "sidnb13__torch-profiling-tutorial/dcb0aa1a78e7_4399.1752181589589738346.pt.trace.json",
    "sidnb13__torch-profiling-tutorial/dcb0aa1a78e7_4399.1752181589621105859.pt.trace.json",
)
"""Traces of at least three steady steps, with and without a device."""


def causes(
    base: Program, other: Program, seed: str, noises: Noise, steps: Sequence[int] = (3, 3)
) -> pl.DataFrame:
    sides = [
        loaded(*events(program, f"{seed} {side}", count, noises))
        for side, program, count in zip("ab", (base, other), steps, strict=True)
    ]
    return profframe.explain(*sides).causes


def significant(of: pl.DataFrame) -> list[dict[str, Any]]:
    return of.filter(pl.col("significant") & (pl.col("cause") != "noise")).to_dicts()


def drawn_steps(seed: str) -> tuple[int, int]:
    rng = random.Random(f"steps {seed}")  # noqa: S311 - no secret
    return rng.choice(STEPS), rng.choice(STEPS)


def small(change: dict[str, Call], waits: Sequence[Call] = (), host: int = 8_000) -> Program:
    """Thirty layers of three kernels each, and one more."""
    layer = [Call(f"aten::op{n}", host, f"kernel_{n}", 40_000) for n in range(3)]
    layer = [change.get(call.op, call) for call in layer]
    calls = [call for _ in range(30) for call in layer]
    return Program([*calls[:45], *waits, *calls[45:], Call("aten::z", host, "kernel_z", 20_000)])


def test_a_kernel_that_is_slower_in_each_of_its_ninety_calls_is_named() -> None:
    slow = {"aten::op1": Call("aten::op1", 8_000, "kernel_1", 60_000)}
    rows = significant(causes(small({}), small(slow), "kernel", QUIET))
    assert [(row["cause"], row["base_op"], row["base_kernel"]) for row in rows] == [
        ("kernel_time", "aten::op1", "kernel_1")
    ]
    assert rows[0]["p_value"] < 0.01
    assert rows[0]["change_ns"] == pytest.approx(30 * 20_000, rel=0.15)


def test_a_kernel_that_is_slower_by_less_than_runs_drift_is_noise() -> None:
    """Three percent in each call; and each kernel alike, which is a slower device."""
    little = {"aten::op1": Call("aten::op1", 8_000, "kernel_1", 41_200)}
    assert not significant(causes(small({}), small(little), "little", QUIET))
    alike = [replace(call, kernel_ns=int(call.kernel_ns * 1.04)) for call in small({}).calls]
    assert not significant(causes(small({}), Program(alike), "alike", QUIET))


def test_a_slower_op_of_the_host_keeps_its_name_on_both_sides() -> None:
    """Where devices wait for all ops, so that it shows; all ops together have no name."""
    slow = {"aten::op1": Call("aten::op1", 90_000, "kernel_1", 40_000)}
    rows = significant(causes(small({}, host=60_000), small(slow, host=60_000), "op", QUIET))
    assert [(row["cause"], row["base_op"], row["other_op"]) for row in rows] == [
        ("launch_bound", "aten::op1", "aten::op1")
    ]
    assert rows[0]["change_ns"] == pytest.approx(30 * 30_000, rel=0.25)


@pytest.mark.parametrize(("host", "is_seen"), [(40_000, True), (4_000, False)])
def test_an_op_that_is_slower_while_devices_work_makes_them_wait_later(
    host: int, is_seen: bool
) -> None:
    """Kernels hide an op of 20 or 28 us, thirty times; then others take 40 us, or 4.

    In these, which are as they were, devices wait for the host as much longer; or they do not wait.
    """

    def program(busy: int) -> Program:
        hidden = [Call("aten::hidden", busy, "kernel_0", 40_000)] * 30
        after = [Call(f"aten::after{n}", host, f"kernel_{n}", 6_000) for n in range(1, 4)]
        return Program([*hidden, *after * 20])

    rows = significant(causes(program(20_000), program(28_000), "hidden", QUIET))
    named = {(row["cause"], row["base_op"], row["other_op"]): row["change_ns"] for row in rows}
    assert named.keys() == {("launch_bound", "aten::hidden", "aten::hidden")}
    (change,) = named.values()  # the first one of a step is not hidden
    assert change == pytest.approx((30 if is_seen else 1) * 8_000, rel=0.25)


@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("op", ["", "aten::_local_scalar_dense"])
def test_a_wait_of_one_side_is_a_change_of_the_program(op: str, *, added: bool) -> None:
    copy = ("Memcpy DtoH", 1_500) if op else ("", 0)
    without, waiting = small({}), small({}, [Call(op, 3_000, *copy, waits=True)])
    base, other = (without, waiting) if added else (waiting, without)
    rows = significant(causes(base, other, "wait", QUIET))
    assert rows
    side, lacking = ("other", "base") if added else ("base", "other")
    named = [row for row in rows if (op or CLOSING) in (row[f"{side}_op"] or "")]
    assert named
    assert any(row[f"{lacking}_op"] is None for row in named)


@pytest.mark.parametrize("count", [1, pytest.param(12, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["kernel 1.5x", "wait without an op", "wait of an op"])
def test_what_is_planted_is_named(kind: str, count: int) -> None:
    missed = []
    for seed in range(count):
        of = plant(kind, seed)
        rows = significant(
            causes(
                of.base, of.other, f"{seed}", noise(f"{kind} {seed}"), drawn_steps(f"{kind} {seed}")
            )
        )
        names = ("base_op", "other_op", "base_kernel", "other_kernel")
        if not any(of.what in (row[name] or "") for row in rows for name in names):
            missed.append((seed, of.what, rows))
    assert not missed


@pytest.mark.parametrize("count", [1, pytest.param(200, marks=pytest.mark.long)])
def test_where_nothing_changed_nothing_is_significant(count: int) -> None:
    alarms = {}
    for seed in range(count):
        program = draw(seed)
        of = causes(program, program, f"{seed}", noise(f"None {seed}"), drawn_steps(f"None {seed}"))
        alarms[seed] = significant(of)
    wrong = {seed: rows for seed, rows in alarms.items() if rows}
    assert len(wrong) <= count // 100, wrong


@pytest.mark.parametrize("source", few(SPLIT, 1))
def test_steps_of_one_run_do_not_differ(traces: Path, source: str) -> None:
    """The first steps against the last ones, and every other one."""
    trace = profframe.load(traces / source)
    steps = trace.step_times().filter(pl.col("is_steady").fill_null(True))["step"].unique().sort()
    half = len(steps) // 2
    for base, other in ((steps[:half], steps[half:]), (steps[::2], steps[1::2])):
        sides = [trace.filter(steps=part.to_list()) for part in (base, other)]
        assert not significant(profframe.explain(*sides).causes)
