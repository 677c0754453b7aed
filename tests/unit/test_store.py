"""The Parquet store: layout, identity, atomic replacement, and what is wrong with damaged ones."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profframe import schema, store
from profframe.errors import StoreError, StoreVersionError
from profframe.store import maintenance, parquet
from tests.builders import table

RUNS = [
    "a", "", ".", "..", ".hidden", "a/b", "../../etc", "2024-01-01", "naïve 名前", "x" * 300, "~",
]  # fmt: skip


ALWAYS = [name for name in schema.TABLES if name not in schema.OPTIONAL_TABLES]
"""Tables that each folder of a store has a file of."""


def one(run: str = "run", rank: int = 0, names: tuple[str, ...] = ("mm",)) -> dict[str, pa.Table]:
    """All tables of one small trace."""
    key = {"run": run, "rank": rank}
    rows = {
        "events": [key | {"kind": "host_op", "name": name, "self_ns": 5} for name in names],
        "traces": [key | {"source": "t.json", "schema_version": 1}],
    }
    return {name: table(name, rows.get(name, [])) for name in schema.TABLES}


def both(first: Mapping[str, pa.Table], second: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {name: pa.concat_tables([first[name], second[name]]) for name in schema.TABLES}


def stored(path: Path) -> dict[str, list[dict[str, object]]]:
    found = store.scan(path)
    return {n: pa.concat_tables(found.parts(n)).to_pylist() for n in schema.TABLES}


def plain(tables: Mapping[str, pa.Table]) -> dict[str, list[dict[str, object]]]:
    return {name: rows.to_pylist() for name, rows in tables.items()}


def test_layout_is_one_folder_per_run_and_rank(tmp_path: Path) -> None:
    store.write(both(one("a/b", 3), one("c", 12)), tmp_path)

    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("run=*/**/*.parquet"))

    folders = ("run=a%2Fb/rank=3", "run=c/rank=12")
    assert found == sorted(f"{f}/{t}.parquet" for f in folders for t in ALWAYS)


def test_files_say_the_schema_version_and_hold_plain_text(tmp_path: Path) -> None:
    store.write(one(), tmp_path)
    file = pq.ParquetFile(tmp_path / "run=run/rank=0/events.parquet")

    assert file.metadata.metadata[parquet.VERSION_KEY] == str(schema.SCHEMA_VERSION).encode()
    assert file.schema_arrow.field("name").type == pa.string()


@pytest.mark.parametrize(("rows", "codec"), [(0, None), (1, "SNAPPY"), (5000, "ZSTD")])
def test_few_rows_are_written_to_be_read_fast(rows: int, codec: str | None, tmp_path: Path) -> None:
    events = one(names=("mm",) * rows)["events"]
    parquet.write_file(tmp_path / "events.parquet", "events", iter([events]))
    found = pq.ParquetFile(tmp_path / "events.parquet").metadata

    groups = range(found.num_row_groups)
    assert {found.row_group(n).column(0).compression for n in groups} == ({codec} - {None})
    assert pq.read_table(tmp_path / "events.parquet").num_rows == rows


@pytest.mark.parametrize("run", RUNS)
def test_any_run_name_is_one_safe_component(run: str, tmp_path: Path) -> None:
    component = store.component(run)

    assert "/" not in component
    assert len(f"run={component}".encode()) < 255
    assert len(run) > 200 or unquote(component) == run
    store.write(one(run), tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert stored(tmp_path / "store")["traces"][0]["run"] == run


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_short_run_names_can_be_read_back(run: str) -> None:
    component = store.component(run)

    assert "~" in component or unquote(component) == run


def test_long_run_names_do_not_meet(tmp_path: Path) -> None:
    store.write(one("x" * 300, names=("a",)), tmp_path)
    store.write(one("x" * 301, names=("b",)), tmp_path)

    assert len(stored(tmp_path)["traces"]) == 2


def test_ranks_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for rank in (10, 2, 0):
        store.write(one(rank=rank), tmp_path)

    assert [row["rank"] for row in stored(tmp_path)["events"]] == [0, 2, 10]


def test_rows_that_are_mixed_are_sorted_out_in_their_order(tmp_path: Path) -> None:
    rows = [{"rank": i % 2, "event_id": i, "name": str(i)} for i in range(6)]
    tables = both(one(rank=0), one(rank=1)) | {"events": table("events", rows)}

    store.write(tables, tmp_path)

    assert [row["event_id"] for row in stored(tmp_path)["events"]] == [0, 2, 4, 1, 3, 5]


def test_rows_without_a_trace_are_not_lost_in_silence(tmp_path: Path) -> None:
    rows = [{"run": "other", "rank": rank} for rank in (8, 7, 9)]
    tables = one() | {"events": table("events", rows)}

    with pytest.raises(StoreError, match="run 'other', rank 7 has rows but no row in `traces`"):
        store.write(tables, tmp_path)


COLUMNS = {
    schema.INT32: st.integers(-(2**31), 2**31 - 1),
    schema.INT64: st.integers(-(2**63), 2**63 - 1),
    schema.DOUBLE: st.floats(allow_nan=False),
    schema.BOOL: st.booleans(),
    schema.TEXT: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    schema.NAME: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
}


def row(name: str) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {
            column.name: COLUMNS[column.type]
            if column.null is None
            else st.none() | COLUMNS[column.type]
            for column in schema.TABLES[name]
            if column.name not in {"run", "rank"}
        }
    )


@given(st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_read_back(data: st.DataObject) -> None:
    tables = {n: table(n, data.draw(st.lists(row(n), max_size=3), n)) for n in schema.TABLES}
    tables |= {"traces": table("traces", [data.draw(row("traces"))])}

    with tempfile.TemporaryDirectory() as folder:
        store.write(tables, folder)
        read = {name: next(store.scan(folder).parts(name)) for name in schema.TABLES}

    assert plain(read) == plain(tables)
    assert all(read[name].schema.equals(schema.TABLES[name].arrow) for name in schema.TABLES)


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_existing_rank_is_replaced_and_nothing_is_left_over(
    can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:
        monkeypatch.setattr(store.writing, "_exchange", lambda *_: False)
    store.write(both(one(rank=0), one(rank=1)), tmp_path)
    store.write(one(rank=0, names=("new", "newer")), tmp_path)

    assert [row["name"] for row in stored(tmp_path)["events"]] == ["new", "newer", "mm"]
    folders = sorted(path.name for path in tmp_path.rglob("*") if path.is_dir())
    assert folders == ["catalogue", "rank=0", "rank=1", "run=run"]


NTH_RENAME = """calls = iter(range(9))
rename = Path.rename
Path.rename = lambda *of: dies() if next(calls) == {} else rename(*of)"""
KILLED = (
    ("pq.ParquetWriter.write_table = dies", True, "mm"),
    ("store.writing.publish = dies", True, "mm"),
    ("store.writing._exchange = dies", True, "mm"),
    ("store.writing.shutil.rmtree = dies", True, "new"),
    (NTH_RENAME.format(1), False, "mm"),
    (NTH_RENAME.format(2), False, "mm"),
    ("store.writing.shutil.rmtree = dies", False, "mm"),
)
"""Where a writer kills itself, whether the disk can exchange folders, and what is there then."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Stores whose rank 0 a process has tried to replace, that killed itself at a call.

    One process imports what is needed and forks for each, before it has any threads.
    """
    folder = tmp_path_factory.mktemp("killed")
    store.write(one(names=("new",)), folder / "new")
    stores = [folder / str(number) for number in range(len(KILLED))]
    for path in stores:
        store.write(one(), path)
    code = f"""
