"""`python_lines` and `idle` that go into libraries, in Python and on the command line."""

from __future__ import annotations

import pytest

from profframe import load
from profframe.cli.next_commands import typed
from profframe.cli.rankings import Ranking
from profframe.errors import ParameterError
from profframe.show import compact_tables, terminal
from profframe.trace.libraries import absent_library
from tests.builders import event, loaded
from tests.conftest import ROOT, Run

STACKS = ROOT / "examples" / "cpu_training_stack.json.gz"
ONE_LINE = ROOT / "examples" / "gpu_training.json.gz"
LINES = ROOT / "examples" / "job" / "rank2.json.gz"
NOTE = "note: one line has nearly all the time"


def test_the_time_is_the_same_and_has_other_names() -> None:
    with load(STACKS).session() as trace:
        own, of_torch, of_all = (trace.python_lines(into=into) for into in ("none", "torch", "all"))
        assert own.equals(trace.python_lines())
        sums = {rows["self_ns"].sum() for rows in (own, of_torch)}
        assert len(sums) == 1
        assert own["self_ns"].sum() <= of_all["self_ns"].sum()
    assert own.height < of_torch.height < of_all.height
    names = {*of_torch["name"]} - {*own["name"]}
    assert all(name.startswith("torch/") for name in names)
    assert "torch/nn/functional.py(1467): dropout" in names


def test_a_library_is_a_text() -> None:
    with pytest.raises(ParameterError, match="into"):
        load(STACKS).python_lines(into=3)  # type: ignore[arg-type]


def test_idle_time_is_the_same_with_libraries() -> None:
    with load(LINES).session() as trace:
        own, of_all = (trace.idle(by="line", into=into) for into in ("none", "all"))
    assert own["idle_ns"].sum() == of_all["idle_ns"].sum()
    with pytest.raises(ParameterError, match="into"):
        load(LINES).idle(into="all")
    with pytest.raises(ParameterError, match="into can be given only with by=line, not by=op"):
        load(LINES).idle(by="op", into="all")


def test_no_library_can_be_named_with_other_groups() -> None:
    with load(LINES).session() as trace:
        assert trace.idle(by="op", into="none").equals(trace.idle(by="op"))


@pytest.mark.parametrize(
    ("path", "arguments", "has_note"),
    [
        (ONE_LINE, (), True),
        (ONE_LINE, ("-p", "into=all"), False),
        (ONE_LINE, ("--into", "all"), False),
        (ONE_LINE, ("--format", "csv"), False),
        (ONE_LINE, ("--columns", "name"), True),
        (ONE_LINE, ("-p", "columns=name"), True),
        (LINES, (), False),
    ],
)
def test_one_line_with_all_time_has_a_note(
    run: Run, path: object, arguments: tuple[str, ...], has_note: bool
) -> None:
    code, _, error = run("answer", "python_lines", path, *arguments)
    assert code == 0
    assert error.startswith(NOTE) == has_note
    assert bool(error) == has_note


def test_the_command_line_takes_a_library(run: Run) -> None:
    arguments = ("answer", "python_lines", STACKS, "--format", "csv")
    option = run(*arguments, "--into", "torch")
    assert option == run(*arguments, "-p", "into=torch")
    assert option[0] == 0
    assert "torch/autograd/graph.py" in option[1]
    code, printed, _ = run(
        "answer", "idle", ONE_LINE, "-p", "by=line", "--into", "torch", "--format", "csv"
    )
    assert code == 0
    assert "torch/utils/data/_utils/collate.py(389): default_collate" in printed


def test_show_has_idle_time_by_lines_of_a_library(run: Run) -> None:
    code, printed, error = run(ONE_LINE, "--into", "torch")
    assert (code, error) == (0, "")
    table = printed.partition("Idle time by line, into torch\n")[2].partition("\n\n")[0]
    assert "torch/utils/data/_utils/collate.py(389): default_collate" in table
    assert table.partition("\n%: ")[0].endswith("(no line)")
    assert "into" not in run(ONE_LINE)[1]
    code, _, error = run(STACKS, "--into", "torch")
    assert code == 0
    assert error.startswith("warning: --into: no device work")


