"""The fuzzers' own machinery finds what it is to find."""

from __future__ import annotations

import os
import time
from typing import Final

from tests.fuzz.children import failed

DIES: Final = 2
RAISES: Final = 4
HANGS: Final = 6


def case(seed: int) -> None:
    """One that dies, one that raises, one that takes too long."""
    if seed == DIES:
        os.abort()
    if seed == RAISES:
        raise ValueError("is four\nindeed")
    if seed == HANGS:
        time.sleep(60)


def test_what_is_wrong_is_named_by_its_seed() -> None:
    found = {
        failure.seed: failure.why
        for failure in failed((("tests.fuzz.test_children", seed) for seed in range(8)), limit_s=4)
    }

    assert found.keys() == {DIES, RAISES, HANGS}
    assert found[DIES] == "the process ended with -6"
    assert found[RAISES].endswith("ValueError: is four\nindeed")
    assert found[HANGS] == "took more than 4 s"
