"""Runs of one name are told apart by the shortest end of their path."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from profframe import load
from profframe.show.run_paths import note_of_paths, run_paths
from tests.conftest import Run
from tests.unit.test_opening import written


@pytest.fixture
def both(tmp_path: Path) -> list[Path]:
    for name in ("h100", "mi300"):
        (tmp_path / name).mkdir()
        written(tmp_path / name)
    return [tmp_path / name / "trace.json" for name in ("h100", "mi300")]


def test_the_first_screen_has_the_files_of_runs_of_one_name(both: list[Path], run: Run) -> None:
    printed = run(*both)[1]
    rows = [line.split() for line in printed.partition("\nOverview")[2].splitlines()[2:4]]
    assert {row[0]: row[2] for row in rows} == {
        "trace": "h100/trace.json",
        "trace.1": "mi300/trace.json",
    }
    assert "mi300/trace.json" not in run(both[1])[1].partition("\nOverview")[2]


def test_answers_say_where_runs_of_one_name_are_from(both: list[Path], run: Run) -> None:
    printed = run("answer", "overview", *both)[1]
    assert printed.endswith("\ntrace is h100/trace.json; trace.1 is mi300/trace.json\n")
    rows = json.loads(run("answer", "overview", *both, "--format", "json")[1])
    assert [row["run"] for row in rows] == ["trace", "trace.1"]
    assert "'trace.1' (rank 0, mi300/trace.json)" in str(load(both))


def test_names_that_differ_need_no_paths(tmp_path: Path, run: Run) -> None:
    (tmp_path / "b").mkdir()
    paths = [written(tmp_path), written(tmp_path / "b").rename(tmp_path / "b" / "other.json")]
    assert " is " not in run("answer", "overview", *paths)[1].splitlines()[-1]
    assert "file" not in run(*paths)[1].partition("\nOverview")[2].splitlines()[1]


def test_numbers_in_names_of_files_are_not_numbers_of_runs() -> None:
    rows = pl.DataFrame({"run": ["a.1", "b"], "source": ["/x/a.1.json", "/x/b.json"]})
    assert not run_paths(rows)


def test_a_number_of_a_file_is_none_beside_the_file_without_it() -> None:
    runs = ["net", "net.2", "net.10", "net.1"]
    source = [*(f"/x/{run}.json" for run in runs[:3]), "/y/net.json"]
    paths = run_paths(pl.DataFrame({"run": runs, "source": source}))
    assert paths == {"net": "x/net.json", "net.1": "y/net.json"}


def test_a_note_about_many_runs_names_some() -> None:
    runs = ["t", *(f"t.{number}" for number in range(1, 30))]
    traces = pl.DataFrame({"run": runs, "source": [f"/x/{run}/t.json" for run in runs]})
    note = note_of_paths(traces, traces)
    assert note.startswith("t is t/t.json; t.1 is t.1/t.json; ")
    assert note.count(" is ") == 6
    assert note.endswith('; 24 more by profframe sql TRACE "SELECT run, source FROM traces"')
