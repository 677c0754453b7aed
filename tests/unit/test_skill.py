"""``skills/profframe``: a skill that agents take, whose commands run and whose values are right."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import Any, Final

import pytest

from tests.conftest import Run
from tests.places import ROOT

FOLDER: Final = ROOT / "skills/profframe"
SKILL: Final = (FOLDER / "SKILL.md").read_text()
QUESTIONS: Final = tomllib.loads((FOLDER / "questions.toml").read_text())["questions"]
PLACES: Final = {
    "TRACE": "examples/gpu_training.json.gz",
    "BEFORE": "examples/gpu_training.json.gz",
    "AFTER": "examples/gpu_training_fused.json.gz",
    "JOB": "examples/job",
    "N": "2",
}
BLOCKS: Final = "".join(re.findall(r"^```sh\n(.*?)^```", SKILL, re.DOTALL | re.MULTILINE))
COMMANDS: Final = [
    *re.findall(r"^profframe .*$", BLOCKS, re.MULTILINE),
    *re.findall(r"`(profframe [^`]+)`", SKILL),
]


def test_its_head_is_that_of_a_skill() -> None:
    head, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", SKILL, re.DOTALL).groups()  # type: ignore[union-attr]
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert {*fields} == {"name", "description"}
    assert fields["name"] == FOLDER.name
    assert 0 < len(fields["description"]) <= 1024
    assert ": " not in fields["description"]  # plain YAML
    assert len(SKILL.splitlines()) < 200
    assert "questions.toml" in body


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_run(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(ROOT)
    arguments = [PLACES.get(word, word) for word in shlex.split(command)[1:]]
    code, output, error = run(*arguments)
    assert code == 0, error
    assert output


@pytest.mark.parametrize("one", QUESTIONS, ids=lambda one: one["question"])
def test_values_are_right(run: Run, monkeypatch: pytest.MonkeyPatch, one: dict[str, Any]) -> None:
    monkeypatch.chdir(ROOT)
    code, output, error = run(*shlex.split(one["command"].format(trace=one["trace"]))[1:])
    assert code == one.get("exit_code", 0), error
    rows = json.loads(output)
    expected = one.get("rows", [])
    assert rows[: len(expected)] == expected
    if "has" in one:
        assert one["has"] in rows
    assert {"rows", "has", "exit_code"} & {*one}


def test_it_covers_enough() -> None:
    assert len(COMMANDS) >= 18
    assert len(QUESTIONS) >= 10
