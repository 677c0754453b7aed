"""Generated JSON has the rows that a plain reader has, also beside damage in one known place."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(150, 5000)
def test_documents_have_the_rows_of_a_plain_reader(seeds: range) -> None:
    fuzz("tests.fuzz.documents", seeds)
