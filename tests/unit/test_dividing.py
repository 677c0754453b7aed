"""Questions of each rank or run by itself, in this process."""

from __future__ import annotations

import pickle
import shutil
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from profframe import cli, load, store
from profframe.errors import (
    AnswerError,
    ArgumentError,
    ParameterError,
    PartsError,
    StoreError,
    UnknownNameError,
)
from profframe.query.division import Key, check_each, in_order, keys, with_keys
from profframe.query.header import Answer, parse
from profframe.show.frame import Frame
from profframe.store import maintenance
from profframe.trace.parts import AnswerOfParts, Division, Part
from profframe.trace.query import check_sql
from profframe.trace.trace import Trace
from profframe.workers.crew import crew_of
from tests.builders import event, loaded, stored, together
from tests.conftest import Run
from tests.members import in_one

RUNS = ("a.10", "a.9", "b")
HEAD = "-- mine: it.\n-- One row per run.\n-- needs: events\n"
TAIL = "-- run VARCHAR  run\nSELECT run FROM events GROUP BY run ORDER BY run\n"


@cache
def trace(runs: tuple[str, ...] = RUNS, ranks: int = 2) -> Trace:
    """The same ops in all ranks of all runs, so that rows tie; those of rank 1 take 1 ns more."""
    return together(
        *(
            loaded(
                event("aten::mm", 0, 50 + rank),
                event("aten::add", 60, 100),
                event("gemm", 70, 90, category="kernel", device=rank, stream=7, thread=1),
                run=run,
                rank=rank,
            )
            for run in runs
            for rank in range(ranks)
        )
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dividing") / "store"
    trace().to_parquet(path)
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    """A store of its own, which a test may damage."""
    return shutil.copytree(written, tmp_path / "store")


def folder(path: Path, run: str, rank: int) -> Path:
    return path / f"run={run}" / f"rank={rank}"


def same(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    return one.schema == other.schema and one.rows() == other.rows()


class TestHeader:
    def test_it_is_read_and_written_alike(self) -> None:
        text = "rank; run with per=size|op, top; no with x: ask y of each"
        answer = parse(f"{HEAD}-- divides by: {text}\n{TAIL}", "mine")
        assert answer.division is not None
        assert str(answer.division) == text
        assert answer.division.by({}) == "rank"
        assert answer.division.by({"per": "rank", "other": 1}) == "rank"
        assert answer.division.by({"per": "op"}) == "run"
        assert answer.division.by({"top": 0}) == "run"
        assert answer.division.by({"top": 0, "x": True}) == "no"

    def test_without_a_line_it_says_what_to_do(self) -> None:
        with pytest.raises(ParameterError, match="'-- divides by: run' below 'needs', or give"):
            check_each(parse(HEAD + TAIL, "mine"), {}, "run")

    def test_a_parameter_that_undoes_it_counts_only_with_another_value(self) -> None:
        parameter = "-- parameter top BIGINT = 5  most rows\n"
        text = f"{HEAD}-- divides by: rank; no with top: leave top out\n{parameter}{TAIL}"
        answer = parse(text, "mine")
        assert check_each(answer, {"top": "5"}, "rank") == "rank"
        assert check_each(answer, {"top": None}, "run") == "run"
        with pytest.raises(ParameterError, match="'mine': does not divide: leave top out"):
            check_each(answer, {"top": 4}, "run")


@in_one(["", "ranks", "rank; run", "rank; run with", "no", "rank: but", "run; no with x"])
def test_a_wrong_line_of_a_header_is_named(text: str) -> None:
    with pytest.raises(AnswerError, match=r"mine.sql, line 4: expected '-- divides by: "):
        parse(f"{HEAD}-- divides by: {text}\n{TAIL}", "mine")


class TestOrder:
    SQL = "SELECT\n    a AS b\nFROM t\nORDER BY {};\n"

    def answer(self, order: str) -> Answer:
        columns = "-- run VARCHAR  run\n-- rank INTEGER  rank\n-- b BIGINT  b\n"
        return parse(
            f"{HEAD}{columns}WITH t AS (SELECT 1)\n{self.SQL.format(order)}".replace(
                "-- One row per run", "-- One row per b"
            ),
            "mine",
        )

    def test_it_ends_where_the_part_is_named(self) -> None:
        of = self.answer("b DESC, least(x, y) NULLS FIRST, t.run, rank, z")
        assert keys(of, "run") == (
            Key("b", largest_first=True),
            Key("_key_1", nulls_last=False, sql="least(x, y)"),
            Key("run"),
        )
        assert [key.column for key in keys(of, "rank")] == ["b", "_key_1", "run", "rank"]

    def test_a_number_is_a_column_and_a_name_with_a_table_is_not(self) -> None:
        assert keys(self.answer("3 DESC NULLS LAST, run"), "run")[0] == Key("b", largest_first=True)
        assert keys(self.answer("t.b, run"), "run")[0] == Key("_key_0", sql="t.b")

    def test_hidden_columns_are_added_to_the_last_select(self) -> None:
        of = self.answer("t.a DESC, run")
        sql = with_keys(of, keys(of, "run"))
        assert sql.endswith(
            "SELECT\n    a AS b,\n    (t.a) AS _key_0\nFROM t\nORDER BY t.a DESC, run;\n"
        )

    def test_rows_that_tie_keep_the_order_of_parts(self) -> None:
        parts = [
            pl.DataFrame({"run": [run] * 3, "k": [2, 2, None], "n": [1, 2, 3]}) for run in "ab"
        ]
        of = (Key("k", largest_first=True, sql="k"), Key("run"))
        rows = in_order(parts, of)
        assert rows.rows() == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 3), ("b", 3)]
        first = in_order(parts, (Key("k", nulls_last=False), Key("run")))
        assert first["n"].to_list() == [3, 3, 1, 2, 1, 2]

    def test_texts_have_the_order_that_they_are_given(self) -> None:
        parts = [pl.DataFrame({"run": ["a"] * 2, "s": ["low", "high"]})]
        of = (Key("s", texts=("high", "low")), Key("run"))
        assert in_order(parts, of)["s"].to_list() == ["high", "low"]


