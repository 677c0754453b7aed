"""Whatever is damaged in a store is one line that names it."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(40, 1500)
def test_damage_is_an_error_of_one_line(seeds: range) -> None:
    fuzz("tests.fuzz.stores", seeds)
