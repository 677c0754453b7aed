"""Writers, readers and a compacter at the same time, each fault brought about on purpose."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import profframe
from profframe import load, schema, store
from profframe.errors import AnswerError, StoreError
from profframe.loaders import discovery
from profframe.query import session
from profframe.query.run import query
from profframe.query.sandbox import Terms
from profframe.store import layout, maintenance, parquet, writing
from profframe.store.maintenance import changing
from tests.unit.test_store import ALWAYS, one

NAMES = "SELECT name FROM events ORDER BY ALL"


def names(path: Path) -> list[str]:
    return load(path).sql(NAMES)["name"].to_list()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for rank in range(2):
        store.write(one("a", rank, (f"a {rank}",)), tmp_path)
    return tmp_path


def once(monkeypatch: pytest.MonkeyPatch, of: Any, name: str, work: Callable[[], object]) -> None:
    """Do some work just before the next call of a function."""
    original = getattr(of, name)

    def first(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(of, name, original)
        work()
        return original(*arguments, **named)

    monkeypatch.setattr(of, name, first)


def test_what_another_writer_removes_is_no_leftover(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = root / ".tmp-other"
    other.mkdir()
    glob = Path.glob

    def listed(self: Path, pattern: str) -> Iterator[Path]:
        found = [*glob(self, pattern)]
        if pattern.startswith(".tmp-"):
            other.rmdir()  # its writer is done, between the look and what is done about it
        return iter(found)

    monkeypatch.setattr(Path, "glob", listed)
    store.write(one("a", 0, ("new",)), root)
    monkeypatch.undo()

    assert names(root) == ["a 1", "new"]


def test_a_rank_that_is_packed_before_it_is_exchanged_is_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, writing, "_exchange", lambda: maintenance.compact(root))

    store.write(one("a", 0, ("new",)), root)

    assert names(root) == ["a 1", "new"]


@pytest.mark.parametrize("call", range(4))
def test_two_writers_without_an_exchange_both_write(
    call: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one does all that it does before a rename of the first."""
    monkeypatch.setattr(writing, "_exchange", lambda *_: False)
    rename, calls = Path.rename, iter(range(100))

    def renamed(self: Path, target: Path) -> Path:
        if "rank=0" in self.name and next(calls) == call:
            store.write(one("a", 0, ("other",)), root)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", renamed)
    store.write(one("a", 0, ("mine",)), root)
    monkeypatch.undo()

    assert names(root) in (["a 1", "mine"], ["a 1", "other"])
    assert [folder.name for folder in (root / "run=a").iterdir() if folder.name[0] == "."] == []


def test_what_was_set_aside_is_put_back_before_anything_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that was killed has left it; the next one is killed, too."""
    folder = root / "run=a/rank=0"
    folder.rename(folder.with_name(".old-rank=0"))
    rename = Path.rename

    def renamed(self: Path, target: Path) -> Path:
        if ".tmp-" in str(self) and self.name == "rank=0":
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", renamed)
    with pytest.raises(StoreError, match="No space left"):
        store.write(one("a", 0, ("new",)), root)

    assert folder.exists()
    assert names(root) == ["a 0", "a 1"]


def test_a_file_at_work_is_called_no_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work: list[str] = []
    write_file = parquet.write_file

    def written(file: Path, name: str, parts: Any) -> None:
        at_work.append(file.name)
        assert not list(tmp_path.glob("**/*.parquet"))
        write_file(file, name, parts)

    monkeypatch.setattr(writing, "write_file", written)
    store.write(one(), tmp_path)

    assert len(at_work) == len(schema.TABLES) - len(schema.OPTIONAL_TABLES)
    assert not [name for name in at_work if name.endswith(".parquet")]


def test_a_pack_is_on_the_disk_before_it_has_its_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    rename, fsync = Path.rename, os.fsync

    def renamed(self: Path, target: Path) -> Path:
        done.append(("rename", target.name.partition("-")[0]))
        return rename(self, target)

    def synced(handle: int) -> None:
        done.append(("fsync", Path(f"/proc/self/fd/{handle}").readlink().name))
        fsync(handle)

    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    maintenance.compact(root)

    published = done.index(("rename", "pack"))
    files = {"manifest.json", "pack", *(f"{table}.parquet" for table in ALWAYS)}
    assert {name for what, name in done[:published] if what == "fsync"} == files
    # The name itself is on the disk before what it replaces goes.
    assert done[published + 1] == ("fsync", root.name)
    assert [what for what, _ in done[published + 2 :]] == ["rename", "rename"]


def test_what_is_written_while_it_is_packed_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, changing, "_to_disk", lambda: store.write(one("a", 0, ("new",)), root))

    with pytest.raises(
        StoreError, match="run=a/rank=0: was written again in the meantime; try again"
    ):
        maintenance.compact(root)

    assert not list(root.glob("pack-*"))
    assert names(root) == ["a 1", "new"]


def test_what_is_written_while_its_old_state_is_deleted_is_put_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the last look at a folder and the rename that takes it away."""
    rename, folder = Path.rename, root / "run=a/rank=0"
    writes = iter([lambda: store.write(one("a", 0, ("new",)), root)])

    def renamed(self: Path, target: Path) -> Path:
        if self == folder and ".tmp-" in str(target):
            next(writes, lambda: None)()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", renamed)
    maintenance.compact(root)
    monkeypatch.undo()

    assert (folder / "events.parquet").exists()
    assert names(root) == ["a 1", "new"]


