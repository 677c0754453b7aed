"""Whatever is killed or interrupted, whenever: nothing is lost."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(6, 160)
def test_what_is_killed_is_whole_and_is_completed(seeds: range) -> None:
    fuzz("tests.fuzz.kills", seeds, limit_s=300)
