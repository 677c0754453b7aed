"""The registry of analyses: what the source of a method says is what the method takes."""

from __future__ import annotations

import inspect
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import ParameterError, Trace, UnknownNameError
from profframe.query.analyses import Analysis, analyses, find, names
from profframe.query.catalogue import catalogue
from tests.conftest import Run
from tests.step_jobs import job

EXAMPLE = "examples/cpu_training.json.gz"
NOT_TEXTS = {
    "diff": {"base", "other", "names"},
    "explain": {"base", "other"},
    "what_if": {"kernels", "categories", "devices"},
}
"""Parameters that no text can give: sides, and mappings."""


def found(name: str) -> Analysis:
    analysis = find(name)
    assert analysis is not None
    return analysis


@pytest.mark.parametrize("analysis", analyses(), ids=lambda one: one.name)
def test_it_is_what_the_method_says(analysis: Analysis) -> None:
    method = getattr(Trace, analysis.name, None) or getattr(profframe, analysis.name)
    taken = {
        name: None if one.default is inspect.Parameter.empty else one.default
        for name, one in inspect.signature(method).parameters.items()
        if name not in {"self", "each", "on", *NOT_TEXTS.get(analysis.name, ())}
    }
    assert {one.name: one.default for one in analysis.parameters} == taken
    assert all(one.doc for one in analysis.parameters)
    text = inspect.getdoc(method) or ""
    assert analysis.sentence == " ".join(text.partition("\n\n")[0].split())


def test_names_are_those_of_no_answer() -> None:
    assert {*names()}.isdisjoint(one.name for one in catalogue())
    listed = profframe.answers()
    assert listed["name"].is_sorted()
    assert listed["name"].is_unique().all()
    rows = listed.filter(kind="analysis").select("name", "sentence").rows()
    assert rows == [(one.name, one.sentence) for one in analyses()]


@pytest.mark.parametrize(
    ("name", "values", "arguments"),
    [
        (
            "critical_path",
            {"across_ranks": "True", "step": "1"},
            {"across_ranks": True, "step": (1,)},
        ),
        ("critical_path", {"across_ranks": False, "run": "3"}, {"across_ranks": False, "run": "3"}),
        ("what_if", {"host": "0.5", "latency_us": 3}, {"host": 0.5, "latency_us": 3}),
    ],
)
def test_arguments(name: str, values: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert found(name).arguments(values) == arguments


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("trend", {"per_step": "1.5"}, "parameter 'per_step' is a whole number, not '1.5'"),
        ("trend", {"per_step": True}, "parameter 'per_step' is a whole number, not True"),
        ("blame", {"corrected": "yes"}, "parameter 'corrected' is true or false, not 'yes'"),
        ("blame", {"per": 3}, "parameter 'per' is a text, not 3"),
        ("what_if", {"host": "half"}, "parameter 'host' is a number, not 'half'"),
        ("regressions", {}, "regressions: give baseline: Names or patterns"),
    ],
)
def test_wrong_values(name: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError) as error:
        found(name).arguments(values)
    assert str(error.value).startswith(words)


def test_an_unknown_parameter_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'across_ranks'"):
        found("critical_path").arguments({"across_rank": True})


def test_an_answer_of_this_name_names_the_method() -> None:
    with pytest.raises(UnknownNameError, match=r"it is Trace\.blame\(\), which has no SQL"):
        Trace.answer(job(ranks=1), "blame")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job of several ranks; one is late."""
    path = tmp_path_factory.mktemp("ranks")
    job(late={(2, 1): 500_000}).to_parquet(path)
    return str(path)


class TestCommandLine:
    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            ("critical_path", {"across_ranks": "true", "step": "2"}),
            ("blame", {"corrected": "false"}),
            ("dependencies", {}),
            ("what_if", {"host": "0.5"}),
        ],
    )
    def test_its_rows_are_the_methods(
        self, run: Run, store: str, name: str, parameters: dict[str, str]
    ) -> None:
        words = [word for key, value in parameters.items() for word in ("-p", f"{key}={value}")]
        code, out, err = run("answer", name, store, *words, "--format", "csv")
        assert code == 0, err
        result = getattr(profframe.load(store), name)(**found(name).arguments(parameters))
        rows = result.events if name == "critical_path" else result
        assert len(out.splitlines()) == rows.height + 1
        assert out.splitlines()[0].split(",") == rows.columns

    def test_alone_it_lists_its_parameters(self, run: Run) -> None:
        out = run("answer", "critical_path", "--format", "json")[1]
        names_of = pl.read_json(out.encode()).filter(what="parameter")["name"].to_list()
        own = [one.name for one in found("critical_path").parameters]
        assert names_of == [*own, "sort", "top", "columns"]

    def test_a_verb_is_named(self, run: Run) -> None:
        code, _, err = run("answer", "tree", EXAMPLE)
        assert code == 2
        assert "tree is a verb, not an answer; try: profframe tree" in err

    def test_what_is_wrong_is_said_before_a_trace_is_read(self, run: Run) -> None:
        code, _, err = run("answer", "trend", "nowhere.json", "-p", "per_steps=1")
        assert code == 2
        assert "did you mean 'per_step'" in err
