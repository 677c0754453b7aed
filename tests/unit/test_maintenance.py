"""Listing, removing, packing and checking what a store has: answers stay.

What is killed amid that: ``tests/fuzz/kills.py``.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from profframe import load, schema, store
from profframe.errors import ParameterError, StoreError, UnknownNameError
from profframe.store import layout, maintenance
from profframe.store.maintenance import listing
from tests.conftest import Run
from tests.members import few
from tests.processes import python
from tests.unit.test_store import RUNS, both, one, rewrite
from tests.until import LIMIT_S, until

Content = dict[str, pl.DataFrame]


def content(path: Path) -> Content:
    """Every row of every table, ordered; once by polars and, where there are any, by DuckDB."""
    trace = load(path)
    found = {name: trace.scan(name).collect().sort(pl.all()) for name in schema.TABLES}
    for name, rows in found.items():
        if not rows.is_empty():
            assert trace.sql(f"FROM {name}").sort(pl.all()).equals(rows), name
    return found


def same(left: Content, right: Content) -> bool:
    return all(left[name].equals(right[name]) for name in schema.TABLES)


def names(path: Path) -> list[tuple[str, int, str]]:
    return load(path).sql("SELECT run, rank, name FROM events ORDER BY ALL").rows()


def folders(path: Path) -> list[str]:
    """What stands in a store, without its catalogue and numbers that differ each time."""
    names = [p.name for p in path.iterdir() if p.is_dir() and p.name != layout.CATALOGUE]
    return sorted(name.rpartition("-")[0] or name for name in names)


def write(path: Path, *runs: str, ranks: int = 2, name: str = "mm") -> Path:
    for run in runs:
        for rank in range(ranks):
            store.write(one(run, rank, (name, f"{run} {rank}")), path)
    return path


def test_a_listing_that_is_never_right_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another process removed what is listed, each time again."""
    [place] = layout.places(write(tmp_path, "a", ranks=1))
    gone = replace(place, folder=tmp_path / "run=a" / "rank=7")
    listings = iter([(gone,)] * 20)
    monkeypatch.setattr(listing, "places", lambda _: next(listings))
    with pytest.raises(StoreError):
        maintenance.contents(tmp_path)


def test_the_latest_pack_is_the_first(tmp_path: Path) -> None:
    for name in ("pack-000009-ff", "pack-000010-00", "pack-000002-aa"):
        (tmp_path / name).mkdir()
    assert [pack.name for pack in layout.packs(tmp_path)] == [
        "pack-000010-00", "pack-000009-ff", "pack-000002-aa",
    ]  # fmt: skip


def test_packing_changes_no_answer_and_leaves_one_folder(tmp_path: Path) -> None:
    write(tmp_path, *RUNS)
    before = content(tmp_path)

    assert maintenance.compact(tmp_path) == 2 * len(RUNS)

    assert folders(tmp_path) == ["pack-000001"]
    assert same(content(tmp_path), before)
    assert maintenance.compact(tmp_path) == 0
    assert maintenance.verify(tmp_path).height == 0


