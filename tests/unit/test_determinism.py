"""A run without wishes tries the same as every other."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[bytes]:
    """What hypothesis tries."""
    found: list[bytes] = []

    @given(st.binary(min_size=8))
    def tried(value: bytes) -> None:
        found.append(value)

    tried()
    return found


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
def test_hypothesis_tries_the_same_unless_it_is_told_to_look_for_more() -> None:
    is_random = os.environ.get("PROFFRAME_SEEDS") == "random"
    assert settings().database is None
    assert settings().derandomize != is_random
    assert (drawn() == drawn()) != is_random
