"""Words of earlier releases still work, and say which word replaced them."""

from __future__ import annotations

import inspect
from pathlib import Path

import click
import pytest

import profframe
from profframe.cli.verbs import verbs
from profframe.errors import ParameterError
from profframe.query import renamed
from profframe.query.catalogue import catalogue
from tests.conftest import Run

CPU = "examples/cpu_training.json.gz"
GPU = "examples/gpu_training.json.gz"
OWN = """\
-- kernels: what is given.
-- One row per trace.
-- needs: events
-- parameter by VARCHAR = a  a text
-- word VARCHAR  the text
SELECT coalesce(getvariable('by'), 'a') AS word ORDER BY 1
"""


def _verb(name: str) -> click.Command:
    group: click.Command = verbs
    for word in name.split(" "):
        assert isinstance(group, click.Group)
        group = group.commands[word]
    return group


def test_new_options_exist_and_old_ones_do_not() -> None:
    for name, words in renamed.OPTIONS.items():
        options = {opt for option in _verb(name).params for opt in option.opts}
        assert options >= {*words.values()}, name
        assert not options & words.keys(), name


def test_new_parameters_exist_and_old_ones_do_not() -> None:
    answers = {answer.name: {p.name for p in answer.parameters} for answer in catalogue()}
    for name, words in renamed.PARAMETERS.items():
        method = getattr(profframe.Trace, name, None) or getattr(profframe, name)
        for names in (answers.get(name), {*inspect.signature(method).parameters}):
            if names is not None:
                assert names >= {*words.values()}, name
                assert not names & words.keys(), name


def test_an_old_parameter_works_with_a_warning() -> None:
    trace = profframe.load(CPU)
    with pytest.warns(FutureWarning, match="tree: row_limit is now called top") as caught:
        old = trace.tree(row_limit=3)  # type: ignore[call-arg]
    assert Path(caught[0].filename) == Path(__file__)
    assert old == trace.tree(top=3)


def test_an_old_parameter_beside_its_new_name_is_an_error() -> None:
    with pytest.raises(ParameterError, match="takes no argument 'row_limit'"):
        profframe.load(CPU).tree(row_limit=3, top=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("old", [["--rows", "3"], ["--rows=3"]])
def test_an_old_option_works_with_a_warning(old: list[str], run: Run) -> None:
    code, out, err = run("tree", CPU, *old)
    assert (code, err) == (0, "warning: tree: --rows is now called --top\n")
    assert run("tree", CPU, "--top", "3") == (0, out, "")


def test_what_follows_two_dashes_is_no_option(run: Run) -> None:
    code, _, err = run("tree", "--", "--rows", "3")
    assert code == 1
    assert "is now called" not in err


def test_an_old_parameter_of_an_answer(run: Run) -> None:
    trace = profframe.load(GPU)
    with pytest.warns(FutureWarning, match="kernels: by is now called per"):
        old = trace.answer("kernels", by="category")
    assert old.equals(trace.kernels(per="category"))
    words = ["answer", "kernels", GPU, "-p"]
    code, out, err = run(*words, "by=category")
    assert (code, err) == (0, "warning: kernels: by is now called per\n")
    assert run(*words, "per=category") == (0, out, "")


def test_your_own_answer_keeps_its_words(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "kernels.sql"
    file.write_text(OWN)
    assert profframe.load(GPU).answer(file, by="b")["word"].item() == "b"
    assert run("answer", file, GPU, "-p", "by=b", "--format", "json") == (0, '[{"word":"b"}]\n', "")
