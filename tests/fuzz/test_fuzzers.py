"""No case of any fuzzer is wrong; the module of each says what has to hold."""

from __future__ import annotations

from typing import Final

import pytest

from tests.fuzz.children import LIMIT_S, fuzz

FUZZERS: Final = (
    ("databases", 60, 5000, LIMIT_S),
    ("documents", 75, 5000, LIMIT_S),
    ("interrupts", 3, 60, 180),
    ("kills", 3, 160, 300),
    ("manifests", 40, 1500, LIMIT_S),
    ("questions", 150, 5000, LIMIT_S),
    ("stores", 20, 1500, LIMIT_S),
    ("trace_bytes", 60, 5000, LIMIT_S),
    ("writers", 1, 1, 200),
)
"""Module, how many cases it runs in every run and with ``-m long``, seconds that one may take."""


@pytest.mark.parametrize(
    "is_long", [False, pytest.param(True, marks=pytest.mark.long)], ids=["few", "many"]
)
@pytest.mark.parametrize(("name", "few", "many", "limit_s"), FUZZERS, ids=[f[0] for f in FUZZERS])
def test_no_case_is_wrong(name: str, few: int, many: int, limit_s: int, is_long: bool) -> None:
    seeds = range(few, few + many) if is_long else range(few)
    fuzz(f"tests.fuzz.{name}", seeds, limit_s)
