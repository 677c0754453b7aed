"""Calls of macros that are written out: what they stand for, and what DuckDB makes of both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import duckdb
import pyarrow as pa
import pytest

from profframe.query import expansion, macros
from profframe.query.expansion import expanded

OWN: Mapping[str, str] = {
    "plus": "(a, b) AS a * b + a",
    "twice": "(a) AS plus(a, 2)",
    "field": "(row) AS row.a || row.b",
    "texts": "(name) AS list_transform(['a', 'name'], lambda text: text || name)",
    "named": "(name) AS {'name': name, 'a': 'it''s -- name'}",
    "inner_rows": (
        "(rows, least := 1) AS TABLE\n"
        "SELECT rows.a AS least FROM query_table(rows) AS rows WHERE a > least"
    ),
    "outer_rows": (
        "(given) AS TABLE\nWITH rows AS (FROM query_table(given))\n"
        "FROM inner_rows('rows', least := 0) JOIN inner_rows(rows) AS b USING (least)"
    ),
}


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with macros of these tests, which stand in for those of ``sql/lib``."""
    statements = {n: f"CREATE OR REPLACE TEMP MACRO {n}{body};" for n, body in OWN.items()}
    monkeypatch.setattr(macros, "names", statements.keys)
    monkeypatch.setattr(macros, "definition", statements.__getitem__)
    expansion._macro.cache_clear()
    expansion._without_macros.cache_clear()
    connection = duckdb.connect()
    for statement in statements.values():
        connection.execute(statement)
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, b)")
    yield connection
    connection.close()
    expansion._macro.cache_clear()
    expansion._without_macros.cache_clear()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT plus(1 + 1, 2 + 1) AS n", [(8,)]),
        ("SELECT plus(plus(1, 2), twice(2)) AS n", [(21,)]),
        ("SELECT twice(a) AS n FROM t", [(3,), (6,)]),
        ("SELECT twice(t.a) -- twice(3)\nAS n FROM t", [(3,), (6,)]),
        ("SELECT 'a' -- joined\n    'b' AS n", [("ab",)]),
        ("SELECT field(t) AS n FROM t", [("1x",), ("2y",)]),
        ("SELECT texts(b) AS n FROM t", [(["ax", "namex"],), (["ay", "namey"],)]),
        ("SELECT named(b).name AS n FROM t", [("x",), ("y",)]),
        ("SELECT 'twice(a)' AS n, t.a AS \"twice(a)\" FROM t", [("twice(a)", 1), ("twice(a)", 2)]),
        ("FROM inner_rows(t) AS inner_rows SELECT inner_rows.least", [(2,)]),
        ("FROM inner_rows('t', least := 0) AS n SELECT n.least ORDER BY 1", [(1,), (2,)]),
        ("FROM outer_rows(t) ORDER BY 1", [(2,)]),
        ("WITH u AS (FROM t WHERE a < 2) FROM inner_rows(u, least := 0)", [(1,)]),
    ],
)
def test_a_call_is_what_duckdb_takes_it_for(
    own: duckdb.DuckDBPyConnection, sql: str, rows: list[tuple[object, ...]]
) -> None:
    text = expanded(sql)
    assert own.sql(sql).fetchall() == rows
    for name in OWN:
        own.execute(f"DROP MACRO {'TABLE ' if 'TABLE' in OWN[name] else ''}{name}")
    assert own.sql(text).fetchall() == rows


@pytest.mark.usefixtures("own")
def test_arguments_are_put_in_brackets_where_they_need_them() -> None:
    assert expanded("SELECT twice(a - 1) AS n") == "SELECT (((a - 1) * 2 + (a - 1))) AS n"
    assert expanded("SELECT twice(t.a) AS n") == "SELECT ((t.a * 2 + t.a)) AS n"


def test_steps_that_are_kept_are_tables() -> None:
    assert expanded("FROM lanes(events) WHERE lane > 0", ("lanes",)) == (
        "FROM _kept_lanes WHERE lane > 0"
    )
    assert expanded("FROM lanes(events) AS l JOIN u", ("lanes",)) == "FROM _kept_lanes AS l JOIN u"


READS = (
    "FROM a",
    "SELECT b.x FROM\n  a -- the first\n  AS b",
    "SELECT a.x, u.y FROM a JOIN u ON a.x = u.x",
    "SELECT x, (SELECT count(*) FROM u SEMI JOIN a USING (x)) AS n FROM a",
    "SELECT 'FROM a' AS \" FROM a \", x IS NOT DISTINCT FROM a.x AS a FROM a",
    "FROM (WITH a AS (SELECT a.x + 1 AS x FROM a JOIN u USING (x)) FROM a)",
    "WITH b AS (FROM a), c AS (WITH u AS MATERIALIZED (FROM b) FROM u) FROM c JOIN u USING (x)",
    "WITH RECURSIVE b AS (FROM (WITH a AS (SELECT 7 AS x) FROM a)) FROM b, a",
)


@pytest.mark.parametrize("sql", READS)
def test_tables_are_read_by_what_stands_for_them(sql: str) -> None:
    rows, others = pa.table({"x": [1, 2, 2]}), pa.table({"x": [2], "y": ["y"]})
    with duckdb.connect() as named:
        named.register("a", rows)
        named.register("u", others)
        before = named.sql(sql).fetchall()
    with duckdb.connect() as numbered:
        numbered.register("1", rows)
        numbered.register("2", others)
        text = expanded(sql, tables={"a": '"1"', "u": '(FROM "2")'})
        assert numbered.sql(text).fetchall() == before
    assert expanded(sql, tables={"other": '"1"'}) == expanded(sql)


def test_a_table_keeps_its_name_unless_it_gets_another() -> None:
    tables = {"a": '"1"', "u": '"2"'}
    assert expanded("FROM a JOIN u AS b", tables=tables) == 'FROM "1" AS a JOIN "2" AS b'


def test_no_macro_has_a_name_of_its_own_for_what_an_argument_may_be() -> None:
    """What the text of a body cannot tell: parameters of lambdas, keys of joins, parts of lists."""
    for name in macros.names():
        body = macros.definition(name).split("\n", 1)[-1]
        own = set[str]()
        for words in re.findall(r"lambda ([\w, ]+):", body):
            own |= {*words.split(", ")}
        for words in re.findall(r"(?:USING|EXCLUDE) \(([\w, ]+)\)", body):
            own |= {*words.split(", ")}
        own |= {*re.findall(r"(\w+) ?:(?![:=])", body.replace("::", ""))}
        assert not own.intersection(macros.parameters(name)), name
