"""Reports in a browser: they open, say what the answers say, and can be sorted and searched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pytest

import profframe
from profframe import Trace
from profframe.show import units
from profframe.show.columns import cell
from tests import hostile
from tests.browser.conftest import Open, Opened
from tests.reports import check_numbers, loaded

OPENED: Final = ("cpu", "ascend")
"""Without a device, and of two ranks; other tests open one with a device, or read its data."""
READ: Final = """
() => Object.fromEntries([...document.querySelectorAll(".table[data-frame]")].map((box) => {
    const all = [...box.querySelectorAll("button[aria-pressed]")];
    all.find((button) => button.textContent.startsWith("All"))?.click();
    const more = box.querySelector(".more");
    while (!more.hidden) more.click();
    return [box.dataset.frame, [...box.querySelectorAll("tbody tr")].map((row) =>
        Object.fromEntries([...row.cells].map((cell) =>
            [cell.dataset.column, cell.dataset.value ?? cell.textContent])))];
}))
"""
"""Every row and column of every table."""
HEADS: Final = """
() => [...document.querySelectorAll(".table[data-sorted]:not([data-sorted=''])")].map((box) => {
    const heads = [...box.querySelectorAll("th")];
    const sorted = heads.find((head) => head.ariaSort !== "none");
    const edge = box.querySelector(".scroll").getBoundingClientRect().right;
    const names = heads.map((head) => head.firstChild.dataset.column);
    return [box.dataset.frame, names, sorted.getBoundingClientRect().right <= edge];
})
"""
"""Tables that came sorted: their columns, and whether the sorted one is in view."""


@pytest.mark.parametrize("kind", OPENED)
def test_reports_open_without_a_word_on_the_console(
    kind: str, report: Callable[[str], Path], opened: Open
) -> None:
    page = opened(report(kind))
    assert page.overflow == 0
    page.resized(390, "dark")
    assert page.overflow == 0
    assert page.problems == []
    assert page.requests == []


def test_a_narrow_page_shows_what_tables_are_sorted_by(
    report: Callable[[str], Path], opened: Open
) -> None:
    page = opened(report("cuda"))
    wide = page.run(HEADS)
    page.resized(390, "light")
    narrow = page.run(HEADS)
    assert len(narrow) >= 8
    assert [name for name, _, is_seen in narrow if not is_seen] == []
    columns = dict(one[:2] for one in narrow)
    assert columns["self_times"][:2] == ["name", "self_ns"]
    assert {name: sorted(names) for name, names in columns.items()} == {
        name: sorted(names) for name, names, _ in wide
    }
    page.page.locator("[data-frame=self_times] th [data-column=calls]").click()
    assert dict(one[:2] for one in page.run(HEADS)) == columns  # no column jumps from a finger
    page.resized(1280, "light")
    assert [one[:2] for one in page.run(HEADS)] == [one[:2] for one in wide]
    assert (page.problems, page.requests) == ([], [])


def test_cells_are_those_of_the_answers(report: Callable[[str], Path], opened: Open) -> None:
    """Of every table that the data of the page has, every row that can be shown."""
    page = opened(report("cuda"))
    assert (page.overflow, page.problems, page.requests) == (0, [], [])
    tables = page.run(READ)
    assert {"self_times", "operators-0", "kernels", "memory_peak"} <= tables.keys()
    check_numbers(tables, loaded("cuda"))


def test_cells_show_what_other_tables_show(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cuda"))
    numbers = [0, 1, 999, 1000, 999_499, 999_500, 1023, 1024, 5_678_901, 2**40, 123_456_789_012]
    means = [999.5, 1023.5, 999_995.5, 999_999.5, -999.5, -1023.5, -999_999.5]
    for column, sort in (
        ("a_ns", "ns"), ("bytes", "bytes"), ("bytes_per_s", "bytes/s"), ("flops", "FLOP"),
        ("flop_per_s", "FLOP/s"), ("calls", "count"), ("rank", "number"),
    ):  # fmt: skip
        some = numbers if sort in ("count", "number") else numbers + means
        shown = page.run("([sort, all]) => all.map((n) => format.shown(sort, n))", [sort, some])
        assert shown == [cell(column, number).strip() for number in some], sort
        if sort not in ("count", "number"):  # means are between numbers
            means = [
                sign * edge for edge in (999.5, 1023.5, 999_999.5, 999_995.5) for sign in (1, -1)
            ]
            shown = page.run(
                "([sort, all]) => all.map((n) => format.shown(sort, n))", [sort, means]
            )
            assert shown == [cell(column, mean).strip() for mean in means], sort
    small = [0.0, 2.5e-8, 0.0009999, 0.00099999951, 0.5, 0.9999994, 0.9999996, 140.77431996]
    for column, sort in (("energy_j", "J"), ("mean_w", "W")):
        some = [sign * n for n in (*small, 999.9994, 999.9996, 1_234_567.8) for sign in (1, -1)]
        shown = page.run("([sort, all]) => all.map((n) => format.shown(sort, n))", [sort, some])
        assert [text.replace("-0.000", "0.000") for text in shown] == [
            cell(column, number).strip().replace("-0.000", "0.000") for number in some
        ], sort
    parts = [0.0, 0.0004, 0.12345, 0.9996, 1.0]
    shown = page.run("(all) => all.map((n) => format.shown('share', n))", parts)
    assert shown == [cell("share", part) for part in parts]


def column_of(page: Opened, table: str, column: str) -> list[str]:
    cells = f'[data-frame="{table}"] tbody td[data-column="{column}"]'
    read = "(cells) => cells.map((cell) => cell.dataset.value ?? cell.textContent)"
    return list(page.page.eval_on_selector_all(cells, read))


def test_headers_sort(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cuda"))
    answer = loaded("cuda").self_times()
    calls = page.page.locator('[data-frame="self_times"] th button[data-column="calls"]')

    assert column_of(page, "self_times", "self_ns") == [*map(str, answer["self_ns"].head(12))]
    calls.click()
    most = answer["calls"].sort(descending=True).head(12)
    assert column_of(page, "self_times", "calls") == [*map(str, most)]
    assert calls.locator("..").get_attribute("aria-sort") == "descending"
    calls.focus()
    page.page.keyboard.press("Enter")
    assert column_of(page, "self_times", "calls") == [*map(str, answer["calls"].sort().head(12))]
    assert calls.locator("..").get_attribute("aria-sort") == "ascending"
    assert page.run("() => document.activeElement.dataset.column") == "calls"


def test_search_and_more_rows(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cuda"))
    answer = loaded("cuda").self_times()
    box = page.page.locator('[data-frame="self_times"]')
    status = box.get_by_role("status")

    assert status.inner_text() == f"12 of {answer.height} rows shown"
    box.get_by_role("searchbox").fill("ADDMM")
    found = answer.filter(pl.col("name").str.to_lowercase().str.contains("addmm"))
    assert sorted(column_of(page, "self_times", "name")) == sorted(found["name"])
    assert status.inner_text() == f"{found.height} of {answer.height} rows match"
    box.get_by_role("searchbox").fill("")
    box.locator(".more").click()
    assert len(column_of(page, "self_times", "name")) == min(112, answer.height)


def test_groups_of_operators(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cpu"))
    by_shape = page.page.locator('[data-frame="operators-1"]')

    assert not by_shape.is_visible()
    page.page.get_by_role("radio", name="input shapes").check()
    assert by_shape.is_visible()
    assert not page.page.locator('[data-frame="operators-0"]').is_visible()


def test_the_flame_graph_zooms_and_searches(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cuda"))
    graph = page.page.locator(".flame-graph")
    graph.scroll_into_view_if_needed()

    graph.get_by_role("searchbox").fill("aten::")
    canvas = graph.locator("canvas")
    size = canvas.bounding_box()
    assert size is not None
    before = canvas.screenshot()
    canvas.click(position={"x": size["width"] / 4, "y": 30})
    page.page.wait_for_timeout(300)
    assert canvas.screenshot() != before
    assert page.problems == []


def test_rows_lead_to_their_place_in_the_timeline(
    report: Callable[[str], Path], opened: Open
) -> None:
    """An event, a name, a step and a moment, each from a table that has it."""
    page = opened(report("cuda"))
    trace = loaded("cuda")
    details = page.page.locator(".timeline-details")

    def followed(table: str) -> str:
        row = page.page.locator(f'[data-frame="{table}"] tbody tr').first
        row.get_by_role("button", name="Show in the timeline").click()
        page.page.wait_for_timeout(300)
        assert page.page.locator(".timeline-view").is_visible()
        return str(details.inner_text())

    evidence = trace.advice()["evidence_events"][0][0]
    assert f"event_id\t{evidence}\n" in followed("advice")
    longest = trace.self_times()["name"][0]
    assert followed("self_times").startswith(longest)
    calls = trace.events.filter(name=longest).height
    assert page.page.locator(".timeline-status").inner_text() == f"{calls:,} found"
    table = page.page.locator('[data-frame="time_breakdown"]')
    row = table.locator("tbody tr", has=page.page.locator("[data-column=step]", has_text="2"))
    row.get_by_role("button", name="Show in the timeline").click()
    page.page.wait_for_timeout(300)
    dur = trace.step_times().filter(step=2)["host_ns"][0]
    assert details.inner_text().startswith(units.duration(dur))
    gap = trace.gaps().row(0, named=True)
    assert followed("gaps").startswith(units.duration(gap["dur_ns"]))
    assert page.page.locator('[data-frame="made_with"] td.place').count() == 0
    assert page.problems == []


def test_themes(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cuda"))
    ground = "() => getComputedStyle(document.body).backgroundColor"
    bar = "() => document.querySelector('[data-chart] svg path[fill^=\"#\"]').getAttribute('fill')"
    light = page.run(ground), page.run(bar)

    page.page.get_by_role("button", name="Dark theme").click()
    page.page.wait_for_timeout(500)
    page.all_drawn()
    dark = page.run(ground), page.run(bar)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.page.get_by_role("button", name="Light theme").click()
    assert page.run(ground) == light[0]


def test_print(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cuda"), scheme="dark")
    page.page.emulate_media(media="print")

    assert page.run("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.page.locator("nav").is_visible()
    assert not page.page.locator("#theme").is_visible()
    assert page.page.locator('[data-frame="self_times"] tbody').is_visible()
    assert len(page.page.pdf()) > 10_000


def test_navigation_follows_the_reader(report: Callable[[str], Path], opened: Open) -> None:
    page = opened(report("cuda"))
    current = "() => document.querySelector('nav [aria-current]').textContent"

    assert page.run(current) == "Overview"
    page.page.get_by_role("link", name="Memory").click()
    page.page.wait_for_timeout(300)
    assert page.run(current) == "Memory"
    page.page.keyboard.press("Tab")
    assert page.run("() => document.activeElement !== document.body")


def test_hostile_names(hostile_trace: Trace, tmp_path: Path, opened: Open) -> None:
    hostile_trace.report(tmp_path / "hostile.html")
    page = opened(tmp_path / "hostile.html")
    rows = page.run(READ)
    page.run("() => document.querySelectorAll('th button').forEach((one) => one.click())")
    for chart in page.page.locator("[data-chart] svg").all():
        chart.hover(position={"x": 150, "y": 60}, force=True)
    assert page.overflow == 0
    page.resized(390, "dark")
    assert page.overflow == 0
    assert page.problems == []
    assert page.requests == []
    assert not page.run(f"() => '{hostile.MARK}' in window")
    shown = {row["name"] for row in rows["self_times"]}
    assert {hostile.NAMES[0], hostile.NAMES[2]} <= shown
    assert page.run("() => document.querySelectorAll('main img, main script').length") == 0


def renamed(table: pa.Table, run: str) -> pa.Table:
    """The rows as those of another run."""
    place = table.schema.get_field_index("run")
    runs = pa.array([run] * table.num_rows).cast(table.schema.field(place).type)
    return table.set_column(place, table.schema.field(place), runs)


def test_many_runs_are_cut_and_said(tmp_path: Path, opened: Open) -> None:
    store = tmp_path / "store"
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1}
    (tmp_path / "one.json").write_text(json.dumps([step | {"ts": 1.5, "dur": 7}]))
    one = profframe.load(tmp_path / "one.json", run="run-00").tables
    for number in range(20):
        runs = {name: renamed(table, f"run-{number:02}") for name, table in one.items()}
        Trace.from_tables(runs).to_parquet(store)
    profframe.load(store).report(tmp_path / "runs.html", sections=["overview", "time", "runs"])
    page = opened(tmp_path / "runs.html")

    assert "All 20 runs are in section Runs" in page.page.locator("header").inner_text()
    assert len(page.run(READ)["runs"]) == 20
    assert page.problems == []
