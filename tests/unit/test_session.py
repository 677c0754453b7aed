"""The query session: what stays open between questions, who shares it, and what never leaks."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from profframe import AnswerError, ParameterError, Trace, load, store
from profframe.query.database import Database
from profframe.query.session import Session
from tests import builders, needs
from tests.unit.test_store import one

COUNT = "SELECT count(*) AS events FROM events"
OPTION = "SELECT getvariable('per') AS per"
LIMIT = "profframe.query.database._OPEN_LIMIT"


@pytest.fixture(scope="module")
def loaded(example: Path) -> Trace:
    return load(example)


@pytest.fixture
def trace(loaded: Trace) -> Trace:
    """A trace that no other test has asked anything."""
    return Trace.from_tables(loaded.tables)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for rank in (0, 1):
        store.write(one("a", rank, (f"a {rank}",)), tmp_path / "store")
    return tmp_path / "store"


def database(of: Trace) -> Database:
    return of._session.database


def test_all_who_open_a_store_share_one_database(root: Path) -> None:
    first, second = load(root), load(root)
    assert database(first) is database(second)
    assert database(first.filter(kinds="host_op")) is database(first)
    assert database(first.with_limits(timeout_s=9)) is database(first)
    assert database(first.with_limits("1GB")) is not database(first)
    assert database(load(root, runs="a", ranks=1)) is not database(first)


def test_a_store_that_is_written_again_is_another(root: Path) -> None:
    before = load(root)
    assert before.sql("SELECT max(name) AS n FROM events").item() == "a 1"
    store.write(one("a", 1, ("b 1",)), root)
    after = load(root)
    assert database(after) is not database(before)
    assert after.sql("SELECT max(name) AS n FROM events").item() == "b 1"


def test_a_relative_path_is_another_store_in_another_folder(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a copy, whose files are the same by size and time."""
    shutil.copytree(root, tmp_path / "other/store")
    for folder in (tmp_path, tmp_path / "other"):
        Path(folder, "words.csv").write_text(f"word\n{folder.name}\n")
        monkeypatch.chdir(folder)
        trace = load("store")
        assert trace.sql("SELECT max(name) AS n FROM events").item() == "a 1"
        words = trace.sql("FROM read_csv('words.csv')", files="words.csv")
        assert words.item() == folder.name


def test_filters_of_one_trace_take_turns(trace: Trace) -> None:
    """They ask with the same cursor, whose views are each time those of the question."""
    some = trace.filter(kinds="host_op", start_ns=int(trace.events["start_ns"].sort()[3000]))
    wanted = trace.events.height, some.events.height
    assert wanted[0] != wanted[1]
    for _ in range(2):
        assert (trace.sql(COUNT).item(), some.sql(COUNT).item()) == wanted
        assert trace.self_times()["calls"].sum() > some.self_times()["calls"].sum()


def test_no_question_finds_what_another_has_set(trace: Trace) -> None:
    expected = trace.answer("idle", per="device"), trace.answer("idle")
    assert trace.sql(OPTION)["per"].to_list() == [None]
    with pytest.raises(ParameterError):
        trace.answer("idle", per="devise")
    assert trace.sql(OPTION)["per"].to_list() == [None]
    assert trace.answer("idle").equals(expected[1])
    with pytest.raises(AnswerError, match="nothing_like_it"):
        trace.sql("SELECT nothing_like_it(1)")
    assert trace.answer("idle", per="device").equals(expected[0])


def test_macros_are_there_whatever_was_asked_before(trace: Trace) -> None:
    lanes = "SELECT count(*) AS lanes FROM lanes(events)"
    asked_first, asked_last = trace, Trace.from_tables(trace.tables)
    asked_last.idle()
    assert asked_first.sql(lanes).equals(asked_last.sql(lanes))


def test_joins_by_time_never_try_all_pairs(trace: Trace) -> None:
    """A trace of 42 MB took 16 s for `idle`, as an estimate was one row."""
    with trace.session() as asked, asked._session.connection() as connection:
        [(rows,)] = connection.sql("SELECT current_setting('asof_loop_join_threshold')").fetchall()
    assert int(rows) == 0


def test_threads_ask_at_once(trace: Trace) -> None:
    expected = [trace.self_times(), trace.filter(kinds="host_op").self_times()]
    traces = [trace, trace.filter(kinds="host_op")] * 8
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: one.self_times(), traces))
    assert all(rows.equals(expected[n % 2]) for n, rows in enumerate(found))


