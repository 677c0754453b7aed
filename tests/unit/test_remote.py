"""Files and stores of URLs: what is opened, copied, kept and read of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pyarrow.parquet as pq
import pytest

import profframe
from profframe import cli, schema
from profframe.cli import keeping
from profframe.errors import (
    AnswerError,
    NoTraceFoundError,
    SourceError,
    StoreError,
    without_secrets_of,
)
from profframe.query.catalogue import find, reads
from profframe.query.header import Answer
from profframe.remote import file_systems
from profframe.remote.file_systems import RemoteFile, files_of, is_other_version
from profframe.remote.trees import Tree
from profframe.store import cache, scan
from profframe.store.catalogue.remote_segments import mend
from tests import needs
from tests.batch.sources import assert_same, content, rows_of, write
from tests.conftest import Run

fsspec = needs.module("fsspec")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402 - fsspec may be absent


class Counted(MemoryFileSystem):  # type: ignore[misc]
    """Files in this process, which notes what is read of them and fails when it is told to."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    copies: ClassVar[list[str]] = []
    ranges: ClassVar[list[tuple[str, int]]] = []
    failure: ClassVar[Exception | None] = None

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = MemoryFileSystem._strip_protocol(path.replace("counted://", "memory://"))
        return stripped

    def unstrip_protocol(self, name: str) -> str:
        return f"counted://{name.lstrip('/')}"

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
        if self.failure is not None:
            raise self.failure
        data: bytes = super().cat_file(path, start, end)
        self.ranges.append((path, len(data)))
        return data

    def get_file(self, path: str, target: Any, **options: Any) -> None:
        self.copies.append(path)
        if self.failure is not None:
            raise self.failure
        super().get_file(path, target, **options)


@pytest.fixture
def counted() -> Iterator[Any]:
    fsspec.register_implementation("counted", Counted, clobber=True)
    files = fsspec.filesystem("counted")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    Counted.copies.clear()
    Counted.ranges.clear()
    Counted.failure = None


@pytest.fixture
def job(counted: Any, tmp_path: Path) -> list[Path]:
    """Two ranks, here and at counted://b/job."""
    paths = [write(tmp_path / "b" / "job" / f"rank{rank}.json.gz", rank) for rank in range(2)]
    for path in paths:
        counted.put_file(str(path), f"/b/job/{path.name}")
    return paths


@pytest.fixture
def store(counted: Any, tmp_path: Path) -> Path:
    """A store of two runs, here and at counted://b/store."""
    folder = tmp_path / "store"
    for run, name in (("a", "mm"), ("b", "add")):
        trace = profframe.load(write(tmp_path / f"{run}.json", 7, name))
        profframe.load(tmp_path / f"{run}.json", run=run).to_parquet(folder)
        assert trace.traces.height == 1
    counted.put(str(folder), "/b/store", recursive=True)
    return folder


