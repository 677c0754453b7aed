"""The interval macros against sets of nanoseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe import schema
from profframe.query.header import sql_directory

Interval = tuple[str, int | None, int | None]
Moments = set[tuple[str, int]]

INTERVALS: Final = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(-5, 25) | st.none(),
        st.integers(-5, 30) | st.none(),
    ),
    max_size=12,
)
"""Key, start, end; some have no start or no end, or end before they start."""


def moments(intervals: list[Interval]) -> Moments:
    return {
        (key, at)
        for key, start, end in intervals
        if start is not None and end is not None
        for at in range(start, end)
    }


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        for file in ("lanes.sql", "intervals.sql"):
            opened.execute((sql_directory() / "lib" / file).read_text())
        yield opened


def register(connection: duckdb.DuckDBPyConnection, name: str, rows: list[Interval]) -> None:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = (pa.string(), pa.int64(), pa.int64())
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
    connection.register(name, pa.table(arrays, names=["key", "start_ns", "end_ns"]))


@pytest.mark.parametrize(
    ("macro", "expected"),
    [
        ("interval_union('one')", lambda one, _: one),
        ("interval_intersection('one', 'two')", lambda one, two: one & two),
        ("interval_subtraction('one', 'two')", lambda one, two: one - two),
    ],
)
@given(one=INTERVALS, two=INTERVALS)
def test_arithmetic_is_that_of_sets(
    connection: duckdb.DuckDBPyConnection,
    macro: str,
    expected: Callable[[Moments, Moments], Moments],
    one: list[Interval],
    two: list[Interval],
) -> None:
    register(connection, "one", one)
    register(connection, "two", two)
    query = f"SELECT key, start_ns, end_ns FROM {macro} ORDER BY key, start_ns"
    found = connection.execute(query).fetchall()
    assert moments(found) == expected(moments(one), moments(two))
    assert all(start < end for _, start, end in found)
    neighbours = pairwise(found)
    assert all(a[0] != b[0] or a[2] < b[1] for a, b in neighbours), "they would be one interval"


@given(INTERVALS)
def test_concurrency_counts(
    connection: duckdb.DuckDBPyConnection, intervals: list[Interval]
) -> None:
    register(connection, "one", intervals)
    query = "SELECT key, start_ns, end_ns, open FROM interval_concurrency('one')"
    rows = connection.execute(query).fetchall()
    found = {(key, at): n for key, start, end, n in rows for at in range(start, end)}
    counted = {
        moment: sum(moment in moments([interval]) for interval in intervals)
        for moment in moments(intervals)
    }
    assert found == counted


@pytest.mark.parametrize("category", [*schema.KERNEL_CATEGORIES, None])
def test_communication_is_what_the_schema_says(category: str | None) -> None:
    with duckdb.connect() as opened:
        opened.execute((sql_directory() / "lib" / "devices.sql").read_text())
        found = opened.execute("SELECT device_class('kernel', ?)", [category]).fetchone()
    assert found == ("communication" if category in schema.COMMUNICATION else "compute",)
