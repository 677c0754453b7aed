"""Ctrl-C at any moment; `tests/fuzz/interrupts.py` has what has to hold then."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(5, 60)
def test_interrupts(seeds: range) -> None:
    fuzz("tests.fuzz.interrupts", seeds, limit_s=180)
