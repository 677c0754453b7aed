"""Files and stores on a server that speaks S3, on the loopback."""

from __future__ import annotations

import gzip
import json
import logging
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

import profframe
from profframe.errors import NoTraceFoundError, ProfframeError, SourceError, StoreError
from profframe.query.catalogue import find, reads
from profframe.query.header import Answer
from tests import needs
from tests.batch.sources import assert_same, content, loaded, rows_of, write
from tests.conftest import Run

SECRET = "s3cr3tkey"  # noqa: S105 - of a server in this process


class Server:
    """A server, and what it has sent."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.sent: Counter[str] = Counter()
        self.requests = 0
        self.status = 0
        """What it answers to everything; 0 for what it should."""

    def around(self, application: Any) -> Any:
        """The application, with each body counted by its path."""

        def counted(environ: dict[str, Any], start: Any) -> Any:
            self.requests += 1
            if self.status:
                start(f"{self.status} no", [("Content-Type", "text/plain")])
                return [b""]
            parts = [*application(environ, start)]
            if environ["REQUEST_METHOD"] == "GET" and not environ["QUERY_STRING"]:
                self.sent[environ["PATH_INFO"]] += sum(map(len, parts))
            return parts

        return counted


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    needs.modules("s3fs", "moto", "flask", "flask_cors")
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logger = logging.getLogger("werkzeug")
    level = logger.level
    logger.setLevel(logging.ERROR)
    own = Server("")
    application = own.around(DomainDispatcherApplication(create_backend_app))
    listening = make_server("127.0.0.1", 0, application, threaded=True)
    own.address = f"http://127.0.0.1:{listening.server_port}"
    with ThreadPoolExecutor(1) as thread:
        thread.submit(listening.serve_forever)
        try:
            yield own
        finally:
            listening.shutdown()
            listening.server_close()
            logger.setLevel(level)


@pytest.fixture
def bucket(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The file system, with an empty bucket."""
    fsspec = needs.module("fsspec")
    s3fs = needs.module("s3fs")
    for name, value in (
        ("AWS_ENDPOINT_URL", server.address),
        ("AWS_ACCESS_KEY_ID", "ada"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_MAX_ATTEMPTS", "1"),
    ):
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = fsspec.filesystem("s3")
    files.mkdir("bucket")
    server.sent.clear()
    yield files
    server.status = 0
    files.invalidate_cache()
    files.rm("bucket", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def jobs(folder: Path) -> list[Path]:
    return [write(folder / "job" / f"rank{rank}.json.gz", rank) for rank in range(2)]


def varied(path: Path, seed: int) -> Path:
    """A trace whose columns do not compress to nothing."""
    random = Random(seed)  # noqa: S311 - no secret
    slices = [
        {"ph": "X", "cat": "cpu_op", "name": f"op{random.randrange(300)}", "pid": 1, "tid": 1}
        | {"ts": ts * 10, "dur": random.randrange(1, 9_000) / 1000}
        for ts in range(60_000)
    ]
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": slices}).encode(), 1))
    return path


@pytest.mark.parametrize("source", ["s3://bucket/job", "s3://bucket/job/*.gz", "s3://bucket/**"])
def test_files_are_loaded(source: str, bucket: Any, tmp_path: Path) -> None:
    paths = jobs(tmp_path)
    bucket.put(str(tmp_path / "job"), "bucket/job", recursive=True)
    trace = profframe.load(source)
    assert trace.traces["source"].to_list() == [f"s3://bucket/job/{p.name}" for p in paths]
    here = profframe.load(paths)
    assert trace.events.equals(here.events)
    assert trace.self_times().equals(here.self_times())


def test_what_has_not_changed_is_not_sent_again(
    bucket: Any, server: Server, tmp_path: Path
) -> None:
    (path,) = jobs(tmp_path)[:1]
    for name, expected in (("first", 1), ("second", 1), ("changed", 2)):
        if name != "second":
            bucket.put_file(str(write(path, name=name)), "bucket/job/rank0.json.gz")
        trace = profframe.load("s3://bucket/job/rank0.json.gz", cache=tmp_path / "kept")
        assert len([*(tmp_path / "kept").glob("url-*")]) == expected
        assert set(trace.events["name"]) == {"first" if name == "second" else name}
    assert 0 < server.sent["/bucket/job/rank0.json.gz"] <= 2 * path.stat().st_size + 20


def test_a_store_is_written_asked_and_read_by_columns(
    bucket: Any, server: Server, tmp_path: Path, executor: Any
) -> None:
    large = [varied(tmp_path / f"run{n}" / "rank0.json.gz", n) for n in range(2)]
    files = profframe.convert(large, "s3://bucket/store", executor)
    assert files["status"].to_list() == ["written", "written"]
    again = profframe.convert(large, "s3://bucket/store", executor)
    assert set(again["status"]) == {"unchanged"}
    trace = profframe.load("s3://bucket/store")
    assert_same(rows_of(trace), loaded(large))

    server.sent.clear()
    part = profframe.load("s3://bucket/store", runs="run1")
    server.sent.clear()
    asked = part.self_times()
    assert asked.equals(profframe.load(large[1]).self_times())
    sent = dict(server.sent)
    assert {*sent} == {"/bucket/store/run=run1/rank=0/events.parquet"}
    assert part.self_times().equals(asked)
    assert dict(server.sent) == sent  # DuckDB keeps what it has read
    here = tmp_path / "events.parquet"
    bucket.get_file("bucket/store/run=run1/rank=0/events.parquet", str(here))
    answer, file = find("self_times"), pq.ParquetFile(here).metadata
    assert isinstance(answer, Answer)
    columns = reads(answer)["events"] or frozenset()
    groups = map(file.row_group, range(file.num_row_groups))
    parts = [group.column(n) for group in groups for n in range(group.num_columns)]
    size = sum(p.total_compressed_size for p in parts if p.path_in_schema in columns)
    assert size > 100_000
    assert sum(sent.values()) <= 1.3 * size


def test_a_store_is_compacted_verified_and_converted_into_again(
    bucket: Any, tmp_path: Path, executor: Any, run: Run
) -> None:
    url = "s3://bucket/store"
    paths = [write(tmp_path / f"run{n}" / "rank0.json", n, f"op{n}") for n in range(4)]
    profframe.convert(paths, url, executor)
    before, opened = rows_of(profframe.load(url)), profframe.load(url)
    number = len(bucket.find("bucket/store"))
    code, _, err = run("store", "compact", url)
    assert code == 0
    assert err.startswith(f"{url}: 4 ")
    assert len(bucket.find("bucket/store")) < number / 3
    assert_same(before, rows_of(profframe.load(url)))
    assert opened.self_times().height == 4
    assert run("store", "verify", url)[0] == 0
    assert set(profframe.convert(paths, url, executor)["status"]) == {"unchanged"}
    write(paths[1], 9, "new")
    files = profframe.convert(paths, url, executor)
    assert files["status"].to_list() == ["unchanged", "written", "unchanged", "unchanged"]
    names = profframe.load(url).sql("SELECT DISTINCT run, name FROM events ORDER BY run")
    assert names["name"].to_list() == ["op0", "new", "op2", "op3"]
    assert run("store", "rm", url, "run0", "run1")[0] == 0
    assert profframe.load(url).traces["run"].to_list() == ["run2", "run3"]


def test_a_run_that_is_replaced_is_never_half_read(
    bucket: Any, tmp_path: Path, executor: Any
) -> None:
    paths = jobs(tmp_path)
    profframe.convert(paths, "s3://bucket/store", executor)
    trace = profframe.load("s3://bucket/store")
    write(paths[0], 5, "new", events=40)
    files = profframe.convert(paths, "s3://bucket/store", executor)
    assert files["status"].to_list() == ["written", "unchanged"]
    names = trace.sql("SELECT rank, name, count(*) AS calls FROM events GROUP BY ALL ORDER BY ALL")
    assert names.rows() == [(0, "new", 40), (1, "mm", 3)]
    assert bucket.exists("bucket/store")


@pytest.mark.parametrize(
    ("url", "kind", "words"),
    [
        ("s3://bucket/none.json", NoTraceFoundError, "s3://bucket/none.json: no such file"),
        ("s3://bucket/none/*.gz", NoTraceFoundError, "no file matches the pattern"),
        ("s3://nobucket/a.json", NoTraceFoundError, "no such file"),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_what_is_missing_is_one_line(url: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as error:
        profframe.load(url)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("bucket")
def test_what_is_forbidden_is_one_line(server: Server, tmp_path: Path, run: Run) -> None:
    server.status = 403
    with pytest.raises(SourceError, match=r"^s3://bucket/a\.json: access is refused"):
        profframe.load("s3://bucket/a.json")
    code, out, err = run("show", "s3://bucket/a.json")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: s3://bucket/a.json: access is refused")
    with pytest.raises(StoreError, match=r"^s3://bucket/store: access is refused"):
        profframe.convert(jobs(tmp_path), "s3://bucket/store")


def test_a_server_that_is_gone_in_the_middle_is_one_line(
    bucket: Any, server: Server, tmp_path: Path, executor: Any
) -> None:
    large = write(tmp_path / "run1" / "rank0.json.gz", events=30_000)
    profframe.convert(large, "s3://bucket/store", executor)
    trace = profframe.load("s3://bucket/store")
    server.status = 403
    with pytest.raises(StoreError) as error:
        trace.self_times()
    whole = "".join(traceback.format_exception(error.value))
    assert "access is refused" in str(error.value)
    assert "\n" not in str(error.value)
    assert SECRET not in whole
    server.status = 0
    assert trace.self_times().height == 1
    assert bucket.exists("bucket/store")


@pytest.mark.usefixtures("bucket")
def test_no_message_has_the_key(tmp_path: Path) -> None:
    for url in (f"s3://ada:{SECRET}@nobucket/a.json", "s3://nobucket/a.json"):
        for ask in (profframe.load, lambda url: profframe.convert(url, tmp_path / "store")):
            with pytest.raises(ProfframeError) as error:
                ask(url)
            assert SECRET not in str(error.value)


def test_a_copy_of_a_store_is_the_store(bucket: Any, tmp_path: Path, executor: Any) -> None:
    profframe.convert(jobs(tmp_path), "s3://bucket/store", executor)
    bucket.get("bucket/store", str(tmp_path / "copy"), recursive=True)
    assert_same(rows_of(profframe.load("s3://bucket/store")), content(tmp_path / "copy"))
