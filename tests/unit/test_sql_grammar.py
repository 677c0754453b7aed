"""Every SELECT of DuckDB's grammar has rows, or one line that says why not."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

from profframe import Trace, load
from profframe.errors import AnswerError
from profframe.show.frame import Frame
from tests.conftest import Run

EVENTS = 6
SAMPLES = (
    "SELECT name FROM events TABLESAMPLE 100%",
    "SELECT name FROM events TABLESAMPLE 100 PERCENT",
    "SELECT name FROM events TABLESAMPLE SYSTEM (100%)",
    "SELECT name FROM events TABLESAMPLE BERNOULLI (100 PERCENT)",
    "SELECT name FROM events TABLESAMPLE RESERVOIR (1000 ROWS) REPEATABLE (7)",
    "SELECT name FROM events USING SAMPLE 1000",
    "SELECT name FROM events USING SAMPLE 1000 ROWS",
    "SELECT name FROM events USING SAMPLE RESERVOIR (1000 ROWS) REPEATABLE (7)",
    "FROM events USING SAMPLE 100 PERCENT (BERNOULLI, 7)",
    "FROM (FROM events TABLESAMPLE 100%) AS e USING SAMPLE 1000",
    "WITH e AS (FROM events USING SAMPLE 1000) SELECT name FROM e",
)
VALUES = {
    "DATE '0001-01-01'": "0001-01-01",
    "MAP([1], ['x'])": [{"key": 1, "value": "x"}],
    "MAP([{'i': 1}], [[2]])": [{"key": {"i": 1}, "value": [2]}],
    "[MAP([[1]], [2])]": [[{"key": [1], "value": 2}]],
    "{'m': MAP([1.5::DOUBLE], [NULL::INTEGER])}": {"m": [{"key": 1.5, "value": None}]},
    "histogram(1)": [{"key": 1, "value": 1}],
    "'101'::BIT": "05fd",
    "['\\xAA'::BLOB, NULL]": ["aa", None],
    "{'b': '\\xAA'::BLOB, 'i': 1}": {"b": "aa", "i": 1},
    "MAP(['k'], ['\\xAA'::BLOB])": [{"key": "k", "value": "aa"}],
    "['\\xAA'::BLOB]::BLOB[1]": ["aa"],
    "170141183460469231731687303715884105727::HUGEINT": 170141183460469231731687303715884105727,
    "[DATE '9999-12-31']": ["9999-12-31"],
    "ROW()": {},
}
"""Values, and how they are in JSON."""
WITHOUT_TYPE = (
    "INTERVAL 1 DAY",
    "[INTERVAL 1 DAY]",
    "ROW(INTERVAL 1 DAY)",
    "list_zip([1::VARIANT])",
    "{'i': INTERVAL 1 DAY}",
    "MAP([INTERVAL 1 DAY], [1])",
    "1::VARIANT",
    "[1::VARIANT]",
    "12345678901234567890123456789012345678901::BIGNUM",
    "union_value(a := 1)",
    "'POINT(0 0)'::GEOMETRY",
    "get_type(1)",
)
OUTSIDE = (
    "DATE 'infinity'",
    "TIMESTAMP '-infinity'",
    "DATE '10000-01-01'",
    "TIMESTAMP '10000-01-01 00:00:00'",
    "'290000-01-01'::TIMESTAMP_S",
    "TIMESTAMPTZ 'infinity'",
    "[DATE '5881580-07-10']",
    "{'a': [{'b': DATE '0044-03-15 (BC)'}]}",
    "MAP([DATE 'infinity'], [1])",
    "MAP([1], [TIMESTAMP '290000-01-01'])",
    "[DATE 'infinity']::DATE[1]",
)


@pytest.fixture(scope="module")
def trace(example: Path) -> Trace:
    return load(example)


@pytest.mark.parametrize("query", SAMPLES)
def test_samples_are_answered(trace: Trace, query: str) -> None:
    rows = trace.sql(f"FROM ({query}) LIMIT {EVENTS}")
    assert rows.height == EVENTS
    assert trace.sql(query).height > EVENTS


@pytest.mark.parametrize("query", ["SHOW EXTERNAL RESOURCES", "SHOW ALL EXTERNAL RESOURCES;"])
def test_statements_without_a_name_are_refused(trace: Trace, query: str) -> None:
    """Since 2.0.1 they are a SELECT from a function."""
    refusal = (
        r"exactly one SELECT, found another statement|duckdb_external_resources\(\) is refused"
    )
    with pytest.raises(AnswerError, match=refusal):
        trace.sql(query)


ALL_VALUES = f"SELECT {', '.join(f'{value} AS v{n}' for n, value in enumerate(VALUES))}"


@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_values_of_every_type_are_shown(example: Path, form: str, run: Run) -> None:
    code, out, err = run("sql", example, ALL_VALUES, "--format", form)
    assert (code, err) == (0, "")
    assert "0001-01-01" in out


def test_values_of_every_type_are_in_json(example: Path, run: Run) -> None:
    code, out, err = run("sql", example, ALL_VALUES, "--format", "json")
    assert (code, err) == (0, "")
    assert [*json.loads(out)[0].values()] == [*VALUES.values()]


@pytest.mark.parametrize("value", VALUES)
def test_values_of_every_type_are_in_python(trace: Trace, value: str) -> None:
    rows = trace.sql(f"SELECT {value} AS v")
    assert isinstance(rows, Frame)
    assert len(rows.rows()) == 1
    assert "v" in repr(rows)
    assert "<table" in rows._repr_html_()


@pytest.mark.parametrize("value", WITHOUT_TYPE)
def test_types_that_polars_lacks_are_one_line(
    trace: Trace, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AnswerError) as error:
        trace.sql(f"SELECT {value} AS v")
    assert str(error.value).startswith("column 'v' has a type that polars has none for, ")
    assert str(error.value).endswith("; cast it, as in x::VARCHAR")
    assert capfd.readouterr().err == ""  # nor does a library write a trace of its own
    assert trace.sql(f"SELECT ({value})::VARCHAR AS v").schema == {"v": pl.String}


@pytest.mark.parametrize("value", OUTSIDE)
def test_dates_that_python_lacks_are_one_line(trace: Trace, value: str) -> None:
    with pytest.raises(AnswerError) as error:
        trace.sql(f"SELECT {value} AS v UNION ALL SELECT NULL")
    assert str(error.value) == (
        "column 'v' has dates outside the years 1 to 9999; cast it, as in x::VARCHAR"
    )
    assert trace.sql(f"SELECT ({value})::VARCHAR AS v").height == 1


def test_a_fault_of_duckdb_is_one_line_and_ends_there(trace: Trace) -> None:
    """After such an error DuckDB refuses all questions, until it is opened anew."""
    connection = duckdb.connect()
    lowest = connection.sql("SELECT (-170141183460469231731687303715884105728)::HUGEINT AS i")
    session = trace.with_tables(tables={"lowest": lowest.to_arrow_table()})
    for _ in range(2):
        with pytest.raises(AnswerError, match=r"^query: INTERNAL Error: .* out of range!$"):
            session.sql("SELECT i::VARCHAR FROM lowest")
        assert session.sql("SELECT 1 AS x").rows() == [(1,)]
    assert session.self_times().height == trace.self_times().height


def test_what_parquet_cannot_hold_is_one_line(example: Path, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "rows.parquet"
    code, _, err = run("sql", example, "SELECT ROW() AS v", "-o", file)
    assert code == 1
    assert err.startswith("error: Parquet cannot hold these rows: ")
    assert err.count("\n") == 1
    assert not file.exists()
