"""Every real trace, written as a Chrome trace and read again."""

from __future__ import annotations

from pathlib import Path

import profframe
from tests.round_trip import differences


def test_what_is_written_reads_back(chrome_trace: Path, tmp_path: Path) -> None:
    trace = profframe.load(chrome_trace)
    trace.export_chrome_trace(tmp_path / "written.json")
    assert differences(trace, profframe.load(tmp_path / "written.json")) == []


def test_what_databases_know_is_in_the_file(traces: Path, tmp_path: Path) -> None:
    found = sorted(
        path for path in traces.rglob("*") if path.suffix in {".sqlite", ".sql", ".nvvp"}
    )
    assert found
    for database in found:
        trace = profframe.load(database)
        trace.export_chrome_trace(tmp_path / "written.json")
        assert differences(trace, profframe.load(tmp_path / "written.json")) == [], database