def test_what_is_written_after_packing_is_what_counts(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    maintenance.compact(tmp_path)
    store.write(one("a", 1, ("new",)), tmp_path)
    expected = [("a", 0, "a 0"), ("a", 0, "mm"), ("a", 1, "new")]

    assert names(tmp_path)[:3] == expected
    assert maintenance.contents(tmp_path)["events"].to_list() == [2, 1, 2, 2]
    maintenance.compact(tmp_path)
    assert folders(tmp_path) == ["pack-000002"]
    assert names(tmp_path)[:3] == expected


def test_a_packed_rank_is_not_added_again(tmp_path: Path) -> None:
    write(tmp_path, "a")
    maintenance.compact(tmp_path)

    assert store.has(tmp_path, "a", 1)
    assert not store.has(tmp_path, "a", 2)
    assert not store.add(one("a", 1, ("other",)), tmp_path)
    assert folders(tmp_path) == ["pack-000001"]


def test_large_packs_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, *"abcdefgh")
    maintenance.compact(tmp_path)
    write(tmp_path, "x")
    assert maintenance.compact(tmp_path) == 2
    assert folders(tmp_path) == ["pack-000001", "pack-000002"]
    before = content(tmp_path)
    write(tmp_path, "y")
    assert maintenance.compact(tmp_path) == 4
    assert folders(tmp_path) == ["pack-000001", "pack-000003"]
    assert same({n: rows.filter(run="x") for n, rows in content(tmp_path).items()},
                {n: rows.filter(run="x") for n, rows in before.items()})  # fmt: skip


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("run", few(RUNS, 5))
def test_a_removed_run_is_gone_and_nothing_else(run: str, is_packed: bool, tmp_path: Path) -> None:
    write(tmp_path, run, "other")
    if is_packed:
        maintenance.compact(tmp_path)

    assert maintenance.remove(tmp_path, run) == [(run, 0), (run, 1)]

    assert {row[0] for row in names(tmp_path)} == {"other"}
    assert folders(tmp_path) == (["pack-000002"] if is_packed else ["run=other"])
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_rank_is_removed_of_folders_and_of_a_pack_below_them(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    maintenance.compact(tmp_path)
    write(tmp_path, "a", "c", name="new")

    assert maintenance.remove(tmp_path, ranks=0) == [("a", 0), ("b", 0), ("c", 0)]

    assert {row[:2] for row in names(tmp_path)} == {("a", 1), ("b", 1), ("c", 1)}
    assert maintenance.remove(tmp_path, ["a", "b", "c"]) == [("a", 1), ("b", 1), ("c", 1)]
    assert folders(tmp_path) == []


def test_a_removed_run_can_be_written_again(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    maintenance.compact(tmp_path)
    maintenance.remove(tmp_path, "a")
    write(tmp_path, "a", ranks=1)

    assert {row[:2] for row in names(tmp_path)} == {("a", 0), ("b", 0), ("b", 1)}


def test_a_name_that_is_not_there_removes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a", ranks=1)
    write(tmp_path, "b", ranks=2)

    with pytest.raises(UnknownNameError, match=r"no run named 'c' .known: a, b."):
        maintenance.remove(tmp_path, ["a", "c"])
    with pytest.raises(UnknownNameError, match="no rank 7"):
        maintenance.remove(tmp_path, ranks=7)
    with pytest.raises(UnknownNameError, match="no rank 1 in a"):
        maintenance.remove(tmp_path, "a", 1)
    with pytest.raises(ParameterError, match="needs runs or ranks"):
        maintenance.remove(tmp_path)
    with pytest.raises(StoreError, match="not a profframe store"):
        maintenance.remove(tmp_path / "run=none", "a")
    with pytest.raises(StoreError, match="part of a store"):
        maintenance.remove(tmp_path / "run=a", "a")
    assert len(names(tmp_path)) == 6


def test_what_was_open_goes_on_and_what_is_gone_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    opened, count = load(tmp_path), "SELECT count(*) AS n FROM events"
    assert opened.sql(count).item() == 8
    maintenance.compact(tmp_path)
    assert opened.sql(count).item() == 8
    assert opened.events.height == 8
    maintenance.remove(tmp_path, "a")

    with pytest.raises(StoreError, match="removed or packed since the store was opened"):
        opened.sql(count)
    with pytest.raises(StoreError, match="removed or packed since the store was opened"):
        _ = opened.events
    assert load(tmp_path).sql(count).item() == 4


def test_the_list_has_what_there_is_of_any_version(tmp_path: Path) -> None:
    write(tmp_path, "a", ranks=1)
    rewrite(tmp_path / "run=a/rank=0/traces.parquet", "2")

    row = maintenance.contents(tmp_path).row(0, named=True)

    assert (row["run"], row["rank"], row["events"], row["schema_version"]) == ("a", 0, 2, "2")
    size = sum(file.stat().st_size for file in tmp_path.glob("run=*/**/*.parquet"))
    assert row["bytes"] == size
    with pytest.raises(StoreError):
        maintenance.compact(write(tmp_path, "b"))


def test_what_is_packed_while_it_is_listed_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a", "b")
    before = maintenance.contents(tmp_path)

    def packed_now(root: Path) -> tuple[layout.Place, ...]:
        found = layout.places(root)
        maintenance.compact(root)
        return found

    monkeypatch.setattr(maintenance.listing, "places", packed_now)
    found = maintenance.contents(tmp_path)

    columns = ["run", "rank", "events"]
    assert found[columns].equals(before[columns])
    assert found["folder"].str.starts_with("pack-").all()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)


def drop_column(file: Path) -> None:
    rows = pq.ParquetFile(file).read()
    pq.write_table(rows.drop_columns(["name"]), file)


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (Path.unlink, "missing"),
        (cut, "bytes, but .* when it was written"),
        (flip, "checksum differs"),
        (drop_column, "bytes, but .* when it was written"),
    ],
)
def test_harm_is_found_and_named(
    harm: Callable[[Path], None], expected: str, tmp_path: Path
) -> None:
    write(tmp_path, "a", "b")
    harm(tmp_path / "run=a/rank=1/events.parquet")

    found = maintenance.verify(tmp_path)

    assert set(found["file"]) == {"run=a/rank=1/events.parquet"}
    assert found["problem"].str.contains(expected).any()


def overwrite(file: Path) -> None:
    data = file.read_bytes()
    half = len(data) // 2
    file.write_bytes(data[:100] + bytes(half) + data[100 + half :])


@pytest.mark.parametrize("harm", [cut, overwrite, drop_column])
def test_harm_is_found_without_checksums(harm: Callable[[Path], None], tmp_path: Path) -> None:
    for rank in range(2):
        store.write(one("a", rank, tuple(str(n) for n in range(3000))), tmp_path)
    for file in tmp_path.glob("**/manifest.json"):
        file.unlink()
    assert maintenance.verify(tmp_path).height == 0
    harm(tmp_path / "run=a/rank=1/events.parquet")

    assert set(maintenance.verify(tmp_path)["file"]) == {"run=a/rank=1/events.parquet"}


