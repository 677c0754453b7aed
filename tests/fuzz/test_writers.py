"""Writers, readers and a compacter beside each other."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(1, 1)
def test_nobody_fails_of_the_others(seeds: range) -> None:
    fuzz("tests.fuzz.writers", seeds, limit_s=200)
