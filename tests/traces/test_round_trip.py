"""Every real trace, written as a Chrome trace and read again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

import profframe
from tests import needs
from tests.conftest import chrome_traces, real_trace
from tests.members import few
from tests.round_trip import differences

MOST_BYTES: Final = int(os.environ.get("PROFFRAME_ROUND_TRIP_BYTES", "100000"))
"""Larger files are left out, as they are compressed; all of them take half a minute."""
SMALL: Final = [path for path in chrome_traces() if path.stat().st_size <= MOST_BYTES]


@pytest.mark.parametrize("number", needs.members(few(range(len(SMALL)), 16)))
def test_what_is_written_reads_back(number: int, tmp_path: Path) -> None:
    trace = real_trace(SMALL[number])
    trace.export_chrome_trace(tmp_path / "written.json")
    assert differences(trace, profframe.load(tmp_path / "written.json")) == []


@pytest.mark.parametrize("each", few([1, 3], [3]))
def test_what_databases_know_is_in_the_file(each: int, traces: Path, tmp_path: Path) -> None:
    found = sorted(
        path for path in traces.rglob("*") if path.suffix in {".sqlite", ".sql", ".nvvp"}
    )
    assert found
    for database in found[::each]:
        trace = profframe.load(database)
        trace.export_chrome_trace(tmp_path / "written.json")
        assert differences(trace, profframe.load(tmp_path / "written.json")) == [], database
