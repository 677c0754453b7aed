"""The flame graph by itself: clicked, typed at, searched, read aloud."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.pages.flame import FlameGraph
from tests import hostile
from tests.builders import event, loaded

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "gpu_training.json.gz"
READY = ' data-ready="yes"'


def page(graph: FlameGraph, path: Path) -> Path:
    """A page that keeps the graph where a test can ask it."""
    text = (
        graph.to_html()
        .replace("<html ", f"<html{READY} ")
        .replace("\nflameGraph(document", "\nwindow.graph = flameGraph(document")
    )
    assert "window.graph" in text
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trace() -> profframe.Trace:
    return profframe.load(EXAMPLE)


Open = Callable[..., Any]


def state(it: Any) -> dict[str, Any]:
    found: dict[str, Any] = it.run("graph.state()")
    return found


def middle(it: Any, box: dict[str, Any]) -> tuple[float, float]:
    place = it.page.locator("canvas").bounding_box()
    return place["x"] + (box["left"] + box["right"]) / 2, place["y"] + box["top"] + 10


def box(it: Any, name: str) -> dict[str, Any]:
    boxes = [one for one in state(it)["boxes"] if one["name"] == name]
    widest: dict[str, Any] = max(boxes, key=lambda one: one["right"] - one["left"])
    return widest


def test_zoom_by_click_and_keyboard(trace: profframe.Trace, opened: Open, tmp_path: Path) -> None:
    it = opened(page(FlameGraph(trace.flame()), tmp_path / "flame.html"))
    frame = trace.flame()
    assert state(it)["total"] == frame["self_ns"].sum()
    node = box(it, "clip gradients")
    it.page.mouse.click(*middle(it, node))
    assert state(it)["zoomed"] == node["id"]
    zoomed = box(it, "clip gradients")
    assert zoomed["right"] - zoomed["left"] > 1000
    assert it.page.locator(".flame-told").inner_text().startswith("clip gradients: ")

    it.page.keyboard.press("Escape")
    assert state(it)["zoomed"] == box(it, "ProfilerStep*")["id"]
    it.page.keyboard.press("Home")
    assert state(it)["zoomed"] is None
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        it.page.keyboard.press(key)
    rows = frame.filter(frame["parent_id"] == 0).sort("total_ns", descending=True)
    assert state(it)["cursor"] == rows["node_id"][1]
    it.page.keyboard.press("Enter")
    assert state(it)["zoomed"] == rows["node_id"][1]
    it.page.keyboard.press("ArrowUp")
    assert state(it)["zoomed"] == 0
    it.page.get_by_role("button", name="Show all").click()
    assert state(it)["zoomed"] is None
    assert it.problems == []
    assert it.requests == []


def test_search_switch_and_tooltip(trace: profframe.Trace, opened: Open, tmp_path: Path) -> None:
    it = opened(page(FlameGraph(trace.flame()), tmp_path / "flame.html"), width=390, scheme="dark")
    frame = trace.flame()
    it.page.locator("canvas").focus()
    it.page.keyboard.press("/")
    it.page.keyboard.type("AddMM")
    matches = frame["name"].str.to_lowercase().str.contains("addmm") & (frame["total_ns"] > 0)
    assert state(it)["found"]["nodes"] == matches.sum()
    assert f"{matches.sum()} found" in it.page.locator(".flame-told").inner_text()
    it.page.get_by_role("searchbox").fill("")
    assert "found" not in it.page.locator(".flame-told").inner_text()

    it.page.get_by_role("button", name="device time").click()
    assert state(it)["total"] == frame["self_device_ns"].sum()
    it.page.get_by_role("button", name="backward").click()
    backward = frame.filter(frame["direction"] == "backward")
    assert state(it)["total"] == backward["self_device_ns"].sum()
    it.page.get_by_role("button", name="host time").click()
    assert state(it)["total"] == backward["self_ns"].sum()
    it.page.get_by_role("button", name="forward").click()
    it.page.mouse.move(*middle(it, box(it, "ProfilerStep*")))
    tip = it.page.locator(".flame-tip")
    assert tip.is_visible()
    assert tip.locator(".flame-name").inner_text() == "ProfilerStep*"
    assert it.overflow == 0
    assert it.problems == []


def test_ranks_have_a_choice(opened: Open, tmp_path: Path) -> None:
    for rank in (0, 1):
        slices = (event("f", 0, 10), event(f"g{rank}", 1, 9))
        loaded(*slices, rank=rank).to_parquet(tmp_path / "store")
    frame = profframe.load(tmp_path / "store").flame()
    it = opened(page(FlameGraph(frame), tmp_path / "flame.html"))
    assert [one["name"] for one in state(it)["boxes"]] == ["all", "f", "g0"]
    it.page.get_by_label("Run and rank").select_option("1")
    assert [one["name"] for one in state(it)["boxes"]] == ["all", "f", "g1"]
    assert it.page.get_by_role("button", name="device time").count() == 0


def test_hostile_names_are_only_names(opened: Open, tmp_path: Path, hostile_file: Path) -> None:
    trace = profframe.load(hostile_file, run=hostile.RUN)
    it = opened(page(FlameGraph(trace.flame()), tmp_path / "flame.html"))
    tips = it.page.locator(".flame-tip .flame-name")
    for one in {one["name"]: one for one in state(it)["boxes"]}.values():
        it.page.mouse.move(*middle(it, one))
        assert not hostile.ACTS.search(tips.inner_text())
    it.page.get_by_role("searchbox").fill("<script>")
    assert state(it)["found"]["nodes"] > 0
    assert it.run(f"typeof {hostile.MARK}") == "undefined"
    assert it.problems == []
    assert it.requests == []


def test_nothing_and_deep(opened: Open, tmp_path: Path) -> None:
    depth = 1_000
    slices = (event("f", i, 2 * depth - i) for i in range(depth))
    it = opened(page(FlameGraph(loaded(*slices).flame()), tmp_path / "deep.html"))
    assert len(state(it)["boxes"]) == depth + 1
    for _ in range(50):
        it.page.locator("canvas").press("ArrowDown")
    assert state(it)["boxes"][50]["top"] < 600
    it = opened(page(FlameGraph(loaded().flame()), tmp_path / "empty.html"))
    assert it.page.locator(".flame-told").inner_text() == "No host slices."
    assert it.problems == []
