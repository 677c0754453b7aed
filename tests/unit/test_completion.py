"""What shells complete, and what it takes to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, CompletionItem

import profframe
from profframe.cli.reports import SECTIONS
from profframe.cli.verbs import HELP_ORDER, verbs
from tests.conftest import ROOT

HEAVY = ("duckdb", "numpy", "polars", "pyarrow", "rich")


def items(*words: str) -> list[CompletionItem]:
    """What the last word may become."""
    *before, incomplete = words
    shell = BashComplete(verbs, {}, "profframe", "_PROFFRAME_COMPLETE")
    return shell.get_completions([*before], incomplete)


def values(*words: str) -> list[str]:
    return [str(item.value) for item in items(*words) if item.type == "plain"]


def is_file(*words: str) -> bool:
    return [item.type for item in items(*words)][:1] == ["file"]


def test_verbs_come_in_the_order_of_the_help_and_files_may_stand_there_too() -> None:
    order = [name for names in HELP_ORDER.values() for name in names]
    assert values("") == order
    assert sorted(order) == sorted(verbs.commands)
    assert values("cr") == ["critical-path"]
    assert is_file("")
    assert values("--v") == ["--version"]
    assert not is_file("--v")


def test_names_of_answers_are_completed_in_both_places() -> None:
    names = {*profframe.answers()["name"]} - {"diff", "explain", "tree"}
    assert {*values("answer", "")} == names
    assert values("answer", "kernel_c") == ["kernel_categories"]
    assert values("answer", "trace.json", "kernel_c") == ["kernel_categories"]
    assert is_file("answer", "kernels", "")
    assert values("answer", "kernels", "") == []
    (item,) = [item for item in items("answer", "launches") if item.type == "plain"]
    assert item.help
    assert all(item.help for item in items("answer", "") if item.type == "plain")


def test_parameters_have_their_values() -> None:
    asked = values("answer", "idle", "trace.json", "-p", "")
    assert asked[:3] == ["per=stream", "per=device", "kernel_wait_ns="]
    assert asked[3:5] == ["by=cause", "by=line"]
    assert values("answer", "trace.json", "idle", "-p", "k") == ["kernel_wait_ns="]
    assert values("answer", "-p", "") == []
    assert values("answer", "critical_path", "trace.json", "-p", "a") == [
        "annotation=", "across_ranks="
    ]  # fmt: skip
    assert "data_loading_share=" in values("advice", "trace.json", "-p", "data")


def test_columns_are_completed_behind_those_that_are_named() -> None:
    assert values("answer", "gaps", "t.json", "--columns", "run,ra") == ["run,rank"]
    assert "run" not in values("answer", "gaps", "t.json", "--columns", "ru,run,r")
    assert values("t.json", "--columns", "self_s") == ["self_share"]
    assert values("t.json", "--sort", "self_") == ["self_ns", "self_share"]


def test_options_and_choices_of_verbs() -> None:
    assert values("t.json", "--form") == ["--format"]
    assert values("t.json", "--format", "c") == ["csv"]
    assert values("blame", "t.json", "--per", "mo") == ["module"]
    assert values("store", "ver") == ["verify"]
    assert values("report", "t.json", "--section", "roo") == ["roofline"]
    assert values("export", "t.json", "--track", "bl") == ["blame"]
    assert is_file("t.json", "")
    assert is_file("diff", "a.json", "")
    assert is_file("report", "t.json", "-o", "")


def test_sections_are_those_of_a_report() -> None:
    from profframe.trace.sections import registry

    assert tuple(registry.SECTIONS) == SECTIONS


@pytest.mark.parametrize("words", ["answer ", "t.json --sort ", "answer idle t.json -p "])
def test_completing_imports_no_engine(words: str) -> None:
    """Each of them takes a quarter of a second and more, at every press of a key."""
    code = (
        "import sys; from profframe.cli import run\n"
        "try: run([])\n"
        f"finally: print('heavy', [m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    given = f"profframe {words}"
    environment = os.environ | {
        "COMP_WORDS": given,
        "COMP_CWORD": str(len(given.split())),
        "_PROFFRAME_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True, capture_output=True, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert "plain," in done.stdout
    assert done.stderr == "heavy []\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str, tmp_path: Path) -> None:
    environment = os.environ | {"_PROFFRAME_COMPLETE": f"{shell}_source", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "profframe"],
        check=True, capture_output=True, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert "_PROFFRAME_COMPLETE" in done.stdout
