"""Files of other tools are refused by name, whatever they are called."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.cli import run as command_line
from profframe.errors import NotATraceError

TREE: list[Any] = [
    {"children": [{"children": [], "frame": {"name": "k"}, "metrics": {"time (ns)": 1}}],
     "frame": {"name": "ROOT", "type": "function"}, "metrics": {}},
    {"CUDA": {"0": {"arch": "90"}}},
]  # fmt: skip


def plane(name: bytes, size: int = 0, identity: bytes = b"") -> bytes:
    """An XSpace with one plane."""
    body = identity + b"\x12" + bytes([len(name)]) + name + b"\x1a" * size
    length = len(body)
    varint = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
    return b"\n" + varint + body


def of_tensorboard() -> bytes:
    event = b"\x09" + struct.pack("<d", 1.0) + b"\x1a\x0dbrain.Event:2"
    return struct.pack("<Q", len(event)) + b"sums" + event + b"sums"


FILES: dict[str, tuple[bytes, str, str]] = {
    "a tree of Proton": (
        json.dumps(TREE).encode(),
        "a tree from Proton, Triton's",
        'data="trace"',
    ),
    "an indented tree": (
        json.dumps(TREE, indent=2, sort_keys=True).encode(),
        "a tree from Proton",
        "trace",
    ),
    "a report from Nsight Compute": (
        b"NVR\x00\x10\x00\x00\x00",
        "a report from Nsight Compute",
        "nsys export",
    ),
    "an XPlane file": (
        plane(b"/host:CPU", identity=b"\x08\x01"),
        "an XPlane file from XLA's",
        ".trace.json",
    ),
    "a long XPlane file": (plane(b"/device:GPU:0", size=300), "an XPlane file", ".trace.json.gz"),
    "TensorBoard's events": (
        of_tensorboard(),
        "an event file from TensorBoard's",
        ".pt.trace.json",
    ),
    "a session of the Visual Profiler": (
        b"<?xml version='1.0'?><a/>",
        "an XML document",
        "nvprof -o",
    ),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("content", "kind", "remedy"), FILES.values(), ids=FILES.keys())
def test_known_by_content(
    content: bytes, kind: str, remedy: str, compressed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(gzip.compress(content) if compressed else content)
    with pytest.raises(NotATraceError) as caught:
        profframe.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: not a trace: ")
    assert kind in message
    assert remedy in message
    assert "profframe reads Chrome trace JSON" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("r.nsys-rep", "nsys export --type sqlite r.nsys-rep"),
        ("R.QDREP", "nsys export --type sqlite R.QDREP"),
        ("r.qdstrm", "Nsight Systems"),
        ("r.ncu-rep", "Nsight Compute"),
        ("r.xplane.pb", "XPlane"),
        ("r.hatchet", "Proton"),
    ],
)
def test_known_by_name_where_the_content_says_nothing(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x01\x02\x03" * 999)
    with pytest.raises(NotATraceError, match=kind.replace(".", r"\.")):
        profframe.load(path)


def test_a_name_does_not_make_a_trace_another_thing(tmp_path: Path) -> None:
    event = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    for name in ("t.nsys-rep", "t.xplane.pb", "t.ncu-rep", "t.hatchet"):
        (tmp_path / name).write_text(json.dumps([event]))
        assert profframe.load(tmp_path / name).events.height == 1


@pytest.mark.parametrize(
    "header",
    [
        {"schema": "1.0.1", "schemaVersion": 1},
        {"schema": "1.0.1", "start_ts": 1, "deviceProperties": []},
        {"nodes": [], "schema": "a"},
    ],
)
def test_a_trace_with_members_of_another_name_is_one(header: Any, tmp_path: Path) -> None:
    event = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**header, "traceEvents": [event]}))
    assert profframe.load(path).events.height == 1


def test_a_database_of_rocpd(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE rocpd_api_0123 (id INTEGER)")
    with pytest.raises(NotATraceError, match="an old rocpd database from ROCm's profilers"):
        profframe.load(path)


def test_the_command_line_and_convert_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(FILES["a report from Nsight Compute"][0])
    for words in (["show", str(path)], ["convert", str(path), "-o", str(tmp_path / "s")]):
        assert command_line(words) != 0
        assert f"{path}: not a trace: a report from Nsight Compute" in capsys.readouterr().err


def test_among_traces_it_is_skipped_by_name(tmp_path: Path) -> None:
    event = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "a.json").write_text(json.dumps([event]))
    (tmp_path / "kernels.bin").write_bytes(FILES["a report from Nsight Compute"][0])
    (row,) = profframe.load(tmp_path).quality.to_dicts()
    assert row["issue"] == "skipped_file"
    assert "a report from Nsight Compute" in row["detail"]
