"""Answers of memory snapshots: every sum is that of a plain loop over the unpickled dicts."""

from __future__ import annotations

import pickle
import re
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings

from profframe.loaders.load import load
from profframe.trace.trace import Trace
from tests import needs
from tests.unit.test_memory_snapshot import SAMPLE, snapshots

_OWN = re.compile(r"(^|[/\\])torch[/\\]")
Life = dict[str, Any]


def lives(snapshot: dict[str, Any]) -> dict[int, list[Life]]:
    """Each allocation of each device: its bytes, frames, and numbers of its records."""
    made: dict[int, list[Life]] = {}
    number = 0
    for device, trace in enumerate(snapshot["device_traces"]):
        now: dict[int, Life] = {}
        of_device = made.setdefault(device, [])
        for event in trace:
            action = event["action"]
            if action in {"alloc", "free_requested", "free_completed"}:
                if action == "alloc" or event["addr"] not in now:
                    life = {"bytes": event["size"], "made": -1, "asked": None, "freed": None,
                            "made_us": None, "freed_us": None, "frames": ()}  # fmt: skip
                    if action == "alloc":
                        life |= {"made": number, "made_us": event.get("time_us"),
                                 "frames": event["frames"]}  # fmt: skip
                    now[event["addr"]] = life
                    of_device.append(life)
                if action == "free_requested":
                    now[event["addr"]]["asked"] = number
                if action == "free_completed":
                    life = now.pop(event["addr"])
                    life |= {"freed": number, "freed_us": event.get("time_us")}
            number += 1
        for segment in snapshot["segments"]:
            for block in segment["blocks"] if segment["device"] == device else ():
                if block["state"].startswith("active") and block["address"] not in now:
                    of_device.append({"bytes": block["requested_size"], "made": -1, "asked": None,
                                      "freed": None, "made_us": None, "freed_us": None,
                                      "frames": block["frames"]})  # fmt: skip
    return {device: rows for device, rows in made.items() if rows}


def held(rows: list[Life], number: int) -> list[Life]:
    return [r for r in rows if r["made"] <= number and (r["freed"] is None or r["freed"] > number)]


def gone(life: Life) -> int | None:
    """When the program freed it, which may be before its memory can be used again."""
    number: int | None = life["freed"] if life["asked"] is None else life["asked"]
    return number


def allocated(rows: list[Life], number: int) -> list[Life]:
    return [
        r for r in rows if r["made"] <= number and ((freed := gone(r)) is None or freed > number)
    ]


def own_frame(life: Life) -> str | None:
    texts = [(f"{f['filename']}({f['line']}): {f['name']}", f["filename"]) for f in life["frames"]]
    own = [text for text, file in texts if file.endswith(".py") and not _OWN.search(file)]
    return next(iter(own or [text for text, _ in texts]), None)


def sums(rows: list[Life]) -> dict[str | None, tuple[int, int]]:
    result: dict[str | None, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for life in rows:
        name = own_frame(life)
        result[name] = result[name][0] + life["bytes"], result[name][1] + 1
    return result


def compare(trace: Trace, snapshot: dict[str, Any]) -> None:
    by_frame = trace.memory_stacks(per="frame", top=0)
    growth = trace.memory_stacks(at="change", per="frame", top=0)
    timeline = trace.snapshot_timeline(points=0)
    few = trace.snapshot_timeline(points=8)
    named = trace.snapshot_timeline(per="frame", points=8, top=2)
    expected_devices = lives(snapshot)
    assert set(by_frame["device"]) == set(expected_devices)
    for device, rows in expected_devices.items():
        moments = [-1, *sorted({n for r in rows for n in (r["made"], gone(r)) if n is not None})]
        peak = max(moments, key=lambda n: (sum(r["bytes"] for r in allocated(rows, n)), -n))
        kept = [r for r in rows if gone(r) is None]
        at_peak, at_end = sums(allocated(rows, peak)), sums(kept)
        unfreed = sums([r for r in kept if r["made"] >= 0])
        of_all = sums(rows)
        got = by_frame.filter(device=device)
        assert {
            r["name"]: (r["peak_bytes"], r["peak_blocks"], r["end_bytes"], r["end_blocks"],
                        r["unfreed_bytes"], r["unfreed_blocks"], r["allocated_bytes"],
                        r["allocations"])
            for r in got.to_dicts()
        } == {
            name: (*at_peak[name], *at_end[name], *unfreed[name], *of_all[name])
            for name in list(of_all)
        }  # fmt: skip
        at_start = sums([r for r in rows if r["made"] == -1])
        for row in growth.filter(device=device).to_dicts():
            assert row["from_bytes"] == at_start[row["name"]][0]
            assert row["to_bytes"] == at_end[row["name"]][0]
            assert (row["made_bytes"], row["made_blocks"]) == unfreed[row["name"]]
        for row in timeline.filter(device=device).to_dicts():
            number = row["event_id"]
            assert row["active_bytes"] == sum(r["bytes"] for r in held(rows, number))
            assert row["allocated_bytes"] == sum(r["bytes"] for r in allocated(rows, number))
        assert got["peak_bytes"].sum() == timeline.filter(device=device)["allocated_bytes"].max()
        for column in ("active_bytes", "allocated_bytes", "reserved_bytes"):
            assert few.filter(device=device)[column].max() == (
                timeline.filter(device=device)[column].max()
            )
        assert few.filter(device=device).height <= 8
        parts = (
            named.filter(device=device)
            .group_by("event_id", maintain_order=True)
            .agg(pl.col("active_bytes").sum(), pl.len())
        )
        assert parts["active_bytes"].to_list() == (
            few.filter(device=device)["active_bytes"].to_list()
        )
        assert max(parts["len"]) <= 3


def load_snapshot(snapshot: dict[str, Any], folder: str) -> Trace:
    path = Path(folder) / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    return load(path)


@settings(deadline=None)
@given(snapshots())
def test_answers_are_those_of_a_loop(snapshot: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        compare(load_snapshot(snapshot, folder), snapshot)


def test_the_public_sample() -> None:
    path = needs.traces(SAMPLE)
    with path.open("rb") as file:
        compare(load(path), pickle.load(file))  # noqa: S301
