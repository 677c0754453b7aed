"""Small files of much text end soon, in little memory, in an error or with their damage named."""

from __future__ import annotations

import gzip
import itertools
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import profframe
from profframe.readers.chrome.parsing import Parser
from profframe.readers.json import opening, stream
from profframe.readers.json.budget import RepairBudget
from profframe.readers.json.repair import Repaired, repair
from profframe.readers.json.stream import ArrayReader
from tests.members import few

EVENT = b'{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":2}'
BEGIN = b'{"traceEvents":[' + EVENT
SHAPES = {
    "zeros": (b"", b"\0", b""),
    "spaces": (b"", b" ", b""),
    "lines": (b"", b"\n", b""),
    "brackets": (b"", b"[", b""),
    "objects in each other": (b"", b'{"a":', b""),
    "text": (b'"', b"a", b""),
    "digits": (b"", b"7", b""),
    "backslashes": (b'["', b"\\", b""),
    "numbers": (b"[", b"0,", b""),
    "empty objects": (b"[", b"{},", b""),
    "header": (b'{"a":"', b"a", b'","traceEvents":[' + EVENT + b"]}"),
    "spaces in the array": (BEGIN + b",", b" ", EVENT + b"]}"),
    "brackets in the array": (BEGIN + b",", b"[", b""),
    "text in the array": (BEGIN + b',"', b"a", b""),
    "numbers in the array": (BEGIN + b",", b"0,", EVENT + b"]}"),
    "empty objects in the array": (BEGIN + b",", b"{},", EVENT + b"]}"),
    "a name": (BEGIN + b',{"ph":"X","ts":1,"dur":1,"name":"', b"a", b'"},' + EVENT + b"]}"),
    "args": (BEGIN + b',{"ph":"X","ts":1,"dur":1,"args":[', b"0,", b"0]}," + EVENT + b"]}"),
    "ends in a name": (BEGIN + b',{"ph":"X","ts":1,"name":"', b"]}", b'"},' + EVENT + b"]}"),
    "objects that end in a key": (BEGIN + b",", b'},{"', b"," + EVENT + b"]}"),
    "objects of no phase": (BEGIN + b",", b'{"ph":NaN},', EVENT + b"]}"),
    "members in the array": (BEGIN + b",", b'"ph":NaN,', b""),
    "objects in arrays": (BEGIN + b",", b"[{", b""),
    "ends in the array": (BEGIN + b",", b"]", b""),
    "a trailer": (BEGIN + b'],"a":"', b"a", b'"}'),
    "ends in a trailer": (BEGIN + b'],"a":"', b"]}", b'"}'),
    "objects in a trailer": (BEGIN + b'],"a":[', b'{"a":1},', b"0]}"),
    "text behind": (BEGIN + b"]}", b"hello ", b""),
}  # fmt: skip
SURVIVES = {name: 1 + (EVENT in end) for name, (begin, _, end) in SHAPES.items() if EVENT in begin}
"""Events of the shapes that have any."""


def parts(shape: str, size: int) -> Iterator[bytes]:
    begin, unit, end = SHAPES[shape]
    block = unit * ((1 << 20) // len(unit))
    return itertools.chain([begin], itertools.repeat(block, size // len(block)), [end])


def write(path: Path, blocks: Iterator[bytes]) -> None:
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.writelines(blocks)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.CompressedOutputStream(file, "zstd") as out:
            for block in blocks:
                out.write(block)


@pytest.mark.parametrize("shape", few(SHAPES, 28))
def test_much_text_is_refused_or_passed_over_and_named(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MOST_AROUND", 64 << 10)
    monkeypatch.setattr(stream, "MOST", 128 << 10)
    monkeypatch.setattr(stream, "_LONG", 32 << 10)
    path = tmp_path / "bomb.gz"
    write(path, parts(shape, 1 << 20))
    if shape not in SURVIVES:
        with pytest.raises(profframe.NotATraceError, match="not a trace: ") as caught:
            profframe.load(path)
        assert str(caught.value).startswith(f"{path}: ")
        return
    trace = profframe.load(path)
    assert trace.events.height == SURVIVES[shape]
    assert trace.quality.height or shape == "spaces in the array"


@pytest.mark.parametrize(
    "unit", few(['},{"', '{"ph":NaN},', '"ph":NaN,', "[{", "NaN,", '},{"a":"'], 3)
)
def test_what_is_mended_in_vain_has_an_end(unit: str) -> None:
    budget = RepairBudget("ph")
    event = EVENT.decode()
    text = "},".join([event[:-1], unit * ((2 << 20) // len(unit)) + '{"a":1', event + "]"])
    fixed = repair(text, 0, budget)
    assert fixed.elements[0] == event
    assert fixed.elements[-1] == event or fixed.incomplete
    assert fixed.repairs.total() < 3 << 16


def test_text_that_waits_for_its_end_is_mended_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    mended = []

    def counted(text: str, *arguments: Any) -> Repaired:
        mended.append(len(text))
        return repair(text, *arguments)

    monkeypatch.setattr(stream, "repair", counted)
    size = 4 << 20
    text = BEGIN + b',{"ph":"X","args":[' + (b'{"ph":"%s"},' % (b"a" * 1014)) * (size >> 10)
    blocks = (text[at : at + (1 << 18)] for at in range(0, len(text), 1 << 18))
    parser = Parser()
    reader = ArrayReader(blocks, "traceEvents", parser.wave, parser.array, 1)
    for _ in reader.rows():
        pass
    assert sum(mended) < 4 * size
    assert reader.document.repairs["unreadable_event"] or reader.document.repairs["truncated"]


@pytest.mark.long
@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("shape", SHAPES)
def test_2_gb_take_less_than_1_gb_of_memory(shape: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"bomb.{ending}"
    write(path, parts(shape, 2 << 30))
    command = [sys.executable, "-m", "profframe", "info", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        assert child.stdout is not None
        # Of its own work: on a busy machine it may take as long as it likes.
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (300, 300))
        said = child.stdout.read().decode()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == (shape not in SURVIVES), said
    assert "internal:" not in said
    assert used.ru_maxrss < 1 << 20  # kB


def test_very_many_empty_members_of_gzip_are_read(tmp_path: Path) -> None:
    path = tmp_path / "members.gz"
    path.write_bytes(gzip.compress(b"") * 50_000 + gzip.compress(BEGIN + b"]}"))
    assert profframe.load(path).events.height == 1


def test_gzip_inside_of_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.gz"
    path.write_bytes(gzip.compress(gzip.compress(BEGIN + b"]}")))
    with pytest.raises(profframe.NotATraceError, match="compressed twice: unpack it once"):
        profframe.load(path)


def test_a_zstd_frame_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "window.zst"
    header = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3])  # a window of 2 GB
    path.write_bytes(header + b"\x01\x00\x00" + b"text")
    sound = tmp_path / "sound.zst"
    write(sound, iter([BEGIN + b"]}"]))
    assert profframe.load(sound).events.height == 1  # what is imported for it is no part of this
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(profframe.NotATraceError, match="zstd stream is damaged"):
        profframe.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_sparse_file_of_zeros_is_refused_by_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "zeros.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(profframe.NotATraceError, match="no array 'traceEvents' in its first 32 MB"):
        profframe.load(path)
