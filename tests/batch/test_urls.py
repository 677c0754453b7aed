"""Files and stores that are elsewhere, through fsspec."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe import cli
from profframe.converting.bucket import Bucket
from profframe.converting.urls import is_url, path_of
from tests import needs
from tests.batch.sources import assert_same, content, loaded, write

fsspec = needs.module("fsspec")


@pytest.fixture
def memory() -> Iterator[Any]:
    """A file system in this process."""
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    yield files
    files.store.clear()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def jobs(folder: Path) -> list[Path]:
    return [write(folder / "job" / f"rank{rank}.json.gz", rank) for rank in range(2)]


def fetch(memory: Any, url: str, folder: Path) -> Path:
    memory.get(url, str(folder), recursive=True)
    return folder


@pytest.mark.parametrize(
    "source", ["memory://in/job/rank*.gz", "memory://in/job", "memory://in/**/*.gz"]
)
def test_urls_are_read(source: str, memory: Any, tmp_path: Path, executor: Any) -> None:
    paths = jobs(tmp_path)
    memory.put(str(tmp_path / "job"), "/in/job", recursive=True)
    files = profframe.convert(source, tmp_path / "store", executor)

    assert files["source"].to_list() == [f"memory://in/job/{path.name}" for path in paths] or (
        files["source"].to_list() == [f"memory:///in/job/{path.name}" for path in paths]
    )
    assert files["bytes"].to_list() == [path.stat().st_size for path in paths]
    traces = profframe.load(tmp_path / "store").traces.select("run", "rank").rows()
    assert traces == [("job", 0), ("job", 1)]
    again = profframe.convert(source, tmp_path / "store", executor)
    assert set(again["status"]) == {"unchanged"}


def test_a_bad_url_is_named_and_fails_alone(memory: Any, tmp_path: Path, executor: Any) -> None:
    (good,) = jobs(tmp_path)[:1]
    memory.pipe_file("/in/bad.json", b"no trace")
    sources: list[str | Path] = [
        good,
        "memory://in/bad.json",
        "memory://in/missing.json",
        "nosuch://a/b.json",
    ]
    files = profframe.convert(sources, tmp_path / "store", executor)

    assert files["status"].to_list() == ["written", "failed", "failed", "failed"]
    for source, error in zip(sources[1:], files["error"][1:], strict=True):
        assert str(source) in error
        assert "profframe-" not in error


def test_a_web_server(tmp_path: Path, executor: Any) -> None:
    needs.module("aiohttp")
    jobs(tmp_path)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        urls = [f"http://127.0.0.1:{server.server_port}/job/rank{n}.json.gz?v=1" for n in (0, 1)]
        files = profframe.convert(urls, tmp_path / "store", executor)
        server.shutdown()
    assert files.select("status", "run", "rank").rows() == [("written", "job", n) for n in (0, 1)]


def test_a_store_elsewhere_is_the_one_that_is_here(
    memory: Any, tmp_path: Path, executor: Any
) -> None:
    paths = [*jobs(tmp_path), write(tmp_path / "x" / "job" / "later.json", 9, "later", rank=1)]
    first = profframe.convert(paths, "memory://out/store", executor)
    again = profframe.convert(paths, "memory://out/store", executor)

    assert first.select("status", "run", "rank").rows() == [
        ("written", "job", 0),
        ("written", "job", 1),
        ("written", "job.1", 1),
    ]
    assert set(again["status"]) == {"unchanged"}
    assert_same(content(fetch(memory, "/out/store", tmp_path / "copy")), loaded(paths))
    assert not [path for path in memory.find("/out/store") if "/." in path]


def test_what_has_changed_is_replaced_elsewhere(memory: Any, tmp_path: Path, executor: Any) -> None:
    paths = jobs(tmp_path)
    profframe.convert(paths, "memory://out", executor)
    write(paths[0], 5, "new")
    files = profframe.convert(paths, "memory://out", executor)
    assert files["status"].to_list() == ["written", "unchanged"]
    assert_same(content(fetch(memory, "/out", tmp_path / "copy")), loaded(paths))


def test_what_is_incomplete_elsewhere_is_completed(
    memory: Any, tmp_path: Path, executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill: of some files one is there already, the last is not."""
    paths = jobs(tmp_path)
    copies = iter(range(5))
    copy = memory.cp_file

    def dies(*of: str) -> None:
        if next(copies, None) is None:
            raise SystemExit
        copy(*of)

    monkeypatch.setattr(memory, "cp_file", dies)
    with pytest.raises(SystemExit):
        profframe.convert(paths, "memory://out", executor)
    monkeypatch.setattr(memory, "cp_file", copy)
    assert [*Bucket("memory://out").records()] == []

    files = profframe.convert(paths, "memory://out", executor)
    assert set(files["status"]) == {"written"}
    assert_same(content(fetch(memory, "/out", tmp_path / "copy")), loaded(paths))


def test_what_is_replaced_elsewhere_is_incomplete_until_all_of_it_is(
    memory: Any, tmp_path: Path, executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails half-way leaves no mixture of the old and the new that reads as complete."""
    paths = jobs(tmp_path)
    profframe.convert(paths, "memory://out", executor)
    write(paths[0], 5, "new")
    copies, copy = iter(range(5)), memory.cp_file

    def fails(*of: str) -> None:
        if next(copies, None) is None:
            raise OSError("the network is gone")
        copy(*of)

    monkeypatch.setattr(memory, "cp_file", fails)
    files = profframe.convert(paths, "memory://out", executor)
    assert files["status"].to_list() == ["failed", "unchanged"]
    assert [(record.run, record.rank) for record in Bucket("memory://out").records()] == [
        ("job", 1)
    ]

    monkeypatch.setattr(memory, "cp_file", copy)
    assert profframe.convert(paths, "memory://out", executor)["status"][0] == "written"
    assert_same(content(fetch(memory, "/out", tmp_path / "copy")), loaded(paths))


def test_without_fsspec_the_error_has_the_pip_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert cli.run(["convert", "s3://bucket/a.json", "-o", str(tmp_path / "store")]) == 1
    assert "pip install 'profframe[cloud]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s3://bucket/job/rank0.json", "/bucket/job/rank0.json"),
        ("https://host/a%20b/rank0.json?x=1#y", "/host/a b/rank0.json"),
        ("simplecache::s3://bucket/rank0.json", "/bucket/rank0.json"),
    ],
)
def test_paths_of_urls(text: str, path: str) -> None:
    assert is_url(text)
    assert path_of(text) == path


@pytest.mark.parametrize("text", ["a.json", "/a:b", "C:/a.json", "run=1/a::b.json", "a b://c"])
def test_paths_are_no_urls(text: str) -> None:
    assert not is_url(text)
