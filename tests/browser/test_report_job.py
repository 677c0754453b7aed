"""The section of a job in a browser: choices of heat maps, the path, sliders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from profframe.show.columns import cell
from tests import hostile, step_jobs
from tests.browser.conftest import Open, Opened
from tests.members import few

LATE: Final = 500_000
RESULT: Final = "#job .prediction"
SLIDE: Final = """
([number, value]) => {
    const input = document.querySelectorAll("#job input[type=range]")[number];
    input.value = value;
    input.dispatchEvent(new Event("input"));
}
"""


@pytest.fixture(scope="module")
def page_of_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks and six steps; in step 3 rank 2 comes half a millisecond late."""
    path = tmp_path_factory.mktemp("job") / "job.html"
    step_jobs.job(late={(3, 2): LATE}).report(path, sections=["job"])
    return path


def silent(page: Opened) -> None:
    assert page.overflow == 0
    assert page.problems == []
    assert page.requests == []


def test_it_opens_without_a_word_on_the_console(page_of_job: Path, opened: Open) -> None:
    page = opened(page_of_job)
    silent(page)
    page.resized(390, "dark")
    silent(page)


def test_one_heat_map_at_a_time(page_of_job: Path, opened: Open) -> None:
    page = opened(page_of_job)
    cells = '[data-chart="job-{}"] svg .mark-rect.role-mark path'

    def shown() -> dict[str, int]:
        return {
            name: page.page.locator(cells.format(name)).count()
            for name in ("time", "wait", "computation")
        }

    all_cells = 4 * 6
    assert shown() == {"time": all_cells, "wait": 0, "computation": 0}
    for name in ("wait", "computation", "time"):
        page.page.get_by_role("radio", name=name, exact=True).check()
        page.page.wait_for_function(
            f"document.querySelectorAll('{cells.format(name)}').length === {all_cells}"
        )
        assert page.page.locator(f'[data-chart="job-{name}"]').is_visible()
    assert not page.page.locator('[data-chart="job-wait"]').is_visible()
    fills = page.page.locator(cells.format("time")).evaluate_all(
        "(all) => all.map((one) => one.getAttribute('fill'))"
    )
    assert sorted(fills.count(fill) for fill in set(fills)) == [4, 20]
    page.page.get_by_role("radio", name="wait", exact=True).check()
    page.page.get_by_role("button", name="Dark theme").click()
    page.page.wait_for_timeout(300)
    page.all_drawn()
    waits = page.page.locator(cells.format("wait"))
    fills = waits.evaluate_all("(all) => all.map((one) => one.getAttribute('fill'))")
    assert sorted(fills.count(fill) for fill in set(fills)) == [3, 21]
    silent(page)


def test_pieces_of_the_path_say_what_they_are(page_of_job: Path, opened: Open) -> None:
    page = opened(page_of_job)
    bars = page.page.locator('[data-chart="job-path"] svg .mark-rect.role-mark path')
    assert bars.count() == 6
    bars.first.hover()
    text = page.page.locator(".tooltip").inner_text()
    for said in ("aten::linear", "600.000", "290.000", "host", "100%"):
        assert said in text


def test_sliders_say_what_is_predicted(page_of_job: Path, opened: Open) -> None:
    page = opened(page_of_job)
    result, bars = page.page.locator(RESULT), page.page.locator("#job .bar b")
    now = step_jobs.STEP + LATE

    def durations(*times: float) -> list[str]:
        return [cell("a_ns", time).strip() for time in times]

    assert result.inner_text() == "No change"
    assert bars.all_inner_texts() == durations(now, now)
    page.run(SLIDE, [0, 2])
    saved = step_jobs.TRANSFER // 2
    assert result.inner_text() == f"Saves {durations(saved)[0]} ({saved / now:.1%})".replace(
        "%", " %"
    )
    assert bars.all_inner_texts() == durations(now, now - saved)
    page.run(SLIDE, [0, 6])
    more = step_jobs.TRANSFER
    assert result.inner_text().startswith(f"Takes {durations(more)[0]} more")
    host = page.page.get_by_role("slider", name="host")
    host.focus()
    page.page.keyboard.press("ArrowLeft")
    assert host.get_attribute("aria-valuetext") == "times 0.75"
    assert page.page.locator("#job output").all_inner_texts() == ["x 2", "x 0.75"]
    assert result.inner_text().startswith("Saves ")
    silent(page)


ALL_NAMES: Final = "".join(hostile.NAMES[:6])
"""Names that would run, one behind the other: in the normal run they share a page."""


@pytest.mark.parametrize(
    "name", few([ALL_NAMES, *hostile.NAMES[:6]], [ALL_NAMES]), ids=["all", *range(6)]
)
def test_hostile_names(name: str, tmp_path: Path, opened: Open) -> None:
    """Ops with names that would run, on the path and in its tooltips."""
    job = step_jobs.job(2, 2, {(1, 1): 10**6}, name=name, run=hostile.RUN)
    job.report(tmp_path / "job.html", sections=["job"])
    page = opened(tmp_path / "job.html")
    page.page.locator('[data-chart="job-path"] svg .mark-rect.role-mark path').first.hover()
    assert name in page.page.locator(".tooltip").inner_text()
    silent(page)
    assert not page.run(f"() => '{hostile.MARK}' in window")
    assert page.run("() => document.querySelectorAll('main img, main script').length") == 0


def test_print_has_it(page_of_job: Path, opened: Open) -> None:
    page = opened(page_of_job)
    page.page.emulate_media(media="print")
    page.page.wait_for_timeout(300)
    assert page.page.locator('[data-chart="job-path"] svg').is_visible()
    assert len(page.page.pdf()) > 10_000
    silent(page)
