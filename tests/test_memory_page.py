"""The page of memory snapshots: its commands print what it says."""

from __future__ import annotations

import re
import shlex
from typing import Final

import pytest

from profframe import cli
from tests.places import ROOT

PAGE: Final = (ROOT / "docs" / "memory_snapshots.md").read_text("utf-8")
SHOWN: Final = re.findall(r"```sh\n(.*)\n```\n\n```text\n([^`]*)```", PAGE)


def test_each_command_has_its_output() -> None:
    assert len(SHOWN) == PAGE.count("```sh\n") == 6


@pytest.mark.parametrize(("command", "text"), SHOWN)
def test_commands_print_what_the_page_says(
    command: str, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.run(shlex.split(command)[1:]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == text.splitlines()
