"""What a question may reach: the tables of the trace, and what it is given beside them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from profframe import Trace, cli, load
from profframe.errors import AnswerError, ParameterError, UnknownNameError
from profframe.query import rules, sandbox
from profframe.query.catalogue import selects
from profframe.query.sandbox import Terms
from tests.conftest import Run

CANARY = "the canary"
RULE = """\
-- reaching: reaches out.
-- One row per (run, rank).
-- suggestion: Nothing.
-- link: https://example.com
-- needs: events
"""
FINDING = (
    "SELECT run, rank, 'high' AS severity, 'x' AS finding, [0]::BIGINT[] AS evidence_events,"
    " 0 AS events, 0 AS estimated_gain_ns, 'x' AS gain_basis, ({reach}) AS \"where\" FROM traces"
)

REACHES = {
    "a file": "SELECT content FROM read_text('{file}')",
    "bytes of a file": "SELECT content FROM read_blob(['{file}'])",
    "lines of a file": "SELECT line FROM read_csv('{file}', header = false, names = ['line'])",
    "a file by its name": "SELECT * FROM '{file}'",
    "a file behind a quoted name": 'SELECT * FROM "{file}"',
    "a file of JSON": "SELECT * FROM read_json_auto('{file}')",
    "a database": "SELECT * FROM read_duckdb('{file}')",
    "a file through another name": "SELECT * FROM system.main.read_text('{file}')",
    "a file in capitals": "SELECT * FROM \"READ_TEXT\"('{file}')",
    "a folder": "SELECT file FROM glob('{folder}/*')",
    "the root": "SELECT file FROM glob('/*')",
    "the environment": "SELECT getenv('HOME')",
    "SQL in a text": "SELECT * FROM query('SELECT 1')",
    "a table in a text": "SELECT * FROM query_table('events')",
    "SQL as JSON": "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "a plan of SQL": "SELECT json_serialize_plan('SELECT * FROM arrow_scan(1, 2, 3)')",
    "an address": "SELECT * FROM arrow_scan(1, 2, 3)",
    "an address in a CTE": "WITH a AS (FROM pandas_scan(1)) SELECT * FROM a",
    "a function of Python": "SELECT * FROM python_map_function(1, 2)",
    "settings": "SELECT * FROM duckdb_settings()",
    "a setting": "SELECT current_setting('temp_directory')",
    "a setting by SHOW": "SELECT * FROM (SHOW temp_directory)",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "views": "SELECT sql FROM duckdb_views()",
    "views by name": "SELECT sql FROM duckdb_views",
    "views of the schema": "SELECT * FROM information_schema.views",
    "views through a macro": "SELECT * FROM device_work('pg_catalog.pg_settings')",
    "views through words": "SELECT * FROM device_work('pg_' || 'settings')",
    "logs": "SELECT * FROM enable_logging('x')",
    "a copy inside": "WITH c AS (COPY (SELECT 1) TO '{folder}/copy.csv') SELECT * FROM c",
    "an insert inside": "WITH c AS (INSERT INTO events FROM events RETURNING *) SELECT * FROM c",
    "a url": "SELECT * FROM 'https://example.com/x.csv'",
    "a bucket": "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
}
"""SELECTs, each of which reaches out; they can stand inside another, too."""
SOME = [REACHES[name] for name in ("a file", "the root", "the environment", "SQL in a text")]
"""What is refused before anything is read does not depend on where the rows are."""

STATEMENTS = {
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "attach": "ATTACH '{folder}/made.db' AS made",
    "copy": "COPY (SELECT 1) TO '{folder}/copy.csv'",
    "export": "EXPORT DATABASE '{folder}/made'",
    "set": "SET enable_external_access = true",
    "pragma": "PRAGMA database_list",
    "call": "CALL enable_logging()",
    "two": "SELECT 1; SELECT 2",
    "secret": "CREATE CANARY mine (TYPE http)",
}


@pytest.fixture(scope="module")
def in_memory(example: Path) -> Trace:
    return load(example)


@pytest.fixture(scope="module")
def store(in_memory: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("closed") / "store"
    in_memory.to_parquet(path)
    return path


@pytest.fixture(scope="module", params=["in memory", "in a store"])
def trace(request: pytest.FixtureRequest, in_memory: Trace, store: Path) -> Trace:
    return in_memory if request.param == "in memory" else load(store)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file that no question is to read."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "canary.csv").write_text(CANARY)
    return folder


@pytest.fixture
def written(outside: Path) -> Callable[[str], str]:
    """SQL with the names of what is outside."""
    return lambda sql: sql.replace("{file}", f"{outside}/canary.csv").replace(
        "{folder}", str(outside)
    )


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(AnswerError) as error:
        ask()
    line = str(error.value)
    assert "\n" not in line
    assert CANARY not in line
    assert ".duckdb" not in line
    return line


@pytest.fixture
def _own_rules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that come with profframe are not asked beside them."""
    monkeypatch.setattr(rules, "shipped_rules", tuple)


