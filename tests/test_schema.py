"""The schema's promises about itself."""

from __future__ import annotations

import pytest

from profframe import schema
from profframe.schema import Column, Table
from tests.members import in_one

COLUMNS = [column for table in schema.TABLES.values() for column in table]
TABLES = [*schema.TABLES.values()]


@in_one(COLUMNS, ids=lambda column: column.name)
def test_column_has_a_line_of_doc(column: Column) -> None:
    assert column.doc.strip() == column.doc
    assert column.doc.endswith(".")
    assert "\n" not in column.doc
    assert "|" not in f"{column.doc}{column.null}{column.unit}", "it would break the page's table"


@in_one(COLUMNS, ids=lambda column: column.name)
def test_unit_is_the_end_of_the_name(column: Column) -> None:
    ends = {"ns": "ns", "bytes": "bytes", "flops": "FLOP"}
    rates = {"bytes": "bytes/s", "flop": "FLOP/s", "gb": "GB/s"}
    name = column.name.removesuffix("_per_s")
    last = name.rpartition("_")[2]
    is_rate = name != column.name
    assert column.unit == (rates if is_rate else ends).get(last)
    if column.unit is not None:
        assert column.type == (schema.DOUBLE if is_rate else schema.INT64)


@in_one(COLUMNS, ids=lambda column: column.name)
def test_type_is_one_that_every_engine_reads(column: Column) -> None:
    assert column.type in {
        schema.TEXT,
        schema.NAME,
        schema.INT32,
        schema.INT64,
        schema.DOUBLE,
        schema.BOOL,
    }
    assert schema.type_word(column.type) in {"VARCHAR", "INTEGER", "BIGINT", "DOUBLE", "BOOLEAN"}


@in_one(TABLES, ids=lambda table: table.name)
def test_table_starts_with_its_key_and_names_are_unique(table: Table) -> None:
    assert table.names[:2] == ("run", "rank")
    assert len(set(table.names)) == len(table.names)
    assert table.grain.startswith("one row per ")
    assert table.doc.endswith(".")


@in_one(TABLES, ids=lambda table: table.name)
def test_arrow_schema_knows_what_may_be_missing(table: Table) -> None:
    assert table.arrow.names == list(table.names)
    assert [f.nullable for f in table.arrow] == [c.null is not None for c in table]
    assert table.arrow.empty_table().num_rows == 0


def test_kinds_of_one_place_do_not_overlap() -> None:
    assert set(schema.HOST_KINDS) | set(schema.DEVICE_KINDS) <= set(schema.KINDS)
    assert not set(schema.HOST_KINDS) & set(schema.DEVICE_KINDS)
    assert set(schema.LAUNCH_KINDS) <= set(schema.HOST_KINDS)


def test_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        schema.TABLES["more"] = schema.EVENTS  # type: ignore[index]
