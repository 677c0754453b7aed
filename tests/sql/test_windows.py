"""Windows that DuckDB is slow at are in no file of SQL."""

from __future__ import annotations

import re
from typing import Final

import pytest

from profframe.query.header import sql_directory

COUNTED: Final = re.compile(r"count\(\*\)\s+FILTER\s*\((?:[^()]|\([^()]*\))*\)\s*OVER")


@pytest.mark.parametrize(
    ("sql", "is_slow"),
    [
        ("count(*) FILTER (a) OVER b", True),
        ("count(*) FILTER (WHERE a IN (1, 2))\n  OVER (ORDER BY c)", True),
        ("count(*) FILTER (a) AS n, sum(b) OVER c", False),
        ("count(CASE WHEN a THEN 1 END) OVER b", False),
    ],
)
def test_the_pattern(sql: str, is_slow: bool) -> None:
    assert bool(COUNTED.search(sql)) is is_slow


def test_no_window_counts_rows_with_a_filter() -> None:
    """Over a running frame its time grows with the square: 200,000 rows take 10 s."""
    files = sorted(sql_directory().rglob("*.sql"))
    assert files
    slow = [path.name for path in files if COUNTED.search(path.read_text(encoding="utf-8"))]
    assert not slow
