"""Kept plans: what they are reused for, what they never are, and that nothing stays in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from profframe import Trace
from profframe.errors import AnswerError
from profframe.query import plans
from profframe.query.plans import Plans, Question, Slot
from profframe.query.sources import TableRows
from tests.builders import event, loaded, stored

SUM = Question("SELECT sum(a)::BIGINT AS total FROM t")
LAST = Question("SELECT list(b ORDER BY a) AS bs FROM t ASOF JOIN u ON t.k = u.k AND t.a >= u.b")
OVERLAPS = Question("SELECT count(*) AS n FROM t JOIN u ON t.a < u.b + 5 AND t.a + 5 > u.b")


@pytest.fixture(params=[True, False], ids=["prepared", "planned each time"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plans]:
    """Plans as with a release that keeps how a prepared statement runs, and with another."""
    monkeypatch.setattr(plans, "_keeps_statements", lambda _: request.param)
    own = Plans()
    yield own
    own.close()


def numbers(*values: int, name: str = "a") -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()), "k": pa.array([0] * len(values))})


def ask(kept: Plans, question: Question, **tables: pa.Table) -> list[Any]:
    with kept.lease(question, tables) as plan:
        rows: list[Any] = plan.answer(tables).column(0).to_pylist()
        return rows


def plan_of(kept: Plans, question: Question, **tables: pa.Table) -> object:
    with kept.lease(question, tables) as plan:
        plan.answer(tables)
        return plan


def test_a_plan_serves_other_rows(kept: Plans) -> None:
    first = plan_of(kept, SUM, t=numbers(1, 2))
    assert ask(kept, SUM, t=numbers(3, 4, 5)) == [12]
    assert ask(kept, SUM, t=numbers()) == [None]
    assert plan_of(kept, SUM, t=numbers(1)) is first


def test_a_plan_serves_one_question_at_a_time(kept: Plans) -> None:
    a, b = {"t": numbers(1)}, {"t": numbers(2)}
    idle = plan_of(kept, SUM, **a)
    with kept.lease(SUM, a) as first, kept.lease(SUM, b) as second:
        assert first is idle
        assert first is not second
        assert second.answer(b)["total"].to_pylist() == [2]
        assert first.answer(a)["total"].to_pylist() == [1]


def test_other_types_are_planned_for_by_themselves(kept: Plans) -> None:
    text = Question("SELECT max(a) AS most FROM t")
    plain = pa.table({"a": ["x", "y"]})
    encoded = pa.table({"a": pa.array(["v", "w"]).dictionary_encode()})
    for _ in range(2):
        assert ask(kept, text, t=plain) == ["y"]
        assert ask(kept, text, t=encoded) == ["w"]
        assert ask(kept, text, t=pa.table({"a": [7], "b": [1]})) == [7]
        assert ask(kept, text, t=pa.table({"a": [8]})) == [8]


def test_slots_are_empty_when_a_question_has_ended(kept: Plans) -> None:
    tables = {"t": numbers(1)}
    with kept.lease(SUM, tables) as plan:
        plan.answer(tables)
        with pytest.raises(RuntimeError, match="no question has filled this slot"):
            plan.slots["t"].stream(None, [])


def test_slots_are_empty_after_an_error(kept: Plans) -> None:
    failing = Question("SELECT error('broken') FROM t")
    tables = {"t": numbers(1)}
    with pytest.raises(duckdb.Error, match="broken"), kept.lease(failing, tables) as plan:
        plan.answer(tables)
    with pytest.raises(RuntimeError):
        plan.slots["t"].stream(None, [])


def test_a_question_that_fails_leaves_no_plan(kept: Plans) -> None:
    first = plan_of(kept, SUM, t=numbers(1))
    taken = kept.lease(SUM, {"t": numbers(1)})
    assert taken.__enter__() is first
    assert not taken.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert plan_of(kept, SUM, t=numbers(1)) is not first


@pytest.mark.parametrize("question", [LAST, OVERLAPS], ids=["asof", "range"])
def test_joins_that_keep_rows_of_their_first_run_are_planned_anew(
    kept: Plans, question: Question
) -> None:
    """For fewer than a thousand rows DuckDB plans a range join in another way."""
    few = {"t": numbers(*range(0, 4500, 3)), "u": numbers(*range(0, 3000, 2), name="b")}
    more = {"t": numbers(*range(0, 5400, 3)), "u": numbers(*range(0, 3200, 2), name="b")}
    expected = []
    for tables in (few, more):
        with duckdb.connect(config={"asof_loop_join_threshold": 0}) as connection:
            for name, rows in tables.items():
                connection.register(name, rows)
            expected.append(connection.execute(question.sql).fetchall()[0][0])
    for _ in range(3):
        assert ask(kept, question, **few) == expected[:1]
        assert ask(kept, question, **more) == expected[1:]
    with kept.lease(question, few) as plan:
        assert not plan.is_prepared


def test_a_table_that_is_read_twice_is_not_copied(kept: Plans) -> None:
    question = Question("SELECT count(*) FROM t AS a JOIN t ON a.a = t.a WHERE t.a > 1")
    with kept.lease(question, {"t": numbers(1, 2, 3)}) as plan:
        statement = "EXECUTE plan" if plan.is_prepared else plan.sql
        [(_, text)] = plan.cursor.execute(f"EXPLAIN {statement}").fetchall()
        assert plan.answer({"t": numbers(1, 2, 3)}).to_pydict() == {"count_star()": [2]}
    assert "CTE" not in text
    assert text.count("ARROW_SCAN") == 2


def test_after_an_error_inside_duckdb_questions_go_on(kept: Plans) -> None:
    first = plan_of(kept, SUM, t=numbers(1))
    with (
        pytest.raises(duckdb.InternalException),
        kept.lease(Question("SELECT 1 AS one FROM t"), {"t": numbers(1)}),
    ):
        raise duckdb.InternalException("the database is invalid")
    assert plan_of(kept, SUM, t=numbers(4)) is not first
    assert ask(kept, SUM, t=numbers(4)) == [4]


def test_few_plans_are_kept(kept: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_KEPT", 2)
    questions = [Question(f"SELECT a + {n} FROM t") for n in range(3)]
    first, second, _ = (plan_of(kept, question, t=numbers(1)) for question in questions)
    assert plan_of(kept, questions[1], t=numbers(1)) is second
    assert plan_of(kept, questions[0], t=numbers(1)) is not first


def test_a_question_whose_plan_is_in_use_loses_none(
    kept: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_KEPT", 1)
    others = [Question(f"SELECT sum(a)::BIGINT + {n} AS total FROM t") for n in range(2)]
    first = plan_of(kept, SUM, t=numbers(1))
    with kept.lease(SUM, {"t": numbers(1)}) as leased:
        assert leased is first
        assert [ask(kept, other, t=numbers(5)) for other in others] == [[5], [6]]


def test_no_plan_of_a_large_table_is_kept(kept: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST_ROWS", 3)
    monkeypatch.setattr(plans, "_FEW_ROWS", 2)
    large = plan_of(kept, SUM, t=numbers(1, 2, 3, 4))
    assert plan_of(kept, SUM, t=numbers(1, 2, 3, 4)) is not large
    middle = plan_of(kept, SUM, t=numbers(1, 2, 3))
    assert plan_of(kept, SUM, t=numbers(4, 5, 6)) is middle
    assert plan_of(kept, SUM, t=numbers(4, 5)) is not middle
    assert ask(kept, SUM, t=numbers(1, 2, 3, 4)) == [10]


@pytest.mark.parametrize("kept", [True], indirect=True)
def test_rows_that_plans_hold_are_freed_the_oldest_first(
    kept: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators of a plan keep what they have read until they read again."""
    monkeypatch.setattr(plans, "_FEW_ROWS", 2)
    monkeypatch.setattr(plans, "_HELD_ROWS", 6)
    most = Question("SELECT max(a) AS most FROM t")
    read: list[tuple[str, int]] = []
    answer = plans._Plan.answer

    def watched(self: Any, tables: Any) -> pa.Table:
        rows = answer(self, tables)
        read.append((rows.column_names[0], tables["t"].num_rows))
        return rows

    monkeypatch.setattr(plans._Plan, "answer", watched)
    assert ask(kept, SUM, t=numbers(1, 2)) == [3]
    assert ask(kept, SUM, t=numbers(1, 2, 3)) == [6]
    assert ask(kept, most, t=numbers(1, 2, 3)) == [3]
    assert read == [("total", 2), ("total", 3), ("most", 3)]
    assert ask(kept, most, t=numbers(1, 2, 3, 4)) == [4]
    assert read[3:] == [("most", 4), ("total", 0)]


