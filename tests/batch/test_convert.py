"""Which files become what in the store, whoever does the work and in whatever order."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import cli
from profframe.conversion.scheduler import Progress
from profframe.conversion.staging import Folder
from profframe.errors import NoTraceFoundError, ParameterError, StoreError
from profframe.facts.torch_compat.releases import installed
from profframe.loaders import trace_files as loading
from tests.batch.sources import assert_same, content, loaded, names, write


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


class Shuffled(Executor):
    """Does its work in an order of its own, when the last task is there."""

    def __init__(self, tasks: int, seed: int) -> None:
        self._waiting: list[tuple[Future[Any], Callable[..., Any], Any]] = []
        self._tasks = tasks
        self._random = random.Random(seed)  # noqa: S311 - an order, no secret

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, fn, args))
        if len(self._waiting) >= self._tasks:
            self._tasks = 1
            self._random.shuffle(self._waiting)
            while self._waiting:
                done, function, given = self._waiting.pop()
                done.set_result(function(*given))
        return future


def statuses(files: pl.DataFrame) -> list[str]:
    return files["status"].to_list()


# What is there afterwards


def test_the_store_has_what_load_gives(tmp_path: Path, threads: Executor) -> None:
    paths = [write(tmp_path / "job" / f"rank{rank}.json.gz", rank) for rank in range(4)]
    files = profframe.convert(paths, tmp_path / "store", threads)

    assert files.select("status", "run", "rank", "events").rows() == [
        ("written", "job", rank, 3) for rank in range(4)
    ]
    assert files["source"].to_list() == [str(path) for path in paths]
    assert files["bytes"].to_list() == [path.stat().st_size for path in paths]
    assert_same(content(tmp_path / "store"), loaded(paths))
    assert not list((tmp_path / "store").glob(".[ts]*"))


def test_cycles_are_numbered_as_load_does_it_whoever_is_first(tmp_path: Path) -> None:
    starts = {"c.json": 300, "a.json": 500, "b.json": 100, "d.json": 200}
    paths = [write(tmp_path / "job" / name, start, name, rank=0) for name, start in starts.items()]
    expected = loaded(paths)
    for seed in range(2):
        store = tmp_path / f"store{seed}"
        profframe.convert(paths, store, Shuffled(len(paths), seed))
        assert_same(content(store), expected)
    assert names(store) == [
        ("job", 0, "b.json"),
        ("job.1", 0, "d.json"),
        ("job.2", 0, "c.json"),
        ("job.3", 0, "a.json"),
    ]


def test_a_number_never_takes_the_name_of_another_file(tmp_path: Path, threads: Executor) -> None:
    paths = [
        write(tmp_path / "x" / "job.json", 1, "first"),
        write(tmp_path / "y" / "job.json", 2, "second"),
        write(tmp_path / "job.1.json", 3, "own name"),
    ]
    profframe.convert(paths, tmp_path / "store", threads)

    assert_same(content(tmp_path / "store"), loaded(paths))
    assert names(tmp_path / "store") == [
        ("job", 0, "first"),
        ("job.1", 0, "own name"),
        ("job.2", 0, "second"),
    ]


def test_two_files_never_overwrite_each_other_in_two_batches(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for folder, start in (("a", 9), ("b", 5), ("c", 7)):
        profframe.convert(write(tmp_path / folder / "t.json", start, folder), store, run="r")

    assert names(store) == [("r", 0, "a"), ("r.1", 0, "b"), ("r.2", 0, "c")]
    (check,) = profframe.load(store).quality.filter(run="r.2").rows(named=True)
    assert check["issue"] == "same_run_and_rank"
    assert str(tmp_path / "c" / "t.json") in check["detail"]


def test_copies_of_one_file_are_two_files(tmp_path: Path) -> None:
    first = write(tmp_path / "1" / "trace.json")
    second = tmp_path / "2" / "trace.json"
    second.parent.mkdir()
    shutil.copy(first, second)
    profframe.convert(first, tmp_path / "store")
    profframe.convert(second, tmp_path / "store")

    assert [run for run, _, _ in names(tmp_path / "store")] == ["trace", "trace.1"]


# Once more


def test_what_has_not_changed_is_left_alone(tmp_path: Path, threads: Executor) -> None:
    paths = [write(tmp_path / "job" / f"{n}.json", n, rank=0) for n in range(3)]
    store = tmp_path / "store"
    first = profframe.convert(paths, store, threads)
    before = {path: path.stat().st_ino for path in store.rglob("*.parquet")}
    os.utime(paths[0], (1, 1))
    again = profframe.convert([*reversed(paths)], store, threads)

    assert statuses(again) == ["unchanged"] * 3
    names_of = ("source", "run", "rank", "events", "bytes")
    assert again.select(names_of).reverse().equals(first.select(names_of))
    assert {path: path.stat().st_ino for path in store.rglob("*.parquet")} == before


@pytest.mark.parametrize("changed", [0, 1])
def test_what_has_changed_takes_the_place_of_what_it_was(
    changed: int, tmp_path: Path, threads: Executor
) -> None:
    paths = [write(tmp_path / "job" / f"{n}.json", n, f"old {n}", 0) for n in range(3)]
    store = tmp_path / "store"
    profframe.convert(paths, store, threads)
    same_time = paths[changed].stat().st_mtime_ns
    write(paths[changed], 100 * changed, f"new {changed}", 0)
    os.utime(paths[changed], ns=(same_time, same_time))
    files = profframe.convert(paths, store, threads)

    expected = ["unchanged"] * 3
    expected[changed] = "written"
    assert statuses(files) == expected
    words = ["old"] * 3
    words[changed] = "new"
    assert names(store) == [(f"job.{n}" if n else "job", 0, f"{words[n]} {n}") for n in range(3)]


def test_other_options_are_another_result(tmp_path: Path, example: Path) -> None:
    store = tmp_path / "store"
    profframe.convert(example, store)
    assert statuses(profframe.convert(example, store, compat="torch")) == ["written"]
    assert statuses(profframe.convert(example, store, compat="torch")) == ["unchanged"]
    assert statuses(profframe.convert(example, store, run="other")) == ["written"]
    traces = profframe.load(store).traces
    assert traces.select("run", "convert_options").rows() == [
        ("cpu_training", options(compat="torch")),
        ("other", options(run="other")),
    ]


def options(**given: Any) -> str:
    """As `traces` has them; as torch does depends on the release of torch."""
    release = {"release": installed()} if given.get("compat") else {}
    return json.dumps(given | release, separators=(",", ":"))


@pytest.mark.parametrize("other", [{"run": "mine"}, {"rank": 3}, {"compat": "torch"}])
def test_what_a_killed_batch_has_converted_is_not_taken_up_for_other_options(
    other: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, store = write(tmp_path / "job" / "rank0.json"), tmp_path / "store"

    def kill(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "publish", kill)
        with pytest.raises(KeyboardInterrupt):
            profframe.convert(source, store)
    (waits,) = store.glob(".staged-*")
    files = profframe.convert(source, store, **other)

    assert statuses(files) == ["written"]
    traces = profframe.load(store).traces
    found = traces.select("run", "rank", "convert_options").rows()
    asked = {"run": "job", "rank": 0} | other
    assert found == [(asked["run"], asked["rank"], options(**other))]
    assert not waits.exists()  # nobody works on it
    assert statuses(profframe.convert(source, store)) == ["written"]


def test_a_damaged_folder_is_converted_again(tmp_path: Path) -> None:
    path = write(tmp_path / "job" / "rank0.json")
    store = tmp_path / "store"
    profframe.convert(path, store)
    for damage in ("traces.parquet", "events.parquet"):
        file = store / "run=job" / "rank=0" / damage
        file.unlink() if damage == "events.parquet" else file.write_bytes(b"no Parquet")
        assert statuses(profframe.convert(path, store)) == ["written"]
        assert names(store) == [("job", 0, "mm")]


def test_a_store_of_to_parquet_is_not_overwritten_by_another_file(tmp_path: Path) -> None:
    store = tmp_path / "store"
    profframe.load(write(tmp_path / "a.json", name="a"), run="r").to_parquet(store)
    profframe.convert(write(tmp_path / "b.json", name="b"), store, run="r")
    assert names(store) == [("r", 0, "a"), ("r.1", 0, "b")]
    write(tmp_path / "a.json", name="new a")
    profframe.convert(tmp_path / "a.json", store, run="r")
    assert names(store) == [("r", 0, "new a"), ("r.1", 0, "b")]


# Bad files


def test_a_bad_file_fails_alone(tmp_path: Path, threads: Executor) -> None:
    folder = tmp_path / "job"
    for rank in range(2):
        write(folder / f"rank{rank}.json")
    (folder / "rank2.json").write_text("no trace")
    (folder / "rank3.json").write_text("")
    (folder / "README.md").write_text("about the job")
    (folder / "rank4.json.gz").write_bytes(b"\x1f\x8bno gzip")
    files = profframe.convert([folder, tmp_path / "missing"], tmp_path / "store", threads)

    found = {Path(row["source"]).name: row for row in files.rows(named=True)}
    assert {name: row["status"] for name, row in found.items()} == {
        "README.md": "skipped",
        "missing": "failed",
        "rank0.json": "written",
        "rank1.json": "written",
        "rank2.json": "failed",
        "rank3.json": "failed",
        "rank4.json.gz": "failed",
    }
    for row in found.values():
        if row["status"] == "failed":
            assert row["source"] in row["error"]
            assert "\n" not in row["error"]
    assert [rank for _, rank, _ in names(tmp_path / "store")] == [0, 1]


def test_an_error_that_nobody_thought_of_is_that_of_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loading.read_trace

    def read_trace(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "b.json":
            raise LookupError("no more")
        return real(path, *args, **options)

    monkeypatch.setattr(loading, "read_trace", read_trace)
    paths = [write(tmp_path / name) for name in ("a.json", "b.json", "c.json")]
    files = profframe.convert(paths, tmp_path / "store", ThreadPoolExecutor(1))

    assert statuses(files) == ["written", "failed", "written"]
    assert files["error"][1] == f"{paths[1]}: internal: LookupError: no more"
    assert not list((tmp_path / "store").glob(".[ts]*"))


def test_an_engine_that_stops_fails_what_it_has_not_done(tmp_path: Path) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    files = profframe.convert(write(tmp_path / "a.json"), tmp_path / "store", executor)
    assert statuses(files) == ["failed"]
    assert "cannot schedule new futures" in files["error"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": -1}, "rank"),
        ({"run": ""}, "run"),
        ({"threads": 0}, "threads"),
        ({"workers": 1.5}, "workers"),
        ({"workers": 1, "executor": ThreadPoolExecutor(1)}, "executor"),
        ({"compat": "numpy"}, "compat"),
        ({"pattern": "trace.json"}, "neither"),
        ({"pattern": "{run}/{host}.json"}, "{host} is unknown"),
        ({"pattern": "{run}/a.json", "run": "r"}, "both as an argument and in the pattern"),
    ],
)
def test_a_wrong_parameter_is_said_before_anything_is_done(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.json")
    with pytest.raises(ParameterError, match=message):
        profframe.convert(path, tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_sources_that_lead_nowhere_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "no.json", tmp_path / "*.json", tmp_path / "empty"):
        with pytest.raises(NoTraceFoundError):
            profframe.convert([source, source], tmp_path / "store")
    with pytest.raises(ParameterError, match="not 7"):
        profframe.convert([7], tmp_path / "store")  # type: ignore[list-item]


def test_a_store_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        profframe.convert(write(tmp_path / "a.json"), tmp_path / "file" / "store")


# Names


def test_names_by_a_pattern(tmp_path: Path, threads: Executor) -> None:
    for run in ("2024", "it's é"):
        for rank in (7, 10):
            write(tmp_path / "jobs" / run / "x" / f"r{rank}.json.gz", name=f"{run} {rank}")
    odd = write(tmp_path / "jobs" / "odd.json.gz")
    files = profframe.convert(
        [str(tmp_path / "jobs" / "**" / "*.gz")],
        tmp_path / "store",
        threads,
        pattern="{run}/*/r{rank}.json.gz",
    )

    assert names(tmp_path / "store") == [
        ("2024", 7, "2024 7"),
        ("2024", 10, "2024 10"),
        ("it's é", 7, "it's é 7"),
        ("it's é", 10, "it's é 10"),
    ]
    (failed,) = files.filter(status="failed").rows(named=True)
    assert failed["source"] == str(odd)
    assert "does not match the pattern" in failed["error"]
    assert set(profframe.load(tmp_path / "store").traces["rank_source"]) == {"path"}


HOSTILE = [
    "a b",
    "it's",
    'say "hi"',
    "a\nb",
    "[x]*?",
    "ü 名前",
    "run=1",
    "%41",
    "-o",
    "a\udcffb",
    "~",
]


def test_hostile_names_of_folders_and_files(tmp_path: Path, threads: Executor) -> None:
    paths = [write(tmp_path / name / f"{name}.json", rank=3) for name in HOSTILE]
    files = profframe.convert(paths, tmp_path / "a 'store'", threads)

    assert statuses(files) == ["written"] * len(HOSTILE)
    runs = [run for run, _, _ in names(tmp_path / "a 'store'")]
    assert set(runs) == {name.replace("\udcff", r"\xff") for name in HOSTILE}
    again = profframe.convert(tmp_path.glob("*/*.json"), tmp_path / "a 'store'", threads)
    assert set(statuses(again)) == {"unchanged"}


def test_one_path_is_one_source_however_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "job" / "rank0.json")
    profframe.convert(path, tmp_path / "store")
    monkeypatch.chdir(tmp_path / "job")
    for source in ("rank0.json", "./rank0.json", "../job/rank0.json", f"file://{path}"):
        assert statuses(profframe.convert(source, tmp_path / "store")) == ["unchanged"]
    assert statuses(profframe.convert("rank0.json", "../store")) == ["unchanged"]


def test_a_store_is_copied(tmp_path: Path, threads: Executor) -> None:
    paths = [write(tmp_path / "job" / f"rank{rank}.json", rank) for rank in range(2)]
    profframe.convert(paths, tmp_path / "one", threads)
    files = profframe.convert(tmp_path / "one", tmp_path / "two", threads)

    assert files.select("status", "run", "rank", "events").rows() == [
        ("written", "job", 0, 3),
        ("written", "job", 1, 3),
    ]
    assert_same(content(tmp_path / "one"), content(tmp_path / "two"))
    assert set(statuses(profframe.convert(paths, tmp_path / "two", threads))) == {"unchanged"}
    with pytest.raises(ParameterError, match="already has names"):
        profframe.convert(tmp_path / "one", tmp_path / "two", run="r")


# Progress


def test_progress_by_file_and_bytes(tmp_path: Path, threads: Executor) -> None:
    paths = [write(tmp_path / f"{n}.json", events=10**n) for n in range(3)]
    seen: list[Progress] = []
    profframe.convert(paths, tmp_path / "store", threads, progress=seen.append)

    total = sum(path.stat().st_size for path in paths)
    assert [p.files_done for p in seen] == [0, 1, 2, 3]
    assert {(p.files, p.bytes) for p in seen} == {(3, total)}
    assert (seen[0].bytes_done, seen[-1].bytes_done) == (0, total)


def test_progress_inside_the_only_file(tmp_path: Path) -> None:
    seen: list[Progress] = []
    path = write(tmp_path / "a.json")
    profframe.convert(path, tmp_path / "store", progress=seen.append)
    assert [p.files_done for p in seen] == [0, 0, 1]
    assert [p.bytes_done for p in seen] == [0, path.stat().st_size, path.stat().st_size]


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_reads_the_same(threads: int, example: Path, tmp_path: Path) -> None:
    profframe.convert(example, tmp_path, ThreadPoolExecutor(1), threads=threads)
    assert_same(content(tmp_path), loaded([example]))


def test_two_batches_at_once_with_files_of_one_name(tmp_path: Path) -> None:
    store = tmp_path / "store"
    sources = [
        [write(tmp_path / f"{batch}" / f"{n}.json", n, f"{batch} {n}") for n in range(4)]
        for batch in range(2)
    ]

    def batch(paths: list[Path]) -> pl.DataFrame:
        with ThreadPoolExecutor(2) as executor:
            return profframe.convert(paths, store, executor, run="r")

    with ThreadPoolExecutor(2) as both:
        found = pl.concat(both.map(batch, sources))

    assert set(found["status"]) == {"written"}
    runs = {f"r.{n}" if n else "r" for n in range(8)}
    assert {run for run, _, _ in names(store)} == runs == set(found["run"])
    assert {name for _, _, name in names(store)} == {f"{b} {n}" for b in range(2) for n in range(4)}


def test_what_another_batch_has_published_meanwhile_is_unchanged(tmp_path: Path) -> None:
    path, store = write(tmp_path / "a.json", events=3), tmp_path / "store"

    class Overtaken(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
            future: Future[Any] = Future()
            report = fn(*args)
            other.append(profframe.convert(path, store, ThreadPoolExecutor(1)))
            future.set_result(report)
            return future

    other: list[pl.DataFrame] = []
    files = profframe.convert(path, store, Overtaken())

    columns = ["run", "rank", "events", "bytes"]
    assert statuses(other[0]) == ["written"]
    assert statuses(files) == ["unchanged"]
    assert files[columns].equals(other[0][columns])
    assert files["seconds"][0] > 0


def test_files_that_are_named_together_come_again_if_another_batch_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        write(tmp_path / "jobs" / f"{n}.json", n, f"slice {n}", rank=0)
    with ThreadPoolExecutor(1) as executor:
        profframe.convert(tmp_path / "jobs", tmp_path / "undisturbed", executor)
    origin, calls = Folder.origin, itertools.count()

    def gone(store: Folder, staged: Any, path: Path) -> Any:
        if next(calls) == 1:
            raise FileNotFoundError(staged.folder)
        return origin(store, staged, path)

    monkeypatch.setattr(Folder, "origin", gone)
    with ThreadPoolExecutor(1) as executor:
        files = profframe.convert(tmp_path / "jobs", tmp_path / "store", executor)

    assert statuses(files) == ["written"] * 2
    assert names(tmp_path / "store") == names(tmp_path / "undisturbed")
    assert next(calls) > 2


def test_errors_of_paths_that_are_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a\udcff\n.json").write_text("bad")
    (tmp_path / "b.json").write_text("bad")
    assert cli.run(["convert", str(tmp_path / "*.json"), "-o", str(tmp_path / "store")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("error: ") for line in lines[:2])
    assert lines[2].endswith("0 runs, 0 ranks, 0 events: 2 files failed")
