"""A part of a trace is chosen in one way, at every verb and in every method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.cli.verbs import verbs
from profframe.errors import ParameterError
from tests.conftest import Run

JOB = "examples/job"
CHOICES = ["--run", "--rank", "--step", "--phase"]
PARTS = (
    "show", "info", "answer", "sql", "advice", "roofline", "report", "export", "tree",
    "critical-path", "blame", "what-if", "augment",
)  # fmt: skip
"""Verbs that look at one trace."""
NOT_OF_A_PART = {"diff", "explain", "check", "hang", "ask", "cache", "convert", "store"}
"""Verbs that compare whole traces, or write, keep or serve them."""


@pytest.fixture(scope="module")
def job() -> Trace:
    return profframe.load(JOB)


def rows(run: Run, *words: str) -> pl.DataFrame:
    code, out, err = run(*words, "--format", "json")
    assert (code, err) == (0, ""), err
    return pl.DataFrame(json.loads(out), infer_schema_length=None)


def test_every_verb_that_looks_at_a_trace_has_the_same_options() -> None:
    assert {*PARTS} | NOT_OF_A_PART == {*verbs.commands}
    shown = [
        [(p.opts, p.help, p.multiple) for p in verbs.commands[name].params if p.opts[0] in CHOICES]
        for name in PARTS
    ]
    assert all([opts[0] for opts, _, _ in options] == CHOICES for options in shown)
    assert all(options == shown[0] for options in shown)
    for name in NOT_OF_A_PART:
        assert not {"--rank", "--step", "--phase"} & {
            o for p in verbs.commands[name].params for o in p.opts
        }


@pytest.mark.parametrize("written", [["0,2-3"], ["0", "--rank", "2-3"], ["3", "--rank", "0,2"]])
def test_ranks_are_named_in_one_option_or_several(written: list[str], run: Run) -> None:
    counted = rows(
        run, "sql", JOB, "SELECT DISTINCT rank FROM events ORDER BY 1", "--rank", *written
    )
    assert counted["rank"].to_list() == [0, 2, 3]


@pytest.mark.parametrize("steps", [2, "2", [2], "2-3", range(2, 4), [2, 3], "2,3"])
def test_a_method_takes_steps_in_any_form(steps: int | str | Sequence[int], job: Trace) -> None:
    expected = {2} if steps in (2, "2", [2]) else {2, 3}
    part = job.filter(steps=steps, ranks="0-1")
    assert {*part.events["step"].drop_nulls()} == expected
    assert {*part.traces["rank"]} == {0, 1}
    if len(expected) == 1:
        assert job.critical_path(steps, rank="1").step == 2
        assert job.what_if(steps, host=1).height
    else:
        for ask in (job.critical_path, job.what_if, job.what_if_grid):
            with pytest.raises(ParameterError, match="step: only one, not 2-3"):
                ask(steps)


@pytest.mark.parametrize("text", ["x", "", "1-", "2,", "1:2"])
def test_a_text_that_is_no_number(text: str, job: Trace) -> None:
    with pytest.raises(
        ParameterError, match=r"ranks: .* is neither a number nor a range such as 0-63"
    ):
        job.filter(ranks=text)


def test_blame_of_several_steps_is_the_sum_of_each(run: Run, job: Trace) -> None:
    keys = ["run", "rank", "part", "cause"]
    alone = pl.concat(pl.DataFrame(job.blame("cause", step=step)) for step in (2, 3))
    both = pl.DataFrame(job.blame("cause", step="2-3"))
    summed = alone.group_by(keys).agg(pl.col("cost_ns").sum()).filter(pl.col("cost_ns") != 0)
    assert both.select(*keys, "cost_ns").sort(keys).equals(summed.sort(keys))
    assert {*both["steps"]} == {2}
    shown = rows(run, "blame", JOB, "--per", "cause", "--step", "2-3", "--top", "99")
    assert shown["cost_ns"].to_list() == both["cost_ns"].to_list()
    asked = rows(run, "answer", "blame", JOB, "-p", "per=cause", "--step", "2-3")
    assert asked["cost_ns"].to_list() == both["cost_ns"].to_list()


def test_a_path_for_each_step_and_rank(run: Run, job: Trace) -> None:
    shown = rows(run, "critical-path", JOB, "--rank", "1-2", "--step", "2-9", "--top", "100000")
    for (rank, step), part in shown.group_by("rank", "step"):
        events = job.critical_path(step, rank=rank).events
        assert part.drop("step").equals(pl.DataFrame(events.to_dicts(), infer_schema_length=None))
    assert sorted(shown.select("rank", "step").unique().rows()) == [
        (rank, step) for rank in (1, 2) for step in (2, 3, 4)
    ]
    assert (
        run("critical-path", JOB, "--rank", "1-2", "--step", "2")[1].count("Critical path of") == 2
    )


def test_predictions_for_each_step(run: Run, job: Trace) -> None:
    shown = rows(run, "what-if", JOB, "--step", "2,4", "--host", "0.5")
    assert shown["step"].to_list() == [2, 2, 4, 4]
    for step in (2, 4):
        expected = job.what_if(step, host=0.5)["predicted_ns"].to_list()
        assert shown.filter(step=step)["predicted_ns"].to_list() == expected
    assert "step" not in rows(run, "what-if", JOB, "--step", "2", "--host", "0.5").columns


def test_a_tree_for_each_rank(run: Run, job: Trace) -> None:
    _, out, _ = run("tree", JOB, "--rank", "0-1", "--top", "3")
    assert out.startswith("rank 0\n")
    assert out.partition("\nrank 1\n")[2] == f"{job.tree(rank=1, top=3)}\n"
    assert (
        rows(run, "tree", JOB, "--rank", "0-1", "--top", "3")["rank"].to_list() == [0] * 3 + [1] * 3
    )
    step = run("tree", JOB, "--rank", "1", "--step", "2", "--top", "3")[1]
    assert step == f"{job.filter(ranks=1, steps=2).tree(top=3)}\n"


def test_a_report_and_an_augmented_trace_of_a_part(run: Run, tmp_path: Path) -> None:
    page, file = tmp_path / "page.html", tmp_path / "out.json"
    assert run("report", JOB, "--rank", "1", "--step", "2", "--section", "time", "-o", page)[0] == 0
    assert "ProfilerStep#3" not in page.read_text()
    assert run("augment", JOB, file, "--rank", "1", "--step", "2")[0] == 0
    assert {*profframe.load(file).events["step"].drop_nulls()} == {2}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["augment", JOB, "{tmp}/o.json", "--rank", "0-1"], "choose a run and a rank"),
        (
            ["critical-path", JOB, "--rank", "0-1", "--overlay", "{tmp}/o.json"],
            "--overlay marks one",
        ),
        (["critical-path", JOB, "--step", "9", "--rank", "0"], "no step 9 (known: 1-4)"),
        (["blame", JOB, "--step", "8-9"], "no step from 8 to 9 (known: 1-4)"),
        (["answer", "blame", JOB, "--step", "9"], "no step 9 (known: 1-4)"),
        (["answer", "blame", JOB, "-p", "step=1,9"], "no step 9 (known: 1-4)"),
        (["tree", JOB, "--rank", "2-0"], "'2-0' ends before it begins"),
        (["sql", JOB, "SELECT 1", "--rank", "7"], "no rank 7 (known: 0-3)"),
        (["info", JOB, "--run", "x"], "no run named 'x'"),
        (
            ["answer", "critical_path", JOB, "--rank", "0", "--step", "1-2"],
            "step: only one, not 1-2",
        ),
    ],
)
def test_a_part_that_cannot_be(words: list[str], message: str, run: Run, tmp_path: Path) -> None:
    code, out, err = run(*(word.format(tmp=tmp_path) for word in words))
    assert code in {1, 2}
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not [*tmp_path.iterdir()]
