"""What is said below a table: what percentages are of, and what its words mean."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from profframe.cli.rankings import Ranking
from profframe.query.catalogue import catalogue
from profframe.query.header import Answer
from profframe.show.columns import unit_by_name
from profframe.show.compact_tables import sums_by_annotation
from profframe.show.footnotes import footnotes, of_shares
from profframe.show.terminal import ranking, table, text
from tests.conftest import Run

_SELECTS = [select for answer in catalogue() for select in answer.selects]


def test_percentages_say_what_they_are_of(run: Run) -> None:
    printed = run("answer", "idle", "examples/gpu_training.json.gz")[1]
    words = " ".join(printed.split())
    assert 'span %: "idle" over "span", which is from the first to the last work' in words
    assert "kernel_wait: the usual delay between two kernels" in printed
    assert "other: " not in printed
    columns = ("--columns", "idle_ns,span_ns")
    assert "%" not in run("answer", "idle", "examples/gpu_training.json.gz", *columns)[1]
    printed = run("answer", "stragglers", "examples/job")[1]
    assert 'last %: "times last" over collectives; held up: what the job would gain' in printed


def test_means_of_ranks_keep_what_percentages_are_of(run: Run) -> None:
    printed = run("answer", "self_times", "examples/job", "--top", "2")[1]
    assert "\nself %: " in printed
    assert "\neach row is the mean of 4 ranks" in printed


def test_tables_of_the_first_screen_say_what_percentages_are_of(run: Run) -> None:
    tables = run("examples/serving.json.gz")[1].split("\n\n")[2:]
    wait = "host_wait: the device waited for the host: the next work was launched only after"
    with_shares = [table for table in tables if "%" in table.splitlines()[1]]
    assert len(with_shares) > 5
    assert all("%: " in " ".join(table.split()) for table in with_shares)
    assert sum("mixed: prefill and decode in one batch" in table for table in tables) == 1
    assert sum(wait in " ".join(table.split()) for table in tables) == 1


def test_words_of_an_answer_are_explained_below_its_rows_alone(run: Run) -> None:
    rows = pl.DataFrame({"cause": ["other"], "idle_ns": [1]})
    assert not [*footnotes(rows, {})]
    (note,) = footnotes(rows, {}, "idle")
    assert note[0] == "cause"
    assert note[1].startswith("other: launched before the gap, or its launch is not in the trace")
    means = pl.DataFrame({"mean_wait_ns": [1]})
    assert [name for name, _ in footnotes(means, {}, "stragglers")] == ["mean_wait_ns"]
    assert not [*footnotes(means, {}, "input_balance")]
    printed = run("sql", "examples/gpu_training.json.gz", "SELECT 'other' AS cause, 1 AS dur_ns")[1]
    assert "other:" not in printed


def test_annotations_of_the_user_are_on_the_first_screen(tmp_path: Path, run: Run) -> None:
    """Of six names the five with the most time; steps are in no row."""
    marks = [("ProfilerStep#1", 0, 900), *((f"part {n}", 100 * n, 10 + n) for n in range(6))]
    again = ("part 1", 800, 50)
    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": ts,
            "dur": dur,
        }
        for name, ts, dur in (*marks, again)
    ]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    printed = run(tmp_path / "a.json")[1]
    (table,) = (part for part in printed.split("\n\n") if part.startswith("Annotations"))
    lines = table.splitlines()
    assert lines[0] == "Annotations (top 5 of 6)"
    assert [re.split(r"\s{2,}", line) for line in lines[1:4]] == [
        ["name", "calls", "host", "max host"],
        ["part 1", "2", "61.000 us", "50.000 us"],
        ["part 5", "1", "15.000 us", "15.000 us"],
    ]
    assert "answer annotations -p per=call" in table


def test_annotations_without_device_work_are_sorted_by_their_time_on_the_host() -> None:
    """Times that are not known are not 0; a step and work in no annotation have no row."""
    rows = pl.DataFrame(
        {
            "run": "a",
            "rank": 0,
            "name": ["x", "x", "y", "on a device", "ProfilerStep#1", None],
            "calls": [1, 2, 1, 1, 1, None],
            "host_ns": [10, None, 30, None, 90, None],
            "max_host_ns": [10, None, 30, None, 90, None],
            "kernels": [0, 0, 0, None, 0, 1],
            "copies": [0, 0, 0, None, 0, 0],
            "device_ns": [0, 0, 0, None, 0, 7],
        }
    )
    host = [("y", 1, 30, 30), ("x", 3, 10, 10), ("on a device", 1, None, None)]
    assert sums_by_annotation(rows).drop("run", "rank").rows() == host
    with_work = rows.with_columns(device_ns=pl.Series([0, 5, 0, None, 0, 7]))
    assert sums_by_annotation(with_work).drop("run", "rank").rows() == [
        ("x", 3, 10, 10, 0, 0, 5),
        ("y", 1, 30, 30, 0, 0, 0),
        ("on a device", 1, None, None, None, None, None),
    ]


def test_steps_of_the_host_are_told_from_those_of_the_devices(run: Run) -> None:
    times = run("examples/gpu_training.json.gz")[1].split("\n\n")[2]
    assert times.splitlines()[1].split()[:3] == ["step", "span", "host"]
    said = " ".join(times.split())
    assert "span: of a step from the completion before it to its own, at the pace of the" in said
    assert "host: the slice ProfilerStep#N on the host, which may run ahead of the devices" in said
    printed = " ".join(run("answer", "step_times", "examples/gpu_training.json.gz")[1].split())
    assert "to its own, the pace of the devices where the host runs ahead; host: " in printed
    assert (
        "host: the slice ProfilerStep#N on the host, which may run ahead of the devices" in printed
    )


def test_values_that_are_no_texts_have_no_words(run: Run) -> None:
    assert not [*footnotes(pl.DataFrame({"cause": [["other"]]}), {}, "idle")]
    code, printed, error = run("sql", "examples/gpu_training.json.gz", "SELECT [1] AS phase")
    assert (code, error) == (0, "")
    assert "[1]" in printed


def test_a_row_without_a_name_and_calls_has_words() -> None:
    rows = pl.DataFrame({"name": ["forward", None], "calls": [1, 1], "device_ns": [2, 3]})
    assert not [*footnotes(rows, {}, "annotations")]
    outside = rows.with_columns(calls=pl.Series([1, None]))
    assert not [*footnotes(outside, {})]
    (note,) = footnotes(outside, {}, "annotations")
    assert note[0] == "name"
    assert note[1].startswith(
        "name: a row without one is work that was launched in no annotation, or"
    )


def test_a_note_on_a_column_that_is_not_shown_is_not_shown() -> None:
    rows = pl.DataFrame({"name": ["x" * 30, "y" * 30], "self_share": [0.5, 0.25]})
    notes = partial(footnotes, shares={"self_share": "of all"})
    assert "self %: of all" in text(ranking(rows, 2, 80, "", notes=notes), 80)
    assert "self %: of all" not in text(ranking(rows, 2, 24, "", notes=notes), 24)
    unknown = rows.with_columns(self_share=pl.lit(None, pl.Float64))
    assert "self %" not in text(ranking(unknown, 2, 80, "", notes=notes), 80)


def test_what_all_rows_have_is_called_as_in_the_notes() -> None:
    rows = pl.DataFrame({"name": ["x" * 30, "y" * 30], "idle_ns": [1, 1], "span_share": [0.5, 0.5]})
    notes = [("span_share", 'span %: "idle" over all')]
    assert "rows: idle=0.001 us, span %=50.0 %" in text(table(rows, 30, notes=notes), 80)
    assert "rows: idle_ns=0.001 us, span_share=50.0 %" in text(table(rows, 30), 80)


def test_a_word_below_the_rows_that_are_shown_has_no_note() -> None:
    rows = pl.DataFrame({"cause": ["sync", "other"], "idle_ns": [2, 1]})
    notes = partial(footnotes, shares={}, answer="idle")
    assert "other: " in text(ranking(rows, 2, 80, "", notes=notes), 80)
    assert "other: " not in text(ranking(rows, 1, 80, "", notes=notes), 80)


@pytest.mark.parametrize("answer", _SELECTS, ids=lambda answer: answer.name)
def test_every_percentage_of_an_answer_has_words_that_stand_alone(answer: Answer) -> None:
    docs = {column.name: column.doc for column in answer.columns}
    shares = {n for n in docs if (unit := unit_by_name(n)) is not None and unit.is_share}
    notes = of_shares(docs)
    assert {*notes} == shares
    assert all(notes.values())
    assert not [note for note in notes.values() if "_ns" in note or "NULL if" in note]
    before = re.compile(r"\b(these|both|the same|that part|there|it)\b")
    assert not [note for note in notes.values() if before.search(note)]


def test_verbs_with_tables_say_what_percentages_are_of(run: Run) -> None:
    gpu = "examples/gpu_training.json.gz"
    printed = run("roofline", gpu)[1]
    assert 'flop %: "flop rate" over its peak' in printed
    assert run("critical-path", gpu)[1].count("\n%: of the length of the path") == 2
    assert "\npart %: of all cost of its kind, late or transfer" in run("blame", "examples/job")[1]
    changes = run("diff", "examples/fp32.json.gz", "examples/bf16.json.gz")[1]
    assert "\ngrowth %: of the first side" in changes


def test_tables_of_a_trace_have_the_words_of_headers_by_their_names() -> None:
    rows = pl.DataFrame({"kernels_share": [0.5], "top_op_share": [0.5]})
    assert dict(Ranking("Kernels", rows, "kernels").notes(rows)) == {
        "kernels_share": 'kernels %: "total" over the time of all kernels of the run and rank',
        "top_op_share": 'top op %: part of "total" that "top op" launched',
    }
    rows = pl.DataFrame({"self_device_share": [0.5], "total_device_ns": [3]})
    assert dict(Ranking("Ops", rows, "key_averages").notes(rows)) == {
        "self_device_share": "self device %: of the time of all kernels, copies and fills",
        "total_device_ns": "total device: with what the op calls",
    }


def test_words_of_a_table_itself_come_before_those_of_the_header() -> None:
    rows = pl.DataFrame({"share": [0.5], "idle_share": [0.5]})
    ranking = Ranking("Idle", rows, "idle", words={"idle_share": "of the span"})
    assert dict(ranking.notes(rows)) == {
        "share": '%: "idle" over that of all causes but unrecorded, of the stream or device',
        "idle_share": "idle %: of the span",
    }
