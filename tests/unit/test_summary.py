"""What a prompt, a notebook and a program see of a trace: what the command line prints first."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe.show.trace_header import TraceHeader
from profframe.trace import text_views
from profframe.trace.text_views import header
from tests.conftest import Run
from tests.pages import Page
from tests.unit.test_opening import GPU, first_lines, labelled

LABELS = ("device", "recorded", "time", "kernels", "mfu")


@pytest.fixture(scope="module")
def trace() -> profframe.Trace:
    return profframe.load(GPU)


@pytest.fixture(scope="module")
def summary(trace: profframe.Trace) -> TraceHeader:
    return trace.summary()


@pytest.fixture
def printed(run: Run) -> dict[str, list[str]]:
    """What the command line prints first, by label."""
    return labelled("\n".join(first_lines(run(GPU)[1])))


def test_a_summary_has_the_words_of_the_first_screen(
    summary: TraceHeader, printed: dict[str, list[str]]
) -> None:
    lines = dict(summary.lines)
    assert {label: lines[label] for label in LABELS} == {
        label: printed[label][0] for label in LABELS
    }
    assert "NVIDIA H100 80GB HBM3" in lines["device"]
    assert lines["gain"] == printed["gain"][0]
    assert repr(summary) == str(summary)
    assert "shape: (" not in repr(summary)
    last = str(summary).splitlines()[-1]
    assert last.endswith("trace.advice()  # all 3 findings: where, why, and what to do")


def test_programs_get_its_fields(trace: profframe.Trace, summary: TraceHeader) -> None:
    assert summary.overview.equals(trace.overview())
    assert summary.breakdown.equals(trace.time_breakdown())
    assert summary.advice.equals(trace.advice())
    assert summary.used_devices["model"].to_list() == ["NVIDIA H100 80GB HBM3"]


def test_a_notebook_shows_the_first_screen(
    trace: profframe.Trace, summary: TraceHeader, printed: dict[str, list[str]]
) -> None:
    page = Page(trace._repr_html_())
    for label in LABELS:
        assert printed[label][0] in page.text
    for finding in trace.advice()["finding"]:
        assert finding in page.text
    assert "not estimated  Kernels" in page.text  # aligned by spaces only where letters are as wide
    assert Page(summary._repr_html_()).text == page.text


def test_a_prompt_names_the_device_and_splits_the_time(trace: profframe.Trace) -> None:
    text = repr(trace)
    assert "1 x NVIDIA H100 80GB HBM3" in text
    assert "compute 62.0 %, exposed copies 0.1 %, idle 37.9 % of 11.564 ms per step" in text
    assert "trace.summary()" in text


def test_a_notebook_asks_no_rules_about_many_events(
    trace: profframe.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_views, "_MOST_EVENTS", 100)
    monkeypatch.setattr(text_views, "header", lambda _: pytest.fail("rules were asked"))
    text = Page(trace._repr_html_()).text
    assert "NVIDIA H100" in text
    assert "trace.summary()" in text


def test_what_does_not_fit_a_limit_is_left_out_of_a_notebook(
    trace: profframe.Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> TraceHeader:
        raise profframe.ProfframeError("too much")

    monkeypatch.setattr(text_views, "header", fails)
    text = Page(trace._repr_html_()).text
    assert "NVIDIA H100" in text
    assert "too much" not in text


def test_a_broken_trace_still_shows_itself(tmp_path: Path) -> None:
    folder = tmp_path / "<b>store"
    profframe.load(GPU).to_parquet(folder)
    trace = profframe.load(folder)
    shutil.rmtree(folder)
    assert repr(trace).startswith("Trace: cannot be read: ")
    assert len(repr(trace).splitlines()) == 1
    assert Page(trace._repr_html_()).text.startswith("Trace: cannot be read: ")


def test_a_limit_of_rows_does_not_cut_the_summary() -> None:
    limited = profframe.load(GPU).with_limits(rows=1, cut_rows=True)
    assert "all 3 findings" in str(limited.summary())


def test_the_head_of_a_report_names_the_device(trace: profframe.Trace, tmp_path: Path) -> None:
    trace.report(tmp_path / "report.html", sections=["overview"])
    text = (tmp_path / "report.html").read_text()
    assert "1 rank, 1 x NVIDIA H100 80GB HBM3, " in text


@pytest.mark.parametrize(("name", "overlaps"), [("cuda", True), ("gpu_training", False)])
def test_operators_say_where_annotations_overlap(name: str, overlaps: bool, tmp_path: Path) -> None:
    """`train` spans work and gaps on the device; no annotation of the other trace does."""
    trace = profframe.load(Path(GPU).with_name(f"{name}.json.gz"))
    trace.report(tmp_path / "report.html", sections=["operators"])
    text = (tmp_path / "report.html").read_text()
    assert ("annotations overlap: train has 760.249 us, more than the 621.928 us" in text) is (
        overlaps
    )


def test_a_trace_without_devices_says_so() -> None:
    trace = profframe.load(Path(GPU).with_name("cpu_training.json.gz"))
    assert "no device work in this trace" in repr(trace)
    assert "self time" in str(trace.summary())


def test_a_summary_of_nothing_is_a_line(trace: profframe.Trace) -> None:
    empty = trace.filter(kinds="gil")
    assert isinstance(header(empty).advice, pl.DataFrame)
    assert "no device work" not in repr(empty)
