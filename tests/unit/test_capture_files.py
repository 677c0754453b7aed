"""Files and folders of captures, as `load`, `convert` and `filter` take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from profframe import convert, load
from profframe.errors import NotATraceError
from tests.builders import event
from tests.graphs import calls, capture_rows, chrome, replay_rows

NAMES = ["gemm", "norm"]


@pytest.fixture
def replays(tmp_path: Path) -> Path:
    """Two steps of a server, a replay in each; only the first has a known phase."""
    rows = [
        event("ProfilerStep#0", 100_000, 101_000, category="user_annotation"),
        event("nn.Module: Net_0", 100_005, 100_900, category="python_function"),
        *replay_rows(NAMES, 100_010, 501, "step[DECODE bs=8]"),
        event("ProfilerStep#1", 102_000, 103_000, category="user_annotation"),
        *replay_rows(NAMES, 102_010, 502),
    ]
    path = tmp_path / "replays.json"
    path.write_text(chrome(rows), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A capture among other files."""
    path = tmp_path / "captures"
    path.mkdir()
    (path / "capture.json").write_text(chrome(capture_rows(calls(NAMES), 0)), encoding="utf-8")
    (path / "readme.txt").write_text("captures of today", encoding="utf-8")
    return path


def test_other_files_of_a_folder_are_passed_over_and_noted(replays: Path, folder: Path) -> None:
    trace = load(replays, captures=folder)
    assert set(trace.key_averages()["name"]) >= {"op0", "op1"}
    [note] = trace.quality.filter(issue="skipped_file")["detail"]
    assert "readme.txt: not a trace" in note


def test_a_folder_without_captures_is_refused(replays: Path, folder: Path) -> None:
    (folder / "capture.json").unlink()
    (folder / "other.json").write_bytes(replays.read_bytes())
    with pytest.raises(NotATraceError, match=r"none of 2 files has a capture; .*other\.json"):
        load(replays, captures=folder)
    with pytest.raises(NotATraceError, match=r"other\.json: not a capture"):
        load(replays, captures=folder / "other.json")


def test_convert_takes_the_same_folder(replays: Path, folder: Path, tmp_path: Path) -> None:
    rows = convert(replays, tmp_path / "store", captures=folder)
    assert rows["status"].to_list() == ["written"]
    stored = load(tmp_path / "store")
    assert (
        stored.key_averages()
        .drop("run")
        .equals(load(replays, captures=folder).key_averages().drop("run"))
    )


def test_a_phase_and_a_step_have_their_replays(replays: Path, folder: Path) -> None:
    trace = load(replays, captures=folder)
    for part in (trace.filter(phases="decode"), trace.filter(steps=[0]), trace.filter(steps=[1])):
        averages = part.key_averages().filter(name="op0")
        assert averages.select("calls", "self_device_ns").rows() == [(1, 1)]
    whole = trace.key_averages().filter(name="op0")
    assert whole.select("calls", "self_device_ns").rows() == [(2, 2)]
