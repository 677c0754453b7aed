"""Databases that are odd, crafted or damaged never end in anything but a trace or an error."""

from __future__ import annotations

import pytest

from tests.fuzz.children import fuzz


@pytest.mark.cases(120, 5000)
def test_databases(seeds: range) -> None:
    fuzz("tests.fuzz.databases", seeds)
