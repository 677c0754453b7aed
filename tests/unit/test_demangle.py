"""Names of kernels as the C++ runtime writes them, and what it cannot read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import profframe
from profframe.readers import demangle
from profframe.readers.demangle import demangled
from tests.conftest import Run
from tests.databases import Row, write

KERNEL = "_ZN2at6native3addIfLi4EEEvPT_i"
READABLE = "void at::native::add<float, 4>(float*, int)"


def test_mangled_names_are_read() -> None:
    assert demangled([KERNEL, "add", None, KERNEL]) == {KERNEL: READABLE}


@pytest.mark.parametrize(
    "name",
    [
        "_Z",
        "_ZNotMangled",
        KERNEL[:-3],
        KERNEL + "\0",
        "_Z1é",  # a name of one byte, which is half a character
        "_Z3\ud800ab",
    ],
)
def test_what_cannot_be_read_is_left_out(name: str) -> None:
    assert demangled([name, KERNEL]) == {KERNEL: READABLE}


def test_without_a_runtime_every_name_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "_LIBRARIES", ("libnone.so.1",))
    assert demangled([KERNEL]) == {}


def trace_of(path: Path, *names: str) -> Path:
    """Kernels of these names, one after the other."""
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 10 * i, "dur": 5}
        for i, name in enumerate(names)
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


@pytest.mark.parametrize("ending", [".json", ".pftrace"])
def test_they_are_read_in_all_formats(tmp_path: Path, ending: str) -> None:
    trace = profframe.load(trace_of(tmp_path / "trace.json", KERNEL, "gemm", "_Zzz", READABLE))
    names = [READABLE, "gemm", "_Zzz", READABLE]
    assert trace.events["name"].to_list() == names
    trace.export_chrome_trace(tmp_path / f"out{ending}")
    assert profframe.load(tmp_path / f"out{ending}").events["name"].to_list() == names


def test_as_they_are_in_a_database(tmp_path: Path) -> None:
    tables: dict[str, list[Row]] = {
        "StringIds": [{"id": 1, "value": KERNEL}],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {"start": 0, "end": 5, "deviceId": 0, "streamId": 7, "mangledName": 1}
        ],
    }
    assert profframe.load(write(tmp_path / "a.sqlite", tables)).events["name"][0] == READABLE


def test_one_kernel_with_both_names_is_one_row(run: Run, tmp_path: Path) -> None:
    path = trace_of(tmp_path / "trace.json", KERNEL, READABLE)
    code, out, _ = run("answer", "kernels", str(path), "--format", "json")
    assert code == 0
    assert [(row["name"], row["calls"]) for row in json.loads(out)] == [(READABLE, 2)]


def bomb(levels: int) -> str:
    """Each type is a pair of the one before: the text doubles with every level."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    pairs = (f"S_IS{digits[n]}_S{digits[n]}_E" for n in range(levels))
    return "_Z1f1AIiiE" + "".join(pairs)


class TestBombs:
    """A name of some hundred characters may have more text than there is memory."""

    def test_a_name_that_refers_too_often_stays(self) -> None:
        assert len(demangled([bomb(8)])[bomb(8)]) > 8000
        assert demangled([bomb(35)]) == {}
        assert demangled(["_Z1f" + "S" * 10_000_000, "_Z1f" + "P" * 10_000 + "i"]) == {}
        assert demangled(["_Z1fIJ" + "i" * 300 + "EEvDpDpT_" + "DpT_" * 9]) == {}

    def test_all_together_have_a_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(demangle, "_MOST_TEXT", 10_000)
        names = [re.sub("1f", f"3f{number:02}", bomb(8)) for number in range(9)]
        assert [*demangled(names)] == names[:2]

    def test_a_trace_of_them_is_read(self, tmp_path: Path) -> None:
        trace = profframe.load(trace_of(tmp_path / "trace.json", bomb(35), KERNEL))
        assert trace.events["name"].to_list() == [bomb(35), READABLE]
        assert READABLE in trace.table(compat="torch", max_name_column_width=None)
