"""Finding, parsing and running answers, and the errors on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from profframe import schema
from profframe.errors import AnswerError, ParameterError, UnknownNameError
from profframe.query.catalogue import find, selects
from profframe.query.header import Answer, AnswerColumn, parse, sql_directory
from profframe.query.parameters import values
from profframe.query.run import prepare, query, run
from tests import builders

HEADER = """\
-- slow: slices of at least a given duration.
-- One row per slice.
-- Zero counts.
-- needs: events
-- parameter at_least_ns  BIGINT = 10      shortest duration
-- parameter factor       DOUBLE = 0.5     a ratio
-- parameter word         VARCHAR = 'mm'   a name
-- parameter flag         BOOLEAN = false  a switch
-- name    VARCHAR      name of the slice
-- dur_ns  BIGINT   ns  its duration
"""
SELECT = """\
SELECT name, dur_ns FROM events WHERE dur_ns >= coalesce(getvariable('at_least_ns'), 10) ORDER BY 1
"""
SLOW = parse(HEADER + SELECT, "slow")


@pytest.fixture
def connection() -> Iterator[DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, table in schema.TABLES.items():
            connection.register(name, table.arrow.empty_table())
        connection.execute("DROP VIEW events")
        connection.execute(
            "CREATE TABLE events AS "
            "SELECT * FROM (VALUES ('a', 5::BIGINT), ('b', 10), ('c', 15)) t(name, dur_ns)"
        )
        yield connection


def file(directory: Path, text: str, name: str = "slow.sql") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


class TestHeader:
    def test_all_parts(self) -> None:
        assert SLOW.sentence == "slices of at least a given duration."
        assert SLOW.grain == "One row per slice."
        assert SLOW.notes == ("Zero counts.",)
        assert SLOW.needs == ("events",)
        assert SLOW.columns == (
            AnswerColumn("name", "VARCHAR", None, "name of the slice"),
            AnswerColumn("dur_ns", "BIGINT", "ns", "its duration"),
        )
        assert [(p.name, p.type, p.default) for p in SLOW.parameters] == [
            ("at_least_ns", "BIGINT", 10),
            ("factor", "DOUBLE", 0.5),
            ("word", "VARCHAR", "mm"),
            ("flag", "BOOLEAN", False),
        ]

    @pytest.mark.parametrize("sql", ["", "SELECT 1", "-- other: a comment.\nSELECT 1", "-- hm\n"])
    def test_none(self, sql: str) -> None:
        assert parse(sql, "slow") == Answer("slow", sql)

    @pytest.mark.parametrize(
        ("line", "instead", "message"),
        [
            ("-- needs: events\n", "", "slow.sql: the header has no line '-- needs: TABLE, ...'"),
            ("One row per slice", "Slices", "slow.sql, line 2: the header needs the grain"),
            ("name    VARCHAR", "name    TEXT   ", "slow.sql, line 9: expected '-- COLUMN  TYPE"),
            ("BIGINT   ns  its duration", "BIGINT", "slow.sql, line 10: expected '-- COLUMN"),
            ("factor       DOUBLE", "factor       FLOAT ", "slow.sql, line 6: expected '-- param"),
            ("= 10 ", "= x  ", "slow.sql, line 5: the default x is not a BIGINT"),
        ],
    )
    def test_broken(self, line: str, instead: str, message: str) -> None:
        assert line in HEADER
        with pytest.raises(AnswerError) as error:
            parse(HEADER.replace(line, instead) + SELECT, "slow")
        assert str(error.value).startswith(message)

    def test_without_columns(self) -> None:
        with pytest.raises(AnswerError, match="declares no output column"):
            parse("-- slow: x.\n-- One row per y.\n-- needs: events\nSELECT 1", "slow")


class TestFind:
    def test_by_name(self) -> None:
        assert find("kernels").name == "kernels"

    def test_nearest_name(self) -> None:
        with pytest.raises(UnknownNameError, match="did you mean 'self_times'"):
            find("self_time")

    def test_macros_are_no_answers(self) -> None:
        with pytest.raises(UnknownNameError):
            find("_key_events")

    @pytest.mark.parametrize("kind", [str, Path])
    def test_by_path(self, tmp_path: Path, kind: type) -> None:
        assert find(kind(file(tmp_path, HEADER + SELECT))).needs == ("events",)

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(AnswerError, match=r"none\.sql: cannot read the answer: No such file"):
            find(tmp_path / "none.sql")

    def test_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "bytes.sql"
        path.write_bytes(b"SELECT '\xff'")
        with pytest.raises(AnswerError, match="is not UTF-8 text"):
            find(path)


class TestParameters:
    @pytest.mark.parametrize(
        ("given", "names"),
        [
            ({}, "bc"),
            ({"at_least_ns": 5}, "abc"),
            ({"at_least_ns": "15"}, "c"),
            ({"at_least_ns": None}, "bc"),
        ],
    )
    def test_values(
        self, connection: DuckDBPyConnection, given: dict[str, object], names: str
    ) -> None:
        rows = run(connection, SLOW, given).fetchall()
        assert "".join(name for name, _ in rows) == names

    def test_a_value_holds_for_one_run(self, connection: DuckDBPyConnection) -> None:
        first = run(connection, SLOW, {"at_least_ns": 15})
        second = run(connection, SLOW)
        assert len(first.fetchall()) == 1
        assert len(second.fetchall()) == 2

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("at_least_ns", "many"),
            ("at_least_ns", 1.5),
            ("at_least_ns", True),
            ("at_least_ns", 2**63),
            ("factor", "half"),
            ("factor", True),
            ("word", 3),
            ("flag", 1),
            ("flag", "yes"),
        ],
    )
    def test_wrong_type(self, connection: DuckDBPyConnection, name: str, value: object) -> None:
        with pytest.raises(
            ParameterError, match=rf"parameter '{name}' is [a-z0-9 ]+, not {value!r}$"
        ):
            run(connection, SLOW, {name: value})

    @pytest.mark.parametrize("word", ["it's", '"; DROP TABLE events; --', "line\nline", ""])
    def test_text_is_never_sql(self, connection: DuckDBPyConnection, word: str) -> None:
        prepare(connection, SLOW, {"word": word, "flag": "true", "factor": "2"})
        row = connection.sql(
            "SELECT getvariable('word'), getvariable('flag'), getvariable('factor')"
        )
        assert row.fetchall() == [(word, True, 2.0)]

    def test_unknown(self, connection: DuckDBPyConnection) -> None:
        with pytest.raises(ParameterError) as error:
            run(connection, find("key_averages"), {"group_by_shape": True})
        assert str(error.value) == (
            "answer 'key_averages': no parameter named 'group_by_shape'; did you mean "
            "'group_by_input_shape'? (known: columns, compat, group_by_input_shape, "
            "group_by_overload_name, group_by_stack_n, include_python_functions, per, sort, top)"
        )

    def test_unknown_choice(self, connection: DuckDBPyConnection) -> None:
        with pytest.raises(ParameterError) as error:
            run(connection, find("key_averages"), {"compat": "toch"})
        assert str(error.value) == (
            "answer 'key_averages': compat is one of none, torch, not 'toch'; did you mean 'torch'?"
        )

    @pytest.mark.parametrize("names", ['["a", "b"]', ["a", "b"], ("a", "b")])
    def test_a_list_of_texts(self, connection: DuckDBPyConnection, names: object) -> None:
        assert values(find("modules"), {"together": names}) == {"together": '["a", "b"]'}
        prepare(connection, find("modules"), {"together": names})
        shown = connection.sql("SELECT getvariable('together')").fetchall()
        assert shown == [('["a", "b"]',)]

    def test_no_texts_are_the_default(self) -> None:
        [default] = [p.default for p in find("modules").parameters if p.name == "together"]
        nothings: tuple[object, ...] = ("", "[]", [], ())
        for nothing in nothings:
            assert values(find("modules"), {"together": nothing}) == {"together": default}

    @pytest.mark.parametrize("value", ["step", "{}", "[1]", '"a"', "3", [1], 3, True, ["a", None]])
    def test_no_list_of_texts(self, value: object) -> None:
        with pytest.raises(ParameterError) as error:
            values(find("modules"), {"together": value})
        assert str(error.value) == (
            "answer 'modules': parameter 'together' is a list of texts such as "
            f'["a", "b"], not {value!r}'
        )

    @pytest.mark.parametrize(
        ("answer", "name", "value", "words"),
        [
            ("gaps", "top", "many", "a whole number of at most 64 bits"),
            ("gaps", "top", 2**63, "a whole number of at most 64 bits"),
            ("flame", "min_share", "half", "a number"),
            ("kernels", "copies", "maybe", "true or false"),
            ("counter_series", "name", 3, "a text"),
        ],
    )
    def test_what_a_value_is_to_be(self, answer: str, name: str, value: object, words: str) -> None:
        with pytest.raises(ParameterError) as error:
            values(find(answer), {name: value})
        assert str(error.value).endswith(f"parameter {name!r} is {words}, not {value!r}")

    def test_none_of_its_own(self, connection: DuckDBPyConnection) -> None:
        with pytest.raises(ParameterError, match=r"no parameter named 'n' \(known: columns, sort"):
            run(connection, find("step_times"), {"n": 1})


class TestErrors:
    @pytest.mark.parametrize(
        ("sql", "words"),
        [
            ("SELECT nam FROM events", ["query: ", '"nam"', '"name"']),
            ("SELECT e.durns FROM events AS e", ["'durns'", "'dur_ns'"]),
            ("SELECT * FROM gaps", ["gaps is an answer, not a table: trace.answer('gaps')"]),
            ("SELECT * FROM event", ["event does not exist", '"events"']),
        ],
    )
    def test_mistyped_name(
        self, connection: DuckDBPyConnection, sql: str, words: list[str]
    ) -> None:
        with pytest.raises(UnknownNameError) as error:
            query(connection, sql)
        assert "\n" not in str(error.value)
        assert all(word in str(error.value) for word in words)

    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("SELECT a frm b c", "query: Parser Error: syntax error"),
            ("SELECT CAST(name AS INTEGER) FROM events", "query: Conversion Error: "),
            ("DROP TABLE events", "query: needs exactly one SELECT, found DROP"),
            ("SELECT 1; SELECT 2", "query: needs exactly one SELECT, found SELECT, SELECT"),
            (" -- nothing", "query: needs exactly one SELECT, found no statement"),
        ],
    )
    def test_refused(self, connection: DuckDBPyConnection, sql: str, message: str) -> None:
        with pytest.raises(AnswerError) as error:
            query(connection, sql)
        assert str(error.value).startswith(message)
        assert "\n" not in str(error.value)

    def test_result_is_not_what_the_header_says(self, connection: DuckDBPyConnection) -> None:
        answer = parse(HEADER + "SELECT name, 1.5::DOUBLE AS dur_ns FROM events", "slow")
        with pytest.raises(AnswerError, match=r"declares .*dur_ns BIGINT.* has .*dur_ns DOUBLE"):
            run(connection, answer)

    @pytest.mark.parametrize("end", [";", ";\n-- the end", "\n\n"])
    def test_any_end_will_do(self, connection: DuckDBPyConnection, end: str) -> None:
        assert query(connection, "SELECT 1" + end).fetchall() == [(1,)]

    def test_without_a_header_nothing_is_checked(self, connection: DuckDBPyConnection) -> None:
        assert run(connection, parse("SELECT 1.5 AS x", "x")).columns == ["x"]


@pytest.mark.parametrize(
    "answer", [one for one in selects() if one.name != "advice"], ids=lambda one: one.name
)
def test_a_bare_shell_needs_the_files_that_the_header_names(answer: Answer) -> None:
    folder = sql_directory() / "lib"
    with duckdb.connect(config={"threads": 1}) as shell:
        for name in answer.needs:
            shell.register(name, schema.TABLES[name].arrow.empty_table())
        for name in answer.shared:
            shell.execute((folder / f"{name}.sql").read_text())
        assert shell.sql(answer.sql).columns == [column.name for column in answer.columns]


def test_stragglers_end_where_no_collective_has_two_ranks() -> None:
    ops = [builders.event(f"aten::op{i % 50}", i * 10, i * 10 + 5) for i in range(20_000)]
    work = [
        builders.event("ncclAllReduce", i, i + 5, category="kernel", thread=1, device=0, stream=7)
        for i in range(0, 50_000, 500)
    ]
    trace = builders.loaded(*ops, *work).with_limits(timeout_s=30)  # DuckDB 2.0.0 waited for ever
    for per in ("rank", "op", "kernel"):
        assert not trace.answer("stragglers", per=per).height
