"""What `profframe` alone lists is what `profframe FILE` opens, and nothing else."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import random
import shutil
import sqlite3
import tarfile
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import profframe
from profframe.cli import folder
from profframe.cli.folder import listing
from profframe.errors import SourceError
from profframe.readers import reading
from profframe.readers.archives import ArchiveError
from profframe.readers.chrome.reading import SeveralTracesError
from profframe.readers.formats import format_of
from tests.conftest import Run
from tests.members import few
from tests.places import ROOT

EXAMPLES: Final = ROOT / "examples"
EVENT: Final = {
    "name": "aten::mm",
    "cat": "cpu_op",
    "ph": "X",
    "ts": 5,
    "dur": 3,
    "pid": 1,
    "tid": 1,
}
KINETO: Final = {"schemaVersion": 1, "deviceProperties": []}
SAME_READER: Final = {"kineto": "chrome"}
"""Members of Kineto that come after the events are not seen."""


def loaded(path: Path) -> str | None:
    """The format of the first trace that a load of the file has; None if it refuses it."""
    try:
        return str(profframe.load(path).traces["format"][0])
    except SourceError:
        return None


def formats(path: Path) -> tuple[str | None, str | None]:
    """What the listing says of a file in a folder of its own, and what a load does."""
    entries = listing(path.parent).entries
    assert [entry.path for entry in entries] == [path.name] * len(entries)
    seen, read = format_of(path), loaded(path)
    assert len(entries) == (seen is not None)
    return seen, read


def text(before: object, key: str = "metadata") -> bytes:
    return json.dumps({key: before, "traceEvents": [EVENT]}).encode()


def noise(size: int) -> str:
    return random.Random(size).randbytes(size // 2).hex()  # noqa: S311


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


COMPRESSED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes, ".gz": gzip.compress, ".zst": zstd, ".bz2": bz2.compress, ".xz": lzma.compress
}  # fmt: skip
TRACES: Final = {
    "26 kB before the events": text(noise(26_000)),
    "1 MB before the events": text(noise(1_000_000)),
    "an unusual first key": text([1, {"traceEvents": "none"}], key='\u00e4 "traceEvents": '),
    "events first": json.dumps({"traceEvents": [EVENT], **KINETO}).encode(),
    "no events": b'{"traceEvents": []}',
    "a list of events": json.dumps([EVENT]).encode(),
    "a list with a late phase": json.dumps([{"args": noise(400_000), "ph": "X", "ts": 1}]).encode(),
    "blanks first": b" \n" * 300_000 + text(1),
    "UTF-16": text(noise(3_000)).decode().encode("utf-16"),
    "a mark of UTF-8": b"\xef\xbb\xbf" + text(noise(3_000)),
}
OTHERS: Final = {
    "no events": json.dumps({"schemaVersion": 1, "traceName": noise(3_000)}).encode(),
    "events of another": json.dumps({"a": {"traceEvents": [EVENT]}}).encode(),
    "events that are no list": json.dumps({"traceName": "a", "traceEvents": {}}).encode(),
    "a list without phases": json.dumps([{"name": "ph", "b": 1}] * 9).encode(),
    "text": b"traceEvents, and others",
    "half a number": b"[[12",
    "sums of a memory timeline": b"[[1700000000000000, 1700000000000001], [[0, 1], [2, 3]]]",
    "a snapshot of a later protocol": b"\x80\x09" + pickle.dumps({"segments": []})[2:],
    "nothing": b"",
    "a tree of another tool": json.dumps([{"children": [], "frame": {}}]).encode(),
}


@pytest.mark.parametrize("ending", few(COMPRESSED, 2))
@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_listed_however_it_begins(tmp_path: Path, name: str, ending: str) -> None:
    path = tmp_path / f"trace.json{ending}"
    path.write_bytes(COMPRESSED[ending](TRACES[name]))
    seen, read = formats(path)
    assert read is not None
    assert seen == SAME_READER.get(read, read)


def test_members_of_kineto_are_seen_far_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(json.dumps({"metadata": noise(26_000), **KINETO, "traceEvents": [EVENT]}))
    assert formats(path) == ("kineto", "kineto")


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_load_refuses_is_not_listed(tmp_path: Path, name: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(OTHERS[name])
    assert formats(path) == (None, None)


@pytest.mark.parametrize("source", ["rocprof.db", "gil.sqlite"])
def test_databases(tmp_path: Path, source: str) -> None:
    path = Path(shutil.copy(EXAMPLES / source, tmp_path / "trace.db"))
    seen, read = formats(path)
    assert seen == read != None  # noqa: E711
    path.write_bytes(path.read_bytes()[:-100])
    assert formats(path) == (None, None)
    path.write_bytes(gzip.compress((EXAMPLES / source).read_bytes()))
    assert formats(path) == (None, None)


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE a (b)")
    assert formats(path) == (None, None)


def test_a_database_whose_tables_are_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (globalPid)")
        for ending in ("", "-wal"):
            copy = tmp_path / "copy" / f"report.sqlite{ending}"
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(f"{path}{ending}", copy)
    copy = tmp_path / "copy" / "report.sqlite"
    assert format_of(copy) == loaded(copy) == "nsys"


def test_archives(tmp_path: Path) -> None:
    (tmp_path / "zip").mkdir()
    with zipfile.ZipFile(tmp_path / "zip" / "a.zip", "w") as archive:
        archive.writestr("notes.txt", "nothing")
        archive.writestr("b.json", text(noise(3_000)))
    assert formats(tmp_path / "zip" / "a.zip") == ("chrome", "chrome")
    (tmp_path / "tar").mkdir()
    with tarfile.open(tmp_path / "tar" / "a.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo("b.json")
        entry.size = len(text(1))
        tar.addfile(entry, io.BytesIO(text(1)))
    assert formats(tmp_path / "tar" / "a.tar.gz") == ("chrome", "chrome")
    with zipfile.ZipFile(tmp_path / "zip" / "a.zip", "w") as archive:
        archive.writestr("notes.txt", "nothing")
    assert formats(tmp_path / "zip" / "a.zip") == (None, None)


def test_a_trace_of_perfetto(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    profframe.load(EXAMPLES / "cuda.json.gz").export_chrome_trace(path)
    seen, read = format_of(path), loaded(path)
    assert (seen, len(listing(tmp_path).entries)) == ("perfetto", 1)
    assert read is not None


def disagreement(path: Path) -> str | None:
    """How the listing and the reader differ about a file; None if they do not."""
    seen = format_of(path)
    try:
        read = reading.read(path).header.format
    except ArchiveError:
        return None
    except SeveralTracesError:
        read = "several traces"
    except SourceError:
        read = None
    is_same = (seen is None) == (read is None)
    return None if is_same else f"{path}: listed as {seen}, read as {read}"


def test_they_agree_on_the_examples() -> None:
    files = sorted(p for p in EXAMPLES.rglob("*") if p.is_file() and p.suffix != ".py")
    assert len(files) > 20  # but programs: the text before their "traceEvents" counts as damage
    assert [*filter(None, map(disagreement, files))] == []


def test_they_agree_on_real_files(traces: Path) -> None:
    """Those of less than 2 MB: the others are twice as much, and begin like these."""
    files = sorted(p for p in traces.rglob("*") if p.is_file() and p.stat().st_size < 2_000_000)
    assert len(files) > 80
    assert [*filter(None, map(disagreement, files))] == []


def test_all_real_traces_are_listed(traces: Path) -> None:
    for part in sorted({path.parent for path in traces.rglob("*") if path.is_file()}):
        listed = {entry.path for entry in listing(part).entries}
        here = {path.name: format_of(path) for path in part.iterdir() if path.is_file()}
        assert {name for name, seen in here.items() if seen} <= listed


def test_a_big_file_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.json"
    with path.open("wb") as file:
        file.write(b'{"a": "')
        file.truncate(1 << 31)
    began = time.monotonic()
    assert format_of(path) is None
    assert time.monotonic() - began < 10
    path.write_bytes(b"\x00" * 100)
    monkeypatch.setattr(folder, "MOST_S", 0.0)
    assert "Not looked at" in folder.text(listing(tmp_path), 80, ())


def test_the_latest_of_many_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for number in range(1_000):
        (tmp_path / f"{number}.json").write_bytes(b'{"a": 1}')
    (tmp_path / "z.json").write_bytes(TRACES["1 MB before the events"])
    monkeypatch.chdir(tmp_path)
    code, printed, _ = run()
    assert code == 0
    assert printed.splitlines()[1].startswith("z.json")


def test_large_files_hide_no_trace(tmp_path: Path) -> None:
    path = Path(shutil.copy(EXAMPLES / "cuda.json.gz", tmp_path))
    os.utime(path, (0, 0))
    for number in range(60):
        with (tmp_path / f"{number}.json").open("wb") as file:
            file.write(b'{"a": "')
            file.truncate(1 << 30)
    result = listing(tmp_path)
    assert [entry.path for entry in result.entries] == [path.name]
