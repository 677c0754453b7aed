"""Kept answers: equal to those of events, never stale, and the history of runs without events."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profframe
from profframe import AnswerError, ParameterError, StoreError, Trace, UnknownNameError
from profframe.conversion import keep as keeping
from profframe.conversion.keep import free, keep, kept
from profframe.query import macros
from profframe.show.empty_frames import note_of, why_empty
from profframe.store import maintenance
from profframe.store.kept.records import folders
from profframe.store.layout import places
from profframe.trace import kept_rows
from profframe.trace.kept_rows import ANSWERS, INNER, RunAnswers, is_default, question_of
from tests.batch.sources import write
from tests.conftest import Run
from tests.unit.test_history import kernel, op, step, trace_of

RUNS = ("a", "b", "c", "d")
DAY = 86_400 * 10**9


def job(slow: int = 100) -> Trace:
    """Four runs with ops, kernels and steps; the last one is slower; runs start day after day."""
    rows = []
    for number, run in enumerate(RUNS):
        spent = slow * (2 if run == "d" else 1)
        rows += [op(run, "mm", spent), op(run, "relu", 7 + number), kernel(run, "gemm", 10 * spent)]
        rows += [step(run, 1, 3 * spent), step(run, 2, 4 * spent)]
    traces = [
        {"run": run, "rank": 0, "clock": "utc", "start_ns": number * DAY, "source_events": 5}
        for number, run in enumerate(RUNS)
    ]
    return trace_of(rows, traces=traces)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs with kept answers."""
    folder = tmp_path_factory.mktemp("made")
    job().to_parquet(folder)
    keep(folder)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """The same to change; copied with its times, by which its folders are known."""
    return Path(shutil.copytree(made, tmp_path / "store"))


def asked(trace: Trace) -> list[pl.DataFrame]:
    """What reads kept answers."""
    return [
        trace.trend(["span_ns", "op:*"]),
        trace.regressions(2, every=True),
        trace.outliers(),
        trace.outliers(per="step"),
        profframe.diff(trace, trace),
    ]


def notes(trace: Trace) -> str | None:
    return note_of(trace.trend("span_ns"))


def test_they_are_those_of_events(store: Path) -> None:
    for expected, rows in zip(asked(job()), asked(profframe.load(store)), strict=True):
        assert rows.equals(expected)
        assert rows.schema == expected.schema
        assert note_of(expected) is None
        assert "answers kept beside the events of 4 runs were read" in (note_of(rows) or "")


def test_each_answer_of_a_run_is_that_of_the_run_alone(store: Path) -> None:
    for name in (*ANSWERS, *INNER):
        question = question_of(name)
        alone = [pl.DataFrame(job().filter(runs=run).answer(question)) for run in RUNS]
        assert pl.concat(alone).equals(pl.DataFrame(kept(store, name))), name


def test_by_hand(store: Path) -> None:
    """Two ops and a kernel: 100 + 7 and 1000 in the first run, twice that in the last."""
    rows = kept(store, "runs", ["a", "d"])
    assert rows["run", "op_self_ns", "kernel_ns", "steps"].rows() == [
        ("a", 107, 1000, 2),
        ("d", 210, 2000, 2),
    ]


def test_no_event_is_read(store: Path) -> None:
    trace = profframe.load(store)
    expected = asked(job())
    for file in store.glob("run=*/rank=0/events.parquet"):
        file.write_bytes(b"damaged")
    assert all(one.equals(two) for one, two in zip(asked(trace), expected, strict=True))


def test_other_parameters_are_computed(store: Path) -> None:
    trace = profframe.load(store)
    rows = trace.trend("throughput_per_s", per_step=8)
    assert note_of(rows) is None
    assert rows.equals(job().trend("throughput_per_s", per_step=8))


def test_default_parameters() -> None:
    assert is_default("run_samples", {"kernel_by": "name", "copies": "false", "dtype": None})
    assert not is_default("run_samples", {"copies": True})
    assert not is_default("kernels", {"per": "launch"})
    assert not is_default("runs", {"top": 3})


def test_a_run_that_was_written_again_is_computed(store: Path) -> None:
    job(slow=300).filter(runs="b").to_parquet(store)
    trace = profframe.load(store)
    rows = trace.trend("kernel_ns")
    assert rows["value"].to_list() == [1000, 3000, 1000, 2000]
    assert note_of(rows) == (
        "answers kept beside the events of 3 of 4 runs were read, and the events of 1"
    )
    assert keep(store).runs == 1
    assert notes(profframe.load(store)) == "answers kept beside the events of 4 runs were read"
    assert profframe.load(store).trend("kernel_ns").equals(rows)


