"""Files and stores that are elsewhere, through fsspec."""

from __future__ import annotations

import asyncio
import http.server
import json
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

import profframe
from profframe import cli
from profframe.conversion.bucket import Bucket
from profframe.conversion.inputs import Item
from profframe.errors import ProfframeError, SourceError
from profframe.remote.urls import is_url, path_of
from tests import needs
from tests.batch.sources import assert_same, content, loaded, write
from tests.conftest import ROOT, Run

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


SECRET = "s3cr3t"  # noqa: S105 - of nothing
SIGNED = f"X-Amz-Signature={SECRET}&v=1"


class Server(http.server.BaseHTTPRequestHandler):
    """A web server that notes what it is asked for, and redirects as ``to`` says."""

    files: ClassVar[dict[str, bytes]] = {}
    to: ClassVar[dict[str, str]] = {}
    kind: ClassVar[str] = "application/json"
    asked: ClassVar[list[str]] = []
    lines: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        self.lines.append(str(self.headers.get("Authorization")))
        target, data = self.to.get(path), self.files.get(path)
        self.send_response(302 if target else 404 if data is None else 200)
        if target:
            self.send_header("Location", target)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data or b"")

    do_HEAD = do_GET  # noqa: N815 - a name of the library's

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A server on the loopback, with two traces."""
    needs.module("aiohttp")
    Server.asked.clear()
    Server.lines.clear()
    Server.to.clear()
    Server.kind = "application/json"
    Server.files = {f"/job/{path.name}": path.read_bytes() for path in jobs(tmp_path / "served")}
    with http.server.ThreadingHTTPServer(("", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_url_is_shown_and_stored_without_its_secrets(
    web: str, tmp_path: Path, executor: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    urls = [f"http://ada:{SECRET}@{web}/{path}?{SIGNED}" for path in ("job/rank0.json.gz", "none")]
    store = tmp_path / "store"
    files = profframe.convert(urls, store, executor)
    shown = f"http://***@{web}/job/rank0.json.gz?X-Amz-Signature=***&v=1"
    assert files["source"].to_list()[0] == shown
    assert files["status"].to_list() == ["written", "failed"]
    assert "none?X-Amz-Signature=***&v=1: " in files["error"][1]
    assert any(line.startswith("Basic ") for line in Server.lines)  # it was sent
    traces = profframe.load(store).traces
    assert traces.select("run", "source").rows() == [("job", shown)]
    assert set(profframe.convert(urls[0], store, executor)["status"]) == {"unchanged"}
    assert cli.run(["convert", urls[1], "-o", str(store)]) == 1
    assert cli.run(["convert", urls[0], "-o", str(store), "--no-such"]) == 2
    assert cli.run(["show", urls[0]]) == 0
    assert cli.run(["show", urls[1]]) == 1
    assert cli.run(["diff", urls[0], urls[0]]) == 0
    assert cli.run(["report", urls[0], "-o", str(store / "page.html")]) == 0
    contents = [p.read_bytes() for p in store.rglob("*") if p.is_file()]
    names = [str(p) for p in store.rglob("*")]
    output = capfd.readouterr()
    for text in (*names, output.out, output.err, repr(files.rows())):
        assert SECRET not in text
        assert "ada" not in text
    assert not [data for data in contents if SECRET.encode() in data]


def test_the_name_of_a_run_is_not_that_of_a_user(web: str, tmp_path: Path, executor: Any) -> None:
    Server.files["/rank0.json.gz"] = Server.files["/job/rank0.json.gz"]
    files = profframe.convert(f"http://ada:{SECRET}@{web}/rank0.json.gz", tmp_path, executor)
    assert files["run"].to_list() == [web]


def test_errors_name_no_secrets_in_python(web: str, tmp_path: Path) -> None:
    for ask in (
        profframe.load,
        lambda url: profframe.convert(url, tmp_path / "store"),
    ):
        with pytest.raises(ProfframeError) as error:
            ask(f"http://ada:{SECRET}@{web}/none.json?{SIGNED}")
        whole = "".join(traceback.format_exception(error.value))
        said = [line for line in whole.splitlines() if "ask(f" not in line]
        assert "http://***@" in str(error.value)
        assert not [line for line in said if SECRET in line]


def test_errors_of_stores_elsewhere_name_no_secrets(web: str, tmp_path: Path) -> None:
    url = f"http://ada:{SECRET}@{web}/store?{SIGNED}"
    errors = profframe.convert(tmp_path / "served" / "job", url)["error"]
    assert all("http://***@" in error and SECRET not in error for error in errors)


def test_a_cluster_logs_no_secrets() -> None:
    item = Item(f"https://ada:{SECRET}@host/a.json")
    assert SECRET not in repr(item)
    assert SECRET not in repr(Bucket(f"s3://ada:{SECRET}@bucket"))


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("http://127.0.0.2:{port}/job/rank0.json.gz", "is not encrypted"),
        ("https://127.0.0.2:{port}/job/rank0.json.gz", "is not a public address"),
        ("https://localhost:{port}/job/rank0.json.gz", "is not a public address"),
        ("https://[::1]:{port}/job/rank0.json.gz", "is not a public address"),
        ("https://[::ffff:127.0.0.1]:{port}/", "is not a public address"),
        ("https://169.254.169.254/latest/meta-data/", "is not a public address"),
        ("https://10.0.0.1/job/rank0.json.gz", "is not a public address"),
        ("https://168.63.129.16/", "is an address of this machine or its cloud"),
    ],
)
def test_redirects_to_other_machines_are_refused(
    web: str, tmp_path: Path, target: str, why: str
) -> None:
    Server.to["/hop"] = target.format(port=web.rpartition(":")[2])
    with pytest.raises(SourceError) as error:
        profframe.convert(f"http://{web}/hop", tmp_path / "store")
    assert f"http://{web}/hop: 127.0.0.1 leads to " in str(error.value)
    assert f"which {why}: refused" in str(error.value)
    with pytest.raises(SourceError, match=f"which {why}: refused"):
        profframe.load(f"http://{web}/hop")
    assert set(Server.asked) == {"/hop"}


def test_redirects_on_the_same_host_are_followed(web: str, tmp_path: Path) -> None:
    Server.to["/hop"] = "/hop2"
    Server.to["/hop2"] = f"http://{web}/job/rank0.json.gz"
    files = profframe.convert(f"http://{web}/hop", tmp_path / "store", rank=0)
    assert files["status"].to_list() == ["written"]


ADDRESSES = {
    "93.184.215.14": (True, True),
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c": (True, True),
    "10.0.0.1": (True, False),
    "192.168.7.7": (True, False),
    "100.64.0.1": (True, False),
    "127.0.0.1": (False, False),
    "127.0.1.1": (False, False),
    "0.0.0.0": (False, False),  # noqa: S104
    "::1": (False, False),
    "::ffff:127.0.0.1": (False, False),
    "64:ff9b::7f00:1": (False, False),
    "64:ff9b::a9fe:a9fe": (False, False),
    "2002:7f00:1::": (False, False),
    "169.254.169.254": (False, False),
    "169.254.0.7": (False, False),
    "fe80::1%eth0": (False, False),
    "fd00:ec2::254": (False, False),
    "100.100.100.200": (False, False),
    "168.63.129.16": (False, False),
    "224.0.0.1": (False, False),
}
"""Addresses: whether a name that was typed may have it, and one that a server redirects to."""


@pytest.mark.parametrize("address", ADDRESSES)
def test_names_are_checked_once_they_are_resolved(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.module("aiohttp")
    from aiohttp.resolver import DefaultResolver

    from profframe.remote.web import Typed, _Resolver

    async def resolve(*_: object) -> list[dict[str, str]]:
        return [{"host": "93.184.215.14"}, {"host": address}]

    async def addresses(host: str) -> bool:
        try:
            await _Resolver(Typed.of("https://ada:x@Typed.example/a")).resolve(host, 443)
        except SourceError:
            return False
        return True

    monkeypatch.setattr(DefaultResolver, "resolve", resolve)
    may = tuple(asyncio.run(addresses(host)) for host in ("typed.example", "other.example"))
    assert may == ADDRESSES[address]


def test_a_typed_name_of_this_machine_is_refused_and_its_address_is_not(
    web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiohttp.resolver import DefaultResolver

    resolve = DefaultResolver.resolve

    async def here(self: Any, host: str, port: int = 0, family: Any = 0) -> Any:
        return await resolve(self, "127.0.0.1" if host == "files.example" else host, port, family)

    monkeypatch.setattr(DefaultResolver, "resolve", here)
    port = web.rpartition(":")[2]
    with pytest.raises(SourceError, match="is an address of this machine or its cloud: refused"):
        profframe.convert(f"http://files.example:{port}/job/rank0.json.gz", tmp_path / "store")
    assert Server.asked == []
    for host in ("127.0.0.1", "localhost"):
        url = f"http://{host}:{port}/job/rank0.json.gz"
        assert profframe.convert(url, tmp_path / "store")["status"].to_list() == ["written"]


def test_https_leads_to_other_hosts_and_not_to_http() -> None:
    needs.module("aiohttp")
    from profframe.remote.web import Typed

    typed = Typed.of("https://hub.example/a?b=1")
    typed.check("https", "cdn.example")
    for host in ("hub.example", "cdn.example"):
        with pytest.raises(SourceError, match="is not encrypted: refused"):
            typed.check("http", host)
    Typed.of("http://hub.example/a").check("http", "hub.example")
    Typed.of("http://hub.example/a").check("https", "cdn.example")


def test_urls_inside_data_are_not_opened(web: str, tmp_path: Path, run: Run) -> None:
    """Nor are links in what a server says is a page, unless it is a folder that was typed."""
    Server.kind = "text/html"
    link = f"http://{web}/job/rank1.json.gz"
    trace = json.dumps({"traceEvents": [], "link": f'<a href="{link}">', "more": f"{link}"})
    Server.files["/job"] = trace.encode()
    Server.files["/job/"] = (
        f'<a href="rank0.json.gz"> <a href="../secret.json"> <a href="/secret.json"> {link}'
        f' http://127.0.0.2/job/x.json <a href="//127.0.0.2/x"> <a href="/job/../secret.json">'
    ).encode()
    assert set(profframe.convert(f"http://{web}/job", tmp_path / "a", rank=0)["status"]) <= {
        "written", "failed",
    }  # fmt: skip
    assert set(Server.asked) == {"/job"}
    files = profframe.convert(f"http://{web}/job/", tmp_path / "b")
    assert files["source"].to_list() == [f"http://{web}/job/rank{n}.json.gz" for n in (0, 1)]
    assert not [path for path in Server.asked if "secret" in path]
    Server.asked.clear()
    example = ROOT / "examples" / "cuda.json.gz"
    for query in (f"FROM '{link}'", f"FROM read_text('{link}')", f"FROM read_parquet('{link}')"):
        assert run("sql", example, query)[0] == 1
    assert Server.asked == []


def test_files_that_name_urls_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="reference opens what files name, which is refused"):
        profframe.convert("reference::http://127.0.0.1:1/refs.json", tmp_path / "store")


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
