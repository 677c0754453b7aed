"""Words of earlier releases still work, and say which word replaced them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import profframe
from profframe.cli.verbs import verbs
from profframe.errors import ParameterError
from profframe.query import renamed
from profframe.query.catalogue import catalogue
from profframe.schema import TABLES
from profframe.server import tools
from tests.conftest import Run
from tests.members import few

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


@pytest.fixture(scope="module")
def cpu() -> Iterator[profframe.Trace]:
    """The example of the host; what was asked once is not computed again."""
    with profframe.load(CPU).session() as trace:
        yield trace


@pytest.mark.parametrize("old", [*renamed.ANSWERS])
def test_an_old_answer_works_with_a_warning(old: str, cpu: profframe.Trace) -> None:
    new, chosen = renamed.ANSWERS[old]
    with pytest.warns(FutureWarning, match=f"{old} is now called {new}") as caught:
        rows = cpu.answer(old, top=3)
    assert Path(caught[0].filename) == Path(__file__)
    assert rows.equals(cpu.answer(new, top=3, **chosen))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert getattr(cpu, old)(top=3).equals(rows)


@pytest.mark.parametrize("old", few(renamed.ANSWERS, 3))
def test_an_old_answer_works_on_the_command_line(old: str, run: Run) -> None:
    new, chosen = renamed.ANSWERS[old]
    code, out, err = run("answer", old, CPU, "--top", "3", "--format", "json")
    assert (code, err.count("warning: "), err.count(f"{old} is now called")) == (0, 1, 1)
    values = [word for name, value in chosen.items() for word in ("-p", f"{name}={value}")]
    assert run("answer", new, CPU, "--top", "3", "--format", "json", *values)[1] == out


def test_old_names_are_no_names_any_more() -> None:
    names = {*profframe.answers()["name"]}
    assert not names & renamed.ANSWERS.keys()
    assert {new for new, _ in renamed.ANSWERS.values()} <= names


def test_arguments_without_a_name_are_those_that_they_were() -> None:
    trace = profframe.load(CPU)
    with pytest.warns(FutureWarning, match="unfreed is now"):
        assert trace.unfreed(2).equals(trace.memory_peak(per="block", top=2))  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="unfreed: takes at most 1 arguments"):
        trace.unfreed(2, 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize("old", [*renamed.METHODS])
def test_an_old_method_works_with_a_warning(old: str) -> None:
    trace, new = profframe.load(CPU), renamed.METHODS[old]
    with pytest.warns(FutureWarning, match=f"Trace: {old} is now called {new}") as caught:
        method = getattr(trace, old)
    assert Path(caught[0].filename) == Path(__file__)
    assert method == getattr(trace, new)
    assert old not in dir(trace)


def test_old_columns_exist_no_more_and_work_with_a_warning(run: Run) -> None:
    columns = {name: {c.name for c in table} for name, table in TABLES.items()}
    columns |= {answer.name: {c.name for c in answer.columns} for answer in catalogue()}
    for name, words in renamed.COLUMNS.items():
        assert columns[name] >= {*words.values()}, name
        assert not columns[name] & words.keys(), name
    trace = profframe.load(CPU)
    with pytest.warns(FutureWarning, match="kernels: fuses is now called fused_ops"):
        assert trace.kernels(columns=["name", "fuses"]).columns == ["name", "fused_ops"]
    with pytest.warns(FutureWarning, match="kernels: does_both is now called is_mixed"):
        trace.kernels(sort="name,-does_both")
    code, out, err = run("answer", "kernels", CPU, "--columns", "fuses", "--format", "csv")
    assert (code, out) == (0, "fused_ops\n")
    assert err.startswith("warning: kernels: fuses is now called fused_ops\n")


def test_tools_for_programs_take_old_answers() -> None:
    with profframe.load(CPU).session() as trace:
        result = tools.answer(tools.Subject(trace, trace, 9), "steps", {"top": 1})
    assert result.notes[0] == "steps is now called step_times"


def test_an_old_answer_is_a_track(tmp_path: Path, run: Run) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    assert run("export", CPU, "--track", "steps", "-o", old) == (
        (0, "", f"warning: steps is now called step_times\n{old}: written\n")
    )
    assert run("export", CPU, "--track", "step_times", "-o", new)[0] == 0
    counters = [profframe.load(path, run="r").counters for path in (old, new)]
    values = [rows.filter(rows["category"] == "profframe")["value"] for rows in counters]
    assert values[0].len() > 0
    assert values[0].equals(values[1])


def test_quality_can_be_asked_without_quotes() -> None:
    assert profframe.load(CPU).sql("SELECT issue FROM quality").columns == ["issue"]


@pytest.mark.parametrize("column", ['"check"', "q.check"])
def test_sql_with_an_old_column_says_the_new_one(column: str, run: Run) -> None:
    code, _, err = run("sql", CPU, f"SELECT {column} FROM quality AS q")
    assert code == 2
    assert "column 'check' is now called 'issue'; try: profframe sql" in err
    assert 'issue" FROM quality AS q' in err or "issue FROM quality AS q" in err


@pytest.mark.parametrize("column", ['"check"', "e.check"])
def test_a_column_that_another_table_has_renamed(column: str, run: Run) -> None:
    code, _, err = run("sql", CPU, f"SELECT {column} FROM events AS e")
    assert (code, "issue" in err, "try:" in err) == (1, False, False)


def test_another_mistake_beside_an_old_answer_is_what_is_told(run: Run) -> None:
    code, _, err = run("answer", "hang_sides", CPU, "-p", "tpo=3")
    assert code == 2
    assert "no parameter named 'tpo'; did you mean 'top'" in err


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
