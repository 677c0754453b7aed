"""What is asked of a store decides which files are opened."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from profframe import Trace, load, store
from profframe.errors import ParameterError, StoreError, UnknownNameError
from profframe.store import maintenance, member_files
from tests.members import few
from tests.unit.test_store import one

HOSTILE = ["it's", "a/b", "2024-01-01", "x" * 300, "~", "%41", "[a-z]*"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for run in HOSTILE:
        for rank in range(2):
            store.write(one(run, rank, (f"{run[:5]} {rank}",)), tmp_path)
    return tmp_path


def break_all_but(path: Path, run: str, rank: int) -> None:
    kept = path / f"run={store.component(run)}" / f"rank={rank}"
    for file in path.glob("run=*/rank=*/*.parquet"):
        if file.parent != kept:
            file.write_bytes(b"no Parquet")


@pytest.mark.parametrize("run", few([run for run in HOSTILE if len(run) < 300], 3))
def test_files_of_others_are_not_opened(run: str, path: Path) -> None:
    long = path / f"run={store.component('x' * 300)}"
    maintenance.remove(path, "x" * 300)
    assert not long.exists()
    break_all_but(path, run, 1)

    trace = load(path, runs=run, ranks=1)

    assert trace.events["name"].to_list() == [f"{run[:5]} 1"]
    assert trace.self_times()["run"].to_list() == [run]
    assert trace.tables["events"].num_rows == 1


def test_a_filter_leaves_out_files(path: Path) -> None:
    trace = load(path).filter(runs=["it's", "a/b"], ranks=[1]).filter(runs="it's")
    break_all_but(path, "it's", 1)
    assert trace.events["name"].to_list() == ["it's 1"]
    assert trace.sql("SELECT name FROM events")["name"].to_list() == ["it's 1"]


@pytest.mark.parametrize("is_packed", few([False, True], 1))
def test_each_run_and_rank_is_what_a_filter_of_all_gives(is_packed: bool, path: Path) -> None:
    if is_packed:
        maintenance.compact(path)
        store.write(one("it's", 1, ("again",)), path)
    query = "SELECT run, rank, name FROM events ORDER BY ALL"
    rows = load(path).sql(query).rows()
    for run in HOSTILE:
        assert load(path, runs=run).sql(query).rows() == [row for row in rows if row[0] == run]
        assert load(path, runs=[run], ranks=range(1, 9)).sql(query).rows() == [
            row for row in rows if row[:2] == (run, 1)
        ]
    assert load(path, ranks=0).sql(query).rows() == [row for row in rows if row[1] == 0]
    assert load(path, runs=()).sql(query).rows() == []


def test_names_that_are_not_there_are_said(path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no run named 'it'"):
        load(path, runs="it")
    with pytest.raises(UnknownNameError, match=r"no rank 2 \(known: 0-1\)"):
        load(path, ranks=2)
    with pytest.raises(UnknownNameError, match="no step 3"):
        load(path, runs="~", steps=3)
    with pytest.raises(ParameterError, match="memory_limit: needs a number of bytes"):
        load(path, memory_limit="2 bananas")


def test_traces_of_files_are_chosen_as_well() -> None:
    trace = load("examples/cpu_training.json.gz", steps=2, memory_limit="1GB")
    assert trace.events["step"].unique().to_list() == [2]
    with pytest.raises(UnknownNameError):
        load("examples/cpu_training.json.gz", ranks=3)


def test_a_limit_holds_for_questions_and_their_copies(path: Path) -> None:
    trace = load(path, memory_limit="123MB")
    asked = "SELECT current_setting('memory_limit') AS m, current_setting('temp_directory') AS t"

    def settings(of: Trace) -> tuple[str, str]:
        with of._session.connection() as connection:
            ((limit, folder),) = connection.sql(asked).fetchall()
            return limit, folder

    for of in (trace, trace.filter(ranks=1), pickle.loads(pickle.dumps(trace))):  # noqa: S301
        limit, folder = settings(of)
        assert limit == "117.3 MiB"
        assert "profframe-" in folder
        assert not Path(folder).exists()
    unlimited, folder = settings(load(path))
    assert unlimited != limit
    assert "profframe-" in folder


def test_what_does_not_fit_is_spilled() -> None:
    trace = load("examples/cpu_training.json.gz", memory_limit="100MB")
    many = "SELECT sum(n) FROM (SELECT count(*) AS n FROM range(5000000) t(i) GROUP BY i % 4000000)"
    assert trace.sql(many).item() == 5_000_000


def test_small_files_are_read_once(path: Path) -> None:
    trace = load(path)
    rows = trace.self_times()
    for file in path.glob("run=*/rank=*/events.parquet"):
        file.unlink()
    assert trace.self_times().equals(rows)


def test_files_that_are_gone_are_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_files, "_SMALL", 0)
    trace = load(path)
    trace.self_times()
    for file in path.glob("run=*/rank=*/*.parquet"):
        file.unlink()
    with pytest.raises(StoreError, match=r"\.parquet: written again since"):
        trace.self_times()


def test_rows_of_a_filter_are_not_those_of_the_next(path: Path) -> None:
    trace = load(path)
    counts = [
        part.self_times().height
        for part in (trace.filter(kinds="kernel"), trace, trace.filter(kinds="host_op"), trace)
    ]
    assert counts == [0, 14, 14, 14]