def test_a_folder_under_another_name_is_found(tmp_path: Path) -> None:
    write(tmp_path, "a", ranks=1)
    (tmp_path / "run=a").rename(tmp_path / "run=b")

    found = maintenance.verify(tmp_path)

    assert "which its folder does not name" in found["problem"][0]


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a", ranks=1)
    (tmp_path / "run=a/rank=0/manifest.json").write_text("{")

    assert maintenance.verify(tmp_path)["file"].to_list() == ["run=a/rank=0/manifest.json"]


def test_packs_without_a_manifest_are_read(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    before = content(tmp_path)
    maintenance.compact(tmp_path)
    for file in tmp_path.glob("pack-*/manifest.json"):
        file.unlink()

    assert same(content(tmp_path), before)
    assert maintenance.contents(tmp_path)["events"].to_list() == [2, 2, 2, 2]
    assert maintenance.verify(tmp_path).height == 0


def test_row_groups_are_of_many_runs_and_sorted_out(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(tmp_path, *"abc")
    maintenance.compact(tmp_path)
    (pack,) = tmp_path.glob("pack-*")
    assert pq.ParquetFile(pack / "events.parquet").num_row_groups == 1

    store.write(both(one("b", 0, ("x",)), one("b", 1, ("y",))), tmp_path)
    copy = tmp_path_factory.mktemp("copy")
    load(tmp_path).to_parquet(copy)

    assert names(copy) == names(tmp_path)
    assert folders(copy) == ["run=a", "run=b", "run=c"]


READER = """
import sys
sys.path[:0] = {path!r}
from profframe import load
from profframe.errors import StoreError

seen = set()
for turn in range(10**9):
    print(turn, flush=True)
    try:
        rows = load({store!r}).sql("SELECT run, count(*) AS n FROM events GROUP BY run").rows()
    except StoreError as error:
        rows = [("error", str(error))]
    seen.update(rows)
    if ("end", 2) in rows:
        break
print(*seen, sep="\\n")
"""


def test_a_reader_at_work_finds_every_run_whole_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path, *"abcd", ranks=4)
    code = READER.format(path=sys.path, store=str(tmp_path))
    with python("-c", code) as reader:
        assert reader.stdout is not None
        said: list[str] = []
        listener = threading.Thread(target=said.extend, args=(reader.stdout,))
        listener.start()
        until(lambda: said)
        for _ in range(2):
            maintenance.compact(tmp_path)
            write(tmp_path, "c", "d", ranks=4)
            maintenance.remove(tmp_path, "d")
            write(tmp_path, "d", ranks=4)
        turns = len(said)
        until(lambda: len(said) > turns + 1)  # it has seen this, too
        write(tmp_path, "end", ranks=1)
        listener.join(LIMIT_S)
    seen = [ast.literal_eval(line) for line in said if line.startswith("(")]

    # Run d is written rank by rank, and was removed while some questions were asked.
    errors = [what for run, what in seen if run == "error"]
    assert [error for error in errors if "removed or packed since" not in error] == []
    others = {row for row in seen if row[0] not in {"d", "error", "end"}}
    assert others == {(run, 8) for run in "abc"}
    assert {row[1] for row in seen if row[0] == "d"} <= {2, 4, 6, 8}


def test_command_line(tmp_path: Path, run: Run) -> None:
    write(tmp_path, "a/b", "c")

    def printed(code: int, verb: str, *options: str) -> tuple[str, str]:
        """What it prints, on stdout and on stderr."""
        found, out, err = run("store", verb, tmp_path, *options)
        assert found == code
        return out, err

    assert "4 traces packed" in printed(0, "compact")[1]
    rows = json.loads(printed(0, "ls", "--format", "json")[0])
    assert [(row["run"], row["ranks"], row["events"]) for row in rows] == [
        ("a/b", 2, 4),
        ("c", 2, 4),
    ]
    assert "2 runs, 4 traces (4 packed), 8 events" in printed(0, "ls", "--ranks")[0]
    assert "1 trace of 1 run removed" in printed(0, "rm", "a/b", "--rank", "1")[1]
    assert "Usage" in printed(2, "rm")[1]
    assert "sound" in printed(0, "verify")[1]
    flip(next(tmp_path.glob("pack-*/events.parquet")))
    assert "checksum differs" in printed(1, "verify")[1]


def test_a_long_name_is_removed_by_all_of_it(tmp_path: Path) -> None:
    long, longer = "x" * 300, "x" * 301
    write(tmp_path, long, longer, ranks=1)

    assert maintenance.remove(tmp_path, long) == [(long, 0)]
    assert {row[0] for row in names(tmp_path)} == {longer}
    assert layout.folder_of(tmp_path, longer, 0).exists()
