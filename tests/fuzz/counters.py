"""Traces with counters whose members are dropped, doubled, odd and huge, and with damaged bytes.

Whatever comes of them, `profframe.load` raises nothing but a `ProfframeError`, every event is
accounted for, each answer about counters has an answer, the energy of kernels and of idle time adds
up to that of their device, and the file that profframe writes has the same counters.
"""

from __future__ import annotations

import gzip
import json
import math
import tempfile
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

import polars as pl

import profframe
from profframe.trace.query import answer
from tests.fuzz.verbs import check_verb

_NUMBERS: Final[tuple[Any, ...]] = (
    0, -0.0, 1, -1, 0.5, 1e-320, 1e308, -1e308, 2**53 + 1, 2**62, 2**63, 2**64, -(2**63) - 1,
    10**40, math.nan, math.inf, -math.inf,
)  # fmt: skip
_NAMES: Final = (
    "", " ", "Power (W)", "Power (mW)", "power_w", "GPU Power", "GPU 1 Power (kW)",
    "GPU Power [0] (S)", "Power limit (W)", "Cycles (Current Kernel)", "dram.avg.pct", "a'b\"c;--",
    "<script>", "\ud800", "\0\x1f", "GPU 99999999999999 Counters", "GPU 1 Counters", "x" * 5000,
    "power " * 500, "日本 (W)",
)  # fmt: skip
_ODD: Final[tuple[Any, ...]] = (
    *_NUMBERS, *_NAMES, None, True, "7", "NaN", "1e999", [], [[]], [1, 2], {}, {"": 1}, {"a": {}},
    {"": 1, "v": 2, "Power (W)": 3}, {"deep": [[[[[]]]]]},
)  # fmt: skip
_BYTES: Final = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\x00", b"\xff", b"NaN", b"1e999", b'""',
    b'"C"', b'"args":{', b"null", b"-", b"." * 3, b"9" * 400,
)  # fmt: skip
_TOLERANCE: Final = 1e-12


def case(seed: int) -> None:
    """Load a file, ask all that is asked of counters, and write it again."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        path.write_bytes(_content(random))
        try:
            trace = profframe.load(path, run="r")
        except profframe.ProfframeError as error:
            told = str(error)
            assert told.startswith(f"{path}: "), told
            assert "\n" not in told, told
            return
        _check(trace)
        again = Path(folder, "again.json")
        trace.export_chrome_trace(again)
        _check_same(trace, profframe.load(again, run="r"))
        if seed % 16 == 0:
            check_verb("answer", "energy", str(path))


def _content(random: Random) -> bytes:
    events = _events(random)
    for _ in range(random.choice((0, 1, 3, 10))):
        _make_odd(events, random)
    content = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    if random.random() < 0.4:
        for _ in range(random.choice((1, 1, 4))):
            content = _damaged(content, random)
    return gzip.compress(content, 1) if random.random() < 0.1 else content


def _events(random: Random) -> list[Any]:
    """Kernels of two devices, some beside each other, and their samples."""
    events: list[Any] = [
        {
            "ph": "X", "cat": random.choice(("kernel", "gpu_memcpy", "cpu_op")),
            "name": random.choice(_NAMES), "pid": 0, "tid": 7, "ts": random.randrange(200),
            "dur": random.randrange(60),
            "args": {"device": random.randrange(2), "stream": random.randrange(3)},
        }
        for _ in range(random.randrange(12))
    ]  # fmt: skip
    if random.random() < 0.5:
        step = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1}
        events += [
            step | {"name": f"ProfilerStep#{n}", "ts": 70 * n, "dur": 70, "args": {}}
            for n in range(3)
        ]
    for name in random.choices(_NAMES, k=random.randrange(1, 5)):
        pid = random.choice(("GPU 0 Counters", "GPU 1 Counters", 0, 5))
        key = random.choice(("", name, "v"))
        for ts in range(0, random.choice((0, 20, 300)), random.choice((5, 20, 100))):
            value = random.choice(_NUMBERS) if random.random() < 0.05 else random.random() * 700
            event = {"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {key: value}}
            category = random.choice((None, "hardware_counters", "mtia_counters"))
            events.append(event if category is None else event | {"cat": category})
    return events


def _make_odd(events: list[Any], random: Random) -> None:
    if not events:
        return
    place = random.randrange(len(events))
    event = events[place]
    match random.randrange(5):
        case 0:
            events.insert(place, deepcopy(event))
        case 1:
            del events[place]
        case 2 if isinstance(event, dict) and event:
            del event[random.choice([*event])]
        case 3 if isinstance(event, dict) and event:
            event[random.choice([*event])] = deepcopy(random.choice(_ODD))
        case _ if isinstance(event, dict) and isinstance(event.get("args"), dict):
            event["args"][random.choice(_NAMES)] = deepcopy(random.choice(_ODD))


def _damaged(content: bytes, random: Random) -> bytes:
    at, end = sorted(random.randrange(len(content) + 1) for _ in range(2))
    match random.randrange(4):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + content[min(end, at + 40) :]
        case 2:
            return content[:at] + random.choice(_BYTES) + content[at:]
        case _:
            return content[:end] + content[at:end][:200] + content[end:]


def _check(trace: profframe.Trace) -> None:
    counted = trace.traces["source_events"].item()
    assert sum(json.loads(trace.traces["accounted"].item()).values()) == counted
    for per in ("op", "kernel"):
        for row in trace.counters_by_op(per=per).to_dicts():
            is_sampled = row["matched_by"] == "samples"
            assert not is_sampled or (row["mean_value"] is None) == (row["ranges"] == 0), row
            assert not is_sampled or 0 <= row["covered_ns"] <= row["total_ns"], row
            assert row["mean_value"] is None or math.isfinite(row["mean_value"]), row
    trace.counter_series(per="counter")
    key = ["device", "counter", "series"]
    whole = pl.DataFrame(trace.energy(unit="W"))
    steps = answer(trace, "energy", per="step", unit="W")
    assert steps.filter(pl.col("sampled_ns") > pl.col("step_ns")).height == 0
    for per in ("op", "kernel"):
        rows = pl.DataFrame(answer(trace, "energy", per=per, unit="W"))
        parts = rows.group_by(key).agg(
            pl.col("energy_j").sum() + pl.col("estimated_j").sum(),
            pl.col("share").sum(),
        )
        of_all = whole.group_by(key).agg(pl.col("energy_j").sum().alias("all_j"))
        for *_, parts_j, share, all_j in parts.join(of_all, on=key, nulls_equal=True).rows():
            size = max(abs(all_j), *rows["energy_j"].abs().drop_nulls(), 1e-9)
            assert math.isclose(parts_j, all_j, rel_tol=1e-9, abs_tol=size * _TOLERANCE), (
                per, parts_j, all_j, share,
            )  # fmt: skip


def _check_same(trace: profframe.Trace, again: profframe.Trace) -> None:
    columns = ["name", "series", "value", "unit", "device", "time_ns"]
    order = "ORDER BY ALL"
    query = f"SELECT {', '.join(columns)} FROM counters {order}"
    own, other = trace.sql(query), again.sql(query)
    assert own.height == other.height, (own.height, other.height)
    assert own.select("name", "series", "unit", "device").equals(
        other.select("name", "series", "unit", "device")
    )
