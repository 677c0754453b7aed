"""The page of questions says what is answered now, and the three ways of asking agree."""

from __future__ import annotations

import re

import pytest

from scripts.pages.__main__ import ROOT
from scripts.pages.questions import WIDTH, agreed, asked, head, questions, section
from tests import needs

needs.module("IPython")

PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^(?=### )", re.sub(r"(?m)^## .*\n\n", "", PAGE), flags=re.MULTILINE)


def test_there_are_twenty_and_the_page_has_all_of_them() -> None:
    assert len(questions()) == 20
    assert SECTIONS[0].strip() == head().strip(), "run: python -m scripts.pages"
    assert len(SECTIONS) == 21


@pytest.mark.parametrize("number", range(1, 21))
def test_a_question_is_answered_as_the_page_says(number: int) -> None:
    question = questions()[number - 1]
    shown = section(number, question)
    assert SECTIONS[number].strip() == shown.strip(), "run: python -m scripts.pages"
    said = asked(question)
    assert said.exit_code == question.exit_code
    for text in said.texts.values():
        assert max(map(len, text.splitlines())) <= WIDTH
    found = agreed(question)
    assert len(found) >= 2  # `info` gives programs other rows than those that it says
    first = found["sql"]
    assert first, "no rows"
    assert found == dict.fromkeys(found, first)
