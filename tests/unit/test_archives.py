"""Archives are read as folders, and other forms of a file as the file; or refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

import profframe
from profframe.cli import run as command_line
from profframe.errors import NotATraceError, SourceError
from tests import mergers

Pack = Callable[[Path, Mapping[str, bytes]], Path]


def text(rank: int, count: int = 1) -> bytes:
    one = mergers.part(rank, 7)
    events = [e for e in one["traceEvents"] if e["name"] != "Record Window End"]
    return json.dumps(one | {"traceEvents": events * count}).encode()


FILES = {
    "out/rank0.json": text(0),
    "out/rank1.json.gz": gzip.compress(text(1)),
    "manifest.json": b'{"files": ["out/rank0.json"]}',
    "__MACOSX/out/rank0.json": text(5),
    ".hidden.json": text(6),
}


def zipped(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, files: Mapping[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


PACKS: Mapping[str, Pack] = {
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda path, files: tarred(path, files, "w:gz"),
    "tar.bz2": lambda path, files: tarred(path, files, "w:bz2"),
    "tar.xz": lambda path, files: tarred(path, files, "w:xz"),
}


@pytest.mark.parametrize("form", PACKS)
def test_an_archive_is_a_folder(tmp_path: Path, form: str) -> None:
    trace = profframe.load(PACKS[form](tmp_path / f"job.{form}", FILES))
    assert trace.traces.select("run", "rank").rows() == [("out", 0), ("out", 1)]
    source = trace.traces["source"].to_list()
    assert source == [f"{tmp_path}/job.{form}/out/rank{name}" for name in ("0.json", "1.json.gz")]
    parts = tmp_path / "out"
    parts.mkdir()
    for rank in range(2):
        (parts / f"rank{rank}.json").write_bytes(text(rank))
    folder = profframe.load(parts)
    for name in ("self_times", "op_kernels"):
        assert trace.answer(name).equals(folder.answer(name))


def test_one_trace_is_named_by_its_archive(tmp_path: Path) -> None:
    trace = profframe.load(zipped(tmp_path / "night.zip", {"rank3.json": text(3)}))
    assert trace.traces.select("run", "rank").rows() == [("night", 3)]


@pytest.mark.parametrize("form", PACKS)
@pytest.mark.parametrize("name", ["../rank0.json", "/etc/rank0.json", "a/../../rank0.json"])
def test_nothing_leads_out_of_it(tmp_path: Path, form: str, name: str) -> None:
    (tmp_path / "rank0.json").write_bytes(text(0))
    file = PACKS[form](tmp_path / f"job.{form}", {name: text(1), "b.json": text(1)})
    with pytest.raises(SourceError, match="a member of the archive leads out of it"):
        profframe.load(file)


@pytest.mark.parametrize("form", PACKS)
def test_a_cut_archive_is_refused_or_its_damage_noted(tmp_path: Path, form: str) -> None:
    whole = PACKS[form](tmp_path / f"whole.{form}", {"rank0.json": text(0, 40)}).read_bytes()
    file = tmp_path / f"job.{form}"
    for share in (0.3, 0.6):
        file.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(SourceError, match=str(file)):
            profframe.load(file)


def test_without_a_trace_it_says_what_is_in_it(tmp_path: Path) -> None:
    file = zipped(tmp_path / "job.zip", {"a.txt": b"hello", "in.zip": b"PK\x03\x04"})
    with pytest.raises(NotATraceError, match=r"job\.zip: none of its 2 files is a trace: .*a\.txt"):
        profframe.load(file)
    with pytest.raises(NotATraceError, match="none of its 0 files is a trace: it is empty"):
        profframe.load(zipped(tmp_path / "none.zip", {}))


def test_convert_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = zipped(tmp_path / "job.zip", FILES)
    assert command_line(["convert", str(file), "-o", str(tmp_path / "store")]) != 0
    assert "a zip archive, which only profframe.load reads: unpack it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "pack"),
    [("a.json.bz2", bz2.compress), ("a.json.xz", lzma.compress), ("a.lzma.xz", lzma.compress)],
)
def test_slow_compressions(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    plain = text(0, 30)
    file = tmp_path / name
    for content in (pack(plain), pack(plain[:5000]) + pack(plain[5000:]) + b"\0" * 9):
        file.write_bytes(content)
        trace = profframe.load(file)
        assert trace.traces["source_events"].item() == text(0, 30).count(b'"ph"')
        assert "truncated" not in trace.quality["issue"]
    file.write_bytes(pack(plain)[:-40])
    with (
        pytest.raises(NotATraceError, match="stream ends early") if "bz2" in name else nullcontext()
    ):
        assert "truncated" in profframe.load(file).quality["issue"]


@pytest.mark.parametrize(
    "codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"], ids=str
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_other_unicode(tmp_path: Path, codec: str, is_packed: bool) -> None:
    one = mergers.part(0, 7)
    one["traceEvents"][-3]["name"] = "é漢😀"
    content = json.dumps(one, ensure_ascii=False).encode(codec)
    (tmp_path / "a.json").write_bytes(gzip.compress(content) if is_packed else content)
    trace = profframe.load(tmp_path / "a.json")
    assert trace.traces["source_events"].item() == len(one["traceEvents"])


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n", "git lfs pull"),
        (b"/annex/objects/SHA256E-s9--ab.json\n", "git annex get"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "unpack it"),
        (b"Rar!\x1a\x07\x01\x00", "unpack it"),
    ],
)
def test_what_is_no_trace_is_refused_by_name(tmp_path: Path, content: bytes, remedy: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(NotATraceError, match=remedy):
        profframe.load(tmp_path / "a.json")