import os, signal, sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
import pyarrow.parquet as pq
from profframe import schema, store
from profframe.store import parquet

def dies(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def write(path, at, can_exchange):
    new = store.scan({str(folder / "new")!r})
    tables = {{name: next(new.parts(name)) for name in schema.TABLES}}
    if not can_exchange:
        store.writing._exchange = lambda *_: False
    exec(at, globals())
    store.write(tables, path)

for path, (at, can_exchange, _) in zip({[*map(str, stores)]!r}, {KILLED!r}):
    child = os.fork()
    if not child:
        try:
            write(path, at, can_exchange)
        finally:
            os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, timeout=120
    )
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(KILLED)
    return stores


@pytest.mark.parametrize("number", range(len(KILLED)))
def test_a_killed_writer_leaves_the_old_or_the_new(number: int, killed: list[Path]) -> None:
    path = killed[number]

    assert [row["name"] for row in stored(path)["events"]] == [KILLED[number][2]]
    store.write(one(names=("next",)), path)
    assert [row["name"] for row in stored(path)["events"]] == ["next"]


def test_leftovers_of_long_ago_are_removed_and_young_ones_kept(tmp_path: Path) -> None:
    for name, age_s in ((".tmp-old", 2 * 24 * 3600), (".tmp-young", 60)):
        (tmp_path / name).mkdir()
        past = (tmp_path / name).stat().st_mtime - age_s
        os.utime(tmp_path / name, (past, past))

    store.write(one(), tmp_path)

    assert sorted(path.name for path in tmp_path.glob("*[!e]")) == [".tmp-young", "run=run"]


def test_a_failed_writer_says_so_and_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(one(), tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.writing, "publish", full)

    with pytest.raises(StoreError, match="cannot write the store: No space left on device"):
        store.write(one(names=("new",)), tmp_path)
    assert [row["name"] for row in stored(tmp_path)["events"]] == ["mm"]
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_file_in_the_place_of_the_store_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match=r"file: cannot write the store: File exists"):
        store.write(one(), tmp_path / "file")


def test_parts_of_a_store_and_packs_are_stores(tmp_path: Path) -> None:
    store.write(both(one(rank=0), one(rank=1)), tmp_path / "store")
    shutil.copytree(tmp_path / "store/run=run/rank=1", tmp_path / "packed/pack-7")

    for part in ("store", "store/run=run", "store/run=run/rank=1", "packed"):
        assert store.is_store(tmp_path / part)
        assert {row["rank"] for row in stored(tmp_path / part)["events"]} >= {1}