def test_few_databases_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMIT, 3)
    traces = [Trace.from_tables(one()) for _ in range(6)]
    height = {one.sql(COUNT).item() for one in traces}
    assert sum(database(one)._connection is not None for one in traces) == 3
    assert {one.sql(COUNT).item() for one in traces} == height


def test_what_is_kept_is_made_again_where_its_database_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LIMIT, 2)
    gpu = load(Path("examples/gpu_training.json.gz"))
    expected = gpu.annotations()
    with Trace.from_tables(gpu.tables).session() as asked:
        asked.idle()
        others = [Trace.from_tables(gpu.tables) for _ in range(3)]
        assert {one.sql(COUNT).item() for one in others} == {asked.events.height}
        assert database(asked)._connection is None
        assert asked.annotations().equals(expected)
        assert asked.idle(per="device").height


def test_a_trace_that_is_gone_takes_its_database_along(loaded: Trace) -> None:
    trace = Trace.from_tables(loaded.tables)
    trace.sql(COUNT)
    gone = weakref.ref(database(trace))
    del trace
    gc.collect()
    assert gone() is None


@needs.fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_parent_of_a_fork_goes_on(root: Path) -> None:
    trace = load(root)
    assert trace.sql(COUNT).item() == 2
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert trace.sql(COUNT).item() == 2


@pytest.mark.parametrize("ranks", [1, [2, 0], range(1, 10**6), range(2, 9)])
def test_rows_of_other_ranks_are_not_scanned(ranks: object) -> None:
    """In memory a session of some ranks has their batches alone, and the same rows."""
    ranks_of = [builders.loaded(builders.event("mm", 0, 5), rank=rank) for rank in range(3)]
    whole = builders.together(*ranks_of)
    wanted = {ranks} if isinstance(ranks, int) else {*ranks}  # type: ignore[misc]
    session = whole._session.filter(ranks=ranks)  # type: ignore[arg-type]
    expected = [rank for rank in range(3) if rank in wanted]
    assert session.rows("events")["rank"].to_list() == expected
    [batches] = [part.to_batches() for part in session.source.parts("events")]
    assert [batch["rank"].to_pylist() for batch in batches] == [[rank] for rank in expected]
    assert session.table("events").num_rows == len(expected)


@pytest.mark.parametrize("words", [{}, {"sort": "idle_ns", "top": 3}, {"columns": ["rank", "run"]}])
def test_an_answer_whose_tables_are_empty_is_not_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, object]
) -> None:
    """The rows have the columns that the same question has over a store, where it is planned."""
    store.write(one("a", 0, ("x",)), tmp_path / "store")
    planned = load(tmp_path / "store").answer("step_times", **words)
    trace = Trace.from_tables(one("a", 0, ("x",)))

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr(Session, "select", refused)
    rows = trace.answer("step_times", **words)
    assert (rows.height, rows.schema) == (planned.height, planned.schema) == (0, planned.schema)
    with pytest.raises(AssertionError, match="planned"):
        trace.answer("overview")


@pytest.mark.parametrize(
    ("answer", "category"),
    [("kernels", "cpu_op"), ("memory_bandwidth", "kernel"), ("gaps", "cpu_op"),
     ("host_waits", "kernel"), ("queue_depth", "kernel")],
)  # fmt: skip
def test_an_answer_about_other_kinds_of_slices_is_not_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, category: str
) -> None:
    trace = builders.loaded(builders.event("a", 0, 5, category=category))
    trace.to_parquet(tmp_path / "store")
    planned = load(tmp_path / "store").answer(answer)
    assert planned.is_empty()
    monkeypatch.setattr(Session, "select", None)
    assert trace.answer(answer).equals(planned)
    assert trace.answer(answer).schema == planned.schema


def test_an_answer_may_have_kinds_of_slices_where_they_are_asked_for() -> None:
    copy = builders.event("Memcpy HtoD", 10, 15, category="gpu_memcpy", correlation=7)
    trace = builders.loaded(copy)
    assert trace.answer("kernels").is_empty()
    assert trace.answer("kernels", copies=True)["total_ns"].to_list() == [5]
    assert trace.answer("op_kernels", copies=True).height == 1
