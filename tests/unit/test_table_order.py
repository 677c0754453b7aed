"""Order of tables for people, where it is not that of the rows: the largest first."""

from __future__ import annotations

import csv
import io
from typing import Final

import pytest

from profframe import load
from profframe.errors import AnswerError
from profframe.query.header import parse
from tests.conftest import Run

GPU: Final = "examples/gpu_training.json.gz"
CPU: Final = "examples/cpu_training.json.gz"
JOB: Final = "examples/job"
HEADER: Final = """-- mine: a sentence.
-- One row per run.
-- needs: events
-- main columns: run
-- tables by: {}
-- run VARCHAR  run
SELECT run FROM events ORDER BY run
"""


def names(run: Run, *options: str) -> list[str]:
    """The first names of the table."""
    code, printed, _ = run("answer", "key_averages", *options, "--columns", "name", "--full-names")
    assert code == 0
    return printed.splitlines()[1:]


@pytest.mark.parametrize(("source", "by"), [(GPU, "self_device_ns"), (CPU, "self_cpu_ns")])
def test_averages_begin_with_the_most_self_time(source: str, by: str, run: Run) -> None:
    rows = load(source).key_averages().sort(by, descending=True, maintain_order=True)
    assert names(run, source, "--top", "4") == rows["name"].head(4).to_list()


def test_an_order_that_is_named_stays(run: Run) -> None:
    rows = load(GPU).key_averages().sort("calls", descending=True, maintain_order=True)
    shown = names(run, GPU, "--sort", "calls", "--top", "4")
    assert shown == rows["name"].head(4).to_list()


def test_programs_get_the_order_of_torch(run: Run) -> None:
    first = load(GPU).key_averages()["name"].to_list()
    printed = run("answer", "key_averages", GPU, "--format", "csv")[1]
    assert [row["name"] for row in csv.DictReader(io.StringIO(printed))] == first
    assert "ORDER BY keys.run" in run("answer", "key_averages", "--sql")[1]
    assert "self_device_ns" in run("answer", "key_averages", GPU, "-p", "per=all", "--sql")[1]


def test_ranks_have_means(run: Run) -> None:
    printed = run("answer", "key_averages", JOB, "--top", "2")[1]
    assert "each row is the mean of 4 ranks" in printed
    assert printed.splitlines()[1].startswith("aten::mm ")


def test_a_header_names_columns() -> None:
    assert parse(HEADER.format("run"), "mine").tables_by == ("run",)
    with pytest.raises(AnswerError, match=r"mine.sql, line 5: self_ns in '-- tables by:' is no"):
        parse(HEADER.format("self_ns"), "mine")


def test_annotations_begin_with_the_most_device_time(run: Run) -> None:
    given = ("answer", "annotations", GPU, "--columns", "step,name,kernels,copies")
    heading, *shown = run(*given)[1].splitlines()
    assert heading.split() == ["step", "name", "kernels", "copies"]
    assert [line.split() for line in shown[:3]] == [
        [step, f"ProfilerStep#{step}", "179", "3"] for step in ("2", "3", "1")
    ]
    by_step = csv.DictReader(io.StringIO(run(*given, "--format", "csv")[1]))
    steps = [int(row["step"]) for row in by_step if row["step"]]
    assert steps == sorted(steps)
