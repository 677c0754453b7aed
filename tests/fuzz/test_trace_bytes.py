"""Damaged bytes of real traces end in an error, or in a trace that says what it lost."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(120, 5000)
def test_damaged_traces_are_loaded_or_refused_and_nothing_is_lost_in_silence(seeds: range) -> None:
    fuzz("tests.fuzz.trace_bytes", seeds)
