from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profframe import schema
from profframe.store import parquet


def quality(*details: str | None) -> pa.Table:
    count = len(details)
    rows = {
        "issue": pa.array([f"check {number}" for number in range(count)]).dictionary_encode(),
        "events": [1] * count,
        "action": ["kept"] * count,
        "detail": details,
    }
    return schema.conform("quality", pa.table(rows), "run", 0)


def test_parts_of_about_a_row_group_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP", 4)
    file = tmp_path / "quality.parquet"
    parts = [quality(*map(str, range(size))) for size in (5, 0, 3, 9)]
    parquet.write_file(file, "quality", iter(parts))
    found = pq.read_metadata(file)
    sizes = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    assert sizes == [5, 3, 5, 4]
    read = pq.read_table(file)["detail"].to_pylist()
    assert read == [text for part in parts for text in part["detail"].to_pylist()]


def test_a_row_group_has_only_its_own_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_FEW_TEXTS", 1)
    rows = quality(*"abcdef")
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 2, None, None], pa.int32()), "xyz")
    place = rows.column_names.index("issue")
    rows = rows.set_column(place, schema.QUALITY.arrow.field("issue").with_nullable(True), nulls)
    written = parquet._with_own_texts(rows.slice(0, 2))["issue"]
    assert written.to_pylist() == ["x", None]
    assert written.chunk(0).dictionary.to_pylist() == ["x"]
    none = parquet._with_own_texts(rows.slice(4, 2))["issue"]
    assert none.to_pylist() == [None, None]
    assert none.chunk(0).dictionary.to_pylist() == []


def test_a_table_without_rows_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "quality.parquet"
    parquet.write_file(file, "quality", ())
    assert pq.read_table(file).num_rows == 0
    assert pq.read_schema(file).names == list(schema.QUALITY.names)