def test_an_opened_trace_reads_what_is_of_its_files(store: Path) -> None:
    trace = profframe.load(store)
    job(slow=300).filter(runs="b").to_parquet(store)
    keep(store)
    assert trace.trend("kernel_ns")["value"].to_list()[1] in {1000, 3000}
    assert profframe.load(store).trend("kernel_ns")["value"][1] == 3000


def test_a_late_rank_makes_its_run_stale(tmp_path: Path) -> None:
    source, store = tmp_path / "night", tmp_path / "store"
    for rank in (0, 1):
        write(source / f"rank{rank}.json", rank, "x", events=20)
        profframe.convert(source, store)
        events = profframe.load(store).trend("op_self_ns")["value"].to_list()
        assert kept(store, "runs")["ranks"].to_list() == [rank + 1]
        assert profframe.load(store).runs()["op_self_ns"].to_list() == events


def test_other_sql_is_asked_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "key_of", lambda _: "0" * 16)
    monkeypatch.setattr(keeping, "key_of", lambda _: "0" * 16)
    assert notes(profframe.load(store)) is None
    assert keep(store).runs == 4


def test_a_key_has_the_macros(monkeypatch: pytest.MonkeyPatch) -> None:
    question = question_of("runs")
    before = kept_rows.key_of(question)
    definitions = {**macros.definitions(question.sql), "busy": "another"}
    monkeypatch.setattr(macros, "definitions", lambda _: definitions)
    assert kept_rows.key_of.__wrapped__(question) != before


@pytest.mark.parametrize("times", [1, 2])
def test_packed_runs_keep_theirs(store: Path, times: int) -> None:
    """Also without hashes of contents: a pack says what it replaces."""
    for number in range(times):
        maintenance.compact(store)
        assert notes(profframe.load(store)) == "answers kept beside the events of 4 runs were read"
        assert keep(store).runs == 0
        if number == 0 and times == 2:
            job().filter(runs="b").to_parquet(store)
            assert keep(store).runs == 1
    assert asked(profframe.load(store))[0].equals(asked(job())[0])


def test_a_copied_store_is_known_by_contents(tmp_path: Path) -> None:
    for run in ("x", "y"):
        write(tmp_path / run / "rank0.json", 0, run, events=20)
    profframe.convert(str(tmp_path / "*" / "*.json"), tmp_path / "store")
    shutil.copytree(tmp_path / "store", tmp_path / "copy", copy_function=shutil.copyfile)
    assert notes(profframe.load(tmp_path / "copy")) is not None
    assert keep(tmp_path / "copy").runs == 0


def test_rows_of_many_folders_are_those_of_one(tmp_path: Path) -> None:
    store = tmp_path / "store"
    job().to_parquet(store)
    for run in reversed(RUNS):
        keep(store, runs=run)
    assert len(folders(store)) == 4
    several = [kept(store, name) for name in ANSWERS]
    opened = profframe.load(store)
    answers = RunAnswers(opened)
    assert keeping.fold(store) == 4
    assert len(folders(store)) == 1
    for name, rows in zip(ANSWERS, several, strict=True):
        assert kept(store, name).equals(rows)
        assert answers.answer(name).sort("run", maintain_order=True).equals(rows)


def test_two_folders_with_one_run_count_it_once(store: Path) -> None:
    (folder,) = (store / "kept").iterdir()
    shutil.copytree(folder, folder.with_name("0" * 20 + "-00000000"))
    assert asked(profframe.load(store))[0].equals(asked(job())[0])


def test_events_are_removed_and_answers_stay(store: Path) -> None:
    expected = asked(job())
    assert free(store, ["a", "c"]) == [("a", 0), ("c", 0)]
    trace = profframe.load(store)
    assert trace.traces["run"].to_list() == ["b", "d"]
    rows = asked(trace)
    assert all(rows[one].equals(expected[one]) for one in (0, 1, 2))
    assert note_of(rows[0]) == (
        "answers kept beside the events of 4 runs were read; 2 runs have only these"
    )
    contents = maintenance.contents(store)
    assert contents["run", "events", "folder"].rows()[:2] == [
        ("a", None, "kept"),
        ("b", 5, "run=b/rank=0"),
    ]


def test_what_needs_removed_events_says_so(store: Path) -> None:
    free(store, ["a", "c"])
    trace = profframe.load(store)
    with pytest.raises(AnswerError, match=r"runs with per_step=8 needs events.*\('a', 'c'\)"):
        trace.trend("throughput_per_s", per_step=8)
    with pytest.raises(AnswerError, match="needs events"):
        trace.regressions(["a", "b"], copies=True)
    with pytest.raises(UnknownNameError, match="run 'a' has only kept answers"):
        trace.filter(runs="a")
    with pytest.raises(UnknownNameError, match="run 'a' has only kept answers"):
        Trace.from_store(store, runs="a")
    with pytest.raises(UnknownNameError, match="no run named 'z'"):
        trace.filter(runs="z")
    free(store)
    empty = profframe.load(store).self_times()
    assert "the store has only kept answers of its runs" in (why_empty(empty) or "")
    assert asked(profframe.load(store))[0].equals(asked(job())[0])


