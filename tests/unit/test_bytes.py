from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from profframe.errors import SourceError
from profframe.readers import bytes as reader_bytes
from profframe.readers.bytes import ByteSource

TEXT = b'{"traceEvents": [' + b",".join(b'{"n": %d}' % i for i in range(200)) + b"]}"


@pytest.fixture(params=[16, 100, 4 << 20], ids=["tiny", "small", "whole"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every test runs with blocks that split anything anywhere, too."""
    size: int = request.param
    monkeypatch.setattr(reader_bytes, "BLOCK", size)
    return size


def zstd(data: bytes) -> bytes:
    compressed: bytes = pa.Codec("zstd").compress(data).to_pybytes()
    return compressed


def read(path: Path, content: bytes) -> tuple[bytes, str | None]:
    """What comes out, and the damage that was found."""
    path.write_bytes(content)
    source = ByteSource(path)
    return b"".join(source.blocks()), source.damage


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        gzip.compress(TEXT),
        zstd(TEXT),
        b"\xef\xbb\xbf" + TEXT,
        gzip.compress(b"\xef\xbb\xbf" + TEXT),
        zstd(b"\xef\xbb\xbf" + TEXT),
        gzip.compress(TEXT[:50]) + gzip.compress(b"") + gzip.compress(TEXT[50:]),
        zstd(TEXT[:50]) + zstd(TEXT[50:]),
        gzip.compress(TEXT) + bytes(1000),
        gzip.compress(TEXT[:50]) + bytes(300) + gzip.compress(TEXT[50:]),
    ],
    ids=[
        "plain",
        "gzip",
        "zstd",
        "bom",
        "bom-in-gzip",
        "bom-in-zstd",
        "gzip-members",
        "zstd-frames",
        "padded-gzip",
        "padding-between-members",
    ],
)
@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.zst", "t"])
def test_content_counts_and_not_the_name(tmp_path: Path, name: str, content: bytes) -> None:
    assert read(tmp_path / name, content) == (TEXT, None)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize(
    "content",
    [b"", gzip.compress(b""), zstd(b""), b"\xef\xbb\xbf"],
    ids=["plain", "gzip", "zstd", "byte-order-mark"],
)
def test_an_empty_source_gives_nothing(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path / "t.json", content) == (b"", None)


@pytest.mark.usefixtures("block")
def test_a_gzip_stream_that_is_cut_gives_what_it_holds(tmp_path: Path) -> None:
    whole = gzip.compress(TEXT, compresslevel=0)
    for length in range(2, len(whole), 11):
        out, damage = read(tmp_path / "t.json.gz", whole[:length])
        assert TEXT.startswith(out)
        assert damage == "the gzip stream ends early"
        assert len(out) >= min(length - 40, len(TEXT))


@pytest.mark.usefixtures("block")
def test_a_gzip_stream_that_is_cut_in_its_second_member_keeps_the_first(tmp_path: Path) -> None:
    second = gzip.compress(TEXT[50:])
    for length in range(1, len(second)):
        out, damage = read(tmp_path / "t", gzip.compress(TEXT[:50]) + second[:length])
        assert out.startswith(TEXT[:50])
        assert TEXT.startswith(out)
        assert damage


@pytest.mark.usefixtures("block")
def test_a_damaged_gzip_stream_is_named(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(TEXT, compresslevel=0))
    content[-6] ^= 0xFF
    out, damage = read(tmp_path / "t", bytes(content))
    assert TEXT.startswith(out)
    assert damage is not None
    assert damage.startswith("the gzip stream is damaged: ")


@pytest.mark.usefixtures("block")
def test_what_follows_a_gzip_stream_and_is_not_gzip_is_named(tmp_path: Path) -> None:
    content = gzip.compress(TEXT) + b"\0\0junk"
    assert read(tmp_path / "t", content) == (TEXT, "what follows the gzip stream is not gzip")


@pytest.mark.usefixtures("block")
def test_a_zstd_stream_that_is_cut_is_named(tmp_path: Path) -> None:
    whole = zstd(TEXT)
    for length in range(5, len(whole), 7):
        out, damage = read(tmp_path / "t", whole[:length])
        assert TEXT.startswith(out)
        assert damage is not None
        assert damage.startswith("the zstd stream is damaged or ends early")


def test_a_long_zstd_stream_that_is_cut_gives_what_came_before(tmp_path: Path) -> None:
    text = bytes(range(256)) * (1 << 16)
    frames = [zstd(text[i : i + (1 << 20)]) for i in range(0, len(text), 1 << 20)]
    out, damage = read(tmp_path / "t", b"".join(frames)[:-3])
    assert text.startswith(out)
    assert len(out) >= 12 << 20
    assert damage


def test_no_block_is_longer_than_asked(tmp_path: Path, block: int) -> None:
    path = tmp_path / "t"
    for content in (TEXT, zstd(TEXT)):
        path.write_bytes(content)
        assert max(map(len, ByteSource(path).blocks())) <= block


def test_progress_counts_bytes_of_the_file_up_to_all(tmp_path: Path, block: int) -> None:
    path = tmp_path / "t"
    path.write_bytes(TEXT)
    seen: list[tuple[int, int]] = []
    source = ByteSource(path, lambda done, size: seen.append((done, size)))
    assert b"".join(source.blocks()) == TEXT
    assert seen == [(min(at + block, len(TEXT)), len(TEXT)) for at in range(0, len(TEXT), block)]


@pytest.mark.parametrize("name", ["missing.json", "", "x" * 300])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(SourceError, match=r".+: cannot be read: .+") as caught:
        list(ByteSource(path).blocks())
    assert str(caught.value).startswith(f"{path}: cannot be read: ")
    assert "Errno" not in str(caught.value)


def test_a_read_that_fails_on_the_way_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(TEXT)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SourceError) as caught:
        list(ByteSource(path).blocks())
    assert str(caught.value) == f"{path}: cannot be read: Permission denied"


def test_a_raw_deflate_stream_is_taken_for_plain_bytes(tmp_path: Path) -> None:
    content = zlib.compress(TEXT)
    assert read(tmp_path / "t", content) == (content, None)
