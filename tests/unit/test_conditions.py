"""Why the same kernel takes longer: how it was launched, the clock, or other work beside it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe.analysis.causes.sides import conditions
from tests.builders import event, loaded
from tests.parity.test_explain import KERNEL, read

LAUNCH: Final = {"grid": [64, 1, 1], "block": [128, 1, 1], "registers per thread": 32}


@given(st.integers(0, 2**32))
def test_time_beside_other_work_is_that_of_a_loop(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 -- not for secrets
    works = []
    for number in range(rng.randrange(1, 8)):
        start = rng.randrange(30)
        end = start + rng.randrange(1, 20)
        where = KERNEL | {"stream": number, "device": rng.randrange(2), "correlation": number + 1}
        works.append(event("gemm", start, end, **where))
    trace = loaded(*works)
    of, *_ = read(trace)
    with trace._session.connection(dict.fromkeys(("events", "counters"))) as connection:
        made = conditions(connection, of)
    for row in range(of.event_id.size):
        others = [
            range(int(of.start_ns[other]), int(of.end_ns[other]))
            for other in range(of.event_id.size)
            if other != row and of.device[other] == of.device[row]
        ]
        own = range(int(of.start_ns[row]), int(of.end_ns[row]))
        assert made.beside_ns[row] == sum(any(at in other for other in others) for at in own)
    assert np.isnan(made.clock_mhz).all()


def written(path: Path, us: float, *more: dict[str, Any], **launch: Any) -> Path:
    """An op with a kernel that takes so long, in a step."""

    def slice_(name: str, start: float, dur: float, category: str, **args: Any) -> dict[str, Any]:
        where = {"pid": 1, "tid": 1} if category != "kernel" else {"pid": 0, "tid": 7}
        times = {"ts": start, "dur": dur}
        return {"ph": "X", "cat": category, "name": name, **where, **times, "args": args}

    on_device = {"device": 0, "stream": 7, "correlation": 5}
    events = [
        slice_("ProfilerStep#1", 0, 1000, "user_annotation"),
        slice_("aten::mm", 10, 50, "cpu_op", **{"External id": 3}),
        slice_("cudaLaunchKernel", 20, 10, "cuda_runtime", **{"External id": 3}, correlation=5),
        slice_("gemm", 100, us, "kernel", **on_device, **(LAUNCH | launch)),
        *more,
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def clock(mhz: float, name: str = "SM Clock (MHz)") -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": "GPU 0 Counters", "ts": 50, "args": {"": mhz}}


def beside(us: float) -> dict[str, Any]:
    args = {"device": 0, "stream": 20, "correlation": 6}
    where = {"pid": 0, "tid": 20, "ts": 101, "dur": us}
    return {"ph": "X", "cat": "kernel", "name": "other", **where, "args": args}


@pytest.mark.parametrize(
    ("base", "other", "reason"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({}, {"block": [64, 1, 1]}, "launch_configuration", id="block"),
        pytest.param({"mhz": 1980}, {"mhz": 1320}, "clock", id="clock"),
        pytest.param({"mhz": 1320}, {"mhz": 1980}, None, id="a faster clock does not slow down"),
        pytest.param({"mhz": 1980}, {}, None, id="no clock on one side"),
        pytest.param({"beside": 10}, {"beside": 250}, "concurrent_work", id="beside"),
        pytest.param({"beside": 200}, {"beside": 10}, None, id="less beside does not slow down"),
    ],
)
def test_reasons(
    base: dict[str, Any], other: dict[str, Any], reason: str | None, tmp_path: Path
) -> None:
    sides = []
    for name, us, of in (("base", 200, base), ("other", 300, other)):
        more = [clock(of["mhz"]), clock(2619, "Memory Clock (MHz)")] if "mhz" in of else []
        more += [beside(of["beside"])] if "beside" in of else []
        launch = {key: of[key] for key in of if key == "block"}
        sides.append(written(tmp_path / f"{name}.json", us, *more, **launch))
    found = [profframe.explain(*sides).causes]
    if reason == "clock" or "beside" in other:  # the other two take the way of the clock
        found.append(profframe.explain(*sides[::-1]).causes)
    of_kernel = [
        of.filter((pl.col("base_kernel") == "gemm") & (pl.col("other_kernel") == "gemm"))
        for of in found
    ]
    for rows in of_kernel:
        assert rows["cause"].to_list() == ["kernel_time"]
        assert rows["reason"].to_list() == [reason]
    assert of_kernel[0]["change_ns"][0] > 0
    assert all(rows["change_ns"][0] < 0 for rows in of_kernel[1:])
    assert of_kernel[0]["base_clock_mhz"].to_list() == [base.get("mhz")]
    assert of_kernel[0]["other_clock_mhz"].to_list() == [other.get("mhz")]
