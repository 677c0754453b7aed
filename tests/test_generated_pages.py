"""Pages that follow from the code are those of the code."""

from __future__ import annotations

import pytest

from scripts.pages.__main__ import PAGES, ROOT


@pytest.mark.parametrize("name", sorted({*PAGES} - {"docs/questions.md"}))  # test_questions has it
def test_a_page_is_current(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == PAGES[name](), "run: python -m scripts.pages"