def test_only_columns_that_are_asked_for_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    stream = Slot.stream

    def watched(self: Slot, columns: Any, filters: Any) -> tuple[object, bool]:
        asked.append(columns)
        return stream(self, columns, filters)

    own = Plans()
    assert ask(own, SUM, t=numbers(1)) == [1]
    monkeypatch.setattr(Slot, "stream", watched)
    assert ask(own, SUM, t=numbers(1, 2)) == [3]
    assert asked == [[0]]
    own.close()


SELECTED = Question(
    "WITH busy AS (FROM t WHERE NOT is_data_load(k::VARCHAR)) SELECT sum(a)::BIGINT FROM busy",
    (("t", TableRows(frozenset({"a", "k"}), "k < 1")),),
)


@pytest.mark.parametrize("question", [SUM, SELECTED], ids=["a table", "a part and a macro"])
def test_a_question_is_planned_once(monkeypatch: pytest.MonkeyPatch, question: Question) -> None:
    """DuckDB 2.0.1 plans a prepared statement with macros and views each time that it runs."""
    own, sized, rows = Plans(), list[Slot](), Slot.rows

    def watched(slot: Slot) -> int:
        sized.append(slot)
        return rows(slot)

    monkeypatch.setattr(Slot, "rows", watched)

    def times_planned(values: int) -> int:
        sized.clear()
        assert ask(own, question, t=numbers(values)) == [values]
        return len(sized)

    first, second, third = map(times_planned, range(3))
    assert first > second == third == 0
    own.close()