class TestFiles:
    @pytest.mark.parametrize(
        "source",
        [
            "counted://b/job",
            "counted://b/job/",
            "counted://b/job/rank*.gz",
            "counted://b/**/*.gz",
            ["counted://b/job/rank1.json.gz", "counted://b/job/rank0.json.gz"],
        ],
    )
    def test_a_url_is_loaded_as_its_file_would_be(self, source: Any, job: list[Path]) -> None:
        here, there = profframe.load(job), profframe.load(source)
        assert there.traces["source"].to_list() == [
            f"counted://b/job/rank{rank}.json.gz" for rank in (0, 1)
        ]
        assert there.traces.select("run", "rank").rows() == [("job", 0), ("job", 1)]
        for name in schema.TABLES:
            assert (
                there.scan(name)
                .drop("source", strict=False)
                .collect()
                .equals(here.scan(name).drop("source", strict=False).collect())
            )

    def test_one_beside_files_of_this_machine(self, job: list[Path]) -> None:
        trace = profframe.load([job[0], "counted://b/job/rank1.json.gz"])
        assert trace.traces["source"].to_list() == [
            str(job[0]), "counted://b/job/rank1.json.gz",
        ]  # fmt: skip

    @pytest.mark.usefixtures("job")
    def test_a_copy_that_nobody_uses_is_gone(self) -> None:
        from profframe.system.drafts import process_scratch

        profframe.load("counted://b/job")
        assert [*process_scratch().rglob("*.gz")] == []

    def test_a_cache_copies_again_what_has_changed_and_nothing_else(
        self, counted: Any, job: list[Path], tmp_path: Path
    ) -> None:
        kept = tmp_path / "kept"
        first = profframe.load("counted://b/job", cache=kept)
        assert Counted.copies == ["/b/job/rank0.json.gz", "/b/job/rank1.json.gz"]
        again = profframe.load("counted://b/job", cache=kept)
        assert len(Counted.copies) == 2
        assert_same(rows_of(first), rows_of(again))
        counted.put_file(str(write(job[1], 50, "new")), "/b/job/rank1.json.gz")
        later = profframe.load("counted://b/job", cache=kept)
        assert Counted.copies[2:] == ["/b/job/rank1.json.gz"]
        assert set(later.events["name"]) == {"mm", "new"}

    def test_a_file_that_changes_while_it_is_copied_is_copied_again(
        self, counted: Any, job: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copied = Counted.get_file
        other = write(job[0].with_name("other.json.gz"), 9, "other")

        def copy(self: Any, path: str, target: Any, **options: Any) -> None:
            copied(self, path, target, **options)
            if len(Counted.copies) == 1:
                counted.put_file(str(other), path)

        monkeypatch.setattr(Counted, "get_file", copy)
        trace = profframe.load("counted://b/job/rank0.json.gz")
        assert set(trace.events["name"]) == {"other"}
        assert len(Counted.copies) == 2

    def test_one_that_always_changes_is_an_error(
        self, counted: Any, job: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copied = Counted.get_file

        def copy(self: Any, path: str, target: Any, **options: Any) -> None:
            copied(self, path, target, **options)
            counted.put_file(str(job[0]), path)

        monkeypatch.setattr(Counted, "get_file", copy)
        with pytest.raises(SourceError) as error:
            profframe.load("counted://b/job/rank0.json.gz")
        assert str(error.value) == (
            "counted://b/job/rank0.json.gz: changes while it is read; try again"
        )

    def test_one_that_ends_early_is_an_error(
        self, job: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        size = job[0].stat().st_size
        monkeypatch.setattr(
            Counted, "get_file", lambda _, __, target, **___: Path(target).write_bytes(b"12345")
        )
        with pytest.raises(SourceError) as error:
            profframe.load("counted://b/job/rank0.json.gz")
        assert str(error.value) == f"counted://b/job/rank0.json.gz: ends after 5 of {size} bytes"

    @pytest.mark.parametrize(
        ("failure", "words"),
        [
            (FileNotFoundError("/b/job/rank0.json.gz"), "no such file"),
            (PermissionError("Forbidden"), "access is refused; does it need credentials"),
            (TimeoutError(), "cannot be read: the server does not answer in time"),
            (ConnectionResetError("reset\nby peer"), "cannot be read: reset by peer"),
        ],
    )
    @pytest.mark.usefixtures("job")
    def test_what_vanishes_in_the_middle_is_one_line(
        self, failure: Exception, words: str, run: Run
    ) -> None:
        Counted.failure = failure
        code, out, err = run("show", "counted://b/job/rank0.json.gz")
        assert (code, out) == (1, "")
        assert err.startswith(f"error: counted://b/job/rank0.json.gz: {words}")
        assert err.count("\n") == 1

    def test_what_is_no_trace_is_named_by_its_url(self, counted: Any) -> None:
        counted.pipe_file("/b/bad.json", b"no trace")
        with pytest.raises(SourceError, match=r"^counted://b/bad\.json: "):
            profframe.load("counted://b/bad.json")

    @pytest.mark.usefixtures("job")
    def test_files_of_a_folder_that_are_no_traces_are_skipped_by_their_urls(
        self, counted: Any
    ) -> None:
        counted.pipe_file("/b/job/notes.txt", b"no trace")
        trace = profframe.load("counted://b/job")
        rows = trace.quality.filter(pl.col("issue") == "skipped_file")
        assert ": counted://b/job/notes.txt: not a trace: " in rows["detail"].item()

    def test_a_member_of_an_archive_has_the_url_of_the_archive(
        self, counted: Any, job: list[Path], tmp_path: Path
    ) -> None:
        import zipfile

        archive = tmp_path / "all.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in job:
                file.write(path, f"job/{path.name}")
        counted.put_file(str(archive), "/b/all.zip")
        traces = profframe.load("counted://b/all.zip").traces
        assert traces.select("run", "rank", "source").rows() == [
            ("job", rank, f"counted://b/all.zip/job/rank{rank}.json.gz") for rank in (0, 1)
        ]

    def test_what_is_given_with_a_trace_can_be_a_url(self, counted: Any, job: list[Path]) -> None:
        counted.pipe_file("/b/snapshot.pickle", b"no snapshot")
        with pytest.raises(SourceError, match=r"^counted://b/snapshot\.pickle: "):
            profframe.load(job[0], memory="counted://b/snapshot.pickle")

    def test_a_file_whose_name_looks_like_a_url_is_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "ab::c.json")
        monkeypatch.chdir(tmp_path)
        assert profframe.load("ab::c.json").traces.height == 1

    def test_a_url_as_a_path_is_refused_in_words(self) -> None:
        with pytest.raises(NoTraceFoundError, match="a URL is given as text, not as a Path"):
            profframe.load(Path("s3://bucket/rank0.json"))

    def test_a_url_of_this_machine_is_a_path(self, job: list[Path]) -> None:
        trace = profframe.load(f"file://{job[0]}")
        assert trace.traces["source"].to_list() == [str(job[0])]


class TestVersion:
    def test_an_etag_is_told_from_a_time(self) -> None:
        assert is_other_version("ETag 1 5", "ETag 2 5")
        assert not is_other_version("ETag 1 5", "ETag 1 5")
        assert not is_other_version("ETag 1 5", "mtime 1 5")
        assert not is_other_version(None, "mtime 1 5")

    @pytest.mark.parametrize(
        ("about", "version"),
        [
            ({"name": "x", "size": 5, "ETag": '"9"', "mtime": 7}, 'ETag "9" 5'),
            ({"name": "x", "size": 5, "mtime": 7}, "mtime 7 5"),
            ({"name": "x", "size": None, "mtime": 7}, None),
            ({"name": "x", "size": 5}, None),
        ],
    )
    def test_of_what_a_file_system_says(
        self, about: dict[str, Any], version: str | None, counted: Any
    ) -> None:
        assert file_systems.version_of(counted, about) == version

    def test_its_own_key_is_the_last_resort(self) -> None:
        class Keyed(MemoryFileSystem):  # type: ignore[misc]
            def ukey(self, path: str) -> str:
                return f"key of {path}"

        assert file_systems.version_of(Keyed(), {"name": "x", "size": 5}) == "ukey key of x"

    def test_files_have_size_and_version(self, job: list[Path]) -> None:
        listed = [*files_of("counted://b/job")]
        named = [*files_of("counted://b/job/rank0.json.gz")]
        assert [file.size for file in listed] == [path.stat().st_size for path in job]
        assert [file.is_named for file in (*listed, *named)] == [False, False, True]
        assert listed[0].version == named[0].version is not None

    @pytest.mark.usefixtures("job")
    def test_one_without_a_version_is_never_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(file_systems, "version_of", lambda *_: None)
        for number in (1, 2):
            profframe.load("counted://b/job/rank0.json.gz", cache=tmp_path / "kept")
            assert len(Counted.copies) == number
        assert [e for e in cache.entries(tmp_path / "kept") if e.is_download] == []


class TestCache:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("PROFFRAME_CACHE", str(tmp_path / "kept"))
        return tmp_path / "kept"

    def test_the_command_line_keeps_copies_of_any_size(self, job: list[Path], run: Run) -> None:
        for _ in range(2):
            assert run("show", "--cache", "counted://b/job")[0] == 0
        assert len(Counted.copies) == len(job)
        assert "0 traces and copies of 2 URLs, " in run("cache")[1]
        assert "0 traces and copies of 2 URLs removed, " in run("cache", "clear")[2]
        assert run("show", "--cache", "counted://b/job/rank0.json.gz")[0] == 0
        assert len(Counted.copies) == len(job) + 1

    @pytest.mark.usefixtures("job")
    def test_without_a_cache_nothing_is_kept(self, home: Path, run: Run) -> None:
        for option in ("--no-cache", "--format=json"):  # the other is no terminal
            assert run("show", option, "counted://b/job/rank0.json.gz")[0] == 0
        assert len(Counted.copies) == 2
        assert not home.exists()

    def test_copies_are_cut_to_the_size_of_the_cache(
        self, job: list[Path], home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeping, "MOST_BYTES", job[0].stat().st_size + 10)
        assert run("show", "--cache", "counted://b/job")[0] == 0
        assert len(cache.entries(home)) == 1

    @pytest.mark.usefixtures("job")
    def test_a_copy_of_another_size_is_not_used(self, home: Path) -> None:
        profframe.load("counted://b/job/rank0.json.gz", cache=home)
        (copy,) = home.glob("url-*/b/job/rank0.json.gz")
        copy.write_bytes(copy.read_bytes()[:-1])
        profframe.load("counted://b/job/rank0.json.gz", cache=home)
        assert len(Counted.copies) == 2


class TestStores:
    def test_it_is_the_one_that_is_here(self, store: Path) -> None:
        there = profframe.load("counted://b/store")
        assert_same(content(store), rows_of(there))
        here = profframe.load(store)
        for name in ("self_times", "runs", "step_times", "kernels"):
            assert there.answer(name).equals(here.answer(name))
        assert pickle.loads(pickle.dumps(there)).runs().equals(here.runs())  # noqa: S301 - its own

    @pytest.mark.parametrize("part", ["run=a", "run=a/rank=0", "run=a/"])
    @pytest.mark.usefixtures("store")
    def test_a_part_of_a_store(self, part: str) -> None:
        assert profframe.load(f"counted://b/store/{part}").traces["run"].to_list() == ["a"]

    def test_only_footers_and_the_columns_of_a_run_are_read(
        self, counted: Any, tmp_path: Path
    ) -> None:
        path = write(tmp_path / "large.json", events=30_000)
        for run in "ab":
            profframe.load(path, run=run).to_parquet(tmp_path / "large")
        counted.put(str(tmp_path / "large"), "/b/large", recursive=True)
        trace = profframe.load("counted://b/large", runs="a")
        assert {path for path, _ in Counted.ranges if "run=b" in path} == set()
        Counted.ranges.clear()
        trace.self_times()
        answer = find("self_times")
        assert isinstance(answer, Answer)
        assert {path for path, _ in Counted.ranges} == {"/b/large/run=a/rank=0/events.parquet"}
        columns = reads(answer)["events"]
        assert columns is not None
        file = pq.ParquetFile(tmp_path / "large" / "run=a" / "rank=0" / "events.parquet").metadata
        groups = [file.row_group(number) for number in range(file.num_row_groups)]
        parts = [group.column(n) for group in groups for n in range(group.num_columns)]
        size = sum(p.total_compressed_size for p in parts if p.path_in_schema in columns)
        footer = file.serialized_size
        assert sum(number for _, number in Counted.ranges) <= 1.3 * size + 2 * footer

    @pytest.mark.usefixtures("store")
    def test_a_question_opens_nothing_else(self, tmp_path: Path) -> None:
        trace = profframe.load("counted://b/store", runs="a").with_tables(files=tmp_path)
        for path in (
            "counted://b/store/run=b/rank=0/events.parquet",
            "counted://b/store/../other",
            "counted://b/*",
            "memory://b/x",
            "s3://b/x",
            "http://127.0.0.1/x",
        ):
            for function in ("read_parquet", "read_text"):
                with pytest.raises(AnswerError):
                    trace.sql(f"FROM {function}('{path}')")
        with pytest.raises(AnswerError):
            trace.sql("FROM glob('counted://b/**')")

    @pytest.mark.usefixtures("store")
    def test_a_folder_without_its_last_file_is_not_there_yet(self, counted: Any) -> None:
        counted.rm_file("/b/store/run=a/rank=0/traces.parquet")
        assert profframe.load("counted://b/store").traces["run"].to_list() == ["b"]

    @pytest.mark.usefixtures("store")
    def test_a_missing_file_is_named(self, counted: Any) -> None:
        counted.rm_file("/b/store/run=a/rank=0/events.parquet")
        with pytest.raises(StoreError) as error:
            profframe.load("counted://b/store")
        assert str(error.value) == (
            "counted://b/store/run=a/rank=0/events.parquet: missing from the store; convert it "
            "again"
        )

    @pytest.mark.parametrize(
        ("failure", "words"),
        [
            (PermissionError("Forbidden"), "access is refused; does it need credentials"),
            (TimeoutError(), "cannot be read: the server does not answer in time"),
            (ConnectionResetError("reset\nby peer"), "cannot be read: reset by peer"),
        ],
    )
    @pytest.mark.usefixtures("store")
    def test_a_source_that_vanishes_in_the_middle_is_one_line(
        self, failure: Exception, words: str
    ) -> None:
        trace = profframe.load("counted://b/store", runs="a")
        Counted.failure = failure
        for ask in (
            partial(trace.answer, "self_times"),
            partial(trace.sql, "SELECT sum(dur_ns) FROM events"),
            lambda: trace.events.height,
        ):
            with pytest.raises(StoreError) as error:
                ask()
            assert str(error.value).startswith("counted://b/store/run=a/rank=0/events.parquet: ")
            assert words in str(error.value)
            assert "\n" not in str(error.value)
        Counted.failure = None
        assert trace.self_times().height

    def test_what_was_written_again_is_read_as_it_is_now(
        self, counted: Any, store: Path, tmp_path: Path
    ) -> None:
        trace = profframe.load("counted://b/store", runs="a")
        path = write(tmp_path / "again.json", 7, "another", events=5)
        profframe.load(path, run="a").to_parquet(store)
        counted.put(f"{store}/run=a", "/b/store/run=a", recursive=True)
        counted.rm("/b/store/run=a/run=a", recursive=True)
        for file in (store / "run=a" / "rank=0").iterdir():
            counted.put_file(str(file), f"/b/store/run=a/rank=0/{file.name}")
        assert trace.self_times()["name"].to_list() == ["another"]

    def test_what_is_no_store_is_one_line(self, counted: Any) -> None:
        counted.pipe_file("/b/x/notes.txt", b"1")
        with pytest.raises(StoreError, match=r"^counted://b/x: not a profframe store: "):
            scan("counted://b/x")


def test_a_copy_has_names_that_this_machine_can_have(counted: Any, tmp_path: Path) -> None:
    name = f"{'x' * 300}.json"
    counted.pipe_file(f"/b/{name}", write(tmp_path / "a.json").read_bytes())
    trace = profframe.load(f"counted://b/{name}")
    assert trace.traces["source"].to_list() == [f"counted://b/{name}"]


@pytest.mark.usefixtures("job")
@pytest.mark.usefixtures("store")
def test_every_verb_takes_urls(tmp_path: Path) -> None:
    file, folder = "counted://b/job/rank0.json.gz", "counted://b/store"
    for words in (
        [file],
        [folder],
        ["answer", "self_times", file],
        ["sql", folder, "FROM traces"],
        ["diff", file, folder],
        ["report", file, "-o", str(tmp_path / "page.html")],
        ["export", folder, "-o", str(tmp_path / "all.json")],
        ["info", file],
    ):
        assert cli.run(words) == 0, words


def test_a_remote_file_shows_no_secrets() -> None:
    file = RemoteFile("https://ada:s3cr3t@host/a.json?X-Amz-Signature=s3cr3t")
    assert "s3cr3t" not in repr(file)
    assert file.shown == "https://***@host/a.json?X-Amz-Signature=***"


class TestMaintenance:
    def test_contents_are_listed(self, store: Path, run: Run) -> None:
        from profframe.store.maintenance import contents

        there, here = contents("counted://b/store"), contents(store)
        assert there.equals(here)
        code, out, _ = run("store", "ls", "counted://b/store", "--format", "csv")
        assert code == 0
        assert [line.split(",")[0] for line in out.splitlines()] == ["run", "a", "b"]

    def test_what_was_changed_is_noticed(self, counted: Any, store: Path, run: Run) -> None:
        assert run("store", "verify", "counted://b/store")[0] == 0
        path = "/b/store/run=a/rank=0/events.parquet"
        data = bytearray(counted.cat_file(path))
        data[len(data) // 3] ^= 1
        counted.pipe_file(path, bytes(data))
        code, _, err = run("store", "verify", "counted://b/store")
        assert code == 1
        assert "run=a/rank=0/events.parquet: changed since it was written" in err
        assert store.exists()

    def test_it_is_packed_and_answers_stay(self, counted: Any, store: Path, run: Run) -> None:
        before = rows_of(profframe.load("counted://b/store"))
        opened = profframe.load("counted://b/store")
        assert run("store", "compact", "counted://b/store")[0] == 0
        folders = {path.split("/")[3] for path in counted.find("/b/store")}
        assert [name for name in folders if name.startswith("run=")] == []
        assert len([name for name in folders if name.startswith("pack-")]) == 1
        assert_same(before, rows_of(profframe.load("counted://b/store")))
        assert opened.self_times().height == 2
        assert run("store", "verify", "counted://b/store")[0] == 0
        assert run("store", "compact", "counted://b/store")[0] == 0
        assert_same(before, content(store))
        counted.get("/b/store", str(store.with_name("back")), recursive=True)
        assert_same(before, content(store.with_name("back")))

    def test_runs_are_removed_also_of_a_pack(self, counted: Any, store: Path, run: Run) -> None:
        url = "counted://b/store"
        assert run("store", "rm", url, "none")[0] == 1
        assert run("store", "compact", url)[0] == 0
        assert run("store", "rm", url, "a")[0] == 0
        assert profframe.load(url).traces["run"].to_list() == ["b"]
        assert run("store", "verify", url)[0] == 0
        counted.put(f"{store}/run=a", "/b/store/run=a", recursive=True)
        assert profframe.load(url).traces["run"].to_list() == ["a", "b"]
        assert run("store", "rm", url, "a", "--rank", "0")[0] == 0
        assert [path for path in counted.find("/b/store") if "run=a" in path] == []

    @pytest.mark.usefixtures("store")
    def test_a_kill_in_the_middle_leaves_the_old_or_the_new(
        self, counted: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from profframe.store.maintenance import compact

        url = "counted://b/store"
        before = rows_of(profframe.load(url))
        kept = dict(counted.store)
        count, done = 0, False
        methods = {name: getattr(Counted, name) for name in ("put_file", "rm_file", "pipe_file")}
        while not done:
            counted.store.clear()
            counted.store.update(kept)
            steps = iter(range(count))
            with monkeypatch.context() as patch:
                for name, method in methods.items():

                    def step(
                        *args: Any, _method: Any = method, _steps: Any = steps, **options: Any
                    ) -> Any:
                        if next(_steps, None) is None:
                            raise KeyboardInterrupt
                        return _method(*args, **options)

                    patch.setattr(Counted, name, step)
                try:
                    compact(url)
                    done = True
                except KeyboardInterrupt:
                    count += 1
            assert_same(before, rows_of(profframe.load(url)))
        assert count > 30
        compact(url)
        assert_same(before, rows_of(profframe.load(url)))


class TestCatalogue:
    @pytest.fixture
    def catalogued(self, store: Path, counted: Any, monkeypatch: pytest.MonkeyPatch) -> str:
        """A store of which every size is large: its catalogue is the commit."""
        monkeypatch.setattr("profframe.store.catalogue.listing.FEW", 0)
        mend(Tree("counted://b/store"))
        assert counted.exists("/b/store/catalogue")
        assert store.exists()
        return "counted://b/store"

    def test_it_alone_says_what_is_there(self, catalogued: str, counted: Any, store: Path) -> None:
        assert_same(content(store), rows_of(profframe.load(catalogued)))
        counted.put(f"{store}/run=a", "/b/store/run=later", recursive=True)
        assert profframe.load(catalogued).traces["run"].to_list() == ["a", "b"]

    def test_a_run_is_opened_without_a_look_at_others(
        self, catalogued: str, counted: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: Any, **__: Any) -> None:
            raise AssertionError

        monkeypatch.setattr(Counted, "find", refused)
        Counted.ranges.clear()
        trace = profframe.load(catalogued, runs="b")
        assert trace.self_times()["run"].unique().to_list() == ["b"]
        assert {path for path, _ in Counted.ranges if "run=a" in path} == set()
        assert counted.exists("/b/store/run=a/rank=0/traces.parquet")

    def test_packs_and_removed_members(self, catalogued: str, run: Run) -> None:
        before = rows_of(profframe.load(catalogued))
        assert run("store", "compact", catalogued)[0] == 0
        assert_same(before, rows_of(profframe.load(catalogued)))
        assert profframe.load(catalogued, runs="a").traces["run"].to_list() == ["a"]
        assert run("store", "rm", catalogued, "a")[0] == 0
        assert profframe.load(catalogued).traces["run"].to_list() == ["b"]

    def test_a_killed_writer_is_made_up_for(
        self, catalogued: str, counted: Any, store: Path
    ) -> None:
        counted.put(f"{store}/run=a", "/b/store/run=c", recursive=True)
        mend(Tree(catalogued))  # its rows are of run a, which its folder does not name
        assert profframe.load(catalogued).traces["run"].to_list() == ["a", "b"]
        counted.rm("/b/store/run=c", recursive=True)
        counted.rm("/b/store/run=b", recursive=True)
        mend(Tree(catalogued))
        assert profframe.load(catalogued).traces["run"].to_list() == ["a"]


def test_what_a_library_says_of_a_url_has_no_secrets() -> None:
    url = "https://ada%40x:s3cr3t%21@host/a.json?X-Amz-Signature=3f8a9c&v=1"
    said = "no ada@x:s3cr3t! at host, nor s3cr3t!, nor ada%40x:s3cr3t%21@host; 3f8a9c is v=1"
    expected = "no *** at host, nor ***, nor ***@host; *** is v=1"
    assert without_secrets_of(url, said) == expected


def test_a_store_is_copied_from_a_url_and_not_written_by_hand(store: Path, tmp_path: Path) -> None:
    files = profframe.convert("counted://b/store", tmp_path / "copy")
    assert files["status"].to_list() == ["written", "written"]
    assert_same(content(store), content(tmp_path / "copy"))
    with pytest.raises(StoreError, match="a URL, where only convert writes a store"):
        profframe.load(store).to_parquet("counted://b/other")
