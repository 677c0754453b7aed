"""The page of a diff in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import profframe
from profframe.show.columns import cell
from tests import hostile
from tests.browser.conftest import Open, Opened
from tests.builders import loaded
from tests.members import few
from tests.unit.test_diff_report import BF16, FP32, steps


@pytest.fixture(scope="module")
def page_of_diff(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("diff") / "diff.html"
    profframe.diff_report(FP32, BF16, path)
    return path


def silent(page: Opened) -> None:
    assert page.overflow == 0
    assert page.problems == []
    assert page.requests == []


def test_it_opens_without_a_word_on_the_console(page_of_diff: Path, opened: Open) -> None:
    page = opened(page_of_diff)
    silent(page)
    page.resized(390, "dark")
    silent(page)


def test_bars_of_kinds_or_of_the_largest(page_of_diff: Path, opened: Open) -> None:
    page = opened(page_of_diff)
    shown = page.page.locator(".waterfall:visible")
    assert shown.count() == 1
    kinds = profframe.explain(FP32, BF16).causes["cause"].n_unique()
    assert shown.locator("li").count() == kinds + 2  # both steps
    page.page.get_by_role("radio", name="largest causes").check()
    assert shown.count() == 1
    assert shown.locator("li").count() == 13
    box = shown.locator("li").nth(1).locator("i").bounding_box()
    assert box is not None
    assert box["width"] > 50
    silent(page)


def test_flame_graphs_zoom_together(page_of_diff: Path, opened: Open) -> None:
    page = opened(page_of_diff)
    told = page.page.locator(".flame-told")
    assert told.count() == 2
    why = profframe.explain(FP32, BF16)
    words = [f"all: {cell('a_ns', ns).strip()} of a step" for ns in (why.base_ns, why.other_ns)]
    assert [text.partition(",")[0] for text in told.all_inner_texts()] == words
    canvas = page.page.locator(".flame-canvas")
    canvas.first.click(position={"x": 20, "y": 70})
    said = told.all_inner_texts()
    assert all(text.startswith("backward: ") for text in said), said
    canvas.nth(1).focus()
    page.page.keyboard.press("Home")
    assert all(text.startswith("all: ") for text in told.all_inner_texts())
    silent(page)


def test_nodes_open_level_by_level(page_of_diff: Path, opened: Open) -> None:
    page = opened(page_of_diff)
    backward = page.page.locator(".tree summary", has_text="backward").first
    inside = page.page.locator(".tree summary", has_text="ScaledDotProductFlash").first
    assert not inside.is_visible()
    backward.click()
    assert inside.is_visible()
    silent(page)


ALL_TITLES = "".join(hostile.NAMES[:6])
"""Those that would run, one behind the other: in the normal run they share a page."""


@pytest.mark.parametrize(
    "title", few([ALL_TITLES, *hostile.NAMES[:6]], [ALL_TITLES]), ids=["all", *range(6)]
)
def test_hostile_names(title: str, tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "diff.html"
    names = hostile.NAMES
    sides = loaded(*steps(5_000, *names)), loaded(*steps(9_000, *names, op=names[1]))
    profframe.diff_report(*sides, path, (f"a{title}", f"b{title}"), title=title)
    page = opened(path)
    silent(page)
    assert page.run(f"typeof {hostile.MARK}") == "undefined"
