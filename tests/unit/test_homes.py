"""Pages that are saved name no home directory, wherever a trace has one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import profframe
from profframe.show.units import script_json, without_homes

OWNER = "ada_lovelace"
HOMES = {
    "linux": f"/home/{OWNER}",
    "mac": f"/Users/{OWNER}",
    "windows": rf"C:\Users\{OWNER}",
    "mounted": f"/mnt/home/{OWNER}",
    "wsl": f"/mnt/c/Users/{OWNER}",
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with a home directory in frames, ops, annotations, stacks, and its header."""
    rows: list[tuple[str, str, int, int, dict[str, object]]] = [
        ("user_annotation", "ProfilerStep#1", 0, 900, {})
    ]
    for number, home in enumerate(HOMES.values()):
        at, file = 100 * number, f"{home}/project/train.py(7): loop"
        args = {"Call stack": f"{file};{home}/project/main.py(1): run", "correlation": number}
        rows += [
            ("python_function", file, at + 5, 90, {"Python id": number + 1}),
            ("cpu_op", f"aten::mm {home}/op", at + 10, 40, args),
            ("cuda_runtime", "cudaLaunchKernel", at + 20, 10, {"correlation": number}),
            ("kernel", f"gemm {home}", at + 40, 30, {"correlation": number, "device": 0}),
            ("user_annotation", f"see {home}/notes", at + 60, 5, {}),
        ]
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "ts": at, "dur": dur}
        | {"tid": 7 if category == "kernel" else 1, "args": args}
        for category, name, at, dur, args in rows
    ]
    folder = tmp_path_factory.mktemp("traces")
    head = {"schemaVersion": 1, "deviceProperties": [], "traceName": f"{HOMES['linux']}/t.json"}
    path = folder / "trace.json"
    path.write_text(json.dumps(head | {"traceEvents": events}))
    return path


def names_nobody(page: str) -> bool:
    """Whether no directory of the owner is in it."""
    return OWNER not in page


@pytest.fixture(scope="module")
def trace(planted: Path) -> profframe.Trace:
    return profframe.load(planted, run="run")


@pytest.mark.parametrize("home", HOMES.values(), ids=HOMES)
def test_a_home_is_a_tilde(home: str) -> None:
    separator = "\\" if "\\" in home else "/"
    assert without_homes(f"{home}{separator}x.py(3): f") == f"~{separator}x.py(3): f"
    assert without_homes(f"a;{home};b") == "a;~;b"
    assert OWNER not in script_json({"names": [f"\n{home}{separator}x", f"<{home}>", home]})
    encoded = script_json([json.dumps({"file": f"{home}{separator}x"})])
    assert json.loads(json.loads(encoded)[0]) == {"file": f"~{separator}x"}


@pytest.mark.parametrize(
    "text",
    [
        "src/home/ada/x.py",
        "https://example.org/home/ada",
        "/rootfs/x",
        "/opt/x",
        "/root.py",
        "Users",
    ],
)
def test_other_paths_stay(text: str) -> None:
    assert without_homes(text) == text


def test_a_report_names_no_home(trace: profframe.Trace, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    trace.report(page, title=f"of {HOMES['linux']}/runs")
    text = page.read_text()
    assert "~/project/train.py(7): loop" in text
    assert names_nobody(text)


def test_saved_drawings_name_no_home(trace: profframe.Trace, tmp_path: Path) -> None:
    for drawing in (trace.plot.flame(), trace.plot.timeline()):
        drawing.save(tmp_path / "drawing.html")
        text = (tmp_path / "drawing.html").read_text()
        assert "~/project/train.py(7): loop" in text
        assert names_nobody(text)


def test_a_page_of_a_diff_names_no_home(trace: profframe.Trace, tmp_path: Path) -> None:
    profframe.diff_report(trace, trace.filter(), tmp_path / "diff.html")
    assert names_nobody((tmp_path / "diff.html").read_text())


def test_data_keep_their_names(trace: profframe.Trace) -> None:
    assert trace.sql("SELECT name FROM events")["name"].str.contains(OWNER).any()