class TestAnswers:
    def test_rows_come_in_the_order_of_the_whole(self) -> None:
        of_all = trace()
        for each in ("run", "rank"):
            assert same(of_all.self_times(each=each), of_all.self_times())
            assert same(of_all.kernels(top=1, each=each), of_all.kernels(top=1))
        rows = of_all.self_times(each="rank").select("self_ns", "run", "rank").rows()
        assert rows[:2] == [(51, "a.10", 1), (51, "a.9", 1)]

    def test_order_number_and_columns_are_of_all_rows(self) -> None:
        given: dict[str, Any] = {"sort": ["calls", "+self_ns"], "top": 5, "columns": "run,self_ns"}
        assert same(trace().self_times(each="rank", **given), trace().self_times(**given))
        for top in (0, 1, 3, 7):
            assert same(trace().self_times(each="run", top=top), trace().self_times(top=top))

    def test_it_needs_all_ranks(self) -> None:
        with pytest.raises(ParameterError, match="which need all ranks of the run; ask with each="):
            trace().stragglers(each="rank")
        with pytest.raises(ParameterError, match="each: 'rank' or 'run', not 'step'"):
            trace().answer("self_times", each="step")
        with pytest.raises(ParameterError, match="each: 'rank' or 'run', not None"):
            trace().self_times(on=2)

    def test_what_compares_runs_says_what_to_ask(self) -> None:
        with pytest.raises(ArgumentError, match=r"trend\(\) does not divide: .*; ask `runs` or"):
            trace().trend(each="run")  # type: ignore[call-arg]

    def test_a_wrong_parameter_is_an_error_before_anything_is_asked(self) -> None:
        with pytest.raises(ParameterError, match="no parameter named 'tpo'"):
            trace().answer("kernels", each="rank", tpo=3)

    def test_without_traces_there_are_no_rows(self) -> None:
        rows = stored().self_times(each="rank")
        assert (rows.height, rows.columns[:2]) == (0, ["run", "rank"])

    def test_without_rows_it_says_why(self) -> None:
        rows, whole = trace().hangs(each="run"), trace().hangs()
        assert isinstance(rows, Frame)
        assert isinstance(whole, Frame)
        assert (rows.height, rows.why_empty) == (0, whole.why_empty)
        assert "flight recorder" in str(rows.why_empty)

    def test_the_limit_of_rows_is_that_of_all(self) -> None:
        with pytest.raises(AnswerError, match="more than the limit of 5 rows"):
            trace().with_limits(rows=5).overview(each="rank", top=7)
        assert trace().with_limits(rows=6).overview(each="rank").height == 6
        cut = trace().with_limits(rows=4, cut_rows=True)
        assert same(cut.overview(each="rank"), trace().overview(top=4))

    def test_an_answer_of_the_users(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.sql"
        file.write_text(f"{HEAD}-- divides by: run\n{TAIL}")
        assert trace().answer(file, each="run")["run"].to_list() == [*RUNS]
        assert trace().answer(file, each="run", top=2)["run"].to_list() == [*RUNS[:2]]

    def test_a_filter_stays(self) -> None:
        part = trace().filter(runs=["b", "a.9"], kinds="kernel", ranks=1)
        assert same(part.self_times(each="rank"), part.self_times())
        assert part.self_times(each="run")["run"].to_list() == ["a.9", "b"]

    def test_in_a_block_that_keeps_answers(self) -> None:
        with trace().session() as session:
            assert same(session.self_times(each="run"), session.self_times())


class TestOthers:
    def test_sql_says_which_part_a_row_is_of(self) -> None:
        rows = trace().sql("SELECT count(*) AS n FROM events", each="rank")
        assert rows.rows()[:3] == [("a.10", 0, 3), ("a.10", 1, 3), ("a.9", 0, 3)]
        rows = trace().sql("SELECT run, count(*) AS n FROM events GROUP BY run", each="run")
        assert rows.rows() == [(run, 6) for run in RUNS]

    def test_sql_that_is_wrong_is_one_error(self) -> None:
        with pytest.raises(UnknownNameError, match="evnts does not exist"):
            trace().sql("FROM evnts", each="rank")

    def test_sql_is_checked_without_computing_its_rows(self) -> None:
        check_sql(trace(), "SELECT count(*) AS n FROM range(100000000000) a, range(1000000) b")
        with pytest.raises(UnknownNameError, match="evnts does not exist"):
            check_sql(trace(), "FROM evnts")

    def test_analyses(self) -> None:
        one = trace(("a",), 1)
        path = trace().critical_path(each="rank")
        assert path.columns[:2] == ["run", "rank"]
        of_one = path.filter(run="b", rank=0).drop("run")
        assert of_one.rows() == one.critical_path().events.drop("run").rows()
        assert trace().critical_path(across_ranks=True, each="run")["run"].n_unique() == 3
        assert trace().blame(each="run").height == 0
        assert same(trace().dependencies(each="run"), trace().dependencies())
        with pytest.raises(ParameterError, match="which need all ranks"):
            trace().critical_path(across_ranks=True, each="rank")
        with pytest.raises(ParameterError, match="a path is of one rank"):
            trace().critical_path(each="run")


class TestFailures:
    def test_the_part_is_named_and_the_others_stand(self, path: Path) -> None:
        opened = load(path)
        (folder(path, "a.9", 1) / "events.parquet").write_bytes(b"no Parquet")
        with pytest.raises(PartsError) as raised:
            opened.self_times(each="rank")
        [(run, rank, error)] = raised.value.failed
        assert (run, rank) == ("a.9", 1)
        assert str(folder(path, "a.9", 1)) in str(error)
        assert "1 of 6 parts failed: run 'a.9', rank 1: " in str(raised.value)
        whole = trace().self_times().filter(~((pl.col("run") == "a.9") & (pl.col("rank") == 1)))
        assert same(raised.value.rows, whole)

    def test_if_all_fail_it_is_their_error(self, path: Path) -> None:
        opened = load(path)
        for file in path.glob("run=*/rank=*/events.parquet"):
            file.write_bytes(b"no Parquet")
        with pytest.raises(StoreError, match=r"a\.10") as raised:
            opened.self_times(each="rank")
        assert not isinstance(raised.value, PartsError)


class TestParts:
    def test_a_part_opens_no_other_file(self, path: Path, tmp_path: Path) -> None:
        whole = trace().self_times()
        question = AnswerOfParts(*self.resolved(), "rank")
        division = Division(load(path), question, "rank")
        session = division.trace._session
        for part in division.places:
            own = pickle.dumps(type(division.trace)(part.of(session)))
            aside = tmp_path / "aside"
            shutil.copytree(path, aside)
            for other in path.glob("run=*/rank=*"):
                if other != folder(path, part.run, part.rank or 0):
                    shutil.rmtree(other)
            rows = question.together([question.rows(pickle.loads(own), part)])  # noqa: S301
            shutil.rmtree(path)
            aside.rename(path)
            assert same(rows, whole.filter(run=part.run, rank=part.rank))

    def resolved(self) -> tuple[Answer, dict[str, object]]:
        from profframe.query.catalogue import resolve

        return resolve("self_times", {})

    def test_a_part_knows_nothing_of_the_rest(self, path: Path) -> None:
        session = load(path).filter(kinds="kernel")._session
        part = Part("b", 1).of(session)
        assert part.full is None
        assert [place.name for place in part.source.places] == [("b", 1)]  # type: ignore[attr-defined]

    @pytest.mark.parametrize("is_packed", [False, True])
    def test_packs_and_executors(self, is_packed: bool, path: Path) -> None:
        if is_packed:
            maintenance.compact(path)
            store.write(loaded(event("late", 0, 9), run="b", rank=1).tables, path)
        opened = load(path)
        whole = opened.self_times()
        with ThreadPoolExecutor(2) as executor:
            for each in ("run", "rank"):
                assert same(opened.self_times(each=each, on=executor), whole)
                assert same(opened.self_times(each=each), whole)

    def test_shares_are_whole_runs_or_ranks_of_one(self) -> None:
        def shares(
            sizes: dict[str, list[int]], workers: int, memory_limit: str | None = None
        ) -> list[list[tuple[str, int | None]]]:
            rows = [
                {"run": run, "rank": rank, "source_events": size}
                for run, of_run in sizes.items()
                for rank, size in enumerate(of_run)
            ]
            division = Division(
                stored(traces=rows).with_limits(memory_limit),
                AnswerOfParts(*self.resolved(), "rank"),
                "rank",
            )
            return [[(p.run, p.rank) for p in share] for share in division._shares(workers)]

        assert shares({"a": [9_000, 9_000]}, 1, memory_limit="40MB") == [[("a", 0)], [("a", 1)]]
        large, small = 750_000, 1_000
        assert shares({"a": [large, large], "b": [small]}, 1) == [
            [("a", 0)],
            [("a", 1)],
            [("b", 0)],
        ]
        half = {run: [450_000] for run in "abc"}
        assert shares(half, 1) == [[("a", 0), ("b", 0)], [("c", 0)]]
        assert shares({"a": [small, small], "b": [small]}, 1) == [[("a", 0), ("a", 1), ("b", 0)]]
        assert shares({"a": [small] * 3, "b": [small]}, 2) == [
            [("a", 0), ("a", 1)],
            [("a", 2)],
            [("b", 0)],
        ]

    def test_what_works(self) -> None:
        for wrong in (0, -1, True, "two", object()):
            with pytest.raises(ParameterError, match="on: an executor"), crew_of(wrong):
                pass


class Broken(Executor):
    """An executor whose workers die with the first calls."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        self.calls -= 1
        if self.calls < 0:
            raise BrokenProcessPool("it is broken")
        future: Future[Any] = Future()
        future.set_exception(BrokenProcessPool("a worker died"))
        return future


@pytest.mark.parametrize("calls", [0, 1])
def test_if_an_executor_breaks_others_take_its_place(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from profframe.workers import crew
    from profframe.workers.inline import InlineExecutor

    monkeypatch.setattr(crew, "LocalPool", lambda *_: InlineExecutor())
    rows = trace().self_times(each="rank", on=Broken(calls))
    assert same(rows, trace().self_times())


class TestCommandLine:
    def test_rows_are_those_of_the_whole(self, path: Path, run: Run) -> None:
        one = run("answer", "self_times", path, "--format", "csv", "--top", "3")
        each = run("answer", "self_times", path, "--format", "csv", "--top", "3", "--each", "rank")
        assert each == one

    def test_a_file_for_each_part(self, path: Path, tmp_path: Path, run: Run) -> None:
        out = tmp_path / "out"
        code, _, err = run("answer", "self_times", path, "--each", "rank", "-o", out)
        assert (code, err) == (0, f"{out}: 6 of 6 parts written\n")
        files = sorted(out.iterdir())
        assert [file.name for file in files] == [f"part-{n:05}.parquet" for n in range(6)]
        whole = trace().self_times()
        assert same(pl.read_parquet(files[3]), pl.DataFrame(whole.filter(run="a.9", rank=1)))
        run("answer", "self_times", path, "--each", "run", "-o", out)
        assert len([*out.iterdir()]) == 3
        (out / "mine.txt").write_text("keep")
        code, _, err = run("answer", "self_times", path, "--each", "run", "-o", out)
        assert (code, "holds other files, such as mine.txt" in err) == (1, True)
        assert len([*out.iterdir()]) == 4

    def test_the_first_rows_say_their_run_if_others_follow(self, path: Path, run: Run) -> None:
        _, out, _ = run("critical-path", path, "--each", "rank", "--top", "1")
        assert out.split()[:2] == ["run", "rank"]

    def test_a_part_that_fails_is_a_line_and_the_code_is_1(
        self, path: Path, tmp_path: Path, run: Run
    ) -> None:
        bad = folder(path, "b", 0) / "events.parquet"
        bad.write_bytes(bad.read_bytes()[:-9] + b"x" * 9)
        code, out, err = run("sql", path, "SELECT count(*) AS n FROM events", "--each", "run")
        assert code == 1
        assert "a.9" in out
        assert err.startswith("error: run 'b': ")
        code, _, err = run("answer", "overview", path, "--each", "run", "-o", tmp_path / "out")
        assert code == 1
        assert "2 of 3 parts written" in err
        assert len([*(tmp_path / "out").iterdir()]) == 2


@in_one(
    [
        (("answer", "stragglers", "x", "--each", "rank"), "which need all ranks of the run"),
        (("answer", "trend", "x", "--each", "run"), "does not divide: it compares runs"),
        (("answer", "overview", "x", "--workers", "2"), "--each rank or run"),
        (("sql", "x", "FROM events", "--dask", "y"), "--dask: say what each of them works on"),
        (("blame", "x", "--each", "rank"), "which need all ranks of the run"),
        (("critical-path", "x", "--each", "run"), "a path is of one rank"),
        (("answer", "overview", "x", "--each", "run", "--workers", "1", "--dask", "y"), "has"),
        (("answer", "overview", "x", "--each", "run", "--top", "1", "-o", "y"), "of all parts"),
    ]
)
def test_what_it_refuses(case: tuple[tuple[str, ...], str]) -> None:
    words, message = case
    with redirect_stderr(StringIO()) as errors:
        assert cli.run(words) == 2
    assert message in errors.getvalue()
