"""Hostile questions; `tests/fuzz/questions.py` has what they are and must not do."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(300, 5000)
def test_questions(seeds: range) -> None:
    fuzz("tests.fuzz.questions", seeds)
