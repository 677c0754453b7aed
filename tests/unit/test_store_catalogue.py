"""The catalogue of a store: what is in it after each change, and what readers make of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from profframe import load, store
from profframe.errors import UnknownNameError
from profframe.store import maintenance
from profframe.store.catalogue import listing, segments, upkeep
from profframe.store.catalogue.places import CataloguedPlaces
from profframe.store.catalogue.rows import as_table, tombstone
from profframe.store.catalogue.segments import LocalSegments
from profframe.store.maintenance import changing
from tests.unit.test_store import one


@pytest.fixture(autouse=True)
def _believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue of a store of any size is believed."""
    monkeypatch.setattr(listing, "FEW", 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of two runs, the first of two ranks."""
    for run, rank in (("a", 0), ("a", 1), ("b", 0)):
        store.write(one(run, rank, (f"{run} {rank}",)), tmp_path)
    return tmp_path


def names(root: Path, **part: Any) -> list[str]:
    return load(root, **part).sql("SELECT name FROM events ORDER BY ALL")["name"].to_list()


def unknown(root: Path) -> list[str]:
    """What has to be looked into."""
    state = listing.of_catalogue(root)
    assert state is not None
    return [*state.unknown]


def rows(root: Path) -> list[tuple[str, int, str, bool]]:
    contents = segments.read(LocalSegments(root)).latest()
    return contents.select("run", "rank", "folder", "is_removed").sort(pl.all()).rows()


def test_each_commit_is_a_segment_and_nothing_needs_a_look(root: Path) -> None:
    assert len(segments.in_order(LocalSegments(root).names())) == 3
    assert unknown(root) == []
    assert isinstance(store.scan(root).places, CataloguedPlaces)
    assert names(root) == ["a 0", "a 1", "b 0"]
    assert names(root, runs="a", ranks=1) == ["a 1"]


def test_what_the_catalogue_does_not_have_is_looked_into(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a writer were killed before its segment, or were of an older release."""
    with monkeypatch.context() as patch:
        patch.setattr(store.writing, "record", lambda *_: None)
        store.write(one("a", 7, ("late",)), root)
        store.write(one("b", 0, ("replaced",)), root)

    assert unknown(root) == ["run=a", "run=b"]
    assert names(root) == ["a 0", "a 1", "late", "replaced"]
    assert names(root, runs="b") == ["replaced"]
    upkeep.mend(root)
    assert unknown(root) == []
    assert names(root) == ["a 0", "a 1", "late", "replaced"]


def test_a_rank_that_is_not_in_the_catalogue_is_not_hidden_by_one_that_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the run's folder is that of a later writer, who knows nothing of the first."""
    with monkeypatch.context() as patch:
        patch.setattr(store.writing, "record", lambda *_: None)
        store.write(one("a", 7, ("late",)), root)
    store.write(one("a", 8, ("later",)), root)

    assert unknown(root) == ["run=a"]
    assert names(root, runs="a") == ["a 0", "a 1", "late", "later"]


def test_a_clock_that_does_not_tick_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from profframe.store.catalogue import rows as catalogue_rows

    monkeypatch.setattr(catalogue_rows, "_later", lambda _, time_ns: time_ns)
    store.write(one("a", 0), tmp_path)

    assert unknown(tmp_path) == ["run=a"]


@pytest.mark.parametrize("own_pack", [True, False])
def test_packs_are_known_by_name(
    own_pack: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "_OWN_PACK_BYTES", 0 if own_pack else 10**9)

    assert maintenance.compact(root) == (2 if own_pack else 3)

    folders = sorted(path.name[:11] for path in root.glob("[rp]*"))
    assert folders == (["pack-000001", "run=b"] if own_pack else ["pack-000001"])
    assert unknown(root) == []
    assert len(segments.in_order(LocalSegments(root).names())) == 1
    assert names(root, runs="a") == ["a 0", "a 1"]
    of_run = store.scan(root, ["a"]).parts("events")
    assert [name for rows in of_run for name in rows["name"].to_pylist()] == ["a 0", "a 1"]
    assert names(root, runs=["a", "b"], ranks=0) == ["a 0", "b 0"]
    store.write(one("a", 1, ("new",)), root)
    assert names(root) == ["a 0", "b 0", "new"]
    assert names(root, runs="a") == ["a 0", "new"]


def test_a_pack_that_the_catalogue_lacks_is_read_by_its_manifest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for name in ("record_packs", "record", "fold"):
            patch.setattr(changing, name, lambda *_: None)
        maintenance.compact(root)

    [pack] = unknown(root)
    assert pack.startswith("pack-000001-")
    assert names(root) == ["a 0", "a 1", "b 0"]
    assert names(root, runs="a", ranks=1) == ["a 1"]
    upkeep.mend(root)
    assert unknown(root) == []
    assert names(root, runs="b") == ["b 0"]


def test_what_is_removed_stays_removed(root: Path) -> None:
    maintenance.remove(root, "a", 1)
    assert names(root) == ["a 0", "b 0"]
    assert ("a", 1, "run=a/rank=1", True) in rows(root)
    assert unknown(root) == []
    maintenance.compact(root)
    maintenance.remove(root, "b")
    assert names(root) == ["a 0"]
    assert unknown(root) == []
    with pytest.raises(UnknownNameError, match="b"):
        load(root, runs="b")


@pytest.mark.parametrize("times", ["-r", "-a"])
def test_a_copy_is_read_and_mended(times: str, root: Path) -> None:
    copy = root.with_name(f"{root.name}-copy")
    subprocess.run(["/bin/cp", times, root, copy], check=True)

    assert unknown(copy) == (["run=a", "run=b"] if times == "-r" else [])
    assert names(copy) == ["a 0", "a 1", "b 0"]
    upkeep.mend(copy)
    assert unknown(copy) == []
    assert maintenance.verify(copy).is_empty()


def test_segments_are_folded_and_late_ones_count(tmp_path: Path) -> None:
    files = LocalSegments(tmp_path)
    for number in range(40):
        row = tombstone(f"run {number}", 0, f"run=run%20{number}/rank=0") | {"is_removed": False}
        segments.append(files, as_table([row]))

    assert len(segments.in_order(files.names())) < 16
    assert segments.members(files)["run"].to_list() == sorted(f"run {n}" for n in range(40))
    late = tombstone("run 7", 0, "run=run%207/rank=0")
    segments.append(files, as_table([late]))
    segments.fold(files, all_of_them=True)
    assert len(segments.in_order(files.names())) == 1
    assert "run 7" not in segments.members(files)["run"].to_list()
    assert len(segments.members(files)) == 39


def test_what_a_fold_replaces_does_not_count_while_it_is_still_there(tmp_path: Path) -> None:
    files = LocalSegments(tmp_path)
    rows = [tombstone("a", rank, f"run=a/rank={rank}") | {"is_removed": False} for rank in (0, 1)]
    for row in rows:
        segments.append(files, as_table([row]))
    before = {path.name: path.read_bytes() for path in (tmp_path / "catalogue").iterdir()}
    segments.fold(files, all_of_them=True)
    for name, content in before.items():  # as if it were killed before it removes them
        (tmp_path / "catalogue" / name).write_bytes(content)

    assert segments.read(files).rows.height == 2
    segments.append(files, as_table([tombstone("a", 0, "run=a/rank=0")]))
    segments.fold(files, all_of_them=True)
    assert len(segments.in_order(files.names())) == 1
    assert segments.members(files)["rank"].to_list() == [1]


@pytest.mark.parametrize("content", [b"", b"PAR1" * 20])
def test_a_damaged_segment_is_named_and_made_anew(content: bytes, root: Path) -> None:
    [first, *_] = segments.in_order(LocalSegments(root).names())
    (root / "catalogue" / first).write_bytes(content)

    assert names(root) == ["a 0", "a 1", "b 0"]
    assert maintenance.verify(root)["file"].to_list() == [f"catalogue/{first}"]
    maintenance.compact(root)
    assert maintenance.verify(root).is_empty()
    assert unknown(root) == []


def test_a_folder_of_somebody_else_is_not_passed_over(root: Path) -> None:
    shutil.copytree(root / "run=b", root / "more/run=c")

    assert listing.of_catalogue(root) is None
    assert names(root) == [row["name"] for row in _all_rows(root)]


def _all_rows(root: Path) -> list[dict[str, Any]]:
    frames = [pl.read_parquet(file) for file in sorted(root.glob("**/events.parquet"))]
    return pl.concat(frames).sort("name").to_dicts()


def test_a_large_store_is_opened_without_a_look_at_its_members(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its files nor their folders are touched, only those of runs."""
    from profframe.store import member_files

    monkeypatch.setattr(member_files, "FEW", 0)
    touched: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if recording and event in {"open", "os.scandir", "os.listdir"}:
            touched.append(str(arguments[0]))

    recording = False
    sys.addaudithook(hook)
    load(root)  # what is imported late
    recording = True
    load(root)
    load(root, runs="a", ranks=1)
    recording = False

    inside = {path.removeprefix(f"{root}/") for path in touched if str(root) in path}
    assert f"{root}" in touched
    assert not [path for path in inside if path.startswith("run=") and path.endswith(".parquet")]


WRITER = """
import sys
sys.path[:0] = {path!r}
from profframe import store
from tests.unit.test_store import one
for number in range(8):
    store.write(one("run", 100 * {writer} + number, ("event",)), {root!r})
"""
COMPACTER = """
import sys
sys.path[:0] = {path!r}
from profframe.store import maintenance
from profframe.errors import StoreError
for number in range(4):
    try:
        maintenance.compact({root!r})
    except StoreError as error:
        assert "in the meantime" in str(error) or "again" in str(error), error
"""


@pytest.mark.long
def test_writers_and_compacters_at_once_all_land(tmp_path: Path) -> None:
    store.write(one("run", 99, ("event",)), tmp_path)
    codes = [
        code.format(path=sys.path, root=str(tmp_path), writer=number)
        for number, code in enumerate([WRITER, WRITER, COMPACTER, COMPACTER])
    ]
    processes = [subprocess.Popen([sys.executable, "-c", code]) for code in codes]
    while any(process.poll() is None for process in processes):
        ranks = set(load(tmp_path).traces["rank"])
        assert 99 in ranks
    assert [process.returncode for process in processes] == [0, 0, 0, 0]

    expected = sorted([99, *range(8), *range(100, 108)])
    assert sorted(load(tmp_path).traces["rank"]) == expected
    maintenance.compact(tmp_path)
    assert unknown(tmp_path) == []
    assert sorted(load(tmp_path, runs="run").traces["rank"]) == expected