class TestRefused:
    @pytest.mark.parametrize("sql", [*REACHES.values(), *STATEMENTS.values()])
    def test_by_sql(self, trace: Trace, written: Callable[[str], str], sql: str) -> None:
        refused(lambda: trace.sql(written(sql)))

    @pytest.mark.parametrize("sql", [*REACHES.values(), *STATEMENTS.values()])
    def test_by_a_file(
        self, in_memory: Trace, written: Callable[[str], str], tmp_path: Path, sql: str
    ) -> None:
        file = tmp_path / "mine.sql"
        file.write_text(written(sql))
        refused(lambda: in_memory.answer(file))

    @pytest.mark.usefixtures("_own_rules_alone")
    @pytest.mark.parametrize("reach", REACHES.values(), ids=REACHES)
    def test_by_a_rule(
        self, in_memory: Trace, written: Callable[[str], str], tmp_path: Path, reach: str
    ) -> None:
        file = tmp_path / "reaching.sql"
        file.write_text(RULE + written(FINDING.replace("{reach}", reach)))
        assert str(file) in refused(lambda: in_memory.advice(rules=[file]))

    @pytest.mark.parametrize("reach", SOME)
    def test_by_files_that_ask_a_store(
        self, store: Path, written: Callable[[str], str], tmp_path: Path, reach: str
    ) -> None:
        answer, rule = tmp_path / "mine.sql", tmp_path / "reaching.sql"
        answer.write_text(written(reach))
        rule.write_text(RULE + written(FINDING.replace("{reach}", reach)))
        refused(lambda: load(store).answer(answer))
        assert str(rule) in refused(lambda: load(store).advice(rules=[rule]))

    @pytest.mark.usefixtures("_own_rules_alone")
    @pytest.mark.parametrize("reach", REACHES.values(), ids=REACHES)
    def test_by_a_condition_of_a_rule(
        self, in_memory: Trace, written: Callable[[str], str], tmp_path: Path, reach: str
    ) -> None:
        file = tmp_path / "reaching.sql"
        condition = f"-- only if: EXISTS ({reach})\n"
        file.write_text(written(RULE + condition + FINDING.replace("{reach}", "SELECT 'x'")))
        assert str(file) in refused(lambda: in_memory.advice(rules=[file]))

    @pytest.mark.parametrize("sql", [*REACHES.values(), *STATEMENTS.values()])
    def test_by_the_verb(
        self, store: Path, written: Callable[[str], str], run: Run, sql: str
    ) -> None:
        code, out, error = run("sql", store, written(sql))
        assert (code, out) == (1, "")
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert CANARY not in error

    def test_nothing_was_written(self, outside: Path) -> None:
        assert [path.name for path in outside.iterdir()] == ["canary.csv"]

    def test_a_rule_that_ends_its_parentheses(self, in_memory: Trace, tmp_path: Path) -> None:
        file = tmp_path / "reaching.sql"
        body = FINDING.replace("{reach}", "SELECT 'x'")
        file.write_text(f"{RULE}{body}) AS found, arrow_scan(1, 2, 3) AS a, (SELECT 1")
        assert str(file) in refused(lambda: in_memory.advice(rules=[file]))

    def test_the_message_says_what_to_do(self, trace: Trace) -> None:
        line = refused(lambda: trace.sql("SELECT * FROM read_text('/etc/hostname')"))
        assert line.startswith("query: read_text() is refused: a question reads only the tables")
        assert "tables={...}" in line
        assert "--files" in line

    def test_variables_of_python_are_no_tables(self, in_memory: Trace) -> None:
        with pytest.raises(UnknownNameError):
            in_memory.sql("FROM sql")
        frame = pl.DataFrame({"a": [1]})
        with pytest.raises(UnknownNameError):
            in_memory.sql("FROM frame")
        assert frame.height == 1

    def test_other_files_of_a_store(self, store: Path) -> None:
        (store / "mine.csv").write_text(CANARY)
        refused(lambda: load(store).sql(f"FROM '{store / 'mine.csv'}'"))
        (store / "mine.csv").unlink()


