"""Every real Chrome trace, written and read again."""

from __future__ import annotations

from pathlib import Path

import profframe
from tests.round_trip import differences


def test_what_is_written_reads_back(chrome_trace: Path, tmp_path: Path) -> None:
    trace = profframe.load(chrome_trace)
    trace.export_chrome_trace(tmp_path / "written.json")
    assert differences(trace, profframe.load(tmp_path / "written.json")) == []
