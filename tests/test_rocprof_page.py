"""What the page for users of rocprofv3 shows runs, and is what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe import cli

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = (ROOT / "docs" / "coming_from" / "rocprofv3.md").read_text(encoding="utf-8")
COMMANDS: Final = sorted({*re.findall(r"```sh\n(.*)\n```", PAGE)})
SPANS: Final = sorted({*re.findall(r"`(profframe answer \w+ TRACE)`", PAGE)})


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_what_it_prints_is_so(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(r"```sh\n(.*)\n```\n\n```text\n([^`]*)```", PAGE)
    assert len(shown) == len(COMMANDS) == 2
    for command, text in shown:
        assert cli.run(shlex.split(command)[1:]) == 0
        said = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert [line for line in text.splitlines() if line not in said] == []


def test_the_query_says_which_memory_it_is() -> None:
    (query,) = re.findall(r'trace.sql\("""(.*?)"""\)', PAGE, re.DOTALL)
    rows = profframe.load("examples/rocprof.db").sql(query).rows()
    assert rows == [("hipFree", 6, 1 << 30, 2_920_000), ("hipMalloc", 6, 1 << 30, 890_000)]


@pytest.mark.parametrize("command", SPANS)
def test_answers_have_rows(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command.replace("TRACE", "examples/rocprof.db"))[1:]
    assert cli.run([*words, "--format", "json"]) == 0
    assert len(capsys.readouterr().out) > 10
