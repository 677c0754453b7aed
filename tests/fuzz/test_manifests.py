"""Whatever manifests and links say, a store stays within its folder."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(80, 1500)
def test_nothing_outside_of_a_store_is_touched(seeds: range) -> None:
    fuzz("tests.fuzz.manifests", seeds)