def test_conditions_select_rows(kept: Plans) -> None:
    part = Question("SELECT sum(a)::BIGINT FROM t", (("t", TableRows(frozenset({"a"}), "k < 1")),))
    rows = pa.table({"a": [1, 2, 4], "k": [0, 1, 0]})
    assert ask(kept, part, t=rows) == [5]
    assert ask(kept, part, t=rows.slice(1)) == [4]


def trace(dur: int) -> Trace:
    return loaded(event("aten::mm", 0, dur), event("aten::mm", 1, 2))


def test_answers_of_the_users_are_not_asked_in_the_shared_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise AssertionError("asked in the shared database")

    monkeypatch.setattr(plans.PLANS, "_connected", refuse)
    monkeypatch.setattr(plans.PLANS, "_taken", lambda *_: None)
    own = tmp_path / "own.sql"
    own.write_text("SELECT count(*) AS n FROM events")
    assert trace(5).sql("SELECT count(*) FROM events").item() == 2
    assert trace(5).answer(own).item() == 2
    assert trace(5).with_limits("1GB").answer(own).item() == 2
    with pytest.raises(AssertionError, match="shared"):
        trace(5).answer("self_times")


def test_exports_leave_nothing_in_the_shared_database(tmp_path: Path) -> None:
    captured = stored(
        events=[
            {
                "event_id": n,
                "name": "mm",
                "kind": "host_op",
                "start_ns": 0,
                "dur_ns": 5,
                "replays": r,
            }
            for n, r in enumerate([None, 2])
        ],
        traces=[{}],
    )
    for number in range(2):
        trace(5).augment(tmp_path / f"augmented{number}.json")
        captured.export_chrome_trace(tmp_path / f"captured{number}.json")
    with plans.PLANS.cursor(plans.NO_TABLES, None) as cursor:
        left = "FROM duckdb_views() SELECT view_name WHERE NOT internal"
        assert cursor.sql(left).fetchall() == []
        assert cursor.sql("FROM duckdb_tables()").fetchall() == []


def test_threads_get_the_rows_of_their_own_trace() -> None:
    traces = [trace(10 + n) for n in range(4)]
    start = threading.Barrier(4)

    def total_ns(number: int) -> list[object]:
        start.wait()
        return [traces[number].self_times()["total_ns"].sum() for _ in range(25)]

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(total_ns, range(4))]
    assert found == [[11 + n] * 25 for n in range(4)]


def test_each_limit_of_memory_has_a_database_of_its_own(kept: Plans) -> None:
    question = Question("SELECT current_setting('memory_limit') AS most")
    for limit, most in (("100MiB", "100.0 MiB"), ("200MiB", "200.0 MiB"), ("100MiB", "100.0 MiB")):
        with kept.lease(question, {}, limit) as plan:
            assert plan.answer({})["most"].to_pylist() == [most]
    assert len(kept._databases) == 2
    assert trace(5).with_limits("1GB").answer("self_times").height == 1
    for number in range(20):
        with kept.lease(question, {}, f"{100 + number}MiB") as plan:
            plan.answer({})
    assert len(kept._databases) <= 8


def test_a_limit_of_rows_is_of_one_question() -> None:
    many = loaded(*(event(f"aten::op{n}", n, n + 1) for n in range(4)))
    with pytest.raises(AnswerError, match="limit of 2 rows"):
        many.with_limits(rows=2).self_times()
    assert many.self_times().height == 4
    assert many.with_limits(rows=4).self_times().height == 4


def test_steps_that_answers_share_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[str] = []
    lease = Plans.lease

    def watched(self: Plans, question: Question, tables: Any, limit: str | None) -> Any:
        questions.append(question.sql)
        return lease(self, question, tables, limit)

    monkeypatch.setattr(Plans, "lease", watched)
    rows = trace(5)
    expected = rows.key_averages(), rows.time_breakdown()
    questions.clear()
    with rows.session() as asking:
        assert asking.key_averages().equals(expected[0])
        assert asking.time_breakdown().equals(expected[1])
        asking.kernels()
    assert len(questions) == len({*questions})
