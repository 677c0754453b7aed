"""Forty questions about real traces, asked as a program asks them: few calls, and few tokens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from profframe import load
from profframe.server import tools
from profframe.server.paging import tokens
from profframe.server.service import Service
from profframe.server.tool_result import Result
from profframe.server.tools import Subject
from tests import needs
from tests.agents.questions import (
    NOTHING,
    QUESTIONS,
    SAME,
    SILENT,
    WITHOUT_ANSWER,
    Arguments,
    Question,
)
from tests.agents.raw import Raw
from tests.conftest import ROOT
from tests.members import few

MOST_CALLS = 3
MOST_TOKENS = 6000
LARGE = "luatil__torch-profile/trace_04.json.gz"
"""Two seconds to read in plain Python, for each question that a worker asks first."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same trace as a second run."""
    path = tmp_path_factory.mktemp("copy") / "again.json.gz"
    shutil.copyfile(ROOT / SAME[0], path)
    return path


@pytest.fixture(scope="module", autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    service.cache_clear()
    document.cache_clear()


@cache
def service(paths: tuple[Path, ...]) -> Service:
    return Service(load([*paths]))


@cache
def document(path: Path) -> Raw:
    return Raw.read(path)


def located(question: Question, copy: Path) -> tuple[Path, ...]:
    """The files of a question; it is skipped without them."""
    paths = []
    for name in question.traces:
        if name.startswith("copy of "):
            paths.append(copy)
        elif name.startswith("examples/"):
            paths.append(ROOT / name)
        else:
            paths.append(needs.traces(name))
    return tuple(paths)


@pytest.mark.parametrize(
    "question",
    few(QUESTIONS, [question for question in QUESTIONS if question.traces[0] != LARGE]),
    ids=lambda question: f"{question.text} {question.traces[0]}",
)
def test_few_calls_lead_to_the_answer(question: Question, copy: Path) -> None:
    paths = located(question, copy)
    texts: list[str] = []
    for call in question.calls:
        arguments = call.given(texts)

        def ask(subject: Subject, tool: str = call.tool, given: Arguments = arguments) -> Result:
            result: Result = getattr(tools, tool)(subject, **given)
            return result

        reply = service(paths).reply(ask)
        assert not reply.is_error, reply.text
        texts.append(reply.text)
    answer = question.oracle([document(path) for path in paths])
    assert question.read(texts) == answer
    assert (answer in (NOTHING, SILENT)) == (question in WITHOUT_ANSWER)
    assert len(texts) <= MOST_CALLS
    assert sum(map(tokens, texts)) <= MOST_TOKENS


def test_there_are_forty_and_ten_have_no_answer() -> None:
    assert len(QUESTIONS) == 40
    assert len(WITHOUT_ANSWER) >= 10
    own = [question for question in QUESTIONS if question.traces[0].startswith("examples/")]
    assert len(own) >= 15, "some run without the folder of real traces"