def test_show_proposes_a_command_that_a_shell_reads() -> None:
    library = "my $(rm) lib\x1b[31m"
    with load(ONE_LINE).session() as trace:
        lines = compact_tables.owners(trace.idle(by="line", into=library), "(no line)")
    parameters = {"by": "line", "into": library}
    ranking = Ranking("Idle time", lines, "idle", parameters=parameters)
    printed = terminal.text(ranking.part(5, 40, typed([], {}, [], 40)), 40)
    assert "\x1b" not in printed
    line = " ".join(printed.replace("\\\n", " ").split())
    assert r"profframe answer idle -p by=line -p $'into=my $(rm) lib\x1b[31m'" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("answer", "gaps", ONE_LINE), "gaps has no rows by line of code"),
        (("answer", "critical_path", ONE_LINE), "these have: idle, python_lines"),
        (("answer", "idle", ONE_LINE), "into can be given only with by=line ("),
        (("answer", "idle", ONE_LINE, "-p", "by=op"), "by=line, not by=op"),
        (("answer", "python_lines", ONE_LINE, "-p", "into=all"), "give only one"),
        (("show", ONE_LINE, "--format", "csv"), "only the tables of the terminal"),
        (("show", ONE_LINE, "--budget", "500"), "only the tables of the terminal"),
        (("advice", ONE_LINE), "--into"),
    ],
)
def test_a_library_is_refused_without_lines(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    code, _, error = run(*arguments, "--into", "torch")
    assert code == 2
    assert message in error


FRAMES = (
    ("main.py(3): train", 0, 90),
    ("/x/site-packages/PIL/Image.py(9): open", 5, 30),
    ("torch/utils/data/_utils/fetch.py(50): fetch", 35, 60),
    ("<built-in method torchvision>", 36, 40),
)


@pytest.mark.parametrize(
    ("into", "absent"),
    [
        ("none", None), ("all", None), ("PIL", None), ("PIL/Image", None),
        ("torch/utils/data", None),
        ("pil", "no frame is of a folder or module 'pil'; did you mean 'PIL'?"),
        ("torch/dat", "no frame is of a folder or module 'torch/dat'; did you mean 'data'?"),
        ("torchvision", "no frame is of a folder or module 'torchvision'; did you mean 'torch'?"),
        ("zlib", "no frame is of a folder or module 'zlib'"),
        ("Image.py", "no frame is of a folder or module 'Image.py'; did you mean 'Image'?"),
    ],
)  # fmt: skip
def test_a_library_without_frames_is_named_with_its_like(into: str, absent: str | None) -> None:
    rows = (event(*frame, category="python_function") for frame in FRAMES)
    assert absent_library(loaded(*rows), into) == absent


def test_libraries_in_stacks_of_ops() -> None:
    trace = loaded(event("aten::mm", 0, 9, stack="torch/nn/linear.py(5): forward;a.py(1): f"))
    assert absent_library(trace, "torch/nn") is None
    assert absent_library(trace, "zlib") == "no frame is of a folder or module 'zlib'"
    assert absent_library(loaded(event("aten::mm", 0, 9)), "zlib") is None


@pytest.mark.parametrize(
    "arguments", [("answer", "python_lines"), ("answer", "idle", "-p", "by=line"), ()]
)
def test_the_command_line_warns_of_an_unknown_library(run: Run, arguments: tuple[str, ...]) -> None:
    code, _, error = run(*arguments, ONE_LINE, "--into", "torhc")
    assert code == 0
    expected = "warning: --into: no frame is of a folder or module 'torhc'; did you mean 'torch'?\n"
    assert error.startswith(expected)
