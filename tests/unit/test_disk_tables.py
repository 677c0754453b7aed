from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from profframe.errors import StoreError
from profframe.system import disk_tables
from profframe.system.disk_tables import Builder, Spool, SpooledTable
from tests import needs

NAME = pa.dictionary(pa.int32(), pa.string())


def names(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.string()).dictionary_encode()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpooledTable:
    """Four rows in three pieces; the texts of the names come one by one."""
    monkeypatch.setattr(disk_tables, "PIECE_ROWS", 1)
    return Spool(tmp_path).table(
        [
            pa.table({"number": [1, None], "name": names("b", "a")}),
            pa.table({"number": [3], "name": names(None)}),
            pa.table({"number": pa.array([None], pa.int64()), "name": names("a"), "flag": [True]}),
        ]
    )


def test_it_has_all_rows_and_a_column_that_some_lacked(table: SpooledTable) -> None:
    assert table.sizes == (2, 1, 1)
    assert table.num_rows == 4
    assert table.column_names == ["number", "name", "flag"]
    assert table.read().to_pydict() == {
        "number": [1, None, 3, None],
        "name": ["b", "a", None, "a"],
        "flag": [None, None, None, True],
    }
    assert table.read().schema == table.schema


def test_repeated_text_has_one_dictionary(table: SpooledTable) -> None:
    chunks = table["name"].chunks
    assert {tuple(chunk.dictionary.to_pylist()) for chunk in chunks} == {("b", "a")}
    assert [part["name"].to_pylist() for part in table.parts()] == [["b", "a"], [None], ["a"]]


def test_other_columns_make_another_table(table: SpooledTable) -> None:
    longer = table.append_column("id", pa.array([10, 11, 12, 13]))
    changed = longer.set_column(0, "number", pa.chunked_array([names("x"), names("y", "x", None)]))
    assert changed.read().to_pydict()["number"] == ["x", "y", "x", None]
    assert changed.drop_columns(["name", "flag"]).column_names == ["number", "id"]
    assert changed.select(["id"]).read().to_pydict() == {"id": [10, 11, 12, 13]}
    assert table.column_names == ["number", "name", "flag"], "it never changes itself"


def test_rows_are_taken_and_filtered(table: SpooledTable) -> None:
    assert table.take(pa.array([3, 0])).to_pydict() == {
        "number": [None, 1],
        "name": ["a", "b"],
        "flag": [True, None],
    }
    kept = table.filter(pa.array([False, True, False, True]))
    assert kept.sizes == (1, 0, 1)
    assert kept.read().to_pydict() == {
        "number": [None, None],
        "name": ["a", "a"],
        "flag": [None, True],
    }


def test_an_empty_one_has_its_columns(tmp_path: Path) -> None:
    empty = Builder(Spool(tmp_path), {"number": pa.int64(), "name": NAME}).table()
    assert empty.num_rows == 0
    assert empty["name"].chunk(0).dictionary.to_pylist() == []
    assert empty.read() == empty.schema.empty_table()
    assert list(empty.parts()) == []
    assert empty.append_column("more", pa.array([], pa.bool_()))["more"].to_pylist() == []


def test_a_piece_is_complete_with_so_many_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_tables, "PIECE_BYTES", 1000)
    parts = [pa.table({"text": ["x" * 600]})] * 3
    assert Spool(tmp_path).table(parts).sizes == (2, 1)


def test_its_file_has_no_name(tmp_path: Path) -> None:
    held = Spool(tmp_path).table([pa.table({"text": ["x"]})])
    assert list(tmp_path.iterdir()) == []
    assert held["text"].to_pylist() == ["x"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match="cannot hold the temporary tables of a conversion: No such file"
    ):
        Spool(tmp_path / "gone")


@needs.full_disk
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        tempfile,
        "TemporaryFile",
        lambda **_: os.fdopen(os.open("/dev/full", os.O_RDWR), "r+b", buffering=0),
    )
    with pytest.raises(StoreError, match="No space left on device"):
        Spool(tmp_path).table([pa.table({"text": ["x"]})])
