"""Memory snapshots side by side, in words, as charts and as a report."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.errors import ParameterError
from tests import needs
from tests.conftest import Run
from tests.unit.test_memory_timeline import written

MIB = 1 << 20
BASE_US = 1_759_252_584_000_000
MODEL = [{"name": "forward", "filename": "/y/model.py", "line": 14}]
OPTIMIZER = [{"name": "step", "filename": "/y/optim.py", "line": 5}]


def snapshot(sizes: list[tuple[int, list[dict[str, Any]]]], *, failing: int = 0) -> dict[str, Any]:
    """Allocations one after the other; the last is freed, without its stream to wait for."""
    events = [
        {"action": "alloc", "addr": n << 30, "size": size, "stream": 0, "time_us": BASE_US + n,
         "frames": frames}
        for n, (size, frames) in enumerate(sizes)
    ]  # fmt: skip
    last = len(sizes) - 1
    for action in ("free_requested", "free_completed"):
        events.append({**events[last], "action": action, "time_us": BASE_US + 90})
    if failing:
        events.append({"action": "oom", "device_free": MIB, "size": failing, "stream": 0,
                       "time_us": BASE_US + 99, "frames": MODEL})  # fmt: skip
    blocks = [
        {"address": 0, "size": 3 * MIB, "requested_size": 0, "state": "inactive", "frames": []},
        {"address": 3 * MIB, "size": MIB, "requested_size": 9, "state": "active_pending_free",
         "frames": []},
        {"address": 4 * MIB, "size": 2 * MIB, "requested_size": 0, "state": "inactive",
         "frames": []},
    ]  # fmt: skip
    segment = {"device": 0, "address": 0, "total_size": 6 * MIB, "allocated_size": 0, "stream": 0,
               "active_size": MIB, "requested_size": 9, "segment_type": "large",
               "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
               "blocks": blocks}  # fmt: skip
    return {"segments": [segment], "device_traces": [events]}


@pytest.fixture
def before(tmp_path: Path) -> Path:
    path = tmp_path / "before.pickle"
    path.write_bytes(pickle.dumps(snapshot([(2 * MIB, MODEL), (MIB, OPTIMIZER), (MIB, MODEL)])))
    return path


@pytest.fixture
def after(tmp_path: Path) -> Path:
    path = tmp_path / "after.pickle"
    sizes = [(2 * MIB, MODEL), (4 * MIB, OPTIMIZER), (MIB, [])]
    path.write_bytes(pickle.dumps(snapshot(sizes, failing=5 * MIB)))
    return path


def test_two_snapshots_are_compared_by_what_they_hold(before: Path, after: Path) -> None:
    rows = profframe.diff_memory(before, after, ("old", "new"))
    assert rows["name", "base_peak_bytes", "other_peak_bytes", "change_peak_bytes",
                "base_end_bytes", "other_end_bytes", "status"].rows() == [
        ("/y/optim.py(5): step", MIB, 4 * MIB, 3 * MIB, MIB, 4 * MIB, "changed"),
        ("/y/model.py(14): forward", 3 * MIB, 2 * MIB, -MIB, 2 * MIB, 2 * MIB, "changed"),
        (None, 9, MIB + 9, MIB, 9, 9, "changed"),
    ]  # fmt: skip
    by_name = {row["name"]: row for row in rows.to_dicts()}
    assert by_name["/y/optim.py(5): step"]["change_peak_bytes"] == 3 * MIB
    assert by_name["/y/model.py(14): forward"]["other_peak_blocks"] == 1
    assert profframe.diff(before, after, ("old", "new")).equals(rows)
    same = profframe.diff(before, before)
    assert set(same["status"]) == {"equal"}
    modules = profframe.diff_memory(before, after, per="module")
    assert modules.drop_nulls("name")["name"].to_list() == ["/y/model.py: forward"]
    with pytest.raises(ParameterError, match="no allocations"):
        profframe.diff_memory("examples/fp32.json.gz", after)


def test_the_command_line_compares_snapshots(run: Run, before: Path, after: Path) -> None:
    code, out, _ = run("diff", before, after, "--per", "frame")
    assert code == 0
    assert "base and other hold at the peak 4.00 MiB and 7.00 MiB (+3.00 MiB)" in out
    assert "/y/optim.py(5): step" in out
    assert "(no name)" in out
    assert "nothing differs, by stack" in run("diff", before, before)[1]
    code, _, errors = run("diff", before, after, "--fail-on", "10%")
    assert code == 3
    assert "grew by more than 10 %: memory at the peak" in errors
    assert run("diff", before, after, "--fail-on", "75%")[0] == 0


def test_peaks_of_snapshots_have_limits(run: Run, before: Path, after: Path) -> None:
    """3 MiB more: 3,145,728 bytes."""
    assert run("diff", before, after, "--fail-on", "memory=3MiB")[::2] == (0, "")
    code, text, errors = run(
        *("diff", before, after, "--per", "frame", "--format", "markdown"),
        *("--fail-on", "memory=3MB", "--fail-on", "80%"),
    )
    assert (code, errors) == (
        3, "worse by more than 3MB: memory, 4.00 MiB -> 7.00 MiB (+75.0 %)\n"
    )  # fmt: skip
    assert text.startswith("### profframe diff: **1 of 2 limits is broken**\n")
    assert "| 3MB | memory | 4.00 MiB → 7.00 MiB | +75.0 % | **broken** |" in text
    assert "| `/y/model.py(14): forward` | 3.00 MiB | 2.00 MiB | -1.00 MiB |" in text
    assert "| (no name) | 9 B | 1.00 MiB | 1.00 MiB |" in text
    code, _, errors = run("diff", before, after, "--fail-on", "step=5%")
    assert code == 2
    assert "step: memory snapshots have only memory" in errors


def test_what_ran_out_comes_first(run: Run, after: Path) -> None:
    _, text, _ = run(after)
    assert "Overview" not in text
    words = " ".join(text.split())
    assert (
        "5.00 MiB were requested by /y/model.py(14): forward, and the device had 1.00 MiB free"
        in words
    )
    assert (
        "5.00 MiB are free in segments, enough for the request, but in pieces (fragmentation): the "
        "largest free block has 3.00 MiB" in words
    )
    assert text.index("memory ran out") < text.index("eak at")
    assert "allocated after the first record and never freed: 6.00 MiB in 2 blocks" in words
    assert "Requested by: /y/model.py(14): forward" in words


def test_a_snapshot_without_a_failure_has_its_peak(run: Run, before: Path) -> None:
    _, text, _ = run(before)
    assert "memory ran out" not in text
    words = " ".join(text.split())
    assert "eak at 2025-09-30 17:16:24.000 UTC: 4.00 MiB (4,194,313 bytes) in 4 blocks" in words


def test_areas_add_up_to_what_was_active(before: Path) -> None:
    needs.module("altair")
    from profframe.pages.plots import split_chart

    trace = profframe.load(before)
    _, frames = split_chart(trace.plot.snapshot_timeline())
    (rows,) = frames.values()
    sums = rows.group_by("time", maintain_order=True).agg(pl.col("active").sum())
    held = [2, 3, 4, 4]  # of the two records of one instant that when more was active
    assert sums["active"].to_list() == [pytest.approx(mib + 9 / MIB) for mib in held]
    _, frames = split_chart(trace.plot.segments())
    (pieces,) = frames.values()
    assert pieces["end"].to_list() == [3, 4, 6]
    assert pieces["what"].to_list() == ["free", "waits for a stream", "free"]


def test_areas_of_devices_with_other_moments_have_no_gaps(tmp_path: Path) -> None:
    needs.module("altair")
    from profframe.pages.plots import split_chart

    made = snapshot([(2 * MIB, MODEL), (MIB, OPTIMIZER)])
    events = [{**event, "time_us": event["time_us"] + 7} for event in made["device_traces"][0]]
    made["device_traces"].append(events)
    path = tmp_path / "two.pickle"
    path.write_bytes(pickle.dumps(made))
    chart, frames = split_chart(profframe.load(path).plot.snapshot_timeline())
    # Vega's own stack has nothing of a device at the moments of the other one.
    assert "'stack': 'zero'" not in str(chart)
    assert "'field': 'bottom'" in str(chart)
    (rows,) = frames.values()
    assert rows["panel"].n_unique() == 2
    for _, moment in rows.group_by("panel", "time"):
        areas = sorted(moment.select("bottom", "top", "active").rows())
        assert [bottom for bottom, *_ in areas] == [0, *(top for _, top, _ in areas[:-1])]
        assert all(top - bottom == pytest.approx(active) for bottom, top, active in areas)


def test_charts_without_a_snapshot_say_what_is_lacking(example: Path) -> None:
    needs.module("altair")
    trace = profframe.load(example)
    for name, lack in (("snapshot_timeline", "memory snapshot"), ("segments", "segments of a mem")):
        with pytest.raises(ParameterError, match=rf"{name}: no {lack}.* profframe\.record_memory"):
            getattr(trace.plot, name)()


def test_reports_of_memory_alone(before: Path, after: Path, tmp_path: Path) -> None:
    needs.module("altair")
    timeline = written(str(tmp_path), [[-1, 1, 8, 0], [BASE_US, 2, 16, 5]])
    for number, (path, words) in enumerate(
        [(before, ["Segments and their blocks", "never freed"]), (after, ["When memory ran out"]),
         (timeline, ["What held memory over time, by category"])]
    ):  # fmt: skip
        page = tmp_path / f"{number}.html"
        profframe.load(path).report(page)
        text = page.read_text(encoding="utf-8")
        assert "Memory snapshot" in text
        for word in words:
            assert word in text