class TestDuckDBsOwnMeans:
    """The settings hold by themselves, where `check` is not asked."""

    @pytest.mark.parametrize(
        "sql",
        [
            "FROM read_text('{file}')",
            "FROM '{file}'",
            "FROM glob('{folder}/*')",
            "COPY (SELECT 1) TO '{folder}/copy.csv'",
            "ATTACH '{folder}/made.db'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SET threads = 3",
            "SET temp_directory = '{folder}'",
            "FROM duckdb_secrets()",
            "FROM sql",
        ],
    )
    def test_refuse(self, written: Callable[[str], str], sql: str) -> None:
        with sandbox.connect(Terms(), ()) as connection, pytest.raises(duckdb.Error):
            connection.execute(written(sql)).fetchall()

    def test_know_every_view_of_the_system(self) -> None:
        with duckdb.connect() as connection:
            found = connection.sql(
                "SELECT DISTINCT unnest([view_name, schema_name]) FROM duckdb_views()"
                " WHERE internal AND schema_name <> 'information_schema'"
            ).fetchall()
        assert {name for (name,) in found} - {"main"} <= sandbox._SYSTEM

    def test_functions_of_tables_are_refused_unless_named(self) -> None:
        with duckdb.connect() as connection:
            found = connection.sql(
                "SELECT DISTINCT function_name FROM duckdb_functions()"
                " WHERE function_type IN ('table', 'table_macro', 'pragma')"
            ).fetchall()
            allowed = []
            for (name,) in found:
                try:
                    sandbox.check(connection, f'FROM "{name}"()', "query", Terms())
                except AnswerError:
                    continue
                allowed.append(name)
        assert {*allowed} == sandbox._TABLE_FUNCTIONS

    def test_a_memory_limit_still_has_its_temporary_folder(self, in_memory: Trace) -> None:
        rows = in_memory.sql(
            "SELECT count(*) AS n FROM (SELECT range AS x, hash(range) AS h FROM range(3000000)"
            " ORDER BY h OFFSET 1)",
            memory_limit="60MB",
        )
        assert rows["n"][0] == 2_999_999


class TestAllowed:
    @pytest.mark.parametrize(
        "sql",
        [
            "FROM events",
            "SELECT count(*) FROM events, threads",
            "DESCRIBE events",
            "SUMMARIZE events",
            "SHOW TABLES",
            "SELECT unnest([1, 2]), range(3)",
            "FROM range(3), generate_series(1, 2)",
            "FROM json_each('{\"a\": 1}')",
            "SELECT list_transform([1], lambda x: x + 1), [y for y in [1]]",
            "PIVOT (SELECT kind, dur_ns FROM events) ON kind IN ('host_op') USING sum(dur_ns)",
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) FROM t",
            "WITH a AS MATERIALIZED (FROM events) FROM a UNION ALL FROM a ORDER BY 1 LIMIT 1",
            "SELECT sum(dur_ns) OVER w FROM events WINDOW w AS (ORDER BY start_ns)",
            "SELECT 'read_text(1)' AS \"glob('/*')\" -- FROM read_text('x')",
            "SELECT name FROM events WHERE name = 'pg_settings'",
            "SELECT " + " + ".join(["1"] * 900),
        ],
    )
    def test_sql(self, trace: Trace, sql: str) -> None:
        assert trace.sql(sql).width > 0

    def test_every_answer(self) -> None:
        with duckdb.connect() as connection:
            for answer in selects():
                sandbox.check(connection, answer.sql, answer.name, Terms())

    @pytest.mark.parametrize("name", ["self_times", "idle", "collectives"])
    def test_a_copy_of_an_answer(self, in_memory: Trace, tmp_path: Path, name: str) -> None:
        (answer,) = (answer for answer in selects() if answer.name == name)
        file = tmp_path / "copied.sql"
        file.write_text("-- a copy\n\n" + answer.sql)
        assert in_memory.answer(file).equals(in_memory.answer(name))

    def test_in_a_conversation(self, trace: Trace) -> None:
        with trace.session() as asked:
            assert asked.advice().equals(trace.advice())
            refused(lambda: asked.sql("FROM read_text('/etc/hostname')"))


class Stream:
    """A frame of another library, which has what all of them have for Arrow."""

    def __init__(self, rows: pa.Table | None) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self._rows is None:
            raise TypeError("a column\nof objects")
        return self._rows.__arrow_c_stream__(requested_schema)