def test_a_run_that_is_gone_when_it_is_packed_is_not_replaced_for_ever(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance.compact(root)
    store.write(one("a", 0, ("new",)), root)
    there = layout.places

    def listed(path: Path) -> tuple[layout.Place, ...]:
        found = there(path)
        changing._delete(path, root / "run=a/rank=0")
        return found

    monkeypatch.setattr(changing, "listed", listed)
    with pytest.raises(StoreError):
        maintenance.remove(root, "a", 0)
    monkeypatch.undo()

    store.write(one("a", 0, ("newer",)), root)
    assert names(root) == ["a 1", "newer"]


def write_again(root: Path) -> None:
    store.write(one("a", 0, ("new",)), root)


def pack_and_write_again(root: Path) -> None:
    maintenance.compact(root)
    write_again(root)


CHANGES: dict[str, Callable[[Path], object]] = {
    "written again": write_again,
    "packed": maintenance.compact,
    "packed and written again": pack_and_write_again,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_question_is_asked_again_of_what_has_changed(
    change: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB has the names of files that are others, or gone, when it opens them."""
    trace = load(root)
    changes = iter([CHANGES[change]] * 2)

    def failing(
        connection: duckdb.DuckDBPyConnection, sql: str, *, terms: Terms
    ) -> duckdb.DuckDBPyRelation:
        if (work := next(changes, None)) is not None:
            work(root)
            error = duckdb.IOException('IO Error: Cannot open file "events.parquet"')
            raise AnswerError("query: IO Error: Cannot open file") from error
        return query(connection, sql, terms=terms)

    monkeypatch.setattr(session, "query", failing)
    if change == "packed":
        next(changes)  # nothing is left to pack the second time
    expected = "a 0" if change == "packed" else "new"
    assert trace.sql(NAMES)["name"].to_list() == sorted(["a 1", expected])


def test_frames_are_read_again_of_what_was_packed(root: Path) -> None:
    trace = load(root)
    maintenance.compact(root)
    assert sorted(trace.events["name"]) == ["a 0", "a 1"]
    assert sorted(load(root).tables["events"]["name"].to_pylist()) == ["a 0", "a 1"]
    store.write(one("b", 0), root)
    trace = load(root)
    maintenance.compact(root)
    assert trace.tables["events"].num_rows == 3


def test_what_never_stays_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load(root)
    numbers = iter(range(1000))

    def failing(*_: object, **_terms: Terms) -> duckdb.DuckDBPyRelation:
        store.write(one("a", 0, (f"{next(numbers)}",)), root)
        raise AnswerError("query: IO Error") from duckdb.IOException("IO Error")

    monkeypatch.setattr(session, "query", failing)
    monkeypatch.setattr(session, "_ATTEMPTS", 3)
    with pytest.raises(StoreError, match=r"rank=0: written again since .* load it again"):
        trace.sql(NAMES)


def test_a_store_that_is_made_while_it_is_looked_for_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    path.mkdir()
    once(monkeypatch, discovery, "trace_files", lambda: store.write(one(), path))

    assert names(path) == ["mm"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(profframe.NoTraceFoundError, match="holds no files"):
        load(empty)