def test_other_folders_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "date=2024").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "date=2024" / "x.parquet")

    assert not store.is_store(tmp_path)
    assert not store.is_store(tmp_path / "date=2024" / "x.parquet")
    with pytest.raises(StoreError, match="not a profframe store"):
        store.scan(tmp_path)
    with pytest.raises(StoreError, match="no such folder"):
        store.scan(tmp_path / "missing")


def rewrite(path: Path, version: str | None) -> None:
    metadata = None if version is None else {parquet.VERSION_KEY: version}
    pq.write_table(pq.read_table(path, partitioning=None).replace_schema_metadata(metadata), path)


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    store.write(one(), tmp_path)
    rewrite(tmp_path / "run=run/rank=0/traces.parquet", "99")

    with pytest.raises(StoreVersionError) as error:
        store.scan(tmp_path)

    now = f"version {schema.SCHEMA_VERSION};"
    assert all(part in str(error.value) for part in (str(tmp_path), "version 99", now))
    assert "convert the traces again" in str(error.value)
    (tmp_path / "run=run/rank=0/devices.parquet").unlink()  # as before schema 5
    with pytest.raises(StoreVersionError, match="version 99"):
        store.scan(tmp_path)


def test_parquet_of_somebody_else_in_a_stores_layout_is_refused(tmp_path: Path) -> None:
    store.write(one(), tmp_path)
    rewrite(tmp_path / "run=run/rank=0/traces.parquet", None)

    with pytest.raises(StoreError, match="not written by profframe"):
        store.scan(tmp_path)


@pytest.mark.parametrize("name", ["traces", "events"])
def test_missing_and_damaged_files_are_named(name: str, tmp_path: Path) -> None:
    store.write(both(one(rank=0), one(rank=1)), tmp_path)
    file = tmp_path / "run=run/rank=0" / f"{name}.parquet"
    whole = file.read_bytes()

    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError, match=rf"rank=0/{name}.parquet: cannot be read"):
        store.scan(tmp_path).check()
    file.unlink()
    with pytest.raises(StoreError, match=rf"rank=0/{name}.parquet: missing from the store|cannot"):
        store.scan(tmp_path)


def test_what_is_added_replaces_nothing(tmp_path: Path) -> None:
    assert not store.has(tmp_path, "run", 0)
    assert store.add(one(), tmp_path)
    assert store.has(tmp_path, "run", 0)
    assert not store.has(tmp_path, "run", 1)
    assert not store.add(one(names=("new",)), tmp_path)
    assert [row["name"] for row in stored(tmp_path)["events"]] == ["mm"]
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_set_aside_folder_is_not_added_to(tmp_path: Path) -> None:
    store.write(one(), tmp_path)
    (tmp_path / "run=run" / "rank=0").rename(tmp_path / "run=run" / ".old-rank=0")
    assert store.has(tmp_path, "run", 0)
    assert not store.add(one(names=("new",)), tmp_path)
    assert [row["name"] for row in stored(tmp_path)["events"]] == ["mm"]


def test_rows_that_are_asked_for_of_several_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP", 4)
    store.write(one(names=tuple(f"{n:02}" for n in range(20))), tmp_path)
    rows, name = store.scan(tmp_path).scan("events"), pl.col("name")
    assert pq.ParquetFile(tmp_path / "run=run/rank=0/events.parquet").num_row_groups == 5

    chosen = rows.filter((name >= "03") & (name < "06"))
    assert chosen.collect()["name"].to_list() == ["03", "04", "05"]
    assert chosen.select("event_id").collect().width == 1
    assert rows.head(5).collect()["name"].to_list() == ["00", "01", "02", "03", "04"]
    assert rows.head(5).filter(name > "03").collect()["name"].to_list() == ["04"]
    assert rows.filter(name > "90").collect().height == 0
    assert rows.select(pl.len()).collect().item() == 20
    assert rows.collect().schema == rows.collect_schema()


def test_rows_are_of_no_column_that_is_known_to_be_null(tmp_path: Path) -> None:
    for rank in range(3):
        store.write(one(rank=rank, names=("x", "y")), tmp_path)
    maintenance.compact(tmp_path)
    store.write(one(rank=1, names=("z",)), tmp_path)
    rows = store.scan(tmp_path).scan("events")

    whole = rows.collect()
    assert whole["flops"].null_count() == whole.height == 5
    for asked in (["flops"], ["flops", "stack"], ["stack", "name"]):
        assert rows.select(asked).collect().equals(whole.select(asked))
    assert rows.filter(pl.col("flops").is_null()).collect().equals(whole)
    assert rows.filter(pl.col("flops") > 0).collect().height == 0


def test_the_first_rows_are_read_of_the_first_files(tmp_path: Path) -> None:
    for rank in range(3):
        store.write(one(rank=rank, names=("x", "y")), tmp_path)
    rows = store.scan(tmp_path).scan("events")
    (tmp_path / "run=run/rank=2/events.parquet").write_bytes(b"no Parquet")

    assert rows.head(3).collect()["rank"].to_list() == [0, 0, 1]