class TestGiven:
    @pytest.mark.parametrize(
        "frame",
        [
            pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
            Stream(pa.table({"a": [1, 2], "b": ["x", None]})),
            pa.table({"a": [1, 2], "b": ["x", None]}),
        ],
        ids=["polars", "as pandas", "Arrow"],
    )
    def test_tables(self, trace: Trace, frame: object) -> None:
        rows = trace.sql("SELECT a, b FROM mine ORDER BY a", tables={"mine": frame})
        assert rows.rows() == [(1, "x"), (2, None)]
        with pytest.raises(UnknownNameError):
            trace.sql("FROM mine")

    @pytest.mark.parametrize(
        ("name", "frame", "message"),
        [
            ("events", pl.DataFrame(), "tables: 'events' exists already"),
            ("Events", pl.DataFrame(), "tables: 'Events' exists already"),
            ("lanes", pl.DataFrame(), "tables: 'lanes' exists already"),
            ("pg_class", pl.DataFrame(), "tables: 'pg_class' exists already"),
            ("_events", pl.DataFrame(), "tables: needs names such as 'mine', got '_events'"),
            ("a b", pl.DataFrame(), "tables: needs names such as 'mine', got 'a b'"),
            ("mine", [1, 2], "tables: 'mine' needs a DataFrame or an Arrow table, got list"),
            ("mine", Stream(None), "tables: 'mine' cannot be converted to Arrow: "),
        ],
    )
    def test_no_table(self, in_memory: Trace, name: str, frame: object, message: str) -> None:
        with pytest.raises(ParameterError) as error:
            in_memory.sql("SELECT 1", tables={name: frame})
        assert str(error.value).startswith(message)

    def test_tables_of_answers_and_rules(self, in_memory: Trace, tmp_path: Path) -> None:
        trace = in_memory.with_tables(tables={"mine": pl.DataFrame({"word": ["given"]})})
        file = tmp_path / "reaching.sql"
        file.write_text("SELECT word FROM mine")
        assert trace.answer(file)["word"].to_list() == ["given"]
        file.write_text(RULE + FINDING.replace("{reach}", "SELECT word FROM mine"))
        assert "given" in trace.advice(rules=[file])["where"].to_list()
        with trace.session() as asked:
            assert "given" in asked.advice(rules=[file])["where"].to_list()
            assert asked.sql("FROM mine")["word"].to_list() == ["given"]
            assert asked.sql("FROM mine", tables={"mine": pa.table({"a": [1]})}).columns == ["a"]

    def test_a_trace_with_tables_can_be_sent(self, in_memory: Trace) -> None:
        trace = in_memory.with_tables(tables={"mine": pl.DataFrame({"a": [1]})}).with_limits(rows=5)
        sent = pickle.loads(pickle.dumps(trace))  # noqa: S301 - our own
        assert sent.sql("FROM mine")["a"].to_list() == [1]

    @pytest.mark.parametrize("many", [False, True])
    def test_files(self, trace: Trace, outside: Path, many: bool) -> None:
        sql = f"SELECT content FROM read_text('{outside}/canary.csv')"
        assert trace.sql(sql, files=[outside] if many else outside)["content"][0] == CANARY
        assert trace.sql(sql, files=outside / "canary.csv")["content"][0] == CANARY
        refused(lambda: trace.sql(sql))

    def test_no_other_files(self, trace: Trace, outside: Path, tmp_path: Path) -> None:
        (tmp_path / "link.csv").symlink_to(outside / "canary.csv")
        for path in (
            outside / "canary.csv",
            f"{tmp_path}/../{outside.name}/canary.csv",
            tmp_path / "link.csv",
            "/etc/hostname",
        ):
            line = refused(lambda: trace.sql(f"FROM read_text('{path}')", files=tmp_path))  # noqa: B023
            assert "is refused" in line
        for sql in ("FROM query('SELECT 1')", "FROM arrow_scan(1, 2, 3)"):
            refused(lambda: trace.sql(sql, files=tmp_path))  # noqa: B023
        copy = f"WITH c AS (COPY (SELECT 1) TO '{tmp_path}/copy.csv') FROM c"
        refused(lambda: trace.sql(copy, files=tmp_path))

    def test_files_that_are_not_there(self, in_memory: Trace) -> None:
        with pytest.raises(ParameterError, match="files: no/such: no such file or folder"):
            in_memory.sql("SELECT 1", files="no/such")

    def test_on_the_command_line(
        self, store: Path, outside: Path, tmp_path: Path, run: Run
    ) -> None:
        sql = f"SELECT content FROM read_text('{outside}/canary.csv')"
        file = tmp_path / "mine.sql"
        file.write_text(sql)
        for command in (["sql", store, sql], ["answer", file, store]):
            for folder, expected in ((outside, 0), (tmp_path, 1)):
                code, out, _ = run(*command, "--files", folder)
                assert code == expected
                assert (CANARY in out) == (code == 0)

    def test_a_store_behind_a_link(self, store: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(store)
        assert load(tmp_path / "link").self_times().height > 0


ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t"
LARGE = "SELECT list(range) AS l FROM range(10000000)"


class TestLimits:
    @pytest.mark.parametrize("within", [False, True], ids=["alone", "in a conversation"])
    def test_time(self, trace: Trace, within: bool) -> None:
        def ask(asked: Trace) -> None:
            asked.sql(ENDLESS, timeout_s=0.2)

        if within:
            with trace.session() as asked:
                line = refused(lambda: ask(asked))
                assert asked.sql("SELECT 1 AS a", timeout_s=60)["a"][0] == 1
        else:
            line = refused(lambda: ask(trace))
        assert line.startswith("the question took longer than the limit of 0.2 s")
        assert trace.sql("SELECT 1 AS a")["a"][0] == 1

    def test_memory(self, trace: Trace) -> None:
        line = refused(lambda: trace.sql(LARGE, memory_limit="10MB"))
        assert line == "query: needs more memory than the limit of 10MB (memory_limit=, --memory)"

    def test_rows(self, trace: Trace, tmp_path: Path) -> None:
        file = tmp_path / "three.sql"
        file.write_text("SELECT range FROM range(3)")
        assert trace.sql("FROM range(3)", rows=3)["range"].to_list() == [0, 1, 2]
        assert trace.with_limits(rows=3).answer(file)["range"].to_list() == [0, 1, 2]
        cut = trace.with_limits(rows=2, cut_rows=True)
        assert cut.sql("FROM range(3)")["range"].to_list() == [0, 1]
        assert cut.answer(file)["range"].to_list() == [0, 1]
        assert cut.self_times().equals(trace.self_times().head(2))
        for line in (
            refused(lambda: trace.sql("FROM range(3)", rows=2)),
            refused(lambda: trace.with_limits(rows=2).answer(file)),
        ):
            assert line.endswith(": returns more than the limit of 2 rows (rows=, --rows)")

    def test_rows_of_what_is_asked_on_the_way(self, in_memory: Trace) -> None:
        few = in_memory.with_limits(rows=1)
        assert repr(few) == repr(in_memory)
        assert few.filter(kinds="host_op").sql("SELECT 1 AS a").height == 1
        assert few.advice().height <= 1

    @pytest.mark.parametrize(
        ("limits", "message"),
        [
            ({"timeout_s": 0}, "timeout_s: needs seconds, from 0 to 1,000,000, got 0"),
            ({"timeout_s": "1"}, "timeout_s: needs seconds, from 0 to 1,000,000, got '1'"),
            ({"timeout_s": float("nan")}, "timeout_s: needs seconds, from 0 to 1,000,000, got nan"),
            ({"memory_limit": "much"}, "memory_limit: needs a number of bytes, such as '2GB', got"),
            ({"rows": -1}, "rows: needs a number of rows, got -1"),
            ({"rows": 1.5}, "rows: needs 64-bit integers (whole numbers), got 1.5"),
        ],
    )
    def test_no_limit(self, in_memory: Trace, limits: dict[str, object], message: str) -> None:
        with pytest.raises(ParameterError) as error:
            in_memory.sql("SELECT 1", **limits)  # type: ignore[arg-type]
        assert str(error.value).startswith(message)

    @pytest.mark.parametrize(
        ("sql", "option", "message"),
        [
            (ENDLESS, ["--timeout", "0.2"], "the question took longer than the limit of 0.2 s"),
            (LARGE, ["--memory", "10MB"], "query: needs more memory than the limit of 10MB"),
            ("FROM range(3)", ["--rows", "2"], "query: returns more than the limit of 2 rows"),
        ],
    )
    def test_on_the_command_line(
        self, store: Path, run: Run, sql: str, option: list[str], message: str
    ) -> None:
        code, _, error = run("sql", store, sql, *option)
        assert code == 1
        assert error.startswith(f"error: {message}")
        assert error.count("\n") == 1

    def test_wrong_usage(self, store: Path) -> None:
        assert cli.run(["sql", str(store), "SELECT 1", "--timeout", "0"]) == 2
        assert cli.run(["sql", str(store), "SELECT 1", "--memory", "much"]) == 2
        assert cli.run(["answer", "steps", str(store), "--files", "no/such"]) == 2