def test_a_removal_that_was_killed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marked, and some ranks removed: the answers stay those of all ranks."""
    two = job()
    tables = two.filter(runs="a").tables
    rank = {name: _with_rank(table, 1) for name, table in tables.items()}
    Trace.from_tables(rank).to_parquet(store)
    keep(store)
    expected = profframe.load(store).trend("op_self_ns")
    assert expected["value"][0] == 214
    monkeypatch.setattr(keeping, "remove", lambda *_, **__: [])
    free(store, "a")
    assert profframe.load(store).trend("op_self_ns").equals(expected)
    shutil.rmtree(store / "run=a" / "rank=0")
    assert profframe.load(store).trend("op_self_ns").equals(expected)
    monkeypatch.undo()
    maintenance.remove(store, "a", keep_answers=True)
    assert profframe.load(store).trend("op_self_ns").equals(expected)


def _with_rank(table: pa.Table, rank: int) -> pa.Table:
    if "rank" not in table.column_names:
        return table
    at = table.column_names.index("rank")
    field = table.schema.field(at)
    return table.set_column(at, field, pa.array([rank] * len(table), field.type))


def test_a_removed_run_has_no_history(store: Path) -> None:
    free(store, "a")
    maintenance.remove(store, ["a", "b"])
    assert profframe.load(store).trend("span_ns")["run"].to_list() == ["c", "d"]
    assert maintenance.contents(store)["run"].to_list() == ["c", "d"]
    free(store, "c")
    job().filter(runs="c").to_parquet(store)
    maintenance.remove(store, "c")
    assert profframe.load(store).trend("span_ns")["run"].to_list() == ["d"]


def test_history_outlives_other_sql(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = job().trend("span_ns")
    free(store, "a")
    monkeypatch.setattr(kept_rows, "key_of", lambda _: "0" * 16)
    assert profframe.load(store).trend("span_ns").equals(expected)


def test_rows_of_history_by_other_sql_are_said_to_be(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(store, ["a", "b"])
    assert "another version" not in (notes(profframe.load(store)) or "")
    monkeypatch.setattr(kept_rows, "key_of", lambda _: "0" * 16)

    assert (notes(profframe.load(store)) or "").endswith(
        "answers kept beside the events of 2 of 4 runs were read, and the events of 2; 2 runs have "
        "only these; another version of profframe computed those of 'a', 'b'"
    )


def test_age(store: Path) -> None:
    assert keeping.runs_of(store, older_than_ns=2 * DAY) == ["a", "b"]
    assert free(store, ["b", "c"], older_than_ns=2 * DAY) == [("b", 0)]
    assert free(store, older_than_ns=0) == []


def test_a_freed_file_is_not_converted_again(tmp_path: Path) -> None:
    source, store = tmp_path / "night", tmp_path / "store"
    write(source / "rank0.json", 0, "first", events=20)
    profframe.convert(source, store)
    free(store, "night")
    again = profframe.convert(source, store)
    assert again["status", "run", "events"].rows() == [("unchanged", "night", None)]
    write(source / "rank0.json", 0, "second", events=30)
    assert profframe.convert(source, store)["status", "run"].rows() == [("written", "night")]
    assert maintenance.contents(store)["run", "folder"].rows() == [("night", "run=night/rank=0")]


def test_another_file_does_not_take_the_name_of_a_freed_run(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write(tmp_path / "one" / "rank0.json", 0, "one", events=20)
    profframe.convert(tmp_path / "one", store, run="night")
    free(store, "night")
    write(tmp_path / "two" / "rank0.json", 0, "two", events=20)
    assert profframe.convert(tmp_path / "two", store, run="night")["run"].to_list() == ["night.1"]
    assert profframe.load(store).trend("span_ns")["run"].to_list() == ["night", "night.1"]


def test_names_that_cannot_be_kept(store: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="kernel"):
        keep(store, "kernls")
    for name, sql in (("events", "SELECT 1"), ("no_run", "SELECT 1 AS one")):
        (tmp_path / f"{name}.sql").write_text(sql)
    with pytest.raises(ParameterError, match="events: an answer of this name"):
        keep(store, str(tmp_path / "events.sql"))
    assert "no column run" in keep(store, str(tmp_path / "no_run.sql")).errors[0]


def test_own_answers(store: Path, tmp_path: Path) -> None:
    """Of each run by itself, whatever its SQL does with several."""
    file = tmp_path / "share.sql"
    file.write_text(
        "SELECT run, sum(dur_ns) * 100 // (SELECT sum(dur_ns) FROM events) AS percent\n"
        "FROM events GROUP BY run"
    )
    assert keep(store, str(file)).runs == 4
    assert kept(store, str(file))["percent"].to_list() == [100] * 4
    assert keep(store, [str(file), "roofline"]).runs == 4
    assert keep(store, [str(file), "roofline"]).runs == 0
    assert {"share", "roofline"} <= {*kept(store)["answer"]}


def test_partial_selections_are_computed(store: Path) -> None:
    trace = profframe.load(store)
    for part in (trace.filter(kinds="kernel"), trace.filter(start_ns=1)):
        assert note_of(part.trend("span_ns")) is None
    assert note_of(trace.filter(ranks=0).trend("span_ns")) is not None
    rows = trace.filter(runs=["a", "b"]).trend("span_ns")
    assert note_of(rows) == "answers kept beside the events of 2 runs were read"
    assert rows.equals(job().filter(runs=["a", "b"]).trend("span_ns"))


def _broken(file: Path) -> Iterator[Callable[[], object]]:
    rows = pq.read_table(file)
    yield lambda: file.write_bytes(file.read_bytes()[:-9])
    yield lambda: file.write_bytes(b"")
    yield lambda: pq.write_table(rows.drop_columns("run"), file)
    yield lambda: pq.write_table(pa.table({"run": [1]}), file)
    file.unlink()
    yield file.mkdir


@pytest.mark.parametrize("name", ["records", "runs"])
def test_a_damaged_file_is_named(store: Path, name: str) -> None:
    (file,) = (store / "kept").glob(f"*/{name}.parquet")
    whole = file.read_bytes()
    for damage in _broken(file):
        damage()
        with pytest.raises(StoreError, match=rf"{name}\.parquet.*profframe store keep"):
            profframe.load(store).trend("span_ns")
        shutil.rmtree(file) if file.is_dir() else file.unlink()
        file.write_bytes(whole)
    assert notes(profframe.load(store)) is not None


def test_a_record_cannot_name_other_files(store: Path) -> None:
    (file,) = (store / "kept").glob("*/records.parquet")
    rows = pq.read_table(file).to_pylist()
    types = pq.read_schema(file)
    for row in rows:
        row["answers"] = [f"../../{name}" for name in row["answers"]]
    pq.write_table(pa.Table.from_pylist(rows, types), file)
    assert notes(profframe.load(store)) is None


def test_readers_of_events_skip_them(store: Path) -> None:
    folders = {place.folder.relative_to(store).as_posix() for place in places(store)}
    assert folders == {f"run={run}/rank=0" for run in RUNS}
    assert maintenance.verify(store).height == 0


def test_convert_keeps_or_not(tmp_path: Path) -> None:
    write(tmp_path / "night" / "rank0.json", 0, "x", events=20)
    profframe.convert(tmp_path / "night", tmp_path / "none", keep=None)
    assert not (tmp_path / "none" / "kept").exists()
    profframe.convert(tmp_path / "night", tmp_path / "some", keep="roofline")
    assert {*ANSWERS, *INNER, "roofline"} == {*kept(tmp_path / "some")["answer"]}
    profframe.convert(tmp_path / "some", tmp_path / "copy")
    assert {*ANSWERS, *INNER} == {*kept(tmp_path / "copy")["answer"]}


def test_verbs(store: Path, run: Run) -> None:
    sentence = "\nanswers kept beside the events of 4 runs were read\n"
    assert run("answer", "trend", store, "--top", "1")[1].endswith(sentence)
    assert "kept beside" not in "".join(run("answer", "trend", store, "--format", "json")[1:])
    assert run("check", store, "--baseline", "2")[1].endswith(sentence)
    assert "answers of 4 runs were kept already" in run("store", "keep", store)[2]
    assert run("store", "rm", store, "--rank", "0", "--keep-answers")[0] == 2
    assert run("store", "rm", store, "--older-than", "3 days")[0] == 2
    removed = run("store", "rm", store, "--older-than", "30d", "--keep-answers")
    assert "events of 4 traces of 4 runs removed, their answers stay" in removed[2]
    listing = run("store", "ls", store)[1]
    assert "4 runs with answers only" in listing
    assert "answers only" in listing.splitlines()[-1]
    assert "runs" in run("store", "kept", store)[1]
    assert "\na " in run("store", "kept", store, "runs", "--run", "a")[1]


@pytest.mark.parametrize("name", ["records", "members", "kernels"])
def test_verify_names_what_is_damaged_or_gone(store: Path, name: str) -> None:
    assert maintenance.verify(store).is_empty()
    file = next(store.glob(f"kept/*/{name}.parquet"))
    file.write_bytes(file.read_bytes()[:-9])
    (problem,) = maintenance.verify(store).rows()
    assert problem[0] == str(file.relative_to(store))
    assert problem[1].startswith("cannot be read: ")

    file.unlink()
    assert maintenance.verify(store)["file"].to_list() == [str(file.relative_to(store))]
