"""The timeline by itself: what is drawn is what the tables say, by mouse, keys and touch."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pytest

import profframe
from profframe.pages.timeline import Timeline
from profframe.pages.timeline.timeline_data import OTHER_COLUMNS
from tests import hostile
from tests.browser.conftest import Open, Opened
from tests.builders import event, loaded
from tests.conftest import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DRAWN: Final = 40
RULER: Final = 24
SETTLE_MS: Final = 120


@pytest.fixture(scope="module")
def trace() -> profframe.Trace:
    return profframe.load(ROOT / "examples" / "gpu_training.json.gz")


@pytest.fixture(scope="module")
def shown(trace: profframe.Trace) -> Timeline:
    return trace.plot.timeline()


def page(timeline: Timeline, path: Path) -> Path:
    """A page that keeps the timeline where a test can ask it."""
    call = "\ntimeline(document"
    html = timeline.to_html()
    assert html.count(call) == 1
    kept = html.replace(call, "\nwindow.it = timeline(document")
    ready = "it.opened.then(() => it.data.rest()).then(() => "
    ready += "{ document.documentElement.dataset.ready = 'yes'; });\n})();"
    path.write_text(kept.replace("\n})();\n</script>", f"\n{ready}\n</script>"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened_once(
    shown: Timeline, chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    path = page(shown, tmp_path_factory.mktemp("timeline") / "timeline.html")
    with in_browser(chromium, path, viewport={"width": 1280, "height": 900}) as it:
        yield it


@contextmanager
def in_browser(chromium: Browser, path: Path, **how: Any) -> Iterator[Opened]:
    context = chromium.new_context(offline=True, **how)
    it = Opened(context.new_page())
    it.page.on("console", it.heard)
    it.page.on("pageerror", lambda error: it.problems.append(f"uncaught: {error}"))
    it.page.on("request", it.asked)
    it.page.goto(path.as_uri())
    it.all_drawn()
    yield it
    assert it.problems == []
    assert it.requests == [path.as_uri()]
    context.close()


@pytest.fixture
def it(opened_once: Opened) -> Opened:
    """The timeline in a browser, as it is at first; all tests have the same page."""
    opened_once.run("it.view.folded.clear(), it.relaid(), it.cleared(), it.find(''), it.all()")
    opened_once.page.mouse.move(1, 1)
    state(opened_once)
    return opened_once


def state(it: Opened) -> dict[str, Any]:
    it.page.wait_for_timeout(SETTLE_MS)
    found: dict[str, Any] = it.run("it.state()")
    return found


def canvas(it: Opened) -> dict[str, float]:
    box = it.page.locator("canvas").bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def point(it: Opened, slice_number: int) -> tuple[float, float]:
    """The middle of what is seen of a slice, on the page."""
    box, place = it.run(f"it.view.box({slice_number})"), canvas(it)
    left, right = max(box["left"], 0), min(box["right"], place["width"])
    return place["x"] + (left + right) / 2, place["y"] + box["top"] + box["height"] / 2


def events(trace: profframe.Trace) -> Iterator[dict[str, Any]]:
    yield from trace.events.filter(pl.col("start_ns").is_not_null()).iter_rows(named=True)


def test_every_slice_is_as_in_the_tables(
    it: Opened, trace: profframe.Trace, shown: Timeline
) -> None:
    facts = it.run(
        "Array.from({ length: it.data.size }, (_, i) => it.data.facts(i)).map((one) => ({...one, "
        "lane: null, parent: one.parent < 0 ? null : it.data.event[one.parent], "
        "launch: one.launch < 0 ? null : it.data.event[one.launch], "
        "op: one.op < 0 ? null : it.data.event[one.op], "
        "launched: it.data.launchedIn(one.slice).map((i) => it.data.event[i])}))"
    )
    by_event = {one["event"]: one for one in facts}
    zero = int(shown.document.head["traces"][0]["zero"])
    rows = [*events(trace)]
    assert len(by_event) == len(facts) == len(rows)
    host = trace.events.filter(pl.col("depth").is_not_null())
    inside = {
        event: {child for child in host["event_id"] if is_inside(host_parents, child, event)}
        for host_parents in [dict(host.select("event_id", "parent_id").iter_rows())]
        for event in host["event_id"].sample(40, seed=1)
    }
    for row in rows:
        one = by_event[row["event_id"]]
        assert one["begin"] + zero == row["start_ns"]
        for key, column in (
            ("dur", "dur_ns"), ("self", "self_ns"), ("name", "name"), ("kind", "kind"),
            ("category", "category"), ("step", "step"), ("dims", "input_dims"),
            ("parent", "parent_id"), ("launch", "launch_id"), ("op", "op_id"),
        ):  # fmt: skip
            assert one[key] == row[column], column
        if row["event_id"] in inside:
            launched = {r["event_id"] for r in rows if r["launch_id"] in inside[row["event_id"]]}
            assert {*one["launched"]} == launched


def is_inside(parents: dict[int, int | None], event: int | None, outer: int) -> bool:
    while event is not None and event != outer:
        event = parents[event]
    return event is not None


def test_what_is_searched_for_is_where_its_columns_say(
    it: Opened, trace: profframe.Trace, shown: Timeline
) -> None:
    """Slices that a search finds, drawn from all names: below the pointer is each one itself."""
    zero = int(shown.document.head["traces"][0]["zero"])
    rows = {row["event_id"]: row for row in events(trace)}
    names = pl.Series([row["name"] for row in rows.values()])
    generator = random.Random(3)  # noqa: S311 -- which slices are tried
    it.page.get_by_role("searchbox").fill("ATEN::ADD")
    sought = names.str.to_lowercase().str.contains("aten::add", literal=True)
    assert state(it)["found"] == sought.sum()
    assert it.page.get_by_role("status").inner_text() == f"{sought.sum():,} found"
    checked = 0
    while checked < DRAWN:
        name = generator.choice(names.to_list())
        found = it.run(
            "([name, steps]) => { it.find(name); for (let i = 0; i < steps; i++) it.step(1); "
            "const slice = it.view.selected; return {slice, event: it.data.event[slice], "
            "from: it.view.from, per: it.view.perPixel, box: it.view.box(slice)}; }",
            [name, generator.randint(1, 4)],
        )
        row, slice_number = rows[found["event"]], found["slice"]
        assert name.lower() in row["name"].lower()
        view = found
        begin = row["start_ns"] - zero
        assert view["box"]["left"] == pytest.approx((begin - view["from"]) / view["per"], abs=0.01)
        end = begin + row["dur_ns"]
        assert view["box"]["right"] == pytest.approx((end - view["from"]) / view["per"], abs=0.01)
        x, y = point(it, slice_number)
        it.page.mouse.move(x, y)
        assert it.run("it.view.hovered") == slice_number
        checked += 1
    assert it.page.locator(".timeline-tip").is_visible()
    shown_facts = it.page.locator(".timeline-facts")
    assert f"{row['dur_ns']:,} ns" in shown_facts.inner_text()


def test_all_other_columns_are_as_in_the_table(it: Opened, trace: profframe.Trace) -> None:
    """NULL has no row."""
    rows = trace.events.sample(60, seed=3)
    found = it.run(
        "(events) => Promise.all(events.map((event) => "
        "it.data.others(it.data.event.indexOf(event)).then((pairs) => Object.fromEntries(pairs))))",
        rows["event_id"].to_list(),
    )
    for row, others in zip(rows.iter_rows(named=True), found, strict=True):
        expected = {name: row[name] for name in OTHER_COLUMNS if row[name] is not None}
        assert others.keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, bool):
                assert others[name] == ("yes" if value else "no")
            else:
                assert others[name] == value, name


def test_a_click_shows_them(it: Opened, trace: profframe.Trace) -> None:
    row = trace.events.filter(pl.col("kind") == "kernel").row(5, named=True)
    it.run("(event) => it.goTo(it.data.event.indexOf(event))", row["event_id"])
    shown_facts = it.page.locator(".timeline-facts")
    shown_facts.locator("tr", has_text="kernel_category").wait_for()
    text = shown_facts.inner_text()
    assert row["kernel_category"] in text
    assert f"{row['correlation']:,}" in text
    assert "no room" not in text


def test_pixels_of_a_slice_have_its_colour(it: Opened) -> None:
    it.run("it.goToName('cudaStreamSynchronize', 0)")
    selected = state(it)["selected"]
    read = (
        "(i) => { const box = it.view.box(i), ratio = it.view.ratio; const at = (x) => [..."
        "it.canvas.getContext('2d').getImageData(Math.round(x * ratio), "
        "Math.round((box.top + 13) * ratio), 1, 1).data].slice(0, 3); "
        "const near = Math.min(box.right, it.view.width) - 6; return {inside: at(near), "
        "shade: it.view.shades[it.data.what[i]], before: at(box.left - 3)}; }"
    )
    found = it.run(read, selected)
    assert found["inside"] == found["shade"]
    assert found["before"] != found["shade"]


FILLED: Final = """
(row) => {
    const item = it.view.items.filter((one) => one.sort === "row" && one.lane)[row];
    const y = Math.round((it.view.y(item) + 3) * it.view.ratio);
    const { width } = it.canvas;
    const pixels = it.canvas.getContext("2d").getImageData(0, y, width, 1).data;
    const isGround = (x) =>
        it.view.colours.ground.every((part, i) => Math.abs(pixels[4 * x + i] - part) <= 40);
    const filled = Array.from({ length: width }, (_, x) => x).filter((x) => !isGround(x));
    return { filled, width, from: it.view.from, per: it.view.perPixel };
}
"""
"""Pixels of a row that are not ground; lines of the grid are fainter than slices."""


def test_no_slice_is_hidden_where_many_are_in_a_pixel(opened: Open, tmp_path: Path) -> None:
    """Pixels are filled where there are slices and nowhere else, drawn one by one or at once."""
    generator = random.Random(5)  # noqa: S311 -- times of slices
    times, begin = [], 0
    for _ in range(20_000):
        begin += 100_000 if generator.random() < 0.002 else generator.randint(0, 30)
        dur = generator.randint(20, 300)
        times.append((begin, begin + dur))
        begin += dur
    rare = {*generator.sample(range(20_000), 30)}
    names = ["rare" if number in rare else "f" for number in range(20_000)]
    rows = [event(name, *time) for name, time in zip(names, times, strict=True)]
    it = opened(page(loaded(*rows).plot.timeline(), tmp_path / "many.html"))
    assert it.run("it.view.perPixel") > 16 * 300  # so many are drawn at once
    for factor in (1, 0.3, 0.2):
        it.run(f"it.view.zoom({factor}, 300), it.paint()")
        seen = it.run(FILLED, 0)
        covered: set[int] = set()
        near: set[int] = set()
        for left, right in ([(t - seen["from"]) / seen["per"] for t in time] for time in times):
            covered |= {*range(max(math.ceil(left), 0), math.floor(right) - 1)}
            near |= {*range(math.floor(left) - 1, math.floor(right) + 2)}
        filled = {*seen["filled"]}
        assert 50 < len(filled) < seen["width"]
        assert filled <= near
        assert {x for x in covered if x < seen["width"]} <= filled
    it.run("it.all(), it.find('rare'), it.paint()")
    seen = it.run(FILLED, 0)
    owners = it.run("[...it.view.raster.owner].map((i) => it.data.head.names[it.data.what[i]])")
    for number in rare:
        x = int((times[number][0] - seen["from"]) / seen["per"])
        assert "rare" in owners[max(x - 1, 0) : x + 2]


def test_keys_and_mouse_zoom_and_move(it: Opened) -> None:
    whole = state(it)
    place = canvas(it)
    it.page.locator("canvas").focus()
    for key, held in (("w", "narrower"), ("d", "later"), ("a", "earlier"), ("s", "wider")):
        before = state(it)
        it.page.keyboard.down(key)
        it.page.wait_for_timeout(200)
        it.page.keyboard.up(key)
        after = state(it)
        assert {
            "narrower": after["perPixel"] < before["perPixel"],
            "wider": after["perPixel"] > before["perPixel"],
            "later": after["from"] > before["from"],
            "earlier": after["from"] < before["from"],
        }[held], key
    it.page.keyboard.press("0")
    assert state(it)["from"] == whole["from"]

    x, y = place["x"] + 400, place["y"] + 200
    it.page.mouse.move(x, y)
    moment = it.run("it.view.time(400)")
    it.page.keyboard.down("Control")
    it.page.mouse.wheel(0, -200)
    it.page.keyboard.up("Control")
    zoomed = state(it)
    assert zoomed["perPixel"] < whole["perPixel"]
    assert it.run("it.view.time(400)") == pytest.approx(moment)
    it.page.keyboard.down("Shift")
    it.page.mouse.down()
    it.page.mouse.move(x - 150, y, steps=4)
    it.page.mouse.up()
    it.page.keyboard.up("Shift")
    moved = state(it)
    assert moved["from"] == pytest.approx(zoomed["from"] + 150 * zoomed["perPixel"])
    assert moved["span"] is None
    it.page.mouse.wheel(120, 0)
    assert state(it)["from"] > moved["from"]


def test_a_span_lists_what_ran_in_it(it: Opened, trace: profframe.Trace, shown: Timeline) -> None:
    """By name, only on the lanes that were dragged over; sorted by its headings; by keys, too."""
    lane = next(one for one in state(it)["items"] if one["title"] == "device 0 stream 7")
    place = canvas(it)
    y = place["y"] + RULER + lane["top"] + lane["height"] + 4
    it.page.mouse.move(place["x"] + 300, y)
    it.page.mouse.down()
    it.page.mouse.move(place["x"] + 700, y + 3, steps=4)
    it.page.mouse.up()
    span = state(it)["span"]
    zero = int(shown.document.head["traces"][0]["zero"])
    low, high = int(span["from"]) + zero, int(span["to"]) + zero
    end = pl.col("start_ns") + pl.col("dur_ns")
    kernels = trace.events.filter(
        pl.col("stream") == 7, pl.col("start_ns") <= high, end >= low
    ).with_columns(
        (pl.min_horizontal(end, pl.lit(high)) - pl.max_horizontal("start_ns", pl.lit(low))).alias(
            "t"
        )
    )
    expected = kernels.group_by("name").agg(pl.len().alias("calls"), pl.col("t").sum())
    totals = it.run(
        "[...document.querySelectorAll('.timeline-details tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.title || cell.textContent))"
    )
    assert len(totals) == expected.height > 3
    by_total = expected.sort("t", descending=True)
    assert [int(row[2]) for row in totals] == pytest.approx(by_total["calls"].to_list())
    read = [float(row[3].removesuffix(" ns").replace(",", "")) for row in totals]
    assert read == pytest.approx(by_total["t"].to_list(), abs=1)

    it.page.get_by_role("button", name="slices").press("Enter")
    first = it.page.locator(".timeline-details tbody tr").first.locator("td").nth(2).inner_text()
    assert int(first) == expected["calls"].max()
    it.page.locator(".timeline-details tbody button").first.press("Enter")
    assert state(it)["found"] > 0

    it.page.locator("canvas").press("0")
    it.page.locator("canvas").press("v")
    it.page.wait_for_timeout(SETTLE_MS)
    heading = it.page.locator(".timeline-details h4").inner_text()
    assert f": {trace.events.height:,} slices of " in heading


def test_a_search_scrolls_to_a_match(chromium: Browser, tmp_path: Path) -> None:
    """Far below what is seen there may be a match; what is already seen stays where it is."""
    deep = [event("f", n, 10_000 - n) for n in range(60)]
    trace = loaded(*deep, event("needle", 500, 600, thread=9))
    path = page(trace.plot.timeline(), tmp_path / "timeline.html")
    with in_browser(chromium, path, viewport={"width": 800, "height": 500}) as it:
        search = it.page.get_by_role("searchbox")
        search.fill("f")
        assert state(it)["found"] == 60
        assert it.run("it.scroller.scrollTop") == 0
        search.fill("needle")
        state(it)
        box = it.run("it.view.box(it.data.lines.at(-1).from)")
        assert it.run("it.scroller.scrollTop") > 0
        assert 0 <= box["top"] < it.run("it.view.height")


def test_keys_go_from_slice_to_slice(it: Opened, trace: profframe.Trace) -> None:
    rows = {row["event_id"]: row for row in events(trace)}
    it.page.locator("canvas").focus()

    def pressed(key: str) -> dict[str, Any]:
        it.page.keyboard.press(key)
        it.page.wait_for_timeout(SETTLE_MS)
        return rows[it.run("it.data.event[it.view.selected]")]

    assert pressed("ArrowRight")["kind"] in {"kernel", "memcpy"}  # streams are above threads
    it.run("it.goTo(it.data.lines.find(({ lane }) => lane.sort === 'host').from)")
    first = rows[it.run("it.data.event[it.view.selected]")]
    assert first["parent_id"] is None
    child = pressed("ArrowDown")
    assert child["parent_id"] == first["event_id"]
    following = pressed("ArrowRight")
    assert following["depth"] == child["depth"]
    assert following["start_ns"] >= child["start_ns"] + child["dur_ns"]
    assert pressed("ArrowUp")["event_id"] == first["event_id"]
    table = it.page.get_by_role("table", name="Selected slice")
    assert f"{first['dur_ns']:,} ns" in table.inner_text()
    it.page.keyboard.press("f")
    view = state(it)
    assert first["dur_ns"] < (view["to"] - view["from"]) < 1.5 * first["dur_ns"]
    it.page.keyboard.press("Escape")
    assert state(it)["selected"] == -1
    assert it.page.locator(".timeline-facts").count() == 0
    it.page.keyboard.press("/")
    assert it.run("document.activeElement.type") == "search"


def test_arrows_lead_from_a_call_to_its_kernels(it: Opened, trace: profframe.Trace) -> None:
    kernel = trace.events.filter(kind="kernel").drop_nulls("launch_id").row(50, named=True)
    it.run("(id) => it.goToEvent(0, id)", kernel["launch_id"])
    arrows = state(it)["arrows"]
    pairs = it.run("(all) => all.map((pair) => pair.map((i) => it.data.event[i]))", arrows)
    assert pairs == [[kernel["launch_id"], kernel["event_id"]]]
    it.page.locator(".timeline-facts .timeline-link").last.click()
    it.page.wait_for_timeout(SETTLE_MS)
    assert it.run("it.data.event[it.view.selected]") == kernel["event_id"]


def test_arrows_lead_from_forward_to_backward(it: Opened, trace: profframe.Trace) -> None:
    """On hover; in the table both are links."""
    backward = trace.events.filter(kind="host_op").drop_nulls("fwd_id").row(20, named=True)
    pair = [backward["fwd_id"], backward["event_id"]]
    for event_id in pair:
        it.run("(id) => it.goToEvent(0, id)", event_id)
        it.page.wait_for_timeout(SETTLE_MS)
        selected = it.run("it.view.selected")
        it.run("it.cleared()")
        it.page.mouse.move(*point(it, selected))
        it.page.wait_for_timeout(SETTLE_MS)
        arrows = state(it)["arrows"]
        pairs = it.run("(all) => all.map((pair) => pair.map((i) => it.data.event[i]))", arrows)
        assert pair in pairs
    it.run("(id) => it.goToEvent(0, id)", backward["event_id"])
    it.page.locator(".timeline-facts tr", has_text="forward").get_by_role("button").first.click()
    it.page.wait_for_timeout(SETTLE_MS)
    assert it.run("it.data.event[it.view.selected]") == backward["fwd_id"]


def test_a_print_says_what_is_out_of_view(it: Opened) -> None:
    it.page.keyboard.press("0")
    it.run("it.all(), it.outOfView()")
    assert "ms of " not in it.run("it.printed.textContent")
    it.run("it.zoomBy(0.1), it.outOfView()")
    assert re.search(r"it shows .+ to .+ of ", it.run("it.printed.textContent"))
    assert it.page.locator(".timeline-printed").is_hidden()
    it.page.emulate_media(media="print")
    assert it.page.locator(".timeline-printed").is_visible()
    it.page.emulate_media(media="screen")


def test_findings_lead_to_their_slices(it: Opened, trace: profframe.Trace) -> None:
    advice = trace.advice()
    it.page.get_by_label("Findings of advice").select_option(index=1)
    it.page.wait_for_timeout(SETTLE_MS)
    events_of = advice["evidence_events"][0].to_list()
    assert it.run("it.data.event[it.view.selected]") == events_of[0]
    it.page.get_by_role("button", name="Next match").click()
    it.page.wait_for_timeout(SETTLE_MS)
    assert it.run("it.data.event[it.view.selected]") == events_of[1]
    assert it.page.get_by_role("status").inner_text() == f"2 of {len(events_of)}"
    assert advice["finding"][0] in it.page.locator(".timeline-facts").inner_text()


def test_counters_say_their_value(it: Opened, trace: profframe.Trace, shown: Timeline) -> None:
    counter = next(one for one in state(it)["items"] if one["title"] == "queue depth")
    place = canvas(it)
    it.page.mouse.move(place["x"] + 600, place["y"] + RULER + counter["top"] + 20)
    moment = it.run("it.view.time(600)") + int(shown.document.head["traces"][0]["zero"])
    before = trace.queue_depth(points=1000).filter(pl.col("time_ns") <= int(moment))
    tip = it.page.locator(".timeline-tip").inner_text()
    assert tip.startswith(f"queue depth\n{before['depth'][-1]}, at ")


def test_lanes_fold(it: Opened) -> None:
    before = state(it)["items"]
    lane = next(one for one in before if one["title"] == "main (python)")
    place = canvas(it)
    it.page.mouse.click(place["x"] + 30, place["y"] + RULER + lane["top"] + 8)
    after = state(it)["items"]
    assert len(after) < len(before)
    it.run("it.goToName('cudaStreamSynchronize', 0)")
    assert len(state(it)["items"]) == len(before)


def test_two_fingers_zoom_and_one_moves(shown: Timeline, chromium: Browser, tmp_path: Path) -> None:
    path = page(shown, tmp_path / "touch.html")
    how = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with in_browser(chromium, path, color_scheme="dark", **how) as it:
        assert it.overflow == 0
        session = it.page.context.new_cdp_session(it.page)
        place = canvas(it)
        y = place["y"] + 220

        def fingers(kind: str, *xs: float) -> None:
            points = [{"x": place["x"] + x, "y": y, "id": n} for n, x in enumerate(xs)]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        whole = state(it)
        moment = it.run("it.view.time(180)")
        fingers("touchStart", 150, 210)
        for apart in (50, 80, 120):
            fingers("touchMove", 180 - apart, 180 + apart)
        fingers("touchEnd")
        zoomed = state(it)
        assert zoomed["perPixel"] == pytest.approx(whole["perPixel"] / 4, rel=0.05)
        assert it.run("it.view.time(180)") == pytest.approx(moment, rel=0.05)
        fingers("touchStart", 300)
        for x in (250, 200, 150):
            fingers("touchMove", x)
        fingers("touchEnd")
        moved = state(it)
        assert moved["from"] > zoomed["from"]
        assert moved["perPixel"] == zoomed["perPixel"]


def test_what_is_left_out_is_said_in_its_lane(
    trace: profframe.Trace, opened: Open, tmp_path: Path
) -> None:
    from profframe.pages.timeline.page_budget import document
    from profframe.trace.timeline_selection import timeline_rows

    rows = replace(timeline_rows(trace), others=None)
    whole = document(rows, None)
    few = document(rows, len(whole.body) * 3 // 4)
    it = opened(page(Timeline(few), tmp_path / "few.html"))
    it.run("it.goTo(0)")
    it.page.locator(".timeline-facts tr", has_text="too many slices").wait_for()
    left = sum(lane["left_out"] for lane in few.head["lanes"])
    assert f"{left:,} short ones are left out" in it.page.get_by_role("status").inner_text()
    notes = it.run("it.view.items.filter((one) => one.lane && one.note).map((one) => one.note)")
    lanes = [lane for lane in few.head["lanes"] if lane["left_out"]]
    assert [note.split()[0] for note in notes if note] == [f"{one['left_out']:,}" for one in lanes]
    gone = {*trace.events["event_id"]} - {*it.run("[...it.data.event]")}
    assert len(gone) == left
    it.run("(id) => it.goToEvent(0, id)", min(gone))
    assert it.page.get_by_role("status").inner_text() == f"slice {min(gone)} is left out"


def test_hostile_names_do_nothing(opened: Open, tmp_path: Path, hostile_file: Path) -> None:
    trace = profframe.load(hostile_file, run=hostile.RUN)
    it = opened(page(trace.plot.timeline(), tmp_path / "hostile.html"))
    for slice_number in range(0, it.run("it.data.size"), 11):
        it.run(f"it.goTo({slice_number})")
        it.page.mouse.move(*point(it, slice_number))
        texts = it.page.locator(".timeline-tip, .timeline-details").all_inner_texts()
        assert not hostile.ACTS.search("".join(texts).replace("\n", ""))
    it.run("it.seenSpan()")
    it.page.wait_for_timeout(SETTLE_MS)
    for name in hostile.NAMES:
        it.page.get_by_role("searchbox").fill(name.partition("\n")[0][:100])
    assert it.run(f"typeof {hostile.MARK}") == "undefined"
    assert it.run("document.querySelectorAll('img, svg, iframe, a').length") == 0
    assert it.problems == []
    assert it.requests == []
