"""Hostile questions: what reaches out of a trace, written in every way that SQL has for it.

A canary lies outside of the store. No question may give its content or its name, end in anything
but rows or a ProfframeError of one line, write anything, or end the process.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from profframe import Trace, load
from profframe.errors import ProfframeError

EXAMPLE: Final = Path(__file__).parent.parent.parent / "examples" / "cpu_training.json.gz"
CONTENT: Final = "tweet of the canary"
NAME: Final = "birdcage"
TIMEOUT_S: Final = 5

READERS: Final = (
    "read_text", "read_blob", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
    "read_json_objects", "read_ndjson", "read_parquet", "parquet_scan", "parquet_metadata",
    "parquet_schema", "read_duckdb", "sniff_csv", "glob", "read_single_csv_file", "query_table",
    "json_execute_serialized_sql", "which_secret", "pragma_table_info",
)  # fmt: skip
POINTERS: Final = (
    "arrow_scan", "arrow_scan_dumb", "pandas_scan", "python_arrow_scan", "python_map_function",
    "seq_scan",
)  # fmt: skip
TELLERS: Final = (
    "duckdb_settings", "duckdb_secrets", "duckdb_views", "duckdb_databases", "duckdb_extensions",
    "duckdb_external_file_cache", "duckdb_temporary_files", "duckdb_logs", "enable_logging",
    "enable_profiling", "checkpoint", "pragma_database_size", "test_all_types",
)  # fmt: skip
SCALARS: Final = (
    "getenv", "current_setting", "json_serialize_plan", "write_log", "pg_get_viewdef",
    "to_aggregate_state", "__internal_decompress_string", "read_text", "glob", "getvariable",
)  # fmt: skip
VIEWS: Final = (
    "duckdb_views", "sqlite_master", "pg_catalog.pg_settings", "information_schema.tables",
    "system.main.duckdb_databases", "pg_views", "temp.information_schema.schemata", "mine", "df",
)  # fmt: skip
MACROS: Final = ("few", "lanes", "device_work", "memory_records", "kernel_limits", "work_gaps")
STATEMENTS: Final = (
    "INSTALL httpfs", "LOAD httpfs", "ATTACH '{f}'", "COPY events TO '{d}/out.csv'",
    "COPY (FROM '{f}') TO '{d}/out'", "EXPORT DATABASE '{d}/out'", "IMPORT DATABASE '{d}'",
    "SET enable_external_access = true", "RESET lock_configuration", "PRAGMA database_list",
    "CALL read_text('{f}')", "PREPARE p AS FROM '{f}'", "EXECUTE p", "CREATE TABLE x AS FROM '{f}'",
    "CREATE OR REPLACE MACRO lanes(e) AS TABLE FROM read_text('{f}')", "DETACH memory", "VACUUM",
    "EXPLAIN ANALYZE FROM '{f}'", "USE system", "DROP VIEW events", "CHECKPOINT", "SHOW '{f}'",
    "DESCRIBE '{f}'", "SUMMARIZE '{f}'", "CREATE SECRET s (TYPE http)", "SET VARIABLE x = 1",
)  # fmt: skip
GARBAGE: Final = (
    "SELECT", "FROM", "(", ")", ",", "'", '"', "$$", "--", "/*", "*/", ";", "\0", "\n", "{f}",
    "events", "WITH", "AS", "é", "\u2028", "::", "->", "[", "]", "{", "}", "1", "e9", "*", "=",
    "LATERAL", "PIVOT", "lambda x:", "U&'\\0041'", "E'\\x41'", "?", "$1", "\ud800",
)  # fmt: skip


@cache
def _ground() -> tuple[Path, tuple[Trace, ...]]:
    """A folder with the canary, and traces in memory, in a store, and with own files."""
    folder = Path(tempfile.mkdtemp(prefix="profframe-fuzz-"))
    cage, inside = folder / "outside", folder / "inside"
    cage.mkdir()
    inside.mkdir()
    (cage / f"{NAME}.csv").write_text(f"{CONTENT}\n")
    (inside / "own.csv").write_text("a,b\n1,2\n")
    (inside / "link.csv").symlink_to(cage / f"{NAME}.csv")
    trace = load(EXAMPLE)
    trace.to_parquet(folder / "store")
    return cage, (trace, load(folder / "store"), load(folder / "store").with_tables(files=inside))


class _Sql:
    """Random SQL about a file."""

    def __init__(self, random: random.Random, file: Path) -> None:
        self._random = random
        self._file = file

    def __call__(self) -> str:
        """A question."""
        kind = self._random.random()
        if kind < 0.1:
            return self._named(self._pick(STATEMENTS))
        if kind < 0.25:
            parts = self._random.choices(GARBAGE, k=self._random.randrange(1, 12))
            return self._named(" ".join(parts))
        if kind < 0.35:
            text = list(self._select(2))
            for _ in range(self._random.randrange(1, 4)):
                text[self._random.randrange(len(text))] = self._pick(GARBAGE)
            return self._named("".join(text))
        return self._named(self._select(3))

    def _pick(self, some: tuple[str, ...]) -> str:
        return self._random.choice(some)

    def _named(self, sql: str) -> str:
        return sql.replace("{f}", str(self._file)).replace("{d}", str(self._file.parent))

    def _select(self, depth: int) -> str:
        inner = self._relation(depth)
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"SELECT * FROM {inner}",
            lambda: f"FROM {inner}",
            lambda: f"FROM {inner} LIMIT {self._scalar(depth)}",
            lambda: f"WITH a AS (SELECT * FROM {inner}) SELECT * FROM a",
            lambda: f"WITH a AS MATERIALIZED (FROM {inner}) FROM a, events LIMIT 5",
            lambda: f"WITH events AS (FROM {inner}) FROM events LIMIT 5",
            lambda: f"WITH a AS (COPY (FROM {inner}) TO '{{d}}/out') FROM a",
            lambda: f"WITH a AS (DELETE FROM events RETURNING *) FROM {inner}",
            lambda: f"SELECT (SELECT count(*) FROM {inner}), {self._scalar(depth)}",
            lambda: f"SELECT {self._scalar(depth)} FROM {inner} LIMIT 5",
            lambda: f"SELECT list_transform([1], lambda x: {self._scalar(depth)})",
            lambda: f"SELECT [{self._scalar(depth)} for x in ['{{f}}']]",
            lambda: f"SUMMARIZE SELECT * FROM {inner}",
            lambda: f"DESCRIBE SELECT * FROM {inner}",
            lambda: f"PIVOT {inner} ON 1 USING count(*)",
            lambda: f"UNPIVOT (FROM {inner}) ON COLUMNS(*)",
            lambda: f"SELECT 1 FROM events WHERE EXISTS (FROM {inner}) LIMIT 5",
            lambda: f"FROM events, LATERAL (FROM {inner}) LIMIT 5",
            lambda: f"SELECT 1 UNION ALL BY NAME SELECT 1 FROM {inner}",
            lambda: f"TABLE {inner}",
        )
        return self._random.choice(forms)()

    def _relation(self, depth: int) -> str:
        if depth and self._random.random() < 0.3:
            return f"({self._select(depth - 1)})"
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"{self._name(READERS)}({self._argument(depth)})",
            lambda: f"{self._name(READERS)}([{self._argument(depth)}])",
            lambda: f"{self._name(POINTERS)}({', '.join(self._numbers())})",
            lambda: f"{self._name(TELLERS)}()",
            lambda: f"{self._pick(MACROS)}({self._argument(depth)})",
            lambda: f"{self._pick(MACROS)}({self._pick(VIEWS)})",
            lambda: f"query({self._quoted(self._select(0))})",
            lambda: f"query_table({self._quoted(self._pick(VIEWS))})",
            lambda: self._pick(VIEWS),
            lambda: self._argument(0),
            lambda: '"{f}"',
            lambda: "(SHOW ALL TABLES)",
            lambda: "(SHOW temp_directory)",
            lambda: f"(VALUES ({self._scalar(depth)})) AS v(x)",
            lambda: "events",
        )
        return self._random.choice(forms)()

    def _scalar(self, depth: int) -> str:
        if depth and self._random.random() < 0.3:
            return f"({self._select(depth - 1)})"
        return f"{self._name(SCALARS)}({self._argument(depth)})"

    def _name(self, names: tuple[str, ...]) -> str:
        """A name of a function, written in some way."""
        name = self._pick(names)
        ways = (
            name,
            name.upper(),
            f'"{name}"',
            f"main.{name}",
            f"system.main.{name}",
            f'"system"."main"."{name.title()}"',
            f"{name} /* ( */ ",
            f"{name} -- (\n",
        )
        return self._random.choice(ways)

    def _argument(self, depth: int) -> str:
        ways = (
            "'{f}'",
            "'{d}/*'",
            "'{d}/**'",
            "'/*'",
            "'{d}/../outside/*.csv'",
            "'file://{f}'",
            "'https://localhost:1/x.csv'",
            "'s3://none/x.parquet'",
            "'{d}' || '/' || 'bird' || 'cage.csv'",
            "$${f}$$",
            "E'{f}'",
            "chr(47) || '*'",
            "'temp_directory'",
            "'HOME'",
            "getvariable('x')",
            "1",
            "NULL",
            "x := '{f}'",
        )
        if depth and self._random.random() < 0.1:
            return f"({self._select(depth - 1)})"
        return self._random.choice(ways)

    def _numbers(self) -> list[str]:
        some = ("0", "1", "8", "4096", "140737488355328", "18446744073709551615", "-1", "'a'")
        return self._random.choices(some, k=self._random.randrange(1, 5))

    def _quoted(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"


def case(seed: int) -> None:
    """Ask a hostile question."""
    chance = random.Random(seed)  # noqa: S311
    cage, traces = _ground()
    sql = _Sql(chance, cage / f"{NAME}.csv")()
    trace = chance.choice(traces).with_limits("200MB", timeout_s=TIMEOUT_S, rows=100_000)
    said = error = ""
    try:
        said = repr(trace.sql(sql).rows())
    except ProfframeError as refused:
        error = str(refused)
    assert "\n" not in error, f"{sql!r}: more than a line: {error}"
    assert f"{Path.home()}/" not in error, f"{sql!r}: tells of the home folder: {error}"
    assert CONTENT not in error, f"{sql!r}: the content is in the error"
    assert CONTENT not in said, f"{sql!r}: the content is in the rows"
    given = sql.lower().count(NAME) or "'bird'" in sql
    assert NAME not in said.lower() or given, f"{sql!r}: the name is in the rows"
    assert [path.name for path in cage.iterdir()] == [f"{NAME}.csv"], f"{sql!r}: wrote a file"
    assert (cage / f"{NAME}.csv").read_text() == f"{CONTENT}\n", f"{sql!r}: changed the canary"
